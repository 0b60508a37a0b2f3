"""A master whose every answer a test decides: for the faults that a real one does not produce on demand."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from typing import NamedTuple

from bcs_scheduler.mesos.proto import scheduler_pb2
from bcs_scheduler.mesos.transport import http
from bcs_scheduler.net.recordio import encode

Call = scheduler_pb2.Call
Event = scheduler_pb2.Event

ACCEPTED = b"HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\n"


def answer(status: int, body: bytes = b"", *headers: str) -> bytes:
    lines = [f"HTTP/1.1 {status} X", f"Content-Length: {len(body)}", *headers, "", ""]
    return "\r\n".join(lines).encode() + body


def stream_head(stream_id: str = "stream-1") -> bytes:
    return f"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nMesos-Stream-Id: {stream_id}\r\n\r\n".encode()


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


def event_chunk(event: scheduler_pb2.Event) -> bytes:
    return chunk(encode(event.SerializeToString()))


def subscribed(framework_id: str = "f-1", heartbeat: float = 15.0) -> scheduler_pb2.Event:
    event = Event(type=Event.SUBSCRIBED)
    event.subscribed.framework_id.value = framework_id
    event.subscribed.heartbeat_interval_seconds = heartbeat
    return event


class Request(NamedTuple):
    line: str
    headers: dict[str, str]
    body: bytes

    @property
    def path(self) -> str:
        return self.line.split()[1]

    @property
    def call(self) -> scheduler_pb2.Call:
        return Call.FromString(self.body)


class Peer:
    """One accepted connection, as the answering side of a test sees it."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock

    def send(self, data: bytes) -> None:
        self.sock.sendall(data)

    def close(self) -> None:
        http.close(self.sock)


class FakeMaster:
    """Calls `on_request(peer, request)` for each request, in order per connection; each connection has its thread."""

    def __init__(self, on_request: Callable[[Peer, Request], None]) -> None:
        self._on_request = on_request
        self._server = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._server.getsockname()[1]
        self.requests: list[Request] = []
        self.peers: list[Peer] = []
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def calls(self, kind: int) -> list[scheduler_pb2.Call]:
        seen = [request.call for request in list(self.requests) if request.path == "/api/v1/scheduler"]
        return [call for call in seen if call.type == kind]

    def close(self) -> None:
        http.close(self._server)  # also wakes the thread in accept()
        for peer in self.peers:
            peer.close()

    def _accept(self) -> None:
        while True:
            try:
                sock, _ = self._server.accept()
            except OSError:
                return
            peer = Peer(sock)
            self.peers.append(peer)
            threading.Thread(target=self._serve, args=(peer,), daemon=True).start()

    def _serve(self, peer: Peer) -> None:
        reader = peer.sock.makefile("rb")
        try:
            while line := reader.readline().decode().strip():
                headers = {}
                while field := reader.readline().decode().strip():
                    name, _, value = field.partition(":")
                    headers[name.lower()] = value.strip()
                request = Request(line, headers, reader.read(int(headers.get("content-length", "0"))))
                self.requests.append(request)
                self._on_request(peer, request)
        except (OSError, ValueError):
            pass  # closed by either side
