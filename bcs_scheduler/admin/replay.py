"""`bcs-scheduler replay`: repeats the decisions of decision logs."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import click

from bcs_scheduler.decisions.format import DamagedLog
from bcs_scheduler.decisions.replay import Difference, Replay, Replayed
from bcs_scheduler.decisions.terms import Found, RecordedTerm, terms_of
from bcs_scheduler.service import core_options
from bcs_scheduler.settings.command_line import fail
from bcs_scheduler.settings.recorded import settings_of
from bcs_scheduler.settings.sections import ConfigError

SHOWN = 5
"""Decisions shown of each side of a difference."""


@click.command("replay")
@click.argument("files", type=click.Path(exists=True, path_type=Path), nargs=-1, required=True, metavar="FILE...")
def replay(files: tuple[Path, ...]) -> None:
    """Repeat the decisions of terms with this version of the core. FILE: a file of a term, or a folder with the files
    of terms, as of one or several schedulers. The terms are repeated in their order. Further files of a term are read
    from the folder of its first file.

    Exit code 0: all recorded turns were decided the same way. 1: a turn was decided otherwise. 2: a file cannot be
    used. 3: the recorded turns up to a gap were decided the same way.
    """
    try:
        found = terms_of(files)
        if not found.terms:
            first = found.incomplete[0]
            fail(f"{first}: the first file of the term is missing, so the term cannot be repeated")
        results = [_repeat(term) for term in found.terms]
    except (DamagedLog, ConfigError) as error:
        fail(str(error))
    except OSError as error:
        fail(f"{error.filename}: {error.strerror}")
    for path in found.incomplete:
        click.echo(f"gap: {path}: the first file of the term is missing, so the term was not repeated")
    if len(results) > 1 or found.incomplete:
        _show_all(found, results)
    differs = any(result.difference for result in results)
    sys.exit(1 if differs else 3 if found.incomplete or any(result.gaps for result in results) else 0)


def _repeat(term: RecordedTerm) -> Replayed:
    with tempfile.TemporaryDirectory() as folder:
        result = Replay(term.path, lambda begin: core_options(settings_of(begin, folder))).run()
    _show(result)
    return result


def _show_all(found: Found, results: list[Replayed]) -> None:
    turns, decisions = (sum(getattr(result, name) for result in results) for name in ("turns", "decisions"))
    click.echo(f"{len(results)} terms: {turns} turns repeated with equal decisions, {decisions} decisions")
    differ = [str(result.epoch) for result in results if result.difference is not None]
    if differ:
        click.echo(f"terms with a difference: {', '.join(differ)}")
    if found.unrecorded:
        missing = ", ".join(map(str, found.unrecorded))
        click.echo(f"no file of the terms {missing}: they took no turn, or their files are elsewhere")


def _show(result: Replayed) -> None:
    click.echo(
        f"term {result.epoch}, recorded by version {result.program}, {result.records} records at the start\n"
        f"{result.turns} turns repeated with equal decisions: {result.inputs} inputs, {result.decisions} decisions, "
        f"checksum {result.digest:08x}"
    )
    if result.torn:
        click.echo(f"torn tail: the last frame of a file is incomplete, {result.torn} bytes were ignored")
    for words in result.left_out:
        click.echo(f"left out: {words}")
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
