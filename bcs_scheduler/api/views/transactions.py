"""Transactions as users see them (bcs_api 7.7, and what a durable, time-boxed one adds), and how far they are."""

from __future__ import annotations

from typing import Any

import msgspec

from bcs_scheduler.api.views.base import rfc3339
from store.records import Transaction, TransactionKind
from store.state import State
from transactions.progress import Progress, progress

NANOSECOND = 1e-9
_OP_TYPE: dict[TransactionKind, str] = {"INNERSCALE": "OPERATION_INNERSCALE"}
_OP_KEY: dict[TransactionKind, str] = {
    "LAUNCH": "opLaunchData",
    "SCALE": "opScaleData",
    "INNERSCALE": "opScaleData",
    "UPDATE": "opUpdateData",
    "RESCHEDULE": "opRescheduleData",
    "DELETE": "opDeleteData",
}


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
    cause: str
    history: list[HistoryView]


def show_transaction(state: State, transaction: Transaction) -> TransactionView:
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
        cause=transaction.cause,
        history=[HistoryView(at=rfc3339(note.at), text=note.text) for note in transaction.history],
    )


def order(transaction: Transaction) -> tuple[str | int, ...]:
    """By namespace, then age: ids end in the time of creation."""
    return transaction.namespace, int(transaction.created_at * 1000), transaction.id


def _operation(transaction: Transaction, reached: Progress) -> dict[str, Any]:
    """`curOp` with the data the original shows for this kind."""
    data: dict[str, Any] = {}
    match transaction.type:
        case "DELETE":
            data = {"enforce": transaction.enforce}
        case "RESCHEDULE":
            data = {
                "taskgroupID": transaction.taskgroup,
                "force": transaction.force,
                "isInner": transaction.inner,
                "hostRetain": transaction.host_retain,
                "hostRetainTime": max(0, round(transaction.host_retain_until - transaction.created_at)),
            }
        case "UPDATE":
            data = {"version": transaction.version, "instances": transaction.target, "lauchedNum": reached.done}
        case "LAUNCH":
            data = {"version": transaction.version, "lauchedNum": reached.done}
        case "SCALE" | "INNERSCALE":
            data = {
                "version": transaction.version,
                "instances": transaction.target,
                "isInner": transaction.inner or transaction.type == "INNERSCALE",
                "lauchedNum": reached.done,
            }
    return {"opType": _OP_TYPE.get(transaction.type, transaction.type), _OP_KEY[transaction.type]: data}


def _time(moment: float) -> str:
    return rfc3339(moment) if moment > 0 else ""
