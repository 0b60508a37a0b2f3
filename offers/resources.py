"""Exact arithmetic over the resources of offers. Everything here is a pure function of values.

Scalars are integer thousandths, as Mesos counts; ranges are inclusive (begin, end) pairs, sorted and disjoint, with
neighbours merged. A pot is a part of an offer with an identity of its own (name, role, reservations): amounts of
different pots are summed to see whether something fits, but what is claimed must name the pots.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from offers.dimensions import THOUSANDTHS
from offers.errors import Shortage
from offers.model import Claim, Need, Offer, Pot, Ranges

SCALARS = THOUSANDTHS.names
PORTS = "ports"


class Pots(NamedTuple):
    """What there is, pot by pot, in the order in which it is drawn. No pot is empty."""

    scalars: Mapping[Pot, int]
    ranges: Mapping[Pot, Ranges]


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
    """How many numbers the ranges hold."""
    return sum(end - begin + 1 for begin, end in ranges)


def holds(ranges: Ranges, number: int) -> bool:
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


# --- pots -----------------------------------------------------------------------------------------------------


def gather(offers: Iterable[Offer]) -> Pots:
    """Everything in these offers, equal pots added up. Reserved pots come first: what only we may use is used first."""
    scalars: dict[Pot, int] = {}
    ranges: dict[Pot, Ranges] = {}
    for offer in offers:
        for pot, amount in offer.scalars:
            scalars[pot] = scalars.get(pot, 0) + amount
        for pot, part in offer.ranges:
            ranges[pot] = normalise((*ranges[pot], *part)) if pot in ranges else part
    return _tidy(scalars, ranges)


def _tidy(scalars: dict[Pot, int], ranges: dict[Pot, Ranges]) -> Pots:
    if all(scalars.values()) and all(ranges.values()) and all(map(_unreserved, (*scalars, *ranges))):
        return Pots(scalars, ranges)
    return Pots(
        {pot: scalars[pot] for pot in sorted(scalars, key=_unreserved) if scalars[pot] > 0},
        {pot: ranges[pot] for pot in sorted(ranges, key=_unreserved) if ranges[pot]},
    )


def _unreserved(pot: Pot) -> bool:
    return not pot.reservations


def amount_of(pots: Pots, name: str) -> int:
    """Sum of a scalar over all pots of this name."""
    return sum(amount for pot, amount in pots.scalars.items() if pot.name == name)


def ports_of(pots: Pots) -> Ranges:
    """All free ports, whatever the pot."""
    return normalise(part for pot, ranges in pots.ranges.items() if pot.name == PORTS for part in ranges)


def add(pots: Pots, claim: Claim) -> Pots:
    """The pots with a claim put back."""
    scalars, ranges = dict(pots.scalars), dict(pots.ranges)
    for pot, amount in claim.scalars:
        scalars[pot] = scalars.get(pot, 0) + amount
    for pot, part in claim.ranges:
        ranges[pot] = normalise((*ranges.get(pot, ()), *part))
    return _tidy(scalars, ranges)


def subtract(pots: Pots, claim: Claim) -> Pots:
    """The pots without a claim. Raises Shortage if the claim holds anything that is not there."""
    scalars, ranges = dict(pots.scalars), dict(pots.ranges)
    for pot, amount in claim.scalars:
        if amount > scalars.get(pot, 0):
            raise Shortage(pot.name, amount, scalars.get(pot, 0))
        scalars[pot] -= amount
    for pot, part in claim.ranges:
        there = ranges.get(pot, ())
        rest = without(there, part)
        if size(rest) + size(part) != size(there):
            raise Shortage(pot.name, size(part), size(there))
        ranges[pot] = rest
    return _tidy(scalars, ranges)


def remaining(pots: Pots, claims: Iterable[Claim]) -> Pots:
    """What is left of the pots when claims hold on to what they name, even if part of it has been taken back."""
    scalars, ranges = dict(pots.scalars), dict(pots.ranges)
    for claim in claims:
        for pot, amount in claim.scalars:
            scalars[pot] = max(scalars.get(pot, 0) - amount, 0)
        for pot, part in claim.ranges:
            ranges[pot] = without(ranges.get(pot, ()), part)
    return _tidy(scalars, ranges)


# --- needs ----------------------------------------------------------------------------------------------------


def amounts_of(need: Need) -> tuple[int, int, int, int]:
    """The scalars of a need in the order of SCALARS."""
    if need.amounts:
        cpus, mem, disk, gpus = (requested(need)[name] for name in SCALARS)
        return cpus, mem, disk, gpus
    return need.cpus, need.mem, need.disk, need.gpus


def requested(need: Need) -> dict[str, int]:
    """Amounts of a need by the name of the dimension, the four scalars and the number of ports included. Where random
    ports are drawn beside ports of certain protocols, the latter count as if they were drawn too."""
    found = {"cpus": need.cpus, "mem": need.mem, "disk": need.disk, "gpus": need.gpus}
    for name, amount in need.amounts:
        found[name] = found.get(name, 0) + amount
    special = len({port.port for port in need.host_ports}) if need.random_ports else 0
    found[PORTS] = need.random_ports + len(frozenset(need.fixed_ports)) + special
    return found


def fits(pots: Pots, need: Need) -> bool:
    """Whether a need (leaving aside its extended resources) can be drawn."""
    if any(amount_of(pots, name) < wanted for name, wanted in zip(SCALARS, amounts_of(need), strict=True)):
        return False
    ports = ports_of(pots)
    fixed = frozenset(need.fixed_ports)
    return all(holds(ports, port) for port in fixed) and size(ports) >= need.random_ports + len(fixed)


def draw(pots: Pots, need: Need) -> tuple[Claim, tuple[int, ...], Pots]:
    """Takes a need out of pots: (claim, random ports, rest). Raises Shortage.

    Pots are emptied in their order; random ports are the lowest free ones of a pot that the need does not fix.
    """
    scalars: list[tuple[Pot, int]] = []
    for name, wanted in zip(SCALARS, amounts_of(need), strict=True):
        scalars += draw_scalar([part for part in pots.scalars.items() if part[0].name == name], name, wanted)
    ranges, ports = draw_ports(
        [(pot, part) for pot, part in pots.ranges.items() if pot.name == PORTS], need.random_ports, need.fixed_ports
    )
    claim = Claim(tuple(scalars), ranges)
    return claim, ports, subtract(pots, claim)


def draw_scalar(pots: Sequence[tuple[Pot, int]], name: str, wanted: int) -> list[tuple[Pot, int]]:
    """The parts of a scalar that are taken from pots of one name. Raises Shortage."""
    taken: list[tuple[Pot, int]] = []
    missing = wanted
    for pot, amount in pots:
        if missing <= 0:
            break
        part = min(amount, missing)
        taken.append((pot, part))
        missing -= part
    if missing > 0:
        raise Shortage(name, wanted, wanted - missing)
    return taken


def draw_ports(
    pots: Sequence[tuple[Pot, Ranges]], random_ports: int, fixed_ports: Sequence[int]
) -> tuple[tuple[tuple[Pot, Ranges], ...], tuple[int, ...]]:
    """(what is claimed of each pot, the random ports ascending pot by pot). Raises Shortage."""
    fixed = normalise((port, port) for port in fixed_ports)
    claimed: list[tuple[Pot, Ranges]] = []
    drawn: list[int] = []
    found = 0
    for pot, ranges in pots:
        loose = without(ranges, fixed) if fixed else ranges
        held = without(ranges, loose) if fixed else ()
        lowest, _ = split_lowest(loose, random_ports - len(drawn))
        found += size(held)
        drawn += numbers(lowest)
        if held or lowest:
            claimed.append((pot, normalise((*held, *lowest)) if held else lowest))
    if len(drawn) < random_ports or found < size(fixed):
        raise Shortage(PORTS, random_ports + size(fixed), len(drawn) + found)
    return tuple(claimed), tuple(drawn)
