"""Simulated Mesos agents: they run taskgroups and report, each task through a status update stream of its own.

As on a real agent, updates of one task go out one at a time, in order, and are repeated until acknowledged; the tasks
of a taskgroup die together when one of them fails or is killed, while a task that exits with 0 leaves the others alone.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from bcs_scheduler.core.interface import cluster_manager, inputs
from bcs_scheduler.core.interface.cluster_manager import Launch
from offers.agents import ListedAgent
from store.records.definition import HealthCheck
from tests.simulation.executors import Executor, local_of
from tests.simulation.room import Room, claim_room
from tests.simulation.world import World

TERMINAL = frozenset({"FINISHED", "FAILED", "KILLED", "ERROR", "LOST", "DROPPED"})
SILENCE, SILENT = 4, 2
"""In seeds that leave the second number when they are divided by the first, executors die without a word, also at rest.
The other seeds stay what they were."""
RESEND, RESEND_MAX = 5.0, 40.0
"""Seconds until an update that was not acknowledged is sent again: at first, and at most."""


@dataclass(frozen=True, slots=True)
class Update:
    uuid: bytes
    state: str
    message: str = ""
    reason: str = ""
    unfetched: bool = False
    healthy: bool | None = None
    detail: cluster_manager.TaskDetail | None = None


@dataclass(eq=False, slots=True)
class Task:
    id: str
    group: Group
    state: str = "STAGING"
    """What is true on the agent."""
    stream: deque[Update] = field(default_factory=deque)
    """Not yet acknowledged; only the first is under way."""
    pause: float = RESEND
    checks: tuple[HealthCheck, ...] = ()
    healthy: bool | None = None
    """What its local check finds; None = not probed yet."""
    remote: bool = True
    """What a prober would find."""
    restarting: bool = False

    @property
    def local_check(self) -> Literal["HTTP", "TCP", "COMMAND"] | None:
        return local_of(self.checks)

    @property
    def live(self) -> bool:
        return self.state not in TERMINAL


@dataclass(eq=False, slots=True)
class Group:
    """A taskgroup as it runs on an agent."""

    id: str
    launch: Launch
    tasks: dict[str, Task] = field(default_factory=dict)
    killing: bool = False
    fetched: bool = True
    """False: its executor is never started. No process of the taskgroup exists, so none can end or answer."""
    room: Room = field(init=False)
    """What it holds of its agent."""
    executor: Executor = field(init=False)

    def __post_init__(self) -> None:
        self.room = claim_room(self.launch.allocation)

    @property
    def live(self) -> bool:
        return any(task.live for task in self.tasks.values())


class Master(Protocol):
    def update(self, agent: Agent, task: Task, update: Update) -> None: ...

    def say(self, agent: Agent, event: inputs.Input) -> None: ...

    def carried_out(self, group: Group, message: cluster_manager.SendMessage) -> None: ...

    def forget(self, group: Group) -> None: ...


class Agent:
    """One agent. `reachable` is the network between it and the master."""

    def __init__(self, world: World, master: Master, identity: str, facts: dict[str, Any]) -> None:
        self._world = world
        self._master = master
        self.id = identity
        self.host: str = facts["host"]
        self.attributes: dict[str, str | float] = facts["attributes"]
        self.capacity: dict[str, int] = facts["capacity"]
        """Thousandths by name."""
        self.ports: tuple[int, int] = facts["ports"]
        self.facts = facts
        self.reachable = True
        self.dead = False
        """Gone for good, with everything on it."""
        self.registered_at = 0.0
        """When the master took its last registration, by the master's clock."""
        self.forgetful = False
        """It has lost taskgroups without a word, so its master may not tell of their end when it registers."""
        self.mute = False
        """The executor of the next launch dies before its first status."""
        self.link = 0
        """Number of the registration; what a master sent over an older one does not arrive."""
        self.groups: dict[str, Group] = {}
        self._stuck: list[Group] = []
        """They stay Staging, and whoever asks is told so."""
        self._updates = 0

    def listed(self) -> ListedAgent:
        """As bcs_scheduler.mesos.convert tells of an agent."""
        return ListedAgent(
            id=self.id,
            hostname=self.host,
            ip=str(self.attributes["InnerIP"]),
            port=5051,
            active=True,
            attributes=dict(self.attributes),
            total=dict(self.capacity),
            allocated={},
            ports=[self.ports],
            registered_time=self.registered_at,
        )

    def live_groups(self) -> list[Group]:
        return [group for group in self.groups.values() if group.live]

    # --- what the master asks for -----------------------------------------------------------------------------

    def run(self, launch: Launch) -> bool:
        """Starts a taskgroup; what becomes of it is left to chance. False if its executor is never started."""
        if self.dead:
            return False
        world = self._world
        group = Group(launch.taskgroup.id, launch)
        for task, container in zip(launch.taskgroup.tasks, launch.version.containers, strict=True):
            group.tasks[task.id] = Task(task.id, group, checks=container.health_checks)
        group.executor = Executor(world, self._master, self, group)
        self.groups[group.id] = group
        world.tell(self.id, f"runs {group.id}")
        if launch.taskgroup.executor == "bcs" and world.fault(0.03):
            world.count("fault: executor not fetched")
            group.fetched = False
            world.after(world.between(0.05, 1.0), self._unfetched, group)
            return False
        if self.mute or (world.seed % SILENCE == SILENT and world.fault(0.06)):
            self.mute = False
            world.count("fault: executor dies before its first status")
            world.after(world.between(0.01, 1.0), self._die_unheard, group)
        elif world.seed % SILENCE == SILENT and world.fault(0.04):
            world.count("fault: launch never starts")
            self._stuck.append(group)
        elif world.fault(0.05):
            world.after(world.between(0.05, 1.0), self._fail, group, "FAILED", "the container does not start")
        elif world.fault(0.03):
            world.count("fault: launch hangs")
            world.after(world.between(20.0, 60.0), self._started, group)
        else:
            world.after(world.between(0.02, 1.0), self._started, group)
        return True

    def kill(self, task_id: str) -> None:
        """Kills the taskgroup of the task; a group that was killed already is not killed twice."""
        self._end(next((g for g in self.groups.values() if task_id in g.tasks), None))

    def shut_down(self, executor_id: str) -> None:
        self._end(self.groups.get(executor_id))

    def message(self, message: cluster_manager.SendMessage) -> None:
        group = self.groups.get(message.executor_id)
        if group is not None and group.fetched and not self.dead:
            group.executor.receive(message)

    def _end(self, group: Group | None) -> None:
        if group is None or not group.live or group.killing or self.dead:
            return
        group.killing = True
        world = self._world
        self._world.tell(self.id, f"kills {group.id}")
        for task in group.tasks.values():
            if task.live and world.chance(0.7):
                self._report(task, "KILLING")
        world.after(world.between(0.05, 3.0), self._fail, group, "KILLED", "killed")

    def acknowledge(self, task_id: str, uuid: bytes) -> str:
        """The state that was acknowledged, empty if that was no update under way."""
        for group in self.groups.values():
            task = group.tasks.get(task_id)
            if task is not None and task.stream and task.stream[0].uuid == uuid:
                acknowledged = task.stream.popleft()
                task.pause = RESEND
                if task.stream:
                    self._send(task)
                elif not any(t.live or t.stream for t in group.tasks.values()):
                    del self.groups[group.id]
                return acknowledged.state
        return ""

    # --- what happens on the agent ----------------------------------------------------------------------------

    def go_on(self) -> None:
        """What is stuck starts after all."""
        stuck, self._stuck = self._stuck, []
        for group in stuck:
            self._started(group)

    def _started(self, group: Group) -> None:
        if self.dead or group.killing:
            return
        for task in group.tasks.values():
            if not task.live:
                continue
            if self._world.chance(0.8):
                self._report(task, "STARTING")
            self._report(task, "RUNNING")
        self._world.count("taskgroups running")
        group.executor.started()
        if self._world.fault(0.2):
            self._world.after(self._world.between(0.5, 120.0), self.crash, group)

    def crash(self, group: Group) -> None:
        """A process of the taskgroup ends by itself, well or badly."""
        live = [task for task in group.tasks.values() if task.live]
        if self.dead or group.killing or not group.fetched or not live or self._world.calm:
            return
        task = self._world.pick(live)
        if self._world.chance(0.3):
            self._world.count("fault: task finishes")
            self._report(task, "FINISHED")
        else:
            self._world.count("fault: task crashes")
            self._report(task, "FAILED", "exit status 1")
            self._fail(group, "KILLED", "a task of the group failed")

    def die_silently(self, group: Group) -> None:
        """The executor ends and nothing is left that could tell: what was to be repeated is lost too."""
        self._world.tell(self.id, f"loses {group.id} without a word")
        for task in group.tasks.values():
            task.state = "LOST"
            task.stream.clear()
        del self.groups[group.id]

    def _die_unheard(self, group: Group) -> None:
        """Nobody has heard of the taskgroup; the agent tells its end only when it is asked."""
        if group.id in self.groups and group.live and not self.dead:
            self.die_silently(group)
            self._master.forget(group)

    def says_again(self, task: Task) -> None:
        """Something about a running task has changed."""
        if task.state == "RUNNING" and not self.dead:
            self._report(task, "RUNNING")

    def _fail(self, group: Group, state: str, message: str) -> None:
        if self.dead:
            return
        for task in group.tasks.values():
            if task.live:
                self._report(task, state, message)

    def _unfetched(self, group: Group) -> None:
        """The scheduler that the executor was to be fetched from has not answered."""
        if self.dead:
            return
        for task in group.tasks.values():
            if task.live:
                self._report(task, "FAILED", "not fetched", "REASON_CONTAINER_LAUNCH_FAILED", unfetched=True)

    def _report(self, task: Task, state: str, message: str = "", reason: str = "", *, unfetched: bool = False) -> None:
        self._updates += 1
        task.state = state
        executor = task.group.executor
        healthy = task.healthy if not executor.ours else None
        uuid = f"{self.id}-{self._updates}".encode()
        task.stream.append(Update(uuid, state, message, reason, unfetched, healthy, executor.detail(task)))
        if len(task.stream) == 1:
            self._send(task)
        if state == "FAILED" and not unfetched:
            executor.failed(task)

    def _send(self, task: Task) -> None:
        """Sends the first update of the stream, now and again until it is acknowledged."""
        if self.dead:
            return
        update = task.stream[0]
        if self.reachable:
            self._master.update(self, task, update)
        self._world.after(task.pause, self._again, task, update)
        task.pause = min(2 * task.pause, RESEND_MAX)

    def _again(self, task: Task, update: Update) -> None:
        if task.stream and task.stream[0] is update:
            self._send(task)

    def reregistered(self) -> None:
        """The connection to a master is back: streams go on at once."""
        for group in list(self.groups.values()):
            for task in group.tasks.values():
                if task.stream:
                    self._master.update(self, task, task.stream[0])
