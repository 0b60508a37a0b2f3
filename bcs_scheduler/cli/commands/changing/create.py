"""`bcs create configmap`, `secret` and `namespace`. Contents are never printed."""

from __future__ import annotations

import sys
from base64 import b64encode
from collections.abc import Callable
from pathlib import Path

import click

from bcs_scheduler.cli.client.types import Json
from bcs_scheduler.cli.commands.changing import generate
from bcs_scheduler.cli.commands.changing.namespaces import create_namespace
from bcs_scheduler.cli.documents.document import Document
from bcs_scheduler.cli.errors import UsageError
from bcs_scheduler.cli.kinds.objects.configuration import put_configuration
from bcs_scheduler.cli.options import WholeHelp, connection_options, examples, pass_session, reporting, validate_option
from bcs_scheduler.cli.session import Session

LARGEST = 220_000
"""Bytes of all contents together. The server accepts 300,000 bytes of a stored object, with contents in base64."""


@click.group(cls=WholeHelp)
@connection_options
def create() -> None:
    """Create an object from options instead of a document."""


def _configuration_command(kind: str) -> Callable[..., None]:
    @click.command(
        kind,
        help=f"Create {kind} NAME from files and values. Contents are not printed.",
        epilog=examples(
            f"bcs create {kind} motd --from-literal text=hello",
            f"bcs create {kind} motd --from-file motd.txt --replace",
        ),
    )
    @click.argument("name")
    @click.option(
        "--from-file",
        "files",
        multiple=True,
        metavar="[KEY=]PATH",
        type=click.Path(),
        help="A file, all files of a directory, or KEY=- for standard input.",
    )
    @click.option(
        "--from-literal",
        "literals",
        multiple=True,
        metavar="KEY=VALUE",
        help="A value. Other users of this machine can see it in the process list.",
    )
    @click.option(
        "--from-env-file",
        "env_files",
        multiple=True,
        metavar="PATH",
        type=click.Path(),
        help="A file with lines KEY=VALUE.",
    )
    @click.option("--replace", is_flag=True, help="Replace the object if it exists.")
    @click.option("--dry-run", is_flag=True, help="Let the server check the object, and change nothing.")
    @validate_option
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
        document = _configuration_document(kind, session.namespace, name, _contents(files, literals, env_files))
        put_configuration(session, document, create=None if replace else True, dry_run=dry_run)

    return made


for kind in ("configmap", "secret"):
    create.add_command(_configuration_command(kind))  # type: ignore[arg-type]


def _configuration_document(kind: str, namespace: str, name: str, contents: dict[str, bytes]) -> Document:
    head = {"type": "file"} if kind == "configmap" else {}
    datas = {key: {**head, "content": b64encode(data).decode("ascii")} for key, data in contents.items()}
    body: Json = {"apiVersion": "v4", "kind": kind, "metadata": {"name": name, "namespace": namespace}, "datas": datas}
    return Document("command line", body)


def _contents(files: tuple[str, ...], literals: tuple[str, ...], env_files: tuple[str, ...]) -> dict[str, bytes]:
    """Contents by key. Raises UsageError."""
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
        raise UsageError(f"the contents have {size} bytes; the limit is {LARGEST}")
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
                raise UsageError(f"{path}: a directory cannot have a single key")
            return [(file.name, file.read_bytes()) for file in sorted(Path(path).iterdir()) if file.is_file()]
        return [(key or Path(path).name, Path(path).read_bytes())]
    except OSError as error:
        raise UsageError(f"{path}: {(error.strerror or str(error)).lower()}") from None


def _from_env_file(path: str) -> list[tuple[str, bytes]]:
    """Lines KEY=VALUE. `export` before a line and quotes around a value are removed; # begins a comment line."""
    try:
        lines = Path(path).read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise UsageError(f"{path}: {(error.strerror or str(error)).lower()}") from None
    except UnicodeDecodeError:
        raise UsageError(f"{path}: is not UTF-8 text") from None
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


create.add_command(create_namespace)
create.add_command(generate.application)
create.add_command(generate.deployment)
