"""Printing: tables with coloured statuses and human ages, JSON, YAML."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from typing import Any, NamedTuple

import yaml
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from bcs_scheduler.cli.client import Json

COLOURS = {
    "green": ("Running", "FINISH", "Finish", "enabled", "success"),
    "yellow": (
        "Staging",
        "Starting",
        "Deploying",
        "Operating",
        "RollingUpdate",
        "Update",
        "UpdatePaused",
        "UpdateResource",
        "Deleting",
        "Restarting",
        "Killing",
        "INIT",
        "staging",
        "running",
    ),
    "red": (
        "Failed",
        "Error",
        "Lost",
        "Abnormal",
        "UpdateSuspend",
        "FAIL",
        "TIMEOUT",
        "Unknown",
        "failed",
        "drain failed",
    ),
    "dim": ("Killed", "CANCEL", "disabled"),
}
STYLE_OF = {word: colour for colour, words in COLOURS.items() for word in words}

TIME_STEPS = ((86400, "d"), (3600, "h"), (60, "m"), (1, "s"))


class Column(NamedTuple):
    """`cell` makes the text from an item; `wide` columns are shown with -o wide only."""

    title: str
    cell: Callable[[Json], Any]
    wide: bool = False
    right: bool = False


def status_text(status: str) -> Text:
    return Text(status, style=STYLE_OF.get(status, ""))


def duration(seconds: float) -> str:
    """Two units at most: ``45s``, ``3m12s``, ``5h3m``, ``12d4h``."""
    rest = max(0, int(seconds))
    if rest == 0:
        return "0s"
    for position, (size, unit) in enumerate(TIME_STEPS):
        if rest >= size:
            smaller = TIME_STEPS[position + 1 : position + 2]
            tail = [f"{rest % size // part}{name}" for part, name in smaller if rest % size // part]
            return "".join([f"{rest // size}{unit}", *tail])
    raise AssertionError("unreachable: the smallest step is one second")


def moment(value: Any) -> float:
    """Unix seconds from what the API gives: a number, or RFC 3339 text; 0.0 if there is none."""
    if isinstance(value, int | float):
        return float(value)
    try:
        return datetime.fromisoformat(str(value)).timestamp() if value else 0.0
    except ValueError:
        return 0.0


def age(value: Any, now: float | None = None) -> str:
    since = moment(value)
    return duration((time.time() if now is None else now) - since) if since > 0 else "-"


def local_time(value: Any) -> str:
    since = moment(value)
    return datetime.fromtimestamp(since).astimezone().isoformat(" ", "seconds") if since > 0 else "-"


def table(columns: Sequence[Column], items: Iterable[Json], *, wide: bool = False) -> Table:
    shown = [column for column in columns if wide or not column.wide]
    made = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, header_style="bold")
    for column in shown:
        made.add_column(column.title, justify="right" if column.right else "left", overflow="fold")
    for item in items:
        made.add_row(*(_cell(column.cell(item)) for column in shown))
    return made


def _cell(value: Any) -> Text:
    if isinstance(value, Text):
        return value
    return Text("-" if value in (None, "") else str(value))


def print_data(console: Console, data: Any, form: str) -> None:
    """JSON or YAML, never wrapped or coloured, so that a pipe gets exactly the document."""
    text = (
        yaml.safe_dump(data, sort_keys=False, allow_unicode=True).rstrip("\n")
        if form == "yaml"
        else json.dumps(data, indent=2, ensure_ascii=False)
    )
    console.file.write(text + "\n")
    console.file.flush()


def field_list(fields: Iterable[tuple[str, Any]]) -> Table:
    """``Name:   value`` lines; empty values are left out."""
    grid = Table.grid(padding=(0, 2))
    for name, value in fields:
        if value not in (None, "", [], {}):
            grid.add_row(Text(f"{name}:", style="bold"), _cell(value))
    return grid


def one_line(text: str, limit: int = 60) -> str:
    """Scripts given as arguments have many lines; what fits shows which it is."""
    flat = " ".join(text.split())
    return flat if len(flat) <= limit else flat[: limit - 1] + "…"
