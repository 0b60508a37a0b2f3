"""The executor against an agent and a scheduler that send anything: it stays alive, answers, and quotes nothing."""

from __future__ import annotations

import base64
import json
import logging
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bcs_scheduler.executor.agent.messages import Messages
from bcs_scheduler.executor.agent.recordio import Decoder, FramingError
from bcs_scheduler.executor.model import Group, Task
from bcs_scheduler.executor.runtime import Runtime
from bcs_scheduler.executor.taskgroup.group import Taskgroup
from tests.component.executor.fakeruntime import FakeRuntime
from tests.integration.executorprograms import message, shell
from tests.integration.standinagent import StandInAgent, encoded, stand_in_agent
from tests.waiting import wait_for

COUNT = 200
SECRET = "hunter2"
KINDS = ("SUBSCRIBED", "LAUNCH", "LAUNCH_GROUP", "KILL", "ACKNOWLEDGED", "MESSAGE", "ERROR", "SHUTDOWN", "DANCE")
FIELDS = (
    *(kind.lower() for kind in KINDS),
    *("type", "task_group", "tasks", "task", "task_id", "value", "uuid", "data", "kill_policy"),
)
MESSAGE = {"v": 1, "type": "message", "id": "m", "kind": "command", "tasks": ["0"], "timeout": 1.0, "body": {}}
DATA = {
    "v": 1, "kind": "process", "command": {"shell": True, "value": "true"}, "env": {"A": "b"}, "uris": [{"value": "u"}],
    "files": [{"path": "f", "data": "aGk="}], "checks": [{"type": "TCP", "port": 1}], "limits": {"cpus": 1, "mem": 1},
}  # fmt: skip


class Chaos:
    """Seeded, so that a failure can be repeated."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def scalar(self) -> Any:
        return self._random.choice([None, True, -1, 0, 1e308, 10**400, "", SECRET, "\ud800", "\0", "../..", [], {}])

    def value(self, depth: int = 0) -> Any:
        if depth > 4 or self._random.random() < 0.4:
            return self.scalar()
        if self._random.random() < 0.3:
            return [self.value(depth + 1) for _ in range(self._random.randrange(4))]
        names = self._random.sample(sorted(FIELDS), self._random.randrange(5))
        return {name: self.value(depth + 1) for name in names}

    def damaged(self, document: Any) -> Any:
        """The document with one of its values, at any depth, exchanged or left out."""
        if not isinstance(document, dict) or not document or self._random.random() < 0.2:
            return self.value()
        name = self._random.choice(sorted(document))
        if self._random.random() < 0.15:
            return {key: value for key, value in document.items() if key != name}
        return {**document, name: self.damaged(document[name])}

    def record(self) -> bytes:
        """Bytes, truncated JSON, deep nesting, JSON that is no event, and events with anything inside."""
        kind = self._random.choice([kind for kind in KINDS if kind != "SHUTDOWN"])
        event = {"type": kind, kind.lower(): self.value()}
        text = json.dumps(event).encode()
        return self._random.choice(
            [
                self._random.randbytes(self._random.randrange(40)),
                text[: self._random.randrange(len(text))],
                b"[" * 100_000,
                json.dumps(self.value()).encode(),
                text,
                text,
            ]
        )


@pytest.fixture
def agent(tmp_path: Path) -> Iterator[StandInAgent]:
    with stand_in_agent(tmp_path) as agent:
        yield agent


def test_events_of_any_kind_leave_the_executor_alive_and_answering(agent: StandInAgent) -> None:
    chaos = Chaos(1)
    executor = agent.start()
    agent.launch(shell("exec sleep 60"))
    pid = agent.wait_for_state("RUNNING")["detail"]["pid"]
    for _ in range(COUNT):
        agent.send_record(chaos.record())
    answer = message(agent, "command", {"argv": ["/bin/echo", "here"]})
    assert answer["results"][0]["stdout"] == "here\n"
    assert executor.poll() is None
    assert {item["detail"]["pid"] for item in agent.updates if item["state"] == "TASK_RUNNING"} == {pid}
    assert len(agent.subscriptions) == 1
    assert agent.problems == []
    assert SECRET not in agent.log()
    agent.kill()
    agent.wait_for_state("KILLED")
    assert executor.wait(30) == 0


def test_streams_cut_anywhere_give_records_or_a_framing_error() -> None:
    chaos, rng = Chaos(2), random.Random(2)
    refused = 0
    for _ in range(COUNT):
        records = [chaos.record()[:1000] for _ in range(3)]
        stream = bytearray(b"".join(b"%d\n%b" % (len(record), record) for record in records))
        if rng.random() < 0.5:
            stream[rng.randrange(len(stream))] = rng.randrange(256)
        del stream[rng.randrange(len(stream)) :]
        try:
            assert len(Decoder().feed(bytes(stream))) <= len(stream)
        except FramingError:
            refused += 1
    assert 0 < refused < COUNT


def test_launch_data_of_any_kind_is_refused_or_run(caplog: pytest.LogCaptureFixture) -> None:
    chaos = Chaos(3)
    for number in range(COUNT):
        published: list[dict[str, Any]] = []
        runtime = FakeRuntime()

        def make(task: Task, group: Group, changed: Any, runtime: FakeRuntime = runtime) -> Runtime:
            return runtime

        taskgroup = Taskgroup(lambda task, status, to=published: to.append(status), make, 5.0)  # type: ignore[misc]
        taskgroup.describe(encoded(chaos.damaged({"v": 1, "grace_period": 1.0})))
        data = json.dumps(chaos.damaged(DATA)).encode()
        if number % 4 == 0:
            data = data[: len(data) // 2]
        taskgroup.launch([{"task_id": {"value": "0"}, "name": "t", "data": base64.b64encode(data).decode()}])
        assert taskgroup.ended.wait(30)
        last = published[-1]
        assert last["state"] in ("TASK_ERROR", "TASK_FINISHED"), last
        assert SECRET not in last.get("message", "").replace(f"kind: '{SECRET}' is not known", "")
    assert SECRET not in caplog.text


def test_messages_of_any_kind_with_an_id_are_answered(caplog: pytest.LogCaptureFixture) -> None:
    chaos = Chaos(4)
    answers: dict[str, dict[str, Any]] = {}
    messages = Messages(lambda: {"0": FakeRuntime()}, lambda answer: answers.update({answer["id"]: answer}))
    kinds = ("command", "local", "remote", "signal", "env", "restart", "reload", "resources", "commit", "dance")
    bodies = {"argv": ["/bin/true"], "path": "p", "data": "aGk=", "signal": 15, "name": "A", "value": "b"}
    with caplog.at_level(logging.INFO):
        for number in range(COUNT):
            kind = kinds[number % len(kinds)]
            document = chaos.damaged({**MESSAGE, "kind": kind, "body": chaos.damaged(bodies)})
            if isinstance(document, dict):
                document["id"] = f"m{number}"
                messages.received(json.dumps(document).encode())
                wait_for(lambda key=f"m{number}": answers.get(key, {}).get("status") in ("success", "failed"))  # type: ignore[misc]
            else:
                messages.received(json.dumps(document).encode()[:-1])
    messages.received(json.dumps({**MESSAGE, "id": "last", "kind": "signal", "body": {"signal": 1}}).encode())
    assert wait_for(lambda: answers.get("last"))["status"] == "success"
    assert SECRET not in caplog.text
    messages.stop()
