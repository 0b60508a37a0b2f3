"""Recovery before scheduling: its steps in their order, and the events that are kept meanwhile.

Nothing may be launched before recovery is complete, because usage that is not known yet looks like room. The order is
part of the contract; it differs from Apache YuniKorn's in one point: events are replayed after the nodes, so that no
event concerns an allocation that the engine does not know yet.
"""

from __future__ import annotations

from collections.abc import Collection
from enum import IntEnum
from typing import Generic, TypeVar

Event = TypeVar("Event")


class Step(IntEnum):
    """The steps of a start, in their order."""

    CONFIGURATION = 1
    STORE = 2
    DISPATCHER = 3
    PLACEHOLDER_MANAGER = 4
    CLUSTER_MANAGER = 5
    ENGINE = 6
    MANAGERS = 7
    APPLICATIONS = 8
    NODES = 9
    REPLAY = 10
    SCHEDULING = 11


class OutOfOrder(Exception):
    """A step was to begin before the steps before it. A mistake of the caller."""


class Recovery(Generic[Event]):
    """The progress of one start."""

    def __init__(self, step: Step | None = None) -> None:
        """`step`: the step that the caller has done already; None: none."""
        self.step = step
        """The latest step that began; None before the first one."""
        self._kept: list[tuple[str, Event]] = []

    @property
    def complete(self) -> bool:
        """True if work may be launched."""
        return self.step is Step.SCHEDULING

    def begin(self, step: Step) -> None:
        """Begins the next step. Raises OutOfOrder for another one, or if kept events have not been replayed."""
        expected = Step(1 if self.step is None else self.step + 1) if not self.complete else None
        if step is not expected:
            raise OutOfOrder(f"{step.name} follows {self.step.name if self.step else 'nothing'}")
        if step is Step.SCHEDULING and self._kept:
            raise OutOfOrder(f"{len(self._kept)} events have not been replayed")
        self.step = step

    def hear(self, unit: str, event: Event) -> bool:
        """Keeps an event about a unit of work until the replay. Returns False when recovery is complete: the caller
        handles the event itself."""
        if self.complete:
            return False
        self._kept.append((unit, event))
        return True

    def replay(self, terminated: Collection[str]) -> list[Event]:
        """The kept events in their order, each once, without those of units that are known to be terminated. Raises
        OutOfOrder in another step than REPLAY."""
        if self.step is not Step.REPLAY:
            raise OutOfOrder("events are replayed after the nodes")
        kept, self._kept = self._kept, []
        return [event for unit, event in kept if unit not in terminated]
