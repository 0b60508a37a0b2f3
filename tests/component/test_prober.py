"""bcs_scheduler.prober: what a probe sees on real sockets, when it is probed, what is reported."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest

from bcs_scheduler.core.interface.inputs import HealthReported
from bcs_scheduler.prober import prober as prober_module
from bcs_scheduler.prober.probe import LARGEST_BODY, Verdict, _request, probe
from bcs_scheduler.prober.prober import Prober, phase
from bcs_scheduler.prober.targets import Kind, KnownTarget, ProbeTarget
from store.records import CheckResult
from tests.waiting import wait_for

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
Serve = Callable[[socket.socket], None]


class Server:
    """Answers each connection by `serve`, in a thread of its own."""

    def __init__(self, serve: Serve) -> None:
        self._serve = serve
        self._listening = socket.create_server(("127.0.0.1", 0), backlog=512)
        self.port: int = self._listening.getsockname()[1]
        self.requests: list[bytes] = []
        self.accepted = 0
        self._open: list[socket.socket] = []
        threading.Thread(target=self._run, daemon=True).start()

    def _run(self) -> None:
        while True:
            try:
                line, _ = self._listening.accept()
            except OSError:
                return
            self.accepted += 1
            self._open.append(line)
            threading.Thread(target=self._answer, args=(line,), daemon=True).start()

    def _answer(self, line: socket.socket) -> None:
        with contextlib.suppress(OSError):
            self.requests.append(line.recv(4096))
            self._serve(line)

    def close(self) -> None:
        for line in (self._listening, *self._open):
            with contextlib.suppress(OSError):
                line.shutdown(socket.SHUT_RDWR)
            line.close()


@pytest.fixture
def server() -> Iterator[Callable[[Serve], Server]]:
    made: list[Server] = []

    def make(serve: Serve) -> Server:
        made.append(Server(serve))
        return made[-1]

    yield make
    for one in made:
        one.close()


@pytest.fixture
def probing() -> Iterator[Callable[..., Prober]]:
    made: list[Prober] = []

    def make(*args: Any, **options: Any) -> Prober:
        made.append(Prober(*args, **{"concurrency": 16, "clock": time.time, "refresh": 0.02, **options}))
        made[-1].start()
        return made[-1]

    yield make
    for one in made:
        one.stop()


def sends(answer: bytes) -> Serve:
    def serve(line: socket.socket) -> None:
        line.sendall(answer)
        line.close()

    return serve


def hangs(line: socket.socket) -> None:
    """Says nothing until the other side goes."""
    line.recv(1)


def refusing() -> int:
    """A port on which nobody listens: programs get no port below 1024 by chance."""
    return 1


def probe_target(port: int, kind: Kind = "REMOTE_HTTP", **fields: Any) -> ProbeTarget:
    given = {
        "task_id": "1.0.0.web.ns.c", "host": "127.0.0.1", "delay": 0.0, "grace_period": 0.0, "interval": 10.0,
        "timeout": 30.0, "started_at": 0.0,
    }  # fmt: skip
    return ProbeTarget(**{**given, "type": kind, "port": port, **fields})


def seen(found: ProbeTarget) -> Verdict:
    return asyncio.run(probe(found))


# --- one probe ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("answer", "healthy", "message"),
    [
        (OK, True, "200"),
        (b"HTTP/1.1 204 No Content\r\n\r\n", True, "204"),
        (b"HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 0\r\n\r\n", True, "302"),
        (b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n", False, "404"),
        (b"HTTP/1.1 500 Oops\r\nContent-Length: 4\r\n\r\noops", False, "500"),
        (b"HTTP/1.1 100 Continue\r\n\r\n" + OK, True, "200"),
        (b"HTTP/1.0 200 OK\r\n\r\nuntil the end", True, "200"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\ntorn", True, "200"),
        (b"220 mail.example.com ESMTP\r\n", False, "the answer is not HTTP"),
        (b"\0\1\2\3" * 100, False, "the answer is not HTTP"),
        (b"", False, "the connection was closed without an answer"),
        (b"HTTP/1.1 20", False, "the connection was closed without an answer"),
    ],
)
def test_answers(server: Callable[[Serve], Server], answer: bytes, healthy: bool, message: str) -> None:
    assert seen(probe_target(server(sends(answer)).port)) == Verdict(healthy, message)


def test_a_huge_body_is_cut(server: Callable[[Serve], Server]) -> None:
    sent: list[int] = []

    def endless(line: socket.socket) -> None:
        line.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
        sent.append(0)
        while True:
            sent[0] += line.send(b"x" * 4096)

    assert seen(probe_target(server(endless).port)) == Verdict(True, "200")
    assert sent[0] > LARGEST_BODY // 2


def test_a_head_without_end_is_cut(server: Callable[[Serve], Server]) -> None:
    def endless(line: socket.socket) -> None:
        line.sendall(b"HTTP/1.1 200 OK\r\n")
        while True:
            line.sendall(b"X-Header: " + b"x" * 1000 + b"\r\n")

    found = seen(probe_target(server(endless).port))
    assert not found.healthy and found.message in ("the answer has no end of its head", "the answer is not HTTP")


def test_a_hanging_target_times_out(server: Callable[[Serve], Server]) -> None:
    assert seen(probe_target(server(hangs).port, timeout=0.2)) == Verdict(
        False, "timed out after 0.2 s", timed_out=True
    )


def test_a_slow_body_does_not_hide_the_status(server: Callable[[Serve], Server]) -> None:
    def slow(line: socket.socket) -> None:
        line.sendall(b"HTTP/1.1 503 Busy\r\nContent-Length: 100\r\n\r\n")
        hangs(line)

    assert seen(probe_target(server(slow).port, timeout=3.0)) == Verdict(False, "503")


def test_nobody_listens() -> None:
    assert seen(probe_target(refusing())) == Verdict(False, "connection refused")
    assert seen(probe_target(refusing(), "REMOTE_TCP")) == Verdict(False, "connection refused")


def test_a_host_that_does_not_exist() -> None:
    found = seen(probe_target(80, host="no-such-host.invalid"))
    assert not found.healthy and found.message


def test_tcp_needs_a_connection_only(server: Callable[[Serve], Server]) -> None:
    assert seen(probe_target(server(hangs).port, "REMOTE_TCP")) == Verdict(True, "connected")


def test_tls_with_something_else(server: Callable[[Serve], Server]) -> None:
    found = seen(probe_target(server(sends(b"not tls at all")).port, scheme="https"))
    assert not found.healthy and found.message.startswith("TLS: ")


def test_the_request(server: Callable[[Serve], Server]) -> None:
    made = server(sends(OK))
    seen(probe_target(made.port, path="health?full=1 2", headers=(("X-Who", "me"), ("Host", "web"))))
    assert made.requests[0] == (
        b"GET /health?full=1%202 HTTP/1.1\r\nHost: web\r\nUser-Agent: bcs-scheduler\r\nAccept: */*\r\n"
        b"X-Who: me\r\nConnection: close\r\n\r\n"
    )


def test_a_header_cannot_break_out_of_its_line() -> None:
    assert b"X: 1GET / HTTP/1.1\r\n" in _request(probe_target(80, headers=(("X", "1\r\nGET / HTTP/1.1"),)))


def test_headers_are_not_shown() -> None:
    assert "s3cret" not in repr(probe_target(80, headers=(("Authorization", "s3cret"),)))


# --- when, and what is reported -----------------------------------------------------------------------------------


def target(found: ProbeTarget, healthy: bool | None = None, message: str = "") -> KnownTarget:
    return KnownTarget(found, CheckResult(type=found.type, healthy=healthy, message=message))


def quick(port: int, number: int = 0, **fields: Any) -> ProbeTarget:
    return probe_target(port, **{"interval": 0.5, "task_id": f"{number}.0.0.web.ns.c", **fields})


class Inbox:
    """Takes reports, and like the core makes them what is known."""

    def __init__(self, *found: KnownTarget) -> None:
        self.targets = {(t.probe_target.task_id, t.probe_target.type): t for t in found}
        self.events: list[HealthReported] = []
        self.refusing = False

    def look(self) -> list[KnownTarget]:
        return list(self.targets.values())

    def take(self, event: HealthReported) -> None:
        if self.refusing:
            raise RuntimeError("full")
        self.events.append(event)
        key = (event.task_id, event.type)
        known = CheckResult(type=event.type, healthy=event.healthy, message=event.message)
        self.targets[key] = replace(self.targets[key], known=known)


def test_only_changes_are_reported(server: Callable[[Serve], Server], probing: Callable[..., Prober]) -> None:
    answers = {"now": OK}
    made = server(lambda line: sends(answers["now"])(line))
    inbox = Inbox(target(quick(made.port)))
    prober = probing(inbox.look, inbox.take)
    wait_for(lambda: prober.status()["probes"] >= 3)
    assert [(e.healthy, e.message) for e in inbox.events] == [(True, "200")]
    answers["now"] = OK.replace(b"200", b"500")
    wait_for(lambda: len(inbox.events) == 2)
    answers["now"] = OK.replace(b"200", b"503")
    wait_for(lambda: len(inbox.events) == 3)
    answers["now"] = OK
    wait_for(lambda: len(inbox.events) == 4)
    assert [(e.healthy, e.message) for e in inbox.events[1:]] == [(False, "500"), (False, "503"), (True, "200")]
    assert inbox.events[0] == HealthReported(
        cause="prober", task_id="0.0.0.web.ns.c", type="REMOTE_HTTP", healthy=True, message="200"
    )


def test_a_refused_report_comes_again(server: Callable[[Serve], Server], probing: Callable[..., Prober]) -> None:
    inbox = Inbox(target(quick(server(sends(OK)).port)))
    inbox.refusing = True
    prober = probing(inbox.look, inbox.take)
    wait_for(lambda: prober.status()["probes"] >= 2)
    inbox.refusing = False
    wait_for(lambda: inbox.events)


def test_a_report_that_does_not_show_in_the_state_comes_again(
    server: Callable[[Serve], Server], probing: Callable[..., Prober], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(prober_module, "REPEAT", 0.6)
    events: list[HealthReported] = []
    found = target(quick(server(sends(OK)).port))
    prober = probing(lambda: [found], events.append)
    wait_for(lambda: len(events) == 2)
    assert prober.status()["probes"] > len(events)


def test_failures_within_the_grace_period_do_not_count(probing: Callable[..., Prober]) -> None:
    port = refusing()
    young = target(quick(port, 1, started_at=time.time(), grace_period=3600.0))
    known = target(quick(port, 2, started_at=time.time(), grace_period=3600.0), healthy=True, message="200")
    old = target(quick(port, 3, started_at=time.time() - 10.0, grace_period=5.0))
    inbox = Inbox(young, known, old)
    prober = probing(inbox.look, inbox.take)
    wait_for(lambda: prober.status()["probes"] >= 9)
    assert {e.task_id[0] for e in inbox.events} == {"2", "3"}


def test_the_first_probe_waits_for_the_delay(server: Callable[[Serve], Server], probing: Callable[..., Prober]) -> None:
    made = server(sends(OK))
    late = target(quick(made.port, 1, started_at=time.time(), delay=3600.0))
    inbox = Inbox(late, target(quick(made.port, 2)))
    prober = probing(inbox.look, inbox.take)
    wait_for(lambda: prober.status()["probes"] >= 3)
    assert {e.task_id[0] for e in inbox.events} == {"2"}


def test_hanging_targets_do_not_hold_up_others(
    server: Callable[[Serve], Server], probing: Callable[..., Prober]
) -> None:
    stuck, fine = server(hangs), server(sends(OK))
    inbox = Inbox(*(target(quick(stuck.port, n, timeout=3600.0)) for n in range(50)), target(quick(fine.port, 99)))
    answering = Inbox(target(quick(fine.port, 99), healthy=True))
    prober = probing(answering.look, inbox.take, concurrency=8)
    wait_for(lambda: prober.status()["probes"] >= 1)
    answering.targets.update(inbox.targets)
    wait_for(lambda: prober.status()["running"] >= 6 and prober.status()["queued"] >= 40)
    before = fine.accepted
    wait_for(lambda: fine.accepted >= before + 4)
    assert stuck.accepted <= 6, "three quarters of eight places for targets that have not answered yet"


def test_places_are_bounded(server: Callable[[Serve], Server], probing: Callable[..., Prober]) -> None:
    made = server(hangs)
    found = [target(quick(made.port, n, timeout=3600.0), healthy=True) for n in range(20)]
    prober = probing(lambda: found, print, concurrency=4)
    wait_for(lambda: prober.status()["queued"] == 17)
    assert prober.status()["running"] == 3


def test_targets_that_go_are_forgotten(server: Callable[[Serve], Server], probing: Callable[..., Prober]) -> None:
    made = server(sends(OK))
    inbox = Inbox(target(quick(made.port)))
    prober = probing(inbox.look, inbox.take)
    wait_for(lambda: inbox.events)
    inbox.targets.clear()
    wait_for(lambda: prober.status()["targets"] == 0)
    wait_for(lambda: prober.status()["running"] == 0)
    probes = prober.status()["probes"]
    inbox.targets[("9", "REMOTE_HTTP")] = target(quick(made.port, 9))
    wait_for(lambda: prober.status()["probes"] > probes + 1)
    assert inbox.events[-1].task_id.startswith("9.")


def test_a_failing_look_at_the_targets_is_not_the_end(
    server: Callable[[Serve], Server], probing: Callable[..., Prober]
) -> None:
    looks: list[int] = []
    inbox = Inbox(target(quick(server(sends(OK)).port)))

    def look() -> list[KnownTarget]:
        looks.append(1)
        if len(looks) == 1:
            raise RuntimeError("dictionary changed size during iteration")
        return inbox.look()

    probing(look, inbox.take)
    wait_for(lambda: inbox.events)


def test_stop_ends_the_thread_whatever_is_under_way(
    server: Callable[[Serve], Server], probing: Callable[..., Prober]
) -> None:
    made = server(hangs)
    found = [target(quick(made.port, n, timeout=3600.0)) for n in range(3)]
    events: list[HealthReported] = []
    prober = probing(lambda: found, events.append)
    wait_for(lambda: prober.status()["running"] == 3)
    prober.stop()
    assert "prober" not in {thread.name for thread in threading.enumerate()}
    assert events == []
    prober.stop()


def test_phases_are_spread_and_stay() -> None:
    phases = [phase(probe_target(1, task_id=f"{n}.0.{n}.web.ns.c")) for n in range(1000)]
    assert phases == [phase(probe_target(2, task_id=f"{n}.0.{n}.web.ns.c")) for n in range(1000)]
    tenths = [sum(1 for p in phases if int(p * 10) == tenth) for tenth in range(10)]
    assert min(tenths) > 60 and max(tenths) < 140


def test_every_probe_is_counted(server: Callable[[Serve], Server], probing: Callable[..., Prober]) -> None:
    counted: list[tuple[str, Verdict, float]] = []
    found = [target(quick(server(sends(OK)).port)), target(quick(refusing(), type="REMOTE_TCP"))]
    probing(lambda: found, lambda event: None, counted=lambda *probe: counted.append(probe))
    wait_for(lambda: len({kind for kind, _, _ in counted}) == 2)
    assert {(kind, verdict.healthy) for kind, verdict, _ in counted} == {("REMOTE_HTTP", True), ("REMOTE_TCP", False)}
    assert all(0.0 <= lag < 60.0 for _, _, lag in counted)


def test_a_refused_address_is_told_and_never_connected_to(server: Callable[[Serve], Server]) -> None:
    listening = server(sends(OK))
    assert seen(probe_target(listening.port, refused="a local address")) == Verdict(False, "a local address")
    assert listening.accepted == 0
    assert seen(probe_target(listening.port)) == Verdict(True, "200")
    assert listening.accepted == 1
