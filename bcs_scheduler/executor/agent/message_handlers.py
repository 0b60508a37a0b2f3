"""The work of each kind of message on one task (docs/executor-protocol.md, section Messages to the executor).

A body is read and checked completely before anything is done. Errors name the field and never show its content.
"""

from __future__ import annotations

import base64
import binascii
import signal
import threading
import time
from collections.abc import Callable
from dataclasses import MISSING, Field, dataclass, field, fields
from typing import Any, TypeVar

from ..content import fetch
from ..content.files import FILE_LIMIT
from ..model import Message, ProtocolError, Result, read
from ..runtime import Runtime, TaskError

T = TypeVar("T")
Handler = Callable[[str, Runtime], Result]
"""Carries a message out in the task with that id. Raises TaskError."""

HIGHEST_MODE = 0o7777
SHOWN = 50
"""Characters of a word that is not known."""


@dataclass(frozen=True)
class Command:
    argv: tuple[str, ...]
    env: dict[str, str] = field(default_factory=dict, repr=False)
    user: str = ""
    working_dir: str = ""
    privileged: bool = False


@dataclass(frozen=True)
class Local:
    path: str
    data: str = field(repr=False)
    mode: int = 0o644
    owner: str = ""


@dataclass(frozen=True)
class Remote:
    path: str
    url: str
    user: str = ""
    password: str = field(default="", repr=False)
    mode: int = 0o644
    owner: str = ""


@dataclass(frozen=True)
class Signal:
    signal: int
    process: str = ""


@dataclass(frozen=True)
class Variable:
    name: str
    value: str = field(repr=False)


@dataclass(frozen=True)
class Limit:
    index: int = -1
    cpus: int = 0
    mem: int = 0


@dataclass(frozen=True)
class Resources:
    limits: tuple[Limit, ...]


@dataclass(frozen=True)
class Commit:
    target: str
    user: str = ""
    password: str = field(default="", repr=False)


@dataclass(frozen=True)
class Nothing:
    """A kind that needs no body."""


def handler_of(message: Message, stopping: threading.Event) -> Handler:
    """Raises ProtocolError if the kind is not known or the body unusable."""
    known = KINDS.get(message.kind)
    if known is None:
        raise ProtocolError(f"message.kind: {message.kind[:SHOWN]!r} is not known")
    return known(message, stopping)


def _body(message: Message, kind: type[T]) -> T:
    try:
        return read(kind, message.body, "body")
    except TypeError:
        missing = next(item.name for item in fields(kind) if _required(item) and item.name not in message.body)  # type: ignore[arg-type]
        raise ProtocolError(f"body.{missing}: missing") from None


def _required(item: Field[Any]) -> bool:
    return item.default is MISSING and item.default_factory is MISSING


def _require(condition: bool, problem: str) -> None:
    if not condition:
        raise ProtocolError(f"body.{problem}")


def _command(message: Message, stopping: threading.Event) -> Handler:
    body = _body(message, Command)
    _require(bool(body.argv) and bool(body.argv[0]), "argv: names no command")
    _require(not any("\0" in word for word in body.argv), "argv: contains a NUL")
    for name, value in body.env.items():
        _require(_is_name(name), "env: contains an invalid variable name")
        _require("\0" not in value, f"env.{name}: contains a NUL")

    def carry_out(task: str, runtime: Runtime) -> Result:
        output = runtime.execute(
            body.argv,
            env=dict(body.env),
            user=body.user,
            working_dir=body.working_dir,
            privileged=body.privileged,
            timeout=message.timeout,
            limit=message.output_limit,
        )
        return Result(
            task,
            ok=not output.timed_out,
            message=f"killed after {message.timeout:g} s" if output.timed_out else "",
            exit_code=output.code,
            stdout=output.stdout.decode(errors="replace"),
            stderr=output.stderr.decode(errors="replace"),
            truncated=output.truncated,
        )

    return carry_out


def _local(message: Message, stopping: threading.Event) -> Handler:
    body = _body(message, Local)
    _check_file(body.path, body.mode)
    try:
        data = base64.b64decode(body.data, validate=True)
    except (binascii.Error, ValueError):
        raise ProtocolError("body.data: not base64") from None
    return _simple(lambda runtime: runtime.put(body.path, data, body.mode, body.owner))


def _remote(message: Message, stopping: threading.Event) -> Handler:
    body = _body(message, Remote)
    _check_file(body.path, body.mode)
    _require(body.url.startswith(("http://", "https://")), "url: neither http nor https")
    deadline = time.monotonic() + message.timeout

    def carry_out(task: str, runtime: Runtime) -> Result:
        left = deadline - time.monotonic()
        data = fetch.download(body.url, body.user, body.password, left, FILE_LIMIT, stopping)
        runtime.put(body.path, data, body.mode, body.owner)
        return Result(task, True)

    return carry_out


def _signal(message: Message, stopping: threading.Event) -> Handler:
    body = _body(message, Signal)
    _require(body.signal in signal.valid_signals(), f"signal: there is no signal {body.signal}")
    return _simple(lambda runtime: runtime.signal(body.signal, body.process))


def _env(message: Message, stopping: threading.Event) -> Handler:
    body = _body(message, Variable)
    _require(_is_name(body.name), "name: cannot be the name of a variable")
    _require("\0" not in body.value, "value: contains a NUL")
    return _simple(lambda runtime: runtime.set_env(body.name, body.value))


def _restart(message: Message, stopping: threading.Event) -> Handler:
    _body(message, Nothing)
    return _simple(lambda runtime: runtime.restart(message.timeout))


def _reload(message: Message, stopping: threading.Event) -> Handler:
    _body(message, Nothing)
    return _simple(lambda runtime: runtime.reload(message.timeout))


def _resources(message: Message, stopping: threading.Event) -> Handler:
    body = _body(message, Resources)
    _require(bool(body.limits), "limits: empty")
    for limit in body.limits:
        _require(limit.index >= 0, "limits: contains an entry without an index")
        _require(limit.cpus >= 0 and limit.mem >= 0, "limits: contains a negative amount")
    limits = {limit.index: limit for limit in body.limits}

    def carry_out(task: str, runtime: Runtime) -> Result:
        limit = limits.get(_index(task))
        if limit is None:
            return Result(task, True, "unchanged")
        return Result(task, True, runtime.limit(limit.cpus, limit.mem))

    return carry_out


def _index(task: str) -> int:
    """Number of the container of a task within its taskgroup: the second part of the id of the task. Raises TaskError
    if the id shows no number."""
    parts = task.split(".")
    if len(parts) < 2 or not parts[1].isdecimal():
        raise TaskError("its index cannot be seen from its id")
    return int(parts[1])


def _commit(message: Message, stopping: threading.Event) -> Handler:
    body = _body(message, Commit)
    _require(bool(body.target), "target: empty")

    def carry_out(task: str, runtime: Runtime) -> Result:
        return Result(task, True, runtime.commit(body.target, body.user, body.password, message.timeout))

    return carry_out


def _simple(act: Callable[[Runtime], None]) -> Handler:
    def carry_out(task: str, runtime: Runtime) -> Result:
        act(runtime)
        return Result(task, True)

    return carry_out


def _check_file(path: str, mode: int) -> None:
    _require(bool(path) and "\0" not in path and not path.endswith("/"), "path: not the name of a file")
    _require(0 <= mode <= HIGHEST_MODE, "mode: not a file mode")


def _is_name(name: str) -> bool:
    return bool(name) and "=" not in name and "\0" not in name


KINDS: dict[str, Callable[[Message, threading.Event], Handler]] = {
    "command": _command,
    "local": _local,
    "remote": _remote,
    "signal": _signal,
    "env": _env,
    "restart": _restart,
    "reload": _reload,
    "resources": _resources,
    "commit": _commit,
}
