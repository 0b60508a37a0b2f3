"""The context in which a program of a session runs as if the task had started it.

The agent starts `bcs-executor.pyz session` as a nested container of the executor. The process asks the executor over a
socket in the sandbox for the context of a task, and then becomes the program (enter.py). Exception tree:

    ContextError    the executor refuses; the message is for users
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import socket
import struct
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO

from .. import threads
from ..runtime import Runtime, TaskError
from .attached import LINGER, Attached

log = logging.getLogger("executor")

SOCKET = ".bcs-sessions"
"""Name of the socket in the sandbox of the executor; only the user of the executor may connect."""
LONGEST = 4 * 1024 * 1024
"""Bytes of a question or an answer."""
PATIENCE = 10.0
"""Seconds for one question and its answer."""
GIVEN = b"\n"
"""Before the answer: the descriptor that takes the input of the task comes with this byte (unix(7), SCM_RIGHTS)."""
WAITING = 64
"""Connections that may wait to be accepted."""


class ContextError(Exception):
    """The message is for users."""


@dataclass(frozen=True)
class SessionRequest:
    """The request of a user: one of `argv`, `port` (a connection to that port of the task) and `attach` (the output of
    the task from now on, with `logs` also the output before, and with `stdin` its input). With `guard` a process that
    attends a command of a container engine names the command: the executor ends the command when that process has
    ended, and finds the processes of the command by `mark`."""

    task: str
    argv: tuple[str, ...] = ()
    port: int = 0
    attach: bool = False
    stdin: bool = False
    logs: bool = False
    guard: str = ""
    mark: str = ""
    env: dict[str, str] = field(default_factory=dict, repr=False)
    user: str = ""
    working_dir: str = ""
    privileged: bool = False
    tty: bool = False


@dataclass(frozen=True)
class Context:
    """The context of a process has `environment`, `directory`, identity and limits. The context of a container has
    `engine`, the socket of its engine, and `container`, its id. `hosts` are addresses at which ports of the task may be
    reached, the best first."""

    environment: dict[str, str] = field(default_factory=dict, repr=False)
    directory: str = ""
    uid: int = 0
    gid: int = 0
    groups: tuple[int, ...] = ()
    change_user: bool = False
    rlimits: tuple[tuple[int, int, int], ...] = ()
    """Number, soft and hard limit of setrlimit(2)."""
    control_group: str = ""
    """Folder of the control group; empty = none."""
    engine: str = ""
    container: str = ""
    output: str = ""
    """Folder with the output of the task."""
    hosts: tuple[str, ...] = ()


def session_request(document: Mapping[str, Any]) -> SessionRequest:
    """Raises ContextError."""
    try:
        wanted = SessionRequest(
            **{**document, "argv": tuple(document.get("argv", ())), "env": dict(document.get("env", {}))}
        )
    except (TypeError, ValueError):
        raise ContextError("the session has fields that this executor does not know") from None
    words = (*wanted.argv, *wanted.env, *wanted.env.values(), wanted.user, wanted.working_dir, wanted.task)
    if not all(isinstance(word, str) and "\0" not in word for word in words):
        raise ContextError("the session contains a value that is not a text")
    if any(not name or "=" in name for name in wanted.env):
        raise ContextError("the session contains an invalid variable name")
    if [bool(wanted.argv and wanted.argv[0]), bool(wanted.port), wanted.attach, bool(wanted.guard)].count(True) != 1:
        raise ContextError("there is no command to run")
    return wanted


class Contexts:
    """Answers over the socket, one question at a time: an answer needs look-ups only. Connections of readers that
    follow the output of a task stay open (attached.py)."""

    def __init__(self, sandbox: Path, runtimes: Callable[[], Mapping[str, Runtime]]) -> None:
        self._sandbox = sandbox
        self._runtimes = runtimes
        self._listener: socket.socket | None = None
        self._attached: dict[str, Attached] = {}
        """Followers by task, for the tasks whose output has been followed."""

    def start(self) -> None:
        """Without a socket there are no sessions, but the taskgroup runs."""
        listener = socket.socket(socket.AF_UNIX)
        try:
            with _short(self._sandbox) as path:
                path.unlink(missing_ok=True)
                before = os.umask(0o177)
                try:
                    listener.bind(str(path))
                finally:
                    os.umask(before)
            listener.listen(WAITING)
            self._listener = listener
            threads.lasting("sessions", self._serve).start()
        except (OSError, RuntimeError) as error:
            listener.close()
            log.warning("no sessions: %s", error)

    def _serve(self) -> None:
        assert self._listener is not None
        while True:
            connection, _ = self._listener.accept()
            with contextlib.ExitStack() as stack:
                stack.push(connection)
                connection.settimeout(PATIENCE)
                with contextlib.suppress(OSError):
                    taken = self._answer(connection)
                    if taken is not None:
                        stack.pop_all()
                        taken(connection)

    def _answer(self, connection: socket.socket) -> Callable[[socket.socket], object] | None:
        """Returns the function that takes the connection over; None: the question is answered. Raises OSError."""
        try:
            wanted = session_request(_received(connection))
            runtime = self._runtimes().get(wanted.task)
            if runtime is None:
                raise ContextError("the task does not run")
            context = runtime.context(wanted, _peer(connection))
            given = runtime.input(wanted) if wanted.attach and wanted.stdin else None
        except (ContextError, TaskError) as error:
            connection.sendall(_encoded({"error": str(error)}))
            return None
        if given is not None:
            try:
                socket.send_fds(connection, [GIVEN], [given])
            finally:
                os.close(given)
        connection.sendall(_encoded({"context": asdict(context)}))
        if wanted.guard:
            return partial(runtime.guard, wanted)
        if not wanted.attach:
            return None
        self._attached[wanted.task] = runtime.attached
        return runtime.attached.add

    def close(self) -> None:
        """Waits after the end of all tasks until the readers that follow their output have all of it, for at most
        LINGER seconds."""
        deadline = time.monotonic() + LINGER
        for attached in tuple(self._attached.values()):
            attached.wait(deadline)


def _peer(connection: socket.socket) -> int:
    """The pid of the process at the other end; 0 if it is not visible here."""
    pid: int = struct.unpack("3i", connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))[0]
    return pid


def ask(sandbox: Path, document: Mapping[str, Any]) -> Context:
    """Returns the context for a session. Raises ContextError."""
    with _asked(sandbox, document) as (context, _):
        return context


@contextlib.contextmanager
def guarded(sandbox: Path, document: Mapping[str, Any]) -> Iterator[None]:
    """The executor ends the command that the document names when this process ends. Raises ContextError."""
    with _asked(sandbox, document):
        yield


@contextlib.contextmanager
def ask_attached(sandbox: Path, document: Mapping[str, Any]) -> Iterator[tuple[Context, BinaryIO, int | None]]:
    """The context, the lines that follow (see Attached), and the descriptor for input; None = not requested. Raises
    ContextError."""
    given: list[int] = []
    with _asked(sandbox, document, given) as (context, lines):
        yield context, lines, given[0] if given else None


@contextlib.contextmanager
def _asked(
    sandbox: Path, document: Mapping[str, Any], given: list[int] | None = None
) -> Iterator[tuple[Context, BinaryIO]]:
    """`given`: receives the descriptor for input."""
    with socket.socket(socket.AF_UNIX) as connection, connection.makefile("rb") as lines:
        try:
            connection.settimeout(PATIENCE)
            with _short(sandbox) as path:
                connection.connect(str(path))
            connection.sendall(_encoded(document))
            first = b""
            if given is not None and document.get("stdin"):
                first, descriptors, _, _ = socket.recv_fds(connection, len(GIVEN), 1)
                given += descriptors
            answer = _line(lines, first.lstrip())
        except OSError as error:
            raise ContextError(f"the executor of the taskgroup does not answer: {error.strerror or error}") from None
        connection.settimeout(None)
        yield _context(answer), lines


def _context(answer: dict[str, Any]) -> Context:
    if "context" not in answer:
        raise ContextError(str(answer.get("error", "the executor did not answer")))
    found = answer["context"]
    limits = tuple((int(number), int(soft), int(hard)) for number, soft, hard in found.pop("rlimits"))
    return Context(**{**found, "groups": tuple(found["groups"]), "hosts": tuple(found["hosts"]), "rlimits": limits})


@contextlib.contextmanager
def _short(sandbox: Path) -> Iterator[Path]:
    """The path of the socket by way of an open folder: the path of a sandbox is longer than an address may be."""
    folder = os.open(sandbox, os.O_PATH | os.O_DIRECTORY)
    try:
        yield Path(f"/proc/self/fd/{folder}") / SOCKET
    finally:
        os.close(folder)


def _encoded(document: Mapping[str, Any]) -> bytes:
    return json.dumps(document).encode() + b"\n"


def _received(connection: socket.socket) -> dict[str, Any]:
    """One line of JSON. Raises ContextError, OSError."""
    with connection.makefile("rb") as lines:
        return _line(lines)


def _line(lines: BinaryIO, begin: bytes = b"") -> dict[str, Any]:
    """One line of JSON, whose `begin` has been read already. Raises ContextError."""
    found = begin + lines.readline(LONGEST)
    if not found.endswith(b"\n"):
        raise ContextError("the request was not understood")
    try:
        document = json.loads(found)
    except ValueError:
        raise ContextError("the request was not understood") from None
    if not isinstance(document, dict):
        raise ContextError("the request was not understood")
    return document
