"""Faults of the time, put into the scheduler on purpose (tests.simulation.mutants)."""

from __future__ import annotations

from typing import Any

import pytest

from bcs_scheduler import clock
from bcs_scheduler.core import scheduler
from bcs_scheduler.core.beginning import Beginning


def follow_the_host(patch: pytest.MonkeyPatch) -> None:
    """The time of a term is that of its host, as it is set."""
    patch.setattr(clock.Clock, "now", lambda self: self._wall())


def begin_with_the_host(patch: pytest.MonkeyPatch) -> None:
    """A new term takes the time from its host, whatever the records say."""
    patch.setattr(scheduler, "beginning", lambda state, wall, elapsed: Beginning(wall))


def count_the_gap(patch: pytest.MonkeyPatch) -> None:
    """A new term does not ask the store how much time has passed."""
    honest = scheduler.beginning

    def careless(state: Any, wall: float, elapsed: float | None) -> Beginning:
        return honest(state, wall, None)

    patch.setattr(scheduler, "beginning", careless)
