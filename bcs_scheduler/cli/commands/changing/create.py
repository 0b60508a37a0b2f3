"""`bcs create`: objects from options, and from documents that must be new. Contents of configmaps and secrets are
printed only as a document (`--dry-run -o yaml`)."""

from __future__ import annotations

import functools
import sys
from base64 import b64encode
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import click

from bcs_scheduler.cli import habits
from bcs_scheduler.cli.client.kinds import SINGULAR
from bcs_scheduler.cli.client.types import Json
from bcs_scheduler.cli.commands.changing import generate
from bcs_scheduler.cli.commands.changing.apply import carry_out, documents_of
from bcs_scheduler.cli.commands.changing.generate import created, dry_run_option, named_port, pairs_of
from bcs_scheduler.cli.commands.changing.namespaces import create_namespace
from bcs_scheduler.cli.errors import UsageError
from bcs_scheduler.cli.kinds.registry import operations_of
from bcs_scheduler.cli.kinds.selection import kind_of
from bcs_scheduler.cli.options import (
    WholeHelp,
    changing_command,
    connection_options,
    examples,
    files_option,
    pass_session,
    reporting,
    validate_option,
)
from bcs_scheduler.cli.session import Session

LARGEST = 220_000
"""Bytes of all contents together. The server accepts 300,000 bytes of a stored object, with contents in base64."""
Command = Callable[..., Any]


class Creation(WholeHelp):
    """Commands by kind; aliases of kinds are accepted."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        kind = args[0] if args[0] in self.commands else SINGULAR.get(kind_of(args[0]), args[0])
        return super().resolve_command(ctx, [kind, *args[1:]])


def _without_kind(command: Command) -> Command:
    """For a group with options of its own: runs `command` if no command of the group was given."""

    @functools.wraps(command)
    def wrapped(**options: Any) -> Any:
        kind = click.get_current_context().invoked_subcommand
        if kind is None:
            return command(**options)
        if any(options.values()):
            raise UsageError(f"give the options after the kind: bcs create {kind} NAME ...")
        return None

    return wrapped


@click.group(
    cls=Creation,
    invoke_without_command=True,
    no_args_is_help=True,
    epilog=examples("bcs create -f web.yaml", "bcs create deployment web --image nginx --port http:80"),
)
@_without_kind
@files_option()
@validate_option
@changing_command
def create(session: Session, files: tuple[str, ...], dry_run: bool, wait: bool) -> None:
    """Create an object from options, or the objects of documents.

    With -f, an object that exists already is refused; `bcs apply` changes it.
    """
    if not files:
        raise UsageError("give a kind and a name, or documents with -f")
    documents = documents_of(session, files)
    carry_out(
        session,
        documents,
        lambda document: operations_of(document.kind).create(session, document, dry_run),
        wait=wait and not dry_run,
    )


def _naming(command: Command) -> Command:
    """The options of a command that creates an object without taskgroups, and the session as the first argument."""
    return dry_run_option(validate_option(connection_options(pass_session(reporting(command)))))


def _configuration_command(kind: str) -> Callable[..., None]:
    typed = "generic " if kind == "secret" else ""

    @click.command(
        kind,
        help=f"Create {kind} NAME from files and values.",
        epilog=examples(
            f"bcs create {kind} motd --from-literal text=hello",
            f"bcs create {kind} {typed}motd --from-file motd.txt --replace",
        ),
    )
    @click.argument("words", nargs=-1, required=True, metavar="NAME")
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
    @habits.answered(habits.SECRET if kind == "secret" else {})
    @_naming
    def made(
        session: Session,
        words: tuple[str, ...],
        files: tuple[str, ...],
        literals: tuple[str, ...],
        env_files: tuple[str, ...],
        replace: bool,
        dry_run: bool,
    ) -> None:
        name = _name(words, habits.SECRET_TYPES if kind == "secret" else {})
        body = _configuration_document(kind, session.namespace, name, _contents(files, literals, env_files))
        created(session, body, dry_run=dry_run, replace=replace)

    return made


for kind in ("configmap", "secret"):
    create.add_command(_configuration_command(kind))  # type: ignore[arg-type]


def _name(words: tuple[str, ...], types: Mapping[str, str]) -> str:
    """NAME, or the second one of TYPE NAME as kubectl has it. `types`: why a type cannot be made, empty = it can.
    Raises UsageError."""
    if len(words) == 2 and words[0] in types:
        if types[words[0]]:
            raise UsageError(f"{words[0]}: {types[words[0]]}")
        return words[1]
    if len(words) != 1:
        raise UsageError(f"give one name, not {len(words)} words")
    return words[0]


@click.command(
    epilog=examples(
        "bcs create service web --port http:8000",
        "bcs create service clusterip web --tcp 80:http --selector app=shop",
    )
)
@click.argument("words", nargs=-1, required=True, metavar="NAME")
@click.option(
    "--port",
    "ports",
    multiple=True,
    metavar="NAME[:NUMBER]",
    help="A port of the taskgroups by its name; load balancers offer it as NUMBER. May be repeated.",
)
@click.option(
    "--tcp",
    "offered",
    multiple=True,
    metavar="NUMBER[:NAME]",
    help="The same with the number first. A number in place of the name means the port that --port NUMBER of other "
    "commands makes.",
)
@click.option(
    "--selector", "selectors", multiple=True, metavar="KEY=VALUE,…", help="Labels of the taskgroups. Default: app=NAME."
)
@click.option(
    "-l", "--label", "labels", multiple=True, metavar="KEY=VALUE", help="A label. May be repeated. Default: app=NAME."
)
@habits.answered(habits.SERVICE)
@_naming
def service(
    session: Session,
    words: tuple[str, ...],
    ports: tuple[str, ...],
    offered: tuple[str, ...],
    selectors: tuple[str, ...],
    labels: tuple[str, ...],
    dry_run: bool,
) -> None:
    """Create service NAME, which publishes addresses of taskgroups."""
    name = _name(words, habits.SERVICE_TYPES)
    named = [_service_port("--port", *_split(port)) for port in ports]
    named += [_service_port("--tcp", *_split(port)[::-1]) for port in offered]
    if not named:
        raise UsageError("give the ports with --port or --tcp")
    pairs = tuple(pair for selector in selectors for pair in selector.split(","))
    own = pairs_of("--label", labels) or {"app": name}
    head = {"name": name, "namespace": session.namespace, "labels": own}
    spec = {"selector": pairs_of("--selector", pairs) or {"app": name}, "ports": named}
    created(session, {"apiVersion": "v4", "kind": "service", "metadata": head, "spec": spec}, dry_run=dry_run)


def _split(port: str) -> tuple[str, str]:
    """The two parts of a port; one part counts twice, if it is a number."""
    first, colon, second = port.partition(":")
    return first, second if colon or not first.isdecimal() else first


def _service_port(option: str, name: str, number: str) -> Json:
    """`name`: a name, or the number of a port without a name. Raises UsageError."""
    if not name or (number and not number.isdecimal()):
        raise UsageError(f"{option} takes {'NAME[:NUMBER]' if option == '--port' else 'NUMBER[:NAME]'}")
    known = named_port(name).partition(":")[0]
    return {"name": known, "protocol": "tcp", **({"servicePort": int(number)} if number else {})}


@click.command(
    epilog=examples(
        "bcs create priorityclass online --value 1000 --description 'Answers users'",
        "bcs create priorityclass batch --value 10 --global-default",
    )
)
@click.argument("name")
@click.option("--value", type=int, required=True, metavar="N", help="The priority; greater ones go first.")
@click.option("--global-default", is_flag=True, help="The class of work that names none.")
@click.option("--description", default="", metavar="TEXT", help="The use of the class.")
@click.option(
    "--preemption-policy",
    "preemption",
    type=click.Choice(("PreemptLowerPriority", "Never")),
    default="PreemptLowerPriority",
    show_default=True,
    help="Whether its work may evict work of lower priority.",
)
@_naming
def priorityclass(
    session: Session, name: str, value: int, global_default: bool, description: str, preemption: str, dry_run: bool
) -> None:
    """Create priority class NAME."""
    body: Json = {"kind": "PriorityClass", "metadata": {"name": name}, "value": value, "preemptionPolicy": preemption}
    body |= {"globalDefault": True} if global_default else {}
    body |= {"description": description} if description else {}
    created(session, body, dry_run=dry_run)


def _configuration_document(kind: str, namespace: str, name: str, contents: dict[str, bytes]) -> Json:
    head = {"type": "file"} if kind == "configmap" else {}
    datas = {key: {**head, "content": b64encode(data).decode("ascii")} for key, data in contents.items()}
    return {"apiVersion": "v4", "kind": kind, "metadata": {"name": name, "namespace": namespace}, "datas": datas}


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


for command in (
    generate.application,
    generate.deployment,
    generate.job,
    service,
    create_namespace,
    priorityclass,
):
    create.add_command(command)
