"""Faults put into reservations on purpose (tests.simulation.mutants); they are looked for in worlds with
reservations."""

from __future__ import annotations

from typing import Any

import pytest

from bcs_scheduler.core.controllers.cluster import reconciler
from bcs_scheduler.core.controllers.holds import placeholders
from bcs_scheduler.core.controllers.managed import applications, gangs, gate, units
from bcs_scheduler.core.interface import cluster_manager
from offers.ledger import offered
from offers.policy.applications.gang import Gang

SAVE = gangs.Gangs.save
COUNT = Gang._count
REPORT = placeholders.report


def leave_placeholders(patch: pytest.MonkeyPatch) -> None:
    """The applications of placeholders that are not wanted any more stay."""
    patch.setattr(units.Carrying, "discard", lambda self, application: None)
    patch.setattr(units.Carrying, "recover", lambda self: None)


def open_the_gate(patch: pytest.MonkeyPatch) -> None:
    """Slots ask for places whether their gang has its room or not."""
    patch.setattr(gate.SlotGate, "admitted", lambda self, transaction, step: step)


def give_up_without_counting(patch: pytest.MonkeyPatch) -> None:
    """Placeholders that time out are not counted."""

    def careless(self: Any, group: str, *, total: int = 0, replaced: int = 0, timed_out: int = 0) -> None:
        COUNT(self, group, total=total, replaced=replaced)

    patch.setattr(Gang, "_count", careless)


def link_twice(patch: pytest.MonkeyPatch) -> None:
    """A placeholder stays bound when a task takes over its room."""

    def generous(gang: Any, member: Any, holder: Any, now: float) -> None:
        gang._put(member._replace(placeholder=holder.key, node=holder.node))

    patch.setattr(Gang, "_link", generous)


def keep_records(patch: pytest.MonkeyPatch) -> None:
    """The record of the reservation goes, those of its placeholders stay."""

    def hasty(self: Any, key: str, record: Any) -> None:
        if record is not None:
            self._turn.uow.delete(record)
        self._gangs.forget(key)
        self._work.forget(key)

    patch.setattr(applications.ManagedApplications, "_end", hasty)


def save_placeholders_only(patch: pytest.MonkeyPatch) -> None:
    """The numbers of the task groups are not written."""

    def partly(self: Any, record: Any, gang: Any) -> Any:
        taken = gang.take_changes
        gang.take_changes = lambda: {k: v for k, v in taken().items() if k[0] != "application" or not record.state}
        try:
            return SAVE(self, record, gang)
        finally:
            del gang.take_changes

    patch.setattr(gangs.Gangs, "save", partly)


# --- rooms that the cluster manager keeps ---------------------------------------------------------------------------


def use_every_room(patch: pytest.MonkeyPatch) -> None:
    """Rooms that are kept for others look free."""
    patch.setattr(offered.Offers, "_without", staticmethod(lambda resources, kept: resources))


def open_what_runs(patch: pytest.MonkeyPatch) -> None:
    """A room is opened as soon as its placeholder runs."""

    def hasty(turn: Any, group: Any, state: Any, message: str) -> None:
        REPORT(turn, group, state, message)
        turn.pool.hand.open_hold(group.id, turn.now, loose=True)

    patch.setattr(placeholders, "report", hasty)


def leave_rooms(patch: pytest.MonkeyPatch) -> None:
    """Opened rooms that nobody uses stay."""
    patch.setattr(placeholders.KeptPlaceholders, "_due", lambda self: [])


def ask_for_placeholders(patch: pytest.MonkeyPatch) -> None:
    """The cluster manager is asked for taskgroups that it does not know."""
    patch.setattr(reconciler.Reconciler, "_is_kept", lambda self, task_id: False)


# --- room that the scheduler holds ----------------------------------------------------------------------------------


def use_held_room(patch: pytest.MonkeyPatch) -> None:
    """Held room looks free."""
    patch.setattr(offered, "set_apart", lambda resources, request: (resources, True))


def hold_for_the_ended(patch: pytest.MonkeyPatch) -> None:
    """The holds of placeholders that have ended stay."""
    patch.setattr(placeholders.HeldPlaceholders, "_drop", lambda self, name: None)


def keep_held_offers(patch: pytest.MonkeyPatch) -> None:
    """Offers with held room never go back."""
    patch.setattr(placeholders.HeldPlaceholders, "_give_back", lambda self: None)


def launch_held_placeholders(patch: pytest.MonkeyPatch) -> None:
    """The launches of placeholders leave although nothing is to be launched."""
    patch.setattr(cluster_manager.Launch, "held", False)
