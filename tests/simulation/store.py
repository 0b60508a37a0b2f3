"""A simulated store: commits become durable later, in order, sometimes slowly, sometimes not at all; fenced by epoch.

It promises what store.base.Store promises, no more: a commit is applied whole or not at all; commits of one process
are applied in the order of the calls; a stale epoch changes nothing. When a commit fails, every later one of that
process fails too, as the runtime sees to it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from store.base import Change, Term
from store.encoding.codec import Stored, encode, followed
from store.encoding.sizes import SMALLEST_LIMIT, Sizer
from store.records import Record
from tests.simulation.violation import Violation
from tests.simulation.world import World

Done = Callable[[str], None]
"""Called with "" once durable, else with why it failed: "stale" or "unavailable"."""
RETRY = 0.5
"""Seconds between two attempts while the store does not answer."""


@dataclass(eq=False, slots=True)
class Commit:
    changes: Sequence[Change]
    epoch: int
    done: Done


class Client:
    """The connection of one scheduler process."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._pending: deque[Commit] = deque()
        self._busy = False
        self._broken = False

    def commit(self, changes: Sequence[Change], epoch: int, done: Done) -> None:
        """I26: the term of a process would end with a commit that is larger than the store takes."""
        sizer = self._store.sizer
        size = sum(map(sizer.size, changes))
        if size > sizer.limit:
            largest = max(changes, key=sizer.size)
            raise Violation("I26", f"a commit has {size} bytes, most of them {largest.kind} {largest.key}", largest.key)
        self._store.world.counts["commits beyond a third of the limit"] += size > sizer.limit // 3
        self._pending.append(Commit(changes, epoch, done))
        if not self._busy:
            self._begin()

    def crash(self) -> None:
        """The process is gone: a random part of what was on its way still arrives, nobody hears of it."""
        world = self._store.world
        arrived = world.number(0, len(self._pending))
        for commit in list(self._pending)[:arrived]:
            if not self._store.apply(commit):
                break
            world.count("commit survived crash")
        world.counts["commits lost in crash"] += len(self._pending) - arrived
        self._pending.clear()
        self._broken = True

    def _begin(self) -> None:
        self._busy = True
        self._store.world.after(self._store.latency(), self._finish)

    def _finish(self) -> None:
        if self._broken:
            return
        if not self._store.reachable:
            if self._store.world.fault(0.1):
                self._break("unavailable")
            else:
                self._store.world.after(RETRY, self._finish)
            return
        commit = self._pending[0]
        if not self._store.apply(commit):
            self._break("stale")
            return
        self._pending.popleft()
        self._busy = False
        if self._pending:
            self._begin()
        commit.done("")

    def _break(self, reason: str) -> None:
        """Nothing that was committed after a failed commit may be applied."""
        self._broken = True
        self._store.world.count(f"commit failed: {reason}")
        failed, self._pending = self._pending, deque()
        for commit in failed:
            commit.done(reason)


class Store:
    """What is durable, and the epoch."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.sizer = Sizer(SMALLEST_LIMIT)
        self.durable: dict[tuple[str, str], Record] = {}
        self.log: list[tuple[str, str]] = []
        """Kind and key of every change, for standbys."""
        self.changed_at: dict[tuple[str, str], float] = {}
        """When each record was last changed, by the clock of the world."""
        self._written: dict[tuple[str, str], bytes | None] = {}
        """The encodings with which the durable records were written, as far as they are known."""
        self._followed: dict[tuple[str, str], Change] = {}
        """The durable records as followers have read them: each is decoded once, for all followers."""
        self.epoch = 0
        self._marked: float | None = None
        """When the framework record was last written, by the clock of the store."""
        self.reachable = True
        self.slow = False
        self.applying: Callable[[Sequence[Change]], None] = lambda changes: None
        """Called with every batch right before it becomes durable."""

    def elect(self) -> Term:
        """Raises the epoch for a new leader."""
        self.epoch += 1
        return Term(self.epoch, self.world.now - self._marked if self._marked is not None else None)

    def latency(self) -> float:
        return self.world.between(0.2, 4.0) if self.slow else self.world.between(0.001, 0.02)

    def apply(self, commit: Commit) -> bool:
        """False if the epoch is stale; then nothing has changed."""
        if commit.epoch != self.epoch:
            return False
        self.applying(commit.changes)
        for change in commit.changes:
            name = (change.kind, change.key)
            self.log.append(name)
            self.changed_at[name] = self.world.now
            self._written[name] = change.data
            self._followed.pop(name, None)
            if change.kind == "framework":
                self._marked = self.world.now
            if change.record is None:
                self.durable.pop(name, None)
            else:
                self.durable[name] = change.record
        return True

    def replace(self, records: Mapping[tuple[str, str], Record]) -> None:
        """An operator puts other records in the place of these while no process uses the store."""
        self.durable.clear()
        self.durable.update(records)
        self._written.clear()
        self._followed.clear()

    def forget_times(self) -> None:
        """The records were written again by hand: the store has no older time of a write than the present."""
        self._marked = self.world.now

    def follow(self, name: tuple[str, str]) -> Change:
        """What a follower finds at kind and key now: the record, encoded and decoded; None if there is none."""
        known = self._followed.get(name)
        if known is None:
            record = self.durable.get(name)
            item = name if record is None else Stored(*name, self._written.get(name) or encode(record))
            found = followed([item])
            assert not found.quarantined, found.quarantined
            (known,) = found.changes
            self._followed[name] = known
        return known
