"""Which transactions are due, what they demand, and what they do with placements.

The engine holds only what can be derived from the stored records: open demands, timers, and which transaction cares for
which taskgroup. `recover` derives it anew after an election. All of its methods run in the thread that owns the state.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable
from functools import partial
from typing import NamedTuple

import msgspec

from offers.model import Demand, Diagnosis, Placement
from store import ids
from store.records import Application, ApplicationStatus, TaskGroup, Transaction, TransactionStatus, Version
from store.state import State
from transactions import base, daemons, explain, groups, injection, lifecycle, needs, reschedule, update
from transactions.base import Context, Options, Slot, Step
from transactions.injection import Injected, Injections
from transactions.kinds import look
from transactions.progress import progress


class Placed(NamedTuple):
    """A taskgroup to be launched, and what its containers take from configmaps and secrets (empty if nothing)."""

    group: TaskGroup
    version: Version
    injected: tuple[Injected, ...]


class Engine:
    """Drives all active transactions. Call `settle` after every batch of changes, `placed` for every placement."""

    def __init__(self, options: Options) -> None:
        self.options = options
        self.demands: dict[str, Demand] = {}
        """Open demands by transaction id."""
        self.diagnoses: dict[str, Diagnosis] = {}
        """Why open demands could not be placed in the last pass, by transaction id."""
        self.missing: dict[str, tuple[str, ...]] = {}
        """What transactions wait for that launch nothing because a configmap, secret or key does not exist, in words,
        by transaction id. They have no demand."""
        self.demands_changed = False
        self._version_of: dict[str, str] = {}
        """Version that an open demand launches, by transaction id."""
        self._timers: list[tuple[float, str]] = []
        self._scheduled: set[tuple[float, str]] = set()
        """What is in the heap of timers, so that nothing stands in it twice."""
        self._owners: dict[str, set[str]] = {}
        """Active transactions of an application other than RESCHEDULE, by application key."""
        self._rescheduler: dict[str, str] = {}
        """The active RESCHEDULE of a taskgroup, by taskgroup id."""
        self._fresh: set[str] = set()
        """Transactions to be looked at in the next settle, whatever changed."""
        self._examine: set[str] = set()
        """Applications all of whose taskgroups must be checked for a needed restart."""

    # --- entry points -----------------------------------------------------------------------------------------

    def recover(self, state: State) -> None:
        """Derives everything from the state; the next `settle` looks at every transaction and application."""
        for transaction in state.active_transactions():
            self._register(transaction)
        self._examine.update(state.applications)

    def next_timer(self) -> float | None:
        """When the engine wants to be called again (Unix seconds), whatever happens."""
        return self._timers[0][0] if self._timers else None

    def settle(self, ctx: Context, changed: Iterable[tuple[str, str]]) -> None:
        """Lets everything that is concerned by the changed records, or due, take its next step."""
        look, apps, touched = self._concerned(ctx, changed)
        while self._timers and self._timers[0][0] <= ctx.now:
            timer = heapq.heappop(self._timers)
            self._scheduled.discard(timer)
            look.add(timer[1])
        for identity in sorted(look | self._fresh):
            self._fresh.discard(identity)
            failure = ctx.attempt("transaction", identity, partial(self._look, ctx, identity, apps))
            if failure:
                ctx.attempt("transaction", identity, partial(self._give_up, ctx, identity, failure))
        for key in sorted(self._examine):
            touched.update(ctx.state.groups_of(key))
            apps.add(key)
        self._examine.clear()
        for identity in sorted(touched):
            if not _sound(ctx.state.taskgroups.get(identity)):
                ctx.attempt("taskgroup", identity, partial(self._care, ctx, identity, apps))
        for key in sorted(apps):
            ctx.attempt("application", key, partial(self._refresh, ctx, key))

    def placed(self, ctx: Context, placement: Placement, injections: Injections) -> Placed | None:
        """Writes the taskgroup for a placement of a demand; None if it is not wanted any more."""
        transaction = ctx.state.transactions.get(placement.demand)
        application = ctx.application(transaction) if transaction is not None else None
        demand = self.demands.get(placement.demand)
        if transaction is None or application is None or demand is None or not transaction.active:
            return None
        version = ctx.state.version(application.key, self._version_of[placement.demand])
        slot: Slot | None = placement.slot  # type: ignore[assignment]
        if demand.per_agent:
            slot = daemons.slot_on(ctx, application, demand, placement)
        injected = injections.of(version) if version is not None else None
        if slot is None or version is None or injected is None or not groups.still_open(ctx, application.key, slot):
            self._fresh.add(transaction.id)
            return None
        group = groups.build(ctx, application, version, slot, placement)
        if transaction.type == "RESCHEDULE":
            group = ctx.uow.put(
                msgspec.structs.replace(
                    group, restarts=transaction.restarts + (not transaction.drained), last_restart_at=ctx.now
                )
            )
            words = f"{slot.replaces} -> {group.id}"
            ctx.tell("taskgroup", group.id, "restarted", words, transaction=transaction.id)
            self._finish(ctx, transaction, "FINISH", f"taskgroup restarted, id: {words}")
        else:
            self._fresh.add(transaction.id)
        created = transaction.due_at if transaction.type == "RESCHEDULE" else transaction.created_at
        kind = "scale" if transaction.type == "INNERSCALE" else transaction.type.lower()
        ctx.count(
            "schedule_taskgroup",
            (group.namespace, group.application, group.name, kind),
            max(0.0, ctx.now - created) * 1000.0,
        )
        return Placed(group, version, injected)

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

    def _concerned(self, ctx: Context, changed: Iterable[tuple[str, str]]) -> tuple[set[str], set[str], set[str]]:
        look: set[str] = set()
        apps: set[str] = set()
        touched: set[str] = set()
        for kind, key in changed:
            if kind == "taskgroup":
                app = ids.application_of(key)
                apps.add(app)
                look.update(self._owners.get(app, ()))
                if key in self._rescheduler:
                    look.add(self._rescheduler[key])
                touched.add(key)
            elif kind == "transaction":
                transaction = ctx.state.transactions.get(key)
                if transaction is None or not transaction.active:
                    self._forget(ctx, key, transaction)
                else:
                    self._register(transaction)
            elif kind == "application":
                apps.add(key)
            elif kind in ("configmap", "secret"):
                look.update(self._wanting_from(ids.namespace_of(key)))
        return look, apps, touched

    def _wanting_from(self, namespace: str) -> list[str]:
        """Transactions that launch, or would if they could, what may take something from this namespace."""
        prefix = f"{namespace}/"
        return [*self.missing, *(i for i, demand in self.demands.items() if demand.application.startswith(prefix))]

    def _register(self, transaction: Transaction) -> None:
        key = f"{transaction.namespace}/{transaction.application}"
        if transaction.type == "RESCHEDULE":
            self._rescheduler[transaction.taskgroup] = transaction.id
        else:
            self._owners.setdefault(key, set()).add(transaction.id)
        self._fresh.add(transaction.id)

    def _forget(self, ctx: Context, identity: str, transaction: Transaction | None) -> None:
        self._drop_demand(identity)
        self._fresh.discard(identity)
        if transaction is None:
            return
        key = f"{transaction.namespace}/{transaction.application}"
        if self._rescheduler.get(transaction.taskgroup) == identity:
            del self._rescheduler[transaction.taskgroup]
        owners = self._owners.get(key)
        if owners is not None:
            owners.discard(identity)
            if not owners:
                del self._owners[key]
        if transaction.type != "RESCHEDULE" or transaction.status != "FINISH":
            self._examine.add(key)

    def _look(self, ctx: Context, identity: str, apps: set[str]) -> None:
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
            step = look(ctx, transaction)
            if step.verdict is not None:
                self._finish(ctx, transaction, *step.verdict)
            else:
                self._demand(ctx, transaction, step)
                self._wake(transaction.deadline, identity)
                if step.wake_at:
                    self._wake(step.wake_at, identity)
        apps.add(f"{transaction.namespace}/{transaction.application}")

    def _overdue(self, ctx: Context, transaction: Transaction) -> str:
        key = transaction.id
        return explain.timeout(ctx, transaction, self.diagnoses.get(key), self.missing.get(key, ()))

    def _give_up(self, ctx: Context, identity: str, failure: str) -> None:
        """A step that fails by itself would fail again and again; the others must go on."""
        transaction = ctx.state.transactions.get(identity)
        if transaction is not None and transaction.active:
            self._finish(ctx, transaction, "FAIL", f"internal error: {failure}")

    def _wake(self, at: float, identity: str) -> None:
        entry = (at, identity)
        if entry not in self._scheduled:
            self._scheduled.add(entry)
            heapq.heappush(self._timers, entry)

    def _demand(self, ctx: Context, transaction: Transaction, step: Step) -> None:
        version = ctx.state.version(f"{transaction.namespace}/{transaction.application}", step.version)
        missing = step.missing
        if step.slots and version is not None and not missing:
            missing = injection.missing(ctx.state, version)
        if not step.slots or version is None or missing:
            self._drop_demand(transaction.id)
            if missing:
                self._wait(ctx, transaction, missing)
            return
        self.missing.pop(transaction.id, None)
        demand = needs.demand(transaction.id, version, step, self.options.role)
        if self.demands.get(transaction.id) != demand:
            self.demands[transaction.id] = demand
            self._version_of[transaction.id] = version.name
            self.demands_changed = True

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

    def _drop_demand(self, identity: str) -> None:
        self.missing.pop(identity, None)
        self.demands.pop(identity, None)
        self.diagnoses.pop(identity, None)
        self._version_of.pop(identity, None)

    def _finish(self, ctx: Context, transaction: Transaction, status: TransactionStatus, message: str) -> None:
        self._forget(ctx, transaction.id, self.end(ctx, transaction, status, message))

    @staticmethod
    def end(ctx: Context, transaction: Transaction, status: TransactionStatus, message: str) -> Transaction:
        """Writes the verdict and gives the application back. Records only: a plan may undo it."""
        current = ctx.state.transactions.get(transaction.id, transaction)
        ended = base.end(ctx, current, status, message, progress(ctx.state, current).done)
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

    def _care(self, ctx: Context, identity: str, apps: set[str]) -> None:
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
        if self._somebody_cares(ctx, application, group):
            return
        if lifecycle.is_leaving(group) or daemons.leaving(group) or groups.beyond(application, group.index):
            if group.ended:
                groups.remove(ctx, group, group.kill_reason or "not wanted any more")
            return
        if group.unreachable_since and daemons.is_daemonset(application):
            return  # it has its place on its agent and nowhere else
        self._restart(ctx, application, group, apps)

    def _restart(self, ctx: Context, application: Application, group: TaskGroup, apps: set[str]) -> None:
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
            self._fresh.discard(transaction.id)
            self._look(ctx, transaction.id, apps)

    def _somebody_cares(self, ctx: Context, application: Application, group: TaskGroup) -> bool:
        for identity in self._owners.get(application.key, ()):
            owner = ctx.state.transactions.get(identity)
            if owner is None or not owner.active:
                continue
            if owner.type == "DELETE" or update.takes_care_of(owner, group):
                return True
            if owner.type in ("SCALE", "INNERSCALE") and not application.rolling and group.index >= owner.target:
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
