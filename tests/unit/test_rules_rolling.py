"""transactions.rules.rolling: how many taskgroups a step of an update may add, and the bounds of an update."""

from __future__ import annotations

import math
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from store.records import Application, Deployment, Strategy, Task, TaskGroup
from transactions.rules import rolling
from transactions.rules.rolling import RolloutState, Side

NOW = 1000.0
ENDED = ("Failed", "Finish", "Lost")
STATUSES = ("Staging", "Running", *ENDED)


def group(index: int, application: str, status: Any) -> TaskGroup:
    identity = f"{index}.{application}"
    task = Task(id=f"0.{identity}", name="main", status=status, ended=status in ENDED)
    return TaskGroup(
        id=identity, namespace="ns", application=application, index=index, version="1", status=status, tasks=(task,)
    )


@st.composite
def side(draw: st.DrawFn, name: str) -> Side:
    statuses = draw(st.lists(st.sampled_from(STATUSES), max_size=4))
    leaving = {found.id: found for found in (group(n, name, status) for n, status in enumerate(statuses))}
    wanted = draw(st.integers(0, 8))
    application = Application(namespace="ns", name=name, instances=wanted, version="1")
    return Side(application, wanted, {}, leaving, draw(st.integers(0, 3)), None, None)


@st.composite
def pictures(draw: st.DrawFn) -> RolloutState:
    instances = draw(st.integers(0, 8))
    floor = draw(st.integers(0, instances))
    ceiling = instances + draw(st.integers(0, 3))
    most_added = draw(st.integers(1, 4) | st.just(math.inf))
    return RolloutState(draw(side("new")), draw(side("old")), instances, floor, ceiling, most_added, 3, {}, 0.0, NOW)


@given(pictures(), st.integers(0, 10))
def test_what_is_added_has_room_below_the_ceiling(found: RolloutState, most: int) -> None:
    added = rolling.to_add(found, most)
    leaving = [*found.growing.leaving.values(), *found.shrinking.leaving.values()]
    taken = found.growing.held + found.shrinking.held + sum(group.status not in ENDED for group in leaving)
    room, missing = found.ceiling - taken, most - found.growing.held
    assert added == (min(room, missing, found.most_added) if room > 0 and missing > 0 else 0)


@given(st.integers(0, 20), st.integers(0, 30), st.integers(0, 30))
def test_the_bounds_of_an_update(instances: int, unavailable: int, surge: int) -> None:
    strategy = Strategy(max_unavailable=unavailable, max_surge=surge)
    deployment = Deployment(namespace="ns", name="d", instances=instances, strategy=strategy)
    floor, ceiling = rolling.bounds(deployment)
    assert 0 <= floor <= instances <= ceiling
    assert (floor, ceiling) == (max(0, instances - unavailable), instances + surge)
