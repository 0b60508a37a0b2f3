"""A store in memory, for tests and simulation.

Several MemoryStore objects may share one MemoryBackend: they are then like processes on one durable store, with
election and takeover between them. There are no threads: futures are resolved and `elected` and `deposed` are called
before the causing call returns, in its thread and outside of any lock, so that a simulation replays exactly.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field

from store.base import (
    Change,
    Followed,
    Leader,
    Loaded,
    Position,
    StaleEpoch,
    StoreError,
    StoreUnavailable,
    Term,
)
from store.encoding.codec import Stored, decode_all, encode_changes, followed
from store.encoding.seal import UNSEALED, Sealer
from store.encoding.sizes import Sizer

LOG_SIZE = 10_000
"""Changes that are remembered for followers."""
_NO_NOTIFICATION: Callable[[], None] = lambda: None  # noqa: E731


@dataclass(eq=False)
class _Candidate:
    url: str
    elected: Callable[[Term], None]
    deposed: Callable[[str], None]
    epoch: int = 0
    """The epoch it leads with; 0 while it waits."""
    note: str = ""


@dataclass(eq=False)
class MemoryBackend:
    """The durable side that several MemoryStore objects share: encoded records by (kind, key), the epoch, and the queue
    of candidates."""

    records: dict[tuple[str, str], bytes] = field(default_factory=dict)
    epoch: int = 0
    reachable: bool = True
    """False makes stores behave as if the backend did not answer: they raise StoreUnavailable."""
    candidates: list[_Candidate] = field(default_factory=list)
    log: deque[tuple[str, str]] = field(default_factory=lambda: deque(maxlen=LOG_SIZE))
    """Kinds and keys of the latest changes, for followers."""
    changes: int = 0
    """Number of changes so far; all of them have passed through the log."""
    lock: threading.Lock = field(default_factory=threading.Lock)

    def depose(self, reason: str) -> None:
        """Ends the present leadership as if the leader's session had expired; the next candidate takes over."""
        with self.lock:
            leader = self.leader()
            if leader is None:
                return
            notify_next = self.remove(leader)
        leader.deposed(reason)
        notify_next()

    def leader(self) -> _Candidate | None:
        """The candidate that leads; None while no candidate leads. The caller holds the lock."""
        return self.candidates[0] if self.candidates and self.candidates[0].epoch else None

    def remove(self, candidate: _Candidate) -> Callable[[], None]:
        """Takes a candidate out of the queue. Returns a function that the caller calls after it has left the lock."""
        if candidate in self.candidates:
            self.candidates.remove(candidate)
        return self.elect()

    def elect(self) -> Callable[[], None]:
        """Makes the first candidate the leader if it does not lead yet. Returns the callback that notifies the new
        leader."""
        if not self.candidates or self.candidates[0].epoch:
            return _NO_NOTIFICATION
        winner = self.candidates[0]
        self.epoch += 1
        winner.epoch = self.epoch
        return lambda: winner.elected(Term(winner.epoch))


class MemoryStore:
    """One process's view of a MemoryBackend. Implements store.base.Store."""

    def __init__(
        self, backend: MemoryBackend | None = None, batch_bytes: int = 1_000_000, sealer: Sealer = UNSEALED
    ) -> None:
        self._sealer = sealer
        self.backend = backend or MemoryBackend()
        self.batch_bytes = batch_bytes
        self.sizer = Sizer(batch_bytes, sealer)
        self._opened = False
        self._candidate: _Candidate | None = None

    def open(self) -> None:
        """Like `Store.open`. Raises StoreUnavailable while a test has made the backend unreachable."""
        if not self.backend.reachable:
            raise StoreUnavailable("the memory backend has been made unreachable")
        self._opened = True

    def close(self) -> None:
        """Like `Store.close`. The records stay in the backend, which other stores share."""
        self.resign()
        self._opened = False

    def campaign(self, url: str, elected: Callable[[Term], None], deposed: Callable[[str], None]) -> None:
        """Like `Store.campaign`. Raises StoreError if this store is a candidate already, StoreUnavailable without a
        connection."""
        self._require_connection()
        candidate = _Candidate(url, elected, deposed)
        with self.backend.lock:
            if self._candidate in self.backend.candidates:
                raise StoreError("this store is a candidate already")
            self._candidate = candidate
            self.backend.candidates.append(candidate)
            notify_winner = self.backend.elect()
        notify_winner()

    def resign(self) -> None:
        """Like `Store.resign`. The callbacks of the next leader run in this thread."""
        with self.backend.lock:
            if self._candidate is None:
                return
            notify_next = self.backend.remove(self._candidate)
            self._candidate = None
        notify_next()

    def note(self, text: str) -> None:
        """Like `Store.note`; a note never expires here."""
        self._require_connection()
        if self._candidate is not None:
            self._candidate.note = text

    def notes(self) -> dict[str, str]:
        """Like `Store.notes`."""
        self._require_connection()
        with self.backend.lock:
            others = [candidate for candidate in self.backend.candidates if candidate is not self._candidate]
        return {candidate.url: candidate.note for candidate in others if candidate.note}

    def leader(self) -> Leader | None:
        """Like `Store.leader`; answers without a connection as well."""
        with self.backend.lock:
            leader = self.backend.leader()
            return None if leader is None else Leader(leader.url, leader.epoch)

    def load(self) -> Loaded:
        """Like `Store.load`."""
        self._require_connection()
        with self.backend.lock:
            stored = [Stored(kind, key, data) for (kind, key), data in self.backend.records.items()]
        return decode_all(stored, self._sealer)

    def commit(self, changes: Sequence[Change], epoch: int) -> Future[None]:
        """Like `Store.commit`; the future is done when the call returns."""
        future: Future[None] = Future()
        try:
            self._commit(changes, epoch)
        except Exception as error:
            future.set_exception(error)
        else:
            future.set_result(None)
        return future

    def _commit(self, changes: Sequence[Change], epoch: int) -> None:
        self._require_connection()
        encoded = encode_changes(changes, self.batch_bytes, self._sealer)
        with self.backend.lock:
            leader = self.backend.leader()
            if leader is None or leader is not self._candidate or leader.epoch != epoch:
                raise StaleEpoch(f"epoch {epoch} has ended, the newest one is {self.backend.epoch}")
            for kind, key, data in encoded:
                if data is None:
                    self.backend.records.pop((kind, key), None)
                else:
                    self.backend.records[kind, key] = data
                self.backend.log.append((kind, key))
                self.backend.changes += 1

    def follow(self) -> MemoryFollower:
        """Like `Store.follow`."""
        self._require_connection()
        return MemoryFollower(self)

    def changed_since(
        self, position: int, again: Collection[tuple[str, str]]
    ) -> tuple[int, list[Stored | tuple[str, str]]] | None:
        """Returns the present position, and each record that was changed after `position` or is listed in `again`; of a
        record that does not exist, only kind and key. None if the log does not reach back to `position`."""
        self._require_connection()
        backend = self.backend
        with backend.lock:
            missed = backend.changes - position
            if not 0 <= missed <= len(backend.log):
                return None
            names = dict.fromkeys([*list(backend.log)[len(backend.log) - missed :], *again])
            found = [Stored(*name, backend.records[name]) if name in backend.records else name for name in names]
            return backend.changes, found

    @property
    def sealer(self) -> Sealer:
        """Encrypts and decrypts the records of this store."""
        return self._sealer

    def healthy(self) -> bool:
        """True if the store is open and the backend reachable."""
        return self._opened and self.backend.reachable

    def erase(self) -> None:
        """Removes all records and the epoch. Followers then read everything again."""
        self._require_connection()
        with self.backend.lock:
            self.backend.changes += 1  # more than the log has: followers read everything again
            self.backend.records.clear()
            self.backend.log.clear()
            self.backend.epoch = 0

    def _require_connection(self) -> None:
        if not self.healthy():
            raise StoreUnavailable("the store is not open" if self.backend.reachable else "the backend does not answer")


class MemoryFollower:
    """Implements store.base.Follower."""

    def __init__(self, store: MemoryStore) -> None:
        self._store = store
        self._position: Position | None = None
        self._reported: set[tuple[str, str]] = set()

    @property
    def position(self) -> Position | None:
        """Like `Follower.position`."""
        return self._position

    def read(self, again: Collection[tuple[str, str]] = ()) -> Iterator[Followed]:
        """Like `Follower.read`. Everything is read again if the log of the backend does not reach back far enough."""
        epoch = self._store.backend.epoch
        changed = self._store.changed_since(self._position.number, again) if self._position is not None else None
        if changed is None:
            self._position = None
            number = self._store.backend.changes
            yield self._everything()
        else:
            number, found = changed
            if found:
                part = followed(found, self._store.sealer)
                self._note(part)
                yield part
        self._position = Position(epoch, number)

    def _everything(self) -> Followed:
        records, quarantined = self._store.load()
        changes = [Change(record.kind, record.key, record) for record in records]
        changes += [Change(bad.kind, bad.key, None) for bad in quarantined]
        gone = self._reported.difference([(change.kind, change.key) for change in changes])
        part = Followed(changes + [Change(kind, key, None) for kind, key in gone], quarantined)
        self._note(part)
        return part

    def _note(self, part: Followed) -> None:
        broken = {(bad.kind, bad.key) for bad in part.quarantined}
        for kind, key, record, *_ in part.changes:
            if record is not None or (kind, key) in broken:
                self._reported.add((kind, key))
            else:
                self._reported.discard((kind, key))

    def lead(self, epoch: int) -> None:  # noqa: ARG002 (of the protocol)
        """Closes the follower; the backend needs no keys for commits."""
        self.close()

    def close(self) -> None:
        """Like `Follower.close`."""
        self._reported.clear()
