"""The Store protocol: load, commit, leadership; and the errors a store may raise.

Exception tree:

    StoreError
      StoreUnavailable     the store cannot be reached or did not answer; worth a retry
      StaleEpoch           another scheduler leads now; nothing was changed; step down
      RecordTooLarge       one change does not fit the store's limits; nothing was changed
        BatchTooLarge      the changes of one commit do not fit together; nothing was changed
      RecordUnencodable    a record holds a value that cannot be written; nothing was changed
      RecordUnreadable     a record that cannot be read now would be overwritten; nothing was changed
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import Future
from typing import TYPE_CHECKING, NamedTuple, Protocol

from store.records import Record

if TYPE_CHECKING:
    from store.encoding.sizes import Sizer

SESSION_TIMEOUT = 10.0
"""Seconds after which a store that several schedulers share gives up a silent leader, if nothing else is set."""


class StoreError(Exception):
    """Base of every error of a store."""


class StoreUnavailable(StoreError):
    """The store cannot be reached or did not answer; the same call may succeed later."""


class StaleEpoch(StoreError):
    """The epoch of the call is not the newest one: another leader has taken over. Nothing was changed."""


class RecordTooLarge(StoreError):
    """A change is larger than the store accepts. `kind` and `key` name its record."""

    def __init__(self, kind: str, key: str, size: int, limit: int) -> None:
        super().__init__(f"{kind} {key} has {size} bytes, the store takes at most {limit}")
        self.kind, self.key, self.size, self.limit = kind, key, size, limit


class BatchTooLarge(RecordTooLarge):
    """The changes of one commit exceed the limit together (`size`); `kind` and `key` name the largest."""

    def __init__(self, kind: str, key: str, size: int, limit: int, count: int) -> None:
        super().__init__(kind, key, size, limit)
        self.args = (
            f"{count} changes have {size} bytes together, the store takes at most {limit} in one commit; "
            f"the largest is {kind} {key}",
        )
        self.count = count


class RecordUnencodable(StoreError):
    """A record holds something that has no encoding, such as half of a surrogate pair. `kind` and `key` name it."""

    def __init__(self, kind: str, key: str, error: Exception) -> None:
        shown = key.encode(errors="replace").decode()
        super().__init__(f"{kind} {shown} cannot be stored: {error}")
        self.kind, self.key = kind, key


class RecordUnreadable(StoreError):
    """A stored record that cannot be read must not be replaced: the missing key may come back, a newer scheduler or an
    operator may read it."""


class Change(NamedTuple):
    """One changed record; `record` None deletes it."""

    kind: str
    key: str
    record: Record | None
    data: bytes | None = None
    """The record's encoding, not sealed, where it is known already (store.encoding.sizes). None: it is encoded when
    it is written."""
    bound: int = 0
    """Bytes that the encoding has at most, for records that are replaced too often to be encoded each time; 0: not
    known."""


class Quarantined(NamedTuple):
    """A stored record that could not be decoded: kind, key and the error. The record stays in the store untouched.
    `sealed`: True if the record is encrypted with a key that this process does not have; the key may be given later."""

    kind: str
    key: str
    error: str
    sealed: bool = False


class Loaded(NamedTuple):
    """Result of `Store.load`: the records that could be decoded, and the others with their errors."""

    records: list[Record]
    quarantined: list[Quarantined]


class Followed(NamedTuple):
    """One portion of a follower's read: records as they are stored now; a change with record None says that the record
    does not exist any more."""

    changes: list[Change]
    """Records that may have changed; `record` None: it does not exist, or cannot be decoded."""
    quarantined: list[Quarantined]
    """Records that exist and cannot be decoded. They are among the changes, too."""


class Position(NamedTuple):
    """The position of a follower: it has read all commits up to `number` of the term `epoch`, and of all terms
    before."""

    epoch: int
    number: int


class Leader(NamedTuple):
    """The present leader: `url` of its HTTP API (http://host:port), and its epoch."""

    url: str
    epoch: int


class Term(NamedTuple):
    """One term of leadership, given to the winner of an election. `elapsed`: seconds, by the clock of the store, from
    the latest write of the framework record to this election; None if the store has no clock of its own, or there is
    no such record."""

    epoch: int
    elapsed: float | None = None


class Follower(Protocol):
    """Reads the changes of a store, without leadership. Only one thread at a time may use it."""

    def read(self, again: Collection[tuple[str, str]] = ()) -> Iterator[Followed]:
        """Yields in portions the changes committed since the last complete read; the first read yields all records.
        After a complete read, each record is at least as new as at the begin of the read. While another process writes,
        the records are not of one moment; a read that began when only this process could write gives exactly the stored
        records. A record that has changed several times is yielded once. If the store does not remember all changes,
        all records are yielded again, and records that were yielded before and do not exist any more as None. `again`:
        kind and key of records that are yielded in any case, because they may have been repaired outside the store.
        Raises StoreUnavailable; the next read then starts where this one did."""

    @property
    def position(self) -> Position | None:
        """Position of the last complete read; None before the first one, and while all records must be read."""

    def lead(self, epoch: int) -> None:
        """Gives the store the knowledge of the follower, which saves the store a listing before the first commit, and
        closes the follower. The caller has been elected with `epoch` and has completed a read since then."""

    def close(self) -> None:
        """Frees the connection and the memory of the follower. The follower must not be used afterwards."""


class Store(Protocol):
    """Durable records, fenced by the epoch of the leader.

    All methods may be called from any thread. `commit` never blocks on the store: it returns a future; commits are
    applied in the order of the calls, each all or nothing.
    """

    batch_bytes: int
    """Encoded size up to which the changes of one commit are packed into one atomic write."""
    sizer: Sizer
    """Computes the exact size of changes in a batch of `batch_bytes` before a commit."""

    def open(self) -> None:
        """Connects; raises StoreUnavailable if that is impossible now (may be called again)."""

    def close(self) -> None:
        """Ends the candidacy and the connection; pending commits fail with StoreUnavailable."""

    def campaign(self, url: str, elected: Callable[[Term], None], deposed: Callable[[str], None]) -> None:
        """Stands for election, once per open store. `elected` is called (from a thread of the store) when this process
        has become leader and the epoch has been raised; `deposed` with a reason when that leadership has ended or can
        no longer be trusted (session lost). After `deposed` call campaign() again to stand again. `url` is shown to
        others."""

    def resign(self) -> None:
        """Gives up the candidacy or leadership; another candidate takes over at once. `deposed` is not called."""

    def note(self, text: str) -> None:
        """Shows a short text beside the candidacy of this store until it is replaced (empty = none) or the candidacy
        ends. It may vanish earlier: write it again every few seconds. Raises StoreUnavailable; does nothing without a
        candidacy."""

    def notes(self) -> dict[str, str]:
        """Notes of all other candidates, the leader among them, by url. Raises StoreUnavailable."""

    def leader(self) -> Leader | None:
        """The present leader as far as known; None while there is none."""

    def load(self) -> Loaded:
        """Reads all records (also without leadership). Raises StoreUnavailable."""

    def follow(self) -> Follower:
        """Begins to follow the stored records. Raises StoreUnavailable."""

    def commit(self, changes: Sequence[Change], epoch: int) -> Future[None]:
        """Writes the changes atomically. The future raises StaleEpoch, StoreUnavailable (the changes were not applied;
        a store resolves unclear outcomes itself), RecordTooLarge, or RecordUnencodable.

        Changes that are refused for their size or contents are refused before the call returns, so no commit of the
        same caller overtakes the refusal.
        """

    def healthy(self) -> bool:
        """Returns True if the connection works as far as known. Does not ask the store."""

    def erase(self) -> None:
        """Removes all records and the epoch. Only tests and tools call it. Raises StoreUnavailable."""
