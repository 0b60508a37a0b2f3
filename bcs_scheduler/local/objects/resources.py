"""Arithmetic over Mesos resources: sums, exact containment, subtraction.

Written apart from `offers`, so that a mistake in the scheduler's own arithmetic is caught by the cluster rather than
repeated in it. Scalars are integer thousandths, the precision Mesos itself counts with. The role a resource is
allocated to is not part of its identity here; all resources of one offer share it, and validation compares it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import pairwise

from bcs_scheduler.local.errors import InvalidResources
from bcs_scheduler.local.objects import reservations
from bcs_scheduler.local.objects.reservations import NOWHERE, UNRESERVED, Stack
from bcs_scheduler.mesos.proto import mesos_pb2 as pb

Key = tuple[str, Stack]
"""Name and reservations."""

Ranges = tuple[tuple[int, int], ...]


class Amounts:
    """A sum of resources. Treat as immutable; every operation gives a new value."""

    __slots__ = ("_messages", "ranges", "scalars")

    def __init__(self, scalars: dict[Key, int] | None = None, ranges: dict[Key, Ranges] | None = None) -> None:
        self.scalars: dict[Key, int] = scalars or {}
        self.ranges: dict[Key, Ranges] = ranges or {}
        self._messages: tuple[str, tuple[pb.Resource, ...]] | None = None
        """The last result of `messages`, with its role."""

    def __bool__(self) -> bool:
        return bool(self.scalars or self.ranges)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Amounts) and self.scalars == other.scalars and self.ranges == other.ranges

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return self.shown("")

    def shown(self, role: str) -> str:
        """As Mesos writes resources that are allocated to the role; "" leaves the allocation out."""
        allocated = f"(allocated: {role})" if role else ""
        parts = [
            f"{name}{allocated}{reservations.shown(stack)}:{amount / 1000:g}"
            for (name, stack), amount in self.scalars.items()
        ]
        parts += [
            f"{name}{allocated}{reservations.shown(stack)}:[{', '.join(f'{begin}-{end}' for begin, end in ranges)}]"
            for (name, stack), ranges in self.ranges.items()
        ]
        return "; ".join(parts) or "{}"

    def keys(self) -> set[Key]:
        """Names with their reservations."""
        return {*self.scalars, *self.ranges}

    def restacked(self, change: Callable[[Stack], Stack]) -> Amounts:
        """The same amounts under other reservations."""
        return sum_of(
            [
                *(Amounts({(name, change(stack)): amount}) for (name, stack), amount in self.scalars.items()),
                *(Amounts(None, {(name, change(stack)): pairs}) for (name, stack), pairs in self.ranges.items()),
            ]
        )

    def by_role(self) -> dict[str, dict[str, int]]:
        """Scalars by the role that has them reserved, in thousandths; "" holds the unreserved ones."""
        return reservations.by_role((stack, {name: amount}) for (name, stack), amount in self.scalars.items())

    def __add__(self, other: Amounts) -> Amounts:
        """Overlapping ranges count once, as in Mesos; `overlaps` finds them."""
        if not other:
            return self
        if not self:
            return other
        scalars = dict(self.scalars)
        for key, amount in other.scalars.items():
            scalars[key] = scalars.get(key, 0) + amount
        ranges = dict(self.ranges)
        for key, pairs in other.ranges.items():
            ranges[key] = union(ranges.get(key, ()) + pairs)
        return Amounts(scalars, ranges)

    def __sub__(self, other: Amounts) -> Amounts:
        """Returns the remainder; `other` must be contained."""
        if other is self:
            return Amounts()
        scalars = dict(self.scalars)
        for key, amount in other.scalars.items():
            left = scalars[key] - amount
            if left:
                scalars[key] = left
            else:
                del scalars[key]
        ranges = dict(self.ranges)
        for key, pairs in other.ranges.items():
            rest = difference(ranges[key], pairs)
            if rest:
                ranges[key] = rest
            else:
                del ranges[key]
        return Amounts(scalars, ranges)

    def contains(self, other: Amounts) -> bool:
        if other is self:  # refused amounts are mostly offered again as the same object
            return True
        for key, amount in other.scalars.items():
            if self.scalars.get(key, 0) < amount:
                return False
        for key, pairs in other.ranges.items():
            mine = self.ranges.get(key, ())
            for begin, end in pairs:
                for b, e in mine:
                    if b <= begin and end <= e:
                        break
                else:
                    return False
        return True

    def without(self, other: Amounts) -> Amounts:
        """The remainder without `other`, which may have more."""
        scalars = {key: amount - other.scalars.get(key, 0) for key, amount in self.scalars.items()}
        ranges = {key: difference(pairs, other.ranges.get(key, ())) for key, pairs in self.ranges.items()}
        return Amounts(
            {key: amount for key, amount in scalars.items() if amount > 0},
            {key: pairs for key, pairs in ranges.items() if pairs},
        )

    def overlaps(self, other: Amounts) -> bool:
        """True if a number is in the ranges of both."""
        return any(
            b1 <= e2 and b2 <= e1
            for key, pairs in other.ranges.items()
            for b1, e1 in self.ranges.get(key, ())
            for b2, e2 in pairs
        )

    def scalar(self, name: str) -> int:
        """Sum over all reservations, in thousandths."""
        total = 0
        for key, amount in self.scalars.items():
            if key[0] == name:
                total += amount
        return total

    def usable_by(self, role: str, *, refined: bool = True) -> Amounts:
        """The part a role may be offered: unreserved, or reserved for it or a role above it. `refined`: also with a
        reservation that refines another one."""

        def usable(stack: Stack) -> bool:
            return reservations.usable_by(stack, role) and (refined or len(stack) < 2)

        if all(usable(stack) for _, stack in (*self.scalars, *self.ranges)):
            return self
        return Amounts(
            {key: amount for key, amount in self.scalars.items() if usable(key[1])},
            {key: pairs for key, pairs in self.ranges.items() if usable(key[1])},
        )

    def messages(self, role: str) -> tuple[pb.Resource, ...]:
        """The resources as in an offer to a framework of this role; "" leaves the allocation out. The messages are
        shared by all callers, who must copy them before a change. They are kept, because the free resources of an agent
        are mostly offered several times."""
        if self._messages is None or self._messages[0] != role:
            self._messages = role, tuple(_to_messages(self, role))
        return self._messages[1]


def sum_of(parts: Iterable[Amounts]) -> Amounts:
    """The sum of all parts, as by repeated addition."""
    scalars: dict[Key, int] = {}
    pairs: dict[Key, list[tuple[int, int]]] = {}
    for part in parts:
        for key, amount in part.scalars.items():
            scalars[key] = scalars.get(key, 0) + amount
        for key, ranges in part.ranges.items():
            pairs.setdefault(key, []).extend(ranges)
    return Amounts(scalars, {key: union(ranges) for key, ranges in pairs.items()})


def union(pairs: Iterable[tuple[int, int]]) -> Ranges:
    """Sorted, disjoint, joined where they touch."""
    joined: list[tuple[int, int]] = []
    for begin, end in sorted(pairs):
        if joined and begin <= joined[-1][1] + 1:
            joined[-1] = (joined[-1][0], max(end, joined[-1][1]))
        else:
            joined.append((begin, end))
    return tuple(joined)


def difference(pairs: Ranges, taken: Ranges) -> Ranges:
    left = list(pairs)
    for begin, end in taken:
        rest = []
        for b, e in left:
            if end < b or e < begin:
                rest.append((b, e))
                continue
            if b < begin:
                rest.append((b, begin - 1))
            if end < e:
                rest.append((end + 1, e))
        left = rest
    return tuple(left)


def parse(resources: Iterable[pb.Resource]) -> Amounts:
    """Returns the sum. Raises InvalidResources, in the words of Mesos, for resources that are not accepted."""
    scalars: dict[Key, int] = {}
    ranges: dict[Key, Ranges] = {}
    for resource in resources:
        try:
            _add(resource, scalars, ranges)
        except InvalidResources as error:
            raise InvalidResources(f"Resource '{reservations.described(resource)}' is invalid: {error}") from None
    if scalars.get(("gpus", UNRESERVED), 0) % 1000:
        raise InvalidResources("The 'gpus' resource must be an unsigned integer")
    return Amounts(scalars, ranges)


def _add(resource: pb.Resource, scalars: dict[Key, int], ranges: dict[Key, Ranges]) -> None:
    name = resource.name
    if not name:
        raise InvalidResources("Empty resource name")
    key = (name, _stack(resource))
    if resource.type == pb.Value.SCALAR:
        if not resource.HasField("scalar") or resource.HasField("ranges"):
            raise InvalidResources("Invalid scalar resource")
        value = resource.scalar.value
        amount = round(value * 1000)
        if value != 0 and amount <= 0:
            raise InvalidResources("Invalid scalar resource: value <= 0")
        if amount:
            scalars[key] = scalars.get(key, 0) + amount
    elif resource.type == pb.Value.RANGES:
        if not resource.HasField("ranges") or resource.HasField("scalar"):
            raise InvalidResources("Invalid ranges resource")
        pairs = _pairs(resource)
        if pairs:
            ranges[key] = union(ranges.get(key, ()) + pairs)
    else:
        raise InvalidResources("Unsupported resource type")


def _pairs(resource: pb.Resource) -> Ranges:
    pairs = sorted((r.begin, r.end) for r in resource.ranges.range)
    for begin, end in pairs:
        if begin > end:
            raise InvalidResources("Invalid ranges resource: begin > end")
    for (_, end), (begin, _) in pairwise(pairs):
        if begin <= end:
            raise InvalidResources("Invalid ranges resource: overlapping ranges")
    return tuple(pairs)


def _stack(resource: pb.Resource) -> Stack:
    if resource.HasField("disk") or resource.HasField("revocable") or resource.HasField("shared"):
        return NOWHERE  # no agent here has such resources
    return reservations.stack_of(resource)


def _to_messages(amounts: Amounts, role: str) -> list[pb.Resource]:
    messages = []
    for key, amount in amounts.scalars.items():
        message = _message(key, role)
        message.type = pb.Value.SCALAR
        message.scalar.value = amount / 1000
        messages.append(message)
    for key, pairs in amounts.ranges.items():
        message = _message(key, role)
        message.type = pb.Value.RANGES
        message.ranges.SetInParent()
        for begin, end in pairs:
            message.ranges.range.add(begin=begin, end=end)
        messages.append(message)
    return messages


def _message(key: Key, role: str) -> pb.Resource:
    message = pb.Resource(name=key[0])
    if role:
        message.allocation_info.role = role
    reservations.write(key[1], message)
    return message
