"""`bcs logs`: what taskgroups print, from the sandboxes on the agents."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import partial

import click

from bcs_scheduler.cli.client import Json
from bcs_scheduler.cli.complete import target_names
from bcs_scheduler.cli.errors import CliError, NotFound, Unreachable, UsageError
from bcs_scheduler.cli.following import Follower
from bcs_scheduler.cli.lookup import Target, find_target
from bcs_scheduler.cli.options import Session, connection_options, pass_session

PAUSE = 0.3
"""Seconds between two looks of -f."""
LISTING = 2.0
"""Seconds after which -f looks for taskgroups that came and went."""
LONGEST_LINE = 64 * 1024
"""Bytes of a line that are held back to be printed as one."""
LOST = "some output may be missing: files were rotated away before they could be read"
ENDED = frozenset({"Killed", "Finish", "Failed", "Error", "Lost"})


@click.command()
@click.argument("target", metavar="TASKGROUP|OWNER", shell_complete=target_names)
@click.option("-f", "--follow", is_flag=True, help="Go on printing what is written, until the taskgroups have ended.")
@click.option("-t", "--task", default="", metavar="TASK", help="Name or number of the task. Default: all of them.")
@click.option("--stderr", is_flag=True, help="Standard error instead of standard output.")
@click.option("--file", "path", default="", metavar="PATH", help="Another file, relative to the task's folder.")
@click.option("--executor", is_flag=True, help="What the executor itself printed.")
@click.option("--tail", type=click.IntRange(0, 100_000), metavar="N", help="Begin with the last N lines. Default: all.")
@click.option("--rotated", is_flag=True, help="Begin with the rotated files that are still there, oldest first.")
@connection_options
@pass_session
def logs(
    session: Session,
    target: str,
    follow: bool,
    task: str,
    stderr: bool,
    path: str,
    executor: bool,
    tail: int | None,
    rotated: bool,
) -> None:
    """Print what a taskgroup, or every taskgroup of a deployment or application, has printed.

    With several sources each line begins with its name.
    """
    if stderr and path:
        raise UsageError("--stderr and --file exclude each other")
    if rotated and tail is not None:
        raise UsageError("--tail and --rotated exclude each other")
    if executor and task:
        raise UsageError("--executor and --task exclude each other")
    found = find_target(session.client, session.namespace, target)
    reader = Reader(session, found, path or ("stderr" if stderr else "stdout"), task, executor, follow)
    reader.begin(tail, rotated=rotated)
    while follow and reader.alive:
        time.sleep(PAUSE)
        reader.more()
    reader.end()


@dataclass
class Source:
    """One file. `prefix` is printed before each line if there are several; `rest` is a line that has no end yet."""

    taskgroup: str
    follower: Follower
    prefix: bytes
    rest: bytes = b""
    over: bool = False


@dataclass
class Reader:
    """All that is printed by one run of the command."""

    session: Session
    target: Target
    file: str
    task: str
    executor: bool
    follow: bool
    sources: list[Source] = field(default_factory=list)
    failures: dict[bytes, CliError] = field(default_factory=dict)
    _listed: float = 0.0

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

    def begin(self, tail: int | None, *, rotated: bool) -> None:
        for source in self.sources:
            self._copy(source, source.follower.begin(tail, rotated=rotated))
            if not self.follow:
                self._print(source, b"", final=True)

    def more(self) -> None:
        """What was written since, by those that are there and those that came."""
        last = self._refresh() if time.monotonic() - self._listed > LISTING else set()
        for source in self.sources:
            if not source.over:
                self._copy(source, source.follower.more(), known=True)
                source.over = source.over or source.taskgroup in last
        self.sources = [source for source in self.sources if not source.over] or self.sources[:1]

    def end(self) -> None:
        for source in self.sources:
            self._print(source, b"", final=True)
        if self.failures:
            raise next(iter(self.failures.values()))

    def _refresh(self) -> set[str]:
        """Takes on new taskgroups of an application; gives the ids of those that have written their last."""
        self._listed = time.monotonic()
        client, target = self.session.client, self.target
        try:
            if target.one:
                groups = [client.taskgroup(target.namespace, target.taskgroup)]
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
            names = [(task["ID"], task["Name"] or str(number)) for number, task in enumerate(tasks)]
            wanted = [pair for number, pair in enumerate(names) if not self.task or self.task in (*pair, str(number))]
            if self.executor:
                wanted = [("", "executor")]
            elif self.target.one and not wanted:
                listed = ", ".join(name for _, name in names)
                raise NotFound(f"{group['Name']} has no task {self.task}; its tasks are {listed}")
            for identity, name in wanted:
                title = f"{group['Name']}/{name}" if len(tasks) > 1 and not self.executor else str(group["Name"])
                prefix = f"{title} | "
                follower = Follower(
                    self.session.client,
                    group["ID"],
                    identity,
                    self.file,
                    executor=self.executor,
                    lost=partial(self._tell_lost, prefix),
                )
                self.sources.append(Source(group["ID"], follower, prefix.encode()))

    def _copy(self, source: Source, pieces: Iterable[bytes], *, known: bool = False) -> None:
        """What fails is told once, and tried again with -f; a source that was `known` and is gone is at its end."""
        try:
            for piece in pieces:
                self._print(source, piece)
            self.failures.pop(source.prefix, None)
        except NotFound as error:
            source.over = True
            if not known:
                self._fail(source, error)
        except CliError as error:
            self._fail(source, error)

    def _fail(self, source: Source, error: CliError) -> None:
        if not self.several and not self.follow:
            raise error
        if source.prefix not in self.failures:
            self.session.err.print(f"{source.prefix.decode()}{error.message}", markup=False)
        self.failures[source.prefix] = error

    def _tell_lost(self, prefix: str) -> None:
        self.session.err.print(f"{prefix}{LOST}", markup=False, soft_wrap=True)

    def _print(self, source: Source, data: bytes, *, final: bool = False) -> None:
        out = sys.stdout.buffer
        if not self.several:
            out.write(data)
            out.flush()
            return
        *lines, source.rest = (source.rest + data).split(b"\n")
        if source.rest and (final or len(source.rest) > LONGEST_LINE):
            lines, source.rest = [*lines, source.rest], b""
        out.write(b"".join(source.prefix + line + b"\n" for line in lines))
        out.flush()
