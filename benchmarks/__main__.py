"""`python -m benchmarks [--case NAME]... [--store zookeeper|sqlite] [--json FILE]`: runs the cases, prints a table."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from itertools import product
from pathlib import Path

import click
from rich.console import Console
from rich.table import Table

from benchmarks.cases import DEFAULT, parse, run
from benchmarks.load import Result
from benchmarks.processes import Failure, StoreKind

COLUMNS = {
    "case": "case", "source": "source", "store": "store",
    "seconds": "seconds", "per_second": "per second", "floor_seconds": "floor (s)",
    "ratio": "ratio", "writes_per_taskgroup": "writes each", "cpu_us": "CPU us each", "rss_mb": "RSS (MB)",
}  # fmt: skip
ONCE = (
    "simulate", "whatif", "place", "policy", "hierarchical-core", "probe", "command", "executor", "events", "list",
    "bcs", "queues", "aging",
)  # fmt: skip
"""Beginnings of kinds to which the store makes no difference."""
WIDTH = 120
"""Characters of the table, also where the output is no terminal."""


@click.command()
@click.option(
    "--case", "cases", multiple=True, metavar="NAME", help="A case; may be given several times. Default: all."
)
@click.option("--store", type=click.Choice(["zookeeper", "sqlite"]), help="Default: both.")
@click.option("--json", "file", type=click.Path(dir_okay=False, path_type=Path), help="Also write the lines here.")
@click.option(
    "--against", type=click.Path(exists=True, file_okay=False, resolve_path=True, path_type=Path), metavar="FOLDER",
    help="Another checkout: each case is also run with its scheduler, right before this one.",
)  # fmt: skip
@click.option("--list", "listing", is_flag=True, help="Print the names of the cases.")
def main(
    cases: tuple[str, ...], store: StoreKind | None, against: Path | None, file: Path | None, listing: bool
) -> None:
    """Measure the scheduler against an embedded cluster of synthetic agents."""
    if listing:
        click.echo("\n".join(DEFAULT))
        return
    results: list[Result] = []
    failed = False
    sources = (None,) if against is None else (against, None)
    for (case, kind), source in product(_plan(cases or DEFAULT, store), sources):
        name = None if source is None else source.name
        click.echo(f"{case} on {kind}{'' if name is None else f' with the scheduler of {name}'} ...", err=True)
        try:
            results.append(replace(run(case, kind, source), source=name))
        except Failure as failure:
            failed = True
            click.echo(f"{case} on {kind}: {failure}", err=True)
            continue
        click.echo(json.dumps(results[-1].line()))
        if results[-1].missed:
            failed = True
            click.echo(f"{case} on {kind}: {results[-1].missed}", err=True)
    _show(results)
    if file is not None:
        file.write_text("".join(json.dumps(result.line()) + "\n" for result in results))
    sys.exit(1 if failed else 0)


def _plan(cases: tuple[str, ...], store: StoreKind | None) -> list[tuple[str, StoreKind]]:
    stores: tuple[StoreKind, ...] = (store,) if store else ("zookeeper", "sqlite")
    try:
        return [(case, kind) for case in cases for kind in (stores[:1] if parse(case)[0].startswith(ONCE) else stores)]
    except Failure as failure:
        raise click.UsageError(str(failure)) from None


def _show(results: list[Result]) -> None:
    table = Table()
    for name, title in COLUMNS.items():
        table.add_column(title, justify="left" if name in ("case", "source", "store") else "right", no_wrap=True)
    for result in results:
        line = result.line()
        table.add_row(*(_cell(line[name]) for name in COLUMNS))
    Console(width=WIDTH).print(table)


def _cell(value: object) -> str:
    if isinstance(value, float):
        return f"{value:,.2f}" if value < 100 else f"{value:,.0f}"
    return "" if value is None else str(value)


if __name__ == "__main__":
    main()
