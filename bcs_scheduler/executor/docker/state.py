"""The engine's report about a container (GET /containers/<id>/json), in the executor's terms."""

from __future__ import annotations

import calendar
import time
from typing import Any, NamedTuple

from ..runtime import Exit


class State(NamedTuple):
    running: bool
    pid: int
    exit_code: int
    oom: bool
    error: str
    started_at: float
    finished_at: float
    """Unix seconds, 0.0 = not yet."""
    address: str
    """Address in the container's own network; empty in the agent's network."""
    stop_signal: str
    user: str


def state_of(found: dict[str, Any], network: str) -> State:
    """`network`: the one whose address counts; fields that an engine leaves out have defaults."""
    state, config, networks = found.get("State") or {}, found.get("Config") or {}, found.get("NetworkSettings") or {}
    endpoint = (networks.get("Networks") or {}).get(network) or {}
    return State(
        running=bool(state.get("Running")) or bool(state.get("Restarting")),
        pid=int(state.get("Pid") or 0),
        exit_code=int(state.get("ExitCode") or 0),
        oom=bool(state.get("OOMKilled")),
        error=str(state.get("Error") or ""),
        started_at=_seconds(str(state.get("StartedAt") or "")),
        finished_at=_seconds(str(state.get("FinishedAt") or "")),
        address=str(endpoint.get("IPAddress") or networks.get("IPAddress") or endpoint.get("GlobalIPv6Address") or ""),
        stop_signal=str(config.get("StopSignal") or "SIGTERM"),
        user=str(config.get("User") or ""),
    )


def exit_of(state: State) -> Exit:
    if state.oom:
        return Exit(state.exit_code, "out of memory: the kernel killed it at its memory limit", oom=True)
    if state.error:
        return Exit(state.exit_code, f"the container engine says: {state.error}")
    return Exit(state.exit_code, f"exit code {state.exit_code}")


def _seconds(stamp: str) -> float:
    """RFC 3339 in UTC with up to nine digits of a fraction; engines write the year 1 for never."""
    if not stamp or stamp.startswith("0001-"):
        return 0.0
    whole, _, fraction = stamp.rstrip("Z").partition(".")
    try:
        return calendar.timegm(time.strptime(whole, "%Y-%m-%dT%H:%M:%S")) + float(f"0.{fraction or 0}")
    except ValueError:
        return 0.0
