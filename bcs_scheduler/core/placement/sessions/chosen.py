"""The decisions of a session, as the placement pass carries them out."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from typing import NamedTuple

from bcs_scheduler.core.placement.placer import Assignment
from bcs_scheduler.core.placement.sessions.pending import demand_of
from bcs_scheduler.core.placement.sessions.role import SessionInput
from offers.model import Demand, GroupGap
from offers.policy.session.decisions import Decisions
from transactions.base import Slot
from transactions.rules.gangs import Shortage


class Chosen(NamedTuple):
    """The decisions of a session, with the demands that took part."""

    found: SessionInput
    decisions: Decisions
    demands: dict[str, Demand[Slot]]
    """The demands that took part, by id."""
    lacking: list[Shortage]
    """The groups of applications below their minimum that took part."""
    gaps: dict[str, GroupGap]
    """The groups that did not take part, because they stay below their minimum."""
    capped: bool
    """True if taskgroups above the minimum of a group did not take part."""


Session = Callable[[str, list[Demand[Slot]], dict[str, int]], tuple[SessionInput, Decisions]]
"""Decides about demands of a role, of which the slots up to a number take part."""


def assignments(chosen: Chosen) -> list[Assignment]:
    """The decisions of a session as the placer takes them: rows for the next slots of each demand."""
    rows = defaultdict(list)
    for bind in chosen.decisions.binds:
        row = chosen.found.rows.get(bind.agent)
        if row is not None:  # no plug-in may choose another agent, but one of a third party might
            rows[demand_of(bind.task)].append(row)
    return [Assignment(chosen.demands[identity], of_demand) for identity, of_demand in rows.items()]
