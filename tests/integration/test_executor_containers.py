"""Container tasks of the executor as a real process, between a stand-in for its agent and one for the engine."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bcs_scheduler.executor.processes import process_tree
from tests.component.executor.standinengine import Command, StandInEngine
from tests.integration.standinagent import StandInAgent, encoded, stand_in_agent
from tests.waiting import wait_for

TASK: dict[str, Any] = {"kind": "container", "container": {"image": "demo/front:1", "network_mode": "BRIDGE"}}


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[StandInEngine]:
    found = StandInEngine(tmp_path / "engine.sock")
    yield found
    found.away()


@pytest.fixture
def agent(tmp_path: Path, engine: StandInEngine) -> Iterator[StandInAgent]:
    sandbox = tmp_path / "sandbox"
    sandbox.mkdir()
    with stand_in_agent(sandbox) as agent:
        agent.group["docker"] = engine.path
        yield agent
        assert agent.problems == []


def answer(agent: StandInAgent, kind: str, body: dict[str, Any]) -> dict[str, Any]:
    document = {"v": 1, "type": "message", "id": kind, "kind": kind, "tasks": ["0"], "timeout": 10.0, "body": body}
    agent.send("MESSAGE", message={"data": encoded(document)})

    def last() -> Any:
        return next((m for m in agent.messages if m.get("id") == kind and m["status"] != "running"), None)

    return dict(wait_for(last, 30, f"an answer to {kind}"))


def test_a_container_is_pulled_runs_and_ends_when_killed(agent: StandInAgent, engine: StandInEngine) -> None:
    executor = agent.start()
    agent.launch(TASK)
    detail = agent.wait_for_state("RUNNING")["detail"]
    container = engine.only()
    assert (detail["container_id"], detail["container_ip"], detail["pid"]) == (container.id, "172.17.0.2", 4711)
    assert engine.last("POST /images/create").query == {"fromImage": "demo/front", "tag": "1"}
    engine.prints(container, b"hello\n")
    wait_for(lambda: agent.output() == "hello\n", what="the output")
    agent.kill(grace=5.0)
    assert agent.wait_for_state("KILLED")["detail"]["exit_code"] == 143
    assert executor.wait(30) == 0
    assert engine.containers == {}


def test_out_of_memory_is_told(agent: StandInAgent, engine: StandInEngine) -> None:
    agent.start()
    agent.launch(TASK)
    agent.wait_for_state("RUNNING")
    engine.ends(engine.only(), 137, oom=True)
    failed = agent.wait_for_state("FAILED")
    assert failed["detail"]["oom"] is True and failed["detail"]["exit_code"] == 137
    assert "memory" in failed["message"]


def test_what_cannot_start_fails_with_its_reason(agent: StandInAgent, engine: StandInEngine) -> None:
    engine.pull = [{"error": "manifest unknown"}]
    executor = agent.start()
    agent.launch(TASK)
    assert "cannot be pulled: manifest unknown" in agent.wait_for_state("FAILED")["message"]
    assert executor.wait(30) == 0


def test_messages_reach_the_container(agent: StandInAgent, engine: StandInEngine) -> None:
    agent.start()
    agent.launch(TASK)
    agent.wait_for_state("RUNNING")
    engine.next_command = Command([(False, b"out"), (True, b"err")], exit_code=3)
    (result,) = answer(agent, "command", {"argv": ["ls"], "env": {}})["results"]
    assert (result["exit_code"], result["stdout"], result["stderr"]) == (3, "out", "err")
    (pushed,) = answer(agent, "commit", {"target": "r:5/snap", "user": "joe", "password": "s3cret"})["results"]
    assert pushed["ok"], pushed
    assert answer(agent, "restart", {})["results"][0]["ok"] and engine.only().started == 2
    assert "s3cret" not in agent.log()


@pytest.mark.parametrize("victim", ["executor", "warden"])
def test_no_container_survives_its_executor(agent: StandInAgent, engine: StandInEngine, victim: str) -> None:
    supervisor = agent.start()
    agent.launch(TASK)
    agent.wait_for_state("RUNNING")
    executor = wait_for(lambda: process_tree.children(supervisor.pid), what="the executor")[0]
    os.kill(executor if victim == "executor" else supervisor.pid, signal.SIGKILL)
    wait_for(lambda: engine.containers == {}, what="the container's end")
    supervisor.wait(30)
