"""The life of a taskgroup: its tasks start together, and when one fails or is killed, all end."""

from __future__ import annotations

import base64
import binascii
import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from .. import threads
from ..model import VERSION, Group, ProtocolError, Task, group_of, task_of
from ..runtime import Exit, Runtime, TaskError
from . import members
from .members import Member

log = logging.getLogger("executor")

Publish = Callable[[str, "dict[str, Any]"], None]
MakeRuntime = Callable[[Task, Group, Callable[[], None]], Runtime]
RESERVE = 1.0
"""Seconds of the agent's time for a shutdown that are kept for killing and reporting."""


class Taskgroup:
    """Used by many threads. `publish` takes a task id and a TaskStatus."""

    def __init__(
        self,
        publish: Publish,
        make_runtime: MakeRuntime,
        shutdown_grace: float,
        failed: Callable[[str], object] = lambda task: None,
    ) -> None:
        """`failed` is called with the id of a task that has failed, before its state is published."""
        self._publish = publish
        self._make_runtime = make_runtime
        self._shutdown_grace = shutdown_grace
        self._failed = failed
        self._lock = threading.RLock()
        self._members: dict[str, Member] = {}
        self._ending = False
        self._unusable = ""
        """Reason for which the executor's own data cannot be used; empty = the data can be used."""
        self.group = Group()
        self.ended = threading.Event()
        """All tasks have ended, or it is to end before there were any."""

    # ---- launch

    def describe(self, data: str) -> None:
        """`ExecutorInfo.data`, base64."""
        try:
            self.group = group_of(_decoded(data, "executor data"))
        except ProtocolError as error:
            self._unusable = str(error)
            log.error("%s", error)

    def launch(self, infos: Sequence[dict[str, Any]]) -> None:
        """The task infos of a LAUNCH_GROUP. Raises KeyError or TypeError for such that are none."""
        identities = [info["task_id"]["value"] for info in infos]
        with self._lock:
            if self._members or self._ending:
                reason = "this executor has its taskgroup already" if self._members else "this executor is ending"
                for identity in identities:
                    if identity not in self._members:
                        self._publish(identity, {"state": members.ERROR, "message": reason})
                return
            reasons = {}
            for identity, info in zip(identities, infos):
                task, reasons[identity] = self._read(identity, info)
                self._members[identity] = Member(identity, task)
            if any(reasons.values()):
                self._refuse(reasons)
                return
            for member in self._members.values():
                self._show(member, members.STARTING)
            fresh = tuple(self._members.values())
        for member in fresh:
            member.thread = threads.ending(member.id, partial(self._run, member))
            try:
                member.thread.start()
            except RuntimeError as error:
                self._end(member, Exit(None, f"the executor failed: {error}"))

    def _read(self, identity: str, info: dict[str, Any]) -> tuple[Task | None, str]:
        """The task, or why there is none."""
        if self._unusable:
            return None, self._unusable
        try:
            return task_of(_decoded(info.get("data", ""), "task data"), identity, str(info.get("name", ""))), ""
        except ProtocolError as error:
            return None, str(error)

    def _refuse(self, reasons: Mapping[str, str]) -> None:
        for member in self._members.values():
            reason = reasons[member.id]
            state = members.ERROR if reason else members.KILLED
            self._show(member, state, reason or "another task of the taskgroup cannot be launched")
        self.ended.set()

    # ---- life of a task

    def _run(self, member: Member) -> None:
        """The thread of one task."""
        try:
            end = self._live(member)
        except TaskError as error:
            end = Exit(None, str(error))
        except Exception as error:
            # The cause is in the log; the text of an unforeseen error may quote confidential content.
            log.exception("task %s failed unexpectedly", member.id)
            end = Exit(None, f"the executor failed: {type(error).__name__}")
        self._end(member, end)

    def _live(self, member: Member) -> Exit:
        assert member.task is not None
        runtime = self._make_runtime(member.task, self.group, lambda: self._look_at(member))
        with self._lock:
            member.runtime = runtime
            if self._ending:
                return Exit(None, "ended before it was started")
        runtime.start()
        with self._lock:
            if not self._ending:
                self._show(member, members.RUNNING)
                self._start_checks(member)
        return runtime.wait()

    def _start_checks(self, member: Member) -> None:
        if member.task is None or member.runtime is None or not member.task.checks:
            return
        from .checks import Checks

        member.checks = Checks(
            member.task.checks,
            member.runtime,
            lambda: self._look_at(member),
            lambda message: self._fail(member, message),
        )
        member.checks.start()

    def _fail(self, member: Member, message: str) -> None:
        """A health check has failed too often."""
        with self._lock:
            if member.ended or self._ending:
                return
            member.failure = message
        self._end_all(self.group.grace_period, "")

    def _end(self, member: Member, end: Exit) -> None:
        if member.checks is not None:
            member.checks.stop()
        if not member.ended and (member.failure or (end.code != 0 and not self._ending)):
            self._failed(member.id)
        with self._lock:
            if member.ended:
                return
            member.ends(end)
            if member.failure:
                self._show(member, members.FAILED, member.failure)
            elif self._ending:
                self._show(member, members.KILLED, end.message)
            elif end.code == 0:
                self._show(member, members.FINISHED, end.message)
            else:
                self._show(member, members.FAILED, end.message)
            failed = member.state != members.FINISHED
            if all(item.ended for item in self._members.values()):
                self.ended.set()
        if failed:
            self._end_all(self.group.grace_period, f"task {member.id} has ended: {member.state}")

    def _show(self, member: Member, state: str, message: str = "") -> None:
        member.state = state
        self._publish(member.id, member.status(message))

    def _look_at(self, member: Member) -> None:
        with self._lock:
            if member.state == members.RUNNING and member.changed():
                self._show(member, members.RUNNING)

    # ---- end

    def kill(self, identity: str, grace: float | None) -> None:
        """Ends the whole taskgroup. `grace` in seconds; None = the taskgroup's own. Repeated calls may shorten the
        grace."""
        with self._lock:
            if identity not in self._members:
                log.warning("task %s is to be killed, but is not a task of this taskgroup", identity)
                return
        self._end_all(self.group.grace_period if grace is None else grace, "")

    def shutdown(self) -> None:
        """Within the time that the agent gives for it."""
        self._end_all(min(self.group.grace_period, max(self._shutdown_grace - RESERVE, self._shutdown_grace / 2)), "")

    def end_at_once(self) -> None:
        self._end_all(0.0, "")

    def _end_all(self, grace: float, reason: str) -> None:
        with self._lock:
            first, self._ending = not self._ending, True
            alive = [member for member in self._members.values() if not member.ended]
            if first:
                for member in alive:
                    if member.checks is not None:
                        member.checks.stop()
                    if not member.failure:
                        self._show(member, members.KILLING, reason)
            if not alive:
                self.ended.set()
            started = [(member, member.runtime) for member in alive if member.runtime is not None]
        for member, runtime in started:
            try:
                threads.ending("stop", partial(self._stop, member, runtime, grace)).start()
            except RuntimeError:  # no thread can be started: this thread stops the tasks in turn
                self._stop(member, runtime, grace)

    def _stop(self, member: Member, runtime: Runtime, grace: float) -> None:
        """Stops a task. A task that cannot be stopped counts as ended: the supervisor and the agent try once more, and
        the scheduler receives the cause."""
        try:
            runtime.stop(grace)
        except TaskError as error:
            log.error("task %s cannot be stopped: %s", member.id, error)
            self._end(member, Exit(None, str(error)))
        except Exception as error:
            log.exception("task %s cannot be stopped", member.id)
            self._end(member, Exit(None, f"the executor failed: {type(error).__name__}"))

    # ---- the view for others

    def look(self) -> None:
        """Publishes changes of tasks that no event has announced."""
        with self._lock:
            running = [member for member in self._members.values() if member.state == members.RUNNING]
        for member in running:
            self._look_at(member)

    def runtimes(self) -> Mapping[str, Runtime]:
        """Runtimes of the tasks that run, by task id."""
        with self._lock:
            return {
                member.id: member.runtime
                for member in self._members.values()
                if member.runtime is not None and not member.ended
            }

    def report(self) -> dict[str, Any]:
        """The steady report; `tasks` is empty before the launch."""
        with self._lock:
            tasks = [{"task": member.id, "detail": member.document()} for member in self._members.values()]
        return {"v": VERSION, "type": "report", "tasks": tasks}


def _decoded(data: Any, what: str) -> bytes:
    try:
        return base64.b64decode(data, validate=True)
    except (binascii.Error, ValueError, TypeError):
        raise ProtocolError(f"{what}: not base64") from None
