"""Effects of the core -> calls of the scheduler API."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from bcs_scheduler.core.interface import cluster_manager, effects, leased
from bcs_scheduler.mesos.ends import Kill, Shutdown
from bcs_scheduler.mesos.errors import LaunchError
from bcs_scheduler.mesos.launches import rooms, wire
from bcs_scheduler.mesos.launches.task_info import TaskBuilder
from bcs_scheduler.mesos.proto import mesos_pb2 as pb
from bcs_scheduler.mesos.proto import scheduler_pb2

Call = scheduler_pb2.Call
OUTPUT_LIMIT = 16_384
NOBODY = rooms.Keeping()


class CallMaker:
    """Makes calls for one framework id. For one thread."""

    def __init__(
        self,
        framework_id: str,
        builder: TaskBuilder,
        output_limit: int = OUTPUT_LIMIT,
        keeping: rooms.Keeping = NOBODY,
    ) -> None:
        """`output_limit`: bytes of each output stream that executors shall send of a command. `keeping`: the owner of
        kept rooms."""
        self._keeping = keeping
        self._framework_id = framework_id
        self._framework = pb.FrameworkID(value=framework_id)
        self._builder = builder
        self._output_limit = output_limit
        # One message for all acknowledgements, the most frequent call: making its parts is most of the cost.
        self._acknowledgement = Call(type=Call.ACKNOWLEDGE, framework_id=self._framework)

    def call(self, effect: effects.Effect) -> bytes:
        """The serialized call of any effect other than LaunchOnAgent; an End has been taken apart before
        (bcs_scheduler.mesos.ends). Raises KeyError for an effect that is not for Mesos."""
        if isinstance(effect, cluster_manager.Acknowledge):
            return self._acknowledge(effect)
        if isinstance(effect, cluster_manager.SendMessage):
            return self._message(effect)
        call = _MAKERS[type(effect)](effect)
        call.framework_id.CopyFrom(self._framework)
        return call.SerializeToString()

    def accept(self, effect: cluster_manager.LaunchOnAgent) -> tuple[bytes, tuple[str, ...], list[tuple[str, str]]]:
        """The call, the taskgroups it launches, and (taskgroup, reason) for those that cannot be expressed: one bad
        definition must not keep its neighbours from being launched."""
        call = Call(type=Call.ACCEPT, framework_id=self._framework)
        accept = call.accept
        accept.offer_ids.extend(_offer_ids(effect.offer_ids))
        accept.filters.refuse_seconds = effect.refuse_seconds
        launched, failed = [], []
        for launch in effect.launches:
            before = len(accept.operations)
            try:
                self._add(launch, accept)
            except LaunchError as error:
                del accept.operations[before:]
                failed.append((launch.taskgroup.id, str(error)))
            else:
                launched.append(launch.taskgroup.id)
        return call.SerializeToString(), tuple(launched), failed

    def _add(self, launch: cluster_manager.Launch, accept: Call.Accept) -> None:
        """Adds the operations of one launch. Raises LaunchError."""
        freed = rooms.given_up(launch.allocation)
        if freed is not None:
            accept.operations.append(freed)
            launch = msgspec.structs.replace(launch, allocation=rooms.plain(launch.allocation))
        if launch.kept:
            accept.operations.append(rooms.kept(launch, self._keeping))
            return
        operation = accept.operations.add(type=pb.Offer.Operation.LAUNCH_GROUP)
        self._builder.build(launch, self._framework_id, operation.launch_group)

    def _acknowledge(self, effect: cluster_manager.Acknowledge) -> bytes:
        acknowledge = self._acknowledgement.acknowledge
        acknowledge.agent_id.value = effect.agent_id
        acknowledge.task_id.value = effect.task_id
        acknowledge.uuid = effect.uuid
        return self._acknowledgement.SerializeToString()

    def _message(self, effect: cluster_manager.SendMessage) -> bytes:
        message = Call.Message(
            agent_id=pb.AgentID(value=effect.agent_id),
            executor_id=pb.ExecutorID(value=effect.executor_id),
            data=wire.encode_message(effect, self._output_limit),
        )
        return Call(type=Call.MESSAGE, framework_id=self._framework, message=message).SerializeToString()


def is_call(effect: effects.Effect) -> bool:
    return (
        isinstance(effect, cluster_manager.Acknowledge | cluster_manager.LaunchOnAgent | cluster_manager.SendMessage)
        or type(effect) in _MAKERS
    )


def _offer_ids(ids: Sequence[str]) -> list[pb.OfferID]:
    return [pb.OfferID(value=item) for item in ids]


def _filters(refuse_seconds: float) -> pb.Filters:
    return pb.Filters(refuse_seconds=refuse_seconds)


def _decline(effect: leased.Decline) -> Call:
    decline = Call.Decline(offer_ids=_offer_ids(effect.offer_ids), filters=_filters(effect.refuse_seconds))
    return Call(type=Call.DECLINE, decline=decline)


def _give_up_rooms(effect: leased.GiveUpRooms) -> Call:
    accept = Call.Accept(offer_ids=_offer_ids(effect.offer_ids), filters=_filters(0.0))
    freed = rooms.given_up(effect.rooms)
    if freed is not None:
        accept.operations.append(freed)
    return Call(type=Call.ACCEPT, accept=accept)


def _accept_inverse(effect: leased.AcceptInverseOffers) -> Call:
    accepted = Call.AcceptInverseOffers(inverse_offer_ids=_offer_ids(effect.offer_ids))
    return Call(type=Call.ACCEPT_INVERSE_OFFERS, accept_inverse_offers=accepted)


def _kill(effect: Kill) -> Call:
    grace = pb.DurationInfo(nanoseconds=round(effect.grace_period * 1e9))
    kill = Call.Kill(task_id=pb.TaskID(value=effect.task_id), kill_policy=pb.KillPolicy(grace_period=grace))
    if effect.agent_id:
        kill.agent_id.value = effect.agent_id
    return Call(type=Call.KILL, kill=kill)


def _shutdown(effect: Shutdown) -> Call:
    shutdown = Call.Shutdown(
        executor_id=pb.ExecutorID(value=effect.executor_id), agent_id=pb.AgentID(value=effect.agent_id)
    )
    return Call(type=Call.SHUTDOWN, shutdown=shutdown)


def _reconcile(effect: cluster_manager.Reconcile) -> Call:
    reconcile = Call.Reconcile()
    for task_id, agent_id in effect.tasks:
        task = reconcile.tasks.add()
        task.task_id.value = task_id
        if agent_id:
            task.agent_id.value = agent_id
    return Call(type=Call.RECONCILE, reconcile=reconcile)


def _suppress(effect: leased.Suppress) -> Call:
    return Call(type=Call.SUPPRESS, suppress=Call.Suppress())


def _revive(effect: leased.Revive) -> Call:
    return Call(type=Call.REVIVE, revive=Call.Revive())


_MAKERS: dict[type[effects.Effect], Callable[..., Call]] = {
    leased.Decline: _decline,
    leased.GiveUpRooms: _give_up_rooms,
    leased.AcceptInverseOffers: _accept_inverse,
    Kill: _kill,
    Shutdown: _shutdown,
    cluster_manager.Reconcile: _reconcile,
    leased.Suppress: _suppress,
    leased.Revive: _revive,
}
