"""The algebra of resources: nothing is created, nothing is lost."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from offers.errors import Shortage
from offers.model import Allocation, Ranges, ResourceKey, ResourceRequest
from offers.resources import (
    SCALARS,
    ResourceMap,
    amount_of,
    amounts_of,
    draw,
    gather,
    holds,
    normalise,
    numbers,
    ports_of,
    remaining,
    size,
    split_lowest,
    subtract,
    without,
)
from tests.unit.offers.matching.reference_matcher import fits
from tests.unit.offers.offers_strategies import RESERVED, needs, offers, ranges

resources = offers(0, 0).map(lambda offer: gather([offer]))


def add(resources: ResourceMap, allocation: Allocation) -> ResourceMap:
    """The resources with an allocation put back."""
    scalars, ranges = dict(resources.scalars), dict(resources.ranges)
    for resource_key, amount in allocation.scalars:
        scalars[resource_key] = scalars.get(resource_key, 0) + amount
    for resource_key, part in allocation.ranges:
        ranges[resource_key] = normalise((*ranges.get(resource_key, ()), *part))
    return ResourceMap(
        {key: left for key, left in scalars.items() if left}, {key: part for key, part in ranges.items() if part}
    )


def tidy(given_ranges: Ranges) -> bool:
    """Sorted, disjoint, neighbours merged, none empty."""
    return all(begin <= end for begin, end in given_ranges) and all(
        first[1] + 1 < second[0] for first, second in pairwise(given_ranges)
    )


@given(ranges, ranges)
def test_subtraction_of_ranges_is_that_of_sets(left: Ranges, right: Ranges) -> None:
    result = without(left, right)
    assert set(numbers(result)) == set(numbers(left)) - set(numbers(right))
    assert tidy(result)


@given(st.lists(st.tuples(st.integers(0, 60), st.integers(-3, 60)), max_size=6))
def test_normalised_ranges_hold_the_same_numbers(pairs: list[tuple[int, int]]) -> None:
    result = normalise(pairs)
    assert set(numbers(result)) == {number for begin, end in pairs for number in range(begin, end + 1)}
    assert tidy(result)
    assert size(result) == len(numbers(result))


@given(ranges, st.integers(0, 12))
def test_the_lowest_numbers_are_split_off(given_ranges: Ranges, count: int) -> None:
    taken, rest = split_lowest(given_ranges, count)
    everything = numbers(given_ranges)
    assert (numbers(taken), numbers(rest)) == (everything[:count], everything[count:])
    assert tidy(taken) and tidy(rest)


@given(resources, needs)
def test_what_is_drawn_and_the_rest_are_the_whole(before: ResourceMap, request: ResourceRequest) -> None:
    if not fits(before, request):
        with pytest.raises(Shortage):
            draw(before, request)
        return
    allocation, ports, rest = draw(before, request)
    assert add(rest, allocation) == before
    for name, wanted in zip(SCALARS, amounts_of(request), strict=True):
        assert amount_of(before, name) - amount_of(rest, name) == wanted
    claimed = set(numbers(normalise(part for _, parts in allocation.ranges for part in parts)))
    assert claimed == set(ports) | set(request.fixed_ports)
    assert len(ports) == request.random_ports and not set(ports) & set(request.fixed_ports)
    assert not any(holds(ports_of(rest), port) for port in claimed)
    assert all(tidy(parts) for _, parts in allocation.ranges) and all(tidy(parts) for parts in rest.ranges.values())


@given(resources, needs)
def test_a_reserved_pot_is_emptied_before_an_unreserved_one_is_touched(
    before: ResourceMap, request: ResourceRequest
) -> None:
    if not fits(before, request):
        return
    rest = draw(before, request)[2]
    for name in SCALARS:
        reserved = sum(
            amount
            for resource_key, amount in rest.scalars.items()
            if resource_key.name == name and resource_key.reservations
        )
        touched = any(
            rest.scalars.get(resource_key, 0) < amount
            for resource_key, amount in before.scalars.items()
            if resource_key.name == name and not resource_key.reservations
        )
        assert not (reserved and touched)


@given(resources, needs)
def test_a_claim_can_be_taken_only_once(before: ResourceMap, request: ResourceRequest) -> None:
    if not fits(before, request):
        return
    allocation, _, rest = draw(before, request)
    assert subtract(before, allocation) == rest == remaining(before, [allocation])
    if allocation.ranges:
        with pytest.raises(Shortage):
            subtract(rest, allocation)


def test_a_shortage_names_the_resource() -> None:
    cpus = ResourceKey("cpus", "*")
    with pytest.raises(Shortage, match="cpus: 700 needed, 500 available"):
        draw(ResourceMap({cpus: 500}, {}), ResourceRequest(cpus=700))
    with pytest.raises(Shortage, match="cpus: 700 needed, 500 available"):
        subtract(ResourceMap({cpus: 500}, {}), Allocation(((cpus, 700),)))


def test_a_claim_outlives_what_it_was_taken_from() -> None:
    """An offer is rescinded after something was placed on it together with another one of the agent."""
    cpus, ports = ResourceKey("cpus", "*"), ResourceKey("ports", "*")
    allocation = Allocation(((cpus, 700),), ((ports, ((1, 3),)),))
    assert remaining(ResourceMap({cpus: 500}, {ports: ((2, 5),)}), [allocation]) == ResourceMap({}, {ports: ((4, 5),)})


def test_fixed_ports_are_found_in_whichever_pot_has_them() -> None:
    free, own = ResourceKey("ports", "prod"), ResourceKey("ports", "prod", RESERVED)
    allocation, ports, rest = draw(
        ResourceMap({}, {own: ((10, 12),), free: ((20, 25),)}), ResourceRequest(random_ports=3, fixed_ports=(21, 10))
    )
    assert ports == (11, 12, 20)
    assert allocation.ranges == ((own, ((10, 12),)), (free, ((20, 21),)))
    assert rest.ranges == {free: ((22, 25),)}
