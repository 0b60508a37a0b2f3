"""The story of an object: its events and those of its parts, grouped by cause."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator, Mapping

from bcs_scheduler.cli.client.lookup import name_of
from bcs_scheduler.cli.client.types import Json
from bcs_scheduler.cli.output.text import local_time, wrapped
from store.keys import transaction_name

SUBSCRIBED, DISCONNECTED, REMOVED = "FrameworkSubscribed", "FrameworkDisconnected", "FrameworkRemoved"
TOOK_OVER = "LeaderTookOver"
POLICY = frozenset(
    {
        "TaskGroupEvicted",
        "ApplicationPreempting",
        "ApplicationBlocked",
        "ReservationStarted",
        "ReservationComplete",
        "ReservationTimedOut",
        "ReservationEnded",
        "ReservationRejected",
    }
)
"""Reasons of events that a decision of the placement policy begins."""
TITLES = {
    "request": "request",
    "report": "report of the cluster manager",
    "health": "report of the health prober",
    "policy": "decision of the placement policy",
    "leader": "change of leader",
    "connection": "connection to the cluster manager",
    "scheduler": "scheduler",
}
"""Titles of the types of causes."""
NARROW = 40
"""Columns of text, at least, also on a narrower terminal."""


def type_of(event: Json) -> str:
    """The type of the cause of an event: a key of TITLES, without `leader`."""
    if event["kind"] == "framework":
        return "connection"
    cause = str(event["cause"])
    if cause.startswith("api-"):
        return "request"
    if event["reason"] in POLICY:
        return "policy"
    if cause.startswith("mesos:"):
        return "report"
    return "health" if cause == "prober" else "scheduler"


def grouped(events: Iterable[Json], transactions: Mapping[str, Json]) -> list[Json]:
    """Causes in the order of their first events: `{type, cause, time, transactions, events}`.

    A request is one cause, also if its effects continue under another leader. Numbers of reports begin again with
    every connection, so that a report is a cause only until the next connection. `transactions`: operation and status
    by id.
    """
    groups: list[Json] = []
    known: dict[tuple[int, str, str], Json] = {}
    connection, disconnected = 0, False
    takeover: Json | None = None
    """The change of leader whose connection is still expected."""
    for event in sorted(events, key=lambda one: one["id"]):
        kind, cause = type_of(event), str(event["cause"])
        if takeover is not None and event["reason"] == SUBSCRIBED:
            takeover["events"].append(event)
            takeover = None
            continue
        if kind == "connection":
            connection += 1
            if event["reason"] == TOOK_OVER:
                kind, disconnected = "leader", False
            elif event["reason"] == SUBSCRIBED:
                # Version 0.1 records no take-over. A leader that connects again has reported the lost connection.
                kind, disconnected = ("connection" if disconnected else "leader"), False
            else:
                disconnected = True
        key = (0 if kind == "request" else connection, kind, cause)
        group = known.get(key)
        # A report or a request has a number of its own. Other causes have none: another event between ends the group.
        if group is None or (kind not in ("request", "report") and groups[-1] is not group):
            group = {"type": kind, "cause": cause, "time": event["time"], "transactions": [], "events": []}
            groups.append(group)
            known[key] = group
            takeover = group if event["reason"] == TOOK_OVER else takeover
        group["events"].append(event)
        identity = event["transaction"]
        if identity and all(one["id"] != identity for one in group["transactions"]):
            group["transactions"].append(
                {"id": identity, **transactions.get(identity, {"operation": "", "status": ""})}
            )
    return groups


def lines_of(story: Json, width: int) -> Iterator[str]:
    """The story as text of at most `width` columns."""
    width = max(width, NARROW)
    if story["gap"]:
        words = f"Earlier events are no longer kept (events {story['gap']['first']} to {story['gap']['last']})."
        yield from textwrap.wrap(words, width)
    if story["truncated"]:
        words = "Only the newest events are shown. Use --limit with a larger number for more."
        yield from textwrap.wrap(words, width)
    asked = story["object"]
    for group in story["causes"]:
        yield from wrapped(f"{local_time(group['time'])}  {_heading(group)}", width, "")
        for event in group["events"]:
            same = (event["kind"], event["name"]) == (asked["kind"], asked["name"])
            about = "" if same else f"{event['kind']}/{name_of(event['kind'], event['name'])}  "
            message = " ".join(str(event["message"]).split())
            time = local_time(event["time"])[11:19]
            yield from wrapped(f"{time}  {about}{event['reason']}: {message}", width, "  ")


def _heading(group: Json) -> str:
    cause = f" {group['cause']}" if group["type"] in ("request", "report") else ""
    done = ", ".join(
        f"{one['operation'] or 'operation'} {transaction_name(one['id'])}" for one in group["transactions"]
    )
    return TITLES[group["type"]] + cause + (f": {done}" if done else "")
