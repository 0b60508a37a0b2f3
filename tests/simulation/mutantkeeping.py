"""Faults in what is kept of what has ended, put in on purpose (see tests.simulation.mutants)."""

from __future__ import annotations

import pytest

from bcs_scheduler.core.controllers.outcomes import Outcomes
from bcs_scheduler.core.shelves import Shelves


def keep_everything(patch: pytest.MonkeyPatch) -> None:
    """Nothing is too much."""
    patch.setattr(Shelves, "surplus", lambda self: None)


def push_out_the_newest(patch: pytest.MonkeyPatch) -> None:
    """Where too much is kept, what ended last goes first."""
    honest = Shelves.surplus

    def careless(self: Shelves[object]) -> str | None:
        return next(reversed(self._all)) if honest(self) is not None else None

    patch.setattr(Shelves, "surplus", careless)


def end_at_the_first_answer(patch: pytest.MonkeyPatch) -> None:
    """A command counts as ended although messages are open."""
    patch.setattr(Outcomes, "_look", lambda self, identity: self._answered.setdefault(identity))
