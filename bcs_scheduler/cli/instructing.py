"""Waiting for what executors were told, and showing what came of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from bcs_scheduler.cli.client import Json, Told
from bcs_scheduler.cli.errors import CliError, Problem
from bcs_scheduler.cli.lookup import Target
from bcs_scheduler.cli.options import Session
from bcs_scheduler.cli.waiting import Look, wait_until
from store.ids import taskgroup_name

OPEN = ("staging", "running")
SIGNALLED = 128
"""Added to the number of the signal that ended a command, as shells do."""


class Outcome(NamedTuple):
    """What became of it in one task; `exit_code` of a command that ran, negative if a signal ended it."""

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
        """``web-0`` from the id of the taskgroup."""
        return taskgroup_name(self.taskgroup)

    @property
    def code(self) -> int:
        """For the shell: 1 for what could not be done at all."""
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
    session: Session, target: Target, told: Told, label: str, limit: float | None = None
) -> list[Outcome]:
    """Until every taskgroup has answered, or failed to; `limit` seconds instead of the session's. Raises TimedOut."""
    last: Json = {}

    def look() -> Look:
        nonlocal last
        last = session.client.command(target.namespace, target.name, told.command, kind=target.kind)
        groups = last["status"]["taskgroups"]
        done = sum(1 for group in groups if group["status"] not in OPEN)
        return Look(done, len(groups), f"{done} of {len(groups)} taskgroups answered", ended=done == len(groups))

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
        raise CliError(f"{what} failed in {len(failed)} of {len(found)} tasks", problems)
