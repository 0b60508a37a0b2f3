"""The story of an object: its events and those of its parts, grouped by cause, with the changes of leader between."""

from __future__ import annotations

import textwrap
import time
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from bcs_scheduler.cli.client.lookup import application_of, find_agent, find_taskgroup, find_transaction, name_of
from bcs_scheduler.cli.client.types import Json
from bcs_scheduler.cli.errors import CliError, NotFound
from bcs_scheduler.cli.output.text import local_time, moment, operation, wrapped
from bcs_scheduler.cli.session import Session
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


STORY_KINDS = {
    "deployments": "deployment",
    "daemonsets": "daemonset",
    "applications": "application",
    "taskgroups": "taskgroup",
    "transactions": "transaction",
    "services": "service",
    "podgroups": "podgroup",
    "agents": "agent",
    "queues": "queue",
}
"""Kinds that have a story, with their names in events."""
OWNERS = ("deployment", "daemonset", "application")
WITHOUT_NAMESPACE = ("agent", "queue")
FORBIDDEN = "forbidden"
"""Reason of an answer of the server."""
AGENT_NAMES = ("id", "key", "hostname", "ip")


def read_story(session: Session, kind: str, name: str, since: float | None, limit: int) -> Json:
    """The story in the form of `-o json` (`bcs story --help`). `kind`: a value of STORY_KINDS. `since`: seconds until
    now, None = all events. Raises NotFound if no event of the object is kept."""
    namespace: str | None = None if kind in WITHOUT_NAMESPACE else session.namespace
    if kind == "taskgroup":
        name = name if "." in name else find_taskgroup(session.client, session.namespace, name)["ID"]
        namespace = application_of(name)[0]
    elif kind == "transaction":
        name, namespace = _transaction(session, name)
    filters: dict[str, Any] = {"last": limit + 1, "since": f"{time.time() - since:.3f}" if since is not None else None}
    events = _events(session, kind, name, namespace, filters)
    if not events:
        raise NotFound(f"no events of {kind} {name} are kept" + ("" if since is None else " for this time"))
    truncated = len(events) > limit
    shown = events[-limit:]
    around = [event for event in _around(session, kind, shown, limit) if event["id"] > shown[0]["id"]]
    known = {event["id"] for event in shown}
    return {
        "object": {"kind": kind, "namespace": namespace or "", "name": name},
        "gap": _gap(session, kind, name, namespace) if since is None else None,
        "truncated": truncated,
        "causes": grouped([*shown, *(e for e in around if e["id"] not in known)], _operations(session, shown)),
    }


def _around(session: Session, kind: str, shown: list[Json], limit: int) -> list[Json]:
    """Events since the first one that explain others: of the framework, and of the agents of the taskgroups. None, with
    a warning, if the caller may not read objects without a namespace."""
    client = session.client
    since = {"since": f"{moment(shown[0]['time']):.6f}", "last": limit}
    addresses = {event["agent"] for event in shown if event.get("agent")}
    try:
        reasons = f"{SUBSCRIBED},{DISCONNECTED},{REMOVED},{TOOK_OVER}"
        found = client.events(None, {"kind": "framework", "reason": reasons, **since})
        if addresses and kind != "agent":
            agents = [agent for agent in client.agents() if agent.get("ip") in addresses]
            names = addresses.union(str(agent[key]) for agent in agents for key in AGENT_NAMES if agent.get(key))
            found += [event for event in client.events(None, {"kind": "agent", **since}) if event["name"] in names]
    except CliError as error:
        if error.reason != FORBIDDEN:
            raise
        session.warn(f"changes of leader and of agents are not shown: {error}")
        return []
    return found


def _transaction(session: Session, name: str) -> tuple[str, str]:
    """(id, namespace); a transaction that is no longer kept may still have events under its id."""
    try:
        found = find_transaction(session.client, session.namespace, name)
    except NotFound:
        return name, session.namespace
    return found["transactionID"], found["namespace"]


def _events(session: Session, kind: str, name: str, namespace: str | None, filters: Mapping[str, Any]) -> list[Json]:
    """Events of the object and of its parts, oldest first, each once."""
    client = session.client
    if kind in OWNERS:
        return client.events(namespace, {**filters, "owner": name})
    if kind == "transaction":
        return client.events(namespace, {**filters, "transaction": name})
    if kind == "podgroup":
        own = client.events(namespace, {**filters, "kind": kind, "name": name})
        members = client.object("PodGroup", session.namespace, name)["status"]["members"] if own else []
        return _each_once(
            [
                *own,
                *(e for one in members for e in client.events(namespace, {**filters, "owner": one["application"]})),
            ]
        )
    names = _agent_names(session, name) if kind == "agent" else [name]
    events = [event for one in names for event in client.events(namespace, {**filters, "kind": kind, "name": one})]
    if kind == "taskgroup":
        for identity in dict.fromkeys(event["transaction"] for event in events if event["transaction"]):
            events += client.events(namespace, {**filters, "kind": "transaction", "transaction": identity})
    return _each_once(events)


def _each_once(events: Iterable[Json]) -> list[Json]:
    """The events in the order of their numbers."""
    return [each for _, each in sorted({event["id"]: event for event in events}.items())]


def _agent_names(session: Session, name: str) -> list[str]:
    """Names under which the agent has events. Names of several agents are left out; an agent that has left is known
    by the given name only."""
    try:
        found = find_agent(session.client, name)
    except NotFound:
        return [name]
    others = [agent for agent in session.client.agents() if agent.get("id") != found.get("id")]
    names = dict.fromkeys(str(found.get(key) or "") for key in AGENT_NAMES)
    return [one for one in names if one and all(one != other.get(key) for other in others for key in AGENT_NAMES)]


def _operations(session: Session, events: Iterable[Json]) -> dict[str, Json]:
    """Operation and status of the transactions of the events, as far as they are kept: one request per application."""
    owners = dict.fromkeys(
        (event["namespace"], application_of(event["name"])[1] if event["kind"] == "taskgroup" else event["name"])
        for event in events
        if event["transaction"] and event["kind"] in ("taskgroup", "application")
    )
    return {
        one["transactionID"]: {"operation": operation(one), "status": one["status"]}
        for namespace, name in owners
        for one in session.client.transactions(namespace, name)
    }


def _gap(session: Session, kind: str, name: str, namespace: str | None) -> Json | None:
    """Numbers of the events that are no longer kept, `{first, last}`; None if all are kept."""
    try:
        frames = session.client.follow_events(namespace, {"kind": kind, "name": name}, "0")
        for frame in frames:
            if frame.event == "gap":
                return {"first": frame.data["first"], "last": frame.data["last"]}
            if frame.event or frame.identity:
                return None
    except CliError as error:
        session.warn(f"it is unknown whether earlier events are kept: {error}")
    return None
