"""Services and their members: the taskgroups that a selector selects, their addresses and ports, and their weights.

One rule for all (docs/original.md#endpoints): a taskgroup has the labels of its version, a selector takes those that
have all of its pairs, and only within its namespace. Pure functions.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from store.records import Application, BoundPort, Member, MemberPort, Service, Task, TaskGroup, Version
from store.records.services import Unready
from transactions.rules.lifecycle import is_ready_or_finished

WEIGHT = "BCS-WEIGHT-"
"""Prefix of labels of a service that set weights of its members; the rest of the label names the members
(docs/original.md#labels)."""
AGENT_NETWORKS = frozenset({"", "NONE", "HOST"})
"""There a taskgroup has the addresses of its agent."""


def selects(selector: Mapping[str, str], labels: Mapping[str, str]) -> bool:
    """All pairs of the selector are among the labels; an empty selector selects everything."""
    return all(labels.get(key) == value for key, value in selector.items())


def weights(service: Service) -> dict[str, int]:
    """Returns the weights that the labels of a service set, by the name in the label. A value other than an integer of
    0 or more is ignored."""
    found = {key[len(WEIGHT) :]: value for key, value in service.labels.items() if key.startswith(WEIGHT)}
    return {name: int(value) for name, value in found.items() if value.isascii() and value.isdigit()}


def weight(given: Mapping[str, int], application: str, deployment: str, labels: Mapping[str, str]) -> int:
    """Returns the weight of a taskgroup: the one given for the name of its application, else of its deployment, else
    for a value of its labels (the first in the order of the keys), else 1."""
    if not given:
        return 1
    for name in (application, deployment, *(labels[key] for key in sorted(labels))):
        if name in given:
            return given[name]
    return 1


def member(
    group: TaskGroup,
    version: Version | None,
    application: Application | None,
    ports: Collection[str],
    given: Mapping[str, int],
) -> Member | None:
    """Returns the member that a taskgroup is for a service with ports of these names and these weights; None if the
    taskgroup does not run (yet, or any more)."""
    if group.ended or not _present(group):
        return None
    mode = version.network_mode if version is not None else ""
    bound = tuple(_port(group, task, port, mode) for task in group.tasks for port in task.ports if port.name in ports)
    reason = _unready(group, bound)
    return Member(
        taskgroup=group.id,
        name=group.name,
        application=group.application,
        network_mode=mode,
        node_ip=_node(group),
        container_ip=next((ip for task in group.tasks if (ip := _container(group, task, mode))), ""),
        ports=bound,
        ready=not reason,
        reason=reason,
        weight=weight(
            given,
            group.application,
            application.deployment if application is not None else "",
            version.labels if version is not None else {},
        ),
    )


def _present(group: TaskGroup) -> bool:
    """Returns True if the taskgroup runs or may run. Unreachable taskgroups stay, as in the original. A taskgroup that
    is being ended stays until it has ended, so that its clients can finish their connections."""
    if group.status == "Killing":
        return group.last_status in ("Running", "Restarting")
    return group.status in ("Running", "Restarting") or (group.status == "Lost" and bool(group.unreachable_since))


def _unready(group: TaskGroup, ports: tuple[MemberPort, ...]) -> Unready:
    if group.status == "Lost":
        return "unreachable"
    if group.killing_since or group.status == "Killing":
        return "ending"
    if group.status == "Restarting":
        return "restarting"
    if not is_ready_or_finished(group):
        return "unhealthy"
    return "no address" if any(not port.address for port in ports) else ""


def _port(group: TaskGroup, task: Task, port: BoundPort, mode: str) -> MemberPort:
    """Returns the port of a member with its address. HTTP is published as TCP."""
    return MemberPort(
        name=port.name,
        protocol="udp" if port.protocol.lower() == "udp" else "tcp",
        host_port=max(port.host_port, 0),
        container_port=port.container_port,
        address=address_of(group, task, port, mode),
    )


def address_of(group: TaskGroup, task: Task, port: BoundPort, mode: str) -> str:
    """Returns host:port at which clients reach a port of a task; empty if it is not known. The address depends on the
    network mode of the version, `mode` (docs/original.md#endpoints)."""
    if mode in AGENT_NETWORKS:
        return join(_node(group), port.container_port)
    if mode == "BRIDGE" and port.host_port > 0:
        return join(_node(group), port.host_port)
    return join(_container(group, task, mode), port.container_port)


def _node(group: TaskGroup) -> str:
    return group.agent_ip or group.hostname


def _container(group: TaskGroup, task: Task, mode: str) -> str:
    return task.container_ip or (_node(group) if mode in AGENT_NETWORKS else "")


def join(host: str, port: int) -> str:
    """host:port; empty if either is not known."""
    if not host or port <= 0:
        return ""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
