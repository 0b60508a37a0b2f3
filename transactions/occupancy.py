"""The resources that a taskgroup holds on its agent, and its part in the counts of constraints, for plans that assume
the taskgroup gone."""

from __future__ import annotations

from offers.agents import Directory
from offers.dimensions import amounts
from offers.model import Occupant
from offers.resources import normalise
from store.records import TaskGroup
from store.state.reader import StateReader


def on_agent(state: StateReader, agents: Directory, agent_id: str) -> list[Occupant]:
    """The taskgroups on an agent that have not ended, in the order of their ids."""
    groups = sorted(state.groups_on(agent_id).values(), key=lambda group: group.id)
    return [occupant(state, agents, group) for group in groups if not group.ended]


def occupant(state: StateReader, agents: Directory, group: TaskGroup) -> Occupant:
    """A taskgroup with all that it holds: the executor included, and every port of the host that it was given."""
    held = group.resources
    ports = [port.host_port for task in group.tasks for port in task.ports if port.host_port > 0]
    known = agents.agents.get(group.agent_id)
    return counted_only(state, group)._replace(
        amounts=amounts({"cpus": held.cpus, "mem": held.mem, "disk": held.disk, "gpus": held.gpus}),
        ports=normalise((port, port) for port in ports),
        extended=tuple(sorted(group.extended.items())),
        attributes=known.attributes if known is not None else {},
    )


def counted_only(state: StateReader, group: TaskGroup) -> Occupant:
    """A taskgroup without the resources that its agent offers again when it has ended."""
    application = group.application_key
    version = state.version(application, group.version)
    counted: dict[str, str | float] = {"hostname": group.hostname}
    for name, value in group.attributes.items():
        if name != "hostname":
            counted[name] = value.text if value.number is None else value.number
    return Occupant(
        unit=group.id,
        agent_id=group.agent_id,
        application=application,
        role=group.role or "*",
        hostname=group.hostname,
        ip=group.agent_ip,
        counted=counted,
        labels=tuple(f"{key}:{value}" for key, value in sorted(version.labels.items())) if version is not None else (),
        extended=tuple(sorted(group.extended.items())),
    )
