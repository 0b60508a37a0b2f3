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
from bcs_scheduler.cli.handling import Handling, UpdateOptions, refuse_counts
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


def configuration_handling(kind: str) -> Handling:
    def apply(session: Session, document: Document, dry_run: bool) -> Accepted:
        return put_configuration(session, document, create=None, dry_run=dry_run)

    def update(session: Session, document: Document, options: UpdateOptions) -> Accepted:
        refuse_counts(document, options)
        return put_configuration(session, document, create=False, dry_run=options.dry_run)

    def delete(session: Session, namespace: str, name: str, enforce: bool, dry_run: bool) -> Accepted:
        accepted = session.client.delete_configuration(kind, namespace, name, dry_run=dry_run)
        session.report(kind, name, "deleted", "dry run" if dry_run else "", dryRun=dry_run)
        return accepted

    return Handling(apply, update, delete)


@click.group()
@connection_options
def create() -> None:
    """Create an object, or its document, from what the command line says."""


def _command(kind: str) -> Callable[..., None]:
    @click.command(kind, help=f"Create {kind} NAME. Contents go to the server and are not printed.")
    @click.argument("name")
    @click.option("--from-file", "files", multiple=True, metavar="[KEY=]PATH", help="A file, all of a folder, or -.")
    @click.option(
        "--from-literal", "literals", multiple=True, metavar="KEY=VALUE", help="Seen by whoever lists processes."
    )
    @click.option("--from-env-file", "env_files", multiple=True, metavar="PATH", help="Lines of KEY=VALUE.")
    @click.option("--replace", is_flag=True, help="Replace it if it exists.")
    @click.option("--dry-run", is_flag=True, help="Only have the server check it.")
    @connection_options
    @pass_session
    @reporting
    def made(
        session: Session,
        name: str,
        files: tuple[str, ...],
        literals: tuple[str, ...],
        env_files: tuple[str, ...],
        replace: bool,
        dry_run: bool,
    ) -> None:
        document = _document(kind, session.namespace, name, _contents(files, literals, env_files))
        put_configuration(session, document, create=None if replace else True, dry_run=dry_run)

    return made


for kind in ("configmap", "secret"):
    create.add_command(_command(kind))  # type: ignore[arg-type]


def _document(kind: str, namespace: str, name: str, contents: dict[str, bytes]) -> Document:
    head = {"type": "file"} if kind == "configmap" else {}
    datas = {key: {**head, "content": b64encode(data).decode("ascii")} for key, data in contents.items()}
    body: Json = {"apiVersion": "v4", "kind": kind, "metadata": {"name": name, "namespace": namespace}, "datas": datas}
    return Document("command line", body)


def _contents(files: tuple[str, ...], literals: tuple[str, ...], env_files: tuple[str, ...]) -> dict[str, bytes]:
    """By key. Raises UsageError."""
    if not files and not literals and not env_files:
        raise UsageError("give contents with --from-file, --from-literal or --from-env-file")
    found: dict[str, bytes] = {}
    pairs = [pair for given in files for pair in _from_file(given)]
    for literal in literals:
        key, equals, value = literal.partition("=")
        if not equals or not key:
            raise UsageError("--from-literal takes KEY=VALUE")  # not shown: it may be a secret
        pairs.append((key, value.encode()))
    pairs += [pair for path in env_files for pair in _from_env_file(path)]
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


def _from_env_file(path: str) -> list[tuple[str, bytes]]:
    """Lines of KEY=VALUE, with or without `export` and quotes around the value; # begins a comment line."""
    try:
        lines = Path(path).read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise UsageError(f"{path}: {(error.strerror or str(error)).lower()}") from None
    except UnicodeDecodeError:
        raise UsageError(f"{path}: is not text in UTF-8") from None
    found = []
    for number, line in enumerate(map(str.strip, lines), 1):
        if not line or line.startswith("#"):
            continue
        key, equals, value = line.removeprefix("export ").partition("=")
        key, value = key.strip(), value.strip()
        if not equals or not key:
            raise UsageError(f"{path}: line {number} is not KEY=VALUE")  # not shown: it may be a secret
        quoted = len(value) > 1 and value[0] == value[-1] and value[0] in "\"'"
        found.append((key, (value[1:-1] if quoted else value).encode()))
    return found
