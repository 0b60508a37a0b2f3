"""RESCHEDULE: replace one taskgroup by a new one of the same index, after a failure (inner) or on request.

The old record stays until the moment its replacement is placed; both changes are one unit, so the index is never lost
and never held twice (docs/original.md#replacement).
"""

from __future__ import annotations

from typing import Literal

import msgspec

from store.ids import namespace_of
from store.mentions import mention, private
from store.reasons import EventReason
from store.records import Application, OrphanedTask, ReschedulePayload, TaskGroup, Transaction, Version
from store.records.running import LAST_FAILURE
from store.state.reader import StateReader
from transactions import base, groups, injection
from transactions.base import Context, Periods, Progress, Refused, Slot, Step, Terms, Verdict
from transactions.kinds.kind import Done, Kind
from transactions.rules import disruptions, endings, lifecycle, relaunch
from transactions.rules.application_types import bound_to_agents
from transactions.rules.lifecycle import Restart
from transactions.text import duration, named

FAILED = ("Failed", "Error", "Lost")
"""Statuses of taskgroups whose message the replacement keeps."""


def create(
    ctx: Context, group: TaskGroup, host_retain_time: float, *, drained: str = "", unready: bool = False
) -> Transaction:
    """Begins a reschedule that a user or a drain has asked for: the taskgroup is ended and replaced under every restart
    policy. `host_retain_time`: seconds for which the replacement may use only the agent of the old taskgroup.
    `drained`: key of the agent's settings if the agent is being drained, else empty. `unready`: the drain does not wait
    until the successor is ready. Raises Refused (not_found,
    conflict, invalid)."""
    application = ctx.state.applications.get(group.application_key)
    if application is None:
        raise Refused("not_found", f"application {group.application_key} does not exist")
    if lifecycle.is_chosen_by_rollout(group) and (drained or not group.unreachable_since):
        raise Refused("conflict", f"taskgroup {group.name} is being ended already: {group.kill_reason}")
    if not (application.rolling or drained):
        base.refuse_if_busy(ctx, application, "reschedule a taskgroup of")
    version = ctx.state.version(application.key, group.version)
    if version is not None and not group.ended:
        # A running taskgroup is not ended for a replacement that could not be launched.
        injection.refuse_if_missing(ctx.state, version)
    for other in ctx.state.active_of(application.key).values():
        if other.taskgroup == group.id and not other.inner:
            raise Refused(
                "conflict", f"taskgroup {group.name} is being rescheduled already ({named(other.type, other.id)})"
            )
        if other.taskgroup == group.id:
            base.end(ctx, other, "CANCEL", "rescheduled on request instead", 0)
            break
    terms = Terms(
        target=1,
        delay=ctx.options.periods.reschedule_delay,
        note=f"{group.name} on request" + (f", to empty agent {drained}" if drained else ""),
    )
    payload = _payload(ctx, group, host_retain_time, force=True, restarts=group.restarts, drained=drained)
    if unready:
        payload = msgspec.structs.replace(payload, unready=True)
    transaction = base.begin(ctx, RESCHEDULE, application, terms, payload)
    if drained:
        groups.end(ctx, group, "Drained", f"moved away from agent {drained}")
    else:
        groups.end(ctx, group, "Rescheduled")
    return transaction


def evict(ctx: Context, group: TaskGroup, beneficiary: str, queue: str, *, is_paid: bool = False) -> Transaction:
    """Ends a taskgroup for the sake of other work, and begins the search for another place, for as long as after
    a failure. `beneficiary`: key of the application that gets the room; empty: the taskgroup's own queue is above its
    maximum. `queue`: name of the queue that gets the room. `is_paid`: another member of its gang, which ends
    as a whole in the same step, has spent the disruption budget. Raises Refused (not_found, conflict), and changes
    nothing, if the disruption budget or another operation forbids the eviction."""
    application = _movable(ctx, group, "evict", is_paid=is_paid)
    whose = evicted_for(beneficiary, queue, group.namespace) if beneficiary else "the maximum of its queue"
    terms = Terms(
        target=1,
        life=ctx.options.periods.inner_reschedule,
        note=f"eviction of {group.name} for {whose}, by the policy",
    )
    payload = _payload(ctx, group, 0.0, force=True, restarts=group.restarts, beneficiary=beneficiary, queue=queue)
    transaction = base.begin(ctx, RESCHEDULE, application, terms, payload)
    groups.end(ctx, group, "Evicted", f"evicted for {whose}")
    words = f"ended for {whose}; a new one waits for a place"
    ctx.record_event("taskgroup", group.id, "TaskGroupEvicted", words, transaction=transaction.id)
    return transaction


def evicted_for(beneficiary: str, queue: str, namespace: str) -> str:
    """Words for the application and the queue that get the room of a taskgroup in this namespace."""
    named, of = mention("application", [beneficiary], within=namespace), f" (queue {queue})" if queue else ""
    return named + (of if namespace_of(beneficiary) == namespace else private(of))


def rebalance(ctx: Context, group: TaskGroup, target: str, hold: float, goal: str) -> Transaction:
    """Moves a taskgroup to another agent to make agents fewer in use or more even. `target`: host name of the new
    agent, which alone is acceptable for `hold` seconds. `goal`: pack or spread. The search ends after as long as that
    after a failure. Raises Refused (not_found, conflict), and changes nothing, if the disruption budget or another
    operation forbids the move."""
    application = _movable(ctx, group, "rebalance")
    version = ctx.state.version(application.key, group.version)
    if version is not None:
        injection.refuse_if_missing(ctx.state, version)
    terms = Terms(
        target=1,
        life=ctx.options.periods.inner_reschedule,
        note=f"move of {group.name} from {group.hostname} to {target}, to {goal} the cluster",
    )
    payload = ReschedulePayload(
        taskgroup=group.id,
        force=True,
        restarts=group.restarts,
        rebalanced=goal,
        host_retain=target,
        host_retain_until=ctx.now + hold,
    )
    transaction = base.begin(ctx, RESCHEDULE, application, terms, payload)
    groups.end(ctx, group, "Rescheduled", f"moved to {target} to {goal} the cluster")
    words = f"moves from {group.hostname} to {target} to {goal} the cluster"
    ctx.record_event("taskgroup", group.id, "TaskGroupRebalanced", words, transaction=transaction.id)
    return transaction


def _movable(ctx: Context, group: TaskGroup, purpose: disruptions.Purpose, *, is_paid: bool = False) -> Application:
    """The application of a taskgroup that may be ended for the sake of others. `is_paid`: the disruption budget
    does not count. Raises Refused (not_found, conflict)."""
    application = ctx.state.applications.get(group.application_key)
    if application is None:
        raise Refused("not_found", f"application {group.application_key} does not exist")
    judge = disruptions.at(ctx)
    answer = judge.judge(group, purpose)
    if answer.refusal is not None and not (is_paid and answer.refusal in ("Budget", "NoBudget")):
        reason = judge.words(group, answer)
        raise Refused("conflict", f"taskgroup {group.name} stays: {reason}")
    return application


def create_inner(
    ctx: Context, application: Application, group: TaskGroup, version: Version, restart: Restart
) -> Transaction:
    """After a failure, by the restart policy."""
    retain = version.restart_policy.host_retain if group.ended else 0.0
    delay = max(0.0, restart.at - ctx.now)
    terms = Terms(
        target=1, inner=True, delay=delay, note=f"restart of {group.name} in {duration(delay)}: {restart.why}"
    )
    return base.begin(ctx, RESCHEDULE, application, terms, _payload(ctx, group, retain, restarts=restart.restarts))


def _payload(
    ctx: Context,
    group: TaskGroup,
    retain: float,
    *,
    restarts: int,
    force: bool = False,
    drained: str = "",
    beneficiary: str = "",
    queue: str = "",
) -> ReschedulePayload:
    """Makes the payload. `retain`: seconds for which only the host of the taskgroup is acceptable."""
    payload = ReschedulePayload(
        taskgroup=group.id,
        force=force,
        restarts=restarts,
        drained=drained,
        beneficiary=beneficiary,
        beneficiary_queue=queue,
    )
    if retain <= 0:
        return payload
    return msgspec.structs.replace(payload, host_retain=group.hostname, host_retain_until=ctx.now + retain)


class Reschedule(Kind):
    """Replaces one taskgroup. Goes on beside operations on the whole application, and steps back where they replace
    the taskgroup anyway."""

    type = "RESCHEDULE"
    exclusive = False
    in_place = True

    def life(self, periods: Periods, *, inner: bool) -> float:
        """Like `BasicKind.life`; restarts after failures have more time than restarts on request."""
        return periods.inner_reschedule if inner else periods.default

    def settled(self, ctx: Context, transaction: Transaction) -> Verdict | None:
        """Returns the verdict if the transaction has no work left; None while the old taskgroup has to be replaced."""
        application = ctx.application(transaction)
        if application is None:
            return "FAIL", "the application does not exist any more"
        group = ctx.state.taskgroups.get(transaction.taskgroup)
        if group is None:
            return "FINISH", "the taskgroup is gone already"
        owner = ctx.state.transactions.get(application.operation)
        if owner is not None and owner.active and ctx.kind_of(ctx.state, owner).replaces(ctx.state, owner, group):
            return "FINISH", f"{named(owner.type, owner.id)} replaces it"
        if lifecycle.is_chosen_by_rollout(group) or groups.is_surplus(application, group.index):
            return "FINISH", "the taskgroup is no longer wanted"
        if transaction.inner and not (group.ended or group.unreachable_since or group.killing_since):
            return "FINISH", f"{group.name} recovered to {group.status.lower()}"
        return None

    @staticmethod
    def _drop_unwanted(ctx: Context, transaction: Transaction) -> None:
        """Removes the old taskgroup if it has ended and its application became smaller meanwhile: no report follows
        that would have it removed. On request, one that a rolling update has chosen is given up if its agent is
        unreachable."""
        application, group = ctx.application(transaction), ctx.state.taskgroups.get(transaction.taskgroup)
        if application is None or group is None:
            return
        given_up = lifecycle.is_chosen_by_rollout(group) and group.unreachable_since and not transaction.inner
        if given_up or (group.ended and groups.is_surplus(application, group.index)):
            groups.remove(ctx, group, group.kill_reason or "no longer wanted")

    def step(self, ctx: Context, transaction: Transaction) -> Step:
        """Ends the old taskgroup, then asks for a place for the new one."""
        verdict = self.settled(ctx, transaction)
        application = ctx.application(transaction)
        if verdict is not None or application is None:
            self._drop_unwanted(ctx, transaction)
            return Step(verdict=verdict)
        group = ctx.state.taskgroups[transaction.taskgroup]
        if not group.ended and not group.unreachable_since:
            groups.end(ctx, group, "Rescheduled")
            return Step()
        version = ctx.state.version(application.key, group.version)
        if bound_to_agents(application) and not group.ended:
            return Step()  # it may return with its agent, which has room for only one of the two
        if transaction.inner and not group.ended and version is not None:
            # The agent may have returned in between: the wait counts from its latest absence.
            at = lifecycle.replaceable_at(group, version.unreachable_policy)
            if at is None or ctx.now < at:
                return Step(wake_at=at or 0.0)
        return self._wanted(ctx, transaction, application, group)

    def preview(self, ctx: Context, transaction: Transaction) -> tuple[Step, list[TaskGroup]]:
        """Returns the place that the new taskgroup needs, as if the old taskgroup, whose end has begun, had ended."""
        application, group = ctx.application(transaction), ctx.state.taskgroups.get(transaction.taskgroup)
        if application is None or group is None or self.settled(ctx, transaction) is not None:
            return Step(), []
        return self._wanted(ctx, transaction, application, group), []

    @staticmethod
    def _wanted(ctx: Context, transaction: Transaction, application: Application, group: TaskGroup) -> Step:
        """The place of the new taskgroup."""
        version = ctx.state.version(application.key, group.version)
        if bound_to_agents(application):
            agents = frozenset((group.agent_id,))
            return Step(slots=(Slot(group.index, group.id),), version=group.version, per_agent=True, only_agents=agents)
        asked = ReschedulePayload.of(transaction)
        retained = asked.host_retain if ctx.now < asked.host_retain_until else ""
        return Step(
            slots=(Slot(group.index, group.id, moves=group.end_cause in endings.MOVES),),
            version=version.name if version is not None else application.version,
            only_host=retained,
            wake_at=asked.host_retain_until if retained else 0.0,
        )

    def waiting_since(self, transaction: Transaction) -> float:
        """Unix seconds of the end of its delay."""
        return transaction.due_at

    def remember(self, ctx: Context, transaction: Transaction, old: TaskGroup, tasks: tuple[str, ...]) -> None:
        """Records the tasks in the transaction itself, which is written in the same unit anyway."""
        payload = ReschedulePayload.of(transaction)
        payload = msgspec.structs.replace(payload, left_agent=old.agent_id, left_tasks=tasks)
        ctx.uow.put(msgspec.structs.replace(transaction, payload=payload))

    def placed(self, ctx: Context, transaction: Transaction, group: TaskGroup, before: TaskGroup | None) -> Done | None:
        """Writes the replacement with the counts that follow from the taskgroup it replaces, and returns that this
        completes the transaction (never None). A launch after one that did not happen is no restart, and neither is a
        move away from a drained agent, one to rebalance the cluster, or the new place of an evicted taskgroup."""
        how: Literal["restarted", "relaunched"] = "restarted"
        if before is not None and transaction.inner and relaunch.is_due(before):
            how = "relaunched"
            group = relaunch.follow(group, before)
        else:
            asked = ReschedulePayload.of(transaction)
            restarts = asked.restarts + (not (asked.drained or asked.beneficiary or asked.rebalanced))
            group = msgspec.structs.replace(group, restarts=restarts, last_restart_at=ctx.now)
        if before is not None and before.status in FAILED:
            group = msgspec.structs.replace(group, last_failure=before.message[:LAST_FAILURE])
        words = f"{how} on {group.hostname}"
        event_reason: EventReason = "TaskGroupRestarted" if how == "restarted" else "TaskGroupRelaunched"
        ctx.record_event("taskgroup", group.id, event_reason, words, transaction=transaction.id)
        return Done(ctx.uow.put(group), how)

    def left(self, transaction: Transaction) -> OrphanedTask | None:
        """Returns the tasks of the old taskgroup that may still run; None if there are none, or while the transaction
        is active."""
        payload = ReschedulePayload.of(transaction)
        if transaction.active or not payload.left_tasks:
            return None
        return OrphanedTask(
            id=payload.taskgroup, agent_id=payload.left_agent, tasks=payload.left_tasks, since=transaction.finished_at
        )

    def progress(self, state: StateReader, transaction: Transaction) -> Progress:
        """Returns 1 of 1 if the old taskgroup has been replaced or removed, else 0."""
        waiting = transaction.taskgroup in state.taskgroups
        return Progress(int(not waiting), int(waiting))

    def cancelled(self, ctx: Context, transaction: Transaction) -> None:
        """One that a user cancels is not restarted until it has run again."""
        group = ctx.state.taskgroups.get(transaction.taskgroup)
        if transaction.inner and group is not None:
            ctx.uow.put(msgspec.structs.replace(group, held=True))


RESCHEDULE = Reschedule()
