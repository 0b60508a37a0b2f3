"""The executor API of a Mesos agent on a loopback socket, strict about what executors send, with faults on demand."""

from __future__ import annotations

import base64
import json
import os
import queue
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from tests.waiting import wait_for

REPOSITORY = Path(__file__).parents[2]
FRAMEWORK, EXECUTOR = "framework-1", "0.web.default.1700000000"
STATES = {"STARTING", "RUNNING", "KILLING", "KILLED", "FINISHED", "FAILED", "ERROR"}

Json = dict[str, Any]


def encoded(document: Json) -> str:
    return base64.b64encode(json.dumps(document).encode()).decode()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def do_POST(self) -> None:
        agent = self.server.agent
        agent.answering.wait()
        call = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        problem = agent.problem(self, call)
        if problem:
            agent.problems.append(problem)
            self._answer(400, problem)
        elif call["type"] == "SUBSCRIBE":
            self._stream(agent, call["subscribe"])
        else:
            agent.received(call)
            self._answer(202, "")

    def _answer(self, status: int, text: str) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(text.encode())))
        self.end_headers()
        self.wfile.write(text.encode())

    def _stream(self, agent: StandInAgent, subscribe: Json) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        outgoing = agent.subscribed(subscribe)
        while (record := outgoing.get()) is not None:
            try:
                # Two chunks per record: where chunks end says nothing about where records do.
                for part in (record[:7], record[7:]):
                    if part:
                        self.wfile.write(b"%x\r\n%b\r\n" % (len(part), part))
                        self.wfile.flush()
            except OSError:
                break
        self.close_connection = True

    def log_message(self, format: str, *args: object) -> None:
        pass


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    allow_reuse_address = True
    block_on_close = False

    def __init__(self, agent: StandInAgent, port: int) -> None:
        self.agent = agent
        self.open: list[socket.socket] = []
        super().__init__(("127.0.0.1", port), _Handler)

    def get_request(self) -> tuple[socket.socket, Any]:
        request, address = super().get_request()
        self.open.append(request)
        return request, address

    def handle_error(self, request: Any, client_address: Any) -> None:
        pass  # connections broken by the tests


class StandInAgent:
    """`updates` holds each status update once, `problems` what executors did against the rules."""

    def __init__(self, sandbox: Path) -> None:
        self.sandbox = sandbox
        self.group: Json = {"v": 1, "taskgroup": EXECUTOR, "agent_ip": "127.0.0.1", "grace_period": 2.0}
        self.acknowledges = True
        self.environment: dict[str, str] = {}
        """Of executors, beyond what agents set."""
        self.updates: list[Json] = []
        self.messages: list[Json] = []
        self.subscriptions: list[Json] = []
        self.problems: list[str] = []
        self.executors: list[subprocess.Popen[bytes]] = []
        self.answering = threading.Event()
        """Cleared: calls are taken and not answered."""
        self.answering.set()
        self._uuids: set[str] = set()
        self._lock = threading.Lock()
        self._outgoing: queue.Queue[bytes | None] = queue.Queue()
        self._server: _Server | None = None
        self._port = 0
        self.come()

    @property
    def endpoint(self) -> str:
        return f"127.0.0.1:{self._port}"

    # ---- faults

    def come(self) -> None:
        self._server = _Server(self, self._port)
        self._port = self._server.server_address[1]
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()

    def go(self) -> None:
        server, self._server = self._server, None
        if server is None:
            return
        server.shutdown()
        server.server_close()
        self._outgoing.put(None)
        for connection in server.open:
            try:
                connection.shutdown(socket.SHUT_RDWR)
            except OSError:
                continue

    # ---- what executors call

    def problem(self, request: BaseHTTPRequestHandler, call: Json) -> str:
        """Why the call is refused, by the rules of Mesos (src/slave/validation.cpp); empty = it is not."""
        if request.path != "/api/v1/executor":
            return f"path {request.path}"
        if request.headers["Content-Type"] != "application/json" or request.headers["Accept"] != "application/json":
            return "not JSON"
        if call["executor_id"]["value"] != EXECUTOR or call["framework_id"]["value"] != FRAMEWORK:
            return "unknown executor"
        if call["type"] == "SUBSCRIBE":
            statuses = [update["status"] for update in call["subscribe"]["unacknowledged_updates"]]
        elif call["type"] == "UPDATE":
            statuses = [call["update"]["status"]]
        elif call["type"] == "MESSAGE":
            json.loads(base64.b64decode(call["message"]["data"], validate=True))
            return ""
        else:
            return f"call {call['type']}"
        return next((problem for status in statuses if (problem := self._status_problem(status))), "")

    @staticmethod
    def _status_problem(status: Json) -> str:
        if len(base64.b64decode(status["uuid"], validate=True)) != 16:
            return "uuid"
        if status["source"] != "SOURCE_EXECUTOR" or status["state"].removeprefix("TASK_") not in STATES:
            return f"source {status['source']} or state {status['state']}"
        return "" if status["timestamp"] > 0 and status["task_id"]["value"] else "timestamp or task id"

    def received(self, call: Json) -> None:
        if call["type"] == "MESSAGE":
            self.messages.append(json.loads(base64.b64decode(call["message"]["data"])))
        else:
            self._update(call["update"]["status"])

    def _update(self, status: Json) -> None:
        with self._lock:
            if status["uuid"] not in self._uuids:
                self._uuids.add(status["uuid"])
                detail = json.loads(base64.b64decode(status["data"])) if "data" in status else {}
                self.updates.append({**status, "detail": detail})
        if self.acknowledges:
            self.send("ACKNOWLEDGED", acknowledged={"task_id": status["task_id"], "uuid": status["uuid"]})

    def subscribed(self, subscribe: Json) -> queue.Queue[bytes | None]:
        self._outgoing = queue.Queue()
        info = {"executor_id": {"value": EXECUTOR}, "data": encoded(self.group)}
        self.send("SUBSCRIBED", subscribed={"executor_info": info, "framework_info": {}, "agent_info": {}})
        for update in subscribe["unacknowledged_updates"]:
            self._update(update["status"])
        # Last, because tests that wait for the subscription send at once: SUBSCRIBED is the first event of a stream.
        self.subscriptions.append(subscribe)
        return self._outgoing

    # ---- what executors are told

    def send(self, kind: str, **content: Any) -> None:
        self.send_record(json.dumps({"type": kind, **content}).encode())

    def send_record(self, record: bytes) -> None:
        self.send_bytes(b"%d\n%b" % (len(record), record))

    def send_bytes(self, data: bytes) -> None:
        self._outgoing.put(data)

    def end_stream(self) -> None:
        self._outgoing.put(None)

    def launch(self, *tasks: Json) -> None:
        """Tasks named `0`, `1`, ... with these launch data; waits for the subscription."""
        wait_for(lambda: self.subscriptions, what="a subscription")
        infos = [self.info(str(index), task) for index, task in enumerate(tasks)]
        self.send("LAUNCH_GROUP", launch_group={"task_group": {"tasks": infos}})

    @staticmethod
    def info(task: str, data: Json) -> Json:
        return {"task_id": {"value": task}, "name": f"task {task}", "data": encoded({"v": 1, **data})}

    def kill(self, task: str = "0", grace: float | None = None) -> None:
        policy = {} if grace is None else {"kill_policy": {"grace_period": {"nanoseconds": int(grace * 1e9)}}}
        self.send("KILL", kill={"task_id": {"value": task}, **policy})

    # ---- what came of it

    def states(self, task: str = "0") -> list[str]:
        return [item["state"].removeprefix("TASK_") for item in self.updates if item["task_id"]["value"] == task]

    def wait_for_state(self, state: str, task: str = "0", seconds: float = 30.0) -> Json:
        """The first update with that state."""

        def found() -> list[Json]:
            mine = [item for item in tuple(self.updates) if item["task_id"]["value"] == task]
            return [item for item in mine if item["state"] == f"TASK_{state}"]

        return wait_for(found, seconds, lambda: f"{state} of task {task}: {self.states(task)} {self.log()[-1500:]}")[0]

    def start(self, program: Path | None = None, /, **environment: str) -> subprocess.Popen[bytes]:
        """The executor, from its sources or in one file; its pid is the warden's."""
        executor = subprocess.Popen(
            [sys.executable, "-B", *([str(program)] if program else ["-m", "bcs_scheduler.executor"])],
            cwd=self.sandbox,
            start_new_session=True,  # as agents do
            stderr=(self.sandbox / "executor.log").open("ab"),
            env={
                "PATH": os.environ["PATH"],
                **({} if program else {"PYTHONPATH": str(REPOSITORY)}),
                "MESOS_AGENT_ENDPOINT": self.endpoint,
                "MESOS_FRAMEWORK_ID": FRAMEWORK,
                "MESOS_EXECUTOR_ID": EXECUTOR,
                "MESOS_SANDBOX": str(self.sandbox),
                "MESOS_CHECKPOINT": "1",
                "MESOS_RECOVERY_TIMEOUT": "15mins",
                "MESOS_SUBSCRIPTION_BACKOFF_MAX": "100ms",
                "MESOS_EXECUTOR_SHUTDOWN_GRACE_PERIOD": "5secs",
                **self.environment,
                **environment,
            },
        )
        self.executors.append(executor)
        return executor

    def log(self) -> str:
        path = self.sandbox / "executor.log"
        return path.read_text() if path.exists() else ""

    def output(self, name: str = "stdout", task: str = "0") -> str:
        path = self.sandbox / "tasks" / task / name
        return path.read_text() if path.exists() else ""


@contextmanager
def stand_in_agent(sandbox: Path) -> Iterator[StandInAgent]:
    agent = StandInAgent(sandbox)
    try:
        yield agent
    finally:
        for executor in agent.executors:
            if executor.poll() is None:
                executor.send_signal(signal.SIGKILL)
            executor.wait()
        agent.go()
