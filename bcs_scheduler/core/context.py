"""The context of a turn, which all parts of the core share."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import TypeVar

from bcs_scheduler.core.event_log import EventRecorder
from bcs_scheduler.core.interface import effects, inputs
from bcs_scheduler.core.open_commands import OpenCommands
from bcs_scheduler.core.options import CoreOptions
from bcs_scheduler.core.placement.placer import Placer
from bcs_scheduler.core.placement.queue_accounts import QueueAccounts
from bcs_scheduler.core.placement.records import Records
from bcs_scheduler.core.placement.source import Source
from bcs_scheduler.core.priority_bounds import PriorityBounds
from bcs_scheduler.core.quotas import Quotas
from bcs_scheduler.core.run_times import RunTimes
from bcs_scheduler.core.term_start import highest_id
from offers.agents import Directory
from offers.ledger.offered import offer_pool
from offers.model import Demand, Occupant
from offers.planned import PlannedCensus
from store.base import RecordTooLarge, RecordUnencodable
from store.reasons import REASONS, EventReason, Level
from store.records import Record
from store.state import State, Watcher
from store.state.unit_of_work import Savepoint, Unit, UnitOfWork
from transactions import occupancy, transitions
from transactions.base import Context, Failure, Ids, Refused, Slot
from transactions.engine.engine import Engine
from transactions.kinds.registry import kind_of, progress
from transactions.text import counted

T = TypeVar("T")
Change = tuple[str, str]
"""Kind and key of a record that has changed."""
ERRORS_AT_ONCE = 3
"""Errors of single objects of one kind of work that one turn reports; more are counted."""
RETRY = 10.0
"""Seconds after which work on an object that has failed is tried again."""
UNFIT = (RecordTooLarge, RecordUnencodable)
"""Errors that mean that the store cannot take the changes."""
EVENT_BYTES = 7_000
"""More than one event can take of a batch, with its share of its run in the event log."""
UNIT_EFFECTS = 50
"""A unit that is consistent in itself is closed when it has this many effects: each may be an event of the event
log."""
SHARED_EFFECTS = 24
"""A unit that reports share is closed when it has this many effects: those of eight status updates. Larger units save
little more, and the commit pipeline cannot divide them for a slow store."""

ANSWER_SECONDS = 1.0
"""Seconds within which a cluster manager offers the free room after a REVIVE: at once, or after its allocation
interval, which is one second by default (docs/decisions/0079-evictions-wait-for-offers.md)."""


class TurnContext:
    """State, unit of work and clock of the turn; collects finished units."""

    def __init__(self, state: State, options: CoreOptions) -> None:
        self.state = state
        self.options = options
        self.uow = UnitOfWork(state, transitions=transitions.RULES)
        self.recorder = EventRecorder(state)
        self.ids = Ids(highest_id(state))
        self.agents = Directory()
        self.pool = offer_pool(self.occupants)
        self.census = PlannedCensus(state.census)
        """Counts for constraints: recorded and planned taskgroups."""
        self.engine = Engine(options.transactions)
        self.placer = Placer(self.pool, self.census, self.engine, options.scoring, self._remaining)
        self.source: Source = Records(self)
        self.queues = QueueAccounts(state, self.engine, options)
        self.run_times = RunTimes()
        """Running times of taskgroups that have ended in this term."""
        self.now = 0.0
        self.cause = ""
        self.connected = False
        """A subscription with the cluster manager is up."""
        self.offers_until = 0.0
        """Unix seconds until which offers that were requested may come."""
        self.returning_until = 0.0
        """Unix seconds until which offers may return that were given back for a moment, because their room is held."""
        self.waiting_since: dict[str, float] = {}
        """Unix seconds since which demands have been waiting, by id; also of some that do not wait any more."""
        self._attempts = 0
        """Number of `attempt`s in progress, one inside the other."""
        self.object_errors = 0
        """Number of errors of single objects in `each_change` in this term."""
        self.units: list[Unit] = []
        self.rebalancings = 0
        """Number of moves begun in this term to rebalance the cluster: a plan made before one of another rebalancing is
        out of date."""
        self.remaining_work: list[Iterator[None]] = []
        """Work that the present request leaves to be done in slices (bcs_scheduler.core.requests.sliced)."""
        self.incomplete: set[str] = set()
        """Ids of commands whose messages are still being written."""
        self.changed: list[tuple[str, str]] = []
        """(kind, key) of every change of this turn that the engine has not seen yet."""
        self.unsound: dict[str, tuple[str, Exception] | None] = {}
        """Names of the parts (bcs_scheduler.core.parts) whose data may be wrong, until they are made anew. With a step
        and its error as long as the error is not reported."""
        self.context = Context(
            state=state,
            uow=self.uow,
            now=0.0,
            ids=self.ids,
            options=options.transactions,
            kind_of=kind_of,
            overhead=options.traits.overhead,
            executor=options.executor,
            agents=self.agents,
            record_event=self.record_event,
            count=self.count,
            attempt=self.attempt,
            each_change=self.each_change,
            checkpoint=self.checkpoint,
        )
        self.quotas = Quotas(self.context, partial(self.watch, "quotas"))
        self.priorities = PriorityBounds(state, options.max_priority, partial(self.watch, "priorities"))
        self.open_commands = OpenCommands(
            self.context, partial(self.watch, "opencommands"), options.command_open, options.command_open_total
        )

    def note_rebalancing(self) -> int:
        """Counts a move of a rebalancing that begins. Returns the number."""
        self.rebalancings += 1
        return self.rebalancings

    def _remaining(self, transaction: str) -> int:
        """Number of taskgroups that an operation, given by id, still has to place; 0 if there is none."""
        record = self.state.transactions.get(transaction)
        return progress(self.state, record).remaining if record is not None else 0

    @property
    def framework(self) -> str:
        """The id of the framework; empty before the first term."""
        return self.state.framework.id

    @property
    def awaits_offers(self) -> bool:
        """True while room may be free that is not offered yet."""
        return self.now < self.offers_until

    @property
    def shown_until(self) -> float:
        """Unix seconds: the offers show the free room for all work that has come until then. Nothing is ended for work
        that has come later."""
        return self.now - ANSWER_SECONDS if self.awaits_offers else self.now

    def shown_at(self, demand: str) -> float:
        """Unix seconds from which the offers show the free room for the demand of this id."""
        return min(self.offers_until, self.waiting_since.get(demand, 0.0) + ANSWER_SECONDS)

    def is_unshown(self, demand: str) -> bool:
        """True if the demand of this id has come while room may be free that is not offered yet (any thread)."""
        return self.now < self.shown_at(demand)

    def unshown(self, demands: Iterable[Demand[Slot]]) -> set[str]:
        """The applications of demands for which room may be free that is not offered yet: nothing is ended for them.
        All demands, while offers with held room may return; else those that have come while requested ones may come."""
        if self.now < self.returning_until:
            return {one.application for one in demands}
        if not self.awaits_offers:
            return set()
        return {one.application for one in demands if self.waiting_since.get(one.id, self.now) > self.shown_until}

    def start(self, now: float, cause: str) -> None:
        """Begins the handling of one input. `now`: Unix seconds; `cause`: id of the request, shown in events and
        logs."""
        self.now = self.context.now = now
        self.cause = self.context.cause = cause

    def emit(self, effect: effects.Effect) -> None:
        """The effect leaves once everything changed so far is durable."""
        self.uow.effect(effect)

    def record_event(
        self, kind: str, key: str, reason: EventReason, message: str, level: Level | None = None, transaction: str = ""
    ) -> None:
        """A line for the log and, unless it is only a step on the way, an event for users
        (bcs_scheduler.core.event_log).
        `level` None: as store.reasons says. `transaction` is needed only where it is not the operation that owns the
        application of the object."""
        self.uow.effect(
            effects.LogLine(
                kind=kind,
                key=key,
                reason=reason,
                message=message,
                cause=self.cause,
                level=level if level is not None else REASONS[reason].log_level,
                transaction=transaction,
            )
        )

    def count(self, name: str, labels: tuple[str, ...], value: float) -> None:
        """Counts an observation for metrics when the unit is durable. The unit of `value` is that of the metric:
        seconds, or a number of things."""
        self.uow.effect(effects.Observed(name=name, labels=labels, value=value, cause=self.cause))

    def later(self, work: Iterator[None]) -> None:
        """Leaves work of the present command to later turns. Each step of the iterator must leave records that are
        consistent in themselves. The command is answered when the iterator ends."""
        self.remaining_work.append(work)

    def checkpoint(self) -> None:
        """Closes the unit if it is large enough. The changes so far must be consistent in themselves."""
        most = min(self.options.unit_bytes, self.uow.sizer.limit // 4)
        many = len(self.uow) >= self.options.unit_changes or len(self.uow.effects) >= UNIT_EFFECTS
        if many or self.uow.size() >= most:
            self.cut()

    def fits(self) -> None:
        """Raises RecordTooLarge, BatchTooLarge or RecordUnencodable if the changes since the last cut cannot be stored
        together with their events."""
        if self.uow.empty:
            return
        most = self.uow.sizer.limit // 2
        if len(self.uow.effects) * EVENT_BYTES > most or self.uow.size() > most:
            self.uow.refuse_oversized(self.recorder.bound(self.uow.effects))

    def cut(self) -> None:
        """Closes the unit. If no store could take the unit, an open `attempt` fails with RecordTooLarge or
        RecordUnencodable. Without an open `attempt`, the unit is undone and an event records the error."""
        if self.uow.empty:
            return
        try:
            self.fits()
        except UNFIT as error:
            if self._attempts:
                raise
            self.uow.rollback()
            self._report("core", "unit", error)
            return
        self.close()

    def close(self) -> None:
        """Like `cut`, but called directly after an `attempt` that has not failed, so the size need not be measured
        again."""
        if self.uow.empty:
            return
        changed = self.uow.changed()
        self.recorder.write(self.uow, self.now)
        unit = self.uow.cut()
        if unit is not None:
            self.changed += changed
            self.units.append(unit)

    def attempt(self, kind: str, key: str, work: Callable[[], T]) -> T | Failure:
        """Runs work as units of its own and returns its result. An unexpected error undoes the work and is recorded as
        an event, and the turn continues with other objects; the failure is returned."""
        if not self.uow.empty:
            self.cut()
        self._attempts += 1
        try:
            result = work()
            if not self.uow.empty:
                self.fits()
        except Exception as error:
            self._raise_if_strict(error)
            self.uow.rollback()
            return self._report(kind, key, error)
        finally:
            self._attempts -= 1
        return result

    def share(self, kind: str, key: str, work: Callable[[], object]) -> None:
        """Runs work like `attempt`, but in the open unit, so that small inputs share units and their writes of the
        event log. The unit is left open. An unexpected error undoes the changes of this work and is reported. Work with
        very large changes is undone and run again as a unit of its own. It must bear that: a report may come twice in
        any case."""
        uow, units = self.uow, len(self.units)
        if len(uow.effects) >= SHARED_EFFECTS:
            self.cut()
            units = len(self.units)
        point = uow.savepoint()
        try:
            work()
            size = uow.size()
        except Exception as error:
            self._raise_if_strict(error)
            uow.undo(point if len(self.units) == units else Savepoint(0, 0))  # a cut ends savepoints
            self._report(kind, key, error)
            return
        if len(self.units) == units and size > uow.sizer.limit // 2:
            uow.undo(point)
            self.attempt(kind, key, work)
        elif size >= self.options.unit_bytes:
            self.cut()

    def each(self, kind: str, keys: Iterable[str], work: Callable[[str], object]) -> list[str]:
        """Does work for each object of one kind; see `each_change`. Returns the keys of those whose work has failed."""
        failed: list[Change] = []
        self.uow.each(zip(keys, strict=True), work, lambda key, error: self._failed(failed, (kind, *key), error))
        if not failed:
            return []
        self._count_failed(failed)
        return [key for _, key in failed]

    def each_change(self, changed: Iterable[Change], work: Callable[[str, str], object]) -> list[Change]:
        """Does work for each object, given as (kind, key). An unexpected error undoes the changes of this object and is
        reported, and the others follow. Returns the objects whose work has failed. Costs little beside `attempt`,
        because the objects share units."""
        failed: list[Change] = []
        self.uow.each(changed, work, lambda change, error: self._failed(failed, change, error))
        if failed:
            self._count_failed(failed)
        return failed

    def _failed(self, failed: list[Change], change: Change, error: Exception) -> None:
        """Adds an object whose work has failed to `failed`, and reports the first errors."""
        self._raise_if_strict(error)
        failed.append(change)
        if len(failed) <= ERRORS_AT_ONCE:
            self._report(*change, error)

    def _count_failed(self, failed: list[Change]) -> None:
        self.object_errors += len(failed)
        if len(failed) > ERRORS_AT_ONCE:
            words = f"failed for {counted(len(failed), 'object')}; the first {ERRORS_AT_ONCE} errors are reported"
            self.record_event("core", failed[0][0], "InternalError", words, "error")

    def watch(self, part: str, kinds: Iterable[str], follow: Watcher) -> None:
        """Like `State.watch`, for the part of this name. An error does not reach the change that is followed, because
        the change would be left half done; the data of the part are wrong after it."""

        def guarded(key: str, before: Record | None, after: Record | None) -> None:
            try:
                follow(key, before, after)
            except Exception as error:
                self.suspect(part, "follow", error)

        self.state.watch(kinds, guarded)

    def suspect(self, part: str, step: str, error: Exception) -> None:
        """Notes that the data of the part may be wrong. The error is reported when the part is made anew."""
        self._raise_if_strict(error)
        self.unsound[part] = step, error

    def require(self, *parts: str) -> None:
        """Raises Refused (unavailable) if the data of one of these parts may be wrong."""
        for part in parts:
            if part in self.unsound:
                words = f"this part of the scheduler has failed and is being made anew: {part} (the log has the error)"
                raise Refused("unavailable", f"{words}; nothing was changed, try again")

    def _raise_if_strict(self, error: Exception) -> None:
        if self.options.strict and not isinstance(error, UNFIT):
            raise error

    def _report(self, kind: str, key: str, error: Exception) -> Failure:
        reason: EventReason = "InternalError"
        words = f"{type(error).__name__}: {error}"
        # An exception may quote confidential content; only its name is shown to users.
        failure = Failure("internal", words, f"{type(error).__name__}; the log has the rest")
        if isinstance(error, UNFIT):
            failure = Failure("not_storable", words, str(error))
        if isinstance(error, transitions.InvalidTransition):
            failure = Failure("transition", words, error.change)
            reason, kind, key = "TransitionRefused", error.kind, error.key
        public = failure.public if failure.code == "transition" else f"{type(error).__name__}; the log has the rest"
        self.emit(
            effects.LogLine(
                kind=kind, key=key, reason=reason, message=words, cause=self.cause, level="error", public=public
            )
        )
        return failure

    def removed(self, kind: str) -> list[str]:
        """Keys of the records of this kind that were removed, and whose removal no controller has noticed yet."""
        return [key for one, key in self.changed if one == kind and self.state.get(one, key) is None]

    def take_changed(self) -> list[tuple[str, str]]:
        """Closes the unit, and returns (kind, key) of all changes since the last call."""
        self.cut()
        changed, self.changed = self.changed, []
        return changed

    def agents_named(self, key: str) -> set[str]:
        """Ids of the agents that operators name so: as they are listed, and others as their taskgroups know them."""
        found = set(self.agents.ids_of(key))
        found.update(known for known in self.state.indexes.agents_called(key) if known not in self.agents.agents)
        return found

    def occupants(self, agent_id: str) -> list[Occupant]:
        """Returns the users of an agent: the taskgroups that run there, and planned placements."""
        return [*occupancy.on_agent(self.state, self.agents, agent_id), *self.census.occupants(agent_id)]


def took_over(turn: TurnContext, event: inputs.TermBegan) -> None:
    """Records which scheduler leads. The first term of a framework takes nothing over."""
    identity = turn.state.framework.id
    if identity:
        turn.record_event("framework", identity, "LeaderTookOver", f"{event.scheduler} took over, term {event.epoch}")
