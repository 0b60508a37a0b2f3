"""Waiting for what was asked for: polls the server, shows a bar to whoever watches, gives up in time."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from bcs_scheduler.cli.client import Json
from bcs_scheduler.cli.errors import CliError, NotFound, TimedOut, Unreachable
from bcs_scheduler.cli.options import Session

FIRST_PAUSE, LONGEST_PAUSE = 0.05, 1.0
SETTLED = {"Running": "running", "Finish": "finished"}


class Look(NamedTuple):
    """What one look found: `done` of `total`, in words, and whether the waiting is over."""

    done: int
    total: int
    text: str
    ended: bool = False


def wait_until(
    session: Session, label: str, look: Callable[[], Look], limit: float | None = None, late: float = 0.0
) -> Look:
    """Looks until it has ended. Raises TimedOut after `limit` seconds or the session's limit, and what `look` raises.
    What is to give up by itself at the limit has `late` seconds more to say so.

    A server that is away for a moment (a change of leaders) is waited for like everything else.
    """
    limit = session.wait_limit if limit is None else limit
    deadline = time.monotonic() + limit + late
    pause = FIRST_PAUSE
    text = "nothing was seen"
    with _bar(session, label) as show:
        while True:
            try:
                seen = look()
                text = seen.text
                show(seen)
                if seen.ended:
                    return seen
            except Unreachable as error:
                text = error.message
            if time.monotonic() + pause > deadline:
                more = f" and {late:g}s more" if late else ""
                raise TimedOut(f"{label}: not done after {limit:g}s{more}: {text}")
            time.sleep(pause)
            pause = min(pause * 1.5, LONGEST_PAUSE)


@contextmanager
def _bar(session: Session, label: str) -> Iterator[Callable[[Look], None]]:
    if not session.interactive:
        yield lambda seen: None
        return
    columns = (TextColumn("{task.description}"), BarColumn(24), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, TextColumn("[dim]{task.fields[text]}"), console=session.err, transient=True) as progress:
        task = progress.add_task(label, total=None, text="")
        yield lambda seen: progress.update(task, completed=seen.done, total=seen.total or None, text=seen.text)


def wait_for_transaction(session: Session, namespace: str, transaction: str) -> None:
    """Until it has ended. Raises CliError if it ended badly."""
    label = transaction

    def look() -> Look:
        found = session.client.transaction(namespace, transaction)
        status, message = str(found["status"]), str(found.get("message") or "")
        if status in ("FAIL", "TIMEOUT", "CANCEL"):
            raise CliError(f"transaction {transaction} ended {status}: {message}")
        done, total = int(found.get("progress") or 0), int(found.get("target") or 0)
        return Look(done, total, message or _standing(status, done, total), ended=status == "FINISH")

    wait_until(session, label, look)


def wait_until_running(session: Session, namespace: str, name: str) -> str:
    """Until the wanted number of taskgroups is Running, or has finished its work: says which, in a word."""
    reached = ""

    def look() -> Look:
        nonlocal reached
        found = session.client.application(namespace, name)
        wanted, running = int(found["DefineInstances"]), int(found["RunningInstances"])
        status = str(found["Status"])
        reached = SETTLED.get(status, "")
        settled = bool(reached) and (running == wanted or status == "Finish") and found["Instances"] == wanted
        return Look(running, wanted, _state(found), ended=settled)

    wait_until(session, name, look)
    return reached


def wait_until_gone(session: Session, namespace: str, name: str) -> None:
    def look() -> Look:
        try:
            found = session.client.application(namespace, name)
        except NotFound:
            return Look(1, 1, "deleted", ended=True)
        return Look(0, 0, f"{found['Instances']} taskgroups left, {_state(found)}")

    wait_until(session, name, look)


def _standing(status: str, done: int, total: int) -> str:
    """What is known of an operation that has no message yet. Why it waits is for `explain` to say."""
    return f"{done} of {total}, `bcs explain` says what is missing" if total else status


def _state(application: Json) -> str:
    message = application.get("Message") or ""
    return f"{application['Status']}{': ' if message else ''}{message}"
