"""Faults put into groups of applications on purpose (tests.simulation.mutants); they are looked for in worlds with
groups."""

from __future__ import annotations

from typing import Any

import pytest

from bcs_scheduler.core.placement.engines import simple
from store.records import PodGroup
from transactions.rules import gangs

SHORTAGE = gangs.shortage


def start_groups_in_parts(patch: pytest.MonkeyPatch) -> None:
    """Any number of places is enough."""
    patch.setattr(gangs.Shortage, "gap", lambda self, found, wanted: None)


def forget_minimums_of_members(patch: pytest.MonkeyPatch) -> None:
    """Only the sum over all members counts."""

    def hasty(state: Any, group: PodGroup, planned: Any) -> Any:
        lacks = SHORTAGE(state, group, planned)
        return lacks._replace(members={}) if lacks is not None else None

    patch.setattr(gangs, "shortage", hasty)


def match_members_alone(patch: pytest.MonkeyPatch) -> None:
    """Demands of a group are matched one by one."""
    patch.setattr(simple.Matching, "_match_group", lambda self, group: False)
