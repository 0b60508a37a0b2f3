"""A new tree promises the rooms of victims to the applications for which a former leader has chosen the victims."""

from __future__ import annotations

import random

import pytest

from offers.ledger.holds import LONGEST, RETRY
from offers.policy.hierarchy.cluster import set_nodes
from offers.policy.hierarchy.gangs import Attempts
from offers.policy.hierarchy.preemption.preemption import preempt
from offers.policy.hierarchy.preemption.promises import Vacated, promises_to, renew
from offers.policy.hierarchy.state.application import Application
from offers.policy.hierarchy.state.model import Kept
from offers.policy.hierarchy.state.queue import QueueState
from offers.policy.hierarchy.tree import Tree
from tests.effort import check_few
from tests.unit.busycluster import BusyCluster
from tests.unit.core.placement.test_agent_holds import tree_options
from tests.unit.offers.policy.hierarchy.test_preemption import LATE, queue, running, tree
from tests.unit.offers.policy.hierarchy.test_regaining import crowded, wait


def interrupted(asks: int = 1, victims: int = 1, *, ended: bool = False) -> tuple[Tree, list[Vacated]]:
    """Nodes of one core that `q1` has used up; `q2` waits, and the first victims leave for it or have ended."""
    state = tree([queue("q1", None), queue("q2", 2)], {f"n{number}": 1 for number in range(4)})
    for number in range(4):
        running(state, "root.q1", f"n{number}", 1)
    for number in range(asks):
        wait(state, "web", "root.q2", name=f"w{number}")
    for allocation in list(state.applications["run-root.q1"].allocations.values())[:victims]:
        if ended:
            state.release(allocation.ask.application, allocation.ask.name)
        else:
            state.leave(allocation)
    return state, [Vacated("web", f"n{number}", LATE) for number in range(victims)]


def promised(state: Tree) -> list[tuple[str, str]]:
    """Asks with their nodes, in the order of the nodes."""
    return sorted(((one.ask.name, one.node) for one in promises_to(state, "web")), key=lambda pair: pair[1])


@pytest.mark.parametrize("ended", [False, True])
def test_the_rooms_of_victims_are_promised_again_and_no_other_victim_is_chosen(ended: bool) -> None:
    state, vacated = interrupted(asks=3, victims=2, ended=ended)
    assert renew(state, vacated, LATE) == []
    assert promised(state) == [("w0", "n0"), ("w1", "n1")]
    assert preempt(state, LATE) == []
    if ended:
        assert sorted(one.node for one in state.run()) == ["n0", "n1"]


def test_the_room_of_a_victim_that_old_work_lacks_is_promised_to_those_who_outrank_it() -> None:
    lacks = {"n0": {"cpus": 1}}
    for priority, expected in ((-1, [("w0", "n0")]), (0, [])):
        state, vacated = interrupted()
        wait(state, "old", "root.q2", name="o0")
        kept = Kept({"n0": {}}, lacks, frozenset({"old"}), priority, is_own=False, has_victims=True)
        state.begin(state.terms._replace(kept=kept))
        renew(state, vacated, LATE)
        assert promised(state) == expected


def test_room_that_is_leaving_already_needs_no_victims() -> None:
    state, _ = interrupted(asks=2)
    assert [(one.node, [victim.node for victim in one.victims]) for one in preempt(state, LATE)] == [
        ("n0", []),
        ("n1", ["n1"]),
    ]


def test_rooms_that_are_not_there_yet_are_awaited() -> None:
    state, _ = interrupted(asks=2, victims=0)
    coming = [Vacated("web", "n9", LATE), Vacated("web", "n0", LATE)]
    assert renew(state, coming, LATE) == coming
    assert preempt(state, LATE) == []
    set_nodes(state, {"n9": {"cpus": 1}})
    assert renew(state, coming, LATE + 1) == coming[1:]
    assert promised(state) == [("w0", "n9")]
    assert renew(state, coming[1:], LATE + LONGEST) == []
    assert [one.node for one in state.run()] == ["n9"]
    assert [victim.node for one in preempt(state, LATE + RETRY) for victim in one.victims] == ["n0"]


def test_the_time_of_a_room_does_not_pass_while_it_cannot_be_there() -> None:
    """As that of a promise: while something leaves the node, or while the node is not offered, for some time."""
    state, leaving = interrupted(asks=0)
    assert [one.since for one in renew(state, leaving, LATE + LONGEST)] == [LATE + LONGEST]
    state, _ = interrupted(asks=0, victims=0)
    unseen = [Vacated("web", "n0", LATE, LATE + 90.0)]
    state.submit(Application("web", "root.q2", 0))
    assert renew(state, unseen, LATE + LONGEST) == []
    (awaited,) = renew(state, unseen, LATE + LONGEST, lambda node: False)
    assert awaited.since == LATE + LONGEST
    assert renew(state, [awaited], LATE + 2 * LONGEST, lambda node: False) == []


def test_a_new_leader_expects_the_room_of_a_victim_that_took_long_to_end() -> None:
    owed = {"name": "owed", "resources": {"guaranteed": {"cpus": 1}}, "properties": {"preemption.delay": "1s"}}
    cluster = BusyCluster(tree_options({"name": "default"}, owed), {"a": 1000})
    cluster.create("low", 1000, max_unavailable=1)
    cluster.ends_after["default/low"] = LONGEST + 10.0
    cluster.seconds(3)
    cluster.create("team", 1000, namespace="owed")
    cluster.seconds(5)
    assert cluster.evicted
    cluster.create("other", 1000, priority=5)
    cluster.is_silent = True
    while cluster.evicted:
        cluster.second()
    cluster.succeed()
    cluster.is_silent = False
    cluster.seconds(10)
    assert cluster.groups("team", "owed") and not cluster.groups("other")


def test_room_for_an_update_stays_with_the_application_when_the_update_is_cancelled() -> None:
    owed = {"name": "owed", "resources": {"guaranteed": {"cpus": 1}}, "properties": {"preemption.delay": "9s"}}
    cluster = BusyCluster(tree_options({"name": "default"}, owed), {"a": 1000, "b": 500})
    cluster.create("low", 1000, max_unavailable=1)
    cluster.ends_after["default/low"] = 10.0
    cluster.seconds(3)
    cluster.create("team", 500, namespace="owed")
    cluster.seconds(3)
    cluster.create("filler", 500)
    cluster.update("team", 1000, namespace="owed")
    cluster.seconds(2)
    while not cluster.evicted:
        cluster.second()
    cluster.create("other", 1000, priority=5)
    cluster.seconds(7)
    (update,) = (one for one in cluster.lab.core.state.active_transactions() if one.type == "UPDATE")
    assert cluster.evicted and not cluster.lab.cancel(update).error
    cluster.seconds(6)
    assert cluster.groups("team", "owed") and not cluster.groups("other")


def test_no_ask_waits_for_the_room_of_an_application_that_is_gone() -> None:
    state, _ = interrupted()
    gone = Vacated("gone", "n0", LATE)
    assert renew(state, [gone], LATE) == [gone]
    assert len(preempt(state, LATE)) == 1


@pytest.mark.parametrize("case", ["satisfied", "stopped", "off"])
def test_nothing_is_promised_to_asks_that_may_not_preempt(case: str) -> None:
    state, vacated = interrupted(ended=True)
    if case == "satisfied":
        set_nodes(state, {"n9": {"cpus": 2}})
        running(state, "root.q2", "n9", 2)
    if case == "stopped":
        state.set_state("root.q2", QueueState.STOPPED)
    if case == "off":
        state.partition = state.partition._replace(preemption=False)
    assert renew(state, vacated, LATE) == vacated
    assert promised(state) == []


def test_a_gang_keeps_its_free_room_with_the_rooms_of_its_victims() -> None:
    state, vacated = interrupted(asks=2, victims=1)
    set_nodes(state, {"n9": {"cpus": 1}})
    attempts = Attempts(state)
    assert renew(state, vacated, LATE) == []
    assert attempts.run({"web": 2}) == []
    assert attempts.preempt({"web": 2}, LATE) == []
    attempts.restore()
    assert [node for _, node in promised(state)] == ["n0", "n9"]
    assert len({ask for ask, _ in promised(state)}) == 2


@pytest.mark.parametrize("seed", check_few(range(40), 4))
def test_no_queue_is_promised_more_than_its_guarantee_and_no_node_more_than_its_room(seed: int) -> None:
    chance = random.Random(seed)
    state, names = crowded(chance)
    waiting = [name for name, owner in state.applications.items() if owner.asks]
    vacated: list[Vacated] = []
    for name in names:
        for allocation in list(state.applications[f"run-{name}"].allocations.values()):
            if chance.random() < 0.6:
                vacated.append(Vacated(chance.choice(waiting), allocation.node, LATE))
                state.leave(allocation)
                if chance.random() < 0.5:
                    state.release(allocation.ask.application, allocation.ask.name)
    before = {name: state.queues[name].expected("cpus") for name in names}
    missing = renew(state, vacated, LATE)
    made = [one for name in waiting for one in promises_to(state, name)]
    assert len(made) == len(vacated) - len(missing)
    for name in names:
        assert state.queues[name].expected("cpus") <= max(before[name], state.queues[name].guaranteed.get("cpus", 0))
    assert all(node.room("cpus") >= 0 for node in state.nodes)
