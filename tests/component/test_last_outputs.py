"""agentapi.last_outputs: the output of failed tasks is read from a stand-in agent, within bounds."""

from __future__ import annotations

import os
import queue
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import NamedTuple

import pytest

from bcs_scheduler.agentapi import last_outputs, sandbox
from bcs_scheduler.agentapi.last_outputs import LastOutputs, read_last
from bcs_scheduler.agentapi.sandbox import AgentAway, Folder
from bcs_scheduler.executor.output import Index, RotatedFile
from bcs_scheduler.net.addresses import HostPort
from bcs_scheduler.wire.kept_output import MOST, Entry, unpacked
from tests.component.agentfiles import AgentFiles, Answer
from tests.waiting import wait_for


class Wish(NamedTuple):
    agent_id: str = "A"
    executor_id: str = "E"
    task_id: str = "T"


@pytest.fixture
def task(tmp_path: Path) -> Path:
    folder = tmp_path / "tasks" / "T"
    folder.mkdir(parents=True)
    return folder


@pytest.fixture
def agent(tmp_path: Path, task: Path) -> Iterator[AgentFiles]:
    served = AgentFiles(tmp_path)
    yield served
    served.close()


class Reader:
    """What was delivered, and the object that delivers."""

    def __init__(self, agent: AgentFiles) -> None:
        self.delivered: queue.Queue[tuple[Wish, list[Entry]]] = queue.Queue()
        self.outputs: LastOutputs[Wish] = LastOutputs(lambda wish, data: self.delivered.put((wish, unpacked(data))))
        self.outputs.know("F", {"A": HostPort("127.0.0.1", agent.port)})
        self.outputs.start()

    def wait_result(self, result: str, number: int = 1) -> None:
        wait_for(lambda: self.outputs.results()[result] >= number, 30, f"{number} {result}")


@pytest.fixture
def reader(agent: AgentFiles, monkeypatch: pytest.MonkeyPatch) -> Iterator[Reader]:
    """However slow the machine is, the time of no task is over."""
    monkeypatch.setattr(last_outputs, "PATIENCE", 600.0)
    made = Reader(agent)
    yield made
    made.outputs.stop()


def test_the_ends_of_both_streams_without_order_and_times(reader: Reader, task: Path) -> None:
    (task / "stdout").write_bytes(b"one\n\xfftwo\n")
    (task / "stderr").write_bytes(b"trouble\n")
    reader.outputs.put(Wish())
    found = reader.delivered.get(timeout=30)
    assert found == (Wish(), [Entry(0.0, "stdout", b"one\n\xfftwo\n"), Entry(0.0, "stderr", b"trouble\n")])
    reader.wait_result("reported")


@pytest.mark.parametrize(
    ("stdout", "stderr", "kept"),
    [(200_000, 200_000, (MOST // 2, MOST // 2)), (200_000, 1000, (MOST - 1000, 1000)), (0, 200_000, (0, MOST))],
)
def test_64_kib_of_both_streams_are_read(
    agent: AgentFiles, task: Path, stdout: int, stderr: int, kept: tuple[int, int]
) -> None:
    contents = {"stdout": os.urandom(stdout), "stderr": os.urandom(stderr)}
    for name, content in contents.items():
        (task / name).write_bytes(content)
    found = {entry.stream: entry.data for entry in read_last(Folder(agent.address, "F", "E", "tasks/T"))}
    for (name, content), length in zip(contents.items(), kept, strict=True):
        assert found.get(name, b"") == content[len(content) - length :]


def test_order_and_times_of_the_index_are_kept(agent: AgentFiles, task: Path) -> None:
    index = Index(task, 100_000, 3)
    index.begin()
    files = [RotatedFile(task / name, 100_000, 3, index, at) for at, name in enumerate(("stdout", "stderr"))]
    for number in range(2000):
        files[number % 2].write(b"%06d" % number + b"x" * 94)
    entries = read_last(Folder(agent.address, "F", "E", "tasks/T"))
    assert [int(entry.data[:6]) for entry in entries[-100:]] == list(range(1900, 2000))
    assert [entry.stream for entry in entries[-2:]] == ["stdout", "stderr"]
    assert MOST - 100 < sum(len(entry.data) for entry in entries) <= MOST
    assert all(entry.time > 1e9 for entry in entries)


def test_a_task_without_output_an_agent_that_is_not_listed_and_one_that_refuses(
    reader: Reader, agent: AgentFiles, task: Path
) -> None:
    reader.outputs.put(Wish())
    reader.wait_result("empty")
    asked: list[str] = []
    agent.override = lambda what, query: asked.append(what)
    reader.outputs.put(Wish(agent_id="gone"))
    reader.wait_result("unreachable")
    assert not asked, "nothing is asked of an agent that is not listed"
    agent.override = lambda what, query: (403, b"")
    reader.outputs.put(Wish())
    reader.wait_result("failed")
    agent.override = lambda what, query: (503, b"")
    reader.outputs.put(Wish())
    reader.wait_result("unreachable", 2)
    assert reader.delivered.empty()


def test_slow_agents_delay_nobody_and_what_is_too_much_is_counted(
    reader: Reader, agent: AgentFiles, task: Path
) -> None:
    (task / "stdout").write_bytes(b"x")
    release, begun = threading.Event(), threading.Semaphore(0)

    def slow(what: str, query: dict[str, str]) -> Answer | None:
        begun.release()
        release.wait()
        return None

    agent.override = slow
    try:
        for _ in range(last_outputs.READERS):
            reader.outputs.put(Wish())
        for _ in range(last_outputs.READERS):
            assert begun.acquire(timeout=30)
        for _ in range(last_outputs.WAITING + 50):
            reader.outputs.put(Wish())  # a call that waited for an agent would never return
        assert reader.outputs.results()["overflow"] == 50
        assert not begun.acquire(timeout=0), "no more than READERS are read at the same time"
    finally:
        release.set()
    reader.wait_result("reported", last_outputs.READERS + last_outputs.WAITING)


def test_the_rate_is_bounded(reader: Reader, task: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(last_outputs, "RATE", 200.0)
    (task / "stdout").write_bytes(bytes(MOST))
    number = int(last_outputs.BURST / (MOST / 1000)) + last_outputs.READERS + 4
    began = time.monotonic()
    for _ in range(number):
        reader.outputs.put(Wish())
    reader.wait_result("reported", number)
    least = ((number - last_outputs.READERS) * MOST / 1000 - last_outputs.BURST) / 200.0
    assert time.monotonic() - began >= least > 0.5


def test_no_request_begins_after_the_time_of_a_task(
    agent: AgentFiles, task: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (task / "stdout").write_bytes(b"x")
    now, asked = [1000.0], []

    def slow(what: str, query: dict[str, str]) -> None:
        asked.append(what)
        now[0] += 0.2

    monkeypatch.setattr(sandbox, "time", SimpleNamespace(monotonic=lambda: now[0]))
    agent.override = slow
    with pytest.raises(AgentAway, match="too slowly"):
        read_last(Folder(agent.address, "F", "E", "tasks/T", patience=0.1))
    assert asked == ["browse"]


@pytest.mark.parametrize(("files", "requests"), [({}, 1), ({"stdout": b"one", "stderr": b""}, 2), (None, 1)])
def test_few_requests_and_one_connection(
    agent: AgentFiles, task: Path, files: dict[str, bytes] | None, requests: int
) -> None:
    """A storm of failures asks agents for the output of each task."""
    for name, content in (files or {}).items():
        (task / name).write_bytes(content)
    asked: list[str] = []
    agent.override = lambda what, query: asked.append(what)
    with Folder(agent.address, "F", "E", "tasks/T" if files is not None else "tasks/gone") as folder:
        found = read_last(folder)
    assert [entry.data for entry in found] == [content for content in (files or {}).values() if content]
    assert len(asked) == requests
    assert agent.connections == 1


def test_nothing_is_delivered_after_the_end(reader: Reader, agent: AgentFiles, task: Path) -> None:
    (task / "stdout").write_bytes(b"x")
    begun, release = threading.Event(), threading.Event()

    def slow(what: str, query: dict[str, str]) -> None:
        begun.set()
        release.wait(30)

    agent.override = slow
    reader.outputs.put(Wish())
    assert begun.wait(30)
    reader.outputs.stop()
    release.set()
    wait_for(lambda: sum(reader.outputs.results().values()) == 1, 30, "the end of the read")
    assert reader.delivered.empty()
