"""Readers of event streams, in a process of their own: `python -m benchmarks.watchers URL READERS [FRAME]`.

FRAME is the name of the frames that are counted (default: event). Prints "watching" when all streams are open. Then
each line on standard input is answered with the number of such frames that all of them together have been told so far.
One thread and no parsing: it runs beside what is measured.
"""

from __future__ import annotations

import socket
import sys
from selectors import EVENT_READ, DefaultSelector
from urllib.parse import urlsplit

PIECE = 256 * 1024
"""Bytes that are read at once."""
TIMEOUT = 30.0
"""Seconds in which a stream must be open."""


class Stream:
    """One reader. `tail`: the end of what came last, which may be half of a mark."""

    def __init__(self, url: str, mark: bytes) -> None:
        self.mark = mark
        parts = urlsplit(url)
        self.socket = socket.create_connection((parts.hostname or "", parts.port or 80), TIMEOUT)
        target = f"?{parts.query}" if parts.query else ""
        self.socket.sendall(f"GET {parts.path}{target} HTTP/1.1\r\nHost: {parts.netloc}\r\n\r\n".encode())
        self.tail = b""

    def open(self) -> None:
        """Waits for the head of the answer: from then on it is told everything."""
        head = b""
        while b"\r\n\r\n" not in head and (piece := self.socket.recv(PIECE)):
            head += piece
        if not head.startswith(b"HTTP/1.1 200 "):
            raise SystemExit(f"no stream: {head.decode()[:200]}")

    def read(self) -> int:
        """Events in what has come."""
        piece = self.socket.recv(PIECE)
        if not piece:
            raise SystemExit("a stream has ended")
        told = (self.tail + piece).count(self.mark)
        self.tail = piece[-len(self.mark) + 1 :]
        return told


def main(url: str, count: int, frame: str = "event") -> None:
    selector, told = DefaultSelector(), 0
    for stream in [Stream(url, f"event: {frame}\n".encode()) for _ in range(count)]:
        stream.open()
        selector.register(stream.socket, EVENT_READ, stream)
    selector.register(sys.stdin, EVENT_READ)
    print("watching", flush=True)
    while True:
        for key, _ in selector.select():
            if key.data is not None:
                told += key.data.read()
            elif sys.stdin.readline():
                print(told, flush=True)
            else:
                return


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), *sys.argv[3:])
