"""The data checker: asks Mesos about tasks it has not heard of, before anything is declared Lost.

After every subscription, and again every `reconcile_interval`, all tasks that should exist are put in question:
an implicit RECONCILE makes Mesos report all it knows, and whatever stays unanswered is asked for explicitly, with
backoff (a master that has just failed over does not answer for agents that are not back yet). A taskgroup that stays
Staging is asked for sooner. Only when Mesos has not answered for `silence_timeout` while connected is a task
declared Lost (and then as unreachable: it may come back).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from bcs_scheduler.core.desk import Desk
from bcs_scheduler.core.effects import Reconcile
from store.ids import taskgroup_of
from store.records import TaskGroup

FIRST_ASK = 3.0
"""Seconds Mesos gets to answer the implicit reconciliation before tasks are asked for one by one."""
ASK_BACKOFF = 2.0
ASK_MAX = 120.0
ASK_CHUNK = 1000
"""Tasks named in one RECONCILE call."""


@dataclass(slots=True)
class Question:
    """A task Mesos is asked about: since when, when it is asked next, and the pause after that."""

    since: float
    next_at: float
    pause: float = FIRST_ASK


class Checker:
    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._open: dict[str, Question] = {}
        self._next_round = 0.0
        self._staging_checked = 0.0

    @property
    def open_questions(self) -> int:
        return len(self._open)

    def subscribed(self) -> None:
        """Puts everything in question: news may have been missed."""
        self._open.clear()
        self._round()

    def disconnected(self) -> None:
        self._open.clear()

    def heard(self, task_id: str) -> None:
        """Mesos said something about the task."""
        self._open.pop(task_id, None)

    def ask(self, task_ids: Iterable[str]) -> None:
        for task_id in task_ids:
            self._open.setdefault(task_id, Question(self._desk.now, self._desk.now))

    def tick(self) -> list[TaskGroup]:
        """Asks what is due. Returns taskgroups whose silence has lasted too long: they are to be declared Lost."""
        desk = self._desk
        if not desk.connected:
            return []
        if desk.now >= self._next_round:
            self._round()
        if desk.now >= self._staging_checked + min(10.0, desk.options.staging_timeout / 4):
            self._staging_checked = desk.now
            self._ask_staging()
        return self._ask_due()

    def _round(self) -> None:
        desk = self._desk
        self._next_round = desk.now + desk.options.reconcile_interval
        for group in desk.live_groups():
            for task in group.tasks:
                if not task.ended:
                    self._open.setdefault(task.id, Question(desk.now, desk.now + FIRST_ASK))
        desk.emit(Reconcile(cause=desk.cause))

    def _ask_staging(self) -> None:
        desk = self._desk
        for group in desk.live_groups():
            if group.status == "Staging" and desk.now - group.updated_at >= desk.options.staging_timeout:
                self.ask(task.id for task in group.tasks if not task.ended)

    def _ask_due(self) -> list[TaskGroup]:
        desk = self._desk
        due: list[tuple[str, str]] = []
        silent: dict[str, TaskGroup] = {}
        for task_id, question in list(self._open.items()):
            if question.next_at > desk.now:
                continue
            group = _group_of(desk, task_id)
            if group is None or all(t.ended or t.id != task_id for t in group.tasks):
                del self._open[task_id]
            elif desk.now - question.since >= desk.options.silence_timeout:
                del self._open[task_id]
                if not group.unreachable_since:
                    silent[group.id] = group
            else:
                due.append((task_id, group.agent_id))
                question.next_at = min(desk.now + question.pause, question.since + desk.options.silence_timeout)
                question.pause = min(question.pause * ASK_BACKOFF, ASK_MAX)
        for first in range(0, len(due), ASK_CHUNK):
            desk.emit(Reconcile(tasks=tuple(due[first : first + ASK_CHUNK]), cause=desk.cause))
        return list(silent.values())


def _group_of(desk: Desk, task_id: str) -> TaskGroup | None:
    return desk.state.taskgroups.get(taskgroup_of(task_id))
