"""Simulated executors: they probe their tasks, and our own ones also report steadily and carry out messages.

What they say beside status updates is best effort: it may be lost, late or repeated. A message id is carried out once,
and answered the same way whenever it comes again; what an executor remembers ends with it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal, Protocol, cast
from zlib import crc32

from bcs_scheduler.core.interface import cluster_manager, inputs
from store.records import MessageResult, TaskGroup
from store.records.definition import HealthCheck
from tests.simulation.world import World

if TYPE_CHECKING:
    from tests.simulation.agents import Agent, Group, Task
    from tests.simulation.driver import Node
    from tests.simulation.mesos import Master

REPORT_INTERVAL = 15.0
PROBE_INTERVAL = 3.0
NOISE = "\x01" * 110_000
OUTPUT, SPOKEN, FIRST_OUTPUT = 8, 5, 61
"""Executors send the last output of failed tasks in seeds from the third number on that leave the second one when they
are divided by the first. The other seeds stay what they were."""
DURATIONS = (0.01, 0.01, 0.3, 2.0, 15.0)
"""Seconds that messages take."""

LocalCheck = Literal["HTTP", "TCP", "COMMAND"]
Answered = Literal["running", "success", "failed"]


class Link(Protocol):
    """What executors reach of the master."""

    def say(self, agent: Agent, event: inputs.Input) -> None: ...

    def carried_out(self, group: Group, message: cluster_manager.SendMessage) -> None: ...


class Executor:
    def __init__(self, world: World, link: Link, agent: Agent, group: Group) -> None:
        self._world, self._link, self._agent, self._group = world, link, agent, group
        self.ours = group.launch.taskgroup.executor == "bcs"
        self._answers: dict[str, cluster_manager.MessageAnswered] = {}
        self._under_way: set[str] = set()

    @property
    def _gone(self) -> bool:
        return self._agent.dead or not self._group.live

    def started(self) -> None:
        world = self._world
        for task in self._group.tasks.values():
            if task.local_check is not None:
                world.after(world.between(0.1, 3.0), self._probed, task, True)
            if task.checks and world.fault(0.4):
                world.after(world.between(3.0, 60.0), self._flap, task)
        if self.ours:
            world.after(world.between(0.5, REPORT_INTERVAL), self._steady)

    # --- health -----------------------------------------------------------------------------------------------

    def _flap(self, task: Task) -> None:
        world = self._world
        if self._gone or world.calm:
            return
        world.count("fault: health flaps")
        recovery = world.between(1.0, 40.0)
        if task.local_check is not None:
            self._probed(task, False)
            world.after(recovery, self._probed, task, True)
        task.remote = False
        world.after(recovery, setattr, task, "remote", True)
        world.after(recovery + world.between(1.0, 60.0), self._flap, task)

    def _probed(self, task: Task, healthy: bool) -> None:
        if not self._gone and task.healthy is not healthy:
            task.healthy = healthy
            self._agent.says_again(task)

    def detail(self, task: Task) -> cluster_manager.TaskDetail | None:
        """What a status update carries beside the state, if the executor is ours."""
        if not self.ours:
            return None
        check = task.local_check
        words = {None: "", True: "fine", False: "bad"}[task.healthy]
        checks = (
            [cluster_manager.CheckReport(type=check, healthy=task.healthy, message=words)] if check is not None else []
        )
        return cluster_manager.TaskDetail(
            pid=17,
            exit_code=None if task.live else 1,
            restarting=task.restarting,
            checks=tuple(checks),
        )

    def _steady(self) -> None:
        if self._gone:
            return
        tasks = tuple((task.id, detail) for task in self._group.tasks.values() if (detail := self.detail(task)))
        self._say(
            cluster_manager.TasksReported(
                agent_id=self._agent.id, executor_id=self._group.id, tasks=tasks, cause="steady"
            )
        )
        self._world.after(self._world.between(0.8, 1.2) * REPORT_INTERVAL, self._steady)

    # --- output -----------------------------------------------------------------------------------------------

    def failed(self, task: Task) -> None:
        """A task has failed: its last output is sent, some of it so late that its application may be gone."""
        if not self.ours or not sends_output(self._world.seed):
            return
        size = 500 + crc32(task.id.encode()) % 6000
        event = cluster_manager.OutputReported(
            agent_id=self._agent.id, executor_id=self._group.id, task_id=task.id, data=b"x" * size
        )
        self._world.count("outputs of failed tasks")
        self._world.after(self._world.pick((0.0, 0.0, 1.0, 30.0, 120.0)), self._say, event)

    # --- messages ---------------------------------------------------------------------------------------------

    def receive(self, message: cluster_manager.SendMessage) -> None:
        if self._gone or not self.ours:
            return
        identity = message.message_id
        if identity in self._answers:
            self._say(self._answers[identity])
            return
        if identity in self._under_way:
            self._say(self._answer(message, "running"))
            return
        self._under_way.add(identity)
        duration = self._world.pick(DURATIONS)
        if duration > 1.0:
            self._say(self._answer(message, "running"))
        self._world.after(duration, self._carry_out, message)

    def _carry_out(self, message: cluster_manager.SendMessage) -> None:
        if self._gone:
            return
        self._link.carried_out(self._group, message)
        self._under_way.discard(message.message_id)
        answer = self._answers[message.message_id] = self._answer(
            message, "failed" if self._world.chance(0.2) else "success"
        )
        if message.type == "restart":
            self._restart(message.tasks)
        self._say(answer)

    def _restart(self, tasks: Sequence[str]) -> None:
        for task in self._group.tasks.values():
            if task.id in tasks and task.state == "RUNNING":
                task.restarting = True
                self._agent.says_again(task)
                self._world.after(self._world.between(0.1, 3.0), self._restarted, task)

    def _restarted(self, task: Task) -> None:
        task.restarting = False
        if not self._gone:
            self._agent.says_again(task)

    def _answer(self, message: cluster_manager.SendMessage, status: Answered) -> cluster_manager.MessageAnswered:
        ok = status == "success"
        # Some give more output than a record can hold, whose every character takes six bytes there.
        noise = NOISE if int(message.message_id) // 1000 % 7 == 0 else ""
        results = tuple(MessageResult(task=task, ok=ok, stdout=noise) for task in message.tasks)
        if status == "running":
            results = ()
        return cluster_manager.MessageAnswered(
            agent_id=self._agent.id,
            executor_id=self._group.id,
            message_id=message.message_id,
            status=status,
            results=results,
            cause=f"answer-{message.message_id}",
        )

    def _say(self, event: inputs.Input) -> None:
        if self._world.fault(0.15):
            self._world.count("fault: executor's word lost")
            return
        self._link.say(self._agent, event)
        if self._world.fault(0.1):
            self._world.count("fault: executor's word repeated late")
            self._world.after(self._world.between(0.1, 20.0), self._link.say, self._agent, event)


class Prober:
    """Looks at tasks with REMOTE checks on behalf of whoever leads, and tells it what it does not know yet."""

    def __init__(self, world: World, nodes: Sequence[Node], master: Master) -> None:
        self._world, self._nodes, self._master = world, nodes, master
        world.after(PROBE_INTERVAL, self._round)

    def _round(self) -> None:
        self._world.after(PROBE_INTERVAL, self._round)
        for node in self._nodes:
            if node.term is not None:
                for group in list(node.term.core.state.taskgroups.values()):
                    if group.status == "Running":
                        self._probe(node, group)

    def _probe(self, node: Node, group: TaskGroup) -> None:
        for task in group.tasks:
            for check in task.checks:
                if check.type in ("REMOTE_HTTP", "REMOTE_TCP"):
                    healthy = self._truth(group, task.id)
                    if healthy is not check.healthy:
                        node.receive(
                            inputs.HealthReported(
                                task_id=task.id,
                                type=check.type,
                                healthy=healthy,
                                cause="prober",
                            )
                        )

    def _truth(self, group: TaskGroup, task_id: str) -> bool:
        agent = self._master.cluster.get(group.agent_id)
        running = agent.groups.get(group.id) if agent is not None and not agent.dead else None
        return running is not None and running.tasks[task_id].live and running.tasks[task_id].remote


def sends_output(seed: int) -> bool:
    return seed >= FIRST_OUTPUT and seed % OUTPUT == SPOKEN


def local_of(checks: Sequence[HealthCheck]) -> LocalCheck | None:
    local = next((check.type for check in checks if not check.type.startswith("REMOTE")), None)
    return cast(LocalCheck | None, local)
