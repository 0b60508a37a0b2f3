"""Operations on applications and processes, and waiting for them."""

from __future__ import annotations

from bcs_scheduler.cli.client.lookup import owner_target
from bcs_scheduler.cli.client.types import Accepted, SentMessages
from bcs_scheduler.cli.crashes import CrashWatch
from bcs_scheduler.cli.documents import Document, Operations, UpdateOptions, report, updated_to, verb
from bcs_scheduler.cli.errors import NotFound
from bcs_scheduler.cli.kinds.objects.outcomes import raise_failures, wait_for_outcome
from bcs_scheduler.cli.session import Session
from bcs_scheduler.cli.waiting import wait_for_transaction, wait_until_gone, wait_until_running

KIND = "application"


def create(session: Session, document: Document, dry_run: bool) -> Accepted:
    accepted = session.client.create(document.body, dry_run=dry_run)
    report(session, KIND, document.name, "created", accepted, dry_run)
    return accepted


def apply(session: Session, document: Document, dry_run: bool) -> Accepted:
    try:
        existing = session.client.application(document.namespace, document.name)
    except NotFound:
        return create(session, document, dry_run)
    accepted = session.client.update(document.body, dry_run=dry_run)
    done = updated_to(document.body, existing["DefineInstances"])
    report(session, KIND, document.name, verb(accepted, done), accepted, dry_run)
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


def delete(session: Session, namespace: str, name: str, force: bool, dry_run: bool) -> Accepted:
    accepted = session.client.delete(namespace, name, force=force, dry_run=dry_run)
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


def wait_applied(session: Session, namespace: str, name: str, accepted: Accepted) -> None:
    """Waits for the messages of a change of limits, or else for the transaction and for running taskgroups."""
    sent = SentMessages(str(accepted.data.get("commandID") or "") if isinstance(accepted.data, dict) else "", [])
    if sent.command:
        target = owner_target(session.client, namespace, KIND, name)
        raise_failures("the change of limits", wait_for_outcome(session, target, sent, name))
        session.report(KIND, name, "limits changed")
        return
    watch = CrashWatch(session, namespace, name)
    if accepted.transaction:
        wait_for_transaction(session, namespace, accepted.transaction, watch)
    session.report(KIND, name, wait_until_running(session, namespace, name, watch))


def wait_deleted(session: Session, namespace: str, name: str, accepted: Accepted) -> None:
    if accepted.transaction:
        wait_for_transaction(session, namespace, accepted.transaction)
    wait_until_gone(session, namespace, name)
    session.report(KIND, name, "deleted")


OPERATIONS = Operations(create, apply, update, delete, wait_applied, wait_deleted, scale, rollback)
