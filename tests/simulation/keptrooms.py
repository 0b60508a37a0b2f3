"""The invariants of placeholders that run nothing: the cluster manager keeps their rooms (`simulate(..., kept=True)`),
or the scheduler holds room for them (`held=True`).

I64  the room of a taskgroup is used or given up only when the taskgroup has ended or is being ended
I65  a taskgroup of such a placeholder is never started, ended or asked for: the cluster manager does not know it
I66  launches leave the room that is held for placeholders on their agent
I67  no hold outlives its taskgroup, but for the moment in which the room waits for the launch that was promised it, nor
     the old demand that waits for it
I68  no offer with room that is held for placeholders is kept for longer than HOLD_SECONDS and a moment
C13  at rest every room that is kept has a taskgroup that wants it, and every such taskgroup that runs has its room
C14  at rest every placeholder that runs and whose room is held could be launched in its room
"""

from __future__ import annotations

from collections.abc import Mapping

from bcs_scheduler.core.interface import cluster_manager
from bcs_scheduler.core.placement.aging import Why
from offers.ledger.holds import HOLD_SECONDS
from store.ids import taskgroup_of
from store.records import TaskGroup, Version
from store.records.record import Record
from store.state.state import State
from tests.simulation.agents import Agent
from tests.simulation.driver import Term
from tests.simulation.mesos import Master
from tests.simulation.room import Room, claim_room
from tests.simulation.store import Store
from tests.simulation.violation import Violation
from tests.simulation.world import World

SLACK = 5.0
"""Seconds from the end of `HOLD_SECONDS` to the turn that gives an offer back."""
MOMENT = 10.0
"""Seconds for which ended holds may wait for a launch, pauses of the scheduler included."""


def is_held(records: Mapping[tuple[str, str], Record], group: TaskGroup) -> bool:
    """The scheduler holds the room of the taskgroup, by its durable definition."""
    version = records.get(("version", "/".join((group.namespace, group.application, group.version))))
    return isinstance(version, Version) and version.held


def wanted_by(group: TaskGroup) -> Room:
    """The scalars that a taskgroup holds."""
    amounts = group.resources
    return Room({name: getattr(amounts, name) for name in ("cpus", "mem", "disk", "gpus")})


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
        if isinstance(effect, cluster_manager.LaunchOnAgent) and any(one.version.held for one in effect.launches):
            raise Violation("I65", "a placeholder is launched whose room is held", effect.agent_id)
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
        """C13 and C14."""
        held: dict[str, list[TaskGroup]] = {}
        for name in self._master.rooms:
            record = self._store.durable.get(("taskgroup", name))
            if not isinstance(record, TaskGroup) or record.ended:
                return "C13", f"the room of {name} is kept for nobody", name
        for (kind, name), record in self._store.durable.items():
            if kind == "taskgroup" and isinstance(record, TaskGroup) and record.status == "Running":
                key = (record.namespace, record.application, record.version)
                version = self._store.durable.get(("version", "/".join(key)))
                if isinstance(version, Version) and version.held:
                    held.setdefault(record.agent_id, []).append(record)
                elif isinstance(version, Version) and version.kept and name not in self._master.rooms:
                    return "C13", f"{name} runs without a room", name
        return self._without_room(held)

    def _without_room(self, held: dict[str, list[TaskGroup]]) -> tuple[str, ...] | None:
        """C14."""
        for agent_id, groups in held.items():
            free = self._master.free(agent_id)
            for group in groups:
                free.subtract(wanted_by(group))
            if any(amount < 0 for amount in free.scalars.values()):
                names = tuple(group.id for group in groups)
                return "C14", f"the held room on {agent_id} is not there: {free.scalars}", *names
        return None

    def accepting(self, accept: cluster_manager.LaunchOnAgent, offered: Room) -> None:
        """The master is about to carry out launches with these offers."""
        begun = min((launch.taskgroup.created_at for launch in accept.launches), default=0.0)
        held, role = Room(), {launch.taskgroup.role for launch in accept.launches}
        for (kind, _), record in self._store.durable.items():
            if kind == "taskgroup" and isinstance(record, TaskGroup) and record.agent_id == accept.agent_id:
                wanted = record.status == "Running" and not record.killing_since and record.running_since < begun
                if wanted and record.role in role and is_held(self._store.durable, record):
                    self._world.count("launches beside held room")
                    held.add(Room(dict(wanted_by(record).scalars)))
        used = Room()
        for launch in accept.launches:
            used.add(Room(dict(claim_room(launch.allocation).scalars)))
        for name, amount in held.scalars.items():
            there = offered.scalars.get(name, 0)
            if amount and used.scalars.get(name, 0) > max(there - amount, 0):
                words = f"{used.scalars} is used of {offered.scalars}, of which {held.scalars} is held"
                raise Violation("I66", words, *(launch.taskgroup.id for launch in accept.launches))

    def turned(self, term: Term) -> None:
        """After a turn: I67."""
        holds, now = term.core.turn_context.pool.holds, term.now
        old = {room.unit for room in term.core._offer_manager.placing.agent_holds() if room.why is Why.OLD}
        for name, hold in holds:
            if name in old or not isinstance(name, str):
                self._world.count("turns with room for old work")
                continue
            group = term.core.state.taskgroups.get(name)
            since = holds.leaving.get(name, now)
            if (group is None or group.ended) and (name not in holds.leaving or now > since + MOMENT):
                raise Violation("I67", f"room on {hold.site[0]} is held for {name}, which has ended", name)
            self._world.count("turns with held room")
        turn = term.core.turn_context
        sites = dict.fromkeys(hold.site for name, hold in holds if name not in old)
        for site in sites if turn.connected else ():
            row = turn.pool.row(*site)
            for offer in row.offers.values() if row is not None and not row.claims else ():
                if now > offer.received_at + HOLD_SECONDS + SLACK:
                    raise Violation("I68", f"offer {offer.id} is kept for {now - offer.received_at:.0f} s", offer.id)
