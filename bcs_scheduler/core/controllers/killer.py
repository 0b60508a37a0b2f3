"""Ends taskgroups that are marked as unwanted, and keeps at it: a KILL may be lost on the way to a busy agent, and an
executor may hang."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from bcs_scheduler.core.agenda import Agenda
from bcs_scheduler.core.desk import Desk
from bcs_scheduler.core.effects import Kill, Shutdown
from store.records import TaskGroup

PATIENCE = 2
"""KILLs in a row that an executor may leave without effect. Then its agent is told to shut it down, and destroys what
does not end by itself."""


class _Next(NamedTuple):
    pause: float
    sent: int = 0
    """KILLs so far, to an agent that can be reached."""


class Killer:
    """Follows the mark `killing_since` of taskgroup records. What it holds is derived from them."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._due = Agenda()
        """When each unwanted taskgroup is killed again, by taskgroup id."""
        self._next: dict[str, _Next] = {}

    def recover(self) -> None:
        self.notice(("taskgroup", key) for key in self._desk.state.taskgroups)

    def notice(self, changed: Iterable[tuple[str, str]]) -> None:
        """Kills what has newly been marked, forgets what has ended."""
        for kind, key in changed:
            if kind != "taskgroup":
                continue
            group = self._desk.state.taskgroups.get(key)
            if group is None or group.ended:
                self._due.drop(key)
                self._next.pop(key, None)
            elif group.killing_since and key not in self._next:
                self._kill(group, self._desk.options.kill_retry, 0)

    def resend(self) -> None:
        """After a new subscription: everything at once."""
        for key in self._due:
            self._again(key)

    def returned(self, agent_ids: Iterable[str]) -> None:
        """These agents have registered again: KILLs that were sent before may not have reached them."""
        for agent_id in agent_ids:
            for key in self._desk.state.groups_on(agent_id):
                if key in self._next:
                    self._again(key)

    def _again(self, key: str) -> None:
        self._next[key] = _Next(self._desk.options.kill_retry)
        self._due.put(key, self._desk.now)

    def next_timer(self) -> float | None:
        """None: the grain of the turns is fine enough."""
        return None

    def tick(self) -> None:
        desk = self._desk
        if not desk.connected:
            return
        while (key := self._due.pop(desk.now)) is not None:
            group = desk.state.taskgroups.get(key)
            following = self._next.get(key)
            if group is not None and following is not None:
                self._kill(group, min(following.pause * 2, desk.options.kill_retry_max), following.sent)

    def _kill(self, group: TaskGroup, pause: float, sent: int) -> None:
        desk = self._desk
        version = desk.state.version(f"{group.namespace}/{group.application}", group.version)
        grace = max(1.0, version.kill_policy.grace_period) if version is not None else 1.0
        self._next[group.id] = _Next(pause, 0 if group.unreachable_since else sent + 1)
        self._due.put(group.id, desk.now + grace + pause)
        for task in group.tasks:
            if not task.ended:
                desk.emit(Kill(task_id=task.id, agent_id=group.agent_id, grace_period=grace, cause=desk.cause))
        if sent >= PATIENCE and group.agent_id and not group.unreachable_since:
            desk.emit(Shutdown(executor_id=group.id, agent_id=group.agent_id, cause=desk.cause))
