"""The SQLite file: its creation, its tables, connections and transactions."""

from __future__ import annotations

import contextlib
import os
import sqlite3
from pathlib import Path

SCRIPT = """
CREATE TABLE IF NOT EXISTS records (
    kind TEXT NOT NULL, key TEXT NOT NULL, data BLOB NOT NULL, PRIMARY KEY (kind, key));
CREATE TABLE IF NOT EXISTS leadership (
    only INTEGER PRIMARY KEY CHECK (only = 1), epoch INTEGER NOT NULL, url TEXT NOT NULL);
"""
_BUSY_SECONDS = 1.0
"""Seconds that a statement waits for a lock of another connection."""


def create(path: Path) -> None:
    """Creates the file so that only its owner may read it, because it holds secrets; SQLite gives the files beside it
    the same mode. An existing file is not opened: closing it would release the locks that other users in this process
    hold. Raises OSError."""
    with contextlib.suppress(FileExistsError):
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))


def connect(path: Path) -> sqlite3.Connection:
    """Opens a connection whose commits are on disk when they return. Raises sqlite3.Error."""
    connection = sqlite3.connect(path, timeout=_BUSY_SECONDS, isolation_level=None, check_same_thread=False)
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("PRAGMA synchronous=FULL")
    return connection


def prepare(connection: sqlite3.Connection, script: str) -> None:
    """Creates the tables that do not exist; `script`: further ones. A complete file is only read: a leader that writes
    without end does not keep others from opening it. Raises sqlite3.Error."""
    connection.executescript(SCRIPT + script)
    if connection.execute("SELECT 1 FROM leadership").fetchone() is None:
        connection.execute("INSERT OR IGNORE INTO leadership VALUES (1, 0, '')")


def epoch_of(row: tuple[int] | None) -> int:
    """Returns the epoch in the row of the table `leadership`. Raises sqlite3.DatabaseError for None, a missing row."""
    if row is None:
        raise sqlite3.DatabaseError("the table leadership is empty")
    return row[0]


class Transaction:
    """A transaction from ``BEGIN IMMEDIATE`` to COMMIT or ROLLBACK. The write lock is taken first, so an epoch that is
    read inside holds."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def __enter__(self) -> None:
        self._connection.execute("BEGIN IMMEDIATE")

    def __exit__(self, error_type: type[BaseException] | None, *_: object) -> None:
        try:
            if error_type is None:
                self._connection.execute("COMMIT")
        finally:
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
