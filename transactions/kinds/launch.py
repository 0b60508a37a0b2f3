"""LAUNCH: the first taskgroups of a new application. Ends when every index has been placed (status Deploying then)."""

from __future__ import annotations

from typing import ClassVar, Literal

import msgspec

from store.records import Application, TaskGroup, Transaction, TransactionKind, Version
from store.state.reader import StateReader
from transactions import base, injection, resource_request
from transactions.base import Context, Periods, Progress, Refused, Slot, Step, Terms
from transactions.kinds.kind import Kind, filled, limit_to_existing
from transactions.text import counted


def create(
    ctx: Context, version: Version, kind: str, user: str = "", user_groups: tuple[str, ...] = ()
) -> tuple[Application, Transaction]:
    """Writes application, version and transaction in one unit. `version` has no name yet. `kind`: the kind of the
    document. `user`, `user_groups`: as in the record of the application. Raises Refused (exists, invalid)."""
    key = version.application_key
    if key in ctx.state.applications:
        raise Refused("exists", f"application {key} exists already", "$.metadata.name")
    injection.refuse_if_missing(ctx.state, version)
    resource_request.refuse_too_few_addresses(version, version.instances)
    version = msgspec.structs.replace(version, name=str(ctx.ids.next(ctx.now)), created_at=ctx.now)
    application = Application(
        namespace=version.namespace,
        name=version.application,
        type="process" if kind == "process" else type_of(version),
        labels=version.labels,
        annotations=version.annotations,
        instances=version.instances,
        version=version.name,
        user=user,
        user_groups=user_groups,
        created_at=ctx.now,
    )
    terms = Terms(target=version.instances, version=version.name, waves=0, note="application in launching")
    transaction = base.begin(ctx, LAUNCH, application, terms)
    ctx.uow.put(version)
    return ctx.uow.put(base.mark_operating(ctx, application, transaction, "application in launching")), transaction


def type_of(version: Version) -> Literal["application", "process"]:
    """The type of an application with this definition, by its tasks."""
    return "process" if any(container.process is not None for container in version.containers) else "application"


def missing_slots(ctx: Context, application: Application, target: int) -> tuple[Slot, ...]:
    """Indexes below `target` that no taskgroup holds, lowest first."""
    taken = ctx.state.indexes_of(application.key)
    if len(taken) >= target and all(index in taken for index in range(target)):
        return ()
    return tuple(Slot(index) for index in range(target) if index not in taken)


class Launch(Kind):
    """Fills the indexes of a new application. Changes of a taskgroup that keeps its index do not concern the launch, so
    large launches take no step for each status report."""

    type: ClassVar[TransactionKind] = "LAUNCH"
    can_be_superseded = True
    sizes = True
    reserves = True
    only_removals_matter = True

    def life(self, periods: Periods, *, inner: bool) -> float:
        """Like `BasicKind.life`."""
        return periods.launch

    def step(self, ctx: Context, transaction: Transaction) -> Step:
        """Asks for the indexes below the target that are free; FINISH if there is none."""
        application = ctx.application(transaction)
        if application is None:
            return Step(verdict=("FAIL", "the application does not exist any more"))
        missing = missing_slots(ctx, application, transaction.target)
        if not missing:
            return Step(verdict=("FINISH", f"{counted(transaction.target, 'taskgroup')} launched"))
        return Step(slots=missing, version=transaction.version)

    def concerns(self, ctx: Context, transaction: Transaction, group: TaskGroup | None) -> bool:
        """Like `Kind.concerns`: True only for taskgroups that are gone, because a taskgroup that keeps its index
        changes nothing for a launch."""
        application = ctx.application(transaction)
        return group is None or application is None or bool(application.rolling)

    def progress(self, state: StateReader, transaction: Transaction) -> Progress:
        """Indexes below the target that are taken."""
        return filled(state, transaction)

    def cancelled(self, ctx: Context, transaction: Transaction) -> None:
        """The application keeps the taskgroups that are there."""
        limit_to_existing(ctx, transaction)


LAUNCH = Launch()
