"""Protobuf events of Mesos -> events of the core."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import chain

import structlog

from bcs_scheduler.core.interface import cluster_manager, inputs, leased
from bcs_scheduler.mesos.launches import wire
from bcs_scheduler.mesos.launches.resources import attributes_of, ranges_of, resource_amounts, totals
from bcs_scheduler.mesos.launches.rooms import room_of, rooms_on
from bcs_scheduler.mesos.proto import master_pb2, scheduler_pb2
from bcs_scheduler.mesos.proto import mesos_pb2 as pb
from bcs_scheduler.net.addresses import HostPort
from offers.agents import ListedAgent
from offers.model import Offer
from offers.names import name_of
from transactions.rules.task_states import TaskState

_STATES = {number: TaskState(name.removeprefix("TASK_")) for name, number in pb.TaskState.items()}
_SOURCES = {number: name for name, number in pb.TaskStatus.Source.items()}
_REASONS = {number: name for name, number in pb.TaskStatus.Reason.items()}
_NANO = 1e9
_FAILED_OVER = "Framework failed over"
"""Message of a master to the older of two subscriptions (master.cpp, Master::failoverFramework)."""
log = structlog.get_logger(__name__)

_FETCH_FAILED = "Failed to fetch all URIs for container"
MESSAGE_LENGTH = 4096
"""Characters kept of a status message: it is stored with its taskgroup, and an executor may write a book."""


Unreadable = Callable[[str, wire.UnreadableKind], None]
"""Takes executor id and kind of a document that could not be read."""


def ignore_unreadable(executor_id: str, kind: wire.UnreadableKind) -> None:
    """Default of `event_of` for callers that do not count unreadable messages."""


def event_of(
    event: scheduler_pb2.Event, cause: str, unreadable: Unreadable = ignore_unreadable, owner: str = ""
) -> inputs.Input | None:
    """The core's event, or None for messages that the core does not use (heartbeats, messages that cannot be read,
    types of a newer Mesos). SUBSCRIBED is the driver's own business. `owner`: name of the framework, for its kept
    rooms. Raises ValueError."""
    kind = event.type
    if kind == scheduler_pb2.Event.UPDATE:
        return status_update(event.update.status, cause, unreadable)
    if kind == scheduler_pb2.Event.MESSAGE:
        return _message(event.message, cause, unreadable)
    if kind == scheduler_pb2.Event.OFFERS:
        return leased.OffersArrived(
            offers=tuple([OfferMessage(item, owner) for item in event.offers.offers]), cause=cause
        )
    if kind == scheduler_pb2.Event.RESCIND:
        return leased.OfferRescinded(offer_id=event.rescind.offer_id.value, cause=cause)
    if kind == scheduler_pb2.Event.INVERSE_OFFERS:
        return leased.InverseOffersArrived(
            offers=tuple(
                (item.id.value, item.agent_id.value, item.unavailability.start.nanoseconds / _NANO)
                for item in event.inverse_offers.inverse_offers
            ),
            cause=cause,
        )
    if kind == scheduler_pb2.Event.FAILURE:
        return _failure(event.failure, cause)
    if kind == scheduler_pb2.Event.ERROR:
        if event.error.message == _FAILED_OVER:
            return cluster_manager.Superseded(cause=cause)
        return cluster_manager.RegistrationRevoked(message=event.error.message, cause=cause)
    return None


def status_update(
    status: pb.TaskStatus, cause: str, unreadable: Unreadable = ignore_unreadable
) -> cluster_manager.StatusUpdate:
    """Absent source, reason and health stay empty: their default numbers mean something else. Raises ValueError for a
    state we do not know, which would read as TASK_STARTING for the same reason. A detail that cannot be read takes
    nothing from the rest."""
    if not status.HasField("state"):
        raise ValueError(f"status of {status.task_id.value!r} has no known state")
    return cluster_manager.StatusUpdate(
        task_id=status.task_id.value,
        state=_STATES[status.state],
        agent_id=status.agent_id.value,
        executor_id=status.executor_id.value,
        uuid=status.uuid,
        source=_SOURCES[status.source] if status.HasField("source") else "",
        reason=_REASONS.get(status.reason, "") if status.HasField("reason") else "",
        message=status.message[:MESSAGE_LENGTH],
        healthy=status.healthy if status.HasField("healthy") else None,
        timestamp=status.timestamp,
        container_ip=_container_ip(status.container_status) if status.HasField("container_status") else "",
        detail=_detail(status, unreadable) if status.data else None,
        unfetched=_is_unfetched(status),
        answer=status.HasField("reason") and status.reason == pb.TaskStatus.REASON_RECONCILIATION,
        out_of_memory=status.HasField("reason") and status.reason == pb.TaskStatus.REASON_CONTAINER_LIMITATION_MEMORY,
        cause=cause,
    )


def _is_unfetched(status: pb.TaskStatus) -> bool:
    """An agent tells by a reason that it could not start an executor, and by words alone that this was because a URI
    of the executor could not be fetched (FetcherProcess::run in src/slave/containerizer/fetcher.cpp)."""
    return (
        status.state == pb.TASK_FAILED
        and status.source == pb.TaskStatus.SOURCE_AGENT
        and status.reason == pb.TaskStatus.REASON_CONTAINER_LAUNCH_FAILED
        and _FETCH_FAILED in status.message
    )


def _container_ip(status: pb.ContainerStatus) -> str:
    for network in status.network_infos:
        for address in network.ip_addresses:
            if address.ip_address:
                return address.ip_address
    return ""


def _detail(status: pb.TaskStatus, unreadable: Unreadable) -> cluster_manager.TaskDetail | None:
    try:
        return wire.task_detail(status.data)
    except wire.Unreadable as error:
        unreadable(status.executor_id.value, error.kind)
        return None


def _message(message: scheduler_pb2.Event.Message, cause: str, unreadable: Unreadable) -> inputs.Input | None:
    executor_id = message.executor_id.value
    try:
        return wire.message(message.data, message.agent_id.value, executor_id, cause)
    except wire.Unreadable as error:
        unreadable(executor_id, error.kind)
        return None


def _failure(failure: scheduler_pb2.Event.Failure, cause: str) -> inputs.Input:
    if failure.HasField("executor_id"):
        return cluster_manager.ExecutorTerminated(
            agent_id=failure.agent_id.value,
            executor_id=failure.executor_id.value,
            status=failure.status,
            cause=cause,
        )
    return cluster_manager.AgentRemoved(agent_id=failure.agent_id.value, cause=cause)


class OfferMessage:
    """An offer as Mesos sent it. To understand it takes ten times as long as to decline it."""

    __slots__ = ("_message", "_owner", "id")

    def __init__(self, message: pb.Offer, owner: str = "") -> None:
        self._message, self._owner = message, owner
        self.id: str = message.id.value

    def open(self) -> Offer:
        try:
            return offer(self._message, self._owner)
        except (ValueError, LookupError, OverflowError) as error:
            log.warning("mesos.offer.unreadable", offer=self.id, error=repr(error))
            raise ValueError(f"offer {self.id}: {error!r}") from error


def offer(item: pb.Offer, owner: str = "") -> Offer:
    role = item.allocation_info.role or "*"
    scalars, ranges = resource_amounts(item.resources, role, lambda layers: room_of(layers, owner))
    attributes = attributes_of(item.attributes)
    return Offer(
        id=item.id.value,
        agent_id=item.agent_id.value,
        hostname=item.hostname,
        ip=name_of(attributes, item.url.address.ip),
        role=role,
        attributes=attributes,
        scalars=scalars,
        ranges=ranges,
        unavailable_from=item.unavailability.start.nanoseconds / _NANO if item.HasField("unavailability") else 0.0,
    )


def agents(
    response: master_pb2.Response, cause: str, clock: float = 0.0, owner: str = ""
) -> cluster_manager.AgentsListed:
    """Converts the list of agents. `clock`: Unix time of the master in seconds; 0.0 = not known. `owner`: name of the
    framework, for its kept rooms."""
    listed = tuple([_agent(agent, owner) for agent in response.get_agents.agents])
    awaited = dict.fromkeys(chain.from_iterable(map(_names, response.get_agents.recovered_agents)))
    return cluster_manager.AgentsListed(agents=listed, clock=clock, awaited=tuple(awaited), cause=cause)


def _names(info: pb.AgentInfo) -> tuple[str, str, str]:
    return info.id.value, info.hostname, name_of(attributes_of(info.attributes), info.hostname)


def files_addresses(listed: Iterable[ListedAgent]) -> dict[str, HostPort]:
    """Addresses of the active agents at which they serve files of sandboxes, by agent id."""
    return {agent.id: HostPort(agent.ip, agent.port) for agent in listed if agent.active and agent.ip and agent.port}


def fetched_output(asked: cluster_manager.FetchOutput, data: bytes) -> cluster_manager.OutputReported:
    """The answer to FetchOutput. `data`: as bcs_scheduler.wire.kept_output packs it."""
    return cluster_manager.OutputReported(
        agent_id=asked.agent_id,
        executor_id=asked.executor_id,
        task_id=asked.task_id,
        name=asked.name,
        data=data,
        fetched=True,
        cause=asked.cause,
    )


def _agent(agent: master_pb2.Response.GetAgents.Agent, owner: str) -> ListedAgent:
    info = agent.agent_info
    attributes = attributes_of(info.attributes)
    return ListedAgent(
        id=info.id.value,
        hostname=info.hostname,
        ip=name_of(attributes, _pid_ip(agent.pid)),
        port=info.port,
        active=agent.active and not agent.deactivated,
        attributes=attributes,
        total=totals(agent.total_resources),
        allocated=totals(agent.allocated_resources),
        ports=_port_ranges(agent.total_resources),
        registered_time=(agent.reregistered_time.nanoseconds or agent.registered_time.nanoseconds) / _NANO,
        rooms=rooms_on(agent.total_resources, owner),
    )


def _port_ranges(resources: Iterable[pb.Resource]) -> list[tuple[int, int]]:
    return [pair for item in resources if item.name == "ports" for pair in ranges_of(item.ranges)]


def _pid_ip(pid: str) -> str:
    """Returns the address in a pid such as ``slave(1)@10.0.0.1:5051``."""
    return pid.rpartition("@")[2].rpartition(":")[0].strip("[]")
