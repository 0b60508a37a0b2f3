"""The TLS side of the API server, in one process: handshakes that never end, what is refused before its body comes."""

from __future__ import annotations

import socket
import ssl
from contextlib import suppress
from pathlib import Path

import pytest
import requests

from bcs_scheduler.api.http import server as server_module
from bcs_scheduler.api.http.app import create_app
from bcs_scheduler.api.http.operation import BASE
from bcs_scheduler.api.http.request_gate import RequestGate
from bcs_scheduler.api.http.server import ApiServer
from bcs_scheduler.api.streams import sse
from bcs_scheduler.security.tls import ServerTls, common_name
from bcs_scheduler.security.tokens import hash_of, read_tokens, token_entry
from bcs_scheduler.security.watched import Broken, WatchedFiles
from tests.component.apiserver import serving
from tests.integration.certificates import Authority
from tests.unit.api_support import CoreGateway
from tests.waiting import wait_for


def test_a_handshake_has_as_much_time_as_a_head(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_module, "HEAD_SECONDS", 0.5)
    authority = Authority(tmp_path)
    pair = authority.give("server")
    server = ApiServer(tls=ServerTls(pair.cert, pair.key).context)
    server.start(create_app(CoreGateway()))
    try:
        address = ("127.0.0.1", int(server.url.rpartition(":")[2]))
        for said in (b"", b"\x16\x03\x01\x02\x00\x01"):
            with socket.create_connection(address, 20) as silent:
                silent.sendall(said)
                assert silent.recv(100) in (b"", b"\x15\x03\x03\x00\x02\x02\x32")  # the end, or an alert before it

        def served() -> bool:
            """On a busy machine, a handshake in order may take longer than the time-out of this test."""
            with suppress(requests.ConnectionError):
                return requests.get(f"{server.url}/version", verify=str(authority.ca), timeout=20).status_code == 200
            return False

        wait_for(served, what="an answer over TLS")
    finally:
        server.stop()


def test_the_body_of_who_may_not_come_in_is_not_waited_for(tmp_path: Path) -> None:
    file = tmp_path / "tokens"
    file.write_text(token_entry("viewer", hash_of("viewer"), "viewer", ["shop"]))
    gate = RequestGate(tokens=WatchedFiles("tokens", [file], lambda: read_tokens(file)))
    with serving(CoreGateway(), gate=gate) as api:
        address = ("127.0.0.1", int(api.url.rpartition(":")[2]))
        for token, status in (("", b"401"), ("Authorization: Bearer viewer\r\n", b"403")):
            for body in ("Content-Length: 1000000", "Transfer-Encoding: chunked"):
                with socket.create_connection(address, 20) as slow:
                    slow.sendall(f"POST {BASE}/configmap HTTP/1.1\r\nHost: a\r\n{token}{body}\r\n\r\n".encode())
                    answer = b""
                    while chunk := slow.recv(4096):  # until the server closes
                        answer += chunk
                assert answer.split()[1] == status and b"connection: close" in answer.lower()


def test_a_stream_ends_when_its_token_is_revoked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sse, "HEARTBEAT", 0.1)
    file = tmp_path / "tokens"
    file.write_text(token_entry("viewer", hash_of("viewer"), "viewer", ["shop"]))
    tokens = WatchedFiles("tokens", [file], lambda: read_tokens(file))
    with serving(CoreGateway(), gate=RequestGate(tokens=tokens)) as api:
        stream = api.get("/events/watch", headers={"Authorization": "Bearer viewer"}, stream=True)
        lines = stream.iter_lines()
        assert next(lines) == b"retry: 1000"
        file.write_text(token_entry("viewer", hash_of("viewer"), "viewer", ["bank"]))
        tokens.refresh()
        rest = list(lines)
    assert b"event: end" in rest and b'"revoked"' in b"".join(rest)


def test_a_broken_pair_is_no_context(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    one, other = authority.give("one"), authority.give("other")
    with pytest.raises(Broken, match="not a certificate with its key"):
        ServerTls(one.cert, other.key)
    with pytest.raises(Broken, match="no certificates in PEM"):
        ServerTls(one.cert, one.key, one.key)
    made = ServerTls(one.cert, one.key, authority.ca)
    assert made.context.minimum_version == ssl.TLSVersion.TLSv1_2


def test_the_common_name_is_the_subject_s_alone() -> None:
    subject = ((("countryName", "DE"),), (("commonName", "ops"),))
    issuer = ((("commonName", "authority"),),)
    assert common_name({"subject": subject, "issuer": issuer}) == "ops"
    assert common_name({"issuer": issuer}) == common_name({}) == common_name(None) == ""
