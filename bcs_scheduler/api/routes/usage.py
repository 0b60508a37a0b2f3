"""Measured use of agents and taskgroups, as the agents report it (bcs_scheduler.agentapi.usage). Only the leader lists
agents."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from operator import itemgetter
from typing import Any, Generic, NamedTuple, TypeVar
from weakref import WeakKeyDictionary

from starlette.concurrency import run_in_threadpool

from bcs_scheduler.agentapi.usage import Measured, Meter, Place
from bcs_scheduler.api.http import errors
from bcs_scheduler.api.http.operation import CONTINUE, LIMIT, Answer, Answered, Call, Listing, Param, Table
from bcs_scheduler.api.objects.queues import QueueUsage, cluster_total, show_queue_usage
from bcs_scheduler.api.reading.lists import NAMESPACE, namespace_of, placed
from bcs_scheduler.api.reading.query import page, page_or_all
from bcs_scheduler.api.views.agents import AgentView, listed_by_id, walk_agents
from bcs_scheduler.api.views.taskgroups import order
from bcs_scheduler.api.views.usage import (
    UNKNOWN_AGENT,
    AgentUsage,
    TaskGroupUsage,
    show_agent_usage,
    show_taskgroup_usage,
)
from bcs_scheduler.net.addresses import HostPort
from store.records import TaskGroup
from store.state.ordered import Order
from store.state.reader import StateReader

table = Table("usage")
AGENT = Param("agent", "text", "Only the agent with this id, address or host name.")
APPLICATION = Param("application", "text", "Only taskgroups of this application.")
METERS: WeakKeyDictionary[asyncio.AbstractEventLoop, Meter] = WeakKeyDictionary()
"""One meter for all requests of an event loop: its remembered measurements serve the next request."""


PAGE = (LIMIT, CONTINUE)
T = TypeVar("T")


@table.read(
    "/usage/agents",
    "Measure the used resources of the containers of each agent",
    query=(AGENT, *PAGE),
    answer=list[AgentUsage],
    reasons=(errors.BAD_PARAMETER, errors.NOT_LEADING),
    leader=True,
)
async def list_agent_usage(call: Call) -> Answered:
    state, unknown = call.state(), Measured({}, UNKNOWN_AGENT)
    page = await run_in_threadpool(_agents, call, state)
    found = await _measure(call, (agent.id for agent in page.items))
    return page.answer(lambda agent: show_agent_usage(state, agent, found.get(agent.id, unknown)))


@table.read(
    "/usage/taskgroups",
    "Measure the used resources of the taskgroups of all namespaces",
    query=(APPLICATION, AGENT, *PAGE, NAMESPACE),
    answer=list[TaskGroupUsage],
    reasons=(errors.BAD_PARAMETER, errors.NOT_LEADING),
    leader=True,
)
@table.read(
    "/namespaces/{ns}/usage/taskgroups",
    "Measure the used resources of the taskgroups of a namespace",
    query=(APPLICATION, AGENT, *PAGE),
    answer=list[TaskGroupUsage],
    reasons=(errors.BAD_PARAMETER, errors.NOT_LEADING),
    leader=True,
)
async def list_taskgroup_usage(call: Call) -> Answered:
    """Lists the use of taskgroups that have not ended."""
    state = call.state()
    page = await run_in_threadpool(_taskgroups, call, state)
    found = await _measure(call, (group.agent_id for group in page.items))
    return page.answer(lambda group: show_taskgroup_usage(state, group, found))


@table.read(
    "/usage/queues",
    "List the use, the deserved shares and the waiting taskgroups of the queues",
    query=PAGE,
    answer=list[QueueUsage],
    reasons=(errors.BAD_PARAMETER, errors.NOT_LEADING),
    leader=True,
)
def list_queue_usage(call: Call) -> Answer:
    figures = {each.queue.name: each for each in call.gateway.queues()}
    total = cluster_total(call.gateway.agents())
    return page(list(figures), lambda name: (name,), call.query, lambda name: show_queue_usage(figures[name], total))


class _Page(NamedTuple, Generic[T]):
    """One page of objects to measure."""

    items: list[T]
    resume: str
    whole: bool
    """True if the request had no limit."""

    def answer(self, show: Callable[[T], Any]) -> Answered:
        shown = map(show, self.items)
        return Listing(shown) if self.whole else Answer(list(shown), resume=self.resume)


def _page(answered: Answer | Listing) -> _Page[Any]:
    if isinstance(answered, Listing):
        return _Page(list(answered.items), "", whole=True)
    return _Page(answered.data, answered.resume, whole=False)


def _agents(call: Call, state: StateReader) -> _Page[AgentView]:
    listed, wanted = call.gateway.agents(), call.query.get("agent")

    def walk(after: Order | None) -> Iterator[tuple[Order, Callable[[], AgentView]]]:
        # The order of an agent is its host name, address and id.
        for place, show in walk_agents(state, listed, after):
            if place[2] and (wanted is None or wanted in place):
                yield place, show

    return _page(page_or_all(walk, call.query, lambda show: show()))


def _taskgroups(call: Call, state: StateReader) -> _Page[TaskGroup]:
    return _page(page_or_all(_walk(call, state), call.query, lambda group: group, lambda group: not group.ended))


def _walk(call: Call, state: StateReader) -> Callable[[Order | None], Iterator[tuple[Order, TaskGroup]]]:
    """Over the taskgroups of the namespace, of the application and on the agent that are asked for."""
    namespace, application, agent = namespace_of(call), call.query.get("application"), call.query.get("agent")
    if agent is not None:
        found = [
            (order(group), group)
            for group in placed(state, agent)
            if namespace in (None, group.namespace) and application in (None, group.application)
        ]
        there = sorted(found, key=itemgetter(0))
        return lambda after: ((place, group) for place, group in there if after is None or place > after)
    owners: list[Order] = [() if namespace is None else (namespace,)]
    if application is not None:
        spaces = {space for _, space in state.indexes.sizes()} if namespace is None else {namespace}
        owners = [(space, application) for space in sorted(spaces)]
    return lambda after: chain.from_iterable(state.in_order(TaskGroup, owner, after) for owner in owners)


async def _measure(call: Call, agents: Iterable[str]) -> dict[str, Measured]:
    """Measurements by id of the agent; agents that the cluster manager does not list are left out."""
    listed = listed_by_id(call.gateway.agents())
    known = [listed[id] for id in dict.fromkeys(agents) if id in listed]
    places = [Place(agent.id, HostPort(agent.ip, agent.port)) for agent in known if agent.ip and agent.port]
    meter = METERS.setdefault(asyncio.get_running_loop(), Meter())
    return {place.id: measured for place, measured in (await meter.measure(places)).items()}
