"""Status rules: Mesos states -> task -> taskgroup -> application, and the restart policy. Pure functions.

Tables: bcs_api section 8, bcs_internals section 5. Two rules repair the original: a terminal task is final, whatever
arrives later (W-13), and a report never moves a task backwards (an old STARTING after RUNNING is dropped).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

import msgspec

from store.definition import RestartPolicy, UnreachablePolicy
from store.records import ApplicationStatus, CheckResult, Task, TaskGroup, TaskGroupStatus, TaskStatus
from transactions import health, relaunch

READY: frozenset[TaskGroupStatus] = frozenset({"Running", "Finish"})
"""A taskgroup in one of these does what its application wants of it, unless its health checks say otherwise."""
RUNNING = "application is running"
RESTART_DELAY_MAX = 85920.0
"""Longest restart delay in seconds: 86400 - 480 (bcs_internals 4.9)."""
FREE_RESTARTS = 3
CRASH_LOOP_DELAY_MAX = 60.0
"""A taskgroup that keeps failing is held back after FREE_RESTARTS quick restarts by 1, 2, 4, ... seconds even if its
policy asks for no delay, so that a crash loop cannot flood the cluster."""

BROKEN = "a task of it has ended"
"""Kill reason of a taskgroup that failed by itself in part: the rest of it is ended, and its restart policy applies."""

ROLLED = "removed by a rolling update"
"""Kill reason of a taskgroup that a rolling update has chosen to go: nothing restarts or replaces it."""

_RANK: Mapping[TaskStatus, int] = {"Staging": 0, "Starting": 1, "Running": 2, "Restarting": 2, "Lost": 2, "Killing": 3}


class Mapped(NamedTuple):
    """What a Mesos state means for a task. `ended`: it is certain that the task does not run."""

    status: TaskStatus
    ended: bool


STATES: Mapping[str, Mapped] = {
    "TASK_STAGING": Mapped("Staging", False),
    "TASK_STARTING": Mapped("Starting", False),
    "TASK_RUNNING": Mapped("Running", False),
    "TASK_KILLING": Mapped("Killing", False),
    "TASK_FINISHED": Mapped("Finish", True),
    "TASK_FAILED": Mapped("Failed", True),
    "TASK_GONE": Mapped("Failed", True),
    "TASK_KILLED": Mapped("Killed", True),
    "TASK_ERROR": Mapped("Error", True),
    "TASK_LOST": Mapped("Lost", True),
    "TASK_DROPPED": Mapped("Lost", True),
    "TASK_GONE_BY_OPERATOR": Mapped("Lost", True),
    "TASK_UNREACHABLE": Mapped("Lost", False),
    # The master has forgotten the agent; the task may or may not run, and may come back with its agent.
    "TASK_UNKNOWN": Mapped("Lost", False),
}


class Detail(Protocol):
    """What our own executor says of a task beside its state."""

    @property
    def pid(self) -> int: ...
    @property
    def container_id(self) -> str: ...
    @property
    def container_ip(self) -> str: ...
    @property
    def exit_code(self) -> int | None: ...
    @property
    def oom(self) -> bool: ...
    @property
    def restarting(self) -> bool: ...
    @property
    def started_at(self) -> float: ...
    @property
    def finished_at(self) -> float: ...
    @property
    def checks(self) -> Sequence[health.Probe]: ...


class Report(NamedTuple):
    """The parts of a status update that the rules look at."""

    state: str
    message: str = ""
    reason: str = ""
    healthy: bool | None = None
    container_ip: str = ""
    detail: Detail | None = None
    answer: bool = False
    """It repeats what Mesos knows, because it was asked: of a task that has not ended its message tells nothing new."""
    unfetched: bool = False
    """The agent could not fetch the executor."""


def judged(report: Report, group: TaskGroup) -> Report:
    """The report as it is meant for this taskgroup. A launch that did not happen is told in several ways. Mesos's own
    executor words the end of a task that failed its health check like one that was asked for, although its taskgroup is
    still wanted."""
    if relaunch.did_not_happen(report, group):
        return report._replace(state="TASK_DROPPED")
    if report.state != "TASK_KILLED" or report.healthy is not False or group.killing_since:
        return report
    message = f"health check failed: {report.message}" if report.message else "health check failed"
    return report._replace(state="TASK_FAILED", message=message)


def reduce_task(task: Task, report: Report, now: float) -> Task:
    """The task after the report; the same object if the report changes nothing."""
    mapped = STATES.get(report.state)
    if task.ended or mapped is None:
        return task
    if report.detail is not None and report.detail.restarting and mapped.status == "Running":
        mapped = Mapped("Restarting", False)
    returned = task.status == "Lost" and mapped.status in ("Staging", "Starting", "Running", "Killing")
    if not (mapped.ended or mapped.status == "Lost" or returned) and _RANK[mapped.status] < _RANK[task.status]:
        return task
    same = mapped.status == task.status
    told = "" if report.answer and not mapped.ended else report.message
    message = told or (task.message if same else "")
    oom = task.oom or "MEMORY" in report.reason
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
        oom=oom or known.oom,
        container_ip=report.container_ip or known.container_ip,
        updated_at=now,
    )


def _reopened(task: Task, now: float) -> Task:
    return task if task.status == "Restarting" else with_checks(task, health.reopen(task.checks, now))


def _probed(task: Task, report: Report, now: float) -> Task:
    """The task after what an executor without details says of its health."""
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
    """The task after the details; the same object if they change nothing. What an executor does not know (any more)
    leaves what was known. The status stays as it is."""
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
    """The task after a steady report, which is best effort and unordered: it tells more of what is known to run, and
    neither begins nor ends anything."""
    if task.status not in ("Running", "Restarting") or detail.exit_code is not None or detail.finished_at:
        return task
    status: TaskStatus = "Restarting" if detail.restarting else "Running"
    known = apply_detail(_reopened(task, now) if status == "Restarting" else task, detail, now)
    if status == task.status:
        return known
    return msgspec.structs.replace(known, status=status, last_status=task.status, status_since=now, updated_at=now)


def taskgroup_status(tasks: Sequence[Task]) -> tuple[TaskGroupStatus, str]:
    """Status and message of a taskgroup from its tasks: the first rule that holds (bcs_internals 5.4)."""
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
        return "Restarting", "pod is restarting"
    if "Running" in statuses:
        return "Running", "pod is running"
    return "Unknown", ""


def advance(group: TaskGroup, tasks: tuple[Task, ...], now: float) -> TaskGroup:
    """The taskgroup with these tasks: status, start, end and reachability follow."""
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


def is_leaving(group: TaskGroup) -> bool:
    """A rolling update has chosen it to go."""
    return group.kill_reason == ROLLED


def is_ready(group: TaskGroup) -> bool:
    """It runs (or has done its work), its health checks pass, and nobody is about to end it."""
    return group.status in READY and not group.killing_since and (group.status == "Finish" or health.passes(group))


def serves(group: TaskGroup) -> bool:
    """It runs, its health checks pass, and nobody is about to end it: what counts for deployments and daemonsets, which
    keep things running. What has done its work does not serve any more."""
    return group.status == "Running" and is_ready(group)


def application_status(counts: Mapping[str, int], wanted: int, unhealthy: int = 0) -> tuple[ApplicationStatus, str]:
    """Status and message of an application that no operation owns, from its taskgroups' statuses (bcs_internals 5.5).
    Failing health checks are told, and change nothing else.

    Killed taskgroups count like failed ones: unless an operation asked for it, nobody wanted them to end (W51).
    """
    total = sum(counts.values())
    if not total and not wanted:
        return "Abnormal", "no taskgroups are wanted"
    running = counts.get("Running", 0) + counts.get("Restarting", 0)
    if counts.get("Error", 0):
        return "Error", "application has error pods"
    if counts.get("Failed", 0) or counts.get("Killed", 0):
        return "Abnormal", "application has failed pods"
    if counts.get("Lost", 0):
        return "Abnormal", "have some lost taskgroups"
    if total < wanted:
        return "Abnormal", f"have not enough taskgroups: {total} of {wanted} exist"
    if total and counts.get("Finish", 0) == total:
        return "Finish", "all pods are finish"
    if counts.get("Starting", 0) or counts.get("Staging", 0):
        return "Deploying", "some pods are staging or starting"
    if running == wanted:
        return "Running", f"{RUNNING}, {unhealthy} of {total} taskgroups are not healthy" if unhealthy else RUNNING
    return "Abnormal", "application is abnormal"


class Restart(NamedTuple):
    """A replacement is due at `at`. `restarts` is how many count so far (0 after a long run)."""

    at: float
    restarts: int
    why: str


def restart_decision(
    group: TaskGroup, policy: RestartPolicy, unreachable: UnreachablePolicy, reset_after: float, now: float
) -> Restart | None:
    """Whether and when a taskgroup nobody asked to end is replaced (bcs_internals 4.9), or None.

    * launch that never happened (transactions.relaunch): always, whatever the policy, and it does not count
    * ended by our own kill although its application still wants it (a cancelled operation): always
    * Failed, Error, Killed from outside, gone for good: OnFailure and Always
    * Finish: Always
    * on an unreachable agent: OnFailure and Always, after `replace_after` seconds of waiting
    * none of these if a user has cancelled its restart
    """
    if group.held:
        return None
    ran = (group.ended_at or now) - group.running_since if group.running_since else 0.0
    count = 0 if ran >= reset_after or now - (group.last_restart_at or now) >= reset_after else group.restarts
    since = group.ended_at or now
    if group.ended and group.killing_since and group.kill_reason != BROKEN:
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
    """From when on an unreachable taskgroup may be replaced without being asked for; None = never, or it is not
    unreachable."""
    if not group.unreachable_since or unreachable.replace_after < 0:
        return None
    return group.unreachable_since + unreachable.replace_after


def _hold_back(count: int) -> float:
    return 0.0 if count < FREE_RESTARTS else min(2.0 ** (count - FREE_RESTARTS), CRASH_LOOP_DELAY_MAX)
