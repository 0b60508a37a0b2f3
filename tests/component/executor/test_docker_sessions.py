"""Sessions with a task in a container, against a stand-in engine: the real process that an agent starts, its streams,
its terminal, and its end."""

from __future__ import annotations

import base64
import fcntl
import json
import os
import pty
import select
import signal
import struct
import subprocess
import sys
import termios
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bcs_scheduler.executor.docker import command
from bcs_scheduler.executor.docker.runtime import ContainerRuntime
from bcs_scheduler.executor.processes import process_tree
from bcs_scheduler.executor.sessions.container import EXEC_DETACH_KEYS
from bcs_scheduler.executor.sessions.contexts import Context, Contexts, SessionRequest
from tests.component.executor.dockertasks import ID, started
from tests.component.executor.standinengine import Command, StandInEngine
from tests.waiting import wait_for

ROOT = Path(__file__).parents[3]


class Sessions:
    """The sandbox of an executor with one task in a container."""

    def __init__(self, sandbox: Path, runtime: ContainerRuntime) -> None:
        self.sandbox, self.runtime = sandbox, runtime
        self.contexts = Contexts(sandbox, lambda: {ID: runtime})
        self.contexts.start()

    def begin(self, streams: Any = subprocess.PIPE, **wanted: Any) -> subprocess.Popen[bytes]:
        document = base64.b64encode(json.dumps({"task": ID, **wanted}).encode()).decode()
        return subprocess.Popen(
            [sys.executable, "-m", "bcs_scheduler.executor", "session"],
            stdin=streams, stdout=streams, stderr=streams, cwd=self.sandbox,
            env={**os.environ, "PYTHONPATH": str(ROOT), "BCS_SESSION": document},
        )  # fmt: skip


@pytest.fixture
def sessions(tmp_path: Path, engine: StandInEngine, make: Any) -> Iterator[Sessions]:
    yield Sessions(tmp_path, started(make))


def test_the_executor_knows_the_process_that_asks(
    sessions: Sessions, engine: StandInEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []
    context = sessions.runtime.context

    def noted(wanted: SessionRequest, pid: int) -> Context:
        asked.append(pid)
        return context(wanted, pid)

    monkeypatch.setattr(sessions.runtime, "context", noted)
    engine.next_command = Command([(True, b"done")], exit_code=0)
    session = sessions.begin(argv=["true"])
    assert session.communicate(timeout=30) == (b"", b"done")
    assert asked and set(asked) == {session.pid}


def test_exec_has_the_streams_and_the_exit_code(sessions: Sessions, engine: StandInEngine) -> None:
    engine.next_command = Command([(True, b"warned")], exit_code=7, reads=True)
    given = os.urandom(300_000)
    wanted = {"argv": ["cat", "-u"], "env": {"X": "1"}, "user": "app", "working_dir": "/srv", "privileged": True}
    out, err = sessions.begin(**wanted).communicate(given, timeout=30)
    assert (out, err) == (given, b"warned")
    body = engine.last(f"POST /containers/{engine.only().id}/exec").body
    assert body["Env"].pop().startswith(f"{command.MARK}=")
    assert body == {
        "AttachStdin": True, "AttachStdout": True, "AttachStderr": True, "Tty": False, "Cmd": ["cat", "-u"],
        "DetachKeys": EXEC_DETACH_KEYS,
        "Env": ["X=1"], "Privileged": True, "User": "app", "WorkingDir": "/srv",
    }  # fmt: skip


@pytest.mark.parametrize("code", [0, 7, 137])
def test_exec_exits_as_the_command(sessions: Sessions, engine: StandInEngine, code: int) -> None:
    engine.next_command = Command([(False, b"done")], exit_code=code)
    process = sessions.begin(argv=["true"])
    assert process.communicate(b"", timeout=30)[0] == b"done"
    assert process.returncode == code


def test_exec_that_the_engine_refuses_is_told(sessions: Sessions, engine: StandInEngine) -> None:
    engine.faults[f"POST /containers/{engine.only().id}/exec".replace(engine.only().id, "ID")] = [(409, "is paused")]
    process = sessions.begin(argv=["true"])
    _, err = process.communicate(b"", timeout=30)
    assert process.returncode == 125
    assert b"the container engine says: is paused" in err


def test_a_terminal_is_passed_on_with_its_size(sessions: Sessions, engine: StandInEngine) -> None:
    engine.next_command = made = Command([(False, b"prompt$ ")], exit_code=3, reads=True)
    ours, theirs = pty.openpty()
    try:
        os.set_blocking(ours, True)
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 33, 77, 0, 0))
        process = sessions.begin(theirs, argv=["sh"], tty=True)
        seen = b""

        def saw(text: bytes) -> bool:
            nonlocal seen
            seen += os.read(ours, 65536)
            return text in seen

        wait_for(lambda: saw(b"prompt$ "), 30)
        wait_for(lambda: made.sizes == [(33, 77)], 30, "the size")
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 20, 100, 0, 0))
        process.send_signal(signal.SIGWINCH)
        wait_for(lambda: made.sizes[-1] == (20, 100), 30, "the new size")
        os.write(ours, b"ls\r\x03\x04")
        wait_for(lambda: b"\x03\x04" in made.given, 30, "the keys")
        assert made.given == b"ls\r\x03\x04"
        assert process.wait(30) == 3
    finally:
        os.close(ours)
        os.close(theirs)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_the_command_ends_with_the_session(sessions: Sessions, engine: StandInEngine, number: signal.Signals) -> None:
    """The agent destroys the container of a session with SIGKILL; an engine would let the command run on."""
    engine.next_command = made = Command([(False, b"ready")], reads=True)
    process = sessions.begin(argv=["sleep", "1000"])
    try:
        wait_for(lambda: engine.lines().count("POST /exec/e0/start"), 30, "the start")
        mark = engine.last(f"POST /containers/{engine.only().id}/exec").body["Env"][-1].partition("=")[2]
        with subprocess.Popen(["/bin/sleep", "1000"], start_new_session=True, env={command.MARK: mark}) as running:
            made.process = running
            wait_for(lambda: process_tree.variable(running.pid, command.MARK) == mark, 30, "the command")
            process.send_signal(number)
            process.wait(30)
            assert running.wait(30) == -signal.SIGKILL
    finally:
        process.kill()
        process.communicate()


def test_a_process_that_is_not_the_command_is_left_alone(sessions: Sessions, engine: StandInEngine) -> None:
    """The engine may count processes in another namespace: its number is that of somebody else here."""
    engine.next_command = made = Command([(False, b"ready")], reads=True)
    process = sessions.begin(argv=["sleep", "1000"])
    wait_for(lambda: engine.lines().count("POST /exec/e0/start"), 30, "the start")
    with subprocess.Popen(["/bin/sleep", "1000"], start_new_session=True, env={command.MARK: "another"}) as running:
        made.process = running
        asked = engine.lines().count("GET /exec/e0/json")
        process.kill()
        process.communicate()
        wait_for(lambda: engine.lines().count("GET /exec/e0/json") > asked, 30, "a look at the command")
        assert running.poll() is None
        running.kill()


def test_attach_follows_the_container_to_its_end(sessions: Sessions, engine: StandInEngine) -> None:
    container = engine.only()
    engine.prints(container, b"before\n")
    stdout = sessions.sandbox / "tasks" / ID / "stdout"
    wait_for(lambda: stdout.exists() and stdout.read_bytes() == b"before\n", 30, "the output before")
    process = sessions.begin(attach=True)
    wait_for(lambda: sessions.runtime.attached._connections, 30, "the reader")
    assert process.stdout is not None
    seen = b""
    number = 0

    def saw() -> bool:
        nonlocal seen, number
        number += 1
        engine.prints(container, b"tick\n", at=f"2024-01-01T00:00:{number:02d}.5Z")
        assert process.stdout is not None
        if select.select([process.stdout], [], [], 0.05)[0]:  # a tick may come before the process looks at the files
            seen += os.read(process.stdout.fileno(), 65536)
        return b"tick\n" in seen

    wait_for(saw, 30, "new output")
    engine.prints(container, b"last\n", stderr=True, at="2024-01-01T00:01:59.5Z")
    engine.ends(container, 9)
    out, err = process.communicate(timeout=30)
    assert process.returncode == 9
    assert b"before" not in seen + out
    assert err == b"last\n"
