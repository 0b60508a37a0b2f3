"""`bcs examples`: files that come with the program. No server is needed."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import click
from click.shell_completion import CompletionItem

from bcs_scheduler.cli.document_files import bodies_of
from bcs_scheduler.cli.errors import CliError, NotFound, UsageError
from bcs_scheduler.cli.listing import chosen_shape, print_list
from bcs_scheduler.cli.options import examples, list_options, session_of
from bcs_scheduler.cli.output.tables import Column
from bcs_scheduler.shipped import CONF, EXAMPLES

COLUMNS = (
    Column("NAME", lambda one: one["name"]),
    Column("CONTENTS", lambda one: one["contents"], long=True),
)


def _names(_ctx: click.Context, _parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    return [CompletionItem(name) for name in _files() if name.startswith(incomplete)]


@click.command(
    "examples",
    epilog=examples(
        "bcs examples                                  # list them",
        "bcs examples web.json | bcs apply -f - --wait",
        "bcs examples scheduler.toml                   # all settings of the scheduler, with their defaults",
        "bcs examples --to conf                        # write all files into a new folder",
    ),
)
@click.argument("name", required=False, shell_complete=_names)
@click.option("--to", "folder", type=click.Path(path_type=Path), help="Write all files into this new folder.")
@list_options
@click.pass_context
def list_examples(ctx: click.Context, /, name: str | None, folder: Path | None, **listed: Any) -> None:
    """List example documents and files of settings, or print the file NAME.

    The files come with the program.
    """
    files = _files()
    if name and folder:
        raise UsageError("--to writes all files: leave out the name")
    if folder:
        _copy(folder)
    elif name:
        if name not in files:
            raise NotFound(f"there is no example {name!r}; `bcs examples` lists them")
        click.echo(files[name].read_text(encoding="utf-8"), nl=False)
    else:
        found = [{"name": one, "contents": _contents(path)} for one, path in files.items()]
        print_list(session_of(ctx), chosen_shape(**listed), found, COLUMNS, lambda one: one["name"])


def _files() -> dict[str, Path]:
    """By name: the documents first, then the files of settings."""
    found = [path for path in (*sorted(EXAMPLES.iterdir()), *sorted(CONF.iterdir())) if path.is_file()]
    return {path.name: path for path in found}


def _contents(path: Path) -> str:
    """Kinds and names of the objects of a document; the first comment of another file."""
    if path.parent == EXAMPLES:
        bodies = [body for _, body in bodies_of(str(path))]
        return ", ".join(
            f"{body['kind'].lower()} {body.get('metadata', {}).get('name', '')}".strip() for body in bodies
        )
    first = path.read_text(encoding="utf-8").partition("\n")[0]
    return first.removeprefix("# ") if first.startswith("# ") else ""


def _copy(folder: Path) -> None:
    try:
        shutil.copytree(CONF, folder, ignore=shutil.ignore_patterns("__pycache__"))
    except FileExistsError:
        raise UsageError(f"--to {folder}: exists already; give the name of a new folder") from None
    except OSError as error:
        raise CliError(f"--to {folder}: {error.strerror}") from error
    click.echo(f"{folder}: written; documents are in {folder / EXAMPLES.name}")
