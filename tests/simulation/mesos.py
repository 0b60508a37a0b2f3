"""A simulated Mesos master: offers, launches, kills, acknowledgements, reconciliation, partitions, failover.

It keeps the semantics of the real one that matter for losing or doubling work: an offer can be used once and only
whole; an ACCEPT that names an invalid offer drops its tasks; calls of an older subscription bounce; a master that has
just failed over knows only agents that have come back, and is silent about the others; updates made by the master carry
no uuid.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

from bcs_scheduler.core.interface import cluster_manager, effects, inputs, leased
from bcs_scheduler.mesos.ends import Kill, Shutdown, calls_of
from offers.model import Allocation, Offer
from tests.simulation.agents import TERMINAL, Agent, Group, Task, Update
from tests.simulation.allocator import Allocator, Kept
from tests.simulation.room import Room, claim_room
from tests.simulation.world import World
from transactions.rules.task_states import TaskState

FRAMEWORK = "framework-1"
CLUSTER = "dc1.example.com"
"""Name of the Mesos cluster: with dots, as in a domain name."""
RECONCILIATION = "REASON_RECONCILIATION"
LISTING = (2.0, 6.0)
"""Seconds between two lists of agents."""


class Leading(Protocol):
    """What the master may be asked about the term of a scheduler."""

    @property
    def epoch(self) -> int: ...


class Scheduler(Protocol):
    name: str

    @property
    def term(self) -> Leading | None: ...

    def receive(self, event: inputs.Input) -> None: ...

    def disconnected(self, session: Session, reason: str) -> None: ...


@dataclass(eq=False, slots=True)
class Session:
    """One subscription: a stream of events down, calls up, both in order."""

    number: int
    node: Scheduler
    up: bool = True
    down_until: float = 0.0
    up_until: float = 0.0


@dataclass(eq=False, slots=True)
class Known:
    """What the master knows of a task. `told` is the state of the last update that went to the framework."""

    agent_id: str
    group: Group
    told: str = "STAGING"


@dataclass(eq=False)
class Watch:
    """Whom the master tells of what it does (the invariants)."""

    launching: Callable[[Agent, cluster_manager.Launch], None] = lambda agent, launch: None
    refusing: Callable[[str, cluster_manager.LaunchOnAgent], None] = lambda words, accept: None
    freeing: Callable[[str], None] = lambda name: None
    accepting: Callable[[cluster_manager.LaunchOnAgent, Room], None] = lambda accept, offered: None
    carried_out: Callable[[Group, cluster_manager.SendMessage], None] = lambda group, message: None


class Master:
    """The master and, behind it, the cluster. A failover makes it forget all but the framework."""

    def __init__(self, world: World, watch: Watch) -> None:
        self.world = world
        self.watch = watch
        self.up = True
        self.cluster: dict[str, Agent] = {}
        """Every agent there has ever been, by id."""
        self.registered: dict[str, Agent] = {}
        self.recovered: set[str] = set()
        """Agents of the registry that have not come back since the failover."""
        self.unreachable: set[str] = set()
        self.gone: set[str] = set()
        self.rooms: dict[str, Kept] = {}
        """Rooms that agents keep, by taskgroup. They outlive the master and every scheduler."""
        self.ran: set[str] = set()
        """Taskgroups whose executor was ever started, by id."""
        self.session: Session | None = None
        self.framework_known = False
        self._tasks: dict[str, Known] = {}
        self.allocator = Allocator(world)
        self._serial = 0

    # --- subscriptions ----------------------------------------------------------------------------------------

    def subscribe(self, node: Scheduler, framework_id: str) -> Session | None:
        """A new subscription; the one before, if any, is closed. None if the master is down."""
        if not self.up or framework_id not in ("", FRAMEWORK):
            return None
        if self.session is not None:
            self.disconnect("closed by a newer subscription")
        self.framework_known = True
        self.allocator.revive()
        self._serial += 1
        session = self.session = Session(self._serial, node)
        self.send(
            cluster_manager.Connected(
                framework_id=FRAMEWORK, master="master", cluster=CLUSTER, cause=f"subscribed-{session.number}"
            )
        )
        self.world.after(0.05, self.allocate)
        self._list(session)
        return session

    def _list(self, session: Session) -> None:
        """The agents that are there, as its scheduler asks for them now and then."""
        if session is not self.session:
            return
        if self.up:
            agents = tuple(
                agent.listed()._replace(rooms=tuple(n for n, one in self.rooms.items() if one.agent_id == agent.id))
                for agent in self.registered.values()
            )
            self.send(cluster_manager.AgentsListed(agents=agents, clock=self.world.now, cause="agents"))
        self.world.after(self.world.between(*LISTING), self._list, session)

    def disconnect(self, reason: str) -> None:
        """Ends the subscription: what is under way in either direction is lost."""
        session, self.session = self.session, None
        self.allocator.forget()
        if session is not None:
            session.up = False
            gap = self.world.between(0.0, 0.5)
            self.world.after(gap, session.node.disconnected, session, reason)

    def send(self, event: inputs.Input) -> None:
        """Down the stream, in order; lost if the stream breaks on the way."""
        session = self.session
        if session is not None:
            session.down_until = max(session.down_until, self.world.now + self.world.between(0.001, 0.03))
            self.world.at(session.down_until, self._deliver, session, event)

    def _deliver(self, session: Session, event: inputs.Input) -> None:
        if session.up:
            session.node.receive(event)

    # --- calls ------------------------------------------------------------------------------------------------

    def call(self, session: Session, effect: effects.Effect) -> None:
        """Up the stream, in order: one effect may be several calls. An ACCEPT that bounces is reported back."""
        if isinstance(effect, cluster_manager.End):
            for part in calls_of(effect):
                self.call(session, part)
            return
        session.up_until = max(session.up_until, self.world.now + self.world.between(0.001, 0.03))
        self.world.at(session.up_until, self._arrived, session, effect)

    def _arrived(self, session: Session, effect: effects.Effect) -> None:
        if session is not self.session:
            if isinstance(effect, cluster_manager.LaunchOnAgent):
                self._bounced(session, effect, certain=self.world.chance(0.5))
            return
        match effect:
            case cluster_manager.LaunchOnAgent():
                if self.world.fault(0.04):
                    self.world.count("fault: offer rescinded under ACCEPT")
                    self.rescind(effect.offer_ids[0])
                self._accept(effect)
                if self.world.fault(0.02):
                    self.world.count("fault: answer to ACCEPT lost")
                    self._bounced(session, effect, certain=False)
            case leased.GiveUpRooms():
                self._give_up(effect)
            case leased.Decline():
                self.allocator.decline(effect.offer_ids, effect.refuse_seconds)
            case cluster_manager.Acknowledge():
                self._acknowledge(effect)
            case Kill():
                self._kill(effect)
            case Shutdown() | cluster_manager.SendMessage():
                self._forward(effect)
            case cluster_manager.Reconcile():
                self._reconcile(effect)
            case leased.Suppress():
                self.allocator.suppressed = True
            case leased.Revive():
                self.allocator.revive()
                self.world.after(0.02, self.allocate)

    def _bounced(self, session: Session, effect: cluster_manager.LaunchOnAgent, *, certain: bool) -> None:
        groups = tuple(launch.taskgroup.id for launch in effect.launches)
        event = cluster_manager.LaunchFailed(
            taskgroups=groups, reason="not subscribed", certain=certain, cause="accept"
        )
        self.world.after(self.world.between(0.0, 0.1), session.node.receive, event)

    def _accept(self, accept: cluster_manager.LaunchOnAgent) -> None:
        used = [self.allocator.take(identity) for identity in accept.offer_ids]
        agent = self.registered.get(accept.agent_id)
        valid = [offer for offer in used if offer is not None and offer.agent_id == accept.agent_id]
        if agent is None or not valid or len(valid) < len(used):
            self.world.count("accept of invalid offers")
            state = self.world.pick(("DROPPED", "DROPPED", "LOST"))
            for launch in accept.launches:
                for task in launch.taskgroup.tasks:
                    self._tell(task.id, accept.agent_id, state, "invalid offers", "REASON_INVALID_OFFERS")
            return
        room, offered = Room(), dict[str, Kept]()
        for offer in valid:
            room.add(offer.room)
            offered |= offer.kept
        role = valid[0].role
        self.watch.accepting(accept, room)
        if any(offer.role != role for offer in valid):
            self.watch.refusing("an ACCEPT mixes offers of two roles", accept)
        for launch in accept.launches:
            if self._free(launch.allocation, offered, room, accept) and not launch.kept:
                self.world.count("rooms taken over")
            wanted = claim_room(launch.allocation)
            if not room.holds(wanted) or any(
                resource_key.role != role for resource_key, _ in launch.allocation.scalars
            ):
                self.watch.refusing(f"{launch.taskgroup.id} claims what was not offered", accept)
            room.subtract(wanted)
            if not launch.kept:
                self._launch(agent, launch)
            elif self.world.fault(0.03):
                self.world.count("fault: room not kept")
            else:
                self.world.count("rooms kept")
                self.rooms[launch.taskgroup.id] = Kept(agent.id, role, wanted)
        self.world.after(0.05, self.allocate)

    def _free(
        self, allocation: Allocation, offered: Mapping[str, Kept], room: Room, accept: cluster_manager.LaunchOnAgent
    ) -> set[str]:
        """The parts of kept rooms that an operation takes are like any others from now on. Returns the rooms."""
        names = {key.room for key, _ in (*allocation.scalars, *allocation.ranges) if key.room}
        for name in sorted(names):
            scalars = tuple((key, amount) for key, amount in allocation.scalars if key.room == name)
            part = claim_room(Allocation(scalars, tuple(one for one in allocation.ranges if one[0].room == name)))
            kept = offered.get(name)
            if kept is None or self.rooms.get(name) is not kept or not kept.room.holds(part):
                self.watch.refusing(f"the room of {name} is not in the offers", accept)
                continue
            self.watch.freeing(name)
            kept.room.subtract(part)
            room.add(part)
            if not kept.room:
                del self.rooms[name]
        return names

    def _give_up(self, effect: leased.GiveUpRooms) -> None:
        used = [offer for identity in effect.offer_ids if (offer := self.allocator.take(identity)) is not None]
        if len(used) == len(effect.offer_ids):
            offered = {name: one for offer in used for name, one in offer.kept.items()}
            accept = cluster_manager.LaunchOnAgent(agent_id=effect.agent_id, offer_ids=effect.offer_ids, launches=())
            self._free(effect.rooms, offered, Room(), accept)
        self.world.after(0.05, self.allocate)

    def _launch(self, agent: Agent, launch: cluster_manager.Launch) -> None:
        self.watch.launching(agent, launch)
        self.world.count("launches")
        group = Group(launch.taskgroup.id, launch)
        for task in launch.taskgroup.tasks:
            self._tasks[task.id] = Known(agent.id, group)
        self.world.after(self.world.between(0.001, 0.05), self._run, agent, agent.link, launch)

    def _run(self, agent: Agent, link: int, launch: cluster_manager.Launch) -> None:
        if agent.reachable and agent.link == link:
            if agent.run(launch):
                self.ran.add(launch.taskgroup.id)
        else:
            self.world.count("launch lost on its way")

    def _tell(self, task_id: str, agent_id: str, state: str, message: str, reason: str = RECONCILIATION) -> None:
        """An update made by the master: no uuid, no acknowledgement, no repetition."""
        cause = f"{state.lower()}-{task_id.partition('.')[0]}"
        self.send(
            cluster_manager.StatusUpdate(
                task_id=task_id,
                agent_id=agent_id,
                state=TaskState(state),
                message=message,
                reason=reason,
                answer=reason == RECONCILIATION,
                cause=cause,
            )
        )

    def _acknowledge(self, call: cluster_manager.Acknowledge) -> None:
        agent = self.registered.get(call.agent_id)
        if agent is None or not agent.reachable:
            return
        if agent.acknowledge(call.task_id, call.uuid) in TERMINAL:
            self._tasks.pop(call.task_id, None)

    def _kill(self, call: Kill) -> None:
        known = self._tasks.get(call.task_id)
        if known is None:
            self._answer(call.task_id, call.agent_id)
            return
        agent = self.registered.get(known.agent_id)
        if self.world.fault(0.05):
            self.world.count("fault: kill lost")
        elif agent is not None and agent.reachable:
            self.world.after(self.world.between(0.001, 0.05), agent.kill, call.task_id)

    def _reconcile(self, call: cluster_manager.Reconcile) -> None:
        if not call.tasks:
            for task_id, known in list(self._tasks.items()):
                self._tell(task_id, known.agent_id, known.told, "reconciliation")
        for task_id, agent_id in call.tasks:
            self._answer(task_id, agent_id)

    def _answer(self, task_id: str, agent_id: str) -> None:
        """Explicit reconciliation, case by case as documented by Mesos."""
        known = self._tasks.get(task_id)
        if known is not None:
            self._tell(task_id, known.agent_id, known.told, "reconciliation")
        elif agent_id in self.registered:
            self._tell(task_id, agent_id, "GONE", "reconciliation: the agent does not know the task")
        elif agent_id in self.recovered:
            self.world.count("reconciliation unanswered")
        elif agent_id in self.unreachable:
            self._tell(task_id, agent_id, "UNREACHABLE", "reconciliation: the agent is unreachable")
        elif agent_id in self.gone:
            self._tell(task_id, agent_id, "GONE_BY_OPERATOR", "reconciliation: the agent is gone")
        else:
            self._tell(task_id, agent_id, "UNKNOWN", "reconciliation: neither task nor agent is known")

    # --- offers -----------------------------------------------------------------------------------------------

    def allocate(self) -> None:
        """Offers what is free to the framework, unless it does not want it."""
        if self.session is None or self.allocator.suppressed or not self.up:
            return
        offers: list[Offer] = []
        for agent in self.registered.values():
            if agent.reachable:
                kept = {name: one for name, one in self.rooms.items() if one.agent_id == agent.id}
                offers += self.allocator.offers(agent, self._held(agent.id), kept)
        if offers:
            self.send(leased.OffersArrived(offers=tuple(offers), cause=f"offers-{offers[0].id}"))

    def _held(self, agent_id: str) -> list[Room]:
        """What taskgroups on an agent hold: all they have claimed, until all their tasks are known to have ended."""
        groups: dict[str, Group] = {}
        for known in self._tasks.values():
            if known.agent_id == agent_id and known.told not in TERMINAL:
                groups[known.group.id] = known.group
        return [group.room for group in groups.values()]

    def free(self, agent_id: str) -> Room:
        """All that no taskgroup holds on an agent, offered or not; nothing for an agent that is not registered."""
        agent = self.registered.get(agent_id)
        room = Room(dict(agent.capacity)) if agent is not None else Room()
        for other in (*self._held(agent_id), *(one.room for one in self.rooms.values() if one.agent_id == agent_id)):
            room.subtract(other)
        return room

    def rescind(self, offer_id: str) -> None:
        if self.allocator.take(offer_id) is not None:
            self.send(leased.OfferRescinded(offer_id=offer_id, cause=f"rescind-{offer_id}"))

    # --- agents -----------------------------------------------------------------------------------------------

    def update(self, agent: Agent, task: Task, update: Update) -> None:
        """An update of an agent, passed on to the framework; sometimes once more, later and out of order."""
        if not self.up or agent.id not in self.registered:
            return
        known = self._tasks.setdefault(task.id, Known(agent.id, task.group))
        known.told = update.state
        event = cluster_manager.StatusUpdate(
            task_id=task.id,
            state=TaskState(update.state),
            agent_id=agent.id,
            executor_id=task.group.id,
            uuid=update.uuid,
            message=update.message,
            reason=update.reason,
            unfetched=update.unfetched,
            healthy=update.healthy,
            detail=update.detail,
            cause=f"update-{update.uuid.decode()}",
        )
        self.send(event)
        if self.world.fault(0.05):
            self.world.count("fault: update repeated late")
            self.world.after(self.world.between(0.1, 8.0), self._late, event)
        if update.state in TERMINAL:
            self.world.after(0.1, self.allocate)

    def _late(self, event: cluster_manager.StatusUpdate) -> None:
        self.send(event)

    def say(self, agent: Agent, event: inputs.Input) -> None:
        """What an executor says beside status updates. Nobody repeats what does not arrive."""
        if self.up and agent.reachable and not agent.dead and agent.id in self.registered:
            self.send(event)

    def carried_out(self, group: Group, message: cluster_manager.SendMessage) -> None:
        self.world.count("messages carried out")
        self.watch.carried_out(group, message)

    def _forward(self, call: Shutdown | cluster_manager.SendMessage) -> None:
        """To an executor, best effort."""
        agent = self.registered.get(call.agent_id)
        if self.world.fault(0.1):
            self.world.count("fault: message lost")
        elif agent is not None and agent.reachable:
            delay = self.world.between(0.001, 0.05)
            if isinstance(call, Shutdown):
                self.world.count("shutdowns")
                self.world.after(delay, agent.shut_down, call.executor_id)
            else:
                self.world.after(delay, agent.message, call)

    def register(self, agent: Agent) -> None:
        """An agent registers, for the first time or again, and says what it runs."""
        if not self.up or agent.dead or not agent.reachable or agent.id in self.gone:
            return
        returned = agent.id in self.unreachable
        agent.link += 1
        agent.registered_at = self.world.now
        self.cluster[agent.id] = agent
        self.registered[agent.id] = agent
        self.recovered.discard(agent.id)
        self.unreachable.discard(agent.id)
        self._forget_lost_launches(agent)
        for group in agent.groups.values():
            for task in group.tasks.values():
                told = task.stream[0].state if task.stream else task.state
                self._tasks[task.id] = Known(agent.id, group, told)
                if returned and task.live and not self.world.fault(0.2):
                    self._tell(task.id, agent.id, told, "the agent is back")
        agent.reregistered()
        self.world.after(0.1, self.allocate)

    def _forget_lost_launches(self, agent: Agent) -> None:
        """Tasks that were launched but never reached the agent are dropped when it registers."""
        there = {task_id for group in agent.groups.values() for task_id in group.tasks}
        for task_id, known in list(self._tasks.items()):
            if known.agent_id == agent.id and task_id not in there:
                del self._tasks[task_id]
                if agent.forgetful and self.world.fault(0.5):
                    self.world.count("fault: end of a task not told at registration")
                    continue
                self._tell(task_id, agent.id, "DROPPED", "the agent does not know the task")

    def forget(self, group: Group) -> None:
        """The agent has lost a taskgroup without a word; it says so only when it is asked."""
        for task_id in group.tasks:
            self._tasks.pop(task_id, None)
        self.world.after(0.1, self.allocate)

    def mark_unreachable(self, agent: Agent) -> None:
        """The agent has not answered for too long."""
        if self.registered.pop(agent.id, None) is None and agent.id not in self.recovered:
            return
        self.recovered.discard(agent.id)
        self.unreachable.add(agent.id)
        self._remove(agent, "UNREACHABLE", "the agent is unreachable")

    def mark_gone(self, agent: Agent) -> None:
        """An operator says that the agent will never come back (and its machine is indeed destroyed)."""
        self.registered.pop(agent.id, None)
        self.recovered.discard(agent.id)
        self.unreachable.discard(agent.id)
        self.gone.add(agent.id)
        self.rooms = {name: one for name, one in self.rooms.items() if one.agent_id != agent.id}
        self._remove(agent, "GONE_BY_OPERATOR", "the agent is gone")

    def _remove(self, agent: Agent, state: str, message: str) -> None:
        for identity in self.allocator.ids(agent.id):
            self.rescind(identity)
        for task_id, known in list(self._tasks.items()):
            if known.agent_id == agent.id:
                del self._tasks[task_id]
                self._tell(task_id, agent.id, state, message, "REASON_AGENT_REMOVED")
        self.send(cluster_manager.AgentRemoved(agent_id=agent.id, cause=f"removed-{agent.id}"))

    # --- failover ---------------------------------------------------------------------------------------------

    def fail_over(self) -> None:
        """Another master takes over: it has the registry (agents and their marks), and nothing else."""
        self.disconnect("the master failed over")
        self._tasks.clear()
        self.recovered |= set(self.registered)
        self.registered.clear()
