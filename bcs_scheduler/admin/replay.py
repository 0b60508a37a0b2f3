"""`bcs-scheduler replay`: repeats the decisions of a decision log."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import click

from bcs_scheduler.decisions.format import DamagedLog
from bcs_scheduler.decisions.replay import Difference, Replay, Replayed
from bcs_scheduler.service import core_options
from bcs_scheduler.settings.command_line import fail
from bcs_scheduler.settings.recorded import settings_of
from bcs_scheduler.settings.sections import ConfigError

SHOWN = 5
"""Decisions shown of each side of a difference."""


@click.command("replay")
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
def replay(file: Path) -> None:
    """Repeat the decisions of a term with this version of the core. FILE: the first file of the term; its further
    files are read from the same folder.

    Exit code 0: all recorded turns were decided the same way. 1: a turn was decided otherwise. 2: the file cannot be
    used. 3: the recorded turns up to a gap were decided the same way.
    """
    with tempfile.TemporaryDirectory() as folder:
        try:
            result = Replay(file, lambda begin: core_options(settings_of(begin, folder))).run()
        except (DamagedLog, ConfigError) as error:
            fail(str(error))
        except OSError as error:
            fail(f"{error.filename}: {error.strerror}")
    _show(result)
    sys.exit(1 if result.difference else 3 if result.gaps else 0)


def _show(result: Replayed) -> None:
    click.echo(
        f"term {result.epoch}, recorded by version {result.program}, {result.records} records at the start\n"
        f"{result.turns} turns repeated with equal decisions: {result.inputs} inputs, {result.decisions} decisions, "
        f"checksum {result.digest:08x}"
    )
    if result.torn:
        click.echo(f"torn tail: the last frame of a file is incomplete, {result.torn} bytes were ignored")
    for gap in result.gaps:
        click.echo(f"gap: {gap}")
    if result.difference is not None:
        _show_difference(result.difference)


def _show_difference(found: Difference) -> None:
    click.echo(f"difference in turn {found.turn} at {found.now:.6f}, from decision {found.position + 1} on")
    if found.error:
        click.echo(f"  this version fails: {found.error}")
    for title, decisions in (("recorded", found.recorded), ("this version", found.repeated)):
        click.echo(f"  {title}:" + ("" if decisions else " no further decision"))
        for decision in decisions[:SHOWN]:
            click.echo(f"    {decision.decode()}")
        if len(decisions) > SHOWN:
            click.echo(f"    and {len(decisions) - SHOWN} more")
