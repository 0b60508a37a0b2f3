"""mesos.transport.question, reach, operator: questions to a master beside the calls of the scheduler."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from bcs_scheduler.mesos.errors import CallRefused, ConnectionBroken
from bcs_scheduler.mesos.settings import MesosSettings
from bcs_scheduler.mesos.transport import operator
from bcs_scheduler.mesos.transport.http import Master
from bcs_scheduler.mesos.transport.question import ask
from bcs_scheduler.mesos.transport.reach import reaches_master

NOTHING = "/nothing"
"""The server closes the connection in place of an answer."""


class StandInMaster(ThreadingHTTPServer):
    """Answers with what `answers` has for the path: status, headers, body."""

    daemon_threads = True

    def __init__(self) -> None:
        self.answers: dict[str, tuple[int, dict[str, str], bytes]] = {}
        self.asked: list[tuple[str, str, dict[str, str], bytes]] = []
        super().__init__(("127.0.0.1", 0), Answering)

    @property
    def master(self) -> Master:
        return Master("127.0.0.1", self.server_port)


class Answering(BaseHTTPRequestHandler):
    server: StandInMaster

    def do_GET(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.server.asked.append((self.command, self.path, dict(self.headers), body))
        if self.path == NOTHING:
            return
        status, headers, content = self.server.answers.get(self.path, (404, {}, b"not here"))
        self.send_response(status)
        for name, value in {**headers, "Content-Length": str(len(content))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(content)

    do_POST = do_GET

    def log_message(self, format: str, *args: Any) -> None:
        pass


@pytest.fixture
def server() -> Iterator[StandInMaster]:
    with StandInMaster() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture
def nobody() -> Iterator[Master]:
    """Has the port, and does not listen."""
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        yield Master("127.0.0.1", holder.getsockname()[1])


def test_a_question_has_the_headers_that_are_not_empty(server: StandInMaster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    server.answers["/state"] = (200, {"Here": "yes"}, b"words")
    answer = ask(server.master, "/state", {"Authorization": "Basic YTpi", "Empty": ""}, timeout=30)
    assert (answer.status, answer.headers["here"], answer.body) == (200, "yes", b"words")
    (method, path, headers, body) = server.asked[0]
    assert (method, path, body) == ("GET", "/state", b"")
    assert headers["Authorization"] == "Basic YTpi"
    assert headers["Host"] == str(server.master)
    assert "Empty" not in headers
    ask(server.master, "/api/v1", {}, timeout=30, body=b"call")
    assert server.asked[1][::3] == ("POST", b"call")


def test_a_redirect_is_an_answer(server: StandInMaster) -> None:
    server.answers["/state"] = (307, {"Location": "//127.0.0.1:1/state"}, b"")
    assert ask(server.master, "/state", {}, timeout=30).headers["Location"] == "//127.0.0.1:1/state"


def test_a_master_that_does_not_answer_is_a_broken_connection(server: StandInMaster, nobody: Master) -> None:
    with pytest.raises(ConnectionBroken, match=f"{server.master.url}{NOTHING}: .+"):
        ask(server.master, NOTHING, {}, timeout=30)
    with pytest.raises(ConnectionBroken, match="refused"):
        ask(nobody, "/state", {}, timeout=30)


def test_a_silent_master_is_given_up() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent, pytest.raises(ConnectionBroken, match="timed out"):
        ask(Master("127.0.0.1", silent.getsockname()[1]), "/state", {}, timeout=0.1)


def test_counters_are_read_unless_the_master_hides_them(server: StandInMaster) -> None:
    server.answers["/metrics/snapshot"] = (200, {}, json.dumps({"master/slaves_active": 3, "other": 1}).encode())
    assert operator.agent_counters(server.master, {}) == {"master/slaves_active": 3}
    for status in operator.HIDDEN:
        server.answers["/metrics/snapshot"] = (status, {}, b"")
        assert operator.agent_counters(server.master, {}) is None
    server.answers["/metrics/snapshot"] = (500, {}, b"on fire")
    with pytest.raises(CallRefused, match="HTTP 500: on fire"):
        operator.agent_counters(server.master, {})
    server.answers["/metrics/snapshot"] = (200, {}, b"no JSON")
    with pytest.raises(ConnectionBroken, match="/metrics/snapshot: "):
        operator.agent_counters(server.master, {})


def test_agents_come_with_the_clock_of_the_master(server: StandInMaster) -> None:
    server.answers["/api/v1"] = (200, {}, b"")
    found, clock = operator.get_agents(server.master, {"Authorization": "Basic YTpi"})
    assert not found.get_agents.agents
    assert clock > 0
    assert server.asked[0][2]["Content-Type"] == "application/x-protobuf"
    server.answers["/api/v1"] = (200, {}, b"no message")
    with pytest.raises(ConnectionBroken, match="GET_AGENTS"):
        operator.get_agents(server.master, {})
    server.answers["/api/v1"] = (403, {}, b"not you")
    with pytest.raises(CallRefused, match="not you"):
        operator.get_agents(server.master, {})


def test_a_master_that_names_a_leader_that_answers_can_be_reached(server: StandInMaster, nobody: Master) -> None:
    def reached() -> bool:
        return reaches_master(MesosSettings(master=server.master.url))

    assert reached()  # it names no other
    server.answers["/redirect"] = (307, {"Location": f"//{server.master}"}, b"")
    assert reached()
    server.answers["/redirect"] = (307, {"Location": f"//{nobody}"}, b"")
    assert not reached()
    server.answers["/redirect"] = (503, {}, b"no leader")
    assert not reached()
    assert not reaches_master(MesosSettings(master=nobody.url))
