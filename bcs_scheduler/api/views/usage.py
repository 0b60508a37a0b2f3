"""Measured use beside the allocated resources: of agents and of taskgroups."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import fsum

import msgspec

from bcs_scheduler.agentapi.usage import Measured, Used
from bcs_scheduler.api.views.agents import AgentView
from offers.dimensions import THOUSANDTHS
from store.records import TaskGroup
from store.state.reader import StateReader

BY_DOCKER = "Docker runs its containers beside the agent, which does not count them"
NOT_LISTED = "the agent does not list a container of the taskgroup (yet)"
UNKNOWN_AGENT = "Mesos does not list its agent"


class UsedView(msgspec.Struct, frozen=True, kw_only=True):
    """Cores, MiB, MiB; null = not known."""

    cpus: float | None
    mem: float | None
    disk: float | None


class AllocatedView(msgspec.Struct, frozen=True, kw_only=True):
    """Cores, MiB, MiB, GPUs."""

    cpus: float
    mem: float
    disk: float
    gpus: float


class AgentUsage(msgspec.Struct, frozen=True, kw_only=True):
    """`used` sums up all containers of the agent, those of other frameworks too, as far as they are known; `uncounted`
    is how many of them are not known in full. `allocated`: to taskgroups of this scheduler. `interval`: seconds that
    cpus are averaged over, the longest of them. `problem`: why nothing is known."""

    id: str
    hostname: str
    ip: str
    disabled: bool
    taskgroups: int
    used: UsedView
    allocated: AllocatedView
    total: AllocatedView
    interval: float
    uncounted: int
    problem: str


class TaskGroupUsage(msgspec.Struct, frozen=True, kw_only=True):
    """`interval`: seconds that cpus are averaged over; 0 = they are not known. `problem`: why nothing is known."""

    id: str
    namespace: str
    application: str
    status: str
    hostname: str
    used: UsedView
    allocated: AllocatedView
    interval: float
    problem: str


def show_agent_usage(state: StateReader, agent: AgentView, measured: Measured) -> AgentUsage:
    containers = [
        Used(problem=BY_DOCKER) if (group := state.taskgroups.get(executor)) and by_docker(state, group) else used
        for (framework, executor), used in measured.containers.items()
    ]
    return AgentUsage(
        id=agent.id,
        hostname=agent.hostname,
        ip=agent.ip,
        disabled=agent.disabled,
        taskgroups=agent.taskgroups,
        used=UsedView(cpus=None, mem=None, disk=None) if measured.problem else _sum(containers),
        allocated=AllocatedView(cpus=agent.cpuused, mem=agent.memused, disk=agent.diskused, gpus=agent.gpuused),
        total=AllocatedView(cpus=agent.cputotal, mem=agent.memtotal, disk=agent.disktotal, gpus=agent.gputotal),
        interval=round(max((used.interval for used in containers), default=0.0), 3),
        uncounted=sum(used.cpus is None or used.mem is None for used in containers),
        problem=measured.problem,
    )


def show_taskgroup_usage(state: StateReader, group: TaskGroup, by_agent: Mapping[str, Measured]) -> TaskGroupUsage:
    """`by_agent`: by the agents' ids."""
    used = _used(state, group, by_agent.get(group.agent_id))
    return TaskGroupUsage(
        id=group.id,
        namespace=group.namespace,
        application=group.application,
        status=group.status,
        hostname=group.hostname,
        used=UsedView(cpus=_rounded(used.cpus), mem=_rounded(used.mem), disk=_rounded(used.disk)),
        allocated=AllocatedView(**THOUSANDTHS.displayed(group.resources)),
        interval=round(used.interval, 3),
        problem=used.problem,
    )


def by_docker(state: StateReader, group: TaskGroup) -> bool:
    """True if our executor has an engine beside the agent run containers of it."""
    version = state.version(group.application_key, group.version)
    return group.executor == "bcs" and version is not None and any(one.image for one in version.containers)


def _used(state: StateReader, group: TaskGroup, measured: Measured | None) -> Used:
    if measured is None:
        return Used(problem=UNKNOWN_AGENT)
    if measured.problem:
        return Used(problem=measured.problem)
    if by_docker(state, group):
        return Used(problem=BY_DOCKER)
    return measured.containers.get((state.framework.id, group.id)) or Used(problem=NOT_LISTED)


def _sum(containers: Iterable[Used]) -> UsedView:
    def total(numbers: list[float | None]) -> float | None:
        known = [number for number in numbers if number is not None]
        return _rounded(fsum(known)) if known or not numbers else None

    cpus, mem, disk = ([getattr(used, name) for used in containers] for name in ("cpus", "mem", "disk"))
    return UsedView(cpus=total(cpus), mem=total(mem), disk=total(disk))


def _rounded(number: float | None) -> float | None:
    return None if number is None else round(number, 3)
