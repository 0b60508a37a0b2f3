"""The cluster: resources, agents, schedulers, offers."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit

import msgspec

from bcs_scheduler.api import errors
from bcs_scheduler.api.operation import CONTINUE, LIMIT, Answer, Answered, Call, Table
from bcs_scheduler.api.query import page, stretch
from bcs_scheduler.api.views.agents import (
    AgentView,
    ClusterResource,
    cluster_resource,
    show_agents,
    show_offer,
    walk_agents,
)

table = Table("cluster")


class ServerInfo(msgspec.Struct, frozen=True, kw_only=True):
    """Where a server listens (bcs_api 7.11). `leader` is ours."""

    ip: str
    port: int
    scheme: str
    hostname: str
    version: str
    cluster: str
    leader: bool


class Endpoints(msgspec.Struct, frozen=True, kw_only=True):
    """The first of each is the leader. Only what this scheduler knows of itself: who leads the schedulers; while it
    does so itself, the master it has subscribed with."""

    mesosscheduler: list[ServerInfo]
    mesosmaster: list[ServerInfo]


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
def list_offers(call: Call) -> Answer:
    state = call.state()
    ranked = list(enumerate(call.gateway.offers()))
    return page(ranked, lambda item: (item[0],), call.query, lambda item: show_offer(state, item[1]))


@table.read(
    "/agents",
    "List the agents: Mesos's view merged with settings and taskgroup counts",
    query=(LIMIT, CONTINUE),
    answer=list[AgentView],
    reasons=(errors.BAD_PARAMETER,),
)
def list_agents(call: Call) -> Answered:
    state, listed = call.state(), call.gateway.agents()
    return stretch(lambda after: walk_agents(state, listed, after), call.query, lambda show: show())


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
