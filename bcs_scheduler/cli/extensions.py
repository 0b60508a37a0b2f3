"""Namespaces, admission webhooks and custom resources: how their documents are handled, and how they are shown."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from bcs_scheduler.cli.client import Accepted, Client, Json
from bcs_scheduler.cli.configure import create
from bcs_scheduler.cli.documents import KINDS, Document
from bcs_scheduler.cli.errors import NotFound, UsageError
from bcs_scheduler.cli.extensionviews import quota_text
from bcs_scheduler.cli.handling import Handling, UpdateOptions, refuse_counts, verb
from bcs_scheduler.cli.options import Session, connection_options, pass_session, reporting
from bcs_scheduler.cli.output import field_list, print_data
from bcs_scheduler.cli.story import pairs, when

RESOURCES = ("cpus", "mem", "disk", "taskgroups")


# --- handling of documents --------------------------------------------------------------------------------------------


def _told(session: Session, kind: str, name: str, done: str, dry_run: bool) -> None:
    session.report(kind, name, done, "dry run" if dry_run else "", dryRun=dry_run)


def _upsert(
    session: Session,
    document: Document,
    create: bool | None,
    dry_run: bool,
    find: Callable[[], Any],
    put: Callable[[bool], Accepted],
) -> Accepted:
    """`create` None: whichever fits."""
    if create is None:
        try:
            find()
            create = False
        except NotFound:
            create = True
    accepted = put(create)
    _told(session, document.kind, document.name, verb(accepted, "created" if create else "updated"), dry_run)
    return accepted


def put_namespace(session: Session, document: Document, create: bool | None, dry_run: bool) -> Accepted:
    client = session.client

    def find() -> None:
        if not client.namespace(document.name)["status"]["recorded"]:
            raise NotFound(document.name)

    return _upsert(
        session,
        document,
        create,
        dry_run,
        find,
        lambda create: client.put_namespace(document.body, create=create, dry_run=dry_run),
    )


def put_webhook(session: Session, document: Document, create: bool | None, dry_run: bool) -> Accepted:
    client = session.client
    return _upsert(
        session,
        document,
        create,
        dry_run,
        lambda: client.webhook(document.namespace, document.name),
        lambda create: client.put_webhook(document.body, create=create, dry_run=dry_run),
    )


def _handling(
    kind: str,
    put: Callable[[Session, Document, bool | None, bool], Accepted],
    delete: Callable[[Client, str, str, bool], Accepted],
) -> Handling:
    """`delete`: of namespace, name, dry run."""

    def update(session: Session, document: Document, options: UpdateOptions) -> Accepted:
        refuse_counts(document, options)
        return put(session, document, False, options.dry_run)

    def removed(session: Session, namespace: str, name: str, enforce: bool, dry_run: bool) -> Accepted:
        accepted = delete(session.client, namespace, name, dry_run)
        _told(session, kind, name, "deleted", dry_run)
        return accepted

    return Handling(lambda session, document, dry_run: put(session, document, None, dry_run), update, removed)


def _register(session: Session, document: Document, create: bool | None, dry_run: bool) -> Accepted:
    accepted = session.client.register_kind(document.body, dry_run=dry_run)
    _told(session, "kind", document.name, verb(accepted, "registered"), dry_run)
    return accepted


def _put_custom(session: Session, document: Document, create: bool | None, dry_run: bool) -> Accepted:
    accepted = session.client.put_custom(document.body, dry_run=dry_run)
    _told(session, document.kind, document.name, verb(accepted, "stored"), dry_run)
    return accepted


NAMESPACES = _handling(
    "namespace", put_namespace, lambda client, namespace, name, dry: client.delete_namespace(name, dry_run=dry)
)
WEBHOOKS = _handling(
    "admissionwebhook",
    put_webhook,
    lambda client, namespace, name, dry: client.delete_webhook(namespace, name, dry_run=dry),
)
REGISTRATIONS = _handling("kind", _register, lambda client, namespace, name, dry: client.delete_kind(name, dry_run=dry))


def custom_handling(kind: str) -> Handling:
    return _handling(
        kind,
        _put_custom,
        lambda client, namespace, name, dry: client.delete_custom(kind, namespace, name, dry_run=dry),
    )


def registered_kind(session: Session, word: str) -> str | None:
    """The registered kind that is meant, in any case and with an s or not; None if there is none."""
    try:
        names = [str(found["spec"]["names"]["kind"]) for found in session.client.kinds()]
    except NotFound:  # a server that knows no custom resources
        return None
    by_word = {form: name for name in names for form in (f"{name.lower()}s", name.lower())}
    return word if word in names else by_word.get(word.lower())


def check_kinds(session: Session, documents: list[Document]) -> None:
    """Before anything is done: kinds that are not the scheduler's own must be registered, or be about to be. Raises
    UsageError."""
    coming = {document.name for document in documents if document.kind == "crr"}
    for kind in dict.fromkeys(document.kind for document in documents):
        if kind not in KINDS and kind not in coming and registered_kind(session, kind) != kind:
            source = next(document.source for document in documents if document.kind == kind)
            raise UsageError(f"{source}: kind: {kind!r} is not known; known: {', '.join(KINDS)}, and registered kinds")


# --- bcs create namespace ---------------------------------------------------------------------------------------------


@click.command("namespace")
@click.argument("name")
@click.option("--cpus", metavar="CORES", help="All workloads together may want this much, e.g. 20 or 500m.")
@click.option("--mem", metavar="MB", help="Likewise, e.g. 4096 or 64Gi.")
@click.option("--disk", metavar="MB", help="Likewise.")
@click.option("--taskgroups", type=click.IntRange(0), metavar="N", help="Likewise.")
@click.option("--label", "labels", multiple=True, metavar="KEY=VALUE")
@click.option("--replace", is_flag=True, help="Replace its settings if it has any.")
@click.option("--dry-run", is_flag=True, help="Only have the server check it.")
@connection_options
@pass_session
@reporting
def create_namespace(
    session: Session,
    name: str,
    cpus: str | None,
    mem: str | None,
    disk: str | None,
    taskgroups: int | None,
    labels: tuple[str, ...],
    replace: bool,
    dry_run: bool,
) -> None:
    """Create namespace NAME, with a quota if one is given.

    Namespaces exist by what is in them, too; this gives one settings.
    """
    given: Json = {}
    for label in labels:
        key, equals, value = label.partition("=")
        if not equals or not key:
            raise UsageError(f"--label takes KEY=VALUE, not {label!r}")
        given[key] = value
    quota = {"cpus": cpus, "mem": mem, "disk": disk, "taskgroups": taskgroups}
    bounds = {key: value for key, value in quota.items() if value is not None}
    body = {"kind": "namespace", "metadata": {"name": name, "labels": given}, "spec": {"quota": bounds}}
    put_namespace(session, Document("command line", body), None if replace else True, dry_run)


create.add_command(create_namespace)


# --- bcs get and describe ---------------------------------------------------------------------------------------------


def look_namespaces(session: Session, namespace: str | None, name: str | None, selector: str) -> Any:
    return session.client.namespace(name) if name else session.client.namespaces(selector=selector)


def look_webhooks(session: Session, namespace: str | None, name: str | None, selector: str) -> Any:
    if name:
        return session.client.webhook(namespace or session.namespace, name)
    return session.client.webhooks(namespace, selector=selector)


def look_kinds(session: Session, namespace: str | None, name: str | None, selector: str) -> Any:
    return session.client.kind(name) if name else session.client.kinds()


def look_custom(kind: str) -> Callable[[Session, str | None, str | None, str], Any]:
    def look(session: Session, namespace: str | None, name: str | None, selector: str) -> Any:
        if name:
            return session.client.custom(kind, namespace or session.namespace, name)
        return session.client.customs(kind, namespace, selector=selector)

    return look


def describe_namespace(session: Session, name: str, story: bool, form: str) -> None:
    found = session.client.namespace(name)
    if form:
        print_data(session.out, found, form)
        return
    head, status = found["metadata"], found["status"]
    contents = ", ".join(f"{count} {kind}" for kind, count in status["contents"].items())
    session.show(
        field_list(
            [
                ("Name", head["name"]),
                ("Labels", pairs(head.get("labels"))),
                ("Created", when(head.get("creationTimestamp")) or "exists by what is in it"),
                *((title, quota_text(found, key)) for title, key in zip(TITLES, RESOURCES, strict=True)),
                ("Contents", contents or "nothing"),
            ]
        )
    )


TITLES = ("CPU cores", "Memory MB", "Disk MB", "Taskgroups")


def describe_webhook(session: Session, name: str, story: bool, form: str) -> None:
    found = session.client.webhook(session.namespace, name)
    if form:
        print_data(session.out, found, form)
        return
    head, about = found["metadata"], found["resourcesRef"]
    session.show(
        field_list(
            [
                ("Name", f"{head['namespace']}/{head['name']}"),
                ("Labels", pairs(head.get("labels"))),
                ("Asked about", f"{about['operation']} of {about['kind']}"),
                ("May", "refuse" if found["validating"] else "change"),
                ("Created", when(head.get("creationTimestamp"))),
                *((f"Webhook {hook['name']}", _hook(hook)) for hook in found["admissionWebhooks"]),
            ]
        )
    )


def _hook(hook: Json) -> str:
    selector = hook.get("namespaceSelector")
    where = f", namespaces {selector['operator']} {','.join(selector['values'])}" if selector else ""
    return f"{hook['clientConfig']['url']}, {hook['timeoutSeconds']:g}s, on failure {hook['failurePolicy']}{where}"
