"""The end of a forwarded connection, when the side of the taskgroup fails."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bcs_scheduler.cli.client.sessions.line import Said
from bcs_scheduler.cli.commands.taskgroups.forwarding import Forwarder
from bcs_scheduler.cli.errors import CliError
from tests.waiting import wait_for


class Line:
    """A session that fails as soon as the thread that sends input waits for more of it."""

    def __init__(self) -> None:
        self._sender = 0

    def send(self, data: bytes) -> bool:
        self._sender = threading.get_native_id()
        return True

    def output(self) -> Iterator[Said]:
        wait_for(self._waits, 30, "the sender")
        raise CliError("connection refused")
        yield

    def _waits(self) -> bool:
        return self._sender > 0 and ") S " in Path(f"/proc/self/task/{self._sender}/stat").read_text()

    def end_input(self) -> None:
        pass

    def close(self) -> None:
        pass


class Told:
    """The part of a session of `bcs` that gets warnings."""

    def __init__(self) -> None:
        self.warnings: list[str] = []

    def warn(self, words: str) -> None:
        self.warnings.append(words)


def test_the_connection_of_a_user_ends_with_a_session_that_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    session: Any = Told()
    forwarder = Forwarder(session, "web-0", "")
    monkeypatch.setattr(forwarder, "_open", lambda port: Line())
    user, connection = socket.socketpair()
    with user:
        user.settimeout(30)
        user.sendall(b"hello")
        forwarder._room.acquire()
        forwarder._serve(connection, 80)
        assert user.recv(1) == b""
    assert session.warnings == ["port 80: connection refused"]
