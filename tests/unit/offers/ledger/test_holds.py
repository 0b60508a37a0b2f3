"""The table of the causes of holds names what exists, and all seconds of its module."""

from __future__ import annotations

import importlib
from functools import reduce
from pathlib import Path

import pytest

from offers.ledger import holds
from offers.ledger.holds import Cause, Holds, Origin
from offers.model import ResourceRequest


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


def test_the_documentation_shows_the_table() -> None:
    text = (Path(__file__).parents[4] / "docs/architecture.md").read_text()
    assert "\n".join(map(line_of, Cause)) in text


def line_of(cause: Cause) -> str:
    """The line that docs/architecture.md must have."""
    maker, user, end, seconds, origin, _ = cause.value
    numbers = " ".join(f"{getattr(holds, name):g}" for name in seconds) or "-"
    return f"{cause.name:<12} {maker.rpartition('/')[2]:<48} {user:<54} {end:<60} {numbers:<14} {origin.value}"


@pytest.mark.parametrize("ended", [False, True])
@pytest.mark.parametrize("freed_before", [False, True])
def test_room_that_is_lent_and_not_used_frees_nothing(freed_before: bool, ended: bool) -> None:
    """The unit that was promised the room finds no place there. Another try at once would end in the same way."""
    ledger, site, request = Holds(lambda unit, place: None), ("agent-1", "*"), ResourceRequest(cpus=100, mem=100)
    ledger.add("old", Cause.REPLACEMENT, site, request)
    if ended:
        ledger.leave("old", Cause.REPLACEMENT, 10.0)
    if freed_before:
        ledger.add("other", Cause.PLACEHOLDER, site, request)
        ledger.drop("other")

    ledger.put_back(ledger.lend(site, ["old"]))

    assert ledger.leaving == ({"old": 10.0} if ended else {}) and list(ledger.on(site)) == ["old"]
    assert ledger.take_freed() == ([site] if freed_before else [])
    ledger.lend(site, ["old"])
    assert ledger.take_freed() == [site]
