"""The bound for gangs is never below the number of asks that cycles place. Gangs above the bound cost little."""

from __future__ import annotations

import random
from collections import Counter

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from offers.ledger.holds import RETRY
from offers.policy.hierarchy.cluster import occupy
from offers.policy.hierarchy.configuration.document import partition_of
from offers.policy.hierarchy.gangs import MOST_PLACES, MOST_SEARCHES, Attempts, most_that_fit
from offers.policy.hierarchy.preemption import preemption
from offers.policy.hierarchy.preemption.preemption import last_try, preempt
from offers.policy.hierarchy.state.application import Application
from offers.policy.hierarchy.state.model import Ask
from offers.policy.hierarchy.steps import withdraw_all
from offers.policy.hierarchy.tree import Tree
from tests.counting import lines
from tests.effort import share
from tests.unit.offers.policy.hierarchy.test_changes import copied, summary
from tests.unit.offers.policy.hierarchy.test_preemption import LATE, full, queue, random_tree, running
from tests.unit.offers.policy.hierarchy.test_preemption import tree as queues_of
from tests.unit.offers.policy.hierarchy.test_steps import cluster, frame

ONE = (("cpus", 1), ("mem", 1))


@given(st.integers(0, 2**32))
@example(29)  # a node with a promise takes other work after the promised ask
@settings(max_examples=share(150), deadline=None)
def test_cycles_place_no_more_than_the_bound(seed: int) -> None:
    tree = cluster(seed)
    wanted = {name: len(one.asks) for name, one in tree.applications.items()}
    bounds = {name: most_that_fit(tree, tree.applications[name], number) for name, number in wanted.items()}
    placed = dict.fromkeys(wanted, 0)
    for allocation in tree.run():
        placed[allocation.ask.application] += 1
    assert all(placed[name] <= bounds[name] <= wanted[name] for name in wanted)


def single(maximum: int | None, nodes: int = 3) -> tuple[Tree, Application]:
    queue = {"name": "q"} if maximum is None else {"name": "q", "resources": {"max": {"cpus": maximum}}}
    tree = Tree(
        partition_of({"queues": [queue]}, quantity=int), [(f"n{n}", {"cpus": 4, "mem": 3}) for n in range(nodes)]
    )
    application = Application("a", "root.q", 0.0)
    tree.submit(application)
    return tree, application


@pytest.mark.parametrize(("maximum", "most"), [(None, 9), (5, 5), (0, 0)])
def test_the_bound_is_exact_for_equal_asks(maximum: int | None, most: int) -> None:
    tree, application = single(maximum)
    tree.ask_all(Ask("a", f"t{n}", ONE) for n in range(20))
    assert most_that_fit(tree, application, 20) == most
    assert most_that_fit(tree, application, 4) == min(most, 4)
    assert sum(1 for _ in tree.run()) == most


def test_asks_for_one_node_count_the_room_of_this_node() -> None:
    tree, application = single(None)
    tree.ask_all(Ask("a", f"t{n}", ONE, required_node="n1") for n in range(20))
    assert most_that_fit(tree, application, 20) == 3


@given(st.integers(0, 2**32))
@settings(max_examples=share(50), deadline=None)
def test_withdrawing_all_asks_is_the_same_as_one_after_the_other(seed: int) -> None:
    at_once, one_by_one = cluster(seed), cluster(seed)
    for name, application in at_once.applications.items():
        withdraw_all(at_once, name)
        assert not application.asks
        for ask in list(one_by_one.applications[name].asks):
            one_by_one.withdraw(name, ask)
    # The number of tries and the version may be different: they count steps.
    assert frame(at_once)[:4] == frame(one_by_one)[:4]


def test_the_cost_of_withdrawing_grows_with_the_number_of_asks() -> None:
    def cost(number: int) -> int:
        tree, _ = single(None)
        tree.ask_all(Ask("a", f"t{n}", ONE) for n in range(number))
        return lines(lambda: withdraw_all(tree, "a"))

    assert cost(2000) < 11 * cost(200)


# --- attempts -------------------------------------------------------------------------------------------------


def works(state: Tree) -> dict[str, list[str]]:
    """The names of all asks and allocations, by application."""
    return {name: sorted([*one.asks, *one.allocations]) for name, one in state.applications.items()}


@given(st.integers(0, 2**32))
@settings(max_examples=share(150), deadline=None)
def test_a_gang_gets_places_or_victims_for_all_that_it_lacks_or_for_none(seed: int) -> None:
    chance = random.Random(seed)
    state = random_tree(chance)
    before = works(state)
    lacking = {name: chance.randint(2, 4) for name, one in state.applications.items() if one.asks}
    attempts = Attempts(state)
    for round_ in range(4):
        now = LATE + round_ * RETRY
        made = attempts.run(lacking)
        placed = Counter(one.ask.application for one in made)
        assert all(placed[name] >= lacking.get(name, 1) for name in placed)
        lacking = {name: number for name, number in lacking.items() if not placed[name]}
        leaving = set(state.leaving)
        found = attempts.preempt(lacking, now)
        attempts.restore()
        assert {victim.ask.id for one in found for victim in one.victims} == set(state.leaving) - leaving
        promised = Counter(ask.application for node in state.nodes for ask in node.promises.values())
        assert all(promised[one.ask.application] >= lacking[one.ask.application] for one in found)
        assert all(promised[name] in (0, number) for name, number in lacking.items())
        assert works(state) == before
        assert summary(copied(state)) == summary(state)
        for victim in chance.sample(sorted(state.leaving.items()), min(len(state.leaving), 1)):
            before[victim[1].ask.application].remove(victim[1].ask.name)
            state.release(victim[1].ask.application, victim[1].ask.name)


def gang(state: Tree, leaf: str, size: int, name: str = "gang") -> dict[str, int]:
    """A gang that waits, as `lacking`."""
    state.submit(Application(name, leaf, 0))
    state.ask_all(Ask(name, f"t{number}", (("cpus", 1),)) for number in range(size))
    return {name: size}


def pending(state: Tree) -> list[str]:
    """The names of the asks of the gang."""
    return list(state.applications["gang"].asks)


def test_a_gang_that_reserves_nodes_may_preempt() -> None:
    state = queues_of([queue("q1"), queue("q2", 4)], {"n1": 2, "n2": 2})
    for node in ("n1", "n2"):
        running(state, "root.q1", node, 1)
    state.submit(Application("gang", "root.q2", 0))
    state.ask_all(Ask("gang", f"t{number}", (("cpus", 2),)) for number in range(2))
    lacking, attempts = {"gang": 2}, Attempts(state)
    assert attempts.run(lacking) == []
    for node, ask in zip(("n1", "n2"), pending(state), strict=True):
        state.promise("gang", ask, node, reserves=True)
    assert len(attempts.preempt(lacking, LATE)) == 2
    attempts.restore()
    assert [len(node.promises) for node in state.nodes] == [1, 1]


def test_other_work_does_not_count_as_room_of_a_gang() -> None:
    state = queues_of([queue("q1"), queue("q2", 4), queue("q3")], {"n1": 3, "n2": 3})
    running(state, "root.q1", "n1", 2)
    running(state, "root.q1", "n2", 2)
    state.submit(Application("gang", "root.q2", 0))
    state.ask_all(Ask("gang", f"t{number}", (("cpus", 2),)) for number in range(2))
    lacking, attempts = {"gang": 2}, Attempts(state)
    assert attempts.run(lacking) == []
    for node, ask in zip(("n1", "n2"), pending(state), strict=True):
        state.promise("gang", ask, node, reserves=True)
    state.submit(Application("small", "root.q3", 0))
    state.ask(Ask("small", "t0", (("cpus", 1),)))
    assert attempts.run(lacking) == []
    state.begin(state.terms._replace(allowance=lambda application: 1 - len(state.leaving)))
    assert attempts.preempt(lacking, LATE) == [] and state.leaving == {}
    attempts.restore()
    assert [len(node.promises) for node in state.nodes] == [1, 1]


def test_a_gang_pauses_after_a_try_in_vain_and_others_do_not_preempt_for_it() -> None:
    state = full()
    lacking, attempts = gang(state, "root.q2", 3), Attempts(state)
    attempts.run(lacking)
    assert attempts.preempt(lacking, LATE) == []
    attempts.restore()
    assert preempt(state, LATE) == []
    state.queues["root.q1"].guaranteed, state.queues["root.q2"].guaranteed = {}, {"cpus": 4}
    assert attempts.preempt(lacking, LATE + RETRY - 1) == []
    assert len(attempts.preempt(lacking, LATE + RETRY)) == 3


def test_a_gang_that_fails_keeps_no_single_ask_that_is_alike_from_a_victim() -> None:
    """Seed 22194 of the world `fair-hierarchical` (I83): the budget admits a victim for one member of the gang."""
    state = full()
    lacking, attempts = gang(state, "root.q2", 2), Attempts(state)
    attempts.run(lacking)
    state.begin(state.terms._replace(allowance=lambda application: 1 - len(state.leaving)))
    assert attempts.preempt(lacking, LATE) == []
    attempts.restore()
    state.submit(Application("single", "root.q2", 0))
    state.ask(Ask("single", "t0", (("cpus", 1),)))
    attempts.run(lacking)
    attempts.restore()
    assert [preemption.ask.application for preemption in preempt(state, LATE + 1)] == ["single"]
    results = [last_try(state, name, "t0", LATE + 1) for name in ("single", "gang")]
    assert [result is not None and result.evicted for result in results] == [1, 0]


def test_gangs_that_must_fail_alike_are_tried_once() -> None:
    state = full()
    lacking: dict[str, int] = {}
    for number in range(40):
        lacking |= gang(state, "root.q2", 3, f"gang-{number}")
    attempts = Attempts(state)
    attempts.run(lacking)
    before = state.tries
    assert attempts.preempt(lacking, LATE) == []
    assert state.tries - before < 4
    lacking |= gang(state, "root.q2", 2, "possible")
    attempts.run(lacking)
    (first, second) = attempts.preempt(lacking, LATE + 1)
    assert {first.ask.application, second.ask.application} == {"possible"}


def test_a_gang_that_lacks_very_many_places_preempts_nothing() -> None:
    size = MOST_SEARCHES + 1
    state = queues_of([queue("q1", 0), queue("q2", 2 * size)], {"n1": 2 * size})
    running(state, "root.q1", "n1", *[1] * 2 * size)
    lacking, attempts = gang(state, "root.q2", size), Attempts(state)
    attempts.run(lacking)
    assert attempts.preempt(lacking, LATE) == []
    attempts.restore()
    lacking |= gang(state, "root.q2", size - 1, "smaller")
    attempts.run(lacking)
    assert len(attempts.preempt(lacking, LATE + 1)) == MOST_SEARCHES


@pytest.mark.parametrize("number", [100, MOST_PLACES, MOST_PLACES + 1])
def test_a_gang_that_tries_to_preempt_places_as_many_asks_as_it_lacks_and_very_many_ones_are_not_placed(
    number: int,
) -> None:
    state = queues_of([queue("q1"), queue("q2", 3 * number)], {"n1": number - 1, "n2": 1})
    running(state, "root.q1", "n2", 1)
    state.submit(Application("gang", "root.q2", 0))
    state.ask_all(Ask("gang", f"t{one}", (("cpus", 1),)) for one in range(2 * number))
    lacking, attempts = {"gang": number}, Attempts(state)
    attempts.run(lacking)
    before = state.tries
    found = attempts.preempt(lacking, LATE)
    if number > MOST_PLACES:
        assert found == [] and state.tries == before
    else:
        assert len(found) == 1 and number - 1 <= state.tries - before <= number + 1
    attempts.restore()
    assert len(state.applications["gang"].asks) == 2 * number


def crowd(members: int) -> tuple[Tree, dict[str, int]]:
    """Full nodes, and a gang of a queue below its guarantee that needs a victim on each of several nodes."""
    state = queues_of([queue("q1"), queue("q2", 9)], {f"n{number}": 2 for number in range(6)})
    for number in range(6):
        running(state, "root.q1", f"n{number}", 1, 1)
    state.submit(Application("gang", "root.q2", 0))
    state.ask_all(Ask("gang", f"t{number}", (("cpus", 2),)) for number in range(members))
    lacking = {"gang": members}
    assert list(state.run()) == []
    return state, lacking


def test_a_gang_whose_searches_take_too_long_continues_in_the_next_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(preemption, "AT_A_TIME", 1)
    state, lacking = crowd(4)
    whole = Attempts(copied(state))
    expected = whole.preempt(lacking, LATE)
    assert len(expected) == 4
    attempts, turns = Attempts(state), 0
    while True:
        turns += 1
        found = attempts.preempt(lacking, LATE, is_over=lambda: True)
        attempts.restore()
        if not attempts.is_behind:
            break
        assert found == [] and not state.leaving and not any(node.promises for node in state.nodes)
    assert found == expected and turns > 4
    assert {name for one in found for name in [victim.ask.id for victim in one.victims]} == set(state.leaving)


def test_a_gang_continues_after_a_node_that_it_had_found_has_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(preemption, "AT_A_TIME", 1)
    state, lacking = crowd(2)
    attempts = Attempts(state)
    for _ in range(3):
        assert attempts.preempt(lacking, LATE, is_over=lambda: True) == [] and attempts.is_behind
        attempts.restore()
    occupy(state, "n0", (), (("cpus", state.nodes.by_name["n0"].total["cpus"]),))
    found = attempts.preempt(lacking, LATE)
    assert [one.node for one in found] == ["n1", "n2"]
    assert not attempts.is_behind


def test_a_gang_that_has_more_places_than_it_lacks_ends_nothing() -> None:
    state = queues_of([queue("q1"), queue("q2", 9)], {"n1": 3, "n2": 1})
    running(state, "root.q1", "n2", 1)
    state.submit(Application("gang", "root.q2", 0))
    state.ask_all(Ask("gang", f"t{number}", (("cpus", 1),)) for number in range(5))
    assert Attempts(state).preempt({"gang": 2}, LATE) == []
    assert not state.leaving
