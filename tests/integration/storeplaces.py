"""The three kinds of stores behind one face, so that one set of tests holds for all of them."""

from __future__ import annotations

import queue
import sqlite3
from collections.abc import Iterable
from concurrent.futures import Future
from pathlib import Path
from typing import Protocol

from kazoo.client import KazooClient
from kazoo.retry import KazooRetry

from store.base import Change, Store, Term
from store.memory import MemoryBackend, MemoryStore
from store.records import Record
from store.sqlite.store import SqliteStore
from store.zookeeper.store import ZooKeeperStore
from store.zookeeper.tree import Address, Tree

PATIENCE = 60.0
"""Seconds after which a test gives up waiting for something that should happen at once."""


def puts(records: Iterable[Record]) -> list[Change]:
    return [Change(record.kind, record.key, record) for record in records]


def done(futures: Iterable[Future[None]]) -> None:
    """Waits until all have succeeded."""
    for future in futures:
        future.result(PATIENCE)


class Candidate:
    """A store that stands for election and remembers what it is told."""

    def __init__(self, store: Store, url: str = "http://127.0.0.1:31100") -> None:
        self.store = store
        self.url = url
        self.epoch = 0
        self._elected: queue.Queue[Term] = queue.Queue()
        self._deposed: queue.Queue[str] = queue.Queue()
        store.open()
        self.stand()

    def stand(self) -> None:
        self.store.campaign(self.url, self._elected.put, self._deposed.put)

    def wait_elected(self) -> int:
        self.epoch = self._elected.get(timeout=PATIENCE).epoch
        return self.epoch

    def wait_deposed(self) -> str:
        return self._deposed.get(timeout=PATIENCE)

    @property
    def was_deposed(self) -> bool:
        return not self._deposed.empty()

    @property
    def was_elected(self) -> bool:
        return not self._elected.empty()

    def put(self, *records: Record) -> Future[None]:
        return self.store.commit(puts(records), self.epoch)

    def remove(self, *records: Record) -> Future[None]:
        return self.store.commit([Change(record.kind, record.key, None) for record in records], self.epoch)


class Place(Protocol):
    """Where records outlive a store."""

    def store(self) -> Store:
        """A new store on this place, as another process would have it."""

    def plant(self, kind: str, key: str, data: bytes) -> None:
        """Writes past the store."""

    def raw(self, kind: str, key: str) -> bytes | None:
        """Reads past the store."""

    def break_leadership(self, leader: Candidate) -> None:
        """Lets the next candidate win although the leader has done nothing wrong."""


class MemoryPlace:
    def __init__(self) -> None:
        self.backend = MemoryBackend()

    def store(self) -> MemoryStore:
        return MemoryStore(self.backend)

    def plant(self, kind: str, key: str, data: bytes) -> None:
        self.backend.records[kind, key] = data

    def raw(self, kind: str, key: str) -> bytes | None:
        return self.backend.records.get((kind, key))

    def break_leadership(self, leader: Candidate) -> None:
        self.backend.depose("broken by the test")


class SqlitePlace:
    def __init__(self, folder: Path) -> None:
        self.path = folder / "store" / "bcs.db"

    @property
    def url(self) -> str:
        return f"sqlite:///{self.path}"

    def store(self) -> SqliteStore:
        return SqliteStore(self.path)

    def plant(self, kind: str, key: str, data: bytes) -> None:
        self._run("INSERT OR REPLACE INTO records VALUES (?, ?, ?)", (kind, key, data))

    def raw(self, kind: str, key: str) -> bytes | None:
        rows = self._run("SELECT data FROM records WHERE kind = ? AND key = ?", (kind, key))
        return rows[0][0] if rows else None

    def break_leadership(self, leader: Candidate) -> None:
        self.path.with_name(self.path.name + ".lock").unlink()  # the next candidate locks a new file of this name

    def _run(self, statement: str, values: tuple[object, ...]) -> list[tuple[bytes]]:
        connection = sqlite3.connect(self.path, isolation_level=None)
        try:
            return connection.execute(statement, values).fetchall()
        finally:
            connection.close()


def catch_up(client: KazooClient, tree: Tree) -> None:
    """What the client reads after this is not older than this call. `sync` is not enough: a leading member that has
    been deposed while it was suspended answers it in the moment before it notices; a write it cannot answer."""
    KazooRetry(max_tries=-1, deadline=PATIENCE)(client.set, tree.election, b"")


class ZooKeeperPlace:
    def __init__(self, hosts: str, root: str, client: KazooClient) -> None:
        self.hosts = hosts
        self.root = root
        self.client = client
        self.tree = Tree(root)

    @property
    def url(self) -> str:
        return f"zk://{self.hosts}{self.root}"

    def store(self, session_timeout: float = 10.0) -> ZooKeeperStore:
        return ZooKeeperStore(self.hosts, self.root, session_timeout=session_timeout)

    def plant(self, kind: str, key: str, data: bytes) -> None:
        path = self.tree.record(Address(kind, key))
        self.client.ensure_path(path)
        self.client.set(path, data)

    def raw(self, kind: str, key: str) -> bytes | None:
        path = self.tree.record(Address(kind, key))
        return self.client.get(path)[0] if self.client.exists(path) else None

    def break_leadership(self, leader: Candidate) -> None:
        first = min(self.client.get_children(self.tree.election), key=lambda name: name[-10:])
        self.client.delete(f"{self.tree.election}/{first}")
