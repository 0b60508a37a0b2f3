"""`bcs logs`: output of taskgroups, from the sandboxes on the agents."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from typing import Any

import click

from bcs_scheduler.cli.client.lookup import Target, find_target
from bcs_scheduler.cli.client.printed import STREAMS, Printed, Selection, TaskOutput
from bcs_scheduler.cli.client.types import Json
from bcs_scheduler.cli.commands.arguments import target_names
from bcs_scheduler.cli.commands.reading.lines import Lines
from bcs_scheduler.cli.commands.reading.previous import LAST_TRY, UNORDERED, print_kept, print_last_try, print_previous
from bcs_scheduler.cli.errors import CliError, Conflict, NotFound, Unreachable, UsageError
from bcs_scheduler.cli.kinds.workloads.taskgroups import reason_of, starts_again
from bcs_scheduler.cli.options import Duration, RenamedOption, connection_options, examples, pass_session
from bcs_scheduler.cli.session import Session

PAUSE = 0.3
"""Seconds between two polls of -f."""
LISTING = 2.0
"""Seconds between two lists of taskgroups with -f."""
LOST = "some output may be missing: files were rotated before they were read"
NOT_STARTED = "not_started"
"""Reason of the server for output of a task that has not started."""
ENDED = frozenset({"Killed", "Finish", "Failed", "Error", "Lost"})


class Moment(click.ParamType):  # type: ignore[type-arg]  # generic only since click 8.3
    """Unix seconds, from a duration before now (``10m``) or a time (``2026-01-31T12:00:00Z``; local without a zone)."""

    name = "moment"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        if isinstance(value, float):
            return value
        try:
            return datetime.fromisoformat(value).timestamp()
        except ValueError:
            pass
        try:
            return time.time() - Duration().convert(value, param, ctx)
        except click.BadParameter:
            self.fail(
                f"{value!r} is neither a duration such as 10m nor a time such as 2026-01-31T12:00:00Z", param, ctx
            )


@click.command(
    epilog=examples(
        "bcs logs web-0 -f",
        "bcs logs web --tail 5 --timestamps",
        "bcs logs deployment/gallery --stderr --since 10m",
    )
)
@click.argument("target", required=False, default="", metavar="[TASKGROUP|WORKLOAD]", shell_complete=target_names)
@click.option(
    "-l", "--selector", default="", metavar="SELECTOR", help="Print the output of all taskgroups with these labels."
)
@click.option("-f", "--follow", is_flag=True, help="Print new output until the taskgroups have ended.")
@click.option(
    "-t",
    "--task",
    cls=RenamedOption,
    former=("-c", "--container"),
    default="",
    metavar="TASK",
    help="Name or number of a task. Default: all tasks.",
)
@click.option("--stdout", is_flag=True, help="Print standard output only. Default: both streams.")
@click.option("--stderr", is_flag=True, help="Print standard error only.")
@click.option(
    "--file",
    "path",
    default="",
    metavar="PATH",
    help="Print another file; the path is relative to the directory of the task.",
)
@click.option("--executor", is_flag=True, help="Print the output of the executor.")
@click.option(
    "--tail", type=click.IntRange(0, 100_000), metavar="N", help="Begin with the last N lines. Default: all lines."
)
@click.option(
    "--since",
    type=Moment(),
    metavar="DURATION|TIME",
    help="Begin with the output of the last DURATION (10m), or since TIME (2026-01-31T12:00:00Z).",
)
@click.option("--timestamps", is_flag=True, help="Print before each line when it was printed, in UTC.")
@click.option(
    "--previous",
    cls=RenamedOption,
    former=("-p",),
    is_flag=True,
    help="Print the last output of the failed predecessors of the taskgroups.",
)
@click.option("--rotated", is_flag=True, help="Begin with the rotated files, oldest first.")
@connection_options
@pass_session
def logs(
    session: Session,
    target: str,
    selector: str,
    follow: bool,
    task: str,
    stdout: bool,
    stderr: bool,
    path: str,
    executor: bool,
    tail: int | None,
    since: float | None,
    timestamps: bool,
    previous: bool,
    rotated: bool,
) -> None:
    """Print the output of a taskgroup, or of all taskgroups of a workload.

    Standard output and standard error are printed in the order in which the executor has read them; lines of standard
    error begin with `stderr |`. With several taskgroups or tasks, each line begins with the name of its source. Mesos's
    own executor records neither order nor times: standard output comes first then.

    The last 64 KiB of the output of a task that failed are kept: bcs prints these if the sandbox cannot be read any
    more, and with --previous those of the taskgroup that the present one replaces.

    -f waits for the start of tasks that have not started; without -f such a task is an error (exit code 6).
    """
    if path and (stderr or stdout):
        raise UsageError(f"--{'stderr' if stderr else 'stdout'} cannot be combined with --file")
    if (path or executor) and (since is not None or timestamps):
        raise UsageError(f"the times of {'--file' if path else '--executor'} are not known")
    if rotated and tail is not None:
        raise UsageError("--tail cannot be combined with --rotated")
    if executor and task:
        raise UsageError("--executor cannot be combined with --task")
    if previous and (path or executor or follow or rotated):
        raise UsageError("--previous cannot be combined with --file, --executor, --follow and --rotated")
    if bool(target) == bool(selector):
        raise UsageError("give a taskgroup, a workload, or labels with -l")
    found = _selected(session, selector) if selector else find_target(session.client, session.namespace, target)
    files = (path,) if path else STREAMS if stdout == stderr else ("stdout" if stdout else "stderr",)
    selection = Selection(files, tail, since, rotated, timestamps, executor)
    if previous:
        print_previous(session, found, selection, task)
        return
    reader = Reader(session, found, selection, task, follow)
    reader.begin()
    while follow and reader.alive:
        time.sleep(PAUSE)
        reader.more()
    reader.end()


SELECTOR = "selector"
"""Kind of a target that is a selection by labels; its name is the selector."""


def _selected(session: Session, selector: str) -> Target:
    groups = session.client.taskgroups(session.namespace, selector=selector)
    return Target(SELECTOR, session.namespace, selector, groups, one=False)


@dataclass
class Source:
    """One task, or one executor."""

    taskgroup: str
    task: str
    """Id; empty for an executor."""
    name: str
    output: TaskOutput
    group: Json
    number: int
    """Of the task in its taskgroup; -1 for an executor."""
    lines: Lines | None = None
    """None until it is known whether there are several sources."""
    over: bool = False


@dataclass
class Reader:
    """The files that one run of the command prints."""

    session: Session
    target: Target
    selection: Selection
    task: str
    follow: bool
    sources: list[Source] = field(default_factory=list)
    failures: dict[str, CliError] = field(default_factory=dict)
    _listed: float = 0.0
    _waiting: set[str] = field(default_factory=set)
    """Names of sources whose start is waited for."""
    _said: bool = False
    """The user knows that the order is not known."""

    def __post_init__(self) -> None:
        self._add(self.target.taskgroups)
        self.several = len(self.sources) > 1 or (self.follow and not self.target.one)
        if not self.sources:
            raise NotFound(
                f"{self.target.title} has no taskgroups" + (f" with a task {self.task}" if self.task else "")
            )
        self._listed = time.monotonic()

    @property
    def alive(self) -> bool:
        return any(not source.over for source in self.sources)

    def begin(self) -> None:
        for source in self.sources:
            if source.group["Status"] in ENDED and source.task and starts_again(source.group):
                self._report(source.name, f"{reason_of(source.group)}; {LAST_TRY}")
            self._copy(source, source.output.begin(), first=True)
            if not self.follow:
                self._lines(source).finish_all()

    def more(self) -> None:
        """Prints new output of known and of new taskgroups."""
        last = self._refresh() if time.monotonic() - self._listed > LISTING else set()
        for source in self.sources:
            if not source.over:
                self._copy(source, source.output.more(), known=source.output.begun)
                source.over = source.over or source.taskgroup in last
                if source.over:
                    self._lines(source).finish_all()
        self.sources = [source for source in self.sources if not source.over] or self.sources[:1]

    def end(self) -> None:
        for source in self.sources:
            self._lines(source).finish_all()
        if self.failures:
            raise next(iter(self.failures.values()))

    def _refresh(self) -> set[str]:
        """Adds new taskgroups of a workload. Returns the ids of taskgroups that have ended."""
        self._listed = time.monotonic()
        client, target = self.session.client, self.target
        try:
            if target.one:
                groups = [client.taskgroup(target.namespace, target.taskgroup)]
            elif target.kind == SELECTOR:
                groups = client.taskgroups(target.namespace, selector=target.name)
            else:
                groups = client.taskgroups(target.namespace, target.name, kind=target.kind)
        except NotFound:
            groups = []
        except Unreachable:
            return set()
        known = {source.taskgroup for source in self.sources}
        if not target.one:
            self._add(group for group in groups if group["ID"] not in known and group["Status"] not in ENDED)
        living = {group["ID"] for group in groups if group["Status"] not in ENDED}
        return known - living

    def _add(self, groups: Iterable[Json]) -> None:
        for group in groups:
            tasks = group["Taskgroup"] or []
            names = [(task["ID"], task["Name"] or str(number), number) for number, task in enumerate(tasks)]
            wanted = [found for found in names if not self.task or self.task in (*found[:2], str(found[2]))]
            if self.selection.executor:
                wanted = [("", "executor", -1)]
            elif self.target.one and not wanted:
                listed = ", ".join(name for _, name, _ in names)
                raise NotFound(f"{group['Name']} has no task {self.task}; its tasks are {listed}")
            for identity, name, number in wanted:
                several = len(tasks) > 1 and not self.selection.executor
                title = f"{group['Name']}/{name}" if several else str(group["Name"])
                output = TaskOutput(
                    self.session.client,
                    group["ID"],
                    identity,
                    self.selection,
                    lost=partial(self._report, title, LOST),
                    unordered=partial(self._report_unordered, title),
                )
                self.sources.append(Source(group["ID"], identity, title, output, group, number))

    def _lines(self, source: Source) -> Lines:
        if source.lines is None:
            marked = len(self.selection.files) > 1
            source.lines = Lines(source.name, named=self.several, marked=marked, times=self.selection.times)
        return source.lines

    def _copy(self, source: Source, pieces: Iterable[Printed], *, known: bool = False, first: bool = False) -> None:
        """Prints output. An error is reported once; with -f the output is read again. A missing source that was `known`
        before has ended. At `first`, a task that has not started has the output of the try before. With -f, waits for
        the start of a task."""
        try:
            for piece in pieces:
                self._lines(source).write(piece)
            self.failures.pop(source.name, None)
        except NotFound as error:
            source.over = True
            if not known and not self._kept(source):
                self._fail(source, error)
        except CliError as error:
            waits = isinstance(error, Conflict) and error.reason == NOT_STARTED
            if waits and first and self._tried_before(source, error) and not self.follow:
                source.over = True
            elif self.follow and waits:
                self._report_waiting(source, error)
            elif known or not self._kept(source):
                self._fail(source, error)
            else:
                source.over = True

    def _tried_before(self, source: Source, error: CliError) -> bool:
        """Prints the kept output of the failed taskgroup that this one replaces; False if no output is kept."""
        if not self.selection.streams_only or not source.task:
            return False
        told = print_last_try(self.session, source.group, source.number, self._lines(source), self.selection)
        if told:
            self._report(source.name, f"{error.message}; {told}")
        return bool(told)

    def _kept(self, source: Source) -> bool:
        """Prints the kept output of a failed task, whose sandbox cannot be read; False if no output is kept."""
        if not self.selection.streams_only or not source.task:
            return False
        lines = self._lines(source)
        told = print_kept(self.session, self.target, source.taskgroup, source.task, lines, self.selection)
        if told:
            self._report(source.name, told)
        return bool(told)

    def _fail(self, source: Source, error: CliError) -> None:
        if not self.several and not self.follow:
            raise error
        if source.name not in self.failures:
            self._report(source.name, error.message)
        self.failures[source.name] = error

    def _report_waiting(self, source: Source, error: CliError) -> None:
        """Tells people at a terminal why nothing is printed, once per source."""
        if self.session.interactive and source.name not in self._waiting:
            self._report(source.name, f"{error.message}; waiting for the start")
        self._waiting.add(source.name)

    def _report_unordered(self, name: str) -> None:
        if not self._said:
            self._report(name, UNORDERED)
        self._said = True

    def _report(self, name: str, message: str) -> None:
        self.session.err.print(f"{name} | {message}")
