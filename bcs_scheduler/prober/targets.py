"""The targets of probes, derived from the state. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal, cast

from bcs_scheduler.net.addresses import is_local
from store.records import BoundPort, CheckResult, Task, TaskGroup, Version
from store.records.definition import Container, HealthCheck
from store.state.reader import StateReader

Kind = Literal["REMOTE_HTTP", "REMOTE_TCP"]
REMOTE: frozenset[str] = frozenset({"REMOTE_HTTP", "REMOTE_TCP"})
AGENT_NETWORKS = frozenset({"", "NONE", "HOST", "BRIDGE"})
"""Network modes whose containers are reached from elsewhere through their agent's address only."""


@dataclass(frozen=True, slots=True)
class ProbeTarget:
    """How to probe. Times are seconds; `started_at` Unix seconds of the
    scheduler's clock, when the task was reported to run (not when its agent says that it began). Two that are equal are
    the same check. Headers may hold credentials."""

    task_id: str
    type: Kind
    host: str
    port: int
    delay: float
    grace_period: float
    interval: float
    timeout: float
    started_at: float
    scheme: str = "http"
    path: str = "/"
    headers: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    refused: str = ""
    """Why the host is not probed, in words; empty if it is."""


@dataclass(frozen=True, slots=True)
class KnownTarget:
    """`known` is the result of the check in the state: the prober reports only changes."""

    probe_target: ProbeTarget
    known: CheckResult


class Lookup:
    """The targets of a state that is read repeatedly: targets of unchanged taskgroups are the same objects as before
    and are not derived again."""

    def __init__(self, state: StateReader) -> None:
        self._state = state
        self._derived: dict[str, tuple[TaskGroup, tuple[KnownTarget, ...]]] = {}
        """By taskgroup id: the record and its targets. Records are immutable, so one record always has one result."""

    def __call__(self) -> list[KnownTarget]:
        before, self._derived = self._derived, {}
        found: list[KnownTarget] = []
        for version, group in self._groups():
            known = before.get(group.id)
            if known is None or known[0] is not group:
                known = (group, tuple(_of_group(version, group)))
            self._derived[group.id] = known
            found.extend(known[1])
        return found

    def _groups(self) -> Iterator[tuple[Version, TaskGroup]]:
        """Those that run a version with REMOTE checks."""
        state = self._state
        for key in list(state.applications):
            for version in list(state.versions_of(key).values()):
                if not any(
                    check.type in REMOTE for container in version.containers for check in container.health_checks
                ):
                    continue
                for group in list(state.groups_of(key).values()):
                    if group.version == version.name and group.status == "Running" and not group.killing_since:
                        yield version, group


def _of_group(version: Version, group: TaskGroup) -> Iterator[KnownTarget]:
    for container, task in zip(version.containers, group.tasks, strict=False):
        if task.status != "Running" or task.ended:
            continue
        for check in container.health_checks:
            if check.type not in REMOTE:
                continue
            known = next((result for result in task.checks if result.type == check.type), None)
            if known is not None:
                probe_target = _probe_target(version, container, group, task, check)
                if probe_target is not None:
                    yield KnownTarget(probe_target, known)


def _probe_target(
    version: Version, container: Container, group: TaskGroup, task: Task, check: HealthCheck
) -> ProbeTarget | None:
    """None while there is nothing to be probed: no address yet, or no such port."""
    own = version.network_mode.upper() not in AGENT_NETWORKS and container.process is None
    host = task.container_ip if own else group.agent_ip or group.hostname
    refused = _objection(host) if own and host not in ("", group.agent_ip) else ""
    port = _port(task.ports, check, own)
    if not host or not port:
        return None
    return ProbeTarget(
        task_id=task.id,
        type=cast(Kind, check.type),
        host=host,
        port=port,
        delay=check.delay,
        grace_period=check.grace_period,
        interval=check.interval,
        timeout=check.timeout,
        started_at=task.status_since or group.running_since,
        scheme=check.scheme.lower(),
        path=check.path,
        headers=tuple(check.headers.items()),
        refused=refused,
    )


def _objection(address: str) -> str:
    """Why the address that an executor reports for a container is not probed; empty if it is. Executors run programs of
    users. A probe comes from the scheduler's place in the network, so it must not reach addresses outside the networks
    of containers (the scheduler's own machine, link-local addresses, metadata services, multicast groups)."""
    try:
        refused = is_local(address)
    except ValueError:
        return f"the container reports {address[:80]!r}, which is not an IP address; it is not probed"
    return f"the container reports the local address {address}, which is not probed" if refused else ""


def _port(ports: tuple[BoundPort, ...], check: HealthCheck, own: bool) -> int:
    """A number has precedence over a name; both mean the container's port. If the container has no address of its own,
    the result is the port of the agent to which this port is mapped."""
    for port in ports:
        if check.port > 0 and port.container_port != check.port:
            continue
        if check.port > 0 or (check.port_name and port.name == check.port_name):
            return port.container_port if own or port.host_port <= 0 else port.host_port
    return max(0, check.port)
