"""The algebra of resources: nothing is created, nothing is lost."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from offers.errors import Shortage
from offers.model import Claim, Need, Pot, Ranges
from offers.resources import (
    SCALARS,
    Pots,
    add,
    amount_of,
    amounts_of,
    draw,
    fits,
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
from tests.unit.offers_strategies import RESERVED, needs, offers, ranges

pots = offers(0, 0).map(lambda offer: gather([offer]))


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


@given(pots, needs)
def test_what_is_drawn_and_the_rest_are_the_whole(before: Pots, need: Need) -> None:
    if not fits(before, need):
        with pytest.raises(Shortage):
            draw(before, need)
        return
    claim, ports, rest = draw(before, need)
    assert add(rest, claim) == before
    for name, wanted in zip(SCALARS, amounts_of(need), strict=True):
        assert amount_of(before, name) - amount_of(rest, name) == wanted
    claimed = set(numbers(normalise(part for _, parts in claim.ranges for part in parts)))
    assert claimed == set(ports) | set(need.fixed_ports)
    assert len(ports) == need.random_ports and not set(ports) & set(need.fixed_ports)
    assert not any(holds(ports_of(rest), port) for port in claimed)
    assert all(tidy(parts) for _, parts in claim.ranges) and all(tidy(parts) for parts in rest.ranges.values())


@given(pots, needs)
def test_a_reserved_pot_is_emptied_before_an_unreserved_one_is_touched(before: Pots, need: Need) -> None:
    if not fits(before, need):
        return
    rest = draw(before, need)[2]
    for name in SCALARS:
        reserved = sum(amount for pot, amount in rest.scalars.items() if pot.name == name and pot.reservations)
        touched = any(
            rest.scalars.get(pot, 0) < amount
            for pot, amount in before.scalars.items()
            if pot.name == name and not pot.reservations
        )
        assert not (reserved and touched)


@given(pots, needs)
def test_a_claim_can_be_taken_only_once(before: Pots, need: Need) -> None:
    if not fits(before, need):
        return
    claim, _, rest = draw(before, need)
    assert subtract(before, claim) == rest == remaining(before, [claim])
    if claim.ranges:
        with pytest.raises(Shortage):
            subtract(rest, claim)


def test_a_shortage_names_the_resource() -> None:
    cpus = Pot("cpus", "*")
    with pytest.raises(Shortage, match="cpus: 700 wanted, 500 available"):
        draw(Pots({cpus: 500}, {}), Need(cpus=700))
    with pytest.raises(Shortage, match="cpus: 700 wanted, 500 available"):
        subtract(Pots({cpus: 500}, {}), Claim(((cpus, 700),)))


def test_a_claim_outlives_what_it_was_taken_from() -> None:
    """An offer is rescinded after something was placed on it together with another one of the agent."""
    cpus, ports = Pot("cpus", "*"), Pot("ports", "*")
    claim = Claim(((cpus, 700),), ((ports, ((1, 3),)),))
    assert remaining(Pots({cpus: 500}, {ports: ((2, 5),)}), [claim]) == Pots({}, {ports: ((4, 5),)})


def test_fixed_ports_are_found_in_whichever_pot_has_them() -> None:
    free, own = Pot("ports", "prod"), Pot("ports", "prod", RESERVED)
    claim, ports, rest = draw(
        Pots({}, {own: ((10, 12),), free: ((20, 25),)}), Need(random_ports=3, fixed_ports=(21, 10))
    )
    assert ports == (11, 12, 20)
    assert claim.ranges == ((own, ((10, 12),)), (free, ((20, 21),)))
    assert rest.ranges == {free: ((22, 25),)}
