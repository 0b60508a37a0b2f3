"""Commands that hand in documents: apply, update; and those that change what is there: scale, rollback, delete."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import click

from bcs_scheduler.cli.client import Accepted, Json, Told
from bcs_scheduler.cli.complete import application_names
from bcs_scheduler.cli.configure import put_configuration
from bcs_scheduler.cli.documents import CONFIGURATION, Document, in_order, load_documents
from bcs_scheduler.cli.errors import NotFound, UsageError
from bcs_scheduler.cli.instructing import raise_failures, wait_for_outcome
from bcs_scheduler.cli.lookup import find_command, find_target
from bcs_scheduler.cli.options import (
    Session,
    connection_options,
    file_option,
    pass_session,
    reporting,
    wait_option,
)
from bcs_scheduler.cli.waiting import wait_for_transaction, wait_until_gone, wait_until_running

DELETABLE = {
    "application": "application", "app": "application", "process": "application", "configmap": "configmap",
    "cm": "configmap", "secret": "secret", "command": "command",
}  # fmt: skip
"""Kinds that may be named before what is to be deleted."""


@click.command()
@file_option
@click.option("--dry-run", is_flag=True, help="Show what would happen; nothing is changed.")
@wait_option
@connection_options
@pass_session
@reporting
def apply(session: Session, files: tuple[str, ...], dry_run: bool, wait: bool) -> None:
    """Create what does not exist, update or scale what differs.

    Configmaps and secrets go first. Documents of kind Command are carried out.
    """
    documents = in_order(load_documents(files, session.namespace, namespace_given=session.namespace_given))
    started = [(document, _apply(session, document, dry_run)) for document in documents]
    if wait and not dry_run:
        _wait_for_all(session, started)


@click.command()
@file_option
@click.option("--instances", type=click.IntRange(1), metavar="K", help="Bring only K taskgroups to the new definition.")
@click.option("--max-unavailable", type=click.IntRange(1), metavar="K", help="Take at most K taskgroups down at once.")
@click.option("--resources-only", is_flag=True, help="Change limits and nothing else, without ending anything.")
@click.option("--dry-run", is_flag=True, help="Show what would happen; nothing is changed.")
@wait_option
@connection_options
@pass_session
@reporting
def update(
    session: Session,
    files: tuple[str, ...],
    instances: int | None,
    max_unavailable: int | None,
    resources_only: bool,
    dry_run: bool,
    wait: bool,
) -> None:
    """Replace the definition of what exists."""
    if resources_only and (instances is not None or max_unavailable is not None):
        raise UsageError("--resources-only changes all taskgroups where they are: no --instances, no --max-unavailable")
    started = []
    for document in in_order(load_documents(files, session.namespace, namespace_given=session.namespace_given)):
        if document.kind in CONFIGURATION:
            put_configuration(session, document, create=False, dry_run=dry_run)
            continue
        if document.kind == "Command":
            raise UsageError(f"{document.source}: a Command is not updated but applied")
        accepted = session.client.update(
            document.body,
            instances=instances,
            max_unavailable=max_unavailable,
            resources_only=resources_only,
            dry_run=dry_run,
        )
        _report(session, document.name, _verb(accepted, "updated"), accepted, dry_run)
        if resources_only:
            _settle_resources(session, document, accepted, wait=wait and not dry_run)
        else:
            started.append((document, accepted))
    if wait and not dry_run:
        _wait_for_all(session, started)


@click.command()
@click.argument("name", shell_complete=application_names)
@click.argument("instances", type=click.IntRange(1))
@click.option("--dry-run", is_flag=True, help="Show what would happen; nothing is changed.")
@wait_option
@connection_options
@pass_session
@reporting
def scale(session: Session, name: str, instances: int, dry_run: bool, wait: bool) -> None:
    """Bring application NAME to INSTANCES taskgroups."""
    accepted = session.client.scale(session.namespace, name, instances, dry_run=dry_run)
    _report(session, name, _verb(accepted, f"scaled to {instances}"), accepted, dry_run)
    if wait and not dry_run:
        _settle(session, session.namespace, name, accepted)


@click.command()
@click.argument("name", shell_complete=application_names)
@click.option("--to", "version", metavar="VERSION", help="Version to go back to. Default: the one before the newest.")
@click.option("--dry-run", is_flag=True, help="Show what would happen; nothing is changed.")
@wait_option
@connection_options
@pass_session
@reporting
def rollback(session: Session, name: str, version: str | None, dry_run: bool, wait: bool) -> None:
    """Bring application NAME back to an earlier version."""
    accepted = session.client.rollback(session.namespace, name, version, dry_run=dry_run)
    _report(session, name, _verb(accepted, "rolled back"), accepted, dry_run)
    if wait and not dry_run:
        _settle(session, session.namespace, name, accepted)


@click.command()
@click.argument("names", nargs=-1, metavar="[KIND] [NAME]...", shell_complete=application_names)
@click.option("-f", "--filename", "files", multiple=True, metavar="FILE", help="Delete what these documents describe.")
@click.option("--enforce", is_flag=True, help="Do not wait for agents that are lost.")
@click.option("--dry-run", is_flag=True, help="Show what would happen; nothing is changed.")
@wait_option
@connection_options
@pass_session
@reporting
def delete(
    session: Session, names: tuple[str, ...], files: tuple[str, ...], enforce: bool, dry_run: bool, wait: bool
) -> None:
    """End all taskgroups of applications and forget them; or forget configmaps, secrets, commands.

    KIND is application (if none is named), configmap, secret or command.
    """
    if bool(names) == bool(files):
        raise UsageError("name what to delete, or give documents with -f")
    started = []
    for kind, namespace, name in _doomed(session, names, files):
        if kind in CONFIGURATION:
            session.client.delete_configuration(kind, namespace, name, dry_run=dry_run)
            session.report(kind, name, "deleted", "dry run" if dry_run else "", dryRun=dry_run)
        elif kind == "command":
            found = find_command(session.client, namespace, name)["spec"]["commandTargetRef"]
            session.client.forget_command(found["namespace"], found["name"], name)
            session.report(kind, name, "forgotten")
        else:
            accepted = session.client.delete(namespace, name, enforce=enforce, dry_run=dry_run)
            _report(session, name, "deletion started", accepted, dry_run)
            started.append((namespace, name, accepted))
    for namespace, name, accepted in started if wait and not dry_run else ():
        if accepted.transaction:
            wait_for_transaction(session, namespace, accepted.transaction)
        wait_until_gone(session, namespace, name)
        session.report("application", name, "deleted")


def _doomed(session: Session, names: tuple[str, ...], files: tuple[str, ...]) -> list[tuple[str, str, str]]:
    """(kind, namespace, name): applications before what they take in."""
    if files:
        documents = load_documents(files, session.namespace, namespace_given=session.namespace_given)
        if any(document.kind == "Command" for document in documents):
            raise UsageError("a command is deleted by its id: bcs delete command ID")
        return [(document.kind, document.namespace, document.name) for document in reversed(in_order(documents))]
    kind = DELETABLE.get(names[0].lower()) if len(names) > 1 else None
    return [(kind or "application", session.namespace, name) for name in (names[1:] if kind else names)]


def _apply(session: Session, document: Document, dry_run: bool) -> Accepted:
    client = session.client
    if document.kind in CONFIGURATION:
        return put_configuration(session, document, create=None, dry_run=dry_run)
    if document.kind == "Command":
        told = client.run_command(document.namespace, document.name, document.body, dry_run=dry_run)
        session.report("command", told.command, "started", "dry run" if dry_run else "", dryRun=dry_run)
        return Accepted("", told)
    try:
        existing = client.application(document.namespace, document.name)
    except NotFound:
        accepted = client.create(document.body, dry_run=dry_run)
        _report(session, document.name, "created", accepted, dry_run)
        return accepted
    wanted = _instances(document.body)
    if wanted is None or wanted == existing["DefineInstances"]:
        accepted = client.update(document.body, dry_run=dry_run)
        _report(session, document.name, _verb(accepted, "updated"), accepted, dry_run)
        return accepted
    return _update_and_scale(session, document, int(existing["DefineInstances"]), wanted, dry_run)


def _update_and_scale(session: Session, document: Document, current: int, wanted: int, dry_run: bool) -> Accepted:
    """The server changes either the definition or the number in one operation, so that each can be judged and undone by
    itself: first the definition with the present number, then the number."""
    spec = {**document.body["spec"], "instance": current}
    accepted = session.client.update({**document.body, "spec": spec}, dry_run=dry_run)
    if _changed(accepted):
        _report(session, document.name, "updated", accepted, dry_run)
        if accepted.transaction:
            wait_for_transaction(session, document.namespace, accepted.transaction)
    accepted = session.client.scale(document.namespace, document.name, wanted, dry_run=dry_run)
    _report(session, document.name, _verb(accepted, f"scaled to {wanted}"), accepted, dry_run)
    return accepted


def _instances(body: Json) -> int | None:
    spec = body.get("spec")
    wanted = spec.get("instance") if isinstance(spec, dict) else None
    return wanted if isinstance(wanted, int) and not isinstance(wanted, bool) else None


def _changed(accepted: Accepted) -> bool:
    return not (isinstance(accepted.data, dict) and accepted.data.get("unchanged"))


def _verb(accepted: Accepted, done: str) -> str:
    return done if _changed(accepted) else "unchanged"


def _report(session: Session, name: str, done: str, accepted: Accepted, dry_run: bool = False) -> None:
    note = "dry run" if dry_run else f"transaction {accepted.transaction}" if accepted.transaction else ""
    plan = accepted.data if dry_run else None
    session.report("application", name, done, note, plan, transaction=accepted.transaction, dryRun=dry_run)
    if dry_run and session.change_format == "text":
        for line in _plan(accepted.data):
            session.say(f"  {line}")


def _plan(data: Any) -> Iterable[str]:
    """A plan in words: what would go where, what would be ended, what would not fit."""
    plan = data if isinstance(data, dict) else {}
    for place in plan.get("place") or ():
        ports = f" ports {','.join(map(str, place['ports']))}" if place.get("ports") else ""
        replaced = f", replaces {place['replaces']}" if place.get("replaces") else ""
        yield f"+ taskgroup {place['index']} on {place['hostname']}{ports}{replaced}"
    for taskgroup in plan.get("end") or ():
        yield f"- taskgroup {taskgroup}"
    if plan.get("unplaced"):
        yield f"! {plan['unplaced']} taskgroups find no place: {plan.get('message') or 'no reason given'}"


def _wait_for_all(session: Session, started: list[tuple[Document, Accepted]]) -> None:
    for document, accepted in started:
        if document.kind == "Command":
            target = find_target(session.client, document.namespace, document.name)
            found = wait_for_outcome(session, target, accepted.data, document.name)
            raise_failures(f"command {accepted.data.command}", found)
            session.report("command", accepted.data.command, "finished", outcomes=[each.shown() for each in found])
        elif document.kind not in CONFIGURATION:
            _settle(session, document.namespace, document.name, accepted)


def _settle(session: Session, namespace: str, name: str, accepted: Accepted) -> None:
    if accepted.transaction:
        wait_for_transaction(session, namespace, accepted.transaction)
    session.report("application", name, wait_until_running(session, namespace, name))


def _settle_resources(session: Session, document: Document, accepted: Accepted, *, wait: bool) -> None:
    """Limits change by a message to each taskgroup, not by a transaction."""
    told = Told(str(accepted.data.get("commandID") or ""), [])
    if wait and told.command:
        target = find_target(session.client, document.namespace, document.name)
        raise_failures("the change of limits", wait_for_outcome(session, target, told, document.name))
        session.report("application", document.name, "limits changed")
