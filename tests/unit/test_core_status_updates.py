"""Reports, reconciliation and silence: what is acknowledged, what is asked, what is declared Lost."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from bcs_scheduler.core.controllers.cluster.status_updates import STARTING_UNRECORDED
from bcs_scheduler.core.controllers.cluster.unknown_tasks import QUIET
from bcs_scheduler.core.interface import cluster_manager, effects
from bcs_scheduler.core.options import CoreOptions
from store.encoding.sizes import Sizer
from store.ids import taskgroup_of
from store.records import EventLog, Task
from store.records.definition import KillPolicy, RestartPolicy
from store.state.unit_of_work import Unit
from tests.counting import lines
from tests.unit.lab import Lab, running
from transactions import base
from transactions.kinds import scale
from transactions.rules import lifecycle
from transactions.rules.task_states import TaskState


def test_an_acknowledgement_is_in_the_unit_of_what_it_acknowledges() -> None:
    lab = Lab()
    lab.create(1)
    lab.offer()
    group = lab.group()
    update = cluster_manager.StatusUpdate(
        task_id=group.tasks[0].id, state=TaskState.RUNNING, agent_id=group.agent_id, uuid=b"u", cause="it"
    )
    units = lab.core.turn([update], lab.now)
    (unit,) = [u for u in units if any(isinstance(e, cluster_manager.Acknowledge) for e in u.effects)]
    assert [change.kind for change in unit.changes] == ["taskgroup", "journal"]
    assert unit.changes[0].key == group.id
    assert all(effect.cause == "it" for effect in unit.effects)  # type: ignore[attr-defined]


def launched(number: int) -> Lab:
    lab = Lab(CoreOptions(strict=False))
    lab.create(number)
    lab.offer(cpus=100_000)
    return lab


def reporting(units: list[Unit]) -> list[list[str]]:
    """Taskgroups of each unit, in their order, if it acknowledges an update of each of them."""
    found = []
    for unit in units:
        answered = [taskgroup_of(e.task_id) for e in unit.effects if isinstance(e, cluster_manager.Acknowledge)]
        if answered:
            assert [change.key for change in unit.changes if change.kind == "taskgroup"] == answered
            told = [h for e in unit.effects if isinstance(e, effects.EventsRecorded) for h in e.events]
            assert [h.key for h in told if h.reason == "TaskGroupRunning"] == answered
            (run,) = [change.record for change in unit.changes if isinstance(change.record, EventLog)]
            assert {h.number for h in told} <= {h.number for h in run.events}
            found.append(answered)
    return found


def test_updates_of_one_turn_share_units_with_an_event_for_each() -> None:
    lab = launched(20)
    updates = [one for group in lab.groups for one in lab.reports(group, "RUNNING")]
    shared = reporting(lab.core.turn(updates, lab.now))
    assert [key for unit in shared for key in unit] == [group.id for group in lab.groups]
    assert len(shared) == 3


def test_an_update_that_cannot_be_handled_leaves_the_others_of_its_unit(monkeypatch: pytest.MonkeyPatch) -> None:
    lab = launched(3)
    wrong, reduce_task = lab.groups[1].tasks[0].id, lifecycle.reduce_task

    def reduced(task: Task, *others: Any) -> Task:
        if task.id == wrong:
            raise ValueError(task.id)
        return reduce_task(task, *others)

    monkeypatch.setattr(lifecycle, "reduce_task", reduced)
    updates = [one for group in lab.groups for one in lab.reports(group, "RUNNING")]
    units = lab.core.turn(updates, lab.now)
    assert reporting(units) == [[lab.groups[0].id, lab.groups[2].id]]
    assert [group.status for group in lab.groups] == ["Running", "Staging", "Running"]
    logged = [e for unit in units for e in unit.effects if isinstance(e, effects.LogLine)]
    assert [e.message for e in logged if e.reason == "InternalError"] == [f"ValueError: {wrong}"]


@pytest.mark.parametrize("large", [0, 1])
def test_an_update_that_is_too_large_to_share_a_unit_has_one_of_its_own(large: int) -> None:
    lab = launched(3)
    lab.core.turn_context.uow.sizer = Sizer(limit=100_000)
    updates = [one for group in lab.groups for one in lab.reports(group, "RUNNING")]
    updates[large] = msgspec.structs.replace(updates[large], message="m" * 60_000)
    apart = [[group.id] for group in lab.groups]
    assert reporting(lab.core.turn(updates, lab.now)) == ([apart[0], [*apart[1], *apart[2]]] if large == 0 else apart)
    assert {group.status for group in lab.groups} == {"Running"}


def test_every_update_with_a_uuid_is_acknowledged_even_if_it_says_nothing_new() -> None:
    lab = running(1)
    lab.report(lab.group(), "RUNNING")
    assert len(lab.sent(cluster_manager.Acknowledge)) == 1
    lab.report(lab.group(), "STARTING")
    assert len(lab.sent(cluster_manager.Acknowledge)) == 1
    assert lab.group().status == "Running"
    lab.report(lab.group(), "WALTZING")
    assert len(lab.sent(cluster_manager.Acknowledge)) == 1


def staged() -> Lab:
    lab = Lab()
    lab.create(1)
    lab.offer()
    assert lab.group().status == "Staging"
    return lab


def test_what_starts_and_runs_at_once_has_one_record_for_both() -> None:
    lab = staged()
    before = lab.group()
    lab.report(before, "STARTING")
    assert len(lab.sent(cluster_manager.Acknowledge)) == 1, "the agent sends the next update after this"
    assert lab.group() is before
    lab.report(before, "RUNNING")
    assert len(lab.sent(cluster_manager.Acknowledge)) == 1
    assert (lab.group().status, lab.group().last_status) == ("Running", "Staging")
    running_group = lab.group()
    lab.wait(2 * STARTING_UNRECORDED)
    assert lab.group() is running_group


def test_updates_without_a_record_cost_other_turns_nothing() -> None:
    def turn_beside(number: int) -> int:
        lab = Lab()
        lab.create(number)
        lab.offer(cpus=100_000)
        for group in lab.groups:
            lab.report(group, "STARTING")
        assert len(lab.groups) == number
        lab.turn()
        return lines(lab.turn)

    assert turn_beside(60) == turn_beside(2)


def test_what_starts_for_longer_is_recorded_so() -> None:
    lab = staged()
    lab.report(lab.group(), "STARTING")
    lab.wait(0.9 * STARTING_UNRECORDED)
    assert lab.group().status == "Staging"
    assert lab.core.next_wakeup(lab.now, tick=60.0) <= lab.now + 0.11 * STARTING_UNRECORDED
    lab.wait(0.2 * STARTING_UNRECORDED)
    assert lab.group().status == "Starting" and lab.group().started


@pytest.mark.parametrize("starting", [False, True])
def test_what_had_begun_to_start_is_no_launch_that_did_not_happen(starting: bool) -> None:
    lab = staged()
    if starting:
        lab.report(lab.group(), "STARTING")
    lab.report(lab.group(), "FAILED", unfetched=True)
    assert lab.group().status == ("Failed" if starting else "Lost")


def test_a_new_leader_learns_of_what_was_acknowledged_without_a_record() -> None:
    lab = staged()
    lab.report(lab.group(), "STARTING")
    after = Lab(records=lab.core.state.records(), options=lab.options, now=lab.now + 1)
    assert after.group().status == "Staging"
    task = after.group().tasks[0]
    after.turn(
        cluster_manager.StatusUpdate(
            task_id=task.id, state=TaskState.STARTING, agent_id=after.group().agent_id, answer=True
        )
    )
    assert after.group().status == "Starting"


def test_a_taskgroup_that_is_gone_is_not_recorded_again() -> None:
    lab = staged()
    lab.report(lab.group(), "STARTING")
    lab.delete(enforce=True)
    lab.wait(2 * STARTING_UNRECORDED)
    assert all(group.ended or group.killing_since for group in lab.groups)


def test_updates_made_by_the_master_are_not_acknowledged() -> None:
    lab = running(1)
    task = lab.group().tasks[0]
    lab.turn(cluster_manager.StatusUpdate(task_id=task.id, state=TaskState.UNREACHABLE))
    assert not lab.sent(cluster_manager.Acknowledge)
    assert lab.group().unreachable_since


@pytest.mark.parametrize(("state", "killed"), [("RUNNING", 1), ("STAGING", 1), ("FAILED", 0)])
def test_a_task_nobody_knows_is_killed_if_it_runs(state: str, killed: int) -> None:
    lab = Lab()
    task = "1700000000000000000.0.0.ghost.default.Unnamed"
    lab.turn(cluster_manager.StatusUpdate(task_id=task, state=TaskState(state), agent_id="agent-1", uuid=b"u"))
    assert len(lab.sent(cluster_manager.Acknowledge)) == 1
    assert not lab.ended(), "not before all answers have come (test_core_unknown_tasks)"
    lab.wait(2 * QUIET)
    assert bool(lab.ended()) == bool(killed)


def test_out_of_memory_is_counted_once() -> None:
    lab = running(1)
    lab.report(lab.group(), "FAILED", out_of_memory=True)
    assert [seen.name for seen in lab.sent(effects.Observed)].count("application_oom") == 1


def test_after_a_subscription_mesos_is_asked_for_everything() -> None:
    lab = running(2)
    tasks = {(group.tasks[0].id, group.agent_id) for group in lab.groups}
    lab.turn(cluster_manager.Disconnected())
    lab.turn(cluster_manager.Connected(framework_id="framework"))
    assert [call.tasks for call in lab.sent(cluster_manager.Reconcile)] == [()]
    lab.wait(4)
    assert {pair for call in lab.sent(cluster_manager.Reconcile) for pair in call.tasks} == tasks


def test_what_has_been_heard_of_is_not_asked_for() -> None:
    lab = running(2)
    lab.turn(cluster_manager.Connected(framework_id="framework"))
    lab.report(lab.group(0), "RUNNING")
    lab.wait(4)
    assert [pair[0] for call in lab.sent(cluster_manager.Reconcile) for pair in call.tasks] == [
        lab.group(1).tasks[0].id
    ]


def test_silence_is_asked_about_before_anything_is_declared_lost() -> None:
    lab = running(1, CoreOptions(strict=True, silence_timeout=100.0))
    lab.turn(cluster_manager.Connected(framework_id="framework"))
    lab.wait(95)
    assert lab.group().status == "Running"
    assert len([call for call in lab.sent(cluster_manager.Reconcile) if call.tasks]) >= 3
    lab.wait(10)
    assert (lab.group().status, lab.group().ended) == ("Lost", False)
    lab.report(lab.group(), "RUNNING")
    assert lab.group().status == "Running"


def test_time_without_a_subscription_is_not_silence() -> None:
    lab = running(1, CoreOptions(strict=True, silence_timeout=100.0))
    lab.turn(cluster_manager.Disconnected())
    lab.wait(500)
    assert lab.group().status == "Running"


def test_a_launch_that_stays_staging_is_asked_for_soon() -> None:
    lab = Lab(CoreOptions(strict=True, staging_timeout=20.0))
    lab.create(1)
    lab.offer()
    lab.wait(30)
    task = lab.group().tasks[0].id
    assert next(call.tasks for call in lab.sent(cluster_manager.Reconcile) if call.tasks) == ((task, "agent-1"),)
    assert lab.group().status == "Staging"


@pytest.mark.parametrize(
    "event",
    [
        lambda group: cluster_manager.ExecutorTerminated(agent_id="agent-1", executor_id=group.id),
        lambda group: cluster_manager.AgentRemoved(agent_id="agent-1"),
    ],
)
def test_bad_news_of_an_agent_makes_ask_for_its_tasks(event: object) -> None:
    lab = running(1)
    lab.turn(event(lab.group()))  # type: ignore[operator]
    assert [call.tasks for call in lab.sent(cluster_manager.Reconcile)] == [((lab.group().tasks[0].id, "agent-1"),)]
    assert lab.group().status == "Running"


def test_another_framework_id_stops_the_launches() -> None:
    lab = running(1)
    before = lab.core.state.framework
    lab.turn(cluster_manager.Connected(framework_id="another"))
    assert "another" in lab.core.fatal
    assert not lab.core.turn_context.connected
    assert lab.core.state.framework == before
    lab.turn(cluster_manager.Connected(framework_id="framework"))
    assert not lab.core.fatal


def test_one_failing_operation_does_not_stop_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*arguments: object) -> None:
        raise RuntimeError("cannot be")

    lab = Lab(CoreOptions(strict=False))
    lab.create(1)
    monkeypatch.setattr(scale.Scale, "step", broken)
    lab.offer()
    lab.run()
    reply = lab.scale(2)
    assert not reply.error
    transaction = lab.transaction("SCALE")
    assert (transaction.status, transaction.message) == ("FAIL", "internal error: RuntimeError; the log has the rest")
    assert lab.application.operation == ""
    errors = [line for line in lab.sent(effects.LogLine) if line.level == "error"]
    assert [(line.kind, line.key) for line in errors] == [("transaction", transaction.id)]


def test_a_command_that_fails_by_itself_is_answered_and_undone(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*arguments: object) -> None:
        raise RuntimeError("cannot be")

    lab = Lab(CoreOptions(strict=False))
    monkeypatch.setattr(base, "mark_operating", broken)
    before = lab.records()
    reply = lab.create(1)
    assert (reply.error, reply.message) == ("internal", "internal error: RuntimeError; the log has the rest")
    assert lab.records() == before


def test_an_executor_that_leaves_kills_without_effect_is_shut_down() -> None:
    lab = running(1, CoreOptions(strict=True, kill_retry=5.0))
    group = lab.group()
    lab.delete()
    lab.wait(15)
    assert (len(lab.ended()), lab.forced()) == (1, [])
    lab.wait(10)
    assert len(lab.ended()) == 1
    assert lab.forced() == [(group.id, group.agent_id)]


def test_one_effect_ends_all_tasks_of_a_taskgroup() -> None:
    lab = running(1, CoreOptions(strict=True, kill_retry=5.0), tasks=3, kill_policy=KillPolicy(grace_period=4.0))
    group = lab.group()
    first, _, third = [task.id for task in group.tasks]
    lab.report(group, "FINISHED", tasks=[1])
    lab.delete()
    (end,) = lab.sent(cluster_manager.End)
    assert (end.taskgroup, end.tasks, end.agent_id) == (group.id, (first, third), "agent-1")
    assert (end.grace_period, end.forced) == (4.0, False)
    lab.report(group, "KILLED", tasks=[0])
    lab.wait(60)
    assert {(end.tasks, end.forced) for end in lab.sent(cluster_manager.End)} == {((third,), False), ((third,), True)}
    lab.report(group, "KILLED", tasks=[2])
    lab.wait(600)
    assert not lab.sent(cluster_manager.End)


def test_a_task_that_mesos_ends_for_its_health_has_failed() -> None:
    lab = running(2, restart_policy=RestartPolicy(policy="Never"))
    ill, unwanted = lab.group(0), lab.group(1)
    lab.report(ill, "KILLED", healthy=False, message="signal 9")
    assert (lab.group(0).status, lab.group(0).message) == ("Failed", "health check failed: signal 9")
    lab.scale(1)
    lab.report(unwanted, "KILLED", healthy=False)
    told = [line.reason for line in lab.sent(effects.LogLine) if line.key == unwanted.id]
    assert "TaskGroupKilled" in told and "TaskGroupFailed" not in told


def test_kills_that_no_agent_hears_lead_to_no_shutdown() -> None:
    lab = running(1)
    lab.report(lab.group(), "UNREACHABLE")
    lab.delete()
    lab.wait(50)
    assert lab.ended()
    assert not lab.forced()
