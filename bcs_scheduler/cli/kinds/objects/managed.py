"""Managed applications, which application managers or reservations have made: columns, descriptions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bcs_scheduler.cli.client.types import Json
from bcs_scheduler.cli.kinds.base import Found, Functions
from bcs_scheduler.cli.kinds.workloads.history import section
from bcs_scheduler.cli.output.data import print_data
from bcs_scheduler.cli.output.tables import Column, age_column, field_list, reason_column, time_column
from bcs_scheduler.cli.output.text import counted, duration, when
from bcs_scheduler.cli.session import Session

SUMS = "ManagedSumsWrong"
"""Reason of the events of the check of sums."""
SHOWN = 5
"""Number of the newest events of the check of sums."""


def _created(item: Json) -> Any:
    return (item.get("metadata") or item).get("creationTimestamp")


def _numbers(found: Mapping[str, int]) -> str:
    return ",".join(f"{state}={number}" for state, number in found.items())


MANAGED_COLUMNS = (
    Column("NAME", lambda m: m["metadata"]["name"]),
    Column("MANAGER", lambda m: m["spec"]["manager"]),
    Column("STATE", lambda m: m["status"]["state"]),
    Column("TASKS", lambda m: _numbers(m["status"]["tasks"]), whole=True),
    age_column("AGE", _created),
    Column("QUEUE", lambda m: m["spec"]["queue"], wide=True),
    Column("QUEUE-STATE", lambda m: m["status"]["queueState"], wide=True),
    Column("WAITING", lambda m: m["status"]["waiting"], wide=True, right=True),
    Column("PLACEHOLDERS", lambda m: _numbers(m["status"]["placeholders"]), wide=True),
    Column("USER", lambda m: m["spec"]["user"], wide=True),
    time_column("CREATED", _created),
    reason_column(lambda m: m["status"]["reason"]),
)
MEMBER = (
    Column("NAME", lambda m: m["name"]),
    Column("GROUP", lambda m: m["group"]),
    Column("STATE", lambda m: m["state"]),
    Column("AGENT", lambda m: m["agent"]),
)
"""Columns of a task and of a placeholder."""
TASKS = (
    *MEMBER,
    Column("APPLICATION", lambda t: t["application"]),
    Column("PLACEHOLDER", lambda t: t["placeholder"], wide=True),
    Column("OUTCOME", lambda t: t.get("outcome")),
    Column("EXIT CODE", lambda t: t.get("exitCode"), right=True),
    age_column("AGE", _created),
    reason_column(lambda t: t["reason"]),
)
PLACEHOLDERS = (
    *MEMBER,
    Column("RELEASE", lambda p: p["release"]),
    Column("TASK", lambda p: p["task"]),
    age_column("AGE", _created),
)
GROUPS = (
    Column("NAME", lambda g: g["name"]),
    Column("MIN-MEMBER", lambda g: g["minMember"], right=True),
    Column("PLACEHOLDERS", lambda g: g["total"], right=True),
    Column("SERVING", lambda g: g["serving"], right=True),
    Column("REPLACED", lambda g: g["replaced"], right=True),
    Column("TIMED-OUT", lambda g: g["timedOut"], right=True),
)
ORPHANS = (
    Column("NAME", lambda o: o["name"]),
    Column("ATTEMPTS", lambda o: o["attempts"], right=True),
    Column("TASKGROUPS", lambda o: o["taskgroups"], right=True),
)
HISTORY = (
    age_column("AGE", lambda c: c["time"]),
    Column("EVENT", lambda c: c["event"]),
    Column("BEFORE", lambda c: c["before"]),
    Column("AFTER", lambda c: c["after"]),
    time_column("TIME", lambda c: c["time"]),
)
EVENTS = (
    age_column("AGE", lambda e: e["time"]),
    Column("REASON", lambda e: e["reason"]),
    Column("MESSAGE", lambda e: e["message"], long=True),
)


def read_managed(session: Session, namespace: str | None, name: str | None, selector: str) -> Found:
    client = session.client
    if name:
        return client.managed_application(namespace or session.namespace, name)
    return client.managed_applications(namespace)


def describe_managed(session: Session, name: str, events: bool, form: str) -> None:
    client, namespace = session.client, session.namespace
    found = client.managed_application(namespace, name)
    wrong = client.events(namespace, {"kind": "application", "name": name, "reason": SUMS, "last": SHOWN})
    told = client.events(namespace, {"owner": name}) if events else []
    if form:
        data = {"managed": found, "sums": wrong}
        print_data(session.out, {**data, "events": told} if events else data, form)
        return
    head, spec, status = found["metadata"], found["spec"], found["status"]
    session.show(
        field_list(
            [
                ("Name", head["name"]),
                ("Namespace", head["namespace"]),
                ("Manager", spec["manager"] or "none, the reservation of an application"),
                ("Pod group", spec.get("podGroup", "")),
                ("Queue", spec["queue"]),
                ("User", spec["user"]),
                ("Owner", spec["owner"]),
                ("State", f"{status['state']}, in the queue {status['queueState']}"),
                ("Wanted end", status["wanted"]),
                ("Reason", status["reason"]),
                ("Style", spec["style"]),
                ("Time-out", duration(spec["timeoutSeconds"]) if spec["timeoutSeconds"] else ""),
                ("Created", when(head.get("creationTimestamp"))),
                ("Tasks", _numbers(status["tasks"]) or "none"),
                ("Outstanding", f"{counted(status['waiting'], 'task')} without an agent"),
                ("Sums", f"{counted(len(wrong), 'fault')} in the stored events" if wrong else "no fault is stored"),
            ]
        )
    )
    section(session, "Tasks", TASKS, found["tasks"])
    section(session, "Task groups", GROUPS, found["groups"])
    section(session, "Placeholders", PLACEHOLDERS, found["placeholders"])
    section(session, "Orphans", ORPHANS, found["orphans"])
    section(session, "Changes of the state", HISTORY, found["history"])
    section(session, "Changes of the state in the queue", HISTORY, found["queueHistory"])
    section(session, "Faults of sums", EVENTS, wrong)
    section(session, "Events", EVENTS, told)


FUNCTIONS = {"managed": Functions(MANAGED_COLUMNS, read_managed, describe_managed)}
