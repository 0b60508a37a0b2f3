"""A program of a session in a container: an exec of the container engine whose streams are passed on.

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
import tty
import uuid
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

from .. import threads
from ..docker.command import MARK, finished
from ..docker.engine_api.engine import Engine, EngineError, Stream
from ..docker.engine_api.frames import frames
from ..runtime import TaskError
from .contexts import Context, ContextError, SessionRequest, guarded

CHUNK = 64 * 1024


def attend(context: Context, wanted: SessionRequest) -> int:
    """Runs the program and returns its exit code. Raises ContextError."""
    engine, mark = Engine(context.engine), uuid.uuid4().hex
    body: dict[str, Any] = {
        "AttachStdin": True,
        "AttachStdout": True,
        "AttachStderr": True,
        "Tty": wanted.tty,
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
                    _follow_size(engine, command)
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
        with contextlib.suppress(termios.error):
            tty.setraw(0, termios.TCSANOW)  # keys that were typed before are not discarded
    yield


def _follow_size(engine: Engine, command: str) -> None:
    def resize(*_: object) -> None:
        size = shutil.get_terminal_size((80, 24)) if not os.isatty(0) else os.get_terminal_size(0)
        with contextlib.suppress(EngineError):
            engine.call("POST", f"/exec/{command}/resize", {"h": size.lines, "w": size.columns})

    signal.signal(signal.SIGWINCH, resize)
    resize()


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
