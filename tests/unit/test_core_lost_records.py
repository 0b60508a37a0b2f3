"""How many records and events the loss of an agent writes.

The whole story is counted: taskgroups are unreachable, wait, are replaced, run, and the agent comes back with the old
taskgroups.
"""

from __future__ import annotations

from collections import Counter

import pytest

from bcs_scheduler.core.interface import cluster_manager, effects
from benchmarks.synthetic import PER_AGENT, World, agent_name, listed
from store.records import TaskGroup

RECORDS = {"taskgroup": 4, "transaction": 2}
"""Writes per taskgroup: it is lost, replaced (the new one written, the old one deleted), and runs; the restart begins
and ends. More are not needed."""
EVENTS = ["TaskGroupLost", "TaskGroupRunning", "TransactionStarted", "TaskGroupPlaced", "TaskGroupRestarted"]
AGENTS = 10


class Counted(World):
    """Counts what every turn writes."""

    def __init__(self) -> None:
        self.written: Counter[str] = Counter()
        self.told: Counter[tuple[str, str]] = Counter()
        self.killed: list[str] = []
        super().__init__(1000)

    def take(self, units: list) -> None:  # type: ignore[type-arg,override]
        for unit in units:
            self.written.update(change.kind for change in unit.changes)
            for effect in unit.effects:
                if isinstance(effect, effects.EventsRecorded):
                    self.told.update((event.object, event.reason) for event in effect.events)
                elif isinstance(effect, cluster_manager.End):
                    self.killed += effect.tasks
        super().take(units)


@pytest.fixture(scope="module")
def story() -> tuple[Counted, list[TaskGroup]]:
    world = Counted()
    lost = [g for n in range(AGENTS) for g in world.core.state.groups_on(agent_name(n)).values()]
    assert len(lost) == AGENTS * PER_AGENT
    world.written.clear()
    world.told.clear()
    world.turn(*[cluster_manager.AgentRemoved(agent_id=agent_name(n)) for n in range(AGENTS)])
    world.turn(cluster_manager.AgentsListed(agents=listed(range(AGENTS, world.agents))))
    world.turn(*[report for group in lost for report in world.reports(group, "UNREACHABLE")])
    while not world.killed:  # the kills of what is replaced are not answered yet: the agents are away
        world.turn(after=1.0)
    world.rest()
    assert sorted(world.killed) == sorted(task.id for group in lost for task in group.tasks)
    world.turn(cluster_manager.AgentsListed(agents=listed(range(world.agents))))
    world.turn(*[report for group in lost for report in world.reports(group, "RUNNING")])
    world.rest()
    for _ in range(100):
        world.turn(after=1.0)
        world.rest()
    return world, lost


def test_all_lost_taskgroups_are_replaced_and_what_came_back_is_ended(story: tuple[Counted, list[TaskGroup]]) -> None:
    world, lost = story
    groups = world.core.state.taskgroups
    assert len(groups) == 1000 and {group.status for group in groups.values()} == {"Running"}
    assert not groups.keys() & {group.id for group in lost}
    assert len(world.core._orphaned_tasks) == 0


def test_a_lost_taskgroup_writes_no_record_more_than_needed(story: tuple[Counted, list[TaskGroup]]) -> None:
    world, lost = story
    counted = {kind: number / len(lost) for kind, number in world.written.items()}
    assert {kind: counted.pop(kind) for kind in RECORDS} == RECORDS
    applications, journal = counted.pop("application"), counted.pop("journal")
    assert applications <= 0.3  # three states of each application, which has ten taskgroups
    assert journal <= len(EVENTS)
    assert set(counted) <= {"framework"}  # which says from time to time that its leader is at work


def test_events_about_a_lost_taskgroup_say_nothing_twice(story: tuple[Counted, list[TaskGroup]]) -> None:
    world, lost = story
    told = {what: number for what, number in world.told.items() if what[0] in ("taskgroup", "transaction")}
    assert sorted(reason for _, reason in told) == sorted(EVENTS)
    assert set(told.values()) == {len(lost)}
