"""A simulated scheduler process: the real Core, driven the way the runtime drives it.

Events gather in an inbox; a turn handles what is there; its units are committed in order, neighbours sometimes merged;
the effects of a unit leave only once it is durable. Every batch is committed under the epoch of the term, one without
changes too: what a leader decides to kill or to acknowledge without writing anything must be fenced as well.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from zlib import crc32

from bcs_scheduler.core.interface import cluster_manager, effects, inputs, leased, requests
from bcs_scheduler.core.options import CoreOptions
from bcs_scheduler.core.scheduler import Core
from bcs_scheduler.core.time_budget import UNLIMITED
from bcs_scheduler.loop.clock import Clock
from store.base import Change
from store.records import Framework, Record
from store.state.unit_of_work import Unit
from tests.simulation.executors import sends_output
from tests.simulation.inbox import inbox_of
from tests.simulation.mesos import Master, Session
from tests.simulation.standby import Standby
from tests.simulation.store import Client, Store
from tests.simulation.world import World

SETTLING_TURNS = 20
"""Turns at one moment after which everything must have been done."""
CALLS = (
    cluster_manager.LaunchOnAgent,
    leased.Decline,
    leased.GiveUpRooms,
    leased.AcceptInverseOffers,
    cluster_manager.End,
    cluster_manager.SendMessage,
    cluster_manager.Acknowledge,
    cluster_manager.Reconcile,
    leased.Suppress,
    leased.Revive,
)


class HurriedPace:
    """A turn whose time may be up at any moment. Once it is, it stays so."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._share = 0.0

    def spent(self) -> float:
        if self._world.chance(0.3):
            self._share += self._world.between(0.0, 0.5)
        return self._share

    def is_congested(self) -> bool:
        return self._world.chance(0.3)


@dataclass(eq=False)
class Hooks:
    """Whom a process tells of what it does (invariants and users)."""

    decided: Callable[[Term, Unit], None] = lambda term, unit: None
    leading: Callable[[Term], None] = lambda term: None
    turned: Callable[[Term], None] = lambda term: None
    leaving: Callable[[Term, effects.Effect], None] = lambda term, effect: None
    replied: Callable[[effects.Reply], None] = lambda reply: None
    unanswered: Callable[[Sequence[int]], None] = lambda tokens: None


@dataclass(eq=False)
class Term:
    """One term of leadership of one process."""

    epoch: int
    core: Core
    clock: Clock
    client: Client
    mirror: dict[tuple[str, str], Record] = field(default_factory=dict)
    """What the core has decided so far, put together from its units alone."""
    waiting: list[int] = field(default_factory=list)
    """Tokens of commands that have not been answered."""
    made: list[Unit] = field(default_factory=list)
    """Units of the last turn."""
    now: float = 0.0
    """The time of the term in its last turn."""


class Node:
    """One process. It is down, stands by, or leads (perhaps without knowing that it has been deposed)."""

    def __init__(
        self, world: World, name: str, store: Store, master: Master, options: CoreOptions, hooks: Hooks
    ) -> None:
        self.world, self.name = world, name
        self._store, self._master, self._hooks = store, master, hooks
        self.options = options
        """Those of the next term."""
        self.alive = True
        self.term: Term | None = None
        self.skew = 0.0
        """Seconds by which the wall clock of its host is ahead; changes at any moment."""
        self.standby: Standby | None = Standby(world, store, name)
        """While this process is up and does not lead."""
        self._session: Session | None = None
        self._inbox = inbox_of(world)
        self._turn_planned = False
        self._wake = 0

    # --- leadership -------------------------------------------------------------------------------------------

    def lead(self) -> None:
        """This process has been elected: raise the epoch, read what has changed last, go to work."""
        epoch, elapsed = self._store.elect()
        standby, self.standby = self.standby, None
        assert standby is not None
        state = standby.take()
        records = state.records()
        core = Core(state, self.options, self._wall(), elapsed=elapsed)
        clock = Clock(core.began.now, self._wall, lambda: self.world.now, lambda seconds, ahead: None)
        self.term = Term(epoch, core, clock, Client(self._store), {(r.kind, r.key): r for r in records})
        self._hooks.leading(self.term)
        core.turn_context.uow.sizer = self._store.sizer
        self._inbox = inbox_of(self.world)
        self.world.tell(self.name, f"leads with epoch {epoch}, {len(records)} records")
        self.world.count("terms")
        self._soon()
        self._connect(self.term)

    def _wall(self) -> float:
        return self.world.now + self.skew

    def step_down(self, reason: str) -> None:
        """Forgets everything; the subscription ends."""
        term, self.term = self.term, None
        if term is None:
            return
        self.world.tell(self.name, f"steps down: {reason}")
        term.client.crash()
        if self._session is not None and self._session is self._master.session:
            self._master.disconnect("the scheduler left")
        self._session = None
        self._inbox = inbox_of(self.world)
        self._hooks.unanswered(term.waiting)
        self._stand_by()

    def crash(self) -> None:
        self.world.tell(self.name, "crashes")
        self.alive = False
        self.step_down("crash")

    def restart(self) -> None:
        self.alive = True
        self._stand_by()

    def _stand_by(self) -> None:
        """Begins with nothing: the state of a term may be ahead of what is stored."""
        if self.standby is not None:
            self.standby.stop()
        self.standby = Standby(self.world, self._store, self.name) if self.alive else None

    # --- events in --------------------------------------------------------------------------------------------

    def receive(self, event: inputs.Input) -> None:
        term = self.term
        if term is None:
            return
        self.world.tell(self.name, event)
        if isinstance(event, requests.Request):
            term.waiting.append(event.token)
        self._inbox.put(event)
        self._soon()

    def disconnected(self, session: Session, reason: str) -> None:
        """The process notices that its subscription has ended."""
        if session is self._session and self.term is not None:
            self._session = None
            self.receive(cluster_manager.Disconnected(reason=reason, cause="stream"))
            self.world.after(self.world.between(0.05, 1.5), self._connect, self.term)

    def plan(self, command: requests.Request) -> list[Unit]:
        """Hands in a dry run in a turn of its own, right after all has been done that is to be done at this moment, and
        returns what the dry run made of it."""
        term = self.term
        assert term is not None
        for _ in range(SETTLING_TURNS):  # what ends in one turn may push older records out in the next
            if not any(unit.changes for unit in self._turn(hurried=False)):
                break
        self.world.tell(self.name, command)
        term.waiting.append(command.token)
        self._inbox.put(command)
        return self._turn(hurried=False)

    def _connect(self, term: Term) -> None:
        """Subscribes, again and again until it works."""
        if self.term is not term or self._session is not None:
            return
        known = self._store.durable.get(("framework", "framework"))
        known_id = known.id if isinstance(known, Framework) else ""
        self._session = self._master.subscribe(self, known_id or term.core.state.framework.id)
        if self._session is None:
            self.world.after(self.world.between(0.2, 1.0), self._connect, term)

    # --- turns ------------------------------------------------------------------------------------------------

    def _soon(self) -> None:
        if not self._turn_planned:
            self._turn_planned = True
            self.world.after(self.world.between(0.0, 0.01), self._turn)

    def _woken(self, wake: int) -> None:
        if wake == self._wake:
            self._turn()

    def _turn(self, *, hurried: bool = True) -> list[Unit]:
        """`hurried`: the time of the turn may be up before everything is done."""
        self._turn_planned = False
        term = self.term
        if term is None:
            return []
        batch = self._inbox.take(hurried=hurried)
        if len(self._inbox):
            self._soon()
        pace = HurriedPace(self.world) if hurried and self.world.chance(0.5) else UNLIMITED
        term.now = term.clock.now()
        term.made = []
        self._write(term, term.core.turn(batch, term.now, pace))
        self._hooks.turned(term)
        self._wake += 1
        self.world.after(max(0.001, term.core.next_wakeup(term.now) - term.now), self._woken, self._wake)
        return term.made

    def _write(self, term: Term, units: Sequence[Unit]) -> None:
        """Commits units, at the end of a turn or in the middle of it; their effects leave when they are durable."""
        term.made += units
        for unit in units:
            for change in unit.changes:
                self.world.tell(self.name, change)
            self._hooks.decided(term, unit)
            for change in unit.changes:
                if change.record is None:
                    del term.mirror[change.kind, change.key]
                else:
                    term.mirror[change.kind, change.key] = change.record
        for changes, out in self._merge(units):
            term.client.commit(changes, term.epoch, partial(self._decided, term, out))

    def _merge(self, units: Sequence[Unit]) -> list[tuple[list[Change], list[effects.Effect]]]:
        """Neighbouring units as one commit now and then, if the store takes them together: the last change of a record
        wins."""
        batches: list[tuple[dict[tuple[str, str], Change], list[effects.Effect]]] = []
        room, measured = 0, self._store.sizer.measured
        for unit in units:
            changes = [measured(change) for change in unit.changes]
            size = sum(one for _, one in changes)
            if not batches or self.world.chance(0.5) or size > room:
                batches.append(({}, []))
                room = self._store.sizer.limit
            room -= size
            for change, _ in changes:
                batches[-1][0][change.kind, change.key] = change
            batches[-1][1].extend(unit.effects)  # type: ignore[arg-type]
        return [(list(changes.values()), out) for changes, out in batches]

    # --- effects out ------------------------------------------------------------------------------------------

    def _decided(self, term: Term, out: Sequence[effects.Effect], error: str) -> None:
        if self.term is not term:
            return
        if error:
            self.step_down(f"a commit failed: {error}")
            return
        for effect in out:
            self._leave(term, effect)

    def _leave(self, term: Term, effect: effects.Effect) -> None:
        if not isinstance(effect, effects.Observed):
            self.world.tell(self.name, effect)
        self._hooks.leaving(term, effect)
        if isinstance(effect, effects.Reply):
            if effect.token in term.waiting:
                term.waiting.remove(effect.token)
            self._hooks.replied(effect)
        elif isinstance(effect, cluster_manager.FetchOutput):
            if sends_output(self.world.seed):
                self.world.after(self.world.pick((0.1, 1.0, 30.0, 120.0)), self._fetched, term, effect)
        elif isinstance(effect, CALLS):
            if self._session is not None:
                self._master.call(self._session, effect)
            elif isinstance(effect, cluster_manager.LaunchOnAgent):
                groups = tuple(launch.taskgroup.id for launch in effect.launches)
                self.receive(
                    cluster_manager.LaunchFailed(
                        taskgroups=groups, reason="not subscribed", certain=True, cause="accept"
                    )
                )

    def _fetched(self, term: Term, effect: cluster_manager.FetchOutput) -> None:
        """The output has been read from the agent, unless the term has ended or the agent does not answer."""
        if self.term is not term or self.world.chance(0.2):
            self.world.count("outputs not fetched")
            return
        self.world.count("outputs fetched")
        size = 500 + crc32(effect.task_id.encode()) % 6000
        self.receive(
            cluster_manager.OutputReported(
                agent_id=effect.agent_id,
                executor_id=effect.executor_id,
                task_id=effect.task_id,
                name=effect.name,
                data=b"x" * size,
                fetched=True,
                cause="fetched",
            )
        )
