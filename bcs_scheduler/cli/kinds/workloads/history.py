"""Events of an application, and sections of descriptions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from bcs_scheduler.cli.client.lookup import name_of
from bcs_scheduler.cli.client.types import Json
from bcs_scheduler.cli.errors import NotFound
from bcs_scheduler.cli.output.tables import Column, table
from bcs_scheduler.cli.output.text import local_time, moment, operation, wrapped
from bcs_scheduler.cli.session import Session
from store.keys import nanoseconds_of

if TYPE_CHECKING:
    from bcs_scheduler.cli.client.client import Client


def section(session: Session, title: str, columns: Sequence[Column], items: list[Json]) -> None:
    if items:
        session.out.print(f"\n{title}", "bold")
        session.show(table(columns, items, wide=session.wide))


def events_of(client: Client, namespace: str, name: str) -> list[Json]:
    """The stored events of an application, oldest first, with notes of its transactions and states of its taskgroups
    that no event contains."""
    try:
        events = client.events(namespace, {"owner": name})
    except NotFound:
        events = []  # a server without events
    # A note of a transaction is also the message of an event of the same moment, as long as the event is stored.
    noted = {(event["transaction"], event["time"]) for event in events}
    lines = [
        {
            "at": moment(event["time"]),
            "kind": event["kind"],
            "about": event["name"],
            "text": f"{event['reason']}: {event['message']}",
        }
        for event in events
    ]
    lines += [
        {
            "at": moment(note["at"]),
            "kind": "transaction",
            "about": transaction["transactionID"],
            "text": f"{operation(transaction)}: {note['text']}",
        }
        for transaction in client.transactions(namespace, name)
        for note in transaction["history"]
        if (transaction["transactionID"], note["at"]) not in noted
    ]
    known = {event["name"] for event in events}
    for group in client.taskgroups(namespace, name):
        if group["ID"] in known:
            continue
        # The id ends in the nanosecond of its creation. Reports have whole seconds, so that the last one is put after
        # it.
        made = nanoseconds_of(group["ID"]) / 1e9
        about = {"kind": "taskgroup", "about": group["ID"]}
        last = f"taskgroup {group['LastStatus']} -> {group['Status']} {group['Message']}".rstrip()
        lines += [
            {"at": made, **about, "text": f"taskgroup created for {group['HostName']}"},
            {"at": max(made, _turned_at(group)), **about, "text": last},
            *_check_events(group),
        ]
    return sorted(lines, key=lambda line: line["at"])


def _turned_at(group: Json) -> float:
    """Time of the last change of the status. The update time changes also with health and limits."""
    started = [moment(task.get("StartTime")) for task in group.get("Taskgroup") or ()]
    return max(started) if started and group["Status"] == "Running" else moment(group["UpdateTime"])


def _check_events(group: Json) -> list[Json]:
    """The last change of each health check."""
    return [
        {
            "at": moment(check["updateTime"]),
            "kind": "taskgroup",
            "about": group["ID"],
            "text": f"task {task['Name']}: {check['type']} check {'passes' if check['result'] else 'fails'}: "
            + (check["message"] or "no details"),
        }
        for task in group.get("Taskgroup") or ()
        for check in task.get("HealthCheckStatus") or ()
        if check.get("updateTime")
    ]


def print_events(session: Session, namespace: str, name: str, about: str = "") -> None:
    """Prints the events of an application. `about`: name of a taskgroup, whose events alone are printed; empty = all.
    Former taskgroups of this name have their events there, too."""
    session.out.print("\nEvents", "bold")
    for line in events_of(session.client, namespace, name):
        shown = name_of(line["kind"], line["about"])
        if not about or about == shown:
            text = f"{local_time(line['at'])}  {line['kind']}/{shown}  {line['text']}"
            session.say("\n".join(wrapped(text, session.out.width, "  ")))
