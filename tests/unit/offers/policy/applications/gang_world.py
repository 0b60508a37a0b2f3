"""A world around a gang that outlives crashes of the scheduler: tasks and placeholders on nodes, and a store.

`World.run` drives an application to its end. A crash may come between any two of: a fact, its commit, and each effect.
After a crash only the world and the committed records are left.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from offers.policy.applications.gang import Gang
from offers.policy.applications.metadata import ApplicationMetadata, TaskMetadata
from offers.policy.applications.records import Create, Effect, Existing, Kill, Launch, Record, Release, Traits
from offers.policy.applications.tables import TERMINATED, TaskState
from tests.vectors.scenarios.engine import OneQueue, records_of, restored

ENDED = ("Completed", "Failed", "Rejected", "Expired")


class Crash(Exception):
    """The scheduler is gone."""


class World:
    """Tasks run until `finish` says that they are done. `crash` is asked at each point where a crash is possible."""

    def __init__(
        self,
        metadata: ApplicationMetadata,
        tasks: tuple[TaskMetadata, ...],
        nodes: dict[str, dict[str, int]],
        traits: Traits,
        crash: Callable[[], bool] = lambda: False,
    ) -> None:
        self.metadata, self.tasks, self.nodes, self.traits, self.crash = metadata, tasks, nodes, traits, crash
        self.stored: dict[tuple[str, str], Record] = {}
        self.placeholders: dict[str, Existing] = {}
        self.requests: dict[str, tuple[str, tuple[tuple[str, int], ...]]] = {}
        self.running: dict[str, str] = {}
        self.finished: set[str] = set()
        self.launches: list[str] = []
        self.now = 0.0
        self.crashes = 0
        self.reports: list[tuple[str, str]] = []
        self.gang, self.engine = self._new()

    # --- the scheduler ----------------------------------------------------------------------------------------

    def _new(self) -> tuple[Gang, OneQueue]:
        engine = OneQueue(self.nodes)
        if ("application", self.metadata.id) not in self.stored:
            gang = engine.gang = Gang.born(self.metadata, engine, self.traits)
            gang.submit(self.now, recovered=True)
        else:
            gang = engine.gang = restored(self.stored.values(), engine, self.traits)
        gang.adopt(self.placeholders.values(), self.now)
        return gang, engine

    def recover(self) -> None:
        """A new scheduler compares its records with what exists."""
        self.reports.clear()
        if not self.traits.lasting:
            self.placeholders.clear()
            self.requests = {key: value for key, value in self.requests.items() if key in self.running}
        self.gang, self.engine = self._new()
        for name, member in list(self.gang.members.items()):
            if name in self.running:
                self.gang.launched(name, self.now)
            elif name in self.finished or member.life.state == TaskState.BOUND:
                self.gang.ended(name, self.now)
        self.commit()

    def commit(self) -> None:
        """The changes become durable, together."""
        changes = self.gang.take_changes()
        self.point()
        for key, record in changes.items():
            if record is None:
                self.stored.pop(key, None)
            else:
                self.stored[key] = record

    def point(self) -> None:
        """A moment at which the scheduler may crash."""
        if self.crash():
            raise Crash

    # --- the cluster ------------------------------------------------------------------------------------------

    def carry_out(self, effect: Effect) -> None:
        """An effect happens, once per key. Its report may arrive later, or never."""
        match effect:
            case Create(placeholder=name, group=group, node=node, request=request):
                if name not in self.placeholders:
                    self._occupy(name, node, request)
                self.placeholders[name] = Existing(name, group, node)
                self.reports.append(("bound", name))
            case Release(placeholder=name):
                self.placeholders.pop(name, None)
                self.requests.pop(name, None)
                self.reports.append(("gone", name))
            case Launch(task=name, node=node, consumes=consumed):
                self.placeholders.pop(consumed, None)
                self.requests.pop(consumed, None)
                if name not in self.running and name not in self.finished:
                    self._occupy(name, node, self.gang.members[name].request)
                    self.running[name] = node
                    self.launches.append(name)
                self.reports.append(("launched", name))
            case Kill(task=name):
                self.finish(name)

    def _occupy(self, name: str, node: str, request: tuple[tuple[str, int], ...]) -> None:
        self.requests[name] = (node, request)
        room = dict(self.nodes[node])
        for place, wanted in self.requests.values():
            for key, amount in wanted if place == node else ():
                room[key] -= amount
        assert min(room.values()) >= 0, f"{node} is full"

    def finish(self, name: str) -> None:
        """A task ends."""
        self.running.pop(name, None)
        self.requests.pop(name, None)
        self.finished.add(name)
        self.reports.append(("ended", name))

    # --- driving ----------------------------------------------------------------------------------------------

    def turn(self) -> bool:
        """One round of facts, commit and effects. Returns False if nothing happened."""
        before = (len(self.launches), len(self.finished), dict(self.stored), len(self.placeholders))
        for fact in self._facts():
            fact()
            self.point()
            self.commit()
            self.check()
            for effect in list(self.gang.due()):
                self.point()
                self.carry_out(effect)
        return before != (len(self.launches), len(self.finished), self.stored, len(self.placeholders))

    def _facts(self) -> Iterator[Callable[[], object]]:
        yield lambda: self.gang.submit(self.now)
        for task in self.tasks:
            if task.id not in self.gang.members:
                yield lambda task=task: self.gang.add_task(task, self.now)  # type: ignore[misc]
        yield lambda: self.engine.cycle(self.now)
        while self.reports:
            kind, name = self.reports.pop(0)
            yield lambda kind=kind, name=name: getattr(self.gang, kind)(name, self.now)  # type: ignore[misc]

    def check(self) -> None:
        """Numbers agree: engine, counters, records. What the records say is what the gang knows."""
        self.engine.check()
        gang = self.gang
        for counter in gang.record.counters:
            own = [one for one in gang.placeholders.values() if one.group == counter.group]
            alive = [one for one in own if one.release is None or one.member]
            assert counter.total - counter.replaced - counter.timed_out == len(alive), (counter, own)
        assert {(type(one), one.key): one for one in records_of(gang)} == {
            (type(one), one.key): one for one in self.stored.values()
        }
        assert len(self.launches) == len(set(self.launches)), "a task is launched once"

    def run(self, turns: int = 200) -> None:
        """Drives the application to its end: every task that runs finishes, time passes when nothing else happens."""
        for _ in range(turns):
            try:
                self.commit()
                if self.gang.record.core.state in ENDED and not self.placeholders and not list(self.gang.due()):
                    return
                busy = self.turn()
                if busy:
                    continue
                if self.running:
                    for name in list(self.running):
                        self.finish(name)
                    continue
                wake = self.gang.next_wake()
                assert wake is not None, f"stuck in {self.gang.record.core.state} with {list(self.gang.due())}"
                self.now = max(wake, self.now)
                self.gang.tick(self.now)
            except Crash:
                self.crashes += 1
                self.again()
        raise AssertionError(f"no end: {self.gang.record}")

    def again(self) -> None:
        """Recovers, as often as the scheduler crashes meanwhile."""
        while True:
            try:
                self.recover()
                return
            except Crash:
                self.crashes += 1

    def finally_(self) -> None:
        """Nothing is left: no placeholder, no room, no ask, and every task has ended in one way."""
        assert not self.placeholders and not self.running and not self.requests
        assert not self.engine.allocations and not self.engine.pending
        assert not self.gang.placeholders
        assert all(one.life.state in TERMINATED for one in self.gang.members.values())
        assert set(self.gang.members) == {task.id for task in self.tasks}
