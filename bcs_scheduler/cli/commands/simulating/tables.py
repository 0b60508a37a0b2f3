"""The tables of `bcs simulate`: one of the runs, one of the queues, one of the differences."""

from __future__ import annotations

from typing import Any

from bcs_scheduler.cli.output.tables import Column, table
from bcs_scheduler.cli.session import Session

FIGURES = ("launched", "finished", "waiting", "preempted")
"""Columns with plain numbers."""
WAITS = (("WAIT-MEDIAN", "waitMedian"), ("WAIT-P90", "waitP90"), ("WAIT-MAX", "waitLongest"))
SHARES = (("CPUS", "cpusUsed"), ("MEM", "memUsed"), ("FRAGMENTED", "fragmentation"))


def print_runs(session: Session, runs: list[dict[str, Any]], differences: list[dict[str, Any]]) -> None:
    """Prints the figures of the runs, those of their queues, and the differences from the first run."""
    whole = [Column("RUN", lambda one: one["name"])]
    whole += [Column(title, _cell(key, "{:.1%}"), right=True) for title, key in SHARES]
    whole += [Column("FAIRNESS", _cell("fairness", "{:.2f}"), right=True)]
    session.show(table([*whole, *_columns()], [{**one, **one["total"]} for one in runs]))
    rows = [{"group": name, "run": one["name"], **row} for one in runs for name, row in one["groups"].items()]
    session.say("")
    heads = [Column("QUEUE", lambda one: one["group"]), Column("RUN", lambda one: one["run"], key=True)]
    order = sorted(rows, key=lambda row: str(row["group"]))
    session.show(table([*heads, *_columns(), Column("SERVED", _cell("served", "{:.1%}"), right=True)], order))
    if differences:
        session.say("")
        _print_differences(session, differences)


def _print_differences(session: Session, differences: list[dict[str, Any]]) -> None:
    heads = [Column("DIFFERENCE", lambda one: one["name"]), Column("QUEUE", lambda one: one["group"], key=True)]
    heads += [
        Column(title, lambda one, key=key: f"{100 * one[key]:+.1f}%" if key in one else "", right=True)  # type: ignore[misc]
        for title, key in SHARES
    ]
    heads += [Column("FAIRNESS", lambda one: f"{one['fairness']:+.2f}" if "fairness" in one else "", right=True)]
    rows = []
    for one in differences:
        rows.append({"name": one["name"], "group": "(all)", **one["cluster"], **one["total"]})
        rows += [{"name": one["name"], "group": name, **row} for name, row in one["groups"].items()]
    session.show(table([*heads, *_columns("+")], rows))


def _columns(sign: str = "") -> list[Column]:
    numbers = [Column(name.upper(), _cell(name, f"{{:{sign}}}"), right=True) for name in FIGURES]
    return [*numbers, *(Column(title, _cell(key, f"{{:{sign}.1f}}s"), right=True) for title, key in WAITS)]


def _cell(key: str, form: str) -> Any:
    return lambda row: form.format(row[key])
