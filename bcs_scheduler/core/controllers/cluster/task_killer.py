"""Ends taskgroups that are marked as unwanted. KILLs are repeated, because a KILL may be lost on the way to a busy
agent, and an executor may hang.

A taskgroup leaves the endpoints of its services when it is marked. Load balancers learn of this later, so its version
may ask for a delay until the first KILL (`KillPolicy.shutdown_delay`), which counts from the mark in its record: a new
leader continues it.
"""

from __future__ import annotations

from collections.abc import Iterable

from bcs_scheduler.core.context import RETRY, TurnContext
from bcs_scheduler.core.interface.cluster_manager import End
from bcs_scheduler.core.work_queue import WorkQueue
from store.records import TaskGroup
from transactions.rules.endings import shutdown_delay

PATIENCE = 2
"""KILLs in a row that may have no effect. After them the agent is asked to shut down the executor, and the agent
destroys the processes that do not end by themselves."""


class TaskKiller:
    """Kills the taskgroups whose records have `killing_since`. All its state is derived from the records."""

    def __init__(self, turn: TurnContext) -> None:
        self._turn = turn
        self._due = WorkQueue()
        """Times at which unwanted taskgroups are killed again, by taskgroup id."""
        self._sent: dict[str, int] = {}
        """KILLs so far of each unwanted taskgroup, to an agent that can be reached."""

    def recover(self) -> None:
        """Takes up the taskgroups that are being ended."""
        self._due.clear()
        self._sent.clear()
        self.notice(("taskgroup", key) for key in self._turn.state.taskgroups)

    def notice(self, changed: Iterable[tuple[str, str]]) -> None:
        """Kills newly marked taskgroups and forgets ended ones."""
        self._again_later(
            self._turn.each("taskgroup", [key for kind, key in changed if kind == "taskgroup"], self._follow)
        )

    def _follow(self, key: str) -> None:
        group = self._turn.state.taskgroups.get(key)
        if group is None or group.ended:
            self._due.forget(key)
            self._sent.pop(key, None)
        elif group.killing_since and key not in self._sent:
            self._kill(group)

    def _again_later(self, failed: Iterable[str]) -> None:
        for key in failed:
            self._sent.setdefault(key, 0)
            self._due.put(key, self._turn.now + RETRY)

    def resend(self) -> None:
        """Kills all unwanted taskgroups again at once, after a new subscription."""
        self._turn.each("taskgroup", self._due, self._again)

    def returned(self, agent_ids: Iterable[str]) -> None:
        """These agents have registered again: KILLs that were sent before may not have reached them."""
        for agent_id in agent_ids:
            known = [key for key in self._turn.state.groups_on(agent_id) if key in self._sent]
            self._turn.each("taskgroup", known, self._again)

    def _again(self, key: str) -> None:
        """The repeated KILL counts as the first one."""
        self._sent[key] = 0
        self._due.reset_pause(key)
        self._pause(key)
        self._due.put(key, self._turn.now)

    def _pause(self, key: str) -> float:
        options = self._turn.options
        return self._due.pause(key, options.kill_retry, options.kill_retry_max)

    def next_timer(self) -> float | None:
        """Like `Controller.next_timer`: None, because regular turns are frequent enough."""
        return None

    def tick(self) -> None:
        """Repeats the kills that are due."""
        turn = self._turn
        if not turn.connected:
            return
        self._again_later(turn.each("taskgroup", self._due.due(turn.now), self._kill_again))

    def _kill_again(self, key: str) -> None:
        group = self._turn.state.taskgroups.get(key)
        if group is not None and key in self._sent:
            self._kill(group)

    def _kill(self, group: TaskGroup) -> None:
        turn, sent = self._turn, self._sent.get(group.id, 0)
        version = turn.state.version(group.application_key, group.version)
        begin = group.killing_since + shutdown_delay(group, version)
        if turn.now < begin:
            self._sent[group.id] = 0
            self._due.put(group.id, begin)
            return
        grace = max(1.0, version.kill_policy.grace_period) if version is not None else 1.0
        self._sent[group.id] = 0 if group.unreachable_since else sent + 1
        self._due.put(group.id, turn.now + grace + self._pause(group.id))
        tasks = tuple([task.id for task in group.tasks if not task.ended])
        forced = sent >= PATIENCE and bool(group.agent_id) and not group.unreachable_since
        if version is not None and version.kept:
            return  # nothing runs; its room is opened (bcs_scheduler.core.controllers.holds)
        if tasks or forced:
            turn.emit(
                End(
                    taskgroup=group.id,
                    tasks=tasks,
                    agent_id=group.agent_id,
                    grace_period=grace,
                    forced=forced,
                    cause=turn.cause,
                )
            )
