"""Preemption towards guarantees: the specified vector, the pre-conditions, and the seven laws on random clusters."""

from __future__ import annotations

import random
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from offers.ledger.holds import LONGEST, RETRY
from offers.policy.hierarchy.configuration.document import partition_of
from offers.policy.hierarchy.configuration.partition import Fencing, PreemptionPolicy
from offers.policy.hierarchy.maintenance import keep, maintain, spare
from offers.policy.hierarchy.preemption import preemption
from offers.policy.hierarchy.preemption.preemption import attempt, preempt
from offers.policy.hierarchy.preemption.promises import hand_over, promises_to
from offers.policy.hierarchy.preemption.quota import give_back, spread
from offers.policy.hierarchy.preemption.reservation import expire, reserve
from offers.policy.hierarchy.state.application import Application
from offers.policy.hierarchy.state.model import Allocation, Ask, Preemption
from offers.policy.hierarchy.state.queue import Queue, QueueState
from offers.policy.hierarchy.tree import Tree
from tests.vectors.reading import read
from tests.vectors.running import judge

SPECIFIED = Path(__file__).parents[4] / "vectors" / "policy_vectors.json"
LATE = 1000.0
ONE_MORE = (("t7", 2), ("t8", 1), ("t9", 1))
"""Names and amounts of asks."""


def queue(name: str, guaranteed: int | None = None, most: int | None = None, *queues: Any, **properties: Any) -> Any:
    resources: dict[str, Any] = {}
    if guaranteed is not None:
        resources["guaranteed"] = {"cpus": guaranteed}
    if most is not None:
        resources["max"] = {"cpus": most}
    names = {"offset": "priority.offset", "fence": "priority.policy", "preemption": "preemption.policy"}
    names |= {"delay": "preemption.delay", "quota": "quota.preemption.delay"}
    return {
        "name": name,
        "resources": resources,
        "queues": list(queues),
        "properties": {names[key]: value for key, value in properties.items()},
    }


def tree(queues: list[Any], nodes: dict[str, int], **document: Any) -> Tree:
    partition = partition_of({"queues": queues, **document}, quantity=int)
    return Tree(partition, [(name, {"cpus": total}) for name, total in nodes.items()])


def running(state: Tree, leaf: str, node: str, *amounts: int, **properties: Any) -> None:
    application = f"run-{leaf}"
    if application not in state.applications:
        state.submit(Application(application, leaf, 0))
    for amount in amounts:
        number = len(state.applications[application].allocations)
        ask = Ask(application, f"t{number}", (("cpus", amount),), float(number), **properties)
        state.recover(Allocation(ask, node))


def pending(state: Tree, leaf: str, *amounts: int, **properties: Any) -> list[Ask]:
    application = f"wait-{leaf}"
    if application not in state.applications:
        state.submit(Application(application, leaf, 0))
    asks = []
    for amount in amounts:
        name = f"t{len(state.applications[application].asks)}"
        asks.append(Ask(application, name, (("cpus", amount),), **properties))
        state.ask(asks[-1])
    assert list(state.run()) == []
    return asks


def victims(found: Preemption | None) -> list[str] | None:
    return None if found is None else [one.ask.id for one in found.victims]


def full() -> Tree:
    """One node; q1 uses all of it, twice its guarantee; q2 has a guarantee and nothing."""
    state = tree([queue("q1", 2), queue("q2", 2)], {"n1": 4})
    running(state, "root.q1", "n1", 1, 1, 1, 1)
    return state


def test_victims_that_a_larger_one_of_the_same_round_makes_needless_stay() -> None:
    state = tree([queue("q1"), queue("q2", 3)], {"n1": 5})
    running(state, "root.q1", "n1", 3, 1, 1)
    asks = pending(state, "root.q2", 1, 1, 1)
    found = spare(state, maintain(state, LATE).preemptions)
    assert [victims(one) for one in found] == [[], [], ["run-root.q1/t0"]]
    assert list(state.leaving) == ["run-root.q1/t0"] and state.nodes.by_name["n1"].leaving == {"cpus": 3}
    assert state.queues["root.q1"].leaving == {"cpus": 3} and state.applications["run-root.q1"].leaving == 1
    assert maintain(state, LATE + RETRY).preemptions == ()
    state.release("run-root.q1", "t0")
    assert [one.ask for one in state.run()] == asks


@pytest.mark.parametrize("leaving", ["own", "another"])
def test_an_ask_that_needs_no_victims_gets_a_promise_and_ends_nothing(leaving: str) -> None:
    """Its own queue, above the maximum, is giving back; or the room of another queue is leaving already."""
    state = tree([queue("q1"), queue("q2", 1, 1)], {"n1": 1, "n2": 1, "n3": 2})
    running(state, "root.q1", "n1", 1)
    running(state, "root.q2" if leaving == "own" else "root.q1", "n3", 2)
    if leaving == "another":
        running(state, "root.q1", "n2", 1)
    ask = pending(state, "root.q2", 1)[0]
    state.leave(state.nodes.by_name["n3"].running[0].allocation)
    found = attempt(state, ask, LATE)
    node = "n2" if leaving == "own" else "n3"
    assert found is not None and (found.node, found.victims) == (node, ())
    state.release("run-root.q2" if leaving == "own" else "run-root.q1", "t0" if leaving == "own" else "t1")
    assert list(state.run()) == [Allocation(ask, node)]


@pytest.mark.parametrize("with_maximum", [False, True])
def test_victims_stay_as_far_as_a_maximum_or_the_guarantee_of_the_ask_admits(with_maximum: bool) -> None:
    wants = queue("q2", 3) if with_maximum else {"name": "q2", "resources": {"guaranteed": {"mem": 1}}}
    parent = queue("p", None if with_maximum else 4, 4 if with_maximum else None, queue("q1"), wants)
    state = tree([parent, queue("q0", 2)], {"n1": 6})
    running(state, "root.p.q1", "n1", 2, 1, 1)
    if not with_maximum:
        running(state, "root.q0", "n1", 2)
    pending(state, "root.p.q2", 1, 1, 1)
    found = spare(state, maintain(state, LATE).preemptions)
    assert sorted(chain.from_iterable(victims(one) or [] for one in found)) == ["run-root.p.q1/t0", "run-root.p.q1/t2"]
    assert state.queues["root.p"].expected("cpus") == 4


def test_the_specified_preemption() -> None:
    vectors = [vector for vector in read(SPECIFIED) if vector.id == "D23"]
    assert [verdict.line for verdict in judge(vectors) if verdict.differences] == []


def test_another_victim_than_expected_fails() -> None:
    (vector,) = (vector for vector in read(SPECIFIED) if vector.id == "D23")
    expected = [dict(entry) for entry in vector.expect["preemption"]]
    expected[0]["result"] = {**expected[0]["result"], "victims": ["A/d"]}
    (verdict,) = judge([vector._replace(expect={"preemption": expected})])
    assert verdict.differences == ["expect.preemption[0].result.victims[0]: 'A/t3' instead of 'A/d'"]


def test_a_preemption_promises_the_node_until_the_ask_is_placed() -> None:
    state = full()
    (ask, other) = pending(state, "root.q2", 1, 1)
    (first, second) = preempt(state, LATE)
    assert [victims(first), victims(second)] == [["run-root.q1/t3"], ["run-root.q1/t2"]]
    assert state.nodes.by_name["n1"].promises == {ask.id: ask, other.id: other}
    state.ask(Ask("run-root.q1", "greedy", (("cpus", 1),), 0.0, 9))
    state.release("run-root.q1", "t3")
    assert [one.ask for one in state.run()] == [ask]
    state.release("run-root.q1", "t2")
    assert [one.ask for one in state.run()] == [other]
    assert state.leaving == {} and state.nodes.by_name["n1"].promises == {}
    assert preempt(state, LATE + 60) == []


@pytest.mark.parametrize(
    ("change", "tried"),
    [
        ({"may_preempt": False}, False),
        ({"required_node": "n1"}, False),
        ({"created": LATE - 29.0}, False),
        ({"created": LATE - 30.0}, True),
    ],
)
def test_pre_conditions_of_an_ask(change: dict[str, Any], tried: bool) -> None:
    state = full()
    pending(state, "root.q2", 1, **change)
    assert bool(preempt(state, LATE)) is tried


def test_preemption_can_be_switched_off() -> None:
    state = tree([queue("q1", 2), queue("q2", 2)], {"n1": 4}, preemption={"enabled": False})
    running(state, "root.q1", "n1", 1, 1, 1, 1)
    (ask,) = pending(state, "root.q2", 1)
    assert preempt(state, LATE) == []
    assert attempt(state, ask, LATE) is None


def searched(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the asks that have searched for victims from now on."""
    names, honest = list[str](), preemption.plan

    def counted(tree: Tree, leaf: Queue, ask: Ask, *rest: Any) -> preemption.Planned:
        names.append(ask.name)
        return honest(tree, leaf, ask, *rest)

    monkeypatch.setattr(preemption, "plan", counted)
    return names


def test_a_try_in_vain_that_depends_on_the_tree_alone_is_repeated_when_something_has_changed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Whether the memory of the try is there or was dropped: a pause would depend on that."""
    state, searches = full(), searched(monkeypatch)
    (ask,) = pending(state, "root.q2", 3)
    assert [attempt(state, ask, LATE + number) for number in range(3)] == [None] * 3 and len(searches) == 1
    state.queues["root.q2"].fruitless.clear()
    assert attempt(state, ask, LATE + 3) is None and len(searches) == 2
    state.release("run-root.q1", "t0")
    assert attempt(state, ask, LATE + 4) is None and len(searches) == 3
    assert not state.applications[ask.application].preempted_at
    small = pending(state, "root.q2", 2)[0]
    assert attempt(state, small, LATE) is not None


def test_a_promise_to_an_ask_that_is_gone_passes_to_one_that_is_alike() -> None:
    state = full()
    (ask, other) = pending(state, "root.q2", 1, 1)
    preempt(state, LATE)
    before = promises_to(state, ask.application)
    expected = state.queues["root.q2"].expected("cpus")
    state.withdraw(ask.application, ask.name)
    unlike, alike, late = (ask._replace(name=name, request=(("cpus", amount),)) for name, amount in ONE_MORE)
    state.ask_all([unlike, alike, late])
    hand_over(state, before, [unlike, alike, late])
    assert {one.ask for one in promises_to(state, ask.application)} == {alike, other}
    assert state.queues["root.q2"].expected("cpus") == expected
    assert state.applications[ask.application].preempted_at[alike.name] == LATE
    assert preempt(state, LATE) == []


def test_an_ask_whose_promise_is_lost_preempts_again() -> None:
    state = full()
    (ask,) = pending(state, "root.q2", 1)
    found = attempt(state, ask, LATE)
    assert found is not None
    assert attempt(state, ask, LATE + RETRY) is None
    state.forget_promise(ask.application, ask.name)
    for victim in found.victims:
        state.release(victim.ask.application, victim.ask.name)
        state.recover(victim)
    assert attempt(state, ask, LATE + 14.9) is None
    again = attempt(state, ask, LATE + 15.0)
    assert again is not None and again.ask == ask


def split() -> Tree:
    """Two nodes with a free core each, and a full one; q1 uses the others."""
    state = tree([queue("q1", 2), queue("q2", 4)], {"n1": 3, "n2": 3, "n3": 1})
    running(state, "root.q1", "n1", 2)
    running(state, "root.q1", "n2", 1, 1)
    running(state, "root.q1", "n3", 1)
    return state


SOON = {"n1": {"cpus": 1}}
"""An end that is near in the nodes of `split`."""


def test_an_ask_that_has_reserved_a_node_preempts() -> None:
    state = split()
    (ask,) = pending(state, "root.q2", 2)
    assert preempt(state, 10.0) == []
    (made,) = reserve(state, 10.0, SOON)
    assert (made.ask, made.node) == (ask, "n1")
    assert list(state.run()) == []
    (found,) = preempt(state, LATE)
    assert (found.ask, len(found.victims)) == (ask, 1)
    assert preempt(state, LATE + RETRY) == []


def test_an_ask_that_finds_no_victims_keeps_its_reservation() -> None:
    state = split()
    state.begin(state.terms._replace(allowance=lambda application: 0))
    (ask,) = pending(state, "root.q2", 2)
    reserve(state, 10.0, SOON)
    assert list(state.run()) == []
    assert preempt(state, LATE) == []
    assert list(state.nodes.by_name["n1"].promises.values()) == [ask]
    assert expire(state, 9.0 + LONGEST, SOON) == []
    assert expire(state, 10.0 + LONGEST, SOON) == [ask]


def test_an_ask_that_has_reserved_a_node_whose_room_comes_ends_nothing() -> None:
    state = split()
    pending(state, "root.q2", 2)
    state.leave(state.applications["run-root.q1"].allocations["t1"])
    assert [one.node for one in reserve(state, 10.0)] == ["n2"]
    assert preempt(state, LATE) == []


def test_the_reservations_of_others_cost_no_victims() -> None:
    state = tree([queue("q1"), queue("q2", 4)], {"n1": 3, "n2": 3, "n3": 1})
    running(state, "root.q1", "n1", 1, 1)
    running(state, "root.q1", "n2", 1, 1)
    running(state, "root.q1", "n3", 1)
    pending(state, "root.q1", 2)
    assert len(reserve(state, 10.0, SOON)) == 1
    (ask,) = pending(state, "root.q2", 2)
    (found,) = preempt(state, LATE)
    assert (found.ask, len(found.victims)) == (ask, 1)


def test_a_reservation_that_ends_does_not_delay_preemption() -> None:
    state = split()
    state.begin(state.terms._replace(allowance=lambda application: 0))
    (ask,) = pending(state, "root.q2", 2)
    reserve(state, LATE, SOON)
    assert preempt(state, LATE) == []
    assert expire(state, LATE + LONGEST, SOON) == [ask]
    assert list(state.run()) == []
    state.begin(state.terms._replace(allowance=None))
    assert [one.ask for one in preempt(state, LATE + LONGEST)] == [ask]


def test_an_ask_whose_victim_was_not_ended_preempts_again() -> None:
    state = full()
    (ask, other) = pending(state, "root.q2", 1, 1)
    (first, second) = preempt(state, LATE)
    assert (first.ask, second.ask) == (ask, other)
    keep(state, second.victims[0])
    assert list(state.nodes.by_name["n1"].promises.values()) == [ask]
    assert list(state.run()) == []
    assert preempt(state, LATE + RETRY / 2) == []
    assert [one.ask for one in preempt(state, LATE + RETRY)] == [other]


def test_an_ask_whose_promise_was_not_kept_in_time_pauses_for_longer() -> None:
    state = full()
    (ask,) = pending(state, "root.q2", 2)
    found = attempt(state, ask, LATE)
    assert found is not None
    assert expire(state, LATE) == []
    for victim in found.victims:
        state.release(victim.ask.application, victim.ask.name)
        state.recover(victim)
    assert expire(state, LATE) == []
    assert expire(state, LATE + LONGEST) == [ask]
    assert attempt(state, ask, LATE + 2 * LONGEST) is None
    assert attempt(state, ask, LATE + 2 * LONGEST + RETRY) is not None


def test_the_asks_of_a_leaf_have_a_bounded_number_of_tries() -> None:
    state = tree([queue("q1", 0), queue("q2", 40)], {"n1": 40})
    running(state, "root.q1", "n1", *[1] * 40)
    pending(state, "root.q2", *[1] * 30)
    assert len(preempt(state, LATE)) == 10
    assert len(preempt(state, LATE)) == 10


def test_asks_that_fail_alike_are_tried_once(monkeypatch: pytest.MonkeyPatch) -> None:
    state, searches = tree([queue("q1", 4), queue("q2", 40)], {"n1": 4}), searched(monkeypatch)
    running(state, "root.q1", "n1", 1, 1, 1, 1)
    asks = pending(state, "root.q2", *[1] * 30)
    assert preempt(state, LATE) == []
    assert searches == [asks[0].name]


def test_a_queue_without_any_guarantee_does_not_preempt() -> None:
    state = tree([queue("q1"), queue("q2", None, 3)], {"n1": 4})
    running(state, "root.q1", "n1", 1, 1, 1, 1)
    pending(state, "root.q2", 1)
    assert preempt(state, LATE) == []


def test_the_guarantee_of_a_parent_counts() -> None:
    state = tree([queue("q1"), queue("p", 2, None, queue("a"), queue("b"))], {"n1": 4})
    running(state, "root.q1", "n1", 1, 1, 1)
    running(state, "root.p.b", "n1", 1)
    first, _ = pending(state, "root.p.a", 1, 1)
    assert [victims(one) for one in preempt(state, LATE)] == [["run-root.q1/t2"]]
    assert state.nodes.by_name["n1"].promises.keys() >= {first.id}


def test_an_ask_of_a_queue_far_above_its_guarantee_ends_nothing() -> None:
    """The guarantee is a condition, and no number of victims: as a goal, it took 7 of 8."""
    state = tree([queue("teams", 2, None, queue("a"), queue("b"))], {"n1": 8})
    running(state, "root.teams.a", "n1", *[1] * 8)
    pending(state, "root.teams.b", 1)
    assert preempt(state, LATE) == []


def test_leaves_without_guarantees_do_not_take_the_room_of_each_other() -> None:
    """YUNIKORN-2769, YUNIKORN-2795: otherwise they swap their work without end."""
    state = tree([queue("team", 4, None, queue("alice"), queue("bob"))], {"n1": 4})
    running(state, "root.team.alice", "n1", 1, 1, 1, 1)
    pending(state, "root.team.bob", 1, 1, 1, 1)
    assert preempt(state, LATE) == []


def inner(alice: dict[str, int], room: int, **amounts: int) -> list[Preemption]:
    """Two leaves below a queue with 4 cores, one of them with a guarantee of its own for another resource, for which
    one core of that leaf waits. The other one runs `room` times one core."""
    team = queue("team", 4, None, queue("alice"), queue("bob"))
    team["resources"]["guaranteed"] |= alice
    team["queues"][0]["resources"] = {"guaranteed": alice}
    partition = partition_of({"queues": [team, queue("other")]}, quantity=int)
    state = Tree(partition, [("n1", {"cpus": room, "gpus": 2})])
    for leaf, amount in amounts.items():
        running(state, {"bob": "root.team.bob", "other": "root.other"}[leaf], "n1", *[1] * amount)
    pending(state, "root.team.alice", 1)
    return preempt(state, LATE)


def test_a_guarantee_below_admits_victims_among_siblings() -> None:
    assert [victims(one) for one in inner({"gpus": 2}, 8, bob=8)] == [["run-root.team.bob/t7"]]
    assert inner({}, 8, bob=8) == []


def test_a_queue_above_its_guarantee_takes_nothing_from_others() -> None:
    assert [victims(one) for one in inner({"gpus": 2}, 11, bob=5, other=6)] == [["run-root.team.bob/t4"]]
    assert [victims(one) for one in inner({"gpus": 2}, 9, bob=3, other=6)] == [["run-root.other/t5"]]


def test_a_large_victim_is_found_behind_a_small_one_that_uses_up_what_its_queue_can_lose() -> None:
    state = tree([queue("q1", 2), queue("q2", 4)], {"n1": 5})
    running(state, "root.q1", "n1", 3, 1, 1)
    pending(state, "root.q2", 3)
    (found,) = preempt(state, LATE)
    assert victims(found) == ["run-root.q1/t0"]


def test_victims_that_are_not_needed_run_on() -> None:
    state = tree([queue("q1"), queue("q2", 4)], {"n1": 4})
    running(state, "root.q1", "n1", 3, 1)
    pending(state, "root.q2", 3)
    (found,) = preempt(state, LATE)
    assert victims(found) == ["run-root.q1/t0"]


def test_a_fence_keeps_preemption_inside() -> None:
    fenced = queue("p", None, None, queue("a", 2), queue("b"), preemption="fence")
    state = tree([queue("q1"), fenced], {"n1": 4})
    running(state, "root.q1", "n1", 1, 1, 1)
    running(state, "root.p.b", "n1", 1)
    pending(state, "root.p.a", 1, 1)
    (found,) = preempt(state, LATE)
    assert (found.fence, victims(found)) == ("root.p", ["run-root.p.b/t0"])


def test_a_maximum_in_the_way_bounds_the_search() -> None:
    state = tree([queue("q1"), queue("p", None, 2, queue("a", 1), queue("b"))], {"n1": 3, "n2": 8})
    running(state, "root.q1", "n1", 1)
    running(state, "root.p.b", "n1", 1, 1)
    pending(state, "root.p.a", 1)
    (found,) = preempt(state, LATE)
    assert (found.fence, found.node, victims(found)) == ("root.p", "n1", ["run-root.p.b/t1"])


def test_victims_on_several_nodes_make_room_below_a_maximum() -> None:
    state = tree([queue("p", None, 2, queue("a", 2), queue("b"))], {"n1": 1, "n2": 1, "n3": 4})
    running(state, "root.p.b", "n1", 1)
    running(state, "root.p.b", "n2", 1)
    pending(state, "root.p.a", 2)
    (found,) = preempt(state, LATE)
    assert (found.node, victims(found)) == ("n3", ["run-root.p.b/t1", "run-root.p.b/t0"])
    for name in ("t1", "t0"):
        state.release("run-root.p.b", name)
    assert [one.node for one in state.run()] == ["n3"]


@pytest.mark.parametrize(
    ("foreign", "priority", "own", "found"),
    [
        ({}, 0, {}, True),
        ({}, 1, {}, False),
        ({"offset": 1}, 0, {}, False),
        ({"offset": 1}, 0, {"offset": 1}, True),
        ({"offset": -1}, 1, {}, True),
        ({"fence": "fence"}, 99, {}, True),
        ({"fence": "fence", "offset": 1}, -99, {}, False),
        ({}, 3, {"fence": "fence", "offset": 3}, True),
        ({}, 4, {"fence": "fence", "offset": 3}, False),
        ({"preemption": "disabled"}, 0, {}, False),
    ],
)
def test_priorities_are_compared_where_the_branches_meet(
    foreign: dict[str, Any], priority: int, own: dict[str, Any], found: bool
) -> None:
    state = tree([queue("q1", None, None, queue("x"), **foreign), queue("q2", 4, **own)], {"n1": 1})
    running(state, "root.q1.x", "n1", 1, priority=priority)
    pending(state, "root.q2", 1)
    assert bool(preempt(state, LATE)) is found


def test_a_large_victim_does_not_cross_the_guarantee() -> None:
    state = tree([queue("q1", 2), queue("q2", 2)], {"n1": 4})
    running(state, "root.q1", "n1", 3, 1)
    pending(state, "root.q2", 2)
    assert preempt(state, LATE) == []


def test_the_order_of_victims() -> None:
    state = tree([queue("q1"), queue("q2", 4)], {"n1": 4})
    running(state, "root.q1", "n1", 1, preemptable=True)
    running(state, "root.q1", "n1", 1, preemptable=False)
    running(state, "root.q1", "n1", 1, originator=True)
    running(state, "root.q1", "n1", 1, required_node="n1")
    pending(state, "root.q2", 3)
    (found,) = preempt(state, LATE)
    assert victims(found) == ["run-root.q1/t0", "run-root.q1/t2", "run-root.q1/t1"]


def test_the_node_with_the_fewest_victims_is_chosen() -> None:
    state = tree([queue("q1"), queue("q2", 4)], {"n1": 3, "n2": 3, "n3": 3})
    running(state, "root.q1", "n1", 1, 1, 1)
    running(state, "root.q1", "n2", 1, 2)
    running(state, "root.q1", "n3", 2, 1)
    pending(state, "root.q2", 2)
    (found,) = preempt(state, LATE)
    assert (found.node, victims(found)) == ("n2", ["run-root.q1/t4"])


def test_a_further_condition_excludes_nodes() -> None:
    state = tree([queue("q1"), queue("q2", 4)], {"n1": 1, "n2": 1})
    running(state, "root.q1", "n1", 1)
    running(state, "root.q1", "n2", 1)
    pending(state, "root.q2", 1)
    judged: list[tuple[str, list[str]]] = []

    def check(_ask: Ask, node: str, gone: tuple[Allocation, ...]) -> bool:
        judged.append((node, [victim.ask.name for victim in gone]))
        return node != "n1"

    (found,) = preempt(state, LATE, check)
    assert found.node == "n2"
    assert judged == [("n1", ["t0"]), ("n2", ["t1"])]


# --- laws -----------------------------------------------------------------------------------------------------


def random_tree(chance: random.Random) -> Tree:
    def one(name: str, *children: Any) -> Any:
        return queue(
            name,
            chance.choice((None, None, 1, 2, 3)),
            chance.choice((None, None, None, 12, 15)) if not children else None,
            *children,
            offset=chance.choice((0, 0, 1, -1)),
            fence=chance.choice(("default", "default", "fence")),
            preemption=chance.choice(("default", "default", "default", "fence", "disabled")),
        )

    def without_sums(entry: Any) -> Any:
        if entry["queues"]:
            entry["resources"].pop("guaranteed", None)
            if chance.random() < 0.5:
                below = sum(child["resources"].get("guaranteed", {}).get("cpus", 0) for child in entry["queues"])
                entry["resources"]["guaranteed"] = {"cpus": below + chance.randint(0, 2)}
        return entry

    queues = [without_sums(one("p", one("a"), one("b"))), one("c"), without_sums(one("d", one("e")))]
    nodes = {f"n{number}": chance.randint(1, 6) for number in range(chance.randint(1, 4))}
    state = tree(queues, nodes)
    leaves = [leaf.name for leaf in state.root.leaves()]
    for node, total in nodes.items():
        left = total
        while left > 0:
            amount = min(left, chance.randint(1, 3))
            leaf = state.queues[chance.choice(leaves)]
            left -= amount
            if not any(one.exceeded((("cpus", amount),)) for one in leaf.path):
                running(state, leaf.name, node, amount, priority=chance.randint(-1, 2))
    for leaf_name in leaves:
        application = f"wait-{leaf_name}"
        state.submit(Application(application, leaf_name, 0))
        for number in range(chance.randint(0, 3)):
            request = (("cpus", chance.randint(1, 3)),)
            state.ask(Ask(application, f"t{number}", request, float(number), chance.randint(0, 2)))
    for _ in state.run():
        pass
    return state


def usage(of: Queue) -> int:
    return of.allocated.get("cpus", 0) - of.leaving.get("cpus", 0)


def shown(leaf: Queue, top: Queue, priority: int) -> int:
    """The priority that the child of `top` above a leaf shows."""
    for one in leaf.path[: leaf.path.index(top)]:
        properties = one.config.properties
        fenced = properties.priority_policy is Fencing.FENCE
        priority = properties.priority_offset + (0 if fenced else priority)
    return priority


@settings(max_examples=300, deadline=None)
@given(st.integers(0, 2**32))
def test_the_seven_laws(seed: int) -> None:
    state = random_tree(random.Random(seed))
    while True:
        before = {name: usage(one) for name, one in state.queues.items()}
        found = next(iter(preempt_one(state)), None)
        if found is None:
            break
        leaf = state.queues[state.applications[found.ask.application].queue]
        promised = leaf.promised.get("cpus", 0)
        guaranteeing = next(one for one in leaf.path if "cpus" in one.guaranteed)
        assert found.victims
        # 4: only a queue below its guarantee preempts, and it does not go further
        assert usage(guaranteeing) + guaranteeing.promised["cpus"] <= guaranteeing.guaranteed["cpus"]
        assert promised >= dict(found.ask.request)["cpus"]
        fence = state.queues[found.fence]
        for victim in found.victims:
            lost = state.queues[state.applications[victim.ask.application].queue]
            # 1: an allocation that admits preemption is preferred; here a queue that is disabled loses nothing
            assert all(
                one.config.properties.preemption_policy is not PreemptionPolicy.DISABLED
                for one in lost.path
                if one not in leaf.path
            )
            # 2 and 5: only queues above their guarantee lose, and they stay at or above it
            for one in lost.path:
                if one not in leaf.path and "cpus" in one.guaranteed:
                    assert before[one.name] > one.guaranteed["cpus"] <= usage(one)
            # 3: not inside one application, nor one leaf
            assert lost is not leaf
            # 6: the victim is not more important where the branches meet
            meeting = next(one for one in lost.path if one in leaf.path)
            assert shown(lost, meeting, victim.ask.priority) <= shown(leaf, meeting, found.ask.priority)
            # 7: not outside the fence
            assert fence in lost.path
        # the ask fits its node and every maximum once the victims are gone
        for victim in found.victims:
            state.release(victim.ask.application, victim.ask.name)
        if all(queue.state is not QueueState.STOPPED for queue in leaf.path):
            placed = state.cycle()
            assert placed is not None and (placed.ask, placed.node) == (found.ask, found.node)
        for _ in state.run():
            pass


def preempt_one(state: Tree) -> list[Preemption]:
    """The first preemption of the cycle that starts now; asks may have tried before."""
    for application in state.applications.values():
        for name, group in list(application.asks.items()):
            (ask,) = (entry[2] for entry in group.asks if entry[1] == name)
            application.preempted_at.pop(name, None)
            result = attempt(state, ask, LATE)
            if result is not None:
                return [result]
    return []


# --- quota preemption -----------------------------------------------------------------------------------------


def lowered(state: Tree, name: str, most: int) -> None:
    state.queues[name].max = {"cpus": most}


def test_a_lowered_maximum_is_enforced_after_the_delay_from_the_newest_on() -> None:
    state = tree([queue("q1", 1, 4, quota="60s")], {"n1": 4})
    running(state, "root.q1", "n1", 1, 1, 1, 1)
    assert give_back(state, 0.0) == []
    lowered(state, "root.q1", 2)
    assert give_back(state, 10.0) == []
    assert give_back(state, 69.0) == []
    assert [one.ask.name for one in give_back(state, 70.0)] == ["t3", "t2"]
    assert give_back(state, 200.0) == []


def test_no_queue_gives_back_its_guarantee() -> None:
    state = tree([queue("q1", 3, 4, quota="1s")], {"n1": 4})
    running(state, "root.q1", "n1", 1, 1, 1, 1)
    lowered(state, "root.q1", 1)
    give_back(state, 0.0)
    assert [one.ask.name for one in give_back(state, 1.0)] == ["t3"]


def test_quota_preemption_is_off_without_a_delay_and_by_the_partition() -> None:
    state = tree([queue("q1", 0, 4)], {"n1": 4})
    running(state, "root.q1", "n1", 1, 1)
    lowered(state, "root.q1", 1)
    assert give_back(state, 0.0) == give_back(state, 1e6) == []
    other = tree([queue("q1", 0, 4, quota="1s")], {"n1": 4}, preemption={"quotapreemptionenabled": False})
    running(other, "root.q1", "n1", 1, 1)
    lowered(other, "root.q1", 1)
    assert give_back(other, 0.0) == give_back(other, 1e6) == []


def test_a_parent_spreads_its_excess_by_usage_above_guarantees() -> None:
    state = tree([queue("p", None, 12, queue("a", 2), queue("b"), quota="1s")], {"n1": 12})
    running(state, "root.p.a", "n1", *[1] * 6)
    running(state, "root.p.b", "n1", *[1] * 4)
    lowered(state, "root.p", 6)
    give_back(state, 0.0)
    found = [one.ask.application for one in give_back(state, 1.0)]
    assert found == ["run-root.p.a", "run-root.p.a", "run-root.p.b", "run-root.p.b"]


@given(st.integers(0, 40), st.lists(st.integers(0, 9), max_size=6))
def test_an_excess_is_spread_whole_and_in_proportion(amount: int, weights: list[int]) -> None:
    parts = spread(amount, weights)
    whole = sum(weights)
    assert sum(parts) == min(amount, whole)
    for part, weight in zip(parts, weights, strict=True):
        assert 0 <= part <= weight
        assert abs(part * whole - min(amount, whole) * weight) <= whole * len(weights)
