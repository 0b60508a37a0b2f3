"""`bcs set agent`: what operators say about agents beside taints: attributes, and extended resources."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import click

from bcs_scheduler.cli.client import Json
from bcs_scheduler.cli.complete import agent_names
from bcs_scheduler.cli.errors import UsageError
from bcs_scheduler.cli.lookup import setting_keys
from bcs_scheduler.cli.options import Session, connection_options, pass_session, reporting

NEW: Json = {"strings": {}, "scalars": {}}


@click.group(name="set")
def settings() -> None:
    """Set what belongs to something that is there."""


@settings.command(name="agent")
@click.argument("agents", nargs=-1, required=True, metavar="AGENT...", shell_complete=agent_names)
@click.option("--attribute", "texts", multiple=True, metavar="NAME=TEXT", help="An attribute; NAME- removes it.")
@click.option("--scalar", "numbers", multiple=True, metavar="NAME=NUMBER", help="One to be compared by GREATER.")
@click.option("--extended", multiple=True, metavar="NAME=NUMBER", help="How many of an extended resource it has.")
@click.option("--reset", is_flag=True, help="Forget all settings: attributes, taints, extended resources, disabled.")
@click.option("--dry-run", is_flag=True, help="Check it; nothing is changed.")
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
    dry_run: bool,
) -> None:
    """Set attributes and extended resources of agents, as if they had them; what is not named stays.

    Constraints and demands see them from the next placement on. Taints: `bcs taint`.
    """
    if reset == bool(texts or numbers or extended):
        raise UsageError("say what to set (--attribute, --scalar, --extended), or --reset")
    listed = session.client.agents()
    keys = list(dict.fromkeys(key for name in agents for key in setting_keys(listed, name)))
    if reset:
        session.client.forget_settings(keys, dry_run=dry_run)
    else:
        present = {setting["innerIP"]: setting for setting in session.client.agent_settings()}
        bodies = [_changed(key, present.get(key, NEW), texts, numbers, extended) for key in keys]
        warn_of(session, session.client.set_settings(bodies, dry_run=dry_run))
    for key in keys:
        session.report("agent", key, "reset" if reset else "set", "dry run" if dry_run else "", dryRun=dry_run)


def warn_of(session: Session, results: Iterable[Json]) -> None:
    """Of agents that were set up but are not there. `results`: the server's, per agent."""
    for result in results:
        if result["message"] != "success":
            session.warn(f"agent {result['innerIP']}: {result['message']}")


def _changed(key: str, present: Json, texts: Iterable[str], numbers: Iterable[str], extended: Iterable[str]) -> Json:
    """The document that makes it so. An attribute is a text or a number: the last word counts."""
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
    """(name, value); None: to be removed. Raises UsageError."""
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
        raise UsageError(f"{word}: {value!r} is no number") from None
