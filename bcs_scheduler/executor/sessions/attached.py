"""The readers that follow the output of one task: each has a connection to the socket for sessions.

The output itself travels through its files (sessions/follow.py), so that a reader that is slow costs the executor
nothing. A connection carries an empty line after something was printed, and at the end the exit code as JSON.
"""

from __future__ import annotations

import json
import socket
import threading
import time
from functools import partial

from .. import threads

LINGER = 5.0
"""Seconds in which a reader may take the last output after the end of the task."""
RING = b"\n"


class Attached:
    """All methods may be called from any thread."""

    def __init__(self) -> None:
        self._state = threading.Condition()
        self._connections: tuple[socket.socket, ...] = ()
        self._leaving = 0
        """Readers that take the last output."""
        self._end: bytes | None = None

    def add(self, connection: socket.socket) -> None:
        """Owns the connection from now on. The context of the session has been sent already."""
        connection.setblocking(False)
        with self._state:
            gone = [other for other in self._connections if _has_left(other)]
            self._connections = (*(other for other in self._connections if other not in gone), connection)
            over = self._end is not None
        for other in gone:
            other.close()
        if over:
            self._dismiss()
        else:
            self.ring()

    def ring(self) -> None:
        """Reports new output to the readers. Never waits: a reader that has not yet read the last report needs no
        other."""
        for connection in self._connections:
            try:
                connection.send(RING)
            except BlockingIOError:
                continue
            except OSError:
                self._remove(connection)

    def end(self, code: int | None) -> None:
        """The task has ended, and all that was printed is in the files. `code` as in Exit."""
        with self._state:
            self._end = json.dumps({"exit": code}).encode() + b"\n"
        self._dismiss()

    def wait(self, deadline: float) -> None:
        """Returns when all readers have the end, at `deadline` (monotonic seconds) at the latest."""
        with self._state:
            self._state.wait_for(lambda: not self._leaving, max(0.0, deadline - time.monotonic()))

    def _dismiss(self) -> None:
        with self._state:
            leaving, self._connections = self._connections, ()
            self._leaving += len(leaving)
        for connection in leaving:
            threads.ending("attached", partial(self._say_end, connection)).start()

    def _say_end(self, connection: socket.socket) -> None:
        """The reader closes the connection when it has passed on all output."""
        try:
            assert self._end is not None
            connection.settimeout(LINGER)
            with connection:
                connection.sendall(self._end)
                connection.shutdown(socket.SHUT_WR)
                connection.recv(1)
        except OSError:
            pass
        finally:
            with self._state:
                self._leaving -= 1
                self._state.notify_all()

    def _remove(self, connection: socket.socket) -> None:
        with self._state:
            self._connections = tuple(other for other in self._connections if other is not connection)
        connection.close()


def _has_left(connection: socket.socket) -> bool:
    try:
        return not connection.recv(1, socket.MSG_PEEK)
    except BlockingIOError:
        return False
    except OSError:
        return True
