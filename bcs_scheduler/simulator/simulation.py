"""One run of a scenario: the core decides, the virtual cluster carries out, the recorder counts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

import msgspec

from bcs_scheduler.core.interface import inputs, requests
from bcs_scheduler.core.interface.cluster_manager import Traits
from bcs_scheduler.core.interface.effects import Reply
from bcs_scheduler.core.options import CoreOptions
from bcs_scheduler.core.scheduler import Core
from bcs_scheduler.simulator.cluster import Cluster
from bcs_scheduler.simulator.model import Action, AddAgent, Create, EndTaskGroup, LoseAgent, Scenario, Submit
from bcs_scheduler.simulator.recorder import Group, Recorder, Sample
from bcs_scheduler.simulator.room import Room
from bcs_scheduler.simulator.world import World
from store.records import Application, Framework, Namespace, TaskGroup, Version
from store.state.unit_of_work import Unit
from transactions.resource_request import total
from transactions.rules.task_states import TaskState

SAMPLES = 240
"""Samples of a run."""
STEPS = 5
"""Reports of progress between two samples."""
NEVER = 10.0**9
"""Seconds after which the core asks about a silent taskgroup, because the virtual cluster loses no report, and for
which the core holds offers, because no other program wants the capacity."""
EVERY_OFFER = 10**9
"""Offers that the core holds while no taskgroup waits: all of them, so that a demand costs no new round of offers."""
TICK = 60.0
"""Longest pause in seconds between two turns. Only old records and repeated kills wait for a turn without a timer."""


class Outcome(NamedTuple):
    """`groups`: figures by group. `waiting`: taskgroups without a place at the end, by group. `refused`: messages of
    requests that the scheduler refused. `seconds`: virtual time of the run. `complete`: False if the run was stopped
    before its end."""

    name: str
    seconds: float
    groups: dict[str, Group]
    waiting: dict[str, int]
    samples: list[Sample]
    refused: list[str]
    turns: int
    complete: bool = True


ANY = 1_000_000_000
"""The greatest priority that a document can have."""


class Simulation:
    def __init__(self, name: str, scenario: Scenario, options: CoreOptions) -> None:
        self._name, self._scenario = name, scenario
        self._options = replace(
            options, traits=Traits(loses_news=False, overhead=options.traits.overhead), silence_timeout=NEVER,
            offer_hold=NEVER, offer_reserve=EVERY_OFFER, session_clock=None,
            explained=0, max_priority=ANY,
        )  # fmt: skip
        self._start = scenario.began
        self._world = World(self._start)
        records = (Framework(id="simulation", cluster="simulation", created_at=self._start), *scenario.records)
        self._core = Core(records, self._options, self._start)
        self._recorder = Recorder(queues_of(scenario), self._options.traits.overhead, self._version_of)
        self._room = Room(self._largest_request())
        role = self._options.transactions.role
        self._cluster = Cluster(
            self._world, scenario.machines, role, self._room, self._receive, self._duration_of
        )  # fmt: skip
        self._durations = {one.version.application_key: one.durations for one in scenario.creations}
        self._inbox: list[inputs.Input] = []
        self._planned = False
        self._wake = self._turns = self._token = 0
        self._refused: list[str] = []
        self._samples: list[Sample] = []

    def run(
        self,
        seconds: float,
        progress: Callable[[float], None] = lambda part: None,
        stop: Callable[[], bool] = lambda: False,
    ) -> Outcome:
        """Simulates `seconds` of virtual time. `progress` gets the part that is done, from 0 to 1; `stop` is called as
        often: True ends the run with the figures up to then."""
        world, complete = self._world, True
        self._begin()
        for number in range(1, SAMPLES * STEPS + 1):
            world.run(self._start + seconds * number / (SAMPLES * STEPS))
            if number % STEPS == 0:
                self._sample()
            progress(number / (SAMPLES * STEPS))
            if stop():
                complete = number == SAMPLES * STEPS
                break
        self._recorder.close(world.now)
        groups = self._recorder.groups
        waiting = {name: group.pending for name, group in groups.items()}
        return Outcome(
            self._name, world.now - self._start, groups, waiting, self._samples, self._refused, self._turns, complete
        )

    def _begin(self) -> None:
        world = self._world
        present: dict[str, Application | None] = {}
        for record in self._scenario.records:
            if isinstance(record, TaskGroup) and not record.ended:
                self._cluster.adopt(record, None)
                self._recorder.adopt(record, world.now)
            elif isinstance(record, Application):
                present[record.key] = record
        self._recorder.settle(present, world.now)
        self._cluster.start()
        for creation in self._scenario.creations:
            world.at(self._start + creation.at, self._create, creation)
        for action in self._scenario.actions:
            world.at(self._start + action.at, self._act, action)

    # --- users and machines -----------------------------------------------------------------------------------

    def _create(self, creation: Create) -> None:
        self._send(requests.CreateApplication(version=creation.version))

    def _act(self, action: Action) -> None:
        match action:
            case Submit():
                self._send(action.request)
            case AddAgent():
                self._cluster.join(action.machine)
            case LoseAgent():
                self._cluster.leave(action.agent)
            case EndTaskGroup():
                state = TaskState.FAILED if action.failed else TaskState.FINISHED
                self._cluster.end(action.application, action.number, state)

    def _send(self, request: requests.Request) -> None:
        self._token += 1
        self._receive(msgspec.structs.replace(request, token=self._token))

    def _duration_of(self, group: TaskGroup) -> float | None:
        durations = self._durations.get(group.application_key)
        return durations[group.index] if durations and group.index < len(durations) else None

    def _delete_finished(self, application: Application) -> None:
        """An application of a load is deleted when all its taskgroups have finished."""
        if application.status == "Finish" and self._durations.get(application.key):
            self._durations.pop(application.key)
            self._send(requests.DeleteApplication(namespace=application.namespace, name=application.name))

    # --- core -------------------------------------------------------------------------------------------------

    def _receive(self, event: inputs.Input, *, soon: bool = True) -> None:
        """The core gets all inputs of a moment in one turn. `soon` False: the input can wait for another one as long as
        no taskgroup waits for a place."""
        self._inbox.append(event)
        if not self._planned and (soon or self._core.pending):
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
        touched: dict[str, None] = {}
        for unit in self._core.turn(batch, now):
            self._follow(unit, now, touched)
        if touched:
            applications = self._core.state.applications
            self._recorder.settle({key: applications.get(key) for key in touched}, now)
        self._wake += 1
        self._world.at(max(now + 0.001, self._core.next_wakeup(now, TICK)), self._woken, self._wake)

    def _follow(self, unit: Unit, now: float, touched: dict[str, None]) -> None:
        """Carries out a unit. `touched` gets the keys of applications whose wanted taskgroups may have changed."""
        for change in unit.changes:
            if change.kind == TaskGroup.kind:
                record = change.record
                group = record if isinstance(record, TaskGroup) else None
                owner = self._recorder.changed(change.key, group, now)
                if owner:
                    touched[owner] = None
            elif change.kind == Application.kind:
                touched[change.key] = None
                if isinstance(change.record, Application):
                    self._delete_finished(change.record)
        for effect in unit.effects:
            if isinstance(effect, Reply):
                if effect.error:
                    self._refused.append(effect.message)
            else:
                self._cluster.take(effect)

    def _version_of(self, application: Application) -> Version | None:
        return self._core.state.version(application.key, application.version)

    # --- figures ----------------------------------------------------------------------------------------------

    def _largest_request(self) -> tuple[int, int]:
        """Cores and memory of the largest taskgroup that is created."""
        versions: list[Version] = [one.version for one in self._scenario.creations]
        for action in self._scenario.actions:
            version = getattr(action.request, "version", None) if isinstance(action, Submit) else None
            if isinstance(version, Version):
                versions.append(version)
        sums = [total(version, self._options.traits.overhead) for version in versions]
        return max(((one.cpus, one.mem) for one in sums), default=(0, 0))

    def _sample(self) -> None:
        now, room = self._world.now, self._room
        self._samples.append(self._recorder.sample(now, now - self._start, room.total, room.fragmented))


def queues_of(scenario: Scenario) -> dict[str, str]:
    """The queues that namespaces name, by namespace: those of the start, and those that users create."""
    spaces = [one for one in scenario.records if isinstance(one, Namespace)]
    sent = (action.request for action in scenario.actions if isinstance(action, Submit))
    spaces += [request.namespace for request in sent if isinstance(request, requests.PutNamespace)]
    return {one.name: one.queue for one in spaces if one.queue}
