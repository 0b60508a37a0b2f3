"""Reservations of resources: a stack of roles, each with the way in which the role got the resources.

The lowest reservation may be static (by the settings of an agent); the ones above are dynamic, and refine those below.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import pairwise
from typing import NamedTuple

from bcs_scheduler.local.errors import InvalidResources
from bcs_scheduler.mesos.proto import mesos_pb2 as pb

Info = pb.Resource.ReservationInfo
Labels = tuple[tuple[str, str | None], ...]


class Reservation(NamedTuple):
    """One reservation. Reservations that differ in any field do not merge. `principal` and `labels`: None if they are
    not set."""

    role: str
    dynamic: bool = False
    principal: str | None = None
    labels: Labels | None = None

    def __str__(self) -> str:
        parts = ["DYNAMIC" if self.dynamic else "STATIC", self.role]
        if self.principal is not None:
            parts.append(self.principal)
        if self.labels is not None:
            shown = (name if value is None else f"{name}: {value}" for name, value in self.labels)
            parts.append(f"{{{', '.join(shown)}}}")
        return f"({','.join(parts)})"


Stack = tuple[Reservation, ...]
UNRESERVED: Stack = ()
NOWHERE: Stack = (Reservation("\0"),)
"""Stands for any property that no agent here has: resources with it are never contained in an offer."""


def static(role: str) -> Stack:
    """The reservation that the settings of an agent make."""
    return (Reservation(role),)


def usable_by(stack: Stack, role: str) -> bool:
    """True if the resources may be offered to the role: unreserved ones, and those of the role or a role above."""
    return not stack or role == stack[-1].role or role.startswith(stack[-1].role + "/")


def is_dynamic(stack: Stack) -> bool:
    """True if the last reservation is dynamic: this one can be removed."""
    return bool(stack) and stack[-1].dynamic


def shown(stack: Stack) -> str:
    """As Mesos writes the reservations behind the name of a resource."""
    return f"(reservations: [{','.join(map(str, stack))}])" if stack else ""


def stack_of(resource: pb.Resource) -> Stack:
    """The reservations of a message. Raises InvalidResources, in the words of Mesos."""
    if not resource.reservations:
        return _of_old_format(resource)
    found = []
    for info in resource.reservations:
        if not info.HasField("type"):
            raise InvalidResources("Invalid reservation: 'Resource.ReservationInfo.type' field must be set.")
        if not info.HasField("role"):
            raise InvalidResources("Invalid reservation: 'Resource.ReservationInfo.role' field must be set.")
        if info.role == "*":
            raise InvalidResources('Invalid reservation: role "*" cannot be reserved')
        found.append(_reservation(info, info.role, dynamic=info.type == Info.DYNAMIC))
    for below, above in pairwise(found):
        if not above.dynamic:
            raise InvalidResources("Invalid refined reservation: A refined reservation cannot be STATIC")
        if not above.role.startswith(below.role + "/"):
            raise InvalidResources(
                f"Invalid refined reservation: role '{above.role}' is not a refinement of '{below.role}'"
            )
    return tuple(found)


def _of_old_format(resource: pb.Resource) -> Stack:
    """The format of frameworks without RESERVATION_REFINEMENT: one reservation at most."""
    reserved = resource.HasField("role") and resource.role != "*"
    if resource.HasField("reservation"):
        if resource.reservation.HasField("type") or resource.reservation.HasField("role"):
            name = "type" if resource.reservation.HasField("type") else "role"
            raise InvalidResources(
                f"'Resource.ReservationInfo.{name}' must not be set for the 'Resource.reservation' field"
            )
        if not reserved:
            raise InvalidResources('Invalid reservation: role "*" cannot be dynamically reserved')
        return (_reservation(resource.reservation, resource.role, dynamic=True),)
    return static(resource.role) if reserved else UNRESERVED


def _reservation(info: Info, role: str, *, dynamic: bool) -> Reservation:
    principal = info.principal if info.HasField("principal") else None
    labels: Labels | None = None
    if info.HasField("labels"):
        labels = tuple((one.key, one.value if one.HasField("value") else None) for one in info.labels.labels)
    return Reservation(role, dynamic, principal, labels)


def described(resource: pb.Resource) -> str:
    """As Mesos writes a resource, which may be invalid."""
    infos = [_reservation(info, info.role, dynamic=info.type == Info.DYNAMIC) for info in resource.reservations]
    allocated = f"(allocated: {resource.allocation_info.role})" if resource.HasField("allocation_info") else ""
    if resource.type == pb.Value.RANGES:
        value = f"[{', '.join(f'{one.begin}-{one.end}' for one in resource.ranges.range)}]"
    else:
        value = f"{resource.scalar.value:g}"
    return f"{resource.name}{allocated}{shown(tuple(infos))}:{value}"


def write(stack: Stack, resource: pb.Resource) -> None:
    """Writes the reservations into a message."""
    for one in stack:
        info = resource.reservations.add(type=Info.DYNAMIC if one.dynamic else Info.STATIC, role=one.role)
        _write_details(one, info)


def to_old_format(resource: pb.Resource) -> pb.Resource | None:
    """The message as a framework without RESERVATION_REFINEMENT gets it; None if that cannot express the
    reservations: the framework then does not get the resource."""
    if not resource.reservations:
        return resource
    if len(resource.reservations) > 1:
        return None
    (one,) = stack_of(resource)
    old = pb.Resource()
    old.CopyFrom(resource)
    del old.reservations[:]
    old.role = one.role
    if one.dynamic:
        old.reservation.SetInParent()
        _write_details(one, old.reservation)
    return old


def _write_details(one: Reservation, info: Info) -> None:
    if one.principal is not None:
        info.principal = one.principal
    if one.labels is not None:
        info.labels.SetInParent()
        for name, value in one.labels:
            label = info.labels.labels.add(key=name)
            if value is not None:
                label.value = value


def by_role(stacks: Iterable[tuple[Stack, Mapping[str, int]]]) -> dict[str, dict[str, int]]:
    """Scalars by the role that has them reserved, in thousandths; "" holds the unreserved ones."""
    sums: dict[str, dict[str, int]] = {}
    for stack, scalars in stacks:
        sums_of = sums.setdefault(stack[-1].role if stack else "", {})
        for name, amount in scalars.items():
            sums_of[name] = sums_of.get(name, 0) + amount
    return sums
