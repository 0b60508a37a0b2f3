"""What tests of container tasks share: a stand-in engine, and runtimes on it that are ended with the test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bcs_scheduler.executor.docker import output, runtime
from bcs_scheduler.executor.docker.runtime import ContainerRuntime
from bcs_scheduler.executor.model import Group, Task
from tests.component.executor.dockertasks import IMAGE, TASKGROUP, container_task, directory_in
from tests.component.executor.standinengine import StandInEngine


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[StandInEngine]:
    found = StandInEngine(tmp_path / "engine.sock")
    found.images.add(IMAGE)
    yield found
    found.away()


@pytest.fixture
def make(engine: StandInEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Builds a runtime of a task, or of one with these fields of its container."""
    monkeypatch.setattr(runtime, "PAUSE", 0.02)
    monkeypatch.setattr(output, "PAUSE", 0.02)
    made: list[ContainerRuntime] = []

    def build(task: Task | None = None, **container: Any) -> ContainerRuntime:
        group = Group(taskgroup=TASKGROUP, agent_ip="10.0.0.4", docker=engine.path, grace_period=3.0)
        made.append(ContainerRuntime(task or container_task(**container), group, directory_in(tmp_path)))
        return made[-1]

    yield build
    engine.back()
    for found in made:
        found.stop(0.0)
