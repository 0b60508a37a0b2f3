"""The cluster: resources, agents, schedulers, offers, and moves of taskgroups toward fewer or more even agents."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any, Literal, NamedTuple
from urllib.parse import urlsplit
from weakref import WeakKeyDictionary

import msgspec

from bcs_scheduler.api.http import errors
from bcs_scheduler.api.http.operation import CONTINUE, LIMIT, Answer, Answered, Call, Param, Table, not_leading
from bcs_scheduler.api.reading.query import page_or_all
from bcs_scheduler.api.streams.live import WATCHABLE, Live, watching
from bcs_scheduler.api.views.agents import (
    AgentView,
    ClusterResource,
    cluster_resource,
    named_agent,
    show_agents,
    show_offer,
    walk_agents,
)
from bcs_scheduler.core.interface.effects import Reason
from bcs_scheduler.core.interface.requests import Rebalance, ResumeReplacements
from bcs_scheduler.core.interface.unknown import DecideUnknown, Decision, UnknownTaskGroup
from bcs_scheduler.leadership.gateway import Facts, NotLeading
from bcs_scheduler.wire.times import rfc3339
from offers.model import Offer
from store.ids import TaskGroupId
from store.state.ordered import Order

table = Table("cluster")
RANKED_FOR = 1.0
"""Seconds for which pages of the offers use one ranking: a ranking costs with all offers."""


LIVE = Live(
    "agent",
    lambda gateway, state, name: named_agent(state, gateway.agents(), name),
    lambda gateway, state, show: show(),
    lambda gateway, state, prefix: (show for _, show in walk_agents(state, gateway.agents())),
    namespaced=False,
)


class _Ranked(NamedTuple):
    at: float
    """Seconds by the monotonic clock."""
    offers: list[Offer]


_rankings: WeakKeyDictionary[Facts, _Ranked] = WeakKeyDictionary()


class ServerInfo(msgspec.Struct, frozen=True, kw_only=True):
    """Address at which a server listens (docs/original.md#server-view). `leader` is ours."""

    ip: str
    port: int
    scheme: str
    hostname: str
    version: str
    cluster: str
    leader: bool


class Endpoints(msgspec.Struct, frozen=True, kw_only=True):
    """The first server of each list is the leader. The lists hold only servers that this scheduler knows itself: the
    leader of the schedulers; while it leads itself, also the master of its subscription."""

    mesosscheduler: list[ServerInfo]
    mesosmaster: list[ServerInfo]


class HaltView(msgspec.Struct, frozen=True, kw_only=True):
    """A large loss, during which lost taskgroups are not replaced. Without a halt, `halted` is false, and the other
    fields are empty."""

    halted: bool
    since: str = ""
    agents: int = 0
    taskgroups: int = 0
    total: int = 0


@table.read(
    "/cluster/halt", "Show whether a large loss stops the replacement of taskgroups", answer=HaltView, reasons=()
)
def get_halt(call: Call) -> Answer:
    halt = call.state().framework.halt
    if halt is None:
        return Answer(HaltView(halted=False))
    view = HaltView(
        halted=True, since=rfc3339(halt.since), agents=halt.agents, taskgroups=halt.taskgroups, total=halt.total
    )
    return Answer(view)


@table.write(
    "POST",
    "/cluster/resume",
    "Replace lost taskgroups again after a large loss",
    reasons=(Reason.CONFLICT,),
    status=200,
)
async def resume_replacements(call: Call) -> Answer:
    return await call.submit(ResumeReplacements())


class UnknownTaskGroupView(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A taskgroup that runs although the store does not know it. `newer`: no leader of this store can have made its id.
    `decision`: `adopted` by an operator, or empty: an operator must decide. `since`: found or adopted then."""

    taskgroup: str
    application: str
    namespace: str
    agent: str
    tasks: list[str]
    newer: bool
    decision: Literal["", "adopted"]
    since: str


class UnknownTasksView(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """`halted`: an operator must decide before anything is launched. `complete`: Mesos has named all running tasks;
    else more may be found, and no decision is accepted. `undecided`, `adopted`: numbers of taskgroups; `taskgroups` has
    the first of them, by id. `since` is empty without a halt."""

    halted: bool
    complete: bool
    since: str
    undecided: int
    adopted: int
    taskgroups: list[UnknownTaskGroupView]


APPLICATIONS = Param(
    "applications", "text", "Only taskgroups of these applications: NAMESPACE/NAME, separated by commas."
)
ADOPTED = Param("adopted", "bool", "Also taskgroups that were adopted before.")
LISTED = 1000
"""Unknown taskgroups in one answer."""


@table.read(
    "/cluster/unknowntasks",
    "List the running taskgroups that the store does not know",
    answer=UnknownTasksView,
    reasons=(),
    leader=True,
)
def get_unknown_tasks(call: Call) -> Answer:
    try:
        complete, found = call.gateway.unknown_tasks()
    except NotLeading as elsewhere:
        raise not_leading(elsewhere.leader) from elsewhere
    halt = call.state().framework.unknown
    adopted = sum(one.adopted for one in found)
    view = UnknownTasksView(
        halted=halt is not None,
        complete=complete,
        since=rfc3339(halt.since) if halt is not None else "",
        undecided=len(found) - adopted,
        adopted=adopted,
        taskgroups=[_unknown(one) for one in found[:LISTED]],
    )
    return Answer(view)


def _unknown(one: UnknownTaskGroup) -> UnknownTaskGroupView:
    parts = TaskGroupId.parse(one.id)
    return UnknownTaskGroupView(
        taskgroup=one.id,
        application=parts.application if parts is not None else "",
        namespace=parts.namespace if parts is not None else "",
        agent=one.agent_id,
        tasks=list(one.tasks),
        newer=one.newer,
        decision="adopted" if one.adopted else "",
        since=rfc3339(one.since),
    )


@table.write(
    "POST",
    "/cluster/unknowntasks/adopt",
    "Let taskgroups run that the store does not know",
    query=(APPLICATIONS,),
    reasons=(Reason.CONFLICT, Reason.NOT_FOUND),
    status=200,
)
async def adopt_unknown_tasks(call: Call) -> Answer:
    return await _decide(call, "adopt")


@table.write(
    "POST",
    "/cluster/unknowntasks/end",
    "End taskgroups that the store does not know",
    query=(APPLICATIONS, ADOPTED),
    reasons=(Reason.CONFLICT, Reason.NOT_FOUND),
    status=200,
)
async def end_unknown_tasks(call: Call) -> Answer:
    return await _decide(call, "end")


async def _decide(call: Call, decision: Decision) -> Answer:
    names = tuple(name.strip() for name in str(call.query.get("applications", "")).split(",") if name.strip())
    adopted = bool(call.query.get("adopted", False))
    request = DecideUnknown(decision=decision, applications=names, adopted=adopted)
    return await call.submit(request)


@table.read("/cluster/resources", "Fetch the resources of the cluster", answer=ClusterResource, reasons=())
def get_resources(call: Call) -> Answer:
    return Answer(cluster_resource(show_agents(call.state(), call.gateway.agents())))


@table.read(
    "/cluster/endpoints", "Fetch the addresses of the leading scheduler and Mesos master", answer=Endpoints, reasons=()
)
def get_endpoints(call: Call) -> Answer:
    leader = call.gateway.leader_url()
    cluster = call.state().framework.cluster
    schedulers = [_server(leader, call.settings.version, cluster)] if leader else []
    master = call.gateway.mesos_master()
    masters = [_server(f"http://{master}", "", cluster)] if master else []
    return Answer(Endpoints(mesosscheduler=schedulers, mesosmaster=masters))


@table.read(
    "/cluster/current/offers",
    "List the offers held now, emptiest agent first",
    query=(LIMIT, CONTINUE),
    answer=list[dict[str, Any]],
    reasons=(errors.BAD_PARAMETER,),
)
def list_offers(call: Call) -> Answered:
    """The order of an offer is its rank."""
    state = call.state()
    ranked = _ranked(call.gateway) if "limit" in call.query else call.gateway.offers()

    def walk(after: Order | None) -> Iterator[tuple[Order, Offer]]:
        first = 0 if after is None else max(0, after[0] + 1)  # type: ignore[operator]
        for rank in range(first, len(ranked)):
            yield (rank,), ranked[rank]

    return page_or_all(walk, call.query, lambda offer: show_offer(state, offer))


def _ranked(gateway: Facts) -> list[Offer]:
    """The offers of at most RANKED_FOR seconds ago."""
    now, known = time.monotonic(), _rankings.get(gateway)
    if known is None or now - known.at > RANKED_FOR:
        known = _rankings[gateway] = _Ranked(now, gateway.offers())
    return known.offers


@table.read(
    "/agents",
    "List the agents: Mesos's view merged with settings and taskgroup counts",
    query=(LIMIT, CONTINUE, *WATCHABLE),
    answer=list[AgentView],
    watcher=watching(LIVE),
    reasons=(errors.BAD_PARAMETER,),
)
def list_agents(call: Call) -> Answered:
    state, listed = call.state(), call.gateway.agents()
    return page_or_all(lambda after: walk_agents(state, listed, after), call.query, lambda show: show())


def _server(url: str, version: str, cluster: str) -> ServerInfo:
    parts = urlsplit(url)
    host = parts.hostname or ""
    return ServerInfo(
        ip=host,
        port=parts.port or (443 if parts.scheme == "https" else 80),
        scheme=parts.scheme,
        hostname=host,
        version=version,
        cluster=cluster,
        leader=True,
    )


GOAL = Param(
    "goal", "text", "The goal: fewer agents in use, or agents that are equally used. Default: spread.",
    choices=("pack", "spread"),
)  # fmt: skip
MOVES = Param("moves", "int", "Maximum number of moves. Default: 10.", 1, 100)
GAIN = Param("gain", "float", "Least gain of a move, as a difference of squared shares. Default: 0.01.", 0.0001, 1)


class RebalanceMove(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A move of a taskgroup: agents by id and host name, and the gain as a difference of squared shares."""

    taskgroup: str
    source: str
    source_host: str
    target: str
    target_host: str
    gain: float


class RefusedMove(msgspec.Struct, frozen=True, kw_only=True):
    """A move that could not begin, because its taskgroup or its agent has changed."""

    taskgroup: str
    reason: str


class RebalanceView(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Moves of a rebalancing. `stopped`: TaskgroupsWait, MovesInProgress, LargeLoss, MoveLimit or GainBelowBound.
    `before`, `after`: sum over the agents of the mean square of their used shares. `agents_in_use`: number of agents
    with taskgroups after all moves."""

    goal: str
    moves: list[RebalanceMove]
    refused: list[RefusedMove]
    stopped: str
    message: str
    before: float
    after: float
    agents_in_use: int
    dry_run: bool


@table.write(
    "POST",
    "/cluster/rebalance",
    "Move taskgroups toward fewer agents (pack) or more even agents (spread), within the disruption budgets",
    query=(GOAL, MOVES, GAIN),
    answer=RebalanceView,
    reasons=(errors.BAD_PARAMETER, Reason.INVALID),
    status=200,
)
async def rebalance(call: Call) -> Answer:
    fields = {name: call.query[name] for name in ("goal", "moves", "gain") if name in call.query}
    return await call.submit(Rebalance(**fields))
