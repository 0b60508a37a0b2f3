"""A store in one SQLite file: for one machine, one or several processes.

Durability: write-ahead log with synchronous=FULL, so a commit is on disk (fsync) before its future resolves. One thread
writes; commits that have queued up meanwhile share one transaction and one fsync (group commit).

Leadership: the holder of the flock on ``<file>.lock`` leads. The kernel releases the lock at any end of the process.
The winner raises the epoch in the database; every transaction compares it first, so that a deposed leader changes
nothing even if the lock file was tampered with.

While the file cannot be written (disk full, locked by a tool) commits wait and are tried again until the store is
closed: a gap in the order of commits would be worse than a delay. `healthy` shows this state. After any other failure
of the writing thread the term ends: its commits are refused, the lock is given back, `deposed` is called; the thread
continues for the next term.
"""

from __future__ import annotations

import logging
import queue
import sqlite3
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from store import threads
from store.base import Change, Leader, Loaded, StaleEpoch, StoreError, StoreUnavailable, Term
from store.encoding.codec import Encoded, Stored, decode_all, encode_changes
from store.encoding.seal import UNSEALED, Sealer
from store.encoding.sizes import Sizer
from store.sqlite import database
from store.sqlite.file_lock import FileLock
from store.sqlite.follower import CHANGE_LOG, SqliteFollower, prune
from store.sqlite.notes import read_notes, write_note

_LOG = logging.getLogger(__name__)
_GROUP_COMMITS = 1000
"""At most so many commits share a transaction: bounds the latency of the first of them."""
_RETRY_SECONDS = 0.5
_LOCK_POLL_SECONDS = 0.05
"""Seconds between two tries of a candidate to get the lock; a waiting flock could not be interrupted."""


@dataclass(eq=False)
class _Commit:
    encoded: list[Encoded]
    epoch: int
    future: Future[None]


@dataclass(eq=False)
class _Candidacy:
    url: str
    elected: Callable[[Term], None]
    deposed: Callable[[str], None]
    lock: FileLock
    withdrawn: threading.Event = field(default_factory=threading.Event)
    epoch: int = 0
    """The epoch it leads with; 0 while it waits."""


class SqliteStore:
    """Records in the file at `path`, which is created with its folders. Implements store.base.Store."""

    def __init__(self, path: str | Path, batch_bytes: int = 8_000_000, sealer: Sealer = UNSEALED) -> None:
        self._sealer = sealer
        self.path = Path(path)
        self.batch_bytes = batch_bytes
        self.sizer = Sizer(batch_bytes, sealer)
        self._lock = threading.Lock()
        self._reader: sqlite3.Connection | None = None
        self._writer: threading.Thread | None = None
        self._queue: queue.SimpleQueue[_Commit | None] = queue.SimpleQueue()
        self._closing = threading.Event()
        self._problem = ""
        self._broken = 0
        """The newest epoch in which writing failed unexpectedly: nothing of it is written any more."""
        self._candidacy: _Candidacy | None = None
        self._campaigner: threading.Thread | None = None
        self._lock_path = self.path.with_name(self.path.name + ".lock")
        self._probe: FileLock | None = None

    # --- connection -------------------------------------------------------------------------------------------

    def open(self) -> None:
        """Like `Store.open`. Creates folder, file and tables if they do not exist, and starts the writing thread."""
        if self._writer is not None:
            return
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            database.create(self.path)
            connection = database.connect(self.path)
            database.prepare(connection, CHANGE_LOG)
            self._probe = FileLock(self._lock_path)
        except (OSError, sqlite3.Error) as error:
            raise StoreUnavailable(f"cannot open {self.path}: {error}") from error
        self._reader = database.connect(self.path)
        self._closing.clear()
        self._writer = threads.ending("sqlite-writer", partial(self._write_loop, connection))
        self._writer.start()

    def close(self) -> None:
        """Like `Store.close`. Waits until the writing thread has ended."""
        if self._writer is None:
            return
        self.resign()
        self._closing.set()
        self._queue.put(None)
        self._writer.join()
        self._writer = None
        with self._lock:
            if self._reader is not None:
                self._reader.close()
                self._reader = None
            if self._probe is not None:
                self._probe.close()

    def healthy(self) -> bool:
        """True if the store is open and the last write did not fail."""
        return self._writer is not None and not self._problem

    # --- leadership -------------------------------------------------------------------------------------------

    def campaign(self, url: str, elected: Callable[[Term], None], deposed: Callable[[str], None]) -> None:
        """Like `Store.campaign`; a lock on a file beside the database decides. Raises StoreError if this store is a
        candidate already, StoreUnavailable if the lock file cannot be opened."""
        self._require_open()
        with self._lock:
            if self._candidacy is not None:
                raise StoreError("this store is a candidate already")
            try:
                lock = FileLock(self._lock_path)
            except OSError as error:
                raise StoreUnavailable(f"cannot open {self._lock_path}: {error}") from error
            candidacy = self._candidacy = _Candidacy(url, elected, deposed, lock)
        self._campaigner = threads.ending("sqlite-campaign", partial(self._campaign_loop, candidacy))
        self._campaigner.start()

    def resign(self) -> None:
        """Like `Store.resign`. Waits for the thread of the candidacy, unless that thread is the caller."""
        with self._lock:
            candidacy, self._candidacy = self._candidacy, None
        if candidacy is None:
            return
        candidacy.withdrawn.set()
        if self._campaigner is not None and self._campaigner is not threading.current_thread():
            self._campaigner.join()
        candidacy.lock.close()

    def note(self, text: str) -> None:
        """Like `Store.note`; notes are rows of the database."""
        self._require_open()
        candidacy = self._candidacy
        if candidacy is not None:
            write_note(partial(database.connect, self.path), candidacy.url, text)

    def notes(self) -> dict[str, str]:
        """Like `Store.notes`; notes that are too old are left out."""
        self._require_open()
        ours = self._candidacy.url if self._candidacy is not None else ""
        return {url: text for url, text in read_notes(partial(database.connect, self.path)).items() if url != ours}

    def leader(self) -> Leader | None:
        """Like `Store.leader`; from the database, if the lock is held."""
        candidacy = self._candidacy
        if candidacy is not None and candidacy.epoch:
            return Leader(candidacy.url, candidacy.epoch)
        with self._lock:
            if self._reader is None or self._probe is None:
                return None
            try:
                # Until this store has raised the epoch, the row names the leader before.
                if not self._probe.held_by_another() or (candidacy is not None and candidacy.lock.held()):
                    return None
                epoch, url = self._reader.execute("SELECT epoch, url FROM leadership").fetchone()
            except (OSError, sqlite3.Error):
                return None
        return Leader(url, epoch) if url else None

    def _campaign_loop(self, candidacy: _Candidacy) -> None:
        while not self._acquire(candidacy.lock):
            if candidacy.withdrawn.wait(_LOCK_POLL_SECONDS):
                return
        epoch = 0
        while not epoch:
            try:
                epoch = self._raise_epoch(candidacy.url)
            # any error: this thread holds the lock, and no other thread would notice its end
            except Exception as error:
                self._report(f"cannot raise the epoch in {self.path}, trying again: {error}")
                if candidacy.withdrawn.wait(_RETRY_SECONDS):
                    return
        with self._lock:
            if self._candidacy is not candidacy:
                return
            candidacy.epoch = epoch
        self._problem = ""
        _LOG.info("leading with epoch %d", epoch)
        try:
            candidacy.elected(Term(epoch))
        except Exception as error:
            _LOG.exception("election won, but the term could not begin")
            self._step_down(epoch, f"taking the lead failed: {error!r}")

    def _acquire(self, lock: FileLock) -> bool:
        try:
            return lock.try_acquire()
        except Exception as error:
            self._report(f"cannot lock {self._lock_path}, trying again: {error}")
            return False

    def _raise_epoch(self, url: str) -> int:
        """One more than before, stored with the url of the new leader."""
        connection = database.connect(self.path)
        try:
            with database.Transaction(connection):
                row = connection.execute("UPDATE leadership SET epoch = epoch + 1, url = ? RETURNING epoch", (url,))
                return database.epoch_of(row.fetchone())
        finally:
            connection.close()

    def _step_down(self, epoch: int, reason: str) -> None:
        """Ends the leadership that was won with this epoch, if it still stands, and gives the lock back."""
        with self._lock:
            candidacy = self._candidacy
            if candidacy is None or candidacy.epoch != epoch:
                return
            self._candidacy = None
        candidacy.lock.close()
        candidacy.deposed(reason)

    # --- records ----------------------------------------------------------------------------------------------

    def load(self) -> Loaded:
        """Like `Store.load`; ordered by kind and key."""
        self._require_open()
        try:
            with self._lock:
                if self._reader is None:
                    raise StoreUnavailable("the store is closed")
                rows = self._reader.execute(
                    "SELECT kind, key, CAST(data AS BLOB) FROM records ORDER BY kind, key"
                ).fetchall()
        except sqlite3.Error as error:
            raise StoreUnavailable(f"cannot read {self.path}: {error}") from error
        return decode_all((Stored(*row) for row in rows), self._sealer)

    def follow(self) -> SqliteFollower:
        """Like `Store.follow`; with a connection of its own."""
        self._require_open()
        try:
            return SqliteFollower(database.connect(self.path), self._sealer)
        except sqlite3.Error as error:
            raise StoreUnavailable(f"cannot read {self.path}: {error}") from error

    def commit(self, changes: Sequence[Change], epoch: int) -> Future[None]:
        """Like `Store.commit`; commits that wait are written together."""
        future: Future[None] = Future()
        candidacy = self._candidacy
        if self._writer is None:
            future.set_exception(StoreUnavailable("the store is not open"))
        elif candidacy is None or candidacy.epoch != epoch:
            future.set_exception(StaleEpoch(f"epoch {epoch} is not the one this store leads with"))
        else:
            try:
                encoded = encode_changes(changes, self.batch_bytes, self._sealer)
            except Exception as error:
                future.set_exception(error)
            else:
                self._queue.put(_Commit(encoded, epoch, future))
        return future

    def erase(self) -> None:
        """Removes all records and the epoch. Raises StoreUnavailable."""
        self._require_open()
        connection = database.connect(self.path)
        try:
            with database.Transaction(connection):
                connection.execute("DELETE FROM records")
                connection.execute("UPDATE leadership SET epoch = 0, url = ''")
        except sqlite3.Error as error:
            raise StoreUnavailable(f"cannot erase {self.path}: {error}") from error
        finally:
            connection.close()

    # --- the writing thread -----------------------------------------------------------------------------------

    def _write_loop(self, connection: sqlite3.Connection) -> None:
        threads.persist("sqlite-writer", partial(self._write_groups, connection), self._closing.wait)
        connection.close()
        while not self._queue.empty():
            waiting = self._queue.get()
            if waiting is not None:
                waiting.future.set_exception(StoreUnavailable("the store was closed before the commit"))

    def _write_groups(self, connection: sqlite3.Connection) -> None:
        while not self._closing.is_set():
            group = self._next_group()
            try:
                if group and not self._write_until_done(connection, group):
                    _refuse(group, StoreUnavailable("the store was closed before the commit"))
            except Exception as error:
                self._fail(group, error)

    def _next_group(self) -> list[_Commit]:
        """Waits for a commit, and returns it with the other queued ones."""
        group: list[_Commit] = []
        commit = self._queue.get()
        while commit is not None:
            group.append(commit)
            if len(group) >= _GROUP_COMMITS or self._queue.empty():
                break
            commit = self._queue.get()
        return group

    def _write_until_done(self, connection: sqlite3.Connection, group: list[_Commit]) -> bool:
        """Writes a group and answers its futures; False if the store is closed before that succeeds."""
        while True:
            try:
                epoch = self._write(connection, group)
                break
            except sqlite3.Error as error:
                self._report(f"cannot write {self.path}, trying again: {error}")
                if self._closing.wait(_RETRY_SECONDS):
                    return False
        self._problem = ""
        for commit in group:
            if commit.epoch == epoch > self._broken:
                commit.future.set_result(None)
            elif commit.epoch == epoch:
                commit.future.set_exception(StoreError(f"writing failed earlier in epoch {epoch}; see the log"))
            else:
                # Another process has raised the epoch although this one holds the lock: the lock file was replaced.
                commit.future.set_exception(StaleEpoch(f"epoch {commit.epoch} has ended, the newest one is {epoch}"))
                self._step_down(commit.epoch, f"epoch {commit.epoch} has been overtaken")
        return True

    def _write(self, connection: sqlite3.Connection, group: list[_Commit]) -> int:
        """One transaction with all commits of the present epoch, which is returned."""
        with database.Transaction(connection):
            epoch = database.epoch_of(connection.execute("SELECT epoch FROM leadership").fetchone())
            written = [commit for commit in group if commit.epoch == epoch > self._broken]
            final = {(c.kind, c.key): c.data for commit in written for c in commit.encoded}
            connection.executemany(
                "INSERT OR REPLACE INTO records VALUES (?, ?, ?)",
                [(kind, key, data) for (kind, key), data in final.items() if data is not None],
            )
            connection.executemany(
                "DELETE FROM records WHERE kind = ? AND key = ?", [at for at, data in final.items() if data is None]
            )
            prune(connection)
        return epoch

    def _fail(self, group: list[_Commit], error: Exception) -> None:
        """Handles an unexpected error: nothing of the group was written. Later commits must not be written either, so
        the term ends, and the next one starts from the stored records."""
        _LOG.exception("writing %s failed", self.path)
        epoch = max(commit.epoch for commit in group)
        self._broken = max(self._broken, epoch)
        _refuse(group, StoreError(f"writing {self.path} failed: {error!r}"))
        self._step_down(epoch, f"writing {self.path} failed: {error!r}")

    def _report(self, problem: str) -> None:
        if problem != self._problem:
            _LOG.error("%s", problem)
        self._problem = problem

    def _require_open(self) -> None:
        if self._writer is None:
            raise StoreUnavailable("the store is not open")


def _refuse(group: list[_Commit], error: StoreError) -> None:
    for commit in group:
        if not commit.future.done():
            commit.future.set_exception(error)
