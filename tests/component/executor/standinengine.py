"""A stand-in for a container engine on a Unix socket: records requests, behaves as the real one does in what the
executor relies on, and fails on demand. Containers run no program: tests say what they print and when they end."""

from __future__ import annotations

import contextlib
import http.server
import json
import select
import socket
import socketserver
import subprocess
import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

STARTED = "2024-01-01T00:00:00.5Z"
NEVER = "0001-01-01T00:00:00Z"


@dataclass(frozen=True)
class Request:
    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    content: bytes

    @property
    def body(self) -> Any:
        return json.loads(self.content) if self.content else None

    @property
    def line(self) -> str:
        return f"{self.method} {self.path}"


@dataclass
class Container:
    id: str
    name: str
    body: dict[str, Any]
    running: bool = False
    exit_code: int = 0
    oom: bool = False
    address: str = "172.17.0.2"
    started: int = 0
    output: list[tuple[bool, str, bytes]] = field(default_factory=list)
    """Stream, time, content."""
    files: dict[str, bytes] = field(default_factory=dict)
    """Tar archives by path, for reading."""
    given: bytes = b""
    """Input so far."""
    sizes: list[tuple[int, int]] = field(default_factory=list)
    """Rows and columns of its terminal, as they were set."""
    attached: int = 0
    """Attachments to its output."""


@dataclass
class Command:
    """What an exec does: these frames, then its end; with `hangs` the end comes by `killed`."""

    frames: list[tuple[bool, bytes]] = field(default_factory=list)
    exit_code: int = 0
    hangs: bool = False
    process: subprocess.Popen[bytes] | None = None
    """A real one of this machine: it is what runs, and can be killed."""
    done: bool = False
    given: bytes = b""
    """Input so far."""
    reads: bool = False
    """It reads its input to the end, and repeats it, before it ends. With `process`, it attends that to its end."""
    tty: bool = False
    sizes: list[tuple[int, int]] = field(default_factory=list)
    """Rows and columns, as they were set."""

    @property
    def running(self) -> bool:
        return self.process.poll() is None if self.process else not self.done


class StandInEngine:
    def __init__(self, path: Path, api_version: str = "1.43") -> None:
        self.path = str(path)
        self.api_version = api_version
        self.requests: list[Request] = []
        self.images: set[str] = set()
        self.containers: dict[str, Container] = {}
        self.commands: dict[str, Command] = {}
        self.next_command = Command()
        self.top: list[list[str]] = []
        self.pull: list[dict[str, Any]] = [{"status": "Pulling"}, {"status": "Done"}]
        self.push: list[dict[str, Any]] = [{"status": "Pushed"}]
        self.stalled = threading.Event()
        """While set, pulls and pushes go on for ever after their lines."""
        self.faults: dict[str, list[tuple[int, str]]] = {}
        """Answers by `METHOD path` (with `ID` for a container's id), used up one after the other."""
        self.obeys = {"SIGTERM", "SIGQUIT"}
        """Signals at which a container ends, beside SIGKILL."""
        self.config: dict[str, Any] = {}
        """Of the image, as it shows in a container's."""
        self.targets: list[str] = []
        """Of the requests, as they came: with version and query."""
        self.changed = threading.Condition()
        self._server: _Server | None = None
        self._lines: set[socket.socket] = set()
        self.back()

    def back(self) -> None:
        if self._server is not None:
            return
        Path(self.path).unlink(missing_ok=True)
        self._server = _Server(self.path, _Handler)
        self._server.engine = self
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()

    def away(self) -> None:
        """As when the engine is restarted: its socket is there, connections break, none is taken."""
        server, self._server = self._server, None
        if server is not None:
            server.shutdown()
            server.server_close()
        self.cut()

    def cut(self) -> None:
        for line in list(self._lines):
            with contextlib.suppress(OSError):
                line.shutdown(socket.SHUT_RDWR)

    def container(self, name: str) -> Container:
        """By id or name. Raises KeyError."""
        for container in list(self.containers.values()):
            if name in (container.id, container.name):
                return container
        raise KeyError(name)

    def only(self) -> Container:
        (container,) = self.containers.values()
        return container

    def prints(self, container: Container, content: bytes, stderr: bool = False, at: str = STARTED) -> None:
        with self.changed:
            container.output.append((stderr, at, content))
            self.changed.notify_all()

    def ends(self, container: Container, code: int, oom: bool = False) -> None:
        with self.changed:
            container.running, container.exit_code, container.oom = False, code, oom
            self.changed.notify_all()

    def lines(self, method: str = "") -> list[str]:
        return [request.line for request in self.requests if request.method.startswith(method)]

    def last(self, line: str) -> Request:
        return next(request for request in reversed(self.requests) if request.line == line)


class _Server(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 64
    engine: StandInEngine

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that goes away is no error."""


class _Handler(http.server.BaseHTTPRequestHandler):
    server: _Server
    protocol_version = "HTTP/1.1"
    timeout = 30

    def setup(self) -> None:
        super().setup()
        self.engine = self.server.engine
        self.engine._lines.add(self.connection)

    def finish(self) -> None:
        self.engine._lines.discard(self.connection)
        super().finish()

    def address_string(self) -> str:
        return "unix"

    def log_message(self, *args: Any) -> None:
        """Tests look at the requests themselves."""

    def _serve(self) -> None:
        parts = urlsplit(self.path)
        self.engine.targets.append(self.path)
        content = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        path = unquote(parts.path)
        version, _, rest = path.lstrip("/").partition("/")
        if version.startswith("v1."):
            path = f"/{rest}"
        request = Request(self.command, path, dict(parse_qsl(parts.query)), dict(self.headers.items()), content)
        self.engine.requests.append(request)
        if not self._fails(request):
            self._answer(request)
        if self.engine._server is None:
            self.close_connection = True

    def _answer(self, request: Request) -> None:
        words = request.path.strip("/").split("/")
        try:
            {
                "_ping": self._ping,
                "version": self._version,
                "images": self._image,
                "containers": self._container,
                "exec": self._exec,
                "commit": self._commit,
            }[words[0]](request, words)
        except KeyError as missing:
            self._say(404, {"message": f"No such object: {missing}"})

    do_GET = do_POST = do_PUT = do_DELETE = _serve

    def _fails(self, request: Request) -> bool:
        line = request.line
        for identity in self.engine.containers:
            line = line.replace(identity, "ID")
        answers = self.engine.faults.get(line)
        if not answers:
            return False
        status, message = answers.pop(0)
        if status:
            self._say(status, {"message": message})
        else:
            self.connection.shutdown(socket.SHUT_RDWR)
        return True

    def _say(self, status: int, body: Any = None, headers: dict[str, str] | None = None) -> None:
        content = body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def _ping(self, request: Request, words: list[str]) -> None:
        said = {"Api-Version": self.engine.api_version} if self.engine.api_version else {}
        self._say(200, b"OK", said)

    def _version(self, request: Request, words: list[str]) -> None:
        self._say(200, {"ApiVersion": "1.40"})

    # --- images -----------------------------------------------------------------------------------------------

    def _image(self, request: Request, words: list[str]) -> None:
        if words[-1] == "json":
            name = "/".join(words[1:-1])
            if name not in self.engine.images:
                raise KeyError(name)
            self._say(200, {"Id": "sha256:1"})
        elif words[-1] == "push":
            self._progress(self.engine.push)
        else:
            tag = request.query["tag"]
            self._progress(self.engine.pull)
            if not any("error" in line for line in self.engine.pull):
                self.engine.images.add(f"{request.query['fromImage']}:{tag}")

    def _progress(self, lines: list[dict[str, Any]]) -> None:
        self._begin_chunks()
        for line in lines:
            self._chunk(json.dumps(line).encode() + b"\r\n")
        while self.engine.stalled.is_set() and self.connection.recv(1) != b"":
            pass
        self._chunk(b"")

    def _begin_chunks(self) -> None:
        self.send_response(200)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()

    def _chunk(self, content: bytes) -> None:
        """An empty one is the end."""
        self.wfile.write(b"%x\r\n%b\r\n" % (len(content), content))
        self.wfile.flush()

    def _commit(self, request: Request, words: list[str]) -> None:
        self.engine.container(request.query["container"])
        self._say(201, {"Id": "sha256:committed"})

    # --- containers -------------------------------------------------------------------------------------------

    def _container(self, request: Request, words: list[str]) -> None:
        if words[1] == "json":
            return self._list(request)
        if words[1] == "create":
            return self._create(request)
        container = self.engine.container(words[1])
        action = "remove" if request.method == "DELETE" else "inspect" if words[2] == "json" else words[2]
        getattr(self, f"_do_{action}")(request, container)
        return None

    def _list(self, request: Request) -> None:
        wanted = json.loads(request.query["filters"])["label"][0].partition("=")
        found = [
            {"Id": c.id, "State": "running" if c.running else "exited", "Labels": c.body["Labels"]}
            for c in self.engine.containers.values()
            if wanted[0] in c.body["Labels"] and (not wanted[1] or c.body["Labels"][wanted[0]] == wanted[2])
        ]
        self._say(200, found)

    def _create(self, request: Request) -> None:
        name = request.query["name"]
        if any(container.name == name for container in self.engine.containers.values()):
            return self._say(409, {"message": f"Conflict. The container name {name} is already in use"})
        identity = f"c{len(self.engine.lines('POST')):04d}"
        self.engine.containers[identity] = Container(identity, name, request.body)
        return self._say(201, {"Id": identity, "Warnings": []})

    def _do_inspect(self, request: Request, container: Container) -> None:
        network = container.body["HostConfig"]["NetworkMode"]
        state = {
            "Running": container.running, "Pid": 4711 if container.running else 0, "ExitCode": container.exit_code,
            "OOMKilled": container.oom, "Error": "", "StartedAt": STARTED if container.started else NEVER,
            "FinishedAt": NEVER if container.running or not container.started else "2024-01-01T00:00:09Z",
        }  # fmt: skip
        named: dict[str, Any] = {name: container.body[name] for name in ("Entrypoint", "Cmd") if name in container.body}
        config = {"User": container.body.get("User", ""), **self.engine.config, **named}
        networks = {network: {"IPAddress": "" if network == "host" else container.address}}
        self._say(200, {"State": state, "Config": config, "NetworkSettings": {"Networks": networks}})

    def _do_start(self, request: Request, container: Container) -> None:
        with self.engine.changed:
            container.running, container.started = True, container.started + 1
            self.engine.changed.notify_all()
        self._say(204)

    def _do_wait(self, request: Request, container: Container) -> None:
        with self.engine.changed:
            while container.running and container.id in self.engine.containers and self.engine._server:
                self.engine.changed.wait(0.1)
        if self.engine._server:
            self._say(200, {"StatusCode": container.exit_code})

    def _do_kill(self, request: Request, container: Container) -> None:
        if not container.running:
            return self._say(409, {"message": f"Container {container.id} is not running"})
        signal = request.query.get("signal", "SIGKILL")
        if signal == "SIGKILL" or signal in self.engine.obeys:
            self.engine.ends(container, 137 if signal == "SIGKILL" else 143)
        return self._say(204)

    def _do_stop(self, request: Request, container: Container) -> None:
        self.engine.ends(container, 143)
        self._say(204)

    def _do_restart(self, request: Request, container: Container) -> None:
        self.engine.ends(container, 143)
        self._do_start(request, container)

    def _do_update(self, request: Request, container: Container) -> None:
        self._say(200, {"Warnings": []})

    def _do_top(self, request: Request, container: Container) -> None:
        self._say(200, {"Titles": ["PID", "COMMAND"], "Processes": self.engine.top})

    def _do_remove(self, request: Request, container: Container) -> None:
        with self.engine.changed:
            del self.engine.containers[container.id]
            container.running = False
            self.engine.changed.notify_all()
        self._say(204)

    def _do_archive(self, request: Request, container: Container) -> None:
        if request.method == "PUT":
            return self._say(200)
        return self._say(200, container.files[request.query["path"]], {"Content-Type": "application/x-tar"})

    def _do_attach(self, request: Request, container: Container) -> None:
        """As the real engine: to the output from now on, until the container stops the next time; the input stays open
        when a client has left."""
        done, starts, running = len(container.output), container.started, container.running
        self.send_response(200)
        self.send_header("Content-Type", "application/vnd.docker.raw-stream")
        self.end_headers()
        self.wfile.flush()
        self.close_connection = True
        if request.query["stdin"] == "1":
            self._take_input(container)
        else:
            container.attached += 1
            self._give_output(container, done, starts, running)

    def _take_input(self, container: Container) -> None:
        starts = container.started
        while container.running and container.started == starts and self.engine._server:
            ready, _, _ = select.select((self.connection,), (), (), 0.02)
            if ready:
                content = self.connection.recv(65536)
                if not content:
                    return
                if container.id not in self.engine.containers or container.started != starts:
                    return
                with self.engine.changed:
                    container.given += content if container.body.get("OpenStdin") else b""
                    self.engine.changed.notify_all()

    def _give_output(self, container: Container, done: int, starts: int, begun: bool) -> None:
        """From entry `done` of the output on. `starts`, `begun`: how often it was started, and whether it ran, when the
        client came."""
        while True:
            with self.engine.changed:
                begun = begun or container.started > starts
                over = (begun and not container.running) or self.engine._server is None
                over = over or container.id not in self.engine.containers
                if done == len(container.output) and not over:
                    self.engine.changed.wait(0.1)
                todo, done = container.output[done:], len(container.output)
            for stderr, _, content in todo:
                self.wfile.write(content if container.body["Tty"] else frame(stderr, content))
            self.wfile.flush()
            if over and not todo:
                return

    def _do_resize(self, request: Request, container: Container) -> None:
        container.sizes.append((int(request.query["h"]), int(request.query["w"])))
        self._say(200)

    def _do_logs(self, request: Request, container: Container) -> None:
        self._begin_chunks()
        done = 0
        while True:
            with self.engine.changed:
                if done == len(container.output) and container.running and self.engine._server:
                    self.engine.changed.wait(0.1)
                todo, done = container.output[done:], len(container.output)
                over = not container.running or self.engine._server is None
            for stderr, at, content in todo:
                self._chunk(frame(stderr, at.encode() + b" " + content))
            if over and done == len(container.output):
                return self._chunk(b"")

    # --- commands beside a container --------------------------------------------------------------------------

    def _do_exec(self, request: Request, container: Container) -> None:
        identity = f"e{len(self.engine.commands)}"
        self.engine.commands[identity] = self.engine.next_command
        self._say(201, {"Id": identity})

    def _exec(self, request: Request, words: list[str]) -> None:
        command = self.engine.commands[words[1]]
        if words[2] == "json":
            return self._say(
                200,
                {
                    "Running": command.running,
                    "ExitCode": command.exit_code,
                    "Pid": command.process.pid if command.process else 0,
                },
            )
        if words[2] == "resize":
            command.sizes.append((int(request.query["h"]), int(request.query["w"])))
            return self._say(201)
        command.tty = bool(request.body["Tty"])
        self.send_response(200)
        self.send_header("Content-Type", "application/vnd.docker.raw-stream")
        self.send_header("Connection", "close")
        self.end_headers()
        for stderr, content in command.frames:
            self.wfile.write(content if command.tty else frame(stderr, content))
        self.wfile.flush()
        if command.reads:
            while content := self.rfile.read1(65536):
                command.given += content
                self.wfile.write(content if command.tty else frame(False, content))
                if command.tty and b"\x04" in content:
                    break
            command.done = True
        elif command.hangs:
            self.connection.recv(1)
        else:
            command.done = True
        return None


def frame(stderr: bool, content: bytes) -> bytes:
    return bytes([2 if stderr else 1, 0, 0, 0]) + len(content).to_bytes(4, "big") + content
