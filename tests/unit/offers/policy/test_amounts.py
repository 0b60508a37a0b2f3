"""Amounts of the policies: four ways to treat missing names, exact shares."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from offers.dimensions import amounts as pairs
from offers.dimensions import share
from offers.errors import Shortage
from offers.policy import amounts
from offers.policy.amounts import (
    added,
    added_where_named,
    compare_ratios,
    descending_shares,
    difference,
    difference_where_named,
    fits,
    fits_limit,
    fits_signed,
    greatest_share,
    least_limit,
    shortages,
    taken,
    thousandths,
)

VECTORS = st.dictionaries(st.sampled_from(("cpus", "mem", "disk")), st.integers(-50, 50))


@pytest.mark.parametrize(
    ("number", "expected"), [(1, 1000), (0.1, 100), (0.001, 1), ("2.5", 2500), (-1.5, -1500), (64000, 64_000_000)]
)
def test_decimal_numbers_are_thousandths_exactly(number: int | float | str, expected: int) -> None:
    assert thousandths(number) == expected


@pytest.mark.parametrize("number", [0.0001, "1.2345", "x", "", float("inf"), float("nan"), True])
def test_what_is_no_number_of_three_decimals_is_refused(number: float | str) -> None:
    with pytest.raises(ValueError, match=r"not a number|more than three decimals"):
        thousandths(number)


@pytest.mark.parametrize(
    ("wanted", "room", "at_agents", "within_limits", "signed"),
    [
        ({"cpus": 5}, {"cpus": 5}, True, True, True),
        ({"cpus": 6}, {"cpus": 5}, False, False, False),
        ({"gpus": 1}, {"cpus": 5}, False, True, False),
        ({"gpus": 0}, {"cpus": 5}, True, True, True),
        ({"gpus": 1}, {"gpus": 0}, False, False, False),
        ({"cpus": 0}, {"cpus": -1}, True, True, False),
        ({"cpus": -2}, {"cpus": -1}, True, True, True),
        ({}, {"cpus": -1}, True, True, True),
    ],
)
def test_the_ways_to_fit_differ_in_missing_names_and_negative_room(
    wanted: amounts.Vector, room: amounts.Vector, at_agents: bool, within_limits: bool, signed: bool
) -> None:
    assert (fits(wanted, room), fits_limit(wanted, room), fits_signed(wanted, room)) == (
        at_agents,
        within_limits,
        signed,
    )


def test_quotas_compute_with_the_names_that_they_have() -> None:
    quota, usage = {"cpus": 4, "mem": 10}, {"cpus": 6, "gpus": 1}
    assert difference_where_named(quota, usage) == {"cpus": -2, "mem": 10}
    assert added_where_named(quota, usage) == {"cpus": 10, "mem": 10}
    assert least_limit({"cpus": 4}, {"cpus": 3, "mem": 1}, {}) == {"cpus": 3, "mem": 1}


def test_taking_more_than_there_is_names_the_dimension() -> None:
    assert taken({"cpus": 3}, {"cpus": 3}) == {"cpus": 0}
    with pytest.raises(Shortage) as shortage:
        taken({"cpus": 3}, {"cpus": 1, "mem": 2})
    assert (shortage.value.name, shortage.value.wanted, shortage.value.available) == ("mem", 2, 0)
    assert shortages({"cpus": 4, "mem": 2}, {"cpus": 3, "mem": 2}) == {"cpus": 1}


@given(VECTORS, VECTORS)
def test_a_difference_is_the_inverse_of_a_sum(one: dict[str, int], other: dict[str, int]) -> None:
    back = difference(added(one, other), other)
    assert pairs(back) == pairs(one)
    assert set(one) <= set(back)


@given(VECTORS, VECTORS)
def test_what_fits_signed_fits_and_what_fits_keeps_the_limit(wanted: dict[str, int], room: dict[str, int]) -> None:
    assert not fits_signed(wanted, room) or fits(wanted, room)
    assert not fits(wanted, room) or fits_limit(wanted, room)
    assert fits(wanted, room) == (not shortages(wanted, room))


@given(*(st.integers(0, 20) for _ in range(4)))
def test_ratios_compare_as_their_fractions(part: int, whole: int, other: int, other_whole: int) -> None:
    one, two = share(part, whole), share(other, other_whole)
    assert compare_ratios(part, whole, other, other_whole) == (one > two) - (one < two)


def test_dominant_shares_are_exact() -> None:
    assert greatest_share({"cpus": 1, "mem": 4}, {"cpus": 9, "mem": 18}) == Fraction(2, 9)
    assert greatest_share({"gpus": 3}, {"cpus": 9, "gpus": 0}) == 1
    assert greatest_share({}, {}) == 0
    assert descending_shares({"cpus": 3, "mem": 9}, {"cpus": 9, "mem": 18}) == [Fraction(1, 2), Fraction(1, 3)]
