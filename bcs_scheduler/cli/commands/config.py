"""`bcs config`: contexts, which are named servers with namespace and credentials."""

from __future__ import annotations

import os
from typing import Any

import click

from bcs_scheduler.cli.client import contexts
from bcs_scheduler.cli.errors import NotFound, UsageError
from bcs_scheduler.cli.listing import chosen_shape, print_list
from bcs_scheduler.cli.options import WholeHelp, connection_options, context_names, examples, list_options, session_of
from bcs_scheduler.cli.output.tables import Column
from bcs_scheduler.cli.session import Session
from store.advice import advise

CONTEXTS = (
    Column("CURRENT", lambda c: "*" if c["current"] else " "),
    Column("NAME", lambda c: c["name"]),
    Column("SERVER", lambda c: c.get("server"), long=True),
    Column("NAMESPACE", lambda c: c.get("namespace")),
    Column("TOKEN FILE", lambda c: c.get("token-file"), wide=True),
    Column("CA FILE", lambda c: c.get("ca-file"), wide=True),
)


NEW_CONTEXT = {"name": "NAME", "server": "URL"}
"""Placeholders for the user's own values in advice."""
FIRST_CONTEXT = "default"
name_argument = click.argument("name", shell_complete=context_names)


@click.group(cls=WholeHelp)
def config() -> None:
    """Choose and change contexts: named servers with namespace and credentials.

    They are kept in ~/.config/bcs/config.toml, or in the file that BCS_CONFIG names.
    """


@config.command("use-context", epilog=examples("bcs config use-context prod"))
@name_argument
def use_context(name: str) -> None:
    """Make context NAME the current one."""
    changed = contexts.document()
    _existing(changed, name)
    changed["current-context"] = name
    contexts.write(changed)
    click.echo(f"context/{name} is the current one")


@config.command("current-context", epilog=examples("bcs config current-context"))
def current_context() -> None:
    """Print the name of the current context."""
    name = contexts.read_config().get("current-context")
    if not name:
        raise _no_current()
    click.echo(name)


@config.command("get-contexts", epilog=examples("bcs config get-contexts -o name"))
@list_options
@click.pass_context
def get_contexts(ctx: click.Context, /, **listed: Any) -> None:
    """List the contexts."""
    read = contexts.read_config()
    found = [
        {"name": name, "current": name == read.get("current-context"), **fields}
        for name, fields in contexts.contexts_of(read).items()
    ]
    shape = chosen_shape(**listed)
    session = session_of(ctx)
    if found or not shape.form.is_table:
        print_list(session, shape, found, CONTEXTS, lambda context: context["name"])
    else:
        session.err.print(f"no contexts; {advise('set_context', **NEW_CONTEXT)}")


@config.command(
    "set-context",
    epilog=examples(
        "bcs config set-context prod --server https://scheduler:8080 --token-file ~/prod.token",
        "bcs config set-context prod -n shop",
        "bcs config set-context --current -n shop",
    ),
)
@click.argument("name", required=False, shell_complete=context_names)
@click.option("--current", is_flag=True, help="Change the current context.")
@connection_options
@click.pass_context
def set_context(ctx: click.Context, name: str | None, current: bool) -> None:
    """Make context NAME, or change it: server, namespace and files of credentials that are given as options.

    With --current, the first context is made if there is none. Its name is default.
    """
    session = session_of(ctx)
    if bool(name) == current:
        raise UsageError("give the name of a context, or --current")
    name = name or _current(session.context, make=True)
    given = {field: value for field in contexts.FIELDS if (value := _given(session, field))}
    if not given:
        raise UsageError("give at least one of --server, -n, --token-file, --ca-file, --client-cert and --client-key")
    changed = contexts.document()
    tables = changed.setdefault("contexts", {})
    tables.setdefault(name, {}).update(given)
    changed.setdefault("current-context", name)
    contexts.write(changed)
    click.echo(f"context/{name} set")


@config.command("delete-context", epilog=examples("bcs config delete-context old"))
@name_argument
def delete_context(name: str) -> None:
    """Delete context NAME."""
    changed = contexts.document()
    del _existing(changed, name)[name]
    if changed.get("current-context") == name:
        del changed["current-context"]
    contexts.write(changed)
    click.echo(f"context/{name} deleted")


@config.command("view", epilog=examples("bcs config view"))
def view() -> None:
    """Print the file of contexts. It names files with tokens, and holds none."""
    path = contexts.path_of_config()
    contexts.read_config()
    click.echo(path.read_text(encoding="utf-8") if path.exists() else f"# {path} does not exist", nl=not path.exists())


def _current(given: str, *, make: bool = False) -> str:
    """The name of the context that other commands take; `given`: with --context. `make`: without any context that of
    the first one, which does not exist yet. Raises NotFound."""
    read = contexts.read_config()
    name = given or os.environ.get("BCS_CONTEXT") or read.get("current-context")
    if not name:
        if make and not contexts.contexts_of(read):
            return FIRST_CONTEXT
        raise _no_current()
    _existing(contexts.document(), name)
    return str(name)


def _no_current() -> NotFound:
    first = next(iter(contexts.contexts_of(contexts.read_config())), "")
    way = advise("use_context", name=first) if first else advise("set_context", **NEW_CONTEXT)
    return NotFound(f"there is no current context; {way}")


def _existing(changed: Any, name: str) -> Any:
    """The table of contexts. Raises NotFound."""
    tables = changed.get("contexts", {})
    if name not in tables:
        raise NotFound(f"there is no context {name!r}; {advise('list_contexts')}")
    return tables


def _given(session: Session, field: str) -> str:
    if field == "namespace" and not session.namespace_given:
        return ""
    return str(getattr(session, field.replace("-", "_")) or "")
