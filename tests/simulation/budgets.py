"""The disruption budget of an application, said once more from the records alone (I23, I41, I60)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from store.records import (
    Application,
    Deployment,
    Record,
    RollingPayload,
    TaskGroup,
    Transaction,
    UpdatePayload,
    Version,
)
from tests.simulation.readiness import is_ready, ready

Records = Mapping[tuple[str, str], Record]
LONG = 60.0
"""Seconds of waiting for room after which a place counts no more."""


class Budget(NamedTuple):
    """Ready taskgroups, those that must stay so, and the places that count."""

    ready: int
    least: int
    places: int


def counts(application: Application, group: Record) -> bool:
    """A finished taskgroup is no disruption, except of deployments and daemonsets."""
    return (is_ready if application.deployment or application.type == "daemonset" else ready)(group)


def budget(records: Records, application: Application, now: float) -> Budget:
    """`now`: Unix seconds by the clock of the term that decides."""
    owner = records.get(("deployment", f"{application.namespace}/{application.deployment}"))
    active = [t for t in records.values() if isinstance(t, Transaction) and t.active and not t.waiting]
    if isinstance(owner, Deployment) and owner.successor:
        sides = [owner.application, owner.successor, *owner.retiring]
        keys = [f"{owner.namespace}/{name}" for name in sides]
        wanted, bound = owner.instances, owner.strategy.max_unavailable
    else:
        keys, wanted = [application.key], application.instances
        bound = _bound(records, application, active)
        if isinstance(owner, Deployment):
            bound = owner.strategy.max_unavailable
            if owner.status == "Running" and not application.rolling:
                wanted = min(wanted, owner.instances)
    members = [g for g in records.values() if isinstance(g, TaskGroup) and g.application_key in keys]
    active = [t for t in active if t.application_key in keys]
    there = [g for g in members if not (g.ended and _waits_long(g, active, now))]
    places = min(wanted, len(there))
    if len(keys) > 1:
        assert isinstance(owner, Deployment)
        adding = [t for t in active if isinstance(t.payload, RollingPayload) and not t.payload.victims]
        halted = owner.status in ("UpdatePaused", "UpdateSuspend")
        if not halted and not any(now >= t.due_at + LONG for t in adding):
            places = wanted
    serving = sum(counts(application, g) for g in members)
    version = records.get(("version", f"{application.key}/{application.version}"))
    gang = isinstance(version, Version) and len(keys) == 1 and serving < version.min_available > 1
    return Budget(serving, 0 if gang else max(0, places - bound), places)


def _bound(records: Records, application: Application, active: list[Transaction]) -> int:
    for one in active:
        if one.application_key == application.key and isinstance(one.payload, UpdatePayload):
            return one.payload.max_unavailable
    version = records.get(("version", f"{application.key}/{application.version}"))
    written = version.max_unavailable if isinstance(version, Version) else 0
    return written or max(1, application.instances // 4)


def _waits_long(group: TaskGroup, active: list[Transaction], now: float) -> bool:
    for one in active:
        updates = isinstance(one.payload, UpdatePayload) and one.version != group.version
        mine = one.taskgroup == group.id or (updates and one.application_key == group.application_key)
        if mine and now >= max(one.due_at, group.ended_at) + LONG:
            return True
    return False
