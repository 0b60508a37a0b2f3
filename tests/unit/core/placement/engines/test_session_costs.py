"""A session costs in proportion to what is pending and has changed, not to what runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from bcs_scheduler.core.controllers.cluster import reconciler
from bcs_scheduler.core.interface import inputs, requests
from bcs_scheduler.core.options import CoreOptions
from benchmarks.synthetic import SPACE, World, version
from offers.policy.session.configuration import DEFAULT, policy_of
from tests.counting import Calls, lines

pytestmark = [pytest.mark.slow, pytest.mark.rotating]

SMALL, LARGE = 1_000, 50_000
MOST = 1.5
"""Ratio of the calls, and of the lines of Python that are executed."""
POLICY = policy_of({**DEFAULT, "actions": "reclaim, allocate, backfill, preempt"})
Worlds = tuple[World, World]
Step = Callable[[World, int], tuple[inputs.Input, ...]]


@pytest.fixture(scope="module")
def worlds() -> Iterator[Worlds]:
    options = CoreOptions(strict=True, offer_hold=1e6, policy=POLICY, session_period=0.0, max_priority=9)
    pair = (World(SMALL, options=options), World(LARGE, options=options))
    for world in pair:
        for number in range(2):  # the first session of a term reads everything
            world.turn(*one_more(world, -number))
            world.rest()
    yield pair


def one_more(world: World, number: int) -> tuple[inputs.Input, ...]:
    return (requests.CreateApplication(version=version(SPACE, f"more{number}", 1)),)


def an_urgent_one(world: World, number: int) -> tuple[inputs.Input, ...]:
    return (requests.CreateApplication(version=version(SPACE, f"urgent{number}", 1, priority=9)),)


def one_fails(world: World, number: int) -> tuple[inputs.Input, ...]:
    groups = list(world.core.state.groups_of(f"{SPACE}/app-{number}").values())
    return tuple(world.reports(groups[0], "FAILED"))


STEPS = (one_more, an_urgent_one, one_fails)


@pytest.mark.parametrize("step", STEPS, ids=lambda step: step.__name__)
def test_a_session_beside_fifty_thousand_taskgroups_costs_as_one_beside_a_thousand(worlds: Worlds, step: Step) -> None:
    calls = [_calls(world, step, 1) for world in worlds]
    executed = [_lines(world, step, 2) for world in worlds]
    assert calls[1] < MOST * calls[0], f"calls: {calls}"
    assert executed[1] < MOST * executed[0], f"lines executed: {executed}"


def _calls(world: World, step: Step, number: int) -> int:
    batch = _prepared(world, step, number)
    units: list[Any] = []
    with Calls() as calls:
        units += world.core.turn(batch, world.now)
    _finish(world, units)
    return calls.number


def _lines(world: World, step: Step, number: int) -> int:
    batch = _prepared(world, step, number)
    units: list[Any] = []
    found = lines(lambda: units.extend(world.core.turn(batch, world.now)))
    _finish(world, units)
    return found


def _prepared(world: World, step: Step, number: int) -> tuple[inputs.Input, ...]:
    for _ in range(LARGE // reconciler.SLICE + 1):  # a reconciliation goes on in each turn, whatever else happens
        if world.core.next_wakeup(world.now) > world.now:
            break
        world.turn()
    batch = step(world, number)
    world.now += 0.0001
    return batch


def _finish(world: World, units: list[Any]) -> None:
    launched = [effect for unit in units for effect in unit.effects if type(effect).__name__ == "LaunchOnAgent"]
    assert len(launched) == 1
    world.take(units)
    world.rest()
