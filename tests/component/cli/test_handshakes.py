"""The handshake of a session with a server that fails: one error for the user, and nothing else."""

from __future__ import annotations

import socket
import threading

import pytest

from bcs_scheduler.cli.client.credentials import Credentials
from bcs_scheduler.cli.client.session_line import open_session
from bcs_scheduler.cli.errors import CliError

HANDSHAKES = 300


def test_an_answer_that_goes_on_after_its_end_gives_one_error_and_no_traceback(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A server that goes away in the middle of an answer: one of 60 handshakes made the library log a traceback."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        for _ in range(HANDSHAKES):
            server = threading.Thread(target=_answer_too_much, args=(listener,), daemon=True)
            server.start()
            with pytest.raises(CliError, match="does not offer sessions"):
                open_session(url, Credentials(), "/session", {}, {}, 1.0)
            server.join(30)
    assert caplog.records == []


def _answer_too_much(listener: socket.socket) -> None:
    connection, _ = listener.accept()
    with connection:
        while not connection.recv(65536).endswith(b"\r\n\r\n"):
            pass
        connection.sendall(b"HTTP/1.1 404 Not Found\r\nContent-Length: 2\r\n\r\n{}")
        while True:  # until the client has closed the connection
            try:
                connection.sendall(b"more")
            except OSError:
                return
