"""The desk: what closing a unit costs."""

from __future__ import annotations

from typing import Any

import pytest

from bcs_scheduler.core.event_log import EventRecorder
from store.state.unit_of_work import UnitOfWork
from tests.unit.lab import Lab


def test_closing_a_unit_that_holds_nothing_costs_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every piece of work of a turn begins and ends with a cut, and most of them have nothing to close."""
    lab = Lab()
    looked: list[tuple[str, bool]] = []

    def watched(kind: type, name: str) -> None:
        original = getattr(kind, name)

        def method(self: Any, *arguments: Any) -> Any:
            result = original(self, *arguments)
            looked.append((name, result is not None))
            return result

        monkeypatch.setattr(kind, name, method)

    for kind, name in ((EventRecorder, "write"), (UnitOfWork, "size"), (UnitOfWork, "cut")):
        watched(kind, name)
    lab.turn()
    assert looked == []
    lab.create()
    lab.offer()
    units = looked.count(("cut", True))
    assert units > 0
    assert looked.count(("write", False)) == units and ("cut", False) not in looked
