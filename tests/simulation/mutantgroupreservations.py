"""Faults put into the reservations of groups on purpose (tests.simulation.mutants); they are looked for in worlds whose
groups ask for reservations."""

from __future__ import annotations

from typing import Any

import pytest

from bcs_scheduler.core.controllers.managed import conversion
from offers.policy.applications.gangs import gang as gangs
from offers.policy.applications.gangs import settling

GANG_OF = conversion.gang_of


def start_alone(patch: pytest.MonkeyPatch) -> None:
    """A member starts when its own placeholders hold their room."""
    patch.setattr(conversion, "gang_of", lambda record: GANG_OF(record)._replace(group=""))


def start_too_early(patch: pytest.MonkeyPatch) -> None:
    """A placeholder counts as soon as it has a place."""

    def hasty(state: Any) -> bool:
        waits = any(True for _ in state.placeholders.of("Asked"))
        return bool(state.header.manager.state == "Reserving" and not waits)

    for module in (gangs, settling):
        patch.setattr(module, "is_complete", hasty)
