"""The calls of an agent's v1 API that concern nested containers: LAUNCH_NESTED_CONTAINER_SESSION and the calls for its
container, in JSON. Only the part that sessions beside tasks need: a container lives as long as the connection that
launched it."""

from __future__ import annotations

import asyncio
import base64
import json
import signal
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, Protocol

from bcs_scheduler.local.agents.nested import Nested
from bcs_scheduler.local.agents.process import Command, Launcher
from bcs_scheduler.local.errors import InvalidCall
from bcs_scheduler.local.transport.http import Answer, Request, response
from bcs_scheduler.local.transport.stream import JSON
from bcs_scheduler.net import recordio

Json = dict[str, Any]
RECORDS = "application/recordio"
HIGH = 256 * 1024
"""Bytes of output that the reader has not taken before no more is read from the program."""
REMEMBERED = 1000
"""Sessions and tasks whose exit status is known after their end."""
LONGEST = 16 * 1024 * 1024
"""Bytes of one record of input."""


class Parents(Protocol):
    """The containers of an agent."""

    def session_command(self, container: Json, command: Json) -> Command | None:
        """The command as it runs in the container; None if there is no such container. Raises InvalidCall."""

    def is_task(self, container: str) -> bool:
        """True if a task runs in the container; then its end is reported to `SessionApi.task_ended`."""

    def listed_tasks(self) -> list[Json]:
        """Returns the launched tasks as GET_TASKS lists them."""


class SessionApi:
    def __init__(self, parents: Parents, launcher: Launcher) -> None:
        self._parents, self._launcher = parents, launcher
        self._sessions: dict[str, Nested] = {}
        self._statuses: OrderedDict[str, int | None] = OrderedDict()
        self._waiting: dict[str, list[Deferred]] = {}

    def call(self, type_: str, call: Json) -> Answer | None:
        """None for calls that others answer. Raises InvalidCall."""
        if type_ == "GET_TASKS":
            return _json({"type": type_, "get_tasks": {"launched_tasks": self._parents.listed_tasks()}})
        arguments = call.get(type_.lower())
        if type_ not in ("LAUNCH_NESTED_CONTAINER_SESSION", "WAIT_NESTED_CONTAINER", "KILL_NESTED_CONTAINER"):
            return None
        if not isinstance(arguments, dict) or not isinstance(arguments.get("container_id"), dict):
            raise InvalidCall(400, f"Failed to validate agent::Call: Expecting '{type_.lower()}' to be present")
        container = arguments["container_id"]
        if type_ == "LAUNCH_NESTED_CONTAINER_SESSION":
            return self._launch(container, arguments)
        if type_ == "WAIT_NESTED_CONTAINER":
            return self._wait(container)
        session, number = self._session(container), arguments.get("signal", signal.SIGKILL)
        if number == signal.SIGKILL:
            session.destroy()
        else:
            session.signal(int(number))
        return response(200)

    def _launch(self, container: Json, arguments: Json) -> Answer:
        name, parent = str(container.get("value", "")), container.get("parent")
        if not name or not isinstance(parent, dict):
            raise InvalidCall(400, "'container_id.parent' must be set")
        if name in self._sessions or name in self._statuses:
            raise InvalidCall(400, f"Container {name} already started")
        command = self._parents.session_command(parent, arguments.get("command", {}))
        if command is None:
            raise InvalidCall(404, f"Container {parent.get('value')} cannot be found")
        size = arguments.get("container", {}).get("tty_info", {}).get("window_size")
        shape = (int(size["rows"]), int(size["columns"])) if size else None
        try:
            session = Nested(self._launcher, name, str(parent["value"]), command, shape, self._ended)
        except OSError as error:
            raise InvalidCall(500, f"Failed to launch container: {error}") from None
        self._sessions[name] = session
        stream = Attached(session)
        session.attach(stream)
        return stream

    def _ended(self, session: Nested) -> None:
        del self._sessions[session.container]
        self.task_ended(session.container, session.status)

    def task_ended(self, container: str, status: int | None) -> None:
        """`status` as wait(2) has it; None: the program never ran."""
        self._statuses[container] = status
        while len(self._statuses) > REMEMBERED:
            self._statuses.popitem(last=False)
        for waiting in self._waiting.pop(container, []):
            waiting.answer(_waited(status))

    def _wait(self, container: Json) -> Answer:
        name = str(container.get("value", ""))
        if name in self._statuses:
            return _waited(self._statuses[name])
        if not self._parents.is_task(name):
            self._session(container)
        waiting = Deferred()
        self._waiting.setdefault(name, []).append(waiting)
        return waiting

    def _session(self, container: Json) -> Nested:
        found = self._sessions.get(str(container.get("value", "")))
        if found is None:
            raise InvalidCall(404, f"Container {container.get('value')} cannot be found")
        return found

    def destroy_in(self, parent: str) -> None:
        """Ends the sessions nested in a container that has ended."""
        for session in list(self._sessions.values()):
            if session.parent == parent:
                session.destroy()

    def upload(self, request: Request) -> Upload | None:
        """Takes the input of a session; None for requests of another kind."""
        if request.headers.get(b"content-type", b"").decode("latin-1") != RECORDS:
            return None
        return Upload(self._session)


class Attached:
    """The output of a session, as records in chunks."""

    def __init__(self, session: Nested) -> None:
        self._session = session
        self._transport: asyncio.Transport | None = None
        self._paused = self._over = False
        self._early: list[bytes] = []

    def head(self) -> bytes:
        lines = (
            "HTTP/1.1 200 OK",
            f"Content-Type: {RECORDS}",
            f"Message-Content-Type: {JSON}",
            "Transfer-Encoding: chunked",
        )
        return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")

    def attach(self, transport: asyncio.Transport) -> None:
        self._transport = transport
        transport.set_write_buffer_limits(HIGH)
        for data in self._early:
            self._send(data)
        self._early.clear()
        if self._over:
            self.end()

    def lost(self) -> None:
        self._transport = None
        self._session.destroy()

    def pause_writing(self) -> None:
        self._paused = True

    def resume_writing(self) -> None:
        self._paused = False
        self._session.resume()

    def write(self, stream: str, data: bytes) -> bool:
        message = {"type": "DATA", "data": {"type": stream, "data": base64.b64encode(data).decode("ascii")}}
        record = recordio.encode(json.dumps(message).encode())
        if self._transport is None:
            self._early.append(record)
        else:
            self._send(record)
        return not self._paused

    def _send(self, record: bytes) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(b"%x\r\n%b\r\n" % (len(record), record))

    def end(self) -> None:
        self._over = True
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(b"0\r\n\r\n")
            self._transport.close()


class Deferred:
    """An answer that comes later."""

    def __init__(self) -> None:
        self._transport: asyncio.Transport | None = None
        self._answer = b""

    def head(self) -> bytes:
        return b""

    def attach(self, transport: asyncio.Transport) -> None:
        self._transport = transport
        if self._answer:
            self.answer(self._answer)

    def lost(self) -> None:
        self._transport = None

    def answer(self, answer: bytes) -> None:
        self._answer = answer
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(answer)
            self._transport.close()


class Upload:
    """The input of a session while it comes."""

    def __init__(self, find: Callable[[Json], Nested]) -> None:
        self._find = find
        self._decoder = recordio.Decoder(LONGEST)
        self._session: Nested | None = None
        self._transport: asyncio.Transport | None = None

    def begin(self, transport: asyncio.Transport) -> None:
        self._transport = transport

    def feed(self, data: bytes) -> None:
        """Raises InvalidCall."""
        for record in self._decoder.feed(data):
            call = json.loads(record).get("attach_container_input", {})
            if call.get("type") == "CONTAINER_ID":
                self._session = self._find(call.get("container_id", {}))
                self._session.room = self._room
            elif self._session is None:
                raise InvalidCall(400, "Expecting 'attach_container_input.container_id' first")
            else:
                self._take(self._session, call.get("process_io", {}))

    def _take(self, session: Nested, io: Json) -> None:
        if io.get("type") == "DATA":
            data = base64.b64decode(io.get("data", {}).get("data", ""))
            if not session.feed(data) and self._transport is not None:
                self._transport.pause_reading()
        elif io.get("control", {}).get("type") == "TTY_INFO":
            size = io["control"]["tty_info"]["window_size"]
            session.resize(int(size["rows"]), int(size["columns"]))

    def _room(self) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._transport.resume_reading()

    def finish(self) -> bytes:
        return response(200)

    def lost(self) -> None:
        self._transport = None
        if self._session is not None:
            self._session.room = lambda: None


def _json(document: Json) -> bytes:
    return response(200, json.dumps(document).encode(), JSON)


def _waited(status: int | None) -> bytes:
    found = {} if status is None else {"exit_status": status}
    return _json({"type": "WAIT_NESTED_CONTAINER", "wait_nested_container": found})
