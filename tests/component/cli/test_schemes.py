"""TLS and plain HTTP mixed up: the error says which scheme the server speaks."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from store import threads
from tests.component.cli.standin import StandIn
from tests.integration.certificates import Authority


@pytest.fixture
def tls_port(tmp_path: Path) -> Iterator[int]:
    """A server that makes TLS handshakes, and closes every connection."""
    certificate = Authority(tmp_path).give("server")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate.cert, certificate.key)
    listening = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        while True:
            try:
                connection, _ = listening.accept()
            except OSError:
                return
            try:
                context.wrap_socket(connection, server_side=True).close()
            except OSError:
                connection.close()

    thread = threads.ending("tls", serve)
    thread.start()
    yield listening.getsockname()[1]
    listening.shutdown(socket.SHUT_RDWR)
    listening.close()
    thread.join(30)


def test_plain_http_to_a_server_with_tls(bcs: Any, tls_port: int) -> None:
    result = bcs("--server", f"http://127.0.0.1:{tls_port}", "get", "app")
    assert result.code == 5
    assert f"the server uses TLS: use https://127.0.0.1:{tls_port}" in result.err


def test_tls_to_a_server_without(server: StandIn, bcs: Any) -> None:
    address = server.url.removeprefix("http://")
    result = bcs("--server", f"https://{address}", "get", "app")
    assert result.code == 5
    assert f"the server does not use TLS: use http://{address}" in result.err
