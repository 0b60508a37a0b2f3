"""store.sqlite.store and store.sqlite.file_lock: what is their own (tests/integration/test_stores.py holds the
common promises)."""

from __future__ import annotations

import queue
import sqlite3
from collections.abc import Iterator
from concurrent.futures import Future
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from store.base import Change, StaleEpoch, StoreError, StoreUnavailable, Term
from store.records import AgentSetting, Framework
from store.sqlite import store as module
from store.sqlite.file_lock import FileLock
from store.sqlite.store import SqliteStore
from tests.waiting import wait_for


def test_commits_wait_while_the_file_cannot_be_written(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "bcs.db")
    store.open()
    terms: queue.Queue[Term] = queue.Queue()
    store.campaign("http://127.0.0.1:1", terms.put, lambda _reason: None)
    epoch = terms.get(timeout=30).epoch

    intruder = sqlite3.connect(store.path, isolation_level=None)
    intruder.execute("BEGIN IMMEDIATE")
    future = store.commit([Change("framework", "framework", Framework(id="f"))], epoch)
    wait_for(lambda: not store.healthy())
    assert not future.done()
    assert store.load().records == []
    intruder.execute("ROLLBACK")
    future.result(timeout=30)
    assert store.healthy()
    assert store.load().records == [Framework(id="f")]

    intruder.execute("BEGIN IMMEDIATE")
    lost = store.commit([], epoch)
    wait_for(lambda: not store.healthy())
    store.close()
    assert isinstance(lost.exception(timeout=0), StoreUnavailable)
    intruder.close()


def test_a_store_opens_while_another_process_writes(tmp_path: Path) -> None:
    """A leader that commits without end leaves no moment for a write of others."""
    first, second = SqliteStore(tmp_path / "bcs.db"), SqliteStore(tmp_path / "bcs.db")
    first.open()
    intruder = sqlite3.connect(first.path, isolation_level=None)
    intruder.execute("BEGIN IMMEDIATE")
    second.open()
    assert second.load().records == []
    intruder.close()
    for store in (second, first):
        store.close()


def test_a_record_that_was_corrected_by_hand_is_read(tmp_path: Path) -> None:
    """The tools of SQLite store text; for others that follow the file as well as for the next leader."""
    store = SqliteStore(tmp_path / "bcs.db")
    store.open()
    with sqlite3.connect(store.path) as hand:
        hand.execute("INSERT INTO records VALUES ('framework', 'framework', '{\"id\": \"f\"}')")
        hand.execute("INSERT INTO records VALUES ('namespace', 'broken', '{')")
    hand.close()
    loaded = store.load()
    assert loaded.records == [Framework(id="f")]
    assert [(bad.kind, bad.key) for bad in loaded.quarantined] == [("namespace", "broken")]
    store.close()


def test_only_the_owner_may_read_the_file(tmp_path: Path) -> None:
    """Also a file beside it: both hold secrets. One that exists keeps its mode."""
    store = SqliteStore(tmp_path / "new.db")
    store.open()
    modes = {path.name: path.stat().st_mode & 0o777 for path in tmp_path.glob("new.db*") if path.suffix != ".lock"}
    store.close()
    assert modes == dict.fromkeys(("new.db", "new.db-wal", "new.db-shm"), 0o600)
    store.path.chmod(0o640)
    store.open()
    store.close()
    assert store.path.stat().st_mode & 0o777 == 0o640


@pytest.mark.parametrize("content", [b"this is no database" * 100, None], ids=["garbage", "folder"])
def test_a_file_that_is_no_database_is_reported_by_open(tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / "bcs.db"
    path.mkdir() if content is None else path.write_bytes(content)
    with pytest.raises(StoreUnavailable, match=r"cannot open .*bcs\.db"):
        SqliteStore(path).open()


def test_locks_exclude_each_other(tmp_path: Path) -> None:
    first, second = FileLock(tmp_path / "lock"), FileLock(tmp_path / "lock")
    assert not first.held_by_another()
    assert first.try_acquire()
    assert not second.try_acquire()
    assert second.held_by_another()
    first.close()
    assert not first.try_acquire()
    assert second.try_acquire()
    second.close()


def test_a_lock_follows_its_file_when_that_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    old, waiting = FileLock(path), FileLock(path)
    assert old.try_acquire()
    path.unlink()
    assert waiting.try_acquire()
    newcomer = FileLock(path)
    assert not newcomer.try_acquire()
    for lock in (old, waiting, newcomer):
        lock.close()


# --- errors that nobody has thought of ------------------------------------------------------------------------------


class Leading:
    """A store that leads, and what it has told."""

    def __init__(self, path: Path) -> None:
        self.store = SqliteStore(path)
        self.store.open()
        self.terms: queue.Queue[Term] = queue.Queue()
        self.reasons: queue.Queue[str] = queue.Queue()
        self.epoch = self.elected()

    def elected(self) -> int:
        self.store.campaign("http://127.0.0.1:1", self.terms.put, self.reasons.put)
        return self.terms.get(timeout=30).epoch

    def commit(self, key: str, epoch: int) -> Future[None]:
        return self.store.commit([Change("agentsetting", key, AgentSetting(agent=key))], epoch)

    def stored(self) -> list[str]:
        return sorted(record.key for record in self.store.load().records)


@pytest.fixture
def leading(tmp_path: Path) -> Iterator[Leading]:
    made = Leading(tmp_path / "bcs.db")
    yield made
    made.store.close()


def test_a_writer_that_fails_ends_the_term_and_gives_the_lock_back(
    leading: Leading, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The thread used to die and to keep the lock: nothing was written any more, and nobody else could take over."""
    honest, failures, started, go_on = SqliteStore._write, [MemoryError("none left")], Event(), Event()

    def write(self: SqliteStore, *arguments: Any) -> int:
        started.set()
        assert go_on.wait(30)
        if failures:
            raise failures.pop()
        return honest(self, *arguments)

    monkeypatch.setattr(SqliteStore, "_write", write)
    first = leading.commit("first", leading.epoch)
    assert started.wait(30)
    behind = leading.commit("behind", leading.epoch)
    go_on.set()
    error = first.exception(timeout=30)
    assert isinstance(error, StoreError) and not isinstance(error, (StoreUnavailable, StaleEpoch))
    assert isinstance(behind.exception(timeout=30), StoreError), "nothing may be written behind a gap"
    assert "none left" in leading.reasons.get(timeout=30)
    assert isinstance(leading.commit("late", leading.epoch).exception(timeout=30), StaleEpoch)
    assert leading.stored() == []

    other = SqliteStore(leading.store.path)
    other.open()
    terms: queue.Queue[Term] = queue.Queue()
    other.campaign("http://127.0.0.1:2", terms.put, lambda reason: None)
    assert terms.get(timeout=30).epoch == leading.epoch + 1, "the lock is free"
    other.close()

    epoch = leading.elected()
    leading.commit("next term", epoch).result(timeout=30)
    assert leading.stored() == ["next term"]


def test_a_key_that_the_file_does_not_take_is_no_end_of_the_writer(leading: Leading) -> None:
    refused = leading.store.commit([Change("agentsetting", "half \ud800", None)], leading.epoch)
    assert isinstance(refused.exception(timeout=30), StoreError)
    leading.commit("next term", leading.elected()).result(timeout=30)
    assert leading.stored() == ["next term"]


def test_a_database_without_its_epoch_is_told_and_waited_for(leading: Leading) -> None:
    intruder = sqlite3.connect(leading.store.path, isolation_level=None)
    intruder.execute("DELETE FROM leadership")
    future = leading.commit("a", leading.epoch)
    wait_for(lambda: not leading.store.healthy(), what="the trouble to be told")
    assert not future.done()
    intruder.execute("INSERT INTO leadership VALUES (1, ?, '')", (leading.epoch,))
    future.result(timeout=30)
    intruder.close()


def test_an_election_goes_on_after_an_unexpected_error(leading: Leading, monkeypatch: pytest.MonkeyPatch) -> None:
    leading.store.resign()
    monkeypatch.setattr(module, "_RETRY_SECONDS", 0.01)
    honest, failures = SqliteStore._raise_epoch, [ValueError("odd"), TypeError("odd")]

    def raise_epoch(self: SqliteStore, url: str) -> int:
        if failures:
            raise failures.pop()
        return honest(self, url)

    monkeypatch.setattr(SqliteStore, "_raise_epoch", raise_epoch)
    leading.commit("a", leading.elected()).result(timeout=30)


def test_a_winner_does_not_name_the_leader_before(leading: Leading, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between the lock and the epoch, the database still names the leader before."""
    original, raising, go_on = SqliteStore._raise_epoch, Event(), Event()

    def raise_epoch(self: SqliteStore, url: str) -> int:
        raising.set()
        assert go_on.wait(30)
        return original(self, url)

    leading.store.resign()
    monkeypatch.setattr(SqliteStore, "_raise_epoch", raise_epoch)
    leading.store.campaign("http://127.0.0.1:2", leading.terms.put, leading.reasons.put)
    assert raising.wait(30)
    try:
        assert leading.store.leader() is None
    finally:
        go_on.set()
    epoch = leading.terms.get(timeout=30).epoch
    found = leading.store.leader()
    assert found is not None and (found.url, found.epoch) == ("http://127.0.0.1:2", epoch)


def test_who_cannot_take_the_lead_gives_the_lock_back(leading: Leading) -> None:
    leading.store.resign()

    def broken(term: Term) -> None:
        raise ValueError("cannot lead")

    leading.store.campaign("http://127.0.0.1:1", broken, leading.reasons.put)
    assert "cannot lead" in leading.reasons.get(timeout=30)
    leading.commit("a", leading.elected()).result(timeout=30)
