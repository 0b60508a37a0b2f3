"""Notes of the candidates of one SQLite file: a table beside the records, dated by the database's clock.

A process that ends leaves its row behind; rows older than FRESH seconds count as gone, so a note that is to stay has
to be written again and again.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing

from store.base import StoreUnavailable

FRESH = 30
"""Seconds."""
_TABLE = "CREATE TABLE IF NOT EXISTS notes (url TEXT PRIMARY KEY, note TEXT NOT NULL, at INTEGER NOT NULL)"
_NOW = "CAST(strftime('%s', 'now') AS INTEGER)"


def write_note(connect: Callable[[], sqlite3.Connection], url: str, text: str) -> None:
    """Stores the note of the candidate with this URL; an empty text removes the note. Raises StoreUnavailable."""
    try:
        with closing(connect()) as connection:
            connection.execute(_TABLE)
            if text:
                connection.execute(f"INSERT OR REPLACE INTO notes VALUES (?, ?, {_NOW})", (url, text))
            else:
                connection.execute("DELETE FROM notes WHERE url = ?", (url,))
    except sqlite3.Error as error:
        raise StoreUnavailable(f"cannot write a note: {error}") from error


def read_notes(connect: Callable[[], sqlite3.Connection]) -> dict[str, str]:
    """Returns the notes that are not too old, by url. Raises StoreUnavailable."""
    try:
        with closing(connect()) as connection:
            if connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'notes'").fetchone() is None:
                return {}
            rows = connection.execute(f"SELECT url, note FROM notes WHERE at BETWEEN {_NOW} - {FRESH} AND {_NOW} + 1")
            return dict(rows.fetchall())
    except sqlite3.Error as error:
        raise StoreUnavailable(f"cannot read the notes: {error}") from error
