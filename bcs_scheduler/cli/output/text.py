"""Texts in tables: coloured statuses, ages, times, labels."""

from __future__ import annotations

import time
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from bcs_scheduler.cli.output.terminal import Style, Styled

COLOURS: Mapping[Style, tuple[str, ...]] = {
    "green": ("Running", "finished", "Finish", "ready", "success"),
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
        "active",
        "staging",
        "running",
    ),
    "red": (
        "Failed",
        "Error",
        "Lost",
        "Abnormal",
        "UpdateSuspend",
        "timed out",
        "Unknown",
        "failed",
        "drain failed",
    ),
    "dim": ("Killed", "cancelled", "cordoned", "superseded", "Stopped"),
}
STYLE_OF = {word: colour for colour, words in COLOURS.items() for word in words}
TIME_STEPS = ((86400, "d"), (3600, "h"), (60, "m"), (1, "s"))


def status_text(status: str) -> Styled:
    return Styled(status, style=STYLE_OF.get(status, ""))


OPERATIONS = {"OPERATION_INNERSCALE": "step", "INNERSCALE": "step"}
"""Operations with other words than those of the API, in lower case: a step of a rolling update."""
VERDICTS = {
    "QUEUED": "queued",
    "INIT": "active",
    "FINISH": "finished",
    "FAIL": "failed",
    "TIMEOUT": "timed out",
    "CANCEL": "cancelled",
    "SUPERSEDED": "superseded",
}
"""Words for the statuses of transactions."""


def operation(transaction: Mapping[str, Any]) -> str:
    """The operation of a transaction, such as launch or scale."""
    name = str((transaction.get("curOp") or {}).get("opType") or "")
    return OPERATIONS.get(name, name.lower())


def verdict(status: str) -> str:
    return VERDICTS.get(status, status.lower())


def counted(number: int, noun: str) -> str:
    """``1 taskgroup``, ``2 taskgroups``."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def duration(seconds: float) -> str:
    """Seconds as text with at most two units: ``45s``, ``3m12s``, ``5h3m``, ``12d4h``; below a second ``0.5s``."""
    if 0 < seconds < 1:
        return f"{seconds:.1g}s"
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
    """Unix seconds of a time in an answer (a number or RFC 3339 text); 0.0 if there is none."""
    if isinstance(value, int | float):
        return float(value)
    try:
        return datetime.fromisoformat(str(value)).timestamp() if value else 0.0
    except ValueError:
        return 0.0


def age(value: Any, now: float | None = None) -> str:
    since = moment(value)
    now = time.time() if now is None else now
    return duration(int(now - since)) if since > 0 else "-"


def local_time(value: Any) -> str:
    since = moment(value)
    return datetime.fromtimestamp(since).astimezone().isoformat(" ", "seconds") if since > 0 else "-"


def flat(text: str) -> str:
    """A text on one line."""
    return " ".join(text.split())


def one_line(text: str, limit: int = 60) -> str:
    """A text on one line, cut to `limit` characters."""
    line = flat(text)
    return line if len(line) <= limit else line[: limit - 1] + "…"


def pairs(labels: Any) -> str:
    return ", ".join(f"{key}={value}" for key, value in (labels or {}).items())


def when(value: Any) -> str:
    at, now = moment(value), time.time()
    if at <= 0:
        return ""
    return (
        f"{local_time(value)} (in {duration(int(at - now))})" if at > now else f"{local_time(value)} ({age(value)} ago)"
    )


def wrapped(text: str, width: int, indent: str = "") -> list[str]:
    """Lines of at most `width` columns; those after the first one are indented by four more."""
    import textwrap  # takes a millisecond, which few commands need

    return textwrap.wrap(text, width, initial_indent=indent, subsequent_indent=indent + "    ", break_on_hyphens=False)
