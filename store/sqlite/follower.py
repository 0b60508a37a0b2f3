"""Following the records in a SQLite file, through a table of changes.

The table `changes` has one row per change of a record: a number that only grows, kind and key. Triggers write it in the
transaction of the change itself, so a writer of any version records its changes. Old rows are pruned; a follower that
misses one reads all records.

A read is one transaction: its result is the state at one time.
"""

from __future__ import annotations

import sqlite3
import sys
from collections.abc import Collection, Iterator

from store.base import Change, Followed, Position, StoreUnavailable
from store.encoding.codec import Stored, followed
from store.encoding.seal import Sealer

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
"""Statements that every process executes when it opens the file."""
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
    """Removes old changes, inside the writer's transaction. The cost depends on the changes added since the last
    call."""
    connection.execute("DELETE FROM changes WHERE number <= (SELECT max(number) FROM changes) - ?", (KEPT,))


class SqliteFollower:
    """Implements store.base.Follower over a connection of its own, so that it delays no other reader or writer."""

    def __init__(self, connection: sqlite3.Connection, sealer: Sealer) -> None:
        self._connection, self._sealer = connection, sealer
        self._position: Position | None = None
        self._reported: set[tuple[str, str]] = set()

    @property
    def position(self) -> Position | None:
        """Like `Follower.position`."""
        return self._position

    def read(self, again: Collection[tuple[str, str]] = ()) -> Iterator[Followed]:  # noqa: ARG002 (of the protocol)
        """Like `Follower.read`. `again` is not needed: triggers record every change, also those made outside the
        store."""
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
                yield from self._report(self._connection.execute(_SINCE, (before,)))
        else:
            self._position = None
            stale = self._reported.copy()
            for part in self._report(self._connection.execute("SELECT kind, key, CAST(data AS BLOB) FROM records")):
                stale.difference_update([(change.kind, change.key) for change in part.changes])
                yield part
            self._reported -= stale
            if stale:
                yield Followed([Change(kind, key, None) for kind, key in stale], [])
        self._position = Position(epoch, newest)

    def _report(self, rows: sqlite3.Cursor) -> Iterator[Followed]:
        while fetched := rows.fetchmany(_PORTION):
            portion = [(sys.intern(kind), key, data) for kind, key, data in fetched]
            for kind, key, data in portion:
                if data is None:
                    self._reported.discard((kind, key))
                else:
                    self._reported.add((kind, key))
            yield followed(
                [(kind, key) if data is None else Stored(kind, key, data) for kind, key, data in portion],
                self._sealer,
            )

    def lead(self, epoch: int) -> None:  # noqa: ARG002 (of the protocol)
        """Closes the follower; the store finds records by itself."""
        self.close()

    def close(self) -> None:
        """Like `Follower.close`; closes the connection to the file."""
        self._connection.close()
        self._reported = set()
