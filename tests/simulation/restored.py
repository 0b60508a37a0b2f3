"""A world whose store is replaced while nobody leads: by an old copy, or by an empty one that has the id of the
framework alone. Then leaders come and go, agents are cut off and come back, and an operator decides.

I75  no task that the store does not know is ended without the word of an operator
I76  during the halt nothing is launched
C14  the word of the operator is carried out: adopted tasks stay, ended ones are gone
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, TypeGuard

from bcs_scheduler.core.interface import cluster_manager, effects
from bcs_scheduler.core.interface.unknown import DecideUnknown, Decision
from bcs_scheduler.core.term_start import with_gap
from store.records import Framework, Record, ReschedulePayload, Transaction
from store.state.unit_of_work import Unit
from tests.simulation.driver import Hooks, Term
from tests.simulation.mesos import FRAMEWORK, Watch
from tests.simulation.simulation import Simulation
from tests.simulation.violation import Violation

Copy = Literal["old", "empty"]
ALONE = 100
"""Steps under faults before the operator decides."""
CALM = 120.0
"""Seconds without faults in which the decision is carried out."""


class Restored:
    """A simulation up to the replacement of the store, and its nodes and its cluster after it. Nothing but I75, I76 and
    C14 is examined then: an old copy breaks every other promise of a store."""

    def __init__(self, seed: int, copy: Copy, decision: Decision) -> None:
        simulation = self.simulation = Simulation(seed)
        self.world, self.store, self.master = simulation.world, simulation.store, simulation.master
        self.faults, self.nodes = simulation.faults, simulation.nodes
        self._copy, self._decision = copy, decision
        self._old: dict[tuple[str, str], Record] = {}
        self.unknown: set[str] = set()
        """Taskgroups that ran when the store was replaced, and that the new store does not know."""
        self.ended: set[str] = set()
        """Those of them that a leader has ended."""
        self.decided = False
        """The operator has spoken."""
        self._token = 1_000_000
        self._open = False

    def run(self, steps: int) -> None:
        """Raises Violation."""
        simulation = self.simulation
        for _ in range(self.world.number(3, 6)):
            agent = self.faults.add_agent()
            simulation.users.agents.append(str(agent.attributes["InnerIP"]))
        self.faults.elect_if_needed()
        for step in range(steps):
            if step == steps // 2:
                self._old = dict(self.store.durable)
                self.world.run(self.world.now + 60.0)
            simulation._step(step)
        self._replace()
        for _ in range(ALONE):
            self._strike()
            self._pass()
        self.faults.repair()
        while not self.decided or self._halted:
            self._pass()
            self._decide()
        self.world.run(self.world.now + CALM)
        self._decision_was_carried_out()

    # --- the replacement --------------------------------------------------------------------------------------

    def _replace(self) -> None:
        for node in self.nodes:
            if node.alive:
                node.crash()
            node.skew = 0.0
        self._watch_only_this()
        self.faults.repair()
        self.world.run(self.world.now + self.world.between(60.0, 600.0))
        for node in self.nodes:
            if node.term is not None:
                node.crash()
        self.store.replace(self._old if self._copy == "old" else _with_id_alone(self.world.now))
        if self.world.chance(0.5):
            self.store.forget_times()
        running = {
            group.id for agent in self.master.cluster.values() if not agent.dead for group in agent.live_groups()
        }
        known = {key for kind, key in self.store.durable if kind in ("taskgroup", "remnant")}
        known |= {record.taskgroup for record in self.store.durable.values() if _leaves_tasks(record)}
        self.unknown = running - known
        self.world.calm = False
        for node in self.nodes:
            node.restart()
        self.faults.elect_if_needed()

    def _watch_only_this(self) -> None:
        """The other invariants follow the store that is gone."""
        hooks = self.simulation.nodes[0]._hooks
        for name, unused in vars(Hooks()).items():
            setattr(hooks, name, unused)
        for name, unused in vars(Watch()).items():
            setattr(self.master.watch, name, unused)
        self.store.applying = lambda changes: None
        hooks.leaving, hooks.decided, hooks.replied = self._leaving, self._decided, self._replied
        hooks.unanswered = self._unanswered

    # --- what leaders do --------------------------------------------------------------------------------------

    def _leaving(self, term: Term, effect: effects.Effect) -> None:
        if not isinstance(effect, cluster_manager.End) or effect.taskgroup not in self.unknown:
            return
        self.ended.add(effect.taskgroup)
        if self._decision == "adopt" or (not self.decided and not self._open):
            raise Violation("I75", f"{effect.taskgroup} is ended without the word of an operator", effect.taskgroup)

    def _decided(self, term: Term, unit: Unit) -> None:
        framework = term.mirror.get(("framework", "framework"))
        if not isinstance(framework, Framework) or framework.unknown is None:
            return
        self.world.count("units during a halt")
        for effect in unit.effects:
            if isinstance(effect, cluster_manager.LaunchOnAgent):
                raise Violation("I76", "something is launched during the halt", effect.launches[0].taskgroup.id)

    # --- the operator -----------------------------------------------------------------------------------------

    @property
    def _halted(self) -> bool:
        framework = self.store.durable.get(("framework", "framework"))
        return isinstance(framework, Framework) and framework.unknown is not None

    def _decide(self) -> None:
        leader = self.faults.leader()
        if not self.unknown:
            self.decided = True
        if leader is None or self._open or not self._halted:
            return
        self._token, self._open = self._token + 1, True
        leader.receive(DecideUnknown(token=self._token, cause="operator", decision=self._decision))

    def _replied(self, reply: effects.Reply) -> None:
        self._open = False
        self.decided |= not reply.error

    def _unanswered(self, tokens: object) -> None:
        if tokens:
            self._open = False

    # --- time -------------------------------------------------------------------------------------------------

    def _strike(self) -> None:
        if self.world.chance(0.15):
            faults: tuple[Callable[[], bool], ...] = (
                self.faults._crash_leader,
                self.faults._depose_leader,
                self.faults._break_stream,
                self.faults._fail_master_over,
                self.faults._partition_agent,
                self.faults._slow_store,
                self.faults._cut_store,
            )
            self.world.pick(faults)()

    def _pass(self) -> None:
        self.faults.elect_if_needed()
        self.master.allocate()
        self.world.run(self.world.now + self.world.between(0.1, 3.0))

    def _decision_was_carried_out(self) -> None:
        left = {
            group.id
            for agent in self.master.registered.values()
            for group in agent.live_groups()
            if group.id in self.unknown
        }
        if self._decision == "end" and left:
            raise Violation("C14", f"{sorted(left)} still run", *sorted(left))
        if self._decision == "adopt" and self.ended:
            raise Violation("C14", f"{sorted(self.ended)} were ended", *sorted(self.ended))
        self.world.counts["unknown taskgroups"] += len(self.unknown)
        self.world.counts["unknown taskgroups at the end"] += len(left)


def _leaves_tasks(record: Record) -> TypeGuard[Transaction]:
    """True for a restart that has recorded tasks as orphaned."""
    payload = record.payload if isinstance(record, Transaction) else None
    return isinstance(payload, ReschedulePayload) and bool(payload.left_tasks)


def _with_id_alone(now: float) -> dict[tuple[str, str], Record]:
    """As `framework set` leaves an empty store."""
    record = Framework(id=FRAMEWORK, created_at=now, gaps=with_gap((), 0, int(now * 1e9)))
    return {(record.kind, record.key): record}
