"""The kinds of transactions, and which step each of them takes."""

from __future__ import annotations

from store.records import TaskGroup, Transaction
from transactions import daemons, delete, launch, reschedule, scale, update
from transactions.base import Context, Step

STEPS = {
    "LAUNCH": launch.step,
    "SCALE": scale.step,
    "INNERSCALE": scale.step,
    "UPDATE": update.step,
    "RESCHEDULE": reschedule.step,
    "DELETE": delete.step,
}
DAEMON_STEPS = {**STEPS, "LAUNCH": daemons.launch_step, "UPDATE": daemons.update_step}


def look(ctx: Context, transaction: Transaction) -> Step:
    """What the transaction wants now, or its verdict."""
    application = ctx.application(transaction)
    steps = DAEMON_STEPS if application is not None and daemons.is_daemonset(application) else STEPS
    return steps[transaction.type](ctx, transaction)


def prospect(ctx: Context, transaction: Transaction) -> tuple[Step, list[TaskGroup]]:
    """For a plan: what the first look at a transaction would find, and the taskgroups that this look would end. Nothing
    is changed, except by the look at a RESCHEDULE, which concerns one taskgroup."""
    application = ctx.application(transaction)
    match transaction.type:
        case "SCALE" | "INNERSCALE" if application is not None and not (transaction.victims or application.rolling):
            return scale.prospect(ctx, transaction)
        case "DELETE":
            return delete.prospect(ctx, transaction)
        case "UPDATE" if application is not None and daemons.is_daemonset(application):
            return daemons.update_prospect(ctx, transaction)
        case "UPDATE":
            return update.prospect(ctx, transaction)
    return look(ctx, transaction), []


def concerns(ctx: Context, transaction: Transaction, group: TaskGroup | None) -> bool:
    """Whether the change of a taskgroup of its application (None: the taskgroup is gone) may change what the
    transaction wants. LAUNCH and SCALE fill indexes: what happens to a taskgroup that keeps its index does not concern
    them, so large launches are not looked at for each status report. A DELETE is looked at when the last is gone, a
    SCALE downwards when there are no more taskgroups than it wants."""
    application = ctx.application(transaction)
    if transaction.type == "DELETE":  # those that end are removed one by one: delete.ended
        return application is None or not ctx.state.groups_of(application.key)
    if transaction.victims:
        return True
    if application is None or application.rolling or daemons.is_daemonset(application):
        return True
    if transaction.type in ("SCALE", "INNERSCALE"):
        beyond = group is None or group.index >= transaction.target
        return beyond and len(ctx.state.groups_of(application.key)) <= transaction.target
    return group is None or transaction.type != "LAUNCH"
