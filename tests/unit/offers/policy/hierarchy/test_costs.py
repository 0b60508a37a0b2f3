"""The work of queues is counted: room wakes only the requests that fit it, and full nodes are passed over in blocks."""

from __future__ import annotations

import random
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from offers.dimensions import Amounts, amounts
from offers.ledger.holds import LONGEST
from offers.policy.amounts import Vector, fits_limit
from offers.policy.hierarchy.changes import apply
from offers.policy.hierarchy.configuration.document import partition_of
from offers.policy.hierarchy.configuration.partition import NodeOrder
from offers.policy.hierarchy.preemption import preemption, quota, reservation
from offers.policy.hierarchy.preemption.preemption import Round, Search, last_try, preempt
from offers.policy.hierarchy.preemption.quota import give_back
from offers.policy.hierarchy.preemption.reservation import expire, reserve
from offers.policy.hierarchy.state.application import Application
from offers.policy.hierarchy.state.model import Allocation, Ask
from offers.policy.hierarchy.state.nodes import Node, Nodes
from offers.policy.hierarchy.state.queue import goal_of
from offers.policy.hierarchy.state.waiting import Waiting
from offers.policy.hierarchy.steps import recover_all
from offers.policy.hierarchy.tree import LOOKED_AT, Tree
from offers.policy.obstacles import Obstacle
from tests.counting import lines
from tests.effort import share
from tests.unit.offers.policy.hierarchy.test_preemption import pending, queue, running
from tests.unit.offers.policy.hierarchy.test_preemption import tree as queues_of


def blocked(number: int, nodes: int, most: int | None = None) -> Tree:
    """Full nodes, or a queue at its maximum, and applications of one ask each, of ten sizes, that wait."""
    queue = {"name": "q", "resources": {} if most is None else {"max": {"cpus": most}}}
    tree = Tree(partition_of({"queues": [queue]}, quantity=int), [(f"n{n:05}", {"cpus": 10}) for n in range(nodes)])
    tree.submit(Application("running", "root.q", 0))
    for n in range(nodes):
        tree.recover(Allocation(Ask("running", f"t{n}", (("cpus", 10),)), f"n{n:05}"))
    for n in range(number):
        tree.submit(Application(f"w{n:05}", "root.q", n))
        tree.ask(Ask(f"w{n:05}", "t", (("cpus", 1 + n % 10),), n))
    assert list(tree.run()) == []
    return tree


@pytest.mark.parametrize("number", [1000, pytest.param(50_000, marks=[pytest.mark.slow, pytest.mark.rotating])])
@pytest.mark.parametrize("most", [None, 50])
def test_an_allocation_that_ends_wakes_only_requests_that_fit(number: int, most: int | None) -> None:
    tree = blocked(number, 5, most)
    assert tree.tries <= 10
    tree.tries = 0
    tree.release("running", "t0")
    # 1+2+3+4 cpus, and one try for each of the ten sizes that finds too little room
    assert [dict(one.ask.request)["cpus"] for one in tree.run()] == [1, 2, 3, 4]
    assert tree.tries <= 4 + 10


def test_room_that_is_too_small_wakes_nothing() -> None:
    tree = Tree(partition_of({"queues": [{"name": "q"}]}, quantity=int), [("n1", {"cpus": 4})])
    tree.submit(Application("a", "root.q", 0))
    tree.recover(Allocation(Ask("a", "small", (("cpus", 1),)), "n1"))
    tree.recover(Allocation(Ask("a", "large", (("cpus", 3),)), "n1"))
    tree.ask(Ask("a", "wide", (("cpus", 2),)))
    assert list(tree.run()) == []
    tree.tries = 0
    tree.release("a", "small")
    assert list(tree.run()) == []
    assert tree.tries == 0


def full(number: int) -> Nodes:
    nodes = Nodes()
    for n in range(number):
        node = Node(f"n{n:05}", {"cpus": 10, "mem": 10})
        nodes.add(node)
        nodes.use(node.name, (("cpus", 10 - n % 3), ("mem", 10)), 1)
    return nodes


@pytest.mark.parametrize("number", [1000, pytest.param(50_000, marks=pytest.mark.slow)])
def test_full_nodes_are_passed_over_in_blocks(number: int) -> None:
    nodes = full(number)
    request = (("cpus", 3), ("mem", 1))
    assert nodes.find(request) is None
    nodes.ordered.judged = 0
    assert nodes.find(request) is None
    assert nodes.ordered.judged <= number / 32
    nodes.use("n00500", (("cpus", 10 - 500 % 3), ("mem", 10)), -1)
    nodes.ordered.judged = 0
    found = nodes.find(request)
    assert found is not None and found.name == "n00500"
    assert nodes.ordered.judged <= number / 32 + 130


def test_nodes_that_cannot_need_fewer_victims_are_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    queues = [{"name": "q"}, {"name": "urgent", "resources": {"guaranteed": {"cpus": 9}}}]
    tree = Tree(partition_of({"queues": queues}, quantity=int), [(f"n{n:03}", {"cpus": 6}) for n in range(300)])
    tree.submit(Application("runs", "root.q", 0))
    for n in range(300 * 6):
        tree.recover(Allocation(Ask("runs", f"t{n}", (("cpus", 1),)), f"n{n % 300:03}"))
    tree.submit(Application("urgent", "root.urgent", 0))
    tree.ask(Ask("urgent", "t", (("cpus", 5),)))
    assert list(tree.run()) == []
    searched: list[str] = []
    search = Search._add_victims

    def counted(self: Search, taken: Any, candidates: Any, node: str, *more: Any) -> None:
        searched.append(node)
        search(self, taken, candidates, node, *more)

    monkeypatch.setattr(Search, "_add_victims", counted)
    (found,) = preempt(tree, 1000.0)
    assert (found.node, len(found.victims)) == ("n000", 5)
    assert searched == ["n000"]


MANY = [1000, pytest.param(50_000, marks=[pytest.mark.slow, pytest.mark.rotating])]
NODES = [1000, pytest.param(5_000, marks=pytest.mark.slow)]


def hopeless(nodes: int, **properties: Any) -> tuple[Tree, Ask]:
    """Full nodes with two allocations each of one of two applications, one after the other, and an ask of a queue below
    its guarantee that needs a whole node. The second application is a gang at its minimum."""
    queues = [{"name": "q"}, {"name": "urgent", "resources": {"guaranteed": {"cpus": 9}}}]
    tree = Tree(partition_of({"queues": queues}, quantity=int), [(f"n{n:05}", {"cpus": 2}) for n in range(nodes)])
    for name in ("single", "gang"):
        tree.submit(Application(name, "root.q", 0))
    with tree.nodes.settling():
        for owner in ("single", "gang"):
            places = [
                Allocation(Ask(owner, f"t{n}", (("cpus", 1),), 0.0, **properties), f"n{n:05}") for n in range(nodes)
            ]
            recover_all(tree, owner, places)
    tree.applications["gang"].least = nodes
    tree.submit(Application("urgent", "root.urgent", 0))
    ask = Ask("urgent", "t", (("cpus", 2),), 0.0, 5)
    tree.ask(ask)
    assert list(tree.run()) == []
    return tree, ask


def counted(monkeypatch: pytest.MonkeyPatch, owner: Any, name: str) -> list[Any]:
    """The first arguments of all calls of a function or method from now on."""
    calls: list[Any] = []
    honest = getattr(owner, name)

    def function(*arguments: Any, **more: Any) -> Any:
        calls.append(arguments[0])
        return honest(*arguments, **more)

    monkeypatch.setattr(owner, name, function)
    return calls


@pytest.mark.parametrize("number", NODES)
def test_nodes_that_cannot_make_enough_room_are_not_looked_at(number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Allocations that are too important are known at once, those of a gang at its minimum after some nodes."""
    looked_at = counted(monkeypatch, Search, "_on")
    tree, _ = hopeless(number, priority=9)
    assert preempt(tree, 1000.0) == [] and not looked_at
    tree, ask = hopeless(number)
    assert preempt(tree, 1000.0) == [] and len(looked_at) <= preemption.CHOSEN_AGAIN
    found = last_try(tree, "urgent", ask.name, 1000.0)
    assert found is not None
    assert [(one.code, one.number) for one in found.met] == [(Obstacle.GANG, number), (Obstacle.APART, number)]


@pytest.mark.parametrize("number", NODES)
def test_a_search_among_many_nodes_is_divided(number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    looked_at = counted(monkeypatch, Search, "_on")
    tree, _ = hopeless(number)
    tree.applications["gang"].least = 0
    admitted: list[str] = []

    def check(_ask: Ask, node: str, _victims: object) -> bool:
        admitted.append(node)
        return False

    most = parts = 0
    while not parts or tree.behind is not None:
        before = len(looked_at)
        assert preempt(tree, 1000.0, check, is_over=lambda: True) == []
        most, parts = max(most, len(looked_at) - before), parts + 1
    assert most <= 2 * preemption.AT_A_TIME
    assert admitted == [f"n{n:05}" for n in range(number)]


def test_victims_on_several_nodes_have_a_turn_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """The search for them orders all candidates; it does not follow the search on each node in the same turn."""
    number = preemption.AT_A_TIME + 10
    state = queues_of(
        [queue("p", None, 2 * number, queue("q1"), queue("q2", 4))], {f"n{one:03}": 2 for one in range(number)}
    )
    for one in range(number):
        running(state, "root.p.q1", f"n{one:03}", 1, 1)
    ask = pending(state, "root.p.q2", 2)[0]
    steps = list[str]()
    for name in ("_on", "_spread"):
        honest = getattr(preemption.Search, name)

        def counted(self: Any, *given: Any, _honest: Any = honest, _name: str = name, **more: Any) -> Any:
            steps.append(_name)
            return _honest(self, *given, **more)

        monkeypatch.setattr(preemption.Search, name, counted)
    turns = list[list[str]]()
    while not turns or ask.id in state.halted:
        steps.clear()
        found = preemption.attempt(state, ask, 1000.0, None, lambda: True)
        turns.append(list(steps))
    assert found is not None and len(found.victims) == 2
    assert len(turns) == 3
    assert [turn.count("_spread") for turn in turns] == [0, 0, 1]
    assert all(turn.count("_on") <= 2 * preemption.AT_A_TIME for turn in turns) and turns[2].count("_on") <= 2


@pytest.mark.parametrize("is_gang", [False, True])
def test_a_search_for_victims_on_several_nodes_makes_some_candidates(
    is_gang: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Candidates are made as they are needed; those that must fail as others did are passed over without."""
    number, portion = 400, 16
    monkeypatch.setattr(preemption, "MADE_AT_ONCE", portion)
    state = queues_of(
        [queue("p", None, number, queue("q1"), queue("q2", 4))], {f"n{one:03}": 3 for one in range(number)}
    )
    for one in range(number):
        running(state, "root.p.q1", f"n{one:03}", 1)
    state.applications["run-root.p.q1"].least = number if is_gang else 0
    ask = pending(state, "root.p.q2", 2)[0]
    made = counted(monkeypatch, preemption.Everywhere, "_candidate")
    found = preemption.attempt(state, ask, 1000.0)
    assert len(made) == (0 if is_gang else portion)  # the search on single nodes has found that the gang loses nothing
    if is_gang:
        result = last_try(state, ask.application, ask.name, 1000.0)
        assert found is None and result is not None
        assert [(one.code, one.number) for one in result.met] == [
            (Obstacle.GANG, 2 * number)
        ]  # on its node, and on all nodes
    else:
        assert found is not None and len(found.victims) == 2


@pytest.mark.parametrize("whole", [False, True], ids=["budgets", "whole gangs"])
def test_a_search_for_victims_on_several_nodes_is_divided(whole: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """In vain, because no application may lose anything. Each turn continues with those that are not known yet."""
    number, portion = 200, 16
    monkeypatch.setattr(preemption, "MADE_AT_ONCE", portion)
    above = queue("p", None, 2 * number, queue("q1"), queue("q2", 4)) | {"properties": {"preemption.gangs": "whole"}}
    state = queues_of([above], {f"n{one:03}": 3 for one in range(number)})
    state.begin(state.terms._replace(allowance=lambda application: int(whole)))
    for one in range(number):
        state.submit(Application(f"a{one:03}", "root.p.q1", one))
        asks = [Ask(f"a{one:03}", f"t{n}", (("cpus", 1),), one, critical=whole and n == 0) for n in range(2)]
        recover_all(state, f"a{one:03}", [Allocation(ask, f"n{one:03}") for ask in asks])
        state.applications[f"a{one:03}"].least = 2 if whole else 0
    ask = pending(state, "root.p.q2", 1)[0]
    made = counted(monkeypatch, preemption.Everywhere, "_candidate")
    turns = list[int]()
    while not turns or ask.id in state.halted:
        before = len(made)
        assert preemption.attempt(state, ask, 1000.0, None, lambda: True) is None
        turns.append(len(made) - before)
        assert len(turns) < number, turns
    assert 5 < sum(one > 0 for one in turns) <= number * (2 - whole) // portion + 1
    assert max(turns) <= 2 * portion, turns
    result = last_try(state, ask.application, ask.name, 1000.0)
    assert result is not None and result.met[0].code is (Obstacle.GANG if whole else Obstacle.BUDGET)


def test_candidates_on_several_nodes_are_made_in_the_order_of_loss(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(preemption, "MADE_AT_ONCE", 3)
    nodes = {f"n{one}": 12 for one in range(4)}
    children = [queue(f"q{one}", offset=str(one % 3), fence="fence" if one == 3 else "default") for one in range(5)]
    state = queues_of([queue("p", None, 40, *children, queue("q", 8))], nodes)
    for one in range(40):
        traits = {"priority": -(one % 4), "preemptable": one % 5 != 0, "originator": one % 7 == 0}
        running(state, f"root.p.q{one % 5}", f"n{one % 4}", 1, **traits)
    ask = pending(state, "root.p.q", 2, priority=3)[0]
    leaf = state.queues["root.p.q"]
    goal = goal_of(leaf, ["cpus"])
    assert goal is not None
    search = Search(state, leaf, goal, ask, {"cpus": 2})
    made = list(preemption.Everywhere(search).candidates(preemption._Taken({}, {}), None))
    known = [one for node in state.nodes.by_name.values() for one in search._candidates(node)]
    assert len(known) > 20
    assert made == sorted(known, key=lambda one: one.order)


@pytest.mark.parametrize("number", MANY)
def test_a_round_of_preemption_looks_at_some_queues_and_applications_in_a_turn(
    number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    queues = [{"name": f"q{n:05}", "resources": {"guaranteed": {"cpus": 9}}} for n in range(900)]
    tree = Tree(partition_of({"queues": [*queues, {**queues[0], "name": "many"}]}, quantity=int), [("n1", {"cpus": 1})])
    tree.submit(Application("runs", "root.many", 0))
    tree.recover(Allocation(Ask("runs", "t", (("cpus", 1),)), "n1"))
    for n in range(number):
        tree.submit(Application(f"w{n:05}", "root.many", n))
        tree.ask(Ask(f"w{n:05}", "t", (("cpus", 1),), n, may_preempt=False))
    assert list(tree.run()) == []
    looked_at = counted(monkeypatch, Round, "_is_step")
    most = parts = 0
    while not parts or tree.behind is not None:
        before = len(looked_at)
        preempt(tree, 1e9, is_over=lambda: True)
        most, parts = max(most, len(looked_at) - before), parts + 1
    assert most <= LOOKED_AT
    assert len(looked_at) >= number


def above(number: int, most_queues: int) -> Tree:
    """Queues above their lowered maxima, with so many allocations in all."""
    queues = [{"name": f"q{n:05}"} for n in range(most_queues)]
    tree = Tree(partition_of({"queues": queues}, quantity=int), [(f"n{n}", {"cpus": 10}) for n in range(number // 10)])
    with tree.nodes.settling():
        for rank, queue in enumerate(tree.root.children.values()):
            tree.submit(Application(queue.config.name, queue.name, 0))
            asks = [Ask(queue.config.name, f"t{n}", (("cpus", 1),), n) for n in range(number // len(queues))]
            places = [f"n{(rank * len(asks) + n) % (number // 10)}" for n in range(len(asks))]
            recover_all(tree, queue.config.name, [Allocation(*one) for one in zip(asks, places, strict=True)])
    properties = {"quota.preemption.delay": "1s"}
    lowered = [{**queue, "resources": {"max": {"cpus": 0}}, "properties": properties} for queue in queues]
    apply(tree, partition_of({"queues": lowered, "preemption": {"quotapreemptionenabled": True}}, quantity=int))
    return tree


@pytest.mark.parametrize("queues", [1, 1000])
@pytest.mark.parametrize("number", MANY)
def test_a_turn_of_quota_preemption_takes_one_step(number: int, queues: int, monkeypatch: pytest.MonkeyPatch) -> None:
    tree = above(number, queues)
    looked_at = counted(monkeypatch, quota, "_excess")
    ended: list[str] = []
    most = 0
    for now in (0.0, 10.0):
        while True:
            before = len(looked_at)
            found = give_back(tree, now, lambda: True)
            ended += [one.ask.id for one in found]
            most = max(most, len(looked_at) - before)
            if not tree.rests:
                break
    assert most <= 2 * LOOKED_AT
    assert len(set(ended)) == len(ended) == number


@pytest.mark.parametrize("number", MANY)
def test_a_turn_of_reservations_and_of_their_ends_takes_one_step(number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    tree = Tree(
        partition_of({"queues": [{"name": "q"}]}, quantity=int), [(f"n{n}", {"cpus": number}) for n in range(3)]
    )
    tree.submit(Application("runs", "root.q", 0))
    for n in range(3):
        tree.recover(Allocation(Ask("runs", f"t{n}", (("cpus", number),)), f"n{n}"))
    for n in range(number):
        tree.submit(Application(f"w{n:05}", "root.q", n))
        tree.ask(Ask(f"w{n:05}", "t", (("cpus", 1 + n),), n))
    assert list(tree.run()) == []
    tree.leave(tree.applications["runs"].allocations["t0"])
    looked_at = counted(monkeypatch, reservation, "_ready")
    made, most, parts = [], 0, 0
    while not parts or tree.rests:
        before = len(looked_at)
        made += reserve(tree, 1e6, is_over=lambda: True)
        most, parts = max(most, len(looked_at) - before), parts + 1
    assert most <= LOOKED_AT
    assert [(one.ask.id, one.node) for one in made] == [("w00000/t", "n0")]


@pytest.mark.parametrize("number", MANY)
def test_a_turn_ends_one_promise_that_was_not_kept(number: int) -> None:
    tree = Tree(
        partition_of({"queues": [{"name": "q"}]}, quantity=int), [(f"n{n}", {"cpus": 1}) for n in range(number)]
    )
    tree.submit(Application("w", "root.q", 0))
    tree.ask_all(Ask("w", f"t{n:05}", (("cpus", 2),), n) for n in range(100))
    for n in range(100):
        tree.promise("w", f"t{n:05}", f"n{n}")
    looked_at = lines(lambda: expire(tree, 1e6, is_over=lambda: False))
    parts = 0
    while not parts or tree.rests:
        assert len(expire(tree, 1e6 + LONGEST, is_over=lambda: True)) <= 1
        parts += 1
    assert parts == 101 and not tree.nodes.promising
    assert looked_at < 100 * 60  # with the promises, however many nodes there are


REQUEST = st.dictionaries(st.sampled_from(("cpus", "mem", "gpus")), st.integers(1, 6)).map(amounts)


class Member:
    def __init__(self, request: Amounts) -> None:
        self.request = request


@given(
    st.lists(st.tuples(REQUEST, st.booleans()), max_size=30),
    st.dictionaries(st.sampled_from(("cpus", "mem", "gpus")), st.integers(-1, 7)),
    st.booleans(),
)
def test_waiting_requests_are_found_as_by_a_scan(
    entries: list[tuple[Amounts, bool]], room: dict[str, int], unlimited: bool
) -> None:
    waiting: Waiting[Member] = Waiting(missing_is_unlimited=unlimited)
    members = [(Member(request), stays) for request, stays in entries]
    for member, _ in members:
        waiting.add(member)
    for member, stays in members:
        if not stays:
            waiting.remove(member)
    left = [member for member, stays in members if stays]
    judge = fits_limit if unlimited else _fits
    assert set(waiting.fitting(room)) == {member for member in left if judge(dict(member.request), room)}
    assert len(waiting) == len(left) and set(waiting) == set(left)


def _fits(wanted: Vector, room: Vector) -> bool:
    return all(amount <= room.get(name, 0) for name, amount in wanted.items() if amount > 0)


@pytest.mark.slow
@given(st.integers(0, 2**32), st.sampled_from(NodeOrder))
@settings(max_examples=share(30, 3), deadline=None)
def test_the_first_node_is_found_as_by_a_scan(seed: int, order: NodeOrder) -> None:
    chance = random.Random(seed)
    nodes = Nodes(order)
    used: dict[str, list[Amounts]] = {}
    for n in range(150):
        node = Node(f"n{n:03}", {"cpus": chance.randint(1, 12), "mem": chance.randint(0, 9)})
        nodes.add(node)
        used[node.name] = []
    for _ in range(150):
        request = amounts({"cpus": chance.randint(0, 6), "mem": chance.randint(0, 4)})
        found = nodes.find(request)
        fitting = [node for node in nodes if _fits(dict(request), node.free)]
        assert found is (min(fitting, key=lambda node: _key(node, order)) if fitting else None)
        if found is not None:
            nodes.use(found.name, request, 1)
            used[found.name].append(request)
        if chance.random() < 0.3:
            name = chance.choice([name for name, requests in used.items() if requests] or [""])
            if name:
                nodes.use(name, used[name].pop(), -1)
        if chance.random() < 0.02:
            del used[nodes.remove(chance.choice(list(nodes.by_name))).name]


def _key(node: Node, order: NodeOrder) -> tuple[Fraction, str]:
    shares = [Fraction(total - node.free[name], total) for name, total in node.total.items() if total]
    share = sum(shares, Fraction(0)) / len(shares) if shares else Fraction(0)
    return (share if order is NodeOrder.FAIR else -share, node.name)


def test_placements_on_the_first_node_do_not_measure_its_block() -> None:
    """Each placement changes the first node of a block. The nodes after it are not looked at again."""
    partition = partition_of({"queues": [{"name": "default"}]})
    tree = Tree(partition, [(f"n{index:05}", {"vcore": 100}) for index in range(640)])
    tree.submit(Application("a", "root.default", 0.0))
    tree.ask_all([Ask("a", f"t{index:05}", (("vcore", 10),)) for index in range(320)])
    tree.nodes.ordered.judged = 0
    assert len(list(tree.run())) == 320
    assert tree.nodes.ordered.judged <= 3 * 321 + 10


def test_the_latest_try_is_found_without_a_look_at_asks_that_are_alike() -> None:
    def looked_at(number: int) -> int:
        state = queues_of([queue("p", 4)], {"n1": 1})
        asks = pending(state, "root.p", *([2] * number))
        assert preempt(state, 1000.0) == []
        return lines(lambda: last_try(state, asks[-1].application, asks[-1].name, 1000.0))

    assert looked_at(500) == looked_at(5)
