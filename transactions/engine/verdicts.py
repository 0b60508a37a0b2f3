"""Records of the end of a transaction, and of a transaction that waits for configuration."""

from __future__ import annotations

import msgspec

from store.reasons import EventReason
from store.records import Transaction, TransactionStatus
from transactions import base, explain
from transactions.base import Context
from transactions.engine import self_healing
from transactions.kinds.registry import progress


def end(
    ctx: Context,
    transaction: Transaction,
    status: TransactionStatus,
    message: str,
    *,
    event_reason: EventReason | None = None,
) -> Transaction:
    """Writes the verdict and ends the transaction's ownership of the application. Changes records only, so a plan
    may undo it. `event_reason`: as in transactions.base.end, also for None."""
    current = ctx.state.transactions.get(transaction.id, transaction)
    ended = base.end(ctx, current, status, message, progress(ctx.state, current).done, event_reason=event_reason)
    application = ctx.application(transaction)
    if application is None or application.operation != transaction.id:
        return ended
    computed, words = self_healing.computed_status(ctx, application)
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


def record_waiting(ctx: Context, transaction: Transaction, missing: tuple[str, ...]) -> None:
    """Records that the transaction waits for missing configuration (names of configmaps, secrets and their items).
    Changes of these objects cause another step."""
    words = explain.waiting(missing)
    if transaction.history and transaction.history[-1].text == words:
        return
    base.note(ctx, transaction, words)
    ctx.record_event("transaction", transaction.id, "TransactionWaiting", words)
    application = ctx.application(transaction)
    if application is not None and application.operation == transaction.id:
        ctx.uow.put(msgspec.structs.replace(application, message=words))
