"""What a take-over costs the core: the state is there already, so nothing is decoded, written or asked task by task."""

from __future__ import annotations

import time

import msgspec
import pytest

from bcs_scheduler.core.interface import cluster_manager, effects
from bcs_scheduler.core.options import CoreOptions
from bcs_scheduler.core.scheduler import Core
from store.records import Application, Framework, Record, Task, TaskGroup, Version
from store.state import State
from tests.unit.lab import KEY, START, Lab, running

TASKGROUPS, APPLICATIONS, AGENTS = 20_000, 500, 2_000
BOUND = 1.0
"""Seconds of processor time from the election to the end of the turn that subscribes: several times what it takes on
the machine this was written on. With 100,000 taskgroups of 1,000 applications it takes 0.4 s there."""


def standing() -> State:
    """A state with everything running, as a standby has it."""
    records: list[Record] = [Framework(id="framework", cluster="c", created_at=START - 900, seen_at=START - 1)]
    each = TASKGROUPS // APPLICATIONS
    for number in range(APPLICATIONS):
        name, version = f"app-{number}", "1700000000000000000"
        records.append(
            Application(
                namespace="ns",
                name=name,
                version=version,
                instances=each,
                status="Running",
                message="application is running",
                created_at=START - 800,
                updated_at=START - 700,
            )
        )
        records.append(Version(namespace="ns", application=name, name=version, created_at=START - 800))
        for index in range(each):
            serial = number * each + index
            identity = f"{index}.{name}.ns.c.{1_700_000_000_000_000_000 + serial}"
            records.append(
                TaskGroup(
                    id=identity,
                    namespace="ns",
                    application=name,
                    index=index,
                    status="Running",
                    agent_id=f"agent-{serial % AGENTS}",
                    version=version,
                    tasks=(Task(id=f"{serial}.0.{identity}", name="main", status="Running"),),
                    created_at=START - 800,
                    updated_at=START - 700,
                )
            )
    return State(records)


@pytest.mark.costs
def test_a_take_over_with_many_taskgroups_is_quick_and_rewrites_none_of_them() -> None:
    state = standing()
    before = dict(state.taskgroups)
    began = time.process_time()
    core = Core(state, CoreOptions(strict=True), START)
    units = core.turn([], core.began.now)
    units += core.turn([cluster_manager.Connected(framework_id="framework", cause="mesos:1")], core.began.now)
    took = time.process_time() - began
    assert core.state is state
    assert state.taskgroups == before
    changed = [change.kind for unit in units for change in unit.changes]
    assert len(changed) < 10, "the framework and the event that tells of the subscription"
    calls = [effect for unit in units for effect in unit.effects if isinstance(effect, effects.Effect)]
    asked = [effect for effect in calls if isinstance(effect, cluster_manager.Reconcile)]
    assert sum(len(effect.tasks) for effect in asked) == 0, "Mesos is asked for all tasks in one call"
    assert took < BOUND, f"{took:.2f} s"


def test_launches_do_not_wait_for_the_first_reconciliation() -> None:
    """A command that comes with the subscription is placed by the first offer, while no task has been confirmed."""
    lab = Lab(records=standing().records())
    lab.create(1)
    assert lab.core.open_questions > 0
    lab.offer("fresh")
    launches = [launch for accept in lab.sent(cluster_manager.LaunchOnAgent) for launch in accept.launches]
    assert [launch.taskgroup.application for launch in launches] == ["web"]


def test_a_state_that_has_followed_changes_has_the_order_of_one_that_is_made_from_its_records() -> None:
    lab = running(3, max_unavailable=3)
    for index in (2, 0):
        lab.report(lab.group(index), "FAILED")
    state = lab.core.state
    assert [group.index for group in state.readiness.unready(KEY).values()] == [2, 0], "in the order of the failures"
    one = next(iter(state.active_of(KEY).values()))
    older, younger = (msgspec.structs.replace(one, id=f"{one.id}{n}", created_at=one.created_at + n) for n in (1, 2))
    for each in (msgspec.structs.replace(older, status="QUEUED"), younger, older):  # the older one has waited
        state.apply("transaction", each.id, each)
    assert list(state.active_of(KEY))[-2:] == [younger.id, older.id]
    orders = [ordered(Core(found, CoreOptions(strict=True), lab.now).state) for found in (state.records(), state)]
    assert orders[0] == orders[1]
    assert orders[0][0] == [0, 2] and orders[0][1][-2:] == [older.id, younger.id]


def ordered(state: State) -> tuple[list[int], list[str]]:
    """The indexes of the taskgroups that are not ready, and the active transactions, in their order."""
    return [group.index for group in state.readiness.unready(KEY).values()], list(state.active_of(KEY))
