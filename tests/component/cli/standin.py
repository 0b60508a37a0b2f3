"""A stand-in for the scheduler's HTTP API: a real HTTP server that answers in its shapes, for tests of the client."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple
from urllib.parse import parse_qsl, urlsplit

import yaml

from tests.component.standinserver import QuietHandler, StandInServer

Json = dict[str, Any]
PREFIX = "/v4/scheduler/mesos"
APPS = "/namespaces/defaultGroup/applications"
DOCUMENT: Json = {"kind": "application", "metadata": {"name": "web"}, "spec": {"instance": 2}}
ACCEPTED = {"transactionID": "application-1", "namespace": "defaultGroup", "name": "web", "opType": "LAUNCH"}


class Request(NamedTuple):
    method: str
    path: str
    query: dict[str, str]
    body: Any
    token: str = ""
    """Header Authorization."""


class Answer(NamedTuple):
    status: int
    body: Any
    headers: Mapping[str, str] = MappingProxyType({})


def ok(data: Any, status: int = 200, resume: str = "") -> Answer:
    return Answer(
        status,
        {"result": True, "code": 0, "message": "success", "data": data} | ({"continue": resume} if resume else {}),
    )


def failed(status: int, message: str, reason: str = "", problems: list[Json] | None = None) -> Answer:
    data = {"reason": reason, "problems": problems or []}
    return Answer(status, {"result": False, "code": 1405200, "message": message, "data": data})


MISSING = failed(404, "application defaultGroup/web does not exist", "not_found")

Rule = Callable[[Request], Answer | None]


class StandIn(StandInServer):
    """Answers by the first rule that gives something. `seen` holds every request."""

    def __init__(self) -> None:
        self.seen: list[Request] = []
        # Commands for agents look up the names that they are given.
        self.rules: list[Rule] = [lambda request: ok([]) if request[:2] == ("GET", "/agents") else None]
        standin = self

        class Handler(QuietHandler):
            protocol_version = "HTTP/1.1"

            def handle_any(self) -> None:
                parts = urlsplit(self.path)
                content = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                body = json.loads(content) if content else None
                query, token = dict(parse_qsl(parts.query)), self.headers.get("Authorization", "")
                request = Request(self.command, parts.path.removeprefix(PREFIX), query, body, token)
                standin.seen.append(request)
                answers = (rule(request) for rule in standin.rules)
                answer = next(
                    (a for a in answers if a is not None), failed(404, f"nothing at {parts.path}", "no_such_route")
                )
                data = answer.body if isinstance(answer.body, bytes) else json.dumps(answer.body).encode()
                self.send_response(answer.status)
                for name, value in answer.headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            do_GET = do_POST = do_PUT = do_DELETE = handle_any

        super().__init__(Handler)

    def on(self, method: str, path: str, *answers: Answer) -> None:
        """Gives the answers in turn; the last one for ever. A later rule for the same request wins."""
        left = list(answers)

        def rule(request: Request) -> Answer | None:
            if (request.method, request.path) != (method, path):
                return None
            return left.pop(0) if len(left) > 1 else left[0]

        self.rules.insert(0, rule)

    def requests(self, method: str) -> list[Request]:
        return [request for request in self.seen if request.method == method]


def application(name: str = "web", *, running: int = 2, wanted: int = 2, **changes: Any) -> Json:
    return {
        "Kind": "application",
        "ID": name,
        "Name": name,
        "ObjectMeta": {"name": name, "namespace": "defaultGroup", "labels": {"app": name}},
        "DefineInstances": wanted,
        "Instances": wanted,
        "RunningInstances": running,
        "RunAs": "defaultGroup",
        "ClusterId": "dev",
        "Status": "Running" if running == wanted else "Deploying",
        "LastStatus": "Deploying",
        "Created": 1700000000,
        "UpdateTime": 1700000001,
        "Message": "",
        **changes,
    }


def taskgroup(index: int = 0, **changes: Any) -> Json:
    group = f"{index}.web.defaultGroup.dev.1700000000000000000"
    return {
        "ID": group,
        "Name": f"web-{index}",
        "AppID": "web",
        "RunAs": "defaultGroup",
        "InstanceID": index,
        "HostName": f"agent{index}",
        "AgentID": "a-1",
        "Status": "Running",
        "LastStatus": "Starting",
        "Message": "",
        "ReschededTimes": 0,
        "StartTime": 1700000000,
        "UpdateTime": 1700000002,
        "VersionName": "1700000000000000001",
        "Taskgroup": [
            {
                "ID": f"1700000000000000000.0.{group}",
                "Status": "Running",
                "Command": "python3",
                "Arguments": ["-m", "http.server"],
                "PortMappings": [{"Name": "http", "HostPort": 31000 + index}],
            }
        ],
        **changes,
    }


def transaction(status: str = "INIT", **changes: Any) -> Json:
    return {
        "transactionID": "application-1",
        "objectKind": "application",
        "objectName": "web",
        "namespace": "defaultGroup",
        "status": status,
        "message": "",
        "createTime": "2023-11-14T22:13:20.000000Z",
        "curOp": {"opType": "LAUNCH"},
        "target": 2,
        "progress": 1,
        "deadline": "2023-11-14T22:43:20.000000Z",
        "finishTime": "",
        "history": [{"at": "2023-11-14T22:13:20.000000Z", "text": "launching 2"}],
        **changes,
    }


def write(tmp_path: Path, *documents: Any, name: str = "web.json") -> str:
    path = tmp_path / name
    text = json.dumps(documents[0]) if name.endswith(".json") else yaml.safe_dump_all(documents)
    path.write_text(text)
    return str(path)
