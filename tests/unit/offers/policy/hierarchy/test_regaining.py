"""Queues below their guarantee keep the room that their own allocations give back."""

from __future__ import annotations

import random
from typing import Any

import pytest

from offers.policy.hierarchy.preemption.preemption import preempt
from offers.policy.hierarchy.preemption.promises import promises_to, regain
from offers.policy.hierarchy.state.application import Application
from offers.policy.hierarchy.state.model import Allocation, Ask, Kept
from offers.policy.hierarchy.state.queue import QueueState
from offers.policy.hierarchy.tree import Tree
from tests.effort import check_few
from tests.unit.offers.policy.hierarchy.test_preemption import LATE, queue, running, tree


def contended(**properties: Any) -> Tree:
    """Two nodes that are full. `q1` uses more than its guarantee and wants more; `q2` uses its guarantee."""
    state = tree([queue("q1", 1), queue("q2", 2, None, **properties)], {"n1": 2, "n2": 2})
    running(state, "root.q1", "n1", 1, 1)
    running(state, "root.q2", "n2", 1, 1)
    return state


def wait(state: Tree, application: str, leaf: str, amount: int = 1, name: str = "w", **properties: Any) -> Ask:
    if application not in state.applications:
        state.submit(Application(application, leaf, 0))
    ask = Ask(application, name, (("cpus", amount),), **properties)
    state.ask(ask)
    list(state.run())
    return ask


def end(state: Tree, name: str = "t0") -> list[Allocation]:
    """An allocation of `q2` fails; the room is free at once."""
    leaf = state.queues["root.q2"]
    return regain(state, [(leaf, state.release("run-root.q2", name))], LATE)


def test_the_room_is_for_the_same_application_whatever_its_order_and_age() -> None:
    state = contended()
    wait(state, "first", "root.q2", priority=5)
    own = wait(state, "run-root.q2", "root.q2", created=LATE)
    assert end(state) == [Allocation(own, "n2")]
    assert [one.ask for one in state.run()] == [own]
    assert preempt(state, LATE + 60) == []


def test_the_room_is_for_the_first_of_the_queue_that_may_preempt() -> None:
    state = contended()
    wait(state, "early", "root.q2", may_preempt=False)
    wait(state, "large", "root.q2", amount=2)
    wait(state, "young", "root.q2", priority=9, created=LATE - 1)
    low, high = (wait(state, f"p{number}", "root.q2", priority=number) for number in (1, 2))
    assert end(state) == [Allocation(high, "n2")]
    assert end(state, "t1") == [Allocation(low, "n2")]


def test_an_allocation_that_is_leaving_is_awaited_and_no_victim_is_chosen() -> None:
    state = contended()
    ask = wait(state, "more", "root.q2")
    allocation = state.applications["run-root.q2"].allocations["t0"]
    state.leave(allocation)
    assert regain(state, [(state.queues["root.q2"], allocation)], LATE) == [Allocation(ask, "n2")]
    assert preempt(state, LATE) == []
    state.release("run-root.q2", "t0")
    assert [(one.ask, one.node) for one in state.run()] == [(ask, "n2")]


def test_room_that_old_work_still_lacks_is_for_those_that_outrank_it() -> None:
    """An allocation ends for old work of `first`. The guarantee of the parent is that of both queues."""
    state = tree([queue("both", 4, None, queue("first", 2), queue("second"))], {"n1": 2})
    running(state, "root.both.second", "n1", 1, 1)
    state.submit(Application("old", "root.both.first", 0))
    ask = wait(state, "more", "root.both.second")
    allocation = state.applications["run-root.both.second"].allocations["t0"]
    state.leave(allocation)
    ended = [(state.queues["root.both.second"], allocation)]
    state.begin(state.terms._replace(kept=Kept({}, {"n1": {"cpus": 1}}, frozenset({"old"}))))
    assert regain(state, ended, LATE) == []
    state.begin(state.terms._replace(kept=None))
    assert regain(state, ended, LATE) == [Allocation(ask, "n1")]


def test_a_reservation_of_another_queue_ends() -> None:
    state = contended()
    wait(state, "wants", "root.q1")
    ask = wait(state, "more", "root.q2")
    state.promise("wants", "w", "n2", reserves=True)
    state.promise("more", "w", "n1", reserves=True)
    assert end(state) == [Allocation(ask, "n2")]
    assert promises_to(state, "wants") == []
    assert [one.ask for one in state.run()] == [ask]


@pytest.mark.parametrize("case", ["satisfied", "elsewhere", "taken", "off", "stopped", "gang"])
def test_nothing_is_promised_if_no_ask_could_preempt_for_the_room(case: str) -> None:
    state = contended(preemption="fence")
    if case == "satisfied":
        running(state, "root.q2", "n1", 1)
    if case != "elsewhere":
        wait(state, "more", "root.q2")
    else:
        wait(state, "wants", "root.q1")
    if case == "gang":
        state.begin(state.terms._replace(lacking={"more": 2}))
    if case == "off":
        state.partition = state.partition._replace(preemption=False)
    if case == "stopped":
        state.set_state("root.q2", QueueState.STOPPED)
    released = state.release("run-root.q2", "t0")
    if case == "taken":
        running(state, "root.q1", "n2", 1)
    assert regain(state, [(state.queues["root.q2"], released)], LATE) == []
    assert [one for application in state.applications for one in promises_to(state, application)] == []


def crowded(chance: random.Random) -> tuple[Tree, list[str]]:
    """A random cluster in which three queues have work that runs and work that waits, and the names of the queues."""
    names = [f"root.q{number}" for number in range(3)]
    state = tree([queue(name[5:], chance.choice([None, 2, 4])) for name in names], {f"n{k}": 4 for k in range(4)})
    for name in names:
        for node in state.nodes.by_name:
            free = state.nodes.by_name[node].free["cpus"]
            amounts = [amount for _ in range(2) if (amount := chance.choice([1, 2])) <= free // 2]
            running(state, name, node, *amounts)
    for number in range(12):
        leaf, amount = chance.choice(names), chance.choice([1, 2, 3])
        wait(state, f"w{number % 5}-{leaf}", leaf, amount, f"a{number}", created=chance.choice([0.0, LATE]))
    return state, names


@pytest.mark.parametrize("seed", check_few(range(40), 4))
def test_no_queue_is_promised_more_than_its_guarantee_and_no_node_more_than_its_room(seed: int) -> None:
    chance = random.Random(seed)
    state, names = crowded(chance)
    before = {name: state.queues[name].expected("cpus") for name in names}
    ended = [
        (state.queues[name], state.release(f"run-{name}", key))
        for name in names
        for key in list(state.applications[f"run-{name}"].allocations)
        if chance.random() < 0.6
    ]
    made = regain(state, ended, LATE)
    for name in names:
        one = state.queues[name]
        mine = [promised.ask for promised in made if state.applications[promised.ask.application].queue == name]
        expected = one.allocated.get("cpus", 0) + sum(dict(ask.request)["cpus"] for ask in mine)
        assert one.expected("cpus") == expected <= max(before[name], one.guaranteed.get("cpus", 0))
    assert all(node.room("cpus") >= 0 for node in state.nodes)
    assert {allocation.ask for allocation in state.run()} >= {one.ask for one in made}
