"""Faults put into the reservations of groups on purpose (tests.simulation.mutants); they are looked for in worlds whose
groups ask for reservations."""

from __future__ import annotations

from typing import Any

import pytest

from bcs_scheduler.core.controllers.managed import gangs
from offers.policy.applications.gang import Gang

GANG_OF = gangs.gang_of


def start_alone(patch: pytest.MonkeyPatch) -> None:
    """A member starts when its own placeholders hold their room."""
    patch.setattr(gangs, "gang_of", lambda record: GANG_OF(record)._replace(group=""))


def start_too_early(patch: pytest.MonkeyPatch) -> None:
    """A placeholder counts as soon as it has a place."""

    def hasty(gang: Any) -> bool:
        waits = any(True for _ in gang._holders.of("Asked"))
        return bool(gang.record.manager.state == "Reserving" and not waits)

    patch.setattr(Gang, "reserved", property(hasty))
