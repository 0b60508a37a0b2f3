"""`bcs diff`: what `bcs apply` would change, field by field against what is stored.

Documents are compared as the server keeps them: with their defaults, other spellings resolved, and amounts as numbers.
"""

from __future__ import annotations

import dataclasses
import difflib
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import click
import yaml
from rich.text import Text

from bcs_scheduler.api.documents.shapes import READ, complete
from bcs_scheduler.api.redaction import HIDDEN, hide_passwords
from bcs_scheduler.cli.changes import documents_of, handling
from bcs_scheduler.cli.client import Client, Json
from bcs_scheduler.cli.documents import Document
from bcs_scheduler.cli.errors import CliError, NotFound, Problem, UsageError
from bcs_scheduler.cli.handling import changed
from bcs_scheduler.cli.options import Session, connection_options, file_option, pass_session
from bcs_scheduler.cli.output import print_data

SAME, DIFFERS = 0, 1
STYLES = {"+": "green", "-": "red", "@": "cyan"}
UNSEEN = "(differs in what is not shown)"
Look = Callable[[Client, str, str], Json]


class Difference(NamedTuple):
    """Of one object. `state`: new, changed, same. `fields`: (path, stored, given); None = it is not there."""

    document: Document
    state: str
    fields: list[tuple[str, Any, Any]]
    before: Json
    after: Json


@click.command()
@file_option
@click.option("-o", "--output", type=click.Choice(("text", "json", "yaml")), default="text", help="Default: text.")
@connection_options
@pass_session
def diff(session: Session, files: tuple[str, ...], output: str) -> None:
    """Show what `bcs apply -f` would change, and change nothing.

    Exit code 0 when everything is so already, 1 when something differs, 2 and more when that could not be found out.
    Passwords and contents of secrets are not shown.
    """
    try:
        found = [difference(session, document) for document in documents_of(session, files)]
    except CliError as error:
        if error.exit_code == DIFFERS:
            raise UsageError(error.message, error.problems, reason=error.reason) from error
        raise
    if output == "text":
        for each in found:
            for line in _lines(each):
                session.out.print(Text(line, style=STYLES.get(line[:1], "")), soft_wrap=True)
    else:
        print_data(session.out, [_shown(each) for each in found], output)
    click.get_current_context().exit(SAME if all(each.state == "same" for each in found) else DIFFERS)


def difference(session: Session, document: Document) -> Difference:
    """Raises UsageError for a document that the server would not take."""
    if document.kind == "Command":
        return Difference(document, "new", [("$", None, "would be run")], {}, document.body)
    given, problems = complete(document.body)
    if problems:
        listed = [Problem(problem.path, problem.message) for problem in problems]
        raise UsageError(f"{document.source}: {listed[0].path}: {listed[0].message}", listed)
    try:
        before = _stored(session.client, document)
    except NotFound:
        return Difference(document, "new", list(_fields({}, document.body)), {}, hidden(document.body))
    before, problems = complete(before)
    given = _as_apply_takes_it(document, before, document.body if problems else given)
    fields = list(_fields(hidden(before), hidden(given)))
    if document.kind not in WORKLOADS and not _differs_by_dry_run(session, document):
        fields = []
    elif document.kind not in WORKLOADS and not fields:
        fields = [("$", UNSEEN, UNSEEN)]
    return Difference(document, "changed" if fields else "same", fields, hidden(before), hidden(given))


# --- documents as they are compared -------------------------------------------------------------------------------


def _stored(client: Client, document: Document) -> Json:
    """The object like a document. Raises NotFound."""
    look = STORED.get(document.kind)
    found = look(client, document.namespace, document.name) if look else _custom(client, document)
    status = found.get("status")
    if isinstance(status, dict) and status.get("recorded") is False:
        raise NotFound(f"{document.kind} {document.name} has no settings of its own")
    kept = {key: value for key, value in found.items() if key != "status"}
    kept["metadata"] = _described(found.get("metadata") or {})
    return hidden({"kind": document.kind, **kept})


def _custom(client: Client, document: Document) -> Json:
    return client.custom(document.kind, document.namespace, document.name)


def _configuration(kind: str) -> Look:
    return lambda client, namespace, name: client.configuration(kind, namespace, name)


WORKLOADS = ("application", "process", "deployment", "daemonset")
"""Kinds whose own document is kept: equal documents mean that nothing changes. Of the others the server is asked."""
STORED: dict[str, Look] = {
    "application": lambda client, namespace, name: client.definition(namespace, name),
    "process": lambda client, namespace, name: client.definition(namespace, name),
    "deployment": lambda client, namespace, name: client.deployment_definition(namespace, name),
    "daemonset": lambda client, namespace, name: client.daemonset_definition(namespace, name),
    "configmap": _configuration("configmap"),
    "secret": _configuration("secret"),
    "service": _configuration("service"),
    "namespace": lambda client, namespace, name: client.namespace(name),
    "crr": lambda client, namespace, name: client.kind(name),
    "admissionwebhook": lambda client, namespace, name: client.webhook(namespace, name),
}
"""What is stored under a namespace and a name, by kind; other kinds are custom resources."""


def _as_apply_takes_it(document: Document, before: Json, given: Json) -> Json:
    """The number of taskgroups, if left out, stays what it is."""
    spec, stored = given.get("spec"), before.get("spec")
    if isinstance(spec, dict) and isinstance(stored, dict) and "instance" in spec and spec["instance"] is None:
        return {**given, "spec": {**spec, "instance": stored.get("instance")}}
    return given


def hidden(body: Json) -> Json:
    """Without passwords and contents of secrets."""
    if body.get("kind") == "secret" and isinstance(body.get("datas"), dict):
        return {**body, "datas": {key: {"content": HIDDEN} for key in body["datas"]}}
    return hide_passwords(body)


def _differs_by_dry_run(session: Session, document: Document) -> bool:
    """What apply would say to the session is left unsaid."""
    silent = dataclasses.replace(session, change_format="json", changes=[])
    metadata = document.body.get("metadata")
    if isinstance(metadata, dict):
        document = document._replace(body={**document.body, "metadata": _described(metadata)})
    return changed(handling(document.kind).apply(silent, document, True))


def _described(metadata: Mapping[str, Any]) -> Json:
    """Without what reads add: an object that has changed since is compared as it is."""
    return {key: value for key, value in metadata.items() if key not in READ}


# --- what differs -------------------------------------------------------------------------------------------------


def _fields(before: Any, after: Any, path: str = "$") -> Iterator[tuple[str, Any, Any]]:
    if isinstance(before, Mapping) and isinstance(after, Mapping):
        for key in dict.fromkeys((*before, *after)):
            yield from _fields(before.get(key), after.get(key), f"{path}.{key}")
    elif isinstance(before, list | tuple) and isinstance(after, list | tuple) and len(before) == len(after):
        for index, (one, other) in enumerate(zip(before, after, strict=True)):
            yield from _fields(one, other, f"{path}[{index}]")
    elif before != after:
        yield path, before, after


def _lines(found: Difference) -> Iterable[str]:
    if found.state == "same":
        return
    document = found.document
    title = f"{document.kind.lower()}/{document.namespace}/{document.name}"
    yield from difflib.unified_diff(
        _yaml(found.before), _yaml(found.after), f"stored {title}", document.source, lineterm="", n=3
    )
    if any(UNSEEN in (before, after) for _, before, after in found.fields):
        yield f"~ {title} {UNSEEN}"


def _yaml(body: Json) -> list[str]:
    return yaml.safe_dump(body, sort_keys=True, allow_unicode=True).splitlines() if body else []


def _shown(found: Difference) -> Json:
    document = found.document
    return {
        "kind": document.kind,
        "namespace": document.namespace,
        "name": document.name,
        "state": found.state,
        "fields": [{"path": path, "stored": before, "given": after} for path, before, after in found.fields],
    }
