"""A simulated warm standby: it follows the simulated store with delays and leads with the state it has followed.

The replica is the real one (store.state.replica). What a follower may tell is drawn anew each time: the addresses of
what has changed are read first, the records a while later, so they may be newer than the addresses; now and then the
log has been overwritten and everything is read again.

I29  a standby that has caught up after an election has exactly what is stored, records and indexes
I30  what a standby shows is complete up to its age, and its age is bounded while the store answers quickly
"""

from __future__ import annotations

import random

from store.base import Change, Followed
from store.state import State
from store.state.replica import Replica
from store.state.validation import wrong_index
from tests.simulation.store import Store
from tests.simulation.violation import Violation
from tests.simulation.world import World

PAUSE = (0.05, 0.4)
"""Seconds between two reads."""
LATENCY, SLOW = (0.001, 0.1), (0.2, 4.0)
"""Seconds from the addresses to the records, by a quick and a slow store."""
RETRY = 0.5
OVERWRITTEN = 0.02
"""How often the log does not reach back to the position."""
LAG = PAUSE[1] + 2 * LATENCY[1] + 0.01
"""Age that a standby may have while the store answers quickly."""


class Standby:
    """Follows from the moment it is made until `stop` or `take`. Draws from a source of chance of its own, so that it
    does not change what else happens in a world."""

    def __init__(self, world: World, store: Store, name: str) -> None:
        self.replica = Replica()
        self.read_at: float | None = None
        """When the last complete read began."""
        self._world, self._store = world, store
        self._chance = random.Random(f"{world.seed} {name} {world.now}")
        self._position: int | None = None
        self._reported: dict[tuple[str, str], None] = {}
        self._ended = False
        self._excused = world.now
        """Until when the store has held this standby up."""
        self._begin()

    def stop(self) -> None:
        self._ended = True

    def take(self) -> State:
        """Catches up after an election; the state is the caller's."""
        end, names = self._missed()
        self._finish(self._world.now, end, names)
        self._ended = True
        self._assert_equal()
        return self.replica.state

    # --- reading ----------------------------------------------------------------------------------------------

    def _begin(self) -> None:
        if self._ended:
            return
        world, store = self._world, self._store
        if not store.reachable:
            self._excused = world.now + RETRY
            world.after(RETRY, self._begin)
            return
        end, names = self._missed()
        delay = self._chance.uniform(*(SLOW if store.slow else LATENCY))
        if store.slow:
            self._excused = world.now + delay
        world.after(delay, self._arrive, world.now, end, names)

    def _arrive(self, began: float, end: int, names: dict[tuple[str, str], None]) -> None:
        if self._ended:
            return
        if self._store.reachable:
            self._finish(began, end, names)
            self._world.after(self._chance.uniform(*PAUSE), self._begin)
        else:
            self._excused = self._world.now + RETRY
            self._world.after(RETRY, self._begin)

    def _missed(self) -> tuple[int, dict[tuple[str, str], None]]:
        log = self._store.log
        if self._position is None or self._chance.random() < OVERWRITTEN:
            self._world.counts["standby reads everything"] += 1
            return len(log), dict.fromkeys([*self._reported, *self._store.durable])
        return len(log), dict.fromkeys(log[self._position :])

    def _finish(self, began: float, end: int, names: dict[tuple[str, str], None]) -> None:
        changes: list[Change] = []
        for name in names:
            change = self._store.follow(name)
            if change.record is None:
                self._reported.pop(name, None)
            else:
                self._reported[name] = None
            changes.append(change)
        self.replica.apply(Followed(changes, []))
        self._position, self.read_at = end, began
        self._world.counts["standby reads"] += 1

    # --- invariants -------------------------------------------------------------------------------------------

    def check(self) -> None:
        """I30."""
        store, now = self._store, self._world.now
        if self.read_at is None:
            return
        if now - max(self.read_at, self._excused) > LAG:
            raise Violation("I30", f"a standby has not read for {now - self.read_at:.2f} s")
        for name, changed in store.changed_at.items():
            shown = self.replica.state.get(*name)
            if changed < self.read_at and shown != store.durable.get(name):
                raise Violation("I30", f"a standby shows an old {name[0]}", name[1])

    def _assert_equal(self) -> None:
        """I29."""
        state, durable = self.replica.state, self._store.durable
        records = state.records()
        if {(record.kind, record.key): record for record in records} != durable:
            wrong = [name for name in {**durable, **self._reported} if state.get(*name) != durable.get(name)]
            raise Violation("I29", f"a standby that has caught up differs: {wrong[:5]}", *[key for _, key in wrong[:3]])
        words = wrong_index(state, State(records))
        if words:
            raise Violation("I29", f"of a standby {words}")
