"""Which transactions are due, what they demand, and what they do with placements.

The engine holds only what can be derived from the stored records: open demands, timers, and which transaction cares for
which taskgroup. `recover` derives it anew after an election. All of its methods run in the thread that owns the state.

Work waits in a queue that serves namespaces in turn. A settle takes as much of the queue as `Context.enough` allows;
the rest stays queued for the next turn, so that ten thousand failures in one namespace do not hold up another one.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from functools import partial
from typing import NamedTuple

import msgspec

from offers.model import Placement
from store import ids
from store.records import Application, ApplicationStatus, TaskGroup, Transaction, TransactionStatus, Version
from store.state import State
from transactions import base, daemons, delete, explain, groups, injection, lifecycle, needs, reschedule, scale, update
from transactions.base import Context, Options, Slot, Step
from transactions.demands import Demands
from transactions.fair import FairQueue
from transactions.injection import Injected, Injections
from transactions.kinds import concerns, look
from transactions.progress import progress
from transactions.wakeups import Wakeups

LOOK, EXAMINE, CARE, REFRESH = range(4)
"""Classes of work, in the order in which the work of a namespace is done: a transaction takes its step, the taskgroups
of an application are checked for a needed restart, a taskgroup gets what it needs, an application gets its status."""


MANY = 1000
PAUSE = 5e-6
"""Seconds for each taskgroup of an application of more than MANY between two looks at its operation that reports about
its taskgroups ask for. A look takes up to 1e-6 s for each of them."""


class Placed(NamedTuple):
    """A taskgroup to be launched, and what its containers take from configmaps and secrets (empty if nothing)."""

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
        """Active transactions of an application other than RESCHEDULE, by application key."""
        self._rescheduler: dict[str, str] = {}
        """The active RESCHEDULE of a taskgroup, by taskgroup id."""
        self._rests: dict[str, float] = {}
        """When the next look at an operation on very many taskgroups may be taken (Unix seconds)."""
        self._resting: set[str] = set()
        """Operations that are to be looked at then."""
        self._work: FairQueue[str] = FairQueue(classes=4)
        """Ids and keys of what is to be looked at, by namespace."""

    # --- entry points -----------------------------------------------------------------------------------------

    def recover(self, state: State) -> None:
        """Derives everything from the state; the next `settle` looks at every transaction and application."""
        for transaction in state.active_transactions():
            self._register(transaction)
        for key in state.applications:
            self._push(EXAMINE, key)

    @property
    def busy(self) -> bool:
        """Work is left that the last settle had no time for."""
        return bool(self._fresh or self._work)

    def next_timer(self) -> float | None:
        """When the engine wants to be called again (Unix seconds), whatever happens."""
        return self._timers.next()

    def settle(self, ctx: Context) -> None:
        """Lets what is queued take its next step: all of it, or as much as `ctx.enough` allows, at least one step. What
        follows from the steps waits for the next call."""
        for number in range(len(self._work)):
            if number and ctx.enough():
                break
            item = self._work.pop()
            if item is not None:
                self._do(ctx, item[1], item[2])

    def _do(self, ctx: Context, work: int, key: str) -> None:
        if work == LOOK:
            failure = ctx.attempt("transaction", key, partial(self._look, ctx, key))
            if failure:
                self.fail(ctx, key, failure)
        elif work == EXAMINE:
            for identity, group in ctx.state.groups_of(key).items():
                if not _sound(group):
                    self._push(CARE, identity, key)
            self._push(REFRESH, key)
        elif work == CARE:
            if not _sound(ctx.state.taskgroups.get(key)):
                ctx.attempt("taskgroup", key, partial(self._care, ctx, key))
        else:
            ctx.attempt("application", key, partial(self._refresh, ctx, key))

    def _push(self, work: int, key: str, application: str = "") -> None:
        """`application`: key of the application, if `key` is none."""
        self._work.push(ids.namespace_of(application or key), key, work)

    def _push_look(self, ctx: Context, identity: str) -> None:
        transaction = ctx.state.transactions.get(identity)
        self._work.push(transaction.namespace if transaction is not None else "", identity, LOOK)

    # --- plans and placements -----------------------------------------------------------------------------------

    def restore(self, ctx: Context, identity: str, slot: Hashable) -> None:
        """As `unplan`, after what `placed` has written for the slot was undone."""
        transaction = ctx.state.transactions.get(identity)
        if transaction is not None and transaction.active:
            self._register(transaction)
        self.unplan(identity, slot)

    def placed(self, ctx: Context, placement: Placement, injections: Injections) -> Placed | None:
        """Writes the taskgroup for a placement of a demand; None if it is not wanted any more."""
        identity = placement.demand
        self._look_first(ctx, identity)
        transaction = ctx.state.transactions.get(identity)
        application = ctx.application(transaction) if transaction is not None else None
        demand, plan = self.demands.get(identity), self._plans.get(identity)
        if transaction is None or application is None or not transaction.active:
            return None
        slot: Slot | None = placement.slot  # type: ignore[assignment]
        name = self._version_of.get(identity, "")
        if plan is not None and self._unplanned(identity, slot):
            name = plan.version
        elif demand is None:
            return None
        elif demand.per_agent:
            slot = daemons.slot_on(ctx, application, demand, placement)
        version = ctx.state.version(application.key, name)
        injected = injections.of(version) if version is not None else None
        if slot is None or version is None or injected is None or not groups.still_open(ctx, application.key, slot):
            self._fresh.add(transaction.id)
            return None
        before = ctx.state.taskgroups.get(slot.replaces)
        if before is not None and not (before.ended or before.unreachable_since):
            self._fresh.add(transaction.id)  # it runs again; a look that rests has not seen that
            return None
        restart = transaction if transaction.type == "RESCHEDULE" else None
        group = groups.build(ctx, application, version, slot, placement, restart)
        if restart is not None:
            group, done = reschedule.follow(ctx, restart, group, before)
            words = f"taskgroup {done}, id: {slot.replaces} -> {group.id}"
            self._finish(ctx, restart, "FINISH", words, told=base.REPLACED if restart.inner else "")
        elif plan is None or not plan.slots:
            self._drop_plan(identity)
            self._fresh.add(transaction.id)
        created = transaction.due_at if transaction.type == "RESCHEDULE" else transaction.created_at
        kind = "scale" if transaction.type == "INNERSCALE" else transaction.type.lower()
        kind = "relaunch" if group.relaunches else kind
        ctx.count(
            "schedule_taskgroup",
            (group.namespace, group.application, group.name, kind),
            max(0.0, ctx.now - created) * 1000.0,
        )
        return Placed(group, version, injected)

    def _look_first(self, ctx: Context, identity: str) -> None:
        """Takes the step of a transaction that waits for one. Something has changed since its slots were planned: the
        taskgroup that a slot replaces may run again."""
        transaction = ctx.state.transactions.get(identity)
        if transaction is not None and self._work.holds(transaction.namespace, identity, LOOK):
            self._work.discard(transaction.namespace, identity, LOOK)
            self._look(ctx, identity)

    def fail(self, ctx: Context, identity: str, failure: str) -> None:
        """A transaction whose step or launch fails unexpectedly would fail again and again; the others must go on."""
        ctx.attempt("transaction", identity, partial(self._give_up, ctx, identity, failure))

    def look_again(self, identities: Iterable[str]) -> None:
        """These transactions depend on something that is no record and has changed."""
        self._fresh.update(identities)

    def cancel(self, ctx: Context, transaction: Transaction, message: str) -> None:
        """Ends an active transaction on request and settles its application."""
        self.end(ctx, transaction, "CANCEL", message)
        application = ctx.application(transaction)
        group = ctx.state.taskgroups.get(transaction.taskgroup)
        if transaction.type in ("LAUNCH", "SCALE", "INNERSCALE") and application is not None:
            taken = max(ctx.state.indexes_of(application.key), default=-1) + 1
            if 0 < taken < application.instances:
                ctx.uow.put(msgspec.structs.replace(application, instances=taken))
        elif transaction.inner and group is not None:
            ctx.uow.put(msgspec.structs.replace(group, held=True))

    # --- looking at one transaction ---------------------------------------------------------------------------

    def notice(self, ctx: Context, changed: Iterable[tuple[str, str]]) -> None:
        """Queues what the changed records, (kind, key), concern, and what is due."""
        self._fresh.update(self._timers.due(ctx.now))
        for identity in sorted(self._fresh):
            self._push_look(ctx, identity)
        self._fresh.clear()
        for kind, key in changed:
            if kind == "taskgroup":
                self._concern_taskgroup(ctx, key)
            elif kind == "transaction":
                transaction = ctx.state.transactions.get(key)
                if transaction is None or not transaction.active:
                    self._forget(ctx, key, transaction)
                else:
                    self._register(transaction)
            elif kind == "application":
                self._push(REFRESH, key)
            elif kind in ("configmap", "secret"):
                self._fresh.update(self.takers((kind, key)))

    def _concern_taskgroup(self, ctx: Context, key: str) -> None:
        app = ids.application_of(key)
        group = ctx.state.taskgroups.get(key)
        for identity in sorted(self._owners.get(app, ())):
            transaction = ctx.state.transactions.get(identity)
            if transaction is None or concerns(ctx, transaction, group):
                self._look_soon(ctx, identity, app)
        if key in self._rescheduler:
            self._push(LOOK, self._rescheduler[key], app)
        if not _sound(group):
            self._push(CARE, key, app)
        self._push(REFRESH, app)

    def _look_soon(self, ctx: Context, identity: str, app: str) -> None:
        """A look at an operation on very many taskgroups walks over all of them, and each of their reports asks for
        one: such looks keep a distance."""
        at = self._rests.get(identity, 0.0)
        if at <= ctx.now:
            self._push(LOOK, identity, app)
        elif identity not in self._resting:
            self._resting.add(identity)
            self._wake(at, identity)

    def _register(self, transaction: Transaction) -> None:
        key = f"{transaction.namespace}/{transaction.application}"
        if transaction.type == "RESCHEDULE":
            self._rescheduler[transaction.taskgroup] = transaction.id
        else:
            self._owners.setdefault(key, set()).add(transaction.id)
        self._push(LOOK, transaction.id, key)

    def _forget(self, ctx: Context, identity: str, transaction: Transaction | None) -> None:
        self._drop_demand(identity)
        self._timers.cancel(identity)
        self._fresh.discard(identity)
        self._rests.pop(identity, None)
        self._resting.discard(identity)
        if transaction is None:
            return
        key = f"{transaction.namespace}/{transaction.application}"
        self._work.discard(transaction.namespace, identity, LOOK)
        if self._rescheduler.get(transaction.taskgroup) == identity:
            del self._rescheduler[transaction.taskgroup]
        owners = self._owners.get(key)
        if owners is not None:
            owners.discard(identity)
            if not owners:
                del self._owners[key]
        if transaction.type != "RESCHEDULE" or transaction.status != "FINISH":
            self._push(EXAMINE, key)

    def _look(self, ctx: Context, identity: str) -> None:
        transaction = ctx.state.transactions.get(identity)
        if transaction is None or not transaction.active:
            self._forget(ctx, identity, transaction)
            return
        if ctx.now >= transaction.deadline:
            self._finish(ctx, transaction, "TIMEOUT", self._overdue(ctx, transaction))
        elif ctx.now < transaction.due_at:
            verdict = reschedule.settled(ctx, transaction) if transaction.type == "RESCHEDULE" else None
            if verdict is not None:
                self._finish(ctx, transaction, *verdict)
            else:
                self._wake(transaction.due_at, identity)
        else:
            self._rest(ctx, transaction)
            step = look(ctx, transaction)
            if step.verdict is not None:
                self._finish(ctx, transaction, *step.verdict)
            else:
                self._demand(ctx, transaction, step)
                self._wake(transaction.deadline, identity)
                if step.wake_at:
                    self._wake(step.wake_at, identity)
                if step.again and identity in self._rests:
                    self._resting.add(identity)
                    self._wake(self._rests[identity], identity)
                elif step.again:
                    self._fresh.add(identity)
        self._push(REFRESH, f"{transaction.namespace}/{transaction.application}")

    def _rest(self, ctx: Context, transaction: Transaction) -> None:
        self._resting.discard(transaction.id)
        members = len(ctx.state.groups_of(f"{transaction.namespace}/{transaction.application}"))
        if members > MANY and transaction.type in ("UPDATE", "INNERSCALE"):
            self._rests[transaction.id] = ctx.now + PAUSE * members

    def _overdue(self, ctx: Context, transaction: Transaction) -> str:
        key = transaction.id
        return explain.timeout(ctx, transaction, self.diagnoses.get(key), self.missing.get(key, ()))

    def _give_up(self, ctx: Context, identity: str, failure: str) -> None:
        transaction = ctx.state.transactions.get(identity)
        if transaction is not None and transaction.active:
            self._finish(ctx, transaction, "FAIL", f"internal error: {failure}")

    def _wake(self, at: float, identity: str) -> None:
        self._timers.add(at, identity)

    def _demand(self, ctx: Context, transaction: Transaction, step: Step) -> None:
        version = ctx.state.version(f"{transaction.namespace}/{transaction.application}", step.version)
        missing, sources = step.missing, frozenset[injection.Source]()
        if version is not None and (missing or step.slots):
            lacking, sources = injection.examine(ctx.state, version)
            missing = missing or lacking
        if not step.slots or version is None or missing:
            self._drop_demand(transaction.id)
            if missing:
                self._takes(transaction.id, sources)
                self._wait(ctx, transaction, missing)
            return
        self._takes(transaction.id, sources)
        self.missing.pop(transaction.id, None)
        self.want(needs.demand(transaction.id, version, step, self.options.role), version)

    def _wait(self, ctx: Context, transaction: Transaction, missing: tuple[str, ...]) -> None:
        """Nothing is launched without what it needs. Changes of configmaps and secrets cause another look."""
        self.missing[transaction.id] = missing
        words = explain.waiting(missing)
        if transaction.history and transaction.history[-1].text == words:
            return
        base.note(ctx, transaction, words)
        ctx.tell("transaction", transaction.id, "waiting", words)
        application = ctx.application(transaction)
        if application is not None and application.operation == transaction.id:
            ctx.uow.put(msgspec.structs.replace(application, message=words))

    def _finish(
        self, ctx: Context, transaction: Transaction, status: TransactionStatus, message: str, *, told: str = ""
    ) -> None:
        self._forget(ctx, transaction.id, self.end(ctx, transaction, status, message, told=told))

    @staticmethod
    def end(
        ctx: Context, transaction: Transaction, status: TransactionStatus, message: str, *, told: str = ""
    ) -> Transaction:
        """Writes the verdict and gives the application back. Records only: a plan may undo it. `told`: as in
        transactions.base.end."""
        current = ctx.state.transactions.get(transaction.id, transaction)
        ended = base.end(ctx, current, status, message, progress(ctx.state, current).done, told=told)
        application = ctx.application(transaction)
        if application is None or application.operation != transaction.id:
            return ended
        computed, words = _judged(ctx, application)
        if status not in ("FINISH",) and computed != "Running":
            words = f"{transaction.type.lower()} {status.lower()}: {message}"
        ctx.uow.put(
            msgspec.structs.replace(
                application,
                status=computed,
                last_status=application.status,
                message=words,
                operation="",
                updated_at=ctx.now,
            )
        )
        return ended

    # --- taskgroups nobody drives -----------------------------------------------------------------------------

    def _care(self, ctx: Context, identity: str) -> None:
        """Starts what a taskgroup needs that has ended, or whose agent is unreachable, without being asked to."""
        group = ctx.state.taskgroups.get(identity)
        if group is None or identity in self._rescheduler:
            return
        application = ctx.state.applications.get(f"{group.namespace}/{group.application}")
        if application is None:
            return
        if not group.ended and not group.unreachable_since:
            # All its tasks share one lifetime; only a task that has done its work leaves the others alone.
            if any(task.ended and task.status != "Finish" for task in group.tasks):
                groups.end(ctx, group, lifecycle.BROKEN)
            return
        if group.ended and daemons.leaving(group):  # no operation replaces it, not even an update that is under way
            groups.remove(ctx, group, group.kill_reason)
            return
        if self._somebody_cares(ctx, application, group):
            return
        if lifecycle.is_leaving(group) or daemons.leaving(group) or groups.beyond(application, group.index):
            if group.ended:
                groups.remove(ctx, group, group.kill_reason or "not wanted any more")
            return
        if group.unreachable_since and daemons.is_daemonset(application):
            return  # it has its place on its agent and nowhere else
        self._restart(ctx, application, group)

    def _restart(self, ctx: Context, application: Application, group: TaskGroup) -> None:
        version = ctx.state.version(application.key, group.version) or ctx.state.version(
            application.key, application.version
        )
        if version is None:
            return
        decision = lifecycle.restart_decision(
            group, version.restart_policy, version.unreachable_policy, self.options.periods.restart_reset, ctx.now
        )
        if decision is not None:
            transaction = reschedule.create_inner(ctx, application, group, version, decision)
            self._register(transaction)
            self._work.discard(transaction.namespace, transaction.id, LOOK)
            self._look(ctx, transaction.id)

    def _somebody_cares(self, ctx: Context, application: Application, group: TaskGroup) -> bool:
        for identity in self._owners.get(application.key, ()):
            owner = ctx.state.transactions.get(identity)
            if owner is None or not owner.active:
                continue
            if owner.type == "DELETE":
                if group.ended:
                    delete.ended(ctx, group)
                return True
            if update.takes_care_of(owner, group):
                return True
            if owner.type in ("SCALE", "INNERSCALE") and not application.rolling and group.index >= owner.target:
                scale.ended(ctx, owner, group)
                return True
        return False

    def _refresh(self, ctx: Context, key: str) -> None:
        """Recomputes the status of an application that no operation owns."""
        application = ctx.state.applications.get(key)
        if application is None or application.status == "RollingUpdate":
            return
        if application.status == "Operating":
            owner = ctx.state.transactions.get(application.operation)
            if owner is not None and owner.active:
                return
        status, words = _judged(ctx, application)
        if status == application.status and (status != "Running" or words == application.message):
            return
        ctx.tell("application", key, status, words)
        ctx.uow.put(
            msgspec.structs.replace(
                application,
                status=status,
                last_status=application.status,
                message=words,
                operation="",
                updated_at=ctx.now,
            )
        )


def _judged(ctx: Context, application: Application) -> tuple[ApplicationStatus, str]:
    state, key = ctx.state, application.key
    return lifecycle.application_status(state.status_counts(key), application.instances, state.unhealthy(key))


def _sound(group: TaskGroup | None) -> bool:
    """No task of it has ended and its agent is in reach, so there is nothing to care for. So are nearly all."""
    if group is None:
        return True
    if group.unreachable_since or not group.tasks:
        return False
    return not any(task.ended for task in group.tasks)
