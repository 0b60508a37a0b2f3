"""`bcs get events`: what happened, listed and followed."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeVar

import click
import yaml
from rich.text import Text

from bcs_scheduler.cli.client import Json
from bcs_scheduler.cli.errors import TimedOut, Unreachable, UsageError
from bcs_scheduler.cli.eventviews import EVENTS
from bcs_scheduler.cli.lookup import find_taskgroup
from bcs_scheduler.cli.options import Duration, Session
from bcs_scheduler.cli.output import Column, print_data, table
from bcs_scheduler.cli.views import ALIASES

Command = TypeVar("Command", bound=Callable[..., Any])
LISTED, FOLLOWED = 500, 20
"""Events that are shown without --last: by a list, and before -w goes on with what comes."""
FIRST_PAUSE, LONGEST_PAUSE = 0.2, 2.0
"""Seconds between attempts to follow on: doubled each time up to the longest."""
OWNERS = frozenset({"application", "deployment", "daemonset"})
"""Kinds of which the parts are meant too."""


def event_options(command: Command) -> Command:
    """What only `get events` takes."""
    for flags, extra, text in (
        (("--last",), {"type": click.IntRange(0, 100_000), "metavar": "N"}, "Events: only the newest N."),
        (("--since",), {"type": Duration()}, "Events: of the last 90s, 10m, 2h, …"),
        (("--reason",), {"metavar": "REASON,…"}, "Events: with one of these reasons."),
        (("--level",), {"type": click.Choice(["info", "warning", "error"])}, "Events: as serious as this or more."),
        (("--for",), {"metavar": "KIND/NAME"}, "Events: of one object; of an owner and all that belongs to it."),
    ):
        command = click.option(*flags, "event_" + flags[0].removeprefix("--"), help=text, **extra)(command)
    return command


def show_events(
    session: Session, namespace: str | None, name: str | None, watch: bool, form: str, chosen: Mapping[str, Any]
) -> None:
    """`name`: an application, deployment or daemonset. `chosen`: values of `event_options`."""
    filters = _filters(session, name, chosen)
    if not watch:
        _list(session, namespace, filters, form)
        return
    for event in follow(session, namespace, filters):
        _print_one(session, event, form, everywhere=namespace is None)


def refuse_event_options(chosen: Mapping[str, Any]) -> None:
    """For other kinds. Raises UsageError."""
    given = [name.removeprefix("event_") for name, value in chosen.items() if value is not None]
    if given:
        raise UsageError(f"--{given[0]} is for events")


def _filters(session: Session, name: str | None, chosen: Mapping[str, Any]) -> dict[str, Any]:
    given = {key.removeprefix("event_"): value for key, value in chosen.items() if value is not None}
    filters: dict[str, Any] = {key: given[key] for key in ("level", "reason", "last") if key in given}
    if "since" in given:
        filters["since"] = f"{time.time() - given['since']:.3f}"
    if name and "for" in given:
        raise UsageError("name the object once: as NAME or with --for")
    if name:
        filters["owner"] = name
    if "for" in given:
        filters |= _object(session, given["for"])
    return filters


def _object(session: Session, text: str) -> dict[str, str]:
    word, _, name = text.partition("/")
    plural = ALIASES.get(word.lower(), word.lower())
    kind = next((known for known, many in ALIASES.items() if many == plural and known + "s" == many), plural)
    if not name or not kind:
        raise UsageError(f"--for takes KIND/NAME, such as application/web, not {text!r}")
    if kind in OWNERS:
        return {"owner": name}
    if kind == "taskgroup" and "." not in name:
        name = find_taskgroup(session.client, session.namespace, name)["ID"]
    return {"kind": kind, "name": name}


def follow(session: Session, namespace: str | None, filters: Mapping[str, Any]) -> Iterator[Json]:
    """Events without end, each once: over lost connections and changes of leaders the stream is taken up where it was.

    Raises Unreachable only if it never began.
    """
    known, pause, begun = "", FIRST_PAUSE, False
    while True:
        now = {**filters, "last": filters.get("last", FOLLOWED)} if not known else {**filters, "last": None}
        try:
            for frame in session.client.follow_events(namespace, now, known):
                begun, pause = True, FIRST_PAUSE
                if frame.event == "event":
                    yield frame.data
                elif frame.event == "gap":
                    session.err.print(f"[yellow]warning:[/] {frame.data['message']}")
                known = frame.identity or known
        except (Unreachable, TimedOut):
            if not begun:
                raise
        time.sleep(pause)
        pause = min(pause * 2, LONGEST_PAUSE)


def _list(session: Session, namespace: str | None, filters: Mapping[str, Any], form: str) -> None:
    found = session.client.events(namespace, {**filters, "last": filters.get("last", LISTED)})
    if form in ("json", "yaml"):
        print_data(session.out, found, form)
    elif found:
        session.show(table(_columns(everywhere=namespace is None), found, wide=form == "wide"))
    else:
        session.err.print(f"no events{'' if namespace is None else f' in namespace {namespace}'}", markup=False)


def _columns(*, everywhere: bool) -> list[Column]:
    return [column._replace(wide=column.wide and not (everywhere and column.title == "NAMESPACE")) for column in EVENTS]


def _print_one(session: Session, event: Json, form: str, *, everywhere: bool) -> None:
    """A line at once, whatever reads it: the widths of a table are not known before its end."""
    if form == "json":
        session.out.file.write(json.dumps(event, ensure_ascii=False) + "\n")
    elif form == "yaml":
        session.out.file.write("---\n" + yaml.safe_dump(event, sort_keys=False, allow_unicode=True))
    else:
        shown = [column for column in _columns(everywhere=everywhere) if form == "wide" or not column.wide]
        cells = [column.cell(event) for column in shown]
        line = Text("  ").join(cell if isinstance(cell, Text) else Text(str(cell or "-")) for cell in cells)
        session.out.print(line, soft_wrap=True)
    session.out.file.flush()
