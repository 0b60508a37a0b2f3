"""DELETE: end every taskgroup, then forget versions and application. Enforced, it does not wait for the ends."""

from __future__ import annotations

import msgspec

from store.records import Application, TaskGroup, Transaction
from transactions import base, groups
from transactions.base import Context, Step


def create(ctx: Context, application: Application, *, enforce: bool, inner: bool = False) -> Transaction:
    """Writes the transaction. Other operations of the application are cancelled: nothing they do matters any more. A
    DELETE that runs already is kept, or sharpened to an enforced one."""
    for other in sorted(ctx.state.active_of(application.key).values(), key=lambda t: t.id):
        if other.type == "DELETE" and other.enforce >= enforce:
            return other
        progress = 0 if other.type != "RESCHEDULE" else other.progress
        base.end(ctx, other, "CANCEL", "the application is deleted", progress)
    transaction = base.begin(
        ctx,
        "DELETE",
        application,
        inner=inner,
        enforce=enforce,
        target=len(ctx.state.groups_of(application.key)),
        note="application in deleting" + (", enforced" if enforce else ""),
    )
    # Nothing of it is wanted any more: what ends later is not restarted, even if the delete runs out of time.
    unwanted = msgspec.structs.replace(application, instances=0)
    ctx.uow.put(base.own(ctx, unwanted, transaction, "application in deleting"))
    return transaction


def step(ctx: Context, transaction: Transaction) -> Step:
    application = ctx.application(transaction)
    if application is None:
        return Step(verdict=("FINISH", "the application is gone"))
    for group in list(ctx.state.groups_of(application.key).values()):
        if group.killing_since and not (group.ended or transaction.enforce):
            continue
        if not group.ended:
            group = groups.end(ctx, group, "application deleted")
        if group.ended or transaction.enforce:
            groups.remove(ctx, group, "application deleted")
        ctx.checkpoint()
        if ctx.enough():
            return Step(again=True)
    if ctx.state.groups_of(application.key):
        return Step()
    for version in list(ctx.state.versions_of(application.key).values()):
        ctx.uow.delete(version)
    ctx.uow.delete(application)
    ctx.tell("application", application.key, "deleted", "all taskgroups have ended")
    return Step(verdict=("FINISH", "application deleted"))


def prospect(ctx: Context, transaction: Transaction) -> tuple[Step, list[TaskGroup]]:
    """For a plan: what the first look would find, without its changes, and which taskgroups it would end."""
    members = ctx.state.groups_of(f"{transaction.namespace}/{transaction.application}").values()
    return Step(), [group for group in members if not (group.ended or group.killing_since)]


def ended(ctx: Context, group: TaskGroup) -> None:
    """A taskgroup of an application that is being deleted has ended. Cared for one by one: a look at all of them for
    each one that ends would cost the square of their number."""
    groups.remove(ctx, group, "application deleted")


def waiting_for(ctx: Context, transaction: Transaction) -> str:
    """What keeps the delete from ending, in words."""
    left = ctx.state.groups_of(f"{transaction.namespace}/{transaction.application}").values()
    away = sorted(g.id for g in left if g.unreachable_since)
    text = f"{len(left)} taskgroups have not ended"
    if away:
        text += f", {len(away)} of them on unreachable agents ({', '.join(away[:3])}); delete with enforce=1 to give up"
    return text
