"""Writes lists of the things that users of the HTTP API and of `bcs` can name: the operations and schemas of the
OpenAPI document, the commands with their options, and the words of the kinds.

    python -m tests.golden.interfaces

A line ends with a digest of everything that its thing says (parameters, schemas and summaries of an operation, the help
of a command). The order of operations and of fields is no part of it. tests/component/test_interfaces.py compares the
lines with the files in tests/golden/interfaces: a change that users must not see leaves these files unchanged.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest.mock import patch

import click
from click.testing import CliRunner

from bcs_scheduler.api.http.openapi import document
from bcs_scheduler.api.routes import operations
from bcs_scheduler.cli.commands.suggestions import deletable_names
from bcs_scheduler.cli.kinds.registry import columns_of
from bcs_scheduler.cli.main import bcs

FOLDER = Path(__file__).resolve().parent / "interfaces"
ENVIRONMENT = {"BCS_SERVER": "http://127.0.0.1:9", "BCS_CONFIG": "/nonexistent", "COLUMNS": "100", "TERM": "dumb"}
"""Settings of `bcs` under which no file and no server of this machine counts."""


def listed_operations() -> Iterator[str]:
    """The operations of the API, then the schemas, each in alphabetical order."""
    api: dict[str, Any] = json.loads(document(operations(), "1.2.3"))
    for path, item in sorted(api["paths"].items()):
        for method, operation in sorted(item.items()):
            name = operation["operationId"] if isinstance(operation, dict) else ""
            yield f"{method.upper()} {path} {name} {_digest(operation)}"
    for name, schema in sorted(api["components"]["schemas"].items()):
        yield f"schema {name} {_digest(schema)}"
    others = {key: value for key, value in api["components"].items() if key != "schemas"}
    for key in ("info", "openapi", "servers", "tags"):
        yield f"{key} {_digest(api[key])}"
    yield f"components {_digest(others)}"


def listed_commands() -> Iterator[str]:
    """The commands of `bcs` that its help lists, with the names of their options and arguments."""
    with patch.dict("os.environ", ENVIRONMENT):
        for path, command in sorted(_commands(bcs, "bcs")):
            words = [" ".join([*one.opts, *one.secondary_opts]) for one in command.params]
            # click keeps the option --help of the first context in a process: other tests make it with or without -h.
            with patch.object(command, "add_help_option", False):
                context = click.Context(command, info_name=path, max_content_width=100, terminal_width=100)
                text = command.get_help(context)
            yield f"{path} {_digest(text)} {'hidden ' if command.hidden else ''}[{'] ['.join(sorted(words))}]"


def listed_kinds() -> Iterator[str]:
    """The kinds of `bcs get`: words, columns, and the messages that list kinds."""
    kinds = json.loads(_output("get", "-o", "json"))
    for kind in kinds:
        titles = ", ".join(column.title for column in columns_of(kind["name"]))
        scope = "of a namespace" if kind["namespaced"] else "of the cluster"
        yield f"{kind['name']} ({' '.join(kind['aliases'])}) {scope}: {titles}"
    for words in (
        ("describe", "events", "x"),
        ("explain", "agent/x"),
        ("story", "offers", "x"),
        ("edit", "events/x"),
        ("top", "offers"),
        ("get", "events", "-l", "a=b"),
        ("get", "offers", "-l", "a=b"),
        ("get", "offers", "--field-selector", "a=b"),
        ("get", "versions"),
        ("get", "messages"),
        ("get", "definition"),
        ("get", "definition", "web", "-w"),
        ("get", "svc,ds", "--level", "error"),
        ("delete", "offers", "x"),
        ("delete", "taskgroup", "x"),
    ):
        yield f"bcs {' '.join(words)}: {' '.join(_output(*words).split())}"
    context = click.Context(bcs)
    parameter = click.Argument(["names"], nargs=-1)
    for begin in "abcdefghijklmnopqrstuvwxyz":
        context.params = {"names": ()}
        words_found = [item.value for item in deletable_names(context, parameter, begin)]
        if words_found:
            yield f"completions of bcs delete {begin}: {' '.join(words_found)}"


def _commands(group: click.Group, path: str) -> Iterator[tuple[str, click.Command]]:
    yield path, group
    for name in group.list_commands(click.Context(group)):
        command = group.get_command(click.Context(group), name)
        assert command is not None, name
        if isinstance(command, click.Group):
            yield from _commands(command, f"{path} {name}")
        else:
            yield f"{path} {name}", command


def _output(*words: str) -> str:
    """The output of the command, or its error."""
    from bcs_scheduler.cli.errors import CliError

    with patch.dict("os.environ", ENVIRONMENT):
        done = CliRunner().invoke(bcs, words)
    if isinstance(done.exception, CliError):
        return str(done.exception)
    return done.output


def _digest(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:12]


FILES = {"operations.txt": listed_operations, "commands.txt": listed_commands, "kinds.txt": listed_kinds}


def main() -> None:
    FOLDER.mkdir(exist_ok=True)
    for name, lines in FILES.items():
        (FOLDER / name).write_text("".join(f"{line}\n" for line in lines()))


if __name__ == "__main__":
    main()
