"""Faults put into reservations on purpose (tests.simulation.mutants); they are looked for in worlds with
reservations."""

from __future__ import annotations

from typing import Any

import pytest

from bcs_scheduler.core.controllers.managed import applications, carrying, gangs, gate
from offers.policy.applications.gangs import state, swap

SAVE = gangs.Gangs.save
COUNT = state.GangState.count


def leave_placeholders(patch: pytest.MonkeyPatch) -> None:
    """The applications of placeholders that are not wanted any more stay."""
    patch.setattr(carrying.Carrying, "discard", lambda self, application: None)
    patch.setattr(carrying.Carrying, "recover", lambda self: None)


def open_the_gate(patch: pytest.MonkeyPatch) -> None:
    """Slots ask for places whether their gang has its room or not."""
    patch.setattr(gate.SlotGate, "admitted", lambda self, transaction, step: step)


def give_up_without_counting(patch: pytest.MonkeyPatch) -> None:
    """Placeholders that time out are not counted."""

    def careless(self: Any, group: str, *, total: int = 0, replaced: int = 0, timed_out: int = 0) -> None:
        COUNT(self, group, total=total, replaced=replaced)

    patch.setattr(state.GangState, "count", careless)


def link_twice(patch: pytest.MonkeyPatch) -> None:
    """A placeholder stays bound when a task takes over its room."""

    def generous(gang: Any, member: Any, holder: Any, node: str, now: float) -> None:
        gang.put(member._replace(placeholder=holder.key, node=node))

    patch.setattr(swap, "_link", generous)


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
