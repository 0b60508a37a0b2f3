"""LAUNCH: the first taskgroups of a new application. Ends when every index has been placed (status Deploying then)."""

from __future__ import annotations

from typing import Literal

import msgspec

from store.records import Application, Transaction, Version
from transactions import base, injection
from transactions.base import Context, Refused, Slot, Step


def create(ctx: Context, version: Version, kind: str) -> tuple[Application, Transaction]:
    """Writes application, version and transaction in one unit. `version` comes without a name."""
    key = f"{version.namespace}/{version.application}"
    if key in ctx.state.applications:
        raise Refused("exists", f"application {key} exists already", "$.metadata.name")
    injection.refuse_if_missing(ctx.state, version)
    version = msgspec.structs.replace(version, name=str(ctx.ids.next(ctx.now)), created_at=ctx.now)
    application = Application(
        namespace=version.namespace,
        name=version.application,
        type="process" if kind == "process" else type_of(version),
        labels=version.labels,
        annotations=version.annotations,
        instances=version.instances,
        version=version.name,
        created_at=ctx.now,
    )
    transaction = base.begin(
        ctx, "LAUNCH", application, target=version.instances, version=version.name, note="application in launching"
    )
    ctx.uow.put(version)
    return ctx.uow.put(base.own(ctx, application, transaction, "application in launching")), transaction


def type_of(version: Version) -> Literal["application", "process"]:
    return "process" if any(container.process is not None for container in version.containers) else "application"


def step(ctx: Context, transaction: Transaction) -> Step:
    application = ctx.application(transaction)
    if application is None:
        return Step(verdict=("FAIL", "the application is gone"))
    missing = missing_slots(ctx, application, transaction.target)
    if not missing:
        return Step(verdict=("FINISH", f"{transaction.target} taskgroups launched"))
    return Step(slots=missing, version=transaction.version)


def missing_slots(ctx: Context, application: Application, target: int) -> tuple[Slot, ...]:
    """Indexes below `target` that no taskgroup holds, lowest first."""
    taken = ctx.state.indexes_of(application.key)
    if len(taken) >= target and all(index in taken for index in range(target)):
        return ()
    return tuple(Slot(index) for index in range(target) if index not in taken)
