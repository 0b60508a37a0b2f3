"""ACCEPT and the control of the embedded cluster: a call that fails or is refused changes nothing and costs nothing."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable
from typing import Any, cast

import pytest

from bcs_scheduler.local.agents.executor_api import validate
from bcs_scheduler.local.agents.process_agent import ProcessAgent
from bcs_scheduler.local.agents.synthetic import SyntheticAgent
from bcs_scheduler.local.control import Control
from bcs_scheduler.local.master import accept as accepting
from bcs_scheduler.local.master.launch_plan import LaunchPlan, command_executor
from bcs_scheduler.local.master.master import Master
from bcs_scheduler.local.master.scheduler_api import SchedulerApi
from bcs_scheduler.local.objects.model import Executor, Framework
from bcs_scheduler.local.objects.resources import Amounts
from bcs_scheduler.local.settings import ClusterSettings, agent_specs
from bcs_scheduler.local.transport.http import Connection, Request
from bcs_scheduler.local.transport.stream import JSON
from bcs_scheduler.mesos.proto import executor_pb2, scheduler_pb2
from bcs_scheduler.mesos.proto import mesos_pb2 as pb

Json = dict[str, Any]


class Reader:
    """The stream of a framework, acknowledged by nobody."""

    id_bytes = b"stream"

    def __init__(self) -> None:
        self.events: list[scheduler_pb2.Event] = []

    def send(self, event: scheduler_pb2.Event) -> None:
        copy = scheduler_pb2.Event()
        copy.CopyFrom(event)
        self.events.append(copy)

    def states(self) -> list[tuple[str, str]]:
        statuses = [event.update.status for event in self.events if event.type == scheduler_pb2.Event.UPDATE]
        return [(status.task_id.value, pb.TaskState.Name(status.state)) for status in statuses]


class Stage:
    """One framework with an offer of everything on one agent. To be made within an event loop."""

    def __init__(self) -> None:
        settings = ClusterSettings(synthetic=True, agents=1)
        self.master = Master(settings)
        self.agent = SyntheticAgent("S1", agent_specs(settings)[0], self.master.tasks, 0.0)
        self.master.agents[self.agent.id] = self.agent
        info = pb.FrameworkInfo(user="root", name="f", id=pb.FrameworkID(value="f"), roles=["*"])
        for capability in (pb.FrameworkInfo.Capability.MULTI_ROLE, pb.FrameworkInfo.Capability.PARTITION_AWARE):
            info.capabilities.add(type=capability)
        self.framework, self.reader = Framework(info, 0.0), Reader()
        self.framework.stream = cast(Any, self.reader)
        self.master.frameworks[self.framework.id] = self.framework
        self.master.offers._allocate([self.agent])
        (self.offer,) = self.framework.offers

    def accept(self, *operations: Json) -> int:
        """Status of the answer."""
        call = {
            "type": "ACCEPT",
            "framework_id": {"value": "f"},
            "accept": {"offer_ids": [{"value": self.offer}], "operations": list(operations)},
        }
        return self.post(SchedulerApi(self.master), call, b"Mesos-Stream-Id: stream\r\n")

    def control(self, **arguments: Any) -> int:
        return self.post(Control(self.master), arguments)

    def post(self, handler: Callable[[Request], Any], body: Json, headers: bytes = b"") -> int:
        written: list[bytes] = []
        connection = Connection(handler, set())
        connection.connection_made(cast(Any, type("Transport", (), {"write": lambda _, data: written.append(data)})()))
        data = json.dumps(body).encode()
        head = b"POST / HTTP/1.1\r\nContent-Type: %b\r\nContent-Length: %d\r\n" % (JSON.encode(), len(data))
        connection.data_received(head + headers + b"\r\n" + data)
        return int(written[0].split()[1])


def task(task_id: str, cpus: float = 1.0, **more: Any) -> Json:
    return {
        "name": task_id,
        "task_id": {"value": task_id},
        "agent_id": {"value": "S1"},
        "resources": [{"name": "cpus", "type": "SCALAR", "scalar": {"value": cpus}}],
        "command": {"value": "sleep 1000"},
        **more,
    }


def launch(*tasks: Json) -> Json:
    return {"type": "LAUNCH", "launch": {"task_infos": list(tasks)}}


def within_a_loop(test: Callable[[Stage], None]) -> None:
    async def run() -> None:
        test(Stage())

    asyncio.run(run())


def test_a_task_with_a_command_is_launched() -> None:
    def test(stage: Stage) -> None:
        assert stage.accept(launch(task("t"))) == 202
        assert stage.reader.states() == [("t", "TASK_STARTING")]  # the next one waits for the acknowledgement
        executor = stage.agent.executors["f", "t"]
        assert (executor.is_command, executor.amounts) == (True, Amounts())
        assert stage.agent.free == stage.agent.total - Amounts({("cpus", ()): 1000})

    within_a_loop(test)


@pytest.mark.parametrize("defect", ["in the plan", "in the accounting"])
def test_a_failing_accept_answers_500_and_changes_nothing(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, defect: str
) -> None:
    def fail(*args: Any) -> None:
        raise LookupError("a defect of the master")

    if defect == "in the plan":
        monkeypatch.setattr(LaunchPlan, "add", fail)
    else:
        monkeypatch.setattr(accepting, "LaunchPlan", fail)

    def test(stage: Stage) -> None:
        assert stage.accept(launch(task("t"))) == 500
        assert set(stage.framework.offers) == set(stage.master.offers.known) == {stage.offer}
        assert not stage.framework.tasks and not stage.agent.executors
        monkeypatch.undo()
        assert stage.accept(launch(task("t"))) == 202
        assert stage.reader.states() == [("t", "TASK_STARTING")]

    within_a_loop(test)
    assert [record.exc_info[0] for record in caplog.records if record.exc_info] == [LookupError]


def test_an_agent_that_cannot_launch_gives_everything_back(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(agent: SyntheticAgent, executor: Executor, *args: Any, **more: Any) -> None:
        if executor.id == "bad":
            raise LookupError("a defect of the agent")

    monkeypatch.setattr(SyntheticAgent, "launch", fail)

    def test(stage: Stage) -> None:
        assert stage.accept(launch(task("bad"), task("good"))) == 202
        assert stage.reader.states() == [("bad", "TASK_FAILED")]
        assert set(stage.agent.executors) == {("f", "good")}
        assert stage.agent.free == stage.agent.total - Amounts({("cpus", ()): 1000})
        status = stage.reader.events[-1].update.status
        assert status.reason == pb.TaskStatus.REASON_CONTAINER_LAUNCH_FAILED
        assert status.source == pb.TaskStatus.SOURCE_AGENT

    within_a_loop(test)
    assert "agent-1 could not launch executor bad" in caplog.text


def test_tasks_of_one_accept_know_of_each_other() -> None:
    def test(stage: Stage) -> None:
        executor = {
            "executor_id": {"value": "e"}, "command": {"value": "x"}, "resources": task("", 1.0)["resources"],
        }  # fmt: skip
        mine = {name: value for name, value in task("").items() if name != "command"}
        first, second = (
            {**mine, "task_id": {"value": name}, "name": name, "executor": executor} for name in ("one", "two")
        )
        status = stage.accept(launch(first, task("t", 0.5), task("t", 0.5)), launch(second, task("large", 1.0)))
        assert status == 202
        errors = [name for name, state in stage.reader.states() if state == "TASK_ERROR"]
        assert errors == ["t", "large"]
        assert set(stage.framework.tasks) == {"one", "t", "two"}
        assert stage.agent.free == stage.agent.total - Amounts({("cpus", ()): 3500})

    within_a_loop(test)


@pytest.mark.parametrize(
    ("command", "shown"),
    [
        ({"value": "sleep 1000"}, "sh -c 'sleep 1000'"),
        ({"value": "env | sort; pwd; id"}, "sh -c 'env | sort; ...'"),
        ({"value": "/bin/echo", "shell": False, "arguments": ["echo", "x"]}, "[/bin/echo, echo, x]"),
    ],
)
def test_the_executor_of_a_command_is_named_as_by_mesos(command: Json, shown: str) -> None:
    info = pb.TaskInfo(task_id=pb.TaskID(value="t"), command=pb.CommandInfo(**command))
    executor = command_executor(info, "f")
    assert executor.name == f"Command Executor (Task: t) (Command: {shown})"
    assert executor.IsInitialized() and executor.framework_id.value == "f"


@pytest.mark.parametrize(
    ("action", "wrong"),
    [
        ("maintenance", {"start": 2_000_000_000, "duration": "long"}),
        ("maintenance", {"duration": 5}),
        ("fail_tasks", {"fraction": 2}),
        ("fail_tasks", {"tasks": 5}),
        ("fail_tasks", {"fraction": 1, "state": "NONSENSE"}),
        ("delay_updates", {"count": 1}),
        ("drop_updates", {"count": [1]}),
        ("kill_agent", {"agent": ["S1"]}),
    ],
)
def test_a_wrong_argument_of_control_is_refused_before_anything_happens(action: str, wrong: Json) -> None:
    def test(stage: Stage) -> None:
        stage.accept(launch(task("t")))
        before = stage.framework.tasks["t"].latest
        assert stage.control(**{"action": action, "agent": "S1", **wrong}) == 400
        assert stage.agent.unavailability is None and stage.agent.connected
        assert stage.framework.tasks["t"].latest == before
        faults = stage.master.tasks.faults
        assert (faults.drop, faults.delay_count) == (0, 0)

    within_a_loop(test)


@pytest.mark.parametrize("action", ["bounce_agent", "pause_api"])
def test_an_agent_keeps_running_if_its_pause_makes_no_sense(monkeypatch: pytest.MonkeyPatch, action: str) -> None:
    def test(stage: Stage) -> None:
        monkeypatch.setattr(Control, "_process_agent", lambda control, arguments: cast(ProcessAgent, stage.agent))
        assert stage.control(action=action, agent="S1", seconds="soon") == 400
        assert stage.agent.connected

    within_a_loop(test)


def test_a_defect_of_control_is_no_error_of_its_client(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*args: Any) -> None:
        raise KeyError("a defect of the master")

    monkeypatch.setattr(Master, "lose_agent", fail)
    within_a_loop(
        lambda stage: pytest.fail("400") if stage.control(action="partition_agent", agent="S1") != 500 else None
    )
    assert [record.levelno for record in caplog.records] == [logging.ERROR]


@pytest.mark.parametrize(
    "body", [b"[]", b"5", b'{"accept": {"filters": {"refuse_seconds": 1' + b"0" * 400 + b"}}}", b"[" * 100_000]
)
def test_calls_that_are_no_calls_are_refused(body: bytes) -> None:
    def test(stage: Stage) -> None:
        request = Request("POST", b"/", {b"content-type": JSON.encode()}, body)
        answer = SchedulerApi(stage.master)(request)
        assert isinstance(answer, bytes) and answer.startswith(b"HTTP/1.1 400 ")

    within_a_loop(test)


@pytest.mark.parametrize(("uuid", "complaint"), [(b"0123456789abcdef", None), (b"short", "Not a valid UUID")])
def test_the_updates_that_an_executor_brings_along_are_checked_before_it_is_subscribed(
    uuid: bytes, complaint: str | None
) -> None:
    call = executor_pb2.Call(type=executor_pb2.Call.SUBSCRIBE)
    call.executor_id.value, call.framework_id.value = "e", "f"
    for task_id, identity in (("first", b"0123456789abcdef"), ("second", uuid)):
        status = call.subscribe.unacknowledged_updates.add().status
        status.task_id.value, status.uuid = task_id, identity
        status.state, status.source = pb.TASK_RUNNING, pb.TaskStatus.SOURCE_EXECUTOR
    assert validate(call) == complaint
