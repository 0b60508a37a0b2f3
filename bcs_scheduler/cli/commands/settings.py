"""`bcs set`: attributes and extended resources of agents; settings of namespaces; images of workloads."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import click

from bcs_scheduler.cli.client.lookup import agent_keys
from bcs_scheduler.cli.client.types import Json
from bcs_scheduler.cli.commands.arguments import agent_names
from bcs_scheduler.cli.commands.changing.editing import set_image
from bcs_scheduler.cli.commands.changing.namespaces import set_namespace
from bcs_scheduler.cli.errors import UsageError
from bcs_scheduler.cli.kinds.objects.agents import warn_missing_agents
from bcs_scheduler.cli.options import (
    WholeHelp,
    connection_options,
    examples,
    future_agents_option,
    pass_session,
    reporting,
)
from bcs_scheduler.cli.session import Session

NEW: Json = {"strings": {}, "scalars": {}}


@click.group(name="set", cls=WholeHelp)
def settings() -> None:
    """Set images of workloads, and settings of agents and namespaces."""


settings.add_command(set_image)
settings.add_command(set_namespace)


@settings.command(
    name="agent",
    epilog=examples("bcs set agent 10.0.0.7 --attribute zone=a --scalar rack=7", "bcs set agent 10.0.0.7 --reset"),
)
@click.argument("agents", nargs=-1, required=True, metavar="AGENT...", shell_complete=agent_names)
@click.option(
    "--attribute",
    "texts",
    multiple=True,
    metavar="NAME=TEXT",
    help="A text attribute; NAME- removes it. May be repeated.",
)
@click.option(
    "--scalar",
    "numbers",
    multiple=True,
    metavar="NAME=NUMBER",
    help="A numeric attribute, for the operator GREATER. May be repeated.",
)
@click.option(
    "--extended", multiple=True, metavar="NAME=NUMBER", help="Capacity of an extended resource. May be repeated."
)
@click.option("--reset", is_flag=True, help="Remove all settings: attributes, taints, extended resources, cordon.")
@future_agents_option
@click.option("--dry-run", is_flag=True, help="Check the settings, and change nothing.")
@connection_options
@pass_session
@reporting
def set_agent(
    session: Session,
    agents: tuple[str, ...],
    texts: tuple[str, ...],
    numbers: tuple[str, ...],
    extended: tuple[str, ...],
    reset: bool,
    force: bool,
    dry_run: bool,
) -> None:
    """Set attributes and extended resources of agents. Settings that are not given remain.

    The settings take effect at the next placement. `bcs taint` sets taints.
    """
    if reset == bool(texts or numbers or extended):
        raise UsageError("give --attribute, --scalar, --extended, or --reset alone")
    known = session.client.agents()
    keys = agent_keys(known, agents)
    present = {setting["innerIP"]: setting for setting in session.client.agent_settings()}
    if reset:
        unset = {agent["key"] for agent in known} - present.keys()
        if stored := [key for key in keys if key not in unset]:
            session.client.forget_settings(stored, dry_run=dry_run)
    else:
        bodies = [_changed(key, present.get(key, NEW), texts, numbers, extended) for key in keys]
        warn_missing_agents(session, session.client.set_settings(bodies, force=force, dry_run=dry_run))
    for key in keys:
        session.report("agent", key, "reset" if reset else "set", "dry run" if dry_run else "", dryRun=dry_run)


def _changed(key: str, present: Json, texts: Iterable[str], numbers: Iterable[str], extended: Iterable[str]) -> Json:
    """The settings of an agent after the change. A text and a numeric attribute of the same name exclude each other."""
    strings: dict[str, Any] = dict(present.get("strings") or {})
    scalars: dict[str, Any] = dict(present.get("scalars") or {})
    for word in texts:
        name, value = _pair(word)
        scalars.pop(name, None)
        if value is None:
            strings.pop(name, None)
        else:
            strings[name] = {"value": value}
    for word in numbers:
        name, value = _pair(word)
        strings.pop(name, None)
        if value is None:
            scalars.pop(name, None)
        else:
            scalars[name] = {"value": _number(word, value)}
    body: Json = {"innerIP": key, "strings": strings, "scalars": scalars}
    amounts = {}
    for word in extended:
        name, value = _pair(word)
        amounts[name] = {"Name": name, "Capacity": 0.0 if value is None else _number(word, value)}
    return {**body, "ExtendedResources": amounts} if amounts else body


def _pair(word: str) -> tuple[str, str | None]:
    """(name, value); value None = remove. Raises UsageError."""
    name, equals, value = word.partition("=")
    if not equals and name.endswith("-"):
        name, equals = name[:-1], "-"
    if not name or not equals:
        raise UsageError(f"{word!r}: NAME=VALUE sets, NAME- removes")
    return name, None if equals == "-" else value


def _number(word: str, value: str) -> float:
    try:
        return float(value)
    except ValueError:
        raise UsageError(f"{word}: {value!r} is not a number") from None
