"""Records of earlier versions as the present one understands them: codes take the place of words (store.codes).

A record is upgraded whenever it is loaded, and written in the new form with its next change. Nothing depends on when
that is: the same record always gives the same result. While schedulers of version 0.1 share the store during an
upgrade, one of them may change the words of a record and keep the codes, which it does not know. So words that are
known decide, and the code stands where they say nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from store.codes import DrainPhase, EndCause
from store.reasons import REASONS, present_name
from store.records import AgentSetting, Note, Task, TaskGroup, Transaction, UpdatePayload
from store.records.objects import Event, EventLog
from store.records.record import Record
from store.records.transactions import PAYLOADS
from store.records.workloads import Deployment

_ENDED: Mapping[str, EndCause] = {
    "a task of it has ended": "TaskEnded",
    "replaced by a new version": "NewVersion",
    "removed by a rolling update": "RollingUpdate",
    "application deleted": "Deleted",
    "rescheduled": "Rescheduled",
    "rescheduled on request": "Rescheduled",
    "its agent is not for it any more": "Misplaced",
}
"""Kill reasons of version 0.1."""
_UNFETCHED = "REASON_CONTAINER_LAUNCH_FAILED"
"""Reason of a task whose executor could not be started, as version 0.1 stored it."""
_ENDED_FOR: Mapping[str, EndCause] = {"scaled down to ": "ScaledDown", "moved away from agent ": "Drained"}
"""Beginnings of the texts that continue with a number or a name."""
_DRAIN_BEGINS = "begins"
"""Message of a drain that has not been looked at."""
_STANDS_STILL = "stands still"
"""A text in the history of the update of a daemonset that made no progress."""
_PAYLOAD_FIELDS = frozenset(f"/{field}" for payload in PAYLOADS.values() for field in payload.__struct_fields__)
"""Paths of the fields that transactions of some kind have."""
_GOING_BACK = "going back to revision {}: "
"""Beginning of the message of an update that is undone; the cause follows."""


def _taskgroup(group: TaskGroup) -> TaskGroup:
    if any(task.reason == _UNFETCHED and not task.unfetched for task in group.tasks):
        group = msgspec.structs.replace(group, tasks=tuple(map(_task, group.tasks)))
    words = group.kill_reason
    if not words:
        return group
    known = _ENDED.get(words)
    if known is None:
        known = next((cause for begin, cause in _ENDED_FOR.items() if words.startswith(begin)), group.end_cause)
    return group if known == group.end_cause else msgspec.structs.replace(group, end_cause=known)


def _task(task: Task) -> Task:
    return msgspec.structs.replace(task, unfetched=True) if task.reason == _UNFETCHED else task


def _setting(setting: AgentSetting) -> AgentSetting:
    drain = setting.drain
    if drain is None:
        return setting
    phase: DrainPhase = "Moving"
    if drain.done_at:
        phase = "Failed" if drain.failed else "Done"
    elif drain.message == _DRAIN_BEGINS:
        phase = "Pending"
    if phase == drain.phase:
        return setting
    return msgspec.structs.replace(setting, drain=msgspec.structs.replace(drain, phase=phase))


def _transaction(transaction: Transaction) -> Transaction:
    """Marks the history of a stuck update. Only the update of a daemonset, which the scheduler itself begins, can be
    stuck."""
    if transaction.extra:
        transaction = _without_foreign_fields(transaction)
    if not transaction.inner or not isinstance(transaction.payload, UpdatePayload):
        return transaction
    history = tuple(map(_note, transaction.history))
    return transaction if history == transaction.history else msgspec.structs.replace(transaction, history=history)


def _without_foreign_fields(transaction: Transaction) -> Transaction:
    """Earlier versions write a field of one kind for all kinds, with a value that says nothing."""
    left = {path: value for path, value in transaction.extra.items() if value or path not in _PAYLOAD_FIELDS}
    return transaction if len(left) == len(transaction.extra) else msgspec.structs.replace(transaction, extra=left)


def _note(note: Note) -> Note:
    return msgspec.structs.replace(note, code="Stuck") if not note.code and _STANDS_STILL in note.text else note


def _deployment(deployment: Deployment) -> Deployment:
    begin = _GOING_BACK.format(deployment.previous)
    if not deployment.rolling_back or deployment.rollback_reason or not deployment.message.startswith(begin):
        return deployment
    return msgspec.structs.replace(deployment, rollback_reason=deployment.message.removeprefix(begin))


def _event_log(event_log: EventLog) -> EventLog:
    events = tuple(map(_event, event_log.events))
    return event_log if events == event_log.events else msgspec.structs.replace(event_log, events=events)


def _event(event: Event) -> Event:
    if event.reason in REASONS:
        return event
    reason = present_name(event.object, event.reason)
    return event if reason == event.reason else msgspec.structs.replace(event, reason=reason)


_UPGRADES: Mapping[str, Callable[[Any], Record]] = {
    TaskGroup.kind: _taskgroup,
    AgentSetting.kind: _setting,
    Transaction.kind: _transaction,
    Deployment.kind: _deployment,
    EventLog.kind: _event_log,
}


def upgraded(record: Record) -> Record:
    """The record in the form of the present version; the same object if it has that already."""
    upgrade = _UPGRADES.get(record.kind)
    return record if upgrade is None else upgrade(record)
