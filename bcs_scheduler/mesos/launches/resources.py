"""Converts resources between protobuf and the offers room: doubles become integer thousandths, entries become resource
keys."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import lru_cache

from bcs_scheduler.mesos.proto import mesos_pb2 as pb
from offers.model import Attribute, Ranges, Reservation, ResourceKey

_RESERVATION = pb.Resource.ReservationInfo
_TYPE_NAMES = {number: name for name, number in _RESERVATION.Type.items()}


RoomOf = Callable[[tuple[Reservation, ...]], str | None]
"""Taskgroup for which resources with these reservations are kept; empty: for none; None: they are not ours."""


def _no_room(layers: tuple[Reservation, ...]) -> str | None:
    return ""


def thousandths(value: float) -> int:
    """Mesos itself rounds scalars to three decimals (common/values.cpp), so this loses nothing."""
    return round(value * 1000)


def usable(resource: pb.Resource) -> bool:
    """Plain resources only: volumes, mounts, shared and revocable ones must be handled with care we do not take."""
    if resource.HasField("revocable") or resource.HasField("shared") or resource.HasField("provider_id"):
        return False
    return not (
        resource.HasField("disk") and (resource.disk.HasField("persistence") or resource.disk.HasField("source"))
    )


def key_of(resource: pb.Resource, default_role: str, room_of: RoomOf = _no_room) -> ResourceKey | None:
    """Returns the key of the resource, which names its origin; None if another scheduler keeps the resource.
    `default_role`: role of the whole offer."""
    role = resource.allocation_info.role or default_role
    if not resource.reservations:
        return ResourceKey(resource.name, role)
    layers = tuple(
        Reservation(
            type=_TYPE_NAMES.get(layer.type, "UNKNOWN"),
            role=layer.role,
            principal=layer.principal,
            labels=tuple((label.key, label.value) for label in layer.labels.labels),
        )
        for layer in resource.reservations
    )
    room = room_of(layers)
    return ResourceKey(resource.name, role, layers, room) if room is not None else None


def ranges_of(ranges: pb.Value.Ranges) -> Ranges:
    """Sorted, disjoint, adjacent ones joined."""
    return join(sorted((item.begin, item.end) for item in ranges.range))


def join(ordered: Iterable[tuple[int, int]]) -> Ranges:
    """Joins adjacent and overlapping ranges, given in order."""
    joined: list[tuple[int, int]] = []
    for begin, end in ordered:
        if joined and begin <= joined[-1][1] + 1:
            joined[-1] = (joined[-1][0], max(end, joined[-1][1]))
        else:
            joined.append((begin, end))
    return tuple(joined)


def resource_amounts(
    resources: Iterable[pb.Resource], default_role: str, room_of: RoomOf = _no_room
) -> tuple[tuple[tuple[ResourceKey, int], ...], tuple[tuple[ResourceKey, Ranges], ...]]:
    """Scalars and ranges by pot; entries of one pot are added up."""
    scalars: dict[ResourceKey, int] = {}
    ranges: dict[ResourceKey, Ranges] = {}
    for resource in resources:
        if not usable(resource):
            continue
        key = key_of(resource, default_role, room_of)
        if key is None:
            continue
        if resource.type == pb.Value.SCALAR:
            scalars[key] = scalars.get(key, 0) + thousandths(resource.scalar.value)
        elif resource.type == pb.Value.RANGES:
            ranges[key] = join(sorted((*ranges.get(key, ()), *ranges_of(resource.ranges))))
    return tuple(scalars.items()), tuple(ranges.items())


@lru_cache(maxsize=4096)
def scalar_resource(key: ResourceKey, amount: int) -> pb.Resource:
    """Made once for all taskgroups of a version; to be put into other messages, which copies it, and never changed."""
    resource = pb.Resource(name=key.name, type=pb.Value.SCALAR, scalar=pb.Value.Scalar(value=amount / 1000))
    _describe(resource, key)
    return resource


def ranges_resource(key: ResourceKey, ranges: Ranges) -> pb.Resource:
    resource = pb.Resource()
    fill_ranges(resource, key, ranges)
    return resource


def fill_ranges(resource: pb.Resource, key: ResourceKey, ranges: Ranges) -> None:
    """Fills an empty resource."""
    resource.MergeFromString(_ranges_head(key))
    for begin, end in ranges:
        resource.ranges.range.add(begin=begin, end=end)


@lru_cache(maxsize=1024)
def _ranges_head(key: ResourceKey) -> bytes:
    resource = pb.Resource(name=key.name, type=pb.Value.RANGES)
    _describe(resource, key)
    return resource.SerializePartialToString()


def _describe(resource: pb.Resource, key: ResourceKey) -> None:
    """Mesos compares also roles and reservations of the used and the offered resources."""
    resource.allocation_info.role = key.role
    for layer in key.reservations:
        info = resource.reservations.add(type=_RESERVATION.Type.Value(layer.type), role=layer.role)
        if layer.principal:
            info.principal = layer.principal
        for name, value in layer.labels:
            label = info.labels.labels.add(key=name)
            if value:
                label.value = value


def attributes_of(attributes: Iterable[pb.Attribute]) -> dict[str, Attribute]:
    """Returns the attributes by name; the first of several with one name counts, as in the constraints of Mesos
    itself."""
    found: dict[str, Attribute] = {}
    for attribute in attributes:
        if attribute.name in found:
            continue
        if attribute.type == pb.Value.TEXT:
            found[attribute.name] = attribute.text.value
        elif attribute.type == pb.Value.SCALAR:
            found[attribute.name] = attribute.scalar.value
        elif attribute.type == pb.Value.RANGES:
            found[attribute.name] = ranges_of(attribute.ranges)
    return found


def totals(resources: Iterable[pb.Resource]) -> dict[str, int]:
    """Scalar thousandths by name over all roles, volumes included: the resources of an agent as they are shown to
    users."""
    found: dict[str, int] = {}
    for resource in resources:
        if resource.type == pb.Value.SCALAR:
            found[resource.name] = found.get(resource.name, 0) + thousandths(resource.scalar.value)
    return found
