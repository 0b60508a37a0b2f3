"""Where an agent answers: the executor API, files for those who read sandboxes, containers for those who measure."""

from __future__ import annotations

import base64
import json
import re
import socket
from collections.abc import Callable
from typing import Any
from urllib.parse import parse_qsl, quote

from bcs_scheduler.local.agents.files import FileInfo, Files, mode_text
from bcs_scheduler.local.agents.session_api import SessionApi
from bcs_scheduler.local.errors import InvalidCall
from bcs_scheduler.local.transport.calls import answered
from bcs_scheduler.local.transport.http import Answer, Handler, HttpServer, Request, response
from bcs_scheduler.local.transport.stream import JSON

_AGENT = re.compile(r"/slave\(\d+\)")
Json = dict[str, Any]


class AgentServer:
    """One address, held until `stop`, also while nothing listens there."""

    def __init__(
        self, files: Files, executor_api: Handler | None = None, containers: Callable[[], list[Json]] | None = None,
        sessions: SessionApi | None = None,
    ) -> None:  # fmt: skip
        """`containers`: as bcs_scheduler.local.agents.accounting describes them; None = no containers are reported."""
        self._server = HttpServer(self._handle, sessions.upload) if sessions else HttpServer(self._handle)
        self._holder: socket.socket | None = None
        self._host = ""
        self._listening = False
        self.port = 0
        api = AgentApi(files, containers, sessions)
        self._routes: dict[str, Handler] = {
            "/files/read": api.read,
            "/files/browse": api.browse,
            "/files/download": api.download,
            "/api/v1": api.call,
            "/health": lambda request: response(200),
        }
        if executor_api is not None:
            self._routes["/api/v1/executor"] = executor_api

    async def start(self, host: str) -> None:
        """On a free port. Raises OSError."""
        # A bound socket that does not listen keeps the port from others without getting connections itself.
        self._holder = socket.socket()
        self._holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._holder.bind((host, 0))
        self._host, self.port = self._holder.getsockname()[:2]
        await self.resume()

    async def stop(self) -> None:
        await self._server.stop()
        if self._holder is not None:
            self._holder.close()

    def pause(self) -> None:
        """Connections break, and new ones are refused."""
        self._listening = False
        self._server.abort()

    async def resume(self) -> None:
        """Raises OSError."""
        if not self._listening:
            self._listening = True
            await self._server.start(self._host, self.port)

    def _handle(self, request: Request) -> Answer:
        handler = self._routes.get(_AGENT.sub("", request.path, count=1))
        if handler is None:
            return response(404)
        return answered(handler, request)


class AgentApi:
    """Each method raises InvalidCall where a real agent answers with an error."""

    def __init__(self, files: Files, containers: Callable[[], list[Json]] | None, sessions: SessionApi | None) -> None:
        self._files = files
        self._sessions = sessions
        self._containers = containers

    def read(self, request: Request) -> bytes:
        query = _query(request)
        path = _path(query)
        offset = _number(query, "offset")
        length = _number(query, "length")
        size, data = self._files.read(path, offset, length if length >= 0 else None)
        text = data.decode("utf-8", "surrogateescape")
        return _json({"data": text, "offset": size if offset == -1 else offset})

    def browse(self, request: Request) -> bytes:
        return _json([_browsed(info) for info in self._files.browse(_path(_query(request)))])

    def download(self, request: Request) -> bytes:
        name, content = self._files.whole(_path(_query(request)))
        disposition = f"Content-Disposition: attachment; filename={quote(name)}"
        return response(200, content, "application/octet-stream", disposition)

    def call(self, request: Request) -> Answer:
        """The calls of the agent's v1 API that concern files and containers, in JSON."""
        call = _parse_call(request)
        type_ = _text(call.get("type", ""))
        if type_ == "GET_HEALTH":
            return _json({"type": type_, "get_health": {"healthy": True}})
        if type_ == "GET_CONTAINERS" and self._containers is not None:
            found = self._containers()
            return _json({"type": type_, "get_containers": {"containers": found}} if found else {"type": type_})
        answer = self._sessions.call(type_, call) if self._sessions is not None else None
        if answer is not None:
            return answer
        calls: dict[str, Callable[[Json], Json]] = {"READ_FILE": self._read_file, "LIST_FILES": self._list_files}
        if type_ not in calls:
            raise InvalidCall(501 if type_ else 400, "" if type_ else _invalid("type"))
        name = type_.lower()
        if not isinstance(call.get(name), dict):
            raise InvalidCall(400, _invalid(name))
        return _json({"type": type_, name: calls[type_](call[name])})

    def _read_file(self, arguments: Json) -> Json:
        missing = [f"read_file.{field}" for field in ("path", "offset") if field not in arguments]
        if missing:
            raise InvalidCall(400, f"Missing required fields: {', '.join(missing)}")
        offset, length = _whole(arguments["offset"]), arguments.get("length")
        size, data = self._files.read(_text(arguments["path"]), offset, None if length is None else _whole(length))
        return {"size": size, "data": base64.b64encode(data).decode("ascii")}

    def _list_files(self, arguments: Json) -> Json:
        if "path" not in arguments:
            raise InvalidCall(400, "Missing required fields: list_files.path")
        return {"file_infos": [_listed(info) for info in self._files.browse(_text(arguments["path"]))]}


def _invalid(field: str) -> str:
    return f"Failed to validate agent::Call: Expecting '{field}' to be present"


def _whole(value: object) -> int:
    """A negative number counts as a huge one, as where numbers have no sign."""
    if not isinstance(value, int):
        raise InvalidCall(400, "Failed to convert JSON into Call protobuf: Expecting a number")
    return value if value >= 0 else 2**64 + value


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise InvalidCall(400, "Failed to convert JSON into Call protobuf: Expecting a string")
    return value


def _parse_call(request: Request) -> Json:
    if request.method != "POST":
        raise InvalidCall(405, f"Expecting one of {{ 'POST' }}, but received '{request.method}'")
    content_type = request.headers.get(b"content-type", b"").decode("latin-1")
    if content_type != JSON:
        raise InvalidCall(415, f"Expecting 'Content-Type' of {JSON}")
    try:
        call = json.loads(request.body)
    except (ValueError, RecursionError) as error:
        raise InvalidCall(400, f"Failed to parse body into JSON: {error}") from None
    if not isinstance(call, dict):
        raise InvalidCall(400, "Failed to convert JSON into Call protobuf: Expecting a JSON object")
    return call


def _json(document: object) -> bytes:
    """Bytes that are no UTF-8 stay as they are, as in the answers of a real agent."""
    return response(200, json.dumps(document, ensure_ascii=False).encode("utf-8", "surrogateescape"), JSON)


def _query(request: Request) -> dict[str, str]:
    text = request.target.partition(b"?")[2].decode("latin-1")
    return dict(parse_qsl(text, keep_blank_values=True))


def _path(query: dict[str, str]) -> str:
    if not query.get("path"):
        raise InvalidCall(400, "Expecting 'path=value' in query.\n")
    return query["path"]


def _number(query: dict[str, str], name: str) -> int:
    """-1 if it is not given."""
    text = query.get(name, "-1")
    try:
        number = int(text)
    except ValueError:
        raise InvalidCall(400, f"Failed to parse {name}: Failed to convert '{text}' to number.\n") from None
    if number < -1:
        raise InvalidCall(400, f"Negative {name} provided: {number}.\n")
    return number


def _browsed(info: FileInfo) -> Json:
    return {
        "gid": info.gid,
        "mode": mode_text(info.mode),
        "mtime": float(info.mtime),
        "nlink": info.nlink,
        "path": info.path,
        "size": info.size,
        "uid": info.uid,
    }


def _listed(info: FileInfo) -> Json:
    return {
        "path": info.path,
        "nlink": info.nlink,
        "size": info.size,
        "mtime": {"nanoseconds": info.mtime * 1_000_000_000},
        "mode": info.mode,
        "uid": info.uid,
        "gid": info.gid,
    }
