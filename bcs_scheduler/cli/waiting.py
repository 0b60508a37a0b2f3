"""Waiting for the end of an operation: polls the server, shows a progress bar on a terminal, ends at a time limit."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

from bcs_scheduler.cli.client.lookup import find_taskgroup
from bcs_scheduler.cli.client.outage import Outage
from bcs_scheduler.cli.client.types import Json
from bcs_scheduler.cli.crashes import FAILED, CrashWatch, failure_of
from bcs_scheduler.cli.errors import CliError, Conflict, NotFound, TimedOut, Unreachable
from bcs_scheduler.cli.output.text import counted, duration, verdict
from bcs_scheduler.cli.session import Session
from store.advice import advise
from store.keys import transaction_name

FIRST_PAUSE, LONGEST_PAUSE = 0.05, 1.0
REACHED = {"Running": "running", "Finish": "finished", "Stopped": "stopped"}


class Look(NamedTuple):
    """Result of one poll: `done` of `total`, a status text, and whether the operation has ended."""

    done: int
    total: int
    text: str
    ended: bool = False


def wait_until(
    session: Session, label: str, look: Callable[[], Look], limit: float | None = None, late: float = 0.0
) -> Look:
    """Polls with `look` until the operation has ended, and returns the last result.

    `limit`: seconds; None = the limit of the session. `late`: seconds beyond the limit, for an operation that ends by
    itself at the limit and reports that. An unreachable server (a change of leaders) counts as an unfinished poll.
    Raises TimedOut, and the errors of `look`.
    """
    limit = session.wait_limit if limit is None else limit
    deadline = time.monotonic() + limit + late
    pause = FIRST_PAUSE
    text = "no answer from the server"
    outage = Outage(session.warn)
    with _bar(session, label) as show:
        while True:
            try:
                seen = look()
                outage.over()
                text = seen.text
                show(seen)
                if seen.ended:
                    return seen
            except Unreachable as error:
                text = error.message
                outage.failed(error)
            if time.monotonic() + pause > deadline:
                more = f" and {duration(late)} more" if late else ""
                raise TimedOut(f"{label}: not done after {duration(limit)}{more}: {text}")
            time.sleep(pause)
            pause = min(pause * 1.5, LONGEST_PAUSE)


@contextmanager
def _bar(session: Session, label: str) -> Iterator[Callable[[Look], None]]:
    if not session.interactive:
        yield lambda seen: None
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
    from rich.table import Column

    columns = (TextColumn("{task.description}"), BarColumn(24), MofNCompleteColumn(), TimeElapsedColumn())
    # The text gets the places that are left, and is cut; it must not squeeze the bar and the numbers.
    text_column = TextColumn(
        "[dim]{task.fields[text]}", table_column=Column(ratio=1, no_wrap=True, overflow="ellipsis")
    )
    with Progress(*columns, text_column, console=session.err.console, transient=True, expand=True) as progress:
        task = progress.add_task(label, total=None, text="")
        yield lambda seen: progress.update(task, completed=seen.done, total=seen.total or None, text=seen.text)


def wait_for_transaction(session: Session, namespace: str, transaction: str, watch: CrashWatch | None = None) -> None:
    """Waits for the end of a transaction. Raises CliError if it did not succeed, or when `watch` finds a failure."""

    title = f"transaction {transaction_name(transaction)}"

    def look() -> Look:
        if watch is not None:
            watch.look()
        found = session.client.transaction(namespace, transaction)
        status, message = str(found["status"]), str(found.get("message") or "")
        if status == "SUPERSEDED":
            raise Conflict(f"{title} ended: {message or verdict(status)}")
        if status in ("FAIL", "TIMEOUT", "CANCEL"):
            raise CliError(f"{title} {verdict(status)}: {message}")
        done, total = int(found.get("progress") or 0), int(found.get("target") or 0)
        return Look(done, total, message or _transaction_state(found, done, total), ended=status == "FINISH")

    wait_until(session, title, look)


def wait_until_running(session: Session, namespace: str, name: str, watch: CrashWatch | None = None) -> str:
    """Waits until the defined number of taskgroups runs, or until all have finished. Returns ``running``,
    ``finished``, or ``stopped`` for 0 taskgroups.

    Raises CliError with the reason when a taskgroup has failed meanwhile, or within the time of --stable after that.
    """
    reached = ""
    watch = watch or CrashWatch(session, namespace, name)

    def look() -> Look:
        nonlocal reached
        found = session.client.application(namespace, name)
        wanted, running = int(found["DefineInstances"]), int(found["RunningInstances"])
        status = str(found["Status"])
        reached = REACHED.get(status, "")
        settled = bool(reached) and (running == wanted or status == "Finish") and found["Instances"] == wanted
        stable = watch.stable(found, settled)
        return Look(running, wanted, _state(found), ended=settled and (stable or status in ("Finish", "Stopped")))

    wait_until(session, name, look)
    return reached


class Ended(NamedTuple):
    """How the taskgroups of an application have ended. `failed`: names of those that failed, in natural order; empty =
    success. `code`: exit code of the first one that failed, negative = ended by that signal; None = it has none; 0
    after a success. `text`: the first failure."""

    failed: tuple[str, ...]
    code: int | None
    text: str


def wait_until_finished(session: Session, namespace: str, name: str) -> Ended:
    """Waits until all taskgroups have ended, and none is started again.

    Raises CliError for an application of 0 taskgroups.
    """
    groups: list[Json] = []

    def look() -> Look:
        found = session.client.application(namespace, name)
        wanted = int(found["DefineInstances"])
        if not wanted:
            raise CliError(f"application {name} has 0 taskgroups: none can finish")
        settled = not int(found["RunningInstances"]) and int(found["Instances"]) == wanted
        groups[:] = session.client.taskgroups(namespace, name) if settled else ()
        ended = sum(bool(group.get("NotReplaced")) for group in groups)
        return Look(ended, wanted, _state(found), ended=ended == wanted)

    wait_until(session, name, look)
    return _ended(groups)


def _ended(groups: list[Json]) -> Ended:
    failed = sorted((group for group in groups if group["Status"] != "Finish"), key=lambda group: group["InstanceID"])
    if not failed:
        return Ended((), 0, "")
    tasks = [task for task in failed[0].get("Taskgroup") or () if task["Status"] != "Finish"]
    codes = [int(task["ExitCode"]) for task in tasks if task.get("ExitCode") is not None]
    text = f"{failed[0]['Name']}: {failure_of(failed[0])}"
    return Ended(tuple(str(group["Name"]) for group in failed), codes[0] if codes else None, text)


def wait_until_taskgroup_runs(session: Session, name: str) -> str:
    """Waits until a taskgroup (name or id) runs and is healthy, or has finished. Returns ``running`` or ``finished``.

    Raises NotFound if it does not exist, CliError with the reason if it fails.
    """
    reached = ""

    def look() -> Look:
        nonlocal reached
        group = find_taskgroup(session.client, session.namespace, name)
        if group["Status"] in FAILED:
            ways = advise("look_at_failure", name=str(group["AppID"]))
            raise CliError(f"taskgroup {group['Name']} failed: {failure_of(group)}; {ways}")
        healthy = group["Status"] != "Running" or all(
            task.get("Healthy", True) for task in group.get("Taskgroup") or ()
        )
        reached = REACHED.get(str(group["Status"]), "") if healthy else ""
        return Look(bool(reached), 1, _state(group), ended=bool(reached))

    wait_until(session, name, look)
    return reached


def wait_until_taskgroup_finished(session: Session, name: str) -> Ended:
    """Waits until a taskgroup (name or id) has ended and is not started again. Raises NotFound."""
    group: Json = {}

    def look() -> Look:
        nonlocal group
        group = find_taskgroup(session.client, session.namespace, name)
        ended = bool(group.get("NotReplaced"))
        return Look(ended, 1, _state(group), ended=ended)

    wait_until(session, name, look)
    return _ended([group])


def wait_until_taskgroup_gone(session: Session, name: str) -> None:
    """Waits until the present taskgroup of a name, or that with an id, does not exist any more."""
    try:
        identity = str(find_taskgroup(session.client, session.namespace, name)["ID"])
    except NotFound:
        return

    def look() -> Look:
        try:
            group = find_taskgroup(session.client, session.namespace, identity)
        except NotFound:
            return Look(1, 1, "deleted", ended=True)
        return Look(0, 1, _state(group))

    wait_until(session, name, look)


def wait_until_gone(session: Session, namespace: str, name: str) -> None:
    def look() -> Look:
        try:
            found = session.client.application(namespace, name)
        except NotFound:
            return Look(1, 1, "deleted", ended=True)
        return Look(0, 0, f"{counted(int(found['Instances']), 'taskgroup')} left, {_state(found)}")

    wait_until(session, name, look)


def _transaction_state(found: Json, done: int, total: int) -> str:
    """Status text of a transaction without a message."""
    if not total:
        return verdict(str(found["status"]))
    return f"{done} of {total}; {advise('explain', name=str(found['objectName']))}"


def _state(found: Json) -> str:
    """Status text of an application or a taskgroup."""
    message = found.get("Reason") or found.get("Message") or ""
    return f"{found['Status']}{': ' if message else ''}{message}"
