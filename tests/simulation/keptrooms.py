"""The invariants of rooms that the cluster manager keeps for placeholders (`simulate(..., kept=True)`).

I64  the room of a taskgroup is used or given up only when the taskgroup has ended or is being ended
I65  a taskgroup of such a placeholder is never started, ended or asked for: the cluster manager does not know it
C13  at rest every room that is kept has a taskgroup that wants it, and every such taskgroup that runs has its room
"""

from __future__ import annotations

from bcs_scheduler.core.interface import cluster_manager
from store.ids import taskgroup_of
from store.records import TaskGroup, Version
from store.state.state import State
from tests.simulation.agents import Agent
from tests.simulation.mesos import Master
from tests.simulation.store import Store
from tests.simulation.violation import Violation
from tests.simulation.world import World


class KeptRooms:
    """Judges what reaches the master, and what is left at rest."""

    def __init__(self, world: World, store: Store, master: Master) -> None:
        self._world, self._store, self._master = world, store, master

    def freeing(self, name: str) -> None:
        """The room of a taskgroup is about to be used by another launch, or to be given up."""
        record = self._store.durable.get(("taskgroup", name))
        if isinstance(record, TaskGroup) and not record.ended and not record.killing_since:
            raise Violation("I64", f"the room of {name} is taken, which wants it", name)

    def launching(self, agent: Agent, launch: cluster_manager.Launch) -> None:
        """The master is about to start a taskgroup."""
        if launch.kept:
            raise Violation("I65", f"{launch.taskgroup.id} is started on {agent.id}", launch.taskgroup.id)

    def leaving(self, state: State, effect: object) -> None:
        """An effect leaves the scheduler."""
        names: list[str] = []
        if isinstance(effect, cluster_manager.End):
            names = [effect.taskgroup]
        elif isinstance(effect, cluster_manager.Reconcile):
            names = [taskgroup_of(task) for task, _ in effect.tasks]
        for name in names:
            group = state.taskgroups.get(name)
            version = state.version(group.application_key, group.version) if group is not None else None
            if version is not None and version.kept:
                raise Violation("I65", f"{type(effect).__name__} of {name}, which nobody runs", name)

    def problem(self) -> tuple[str, ...] | None:
        """C13."""
        for name in self._master.rooms:
            record = self._store.durable.get(("taskgroup", name))
            if not isinstance(record, TaskGroup) or record.ended:
                return "C13", f"the room of {name} is kept for nobody", name
        for (kind, name), record in self._store.durable.items():
            if kind == "taskgroup" and isinstance(record, TaskGroup) and record.status == "Running":
                key = (record.namespace, record.application, record.version)
                version = self._store.durable.get(("version", "/".join(key)))
                if isinstance(version, Version) and version.kept and name not in self._master.rooms:
                    return "C13", f"{name} runs without a room", name
        return None
