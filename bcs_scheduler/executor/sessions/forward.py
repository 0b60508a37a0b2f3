"""A connection to a port of a task, over standard input and output."""

from __future__ import annotations

import contextlib
import os
import socket
import sys
from collections.abc import Sequence
from functools import partial

from .. import threads

CHUNK = 64 * 1024
PATIENCE = 5.0
"""Seconds for a connection to be made."""
NO_CONNECTION = 1


def forward(hosts: Sequence[str], port: int) -> int:
    """Copies both directions until the task has closed the connection. Returns an exit code."""
    connection = None
    reason = "the task has no address"
    for host in hosts:
        try:
            connection = socket.create_connection((host, port), PATIENCE)
            break
        except OSError as error:
            reason = str(error.strerror or error).lower()
    if connection is None:
        sys.stderr.write(f"bcs: port {port}: {reason}\n")
        sys.stderr.flush()
        return NO_CONNECTION
    with connection:
        connection.settimeout(None)
        threads.ending("session input", partial(_send, connection)).start()
        with contextlib.suppress(OSError):
            while data := connection.recv(CHUNK):
                _write(data)
    return 0


def _send(connection: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while data := os.read(0, CHUNK):
            connection.sendall(data)
        connection.shutdown(socket.SHUT_WR)


def _write(data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(1, view) :]
