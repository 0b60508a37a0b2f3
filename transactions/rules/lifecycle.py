"""Status rules: reported states -> task -> taskgroup -> application, and the restart policy. Pure functions.

Tables: docs/original.md#task-statuses. Two rules repair the original: a terminal task is final, also if reports arrive
later (docs/original.md#terminal-is-final), and a report never moves a task backwards (an old STARTING after RUNNING is
dropped).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

import msgspec

from store.records import ApplicationStatus, CheckResult, Task, TaskGroup, TaskGroupStatus, TaskStatus
from store.records.definition import RestartPolicy, UnreachablePolicy
from store.state import readiness
from transactions.rules import health, relaunch
from transactions.rules.task_states import TaskState
from transactions.text import counted

READY: frozenset[TaskGroupStatus] = frozenset({"Running", "Finish"})
"""Statuses of taskgroups that do their work, unless their health checks fail."""
RUNNING = "application is running"
RESTART_DELAY_MAX = 85920.0
"""Longest restart delay in seconds: 86400 - 480 (docs/original.md#restart-policy)."""
FREE_RESTARTS = 3
CRASH_LOOP_DELAY_MAX = 60.0
"""A taskgroup that keeps failing is held back after FREE_RESTARTS quick restarts by 1, 2, 4, ... seconds even if its
policy asks for no delay, so that a crash loop cannot flood the cluster."""

_RANK: Mapping[TaskStatus, int] = {"Staging": 0, "Starting": 1, "Running": 2, "Restarting": 2, "Lost": 2, "Killing": 3}


class Mapped(NamedTuple):
    """The meaning of a reported state for a task. `ended`: it is certain that the task does not run."""

    status: TaskStatus
    ended: bool


STATES: Mapping[TaskState, Mapped] = {
    TaskState.STAGING: Mapped("Staging", False),
    TaskState.STARTING: Mapped("Starting", False),
    TaskState.RUNNING: Mapped("Running", False),
    TaskState.KILLING: Mapped("Killing", False),
    TaskState.FINISHED: Mapped("Finish", True),
    TaskState.FAILED: Mapped("Failed", True),
    TaskState.GONE: Mapped("Failed", True),
    TaskState.KILLED: Mapped("Killed", True),
    TaskState.ERROR: Mapped("Error", True),
    TaskState.LOST: Mapped("Lost", True),
    TaskState.DROPPED: Mapped("Lost", True),
    TaskState.GONE_BY_OPERATOR: Mapped("Lost", True),
    TaskState.UNREACHABLE: Mapped("Lost", False),
    # The cluster manager has removed the agent; the task may run, and may return with its agent.
    TaskState.UNKNOWN: Mapped("Lost", False),
}


class Detail(Protocol):
    """The details that our own executor reports of a task beside its state."""

    @property
    def pid(self) -> int:
        """Process id on the agent; 0 = not known."""

    @property
    def container_id(self) -> str:
        """Id of the container; empty without one."""

    @property
    def container_ip(self) -> str:
        """Address of the container; empty without one of its own."""

    @property
    def exit_code(self) -> int | None:
        """Exit code of the process; None while it runs, or if it is not known."""

    @property
    def oom(self) -> bool:
        """True if the kernel ended the task because memory ran out."""

    @property
    def restarting(self) -> bool:
        """True if the executor is restarting the task on request."""

    @property
    def started_at(self) -> float:
        """Unix seconds; 0.0 = not known."""

    @property
    def finished_at(self) -> float:
        """Unix seconds; 0.0 = it runs, or not known."""

    @property
    def checks(self) -> Sequence[health.Probe]:
        """Results of the checks that the executor carries out."""


class Report(NamedTuple):
    """The parts of a status update that the rules look at."""

    state: TaskState
    message: str = ""
    reason: str = ""
    """Code of the cluster manager, shown to users and never compared."""
    healthy: bool | None = None
    container_ip: str = ""
    detail: Detail | None = None
    answer: bool = False
    """The answer to a question. Of a task that has not ended, its message says nothing new."""
    unfetched: bool = False
    """The agent could not fetch the executor."""
    out_of_memory: bool = False
    """The task was ended because it used more memory than it may."""


def applied_report(report: Report, group: TaskGroup) -> Report:
    """Returns the report as it applies to this taskgroup. Several states mean that a launch did not happen; they become
    DROPPED. An executor that is not ours reports the end of a task that failed its health check like a requested end;
    if the end was not requested, the state becomes FAILED."""
    if relaunch.did_not_happen(report, group):
        return report._replace(state=TaskState.DROPPED)
    if report.state != TaskState.KILLED or report.healthy is not False or group.killing_since:
        return report
    message = f"health check failed: {report.message}" if report.message else "health check failed"
    return report._replace(state=TaskState.FAILED, message=message)


def reduce_task(task: Task, report: Report, now: float) -> Task:
    """Returns the task after the report; the same object if the report changes nothing. `now`: Unix seconds."""
    mapped = STATES.get(report.state)
    if task.ended or mapped is None:
        return task
    if report.detail is not None and report.detail.restarting and mapped.status == "Running":
        mapped = Mapped("Restarting", False)
    returned = task.status == "Lost" and mapped.status in ("Staging", "Starting", "Running", "Killing")
    if not (mapped.ended or mapped.status == "Lost" or returned) and _RANK[mapped.status] < _RANK[task.status]:
        return task
    same = mapped.status == task.status
    reported = "" if report.answer and not mapped.ended else report.message
    message = reported or (task.message if same else "")
    oom = task.oom or report.out_of_memory
    container_ip = report.container_ip or task.container_ip
    known = _reopened(task, now) if mapped.status == "Restarting" else task
    known = apply_detail(_probed(known, report, now), report.detail, now)
    if (
        same
        and known is task
        and mapped.ended == task.ended
        and (message, oom, container_ip) == (task.message, task.oom, task.container_ip)
    ):
        return task
    return msgspec.structs.replace(
        known,
        status=mapped.status,
        last_status=task.last_status if same else task.status,
        status_since=task.status_since if same else now,
        ended=mapped.ended,
        message=message,
        reason=report.reason,
        unfetched=report.unfetched,
        oom=oom or known.oom,
        container_ip=report.container_ip or known.container_ip,
        updated_at=now,
    )


def _reopened(task: Task, now: float) -> Task:
    return task if task.status == "Restarting" else with_checks(task, health.reset_local(task.checks, now))


def _probed(task: Task, report: Report, now: float) -> Task:
    """Returns the task after the health report of an executor that sends no details."""
    if report.healthy is None or report.detail is not None:
        return task
    if task.checks:
        return with_checks(task, health.apply_local(task.checks, report.healthy, now))
    return task if report.healthy is task.healthy else msgspec.structs.replace(task, healthy=report.healthy)


def with_checks(task: Task, checks: tuple[CheckResult, ...]) -> Task:
    """The task with these results; the same object if they are the ones it has."""
    if checks is task.checks:
        return task
    return msgspec.structs.replace(task, checks=checks, healthy=health.summary(checks))


def apply_detail(task: Task, detail: Detail | None, now: float) -> Task:
    """Returns the task with the details; the same object if they change nothing. Details that the executor does not
    know (any more) stay as they were. The status stays as it is. `detail` None: the report has no details. `now`: Unix
    seconds."""
    if detail is None:
        return task
    checks = health.apply(task.checks, detail.checks, now) if task.checks else task.checks
    facts = (
        detail.pid or task.pid,
        detail.container_id or task.container_id,
        detail.container_ip or task.container_ip,
        detail.exit_code if detail.exit_code is not None else task.exit_code,
        detail.oom or task.oom,
        detail.started_at or task.started_at,
        detail.finished_at or task.finished_at,
    )
    if checks is task.checks and facts == (
        task.pid,
        task.container_id,
        task.container_ip,
        task.exit_code,
        task.oom,
        task.started_at,
        task.finished_at,
    ):
        return task
    pid, container_id, container_ip, exit_code, oom, started_at, finished_at = facts
    return msgspec.structs.replace(
        with_checks(task, checks),
        pid=pid,
        container_id=container_id,
        container_ip=container_ip,
        exit_code=exit_code,
        oom=oom,
        started_at=started_at,
        finished_at=finished_at,
        updated_at=now,
    )


def apply_steady(task: Task, detail: Detail, now: float) -> Task:
    """Returns the task after a steady report. Such reports are best effort and unordered: they add details of tasks
    that are known to run, and neither begin nor end a task. `now`: Unix seconds."""
    if task.status not in ("Running", "Restarting") or detail.exit_code is not None or detail.finished_at:
        return task
    status: TaskStatus = "Restarting" if detail.restarting else "Running"
    known = apply_detail(_reopened(task, now) if status == "Restarting" else task, detail, now)
    if status == task.status:
        return known
    return msgspec.structs.replace(known, status=status, last_status=task.status, status_since=now, updated_at=now)


def taskgroup_status(tasks: Sequence[Task]) -> tuple[TaskGroupStatus, str]:
    """Status and message of a taskgroup from its tasks: the first rule that holds
    (docs/original.md#taskgroup-status)."""
    statuses = {task.status for task in tasks}
    for status in ("Failed", "Killing", "Error"):
        if status in statuses:
            words = next((t.message for t in tasks if t.status == status), "")
            return (status, "some tasks are killing") if status == "Killing" else (status, words)
    if statuses <= {"Finish"}:
        return "Finish", "all tasks are finish"
    if statuses == {"Killed"}:
        return "Killed", next((t.message for t in tasks if t.message), "") or "all tasks are killed"
    if "Lost" in statuses:
        return "Lost", next((t.message for t in tasks if t.status == "Lost"), "") or "some tasks are lost"
    if "Killed" in statuses and statuses <= {"Killed", "Finish"}:
        return "Killed", "some tasks are killed"
    if statuses == {"Staging"}:
        return "Staging", "all tasks are staging"
    if "Starting" in statuses:
        return "Starting", "some tasks are starting"
    if "Restarting" in statuses:
        return "Restarting", "taskgroup is restarting"
    if "Running" in statuses:
        return "Running", "taskgroup is running"
    return "Unknown", ""


def advance(group: TaskGroup, tasks: tuple[Task, ...], now: float) -> TaskGroup:
    """Returns the taskgroup with these tasks, and with status, start, end and reachability derived from them. `now`:
    Unix seconds."""
    status, message = taskgroup_status(tasks)
    ended, unreachable, started = True, False, group.started
    for task in tasks:
        ended = ended and task.ended
        unreachable = unreachable or (task.status == "Lost" and not task.ended)
        started = started or task.status in ("Starting", "Running", "Restarting")
    running = status in ("Running", "Restarting")
    return msgspec.structs.replace(
        group,
        tasks=tasks,
        status=status,
        last_status=group.status if group.status != status else group.last_status,
        message=message,
        held=group.held and not running,
        started=started,
        unreachable_since=(group.unreachable_since or now) if unreachable else 0.0,
        running_since=(group.running_since or now) if running else (group.running_since if ended else 0.0),
        ended_at=(group.ended_at or now) if ended else 0.0,
        updated_at=now,
    )


def is_chosen_by_rollout(group: TaskGroup) -> bool:
    """Returns True if a rolling update has chosen this taskgroup to be ended."""
    return group.end_cause == "RollingUpdate"


def is_ready_or_finished(group: TaskGroup) -> bool:
    """Returns True if the taskgroup is ready, or has finished its work. Used for applications without deployment or
    daemonset, where an end without error is no disruption."""
    return group.status in READY and not group.killing_since and (group.status == "Finish" or readiness.passes(group))


def is_ready(group: TaskGroup) -> bool:
    """Returns True if the taskgroup runs, its health checks pass, and it is not being ended. Used for deployments and
    daemonsets, which keep taskgroups running: a finished taskgroup is not ready."""
    return readiness.is_ready(group)


def application_status(counts: Mapping[str, int], wanted: int, unhealthy: int = 0) -> tuple[ApplicationStatus, str]:
    """Computes status and message of an application that no operation owns, from the number of its taskgroups by status
    (docs/original.md#application-status). Failing health checks appear in the message and change nothing else.

    Killed taskgroups count like failed ones: unless an operation requested their end, the end was not wanted
    (docs/original.md#ended-taskgroups).
    """
    total = sum(counts.values())
    if not total and not wanted:
        return "Stopped", "no taskgroups are wanted"
    running = counts.get("Running", 0) + counts.get("Restarting", 0)
    if counts.get("Error", 0):
        return "Error", "application has taskgroups with errors"
    if counts.get("Failed", 0) or counts.get("Killed", 0):
        return "Abnormal", "application has failed taskgroups"
    if counts.get("Lost", 0):
        return "Abnormal", "have some lost taskgroups"
    if total < wanted:
        return "Pending", f"{wanted - total} of {counted(wanted, 'taskgroup')} without a place"
    if total and counts.get("Finish", 0) == total:
        return "Finish", "all taskgroups have finished"
    if counts.get("Starting", 0) or counts.get("Staging", 0):
        return "Deploying", "some taskgroups are staging or starting"
    if running == wanted:
        return (
            "Running",
            f"{RUNNING}, {unhealthy} of {counted(total, 'taskgroup')} not healthy" if unhealthy else RUNNING,
        )
    return "Abnormal", "application is abnormal"


class Restart(NamedTuple):
    """A decision to replace a taskgroup at `at` (Unix seconds). `restarts`: restarts that count so far (0 after a long
    run). `why`: the reason, for users."""

    at: float
    restarts: int
    why: str


def restart_decision(
    group: TaskGroup, policy: RestartPolicy, unreachable: UnreachablePolicy, reset_after: float, now: float
) -> Restart | None:
    """Decides when a taskgroup whose end was not requested is replaced (docs/original.md#restart-policy). None: it is
    not replaced. `reset_after`: seconds of running after which the count of restarts begins anew.

    * A launch that never happened (transactions.rules.relaunch) is always repeated, under every policy, and
      does not count.
    * A taskgroup that the scheduler has ended although its application still wants it (a cancelled operation) is always
      replaced.
    * Failed, Error, Killed from outside, and gone for good: replaced with OnFailure and Always.
    * Finish: replaced with Always.
    * On an unreachable agent: replaced with OnFailure and Always, after `replace_after` seconds.
    * None of these if a user has cancelled the restart.
    """
    if group.held:
        return None
    ran = (group.ended_at or now) - group.running_since if group.running_since else 0.0
    count = 0 if ran >= reset_after or now - (group.last_restart_at or now) >= reset_after else group.restarts
    since = group.ended_at or now
    if group.ended and group.killing_since and group.end_cause != "TaskEnded":
        return Restart(now, count, "ended by an operation that did not replace it")
    if relaunch.is_due(group):
        return Restart(since + relaunch.pause(group), count, "its launch did not happen")
    if policy.policy == "Never" or (policy.max_times > 0 and count >= policy.max_times):
        return None
    if group.ended:
        if group.status == "Finish" and policy.policy != "Always":
            return None
        delay = min(max(policy.interval + count * policy.backoff, _hold_back(count), 0.0), RESTART_DELAY_MAX)
        return Restart(since + delay, count, f"is {group.status}: {group.message}" if group.message else group.status)
    at = replaceable_at(group, unreachable)
    return Restart(at, count, "its agent is unreachable") if at is not None else None


def replaceable_at(group: TaskGroup, unreachable: UnreachablePolicy) -> float | None:
    """Unix seconds from which an unreachable taskgroup may be replaced without a request; None = never, or the
    taskgroup is reachable."""
    if not group.unreachable_since or unreachable.replace_after < 0:
        return None
    return group.unreachable_since + unreachable.replace_after


def _hold_back(count: int) -> float:
    return 0.0 if count < FREE_RESTARTS else min(2.0 ** (count - FREE_RESTARTS), CRASH_LOOP_DELAY_MAX)
