"""Trials of placements on a copy of the offers, which stays as it is."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import NamedTuple

from bcs_scheduler.core.context import TurnContext
from bcs_scheduler.core.placement.placer import SLICE, Trial
from offers.ledger.offered import OfferPool
from offers.model import Demand, Occupant, Placement
from transactions.base import Slot


class Places(NamedTuple):
    """The places of a trial."""

    own: list[Placement[Slot]]
    moved: list[Placement[Slot]]
    """Places of taskgroups that drains move; `Slot.replaces` is the taskgroup."""


def try_on(
    turn: TurnContext,
    pool: OfferPool,
    demand: Demand[Slot],
    gone: Sequence[Occupant] = (),
    moved: Sequence[Demand[Slot]] = (),
    ahead: Sequence[Demand[Slot]] = (),
) -> Generator[None, None, Places | None]:
    """The places of all slots on the copy, which stays as it is; None if a slot finds no place. One slice per step.
    `gone`: taskgroups that have left. `moved`: demands that must find places first. `ahead`: demands that take room
    first if they find any."""
    places = Places([], [])
    with turn.placer.trial_on(pool) as trial:
        if gone:
            trial.set_aside(gone)
        for other in moved:
            if not (yield from _place_all(trial, other, places.moved)):
                return None
        for other in ahead:
            trial.place(other)
            yield
        if not (yield from _place_all(trial, demand, places.own)):
            return None
    return places


def _place_all(trial: Trial, demand: Demand[Slot], places: list[Placement[Slot]]) -> Generator[None, None, bool]:
    """Adds the places of all slots to `places`. False: a slot finds no place."""
    for start in range(0, len(demand.slots), SLICE):
        part = demand._replace(slots=demand.slots[start : start + SLICE], min_members=0)
        found = trial.place(part)
        places += found
        yield
        if len(found) < len(part.slots):
            return False
    return True
