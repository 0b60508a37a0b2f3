"""store.sqlite and store.filelock: what is their own (tests/integration/test_stores.py holds the common promises)."""

from __future__ import annotations

import queue
import sqlite3
from pathlib import Path

import pytest

from store.base import Change, StoreUnavailable, Term
from store.filelock import FileLock
from store.records import Framework
from store.sqlite import SqliteStore
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
