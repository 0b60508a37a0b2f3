"""One quiet world: the core decides, and a cluster without faults carries out, in virtual time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

import msgspec

from bcs_scheduler.core.interface import cluster_manager, effects, inputs, requests
from bcs_scheduler.core.interface.cluster_manager import Traits
from bcs_scheduler.core.options import CoreOptions
from bcs_scheduler.core.scheduler import Core
from bcs_scheduler.simulator.cluster import Cluster
from bcs_scheduler.simulator.model import START, Machine
from bcs_scheduler.simulator.room import Room
from bcs_scheduler.simulator.world import World
from store.records import Framework, PriorityClass, Record, TaskGroup
from store.state import State
from store.state.unit_of_work import Unit
from transactions.base import Overhead
from transactions.rules.task_states import TaskState

CRITICAL = "system-cluster-critical"
"""The priority class of critical work, which every world has; its priority is 10."""
NEVER = 10.0**9
TICK = 60.0
"""Longest pause in seconds between two turns."""
SHORT = 0.001
"""Least pause in seconds between two turns without an input."""
SERVING = 2.0
"""Seconds from the start of tasks with checks to the first verdict."""


def quiet(options: CoreOptions) -> CoreOptions:
    """The options of a cluster that loses nothing and lends to nobody else."""
    return replace(
        options,
        traits=Traits(loses_news=False, overhead=Overhead()),
        silence_timeout=NEVER,
        offer_hold=NEVER,
        offer_reserve=10**9,
        session_clock=None,
        loss_share=0.0,
        explained=0,
        strict=True,
        executor="mesos",
        max_priority=1_000_000_000,
    )


class QuietWorld:
    """A core with its cluster. `decided` is called with each unit and the taskgroups as they were before it; the state
    of the core is that after the turn. `sick` holds the keys of applications whose checks fail, `lasts` the seconds
    that the taskgroups of an application run, by its key; others run without end."""

    def __init__(self, options: CoreOptions, machines: Iterable[Machine], records: Iterable[Record] = ()) -> None:
        self.options = quiet(options)
        self.counts: Counter[str] = Counter()
        self.sick: set[str] = set()
        self.lasts: dict[str, float] = {}
        self._verdicts: dict[str, cluster_manager.StatusUpdate] = {}
        self.decided: Callable[[Unit, Mapping[str, TaskGroup]], None] = lambda unit, before: None
        self.units: Sequence[Unit] = ()
        """Those of the latest turn."""
        self.turned: Callable[[], None] = lambda: None
        """Called after each turn."""
        self.changed: Callable[[], None] = lambda: None
        """Called before each change from outside."""
        self.pause = SHORT
        """Least seconds between two turns without an input: a scheduler that is late, when nothing happens anyway."""
        self.told: list[tuple[float, str]] = []
        self.refused: Counter[str] = Counter()
        self._clock = World(START)
        framework = Framework(id="simulation", cluster="simulation", created_at=START)
        self.core = Core([framework, *records], self.options, START)
        role = self.options.transactions.role
        self.cluster = Cluster(
            self._clock,
            machines,
            role,
            Room((0, 0)),
            self._receive,
            lambda group: self.lasts.get(group.application_key),
        )
        self._groups: dict[str, TaskGroup] = {}
        self._inbox: list[inputs.Input] = []
        self._planned = False
        self._wake = self._token = 0
        self._replies: dict[int, effects.Reply] = {}
        self.cluster.start()
        self.pass_time(5.0)
        critical = PriorityClass(name=CRITICAL, value=10)
        self.ask(requests.PutPriorityClass(priority_class=critical))

    @property
    def now(self) -> float:
        """Unix seconds."""
        return self._clock.now

    @property
    def state(self) -> State:
        return self.core.state

    @property
    def groups(self) -> Mapping[str, TaskGroup]:
        """The taskgroups that exist, as the units say."""
        return self._groups

    def pass_time(self, seconds: float) -> None:
        """Lets time pass."""
        self._clock.run(self.now + seconds)

    def flip(self, application: str) -> None:
        """The checks of an application begin to fail, or to pass."""
        self.changed()
        self.sick ^= {application}
        healthy = application not in self.sick
        self._tell(f"checks of {application}: {'pass' if healthy else 'fail'}")
        for key, group in sorted(self._groups.items()):
            verdict = self._verdicts.get(key)
            if group.application_key == application and verdict is not None:
                self._probed(msgspec.structs.replace(verdict, uuid=verdict.uuid + b"h", healthy=healthy))

    def end(self, group: TaskGroup, state: TaskState) -> None:
        """A taskgroup ends by itself."""
        self.changed()
        self.cluster.end(group.application_key, group.index, state)

    def ask(self, request: requests.Request) -> effects.Reply | None:
        """A user sends a request. The answer; None if it does not come within a second."""
        self.changed()
        self._token += 1
        self._tell(f"asked: {request}")
        self._receive(msgspec.structs.replace(request, token=self._token))
        self.pass_time(1.0)
        reply = self._replies.pop(self._token, None)
        if reply is not None and reply.error:
            self._tell(f"refused: {reply.message}")
            self.refused[reply.error] += 1
        return reply

    # --- core -------------------------------------------------------------------------------------------------

    def _receive(self, event: inputs.Input, *, soon: bool = True) -> None:
        if isinstance(event, cluster_manager.StatusUpdate) and event.state == "RUNNING" and event.healthy is None:
            group = self._groups.get(event.executor_id)
            if group is not None and any(task.checks for task in group.tasks):
                healthy = group.application_key not in self.sick
                verdict = msgspec.structs.replace(event, uuid=event.uuid + b"h", healthy=healthy)
                self._clock.after(SERVING, self._probed, verdict)
        self._inbox.append(event)
        if not self._planned and (soon or self.core.pending):
            self._planned = True
            self._clock.after(0.0, self._turn)

    def _probed(self, verdict: cluster_manager.StatusUpdate) -> None:
        if verdict.executor_id in self._groups:
            self._verdicts[verdict.executor_id] = verdict
            self._receive(verdict)

    def _woken(self, wake: int) -> None:
        if wake == self._wake:
            self._turn()

    def _turn(self) -> None:
        self._planned = False
        batch, self._inbox = self._inbox, []
        now = self.now
        self.counts["turns"] += 1
        self.units = self.core.turn(batch, now)
        for unit in self.units:
            self._follow(unit)
        self.turned()
        self._wake += 1
        pause = SHORT if self.core.busy else self.pause
        self._clock.at(max(now + pause, self.core.next_wakeup(now, TICK)), self._woken, self._wake)

    def _follow(self, unit: Unit) -> None:
        self.decided(unit, self._groups)
        for change in unit.changes:
            if change.kind == TaskGroup.kind:
                self._change(change.key, change.record)
        for effect in unit.effects:
            if isinstance(effect, effects.Reply):
                self._replies[effect.token] = effect
            else:
                self.cluster.take(effect)

    def _change(self, key: str, record: Record | None) -> None:
        before = self._groups.get(key)
        if isinstance(record, TaskGroup):
            self._groups[key] = record
            if before is None or before.status != record.status or before.end_cause != record.end_cause:
                self._tell(f"{key} on {record.agent_id}: {record.status} {record.end_cause} {record.message}")
        else:
            self._groups.pop(key, None)
            self._verdicts.pop(key, None)

    def _tell(self, words: str) -> None:
        self.told.append((self.now - START, words))

    def story(self, names: Sequence[str] = (), last: int = 1_000_000) -> list[str]:
        """The last lines that name one of the objects; without names: of all."""
        lines = [f"{at:9.2f} {words}" for at, words in self.told if not names or any(one in words for one in names)]
        return lines[-last:]
