"""Sessions over WebSocket: who may begin one, what is said, how they end, and what the audit log has of them."""

from __future__ import annotations

import asyncio
import json
import signal
import threading
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from queue import Queue
from typing import Any

import pytest
from websockets.exceptions import InvalidStatus, InvalidURI
from websockets.sync.client import ClientConnection, connect

from bcs_scheduler.agentapi import sessions
from bcs_scheduler.agentapi.terminal_sizes import Size
from bcs_scheduler.api.http.operation import BASE, ApiSettings
from bcs_scheduler.api.http.request_gate import RequestGate
from bcs_scheduler.api.sessions.programs import Attachment
from bcs_scheduler.api.sessions.relay import NoMetrics, Relay
from bcs_scheduler.net.addresses import HostPort
from bcs_scheduler.observability.metrics import Metrics
from bcs_scheduler.security.audit import Audit
from bcs_scheduler.security.caller import PROGRAM_RIGHTS
from bcs_scheduler.security.tokens import hash_of, read_tokens
from bcs_scheduler.security.watched import WatchedFiles
from store.records import Framework, Task, TaskGroup, Version
from store.records.definition import Container
from store.records.running import BoundPort
from tests.component.apiserver import Api, serving
from tests.component.standinserver import QuietHandler, StandInServer
from tests.unit.api_support import CoreGateway, listed_agent
from tests.waiting import wait_for

GROUP, TASK = "0.web.shop.demo.1", "1.0.0.web.shop.demo"
EXEC = f"/taskgroup/{GROUP}/exec"
HOLDERS = {
    "viewer": ("viewer", ""),
    "operator": ("operator", ""),
    "careful": ("operator", "programs = false"),
    "stranger": ("operator", ""),
    **{f"only-{right}": ("operator", f'programs = ["{right}"]') for right in PROGRAM_RIGHTS},
}


class StandInAgent(StandInServer):
    """One task. A session says `said`, then repeats its input until that ends, and ends with `status`. `asked`: the
    calls, and the records of the input."""

    def __init__(self) -> None:
        self.asked: list[dict[str, Any]] = []
        self.said: list[tuple[str, bytes]] = []
        self.status = 0
        self.input: list[bytes] = []
        self.input_ended = threading.Event()
        self.broken_off = threading.Event()
        self.waits_for_input = True
        self.framed = True
        """False: the output is no RecordIO stream."""
        self.quiet = False
        """Nothing is printed before the end of the input, beside `says`."""
        self.says: Queue[bytes] = Queue()
        """Output that is printed when it is added."""
        agent = self

        class Handler(QuietHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                if self.headers["Content-Type"] == "application/recordio":
                    self._take_input()
                    return
                call = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                agent.asked.append(call)
                if call["type"] == "GET_TASKS":
                    self._answer(agent.tasks())
                elif call["type"] == "KILL_NESTED_CONTAINER":
                    self._answer({})
                elif call["type"] == "WAIT_NESTED_CONTAINER":
                    self._answer({"wait_nested_container": {"exit_status": agent.status}})
                else:
                    self._run()

            def _answer(self, document: object) -> None:
                data = json.dumps(document).encode()
                self.send_response(200)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def _run(self) -> None:
                self.send_response(200)
                self.send_header("Transfer-Encoding", "chunked")
                self.end_headers()
                try:
                    for stream, data in agent.said:
                        self._say(stream, data)
                    if agent.waits_for_input:
                        while not agent.input_ended.wait(0.05):
                            if not agent.quiet:
                                self._say("STDERR", b".")  # finds out whether somebody reads
                            while not agent.says.empty():
                                self._say("STDOUT", agent.says.get())
                        self._say("STDOUT", b"".join(agent.input))
                    self.wfile.write(b"0\r\n\r\n")
                except OSError:
                    agent.broken_off.set()

            def _say(self, stream: str, data: bytes) -> None:
                message = {"type": "DATA", "data": {"type": stream, "data": b64encode(data).decode()}}
                record = json.dumps(message).encode()
                if agent.framed:
                    record = b"%d\n%b" % (len(record), record)
                self.wfile.write(b"%x\r\n%b\r\n" % (len(record), record))
                self.wfile.flush()

            def _take_input(self) -> None:
                while size := int(self.rfile.readline() or b"0", 16):
                    chunk = self.rfile.read(size)
                    self.rfile.readline()
                    call = json.loads(chunk.partition(b"\n")[2])["attach_container_input"]
                    agent.asked.append(call)
                    io = call.get("process_io", {})
                    if io.get("type") == "DATA":
                        data = b64decode(io["data"]["data"])
                        agent.input.append(data)
                        if not data:
                            agent.input_ended.set()
                self.rfile.readline()
                self._answer({})

        super().__init__(Handler)

    def tasks(self) -> dict[str, Any]:
        identity = {"value": "nested", "parent": {"value": "container"}}
        task = {
            "task_id": {"value": TASK},
            "framework_id": {"value": "framework-1"},
            "statuses": [{"container_status": {"container_id": identity}}],
        }
        return {"get_tasks": {"launched_tasks": [task]}}

    def sizes(self) -> list[tuple[int, int]]:
        """Rows and columns of the terminal, as they were sent."""
        controls = [c["process_io"]["control"] for c in self.asked if c.get("process_io", {}).get("control")]
        sizes = [control["tty_info"]["window_size"] for control in controls]
        return [(size["rows"], size["columns"]) for size in sizes]

    def launched(self) -> dict[str, Any]:
        found = wait_for(
            lambda: [c for c in self.asked if c.get("type") == "LAUNCH_NESTED_CONTAINER_SESSION"], what="a launch"
        )
        return dict(found[-1]["launch_nested_container_session"])


@pytest.fixture
def agent() -> Iterator[StandInAgent]:
    served = StandInAgent()
    yield served
    served.close()


@pytest.fixture
def gateway(agent: StandInAgent) -> CoreGateway:
    made = CoreGateway([Framework(id="framework-1"), group()])
    made.listed = [listed_agent(1, 1, 1)._replace(ip="127.0.0.1", port=agent.port)]
    return made


def group(status: Any = "Running") -> TaskGroup:
    task = Task(id=TASK, name="server", status=status, ports=(BoundPort(name="http", host_port=31000),))
    return TaskGroup(
        id=GROUP, namespace="shop", application="web", index=0, version="1", agent_id="agent-1", tasks=(task,),
        agent_ip="127.0.0.1", executor="mesos",
    )  # fmt: skip


class Guarded:
    def __init__(self, api: Api, audit: Path, tokens: Path, metrics: Metrics) -> None:
        self.api, self._audit, self.tokens, self.metrics = api, audit, tokens, metrics

    def open(self, path: str = EXEC, holder: str = "operator") -> ClientConnection:
        return connect(
            self.api.url.replace("http", "ws") + BASE + path,
            additional_headers={"Authorization": f"Bearer {holder}"},
            proxy=None,
            legacy=True,
        )

    def refusal(self, path: str = EXEC, holder: str = "operator") -> tuple[int, str]:
        with pytest.raises(InvalidStatus) as refused:
            self.open(path, holder).close()
        response = refused.value.response
        return response.status_code, json.loads(response.body or b"{}")["data"]["reason"]

    def refused_total(self, reason: str) -> float | None:
        return self.metrics.registry.get_sample_value("bkbcs_scheduler_api_refused_total", {"reason": reason})

    def audited(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self._audit.read_text().splitlines()]


@pytest.fixture
def guarded(gateway: CoreGateway, tmp_path: Path) -> Iterator[Guarded]:
    with guarding(gateway, tmp_path, sessions=2, client_share=1.0) as made:
        yield made


@contextmanager
def guarding(gateway: CoreGateway, tmp_path: Path, **settings: Any) -> Iterator[Guarded]:
    tokens, audit = tmp_path / "tokens.toml", tmp_path / "audit"
    namespaces = {"stranger": "other"}
    tokens.write_text(
        "\n".join(
            f'[[token]]\nname = "{name}"\nhash = "{hash_of(name)}"\nrole = "{role}"\n'
            f'namespaces = ["{namespaces.get(name, "shop")}"]\n{more}'
            for name, (role, more) in HOLDERS.items()
        )
    )
    gate = RequestGate(
        tokens=WatchedFiles("tokens", [tokens], lambda: read_tokens(tokens)),
        audit=Audit(audit),
        refused=lambda reason: metrics.refused(reason),
    )
    metrics = Metrics("BCS-1")
    with serving(gateway, ApiSettings(**settings), gate=gate, sessions=metrics) as api:
        yield Guarded(api, audit, tokens, metrics)


def outcome(line: ClientConnection) -> dict[str, Any]:
    """The last word; what comes before it is dropped."""
    for message in line:
        if isinstance(message, bytes) and message[0] == 3:
            return dict(json.loads(message[1:]))
    raise AssertionError("there was no last word")


def begin(line: ClientConnection, **document: Any) -> ClientConnection:
    line.send(json.dumps(document))
    return line


def test_a_program_with_its_streams(guarded: Guarded, agent: StandInAgent) -> None:
    agent.said = [("STDOUT", b"one"), ("STDERR", b"two")]
    agent.status = 7 << 8
    with guarded.open() as line:
        begin(line, command=["cat", "-u"], stdin=True, env={"A": "secret"}, user="nobody")
        line.send(b"\0hello")
        line.send(bytes((255, 0)))
        found: dict[int, bytes] = {}
        for message in line:
            assert isinstance(message, bytes)
            found[message[0]] = found.get(message[0], b"") + message[1:]
    assert found[1] == b"onehello"
    assert found[2].startswith(b"two")
    assert json.loads(found[3]) == {"exitCode": 7}
    launched = agent.launched()
    assert launched["container_id"]["parent"] == {"value": "nested", "parent": {"value": "container"}}
    assert launched["command"]["arguments"] == ["cat", "-u"]
    assert launched["command"]["user"] == "nobody"
    assert "container" not in launched

    begun, ended = wait_for(lambda: len(guarded.audited()) == 2 and guarded.audited(), what="two lines of audit")
    assert (begun["phase"], begun["who"], begun["program"], begun["object"]) == (
        "begin", "operator", "cat", {"id": GROUP},
    )  # fmt: skip
    assert (ended["phase"], ended["exitCode"], ended["received"], ended["reason"]) == ("end", 7, 5, "")
    assert ended["cause"] == begun["cause"]
    assert "secret" not in json.dumps(guarded.audited())


def test_open_sessions_and_their_bytes_are_counted(guarded: Guarded, agent: StandInAgent) -> None:
    def count(name: str, **labels: str) -> float | None:
        return guarded.metrics.registry.get_sample_value(f"bkbcs_scheduler_{name}", labels)

    kinds = ("exec", "attach", "portforward")
    assert [count("sessions", kind=kind) for kind in kinds] == [0, 0, 0]
    assert [count("session_bytes_total", direction=direction) for direction in ("in", "out")] == [0, 0]
    agent.said = [("STDOUT", b"x" * 1000)]
    with guarded.open() as line, guarded.open(f"/taskgroup/{GROUP}/portforward") as other:
        wait_for(lambda: [count("sessions", kind=kind) for kind in kinds] == [1, 0, 1], what="two open sessions")
        begin(other, port=22)
        outcome(other)
        begin(line, command=["cat"], stdin=True)
        line.send(b"\0" + b"y" * 300)
        line.send(bytes((255, 0)))
        sent = sum(len(message) - 1 for message in line if isinstance(message, bytes) and message[0] in (1, 2))
    wait_for(lambda: [count("sessions", kind=kind) for kind in kinds] == [0, 0, 0], what="no open session")
    assert count("session_bytes_total", direction="in") == 300
    assert count("session_bytes_total", direction="out") == sent >= 1300


def test_a_terminal_has_a_size(guarded: Guarded, agent: StandInAgent) -> None:
    with guarded.open() as line:
        begin(line, command=["sh"], stdin=True, tty={"rows": 33, "columns": 77})
        wait_for(lambda: agent.sizes() == [(33, 77)], what=lambda: f"33 x 77 in {agent.sizes()}")
        line.send(bytes((4,)) + b'{"rows": 20, "columns": 100}')
        expected = [(33, 77), (20, 100)]
        wait_for(lambda: agent.sizes() == expected, what=lambda: f"{expected} in {agent.sizes()}")
    assert agent.launched()["container"]["tty_info"]["window_size"] == {"rows": 33, "columns": 77}


def test_the_agent_gets_no_size_before_the_program_has_printed_something(
    guarded: Guarded, agent: StandInAgent, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The launcher of the agent ends on SIGWINCH as long as it has not started the program."""
    monkeypatch.setattr(sessions, "SIZE_DELAY", 600.0)
    agent.quiet = True
    with guarded.open() as line:
        begin(line, command=["sh"], stdin=True, tty={"rows": 33, "columns": 77})
        line.send(bytes((4,)) + b'{"rows": 20, "columns": 100}')
        line.send(b"\0typed early")
        wait_for(lambda: agent.input == [b"typed early"], what="the input")
        assert agent.sizes() == []
        agent.quiet = False
        wait_for(lambda: agent.sizes() == [(20, 100)], what=lambda: f"20 x 100 in {agent.sizes()}")


def test_a_silent_program_gets_the_size_later(
    guarded: Guarded, agent: StandInAgent, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sessions, "SIZE_DELAY", 0.1)
    agent.quiet = True
    with guarded.open() as line:
        begin(line, command=["sh"], stdin=True, tty={"rows": 33, "columns": 77})
        wait_for(lambda: agent.sizes() == [(33, 77)], what=lambda: f"33 x 77 in {agent.sizes()}")


def test_the_last_input_of_a_user_who_leaves_is_written_before_the_session_is_ended(agent: StandInAgent) -> None:
    agent.quiet = True
    messages = iter(({"type": "websocket.receive", "bytes": b"\0last"}, {"type": "websocket.disconnect"}))

    async def receive() -> Any:
        return next(messages)

    async def send(message: Any) -> None:
        raise AssertionError(f"the user has left: {message}")

    async def run() -> None:
        at = sessions.Agent(HostPort("127.0.0.1", agent.port))
        session = await sessions.launch(at, sessions.ContainerId("c"), sessions.Program(("sh",), {}))
        attachment = Attachment(session)
        assert await Relay(receive, send, lambda idle: None, NoMetrics()).run(attachment) is None
        await attachment.close()

    asyncio.run(run())
    asked = [call["type"] for call in agent.asked]
    assert agent.input == [b"last"]
    assert asked[-3:] == ["PROCESS_IO", "KILL_NESTED_CONTAINER", "WAIT_NESTED_CONTAINER"]
    assert agent.asked[-2]["kill_nested_container"]["signal"] == signal.SIGTERM


@pytest.mark.parametrize("sets_size", [True, False])
def test_the_echo_of_early_input_is_no_output_of_the_program(
    agent: StandInAgent, monkeypatch: pytest.MonkeyPatch, sets_size: bool
) -> None:
    """On a busy machine, the launcher of the agent may need longer than SIZE_DELAY. The terminal echoes keys that are
    typed before the program runs, and a size would then end the launcher."""
    monkeypatch.setattr(sessions, "SIZE_DELAY", 600.0)
    agent.quiet = True
    program = sessions.Program(("sh",), {}, size=Size(33, 77), sets_size=sets_size)

    async def until(condition: Callable[[], bool], what: str) -> None:
        await asyncio.to_thread(wait_for, condition, 30, what)

    async def run() -> None:
        at = sessions.Agent(HostPort("127.0.0.1", agent.port))
        session = await sessions.launch(at, sessions.ContainerId("c"), program)
        output = session.output()
        try:
            await session.send(b"ls\r\x12")
            await until(lambda: b"ls\r\x12" in agent.input, "the input")
            for echo in (b"ls\r", b"\n^R"):
                agent.says.put(echo)
                assert (await anext(output)).data == echo
            assert agent.sizes() == []
            await session.resize(Size(20, 100))
            await session.send(b"second")
            await until(lambda: b"second" in agent.input, "the input")
            assert agent.sizes() == []
            agent.says.put(b"file\r\n")
            await anext(output)
            await until(lambda: agent.sizes() == [(20, 100)], "the size after the first output")
        finally:
            await session.close()

    asyncio.run(run())


def test_a_program_that_sets_the_size_by_itself_gets_later_sizes_only(agent: StandInAgent) -> None:
    program = sessions.Program(("sh",), {}, size=Size(33, 77), sets_size=True)

    async def run() -> None:
        at = sessions.Agent(HostPort("127.0.0.1", agent.port))
        session = await sessions.launch(at, sessions.ContainerId("c"), program)
        output = session.output()
        try:
            await anext(output)
            await session.send(b"one")
            await asyncio.to_thread(wait_for, lambda: b"one" in agent.input, 30, "the input")
            assert agent.sizes() == []
            await session.resize(Size(20, 100))
            await asyncio.to_thread(wait_for, lambda: agent.sizes() == [(20, 100)], 30, "the size")
        finally:
            await session.close()

    asyncio.run(run())


def test_who_may_not(guarded: Guarded, agent: StandInAgent) -> None:
    assert guarded.refusal(holder="nobody") == (401, "unauthenticated")
    assert guarded.refusal(holder="viewer") == (403, "forbidden")
    assert guarded.refusal(holder="careful") == (403, "forbidden")
    assert guarded.refusal(holder="stranger") == (404, "not_found")
    assert guarded.refusal("/taskgroup/9.web.shop.demo.1/exec") == (404, "not_found")
    assert guarded.refusal("/taskgroups") == (404, "no_such_route")
    assert guarded.refusal(f"{EXEC}?task=other") == (400, "bad_parameter")
    assert guarded.refusal(f"{EXEC}?Task=web") == (400, "bad_parameter")
    assert agent.asked == []
    refusals = [(line["phase"], line["status"]) for line in guarded.audited()]
    assert refusals[:3] == [("refused", 401), ("refused", 403), ("refused", 403)]


@pytest.mark.parametrize("kind", PROGRAM_RIGHTS)
def test_each_kind_of_session_has_a_right_of_its_own(guarded: Guarded, agent: StandInAgent, kind: str) -> None:
    path = f"/taskgroup/{GROUP}/{kind}"
    for holder, missing in [
        ("viewer", "the role operator"),
        ("careful", f"the right {kind} "),
        *((f"only-{other}", f"the right {kind} ") for other in PROGRAM_RIGHTS if other != kind),
    ]:
        with pytest.raises(InvalidStatus) as refused:
            guarded.open(path, holder).close()
        envelope = json.loads(refused.value.response.body or b"{}")
        assert (refused.value.response.status_code, envelope["data"]["reason"]) == (403, "forbidden")
        assert f"{holder} needs {missing}" in envelope["message"]
        last = guarded.audited()[-1]
        assert (last["phase"], last["kind"], last["who"], last["status"], last["reason"]) == (
            "refused", kind, holder, 403, "forbidden",
        )  # fmt: skip
    assert agent.asked == []

    with guarded.open(path, f"only-{kind}") as line:
        line.send("[]")
        assert outcome(line)["reason"] == "invalid"
    with guarded.open(path, "operator") as line:
        begin(line, port=22, stdin=True, command=[])
        assert outcome(line)["reason"] in ("invalid", "conflict")
    wait_for(lambda: guarded.audited()[-1]["phase"] == "end", what="the lines of audit")
    begun, ended = guarded.audited()[-2:]
    assert [(a["phase"], a["kind"], a["object"]) for a in (begun, ended)] == [
        ("begin", kind, {"id": GROUP}), ("end", kind, {"id": GROUP}),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("copy", "argv"),
    [
        ({"action": "fetch", "path": "a b"}, ["a b"]),
        ({"action": "putFolder", "path": "/srv", "name": "$(x)"}, ["/srv", "$(x)"]),
        ({"action": "putFile", "path": "p", "name": "n", "mode": 0o755, "size": 7}, ["p", "n", "755", "7"]),
        ({"action": "putFile", "path": "p"}, ["p", "", "644", ""]),
    ],
)
def test_the_server_builds_the_program_of_a_copy(
    guarded: Guarded, agent: StandInAgent, copy: dict[str, Any], argv: list[str]
) -> None:
    with guarded.open(f"/taskgroup/{GROUP}/copy", "only-copy") as line:
        begin(line, copy=copy, command=["rm", "-rf", "/"], user="root", env={"LD_PRELOAD": "x"})
        launched = agent.launched()["command"]
    assert launched["arguments"][:2] == ["sh", "-c"]
    assert launched["arguments"][4:] == argv
    assert "user" not in launched
    assert launched["environment"] == {"variables": []}


@pytest.mark.parametrize(
    "copy",
    [None, {}, {"action": "run", "path": "x"}, {"action": "fetch"}, {"action": "fetch", "path": "a\0"},
     {"action": "putFile", "path": "x", "mode": 0o4755}, {"action": "putFile", "path": "x", "size": -1}],
)  # fmt: skip
def test_a_copy_that_is_none(guarded: Guarded, agent: StandInAgent, copy: dict[str, Any] | None) -> None:
    with guarded.open(f"/taskgroup/{GROUP}/copy") as line:
        begin(line, copy=copy)
        assert outcome(line)["reason"] == "invalid"
    assert agent.asked == []


@pytest.mark.parametrize("holder", ["careful", "only-copy"])
def test_who_may_not_run_programs_may_not_by_a_command_either(guarded: Guarded, holder: str) -> None:
    path = "/command/application/shop/web"
    answer = guarded.api.call("POST", path, json={}, headers={"Authorization": f"Bearer {holder}"})
    assert (answer.status_code, answer.json()["data"]["reason"]) == (403, "forbidden")
    assert "the right exec" in answer.json()["message"]
    for allowed in ("operator", "only-exec"):
        answer = guarded.api.call("POST", path, json={}, headers={"Authorization": f"Bearer {allowed}"})
        assert answer.status_code != 403


FILES = (
    {"msgtype": "local", "msgdata": {"to": "run.sh", "ctx": "eA=="}},
    {"msgtype": "remote", "msgdata": {"to": "run.sh", "remote": "http://h/x"}},
    {"Type": 1, "Local": {"To": "run.sh", "Base64": "eA=="}},
    {"Type": 4, "Remote": {"To": "run.sh", "From": "http://h/x"}},
)


@pytest.mark.parametrize("message", FILES, ids=["local", "remote", "raw-local", "raw-remote"])
def test_who_may_not_copy_writes_no_files_by_messages_either(guarded: Guarded, message: dict[str, Any]) -> None:
    """A file can replace a program that the task starts again."""

    def sent(holder: str, body: dict[str, Any]) -> Any:
        path = f"/namespaces/shop/applications/web/taskgroups/{GROUP}/message"
        return guarded.api.call("POST", path, json=body, headers={"Authorization": f"Bearer {holder}"})

    for holder in ("careful", "only-exec"):
        answer = sent(holder, message)
        assert (answer.status_code, answer.json()["data"]["reason"]) == (403, "forbidden")
        assert answer.json()["message"] == f"{holder} needs the right copy (programs in the entry of the token)"
    for holder in ("operator", "only-copy"):
        assert sent(holder, message).status_code != 403
    assert sent("careful", {"Type": 2, "Sig": {"Signal": 1}}).status_code != 403


def test_a_standby_points_to_the_leader(guarded: Guarded, gateway: CoreGateway) -> None:
    gateway.stand_by("http://leader:8080")
    with pytest.raises(InvalidURI) as refused:  # the library wants to follow, and does not take http:
        guarded.open().close()
    assert refused.value.uri == f"http://leader:8080{BASE}{EXEC}"


@pytest.mark.parametrize("kind", ["exec", "attach", "portforward", "copy"])
def test_an_agent_that_is_not_listed_yet_is_waited_for(guarded: Guarded, gateway: CoreGateway, kind: str) -> None:
    """After a change of leaders clients repeat the request; an agent that Mesos does not know is the end of it."""
    path = f"/taskgroup/{GROUP}/{kind}"
    gateway.listed, gateway.awaited = [], None
    assert guarded.refusal(path=path) == (503, "unavailable")
    gateway.listed, gateway.awaited = [listed_agent(7, 1, 1)], {"agent-1"}
    assert guarded.refusal(path=path) == (503, "unavailable")
    gateway.awaited = {"agent-2"}
    assert guarded.refusal(path=path) == (502, "agent")


def test_sessions_are_bounded(guarded: Guarded) -> None:
    with guarded.open() as first, guarded.open() as second:
        assert guarded.refusal() == (503, "too_many_sessions")
        begin(first, command=[])
        assert outcome(first)["reason"] == "invalid"
        assert second.state.name == "OPEN"
    wait_for(lambda: _opens(guarded), what="room for a session")


def test_a_caller_has_a_share_of_the_sessions(gateway: CoreGateway, tmp_path: Path) -> None:
    with guarding(gateway, tmp_path, sessions=4, client_share=0.5) as guarded, ExitStack() as opened:
        for _ in range(2):
            opened.enter_context(guarded.open())
        with pytest.raises(InvalidStatus) as refused:
            guarded.open()
        response = refused.value.response
        answer = json.loads(response.body or b"{}")
        assert (response.status_code, answer["data"]["reason"]) == (503, "too_many_sessions")
        words = "address 127.0.0.1 has 2 sessions, which is the maximum for one address and one caller; try again later"
        assert (answer["message"], response.headers["Retry-After"]) == (words, "5")
        assert guarded.refused_total("too_many_sessions") == 1.0


def _opens(guarded: Guarded) -> bool:
    try:
        guarded.open().close()
    except InvalidStatus:
        return False
    return True


@pytest.mark.parametrize(
    "first", ["", "[]", "{", '{"command": "ls"}', '{"commands": ["ls"]}', '{"command": ["a\\u0000"]}', b"\0x",
              '{"command": ["ls"], "tty": {"rows": 0, "columns": 3}}', '{"command": ["ls"], "env": {"": "x"}}'],
)  # fmt: skip
def test_a_document_that_is_none(guarded: Guarded, agent: StandInAgent, first: str | bytes) -> None:
    with guarded.open() as line:
        line.send(first)
        assert outcome(line)["reason"] == "invalid"
    assert agent.asked == []


def test_output_without_framing_ends_the_session(guarded: Guarded, agent: StandInAgent) -> None:
    agent.said, agent.framed = [("STDOUT", b"one")], False
    with guarded.open() as line:
        begin(line, command=["cat"])
        found = outcome(line)
    assert (found["reason"], found["message"]) == ("agent", "the agent's output is invalid")


def test_a_session_ends_when_the_user_goes(guarded: Guarded, agent: StandInAgent) -> None:
    with guarded.open() as line:
        begin(line, command=["sleep", "1000"], stdin=True)
        agent.waits_for_input = True
        agent.launched()
    wait_for(agent.broken_off.is_set, what="the end of the connection to the agent")
    wait_for(lambda: [a["reason"] for a in guarded.audited() if a["phase"] == "end"] == ["left"], what="the audit line")


def test_a_session_ends_with_the_leadership_and_with_the_token(
    guarded: Guarded, agent: StandInAgent, gateway: CoreGateway
) -> None:
    with guarded.open() as line:
        begin(line, command=["sleep", "1000"], stdin=True)
        agent.launched()
        guarded.tokens.write_text(guarded.tokens.read_text().replace('role = "operator"', 'role = "viewer"'))
        assert outcome(line)["reason"] == "revoked"
    guarded.tokens.write_text(guarded.tokens.read_text().replace('role = "viewer"', 'role = "operator"'))
    wait_for(lambda: _opens(guarded), what="the right of before")
    with guarded.open() as line:
        begin(line, command=["sleep", "1000"], stdin=True)
        wait_for(lambda: len([c for c in agent.asked if "launch_nested_container_session" in c]) == 2, what="a launch")
        gateway.stand_by("http://leader:8080")
        assert outcome(line)["reason"] == "stepped_down"


def test_a_task_that_does_not_run(guarded: Guarded, gateway: CoreGateway, agent: StandInAgent) -> None:
    agent.close()
    with guarded.open() as line:
        begin(line, command=["ls"])
        assert outcome(line)["reason"] == "agent"


def test_only_ports_of_the_task_are_reached(guarded: Guarded) -> None:
    with guarded.open(f"/taskgroup/{GROUP}/portforward") as line:
        begin(line, port=22)
        found = outcome(line)
    assert found["reason"] == "invalid"
    assert "31000" in found["message"]


def test_a_request_without_upgrade_is_told_so(guarded: Guarded) -> None:
    answer = guarded.api.get(EXEC, headers={"Authorization": "Bearer operator"})
    assert (answer.status_code, answer.headers["Upgrade"]) == (426, "websocket")


# --- attaching with an input --------------------------------------------------------------------------------------

ATTACH = f"/taskgroup/{GROUP}/attach"


def defined(gateway: CoreGateway, **fields: Any) -> None:
    """The task of the group has this definition."""
    version = Version(namespace="shop", application="web", name="1", containers=(Container(**fields),))
    gateway.core.state.apply(Version.kind, version.key, version)


def test_attach_writes_to_the_terminal_of_a_task_of_mesos(
    guarded: Guarded, gateway: CoreGateway, agent: StandInAgent
) -> None:
    defined(gateway, stdin=True, tty=True)
    agent.said, agent.quiet = [("STDOUT", b"$ ")], True
    with guarded.open(ATTACH) as line:
        begin(line, stdin=True, tty={"rows": 30, "columns": 90})
        assert line.recv() == b"\1$ "
        line.send(b"\0date\r")
        wait_for(lambda: agent.input == [b"date\r"], what="the input")
        wait_for(lambda: agent.sizes() == [(30, 90)], what="the size")
        line.send(bytes((255, 0)))
        assert outcome(line) == {"exitCode": 0}
    [call] = [call for call in agent.asked if call.get("type") == "ATTACH_CONTAINER_OUTPUT"]
    container = {"value": "nested", "parent": {"value": "container"}}
    assert call["attach_container_output"] == {"container_id": container}
    [first] = [call for call in agent.asked if call.get("type") == "CONTAINER_ID"]
    assert first["container_id"] == container
    assert not [call for call in agent.asked if call.get("type") == "LAUNCH_NESTED_CONTAINER_SESSION"]


@pytest.mark.parametrize(
    ("fields", "wanted", "words"),
    [
        ({}, {"stdin": True}, "task server was started without an input"),
        ({"stdin": True}, {"stdin": True, "tty": {}}, "task server was started without a terminal"),
        ({"stdin": True, "tty": True}, {"tty": {}}, "tty needs stdin"),
    ],
)
def test_an_input_that_the_task_does_not_have_is_refused(
    guarded: Guarded, gateway: CoreGateway, fields: dict[str, bool], wanted: dict[str, Any], words: str
) -> None:
    defined(gateway, **fields)
    with guarded.open(ATTACH) as line:
        refused = outcome(begin(line, **wanted))
    assert refused["message"].startswith(words) and refused["reason"] in ("conflict", "invalid")
