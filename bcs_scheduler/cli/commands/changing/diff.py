"""`bcs diff`: the changes that `bcs apply` would make, compared with the stored objects.

Documents are compared in their normal form: with defaults, without aliases, and with amounts as numbers.
"""

from __future__ import annotations

import copy
import difflib
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import click

from bcs_scheduler.cli.client.client import Client
from bcs_scheduler.cli.client.kinds import KINDS
from bcs_scheduler.cli.client.types import Accepted, Json
from bcs_scheduler.cli.commands.changing.apply import documents_of
from bcs_scheduler.cli.documents import APPLY_ORDER, Document, changed
from bcs_scheduler.cli.errors import CliError, NotFound, Problem, UsageError
from bcs_scheduler.cli.kinds.registry import operations_of
from bcs_scheduler.cli.options import connection_options, examples, file_option, pass_session, validate_option
from bcs_scheduler.cli.output.data import print_data
from bcs_scheduler.cli.output.documents import document_of
from bcs_scheduler.cli.output.terminal import Style, Styled
from bcs_scheduler.cli.session import Session
from bcs_scheduler.wire.normal import READ, complete
from bcs_scheduler.wire.problems import Problems, Validation
from bcs_scheduler.wire.redaction import HIDDEN, hide_passwords
from bcs_scheduler.wire.yamltext import text_of
from store.keys import object_key

_VALIDATION: Mapping[str, Validation] = {
    "strict": "Strict",
    "warn": "Warn",
    "original": "Original",
    "ignore": "Ignore",
}
SAME, DIFFERS = 0, 1
STYLES: Mapping[str, Style] = {"+": "green", "-": "red", "@": "cyan"}
UNSEEN = "(a confidential field that differs)"
Look = Callable[[Client, str, str], Json]


class Difference(NamedTuple):
    """Difference of one object. `state`: new, changed or same. `fields`: (path, stored, given); None = absent."""

    document: Document
    state: str
    fields: list[tuple[str, Any, Any]]
    before: Json
    after: Json


@click.command(epilog=examples("bcs diff -f web-v2.json", "bcs diff -f web-v2.json || bcs apply -f web-v2.json"))
@file_option
@validate_option
@click.option(
    "-o", "--output", type=click.Choice(("text", "json", "yaml")), default="text", help="Output format. Default: text."
)
@connection_options
@pass_session
def diff(session: Session, files: tuple[str, ...], output: str) -> None:
    """Show the changes that `bcs apply` would make.

    Exit code 0: no difference; 1: differences; 2 and above: the comparison failed. Passwords and contents of secrets
    are not shown: a field that differs is named without its value.
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
                session.out.print(Styled(line, style=STYLES.get(line[:1], "")))
    else:
        print_data(session.out, [_shown(each) for each in found], output)
    click.get_current_context().exit(SAME if all(each.state == "same" for each in found) else DIFFERS)


def difference(session: Session, document: Document) -> Difference:
    """Compares one document with the stored object. Raises UsageError for an invalid document."""
    if document.kind == "Command":
        return Difference(document, "new", [("$", None, "would be run")], {}, document.body)
    found = Problems(_VALIDATION[session.validate or "warn"])
    given, problems = complete(document.body, found)
    for warning in found.warnings():
        session.warn_of(warning.path, warning.message, warning.hint)
    if problems:
        listed = [Problem(problem.path, problem.message) for problem in problems]
        raise UsageError(f"{document.source}: {listed[0].path}: {listed[0].message}", listed)
    try:
        before = hidden(stored_document(session.client, document))
    except NotFound:
        return Difference(document, "new", list(_fields({}, document.body)), {}, hidden(document.body))
    before, problems = complete(before)
    given = _as_apply_takes_it(document, before, document.body if problems else given)
    fields = list(_fields(hidden(before), hidden(given)))
    unseen = [path for path, _, _ in _fields(hidden(document.body), document.body)]
    if document.kind not in WORKLOADS or (unseen and not fields):
        # The server alone knows the confidential values, and the effect of objects that it completes.
        accepted = _dry_run(session, document)
        if not changed(accepted):
            fields = []
        elif not fields:
            fields = [(path, UNSEEN, UNSEEN) for path in _confidential(document, accepted, unseen) or ["$"]]
    return Difference(document, "changed" if fields else "same", fields, hidden(before), hidden(given))


def stored_document(client: Client, document: Document) -> Json:
    """The stored object in the form of a document, without the fields that only answers have. Raises NotFound."""
    look = STORED.get(document.kind)
    found = look(client, document.namespace, document.name) if look else _custom(client, document)
    status = found.get("status")
    if isinstance(status, dict) and status.get("recorded") is False:
        raise NotFound(f"{document.kind} {document.name} has no settings")
    found = document_of(f"{document.kind}s", found)
    kept = {key: value for key, value in found.items() if key != "status" or document.kind not in APPLY_ORDER}
    kept["metadata"] = _described(found.get("metadata") or {})
    return {"kind": document.kind, **kept}


def _custom(client: Client, document: Document) -> Json:
    return client.custom(document.kind, document.namespace, document.name)


def _kept(kind: str) -> Look:
    return lambda client, namespace, name: client.object(kind, namespace, name)


WORKLOADS = ("application", "process", "deployment", "daemonset")
"""Kinds whose documents are stored. For other kinds a dry run of the server decides whether anything changes."""
STORED: dict[str, Look] = {
    "application": lambda client, namespace, name: client.definition(namespace, name),
    "process": lambda client, namespace, name: client.definition(namespace, name),
    "deployment": lambda client, namespace, name: client.deployment_definition(namespace, name),
    "daemonset": lambda client, namespace, name: client.daemonset_definition(namespace, name),
    **{kind.document: _kept(kind.document) for kind in KINDS.values() if kind.common_routes},
    "crr": lambda client, namespace, name: client.kind(name),
    "admissionwebhook": lambda client, namespace, name: client.webhook(namespace, name),
}
"""Functions that read the stored object, by kind. Other kinds are custom resources."""


def _as_apply_takes_it(document: Document, before: Json, given: Json) -> Json:
    """The document with the stored number of taskgroups if it has none."""
    spec, stored = given.get("spec"), before.get("spec")
    if isinstance(spec, dict) and isinstance(stored, dict) and "instance" in spec and spec["instance"] is None:
        return {**given, "spec": {**spec, "instance": stored.get("instance")}}
    return given


def hidden(body: Json) -> Json:
    """A document without passwords and contents of secrets."""
    if body.get("kind") == "secret" and isinstance(body.get("datas"), dict):
        return {**body, "datas": {key: {"content": HIDDEN} for key in body["datas"]}}
    return hide_passwords(body)


def _confidential(document: Document, accepted: Accepted, unseen: list[str]) -> list[str]:
    """The paths of the confidential fields that differ: of a secret as the server says, else all that are written."""
    keys = accepted.data.get("differs") if isinstance(accepted.data, dict) else None
    return [f"$.datas.{key}" for key in keys] if document.kind == "secret" and keys else unseen


def _dry_run(session: Session, document: Document) -> Accepted:
    """The answer to a dry run of apply. Its report is not printed."""
    silent = copy.copy(session)
    silent.change_format, silent.changes = "json", []
    metadata = document.body.get("metadata")
    if isinstance(metadata, dict):
        document = document._replace(body={**document.body, "metadata": _described(metadata)})
    return operations_of(document.kind).apply(silent, document, True)


def _described(metadata: Mapping[str, Any]) -> Json:
    """Metadata without the fields that only answers have."""
    return {key: value for key, value in metadata.items() if key not in READ}


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
    title = f"{document.kind.lower()}/{object_key(document.namespace, document.name)}"
    yield from difflib.unified_diff(
        _yaml(found.before), _yaml(found.after), f"stored {title}", document.source, lineterm="", n=3
    )
    for path, before, _ in found.fields:
        if before == UNSEEN:
            yield f"~ {title} {path} {UNSEEN}"


def _yaml(body: Json) -> list[str]:
    return text_of(body, sort_keys=True).splitlines() if body else []


def _shown(found: Difference) -> Json:
    document = found.document
    return {
        "kind": document.kind,
        "namespace": document.namespace,
        "name": document.name,
        "state": found.state,
        "fields": [{"path": path, "stored": before, "given": after} for path, before, after in found.fields],
    }
