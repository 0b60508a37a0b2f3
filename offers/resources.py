"""Exact arithmetic over the resources of offers. Everything here is a pure function of values.

Scalars are integer thousandths, as the cluster manager counts; ranges are inclusive (begin, end) pairs, sorted and
disjoint, with neighbours merged. A resource key (name, role, reservations) is the identity of a part of an
offer: amounts of different resource keys are summed to see whether something fits, but an allocation names the keys.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from offers.dimensions import THOUSANDTHS
from offers.errors import Shortage
from offers.model import Allocation, Offer, Ranges, ResourceKey, ResourceRequest

SCALARS = THOUSANDTHS.names
PORTS = "ports"


class ResourceMap(NamedTuple):
    """Amounts by resource key, in the order in which they are used. No amount is zero."""

    scalars: Mapping[ResourceKey, int]
    ranges: Mapping[ResourceKey, Ranges]


# --- ranges ---------------------------------------------------------------------------------------------------


def normalise(ranges: Iterable[tuple[int, int]]) -> Ranges:
    """The same numbers as sorted, disjoint ranges with neighbours merged."""
    result: list[tuple[int, int]] = []
    for begin, end in sorted(ranges):
        if begin > end:
            continue
        if result and begin <= result[-1][1] + 1:
            if end > result[-1][1]:
                result[-1] = (result[-1][0], end)
        else:
            result.append((begin, end))
    return tuple(result)


def size(ranges: Ranges) -> int:
    """Number of integers that the ranges contain."""
    return sum(end - begin + 1 for begin, end in ranges)


def holds(ranges: Ranges, number: int) -> bool:
    """Returns True if the number lies in one of the ranges."""
    return any(begin <= number <= end for begin, end in ranges)


def numbers(ranges: Ranges) -> tuple[int, ...]:
    """Every number, ascending."""
    if len(ranges) == 1:
        begin, end = ranges[0]
        return (begin,) if begin == end else tuple(range(begin, end + 1))
    return tuple(number for begin, end in ranges for number in range(begin, end + 1))


def without(ranges: Ranges, taken: Ranges) -> Ranges:
    """The numbers of `ranges` that are not in `taken`; both sorted and disjoint."""
    result: list[tuple[int, int]] = []
    position = 0
    for begin, end in ranges:
        while position < len(taken) and taken[position][1] < begin:
            position += 1
        cursor, at = begin, position
        while at < len(taken) and taken[at][0] <= end:
            if cursor < taken[at][0]:
                result.append((cursor, taken[at][0] - 1))
            cursor = max(cursor, taken[at][1] + 1)
            at += 1
        if cursor <= end:
            result.append((cursor, end))
    return tuple(result)


def split_lowest(ranges: Ranges, count: int) -> tuple[Ranges, Ranges]:
    """(the `count` lowest numbers, the rest). Takes all if there are fewer."""
    if not count:
        return (), ranges
    begin, end = ranges[0] if ranges else (0, -1)
    if end - begin >= count:  # by far the most frequent case
        return ((begin, begin + count - 1),), ((begin + count, end), *ranges[1:])
    taken: list[tuple[int, int]] = []
    for position, (begin, end) in enumerate(ranges):
        if end - begin + 1 > count:
            if count:
                taken.append((begin, begin + count - 1))
            return tuple(taken), ((begin + count, end), *ranges[position + 1 :])
        taken.append((begin, end))
        count -= end - begin + 1
    return tuple(taken), ()


# --- resource keys ----------------------------------------------------------------------------------------------------


def gather(offers: Iterable[Offer]) -> ResourceMap:
    """Everything in these offers; amounts of equal resource keys are added. Reserved resources come first, because only
    this scheduler may use them."""
    scalars: dict[ResourceKey, int] = {}
    ranges: dict[ResourceKey, Ranges] = {}
    for offer in offers:
        for resource_key, amount in offer.scalars:
            scalars[resource_key] = scalars.get(resource_key, 0) + amount
        for resource_key, part in offer.ranges:
            ranges[resource_key] = normalise((*ranges[resource_key], *part)) if resource_key in ranges else part
    return _tidy(scalars, ranges)


def _tidy(scalars: dict[ResourceKey, int], ranges: dict[ResourceKey, Ranges]) -> ResourceMap:
    if all(scalars.values()) and all(ranges.values()) and all(map(_unreserved, (*scalars, *ranges))):
        return ResourceMap(scalars, ranges)
    return ResourceMap(
        {
            resource_key: scalars[resource_key]
            for resource_key in sorted(scalars, key=_unreserved)
            if scalars[resource_key] > 0
        },
        {
            resource_key: ranges[resource_key]
            for resource_key in sorted(ranges, key=_unreserved)
            if ranges[resource_key]
        },
    )


def _unreserved(resource_key: ResourceKey) -> bool:
    return not resource_key.reservations


def amount_of(resources: ResourceMap, name: str) -> int:
    """Sum of a scalar over all resource keys of this name."""
    return sum(amount for resource_key, amount in resources.scalars.items() if resource_key.name == name)


def ports_of(resources: ResourceMap) -> Ranges:
    """All free ports of all resource keys."""
    return normalise(
        part for resource_key, ranges in resources.ranges.items() if resource_key.name == PORTS for part in ranges
    )


def subtract(resources: ResourceMap, allocation: Allocation) -> ResourceMap:
    """The resources without an allocation. Raises Shortage if the allocation holds anything that is not there."""
    scalars, ranges = dict(resources.scalars), dict(resources.ranges)
    for resource_key, amount in allocation.scalars:
        if amount > scalars.get(resource_key, 0):
            raise Shortage(resource_key.name, amount, scalars.get(resource_key, 0))
        scalars[resource_key] -= amount
    for resource_key, part in allocation.ranges:
        there = ranges.get(resource_key, ())
        rest = without(there, part)
        if size(rest) + size(part) != size(there):
            raise Shortage(resource_key.name, size(part), size(there))
        ranges[resource_key] = rest
    return _tidy(scalars, ranges)


def remaining(resources: ResourceMap, allocations: Iterable[Allocation]) -> ResourceMap:
    """Subtracts the allocations from the resources. An amount never falls below 0, because a part of the resources may
    have been taken back in the meantime."""
    scalars, ranges = dict(resources.scalars), dict(resources.ranges)
    for allocation in allocations:
        for resource_key, amount in allocation.scalars:
            scalars[resource_key] = max(scalars.get(resource_key, 0) - amount, 0)
        for resource_key, part in allocation.ranges:
            ranges[resource_key] = without(ranges.get(resource_key, ()), part)
    return _tidy(scalars, ranges)


# --- needs ----------------------------------------------------------------------------------------------------


def amounts_of(request: ResourceRequest) -> tuple[int, int, int, int]:
    """The scalars of a need in the order of SCALARS."""
    if request.amounts:
        cpus, mem, disk, gpus = (requested(request)[name] for name in SCALARS)
        return cpus, mem, disk, gpus
    return request.cpus, request.mem, request.disk, request.gpus


def requested(request: ResourceRequest) -> dict[str, int]:
    """Amounts of a need by the name of the dimension, the four scalars and the number of ports included. Where random
    ports are drawn beside ports of certain protocols, the latter count as if they were drawn too."""
    needed = {"cpus": request.cpus, "mem": request.mem, "disk": request.disk, "gpus": request.gpus}
    for name, amount in request.amounts:
        needed[name] = needed.get(name, 0) + amount
    special = len({port.port for port in request.host_ports}) if request.random_ports else 0
    needed[PORTS] = request.random_ports + len(frozenset(request.fixed_ports)) + special
    return needed


def summed(amounts: Iterable[tuple[str, int]]) -> dict[str, int]:
    """Amounts by name, equal names added up."""
    sums: dict[str, int] = {}
    for name, amount in amounts:
        sums[name] = sums.get(name, 0) + amount
    return sums


def draw(resources: ResourceMap, request: ResourceRequest) -> tuple[Allocation, tuple[int, ...], ResourceMap]:
    """Takes a resource request out of the resources: (allocation, random ports, rest). Scalars are taken in the order
    of the resource keys; random ports are the lowest free ones that the request does not name. Raises Shortage."""
    scalars: list[tuple[ResourceKey, int]] = []
    for name, needed in zip(SCALARS, amounts_of(request), strict=True):
        scalars += draw_scalar([part for part in resources.scalars.items() if part[0].name == name], name, needed)
    ranges, ports = draw_ports(
        [(resource_key, part) for resource_key, part in resources.ranges.items() if resource_key.name == PORTS],
        request.random_ports,
        request.fixed_ports,
    )
    allocation = Allocation(tuple(scalars), ranges)
    return allocation, ports, subtract(resources, allocation)


def draw_scalar(resources: Sequence[tuple[ResourceKey, int]], name: str, needed: int) -> list[tuple[ResourceKey, int]]:
    """The parts of a scalar that are taken from resource keys of one name. Raises Shortage."""
    taken: list[tuple[ResourceKey, int]] = []
    missing = needed
    for resource_key, amount in resources:
        if missing <= 0:
            break
        part = min(amount, missing)
        taken.append((resource_key, part))
        missing -= part
    if missing > 0:
        raise Shortage(name, needed, needed - missing)
    return taken


def draw_ports(
    resources: Sequence[tuple[ResourceKey, Ranges]], random_ports: int, fixed_ports: Sequence[int]
) -> tuple[tuple[tuple[ResourceKey, Ranges], ...], tuple[int, ...]]:
    """Returns the ranges taken of each resource key, and the random ports in ascending order per resource key. Raises
    Shortage."""
    fixed = normalise((port, port) for port in fixed_ports)
    claimed: list[tuple[ResourceKey, Ranges]] = []
    drawn: list[int] = []
    covered = 0
    for resource_key, ranges in resources:
        loose = without(ranges, fixed) if fixed else ranges
        held = without(ranges, loose) if fixed else ()
        lowest, _ = split_lowest(loose, random_ports - len(drawn))
        covered += size(held)
        drawn += numbers(lowest)
        if held or lowest:
            claimed.append((resource_key, normalise((*held, *lowest)) if held else lowest))
    if len(drawn) < random_ports or covered < size(fixed):
        raise Shortage(PORTS, random_ports + size(fixed), len(drawn) + covered)
    return tuple(claimed), tuple(drawn)
