"""The engine: runs the steps of transactions that are due, knows their demands, and applies placements.

The engine holds only state that can be derived from the stored records: open demands, timers, and which transaction
handles which taskgroup. `recover` derives it anew after an election. All methods run in the thread that owns the state.

Work waits in a queue that serves namespaces in turn. A settle takes as much of the queue as `Context.time_is_up`
allows; the rest stays queued for the next turn, so that ten thousand failures in one namespace do not delay another
one.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from operator import attrgetter
from typing import NamedTuple

from offers.model import Placement
from store import ids
from store.reasons import EventReason
from store.records import TaskGroup, Transaction, TransactionStatus, Version
from transactions import explain, groups, injection, resource_request
from transactions.base import Context, Failure, Options, Slot, Step
from transactions.engine import self_healing, verdicts
from transactions.engine.demands import Demands
from transactions.engine.fair import FairQueue
from transactions.engine.wakeups import Wakeups
from transactions.injection import Injected, Injections
from transactions.kinds import daemonset
from transactions.kinds.kind import Kind
from transactions.kinds.registry import kind_of
from transactions.rules import gangs
from transactions.text import duration

STEP, CHECK, HEAL, STATUS = range(4)
"""Classes of work, in the order in which the work of a namespace is done: a transaction takes its step, the taskgroups
of an application are checked for a needed restart, a taskgroup is healed, the status of an application is computed."""


MANY = 1000
PAUSE = 5e-6
"""Seconds for each taskgroup of an application of more than MANY between two looks at its operation that reports about
its taskgroups ask for. A look takes up to 1e-6 s for each of them."""


class Placed(NamedTuple):
    """A taskgroup to be launched, and the values of its containers from configmaps and secrets (empty if there are
    none)."""

    group: TaskGroup
    version: Version
    injected: tuple[Injected, ...]


class Engine(Demands):
    """Drives all active transactions. Call `notice` with every batch of changes and then `settle`; `placed` for every
    placement."""

    def __init__(self, options: Options) -> None:
        super().__init__()
        self.options = options
        self._timers = Wakeups()
        self._owners: dict[str, set[str]] = {}
        """Active transactions that work on a whole application, by its key."""
        self._drivers: dict[str, str] = {}
        """The active transaction that works on one taskgroup alone, by taskgroup id."""
        self._rests: dict[str, float] = {}
        """Unix seconds of the next possible step of an operation on very many taskgroups, by its id."""
        self._resting: set[str] = set()
        """Operations that are to be looked at then."""
        self._work: FairQueue[str] = FairQueue(classes=4)
        """Ids and keys of the queued work, by namespace."""

    # --- entry points -----------------------------------------------------------------------------------------

    def recover(self, ctx: Context) -> None:
        """Drops everything that is known and derives it from the state; the next `settle` looks at every transaction
        and application. Planned launches must have been dropped."""
        Engine.__init__(self, self.options)
        # The order of the index is that of its changes, which a replay of the decisions does not know.
        active = {one.id: one for one in sorted(ctx.state.active_transactions(), key=attrgetter("id"))}
        ctx.each_change([("transaction", key) for key in active], lambda _, key: self._register(ctx, active[key]))
        for key in ctx.state.applications:
            self._push(CHECK, key)

    @property
    def busy(self) -> bool:
        """True if the last settle left work for lack of time."""
        return bool(self._fresh or self._work)

    def next_timer(self) -> float | None:
        """Returns the Unix seconds at which the engine must be called again at the latest; None: at no particular
        time."""
        return self._timers.next()

    def settle(self, ctx: Context) -> None:
        """Runs the queued work: all of it, or as much as `ctx.time_is_up` allows, but at least one item. Work that
        follows from these items waits for the next call."""
        for number in range(len(self._work)):
            if number and ctx.time_is_up():
                break
            item = self._work.pop()
            if item is not None:
                self._do(ctx, item[1], item[2])

    def _do(self, ctx: Context, work: int, key: str) -> None:
        if work == STEP:
            failure = ctx.attempt("transaction", key, partial(self._look, ctx, key))
            if failure is not None:
                self.fail(ctx, key, failure)
        elif work == CHECK:
            ctx.attempt("application", key, partial(self._check, ctx, key))
        elif work == HEAL:
            ctx.attempt("taskgroup", key, partial(self._heal, ctx, key))
        else:
            ctx.attempt("application", key, partial(self._refresh, ctx, key))

    def _push(self, work: int, key: str, application: str = "") -> None:
        """Queues work. `application`: key of the application, if `key` is not a key; empty otherwise."""
        self._work.push(ids.namespace_of(application or key), key, work)

    def _push_look(self, ctx: Context, identity: str) -> None:
        transaction = ctx.state.transactions.get(identity)
        self._work.push(transaction.namespace if transaction is not None else "", identity, STEP)

    # --- plans and placements -----------------------------------------------------------------------------------

    def restore(self, ctx: Context, identity: str, slot: Slot) -> None:
        """Like `unplan`, but called after the records that `placed` wrote for the slot were undone."""
        transaction = ctx.state.transactions.get(identity)
        if transaction is not None and transaction.active:
            self._register(ctx, transaction)
        self.unplan(identity, slot)

    def placed(self, ctx: Context, placement: Placement[Slot], injections: Injections) -> Placed | None:
        """Writes the taskgroup for a placement of a demand; None if it is not wanted any more."""
        identity = placement.demand
        self._look_first(ctx, identity)
        transaction = ctx.state.transactions.get(identity)
        application = ctx.application(transaction) if transaction is not None else None
        demand, plan = self.demands.get(identity), self._plans.get(identity)
        if transaction is None or application is None or not transaction.active:
            return None
        slot: Slot | None = placement.slot
        name = self._version_of.get(identity, "")
        if plan is not None and self._unplanned(identity, placement.slot):
            name = plan.version
        elif demand is None:
            return None
        elif demand.per_agent:
            slot = daemonset.slot_on(ctx, application, demand, placement)
        version = ctx.state.version(application.key, name)
        injected = injections.of(version) if version is not None else None
        if slot is None or version is None or injected is None or not groups.still_open(ctx, application.key, slot):
            self._fresh.add(transaction.id)
            return None
        before = ctx.state.taskgroups.get(slot.replaces)
        if before is not None and not (before.ended or before.unreachable_since):
            self._fresh.add(transaction.id)  # it runs again, which the postponed step has not seen
            return None
        kind = kind_of(ctx.state, transaction)
        remember = partial(kind.remember, ctx, transaction) if before is not None else None
        group = groups.build(ctx, application, version, slot, placement, remember)
        done = kind.placed(ctx, transaction, group, before)
        if done is not None:
            group = done.group
            words = f"{group.name} {done.how} on {group.hostname}"
            self._finish(
                ctx, transaction, "FINISH", words, event_reason="RestartFinished" if transaction.inner else None
            )
        elif plan is None or not plan.slots:
            self._drop_plan(identity)
            self._fresh.add(transaction.id)
        label = "relaunch" if group.relaunches else kind.label
        ctx.count(
            "schedule_taskgroup",
            (group.namespace, group.application, group.name, label),
            max(0.0, ctx.now - kind.waiting_since(transaction)),
        )
        return Placed(group, version, injected)

    def _look_first(self, ctx: Context, identity: str) -> None:
        """Takes the step of a transaction that waits for one. Something has changed since its slots were planned: the
        taskgroup that a slot replaces may run again."""
        transaction = ctx.state.transactions.get(identity)
        if transaction is not None and self._work.holds(transaction.namespace, identity, STEP):
            self._work.discard(transaction.namespace, identity, STEP)
            self._look(ctx, identity)

    def fail(self, ctx: Context, identity: str, failure: Failure) -> None:
        """Ends a transaction whose step or launch has failed unexpectedly. The step would fail again and again and
        delay the others."""
        ctx.attempt("transaction", identity, partial(self._give_up, ctx, identity, failure))

    def withhold(self, identity: str) -> None:
        """Ends the demand of a transaction until its next step, which is queued: from now on a gate may hold it back,
        and places could be found before the step."""
        self._drop_demand(identity)
        self._fresh.add(identity)

    def queue_steps(self, identities: Iterable[str]) -> None:
        """Queues a step for each of these transactions, because an input that is no record has changed (the agents, the
        configuration)."""
        self._fresh.update(identities)

    def cancel(self, ctx: Context, transaction: Transaction, message: str) -> None:
        """Ends an active transaction on request and settles its application."""
        self.end(ctx, transaction, "CANCEL", message)
        kind_of(ctx.state, transaction).cancelled(ctx, transaction)

    # --- looking at one transaction ---------------------------------------------------------------------------

    def notice(self, ctx: Context, changed: Iterable[tuple[str, str]]) -> None:
        """Queues the work that the changed records, given as (kind, key), make necessary, and all timers that are
        due."""
        self._fresh.update(self._timers.due(ctx.now))
        for identity in sorted(self._fresh):
            self._push_look(ctx, identity)
        self._fresh.clear()
        queued: set[str] = set()
        spared: set[str] = set()

        def follow(kind: str, key: str) -> None:
            if kind == "taskgroup":
                self._concern_taskgroup(ctx, key, queued, spared)
            elif kind == "transaction":
                transaction = ctx.state.transactions.get(key)
                if transaction is not None and transaction.waiting:
                    return
                if transaction is None or not transaction.active:
                    self._forget(key, transaction)
                else:
                    self._register(ctx, transaction)
            elif kind == "application":
                self._push(STATUS, key)
            elif kind in ("configmap", "secret"):
                self._fresh.update(self.demands_taking((kind, key)))

        ctx.each_change(changed, follow)

    def _concern_taskgroup(self, ctx: Context, key: str, queued: set[str], spared: set[str]) -> None:
        """Queues the work that a changed taskgroup makes necessary. `queued`: applications and operations that the same
        changes have queued already; `spared`: operations that no existing taskgroup concerns."""
        app, group = ids.application_of(key), ctx.state.taskgroups.get(key)
        for identity in sorted(self._owners.get(app, ())):
            if identity in queued or (identity in spared and group is not None):
                continue
            transaction = ctx.state.transactions.get(identity)
            kind = kind_of(ctx.state, transaction) if transaction is not None else None
            gang = self.waits_as_gang(ctx.state, identity, app)
            if gang or transaction is None or kind is None or kind.concerns(ctx, transaction, group):
                self._look_soon(ctx, identity, app)
                queued.add(identity)
            elif group is not None and kind.only_removals_matter:
                spared.add(identity)
        if key in self._drivers:
            self._push(STEP, self._drivers[key], app)
        if not self_healing.is_undisturbed(group):
            self._push(HEAL, key, app)
        if app not in queued:
            self._push(STATUS, app)
            queued.add(app)

    def _look_soon(self, ctx: Context, identity: str, app: str) -> None:
        """A look at an operation on very many taskgroups walks over all of them, and each of their reports asks for
        one: such looks keep a distance."""
        at = self._rests.get(identity, 0.0)
        if at <= ctx.now:
            self._push(STEP, identity, app)
        elif identity not in self._resting:
            self._resting.add(identity)
            self._wake(at, identity)

    def _register(self, ctx: Context, transaction: Transaction) -> None:
        key = transaction.application_key
        if transaction.taskgroup:
            self._drivers[transaction.taskgroup] = transaction.id
        elif transaction.id not in (owners := self._owners.setdefault(key, set())):
            owners.add(transaction.id)
            # It may replace taskgroups for whose restart others ask for a place.
            for identity in sorted(one.id for one in ctx.state.active_of(key).values() if one.taskgroup):
                self._push(STEP, identity, key)
        self._push(STEP, transaction.id, key)

    def _forget(self, identity: str, transaction: Transaction | None) -> None:
        self._drop_demand(identity)
        self._timers.cancel(identity)
        self._fresh.discard(identity)
        self._rests.pop(identity, None)
        self._resting.discard(identity)
        if transaction is None:
            return
        key = transaction.application_key
        self._work.discard(transaction.namespace, identity, STEP)
        if self._drivers.get(transaction.taskgroup) == identity:
            del self._drivers[transaction.taskgroup]
        owners = self._owners.get(key)
        if owners is not None:
            owners.discard(identity)
            if not owners:
                del self._owners[key]
        if not transaction.taskgroup or transaction.status != "FINISH":
            self._push(CHECK, key)  # taskgroups may remain that this transaction has handled until now

    def _look(self, ctx: Context, identity: str) -> None:
        transaction = ctx.state.transactions.get(identity)
        if transaction is None or not transaction.active:
            self._forget(identity, transaction)
            return
        if ctx.now >= transaction.deadline:
            self._finish(ctx, transaction, "TIMEOUT", self.overdue(ctx, transaction))
        elif ctx.now < transaction.due_at:
            verdict = kind_of(ctx.state, transaction).settled(ctx, transaction)
            if verdict is not None:
                self._finish(ctx, transaction, *verdict)
            else:
                self._wake(transaction.due_at, identity)
        else:
            kind = kind_of(ctx.state, transaction)
            self._rest(ctx, transaction, kind)
            step = kind.step(ctx, transaction)
            if step.verdict is not None:
                self._finish(ctx, transaction, *step.verdict)
            else:
                self._demand(ctx, transaction, step)
                self._wake(transaction.deadline, identity)
                if step.wake_at:
                    self._wake(step.wake_at, identity)
                if step.unfinished and identity in self._rests:
                    self._resting.add(identity)
                    self._wake(self._rests[identity], identity)
                elif step.unfinished:
                    self._fresh.add(identity)
        self._push(STATUS, transaction.application_key)

    def _rest(self, ctx: Context, transaction: Transaction, kind: Kind) -> None:
        self._resting.discard(transaction.id)
        members = len(ctx.state.groups_of(transaction.application_key))
        if members > MANY and kind.scans_all:
            self._rests[transaction.id] = ctx.now + PAUSE * members

    def overdue(self, ctx: Context, transaction: Transaction) -> str:
        """Returns the message of a transaction whose time has run out."""
        unplaced = explain.unplaced(self.diagnoses.get(transaction.id), self.missing.get(transaction.id, ()))
        words = unplaced or kind_of(ctx.state, transaction).late(ctx, transaction)
        return f"after {duration(transaction.deadline - transaction.due_at)} {words}"

    def _give_up(self, ctx: Context, identity: str, failure: Failure) -> None:
        transaction = ctx.state.transactions.get(identity)
        if transaction is not None and transaction.active:
            self._finish(ctx, transaction, "FAIL", failure.message)

    def _wake(self, at: float, identity: str) -> None:
        self._timers.add(at, identity)

    def _demand(self, ctx: Context, transaction: Transaction, step: Step) -> None:
        step = ctx.admitted(transaction, step)
        version = ctx.state.version(transaction.application_key, step.version)
        missing, sources = step.missing, frozenset[injection.Source]()
        if version is not None and (missing or step.slots):
            missing_configuration, sources = injection.examine(ctx.state, version)
            missing = missing or missing_configuration
        if not step.slots or version is None or missing:
            self._drop_demand(transaction.id)
            if missing:
                self._takes(transaction.id, sources)
                self._wait(ctx, transaction, missing)
            return
        self._takes(transaction.id, sources)
        self.missing.pop(transaction.id, None)
        demand = resource_request.demand(transaction.id, version, step, self.options.role, ctx.overhead)
        least = 0 if step.promised else gangs.missing_members(ctx.state, version, len(step.slots))
        application = ctx.state.applications.get(transaction.application_key)
        # A restart does not wait for others, and daemonsets belong to no group.
        joins = any(not slot.replaces for slot in step.slots)
        group = application.group if application is not None and joins else ""
        self.want(demand._replace(min_members=least, group=group, promised=step.promised), version.name)

    def _wait(self, ctx: Context, transaction: Transaction, missing: tuple[str, ...]) -> None:
        self.missing[transaction.id] = missing
        verdicts.record_waiting(ctx, transaction, missing)

    def _finish(
        self,
        ctx: Context,
        transaction: Transaction,
        status: TransactionStatus,
        message: str,
        *,
        event_reason: EventReason | None = None,
    ) -> None:
        self._forget(transaction.id, self.end(ctx, transaction, status, message, event_reason=event_reason))

    end = staticmethod(verdicts.end)

    # --- taskgroups without a transaction--------------------------------------------------------------------------

    def _check(self, ctx: Context, key: str) -> None:
        for identity, group in ctx.state.groups_of(key).items():
            if not self_healing.is_undisturbed(group):
                self._push(HEAL, identity, key)
        self._push(STATUS, key)

    def _heal(self, ctx: Context, identity: str) -> None:
        group = ctx.state.taskgroups.get(identity)
        if group is None or identity in self._drivers or self_healing.is_undisturbed(group):
            return
        transaction = self_healing.heal(ctx, group, self._owners.get(group.application_key, ()))
        if transaction is not None:
            self._register(ctx, transaction)
            self._work.discard(transaction.namespace, transaction.id, STEP)
            self._look(ctx, transaction.id)

    def _refresh(self, ctx: Context, key: str) -> None:
        self_healing.update_status(ctx, key)
        self_healing.launch_missing(ctx, key)
