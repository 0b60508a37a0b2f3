"""Local health checks against real servers, sockets and commands."""

from __future__ import annotations

import dataclasses
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from bcs_scheduler.executor.model import Check, CheckState
from bcs_scheduler.executor.runtime import TaskError
from bcs_scheduler.executor.taskgroup import checks
from bcs_scheduler.executor.taskgroup.checks import Checks, next_due
from bcs_scheduler.executor.taskgroup.probes import ProbeFailed, probe
from tests.component.executor.fakeruntime import FakeRuntime
from tests.component.executor.webserver import Web, content, raw, serving, serving_tls, status
from tests.waiting import wait_for


@pytest.fixture
def web() -> Iterator[Web]:
    with serving() as found:
        yield found


def http(port: int, **more: Any) -> Check:
    return dataclasses.replace(Check("HTTP", 0.0, 0.0, 0.1, 30.0, port=port), **more)


def command(line: str, **more: Any) -> Check:
    return dataclasses.replace(Check("COMMAND", 0.0, 0.0, 0.1, 30.0, command=line), **more)


class Watched:
    """Checks that run, and what they told."""

    def __init__(self, *checks: Check, runtime: FakeRuntime | None = None) -> None:
        self.runtime = runtime or FakeRuntime()
        self.changes: list[CheckState] = []
        self.failures: list[str] = []
        self.checks = Checks(checks, self.runtime, self._changed, self.failures.append)

    def _changed(self) -> None:
        self.changes.append(self.checks.states()[0])

    @property
    def state(self) -> CheckState:
        return self.checks.states()[0]

    def until(self, condition: Callable[[CheckState], bool], index: int = 0) -> CheckState:
        return wait_for(
            lambda: (state := self.checks.states()[index]) and condition(state) and state,
            30.0,
            lambda: f"a state, not {self.checks.states()}",
        )


@contextmanager
def watching(*checks: Check, runtime: FakeRuntime | None = None) -> Iterator[Watched]:
    watched = Watched(*checks, runtime=runtime)
    watched.checks.start()
    try:
        yield watched
    finally:
        watched.checks.stop()


@pytest.mark.parametrize("code", [200, 204, 302, 399])
def test_http_from_200_to_399_is_healthy(web: Web, code: int) -> None:
    web.pages["/health"] = status(code, Location="/missing")
    assert probe(http(web.port, path="/health?full=1", headers={"X-Who": "me", "host": "web"}), FakeRuntime()) == str(
        code
    )
    path, headers = web.requests[0]
    assert (path, headers["x-who"], headers["host"], len(web.requests)) == ("/health?full=1", "me", "web", 1)


@pytest.mark.parametrize(
    ("page", "words"),
    [
        (status(404), "^404 Not Found$"),
        (status(503), "^503 Service Unavailable$"),
        (raw(b"SSH-2.0-nonsense\r\n"), "^no HTTP answer$"),
        (raw(b"HTTP/1.1 abc\r\n\r\n"), "^no HTTP answer$"),
        (raw(b"x" * 100_000), "^no HTTP answer$|reset"),
        (raw(b""), "^no HTTP answer$"),
    ],
)
def test_other_http_answers_are_not(web: Web, page: Any, words: str) -> None:
    web.pages["/"] = page
    with pytest.raises(ProbeFailed, match=words):
        probe(http(web.port), FakeRuntime())


def test_a_request_that_cannot_be_sent_is_not(web: Web) -> None:
    for check in (http(web.port, headers={"A": "b\r\nC: d"}), http(web.port, path="/ HTTP/1.0\r\nA: b")):
        with pytest.raises(ProbeFailed, match="cannot be sent"):
            probe(check, FakeRuntime())
    assert web.requests == []


def test_https_is_probed_without_verifying_the_certificate(tmp_path: Path) -> None:
    with serving_tls(tmp_path, "DNS:elsewhere") as (web, _):
        web.pages["/"] = content(b"fine")
        assert probe(http(web.port, scheme="https"), FakeRuntime()) == "200"


def test_tcp_is_healthy_while_somebody_listens() -> None:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        check = Check("TCP", timeout=5.0, port=listener.getsockname()[1])
        with pytest.raises(ProbeFailed, match="connection refused"):
            probe(check, FakeRuntime())
        listener.listen()
        assert probe(check, FakeRuntime()) == "connected"


def test_a_command_is_healthy_with_exit_code_0() -> None:
    runtime = FakeRuntime()
    assert probe(command("test $((1 + 1)) = 2"), runtime) == "exit code 0"
    assert runtime.done == [("execute", ("/bin/sh", "-c", "test $((1 + 1)) = 2"), {}, "", "", False)]
    with pytest.raises(ProbeFailed, match=r"^exit code 3: no disk$"):
        probe(command("echo no disk >&2; exit 3"), runtime)
    with pytest.raises(ProbeFailed, match=r"^exit code 1: y{200}$"):
        probe(command("printf %0300d 0 | tr 0 y; exit 1"), runtime)


@pytest.mark.parametrize("head", [b"", b"HTTP/1.1 20"])
def test_a_probe_ends_within_its_time_out(web: Web, head: bytes) -> None:
    def hang(handler: Any) -> None:
        handler.wfile.write(head)
        web.hang(handler)

    web.pages["/"] = hang
    for check in (http(web.port, timeout=0.3), command("echo slow; exec sleep 600", timeout=0.3)):
        with pytest.raises(ProbeFailed, match=r"^timed out after 0.3 s"):
            probe(check, FakeRuntime())
        assert not web.ending.is_set()


def test_a_server_that_trickles_its_answer_does_not_stretch_the_time_out(web: Web) -> None:
    def trickle(handler: Any) -> None:
        while not web.ending.wait(0.05):
            handler.wfile.write(b"H")

    web.pages["/"] = trickle
    with pytest.raises(ProbeFailed, match="timed out"):
        probe(http(web.port, timeout=0.4), FakeRuntime())


def test_a_body_without_end_does_not_change_the_verdict(web: Web) -> None:
    def endless(handler: Any) -> None:
        handler.wfile.write(b"HTTP/1.1 200 OK\r\n\r\n")
        web.hang(handler)

    web.pages["/"] = endless
    assert probe(http(web.port, timeout=3.0), FakeRuntime()) == "200"


def test_a_task_that_cannot_run_commands_is_not_healthy() -> None:
    def refuse(*done: Any) -> None:
        raise TaskError("the task does not run")

    with pytest.raises(ProbeFailed, match=r"^the task does not run$"):
        probe(command("true"), FakeRuntime(refuse))


def test_health_is_told_when_it_changes_and_only_then(web: Web) -> None:
    web.pages["/"] = status(200)
    with watching(http(web.port)) as watched:
        assert watched.until(lambda state: state.healthy is True) == CheckState("HTTP", True, "200", 0)
        web.pages["/"] = status(204)
        watched.until(lambda state: state.message == "204")
        web.pages["/"] = status(500)
        watched.until(lambda state: state.failures >= 3)
        web.pages["/"] = status(503)
        watched.until(lambda state: state.message == "503 Service Unavailable")
        web.pages["/"] = status(200)
        watched.until(lambda state: state.healthy is True)
    told = [(state.healthy, state.message.partition(" ")[0]) for state in watched.changes]
    assert told == [(True, "200"), (False, "500"), (False, "503"), (True, "200")]
    assert watched.failures == []


def test_too_many_failures_in_a_row_are_told_once() -> None:
    with watching(command("echo sick; exit 1", consecutive_failures=2)) as watched:
        watched.until(lambda state: state.failures >= 5)
    assert watched.failures == ["COMMAND health check failed 3 times in a row: exit code 1: sick"]


def test_a_success_begins_the_count_anew(tmp_path: Path) -> None:
    """Two failures, one success, again and again: never three in a row."""
    line = f"echo x >> {tmp_path}/n; test $(( $(wc -l < {tmp_path}/n) % 3 )) = 0"
    with watching(command(line, consecutive_failures=2)) as watched:
        wait_for(lambda: len(watched.changes) >= 5, 30.0, "changes")
    assert (watched.failures, max(state.failures for state in watched.changes)) == ([], 1)


def test_within_the_grace_period_nothing_is_decided_and_nothing_counted() -> None:
    with watching(command("exit 1", grace_period=600.0, consecutive_failures=1)) as watched:
        watched.until(lambda state: state.message == "exit code 1")
        wait_for(lambda: len(watched.runtime.done) >= 4, 30.0, "probes")
        assert watched.state == CheckState("COMMAND", None, "exit code 1", 0)
    assert (watched.failures, len(watched.changes)) == ([], 1)


def test_a_check_that_was_healthy_may_become_unhealthy_in_the_grace_period(tmp_path: Path) -> None:
    (tmp_path / "well").touch()
    with watching(command(f"test -e {tmp_path}/well", grace_period=600.0, consecutive_failures=1)) as watched:
        watched.until(lambda state: state.healthy is True)
        (tmp_path / "well").unlink()
        assert watched.until(lambda state: state.healthy is False).failures == 0
    assert watched.failures == []


def test_failures_count_when_the_grace_period_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    passed = [0.0]
    monkeypatch.setattr(checks, "time", SimpleNamespace(monotonic=lambda: time.monotonic() + passed[0]))
    with watching(command("exit 1", grace_period=3600.0, consecutive_failures=1)) as watched:
        watched.until(lambda state: state.message == "exit code 1")
        passed[0] = 3600.0
        watched.until(lambda state: state.failures > 1)
    assert [state.healthy for state in watched.changes] == [None, False]
    assert len(watched.failures) == 1


def test_the_first_probe_waits_for_the_delay() -> None:
    began = time.monotonic()
    with watching(command("exit 0", delay=0.4)) as watched:
        assert watched.state == CheckState("COMMAND")
        watched.until(lambda state: state.healthy is True)
    assert time.monotonic() - began >= 0.4


@pytest.mark.parametrize(
    ("now", "following"),
    [(10.0, 12.0), (10.7, 12.0), (11.999, 12.0), (12.0, 14.0), (13.5, 14.0), (99.0, 100.0), (9.0, 12.0)],
)
def test_probes_keep_their_pace(now: float, following: float) -> None:
    """Due at 10 every 2 seconds, whenever the probe ends: no drift, nothing to catch up with."""
    assert next_due(10.0, now, 2.0) == following


def test_probes_never_overlap(tmp_path: Path) -> None:
    line = f"mkdir {tmp_path}/busy && sleep 0.15 && rmdir {tmp_path}/busy"
    with watching(command(line, interval=0.1)) as watched:
        wait_for(lambda: len(watched.runtime.done) >= 5, 30.0, "probes")
    assert [state.healthy for state in watched.changes] == [True]


def test_one_that_hangs_delays_no_other(web: Web) -> None:
    web.pages["/"] = web.hang
    with watching(http(web.port, timeout=130.0), command("exit 0")) as watched:
        watched.until(lambda state: state.healthy is True, 1)
        watched.checks.stop()
        assert "check-http" in {thread.name for thread in threading.enumerate()}, (
            "the stop has not waited for the probe"
        )
        assert watched.state.healthy is None


def test_nothing_is_told_after_the_stop() -> None:
    release, probing = threading.Event(), threading.Event()

    def wait(*done: Any) -> None:
        probing.set()
        release.wait(30.0)

    with watching(command("exit 1", consecutive_failures=1), runtime=FakeRuntime(wait)) as watched:
        assert probing.wait(30.0)
        watched.checks.stop()
        release.set()
        wait_for(lambda: not any(t.name == "check-command" for t in threading.enumerate()), 30.0, "the thread to end")
    assert (watched.changes, watched.failures, watched.state.healthy) == ([], [], None)


def test_a_task_that_is_being_restarted_is_left_alone_and_has_its_grace_again() -> None:
    runtime = FakeRuntime()
    runtime.now = dataclasses.replace(runtime.now, restarting=True)
    with watching(command("exit 1", grace_period=600.0), command("exit 0"), runtime=runtime) as watched:
        runtime.now = dataclasses.replace(runtime.now, restarting=False, started_at=2.0)
        watched.until(lambda state: state.healthy is True, 1)
        watched.until(lambda state: state.message == "exit code 1")
        assert watched.state.failures == 0


def test_whatever_a_runtime_raises_the_checking_goes_on() -> None:
    def broken(*done: Any) -> None:
        raise KeyError("secret")

    with watching(command("exit 0"), runtime=FakeRuntime(broken)) as watched:
        assert watched.until(lambda state: state.healthy is False).message == "could not be probed: KeyError"
        watched.until(lambda state: state.failures >= 2)
