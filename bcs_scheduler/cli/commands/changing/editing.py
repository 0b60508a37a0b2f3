"""`bcs edit`, `patch` and `label`: the stored document is changed and applied."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import click

from bcs_scheduler.cli.client.types import Json
from bcs_scheduler.cli.commands.completing import kinds_and_names
from bcs_scheduler.cli.commands.planning.diff import stored_document
from bcs_scheduler.cli.documents.document import Document
from bcs_scheduler.cli.documents.loading import checked, parsed
from bcs_scheduler.cli.errors import CliError, UsageError
from bcs_scheduler.cli.kinds.registry import COLUMNS, DOCUMENT_KINDS, operations_of
from bcs_scheduler.cli.kinds.selection import one_object, queries_of
from bcs_scheduler.cli.options import (
    changing_command,
    examples,
    on_conflict_option,
    validate_option,
)
from bcs_scheduler.cli.session import Session
from bcs_scheduler.wire.yamltext import text_of

HEAD = """\
# Change the document, save it and leave the editor: the document is applied then.
# An unchanged or empty document is not applied.
"""
words_argument = click.argument(
    "words", nargs=-1, required=True, metavar="KIND/NAME | KIND NAME", shell_complete=kinds_and_names
)


def _stored(session: Session, kind: str, name: str) -> Document:
    """The stored document of an object. Raises UsageError for a kind that has none."""
    if kind in COLUMNS and kind not in DOCUMENT_KINDS:
        known = ", ".join(DOCUMENT_KINDS)
        raise UsageError(f"{kind} have no document that can be changed here; kinds that have: {known}")
    document_kind = DOCUMENT_KINDS.get(kind, kind)
    identity = {"kind": document_kind, "metadata": {"name": name, "namespace": session.namespace}}
    body = stored_document(session.client, Document("stored", identity))
    return Document(f"{document_kind}/{name}", body)


def _apply(session: Session, body: Json, source: str, *, dry_run: bool, wait: bool) -> None:
    document = checked(source, body, session.namespace, False)
    how = operations_of(document.kind)
    accepted = how.apply(session, document, dry_run)
    if wait and not dry_run:
        how.wait_applied(session, document.namespace, document.name, accepted)


@click.command(epilog=examples("bcs edit deploy/web", "EDITOR=nano bcs edit configmap motd --wait"))
@words_argument
@validate_option
@on_conflict_option
@changing_command
def edit(session: Session, words: tuple[str, ...], dry_run: bool, wait: bool) -> None:
    """Edit the document of an object in $VISUAL or $EDITOR, and apply it.

    A document that is refused is kept in a file, for `bcs apply -f`.
    """
    kind, name = one_object(session, words)
    stored = _stored(session, kind, name)
    before = HEAD + text_of(stored.body)
    try:
        after = click.edit(before, extension=".yaml")
    except click.ClickException as error:
        raise CliError(f"the editor failed: {error.message}") from None
    if after is None or after == before or not _meaning(after):
        session.report(stored.kind.lower(), name, "not changed")
        return
    try:
        (body,) = parsed("the edited document", after)
        if not isinstance(body, dict) or _identity(body) != _identity(stored.body):
            raise UsageError("kind, name and namespace of a document cannot be edited")
        _apply(session, body, stored.source, dry_run=dry_run, wait=wait)
    except (CliError, ValueError) as error:
        kept = _kept(name, after)
        problems = error.problems if isinstance(error, CliError) else ()
        known: type[CliError] = type(error) if isinstance(error, CliError) else UsageError
        why = error.message if isinstance(error, CliError) else "give one document"
        raise known(f"{why}; the edited document is in {kept}", problems) from error


def _identity(body: Json) -> tuple[Any, Any]:
    metadata = body.get("metadata")
    return body.get("kind"), metadata.get("name") if isinstance(metadata, dict) else None


def _meaning(document: str) -> bool:
    return any(line.strip() and not line.startswith("#") for line in document.splitlines())


def _kept(name: str, content: str) -> Path:
    with tempfile.NamedTemporaryFile("w", prefix=f"bcs-edit-{name}-", suffix=".yaml", delete=False) as file:
        file.write(content)
    return Path(file.name)


@click.command(
    epilog=examples(
        """bcs patch deploy/web -p '{"spec": {"instance": 3}}'""",
        "bcs patch app/web -p 'spec: {instance: 3}' --dry-run",
        "bcs patch cm/motd --patch-file change.yaml",
    )
)
@words_argument
@click.option("-p", "--patch", "text", default="", metavar="PATCH", help="Fields to change, as JSON or YAML.")
@click.option(
    "--patch-file", "file", type=click.Path(dir_okay=False), help="File with the patch, or - for standard input."
)
@click.option("--type", "form", type=click.Choice(("merge",)), default="merge", help="Form of the patch (RFC 7386).")
@validate_option
@on_conflict_option
@changing_command
def patch(
    session: Session, words: tuple[str, ...], text: str, file: str | None, form: str, dry_run: bool, wait: bool
) -> None:
    """Change fields of the document of an object, and apply it.

    Objects are merged, other values are replaced, and null removes a field.
    """
    if bool(text) == bool(file):
        raise UsageError("give the patch with -p or --patch-file")
    kind, name = one_object(session, words)
    if file:
        try:
            text = sys.stdin.read() if file == "-" else Path(file).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise UsageError(f"cannot read {file}: {error}") from None
    bodies = parsed("the patch", text)
    if len(bodies) != 1 or not isinstance(bodies[0], dict):
        raise UsageError("the patch is not an object")
    stored = _stored(session, kind, name)
    body = merged(stored.body, bodies[0])
    if _identity(body) != _identity(stored.body):
        raise UsageError("kind and name of a document cannot be patched")
    _apply(session, body, stored.source, dry_run=dry_run, wait=wait)


def merged(document: Any, changes: Any) -> Any:
    """A document after a merge patch (RFC 7386)."""
    if not isinstance(changes, dict):
        return changes
    found = dict(document) if isinstance(document, dict) else {}
    for key, value in changes.items():
        if value is None:
            found.pop(key, None)
        else:
            found[key] = merged(found.get(key), value)
    return found


@click.command(epilog=examples("bcs label deploy/web tier=front", "bcs label cm motd owner=me stage- --overwrite"))
@click.argument(
    "words", nargs=-1, required=True, metavar="KIND/NAME... KEY=VALUE|KEY-...", shell_complete=kinds_and_names
)
@click.option("--overwrite", is_flag=True, help="Change labels that have another value.")
@validate_option
@on_conflict_option
@changing_command
def label(session: Session, words: tuple[str, ...], overwrite: bool, dry_run: bool, wait: bool) -> None:
    """Set (KEY=VALUE) or remove (KEY-) labels of objects.

    Labels of applications are part of their definition: a change replaces their taskgroups in steps.
    """
    marks = [word for word in words if "=" in word or (word.endswith("-") and word is not words[0])]
    objects = [word for word in words if word not in marks]
    if not objects or not marks:
        raise UsageError("give objects, then labels: KEY=VALUE sets a label, KEY- removes it")
    stored = [_stored(session, kind, name) for kind, names in queries_of(session, objects) for name in names]
    if not stored:
        raise UsageError("give the objects by name: KIND/NAME or KIND NAME")
    for document in stored:
        changes = _labels(document, marks, overwrite)
        body = merged(document.body, {"metadata": {"labels": changes}})
        _apply(session, body, document.source, dry_run=dry_run, wait=wait)


def _labels(document: Document, marks: Iterable[str], overwrite: bool) -> dict[str, str | None]:
    """A merge patch of the labels. Raises UsageError for a label that would be overwritten."""
    present = document.body["metadata"].get("labels") or {}
    changes: dict[str, str | None] = {}
    for mark in marks:
        key, equals, value = mark.partition("=")
        if not equals:
            changes[key.removesuffix("-")] = None
        elif not key:
            raise UsageError(f"{mark!r} is not a label: KEY=VALUE sets a label, KEY- removes it")
        elif not overwrite and present.get(key, value) != value:
            raise UsageError(f"{document.source} has the label {key}={present[key]}; --overwrite changes it")
        else:
            changes[key] = value
    return changes
