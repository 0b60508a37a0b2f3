"""Faults of the time, put into the scheduler on purpose (tests.simulation.mutants)."""

from __future__ import annotations

from typing import Any

import pytest

from bcs_scheduler.core import scheduler
from bcs_scheduler.core.term_start import TermStart, start_of_term
from bcs_scheduler.loop import clock


def follow_the_host(patch: pytest.MonkeyPatch) -> None:
    """The time of a term is that of its host, as it is set."""
    patch.setattr(clock.Clock, "now", lambda self: self._wall())


def begin_with_the_host(patch: pytest.MonkeyPatch) -> None:
    """A new term takes the time from its host, whatever the records say."""
    patch.setattr(scheduler, "start_of_term", lambda state, wall, elapsed: TermStart(wall))


def count_the_gap(patch: pytest.MonkeyPatch) -> None:
    """A new term does not ask the store how much time has passed."""
    honest = start_of_term

    def careless(state: Any, wall: float, elapsed: float | None) -> TermStart:
        return honest(state, wall, None)

    patch.setattr(scheduler, "start_of_term", careless)
