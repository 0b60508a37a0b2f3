"""store.zookeeper.bulk_reads: the size of requests follows the size of nodes; a lost connection is waited for."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest
from kazoo.exceptions import ConnectionLoss

from store.zookeeper.bulk_reads import FIRST_NODES, FLYING_BYTES, FLYING_NODES, LOSSES, MOST_NODES, REQUEST_BYTES, Bulk
from store.zookeeper.wire import ReadNodes

KB = 1000


class Server:
    """Answers when it is waited for. `breaks`: says of a request whether the connection is lost with it."""

    closed, timeout = False, 1.0

    def __init__(self, sizes: dict[str, int], breaks: Callable[[list[str]], bool] = lambda paths: False) -> None:
        self.id, self.connected = 1, threading.Event()
        self.connected.set()
        self.sizes, self.breaks = sizes, breaks
        self.requests: list[int] = []
        self.flying: list[list[str]] = []
        self.most_bytes = self.most_nodes = 0

    def send(self, request: Any) -> list[str]:
        paths = list(request._paths)
        self.requests.append(len(paths))
        self.flying.append(paths)
        on_the_way = [path for paths in self.flying for path in paths]
        self.most_nodes = max(self.most_nodes, len(on_the_way))
        self.most_bytes = max(self.most_bytes, sum(self.sizes.get(path, 0) for path in on_the_way))
        return paths

    def wait(self, paths: list[str]) -> list[bytes | None]:
        if self.breaks(paths):
            self.flying.clear()
            raise ConnectionLoss
        self.flying.remove(paths)
        return [b"x" * self.sizes[path] if path in self.sizes else None for path in paths]


def read(server: Server, paths: list[str]) -> list[int | None]:
    found = Bulk(server, ReadNodes, paths, len).run()  # type: ignore[arg-type]
    return [None if data is None else len(data) for data in found]


def records(kind: str, count: int, size: int) -> dict[str, int]:
    return {f"/bcs/{kind}/b/{number}": size for number in range(count)}


def test_small_nodes_are_read_many_at_a_time() -> None:
    server = Server(records("taskgroup", 5_000, 400))
    assert read(server, list(server.sizes)) == [400] * 5_000
    assert server.requests[0] == FIRST_NODES and max(server.requests) == MOST_NODES
    assert len(server.requests) < 50 and server.most_nodes <= FLYING_NODES


def test_large_nodes_are_read_few_at_a_time() -> None:
    server = Server(records("configmap", 500, 240 * KB))
    assert read(server, list(server.sizes)) == [240 * KB] * 500
    assert max(server.requests[8:]) == REQUEST_BYTES // (240 * KB)
    assert server.most_bytes <= FLYING_BYTES + FIRST_NODES * 240 * KB * 4


def test_small_nodes_of_one_kind_say_nothing_of_another() -> None:
    server = Server({**records("application", 1_000, 300), **records("configmap", 100, 240 * KB)})
    assert sum(size or 0 for size in read(server, list(server.sizes))) == 300 * KB + 100 * 240 * KB
    assert server.most_bytes <= FLYING_BYTES * 3


def test_what_does_not_exist_is_none() -> None:
    server = Server(records("application", 3, 10))
    assert read(server, ["/bcs/application/b/9", *server.sizes, "/bcs/secret/b/1"]) == [None, 10, 10, 10, None]


def test_an_answer_too_large_for_the_server_is_asked_for_in_parts() -> None:
    sizes = {**records("configmap", 600, 100), **{f"/bcs/configmap/z/{n}": 240 * KB for n in range(100)}}
    server = Server(sizes, lambda paths: sum(sizes[path] for path in paths) > 2_000 * KB)
    assert read(server, list(sizes)) == list(sizes.values())
    assert MOST_NODES in server.requests, "nothing said before that nodes could be large"


@pytest.mark.parametrize("end", ["always lost", "not back", "another session", "closed"])
def test_a_connection_that_does_not_come_back_ends_the_read(end: str) -> None:
    server = Server(records("application", 10, 10), lambda paths: True)
    if end == "not back":
        server.timeout = 0.01
        server.connected.clear()
    elif end == "closed":
        server.closed = True
    elif end == "another session":
        server.breaks = lambda paths: bool(setattr(server, "id", 2)) or True  # type: ignore[func-returns-value]
    with pytest.raises(ConnectionLoss):
        read(server, list(server.sizes))
    assert len(server.requests) <= (LOSSES * FIRST_NODES * 2 if end == "always lost" else 2)
