"""Kept rooms as dynamic reservations with labels (offers.ledger.external).

A reservation is for the role of its offer, and its labels name the taskgroup, its application and the scheduler. Two
schedulers that share a role therefore need names of their own (`mesos.framework_name`).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from bcs_scheduler.core.interface.cluster_manager import Launch
from bcs_scheduler.mesos.errors import LaunchError
from bcs_scheduler.mesos.launches.resources import ranges_resource, scalar_resource
from bcs_scheduler.mesos.proto import mesos_pb2 as pb
from offers.model import Allocation, Ranges, Reservation, ResourceKey
from offers.resources import normalise

OWNER, APPLICATION, ROOM = "bcs.scheduler/framework", "bcs.scheduler/application", "bcs.scheduler/room"
"""Labels of a reservation: name of the scheduler, ``namespace/name`` of the placeholder, id of its taskgroup."""
DYNAMIC = "DYNAMIC"
Operation = pb.Offer.Operation


class Keeping(NamedTuple):
    """The owner of rooms. `owner`: name of the framework; `principal`: empty if the framework has none."""

    owner: str = ""
    principal: str = ""


def room_of(layers: tuple[Reservation, ...], owner: str) -> str | None:
    """Id of the taskgroup for which resources with these reservations are kept; empty: for none; None: another
    scheduler of the role keeps them."""
    labels = dict(layers[-1].labels) if layers and layers[-1].type == DYNAMIC else {}
    if ROOM not in labels:
        return ""
    return labels[ROOM] if labels.get(OWNER, "") == owner else None


def plain(allocation: Allocation) -> Allocation:
    """The allocation after its rooms were given up."""
    scalars: dict[ResourceKey, int] = {}
    ranges: dict[ResourceKey, Ranges] = {}
    for key, amount in allocation.scalars:
        scalars[_without_room(key)] = scalars.get(_without_room(key), 0) + amount
    for key, part in allocation.ranges:
        ranges[_without_room(key)] = normalise((*ranges.get(_without_room(key), ()), *part))
    return Allocation(tuple(scalars.items()), tuple(ranges.items()))


def given_up(allocation: Allocation) -> Operation | None:
    """UNRESERVE for the rooms of an allocation; None if it has none."""
    resources = _resources(
        Allocation(
            tuple((key, amount) for key, amount in allocation.scalars if key.room),
            tuple((key, part) for key, part in allocation.ranges if key.room),
        )
    )
    if not resources:
        return None
    operation = Operation(type=Operation.UNRESERVE)
    operation.unreserve.resources.extend(resources)
    return operation


def kept(launch: Launch, keeping: Keeping) -> Operation:
    """RESERVE for the allocation of a placeholder. Raises LaunchError for resources that cannot be reserved."""
    group = launch.taskgroup
    labels = ((OWNER, keeping.owner), (APPLICATION, group.application_key), (ROOM, group.id))
    operation = Operation(type=Operation.RESERVE)

    def reserved(key: ResourceKey) -> ResourceKey:
        if key.role == "*":
            raise LaunchError("resources of role * cannot be reserved: set mesos.roles")
        if key.reservations and key.reservations[-1].role == key.role:
            raise LaunchError(f"the {key.name} of the agent are reserved for role {key.role} already")
        layer = Reservation(DYNAMIC, key.role, keeping.principal, labels)
        return key._replace(reservations=(*key.reservations, layer))

    allocation = plain(launch.allocation)
    operation.reserve.resources.extend(
        _resources(
            Allocation(
                tuple((reserved(key), amount) for key, amount in allocation.scalars),
                tuple((reserved(key), part) for key, part in allocation.ranges),
            )
        )
    )
    return operation


def rooms_on(resources: Iterable[pb.Resource], owner: str) -> tuple[str, ...]:
    """The taskgroups for which an agent with these resources keeps rooms."""
    found: dict[str, None] = {}
    for resource in resources:
        for layer in resource.reservations[-1:]:
            labels = {label.key: label.value for label in layer.labels.labels}
            if ROOM in labels and labels.get(OWNER, "") == owner:
                found[labels[ROOM]] = None
    return tuple(found)


def _without_room(key: ResourceKey) -> ResourceKey:
    return key._replace(room="", reservations=key.reservations[:-1]) if key.room else key


def _resources(allocation: Allocation) -> list[pb.Resource]:
    scalars = [scalar_resource(key, amount) for key, amount in allocation.scalars if amount]
    return [*scalars, *(ranges_resource(key, part) for key, part in allocation.ranges if part)]
