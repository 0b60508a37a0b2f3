"""Commands that hand in documents: apply, update; and those that change what is there: scale, rollback, delete."""

from __future__ import annotations

from collections.abc import Iterator

import click

from bcs_scheduler.cli import applications, daemonsets, deployments
from bcs_scheduler.cli.complete import owner_names
from bcs_scheduler.cli.configure import configuration_handling
from bcs_scheduler.cli.documents import Document, in_order, load_documents
from bcs_scheduler.cli.errors import UsageError
from bcs_scheduler.cli.execute import COMMANDS
from bcs_scheduler.cli.extensions import (
    NAMESPACES,
    REGISTRATIONS,
    WEBHOOKS,
    check_kinds,
    custom_handling,
    registered_kind,
)
from bcs_scheduler.cli.handling import Handling, UpdateOptions
from bcs_scheduler.cli.lookup import find_owner
from bcs_scheduler.cli.options import (
    Session,
    connection_options,
    file_option,
    pass_session,
    reporting,
    wait_option,
)

HANDLING: dict[str, Handling] = {
    "namespace": NAMESPACES,
    "crr": REGISTRATIONS,
    "configmap": configuration_handling("configmap"),
    "secret": configuration_handling("secret"),
    "service": configuration_handling("service"),
    "application": applications.HANDLING,
    "process": applications.HANDLING,
    "deployment": deployments.HANDLING,
    "daemonset": daemonsets.HANDLING,
    "admissionwebhook": WEBHOOKS,
    "Command": COMMANDS,
}
"""By kind of document, in the order in which they are applied: first what others take in, last what needs running
taskgroups. `bcs_scheduler.cli.documents.KINDS` has the same."""
DELETABLE = {
    "application": "application", "app": "application", "process": "application", "deployment": "deployment",
    "deploy": "deployment", "dep": "deployment", "daemonset": "daemonset",
    "ds": "daemonset", "configmap": "configmap", "cm": "configmap", "secret": "secret",
    "service": "service", "svc": "service", "command": "Command",
    "namespace": "namespace", "ns": "namespace", "webhook": "admissionwebhook", "admissionwebhook": "admissionwebhook",
    "kind": "crr", "crr": "crr",
}  # fmt: skip
"""Kinds that may be named before what is to be deleted."""


def handling(kind: str) -> Handling:
    """Of a kind of document; one that is not the scheduler's own is a registered one."""
    return HANDLING.get(kind) or custom_handling(kind)


def documents_of(session: Session, files: tuple[str, ...]) -> list[Document]:
    """In the order in which they are applied. Raises UsageError."""
    documents = in_order(load_documents(files, session.namespace, namespace_given=session.namespace_given))
    check_kinds(session, documents)
    return documents


@click.command()
@file_option
@click.option("--dry-run", is_flag=True, help="Show what would happen; nothing is changed.")
@wait_option
@connection_options
@pass_session
@reporting
def apply(session: Session, files: tuple[str, ...], dry_run: bool, wait: bool) -> None:
    """Create what does not exist, update or scale what differs.

    Configmaps, secrets and services go first. Documents of kind Command are carried out.
    """
    documents = documents_of(session, files)
    started = [(document, handling(document.kind).apply(session, document, dry_run)) for document in documents]
    for document, accepted in started if wait and not dry_run else ():
        handling(document.kind).settle(session, document.namespace, document.name, accepted)


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
    options = UpdateOptions(instances, max_unavailable, resources_only, dry_run, wait)
    documents = documents_of(session, files)
    started = [(document, handling(document.kind).update(session, document, options)) for document in documents]
    for document, accepted in started if wait and not dry_run else ():
        handling(document.kind).settle(session, document.namespace, document.name, accepted)


@click.command()
@click.argument("name", shell_complete=owner_names)
@click.argument("instances", type=click.IntRange(1))
@click.option("--dry-run", is_flag=True, help="Show what would happen; nothing is changed.")
@wait_option
@connection_options
@pass_session
@reporting
def scale(session: Session, name: str, instances: int, dry_run: bool, wait: bool) -> None:
    """Bring deployment or application NAME to INSTANCES taskgroups."""
    kind, name = find_owner(session.client, session.namespace, name)
    how = HANDLING[kind]
    if how.scale is None:
        raise UsageError(f"a {kind} is not scaled")
    accepted = how.scale(session, session.namespace, name, instances, dry_run)
    if wait and not dry_run:
        how.settle(session, session.namespace, name, accepted)


@click.command()
@click.argument("name", shell_complete=owner_names)
@click.option("--to", "version", metavar="VERSION", help="Version or revision to go back to. Default: the one before.")
@click.option("--dry-run", is_flag=True, help="Show what would happen; nothing is changed.")
@wait_option
@connection_options
@pass_session
@reporting
def rollback(session: Session, name: str, version: str | None, dry_run: bool, wait: bool) -> None:
    """Bring deployment or application NAME back to an earlier version."""
    kind, name = find_owner(session.client, session.namespace, name)
    how = HANDLING[kind]
    if how.rollback is None:
        raise UsageError(f"a {kind} is not rolled back")
    accepted = how.rollback(session, session.namespace, name, version, dry_run)
    if wait and not dry_run:
        how.settle(session, session.namespace, name, accepted)


@click.command()
@click.argument("names", nargs=-1, metavar="[KIND] [NAME]...", shell_complete=owner_names)
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
    """End all taskgroups of deployments and applications and forget them; or forget other objects.

    KIND is deployment or application (whichever has the name, if none is named), service, configmap, secret, command,
    namespace, webhook, kind, or a registered kind.
    """
    if bool(names) == bool(files):
        raise UsageError("name what to delete, or give documents with -f")
    started = []
    for kind, namespace, name in _doomed(session, names, files):
        started.append((kind, namespace, name, handling(kind).delete(session, namespace, name, enforce, dry_run)))
    for kind, namespace, name, accepted in started if wait and not dry_run else ():
        handling(kind).settle_gone(session, namespace, name, accepted)


def _doomed(session: Session, names: tuple[str, ...], files: tuple[str, ...]) -> Iterator[tuple[str, str, str]]:
    """(kind, namespace, name): what uses others before what it takes in."""
    if files:
        documents = documents_of(session, files)
        if any(document.kind == "Command" for document in documents):
            raise UsageError("a command is deleted by its id: bcs delete command ID")
        for document in reversed(documents):
            yield document.kind, document.namespace, document.name
        return
    kind = DELETABLE.get(names[0].lower()) if len(names) > 1 else None
    if kind is None and len(names) > 1:
        kind = registered_kind(session, names[0])
    for name in names[1:] if kind else names:
        if kind:
            yield kind, session.namespace, name
        else:
            owner, name = find_owner(session.client, session.namespace, name)
            yield owner, session.namespace, name
