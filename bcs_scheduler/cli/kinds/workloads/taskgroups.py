"""Taskgroups and tasks: columns, lists, descriptions."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from typing import Any

from bcs_scheduler.cli.client.lookup import application_of, find_target, find_taskgroup
from bcs_scheduler.cli.client.types import Json
from bcs_scheduler.cli.kinds.base import Found, Functions
from bcs_scheduler.cli.output.tables import Column, age_column, field_list, reason_column, time_column
from bcs_scheduler.cli.output.terminal import Styled
from bcs_scheduler.cli.output.text import duration, one_line, status_text, when
from bcs_scheduler.cli.session import Session
from bcs_scheduler.wire.reasons import cause_of_end, ended

STARTING = ("Starting", "Staging")
RIGHT = ("Running", "Finish", *STARTING)
"""Statuses that need no reason."""


def ports_of(group: Json) -> list[tuple[str, int]]:
    """(name, host port) of the ports of all tasks."""
    return [
        (str(port.get("Name") or ""), int(port.get("HostPort") or 0))
        for task in group.get("Taskgroup") or ()
        for port in task.get("PortMappings") or ()
    ]


def addresses_of(group: Json) -> list[tuple[str, str]]:
    """(name, host:port) of the ports of all tasks, as clients reach them. Ports without an address are left out."""
    return [
        (str(port.get("Name") or ""), str(port["Address"]))
        for task in group.get("Taskgroup") or ()
        for port in task.get("PortMappings") or ()
        if port.get("Address")
    ]


def health_text(task: Json) -> Styled:
    """Summary of the health checks of a task."""
    if not task.get("HealthCheckStatus"):
        return Styled("-")
    if not task.get("Healthy", True):
        return Styled("failing", style="red")
    return Styled("healthy", style="green") if task.get("IsChecked") else Styled("not checked yet", style="yellow")


def _failing_checks(task: Json) -> str:
    """Messages of the health checks that a task fails. A check that was not made yet fails nothing."""
    if task.get("Healthy", True):
        return ""
    failing = (check for check in task.get("HealthCheckStatus") or () if not check["result"])
    return ", ".join(f"{check['type']}: {check['message']}" for check in failing)


def _task_reason(task: Json) -> str:
    """Why a task does not run or is not healthy; empty if all is right."""
    return _failing_checks(task) if task["Status"] in RIGHT else str(task.get("Message") or "")


def tasks_of(groups: Iterable[Json]) -> list[Json]:
    """Tasks, with the name of their taskgroup as `Taskgroup`."""
    return [{**task, "Taskgroup": group["Name"]} for group in groups for task in group.get("Taskgroup") or ()]


def _ports(group: Json) -> str:
    return ",".join(f"{name}:{port}" if name else str(port) for name, port in ports_of(group))


def _reschedules(group: Json) -> int:
    return int(group.get("ReschededTimes") or 0)


def reason_of(group: Json) -> str:
    """Why a taskgroup does not run or is not healthy; empty if all is right."""
    failing = [text for task in group.get("Taskgroup") or () if (text := _failing_checks(task))]
    if group["Status"] in STARTING and group.get("LastFailure"):
        return f"starts again after a failure: {group['LastFailure']}"
    if group["Status"] in RIGHT:
        return ", ".join(failing)
    tasks = group.get("Taskgroup") or ()
    words = cause_of_end(*(str(group.get(key) or "") for key in ("EndCause", "KillReason", "Message")))
    return _ended(group, words or next((_task_reason(task) for task in tasks), ""))


def _defined(group: Json) -> float:
    """Unix seconds at which the version of a taskgroup was stored, which is its name in nanoseconds; 0 = unknown."""
    name = str(group.get("VersionName") or "")
    return int(name) / 1e9 if name.isdecimal() else 0.0


def starts_again(group: Json) -> bool:
    """True if the taskgroup has ended and waits for the time of its next start."""
    return int(group.get("NextStart") or 0) - time.time() >= 1


def _ended(group: Json, cause: str) -> str:
    """The cause of the end, with the next start of the taskgroup, or the reason for which there is none."""
    again = duration(int(group["NextStart"]) - time.time()) if starts_again(group) else ""
    limit = (group.get("RestartPolicy") or {}).get("maxtimes")
    return ended(cause, again=again, not_replaced=str(group.get("NotReplaced") or ""), limit=limit)


TASKGROUPS: Sequence[Column] = (
    Column("NAME", lambda g: g["Name"]),
    Column("STATUS", lambda g: status_text(g["Status"])),
    Column("HOST", lambda g: g.get("HostName")),
    Column("PORTS", _ports, long=True),
    Column("RESCHEDULES", _reschedules, right=True, order=_reschedules),
    age_column("AGE", lambda g: g.get("StartTime")),
    Column("ADDRESS", lambda g: ",".join(address for _, address in addresses_of(g)), wide=True),
    Column("ID", lambda g: g["ID"], wide=True),
    Column("AGENT", lambda g: g.get("AgentID"), wide=True),
    Column("VERSION", lambda g: g.get("VersionName"), wide=True),
    time_column("STARTED", lambda g: g.get("StartTime")),
    reason_column(reason_of),
)
TASKS: Sequence[Column] = (
    Column("TASKGROUP", lambda t: t.get("Taskgroup")),
    Column("NAME", lambda t: t.get("Name")),
    Column("STATUS", lambda t: status_text(t["Status"])),
    Column("HEALTH", health_text),
    Column("PID", lambda t: t.get("Pid") or "", right=True),
    Column("EXIT", lambda t: t.get("ExitCode"), right=True),
    Column("HOST", lambda t: t.get("AgentHostname")),
    age_column("AGE", lambda t: t.get("StartTime")),
    Column("ID", lambda t: t["ID"], wide=True),
    time_column("STARTED", lambda t: t.get("StartTime")),
    reason_column(_task_reason),
)


def read_taskgroups(session: Session, namespace: str | None, name: str | None, selector: str) -> Found:
    client = session.client
    if name and "." in name:
        return find_taskgroup(client, session.namespace, name)
    if name:
        target = find_target(client, session.namespace, name)
        return target.taskgroups[0] if target.one else target.taskgroups
    return client.taskgroups(namespace, selector=selector)


def read_tasks(session: Session, namespace: str | None, name: str | None, selector: str) -> Found:
    groups = find_target(session.client, session.namespace, name).taskgroups if name else None
    return tasks_of(session.client.taskgroups(namespace, selector=selector) if groups is None else groups)


def describe_taskgroup(session: Session, name: str, events: bool, form: str) -> None:
    from bcs_scheduler.cli.kinds.workloads.history import print_events
    from bcs_scheduler.cli.output.data import print_data

    group = find_taskgroup(session.client, session.namespace, name)
    if form:
        print_data(session.out, group, form)
        return
    session.show(
        field_list(
            [
                ("Name", group["Name"]),
                ("ID", group["ID"] if session.wide else ""),
                ("Status", status_text(group["Status"])),
                ("Message", group.get("Message")),
                ("Next", _ended(group, "")),
                ("Ended", cause_of_end(str(group.get("EndCause") or ""), str(group.get("KillReason") or ""), "")),
                ("Last failure", group.get("LastFailure")),
                ("Host", group.get("HostName")),
                ("Agent", group.get("AgentID") if session.wide else ""),
                ("Ports", ", ".join(f"{name} {port}" for name, port in ports_of(group))),
                ("Address", ", ".join(f"{name} {address}".strip() for name, address in addresses_of(group))),
                ("Defined", when(_defined(group))),
                ("Version", group.get("VersionName") if session.wide else ""),
                ("Kill policy", _kill_policy(group)),
                ("Reschedules", group.get("ReschededTimes")),
                ("Started", when(group.get("StartTime"))),
                ("Updated", when(group.get("UpdateTime"))),
            ],
        )
    )
    for task in group.get("Taskgroup") or ():
        session.out.print(f"\nTask {task['ID'] if session.wide else _task_name(group, task)}", "bold")
        session.show(field_list(_task_fields(task)))
    if events:
        print_events(session, *application_of(group["ID"]), about=group["Name"])


def _kill_policy(group: Json) -> str:
    policy = group.get("KillPolicy") or {}
    parts = (("grace period", policy.get("gracePeriod")), ("shutdown delay", policy.get("shutdownDelaySeconds")))
    return ", ".join(f"{name} {duration(float(seconds))}" for name, seconds in parts if seconds)


def _task_name(group: Json, task: Json) -> str:
    """The name of a task, or its number in the taskgroup: `--task` takes both."""
    return str(task.get("Name") or [one["ID"] for one in group["Taskgroup"]].index(task["ID"]))


def _task_fields(task: Json) -> list[tuple[str, Any]]:
    command = " ".join([task.get("Command") or "", *(task.get("Arguments") or ())]).strip()
    checks = [
        f"{check['type']} {'ok' if check['result'] else 'fails'}{': ' if check['message'] else ''}{check['message']}"
        for check in task.get("HealthCheckStatus") or ()
    ]
    return [
        ("  Status", status_text(task["Status"])),
        ("  Message", task.get("Message")),
        ("  Health", health_text(task) if checks else ""),
        *(("  Check", check) for check in checks),
        ("  Process", task.get("Pid") or ""),
        ("  Container", task.get("ContainerID")),
        ("  Address", task.get("ContainerIP")),
        ("  Exit code", task.get("ExitCode")),
        ("  Out of memory", "yes" if task.get("OOMKilled") else ""),
        ("  Started", when(task.get("StartTime"))),
        ("  Ended", when(task.get("FinishTime"))),
        ("  Image", task.get("Image")),
        ("  Command", one_line(command, 100)),
    ]


FUNCTIONS = {
    "taskgroups": Functions(
        TASKGROUPS, read_taskgroups, describe_taskgroup, name=lambda taskgroup: str(taskgroup["Name"])
    ),
    "tasks": Functions(TASKS, read_tasks),
}
