"""Health: reported, summed up, told, and waited for by updates. And what our executors report beside it."""

from __future__ import annotations

import pytest

from bcs_scheduler.core.interface import cluster_manager, effects, inputs, requests
from bcs_scheduler.core.interface.cluster_manager import CheckReport, TaskDetail
from bcs_scheduler.core.options import CoreOptions
from store.keys import taskgroup_name
from store.records import TaskGroup
from store.records.definition import Amounts, Container, HealthCheck, Process, RestartPolicy
from tests.unit.lab import Lab, running, version

LOCAL = HealthCheck(type="HTTP", port=80)
REMOTE = HealthCheck(type="REMOTE_TCP", port=80)


def checked(*checks: HealthCheck) -> tuple[Container, ...]:
    return (Container(command="serve", requests=Amounts(cpus=100, mem=32_000), health_checks=checks or (LOCAL,)),)


def detail(healthy: bool | None, message: str = "", failures: int = 0, **fields: object) -> TaskDetail:
    checks = (CheckReport(type="HTTP", healthy=healthy, message=message, failures=failures),)
    return TaskDetail(checks=checks, **fields)  # type: ignore[arg-type]


def steady(group: TaskGroup, *details: TaskDetail) -> cluster_manager.TasksReported:
    pairs = zip((task.id for task in group.tasks), details, strict=True)
    return cluster_manager.TasksReported(agent_id=group.agent_id, executor_id=group.id, tasks=tuple(pairs))


def say(lab: Lab, group: TaskGroup, healthy: bool, message: str = "") -> None:
    lab.report(group, "RUNNING", detail=detail(healthy, message))


# --- what is known of a task ------------------------------------------------------------------------------------------


def test_a_new_task_has_its_checks_and_its_executor() -> None:
    lab = running(1, containers=checked(LOCAL, REMOTE))
    task = lab.group().tasks[0]
    assert [(c.type, c.healthy) for c in task.checks] == [("HTTP", None), ("REMOTE_TCP", None)]
    assert task.healthy is None
    assert lab.group().executor == "bcs"


def test_the_executor_comes_from_the_version_or_the_settings_and_processes_have_ours() -> None:
    options = CoreOptions(strict=True, executor="mesos")
    assert running(1, options).group().executor == "mesos"
    assert running(1, options, executor="bcs").group().executor == "bcs"
    lab = Lab(options)
    process = (Container(process=Process(start="./start"), requests=Amounts(cpus=100, mem=32_000)),)
    lab.ask(requests.CreateApplication(version=version(1, containers=process), type="process"))
    lab.offer()
    assert lab.group().executor == "bcs"


def test_the_details_of_a_report_are_kept() -> None:
    lab = running(1, restart_policy=RestartPolicy(policy="Never"))
    told = TaskDetail(pid=7, container_id="c", container_ip="10.1.1.1", started_at=5.0)
    lab.report(lab.group(), "RUNNING", detail=told)
    task = lab.group().tasks[0]
    assert (task.pid, task.container_id, task.container_ip, task.started_at) == (7, "c", "10.1.1.1", 5.0)
    lab.report(lab.group(), "FAILED", detail=TaskDetail(exit_code=-9, oom=True, finished_at=9.0))
    task = lab.group().tasks[0]
    assert (task.pid, task.exit_code, task.oom, task.finished_at, task.status) == (7, -9, True, 9.0, "Failed")


def test_a_restart_in_place_is_shown_and_over_when_it_is_over() -> None:
    lab = running(1)
    lab.report(lab.group(), "RUNNING", detail=TaskDetail(restarting=True))
    assert lab.group().status == "Restarting"
    lab.turn(steady(lab.group(), TaskDetail()))
    assert lab.group().status == "Running"


def test_what_was_healthy_before_a_restart_is_probed_anew() -> None:
    lab = running(1, containers=checked(LOCAL, REMOTE))
    say(lab, lab.group(), True, "200")
    lab.turn(inputs.HealthReported(task_id=lab.group().tasks[0].id, type="REMOTE_TCP", healthy=True))
    assert lab.group().tasks[0].healthy is True
    lab.report(lab.group(), "RUNNING", detail=detail(None, restarting=True))
    lab.report(lab.group(), "RUNNING", detail=detail(None))
    task = lab.group().tasks[0]
    assert (task.status, task.healthy) == ("Running", None)
    assert [check.healthy for check in task.checks] == [None, True]
    say(lab, lab.group(), True, "200")
    assert lab.group().tasks[0].healthy is True


def test_the_verdict_of_the_default_executor_is_that_of_the_local_check() -> None:
    lab = running(1, containers=checked(LOCAL, REMOTE))
    lab.report(lab.group(), "RUNNING", healthy=False)
    task = lab.group().tasks[0]
    assert [(c.type, c.healthy) for c in task.checks] == [("HTTP", False), ("REMOTE_TCP", None)]
    assert task.healthy is False


def test_healthy_means_that_every_check_passes() -> None:
    lab = running(1, containers=checked(LOCAL, REMOTE))
    task = lab.group().tasks[0]
    say(lab, lab.group(), True)
    assert lab.group().tasks[0].healthy is None
    lab.turn(inputs.HealthReported(task_id=task.id, type="REMOTE_TCP", healthy=True))
    assert lab.group().tasks[0].healthy is True
    lab.turn(inputs.HealthReported(task_id=task.id, type="REMOTE_TCP", healthy=False, message="refused"))
    assert lab.group().tasks[0].healthy is False


# --- steady reports ---------------------------------------------------------------------------------------------------


def test_a_steady_report_that_says_nothing_new_writes_nothing_and_tells_nothing() -> None:
    lab = running(1, containers=checked())
    say(lab, lab.group(), True, "200")
    lab.turn(inputs.Tick())
    report = steady(lab.group(), detail(True, "200", failures=3))
    assert lab.core.turn([report], lab.now) == []


def test_a_steady_report_answers_the_question_whether_a_task_is_there() -> None:
    lab = running(1)
    lab.turn(cluster_manager.Connected(framework_id="framework"))
    assert lab.core.open_questions == 1
    lab.turn(steady(lab.group(), TaskDetail()))
    assert lab.core.open_questions == 0


def test_a_steady_report_of_a_lost_task_has_mesos_asked() -> None:
    lab = running(1)
    lab.report(lab.group(), "UNREACHABLE")
    lab.turn(steady(lab.group(), TaskDetail(pid=4)))
    assert lab.group().status == "Lost"
    assert [call.tasks[0][0] for call in lab.sent(cluster_manager.Reconcile)] == [lab.group().tasks[0].id]


def test_a_late_steady_report_starts_and_revives_nothing() -> None:
    lab = Lab()
    lab.create(1)
    lab.offer()
    lab.turn(steady(lab.group(), TaskDetail(pid=4)))
    assert lab.group().status == "Staging"
    lab.run()
    lab.turn(steady(lab.group(), TaskDetail(pid=4, exit_code=1, finished_at=3.0)))
    assert (lab.group().status, lab.group().tasks[0].pid) == ("Running", 0)


def test_one_task_that_has_done_its_work_is_no_reason_to_shut_down_the_other() -> None:
    lab = running(1, tasks=2)
    lab.report(lab.group(), "FINISHED", tasks=[0])
    lab.turn(steady(lab.group(), TaskDetail(exit_code=0), TaskDetail(pid=4)))
    assert not lab.forced()
    assert [task.status for task in lab.group().tasks] == ["Finish", "Running"]


def test_the_executor_of_a_taskgroup_nobody_wants_is_shut_down() -> None:
    lab = running(1)
    old = lab.group()
    lab.delete(enforce=True)
    lab.turn(steady(old, TaskDetail()))
    assert lab.forced() == [(old.id, old.agent_id)]


# --- REMOTE checks by an outside module -------------------------------------------------------------------------------


def test_an_outside_module_reports_a_remote_check() -> None:
    lab = running(1, containers=checked(REMOTE))
    task = lab.group().tasks[0].id
    reply = lab.ask(requests.ReportHealth(task_id=task, type="REMOTE_TCP", healthy=False, message="refused"))
    assert reply.data == {"task": task, "type": "REMOTE_TCP", "healthy": False}
    assert lab.group().tasks[0].checks[0].message == "refused"
    assert lab.group().status == "Running"


def test_a_report_of_a_check_that_is_not_defined_or_of_a_task_that_does_not_run_is_refused() -> None:
    lab = running(1, containers=checked(REMOTE), restart_policy=RestartPolicy(policy="Never"))
    task = lab.group().tasks[0].id
    assert lab.ask(requests.ReportHealth(task_id="x", type="REMOTE_TCP", healthy=True)).error == "not_found"
    reply = lab.ask(requests.ReportHealth(task_id=task, type="REMOTE_HTTP", healthy=True))
    assert reply.error == "conflict" and "REMOTE_HTTP" in reply.message
    lab.report(lab.group(), "FAILED")
    reply = lab.ask(requests.ReportHealth(task_id=task, type="REMOTE_TCP", healthy=True))
    assert reply.error == "conflict" and "not Running" in reply.message


# --- what follows -----------------------------------------------------------------------------------------------------


def test_a_turn_for_the_worse_is_a_warning_and_a_turn_for_the_better_is_told_too() -> None:
    lab = running(1, containers=checked())
    say(lab, lab.group(), False, "500")
    (told,) = [story for story in lab.sent(effects.LogLine) if story.reason == "TaskGroupUnhealthy"]
    assert told.level == "warning" and "HTTP: 500" in told.message
    say(lab, lab.group(), True, "200")
    (told,) = [story for story in lab.sent(effects.LogLine) if story.reason == "TaskGroupHealthy"]
    assert told.level == "info"
    assert [seen.labels[2] for seen in lab.sent(effects.Observed) if seen.name == "task_health"] == ["healthy"]


def test_an_application_says_how_many_of_its_taskgroups_are_not_healthy() -> None:
    lab = running(3, containers=checked())
    say(lab, lab.group(0), False)
    assert (lab.application.status, lab.application.message) == (
        "Running",
        "application is running, 1 of 3 taskgroups not healthy",
    )
    say(lab, lab.group(0), True)
    assert lab.application.message == "application is running"


def test_an_update_waits_until_the_new_taskgroups_are_healthy() -> None:
    lab = running(3, containers=checked())
    for group in lab.groups:
        say(lab, group, True)
    lab.update(3, bound=1, containers=checked(replace_port()))
    lab.run()
    new = [group for group in lab.groups if group.version == lab.application.version]
    assert len(new) == 1 and new[0].status == "Running"
    lab.wait(60)
    assert not [group for group in lab.groups if group.killing_since]
    for _ in range(3):
        for group in lab.groups:
            if group.version == lab.application.version:
                say(lab, group, True)
        lab.run()
    assert lab.transaction("UPDATE").status == "FINISH"
    assert all(group.version == lab.application.version for group in lab.groups)


def test_the_verdict_of_an_update_that_ran_out_of_time_says_what_was_not_healthy() -> None:
    lab = running(2, containers=checked())
    for group in lab.groups:
        say(lab, group, True)
    lab.update(2, bound=1, containers=checked(replace_port()))
    lab.run()
    (new,) = [group for group in lab.groups if group.version == lab.application.version]
    say(lab, new, False, "connection refused")
    lab.wait(481)
    ended = lab.transaction("UPDATE")
    assert ended.status == "TIMEOUT"
    assert ended.message.startswith(f"after 8m 1 taskgroup is not healthy: {taskgroup_name(new.id)} (")
    assert "HTTP: connection refused" in ended.message


def test_an_unhealthy_old_taskgroup_makes_way_first() -> None:
    lab = running(3, containers=checked())
    for group in lab.groups:
        say(lab, group, group.index != 1)
    lab.update(3, bound=1, containers=checked(replace_port()))
    lab.turn(inputs.Tick())
    assert [group.index for group in lab.groups if group.killing_since] == [1]


def test_unhealthy_taskgroups_are_not_taken_down_all_at_once() -> None:
    lab = running(4, containers=checked(REMOTE))
    lab.update(4, bound=1, containers=checked(HealthCheck(type="REMOTE_TCP", port=81)))
    for _ in range(4):
        lab.run()
        new = [group for group in lab.groups if group.version == lab.application.version]
        assert len(new) == len([group for group in new if group.tasks[0].healthy]) + 1
        lab.turn(inputs.HealthReported(task_id=unprobed(new), type="REMOTE_TCP", healthy=True))
    assert lab.transaction("UPDATE").status == "FINISH"


def unprobed(groups: list[TaskGroup]) -> str:
    (found,) = [group.tasks[0].id for group in groups if group.tasks[0].healthy is None]
    return found


def replace_port() -> HealthCheck:
    return HealthCheck(type="HTTP", port=81)


@pytest.mark.parametrize("ready", [True, False])
def test_the_state_counts_what_is_not_healthy(ready: bool) -> None:
    lab = running(2, containers=checked())
    say(lab, lab.group(1), ready)
    assert lab.core.state.unhealthy("default/web") == (0 if ready else 1)
    lab.delete(enforce=True)
    assert lab.core.state.unhealthy("default/web") == 0
