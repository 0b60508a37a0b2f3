"""executor.processes.process_tree, census: the processes below a task are found."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from bcs_scheduler.executor.processes import process_tree
from bcs_scheduler.executor.processes.census import MARK, Census
from tests.waiting import wait_for


@pytest.fixture
def started() -> Iterator[list[subprocess.Popen[bytes]]]:
    processes: list[subprocess.Popen[bytes]] = []
    yield processes
    for process in processes:
        process.kill()
        process.wait()


def sleeper(started: list[subprocess.Popen[bytes]], env: dict[str, str]) -> subprocess.Popen[bytes]:
    started.append(subprocess.Popen(["/bin/sleep", "60"], env=env, start_new_session=True))
    return started[-1]


def two_tasks() -> Census:
    """A census of tasks a and b below this program. Children that other tests live by belong to neither: a child of the
    supervisor whose task is not known belongs to the last task."""
    census = Census(os.getpid(), "run-1")
    census.join("a", "")
    census.join("b", "")
    return census


def pids(census: Census, task: str) -> set[int]:
    return {item.pid for item in census.members(task)}


def test_processes_belong_to_tasks_by_session_mark_and_descent(started: list[subprocess.Popen[bytes]]) -> None:
    census = Census(os.getpid(), "run-1")
    census.join("a", "")
    census.join("b", "")
    marked = sleeper(started, {MARK: census.mark("a")})
    leading = sleeper(started, {})
    foreign = sleeper(started, {MARK: "run-2/a"})
    census.leader("b", leading.pid)
    shell = subprocess.Popen(["/bin/sh", "-c", "sleep 60 & wait"], env={MARK: census.mark("a"), "PATH": os.defpath})
    started.append(shell)
    child = wait_for(lambda: process_tree.children(shell.pid))[0]

    wait_for(lambda: pids(census, "a") == {marked.pid, shell.pid, child})
    assert pids(census, "b") == {leading.pid}
    assert not census.kill("a")
    for process in (marked, shell):
        assert process.wait(30) == -signal.SIGKILL
    wait_for(lambda: census.kill("a"))
    assert leading.poll() is None
    assert foreign.poll() is None


def test_what_was_left_by_a_command_is_remembered_without_its_session(started: list[subprocess.Popen[bytes]]) -> None:
    census = Census(os.getpid(), "run-1")
    census.join("a", "")
    census.join("b", "")
    leading = sleeper(started, {})
    census.leader("a", leading.pid)
    census.left("a", leading.pid)
    assert pids(census, "a") == {leading.pid}


def test_without_warden_all_marked_processes_end(started: list[subprocess.Popen[bytes]]) -> None:
    census = Census(os.getpid(), f"run-{os.getpid()}")
    census.join("a", "")
    marked, other = sleeper(started, {MARK: census.mark("a")}), sleeper(started, {})
    wait_for(lambda: process_tree.variable(marked.pid, MARK))
    assert census.abandon() == [marked.pid]
    assert marked.wait(30) == -signal.SIGKILL
    assert census.abandon() == []
    assert other.poll() is None


def test_a_name_with_blanks_and_brackets(started: list[subprocess.Popen[bytes]], tmp_path: Path) -> None:
    odd = tmp_path / "a ) b ("
    odd.symlink_to(os.path.realpath(sys.executable))
    started.append(subprocess.Popen([odd, "-I", "-S", "-c", "input()"], stdin=subprocess.PIPE))
    wait_for(lambda: getattr(process_tree.process(started[0].pid), "name", "") == odd.name)
    found = process_tree.process(started[0].pid)
    assert found is not None
    assert (found.parent, found.dead) == (os.getpid(), False)
    assert process_tree.executable(found.pid) == os.path.basename(os.path.realpath(sys.executable))
    wait_for(lambda: process_tree.own_memory([found.pid]) > 100_000)


def test_what_is_not_there() -> None:
    gone = 2**22 + 1
    assert process_tree.process(gone) is None
    assert process_tree.children(gone) == process_tree.descendants(gone) == []
    assert process_tree.executable(gone) == process_tree.variable(gone, "PATH") == ""
    assert process_tree.own_memory([gone]) == 0
    assert not process_tree.send(gone, signal.SIGTERM)


def test_orphans_of_unknown_descent_are_those_of_the_last_task(started: list[subprocess.Popen[bytes]]) -> None:
    """The warden is a process of its own here: this one has children that other tests live by."""
    supervisor = subprocess.Popen(["/bin/sh"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0)
    started.append(supervisor)
    assert supervisor.stdin is not None and supervisor.stdout is not None
    supervisor.stdin.write(b"sleep 60 & echo $!\n")
    orphan = int(supervisor.stdout.readline())
    census = Census(supervisor.pid, "run-1")
    census.join("a", "")
    census.join("b", "")
    assert pids(census, "a") == pids(census, "b") == set()
    assert census.leave("a")
    assert not census.leave("b")
    assert not census.kill("b")
    wait_for(lambda: getattr(process_tree.process(orphan), "dead", True))
    wait_for(lambda: census.leave("b"))
    assert supervisor.poll() is None


def test_the_memory_of_a_child_of_the_executor_is_counted_when_it_has_become_a_program() -> None:
    census = two_tasks()
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.read(reading, 1)
        os.execv("/bin/sleep", ["sleep", "60"])
    try:
        census.leader("a", pid)
        assert pids(census, "a") == {pid}
        assert process_tree.own_memory([pid]) > 5_000_000  # that of this program
        assert census.memory("a") == 0
        os.write(writing, b"1")
        wait_for(lambda: census.memory("a"))
        assert census.memory("a") < 2_000_000
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        os.close(reading)
        os.close(writing)


def test_the_memory_of_all_children_of_a_task_is_counted(started: list[subprocess.Popen[bytes]]) -> None:
    census = two_tasks()
    program = "import os, signal; os.fork(); signal.pause()"
    started.append(subprocess.Popen([sys.executable, "-ISc", program], start_new_session=True))
    census.leader("a", started[-1].pid)
    try:
        wait_for(lambda: len(pids(census, "a")) == 2)
        assert census.memory("a") == process_tree.own_memory(pids(census, "a")) > 2_000_000
    finally:
        os.killpg(started[-1].pid, signal.SIGKILL)  # the fixture ends the first process only


def test_the_memory_of_a_process_of_a_session_is_counted_when_it_has_become_a_program() -> None:
    census = two_tasks()
    program = "import os, sys; print(flush=True); sys.stdin.readline(); os.execv('/bin/sleep', ['sleep', '60'])"
    session = subprocess.Popen([sys.executable, "-ISc", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    with session:
        try:
            assert session.stdin is not None and session.stdout is not None
            session.stdout.readline()
            census.leader("a", session.pid)
            assert census.memory("a") > 2_000_000
            census.becoming(session.pid)
            assert census.memory("a") == 0
            session.stdin.write(b"\n")
            session.stdin.flush()
            wait_for(lambda: census.memory("a"))
            assert census.memory("a") < 2_000_000
        finally:
            session.kill()
