"""What must hold of the time, however the wall clocks of the hosts are set. Judged by the clock of the world.

I26  time never goes back: within a term, from one term to the next, along the events
I27  ids of taskgroups and transactions grow across leaders
I28  no period ends early: time-outs, waits for unreachable agents, retention
I87  a leader that has nothing to do waits: it does not ask again and again for another turn at once
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from bcs_scheduler.core.options import CoreOptions
from bcs_scheduler.core.term_start import MARK_EVERY
from bcs_scheduler.loop.clock import SLEW
from store.base import Change
from store.records import Command, EventLog, FailedOutput, Record, TaskGroup, Transaction, Version
from store.state.unit_of_work import Unit
from tests.simulation.driver import Term
from tests.simulation.store import Store
from tests.simulation.violation import Violation
from tests.simulation.world import World

GRAIN = 0.01
"""Seconds of rounding."""
SEAM = MARK_EVERY * SLEW / (1 - SLEW) + 0.1
"""Seconds that a term may begin too late: what the term before was slowed down since it was last marked as at work. The
time between two marks is `MARK_EVERY` by the clock that is slowed down."""

IDLE_TURNS = 50
"""Turns in a row that ask for another one at once and change nothing. A plan in portions takes a few."""


class Timekeeping:
    def __init__(self, world: World, store: Store, options: CoreOptions) -> None:
        self._world, self._store, self._options = world, store, options
        self._latest: dict[int, float] = {}
        """The time of each term in its latest turn, by epoch."""
        self._idle: Counter[int] = Counter()
        """Turns in a row that changed nothing and asked for another one at once, by epoch."""
        self._begun: dict[tuple[str, str], tuple[float, int]] = {}
        """When a period began, by the clock of the world and as an epoch: (what, id)."""
        self._ended: set[str] = set()
        """Taskgroups whose end has been decided, although a batch may merge that with their replacement."""
        self._highest = self._floor = 0
        self._told_at = 0.0
        self._reported = 0

    # --- terms ------------------------------------------------------------------------------------------------

    def leading(self, term: Term) -> None:
        """I26: a term begins no earlier than what its records tell of. I28: no operation is older for it than it is."""
        latest = max((r.updated_at for r in self._store.durable.values() if isinstance(r, TaskGroup)), default=0.0)
        if term.core.began.now < latest:
            raise Violation("I26", f"epoch {term.epoch} begins at {term.core.began.now}, records tell of {latest}")
        self._latest[term.epoch] = term.core.began.now
        for one in self._store.durable.values():
            if isinstance(one, Transaction) and one.active:
                begun, epoch = self._begun["begun", one.id]
                age, counted = self._world.now - begun, term.core.began.now - one.created_at
                if counted > age * (1 + SLEW) + GRAIN + SEAM * (term.epoch - epoch):
                    words = f"{one.id} is {age:.2f} s old, and {counted:.2f} s for epoch {term.epoch}"
                    raise Violation("I28", words, one.id)

    def turned(self, term: Term) -> None:
        """I26: within a term time does not go back. I87."""
        if term.now < self._latest[term.epoch]:
            raise Violation("I26", f"epoch {term.epoch} goes back from {self._latest[term.epoch]} to {term.now}")
        self._latest[term.epoch] = term.now
        idle = not term.made and term.core.next_wakeup(term.now) <= term.now
        self._idle[term.epoch] = self._idle[term.epoch] + 1 if idle else 0
        if self._idle[term.epoch] > IDLE_TURNS:
            raise Violation("I87", f"epoch {term.epoch} asks for turns without end, and changes nothing")

    # --- records ----------------------------------------------------------------------------------------------

    def decided(self, before: dict[tuple[str, str], Record], unit: Unit) -> None:
        """Notes when periods begin: when they are decided on, which is before they are durable."""
        here = (self._world.now, self._store.epoch)
        for change in unit.changes:
            old, new = before.get((change.kind, change.key)), change.record
            if isinstance(new, Transaction):
                self._begun.setdefault(("begun", new.id), here)
                if new.ended:
                    self._begun.setdefault(("ended", new.id), here)
            elif isinstance(new, Command):
                self._begun.setdefault(("begun", new.id), here)
            elif isinstance(new, FailedOutput):
                self._begun["output", new.id] = here  # an output that comes again begins again
            elif isinstance(new, TaskGroup) and new.ended:
                self._ended.add(new.id)
            elif isinstance(new, TaskGroup) and new.unreachable_since:
                known = old.unreachable_since if isinstance(old, TaskGroup) else 0.0
                if new.unreachable_since != known:
                    self._begun["unreachable", new.id] = here

    def committing(self, changes: Sequence[Change]) -> None:
        """A batch is about to become durable: its ids are above all that were durable before it, in any order."""
        self._floor = self._highest
        records = [change.record for change in changes]
        filled = {(g.namespace, g.application, g.index) for g in records if isinstance(g, TaskGroup)}
        gone = {change.key for change in changes if change.record is None}
        for new in records:
            if isinstance(new, Transaction) and new.inner and new.status == "FINISH" and new.taskgroup in gone:
                old = self._store.durable.get(("taskgroup", new.taskgroup))
                if isinstance(old, TaskGroup) and (old.namespace, old.application, old.index) in filled:
                    self._replaced_in_time(old)

    def applying(self, old: Record | None, change: Change) -> None:
        """A change of the batch."""
        new = change.record
        if isinstance(new, EventLog):
            self._events_are_in_order(new)
        elif isinstance(new, Transaction):
            if old is None:
                self._id_is_higher(new.id, new.id.rpartition("-")[2])
            self._times_out_in_time(new)
        elif isinstance(new, TaskGroup) and old is None:
            self._id_is_higher(new.id, new.id.rpartition(".")[2])

    def may_be_forgotten(self, transaction: Transaction) -> bool:
        """I28: its retention time has passed."""
        return self._has_passed("ended", transaction.id, self._options.transactions.periods.retention)

    def reserve_is_over(self, command: Command) -> bool:
        """I28: the time for which its user wants to read it has passed."""
        return self._has_passed("begun", command.id, command.keep_until - command.created_at)

    def output_may_go(self, output: FailedOutput) -> bool:
        """I28: the time for which outputs are kept has passed."""
        return self._has_passed("output", output.id, self._options.output_retention)

    def _events_are_in_order(self, run: EventLog) -> None:
        for event in run.events:
            if event.number > self._reported:
                if event.at < self._told_at:
                    raise Violation("I26", f"event {event.number} is dated before event {self._reported}")
                self._reported, self._told_at = event.number, event.at

    def _times_out_in_time(self, new: Transaction) -> None:
        life = new.deadline - new.created_at
        if new.status == "TIMEOUT" and not self._has_passed("begun", new.id, life):
            raise Violation("I28", f"{new.id} ({new.type}) has timed out before its {life} s had passed", new.id)

    def _replaced_in_time(self, old: TaskGroup) -> None:
        """Its restart policy has replaced it, perhaps while it was out of reach."""
        version = self._store.durable.get(("version", f"{old.namespace}/{old.application}/{old.version}"))
        wait = version.unreachable_policy.replace_after if isinstance(version, Version) else -1.0
        if old.id in self._ended:
            return
        if old.unreachable_since and not old.ended and wait >= 0 and not self._has_passed("unreachable", old.id, wait):
            raise Violation("I28", f"{old.id} was replaced before it had been unreachable for {wait} s", old.id)

    def _id_is_higher(self, identity: str, number: str) -> None:
        if int(number) <= self._floor:
            raise Violation("I27", f"{identity} is not newer than what was stored before", identity)
        self._highest = max(self._highest, int(number))

    def _has_passed(self, what: str, identity: str, seconds: float) -> bool:
        """By the clock of the world; the fastest clock of a term makes `seconds` in this share of them."""
        began, epoch = self._begun[what, identity]
        slack = GRAIN + SEAM * (self._store.epoch - epoch)
        return self._world.now - began >= seconds / (1 + SLEW) - slack
