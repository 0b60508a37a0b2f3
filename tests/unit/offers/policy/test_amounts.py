"""Amounts of the policies: names that are missing, exact shares."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from offers.dimensions import amounts as pairs
from offers.policy.amounts import added, descending_shares, difference, fits_limit, thousandths

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


@given(VECTORS, VECTORS)
def test_a_difference_is_the_inverse_of_a_sum(one: dict[str, int], other: dict[str, int]) -> None:
    back = difference(added(one, other), other)
    assert pairs(back) == pairs(one)
    assert set(one) <= set(back)


@pytest.mark.parametrize(
    ("wanted", "limit", "expected"),
    [
        ({"cpus": 5}, {"cpus": 5}, True),
        ({"cpus": 6}, {"cpus": 5}, False),
        ({"gpus": 1}, {"cpus": 5}, True),
        ({"gpus": 1}, {"gpus": 0}, False),
        ({"cpus": 0}, {"cpus": -1}, True),
        ({}, {"cpus": -1}, True),
    ],
)
def test_a_limit_without_the_name_does_not_limit_it(
    wanted: dict[str, int], limit: dict[str, int], expected: bool
) -> None:
    assert fits_limit(wanted, limit) is expected


def test_shares_are_compared_from_the_largest_down() -> None:
    assert descending_shares({"cpus": 3, "mem": 9}, {"cpus": 9, "mem": 18}) == [Fraction(1, 2), Fraction(1, 3)]
