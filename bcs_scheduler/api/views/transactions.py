"""Transactions as users see them (docs/original.md#transaction-view, and the fields that a durable transaction
with a deadline adds), and their progress."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import msgspec

from bcs_scheduler.wire.times import rfc3339
from store.records import DeletePayload, ReschedulePayload, RollingPayload, Transaction, TransactionKind
from store.state.reader import StateReader
from transactions.base import Progress
from transactions.kinds.registry import progress

NANOSECOND = 1e-9


class HistoryView(msgspec.Struct, frozen=True, kw_only=True):
    at: str
    text: str


class TransactionView(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """`checkInterval` and `delayTime` are nanoseconds, as in the original. Ours: from `type` on.

    `progress` of `target` taskgroups are as the operation wants them, `remaining` are still to be changed. Times not
    reached yet are empty.
    """

    transaction_id: str = msgspec.field(name="transactionID")
    object_kind: str = "application"
    object_name: str
    namespace: str
    status: str
    message: str
    create_time: str
    check_interval: int = 1_000_000_000
    delay_time: int
    child_transaction_id: str = msgspec.field(name="childTransactionID", default="")
    cur_op: dict[str, Any]
    type: str
    target: int
    progress: int
    remaining: int
    version: str
    taskgroup: str
    inner: bool
    due_time: str
    deadline: str
    finish_time: str
    queue_position: int
    """Position of a transaction of status QUEUED: 1 if it is the next; else 0."""
    cause: str
    history: list[HistoryView]


def show_transaction(state: StateReader, transaction: Transaction) -> TransactionView:
    reached = progress(state, transaction)
    return TransactionView(
        transaction_id=transaction.id,
        object_name=transaction.application,
        namespace=transaction.namespace,
        status=transaction.status,
        message=transaction.message,
        create_time=rfc3339(transaction.created_at),
        delay_time=round((transaction.due_at - transaction.created_at) / NANOSECOND),
        cur_op=_operation(transaction, reached),
        type=transaction.type,
        target=transaction.target,
        progress=reached.done,
        remaining=reached.remaining,
        version=transaction.version,
        taskgroup=transaction.taskgroup,
        inner=transaction.inner,
        due_time=_time(transaction.due_at),
        deadline=_time(transaction.deadline),
        finish_time=_time(transaction.finished_at),
        queue_position=_position(state, transaction),
        cause=transaction.cause,
        history=[HistoryView(at=rfc3339(note.at), text=note.text) for note in transaction.history],
    )


def order(transaction: Transaction) -> tuple[str | int, ...]:
    """Order by namespace, then age: ids end in the time of creation."""
    return transaction.namespace, int(transaction.created_at * 1000), transaction.id


def _operation(transaction: Transaction, reached: Progress) -> dict[str, Any]:
    """`curOp` with the data the original shows for this kind."""
    name, key, data = _OPERATIONS.get(transaction.type) or _Operation(transaction.type, "opData", _sized)
    return {"opType": name, key: data(transaction, reached)}


def _launched(transaction: Transaction, reached: Progress) -> dict[str, Any]:
    return {"version": transaction.version, "lauchedNum": reached.done}


def _sized(transaction: Transaction, reached: Progress) -> dict[str, Any]:
    return {"version": transaction.version, "instances": transaction.target, "lauchedNum": reached.done}


def _scaled(transaction: Transaction, reached: Progress) -> dict[str, Any]:
    inner = transaction.inner or isinstance(transaction.payload, RollingPayload)
    return {
        "version": transaction.version,
        "instances": transaction.target,
        "isInner": inner,
        "lauchedNum": reached.done,
    }


def _rescheduled(transaction: Transaction, reached: Progress) -> dict[str, Any]:
    asked = ReschedulePayload.of(transaction)
    return {
        "taskgroupID": asked.taskgroup,
        "force": asked.force,
        "isInner": transaction.inner,
        "hostRetain": asked.host_retain,
        "hostRetainTime": max(0, round(asked.host_retain_until - transaction.created_at)),
    }


def _deleted(transaction: Transaction, reached: Progress) -> dict[str, Any]:
    return {"enforce": DeletePayload.of(transaction).enforce}


class _Operation(NamedTuple):
    """Form of a kind in the original: its name, the key of its data, and the data."""

    name: str
    key: str
    data: Callable[[Transaction, Progress], dict[str, Any]]


_OPERATIONS: Mapping[TransactionKind, _Operation] = {
    "LAUNCH": _Operation("LAUNCH", "opLaunchData", _launched),
    "SCALE": _Operation("SCALE", "opScaleData", _scaled),
    "INNERSCALE": _Operation("OPERATION_INNERSCALE", "opScaleData", _scaled),
    "UPDATE": _Operation("UPDATE", "opUpdateData", _sized),
    "RESCHEDULE": _Operation("RESCHEDULE", "opRescheduleData", _rescheduled),
    "DELETE": _Operation("DELETE", "opDeleteData", _deleted),
    "FILL": _Operation("FILL", "opScaleData", _scaled),
}
"""Kinds that the original has; others are shown as `opData`."""


class QueuedView(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A request that waits for its turn. `position` 1: it is the next."""

    transaction_id: str = msgspec.field(name="transactionID")
    type: str
    target: int
    position: int
    create_time: str
    deadline: str


def show_queue(state: StateReader, kind: str, key: str) -> list[QueuedView] | msgspec.UnsetType:
    """The requests that wait for an application or deployment, the next one first; unset if there is none."""
    waiting = list(state.queued_of(kind, key).values())
    if not waiting:
        return msgspec.UNSET
    return [
        QueuedView(
            transaction_id=transaction.id,
            type=transaction.type,
            target=transaction.target,
            position=position,
            create_time=rfc3339(transaction.created_at),
            deadline=rfc3339(transaction.deadline),
        )
        for position, transaction in enumerate(waiting, 1)
    ]


def _position(state: StateReader, transaction: Transaction) -> int:
    if not transaction.waiting:
        return 0
    waiting = list(state.queued_of(*transaction.queue.split(" ", 1)))
    return waiting.index(transaction.id) + 1 if transaction.id in waiting else 0


def _time(moment: float) -> str:
    return rfc3339(moment) if moment > 0 else ""
