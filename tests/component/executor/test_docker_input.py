"""Containers with an open input, against a stand-in engine: what the engine is asked for, the input and the terminal of
a session, output without line ends, and restarts."""

from __future__ import annotations

import fcntl
import os
import pty
import signal
import struct
import termios
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bcs_scheduler.executor.docker.runtime import ContainerRuntime
from bcs_scheduler.executor.runtime import TaskError
from bcs_scheduler.executor.sessions.contexts import SessionRequest
from tests.component.executor.dockertasks import ID, directory_in, started
from tests.component.executor.standinengine import StandInEngine
from tests.component.executor.test_docker_sessions import Sessions
from tests.waiting import wait_for


@pytest.fixture
def piped(tmp_path: Path, engine: StandInEngine, make: Any) -> Iterator[Sessions]:
    yield Sessions(tmp_path, started(make, stdin=True))


@pytest.fixture
def terminal(tmp_path: Path, engine: StandInEngine, make: Any) -> Iterator[Sessions]:
    yield Sessions(tmp_path, started(make, stdin=True, tty=True))


def output_of(sessions: Sessions, name: str = "stdout") -> bytes:
    """Empty before the file exists."""
    found = directory_in(sessions.sandbox) / name
    return found.read_bytes() if found.exists() else b""


def test_the_engine_is_asked_for_an_input_and_a_terminal(terminal: Sessions, engine: StandInEngine) -> None:
    body = engine.only().body
    assert (body["OpenStdin"], body["StdinOnce"], body["Tty"]) == (True, False, True)
    assert body["HostConfig"]["ConsoleSize"] == [24, 80]


def test_an_input_for_one_session_is_closed_by_the_engine(make: Any, engine: StandInEngine) -> None:
    started(make, stdin=True, stdin_once=True)
    assert (engine.only().body["OpenStdin"], engine.only().body["StdinOnce"]) == (True, True)


def test_a_container_without_input_is_as_before(make: Any, engine: StandInEngine) -> None:
    runtime = started(make)
    body = engine.only().body
    assert "OpenStdin" not in body and body["Tty"] is False and "ConsoleSize" not in body["HostConfig"]
    with pytest.raises(TaskError, match="started without an input"):
        runtime.input(SessionRequest(task=ID, attach=True, stdin=True))


def test_a_terminal_is_refused_for_a_pipe(piped: Sessions) -> None:
    with pytest.raises(TaskError, match="started without a terminal"):
        piped.runtime.input(SessionRequest(task=ID, attach=True, stdin=True, tty=True))


def test_the_reader_is_there_before_the_container_starts(terminal: Sessions, engine: StandInEngine) -> None:
    asked = [line.replace(engine.only().id, "ID") for line in engine.lines("POST")]
    assert asked.index("POST /containers/ID/attach") < asked.index("POST /containers/ID/start")


def test_output_without_a_line_end_appears_at_once(piped: Sessions, engine: StandInEngine) -> None:
    engine.prints(engine.only(), b"name? ")
    wait_for(lambda: output_of(piped) == b"name? ", 30, "the prompt")
    engine.prints(engine.only(), b"oops", stderr=True)
    wait_for(lambda: output_of(piped, "stderr") == b"oops", 30, "standard error")


def test_input_reaches_the_container_and_stays_open(piped: Sessions, engine: StandInEngine) -> None:
    """More than a pipe holds, by two sessions one after the other."""
    container, given = engine.only(), os.urandom(300_000)
    for number in (1, 2):
        process = piped.begin(attach=True, stdin=True)
        assert process.stdin is not None
        process.stdin.write(given)
        process.stdin.close()
        wait_for(lambda wanted=number: len(container.given) == wanted * len(given), 30, "the input")  # type: ignore[misc]
        process.stdin = None
        process.kill()
        process.communicate(timeout=30)
    assert container.given == 2 * given
    assert container.running


def test_the_session_has_the_output_and_the_exit_code(piped: Sessions, engine: StandInEngine) -> None:
    process = piped.begin(attach=True, stdin=True)
    wait_for(lambda: piped.runtime.attached._connections, 30, "the reader")
    assert process.stdin is not None
    process.stdin.write(b"42\n")
    process.stdin.flush()
    wait_for(lambda: engine.only().given == b"42\n", 30, "the input")
    engine.prints(engine.only(), b"thanks", at="2024-01-01T00:00:01.5Z")
    engine.ends(engine.only(), 3)
    out, _ = process.communicate(timeout=30)
    assert (out, process.returncode) == (b"thanks", 3)


def test_the_terminal_has_keys_and_size_of_the_user(terminal: Sessions, engine: StandInEngine) -> None:
    container = engine.only()
    ours, theirs = pty.openpty()
    try:
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 33, 77, 0, 0))
        process = terminal.begin(theirs, attach=True, stdin=True, tty=True)
        wait_for(lambda: container.sizes == [(33, 77)], 30, "the size")
        os.write(ours, b"ls\r\x10\x11\x03\x04")
        wait_for(lambda: container.given == b"ls\r\x10\x11\x03\x04", 30, "the keys, Ctrl-P and Ctrl-C among them")
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 20, 100, 0, 0))
        process.send_signal(signal.SIGWINCH)
        wait_for(lambda: container.sizes[-1] == (20, 100), 30, "the new size")
        engine.prints(container, b"$ \x1b[0m")
        assert os.read(ours, 100) == b"$ \x1b[0m"
        engine.ends(container, 0)
        assert process.wait(30) == 0
    finally:
        os.close(ours)
        os.close(theirs)


def inputs_of(engine: StandInEngine, container: str) -> int:
    """Attachments to the input of the container so far."""
    asked = [found for found in engine.requests if found.line == f"POST /containers/{container}/attach"]
    return sum(found.query["stdin"] == "1" for found in asked)


@pytest.mark.parametrize("changed", [False, True], ids=["same container", "another container"])
def test_input_and_output_survive_a_restart(piped: Sessions, engine: StandInEngine, changed: bool) -> None:
    process = piped.begin(attach=True, stdin=True)
    wait_for(lambda: piped.runtime.attached._connections, 30, "the reader")
    assert process.stdin is not None
    process.stdin.write(b"before\n")
    process.stdin.flush()
    wait_for(lambda: engine.only().given == b"before\n", 30, "the input before")
    if changed:
        piped.runtime.set_env("B", "2")
    piped.runtime.restart(30.0)
    container = engine.only()
    engine.prints(container, b"again> ", at="2024-01-01T00:00:05.5Z")
    wait_for(lambda: output_of(piped) == b"again> ", 30, "the output of the new start")
    known = len(container.given)
    wait_for(lambda: inputs_of(engine, container.id) == (1 if changed else 2), 30, "the attachment to the new start")
    process.stdin.write(b"after\n")
    process.stdin.flush()
    wait_for(lambda: container.given[known:] == b"after\n", 30, "the input after")
    engine.ends(container, 0)
    out, _ = process.communicate(timeout=30)
    assert (out, process.returncode) == (b"again> ", 0)


def test_an_engine_that_was_away_leaves_a_note(piped: Sessions, engine: StandInEngine) -> None:
    container = engine.only()
    engine.prints(container, b"one\n")
    wait_for(lambda: output_of(piped) == b"one\n", 30, "the output before")
    engine.away()
    engine.back()
    wait_for(lambda: container.attached == 2, 30, "another attachment")
    engine.prints(container, b"two\n", at="2024-01-01T00:00:05.5Z")
    wait_for(lambda: output_of(piped) == b"one\ntwo\n", 30, "the output after")
    assert b"was interrupted; output of that time is not shown" in output_of(piped, "stderr")


def test_an_input_that_the_engine_refuses_is_reported(piped: Sessions, engine: StandInEngine) -> None:
    engine.faults["POST /containers/ID/attach"] = [(501, "no streams here")]
    process = piped.begin(attach=True, stdin=True)
    wait_for(lambda: not engine.faults["POST /containers/ID/attach"], 30, "the refusal")
    engine.ends(engine.only(), 0)
    _, err = process.communicate(timeout=30)
    assert b"the input of the container cannot be used" in err
    assert b"no streams here" in err


def test_a_failed_start_leaves_no_reader(make: Any, engine: StandInEngine) -> None:
    engine.faults["POST /containers/ID/start"] = [(500, "no such program")]
    runtime: ContainerRuntime = make(stdin=True)
    with pytest.raises(TaskError, match="no such program"):
        runtime.start()
    wait_for(lambda: not any(t.name == "container-output" for t in threading.enumerate()), 30, "the end of the reader")
    assert engine.containers == {}
