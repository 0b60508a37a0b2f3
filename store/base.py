"""The Store protocol: load, commit, leadership; and the errors a store may raise.

Exception tree:

    StoreError
      StoreUnavailable     the store cannot be reached or did not answer; worth a retry
      StaleEpoch           somebody else leads now; nothing was changed; step down
      RecordTooLarge       one change does not fit the store's limits; nothing was changed
        BatchTooLarge      the changes of one commit do not fit together; nothing was changed
      RecordUnencodable    a record holds what cannot be written; nothing was changed
      RecordKept           a record that cannot be read now would be overwritten; nothing was changed
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import Future
from typing import TYPE_CHECKING, NamedTuple, Protocol

from store.records import Record

if TYPE_CHECKING:
    from store.sizes import Sizer


class StoreError(Exception):
    """Base of every error of a store."""


class StoreUnavailable(StoreError):
    """The store cannot be reached or did not answer; the same call may succeed later."""


class StaleEpoch(StoreError):
    """The epoch of the call is not the newest one: another leader has taken over. Nothing was changed."""


class RecordTooLarge(StoreError):
    """A change exceeds what the store can hold. `kind` and `key` name it."""

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


class RecordKept(StoreError):
    """A stored record that cannot be read must not be replaced: the missing key may come back, a newer scheduler or an
    operator may read it."""


class Change(NamedTuple):
    """One changed record; `record` None deletes it."""

    kind: str
    key: str
    record: Record | None
    data: bytes | None = None
    """The record's encoding, not sealed, where it is known already (store.sizes). None: it is encoded when it is
    written."""
    bound: int = 0
    """Bytes that the encoding has at most, for records that are replaced too often to be encoded each time; 0: not
    known."""


class Quarantined(NamedTuple):
    """A stored record that could not be decoded: where it is and why. It stays in the store untouched. `sealed`: for
    want of a key, which may come back."""

    kind: str
    key: str
    error: str
    sealed: bool = False


class Loaded(NamedTuple):
    records: list[Record]
    quarantined: list[Quarantined]


class Followed(NamedTuple):
    """What a follower has found: records as they are stored now."""

    changes: list[Change]
    """Records that may have changed; `record` None: it does not exist, or cannot be decoded."""
    quarantined: list[Quarantined]
    """Those that exist and cannot be decoded. They are among the changes, too."""


class Position(NamedTuple):
    """How far a follower has come: all commits up to `number` of the term `epoch`, and of all terms before."""

    epoch: int
    number: int


class Leader(NamedTuple):
    """Who leads: `url` of its HTTP API (http://host:port), and the epoch."""

    url: str
    epoch: int


class Term(NamedTuple):
    """One term of leadership, given to the winner of an election. `elapsed`: seconds, by the clock of the store, from
    the latest write of the framework record to this election; None if the store has no clock of its own, or there is
    no such record."""

    epoch: int
    elapsed: float | None = None


class Follower(Protocol):
    """Reads what changes in a store, without leadership. One thread at a time may use it."""

    def read(self, again: Collection[tuple[str, str]] = ()) -> Iterator[Followed]:
        """Everything that has been committed since the last read that was taken to its end, in portions; the first read
        yields all records. Afterwards each record told last is at least as new as the begin of the read. While somebody
        else writes, the records are not of one moment; after a read that began when nobody but this process could
        write, what was told equals what is stored.

        A record that has changed many times is told once. A follower that has been away for so long that the store does
        not remember what has changed tells all records again, and as None those that it has told and that do not exist
        any more. `again`: kind and key of records that are told whether they have changed or not, in case somebody has
        repaired them past the store. Raises StoreUnavailable; the next read then starts where this one did."""

    @property
    def position(self) -> Position | None:
        """Of the last read that was taken to its end; None before the first, and while all records must be read."""

    def lead(self, epoch: int) -> None:
        """This process leads with `epoch`, and has read since it was elected: gives the store what the follower knows,
        which spares it a listing before the first commit, and closes the follower."""

    def close(self) -> None:
        """Frees what the follower holds. It is not used afterwards."""


class Store(Protocol):
    """Durable records, fenced by the epoch of the leader.

    All methods may be called from any thread. `commit` never blocks on the store: it returns a future; commits are
    applied in the order of the calls, each all or nothing.
    """

    batch_bytes: int
    """Encoded size up to which the changes of one commit are packed into one atomic write."""
    sizer: Sizer
    """Says before a commit what its changes take of `batch_bytes`, exactly."""

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
        """Who leads now, as far as known; None while nobody does."""

    def load(self) -> Loaded:
        """Reads all records (also without leadership). Raises StoreUnavailable."""

    def follow(self) -> Follower:
        """Begins to follow what is stored. Raises StoreUnavailable."""

    def commit(self, changes: Sequence[Change], epoch: int) -> Future[None]:
        """Writes the changes atomically. The future raises StaleEpoch, StoreUnavailable (outcome decided: not
        applied; a store retries unclear outcomes itself until it knows), RecordTooLarge, or RecordUnencodable.

        What is refused for its size or its contents is refused before the call returns, so that nobody commits
        anything beside it."""

    def healthy(self) -> bool:
        """The connection works as far as known."""

    def erase(self) -> None:
        """Removes all records and the epoch. For tests and tools only."""
