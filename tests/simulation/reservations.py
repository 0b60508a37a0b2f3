"""Worlds whose users ask for reservations, and the invariants of placeholders.

I48  the numbers of each task group add up: placeholders that were asked for are replaced, given up, or may still serve
I49  every application of a placeholder belongs to a record, or is being deleted within a moment; no record stays
     without its reservation
I50  freed room is promised once: no two tasks take over the same placeholder
I51  of an application with a reservation nothing is placed before its placeholders hold their room, unless the
     reservation has ended

These worlds have seeds of their own (`simulate(..., reservations=True)`); odd seeds have the policy `session`.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any, Literal

from bcs_scheduler.core.options import CoreOptions
from store.ids import namespace_of, object_key
from store.records import (
    ANNOTATION_OF_PLACEHOLDER,
    ANNOTATION_OF_TASK,
    Application,
    ManagedApplication,
    Placeholder,
    Transaction,
)
from store.state import State
from store.state.unit_of_work import Unit
from tests.simulation.driver import Term
from tests.simulation.violation import Violation
from tests.simulation.world import World
from transactions.kinds.registry import kind_of
from transactions.rules.gangs import PARAMETERS

MOMENT = 30.0
"""Seconds within which a placeholder that is left over is being deleted, while a scheduler leads."""
SERVES = ("Asked", "Allocated", "Bound")


def with_reservations(options: CoreOptions, form: Literal["sleep", "reserve", "hold"] = "sleep") -> CoreOptions:
    """Options of such a world, with this form of placeholders."""
    return replace(options, placeholders=form)


def asked(world: World) -> dict[str, Any]:
    """The fields that users of such a world add to a definition."""
    seconds, style = world.pick((5, 20, 60)), world.pick(("Soft", "Hard"))
    text = f"placeholderTimeoutInSeconds={seconds} gangSchedulingStyle={style}"
    return {
        "annotations": {PARAMETERS: text} if world.chance(0.8) else {},
        "min_available": world.pick((0, 2, 2, 3)),
    }


class Reservations:
    """Follows placeholders from turn to turn."""

    def __init__(self, world: World, options: CoreOptions) -> None:
        self.world = world
        self._asked = options.placeholders != "off"
        self.failed: set[str] = set()
        """Applications whose launch has failed with its reservation. They have the taskgroups that exist."""
        self._left_since: dict[str, float] = {}
        """Unix seconds since which an application of a placeholder has no record."""

    def _is_reserved(self, term: Term, launch: Transaction) -> bool:
        """The application of the launch has a reservation, which begins and ends with the launch."""
        return launch.type == "LAUNCH" and (ManagedApplication.kind, launch.application_key) in term.mirror

    def decided(self, term: Term, unit: Unit) -> None:
        """Judges one unit: nothing is placed before its reservation."""
        if not self._asked:
            return
        for change in unit.changes:
            group = change.record
            if isinstance(group, Transaction) and group.status == "FAIL" and self._is_reserved(term, group):
                self.failed.add(group.application_key)
            if change.kind != "taskgroup" or group is None or ("taskgroup", change.key) in term.mirror:
                continue
            key = group.application_key  # type: ignore[attr-defined]
            application = term.mirror.get(("application", key))
            annotations = application.annotations if isinstance(application, Application) else {}
            if ANNOTATION_OF_TASK in annotations:
                key = object_key(namespace_of(key), annotations[ANNOTATION_OF_TASK])
            record = term.mirror.get(("managedapplication", key))
            if isinstance(record, ManagedApplication) and record.state in ("Reserving", "Accepted", "Submitted"):
                raise Violation("I51", f"{change.key} is placed before its reservation is complete", change.key, key)

    def turned(self, term: Term) -> None:
        """After a turn of a process."""
        if not self._asked:
            return
        state = term.core.state
        holders: dict[str, list[Placeholder]] = {}
        for holder in state.placeholders.values():
            holders.setdefault(holder.application_key, []).append(holder)
            if holder.application_key not in state.managed_applications:
                raise Violation("I49", f"placeholder {holder.key} belongs to no reservation", holder.key)
        for record in state.managed_applications.values():
            self.world.count("reservations")
            self._numbers_add_up(record, holders.get(record.key, []))
            self._room_is_promised_once(state, record)
        self._nothing_is_left(term)

    def _numbers_add_up(self, record: ManagedApplication, holders: list[Placeholder]) -> None:
        serving = Counter(
            holder.group
            for holder in holders
            if holder.state in SERVES or (holder.state == "Releasing" and holder.release == "PLACEHOLDER_REPLACED")
        )
        for group in record.task_groups:
            if group.total != group.replaced + group.timed_out + serving[group.name]:
                words = f"group {group.name} of {record.key}: {group}, {serving[group.name]} serve"
                raise Violation("I48", words, record.key, *(holder.key for holder in holders))

    def _room_is_promised_once(self, state: State, record: ManagedApplication) -> None:
        names = state.indexes.managed_by("managedtask", record.key)
        taken = Counter(task.placeholder for key in names if (task := state.managed_tasks[key]).placeholder)
        twice = [name for name, number in taken.items() if number > 1]
        if twice:
            raise Violation("I50", f"placeholder {twice[0]} of {record.key} is promised twice", record.key)
        if taken:
            self.world.count("swaps")

    def _nothing_is_left(self, term: Term) -> None:
        state, now = term.core.state, self.world.now
        left = [
            key
            for key, application in state.applications.items()
            if ANNOTATION_OF_PLACEHOLDER in application.annotations
            and key not in state.placeholders
            and not any(kind_of(state, transaction).deletes for transaction in state.active_of(key).values())
        ]
        self._left_since = {key: self._left_since.get(key, now) for key in left}
        for key, since in self._left_since.items():
            if now > since + MOMENT:
                raise Violation("I49", f"placeholder {key} is left over for {now - since:.0f} s", key)
