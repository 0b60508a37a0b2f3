"""Failures of taskgroups while a command waits for their workload."""

from __future__ import annotations

import time

from bcs_scheduler.cli.client.types import Json
from bcs_scheduler.cli.errors import CliError, NotFound
from bcs_scheduler.cli.session import Session
from store.advice import advise

FAILED = ("Failed", "Error")
RESTLESS = ("Abnormal", "Error", "Operating")
"""Statuses of an application in which a taskgroup may have failed."""
SMALL = 200
"""Taskgroups that are listed at every look; those of larger applications only if one may have failed."""


class CrashWatch:
    """Finds taskgroups of an application that fail while a command waits.

    Taskgroups of older versions do not count: they are about to be replaced. Nor do taskgroups that are lost with their
    agent. With --stable, a failure counts also if the scheduler has replaced the taskgroup meanwhile.
    """

    def __init__(self, session: Session, namespace: str, name: str) -> None:
        self.namespace, self.name = namespace, name
        self._session = session
        self._reschedules: dict[str, int] = {}
        self._running_since: float | None = None

    def look(self) -> None:
        """Raises CliError with the reason of a failure."""
        try:
            self.stable(self._session.client.application(self.namespace, self.name), False)
        except NotFound:  # the application is being made or removed
            return

    def stable(self, application: Json, running: bool) -> bool:
        """True if the application has been `running` without a failure for the time of --stable. Raises CliError with
        the reason of a failure."""
        now = time.monotonic()
        if not running:
            self._running_since = None
        elif self._running_since is None:
            self._running_since = now
        if running or application["Status"] in RESTLESS or int(application["Instances"]) <= SMALL:
            self._look(str(application.get("Version") or ""))
        return self._running_since is not None and now - self._running_since >= self._session.stable

    def _look(self, version: str) -> None:
        try:
            groups = self._session.client.taskgroups(self.namespace, self.name)
        except NotFound:
            return
        for group in groups:
            name, count = str(group["Name"]), int(group.get("ReschededTimes") or 0)
            if version and group.get("VersionName") not in (version, None):
                continue
            before = self._reschedules.setdefault(name, count)
            ways = advise("look_at_failure", name=self.name)
            if group["Status"] in FAILED:
                raise CliError(f"taskgroup {name} failed: {failure_of(group)}; {ways}")
            if count > before and self._session.stable:
                raise CliError(f"taskgroup {name} failed and was replaced{self._last_failure(name)}; {ways}")

    def _last_failure(self, name: str) -> str:
        filters = {"owner": self.name, "reason": "TaskGroupFailed", "last": 20}
        try:
            events = self._session.client.events(self.namespace, filters)
        except NotFound:  # a server without events
            return ""
        index = f"{name.rpartition('-')[2]}."
        mine = [event for event in events if str(event["name"]).startswith(index)]
        return f": {mine[-1]['message']}" if mine else ""


def failure_of(group: Json) -> str:
    """Why a taskgroup has failed: the message of the task that failed, with its exit code."""
    for task in group.get("Taskgroup") or ():
        if task.get("Status") in FAILED:
            code = task.get("ExitCode")
            why = str(task.get("Message") or group.get("Message") or "no reason given")
            return why if code is None or str(code) in why else f"{why} (exit code {code})"
    return str(group.get("Message") or "no reason given")


def shell_code(code: int) -> int:
    """The exit code of a task as shells have it: 128 plus the signal that ended the task, if it is negative."""
    return code if code >= 0 else 128 - code
