"""The table of the causes of holds names what exists, and all seconds of its module."""

from __future__ import annotations

import importlib
from functools import reduce

import pytest

from offers.ledger import holds
from offers.ledger.holds import Cause, Origin


@pytest.mark.parametrize("cause", Cause)
def test_a_cause_names_its_maker_and_its_seconds(cause: Cause) -> None:
    module, _, name = cause.value.maker.partition(":")
    folder = module if module.startswith("offers/") else f"bcs_scheduler/core/{module}"
    found = importlib.import_module(folder.replace("/", "."))
    assert callable(reduce(getattr, name.split("."), found))
    assert all(getattr(holds, seconds) > 0 for seconds in cause.value.seconds)
    assert bool(cause.value.records) == (cause.value.origin is not Origin.NOTHING)


def test_every_number_of_seconds_belongs_to_a_cause() -> None:
    named = {name for cause in Cause for name in cause.value.seconds}
    numbers = {name for name, value in vars(holds).items() if name.isupper() and isinstance(value, int | float)}
    assert numbers == named | {"LISTS"}
