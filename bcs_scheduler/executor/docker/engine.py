"""A client of the Docker Engine API over its Unix socket: requests, errors in plain words, streams.

https://docs.docker.com/reference/api/engine/ describes the paths and bodies. Every request has a connection of its own:
calls come from several threads, some are open for as long as a container runs, and a connection costs a local socket.
Credentials travel in the X-Registry-Auth header alone and appear in no error.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import socket
import threading
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote, urlencode

from ..runtime import TaskError

NEWEST = (1, 47)
"""The newest API version whose behaviour is known here; an engine is spoken to in this one or its own, if older."""
OLDEST = (1, 25)
"""Since this one a container's archive, update and exec work as they are used here (Docker 1.13)."""
CONNECT_TIMEOUT = 5.0
TIMEOUT = 60.0
"""Seconds for a request that is answered at once on an engine that is well."""
LARGEST_ANSWER = 16 * 1024 * 1024
"""Bytes; lists and inspections have kilobytes."""


class EngineError(TaskError):
    """The engine refused the call or cannot carry it out."""

    def __init__(self, message: str, status: int = 0) -> None:
        super().__init__(message)
        self.status = status


class EngineAway(EngineError):
    """There is no engine to be spoken to at the moment; it may come back."""


class EngineSilent(EngineAway):
    """The engine sent no byte in the given time."""


class EngineAbsent(EngineAway):
    """There is no socket, or it may not be used: on an agent that was never meant to have an engine."""


class NotFound(EngineError):
    """No such container, image or command."""


class _Connection(http.client.HTTPConnection):
    """HTTP over a Unix socket. `line` stays known when http.client has handed the socket to the response."""

    line: socket.socket

    def __init__(self, path: str) -> None:
        super().__init__("localhost")
        self._path = path

    def connect(self) -> None:
        self.line = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.line.settimeout(CONNECT_TIMEOUT)
        try:
            self.line.connect(self._path)
        except OSError:
            self.line.close()
            raise
        self.sock = self.line


class Stream:
    """The body of an answer that comes bit by bit. One thread reads; any thread may `close`, which ends the reading."""

    def __init__(self, connection: _Connection, response: http.client.HTTPResponse) -> None:
        self._connection, self._response = connection, response
        self._closed = threading.Event()

    @property
    def closed(self) -> bool:
        return self._closed.is_set()

    def header(self, name: str) -> str:
        return self._response.getheader(name, "")

    def read(self, count: int, timeout: float | None = None) -> bytes:
        """Exactly `count` bytes, fewer only at the end. Raises TimeoutError when nothing comes for `timeout` seconds,
        EngineAway when the connection breaks."""
        try:
            self._connection.line.settimeout(timeout)
            return self._response.read(count)
        except socket.timeout:
            raise TimeoutError from None
        except http.client.IncompleteRead as error:
            return error.partial
        except (OSError, ValueError, http.client.HTTPException) as error:
            raise EngineAway(f"the connection to the container engine was interrupted: {error}") from None

    @property
    def line(self) -> socket.socket:
        """The connection itself, for answers that become a connection. Reads have no time limit."""
        self.unlimited()
        return self._connection.line

    def unlimited(self) -> None:
        """Reads have no time limit any more."""
        self._connection.line.settimeout(None)

    def some(self, most: int) -> bytes:
        """Returns the next bytes, at most `most`; empty at the end. Raises EngineAway."""
        try:
            return self._response.read1(most)
        except (OSError, ValueError, http.client.HTTPException) as error:
            raise EngineAway(f"the connection to the container engine was interrupted: {error}") from None

    def lines(self, timeout: float) -> Iterator[bytes]:
        """Raises as `read` does."""
        while True:
            try:
                self._connection.line.settimeout(timeout)
                line = self._response.readline(LARGEST_ANSWER)
            except socket.timeout:
                raise TimeoutError from None
            except (OSError, ValueError, http.client.HTTPException) as error:
                raise EngineAway(f"the connection to the container engine was interrupted: {error}") from None
            if not line:
                return
            yield line

    def close(self) -> None:
        """A thread that reads gets the end of the stream, or EngineAway."""
        self._closed.set()
        with contextlib.suppress(OSError):
            self._connection.line.shutdown(socket.SHUT_RDWR)

    def release(self) -> None:
        """Closes everything. Called by the reading thread when it is done."""
        self.close()
        self._response.close()
        self._connection.close()


class Engine:
    """Several threads may use an engine at once. All methods raise EngineError."""

    def __init__(self, path: str) -> None:
        """`path` of the engine's Unix socket."""
        self._path = path
        self._prefix = ""

    def call(
        self,
        method: str,
        path: str,
        query: dict[str, Any] | None = None,
        body: Any = None,
        *,
        auth: str | None = None,
        timeout: float | None = TIMEOUT,
    ) -> Any:
        """The decoded JSON of the answer, raw bytes if it is something else, None if it is empty. `body`: bytes are a
        tar archive, anything else is sent as JSON."""
        with self.stream(method, path, query, body, auth=auth, timeout=timeout) as stream:
            try:
                data = stream.read(LARGEST_ANSWER, timeout)
            except TimeoutError:
                raise EngineSilent("the container engine does not answer") from None
        try:
            return json.loads(data) if data else None
        except ValueError:
            return data

    @contextlib.contextmanager
    def stream(
        self,
        method: str,
        path: str,
        query: dict[str, Any] | None = None,
        body: Any = None,
        *,
        auth: str | None = None,
        timeout: float | None = TIMEOUT,
    ) -> Iterator[Stream]:
        """An answer that is read while it comes. `timeout`: seconds until it begins to come, None = any."""
        stream = self._open(method, self._versioned(path), query, body, auth, timeout)
        try:
            yield stream
        finally:
            stream.release()

    def _open(
        self, method: str, path: str, query: dict[str, Any] | None, body: Any, auth: str | None, timeout: float | None
    ) -> Stream:
        headers, content = _encoded(body)
        if auth is not None:
            headers["X-Registry-Auth"] = auth
        target = path + (f"?{urlencode(query)}" if query else "")
        connection = _Connection(self._path)
        try:
            connection.connect()
            connection.line.settimeout(timeout)
            connection.request(method, target, content, headers)
            response = connection.getresponse()
        except socket.timeout:
            connection.close()
            raise EngineSilent("the container engine does not answer") from None
        except (OSError, http.client.HTTPException) as error:
            connection.close()
            raise _unreachable(self._path, error) from None
        stream = Stream(connection, response)
        if response.status >= 300:
            try:
                raise _refused(response.status, stream)
            finally:
                stream.release()
        return stream

    def _versioned(self, path: str) -> str:
        if not self._prefix:
            self._prefix = self._negotiate()
        return self._prefix + path

    def _negotiate(self) -> str:
        """`/v1.41`: the engine's version, or the newest known here. Engines report their version in a header of /_ping,
        old engines and some imitations of Docker in /version."""
        stream = self._open("GET", "/_ping", None, None, None, TIMEOUT)
        try:
            said = stream.header("Api-Version")
        finally:
            stream.release()
        if not said:
            stream = self._open("GET", "/version", None, None, None, TIMEOUT)
            try:
                said = str(json.loads(stream.read(LARGEST_ANSWER, TIMEOUT)).get("ApiVersion", ""))
            except (ValueError, AttributeError, TimeoutError):
                said = ""
            finally:
                stream.release()
        try:
            major, minor = (int(part) for part in said.split("."))
        except ValueError:
            raise EngineError("the program at the container engine's socket is not a container engine") from None
        if (major, minor) < OLDEST:
            raise EngineError(f"the container engine is too old: API {said}, at least 1.{OLDEST[1]} is needed")
        version = min((major, minor), NEWEST)
        return f"/v{version[0]}.{version[1]}"


def name_in_path(name: str) -> str:
    """Quotes the name of an image, whose slashes and colons are part of the path."""
    return quote(name, safe="/:@")


def _encoded(body: Any) -> tuple[dict[str, str], bytes | None]:
    if body is None:
        return {}, None
    if isinstance(body, bytes):
        return {"Content-Type": "application/x-tar"}, body
    return {"Content-Type": "application/json"}, json.dumps(body).encode()


def _unreachable(path: str, error: Exception) -> EngineAway:
    if isinstance(error, FileNotFoundError):
        return EngineAbsent(f"there is no container engine on the agent: no socket {path}")
    if isinstance(error, PermissionError):
        return EngineAbsent(f"the executor's user may not use the container engine's socket {path}")
    if isinstance(error, ConnectionRefusedError):
        return EngineAway(f"the container engine does not run: nothing listens on {path}")
    return EngineAway(f"the container engine cannot be reached at {path}: {error}")


def _refused(status: int, stream: Stream) -> EngineError:
    """The engine explains itself in `message`; it repeats names, never credentials."""
    try:
        found = json.loads(stream.read(LARGEST_ANSWER, TIMEOUT))
        message = str(found["message"]).strip()
    except (ValueError, KeyError, TypeError, TimeoutError, EngineError):
        message = f"HTTP status {status}"
    if status == 404:
        return NotFound(f"the container engine says: {message}", status)
    return EngineError(f"the container engine says: {message}", status)
