"""Namespaces, admission webhooks and custom resources: columns, operations, descriptions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from bcs_scheduler.cli.client.types import Accepted, Json
from bcs_scheduler.cli.documents import APPLY_ORDER, Document, Operations, UpdateOptions, reject_counts, verb
from bcs_scheduler.cli.errors import Conflict, NotFound, UsageError
from bcs_scheduler.cli.habits import instead_of_document
from bcs_scheduler.cli.kinds.base import Found, Functions, Read
from bcs_scheduler.cli.output.data import print_data
from bcs_scheduler.cli.output.tables import Column, age_column, field_list, time_column
from bcs_scheduler.cli.output.text import counted, duration, pairs, when
from bcs_scheduler.cli.session import Session
from store.keys import object_key

if TYPE_CHECKING:
    from bcs_scheduler.cli.client.client import Client


def quota_text(namespace: Json, resource: str) -> str:
    """Usage and quota (``2/10``); without a quota the usage."""
    used, bound = namespace["status"]["used"].get(resource, 0), namespace["spec"]["quota"].get(resource)
    return f"{used:g}" if bound is None else f"{used:g}/{bound:g}"


def _created(item: Json) -> Any:
    return (item.get("metadata") or {}).get("creationTimestamp")


def _name(item: Json) -> str:
    return str(item["metadata"]["name"])


def _contents(namespace: Json) -> str:
    return ", ".join(counted(count, kind.removesuffix("s")) for kind, count in namespace["status"]["contents"].items())


NAMESPACE_COLUMNS = (
    Column("NAME", _name),
    Column("CPU", lambda n: quota_text(n, "cpus"), right=True),
    Column("MEMORY MB", lambda n: quota_text(n, "mem"), right=True),
    Column("DISK MB", lambda n: quota_text(n, "disk"), wide=True, right=True),
    Column("TASKGROUPS", lambda n: quota_text(n, "taskgroups"), right=True),
    Column("OBJECTS", lambda n: quota_text(n, "objects"), wide=True, right=True),
    Column("STORAGE MB", lambda n: quota_text(n, "objectStorage"), wide=True, right=True),
    age_column("AGE", _created),
    time_column("CREATED", _created),
    Column("CONTENTS", _contents, long=True),
)
WEBHOOK_COLUMNS = (
    Column("NAME", _name),
    Column("OPERATION", lambda w: w["resourcesRef"]["operation"]),
    Column("KIND", lambda w: w["resourcesRef"]["kind"]),
    Column("TYPE", lambda w: "validating" if w["validating"] else "mutating"),
    Column("HOOKS", lambda w: ",".join(hook["name"] for hook in w["admissionWebhooks"]), long=True),
    age_column("AGE", _created),
    time_column("CREATED", _created),
)
KIND_COLUMNS = (
    Column("KIND", lambda k: k["spec"]["names"]["kind"]),
    age_column("AGE", lambda k: k.get("creationTimestamp")),
    time_column("CREATED", lambda k: k.get("creationTimestamp")),
)
CUSTOM_COLUMNS = (
    Column("NAME", _name),
    Column("VERSION", lambda c: c.get("apiVersion")),
    age_column("AGE", _created),
    time_column("CREATED", _created),
)
"""Columns of custom resources."""
Put = Callable[[Session, Document, "bool | None", bool], Accepted]
"""Creates or replaces an object: session, document, whether it is created (None = whichever is possible), dry run."""
RESOURCES = ("cpus", "mem", "disk", "taskgroups", "objects", "objectStorage")


def _report(session: Session, kind: str, name: str, done: str, dry_run: bool) -> None:
    session.report(kind, name, done, "dry run" if dry_run else "", dryRun=dry_run)


def putting(find: Callable[[Client, Document], Any], put: Callable[[Client, Json, bool, bool], Accepted]) -> Put:
    """The function that creates (`create` True) or replaces (False) an object; None = whichever is possible. `find`
    raises NotFound for an object that does not exist. `put`: client, document, create, dry run."""

    def stored(session: Session, document: Document, create: bool | None, dry_run: bool) -> Accepted:
        client = session.client
        if create is None:
            try:
                find(client, document)
                create = False
            except NotFound:
                create = True
        accepted = put(client, document.body, create, dry_run)
        _report(session, document.kind, document.name, verb(accepted, "created" if create else "updated"), dry_run)
        return accepted

    return stored


def _find_recorded(client: Client, document: Document) -> None:
    if not client.object("namespace", "", document.name)["status"]["recorded"]:
        raise NotFound(document.name)


put_namespace = putting(
    _find_recorded, lambda client, body, create, dry: client.put_object("namespace", body, create=create, dry_run=dry)
)
put_webhook = putting(
    lambda client, document: client.webhook(document.namespace, document.name),
    lambda client, body, create, dry: client.put_webhook(body, create=create, dry_run=dry),
)


def operations_for(
    kind: str,
    put: Put,
    delete: Callable[[Client, str, str, bool], Accepted],
) -> Operations:
    """Operations of a kind of document. `delete`: client, namespace, name, dry run."""

    def update(session: Session, document: Document, options: UpdateOptions) -> Accepted:
        reject_counts(document, options)
        return put(session, document, False, options.dry_run)

    def removed(session: Session, namespace: str, name: str, force: bool, dry_run: bool) -> Accepted:
        accepted = delete(session.client, namespace, name, dry_run)
        _report(session, kind, name, "deleted", dry_run)
        return accepted

    def create(session: Session, document: Document, dry_run: bool) -> Accepted:
        return put(session, document, True, dry_run)

    def apply(session: Session, document: Document, dry_run: bool) -> Accepted:
        return put(session, document, None, dry_run)

    return Operations(create, apply, update, removed)


def reading(kind: str) -> Read:
    """The function that reads one object of a kind with common routes, or a list."""

    def look(session: Session, namespace: str | None, name: str | None, selector: str) -> Found:
        if name:
            return session.client.object(kind, namespace or session.namespace, name)
        return session.client.objects(kind, namespace, selector=selector)

    return look


def put_of(kind: str) -> Put:
    """The function that creates or replaces an object of a kind with common routes."""
    return putting(
        lambda client, document: client.object(kind, document.namespace, document.name),
        lambda client, body, create, dry: client.put_object(kind, body, create=create, dry_run=dry),
    )


def operations_of(kind: str, put: Put | None = None) -> Operations:
    """Operations of a kind with common routes. `put` None: as `put_of` makes it."""
    return operations_for(
        kind,
        put or put_of(kind),
        lambda client, namespace, name, dry: client.delete_object(kind, namespace, name, dry_run=dry),
    )


def _refuse_existing(find: Callable[[], Any], document: Document) -> None:
    """For objects that the server creates or replaces by one request. Raises Conflict."""
    with suppress(NotFound):
        find()
        raise Conflict(f"{document.kind} {document.name} exists already")


def _register(session: Session, document: Document, create: bool | None, dry_run: bool) -> Accepted:
    if create:
        _refuse_existing(lambda: session.client.kind(document.name), document)
    accepted = session.client.register_kind(document.body, dry_run=dry_run)
    _report(session, "kind", document.name, verb(accepted, "registered"), dry_run)
    return accepted


def _put_custom(session: Session, document: Document, create: bool | None, dry_run: bool) -> Accepted:
    if create:
        _refuse_existing(lambda: session.client.custom(document.kind, document.namespace, document.name), document)
    accepted = session.client.put_custom(document.body, dry_run=dry_run)
    _report(session, document.kind, document.name, verb(accepted, "stored"), dry_run)
    return accepted


def _registered(session: Session) -> list[str]:
    try:
        return [str(found["spec"]["names"]["kind"]) for found in session.client.kinds()]
    except NotFound:  # a server without custom resources
        return []


def registered_kind(session: Session, word: str) -> str | None:
    """The registered kind of this name, in any case, with or without an s; None if there is none."""
    names = _registered(session)
    by_word = {form: name for name in names for form in (f"{name.lower()}s", name.lower())}
    return word if word in names else by_word.get(word.lower())


def unknown_kinds(session: Session, documents: Sequence[Document]) -> list[UsageError]:
    """A problem for each document of a kind that is neither built in nor registered, nor registered by one of the
    documents. Asks the server only about kinds that are not built in."""
    coming = {document.name for document in documents if document.kind == "crr"}
    unknown = {document.kind for document in documents} - {*APPLY_ORDER, *coming}
    if unknown:
        unknown -= set(_registered(session))
    return [
        UsageError(f"{each.source}: {each.kind.lower()}/{each.name}: kind: {_not_known(each.kind)}")
        for each in documents
        if each.kind in unknown
    ]


def _not_known(kind: str) -> str:
    """With a hint at the kind that differs in capitals only, as the kinds of Kubernetes do."""
    if instead := instead_of_document(kind):
        return instead
    found = next((known for known in APPLY_ORDER if known.lower() == kind.lower()), "")
    hint = f" (did you mean {found}?)" if found else ""
    return f"{kind!r} is not known{hint}; known: {', '.join(APPLY_ORDER)}, and registered kinds"


def read_webhooks(session: Session, namespace: str | None, name: str | None, selector: str) -> Any:
    if name:
        return session.client.webhook(namespace or session.namespace, name)
    return session.client.webhooks(namespace, selector=selector)


def read_kinds(session: Session, namespace: str | None, name: str | None, selector: str) -> Any:
    return session.client.kind(name) if name else session.client.kinds()


def _reading_custom(kind: str) -> Read:
    def look(session: Session, namespace: str | None, name: str | None, selector: str) -> Any:
        if name:
            return session.client.custom(kind, namespace or session.namespace, name)
        return session.client.customs(kind, namespace, selector=selector)

    return look


def describe_object(
    session: Session, found: Json, form: str, fields: Callable[[], Iterable[tuple[str, Any]]], uncreated: str = ""
) -> None:
    """Prints an object that belongs to no namespace: as data (`form` json or yaml), or (`form` empty) its name, labels,
    time of creation and `fields`, which is called in that case only. `uncreated`: shown if the object has no time of
    creation; empty = the line is left out."""
    if form:
        print_data(session.out, found, form)
        return
    head = found["metadata"]
    created = when(head.get("creationTimestamp")) or uncreated
    own = [("Name", head["name"]), ("Labels", pairs(head.get("labels"))), ("Created", created)]
    session.show(field_list([*own, *fields()]))


def describe_namespace(session: Session, name: str, events: bool, form: str) -> None:
    found = session.client.object("namespace", "", name)
    describe_object(
        session,
        found,
        form,
        lambda: [
            *((title, quota_text(found, key)) for title, key in zip(TITLES, RESOURCES, strict=True)),
            ("Greatest priority", str(found["status"]["maxPriority"])),
            ("Priority classes", ", ".join(found["spec"].get("priorityClasses", ())) or "none beyond it"),
            *(("More priority", _excess(one)) for one in found["status"]["excess"]),
            ("Contents", _contents(found) or "nothing"),
        ],
        uncreated="not created explicitly",
    )


def _excess(one: Json) -> str:
    by_class = f" (class {one['priorityClassName']})" if one["priorityClassName"] else ""
    return f"{one['kind']} {one['name']}: {one['priority']}{by_class}"


TITLES = ("CPU cores", "Memory MB", "Disk MB", "Taskgroups", "Objects", "Object storage MB")


def describe_webhook(session: Session, name: str, events: bool, form: str) -> None:
    found = session.client.webhook(session.namespace, name)
    if form:
        print_data(session.out, found, form)
        return
    head, about = found["metadata"], found["resourcesRef"]
    session.show(
        field_list(
            [
                ("Name", object_key(head["namespace"], head["name"])),
                ("Labels", pairs(head.get("labels"))),
                ("Called for", f"{about['operation']} of {about['kind']}"),
                ("Type", "validating" if found["validating"] else "mutating"),
                ("Created", when(head.get("creationTimestamp"))),
                *((f"Webhook {hook['name']}", _hook(hook)) for hook in found["admissionWebhooks"]),
            ]
        )
    )


def _hook(hook: Json) -> str:
    selector = hook.get("namespaceSelector")
    where = f", namespaces {selector['operator']} {','.join(selector['values'])}" if selector else ""
    return (
        f"{hook['clientConfig']['url']}, {duration(hook['timeoutSeconds'])}, on failure {hook['failurePolicy']}{where}"
    )


def custom_functions(kind: str) -> Functions:
    """The functions of a registered kind of custom resources."""
    operations = operations_for(
        kind,
        _put_custom,
        lambda client, namespace, name, dry: client.delete_custom(kind, namespace, name, dry_run=dry),
    )
    return Functions(CUSTOM_COLUMNS, _reading_custom(kind), operations=operations)


FUNCTIONS = {
    "namespaces": Functions(
        NAMESPACE_COLUMNS, reading("namespace"), describe_namespace, operations_of("namespace", put_namespace)
    ),
    "webhooks": Functions(
        WEBHOOK_COLUMNS,
        read_webhooks,
        describe_webhook,
        operations_for(
            "admissionwebhook",
            put_webhook,
            lambda client, namespace, name, dry: client.delete_webhook(namespace, name, dry_run=dry),
        ),
    ),
    "kinds": Functions(
        KIND_COLUMNS,
        read_kinds,
        operations=operations_for(
            "kind", _register, lambda client, namespace, name, dry: client.delete_kind(name, dry_run=dry)
        ),
        name=lambda kind: str(kind["spec"]["names"]["kind"]),
    ),
}
