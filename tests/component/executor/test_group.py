"""executor.taskgroup.group: the tasks of a taskgroup start, end and are reported together."""

from __future__ import annotations

import base64
import json
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from bcs_scheduler.executor.model import Detail, Group, Task
from bcs_scheduler.executor.runtime import Exit, Runtime, TaskError
from bcs_scheduler.executor.taskgroup.group import Taskgroup
from tests.component.executor.fakeruntime import FakeRuntime
from tests.waiting import wait_for


class Program(FakeRuntime):
    """Runs until it is stopped or told how it ends."""

    def __init__(self, changed: Callable[[], None]) -> None:
        super().__init__()
        self.changed = changed
        self.exit = Exit(None, "")
        self.over = threading.Event()

    def ends(self, exit: Exit) -> None:
        self.exit = exit
        self.over.set()

    def wait(self) -> Exit:
        self.over.wait(10)
        return self.exit

    def stop(self, grace: float) -> None:
        super().stop(grace)
        if grace < 600:
            self.ends(Exit(-15, "ended by SIGTERM"))


class Bench:
    def __init__(self) -> None:
        self.published: list[tuple[str, dict[str, Any]]] = []
        self.programs: dict[str, Program] = {}
        self.taskgroup = Taskgroup(lambda task, status: self.published.append((task, status)), self.make, 5.0)
        self.refuse: dict[str, Exception] = {}

    def make(self, task: Task, group: Group, changed: Callable[[], None]) -> Runtime:
        if task.id in self.refuse:
            raise self.refuse[task.id]
        self.programs[task.id] = Program(changed)
        return self.programs[task.id]

    def launch(self, *tasks: str) -> None:
        infos = [{"task_id": {"value": task}, "name": task, "data": encoded({"v": 1})} for task in tasks]
        self.taskgroup.launch(infos)

    def running(self, *tasks: str) -> None:
        self.launch(*tasks)
        wait_for(lambda: all(self.states(task)[-1:] == ["RUNNING"] for task in tasks))

    def states(self, task: str) -> list[str]:
        return [status["state"].removeprefix("TASK_") for name, status in self.published if name == task]

    def last(self, task: str) -> dict[str, Any]:
        return [status for name, status in self.published if name == task][-1]

    def wait_for(self, task: str, state: str) -> dict[str, Any]:
        wait_for(lambda: self.states(task)[-1:] == [state], 30, lambda: f"{state}, not {self.published}")
        return self.last(task)


def encoded(document: Any) -> str:
    return base64.b64encode(json.dumps(document).encode()).decode()


@pytest.fixture
def bench() -> Iterator[Bench]:
    bench = Bench()
    bench.taskgroup.describe(encoded({"v": 1, "grace_period": 2.0}))
    yield bench
    for program in bench.programs.values():
        program.over.set()


def test_all_start_and_one_that_finishes_leaves_the_others_alone(bench: Bench) -> None:
    bench.running("a", "b")
    bench.programs["a"].ends(Exit(0))
    bench.wait_for("a", "FINISHED")
    assert bench.states("b") == ["STARTING", "RUNNING"]
    assert not bench.taskgroup.ended.is_set()
    bench.programs["b"].ends(Exit(0))
    bench.wait_for("b", "FINISHED")
    assert bench.taskgroup.ended.wait(30)


def test_one_that_fails_takes_the_others_along(bench: Bench) -> None:
    bench.running("a", "b")
    bench.programs["a"].ends(Exit(9, "exit code 9"))
    failed = bench.wait_for("a", "FAILED")
    assert failed["message"] == "exit code 9"
    assert json.loads(base64.b64decode(failed["data"]))["exit_code"] == 9
    bench.wait_for("b", "KILLED")
    assert bench.states("b") == ["STARTING", "RUNNING", "KILLING", "KILLED"]
    assert ("stop", 2.0) in bench.programs["b"].done
    assert bench.taskgroup.ended.wait(30)


def test_a_kill_of_one_ends_all(bench: Bench) -> None:
    bench.running("a", "b")
    bench.taskgroup.kill("a", 0.5)
    bench.wait_for("a", "KILLED")
    bench.wait_for("b", "KILLED")
    assert ("stop", 0.5) in bench.programs["b"].done


def test_a_second_kill_reaches_the_tasks_but_is_not_reported(bench: Bench) -> None:
    bench.running("a")
    bench.taskgroup.kill("a", 600)
    bench.taskgroup.kill("a", 0)
    bench.wait_for("a", "KILLED")
    assert bench.states("a") == ["STARTING", "RUNNING", "KILLING", "KILLED"]


def test_a_kill_of_an_unknown_task_changes_nothing(bench: Bench) -> None:
    bench.running("a")
    bench.taskgroup.kill("z", None)
    assert bench.states("a") == ["STARTING", "RUNNING"]
    assert bench.programs["a"].done == [("start",)]


def test_a_shutdown_keeps_within_the_time_of_the_agent(bench: Bench) -> None:
    bench.taskgroup.describe(encoded({"v": 1, "grace_period": 500.0}))
    bench.running("a")
    bench.taskgroup.shutdown()
    bench.wait_for("a", "KILLED")
    assert bench.programs["a"].done[-1] == ("stop", 4.0)


def test_a_shutdown_before_the_launch(bench: Bench) -> None:
    bench.taskgroup.shutdown()
    assert bench.taskgroup.ended.is_set()
    bench.launch("a")
    assert bench.states("a") == ["ERROR"]


def test_only_one_taskgroup_is_run(bench: Bench) -> None:
    bench.running("a")
    bench.launch("a", "b")
    assert bench.states("b") == ["ERROR"]
    assert bench.states("a") == ["STARTING", "RUNNING"]


def test_what_cannot_be_started_fails(bench: Bench) -> None:
    bench.refuse["a"] = TaskError("no such user")
    bench.launch("a", "b")
    assert bench.wait_for("a", "FAILED")["message"] == "no such user"
    bench.wait_for("b", "KILLED")


def test_an_unforeseen_error_fails_the_task_without_its_text(bench: Bench) -> None:
    bench.refuse["a"] = RuntimeError("hunter2")
    bench.launch("a")
    assert bench.wait_for("a", "FAILED")["message"] == "the executor failed: RuntimeError"


def test_data_of_the_executor_that_cannot_be_used(bench: Bench) -> None:
    bench.taskgroup.describe(encoded({"v": 3}))
    bench.launch("a", "b")
    assert bench.states("a") == bench.states("b") == ["ERROR"]
    assert "protocol version 3" in bench.last("a")["message"]
    assert bench.taskgroup.ended.is_set()


def test_running_is_shown_again_when_something_visible_changed(bench: Bench) -> None:
    bench.running("a")
    program = bench.programs["a"]
    bench.taskgroup.look()
    program.changed()
    assert bench.states("a") == ["STARTING", "RUNNING"]
    program.now = Detail(pid=2, started_at=1.0, container_ip="10.0.0.4")
    program.changed()
    bench.taskgroup.look()
    assert bench.states("a") == ["STARTING", "RUNNING", "RUNNING"]
    networks = bench.last("a")["container_status"]["network_infos"]
    assert networks == [{"ip_addresses": [{"ip_address": "10.0.0.4"}]}]
    assert "healthy" not in bench.last("a")


def test_the_report_names_all_tasks_and_runtimes_those_that_run(bench: Bench) -> None:
    assert bench.taskgroup.report()["tasks"] == []
    bench.running("a", "b")
    bench.programs["a"].ends(Exit(0))
    bench.wait_for("a", "FINISHED")
    assert set(bench.taskgroup.runtimes()) == {"b"}
    report = bench.taskgroup.report()
    assert (report["v"], report["type"]) == (1, "report")
    details = {item["task"]: item["detail"] for item in report["tasks"]}
    assert (details["a"]["exit_code"], details["b"]["exit_code"]) == (0, None)
    assert details["a"]["finished_at"] > 0


def test_one_for_which_there_is_no_thread_fails(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    start = threading.Thread.start

    def refused(thread: threading.Thread) -> None:
        if thread.name in ("b", "stop"):
            raise RuntimeError("can't start new thread")
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", refused)
    bench.launch("a", "b")
    assert bench.wait_for("b", "FAILED")["message"] == "the executor failed: can't start new thread"
    bench.wait_for("a", "KILLED")
    assert bench.taskgroup.ended.wait(30)


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (TaskError("could not be killed: process 7"), "could not be killed: process 7"),
        (ValueError("hunter2"), "the executor failed: ValueError"),
    ],
)
def test_what_cannot_be_stopped_counts_as_ended(bench: Bench, error: Exception, message: str) -> None:
    def stubborn(*done: Any) -> None:
        if done[0] == "stop":
            raise error

    bench.running("a")
    bench.programs["a"].act = stubborn
    bench.taskgroup.kill("a", None)
    assert bench.wait_for("a", "KILLED")["message"] == message
    assert bench.taskgroup.ended.wait(30)
    bench.programs["a"].ends(Exit(-9, "ended by SIGKILL"))
    assert bench.states("a") == ["STARTING", "RUNNING", "KILLING", "KILLED"]


def test_checks_end_when_their_task_is_to_end(bench: Bench) -> None:
    check = {"type": "COMMAND", "command": "exit 0", "delay": 0.0, "interval": 0.1}
    data = encoded({"v": 1, "checks": [check]})
    bench.taskgroup.launch([{"task_id": {"value": "a"}, "name": "a", "data": data}])
    program = wait_for(lambda: bench.programs.get("a"))
    probed = threading.Event()
    program.act = lambda *done: probed.set() if done[0] == "execute" else None
    assert probed.wait(30)
    bench.taskgroup.kill("a", 600)
    wait_for(lambda: ("stop", 600) in program.done)
    wait_for(lambda: not any(thread.name == "check-command" for thread in threading.enumerate()))
    program.ends(Exit(-15))
    bench.wait_for("a", "KILLED")
