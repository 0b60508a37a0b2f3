"""Decides from the stored records if a scheduler may lead, and which records it must not replace.

Pure: decided from the loaded state and the list of quarantined records.

The framework record holds the id under which Mesos knows all running tasks. A leader without it registers a new
framework, launches every taskgroup a second time and can never reach the first ones again. So no scheduler leads while
the record cannot be read, or is absent although taskgroups are recorded that may still run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple

from store.base import Quarantined
from store.records import Endpoint, Framework, TaskGroup
from store.state.reader import StateReader
from transactions.text import counted

Code = Literal["framework_unreadable", "framework_missing"]
REPAIR = (
    "stop all schedulers and restore the record, or store the id that Mesos lists for this framework "
    "(bcs-scheduler set-framework ID); only if the old framework is gone from Mesos: "
    "bcs-scheduler forget-framework --force"
)
"""Instructions for operators, the same for both obstacles."""
DERIVED = frozenset({Endpoint.kind})
"""Kinds whose records are made from other records alone: a leader may write an unreadable one anew."""


class Obstacle(NamedTuple):
    """The reason for which no scheduler may lead on these records. `code` is stable; `message` names the steps for
    operators."""

    code: Code
    message: str


def obstacle(state: StateReader, quarantined: Sequence[Quarantined]) -> Obstacle | None:
    """Returns the obstacle in these records; None if a scheduler may lead."""
    unreadable = next((bad for bad in quarantined if bad.kind == Framework.kind), None)
    if unreadable is not None:
        return Obstacle(
            "framework_unreadable", f"the framework record in the store cannot be read ({unreadable.error}): {REPAIR}"
        )
    if not is_absent(state.framework):
        return None
    alive = possibly_alive(state, quarantined)
    if not alive:
        return None
    return Obstacle(
        "framework_missing",
        f"the store holds no framework record, but {counted(alive, 'taskgroup')} that may run: {REPAIR}",
    )


def is_absent(framework: Framework) -> bool:
    """No record is stored: neither an id nor the trace that forget-framework leaves."""
    return not (framework.id or framework.forgotten or framework.created_at)


def possibly_alive(state: StateReader, quarantined: Sequence[Quarantined]) -> int:
    """Number of taskgroups that have not ended, as far as is known: unreadable ones count."""
    recorded = sum(not group.ended for group in list(state.taskgroups.values()))
    return recorded + sum(bad.kind == TaskGroup.kind for bad in quarantined)


def protected(quarantined: Sequence[Quarantined]) -> dict[tuple[str, str], str]:
    """Records, by kind and key, that a leader must not replace, and why they cannot be read: `State.unreadable`."""
    return {(bad.kind, bad.key): bad.error for bad in quarantined if bad.kind not in DERIVED}
