"""The simulated agents do only what real agents can do."""

from __future__ import annotations

import pytest

from bcs_scheduler.core.interface.cluster_manager import Launch
from offers.model import Allocation
from store.records import TaskGroup, Version
from store.records.definition import Container
from store.records.running import Task
from tests.simulation.agents import Agent
from tests.simulation.mesos import Master, Watch
from tests.simulation.world import World

NAME = "0.api.prod.Unnamed.1"


def test_a_taskgroup_whose_executor_is_never_started_only_fails_to_start(monkeypatch: pytest.MonkeyPatch) -> None:
    """A fault may choose the taskgroup before the agent tells that the executor could not be fetched."""
    world = World(1)
    agent = Agent(
        world, Master(world, Watch()), "agent-1", {"host": "h", "attributes": {}, "capacity": {}, "ports": ()}
    )
    group = TaskGroup(
        id=NAME, namespace="prod", application="api", index=0, version="1", executor="bcs", tasks=(Task(id="task"),)
    )
    version = Version(namespace="prod", application="api", name="1", containers=(Container(image="i"),))
    monkeypatch.setattr(world, "fault", lambda probability: True)
    assert not agent.run(Launch(taskgroup=group, version=version, allocation=Allocation()))
    assert world.counts["fault: executor not fetched"] == 1

    agent.crash(agent.groups[NAME])
    task = agent.groups[NAME].tasks["task"]
    assert task.state == "STAGING" and not task.stream
    world.run(world.now + 1.0)
    assert [(update.state, update.unfetched) for update in task.stream] == [("FAILED", True)]
