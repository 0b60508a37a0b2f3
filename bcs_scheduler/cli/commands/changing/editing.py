"""`bcs edit`, `patch`, `label` and `set image`: the stored document is changed and applied."""

from __future__ import annotations

import copy
import sys
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import click

from bcs_scheduler.cli.client.kinds import DOCUMENT_KINDS, KINDS
from bcs_scheduler.cli.client.lookup import find_owner
from bcs_scheduler.cli.client.types import Json
from bcs_scheduler.cli.commands.arguments import kinds_and_names, owner_names
from bcs_scheduler.cli.commands.changing.diff import stored_document
from bcs_scheduler.cli.document_files import checked, parsed
from bcs_scheduler.cli.documents import Document
from bcs_scheduler.cli.errors import CliError, UsageError
from bcs_scheduler.cli.kinds.registry import operations_of
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


LABELLED_TWICE = ("application", "process")
"""Kinds that have the labels of their metadata and those of their template."""


def _stored(session: Session, kind: str, name: str) -> Document:
    """The stored document of an object. Raises UsageError for a kind that has none."""
    if kind in KINDS and kind not in DOCUMENT_KINDS:
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
        body = merged(document.body, {"metadata": {"labels": changes}, **_labels_of_template(document, changes)})
        _apply(session, body, document.source, dry_run=dry_run, wait=wait)


def _labels_of_template(document: Document, changes: Mapping[str, str | None]) -> Json:
    """A merge patch of the template of an application: its labels count before those of the metadata."""
    template = (document.body.get("spec") or {}).get("template") or {}
    present = (template.get("metadata") or {}).get("labels") or {}
    both = {key: value for key, value in changes.items() if key in present}
    if not both or document.body.get("kind") not in LABELLED_TWICE:
        return {}
    return {"spec": {"template": {"metadata": {"labels": both}}}}


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


EVERY = "*"
"""In place of the name of a container: all containers of the workload."""


@click.command(
    "image",
    epilog=examples(
        "bcs set image deploy/web web=nginx:1.27 --wait",
        "bcs set image app web '*=registry/shop:2.1' --dry-run",
    ),
)
@click.argument(
    "words", nargs=-1, required=True, metavar="[KIND/]NAME... CONTAINER=IMAGE...", shell_complete=owner_names
)
@validate_option
@on_conflict_option
@changing_command
def set_image(session: Session, words: tuple[str, ...], dry_run: bool, wait: bool) -> None:
    """Change images of containers of workloads, which updates their taskgroups as `bcs apply` does.

    The number of taskgroups remains. CONTAINER is the name of a container; * means all of them.
    """
    objects = [word for word in words if "=" not in word]
    images = dict(_image(word) for word in words if "=" in word)
    if not objects or not images:
        raise UsageError("give a workload, then images: CONTAINER=IMAGE")
    if len(objects) == 1 and "/" not in objects[0]:
        named = [find_owner(session.client, session.namespace, objects[0])]
    else:
        named = [(kind, name) for kind, names in queries_of(session, objects) for name in names]
    changed = [(stored, _with_images(stored, images)) for stored in (_stored(session, *one) for one in named)]
    for stored, body in changed:
        _apply(session, body, stored.source, dry_run=dry_run, wait=wait)


def _image(word: str) -> tuple[str, str]:
    name, _, image = word.partition("=")
    if not name or not image:
        raise UsageError(f"{word!r} is not CONTAINER=IMAGE")
    return name, image


def _with_images(stored: Document, images: Mapping[str, str]) -> Json:
    """The document with other images, and without a number of taskgroups: the present one remains. Raises UsageError
    for a container that does not exist or has no image."""
    body = copy.deepcopy(stored.body)
    spec = body.get("spec") or {}
    containers = ((spec.get("template") or {}).get("spec") or {}).get("containers") or ()
    able = {str(container.get("name") or ""): container for container in containers if container.get("image")}
    if not able:
        raise UsageError(f"{stored.source} has no container with an image")
    for name in images:
        if name != EVERY and name not in able:
            raise UsageError(f"{stored.source} has no container {name!r} with an image; known: {', '.join(able)}")
    for name, container in able.items():
        container["image"] = images.get(name) or images.get(EVERY) or container["image"]
    spec.pop("instance", None)
    return body
