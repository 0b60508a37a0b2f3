"""store.factory: which URL makes which store, and what is said about the others."""

from __future__ import annotations

from pathlib import Path

import pytest

from store.factory import open_store
from store.memory import MemoryStore
from store.sqlite.store import SqliteStore
from store.zookeeper.store import ZooKeeperStore


def test_memory() -> None:
    assert isinstance(open_store("memory:"), MemoryStore)


@pytest.mark.parametrize(
    ("url", "path"), [("sqlite:///data/a.db", "data/a.db"), ("sqlite:////data/a.db", "/data/a.db")]
)
def test_sqlite_paths_are_relative_with_three_slashes_and_absolute_with_four(url: str, path: str) -> None:
    store = open_store(url)
    assert isinstance(store, SqliteStore)
    assert store.path == Path(path)


@pytest.mark.parametrize(
    ("url", "hosts", "root"),
    [
        ("zk://127.0.0.1:2181/bcs", "127.0.0.1:2181", "/bcs"),
        ("zk://a:1,b.example:2,[::1]:3/bcs/prod/", "a:1,b.example:2,[::1]:3", "/bcs/prod"),
    ],
)
def test_zookeeper(url: str, hosts: str, root: str) -> None:
    store = open_store(url, session_timeout=6.0)
    assert isinstance(store, ZooKeeperStore)
    assert (store.hosts, store.tree.root, store.session_timeout) == (hosts, root, 6.0)


@pytest.mark.parametrize(
    ("url", "told"),
    [
        ("", "not understood"),
        ("memory", "not understood"),
        ("redis://localhost/0", "not understood"),
        ("sqlite://file.db", "not understood"),
        ("sqlite:///", "names no file"),
        ("sqlite:///folder/", "names no file"),
        ("zk://host:2181", "needs a path"),
        ("zk://host:2181/", "needs a path"),
        ("zk://host:2181//a", "needs a path"),
        ("zk://host:2181/a/../b", "needs a path"),
        ("zk:///bcs", "'' is not host:port"),
        ("zk://host/bcs", "'host' is not host:port"),
        ("zk://a:1,,b:2/bcs", "'' is not host:port"),
        ("zk://a:0/bcs", "'a:0' is not host:port"),
        ("zk://a:65536/bcs", "'a:65536' is not host:port"),
        ("zk://a b:1/bcs", "'a b:1' is not host:port"),
    ],
)
def test_a_wrong_url_is_refused_in_one_line(url: str, told: str) -> None:
    with pytest.raises(ValueError, match="store URL") as caught:
        open_store(url)
    assert told in str(caught.value)
    assert "\n" not in str(caught.value)
