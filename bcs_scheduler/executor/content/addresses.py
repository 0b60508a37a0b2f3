"""Connections that end in time: every wait is bounded by a deadline and can be given up."""

from __future__ import annotations

import contextlib
import errno
import os
import select
import socket
import threading
import time
from typing import Any
from urllib.parse import urlsplit, urlunsplit

from .. import threads

SLICE = 0.1
"""Longest time in seconds that a wait continues after its end was requested."""


class Abandoned(OSError):
    """The wait was given up on request."""

    def __init__(self) -> None:
        super().__init__("given up: the task is being stopped")


def safe(url: str) -> str:
    """The URL as it may be shown: without credentials, and without the query, which may hold a signature."""
    try:
        parts = urlsplit(url)
        host = parts.netloc.rpartition("@")[2]
    except ValueError:
        return "(unreadable URL)"
    return urlunsplit((parts.scheme, host, parts.path, "", "")) + ("?..." if parts.query else "")


def cause(error: BaseException) -> str:
    """An error in words for users."""
    if isinstance(error, socket.timeout):
        return "timed out"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror[:1].lower() + error.strerror[1:]
    return str(error) or type(error).__name__


def connect(host: str, port: int, deadline: float, stopping: threading.Event | None = None) -> socket.socket:
    """A connected socket, the first of the host's addresses that answers before `deadline` (monotonic seconds).

    Raises OSError: socket.timeout at the deadline, Abandoned when `stopping` is set.
    """
    failure: OSError | None = None
    for family, kind, protocol, _, address in _addresses(host, port, deadline, stopping):
        connection = socket.socket(family, kind, protocol)
        try:
            connection.setblocking(False)
            _connected(connection, address, deadline, stopping)
            connection.settimeout(max(0.001, deadline - time.monotonic()))
            return connection
        except (Abandoned, socket.timeout):
            connection.close()
            raise
        except OSError as error:
            connection.close()
            failure = error
    raise failure or OSError(f"{host} has no address")


def _addresses(host: str, port: int, deadline: float, stopping: threading.Event | None) -> list[Any]:
    """Returns the addresses as getaddrinfo does. A call of getaddrinfo can neither be interrupted nor be given a time:
    names are looked up in a thread of its own, which is left alone if the call takes too long."""
    with contextlib.suppress(socket.gaierror):
        return socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_NUMERICHOST)
    found: list[Any] = []
    failed: list[Exception] = []

    def look_up() -> None:
        try:
            found.extend(socket.getaddrinfo(host, port, type=socket.SOCK_STREAM))
        except (OSError, ValueError) as error:
            failed.append(error)

    thread = threads.ending("look-up", look_up)
    thread.start()
    while thread.is_alive():
        _check(deadline, stopping)
        thread.join(SLICE)
    if failed:
        raise failed[0]
    return found


def _check(deadline: float, stopping: threading.Event | None) -> float:
    """Seconds that are left. Raises socket.timeout and Abandoned."""
    left = deadline - time.monotonic()
    if left <= 0:
        raise socket.timeout("timed out")
    if stopping is not None and stopping.is_set():
        raise Abandoned
    return left


def _connected(connection: socket.socket, address: object, deadline: float, stopping: threading.Event | None) -> None:
    code = connection.connect_ex(address)  # type: ignore[arg-type]
    if code == 0:
        return
    if code != errno.EINPROGRESS:
        raise OSError(code, os.strerror(code))
    poller = select.poll()
    poller.register(connection, select.POLLOUT)
    while True:
        left = _check(deadline, stopping)
        if poller.poll(min(left, SLICE) * 1000):
            failed = connection.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
            if failed:
                raise OSError(failed, os.strerror(failed))
            return
