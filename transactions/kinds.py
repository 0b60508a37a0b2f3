"""The kinds of transactions, and which step each of them takes."""

from __future__ import annotations

from store.records import Transaction
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
