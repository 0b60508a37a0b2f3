"""I31  in contact, nothing that no record wants runs for longer than ORPHAN seconds, and no record of a taskgroup that
     its agent does not have lives for longer than that; the room of a placeholder whose room the scheduler holds counts
     as the taskgroup

Contact means: the store takes commits, its leader is subscribed at the master, and the agent is registered there and
can be reached. Any break begins the count anew. The bound is the one of real clusters; losses of calls and the periods
of the simulation fit in.
"""

from __future__ import annotations

from store.records import Framework, TaskGroup
from tests.simulation.agents import Agent
from tests.simulation.keptrooms import is_held, wanted_by
from tests.simulation.mesos import Master
from tests.simulation.store import Store
from tests.simulation.violation import Violation
from tests.simulation.world import World

ORPHAN = 30.0


class Orphans:
    def __init__(self, world: World, store: Store, master: Master) -> None:
        self._world, self._store, self._master = world, store, master
        self._contact = 0.0
        """Since when the leader has been in contact without a break that a step has seen."""
        self._session: object = None
        self._seen: dict[str, tuple[int, float]] = {}
        """By taskgroup that is not as it should be: the registration of its agent, and since when."""

    def step(self) -> None:
        """Raises Violation."""
        world, master = self._world, self._master
        session = master.session
        leads = session is not None and session.node.term is not None and session.node.term.epoch == self._store.epoch
        if not (leads and master.up and self._store.reachable and not self._store.slow and session is self._session):
            self._session, self._contact = session, world.now
            self._seen.clear()
            return
        wrong = self._wrong()
        for identity in [identity for identity in self._seen if identity not in wrong]:
            del self._seen[identity]
        for identity, (agent, words) in wrong.items():
            link, since = self._seen.setdefault(identity, (agent.link, world.now))
            if link != agent.link:
                self._seen[identity] = (agent.link, world.now)
            elif world.now > since + ORPHAN:
                raise Violation("I31", f"{identity} {words} {agent.id} for {world.now - since:.0f} s", identity)

    def _wrong(self) -> dict[str, tuple[Agent, str]]:
        """Agent and words by taskgroup."""
        durable, master = self._store.durable, self._master
        found: dict[str, tuple[Agent, str]] = {}
        framework = durable.get(("framework", "framework"))
        halted = isinstance(framework, Framework) and framework.unknown is not None
        for agent in master.registered.values():
            if agent.reachable and not agent.dead:
                for group in agent.live_groups():
                    record = durable.get(("taskgroup", group.id))
                    # Tasks that are unknown during a halt wait for an operator.
                    if (record is None and not halted) or (isinstance(record, TaskGroup) and record.ended):
                        found[group.id] = (agent, "runs unwanted on")
        for record in durable.values():
            if isinstance(record, TaskGroup) and not record.ended:
                agent_there = master.registered.get(record.agent_id)
                if record.id in master.rooms:
                    continue  # a placeholder that runs nothing (tests.simulation.keptrooms)
                if is_held(durable, record):
                    if agent_there is not None and agent_there.reachable and self._lacks_room(agent_there):
                        found[record.id] = (agent_there, "is recorded as alive but has no room on")
                    continue
                if agent_there is not None and agent_there.reachable and record.id not in agent_there.groups:
                    found[record.id] = (agent_there, "is recorded as alive but not on")
        return found

    def _lacks_room(self, agent: Agent) -> bool:
        """The agent has less free than placeholders hold there."""
        free = self._master.free(agent.id)
        for record in self._store.durable.values():
            if not isinstance(record, TaskGroup) or record.agent_id != agent.id or record.ended:
                continue
            if is_held(self._store.durable, record):
                free.subtract(wanted_by(record))
        return any(amount < 0 for amount in free.scalars.values())
