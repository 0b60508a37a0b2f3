"""DELETE: end every taskgroup, then forget the kept outputs, the versions and the application. Enforced, it does not
wait for the ends."""

from __future__ import annotations

import msgspec

from store.advice import advise
from store.records import Application, DeletePayload, TaskGroup, Transaction
from store.state.reader import StateReader
from transactions import base, groups
from transactions.base import Context, Periods, Progress, Step, Terms
from transactions.kinds.kind import NAMED, Kind
from transactions.rules import endings
from transactions.text import counted, have


def create(ctx: Context, application: Application, *, enforce: bool, inner: bool = False) -> Transaction:
    """Writes the transaction. Other operations of the application are cancelled: nothing they do matters any more. A
    DELETE that runs already is kept, or sharpened to an enforced one."""
    for other in sorted(ctx.state.active_of(application.key).values(), key=lambda t: t.id):
        if isinstance(other.payload, DeletePayload) and other.payload.enforce >= enforce:
            return other
        base.end(ctx, other, "CANCEL", "the application is deleted", 0)
    terms = Terms(
        target=len(ctx.state.groups_of(application.key)),
        inner=inner,
        note="application in deleting" + (", enforced" if enforce else ""),
    )
    transaction = base.begin(ctx, DELETE, application, terms, DeletePayload(enforce=enforce))
    # No taskgroup of it is wanted any more, so those that end later are not restarted, even after a timeout.
    unwanted = msgspec.structs.replace(application, instances=0)
    ctx.uow.put(base.mark_operating(ctx, unwanted, transaction, "application in deleting"))
    return transaction


class Delete(Kind):
    """Looked at when the last taskgroup is gone: those that end before are removed one by one (`handles`)."""

    type = "DELETE"
    deletes = True

    def life(self, periods: Periods, *, inner: bool) -> float:
        """Like `BasicKind.life`."""
        return periods.delete

    def step(self, ctx: Context, transaction: Transaction) -> Step:
        """Ends all taskgroups, removes those that have ended, and finishes when none is left. With `enforce`,
        taskgroups on unreachable agents are removed at once. The outputs are removed before the application, so a later
        application of the same name has none of them; a deployment that stays keeps those of its application."""
        application, enforce = ctx.application(transaction), DeletePayload.of(transaction).enforce
        if application is None:
            return Step(verdict=("FINISH", "the application is gone"))
        for group in list(ctx.state.groups_of(application.key).values()):
            if group.killing_since and not (group.ended or enforce):
                continue
            if not group.ended:
                group = groups.end(ctx, group, "Deleted")
            if group.ended or enforce:
                groups.remove(ctx, group, endings.describe("Deleted"))
            ctx.checkpoint()
            if ctx.time_is_up():
                return Step(unfinished=True)
        if ctx.state.groups_of(application.key):
            return Step()
        for task in list(ctx.state.indexes.outputs_of(application.key)):
            output = ctx.state.outputs[task]
            deployment = ctx.state.deployments.get(output.owner[1]) if output.deployment else None
            if deployment is not None and deployment.status != "Deleting":
                continue
            ctx.uow.delete(output)
            ctx.checkpoint()
            if ctx.time_is_up():
                return Step(unfinished=True)
        for version in list(ctx.state.versions_of(application.key).values()):
            ctx.uow.delete(version)
        ctx.uow.delete(application)
        ctx.record_event("application", application.key, "ApplicationDeleted", "all taskgroups have ended")
        return Step(verdict=("FINISH", "application deleted"))

    def preview(self, ctx: Context, transaction: Transaction) -> tuple[Step, list[TaskGroup]]:
        """Ends every taskgroup that is not being ended already."""
        members = ctx.state.groups_of(transaction.application_key).values()
        return Step(), [group for group in members if not (group.ended or group.killing_since)]

    def concerns(self, ctx: Context, transaction: Transaction, group: TaskGroup | None) -> bool:
        """Like `Kind.concerns`: True only for the end of the last taskgroup, because the others are removed one by
        one."""
        application = ctx.application(transaction)
        return application is None or not ctx.state.groups_of(application.key)

    def handles(self, ctx: Context, transaction: Transaction, application: Application, group: TaskGroup) -> bool:
        """Removes a taskgroup that has ended. Always True."""
        if group.ended:
            groups.remove(ctx, group, endings.describe("Deleted"))
        return True

    def ends(self, state: StateReader, transaction: Transaction, group: TaskGroup) -> bool:
        """Always True."""
        return True

    def progress(self, state: StateReader, transaction: Transaction) -> Progress:
        """Taskgroups that are gone."""
        left = len(state.groups_of(transaction.application_key))
        return Progress(max(0, transaction.target - left), left)

    def late(self, ctx: Context, transaction: Transaction) -> str:
        """Describes the taskgroups that have not ended: their number, and the names of the unreachable ones."""
        left = ctx.state.groups_of(transaction.application_key).values()
        away = [g.name for g in sorted(left, key=lambda g: g.index) if g.unreachable_since]
        text = f"{counted(len(left), 'taskgroup')} {have(len(left))} not ended"
        if away:
            named = ", ".join(away[:NAMED])
            text += f", {len(away)} of them on unreachable agents ({named}); {advise('delete_by_force')} to give up"
        return text


DELETE = Delete()
