"""One run of a scenario: the core decides, the virtual cluster carries out, the recorder counts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

from bcs_scheduler.core.interface import inputs, requests
from bcs_scheduler.core.interface.cluster_manager import Traits
from bcs_scheduler.core.interface.effects import Reply
from bcs_scheduler.core.options import CoreOptions
from bcs_scheduler.core.scheduler import Core
from bcs_scheduler.simulator.engine.cluster import Cluster
from bcs_scheduler.simulator.engine.recorder import Group, Recorder, Sample
from bcs_scheduler.simulator.engine.world import World
from bcs_scheduler.simulator.scenario.model import START, Create, Scenario
from store.records import Application, Framework, Namespace, TaskGroup
from transactions.resources.resource_request import total

SAMPLES = 240
"""Samples of a run."""
NEVER = 10.0**9
"""Seconds after which the core asks about a silent taskgroup: the virtual cluster loses no report."""


class Outcome(NamedTuple):
    """`groups`: figures by group. `waiting`: taskgroups without a place at the end, by group. `refused`: messages of
    requests that the scheduler refused. `seconds`: virtual time of the run."""

    name: str
    seconds: float
    groups: dict[str, Group]
    waiting: dict[str, int]
    samples: list[Sample]
    refused: list[str]
    turns: int


class Simulation:
    def __init__(self, name: str, scenario: Scenario, options: CoreOptions) -> None:
        self._name, self._scenario = name, scenario
        self._options = replace(
            options, traits=Traits(loses_news=False, overhead=options.traits.overhead), silence_timeout=NEVER,
            session_clock=None,
        )  # fmt: skip
        self._world = World(START)
        records = (Framework(id="simulation", cluster="simulation", created_at=START), *scenario.records)
        self._core = Core(records, self._options, START)
        queues = {one.name: one.queue for one in scenario.records if isinstance(one, Namespace) and one.queue}
        self._recorder = Recorder(queues, self._options.traits.overhead)
        role = self._options.transactions.role
        self._cluster = Cluster(self._world, scenario.machines, role, self._receive, self._duration_of)
        self._durations = {one.version.application_key: one.durations for one in scenario.creations}
        self._inbox: list[inputs.Input] = []
        self._planned = False
        self._wake = self._turns = self._token = 0
        self._refused: list[str] = []
        self._largest = self._largest_request()
        self._total = {key: sum(one.total.get(key, 0) for one in scenario.machines) for key in ("cpus", "mem")}

    def run(self, seconds: float, progress: Callable[[float], None] = lambda part: None) -> Outcome:
        """Simulates `seconds` of virtual time. `progress` gets the part that is done, from 0 to 1."""
        world = self._world
        for record in self._scenario.records:
            if isinstance(record, TaskGroup) and not record.ended:
                self._cluster.adopt(record, None)
                self._recorder.adopt(record, world.now)
        self._cluster.start()
        for creation in self._scenario.creations:
            world.at(START + creation.at, self._create, creation)
        for number in range(1, SAMPLES + 1):
            world.run(START + seconds * number / SAMPLES)
            self._sample()
            progress(number / SAMPLES)
        self._recorder.close(world.now)
        groups = self._recorder.groups
        waiting = {name: self._recorder.unplaced(name) for name in groups}
        return Outcome(self._name, seconds, groups, waiting, self._recorder.samples, self._refused, self._turns)

    # --- users ------------------------------------------------------------------------------------------------

    def _create(self, creation: Create) -> None:
        self._recorder.created(creation, self._world.now)
        self._token += 1
        self._receive(requests.CreateApplication(token=self._token, version=creation.version))

    def _duration_of(self, group: TaskGroup) -> float | None:
        durations = self._durations.get(group.application_key)
        return durations[group.index] if durations else None

    def _application_changed(self, application: Application) -> None:
        if application.status == "Finish" and self._durations.get(application.key):
            self._durations.pop(application.key)
            self._token += 1
            request = requests.DeleteApplication(
                token=self._token, namespace=application.namespace, name=application.name
            )
            self._receive(request)

    # --- core -------------------------------------------------------------------------------------------------

    def _receive(self, event: inputs.Input) -> None:
        self._inbox.append(event)
        if not self._planned:
            self._planned = True
            self._world.after(0.0, self._turn)

    def _woken(self, wake: int) -> None:
        if wake == self._wake:
            self._turn()

    def _turn(self) -> None:
        self._planned = False
        batch, self._inbox = self._inbox, []
        now = self._world.now
        self._turns += 1
        for unit in self._core.turn(batch, now):
            for change in unit.changes:
                if change.kind == "taskgroup":
                    record = change.record
                    self._recorder.changed(change.key, record if isinstance(record, TaskGroup) else None, now)
                elif isinstance(change.record, Application):
                    self._application_changed(change.record)
            for effect in unit.effects:
                if isinstance(effect, Reply):
                    if effect.error:
                        self._refused.append(effect.message)
                else:
                    self._cluster.take(effect)
        self._wake += 1
        self._world.at(max(now + 0.001, self._core.next_wakeup(now)), self._woken, self._wake)

    # --- figures ----------------------------------------------------------------------------------------------

    def _largest_request(self) -> tuple[int, int]:
        sums = [total(one.version, self._options.traits.overhead) for one in self._scenario.creations]
        return max(((one.cpus, one.mem) for one in sums), default=(0, 0))

    def _sample(self) -> None:
        recorder, (cpus, mem) = self._recorder, self._largest
        free = small = 0
        for amounts in self._cluster.free():
            free += amounts["cpus"]
            if amounts["cpus"] < cpus or amounts["mem"] < mem:
                small += amounts["cpus"]
        recorder.samples.append(
            Sample(
                self._world.now - START,
                recorder.cpus / max(self._total["cpus"], 1),
                recorder.mem / max(self._total["mem"], 1),
                recorder.waiting,
                small / free if free else 0.0,
            )
        )
