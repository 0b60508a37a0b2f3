"""The times in records: which fields hold them, the newest one of a record, and how they are moved.

All of them are Unix seconds of the scheduler's own clock (bcs_scheduler.loop.clock). Times that executors report by
clocks of their own (`Task.started_at`, `Task.finished_at`) are not among them, and no decision may depend on these.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from operator import attrgetter
from typing import Any

import msgspec

from store.records.record import Record

PAST: Mapping[str, tuple[str, ...]] = {
    "Framework": ("created_at", "seen_at", "losses_accepted_at"),
    "LossHalt": ("since",),
    "UnknownHalt": ("since",),
    "Application": ("created_at", "updated_at"),
    "Version": ("created_at",),
    "OrphanedTask": ("since",),
    "FailedOutput": ("at",),
    "TaskGroup": (
        "created_at",
        "updated_at",
        "killing_since",
        "last_restart_at",
        "unreachable_since",
        "running_since",
        "ended_at",
    ),
    "Task": ("updated_at", "status_since"),
    "CheckResult": ("updated_at",),
    "Transaction": ("created_at", "finished_at"),
    "Note": ("at",),
    "Drain": ("since", "done_at"),
    "ConfigMap": ("created_at", "updated_at"),
    "Secret": ("created_at", "updated_at"),
    "Command": ("created_at",),
    "Message": ("created_at", "completed_at"),
    "Deployment": ("created_at", "updated_at", "step_since", "rested_at", "progress_at"),
    "Revision": ("created_at",),
    "Daemonset": ("created_at", "updated_at"),
    "Service": ("created_at", "updated_at"),
    "Endpoint": ("created_at", "updated_at"),
    "Namespace": ("created_at", "updated_at"),
    "Queue": ("created_at", "updated_at"),
    "QueueTree": ("created_at", "updated_at"),
    "QueueHalt": ("since",),
    "PodGroup": ("created_at", "updated_at"),
    "PriorityClass": ("created_at", "updated_at"),
    "ManagedApplication": ("created_at", "timer", "completing", "ended"),
    "ManagedTask": ("created_at",),
    "Placeholder": ("created_at",),
    "StateChange": ("at",),
    "Webhook": ("created_at", "updated_at"),
    "CustomKind": ("created_at",),
    "CustomObject": ("created_at", "updated_at"),
    "Event": ("at",),
}
"""Fields, by struct, with the moment of something that has happened; 0.0 = it has not."""
COMING: Mapping[str, tuple[str, ...]] = {
    "Transaction": ("due_at", "deadline"),
    "ReschedulePayload": ("host_retain_until",),
    "Drain": ("deadline",),
    "Command": ("deadline", "keep_until"),
}
"""Fields, by struct, with a moment that may lie ahead; 0.0 = none."""
FOREIGN: Mapping[str, tuple[str, ...]] = {"Task": ("started_at", "finished_at")}
"""Fields, by struct, with times of other clocks."""
PARTS: Mapping[str, tuple[str, ...]] = {
    "Framework": ("halt", "unknown"),
    "TaskGroup": ("tasks",),
    "Task": ("checks",),
    "Transaction": ("history", "payload"),
    "AgentSetting": ("drain",),
    "EventLog": ("events",),
    "Revision": ("version",),
    "ManagedApplication": ("core_history", "history", "task_groups"),
    "ManagedTask": ("history", "version"),
    "MemberGroup": ("terms",),
    "Placeholder": ("history",),
    "QueueTree": ("halts",),
}
"""Fields, by struct, with structs that hold times."""

_SEVERAL: Mapping[str, Callable[[Any], tuple[float, ...]]] = {
    name: attrgetter(*fields) for name, fields in PAST.items() if name != "TaskGroup" and len(fields) > 1
}
_SINGLE: Mapping[str, Callable[[Any], float]] = {
    name: attrgetter(*fields) for name, fields in PAST.items() if len(fields) == 1
}
_HISTORIES: Mapping[str, tuple[str, ...]] = {
    "ManagedApplication": ("core_history", "history"),
    "ManagedTask": ("history",),
    "Placeholder": ("history",),
}
"""Fields, by struct, with changes of state in the order of their times, which no other field of the record covers."""


def newest(record: Record) -> float:
    """The newest time in the record (Unix seconds); 0.0 if it holds none. Cheap, because it is called for every change
    of a record."""
    name = type(record).__name__
    if name == "TaskGroup":  # `updated_at` is at least as new as all other times except `killing_since`
        updated_at: float = record.updated_at  # type: ignore[attr-defined]
        killing_since: float = record.killing_since  # type: ignore[attr-defined]
        return killing_since if killing_since > updated_at else updated_at
    if (single := _SINGLE.get(name)) is not None:
        latest = single(record)
    elif (several := _SEVERAL.get(name)) is not None:
        latest = max(several(record))
    elif name == "EventLog":
        events = record.events  # type: ignore[attr-defined]
        return float(events[-1].at) if events else 0.0
    else:
        drain = getattr(record, "drain", None)
        return max(drain.since, drain.done_at) if drain is not None else 0.0
    for field in _HISTORIES.get(name, ()):
        if changes := getattr(record, field):
            latest = max(latest, changes[-1].at)
    return latest


def moved_back(record: Any, beyond: float, seconds: float) -> Any:
    """The record (or part of one) with each time later than `beyond` reduced by `seconds`; the same object if it has
    none. A deadline keeps its distance from the moment that set it if both are beyond."""
    name = type(record).__name__
    changes: dict[str, Any] = {}
    for field in (*PAST.get(name, ()), *COMING.get(name, ())):
        at = getattr(record, field)
        if at > beyond:
            changes[field] = max(0.0, at - seconds)
    for field in PARTS.get(name, ()):
        part = getattr(record, field)
        if isinstance(part, tuple):
            parts = tuple([moved_back(one, beyond, seconds) for one in part])
            if any(now is not was for now, was in zip(parts, part, strict=True)):
                changes[field] = parts
        elif part is not None and (moved := moved_back(part, beyond, seconds)) is not part:
            changes[field] = moved
    return msgspec.structs.replace(record, **changes) if changes else record
