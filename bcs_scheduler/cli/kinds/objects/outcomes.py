"""Results of messages and commands in tasks: waiting for them, and printing them."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import NamedTuple, TextIO

from bcs_scheduler.cli.client.lookup import Target
from bcs_scheduler.cli.client.types import Json, SentMessages
from bcs_scheduler.cli.errors import CliError, Problem
from bcs_scheduler.cli.output.data import print_data
from bcs_scheduler.cli.output.text import counted
from bcs_scheduler.cli.session import Session
from bcs_scheduler.cli.waiting import Look, wait_until
from store.keys import taskgroup_name

OPEN = ("staging", "running")
SIGNALLED = 128
"""Exit code of a command that a signal ended: this, plus the number of the signal."""


class Outcome(NamedTuple):
    """Result in one task. `exit_code`: None if no command ran; negative if a signal ended it."""

    taskgroup: str
    task: str
    ok: bool
    message: str
    exit_code: int | None = None
    stdout: str = ""
    stderr: str = ""
    truncated: bool = False

    @property
    def name(self) -> str:
        """Name of the taskgroup, such as ``web-0``."""
        return taskgroup_name(self.taskgroup)

    @property
    def code(self) -> int:
        """Exit code for the shell; 1 if the command could not be started."""
        if self.exit_code is None:
            return 0 if self.ok else 1
        return SIGNALLED - self.exit_code if self.exit_code < 0 else self.exit_code

    def shown(self) -> Json:
        return {
            "taskgroup": self.taskgroup,
            "task": self.task,
            "ok": self.ok,
            "message": self.message,
            "exitCode": self.exit_code,
            "stdout": self.stdout,
            "stderr": self.stderr,
            "truncated": self.truncated,
        }


def wait_for_outcome(
    session: Session, target: Target, sent: SentMessages, label: str, limit: float | None = None
) -> list[Outcome]:
    """Waits for the answers of all taskgroups. `limit`: seconds; None = the limit of the session. Raises TimedOut."""
    last: Json = {}

    def look() -> Look:
        nonlocal last
        last = session.client.command(target.namespace, target.name, sent.command, kind=target.kind)
        groups = last["status"]["taskgroups"]
        done = sum(1 for group in groups if group["status"] not in OPEN)
        return Look(
            done, len(groups), f"{done} of {counted(len(groups), 'taskgroup')} answered", ended=done == len(groups)
        )

    wait_until(session, label, look, limit)
    return outcomes(last)


def outcomes(command: Json) -> list[Outcome]:
    found = []
    for group in command["status"]["taskgroups"]:
        if not group["tasks"]:
            found.append(Outcome(group["taskgroupId"], "", group["status"] == "success", group["message"]))
        for task in group["tasks"]:
            output = task.get("commInspect") or {}
            found.append(
                Outcome(
                    group["taskgroupId"],
                    task["taskId"],
                    task["status"] == "finish",
                    task["message"] or group["message"],
                    output.get("exitCode"),
                    output.get("stdout") or "",
                    output.get("stderr") or "",
                    bool(output.get("truncated")),
                )
            )
    return found


def raise_failures(what: str, found: Sequence[Outcome]) -> None:
    """Raises CliError with a line per task that failed."""
    failed = [outcome for outcome in found if not outcome.ok]
    if failed:
        problems = [Problem(outcome.name, outcome.message or "no reason given") for outcome in failed]
        raise CliError(f"{what} failed in {len(failed)} of {counted(len(found), 'task')}", problems)


def show(session: Session, answers: Sequence[Outcome], form: str) -> int:
    """Prints results. Returns the exit code: of the command in one task, or 1 if any of several failed."""
    code = answers[0].code if len(answers) == 1 else int(any(answer.code for answer in answers))
    if form != "text":
        print_data(session.out, [answer.shown() for answer in answers], form)
        return code
    for answer in answers:
        prefix = f"{answer.name} | " if len(answers) > 1 else ""
        _write(sys.stdout, answer.stdout, prefix)
        _write(sys.stderr, answer.stderr, prefix)
        for note in _notes(answer, several=len(answers) > 1):
            session.err.print(f"{prefix}{note}", "yellow")
    return code


def _write(stream: TextIO, text: str, prefix: str) -> None:
    if not prefix:
        stream.write(text)
    else:
        stream.writelines(f"{prefix}{line}\n" for line in text.splitlines())
    stream.flush()


def _notes(answer: Outcome, *, several: bool) -> list[str]:
    """Remarks on a result that are not part of its output."""
    notes = []
    if answer.truncated:
        notes.append("the output was truncated; write it to a file, and fetch the file with bcs cp")
    if answer.exit_code is None or not answer.ok:
        if answer.message or not answer.ok:
            notes.append(answer.message or "failed")
    elif several and answer.code:
        notes.append(f"exit code {answer.code}")
    return notes
