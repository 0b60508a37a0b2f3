"""Ends taskgroups that are marked as unwanted, and keeps at it: a KILL may be lost on the way to a busy agent, and an
executor may hang."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from bcs_scheduler.core.desk import Desk
from bcs_scheduler.core.effects import Kill, Shutdown
from store.records import TaskGroup

PATIENCE = 2
"""KILLs in a row that an executor may leave without effect. Then its agent is told to shut it down, and destroys what
does not end by itself."""


class _Next(NamedTuple):
    at: float
    pause: float
    sent: int = 0
    """KILLs so far, to an agent that can be reached."""


class Killer:
    """Follows the mark `killing_since` of taskgroup records. What it holds is derived from them."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._due: dict[str, _Next] = {}
        """When each unwanted taskgroup is killed again, and the pause after that, by taskgroup id."""

    def recover(self) -> None:
        self.notice(("taskgroup", key) for key in self._desk.state.taskgroups)

    def notice(self, changed: Iterable[tuple[str, str]]) -> None:
        """Kills what has newly been marked, forgets what has ended."""
        for kind, key in changed:
            if kind != "taskgroup":
                continue
            group = self._desk.state.taskgroups.get(key)
            if group is None or group.ended:
                self._due.pop(key, None)
            elif group.killing_since and key not in self._due:
                self._kill(group, self._desk.options.kill_retry, 0)

    def abandon(self, group: TaskGroup) -> None:
        """Kills what is left of a taskgroup whose record goes. Once: if it is ever heard of, it is killed again. It is
        an effect and nothing else, because a plan undoes it."""
        self._emit(group, 1.0)

    def resend(self) -> None:
        """After a new subscription: everything at once."""
        for key in list(self._due):
            self._due[key] = _Next(self._desk.now, self._desk.options.kill_retry)

    def next_timer(self) -> float | None:
        """None: the grain of the turns is fine enough."""
        return None

    def tick(self) -> None:
        if not self._desk.connected:
            return
        for key, due in list(self._due.items()):
            group = self._desk.state.taskgroups.get(key)
            if group is None:
                del self._due[key]
            elif due.at <= self._desk.now:
                self._kill(group, min(due.pause * 2, self._desk.options.kill_retry_max), due.sent)

    def _kill(self, group: TaskGroup, pause: float, sent: int) -> None:
        desk = self._desk
        version = desk.state.version(f"{group.namespace}/{group.application}", group.version)
        grace = max(1.0, version.kill_policy.grace_period) if version is not None else 1.0
        self._due[group.id] = _Next(desk.now + grace + pause, pause, 0 if group.unreachable_since else sent + 1)
        self._emit(group, grace)
        if sent >= PATIENCE and group.agent_id and not group.unreachable_since:
            desk.emit(Shutdown(executor_id=group.id, agent_id=group.agent_id, cause=desk.cause))

    def _emit(self, group: TaskGroup, grace: float) -> None:
        desk = self._desk
        for task in group.tasks:
            if not task.ended:
                desk.emit(Kill(task_id=task.id, agent_id=group.agent_id, grace_period=grace, cause=desk.cause))
