"""What descriptions have in common: sections of tables, pairs, times, and the story of an owner of taskgroups."""

from __future__ import annotations

import time
from typing import Any

from rich.text import Text

from bcs_scheduler.cli.client import Client, Json
from bcs_scheduler.cli.errors import NotFound
from bcs_scheduler.cli.options import Session
from bcs_scheduler.cli.output import age, duration, local_time, moment, table
from bcs_scheduler.cli.views import COLUMNS
from store.ids import nanoseconds_of


def section(session: Session, title: str, kind: str, items: list[Json]) -> None:
    if items:
        session.out.print(Text(f"\n{title}", style="bold"))
        session.show(table(COLUMNS[kind], items))


def story_of(client: Client, namespace: str, name: str) -> list[Json]:
    """The events of an application as far as they are kept, oldest first, and what else its transactions noted and is
    known of its taskgroups."""
    try:
        events = client.events(namespace, {"owner": name})
    except NotFound:
        events = []  # a server that keeps none
    told = [event["message"] for event in events]
    lines = [
        {"at": moment(event["time"]), "about": event["name"], "text": f"{event['reason']}: {event['message']}"}
        for event in events
    ]
    lines += [
        {
            "at": moment(note["at"]),
            "about": transaction["transactionID"],
            "text": f"{transaction['curOp']['opType']}: {note['text']}",
        }
        for transaction in client.transactions(namespace, name)
        for note in transaction["history"]
        if not any(message.endswith(note["text"].partition(": ")[2] or note["text"]) for message in told)
    ]
    known = {event["name"] for event in events}
    for group in client.taskgroups(namespace, name):
        if group["ID"] in known:
            continue
        # The id ends in the nanosecond it was made in; the last report is given in whole seconds, so it comes after.
        made = nanoseconds_of(group["ID"]) / 1e9
        last = f"taskgroup {group['LastStatus']} -> {group['Status']} {group['Message']}".rstrip()
        lines += [
            {"at": made, "about": group["ID"], "text": f"taskgroup made for {group['HostName']}"},
            {"at": max(made, _turned_at(group)), "about": group["ID"], "text": last},
            *_health_story(group),
        ]
    return sorted(lines, key=lambda line: line["at"])


def _turned_at(group: Json) -> float:
    """When it took its status. Other things of a taskgroup that runs change as well: its health, its limits."""
    started = [moment(task.get("StartTime")) for task in group.get("Taskgroup") or ()]
    return max(started) if started and group["Status"] == "Running" else moment(group["UpdateTime"])


def _health_story(group: Json) -> list[Json]:
    """The last turn of each health check."""
    return [
        {
            "at": moment(check["updateTime"]),
            "about": group["ID"],
            "text": f"task {task['Name']}: {check['type']} check {'passes' if check['result'] else 'fails'}: "
            + (check["message"] or "no details"),
        }
        for task in group.get("Taskgroup") or ()
        for check in task.get("HealthCheckStatus") or ()
        if check.get("updateTime")
    ]


def print_story(session: Session, namespace: str, name: str, about: str = "") -> None:
    session.out.print(Text("\nStory", style="bold"))
    for line in story_of(session.client, namespace, name):
        if not about or about in (line["about"], *line["text"].split()):
            session.say(f"  {local_time(line['at'])}  {line['about']}  {line['text']}")


def pairs(labels: Any) -> str:
    return ", ".join(f"{key}={value}" for key, value in (labels or {}).items())


def when(value: Any) -> str:
    at, now = moment(value), time.time()
    if at <= 0:
        return ""
    return f"{local_time(value)} (in {duration(at - now)})" if at > now else f"{local_time(value)} ({age(value)} ago)"
