"""Dimensions with integer units, and arithmetic over amounts."""

from __future__ import annotations

import re
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from offers import dimensions
from offers.dimensions import THOUSANDTHS, Dimension, Dimensions, amounts, recorded
from offers.model import ResourceRequest
from offers.resources import requested
from store.records.definition import Amounts as Recorded

TOP = Path(__file__).parents[3]
BYTES = Dimensions((Dimension("cpu", 1000, "cores"), Dimension("memory", 2**20, "MB"), Dimension("pods")))

fractions = st.fractions(min_value=0, max_value=100, max_denominator=5000)


def test_the_amounts_of_records_are_a_special_case() -> None:
    """Equal names, and the same integers: nothing is converted."""
    record = Recorded(cpus=1500, mem=64_000, gpus=2000)
    assert THOUSANDTHS.displayed(record) == {"cpus": 1.5, "mem": 64.0, "disk": 0.0, "gpus": 2.0}
    assert tuple(Recorded.__struct_fields__) == THOUSANDTHS.names
    assert all(dimension.unit == 1000 for dimension in THOUSANDTHS)


def test_a_need_in_scalars_and_one_in_named_amounts_are_the_same() -> None:
    scalars = ResourceRequest(cpus=100, mem=200, disk=300, gpus=400, random_ports=2, fixed_ports=(7, 7, 8))
    named = ResourceRequest(
        amounts=amounts({"cpus": 100, "mem": 200, "disk": 300, "gpus": 400}), random_ports=2, fixed_ports=(7, 8)
    )
    assert requested(scalars) == requested(named) == {"cpus": 100, "mem": 200, "disk": 300, "gpus": 400, "ports": 4}
    assert requested(ResourceRequest(cpus=1, amounts=(("cpus", 2), ("pods", 1))))["cpus"] == 3


@given(st.sampled_from(BYTES.names), fractions)
def test_requests_are_rounded_up_and_capacity_down(name: str, quantity: Fraction) -> None:
    unit = BYTES.get(name).unit
    most, least = BYTES.at_most(name, quantity), BYTES.at_least(name, quantity)
    assert most <= quantity * unit <= least
    assert least - most in (0, 1)
    assert (least == most) == (quantity * unit == int(quantity * unit))


def test_bytes_do_not_lose_what_thousandths_of_a_megabyte_lose() -> None:
    """Eight times 1 GB fill an agent of 8 GB: as thousandths of 2^20 bytes they would not fit."""
    one, eight = Fraction(10**9, 2**20), Fraction(8 * 10**9, 2**20)
    assert 8 * BYTES.at_least("memory", one) == BYTES.at_most("memory", eight) == 8 * 10**9
    coarse = Dimensions((Dimension("memory", 1000, "MB"),))
    assert 8 * coarse.at_least("memory", one) > coarse.at_most("memory", eight)


@pytest.mark.parametrize(
    ("name", "amount", "words"),
    [
        ("cpu", 1600, "1.6 cores"),
        ("cpu", -1, "-0.001 cores"),
        ("memory", 512 * 2**20, "512 MB"),
        ("memory", 10, "0 MB"),
        ("memory", -10, "0 MB"),
        ("pods", 3, "3"),
        ("vendor/card", 2, "2"),
    ],
)
def test_amounts_are_shown_in_the_unit_of_their_dimension(name: str, amount: int, words: str) -> None:
    assert BYTES.shown(name, amount) == words


def test_new_names_are_counts_after_the_known_ones() -> None:
    more = BYTES.extended(["vendor/card", "cpu", "vendor/card"])
    assert more.names == ("cpu", "memory", "pods", "vendor/card")
    assert more.get("vendor/card").unit == 1
    assert BYTES.extended(["cpu", "pods"]) is BYTES
    assert "vendor/card" in more
    assert "vendor/card" not in BYTES
    assert len({BYTES, more, Dimensions(BYTES.known)}) == 2


def test_a_name_given_twice_and_a_unit_of_nothing_are_refused() -> None:
    with pytest.raises(ValueError, match="duplicate dimension"):
        Dimensions((Dimension("cpu"), Dimension("cpu", 1000)))
    with pytest.raises(ValueError, match="at least 1"):
        Dimensions((Dimension("cpu", 0),))


# --- arithmetic -----------------------------------------------------------------------------------------------


@given(st.lists(st.tuples(st.sampled_from("ab"), st.integers(-3, 3))))
def test_amounts_have_one_form(pairs: list[tuple[str, int]]) -> None:
    found = amounts(pairs)
    assert list(found) == sorted(found)
    assert all(amount for _, amount in found)
    assert found == amounts(reversed(pairs)) == amounts(dict(found))
    for name in "ab":
        assert dict(found).get(name, 0) == sum(amount for other, amount in pairs if other == name)


def test_shares_are_exact() -> None:
    assert dimensions.share(1, 3) == Fraction(1, 3)
    assert (dimensions.share(0, 0), dimensions.share(5, 0)) == (0, 1)


@pytest.mark.parametrize(
    ("name", "amount", "number", "words"),
    [
        ("cpus", 1500, 1.5, "1.5 cores"),
        ("mem", 1_048_576_000, 1_048_576.0, "1048576 MB"),
        ("gpus", 2000, 2.0, "2 GPUs"),
        ("ports", 3, 3.0, "3"),
        ("vendor/card", 2500, 2.5, "2.5"),
    ],
)
def test_recorded_amounts_have_the_unit_of_their_name(name: str, amount: int, number: float, words: str) -> None:
    assert (recorded(name).displayed(amount), recorded(name).shown(amount)) == (number, words)


def test_the_amounts_of_a_record_are_displayed_together() -> None:
    displayed = THOUSANDTHS.displayed(Recorded(cpus=1500, mem=64_000))
    assert displayed == {"cpus": 1.5, "mem": 64.0, "disk": 0.0, "gpus": 0.0}


def test_no_other_module_divides_amounts_by_a_unit() -> None:
    rooms = ("transactions", "bcs_scheduler/core", "bcs_scheduler/api", "bcs_scheduler/observability")
    dividing = [
        f"{path.relative_to(TOP)}: {line.strip()}"
        for room in rooms
        for path in sorted((TOP / room).rglob("*.py"))
        for line in path.read_text(encoding="utf-8").splitlines()
        if re.search(r"(?<!/)/ ?(1000|1_000|1e3)\b", line)
    ]
    assert dividing == []
