"""What agents and taskgroups really use, asked of the agents (bcs_scheduler.usage). Only the leader lists agents."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from weakref import WeakKeyDictionary

from bcs_scheduler.addresses import HostPort
from bcs_scheduler.api import errors
from bcs_scheduler.api.lists import NAMESPACE, namespace_of
from bcs_scheduler.api.operation import Answer, Call, Param, Table
from bcs_scheduler.api.views.agents import show_agents
from bcs_scheduler.api.views.taskgroups import order
from bcs_scheduler.api.views.usage import (
    UNKNOWN_AGENT,
    AgentUsage,
    TaskGroupUsage,
    show_agent_usage,
    show_taskgroup_usage,
)
from bcs_scheduler.usage import Measured, Meter, Place
from store.records import TaskGroup
from store.state import State

table = Table("usage")
AGENT = Param("agent", "text", "Only of the agent with this id, address or host name.")
APPLICATION = Param("application", "text", "Only of this application.")
METERS: WeakKeyDictionary[asyncio.AbstractEventLoop, Meter] = WeakKeyDictionary()
"""One for all requests: what it remembers serves the next one."""


@table.read(
    "/usage/agents",
    "Measure what the containers of each agent use",
    query=(AGENT,),
    answer=list[AgentUsage],
    reasons=(errors.BAD_PARAMETER, errors.NOT_LEADING),
    leader=True,
)
async def list_agent_usage(call: Call) -> Answer:
    state, wanted = call.state(), call.query.get("agent")
    agents = [
        agent
        for agent in show_agents(state, call.gateway.agents())
        if agent.id and wanted in (None, agent.id, agent.ip, agent.hostname)
    ]
    found = await _measure(call, (agent.id for agent in agents))
    unknown = Measured({}, UNKNOWN_AGENT)
    return Answer([show_agent_usage(state, agent, found.get(agent.id, unknown)) for agent in agents])


@table.read(
    "/usage/taskgroups",
    "Measure what the taskgroups of all namespaces use",
    query=(APPLICATION, AGENT, NAMESPACE),
    answer=list[TaskGroupUsage],
    reasons=(errors.BAD_PARAMETER, errors.NOT_LEADING),
    leader=True,
)
@table.read(
    "/namespaces/{ns}/usage/taskgroups",
    "Measure what the taskgroups of a namespace use",
    query=(APPLICATION, AGENT),
    answer=list[TaskGroupUsage],
    reasons=(errors.BAD_PARAMETER, errors.NOT_LEADING),
    leader=True,
)
async def list_taskgroup_usage(call: Call) -> Answer:
    """Of those that have not ended."""
    state = call.state()
    groups = sorted(_chosen(call, state), key=order)
    found = await _measure(call, (group.agent_id for group in groups))
    return Answer([show_taskgroup_usage(state, group, found) for group in groups])


def _chosen(call: Call, state: State) -> list[TaskGroup]:
    namespace, application, agent = namespace_of(call), call.query.get("application"), call.query.get("agent")
    return [
        group
        for group in list(state.taskgroups.values())
        if not group.ended
        and namespace in (None, group.namespace)
        and application in (None, group.application)
        and agent in (None, group.agent_id, group.agent_ip, group.hostname)
    ]


async def _measure(call: Call, agents: Iterable[str]) -> dict[str, Measured]:
    """By id; agents that Mesos does not list are left out."""
    wanted = set(agents)
    places = [
        Place(agent["id"], HostPort(str(agent["ip"]), int(agent["port"])))
        for agent in call.gateway.agents()
        if agent["id"] in wanted and agent["ip"] and agent["port"]
    ]
    meter = METERS.setdefault(asyncio.get_running_loop(), Meter())
    return {place.id: measured for place, measured in (await meter.measure(places)).items()}
