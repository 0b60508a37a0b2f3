"""`bcs simulate`: a load on a cluster under several policies, without any effect on a cluster."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from bcs_scheduler.cli.commands.dump import read_dump
from bcs_scheduler.cli.errors import CliError, UsageError
from bcs_scheduler.cli.options import FILE, Duration, connection_options, examples, output_option, pass_session
from bcs_scheduler.cli.output.data import print_form
from bcs_scheduler.cli.output.formats import Form, chosen_form
from bcs_scheduler.cli.output.tables import Column, table
from bcs_scheduler.cli.session import Session

if TYPE_CHECKING:
    from rich.progress import Progress

    from bcs_scheduler.core.options import CoreOptions
    from bcs_scheduler.simulator.model import Scenario


DAY = 86400.0
INTERRUPTED = 130
"""Exit code after Ctrl-C: 128 and the number of SIGINT."""


class Speed(click.ParamType):  # type: ignore[type-arg]  # generic only since click 8.3
    """``max``, or virtual seconds for each second; ``max`` is None."""

    name = "speed"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if value == "max" or isinstance(value, float):
            return value
        try:
            found = float(value)
        except ValueError:
            found = 0.0
        if not 0 < found < float("inf"):
            self.fail(f"{value!r} is neither max nor a number above 0", param, ctx)
        return found


@click.command(
    epilog=examples(
        "bcs simulate --dump cluster.json.gz --load 500x4,duration=1h --policy policy.yaml",
        "bcs simulate --agents 100x16cpu,64gb --load 500x10,cpus=0.5-2,duration=10m-2h --report report.html",
        "bcs simulate --dump cluster.json.gz --events events.jsonl --scoring binpack",
    )
)
@click.option("--dump", "dump_file", help="The cluster at the start, a file of `bcs dump`.", **FILE)
@click.option("--live", is_flag=True, help="The cluster of the scheduler at the start; it is read and not changed.")
@click.option("--agents", multiple=True, metavar="SPEC", help="More agents, such as 100x16cpu,64gb,zone=a.")
@click.option("--load", "loads", multiple=True, metavar="SPEC", help="Applications, such as 500x10,cpus=0.5-2.")
@click.option("--events", "events_file", help="Recorded events, which are repeated.", **FILE)
@click.option(
    "--policy",
    "policies",
    multiple=True,
    metavar="FILE|dump[:NAME]",
    help="A policy to compare with `simple`; dump is a tree of the dump.",
)
@click.option(
    "--scoring",
    type=click.Choice(["spread", "binpack"]),
    default="spread",
    show_default=True,
    help="Order of suitable agents in all runs.",
)
@click.option("--for", "seconds", type=Duration(), default=DAY, help="Virtual time of each run. Default: 24h.")
@click.option("--seed", type=int, default=1, show_default=True, help="Equal seeds give equal results.")
@click.option(
    "--speed",
    type=Speed(),
    default="max",
    show_default=True,
    metavar="max|N",
    help="Virtual seconds for each second of real time; max: as fast as possible.",
)
@click.option("--report", "report_file", help="Write the figures with charts to an HTML file.", **FILE)
@output_option
@connection_options
@pass_session
@click.pass_context
def simulate(
    context: click.Context,
    session: Session,
    dump_file: str | None,
    live: bool,
    agents: tuple[str, ...],
    loads: tuple[str, ...],
    events_file: str | None,
    policies: tuple[str, ...],
    scoring: str,
    seconds: float,
    seed: int,
    speed: float | str,
    report_file: str | None,
    output: Form | None,
) -> None:
    """Simulate a load on a cluster under several policies, with the code that decides in the scheduler.

    The first run has the policy `simple`, and one more run follows for each --policy. No cluster is changed. Ctrl-C
    ends the simulation with the figures up to then.
    """
    from bcs_scheduler.simulator.amounts import BadInput
    from bcs_scheduler.simulator.comparison import differences
    from bcs_scheduler.simulator.inputs import Inputs, runs_of, scenario_of

    if seconds <= 0:
        raise UsageError("--for: must be more than 0")
    if live and dump_file:
        raise UsageError("--live and --dump exclude each other")
    present = read_dump(session, datetime.now(UTC), anonymize=False, events=False, partial=False) if live else None
    try:
        scenario = scenario_of(Inputs(dump_file, present, agents, loads, events_file, seed))
        runs = runs_of(policies, scoring, scenario)
    except BadInput as error:
        raise UsageError(str(error)) from None
    for note in scenario.notes:
        session.warn(note)
    attendance = Attendance(session, seconds, speed if isinstance(speed, float) else None)
    found = _simulated(session, attendance, scenario, runs, seconds)
    whole = [one for one in found if one["complete"]]
    differing = differences(whole) if len(whole) > 1 else []
    if report_file:
        facts = [("Seed", str(seed)), *_facts(session.server if live else None, dump_file, events_file, agents, loads)]
        _write_report(session, Path(report_file), found, differing, facts)
    data = {"seed": seed, "runs": found, "differences": differing}
    if not print_form(session.out, data, chosen_form(output)):
        print_runs(session, found, differing)
    if attendance.interrupted:
        context.exit(INTERRUPTED)


def _simulated(
    session: Session,
    attendance: Attendance,
    scenario: Scenario,
    runs: list[tuple[str, CoreOptions]],
    seconds: float,
) -> list[dict[str, Any]]:
    """The figures of the runs, up to the one that the user stops."""
    from bcs_scheduler.simulator.comparison import summary
    from bcs_scheduler.simulator.simulation import Simulation

    found = []
    with attendance.attended():
        for name, options in runs:
            attendance.begin(name)
            run = Simulation(name, scenario, options)
            found.append(summary(run.run(seconds, attendance.progress, lambda: attendance.interrupted)))
            if attendance.interrupted:
                break
    for one in found:
        for message in one["refused"][:1]:
            session.warn(f"{one['name']}: {len(one['refused'])} requests were refused, the first: {message}")
        if not one["complete"]:
            session.warn(f"{one['name']} was stopped after {one['seconds'] / seconds:.0%} of the virtual time")
    return found


def _facts(
    server: str | None, dump_file: str | None, events_file: str | None, agents: tuple[str, ...], loads: tuple[str, ...]
) -> list[tuple[str, str]]:
    live = [("--live", server)] if server else []
    files = (("--dump", dump_file), ("--events", events_file))
    named = [(option, os.path.basename(file)) for option, file in files if file]
    return [*live, *named, *(("--agents", spec) for spec in agents), *(("--load", spec) for spec in loads)]


def _write_report(
    session: Session,
    file: Path,
    runs: list[dict[str, Any]],
    differences: list[dict[str, Any]],
    facts: list[tuple[str, str]],
) -> None:
    """Raises CliError."""
    from bcs_scheduler.simulator.report import report

    try:
        file.write_text(report("Simulation", runs, differences, facts), encoding="utf-8")
    except OSError as error:
        raise CliError(f"{file}: cannot be written: {error.strerror or error}") from None
    session.err.print(f"{file} written")


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


PAUSE = 0.2
"""Longest pause in seconds between two looks at Ctrl-C while a run waits for its time."""


class Attendance:
    """Follows runs one after the other."""

    def __init__(self, session: Session, seconds: float, speed: float | None) -> None:
        """`seconds`: virtual time of each run. `speed`: virtual seconds for each second; None = as fast as possible."""
        self._session, self._seconds, self._speed = session, seconds, speed
        self._interrupted = threading.Event()
        self._progress: Progress | None = None
        self._task: Any = None
        self._began = 0.0

    @contextmanager
    def attended(self) -> Iterator[None]:
        """Within it, Ctrl-C ends the run in progress with the figures up to then; a second Ctrl-C ends the command."""
        before = signal.signal(signal.SIGINT, self._interrupt)
        try:
            if self._session.err.is_terminal:
                from rich.progress import Progress

                with Progress(console=self._session.err.console, transient=True) as self._progress:
                    yield
            else:
                yield
        finally:
            self._progress = None
            signal.signal(signal.SIGINT, before)

    def begin(self, name: str) -> None:
        """The next run begins."""
        self._began = time.monotonic()
        if self._progress is not None:
            self._task = self._progress.add_task(name, total=1.0)

    def progress(self, part: float) -> None:
        """Shows the part of the run that is done, from 0 to 1, and waits for its time."""
        if self._progress is not None:
            self._progress.update(self._task, completed=part)
        if self._speed is None:
            return
        due = self._began + part * self._seconds / self._speed
        while not self.interrupted and (rest := due - time.monotonic()) > 0:
            self._interrupted.wait(min(rest, PAUSE))

    @property
    def interrupted(self) -> bool:
        """The user has pressed Ctrl-C."""
        return self._interrupted.is_set()

    def _interrupt(self, number: int, frame: object) -> None:
        del number, frame
        if self.interrupted:
            raise KeyboardInterrupt
        self._interrupted.set()
