"""Process tasks whose processes do not die, and races between stopping and restarting: real programs, a census that
finds what the test says."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from bcs_scheduler.executor import supervisor as supervisor
from bcs_scheduler.executor.agent import session
from bcs_scheduler.executor.agent.session import Session
from bcs_scheduler.executor.content.secrets import Secrets, new_folder
from bcs_scheduler.executor.docker import note
from bcs_scheduler.executor.model import Command, Group, Task
from bcs_scheduler.executor.output import Pump
from bcs_scheduler.executor.processes import control_groups, process_tree
from bcs_scheduler.executor.processes import runtime as processes
from bcs_scheduler.executor.processes.programs import Program
from bcs_scheduler.executor.processes.runtime import ProcessRuntime
from bcs_scheduler.executor.processes.spawn import Launcher
from bcs_scheduler.executor.runtime import Exit, TaskError
from bcs_scheduler.executor.settings import Settings
from bcs_scheduler.executor.taskgroup.host import Host
from tests.waiting import wait_for

GHOST = process_tree.Process(pid=2**22 + 1, parent=1, group=1, session=1, state="D", started=1, name="ghost")
"""Beyond the greatest pid there can be: no signal reaches it."""


class Census:
    """Of one task. `mortal` false: what is killed does not die."""

    supervisor = 0

    def __init__(self) -> None:
        self.ghosts: list[process_tree.Process] = []
        self.pids: set[int] = set()
        self.mortal = True
        self.looks = 0

    def mark(self, task: str) -> str:
        return f"run/{task}"

    def join(self, task: str, cgroup: str) -> None:
        pass

    def leader(self, task: str, pid: int) -> None:
        self.pids.add(pid)

    def left(self, task: str, pid: int) -> None:
        self.pids.discard(pid)

    def leave(self, task: str) -> bool:
        return not self.members(task)

    def members(self, task: str) -> list[process_tree.Process]:
        self.looks += 1
        found = [process_tree.process(pid) for pid in self.pids]
        return [*self.ghosts, *(item for item in found if item is not None and not item.dead)]

    def kill(self, task: str) -> bool:
        found = self.members(task)
        for item in found if self.mortal else ():
            process_tree.send(item.pid, signal.SIGKILL)
        return not found


class Bench:
    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.census = Census()
        self.runtimes: list[ProcessRuntime] = []
        self.ends: dict[ProcessRuntime, Exit] = {}

    def started(self, line: str, grace: float = 0.1) -> ProcessRuntime:
        host = SimpleNamespace(
            cgroup="",
            pump=Pump(),
            census=self.census,
            orphans=None,
            observe=lambda task: None,
            disregard=lambda t: None,
            secrets=Secrets(new_folder("test")),
        )
        task = Task(id="0", name="t", kind="command", command=Command(shell=True, value=line))
        group = Group(grace_period=grace)
        runtime = ProcessRuntime(task, group, self.directory / "0", cast(Host, host), lambda: None)
        runtime.start()
        self.runtimes.append(runtime)
        threading.Thread(target=lambda: self.ends.update({runtime: runtime.wait()}), daemon=True).start()
        return runtime

    def end_of(self, runtime: ProcessRuntime) -> Exit:
        return wait_for(lambda: self.ends.get(runtime))

    def prints(self, words: str) -> None:
        wait_for(lambda: words in (self.directory / "0" / "stdout").read_text())


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Bench]:
    monkeypatch.setattr(processes, "STUBBORN", 0.1)
    bench = Bench(tmp_path)
    yield bench
    monkeypatch.setattr(processes, "STUBBORN", 10.0)
    bench.census.ghosts, bench.census.mortal = [], True
    for runtime in bench.runtimes:
        runtime.stop(0.0)


def test_a_program_that_cannot_be_killed_is_given_up_and_named(bench: Bench) -> None:
    runtime = bench.started("trap '' TERM; echo ready; while :; do sleep 60; done")
    bench.prints("ready")
    bench.census.mortal = False
    with pytest.raises(TaskError, match=f"could not be killed: process .*{runtime.detail().pid}"):
        runtime.stop(0.0)


def test_what_a_program_left_behind_and_cannot_be_killed_is_named(bench: Bench) -> None:
    bench.census.ghosts = [GHOST]
    assert bench.end_of(bench.started("exit 3")) == Exit(3, f"exit code 3; could not be killed: process {GHOST.pid}")


def test_the_grace_period_is_waited_for_with_few_looks(bench: Bench) -> None:
    bench.census.ghosts = [GHOST]
    assert bench.end_of(bench.started("exit 0", grace=1.0)).code == 0
    assert bench.census.looks < 25  # 50 if it were looked every 20 ms


def test_a_restart_gives_up_when_the_old_program_does_not_die(bench: Bench) -> None:
    runtime = bench.started("exec sleep 60")
    bench.census.ghosts = [GHOST]
    with pytest.raises(TaskError, match=f"could not be killed: process {GHOST.pid}"):
        runtime.restart(60.0)
    assert not runtime.detail().restarting


def test_a_program_started_by_a_restart_is_asked_to_end_when_a_stop_came_between(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    runtime = bench.started("exec sleep 60")
    fresh = ProcessRuntime._new_program

    def stopped_meanwhile(itself: ProcessRuntime, launcher: Launcher) -> Program:
        threading.Thread(target=itself.stop, args=(600.0,), daemon=True).start()
        assert itself._stopping.wait(30)
        return fresh(itself, launcher)

    monkeypatch.setattr(ProcessRuntime, "_new_program", stopped_meanwhile)
    runtime.restart(60.0)
    assert bench.end_of(runtime) == Exit(-signal.SIGTERM, "ended by SIGTERM")


def test_a_restart_renews_the_time_of_the_start(bench: Bench) -> None:
    runtime = bench.started("exec sleep 60")
    before = runtime.detail()
    runtime.restart(60.0)
    after = runtime.detail()
    assert after.started_at > before.started_at
    assert after.pid != before.pid


def test_the_warden_gives_up_on_what_does_not_die(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(supervisor, "STUBBORN", 0.1)
    monkeypatch.setattr(process_tree, "descendants", lambda root: [GHOST])
    monkeypatch.setattr(os, "waitpid", lambda pid, options: (0, 0))
    supervisor.kill_descendants("")
    assert "could not be killed" in capfd.readouterr().err


def test_an_executor_without_warden_gives_up_on_what_does_not_die(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(session, "STUBBORN", 0.1)
    raised: list[int] = []
    for module, name in ((note, "follow"), (control_groups, "remove")):
        monkeypatch.setattr(module, name, lambda *given: None)
    monkeypatch.setattr(signal, "raise_signal", raised.append)
    reading, writing = os.pipe()
    environment = {"MESOS_AGENT_ENDPOINT": "127.0.0.1:1", "MESOS_FRAMEWORK_ID": "f", "MESOS_EXECUTOR_ID": "e"}
    settings = Settings.of({**environment, "MESOS_SANDBOX": str(tmp_path)})
    abandoned = Session(settings, supervisor.Watched(os.getpid(), reading, "run", "", "/absent"))
    monkeypatch.setattr(abandoned._host.census, "abandon", lambda: [GHOST.pid])
    os.close(writing)
    wait_for(lambda: raised == [signal.SIGKILL])
    assert str(GHOST.pid) in caplog.text

    os.close(reading)
