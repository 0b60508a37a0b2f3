"""Many connections, sessions and watches of one client leave places for others, and health is always answered."""

from __future__ import annotations

import http.client
import json
import socket
import ssl
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from bcs_scheduler.api.http.app import create_app
from bcs_scheduler.api.http.connections import RETRY, Connections
from bcs_scheduler.api.http.operation import BASE, ApiSettings
from bcs_scheduler.api.http.request_gate import RequestGate
from bcs_scheduler.api.http.server import ApiServer
from bcs_scheduler.leadership.hub import Hub
from bcs_scheduler.observability.exposition import PREFIX
from bcs_scheduler.observability.metrics import Metrics
from bcs_scheduler.security.audit import Audit
from bcs_scheduler.security.proxies import TrustedProxies, read_networks
from bcs_scheduler.security.tls import ServerTls
from bcs_scheduler.security.tokens import hash_of, read_tokens, token_entry
from bcs_scheduler.security.watched import WatchedFiles
from tests.integration.certificates import Authority
from tests.unit.api_support import CoreGateway
from tests.waiting import wait_for

IDLE = 2000
OTHER = ("127.0.0.2", 0)
PROMPT = 10.0
"""Seconds for answers that wait for nothing: a busy machine may need some. Idle connections stay for 75 s."""
EVENTS = f"{BASE}/events/watch"


class Server:
    def __init__(
        self, folder: Path, connections: Connections, metrics: Metrics, proxies: TrustedProxies, **settings: Any
    ) -> None:
        self.gateway, self.metrics, self.connections = CoreGateway(), metrics, connections
        self.audit = folder / "audit"
        tokens = folder / "tokens.toml"
        tokens.write_text("\n".join(token_entry(name, hash_of(name), "admin", ["*"]) for name in ("ci", "ops")))
        gate = RequestGate(
            tokens=WatchedFiles("tokens", [tokens], lambda: read_tokens(tokens)),
            audit=Audit(self.audit),
            refused=metrics.refused,
        )
        app = create_app(self.gateway, ApiSettings(**settings), gate)
        self._server = ApiServer(connections=connections, proxies=proxies)
        self._server.start(app)
        self.port = int(self._server.url.rpartition(":")[2])
        self._open = ExitStack()
        self.lines: list[http.client.HTTPConnection] = []

    def close(self) -> None:
        self._open.close()
        self._server.stop()

    def connect(self, source: tuple[str, int] = ("127.0.0.1", 0)) -> socket.socket:
        return self._open.enter_context(socket.create_connection(("127.0.0.1", self.port), 60, source))

    def ask(
        self, path: str, source: tuple[str, int] = ("127.0.0.1", 0), token: str = "ci", **headers: str
    ) -> http.client.HTTPResponse:
        """The head of an answer on a new connection. The body may have no end."""
        sent = {"Authorization": f"Bearer {token}"} | {name.replace("_", "-"): text for name, text in headers.items()}
        line = http.client.HTTPConnection("127.0.0.1", self.port, PROMPT, source)
        self._open.callback(line.close)
        self.lines.append(line)
        line.request("GET", path, headers=sent)
        return line.getresponse()

    def measured(self, name: str, **labels: str) -> float:
        return self.metrics.registry.get_sample_value(PREFIX + name, labels) or 0.0


@contextmanager
def serving(
    folder: Path, most: int = 2000, part: float = 0.5, reserve: int = 64, proxies: tuple[str, ...] = (), **settings: Any
) -> Iterator[Server]:
    metrics = Metrics("BCS-1")
    connections = Connections(most, part, reserve, metrics)
    server = Server(folder, connections, metrics, read_networks(proxies), client_share=part, **settings)
    try:
        yield server
    finally:
        server.close()


def refusal(response: http.client.HTTPResponse) -> tuple[int, str, str]:
    """Status, reason and message; checks that the client is told when to try again."""
    assert int(response.headers["Retry-After"]) > 0
    answer = json.loads(response.read())
    return response.status, answer["data"]["reason"], answer["message"]


def test_idle_connections_of_one_address_close_the_api_for_nobody(tmp_path: Path) -> None:
    with serving(tmp_path) as server:
        for _ in range(IDLE):
            server.connect()
        wait_for(lambda: server.measured("api_idle_connections_closed_total") == IDLE - 1000, what="half of them ended")
        for path in ("/healthz", "/readyz", f"{BASE}/applications"):
            for source in (("127.0.0.1", 0), OTHER):
                began = time.monotonic()
                assert server.ask(path, source).status == 200, (path, source)
                assert time.monotonic() - began < PROMPT
        assert server.measured("api_connections") == len(server.connections) <= 1006


def test_the_oldest_idle_connection_goes_first_and_used_ones_stay(tmp_path: Path) -> None:
    with serving(tmp_path, most=4, part=1.0) as server:
        used = http.client.HTTPConnection("127.0.0.1", server.port, PROMPT)
        used.connect()
        idle = [server.connect() for _ in range(2)]
        wait_for(lambda: len(server.connections) == 3, what="three connections")
        used.request("GET", "/healthz")
        assert used.getresponse().read()
        late = [server.connect() for _ in range(2)]
        idle[0].settimeout(60)
        assert idle[0].recv(1) == b"", "the first idle one has ended"
        used.request("GET", "/healthz")
        assert used.getresponse().status == 200, "the connection is the same"
        assert [line.fileno() > 0 for line in late] == [True, True]
        used.close()


def test_when_all_places_are_busy_health_is_answered_and_others_are_told_when_to_return(tmp_path: Path) -> None:
    with serving(tmp_path, most=3, part=1.0) as server:
        for _ in range(3):
            assert server.ask(EVENTS).status == 200
        for _ in range(5):
            assert server.ask("/healthz").status == 200
            assert server.ask("/readyz", OTHER).status == 200
        status, reason, message = refusal(server.ask(f"{BASE}/applications", OTHER, "ops"))
        assert (status, reason) == (503, "too_many_connections")
        assert message == f"all 3 connections of the scheduler are in use; try again in {RETRY}s"
        assert server.measured("api_refused_total", reason="too_many_connections") == 1.0
        wait_for(lambda: len(server.connections) == 3, what="the reserve is free again")


def test_an_address_with_its_share_busy_leaves_places_for_others(tmp_path: Path) -> None:
    with serving(tmp_path, most=4) as server:
        for _ in range(2):
            assert server.ask(EVENTS).status == 200
        status, reason, message = refusal(server.ask(f"{BASE}/applications"))
        assert (status, reason) == (503, "too_many_connections")
        assert message.startswith("address 127.0.0.1 uses 2 connections, which is the maximum")
        assert server.ask("/healthz").status == 200
        assert server.ask(f"{BASE}/applications", OTHER, "ops").status == 200


def test_a_caller_has_its_share_from_all_addresses(tmp_path: Path) -> None:
    with serving(tmp_path, most=4) as server:
        assert server.ask(EVENTS).status == 200
        assert server.ask(EVENTS, OTHER).status == 200
        status, reason, message = refusal(server.ask(f"{BASE}/applications", ("127.0.0.3", 0)))
        assert (status, reason) == (503, "too_many_connections")
        assert message.startswith("token ci uses 2 connections")
        assert server.ask(f"{BASE}/applications", ("127.0.0.3", 0), "ops").status == 200


def test_behind_proxies_the_address_is_that_of_the_client(tmp_path: Path) -> None:
    """In the bounds, and in the audit log. A client that is no trusted proxy can say nothing."""
    with serving(tmp_path, most=4, proxies=("127.0.0.2",)) as server:
        for _ in range(2):
            assert server.ask(EVENTS, OTHER, X_Forwarded_For="8.8.8.8, 10.0.0.1").status == 200
        words = refusal(server.ask(f"{BASE}/applications", OTHER, "ops", X_Forwarded_For="10.0.0.1"))[2]
        assert words.startswith("address 10.0.0.1 uses 2 connections")
        assert server.ask(f"{BASE}/applications", OTHER, "ops", X_Forwarded_For="10.0.0.2").status == 200
        for source, host in ((OTHER, "10.0.0.3"), (("127.0.0.1", 0), "127.0.0.1")):
            line = http.client.HTTPConnection("127.0.0.1", server.port, PROMPT, source)
            head = {"Authorization": "Bearer ops", "X-Forwarded-For": "10.0.0.3"}
            line.request("DELETE", f"{BASE}/namespaces/shop/applications/none", headers=head)
            line.getresponse().read()
            line.close()
            assert json.loads(server.audit.read_text().splitlines()[-1])["address"] == host


def test_a_caller_and_an_address_have_a_share_of_the_watches(tmp_path: Path) -> None:
    with serving(tmp_path, most=1000) as server:
        server.gateway.follow = Hub(most=4, state=server.gateway.core.state)
        lines = [server.ask(EVENTS, OTHER) for _ in range(2)]
        assert [line.status for line in lines] == [200, 200]
        status, reason, message = refusal(server.ask(EVENTS, ("127.0.0.3", 0)))
        assert (status, reason) == (503, "too_many_watchers")
        assert message == "token ci has 2 watches and streams, which is the maximum for one address and one caller"
        assert refusal(server.ask(EVENTS, OTHER, "ops"))[2].startswith("address 127.0.0.2 has 2 watches")
        assert server.ask(EVENTS, ("127.0.0.3", 0), "ops").status == 200
        assert server.measured("api_refused_total", reason="too_many_watchers") == 2.0
        lines[0].close()
        server.lines[0].close()
        wait_for(lambda: server.gateway.follow.watchers == 2, what="the end of a watch")
        assert server.ask(EVENTS, ("127.0.0.3", 0)).status == 200, "a place was given back"


@pytest.mark.parametrize("head", [b"GET ", b"GET /healthz HTTP/1.1\r\nHost: x\r\nX: "])
def test_slow_heads_count_as_idle(tmp_path: Path, head: bytes) -> None:
    with serving(tmp_path, most=8, part=1.0, reserve=4) as server:
        for _ in range(20):
            server.connect().sendall(head)
        for _ in range(3):
            assert server.ask("/healthz", OTHER).status == 200
            assert server.ask(f"{BASE}/applications", OTHER).status == 200


def test_handshakes_that_do_not_end_close_the_api_for_nobody(tmp_path: Path) -> None:
    """Connections have places before their handshakes."""
    authority = Authority(tmp_path)
    pair = authority.give("server")
    connections = Connections(20, 0.5, 4)
    app = create_app(CoreGateway())
    server = ApiServer(tls=ServerTls(pair.cert, pair.key).context, connections=connections)
    server.start(app)
    address = ("127.0.0.1", int(server.url.rpartition(":")[2]))
    try:
        with ExitStack() as opened:
            for number in range(100):
                line = opened.enter_context(socket.create_connection(address, 60))
                if number % 2:
                    line.sendall(b"\x16\x03\x01\x02\x00")
            wait_for(lambda: len(connections) == 10, what="those of one address")
            trusted = ssl.create_default_context(cafile=str(authority.ca))
            for source in (("127.0.0.1", 0), OTHER):
                for path in ("/healthz", "/version"):
                    asked = http.client.HTTPSConnection(
                        "localhost", address[1], timeout=PROMPT, source_address=source, context=trusted
                    )
                    opened.callback(asked.close)
                    for _ in range(2):
                        asked.request("GET", path)
                        answer = asked.getresponse()
                        assert (answer.status, len(answer.read()) > 10) == (200, True), "on one connection"
        wait_for(lambda: len(connections) == 0, what="the end of all connections")
    finally:
        server.stop()
