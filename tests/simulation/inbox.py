"""The inboxes of simulated processes: the order in which events reach the core.

The real inbox hands over commands first, and reports in the order of bcs_scheduler.loop.lanes. Half of the seeds use
it. The others keep the order of arrival, in which commands and reports are mixed: the core must not depend on either
order.
"""

from __future__ import annotations

from typing import Protocol

from bcs_scheduler.core.interface import inputs, requests
from bcs_scheduler.loop.lanes import Lanes
from tests.simulation.world import World

LANES_BIT, FEW_BIT = 4, 8
"""Bits of the seed, so that no chance is drawn: lanes are used; a turn with lanes takes few reports. Other choices of
the simulation follow from the seed modulo 3 and modulo 4, and occur with every combination of these bits."""
FEW = 2
"""Reports of a turn that takes few: those of different taskgroups overtake each other, and go on doing so."""


class Inbox(Protocol):
    def put(self, event: inputs.Input) -> None: ...

    def take(self, *, hurried: bool) -> list[inputs.Input]:
        """The events of a turn. Everything if it is not hurried."""

    def __len__(self) -> int: ...


class InOrder:
    """Everything in the order of its arrival."""

    def __init__(self) -> None:
        self._events: list[inputs.Input] = []

    def put(self, event: inputs.Input) -> None:
        self._events.append(event)

    def take(self, *, hurried: bool) -> list[inputs.Input]:
        taken, self._events = self._events, []
        return taken

    def __len__(self) -> int:
        return len(self._events)


class InLanes:
    """Commands, then reports in the order of their lanes."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._few = bool(world.seed & FEW_BIT)
        self._commands: list[inputs.Input] = []
        self._reports = Lanes(lambda: world.now)

    def put(self, event: inputs.Input) -> None:
        if isinstance(event, requests.Request):
            self._commands.append(event)
        else:
            self._reports.put(event)

    def take(self, *, hurried: bool) -> list[inputs.Input]:
        taken, self._commands = self._commands, []
        if hurried and self._few:
            taken += self._reports.take(FEW)
        else:
            while len(self._reports):  # `take` ends at a barrier
                taken += self._reports.take(len(self._reports))
        self._world.count("turns with lanes")
        if len(self._reports):
            self._world.count("reports that wait in lanes")
        return taken

    def __len__(self) -> int:
        return len(self._commands) + len(self._reports)


def inbox_of(world: World) -> Inbox:
    """An empty inbox of the kind that belongs to the seed."""
    return InLanes(world) if world.seed & LANES_BIT else InOrder()
