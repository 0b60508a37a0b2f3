"""Another configuration: applied to a tree with applications, tried on a copy, and the causes that it explains."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from offers.policy.hierarchy.changes import CannotChange, Trial, apply, captured, copying, finished, trying
from offers.policy.hierarchy.configuration.document import partition_of
from offers.policy.hierarchy.configuration.partition import Partition
from offers.policy.hierarchy.explanation import Cause, cause_of
from offers.policy.hierarchy.maintenance import maintain
from offers.policy.hierarchy.placement import Submission
from offers.policy.hierarchy.queues import finish, place
from offers.policy.hierarchy.state.application import Application
from offers.policy.hierarchy.state.model import Allocation, Ask
from offers.policy.hierarchy.state.queue import QueueState
from offers.policy.hierarchy.tree import Tree
from offers.policy.waiting import WaitCode
from tests.unit.offers.policy.hierarchy.test_preemption import random_tree


def partition(*queues: Any, **document: Any) -> Partition:
    return partition_of({"queues": list(queues), **document}, quantity=int)


def cpus(guaranteed: int | None = None, most: int | None = None) -> dict[str, Any]:
    found: dict[str, Any] = {}
    if guaranteed is not None:
        found["guaranteed"] = {"cpus": guaranteed}
    if most is not None:
        found["max"] = {"cpus": most}
    return {"resources": found}


def submit(state: Tree, name: str, queue: str, count: int, **properties: Any) -> None:
    state.submit(Application(name, queue, float(len(state.applications)), properties.pop("user", "")))
    for number in range(count):
        state.ask(Ask(name, f"t{number}", (("cpus", 1),), float(number), **properties))


def counts(state: Tree) -> dict[str, int]:
    for _ in state.run():
        pass
    return {name: len(one.allocations) for name, one in state.applications.items() if one.allocations}


def copied(state: Tree) -> Tree:
    return finished(copying(captured(state)))


def trial(state: Tree, partition: Partition, now: float, **options: Any) -> Trial:
    return finished(trying(captured(state), partition, now, **options))


def summary(state: Tree) -> list[Any]:
    """Everything that decisions depend on and that can be compared."""
    queues = [
        (one.name, one.state, one.running, one.shown, one.is_temporary, dict(one.max), dict(one.guaranteed), *[
            {name: amount for name, amount in figures.items() if amount}
            for figures in (one.allocated, one.pending, one.leaving, one.promised, one.requests, one.places)
        ])
        for one in state.queues.values()
    ]  # fmt: skip
    nodes = [
        (one.name, one.free, one.key, sorted(one.promises), [entry[:2] for entry in one.running]) for one in state.nodes
    ]
    applications = [
        (one.name, one.key, sorted(one.asks), sorted(one.allocations), one.preempted_at)
        for one in state.applications.values()
    ]
    return [sorted(queues, key=str), nodes, sorted(applications, key=str), sorted(state.leaving)]


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32))
def test_a_copy_is_in_the_same_state_and_decides_the_same(seed: int) -> None:
    chance = random.Random(seed)
    state = random_tree(chance)
    maintain(state, 1000.0)
    before = summary(state)
    copy = copied(state)
    assert summary(copy) == before
    for victim in list(copy.leaving.values()):
        copy.release(victim.ask.application, victim.ask.name)
    found = list(copy.run())
    assert summary(state) == before
    for victim in list(state.leaving.values()):
        state.release(victim.ask.application, victim.ask.name)
    assert list(state.run()) == found
    assert summary(state) == summary(copy)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32))
def test_the_same_configuration_changes_nothing(seed: int) -> None:
    state = random_tree(random.Random(seed))
    maintain(state, 1000.0)
    before = summary(state)
    assert apply(state, state.partition) == []
    assert summary(state) == before


def test_a_tree_with_another_configuration_decides_as_one_that_began_with_it() -> None:
    old = partition(
        {"name": "a"}, {"name": "b", "properties": {"priority.offset": 5}}, {"name": "p", "queues": [{"name": "x"}]}
    )
    new = partition(
        {"name": "a", **cpus(None, 3), "properties": {"application.sort.policy": "fair"}},
        {"name": "b", "limits": [{"users": ["u"], "maxresources": {"cpus": 2}}]},
        {"name": "p", "queues": [{"name": "x", "maxapplications": 1}, {"name": "y"}]},
        nodesortpolicy={"type": "binpacking"},
    )  # fmt: skip
    trees = [Tree(one, [("n1", {"cpus": 5}), ("n2", {"cpus": 7})]) for one in (old, new)]
    for state in trees:
        for number in range(3):
            submit(state, f"a{number}", "root.a", 2, priority=number)
            submit(state, f"b{number}", "root.b", 2, user="u")
            submit(state, f"x{number}", "root.p.x", 2)
    apply(trees[0], new)
    submit(trees[0], "y", "root.p.y", 1)
    submit(trees[1], "y", "root.p.y", 1)
    assert list(trees[0].run()) == list(trees[1].run())


def test_queues_that_are_no_longer_configured_drain_and_may_return() -> None:
    one = partition({"name": "a"}, {"name": "b", **cpus(2)}, {"name": "c"})
    without = partition({"name": "a"})
    state = Tree(one, [("n1", {"cpus": 2})])
    submit(state, "b1", "root.b", 3)
    assert counts(state) == {"b1": 2}
    assert apply(state, without) == ["root.b"]
    assert "root.c" not in state.queues
    assert (state.queues["root.b"].state, state.queues["root.b"].guaranteed) == (QueueState.DRAINING, {})
    with pytest.raises(ValueError, match="takes no applications"):
        submit(state, "b2", "root.b", 1)
    state.release("b1", "t0")
    assert counts(state) == {"b1": 2}
    assert apply(copied(state), one) == []
    other = copied(state)
    apply(other, one)
    submit(other, "b2", "root.b", 1)
    assert other.queues["root.b"].guaranteed == {"cpus": 2}
    for name in ("t1", "t2"):
        state.release("b1", name)
    finish(state, "b1")
    assert "root.b" not in state.queues


def test_a_configuration_that_does_not_suit_the_applications_is_refused_whole() -> None:
    state = Tree(partition({"name": "a"}, {"name": "p", "queues": [{"name": "x"}]}), [("n1", {"cpus": 2})])
    submit(state, "a1", "root.a", 1)
    submit(state, "x1", "root.p.x", 1)
    before = summary(state)
    with pytest.raises(CannotChange) as refused:
        apply(state, partition({"name": "a", "queues": [{"name": "below"}]}, {"name": "p"}))
    assert [problem.path for problem in refused.value.problems] == ["root.a", "root.p"]
    assert summary(state) == before
    with pytest.raises(CannotChange):
        trial(state, partition({"name": "a", "parent": True}), 0.0)


def test_created_queues_stay_when_the_configuration_changes() -> None:
    rules = {"placementrules": [{"name": "user", "create": True}]}
    state = Tree(partition(**rules), [("n1", {"cpus": 2})])
    place(state, "u1", 0.0, Submission("ann"))
    assert apply(state, partition({"name": "a"}, **rules)) == []
    assert state.queues["root.ann"].state is QueueState.ACTIVE
    place(state, "u2", 0.0, Submission("ann"))


# --- trials ---------------------------------------------------------------------------------------------------


def test_a_trial_names_the_applications_that_would_wait_and_be_preempted() -> None:
    state = Tree(partition({"name": "a"}, {"name": "b"}, {"name": "c"}), [("n1", {"cpus": 10})])
    submit(state, "a1", "root.a", 6)
    assert counts(state) == {"a1": 6}
    submit(state, "b1", "root.b", 3)
    submit(state, "c1", "root.c", 3)
    assert counts(state) == {"a1": 6, "b1": 2, "c1": 2}
    before = summary(state)
    found = trial(
        state,
        partition(
            {"name": "a", **cpus(None, 4), "properties": {"quota.preemption.delay": "1m"}},
            {"name": "b", **cpus(3)},
            {"name": "c", "maxapplications": 1},
        ),
        100.0,
    )
    assert summary(state) == before
    assert [(one.allocation.ask.id, one.beneficiary) for one in found.preempted] == [("a1/t5", None), ("a1/t4", None)]
    assert (found.waits, found.moved_on, found.draining) == ((), ("b1", "c1"), ())
    tighter = trial(state, partition({"name": "a"}, {"name": "b", **cpus(3)}), 100.0)
    assert [(one.allocation.ask.id, one.beneficiary and one.beneficiary.id) for one in tighter.preempted] == [
        ("a1/t5", "b1/t2")
    ]
    assert tighter.draining == ("root.c",)
    assert tighter.moved_on == ("b1",)


@pytest.mark.parametrize(
    ("together", "idle", "victims"),
    [
        (False, [], ["new/t1", "old/t1"]),
        (True, [], ["new/t1"]),
        (True, [("new", "t1")], ["new/t1", "new/t0"]),
        (True, [("new", "t0"), ("new", "t1")], ["new/t1", "new/t0", "old/t1"]),
    ],
)
def test_a_trial_spends_the_budgets(together: bool, idle: list[tuple[str, str]], victims: list[str]) -> None:
    """One each, or one together; those that do not work spend nothing."""
    state = Tree(partition({"name": "a"}, {"name": "b"}), [("n1", {"cpus": 4})])
    for name in ("old", "new"):
        state.submit(Application(name, "root.a", float(len(state.applications))))
        for number in range(2):
            created = 2.0 * len(state.applications) + number
            state.recover(Allocation(Ask(name, f"t{number}", (("cpus", 1),), created), "n1"))
    submit(state, "b1", "root.b", 3)
    state.begin(state.terms._replace(allowance=lambda application: 1))
    state.begin(state.terms._replace(budget_of=lambda name: ("old", "new") if together and name != "b1" else (name,)))
    state.begin(state.terms._replace(idle=lambda: idle))
    found = trial(state, partition({"name": "a"}, {"name": "b", **cpus(3)}), 100.0)
    assert sorted(one.allocation.ask.id for one in found.preempted) == sorted(victims)


def test_a_trial_names_the_cause_of_a_wait() -> None:
    state = Tree(partition({"name": "a"}), [("n1", {"cpus": 10})])
    submit(state, "a1", "root.a", 4)
    found = trial(state, partition({"name": "a", **cpus(None, 1)}), 0.0)
    (wait,) = found.waits
    assert wait[:3] == ("a1", 3, 0)
    assert wait.cause == Cause(WaitCode.QUEUE_MAXIMUM, "root.a", lacks=(("cpus", 1),))


def test_a_trial_with_the_same_configuration_shows_no_difference() -> None:
    for seed in range(30):
        state = random_tree(random.Random(seed))
        found = trial(state, state.partition, 1000.0)
        assert (found.waits, found.moved_on, found.draining) == ((), (), ())


# --- causes ---------------------------------------------------------------------------------------------------


def test_causes_of_waits() -> None:
    state = Tree(
        partition(
            {"name": "p", **cpus(None, 6), "queues": [{"name": "a", "maxapplications": 1}, {"name": "b"}]},
            {"name": "u", "limits": [
                {"users": ["ann"], "maxresources": {"cpus": 1}}, {"users": ["bob"], "maxapplications": 1}
            ]},
        ),
        [("n1", {"cpus": 9}), ("n2", {"cpus": 9})],
    )  # fmt: skip
    submit(state, "a1", "root.p.a", 1)
    submit(state, "a2", "root.p.a", 1)
    submit(state, "ann", "root.u", 2, user="ann")
    submit(state, "bob1", "root.u", 1, user="bob")
    submit(state, "bob2", "root.u", 1, user="bob")
    submit(state, "b1", "root.p.b", 7)
    submit(state, "wide", "root.u", 0)
    state.ask(Ask("wide", "t", (("cpus", 10),)))
    state.ask(Ask("wide", "pinned", (("cpus", 9),), required_node="n1"))
    state.ask(Ask("wide", "lost", (("cpus", 1),), required_node="n3"))
    assert cause_of(state, "a1", "t0") == Cause(WaitCode.TURN)
    counts(state)
    assert cause_of(state, "a2", "t0") == Cause(WaitCode.QUEUE_APPLICATIONS, "root.p.a", limit=1)
    assert cause_of(state, "ann", "t1") == Cause(WaitCode.LIMIT_RESOURCES, "root.u", "user ann", (("cpus", 1),))
    assert cause_of(state, "bob2", "t0") == Cause(WaitCode.LIMIT_APPLICATIONS, "root.u", "user bob", limit=1)
    assert cause_of(state, "b1", "t6") == Cause(WaitCode.QUEUE_MAXIMUM, "root.p", lacks=(("cpus", 1),))
    assert cause_of(state, "wide", "t") == Cause(WaitCode.NODES)
    assert cause_of(state, "wide", "pinned").kind is WaitCode.REQUIRED_NODE
    assert cause_of(state, "wide", "lost") == Cause(WaitCode.REQUIRED_NODE, "n3", lacks=(("cpus", 1),))
    state.set_state("root.u", QueueState.STOPPED)
    assert cause_of(state, "wide", "t") == Cause(WaitCode.QUEUE_STOPPED, "root.u")


def test_a_promised_node_is_named() -> None:
    state = Tree(partition({"name": "a"}, {"name": "b", **cpus(1)}), [("n1", {"cpus": 1})])
    state.submit(Application("runs", "root.a", 0))
    state.recover(Allocation(Ask("runs", "t", (("cpus", 1),)), "n1"))
    submit(state, "waits", "root.b", 1)
    counts(state)
    (found,) = maintain(state, 100.0).preemptions
    assert found.node == "n1"
    state.release("runs", "t")
    assert cause_of(state, "waits", "t0") == Cause(WaitCode.TURN)
    assert counts(state) == {"waits": 1}


def test_the_maximum_of_a_queue_holds_its_promises_beside_further_asks() -> None:
    """Others end for `first`. With `second`, its queue would have its maximum before the room comes."""
    state = Tree(partition({"name": "a"}, {"name": "b", **cpus(most=3)}), [("n1", {"cpus": 2}), ("n2", {"cpus": 1})])
    for name, queue in (("others", "root.a"), ("runs", "root.b")):
        state.submit(Application(name, queue, 0))
        state.recover(Allocation(Ask(name, "t", (("cpus", 1),)), "n1"))
    state.submit(Application("first", "root.b", 1))
    state.ask(Ask("first", "t0", (("cpus", 2),)))
    state.promise("first", "t0", "n1")
    submit(state, "second", "root.b", 1)
    assert counts(state) == {"others": 1, "runs": 1}
    assert cause_of(state, "second", "t0") == Cause(WaitCode.QUEUE_KEPT, "root.b", lacks=(("cpus", 1),))
    state.release("others", "t")
    assert counts(state) == {"runs": 1}
    state.release("runs", "t")
    assert counts(state) == {"first": 1, "second": 1}


def test_asks_wait_no_longer_for_a_promise_that_ends() -> None:
    state = Tree(partition({"name": "b", **cpus(most=3)}), [("n1", {"cpus": 2}), ("n2", {"cpus": 2})])
    state.submit(Application("first", "root.b", 1))
    state.ask(Ask("first", "t0", (("cpus", 3),)))
    submit(state, "second", "root.b", 1)
    state.promise("first", "t0", "n1")
    assert counts(state) == {}
    state.withdraw("first", "t0")
    assert counts(state) == {"second": 1}


def test_a_trial_in_steps_answers_for_the_moment_at_which_it_began() -> None:
    tree = Tree(partition_of({"queues": [{"name": "a"}]}, quantity=int), [(f"n{n}", {"cpus": 10}) for n in range(500)])
    tree.submit(Application("app", "root.a", 0.0))
    for number in range(3000):
        tree.ask(Ask("app", f"t{number}", (("cpus", 1),), 0.0))
    assert len(list(tree.run())) == 3000
    smaller = partition_of(
        {
            "queues": [
                {"name": "a", "resources": {"max": {"cpus": 1000}}, "properties": {"quota.preemption.delay": "1s"}}
            ]
        },
        quantity=int,
    )
    expected = trial(tree, smaller, 100.0)
    assert len(expected.preempted) == 2000
    steps = trying(captured(tree), smaller, 100.0)
    number = 0
    while True:
        try:
            next(steps)
        except StopIteration as end:
            found = end.value
            break
        number += 1
        if number % 3 == 0:  # the cluster changes meanwhile
            tree.release("app", f"t{number}")
    assert number > 30 and found == expected
