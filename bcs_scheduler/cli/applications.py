"""Applications and processes: apply, update, delete, and waiting for what came of it."""

from __future__ import annotations

from bcs_scheduler.cli.client import Accepted, Told
from bcs_scheduler.cli.documents import Document
from bcs_scheduler.cli.errors import NotFound
from bcs_scheduler.cli.handling import Handling, UpdateOptions, changed, instances_of, report, verb
from bcs_scheduler.cli.instructing import raise_failures, wait_for_outcome
from bcs_scheduler.cli.lookup import owner_target
from bcs_scheduler.cli.options import Session
from bcs_scheduler.cli.waiting import wait_for_transaction, wait_until_gone, wait_until_running

KIND = "application"


def apply(session: Session, document: Document, dry_run: bool) -> Accepted:
    client = session.client
    try:
        existing = client.application(document.namespace, document.name)
    except NotFound:
        accepted = client.create(document.body, dry_run=dry_run)
        report(session, KIND, document.name, "created", accepted, dry_run)
        return accepted
    wanted = instances_of(document.body)
    if wanted is None or wanted == existing["DefineInstances"]:
        accepted = client.update(document.body, dry_run=dry_run)
        report(session, KIND, document.name, verb(accepted, "updated"), accepted, dry_run)
        return accepted
    return _update_and_scale(session, document, int(existing["DefineInstances"]), wanted, dry_run)


def _update_and_scale(session: Session, document: Document, current: int, wanted: int, dry_run: bool) -> Accepted:
    """The server changes either the definition or the number in one operation, so that each can be judged and undone by
    itself: first the definition with the present number, then the number."""
    spec = {**document.body["spec"], "instance": current}
    accepted = session.client.update({**document.body, "spec": spec}, dry_run=dry_run)
    if changed(accepted):
        report(session, KIND, document.name, "updated", accepted, dry_run)
        if accepted.transaction:
            wait_for_transaction(session, document.namespace, accepted.transaction)
    accepted = session.client.scale(document.namespace, document.name, wanted, dry_run=dry_run)
    report(session, KIND, document.name, verb(accepted, f"scaled to {wanted}"), accepted, dry_run)
    return accepted


def update(session: Session, document: Document, options: UpdateOptions) -> Accepted:
    accepted = session.client.update(
        document.body,
        instances=options.instances,
        max_unavailable=options.max_unavailable,
        resources_only=options.resources_only,
        dry_run=options.dry_run,
    )
    report(session, KIND, document.name, verb(accepted, "updated"), accepted, options.dry_run)
    return accepted


def delete(session: Session, namespace: str, name: str, enforce: bool, dry_run: bool) -> Accepted:
    accepted = session.client.delete(namespace, name, enforce=enforce, dry_run=dry_run)
    report(session, KIND, name, "deletion started", accepted, dry_run)
    return accepted


def scale(session: Session, namespace: str, name: str, instances: int, dry_run: bool) -> Accepted:
    accepted = session.client.scale(namespace, name, instances, dry_run=dry_run)
    report(session, KIND, name, verb(accepted, f"scaled to {instances}"), accepted, dry_run)
    return accepted


def rollback(session: Session, namespace: str, name: str, version: str | None, dry_run: bool) -> Accepted:
    accepted = session.client.rollback(namespace, name, version, dry_run=dry_run)
    report(session, KIND, name, verb(accepted, "rolled back"), accepted, dry_run)
    return accepted


def settle(session: Session, namespace: str, name: str, accepted: Accepted) -> None:
    """Limits change by a message to each taskgroup, not by a transaction."""
    told = Told(str(accepted.data.get("commandID") or "") if isinstance(accepted.data, dict) else "", [])
    if told.command:
        target = owner_target(session.client, namespace, KIND, name)
        raise_failures("the change of limits", wait_for_outcome(session, target, told, name))
        session.report(KIND, name, "limits changed")
        return
    if accepted.transaction:
        wait_for_transaction(session, namespace, accepted.transaction)
    session.report(KIND, name, wait_until_running(session, namespace, name))


def settle_gone(session: Session, namespace: str, name: str, accepted: Accepted) -> None:
    if accepted.transaction:
        wait_for_transaction(session, namespace, accepted.transaction)
    wait_until_gone(session, namespace, name)
    session.report(KIND, name, "deleted")


HANDLING = Handling(apply, update, delete, settle, settle_gone, scale, rollback)
