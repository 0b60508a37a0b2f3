"""A gate in a TCP connection: closed, it holds up what is sent, as a network does that has lost the way."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from contextlib import suppress


class Gate:
    """Listens at `address` (``host:port``) and forwards connections to 127.0.0.1:`port`."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._open = threading.Event()
        self._open.set()
        self._refusing = False
        self._ends: list[socket.socket] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        self._open.clear()

    def cut(self) -> None:
        """Ends all connections and takes no new ones until `open`: what is sent meanwhile is lost, not held up."""
        self._refusing = True
        ends, self._ends = self._ends, []
        for end in ends:
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()

    def open(self) -> None:
        """What was held up goes on."""
        self._refusing = False
        self._open.set()

    def stop(self) -> None:
        """Ends all connections."""
        self._open.set()
        for end in (self._listener, *self._ends):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                near, _ = self._listener.accept()
                if self._refusing:
                    near.close()
                    continue
                self._ends.append(near)
                threading.Thread(target=self._connect, args=(near,), daemon=True).start()

    def _connect(self, near: socket.socket) -> None:
        self._open.wait()
        try:
            far = socket.create_connection(("127.0.0.1", self._port))
        except OSError:
            near.close()
            return
        self._ends.append(far)
        threading.Thread(target=self._forward, args=(far, near), daemon=True).start()
        self._forward(near, far, self._passes)

    def _passes(self, data: bytes) -> bool:
        """Whether a piece that a client has sent goes on to the server; else it is lost."""
        return True

    def _forward(
        self, source: socket.socket, target: socket.socket, passes: Callable[[bytes], bool] = lambda data: True
    ) -> None:
        with suppress(OSError):
            while data := source.recv(65536):
                self._open.wait()
                if passes(data):
                    target.sendall(data)
        for end in (source, target):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
