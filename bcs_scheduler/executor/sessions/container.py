"""A program of a session in a container (an exec of the container engine whose streams are passed on), and the input of
a user for the program of the container itself.

The answer to the start of an exec is the connection itself (docs.docker.com, ContainerAttach, "Hijacking"): sent bytes
are the input, received bytes are the output, in frames unless there is a terminal.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import termios
import time
import tty
import uuid
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from .. import threads
from ..docker.command import MARK, finished
from ..docker.engine import Engine, EngineAway, EngineError, Stream
from ..docker.frames import frames
from ..runtime import TaskError
from .contexts import Context, ContextError, SessionRequest, ask, guarded
from .typed import end_after_input, input_has_come

CHUNK = 64 * 1024
INPUT = {"stream": "1", "stdin": "1", "stdout": "0", "stderr": "0", "detachKeys": b"\xff,\xfe,\xff,\xfe,\xff,\xfe"}
"""Query of an attachment to the input. The engine holds back bytes that begin its detach keys, and ends the attachment
at them; by default that begins with Ctrl-P. These bytes are in no text."""
EXEC_DETACH_KEYS = "ctrl-^,ctrl-_,ctrl-^,ctrl-_,ctrl-^,ctrl-_"
"""The same for an exec, whose keys are a JSON text and therefore ASCII."""
RESTARTING = (404, 409)
"""Statuses with which engines answer while a container is being stopped, replaced or started."""
PAUSE = 0.5
"""Seconds between attempts to reach the input of a container that is being restarted."""


def attend(context: Context, wanted: SessionRequest) -> int:
    """Runs the program and returns its exit code. Raises ContextError."""
    engine, mark = Engine(context.engine), uuid.uuid4().hex
    body: dict[str, Any] = {
        "AttachStdin": True,
        "AttachStdout": True,
        "AttachStderr": True,
        "Tty": wanted.tty,
        "DetachKeys": EXEC_DETACH_KEYS,
        "Cmd": list(wanted.argv),
        "Env": [*(f"{name}={value}" for name, value in wanted.env.items()), f"{MARK}={mark}"],
        "Privileged": wanted.privileged,
    }
    body |= {"User": wanted.user} if wanted.user else {}
    body |= {"WorkingDir": wanted.working_dir} if wanted.working_dir else {}
    try:
        command = str(engine.call("POST", f"/containers/{context.container}/exec", None, body)["Id"])
        with guarded(Path.cwd(), {"task": wanted.task, "guard": command, "mark": mark}), _raw(wanted.tty):
            with engine.stream("POST", f"/exec/{command}/start", None, _start(wanted)) as stream:
                if wanted.tty:
                    _follow_size(engine, lambda: f"/exec/{command}")
                threads.ending("session input", partial(_send, stream.line)).start()
                _receive(stream, wanted.tty)
            code = finished(engine, command).get("ExitCode")
    except (TaskError, KeyError, TypeError) as error:
        raise ContextError(str(error)) from None
    return code if isinstance(code, int) else 1


def _start(wanted: SessionRequest) -> dict[str, Any]:
    return {"Detach": False, "Tty": wanted.tty}


@contextlib.contextmanager
def _raw(terminal: bool) -> Iterator[None]:
    """The terminal of the session passes everything on: that of the container acts on it."""
    if terminal:
        _make_raw()
    yield


def _make_raw() -> None:
    with contextlib.suppress(termios.error):
        tty.setraw(0, termios.TCSANOW)  # keys that were typed before are not discarded


def pass_input_to(context: Context, wanted: SessionRequest) -> None:
    """Copies standard input to the input of the container in a thread, until standard input ends. The end of standard
    input does not end the input of the container. The terminal of the container follows the size of that of the
    session."""
    given = _ContainerInput(context, wanted.task, end_after_input())
    if wanted.tty:
        _make_raw()
        given.follow_size()
    threads.ending("session input", given.copy).start()


class _ContainerInput:
    def __init__(self, context: Context, task: str, asked: int) -> None:
        """`asked`: as `end_after_input` returns it."""
        self._asked = asked
        self._engine, self._container, self._task = Engine(context.engine), context.container, task
        self._resize: Callable[[], None] = _no_terminal
        self._left = b""
        """Input that has not been sent."""

    def follow_size(self) -> None:
        self._resize = _follow_size(self._engine, lambda: f"/containers/{self._container}")

    def copy(self) -> None:
        """A restart of the task interrupts the attachment, and may bring another container."""
        try:
            while not self._copy_once():
                time.sleep(PAUSE)
                with contextlib.suppress(ContextError):
                    self._container = ask(
                        Path.cwd(), {"task": self._task, "port": 1}
                    ).container  # asks for nothing else
                self._resize()
            os.read(self._asked, 1)
            os._exit(0)
        except (EngineError, OSError) as error:
            _write(2, f"bcs: the input of the container cannot be used: {error}\n".encode())

    def _copy_once(self) -> bool:
        """False if the attachment ended before standard input. Raises EngineError if another attempt is useless,
        OSError if standard input cannot be read."""
        try:
            with self._engine.stream("POST", f"/containers/{self._container}/attach", INPUT) as found:
                return self._send_until_end(found.line)
        except EngineAway:
            return False
        except EngineError as error:
            if error.status in RESTARTING:
                return False
            raise

    def _send_until_end(self, line: socket.socket) -> bool:
        while True:
            try:
                line.sendall(self._left)
            except OSError:
                return False
            self._left = b""
            # No output was asked for: if there is something to read, the attachment has ended.
            if line.fileno() in input_has_come(self._asked, line.fileno()):
                return False
            self._left = os.read(0, CHUNK)
            if not self._left:
                return True


def _no_terminal() -> None:
    """A size has no meaning."""


def _follow_size(engine: Engine, target: Callable[[], str]) -> Callable[[], None]:
    """`target`: path of the exec or container in the API of the engine. Returns a function that sets the size again."""

    def resize(*_: object) -> None:
        size = shutil.get_terminal_size((80, 24)) if not os.isatty(0) else os.get_terminal_size(0)
        with contextlib.suppress(EngineError):
            engine.call("POST", f"{target()}/resize", {"h": size.lines, "w": size.columns})

    signal.signal(signal.SIGWINCH, resize)
    resize()
    return resize


def _send(line: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while data := os.read(0, CHUNK):
            line.sendall(data)
        line.shutdown(socket.SHUT_WR)


def _receive(stream: Stream, terminal: bool) -> None:
    if not terminal:
        for frame in frames(stream):
            _write(2 if frame.stderr else 1, frame.content)
        return
    while data := stream.some(CHUNK):
        _write(1, data)


def _write(descriptor: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]
