"""The connection in this process, against the stand-in agent: what takes an executor too long to try."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bcs_scheduler.executor.agent import connection as module
from bcs_scheduler.executor.agent.connection import Connection
from bcs_scheduler.executor.agent.updates import Updates
from bcs_scheduler.executor.settings import Settings
from tests.integration.standinagent import EXECUTOR, FRAMEWORK, StandInAgent, stand_in_agent
from tests.waiting import wait_for


class Bench:
    def __init__(self, agent: StandInAgent, checkpoint: bool = True) -> None:
        self.agent = agent
        self.events: list[dict[str, Any]] = []
        self.lost = threading.Event()
        self.updates = Updates()
        self.updates.launched({"task_id": {"value": "t"}})
        settings = Settings(agent.endpoint, "", FRAMEWORK, EXECUTOR, Path("."), checkpoint, 60.0, 0.05, 5.0, "")
        self.connection = Connection(settings, self.updates, self.handle, self.lost.set)
        self.connection.start()

    def handle(self, event: dict[str, Any]) -> None:
        self.events.append(event)
        if event["type"] == "SHUTDOWN":
            raise RuntimeError("can't start new thread")


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    with stand_in_agent(tmp_path) as agent:
        bench = Bench(agent)
        yield bench
        bench.connection.close()


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Before `bench`."""
    monkeypatch.setattr(module, "SILENCE", 0.2)
    monkeypatch.setattr(module, "TIMEOUT", 0.2)


@pytest.mark.usefixtures("impatient")
def test_a_stream_that_is_silent_for_too_long_is_opened_anew(tmp_path: Path) -> None:
    with stand_in_agent(tmp_path) as agent:
        bench = Bench(agent)
        wait_for(lambda: len(agent.subscriptions) >= 3, 30)
        assert not bench.lost.is_set()
        bench.connection.close()


@pytest.mark.usefixtures("impatient")
def test_an_agent_that_does_not_answer_counts_as_away(tmp_path: Path) -> None:
    with stand_in_agent(tmp_path) as agent:
        bench = Bench(agent)
        wait_for(lambda: bench.connection.subscribed)
        agent.answering.clear()
        bench.connection.update("t", {"state": "TASK_RUNNING"})
        wait_for(lambda: not bench.connection.subscribed, 30)
        agent.answering.set()
        wait_for(lambda: agent.states("t") == ["RUNNING"], 30)
        bench.connection.close()


def test_updates_come_before_messages_and_in_order(bench: Bench) -> None:
    for state in ("STARTING", "RUNNING", "FINISHED"):
        bench.connection.update("t", {"state": f"TASK_{state}"})
    bench.connection.message({"v": 1, "type": "report", "tasks": []})
    wait_for(lambda: bench.agent.messages)
    assert bench.agent.states("t") == ["STARTING", "RUNNING", "FINISHED"]
    assert bench.updates.wait_until_empty(5)


def test_a_call_that_is_refused_does_not_hold_up_the_next(bench: Bench) -> None:
    wait_for(lambda: bench.connection.subscribed)
    bench.connection.update("t", {"state": "TASK_DANCING"})
    bench.connection.update("t", {"state": "TASK_RUNNING"})
    wait_for(lambda: bench.agent.states("t") == ["RUNNING"])
    assert len(bench.agent.subscriptions) == 1
    assert bench.agent.problems == ["source SOURCE_EXECUTOR or state TASK_DANCING"]


def test_messages_wait_for_the_agent(bench: Bench) -> None:
    wait_for(lambda: bench.connection.subscribed)
    bench.agent.go()
    wait_for(lambda: not bench.connection.subscribed)
    bench.connection.message({"v": 1, "type": "report", "tasks": []})
    bench.agent.come()
    assert wait_for(lambda: bench.agent.messages) == [{"v": 1, "type": "report", "tasks": []}]


def test_an_event_that_cannot_be_used_is_not_quoted(bench: Bench, caplog: pytest.LogCaptureFixture) -> None:
    wait_for(lambda: bench.connection.subscribed)
    with caplog.at_level(logging.WARNING, "executor"):
        bench.agent.send_record(b'{"type": "ACKNOWLEDGED", "acknowledged": {"hunter2": 1}}')
        bench.agent.send_record(b'{"hunter2')
        bench.agent.send("KILL", kill={})
        wait_for(lambda: [event["type"] for event in bench.events] == ["SUBSCRIBED", "KILL"])
    assert caplog.text.count("cannot be used") == 2
    assert "hunter2" not in caplog.text


def test_a_handler_that_fails_does_not_deafen_the_executor(bench: Bench) -> None:
    wait_for(lambda: bench.connection.subscribed)
    bench.agent.send("SHUTDOWN")
    bench.agent.send("KILL", kill={})
    wait_for(lambda: [event["type"] for event in bench.events] == ["SUBSCRIBED", "SHUTDOWN", "KILL"])
    assert len(bench.agent.subscriptions) == 1


@pytest.mark.parametrize("method", ["_subscribe", "_send"])
def test_unforeseen_errors_are_survived(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, method: str
) -> None:
    errors = [MemoryError("hunter2")]
    real = getattr(Connection, method)

    def failing_once(self: Connection, *arguments: Any, **more: Any) -> Any:
        if errors:
            raise errors.pop()
        return real(self, *arguments, **more)

    monkeypatch.setattr(Connection, method, failing_once)
    with stand_in_agent(tmp_path) as agent:
        bench = Bench(agent)
        wait_for(lambda: bench.connection.subscribed)
        bench.connection.update("t", {"state": "TASK_RUNNING"})
        wait_for(lambda: agent.states("t") == ["RUNNING"])
        bench.connection.close()
    assert "MemoryError" in caplog.text
    assert "hunter2" not in caplog.text


def test_without_checkpoint_the_agent_is_waited_for_at_first_and_not_later(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with stand_in_agent(tmp_path) as agent:
        agent.go()
        bench = Bench(agent, checkpoint=False)
        wait_for(lambda: caplog.text.count("connection to the agent") > 2)
        assert not bench.lost.is_set()
        agent.come()
        wait_for(lambda: bench.connection.subscribed)
        agent.go()
        assert bench.lost.wait(30)


@pytest.mark.usefixtures("impatient")
def test_without_checkpoint_the_first_subscription_is_not_waited_for_without_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "FIRST", 0.1)
    with stand_in_agent(tmp_path) as agent:
        agent.go()
        assert Bench(agent, checkpoint=False).lost.wait(30)


def test_the_last_messages_can_be_waited_for(bench: Bench) -> None:
    wait_for(lambda: bench.connection.subscribed)
    bench.agent.answering.clear()
    bench.connection.message({"v": 1, "type": "answer", "id": "m"})
    assert not bench.connection.wait_until_said(0.05)
    bench.agent.answering.set()
    assert bench.connection.wait_until_said(30)
    assert [message["id"] for message in bench.agent.messages] == ["m"]
