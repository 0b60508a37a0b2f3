"""Configmaps and secrets: what documents describe, or made from files and values. Contents are never shown."""

from __future__ import annotations

import sys
from base64 import b64encode
from collections.abc import Callable
from pathlib import Path

import click

from bcs_scheduler.cli.client import Accepted, Json
from bcs_scheduler.cli.documents import Document
from bcs_scheduler.cli.errors import NotFound, UsageError
from bcs_scheduler.cli.options import Session, connection_options, pass_session, reporting

LARGEST = 220_000
"""Bytes of all contents together: in base64, as they are stored, the server takes 300,000 with all else."""


def put_configuration(session: Session, document: Document, *, create: bool | None, dry_run: bool) -> Accepted:
    """`create` None: whichever fits."""
    client, kind = session.client, document.kind
    if create is None:
        try:
            client.configuration(kind, document.namespace, document.name)
            create = False
        except NotFound:
            create = True
    accepted = client.put_configuration(kind, document.body, create=create, dry_run=dry_run)
    unchanged = isinstance(accepted.data, dict) and accepted.data.get("unchanged")
    done = "unchanged" if unchanged else "created" if create else "updated"
    session.report(kind, document.name, done, "dry run" if dry_run else "", dryRun=dry_run)
    return accepted


@click.group()
@connection_options
def create() -> None:
    """Create a configmap or a secret from files and values."""


def _command(kind: str) -> Callable[..., None]:
    @click.command(kind, help=f"Create {kind} NAME. Contents go to the server and are not printed.")
    @click.argument("name")
    @click.option("--from-file", "files", multiple=True, metavar="[KEY=]PATH", help="A file, all of a folder, or -.")
    @click.option(
        "--from-literal", "literals", multiple=True, metavar="KEY=VALUE", help="Seen by whoever lists processes."
    )
    @click.option("--replace", is_flag=True, help="Replace it if it exists.")
    @click.option("--dry-run", is_flag=True, help="Only have the server check it.")
    @connection_options
    @pass_session
    @reporting
    def made(
        session: Session, name: str, files: tuple[str, ...], literals: tuple[str, ...], replace: bool, dry_run: bool
    ) -> None:
        document = _document(kind, session.namespace, name, _contents(files, literals))
        put_configuration(session, document, create=None if replace else True, dry_run=dry_run)

    return made


for kind in ("configmap", "secret"):
    create.add_command(_command(kind))  # type: ignore[arg-type]


def _document(kind: str, namespace: str, name: str, contents: dict[str, bytes]) -> Document:
    head = {"type": "file"} if kind == "configmap" else {}
    datas = {key: {**head, "content": b64encode(data).decode("ascii")} for key, data in contents.items()}
    body: Json = {"apiVersion": "v4", "kind": kind, "metadata": {"name": name, "namespace": namespace}, "datas": datas}
    return Document("command line", body)


def _contents(files: tuple[str, ...], literals: tuple[str, ...]) -> dict[str, bytes]:
    """By key. Raises UsageError."""
    if not files and not literals:
        raise UsageError("give contents with --from-file or --from-literal")
    found: dict[str, bytes] = {}
    pairs = [pair for given in files for pair in _from_file(given)]
    for literal in literals:
        key, equals, value = literal.partition("=")
        if not equals or not key:
            raise UsageError("--from-literal takes KEY=VALUE")  # not shown: it may be a secret
        pairs.append((key, value.encode()))
    for key, data in pairs:
        if key in found:
            raise UsageError(f"key {key} is given twice")
        found[key] = data
    size = sum(map(len, found.values()))
    if size > LARGEST:
        raise UsageError(f"the contents have {size} bytes, at most {LARGEST} are possible")
    return found


def _from_file(given: str) -> list[tuple[str, bytes]]:
    key, equals, path = given.rpartition("=")
    if path == "-":
        if not key:
            raise UsageError("--from-file - needs a key: KEY=-")
        return [(key, sys.stdin.buffer.read())]
    try:
        if Path(path).is_dir():
            if equals:
                raise UsageError(f"{path}: a folder has no one key")
            return [(file.name, file.read_bytes()) for file in sorted(Path(path).iterdir()) if file.is_file()]
        return [(key or Path(path).name, Path(path).read_bytes())]
    except OSError as error:
        raise UsageError(f"{path}: {(error.strerror or str(error)).lower()}") from None
