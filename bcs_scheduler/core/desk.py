"""What the parts of the core share while they work on one turn."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from bcs_scheduler.core import effects
from bcs_scheduler.core.journal import Scribe
from bcs_scheduler.core.quotas import Quotas
from offers.agents import Directory
from offers.matcher import Scoring
from offers.planned import PlannedCensus
from offers.pool import OfferPool
from store.base import RecordTooLarge, RecordUnencodable
from store.ids import nanoseconds_of
from store.records import Executor, TaskGroup
from store.state import State
from store.unit_of_work import Unit, UnitOfWork
from transactions.base import Context, Ids, Options
from transactions.engine import Engine

UNFIT = (RecordTooLarge, RecordUnencodable)
"""Errors that say that a store cannot take what has been changed."""
EVENT_BYTES = 7_000
"""More than one event can take of a batch, with its share of its run in the journal."""
UNIT_EFFECTS = 50
"""A unit that is consistent in itself is closed when it has this many effects: each may be an event of the journal."""


@dataclass(frozen=True, slots=True)
class CoreOptions:
    """Settings of the core; times in seconds."""

    transactions: Options = field(default_factory=Options)
    scoring: Scoring = "spread"
    offer_hold: float = 5.0
    offer_reserve: int = 100
    """Offers kept for `offer_hold` seconds after nothing waits for a place any more (core.controllers.supply)."""
    """How long offers are held that nothing wants; then they are declined."""
    refuse_idle: float = 3600.0
    """Refusal when nothing is pending at all (SUPPRESS goes with it)."""
    refuse_unfit: float = 10.0
    """Refusal of offers that no open demand can use."""
    maintenance_grace: float = 0.0
    staging_timeout: float = 180.0
    silence_timeout: float = 720.0
    reconcile_interval: float = 600.0
    kill_retry: float = 5.0
    kill_retry_max: float = 60.0
    unit_changes: int = 50
    """A unit that is consistent in itself is closed when it has this many changes: about as many as make the best
    commits (bcs_scheduler.flow.BATCH_BYTES), which never cut a unit."""
    unit_bytes: int = 64 * 1024
    """The same in bytes, so that few big records fit a store's batch as well as many small ones."""
    executor: Executor = "bcs"
    """What runs taskgroups whose version does not say: our own executor, or Mesos's default one."""
    answer_timeout: float = 60.0
    """How long an executor may take to answer a message, beyond the time the work itself may take."""
    command_keep: int = 100
    """Ended commands kept of one application or deployment."""
    command_keep_total: int = 50_000
    """Ended commands and their messages kept in all, in kB: the sum of what they take in the store."""
    agent_return: float = 900.0
    """How long an agent may be missing from the list before what has ended on it for a daemonset is forgotten: after a
    change of masters it takes agents some time to register again."""
    agent_forget: float = 86400.0
    """How long a taskgroup of a daemonset may be out of reach before it is forgotten. If its agent comes back later, it
    is killed."""
    events_retention: float = 86400.0
    events_keep: int = 50_000
    """Events are readable for at least so long, unless there are more than so many newer ones."""
    strict: bool = False
    """Let unexpected errors out (simulation and tests) instead of failing the one transaction they came from."""


class Desk:
    """State, unit of work and clock of the turn; collects finished units."""

    def __init__(self, state: State, options: CoreOptions) -> None:
        self.state = state
        self.options = options
        self.uow = UnitOfWork(state)
        self.scribe = Scribe(state)
        self.ids = Ids(_highest_id(state))
        self.pool = OfferPool()
        self.census = PlannedCensus(state.census)
        """What constraints count: what is recorded, and what is planned."""
        self.engine = Engine(options.transactions)
        self.agents = Directory()
        self.quotas = Quotas(state)
        self.now = 0.0
        self.cause = ""
        self.connected = False
        """A subscription with Mesos is up."""
        self._attempts = 0
        """How many `attempt`s are going on, one inside the other."""
        self.units: list[Unit] = []
        self.errands: list[Iterator[None]] = []
        """What the command that is being carried out leaves to be done in slices (bcs_scheduler.core.errands)."""
        self.incomplete: set[str] = set()
        """Ids of commands whose messages are still being written."""
        self.changed: list[tuple[str, str]] = []
        """(kind, key) of every change of this turn that the engine has not seen yet."""
        self.context = Context(
            state=state,
            uow=self.uow,
            now=0.0,
            ids=self.ids,
            options=options.transactions,
            executor=options.executor,
            agents=self.agents,
            tell=self.tell,
            count=self.count,
            attempt=self.attempt,
            checkpoint=self.checkpoint,
        )

    def start(self, now: float, cause: str) -> None:
        self.now = self.context.now = now
        self.cause = self.context.cause = cause

    def emit(self, effect: effects.Effect) -> None:
        """The effect leaves once everything changed so far is durable."""
        self.uow.effect(effect)

    def tell(self, kind: str, key: str, reason: str, message: str, level: str = "info", transaction: str = "") -> None:
        """A line for the log and, unless it is only a step on the way, an event for users (bcs_scheduler.core.journal).
        `transaction` is needed only where it is not the operation that owns the application of the object."""
        self.emit(
            effects.Story(
                kind=kind,
                key=key,
                reason=reason,
                message=message,
                cause=self.cause,
                level=level,
                transaction=transaction,
            )
        )

    def count(self, name: str, labels: tuple[str, ...], value: float) -> None:
        self.emit(effects.Observed(name=name, labels=labels, value=value, cause=self.cause))

    def later(self, work: Iterator[None]) -> None:
        """Leaves work of the present command to later turns. Each step of the iterator must leave records that are
        consistent in themselves. The command is answered when the iterator ends."""
        self.errands.append(work)

    def checkpoint(self) -> None:
        most = min(self.options.unit_bytes, self.uow.sizer.limit // 4)
        many = len(self.uow) >= self.options.unit_changes or len(self.uow.effects) >= UNIT_EFFECTS
        if many or self.uow.size() >= most:
            self.cut()

    def fits(self) -> None:
        """Raises RecordTooLarge, BatchTooLarge or RecordUnencodable if what has changed since the last cut cannot be
        stored with the events that tell of it."""
        if self.uow.empty:
            return
        most = self.uow.sizer.limit // 2
        if len(self.uow.effects) * EVENT_BYTES > most or self.uow.size() > most:
            self.uow.refuse_oversized(self.scribe.bound(self.uow.effects))

    def cut(self) -> None:
        """Closes the unit. One that no store can take is refused: where work is being attempted, that fails with
        RecordTooLarge or RecordUnencodable; elsewhere the unit is undone and told."""
        if self.uow.empty:
            return
        try:
            self.fits()
        except UNFIT as error:
            if self._attempts:
                raise
            self._undo("core", "unit", error)
            return
        changed = self.uow.changed()
        self.scribe.write(self.uow, self.now)
        unit = self.uow.cut()
        if unit is not None:
            self.changed += changed
            self.units.append(unit)

    def attempt(self, kind: str, key: str, work: Callable[[], None]) -> str:
        """Runs work as units of its own. What fails unexpectedly is undone and told, and the turn goes on: one object
        that cannot be handled must not stop all others. Returns the error in words, or an empty string."""
        self.cut()
        self._attempts += 1
        try:
            work()
            self.fits()
        except Exception as error:
            if self.options.strict and not isinstance(error, UNFIT):
                raise
            return self._undo(kind, key, error)
        finally:
            self._attempts -= 1
        return ""

    def _undo(self, kind: str, key: str, error: Exception) -> str:
        self.uow.rollback()
        words = f"{type(error).__name__}: {error}"
        self.emit(effects.Story(kind=kind, key=key, reason="error", message=words, cause=self.cause, level="error"))
        return words

    def take_changed(self) -> list[tuple[str, str]]:
        self.cut()
        changed, self.changed = self.changed, []
        return changed

    def agents_named(self, key: str) -> set[str]:
        """Ids of the agents that operators name so: as they are listed, and others as their taskgroups know them."""
        found = set(self.agents.ids_of(key))
        found.update(known for known in self.state.indexes.agents_called(key) if known not in self.agents.agents)
        return found

    def live_groups(self) -> list[TaskGroup]:
        return [g for g in self.state.taskgroups.values() if not g.ended]


def _highest_id(state: State) -> int:
    """The greatest nanosecond used in any known id: ids made from now on are greater (never reused)."""
    tables = (state.taskgroups, state.transactions, state.commands, state.messages)
    numbers = [nanoseconds_of(identity) for table in tables for identity in table]
    numbers += [int(a.version) for a in state.applications.values() if a.version.isdigit()]
    return max(numbers, default=0)
