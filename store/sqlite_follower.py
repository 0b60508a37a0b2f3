"""Following the records in a SQLite file, through a table of what has changed.

The table `changes` has one row per change of a record: a number that only grows, kind and key. Triggers write it in the
transaction of the change itself, so no writer can forget it, whatever its version. Old rows are pruned; a follower that
misses one reads all records.

A read is one transaction: what it tells is of one moment.
"""

from __future__ import annotations

import sqlite3
import sys
from collections.abc import Collection, Iterator

from store.base import Change, Followed, Position, StoreUnavailable
from store.codec import Stored, followed
from store.seal import Sealer

CHANGE_LOG = """
CREATE TABLE IF NOT EXISTS changes (
    number INTEGER PRIMARY KEY AUTOINCREMENT, kind TEXT NOT NULL, key TEXT NOT NULL);
CREATE TRIGGER IF NOT EXISTS record_inserted AFTER INSERT ON records BEGIN
    INSERT INTO changes (kind, key) VALUES (new.kind, new.key); END;
CREATE TRIGGER IF NOT EXISTS record_updated AFTER UPDATE ON records BEGIN
    INSERT INTO changes (kind, key) VALUES (new.kind, new.key); END;
CREATE TRIGGER IF NOT EXISTS record_deleted AFTER DELETE ON records BEGIN
    INSERT INTO changes (kind, key) VALUES (old.kind, old.key); END;
"""
"""To be executed by every process that opens the file."""
KEPT = 100_000
"""Changes that are remembered."""
_PORTION = 2_000
"""Records of one portion of a read: bounds the memory that a read of all of them takes."""
_SINCE = """
SELECT changed.kind, changed.key, CAST(records.data AS BLOB)
FROM (SELECT DISTINCT kind, key FROM changes WHERE number > ?) AS changed
LEFT JOIN records ON records.kind = changed.kind AND records.key = changed.key
"""


def prune(connection: sqlite3.Connection) -> None:
    """Forgets old changes, inside the writer's transaction. Costs what has been added since the last call."""
    connection.execute("DELETE FROM changes WHERE number <= (SELECT max(number) FROM changes) - ?", (KEPT,))


class SqliteFollower:
    """Implements store.base.Follower. Has a connection of its own, so it holds nobody up."""

    def __init__(self, connection: sqlite3.Connection, sealer: Sealer) -> None:
        self._connection, self._sealer = connection, sealer
        self._position: Position | None = None
        self._told: set[tuple[str, str]] = set()

    @property
    def position(self) -> Position | None:
        return self._position

    def read(self, again: Collection[tuple[str, str]] = ()) -> Iterator[Followed]:
        """`again` is not needed: the triggers tell of every change, whoever makes it."""
        try:
            self._connection.execute("BEGIN")
            try:
                yield from self._read()
            finally:
                self._connection.execute("ROLLBACK")
        except sqlite3.Error as error:
            raise StoreUnavailable(f"cannot follow the changes: {error}") from error

    def _read(self) -> Iterator[Followed]:
        before = self._position.number if self._position is not None else None
        epoch = self._connection.execute("SELECT epoch FROM leadership").fetchone()[0]
        numbered = self._connection.execute("SELECT seq FROM sqlite_sequence WHERE name = 'changes'").fetchone()
        newest = numbered[0] if numbered is not None else 0
        oldest = self._connection.execute("SELECT min(number) FROM changes").fetchone()[0]
        known = before is not None and before <= newest and (before == newest or (oldest or newest) <= before + 1)
        if known:
            if before != newest:
                yield from self._tell(self._connection.execute(_SINCE, (before,)))
        else:
            self._position = None
            stale = self._told.copy()
            for part in self._tell(self._connection.execute("SELECT kind, key, CAST(data AS BLOB) FROM records")):
                stale.difference_update([(change.kind, change.key) for change in part.changes])
                yield part
            self._told -= stale
            if stale:
                yield Followed([Change(kind, key, None) for kind, key in stale], [])
        self._position = Position(epoch, newest)

    def _tell(self, rows: sqlite3.Cursor) -> Iterator[Followed]:
        while fetched := rows.fetchmany(_PORTION):
            portion = [(sys.intern(kind), key, data) for kind, key, data in fetched]
            for kind, key, data in portion:
                if data is None:
                    self._told.discard((kind, key))
                else:
                    self._told.add((kind, key))
            yield followed(
                [(kind, key) if data is None else Stored(kind, key, data) for kind, key, data in portion],
                self._sealer,
            )

    def lead(self, epoch: int) -> None:
        self.close()

    def close(self) -> None:
        self._connection.close()
        self._told = set()
