"""Limits of applications, users and groups; reservations; nodes that come and go."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from offers.ledger.holds import LONGEST, SHORTEST, WINDOW
from offers.policy.hierarchy.cluster import conditions_changed, occupy, remove_nodes, set_nodes
from offers.policy.hierarchy.configuration.document import partition_of
from offers.policy.hierarchy.maintenance import maintain
from offers.policy.hierarchy.preemption.reservation import MOST, expire, most_of, reservations, reserve, take_nodes
from offers.policy.hierarchy.state.application import Application
from offers.policy.hierarchy.state.model import Allocation, Ask
from offers.policy.hierarchy.state.nodes import Closings
from offers.policy.hierarchy.tree import Tree


def tree(*queues: Any, nodes: dict[str, int] | None = None) -> Tree:
    partition = partition_of({"queues": list(queues)}, quantity=int)
    return Tree(partition, [(name, {"cpus": total}) for name, total in (nodes or {"n1": 20}).items()])


def submit(state: Tree, name: str, count: int, user: str = "", *groups: str, queue: str = "root.q") -> None:
    state.submit(Application(name, queue, float(len(state.applications)), user, groups))
    for number in range(count):
        state.ask(Ask(name, f"t{number}", (("cpus", 1),)))


def counts(state: Tree) -> dict[str, int]:
    for _ in state.run():
        pass
    return {name: len(one.allocations) for name, one in state.applications.items() if one.allocations}


def test_no_more_applications_start_than_the_limit_of_the_path() -> None:
    state = tree({"name": "p", "maxapplications": 2, "queues": [{"name": "a", "maxapplications": 1}, {"name": "b"}]})
    for name in ("a1", "a2"):
        submit(state, name, 2, queue="root.p.a")
    for name in ("b1", "b2"):
        submit(state, name, 2, queue="root.p.b")
    assert counts(state) == {"a1": 2, "b1": 2}
    state.release("b1", "t0")
    assert counts(state) == {"a1": 2, "b1": 1}
    state.release("b1", "t1")
    assert counts(state) == {"a1": 2, "b2": 2}
    for name in ("t0", "t1"):
        state.release("a1", name)
    assert counts(state) == {"a2": 2, "b2": 2}


def test_a_promise_does_not_start_an_application_beyond_the_limit() -> None:
    state = tree({"name": "q", "maxapplications": 1}, nodes={"n1": 2, "n2": 2})
    submit(state, "a", 1)
    assert counts(state) == {"a": 1}
    state.ask(Ask("a", "more", (("cpus", 2),)))
    state.submit(Application("b", "root.q", 0))
    state.recover(Allocation(Ask("b", "t0", (("cpus", 2),)), "n2"))
    assert counts(state) == {"a": 1, "b": 1}
    state.promise("a", "more", "n2")
    state.release("a", "t0")
    submit(state, "c", 1)
    assert counts(state) == {"b": 1}
    state.release("b", "t0")
    assert counts(state) == {"a": 1}


def test_fair_applications_are_ordered_by_their_present_usage_only() -> None:
    state = tree({"name": "q", "properties": {"application.sort.policy": "fair"}}, nodes={"n1": 1})
    submit(state, "a", 2)
    submit(state, "b", 2)
    assert counts(state) == {"a": 1}
    state.release("a", "t0")
    assert counts(state) == {"a": 1}


LIMITS = [
    {"users": ["ann"], "maxresources": {"cpus": 3}},
    {"users": ["*"], "maxresources": {"cpus": 2}},
    {"groups": ["dev"], "maxresources": {"cpus": 4}},
    {"groups": ["*"], "maxresources": {"cpus": 5}},
]


def test_a_user_has_the_own_limit_or_the_one_of_everybody() -> None:
    state = tree({"name": "q", "limits": LIMITS[:2]})
    submit(state, "ann1", 2, "ann")
    submit(state, "ann2", 2, "ann")
    submit(state, "bob1", 3, "bob")
    submit(state, "eve1", 3, "eve")
    assert counts(state) == {"ann1": 2, "ann2": 1, "bob1": 2, "eve1": 2}
    state.release("ann1", "t0")
    assert counts(state) == {"ann1": 1, "ann2": 2, "bob1": 2, "eve1": 2}


def test_a_group_has_its_limit_together() -> None:
    state = tree({"name": "q", "limits": LIMITS[2:]})
    submit(state, "a", 3, "ann", "dev")
    submit(state, "b", 3, "bob", "ops", "dev")
    submit(state, "c", 4, "eve", "ops")
    submit(state, "d", 4, "tom")
    assert counts(state) == {"a": 3, "b": 1, "c": 4, "d": 1}
    state.release("c", "t0")
    assert counts(state) == {"a": 3, "b": 1, "c": 3, "d": 2}


def test_limits_of_all_queues_on_the_path_hold() -> None:
    state = tree(
        {
            "name": "p",
            "limits": [{"users": ["*"], "maxresources": {"cpus": 3}}],
            "queues": [{"name": "a", "limits": [{"users": ["ann"], "maxresources": {"cpus": 2}}]}, {"name": "b"}],
        }
    )
    submit(state, "a", 5, "ann", queue="root.p.a")
    submit(state, "b", 5, "ann", queue="root.p.b")
    assert counts(state) == {"a": 2, "b": 1}


def test_applications_of_a_user_are_limited() -> None:
    state = tree({"name": "q", "limits": [{"users": ["ann"], "maxapplications": 1}]})
    submit(state, "a1", 1, "ann")
    submit(state, "a2", 1, "ann")
    submit(state, "b1", 1, "bob")
    submit(state, "b2", 1, "bob")
    assert counts(state) == {"a1": 1, "b1": 1, "b2": 1}
    state.release("a1", "t0")
    assert counts(state) == {"a2": 1, "b1": 1, "b2": 1}


@settings(max_examples=80, deadline=None)
@given(st.integers(0, 2**32))
def test_no_limit_is_exceeded_and_nothing_waits_without_a_cause(seed: int) -> None:
    chance = random.Random(seed)
    state = tree(
        {"name": "p", "maxapplications": 4, "limits": LIMITS[1:3], "queues": [
            {"name": "a", "limits": [{"users": ["*"], "maxapplications": 2}]}, {"name": "b", "maxapplications": 2}
        ]},
        nodes={"n1": chance.randint(1, 8), "n2": chance.randint(1, 8)},
    )  # fmt: skip
    for number in range(8):
        groups = chance.sample(["dev", "ops"], chance.randint(0, 2))
        user, leaf = chance.choice(["ann", "bob"]), chance.choice(["root.p.a", "root.p.b"])
        submit(state, f"a{number}", chance.randint(0, 3), user, *groups, queue=leaf)
    for _ in range(30):
        counts(state)
        for tracker in state.trackers.known.values():
            mine = [
                one
                for one in state.applications.values()
                if tracker in one.trackers and state.queues[tracker.queue] in state.queues[one.queue].path
            ]
            used = sum(one.allocated.get("cpus", 0) for one in mine)
            running = sum(bool(one.allocations) for one in mine)
            assert (tracker.allocated.get("cpus", 0), tracker.running) == (used, running)
            assert used <= tracker.limit.max_resources.get("cpus", used)
            assert running <= (running if tracker.limit.max_applications is None else tracker.limit.max_applications)
        for one in state.applications.values():
            if one.asks:
                assert refused(state, one)
        busy = [one for one in state.applications.values() if one.allocations]
        if busy:
            owner = chance.choice(busy)
            state.release(owner.name, chance.choice(list(owner.allocations)))


def refused(state: Tree, one: Application) -> bool:
    request = (("cpus", 1),)
    leaf = state.queues[one.queue]
    if not one.allocations and any(
        queue.config.max_applications is not None and queue.running >= queue.config.max_applications
        for queue in leaf.path
    ):
        return True
    if any(queue.exceeded(request) for queue in leaf.path):
        return True
    if any(tracker.refuses(request, bool(one.allocations)) is not None for tracker in one.trackers):
        return True
    return all(node.free["cpus"] < 1 for node in state.nodes)


# --- reservations ---------------------------------------------------------------------------------------------


SOON = {"n1": {"cpus": 2}, "n2": {"cpus": 3}}
"""Amounts whose ends are near in a crowded tree."""


def crowded() -> Tree:
    state = tree({"name": "q"}, nodes={"n1": 4, "n2": 4, "n3": 4})
    state.submit(Application("runs", "root.q", 0))
    for node, amounts in (("n1", (2,)), ("n2", (1, 2)), ("n3", (4,))):
        for amount in amounts:
            name = f"t{len(state.applications['runs'].allocations)}"
            state.recover(Allocation(Ask("runs", name, (("cpus", amount),)), node))
    state.submit(Application("waits", "root.q", 0))
    state.ask(Ask("waits", "t", (("cpus", 3),), created=100.0))
    assert list(state.run()) == []
    return state


def leave(state: Tree, name: str) -> None:
    state.leave(state.applications["runs"].allocations[name])


def test_an_ask_reserves_the_node_that_lacks_the_least_of_those_whose_room_is_known_to_become_enough() -> None:
    state = crowded()
    assert reserve(state, 101.0, SOON) == []
    assert reserve(state, 102.0) == []
    assert reserve(state, 102.0, {"n1": {"cpus": 0}, "n3": {"cpus": 2}}) == []
    (made,) = reserve(state, 102.0, SOON)
    assert (made.ask.name, made.node) == ("t", "n1")
    assert reservations(state, 102.0) == [(made.ask, "n1", 102.0 + LONGEST)]
    assert reserve(state, 103.0, SOON) == []
    state.ask(Ask("runs", "small", (("cpus", 2),)))
    assert list(state.run()) == []
    state.release("runs", "t0")
    assert [(one.ask.id, one.node) for one in state.run()] == [("waits/t", "n1")]


def test_a_node_on_which_something_leaves_is_reserved_and_gives_others_what_is_left() -> None:
    state = crowded()
    leave(state, "t2")
    assert [one.node for one in reserve(state, 102.0)] == ["n2"]
    leave(state, "t1")
    for number in range(4):
        state.ask(Ask("runs", f"small{number}", (("cpus", 1),)))
    # n1 has two free cores. n2 has one, and the ask needs three of the four that it is going to have.
    assert sorted(one.node for one in state.run()) == ["n1", "n1", "n2"]
    state.release("runs", "t1")
    assert list(state.run()) == []
    state.release("runs", "t2")
    assert [(one.ask.id, one.node) for one in state.run()] == [("waits/t", "n2")]


def test_amounts_that_never_go_are_not_known_to_become_free() -> None:
    state = crowded()
    leave(state, "t3")
    assert len(reserve(state, 102.0)) == 1
    other = tree({"name": "q"}, nodes={"n1": 4, "n2": 4, "n3": 4})
    other.submit(Application("daemons", "root.q", 0))
    for node in ("n1", "n2", "n3"):
        for name in ("a", "b"):
            other.recover(Allocation(Ask("daemons", f"{name}-{node}", (("cpus", 2),), lasting=True), node))
    other.submit(Application("waits", "root.q", 0))
    other.ask(Ask("waits", "t", (("cpus", 1),), created=100.0))
    assert list(other.run()) == []
    other.leave(other.applications["daemons"].allocations["a-n1"])  # its successor comes back to the node
    assert reserve(other, 102.0) == []


def test_a_reservation_ends_when_its_room_is_not_known_to_come_any_more() -> None:
    state = crowded()
    leave(state, "t2")
    assert len(reserve(state, 102.0)) == 1
    state.release("runs", "t2")
    state.recover(Allocation(Ask("runs", "t2", (("cpus", 2),)), "n2"))
    assert expire(state, 103.0) == []
    assert state.nodes.reserving == {}
    leave(state, "t2")
    assert list(state.run()) == []
    assert [one.node for one in reserve(state, 104.0)] == ["n2"]


def test_a_reservation_ends_and_pauses() -> None:
    state = crowded()
    reserve(state, 102.0, SOON)
    assert expire(state, 101.0 + LONGEST, SOON) == []
    assert [ask.name for ask in expire(state, 102.0 + LONGEST, SOON)] == ["t"]
    assert state.nodes.by_name["n1"].promises == {}
    assert list(state.run()) == []
    assert reserve(state, 103.0 + LONGEST, SOON) == []
    assert len(reserve(state, 102.0 + 2 * LONGEST, SOON)) == 1


def test_a_node_is_reserved_half_of_the_time_at_most_whoever_reserves_it() -> None:
    state = crowded()
    soon = {"n1": {"cpus": 2}}
    for number in range(6):
        state.submit(Application(f"next{number}", "root.q", 0))
        state.ask(Ask(f"next{number}", "t", (("cpus", 3),), created=100.0))
    assert list(state.run()) == []
    closed: list[bool] = []
    for second in range(1000):
        now = 102.0 + second
        expire(state, now, soon)
        list(state.run())
        reserve(state, now, soon)
        closed.append(bool(state.nodes.reserving))
    assert max(sum(closed[begin : begin + 120]) for begin in range(len(closed))) == 60
    assert sum(closed) > 300


def test_small_clusters_are_not_reserved_and_a_tenth_of_the_others_at_most() -> None:
    assert [most_of(number) for number in (1, 2, 3, 19, 20, 99, 1000)] == [0, 0, 1, 1, 2, 9, MOST]
    state = tree({"name": "q"}, nodes={"n1": 4, "n2": 4})
    for name in ("n1", "n2"):
        state.submit(Application(f"runs-{name}", "root.q", 0))
        state.recover(Allocation(Ask(f"runs-{name}", "t", (("cpus", 3),)), name))
        state.leave(state.applications[f"runs-{name}"].allocations["t"])
    state.submit(Application("waits", "root.q", 0))
    state.ask(Ask("waits", "t", (("cpus", 3),), created=100.0))
    assert list(state.run()) == []
    assert reserve(state, 200.0) == []


def test_large_applications_that_wait_do_not_keep_small_ones_from_their_room() -> None:
    state = tree({"name": "q"}, nodes={"n1": 80, "n2": 80, "n3": 80})
    state.submit(Application("runs", "root.q", 0))
    for node in ("n1", "n2", "n3"):
        state.recover(Allocation(Ask("runs", node, (("cpus", 65),)), node))
    for number in range(6):
        state.submit(Application(f"large{number}", "root.q", 0))
        state.ask(Ask(f"large{number}", "t", (("cpus", 30),)))
    assert list(state.run()) == []
    maintain(state, 100.0)
    assert state.nodes.reserving == {}
    state.submit(Application("small", "root.q", 0))
    state.ask_all(Ask("small", f"t{number}", (("cpus", 5),)) for number in range(9))
    assert len(list(state.run())) == 9


def test_an_ask_that_outranks_the_one_that_reserves_uses_the_room() -> None:
    state = tree(
        {"name": "q"},
        {"name": "urgent", "properties": {"priority.offset": "5"}},
        {"name": "owed", "resources": {"guaranteed": {"cpus": 2}}},
        nodes={"n1": 4, "n2": 4, "n3": 4},
    )
    state.submit(Application("runs", "root.q", 0))
    for node in ("n1", "n2", "n3"):
        for number, amount in enumerate((2, 2) if node == "n1" else (4,)):
            state.recover(Allocation(Ask("runs", f"{node}-{number}", (("cpus", amount),), -100.0), node))
    state.submit(Application("waits", "root.q", 0))
    state.ask(Ask("waits", "t", (("cpus", 4),), priority=3))
    assert list(state.run()) == []
    for number in range(2):
        leave(state, f"n1-{number}")
    assert [one.node for one in reserve(state, 10.0)] == ["n1"]
    state.release("runs", "n1-0")
    for name, leaf, priority in (("same", "q", 3), ("higher", "q", 4), ("urgent", "urgent", -1), ("owed", "owed", 0)):
        state.submit(Application(name, f"root.{leaf}", 0))
        state.ask(Ask(name, "t", (("cpus", 1),), priority=priority))
        found = [(one.ask.application, one.node) for one in state.run()]
        assert found == ([] if name == "same" else [(name, "n1")]), name
        if found:
            state.release(name, "t")
    state.ask(Ask("owed", "t2", (("cpus", 2),), created=10.0))
    assert [one.ask.id for one in state.run()] == ["owed/t2"]
    state.ask(Ask("owed", "more", (("cpus", 1),), created=10.0))  # above the guarantee
    assert list(state.run()) == []


def test_nothing_is_preempted_beside_free_room_that_another_ask_has_reserved() -> None:
    state = tree(
        {"name": "q"},
        {"name": "owed", "resources": {"guaranteed": {"cpus": 2}}, "properties": {"preemption.delay": "1s"}},
        nodes={"n1": 4, "n2": 5, "n3": 4},
    )
    state.submit(Application("runs", "root.q", 0))
    for node in ("n1", "n2", "n3"):
        for number in range(2):
            state.recover(Allocation(Ask("runs", f"{node}-{number}", (("cpus", 2),), -100.0), node))
    state.submit(Application("waits", "root.q", 0))
    state.ask(Ask("waits", "t", (("cpus", 4),)))
    assert list(state.run()) == []
    for number in range(2):
        leave(state, f"n1-{number}")
    assert len(reserve(state, 10.0)) == 1
    state.release("runs", "n1-0")
    # The guarantee is used when the ask comes, and has room for it afterwards.
    state.submit(Application("first", "root.owed", 0))
    state.ask(Ask("first", "t", (("cpus", 1),), created=10.0))
    assert [one.node for one in state.run()] == ["n2"]
    state.submit(Application("owed", "root.owed", 0))
    state.ask(Ask("owed", "t", (("cpus", 2),), created=10.0))
    assert list(state.run()) == []
    state.release("first", "t")
    assert list(state.run()) == []
    done = maintain(state, 20.0)
    assert (done.preemptions, done.again) == ((), True)
    assert [(one.ask.id, one.node) for one in state.run()] == [("owed/t", "n1")]


def test_no_further_round_follows_for_an_ask_that_the_reserved_node_does_not_admit() -> None:
    partition = partition_of({"queues": [{"name": "q"}]})
    state = Tree(partition, [(n, {"cpus": 4}) for n in ("n1", "n2", "n3")], lambda constraint, node: node == "n2")
    state.submit(Application("runs", "root.q", 0))
    for node in ("n1", "n2", "n3"):
        for number in range(2):
            state.recover(Allocation(Ask("runs", f"{node}-{number}", (("cpus", 2),), -100.0), node))
    state.submit(Application("waits", "root.q", 0))
    state.ask(Ask("waits", "t", (("cpus", 4),), priority=3))
    assert list(state.run()) == []
    for number in range(2):
        leave(state, f"n1-{number}")
    assert len(reserve(state, 10.0)) == 1
    state.release("runs", "n1-0")
    state.submit(Application("other", "root.q", 0))
    state.ask(Ask("other", "t", (("cpus", 1),), priority=9, created=10.0, constraint="ssd"))
    assert list(state.run()) == []
    assert not maintain(state, 20.0).again
    assert list(state.run()) == []


def test_asks_that_are_alike_do_not_hold_a_node_one_after_the_other() -> None:
    state = crowded()
    soon = {"n1": {"cpus": 2}}
    state.ask(Ask("waits", "next", (("cpus", 3),), created=100.0))
    assert list(state.run()) == []
    assert [one.ask.name for one in reserve(state, 102.0, soon)] == ["next"]
    state.ask(Ask("runs", "small", (("cpus", 2),)))
    assert list(state.run()) == []
    expire(state, 102.0 + LONGEST, soon)
    assert reserve(state, 102.0 + LONGEST, soon) == []
    assert [one.ask.name for one in state.run()] == ["small"]
    state.release("runs", "small")
    for name in ("t", "next"):
        state.ask(state.withdraw("waits", name)._replace(created=110.0))
    assert list(state.run()) == []
    assert reserve(state, 101.0 + 2 * LONGEST, soon) == []
    late = 102.0 + 2 * LONGEST + SHORTEST
    assert len(reserve(state, late, soon)) == 1


def test_the_number_of_reservations_is_bounded() -> None:
    nodes = 20 * MOST
    state = tree({"name": "q"}, nodes={f"n{number:03}": 4 for number in range(nodes)})
    state.submit(Application("runs", "root.q", 0))
    for number in range(nodes):
        state.recover(Allocation(Ask("runs", f"t{number}", (("cpus", 2),)), f"n{number:03}"))
    for number in range(2 * MOST):
        state.submit(Application(f"w{number:02}", "root.q", 0))
        state.ask(Ask(f"w{number:02}", "t", (("cpus", 3),), constraint=number))
    assert list(state.run()) == []
    soon = {name: {"cpus": 1} for name in state.nodes.by_name}
    made = reserve(state, 100.0, soon) + reserve(state, 101.0, soon)
    assert len(made) == len({one.node for one in made}) == MOST


@given(st.lists(st.tuples(st.floats(0, 50), st.floats(0, 70)), max_size=12))
def test_no_window_has_more_than_its_share(parts: list[tuple[float, float]]) -> None:
    closings, now = Closings(), 0.0
    spans: list[tuple[float, float]] = []
    for pause, wanted in parts:
        now += pause
        closings.settle((), now)
        end = now + max(0.0, min(wanted, closings.left("n", now)))
        closings.begin("n", now)
        spans.append((now, end))
        now = end
        assert closings.left("n", now) >= -1e-6
        closings.settle((), now)
    for _, last in spans:
        inside = sum(max(0.0, min(end, last) - max(begin, last - WINDOW)) for begin, end in spans)
        assert inside <= LONGEST + 1e-6


def test_an_ask_for_one_node_takes_the_node() -> None:
    state = crowded()
    assert len(reserve(state, 102.0, SOON)) == 1
    state.ask(Ask("waits", "daemon", (("cpus", 3),), required_node="n1", priority=1))
    assert list(state.run()) == []
    (found,) = take_nodes(state)
    assert (found.node, [one.ask.name for one in found.victims]) == ("n1", ["t0"])
    assert [ask.name for ask in state.nodes.by_name["n1"].promises.values()] == ["daemon"]
    state.release("runs", "t0")
    assert [one.ask.name for one in state.run()] == ["daemon"]


def test_an_ask_for_one_node_does_not_preempt_the_more_important() -> None:
    state = crowded()
    state.ask(Ask("waits", "daemon", (("cpus", 2),), required_node="n2", priority=-1))
    assert list(state.run()) == []
    assert take_nodes(state) == []


# --- nodes ----------------------------------------------------------------------------------------------------


def test_a_node_that_has_less_than_runs_there_takes_no_room_from_others() -> None:
    """Seed 86 of the standing world."""
    state = tree({"name": "q"}, nodes={"n1": 2})
    submit(state, "a", 3)
    assert counts(state) == {"a": 2}
    set_nodes(state, {"n1": {"cpus": 0}, "n2": {"cpus": 1}})
    assert counts(state) == {"a": 3}


def test_nodes_come_and_go() -> None:
    state = tree({"name": "q"}, nodes={"n1": 1})
    submit(state, "a", 3)
    state.ask(Ask("a", "pinned", (("cpus", 1),), required_node="n2", priority=-1))
    assert counts(state) == {"a": 1}
    set_nodes(state, {"n2": {"cpus": 2}})
    assert state.total == {"cpus": 3}
    assert counts(state) == {"a": 3}
    with pytest.raises(ValueError, match="have not ended"):
        remove_nodes(state, ["n2"])
    for name in list(state.nodes.by_name["n2"].running):
        state.release("a", name.allocation.ask.name)
    remove_nodes(state, ["n2"])
    assert state.total == {"cpus": 1}
    assert counts(state) == {"a": 1}
    set_nodes(state, {"n2": {"cpus": 1}})
    assert [(one.ask.name, one.node) for one in state.run()] == [("pinned", "n2")]


def test_nodes_that_are_used_by_others_take_nothing() -> None:
    state = tree({"name": "q"}, nodes={"n1": 2})
    occupy(state, "n1", (), (("cpus", 1),))
    submit(state, "a", 2)
    assert counts(state) == {"a": 1}
    occupy(state, "n1", (("cpus", 1),), ())
    assert counts(state) == {"a": 2}


def test_a_change_of_the_use_by_others_gives_room_and_takes_room() -> None:
    state = tree({"name": "q"}, nodes={"n1": 3})
    occupy(state, "n1", (), (("cpus", 2),))
    submit(state, "a", 3)
    assert counts(state) == {"a": 1}
    occupy(state, "n1", (("cpus", 2),), (("cpus", 1),))
    assert counts(state) == {"a": 2}
    occupy(state, "n1", (("cpus", 1),), (("cpus", 1),))
    assert counts(state) == {"a": 2}
    occupy(state, "n1", (("cpus", 1),), ())
    assert counts(state) == {"a": 3}
    assert state.nodes.by_name["n1"].free == {"cpus": 0}


def test_constraints_are_judged_by_the_caller() -> None:
    admitted: set[tuple[Any, str]] = set()
    partition = partition_of({"queues": [{"name": "q"}]}, quantity=int)
    state = Tree(partition, [("n1", {"cpus": 2})], lambda constraint, node: (constraint, node) in admitted)
    state.submit(Application("a", "root.q", 0))
    state.ask(Ask("a", "t", (("cpus", 1),), constraint="ssd"))
    assert list(state.run()) == []
    admitted.add(("ssd", "n1"))
    conditions_changed(state, "n1")
    assert [one.ask.name for one in state.run()] == ["t"]
