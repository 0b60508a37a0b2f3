"""The few questions we ask a master about itself, each over a connection of its own."""

from __future__ import annotations

import json
from email.utils import parsedate_to_datetime
from typing import Any

from google.protobuf.message import DecodeError

from bcs_scheduler.mesos.errors import CallRefused, ConnectionBroken
from bcs_scheduler.mesos.proto import master_pb2
from bcs_scheduler.mesos.transport.http import PROTOBUF, Master
from bcs_scheduler.mesos.transport.question import Answer, ask

TIMEOUT = 15.0
SOON = 5.0
"""Seconds for requests that are repeated every few seconds."""
HIDDEN = (401, 403, 404)
"""Answers of a master that does not allow the request, in contrast to a master with a problem."""


def cluster_name(master: Master, headers: dict[str, str]) -> str:
    """The ``--cluster`` of the master; empty if it has none or hides it. Raises ConnectionBroken, CallRefused.

    The flags are some kilobytes; the state, which has it as well, can be hundreds of megabytes.
    """
    flags = _get_json(master, "/flags", headers)
    if flags is not None:
        return str(flags.get("flags", {}).get("cluster", ""))
    state = _get_json(master, "/state", headers)
    return str(state.get("cluster", "")) if state is not None else ""


COUNTERS = frozenset(
    f"master/{name}"
    for name in (
        "messages_register_slave",
        "messages_reregister_slave",
        "slave_registrations",
        "slave_reregistrations",
        "slave_removals",
        "slave_unreachable_completed",
        "slaves_active",
        "slaves_connected",
        "slaves_unreachable",
    )
)
"""Metrics of a master that change when an agent registers, returns or goes."""


def agent_counters(master: Master, headers: dict[str, str]) -> dict[str, float] | None:
    """The metrics of COUNTERS that the master has; None if it hides them. Raises ConnectionBroken, CallRefused."""
    found = _get_json(master, "/metrics/snapshot", headers, SOON)
    return None if found is None else {name: value for name, value in found.items() if name in COUNTERS}


def get_agents(master: Master, headers: dict[str, str]) -> tuple[master_pb2.Response, float]:
    """GET_AGENTS, and the master's clock when it answered (Unix seconds, whole ones; 0.0 if it does not say). Raises
    ConnectionBroken, CallRefused."""
    call = master_pb2.Call(type=master_pb2.Call.GET_AGENTS)
    types = {"Content-Type": PROTOBUF, "Accept": PROTOBUF}
    answer = ask(master, "/api/v1", {**headers, **types}, timeout=TIMEOUT, body=call.SerializeToString())
    if answer.status != 200:
        raise CallRefused(answer.status, answer.reason)
    try:
        return master_pb2.Response.FromString(answer.body), _date(answer)
    except DecodeError as error:
        raise ConnectionBroken(f"GET_AGENTS at {master}: {error}") from error


def _date(answer: Answer) -> float:
    try:
        return parsedate_to_datetime(answer.headers["Date"]).timestamp()
    except (KeyError, TypeError, ValueError):
        return 0.0


def _get_json(master: Master, path: str, headers: dict[str, str], timeout: float = TIMEOUT) -> dict[str, Any] | None:
    """The document, or None if the master hides it."""
    answer = ask(master, path, headers, timeout=timeout)
    if answer.status in HIDDEN:
        return None
    if answer.status != 200:
        raise CallRefused(answer.status, answer.reason)
    try:
        document = json.loads(answer.body)
    except ValueError as error:
        raise ConnectionBroken(f"{master.url}{path}: {error}") from error
    return document if isinstance(document, dict) else {}
