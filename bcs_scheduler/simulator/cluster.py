"""A virtual cluster manager that lends its capacity by offers: agents offer, taskgroups start, run and end.

No report is lost, and no agent fails by itself. Each agent offers its whole free capacity at once.

Offers that no taskgroup waits for are delivered with the next input, because they change no decision before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from bcs_scheduler.core.interface import cluster_manager, effects, leased
from bcs_scheduler.simulator.model import Machine
from bcs_scheduler.simulator.room import SCALARS, Room
from bcs_scheduler.simulator.world import World
from offers.agents import ListedAgent
from offers.model import Allocation, Offer, Ranges, ResourceKey
from offers.names import name_of
from offers.resources import normalise, without
from store.records import TaskGroup
from transactions.rules.task_states import TaskState

ALLOCATION = 0.1
"""Seconds from the moment at which capacity becomes free to its offer."""
STARTING = 1.0
"""Seconds from a launch to the report that the tasks run."""
ENDING = 1.0
"""Seconds from the request to end a taskgroup to the report of its end."""


@dataclass(eq=False, slots=True)
class Held:
    """Capacity in an offer, or of a taskgroup."""

    scalars: Mapping[str, int]
    ports: Ranges = ()


@dataclass(eq=False, slots=True)
class _Agent:
    machine: Machine
    free: dict[str, int]
    ports: Ranges
    groups: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """Ids of tasks by taskgroup."""
    refused_until: float = 0.0
    refused: Mapping[str, int] = field(default_factory=dict)


class Cluster:
    def __init__(
        self,
        world: World,
        machines: Iterable[Machine],
        role: str,
        room: Room,
        deliver: Callable[..., None],
        duration_of: Callable[[TaskGroup], float | None],
    ) -> None:
        """`room` follows the free capacity. `deliver` gets an input, and `soon=False` for one that decides nothing as
        long as no taskgroup waits. `duration_of`: seconds that a taskgroup runs from its start; None = without end."""
        self._world, self._role, self._deliver, self._duration_of = world, role, deliver, duration_of
        self._room = room
        self._agents: dict[str, _Agent] = {}
        for machine in machines:
            self._join(machine)
        self._holds: dict[str, tuple[str, Held]] = {}
        """Capacity of taskgroups, with the id of the agent."""
        self._outstanding: dict[str, tuple[str, Held]] = {}
        self._tasks: dict[str, tuple[str, str, TaskState]] = {}
        """Agent id, taskgroup and latest state by task."""
        self._named: dict[tuple[str, int], str] = {}
        """Present taskgroup by application key and index."""
        self._slots: dict[str, tuple[str, int]] = {}
        """The same, by id of the taskgroup."""
        self._ended_early: dict[str, TaskState] = {}
        """Ends of taskgroups that do not run yet, by id."""
        self._suppressed = False
        self._planned = False
        self._dirty: dict[str, None] = dict.fromkeys(self._agents)
        """Agents that may have something to offer, in the order in which they got it."""
        self._serial = 0

    def start(self) -> None:
        """The scheduler connects; the agents are listed and offer their capacity."""
        self._deliver(cluster_manager.Connected(framework_id="simulation", cluster="simulation"))
        self._list()
        self._soon()

    def adopt(self, group: TaskGroup, ends_at: float | None) -> None:
        """A taskgroup runs on its agent from the start. Raises KeyError for an unknown agent."""
        ports = normalise((port.host_port, port.host_port) for task in group.tasks for port in task.ports)
        amounts = {name: getattr(group.resources, name) for name in SCALARS}
        self._occupy(group, Held(amounts, ports))
        for task in group.tasks:
            self._tasks[task.id] = (group.agent_id, group.id, TaskState.RUNNING)
        if ends_at is not None:
            self._world.at(ends_at, self._finish, group.id)

    def take(self, effect: object) -> None:
        """Carries out one effect of the core; effects that are not for a cluster manager are ignored."""
        match effect:
            case cluster_manager.LaunchOnAgent():
                self._launch(effect)
            case leased.Decline():
                for offer_id in effect.offer_ids:
                    self._decline(offer_id, effect.refuse_seconds)
            case cluster_manager.End():
                self._world.after(ENDING, self._end, effect)
            case cluster_manager.Reconcile():
                self._reconcile(effect)
            case cluster_manager.ListAgents():
                self._list()
            case leased.Suppress():
                self._suppressed = True
            case leased.Revive():
                self._suppressed = False
                for agent_id, agent in self._agents.items():
                    agent.refused_until = 0.0
                    self._dirty[agent_id] = None
                self._soon()
            case effects.Effect():
                pass

    def end(self, application: str, index: int, state: TaskState) -> None:
        """A taskgroup ends by itself, at the latest when it runs. Does nothing without a taskgroup of this index."""
        group_id = self._named.get((application, index))
        if group_id is None:
            return
        if self._runs(group_id):
            self._stop(group_id, state)
        else:
            self._ended_early[group_id] = state

    def join(self, machine: Machine) -> None:
        """An agent joins. Does nothing if it is present."""
        if machine.id not in self._agents:
            self._join(machine)
            self._dirty[machine.id] = None
            self._list()
            self._soon()

    def leave(self, agent_id: str) -> None:
        """An agent is gone for good, with its taskgroups. Does nothing for an agent that is not known."""
        agent = self._agents.get(agent_id)
        if agent is None:
            return
        for group_id in list(agent.groups):
            self._stop(group_id, TaskState.GONE_BY_OPERATOR)
        for offer_id in [offer_id for offer_id, (owner, _) in self._outstanding.items() if owner == agent_id]:
            del self._outstanding[offer_id]
            self._deliver(leased.OfferRescinded(offer_id=offer_id))
        del self._agents[agent_id]
        self._dirty.pop(agent_id, None)
        self._room.remove(agent_id, agent.machine.total)
        self._deliver(cluster_manager.AgentRemoved(agent_id=agent_id))
        self._list()

    def _join(self, machine: Machine) -> None:
        free = {name: machine.total.get(name, 0) for name in SCALARS}
        self._agents[machine.id] = _Agent(machine, free, machine.ports)
        self._room.add(machine.id, machine.total)

    # --- taskgroups -------------------------------------------------------------------------------------------

    def _launch(self, effect: cluster_manager.LaunchOnAgent) -> None:
        for offer_id in effect.offer_ids:
            known = self._outstanding.pop(offer_id, None)
            if known is not None:
                self._release(*known)
        for launch in effect.launches:
            group = launch.taskgroup
            if group.agent_id not in self._agents:
                for task in group.tasks:
                    self._answer(task.id, group.agent_id)
                continue
            self._occupy(group, _of_allocation(launch.allocation))
            for task in group.tasks:
                self._tasks[task.id] = (group.agent_id, group.id, TaskState.STAGING)
            self._world.after(STARTING, self._run, group)

    def _occupy(self, group: TaskGroup, held: Held) -> None:
        agent = self._agents[group.agent_id]
        for name in SCALARS:
            agent.free[name] -= held.scalars.get(name, 0)
        agent.ports = without(agent.ports, held.ports)
        self._room.hold(group.agent_id, held.scalars)
        agent.groups[group.id] = tuple(task.id for task in group.tasks)
        slot = self._slots[group.id] = (group.application_key, group.index)
        self._named[slot] = group.id
        self._holds[group.id] = (group.agent_id, held)

    def _run(self, group: TaskGroup) -> None:
        if group.id not in self._holds:
            return
        self._report(group.id, TaskState.RUNNING)
        early = self._ended_early.pop(group.id, None)
        if early is not None:
            self._stop(group.id, early)
            return
        duration = self._duration_of(group)
        if duration is not None:
            self._world.after(duration, self._finish, group.id)

    def _finish(self, group_id: str) -> None:
        self._stop(group_id, TaskState.FINISHED)

    def _end(self, effect: cluster_manager.End) -> None:
        if effect.taskgroup in self._holds:
            self._stop(effect.taskgroup, TaskState.KILLED)
            return
        for task_id in effect.tasks:
            self._answer(task_id, effect.agent_id)

    def _stop(self, group_id: str, state: TaskState) -> None:
        if group_id not in self._holds:
            return
        self._report(group_id, state)
        agent_id, held = self._holds.pop(group_id)
        self._ended_early.pop(group_id, None)
        slot = self._slots.pop(group_id)
        if self._named[slot] == group_id:
            del self._named[slot]
        self._room.release(agent_id, held.scalars)
        for task_id in self._agents[agent_id].groups.pop(group_id):
            del self._tasks[task_id]
        self._release(agent_id, held)

    def _runs(self, group_id: str) -> bool:
        agent_id, _ = self._holds[group_id]
        return all(self._tasks[task][2] is TaskState.RUNNING for task in self._agents[agent_id].groups[group_id])

    def _report(self, group_id: str, state: TaskState) -> None:
        agent_id, _ = self._holds[group_id]
        for task_id in self._agents[agent_id].groups[group_id]:
            self._tasks[task_id] = (agent_id, group_id, state)
            self._serial += 1
            self._deliver(
                cluster_manager.StatusUpdate(
                    task_id=task_id,
                    state=state,
                    agent_id=agent_id,
                    executor_id=group_id,
                    uuid=b"%d" % self._serial,
                    timestamp=self._world.now,
                )
            )

    def _reconcile(self, effect: cluster_manager.Reconcile) -> None:
        for task_id, agent_id in effect.tasks or [(task, known[0]) for task, known in self._tasks.items()]:
            self._answer(task_id, agent_id)

    def _answer(self, task_id: str, agent_id: str) -> None:
        _, _, state = self._tasks.get(task_id, ("", "", TaskState.GONE))
        self._deliver(cluster_manager.StatusUpdate(task_id=task_id, state=state, agent_id=agent_id, answer=True))

    # --- agents and offers ------------------------------------------------------------------------------------

    def _list(self) -> None:
        listed = tuple(
            ListedAgent(
                id=agent.machine.id,
                hostname=agent.machine.hostname,
                ip=agent.machine.ip or name_of(agent.machine.attributes),
                attributes=agent.machine.attributes,
                total=agent.machine.total,
                ports=agent.machine.ports,
            )
            for agent in self._agents.values()
        )
        self._deliver(cluster_manager.AgentsListed(agents=listed, clock=self._world.now))

    def _release(self, agent_id: str, held: Held) -> None:
        agent = self._agents[agent_id]
        for name in SCALARS:
            agent.free[name] += held.scalars.get(name, 0)
        agent.ports = normalise((*agent.ports, *held.ports))
        self._dirty[agent_id] = None
        self._soon()

    def _decline(self, offer_id: str, seconds: float) -> None:
        known = self._outstanding.pop(offer_id, None)
        if known is None:
            return
        self._release(*known)
        agent_id, agent = known[0], self._agents[known[0]]
        agent.refused, agent.refused_until = dict(agent.free), self._world.now + seconds
        self._world.at(agent.refused_until, self._willing, agent_id)

    def _willing(self, agent_id: str) -> None:
        """A refusal may have ended."""
        if agent_id not in self._agents:
            return
        self._dirty[agent_id] = None
        self._soon()

    def _soon(self) -> None:
        if not self._planned:
            self._planned = True
            self._world.after(ALLOCATION, self._allocate)

    def _allocate(self) -> None:
        self._planned = False
        if self._suppressed:
            return
        dirty, self._dirty = self._dirty, {}
        found = [offer for agent_id in dirty if (offer := self._offer(self._agents[agent_id])) is not None]
        if found:
            self._deliver(leased.OffersArrived(offers=tuple(found)), soon=False)

    def _offer(self, agent: _Agent) -> Offer | None:
        """None if nothing is free, or if no more is free than was refused."""
        refused = self._world.now < agent.refused_until
        if refused and all(agent.free[name] <= agent.refused.get(name, 0) for name in SCALARS):
            return None
        scalars = {name: amount for name, amount in agent.free.items() if amount > 0}
        if not scalars:
            return None
        self._serial += 1
        offer_id = f"offer-{self._serial}"
        machine, ports = agent.machine, agent.ports
        self._outstanding[offer_id] = (machine.id, Held(scalars, ports))
        for name, amount in scalars.items():
            agent.free[name] -= amount
        agent.ports = ()
        return Offer(
            id=offer_id,
            agent_id=machine.id,
            hostname=machine.hostname,
            ip=machine.ip or name_of(machine.attributes),
            role=self._role,
            attributes=machine.attributes,
            scalars=tuple((ResourceKey(name, self._role), amount) for name, amount in scalars.items()),
            ranges=((ResourceKey("ports", self._role), ports),) if ports else (),
            received_at=self._world.now,
        )


def _of_allocation(allocation: Allocation) -> Held:
    scalars: dict[str, int] = {}
    for key, amount in allocation.scalars:
        scalars[key.name] = scalars.get(key.name, 0) + amount
    return Held(scalars, normalise(part for _, ranges in allocation.ranges for part in ranges))
