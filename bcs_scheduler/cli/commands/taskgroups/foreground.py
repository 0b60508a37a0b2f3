"""The task of an application in the foreground, for `bcs run -i`: its start, its streams, its exit code."""

from __future__ import annotations

import sys
from collections import Counter

from bcs_scheduler.cli.client.printed import Printed, Selection, TaskOutput, kept
from bcs_scheduler.cli.client.session_line import STDERR, STDOUT
from bcs_scheduler.cli.client.types import Json
from bcs_scheduler.cli.commands.taskgroups.detaching import DetachKeys
from bcs_scheduler.cli.commands.taskgroups.streams import Detached, attend, terminal_size, write
from bcs_scheduler.cli.crashes import failure_of, shell_code
from bcs_scheduler.cli.errors import CliError, TimedOut
from bcs_scheduler.cli.session import Session
from bcs_scheduler.cli.waiting import Look, wait_for_transaction, wait_until, wait_until_gone

ENDED = frozenset({"Finish", "Failed", "Error", "Killed", "Lost"})
END = 10.0
"""Seconds in which the end of a task that cannot be reached must be known to the scheduler."""


def attend_application(session: Session, name: str, *, terminal: bool, keys: bytes, remove: bool) -> int:
    """Passes the streams of the only task of a new application on until the task ends; returns its exit code. After the
    detach keys: 0. `remove`: deletes the application unless the user has detached. Raises CliError."""
    try:
        code = _attend(session, name, terminal, keys)
    except Detached:
        session.err.print(f"detached from {name}-0; the task runs on")
        return 0
    except BaseException:
        if remove:
            _remove(session, name)
        raise
    if remove:
        _remove(session, name)
    return code


def _attend(session: Session, name: str, terminal: bool, keys: bytes) -> int:
    printed: Counter[int] = Counter()
    group = _wait(session, name, "Running")
    if group["Status"] not in ENDED:
        try:
            return _attached(session, group, terminal, keys, printed)
        except TimedOut:
            raise
        except CliError as error:  # a short task may end before it is reached, and its executor before the last output
            group = _ended(session, name, error)
    return _print_ended(session, group, printed)


def _attached(session: Session, group: Json, terminal: bool, keys: bytes, printed: Counter[int]) -> int:
    document: Json = {"stdin": True}
    if terminal:
        rows, columns = terminal_size()
        document["tty"] = {"rows": rows, "columns": columns}
    if group.get("Executor") != "mesos":
        document["logs"] = True
    elif terminal:
        session.err.print("Press Enter if the program shows nothing: output before this moment is not repeated.")
    line = session.client.session(group["ID"], "attach", document)
    typed = DetachKeys(keys) if sys.stdin.isatty() else None
    return attend(
        line,
        stdin=True,
        terminal=terminal,
        seconds=session.timeout,
        keys=typed,
        ends_input=group.get("Executor") != "mesos",
        refusable=True,
        printed=printed,
    )


def _wait(session: Session, name: str, status: str, limit: float | None = None) -> Json:
    """The taskgroup, when it has this status or has ended. `limit`: seconds, None = that of the session. Raises
    TimedOut."""
    found: Json = {}

    def look() -> Look:
        nonlocal found
        application = session.client.application(session.namespace, name)
        groups = session.client.taskgroups(session.namespace, name)
        found = groups[0] if groups else {}
        reached = found.get("Status") == status or found.get("Status") in ENDED
        return Look(int(reached), 1, str(application.get("Message") or application["Status"]), ended=reached)

    wait_until(session, name, look, limit)
    return found


def _ended(session: Session, name: str, error: CliError) -> Json:
    """The taskgroup after its end. Raises `error` if the taskgroup runs on."""
    group = _wait(session, name, "", END)
    if group["Status"] not in ENDED:
        raise error
    return group


def recorded_exit_code(session: Session, group: Json, task: str, error: CliError) -> int:
    """The exit code of a task whose session was lost, by the record of its taskgroup: the executor of a task that ends
    may end before the code was passed on. `task`: name or number of the task; empty = the only one. Raises `error` if
    the taskgroup does not end, or its record has no code."""
    found: Json = {}

    def look() -> Look:
        nonlocal found
        found = session.client.taskgroup(session.namespace, group["ID"])
        ended = found["Status"] in ENDED
        return Look(int(ended), 1, str(found["Status"]), ended=ended)

    try:
        wait_until(session, str(group["Name"]), look, END)
    except CliError:
        raise error from None
    tasks = found["Taskgroup"]
    named = [one for number, one in enumerate(tasks) if task in ("", str(number), one.get("Name"))]
    code = named[0].get("ExitCode") if len(named) == 1 else None
    if code is None:
        raise error
    return shell_code(int(code))


def _print_ended(session: Session, group: Json, before: Counter[int]) -> int:
    """`before`: bytes by channel that were printed already, from the begin of the output on."""
    task, passed = group["Taskgroup"][0], Counter(before)
    for printed in _output(session, group, task):
        channel = STDERR if printed.stream == "stderr" else STDOUT
        known = min(passed[channel], len(printed.data))
        passed[channel] -= known
        write(sys.stderr.buffer if channel == STDERR else sys.stdout.buffer, printed.data[known:])
    code = task.get("ExitCode")
    if code is None:
        raise CliError(f"taskgroup {group['Name']} failed: {failure_of(group)}")
    return shell_code(int(code))


def _output(session: Session, group: Json, task: Json) -> list[Printed]:
    """From the sandbox, else the end that was kept of a failed task; empty if there is neither."""
    output = TaskOutput(session.client, group["ID"], task["ID"], Selection(), lost=_nothing, unordered=_nothing)
    try:
        return list(output.begin())
    except CliError:
        pass
    try:
        kept_tasks = [found["id"] for found in session.client.outputs(session.namespace, taskgroup=group["ID"])]
        return kept(session.client, session.namespace, task["ID"], Selection()) if task["ID"] in kept_tasks else []
    except CliError:
        return []


def _nothing() -> None:
    """Rotated and unordered output needs no words here."""


def _remove(session: Session, name: str) -> None:
    """Deletes the application and waits until it is gone. Prints nothing: the output is that of the task."""
    accepted = session.client.delete(session.namespace, name, force=False, dry_run=False)
    if accepted.transaction:
        wait_for_transaction(session, session.namespace, accepted.transaction)
    wait_until_gone(session, session.namespace, name)
