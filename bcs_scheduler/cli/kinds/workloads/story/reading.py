"""Reads the events of an object and of its parts, with the changes of leader between them."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from typing import Any

from bcs_scheduler.cli.client.lookup import application_of, find_agent, find_taskgroup, find_transaction
from bcs_scheduler.cli.client.types import Json
from bcs_scheduler.cli.errors import CliError, NotFound
from bcs_scheduler.cli.kinds.workloads.story.causes import DISCONNECTED, REMOVED, SUBSCRIBED, TOOK_OVER, grouped
from bcs_scheduler.cli.output.text import moment, operation
from bcs_scheduler.cli.session import Session

KINDS = {
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
    """The story in the form of `-o json` (`bcs story --help`). `kind`: a value of KINDS. `since`: seconds until now,
    None = all events. Raises NotFound if no event of the object is kept."""
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
        members = client.pod_group(session.namespace, name)["status"]["members"] if own else []
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
