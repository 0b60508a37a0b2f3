"""Reads of many nodes: as many in one request, and on the way, as the server can answer without filling its heap.

A server makes the whole answer to a multi read in its memory. 128 nodes of 240 kB are an answer of 30 MB, made in a
buffer that doubles as it grows. With several such requests at once a heap of 1 GB overflows, the server ends the
connection, and every attempt to load the records ends the same way. So the size of requests follows the sizes of the
answers: they begin small for each kind, and double as long as the largest node seen allows.

A node that is larger than all before it may still be too much. Then the reader waits for the connection, and reads the
same nodes again in smaller requests.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from kazoo.exceptions import ConnectionLoss

from store.zookeeper.session import Session
from store.zookeeper.wire import ListNodes, ReadNodes

FIRST_NODES, MOST_NODES = 8, 128
"""Nodes of the first request for a kind, and of the largest."""
REQUEST_BYTES = 1024 * 1024
"""Bytes of one answer, estimated by the largest node of its kind seen so far; an answer with a single node may be
larger."""
FLYING_BYTES = 4 * 1024 * 1024
"""Bytes of all answers on the way."""
FLYING_NODES = 256
"""Number of nodes of all requests on the way. Limits the size of the answers when nodes turn out far larger than those
before: 60 MB at 240 kB."""
LOSSES = 5
"""Connections that may be lost one after the other without an answer between them."""


class _Pace:
    """The number of nodes of a kind that one request asks for."""

    def __init__(self) -> None:
        self.nodes = FIRST_NODES
        self.largest = REQUEST_BYTES // FIRST_NODES

    def seen(self, largest: int) -> None:
        self.largest = max(largest, self.largest // 2)
        self.nodes = max(1, min(2 * self.nodes, MOST_NODES, REQUEST_BYTES // max(1, self.largest)))

    def lost(self) -> None:
        self.nodes = max(1, self.nodes // 4)


class _Flying(NamedTuple):
    begin: int
    end: int
    expected: int
    """Bytes."""
    pace: _Pace
    answer: Any


class Bulk:
    """One read of many nodes. `weigh` gives the bytes of one result."""

    def __init__(
        self,
        session: Session,
        request: type[ReadNodes] | type[ListNodes],
        paths: Sequence[str],
        weigh: Callable[[Any], int],
    ) -> None:
        self._session, self._request, self._paths, self._weigh = session, request, paths, weigh
        self._paces: dict[str, _Pace] = {}
        self._flying: deque[_Flying] = deque()
        self._next = 0
        """Position of the first path that has not been asked for."""

    def run(self) -> list[Any]:
        """Returns one result per path, None for a node that does not exist. Raises KazooException, KazooTimeoutError,
        ValueError."""
        found: list[Any] = []
        losses = 0
        while len(found) < len(self._paths):
            identity = self._session.id
            self._send()
            try:
                found += self._take()
                losses = 0
            except ConnectionLoss:
                losses += 1
                self._wait_for_connection(identity, losses)
                self._again(len(found))
        return found

    def _send(self) -> None:
        while self._next < len(self._paths):
            flight = self._planned()
            nodes = sum(other.end - other.begin for other in self._flying) + flight.end - flight.begin
            expected = sum(other.expected for other in self._flying) + flight.expected
            if self._flying and (nodes > FLYING_NODES or expected > FLYING_BYTES):
                return
            answer = self._session.send(self._request(self._paths[flight.begin : flight.end]))
            self._flying.append(flight._replace(answer=answer))
            self._next = flight.end

    def _planned(self) -> _Flying:
        begin = end = self._next
        kind = _folder(self._paths[begin])
        pace = self._paces.setdefault(kind, _Pace())
        while end < len(self._paths) and end - begin < pace.nodes and _folder(self._paths[end]) == kind:
            end += 1
        return _Flying(begin, end, (end - begin) * pace.largest, pace, None)

    def _take(self) -> list[Any]:
        first = self._flying[0]
        results: list[Any] = self._session.wait(first.answer)
        self._flying.popleft()
        first.pace.seen(max(self._weigh(result) for result in results if result is not None) if any(results) else 0)
        return results

    def _wait_for_connection(self, identity: int | None, losses: int) -> None:
        """Raises ConnectionLoss. In another session, nodes that were read before may be newer than the next answers."""
        session = self._session
        if losses >= LOSSES or session.closed or not session.connected.wait(session.timeout) or session.id != identity:
            raise ConnectionLoss(f"the connection was lost {losses} times while nodes were read")

    def _again(self, position: int) -> None:
        """Everything from the first path without a result on, in smaller requests."""
        for pace in {flight.pace for flight in self._flying}:
            pace.lost()
        self._flying.clear()
        self._next = position


def _folder(path: str) -> str:
    """Two levels above: of a record, the node of its kind."""
    return path.rsplit("/", 2)[0]
