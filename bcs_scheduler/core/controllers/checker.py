"""Reconciliation: asks Mesos about tasks before anything is declared Lost, and has Mesos name tasks that nobody wants.

Three questions are asked, each for a reason of its own:

* A round begins with every subscription and every `reconcile_interval` seconds. One implicit RECONCILE makes the master
  report every task it knows. When its answers have stopped coming for FIRST_ASK seconds, tasks without an answer are
  asked for one by one. A round writes nothing and holds nothing up: live taskgroups are gone through in slices.
* A comparison follows when agents have registered again. A master that has failed over learns from such an agent what
  runs on it and tells the framework nothing, so an implicit RECONCILE brings tasks to light that no record wants. Tasks
  recorded on these agents are asked for at once. Comparisons are bounded to a share of the processor time.
* Single tasks are asked for when something casts doubt on them: a launch of unknown outcome, an executor or agent that
  is gone, a taskgroup that stays Staging or Starting.

A question is repeated with growing pauses until Mesos answers, because a master that has just failed over is silent
about agents that are not back. Only when Mesos has not answered for `silence_timeout` seconds while connected is a
task declared Lost (and then as unreachable: it may come back).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from bcs_scheduler.core.agenda import Agenda
from bcs_scheduler.core.desk import Desk
from bcs_scheduler.core.effects import Reconcile
from store.ids import taskgroup_of
from store.records import TaskGroup

FIRST_ASK = 3.0
"""Seconds without an answer to an implicit RECONCILE until it counts as answered."""
ASK_BACKOFF = 2.0
ASK_MAX = 120.0
"""Longest pause in seconds between two questions about one task if very many are open; see _longest_pause."""
ASK_CHUNK = 1000
"""Tasks named in one RECONCILE call."""
ASK_RATE = 5000.0
"""Tasks asked for in a second, at most: each answer costs some 20 microseconds here and as much at the master."""
SLICE = 20_000
"""Taskgroups that a round looks at in one turn: about 5 ms."""
YOUNG = 15.0
"""Seconds that a taskgroup may stay Staging or Starting until it is asked for; then after twice as long, and so on."""
GATHER = 1.0
"""Seconds between the news that agents are back and the comparison: agents rarely come alone."""
COMPARE_PAUSE = 5.0
"""Shortest pause in seconds between two comparisons."""
COMPARE_COST = 0.0002
"""Seconds of pause per taskgroup: with 100,000 of them a comparison every 20 s takes a tenth of a core."""
SKEW = 2.0
"""Seconds of doubt about the order of a registration and a subscription, whose times come from two clocks."""


class Question:
    """A task Mesos is asked about: since when, and the pause after the next question."""

    __slots__ = ("pause", "since")

    def __init__(self, since: float) -> None:
        self.since = since
        self.pause = FIRST_ASK


class Round:
    """A comparison of all live taskgroups with what the master reports."""

    __slots__ = ("began", "heard", "last_answer", "todo")

    def __init__(self, now: float) -> None:
        self.began = self.last_answer = now
        self.heard: set[str] = set()
        self.todo: list[str] | None = None
        """Taskgroups that have not been looked at; None while answers may still come."""


class Checker:
    """A follower of records for the sake of taskgroups that stay Staging or Starting."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._open: dict[str, Question] = {}
        self._due = Agenda()
        """Open questions by the time at which they are asked next."""
        self._young = Agenda()
        """Taskgroups that are Staging or Starting by the time at which they are asked for."""
        self._round: Round | None = None
        self._next_round = 0.0
        self._compare_at: float | None = None
        """When the next comparison is due; None = nothing calls for one."""
        self._compared_at = 0.0
        self._subscribed_at = 0.0
        self._registered: dict[str, float] | None = None
        """Registration times of the agents of the last list; None before the first one of this term."""
        self._budget, self._budget_at = ASK_RATE, 0.0
        self._silent: dict[str, TaskGroup] = {}

    @property
    def open_questions(self) -> int:
        """Tasks that are in question; those of a round whose answers still come count by the taskgroup."""
        waiting = self._round
        if waiting is None:
            return len(self._open)
        unheard = len(self._desk.state.taskgroups) if waiting.todo is None else len(waiting.todo)
        return len(self._open) + max(unheard - len(waiting.heard), 0)

    # --- what others tell ---------------------------------------------------------------------------------------

    def subscribed(self) -> None:
        """Puts everything in question: news may have been missed."""
        self._forget()
        self._subscribed_at = self._desk.now
        self._begin_round()

    def disconnected(self) -> None:
        self._forget()

    def _forget(self) -> None:
        self._open.clear()
        self._due.clear()
        self._round = self._compare_at = None

    def heard(self, task_id: str, *, answer: bool = False) -> None:
        """Mesos said something about the task; `answer`: because it was asked."""
        self._open.pop(task_id, None)
        self._due.drop(task_id)
        waiting = self._round
        if waiting is not None:
            waiting.heard.add(task_id)
            if answer and waiting.todo is None:
                waiting.last_answer = self._desk.now

    def ask(self, task_ids: Iterable[str]) -> None:
        """Asks for these tasks in this turn, unless that has been done and no answer has come yet."""
        for task_id in task_ids:
            self._put_in_question(task_id, self._desk.now)

    def _put_in_question(self, task_id: str, since: float) -> None:
        if task_id not in self._open:
            self._open[task_id] = Question(since)
            self._due.put(task_id, self._desk.now)

    def listed(self, agents: Sequence[Mapping[str, Any]], clock: float) -> list[str]:
        """Takes a list of the master's agents; `clock`: Unix time of the master when it made it, 0.0 if not known.
        Returns the ids of agents that have registered since the last one, whose tasks are in question now."""
        known, first = self._registered or {}, self._registered is None
        self._registered = {agent["id"]: agent.get("registered_time", 0.0) for agent in agents}
        if first:
            # What registered before the subscription is part of its round.
            newest = clock - (self._desk.now - self._subscribed_at) - SKEW if clock else 0.0
            returned = [agent_id for agent_id, at in self._registered.items() if at >= newest]
        else:
            returned = [agent_id for agent_id, at in self._registered.items() if known.get(agent_id) != at]
        if returned:
            self._returned(returned)
        return returned

    def _returned(self, agent_ids: Iterable[str]) -> None:
        desk = self._desk
        for agent_id in agent_ids:
            for group in desk.state.groups_on(agent_id).values():
                for task in group.tasks:
                    if not task.ended:
                        self._put_in_question(task.id, desk.now)
                        self._open[task.id].pause = FIRST_ASK
                        self._due.hasten(task.id, desk.now)
        if self._compare_at is None:
            pause = max(COMPARE_PAUSE, COMPARE_COST * len(desk.state.taskgroups))
            self._compare_at = max(desk.now + GATHER, self._compared_at + pause)

    # --- records ------------------------------------------------------------------------------------------------

    def recover(self) -> None:
        for group in self._desk.state.taskgroups.values():
            self._watch(group)

    def notice(self, changed: Sequence[tuple[str, str]]) -> None:
        for kind, key in changed:
            if kind == "taskgroup":
                group = self._desk.state.taskgroups.get(key)
                if group is None or group.status not in ("Staging", "Starting"):
                    self._young.drop(key)
                elif key not in self._young:
                    self._watch(group)

    def _watch(self, group: TaskGroup) -> None:
        if group.status in ("Staging", "Starting"):
            age = max(self._desk.now - group.created_at, 0.0)
            self._young.put(group.id, self._desk.now + max(self._patience, age))

    @property
    def _patience(self) -> float:
        return min(YOUNG, self._desk.options.staging_timeout)

    # --- time ---------------------------------------------------------------------------------------------------

    def next_timer(self) -> float | None:
        """A round that is being gone through goes on in the next turn."""
        waiting = self._round
        return self._desk.now if waiting is not None and waiting.todo and self._desk.connected else None

    def tick(self) -> None:
        """Asks what is due."""
        desk = self._desk
        if not desk.connected:
            return
        if desk.now >= self._next_round:
            self._begin_round()
        if self._compare_at is not None and desk.now >= self._compare_at:
            self._compare_at, self._compared_at = None, desk.now
            desk.emit(Reconcile(cause=desk.cause))
        self._go_on()
        self._ask_young()
        self._ask_due()

    def take_silent(self) -> list[TaskGroup]:
        """Taskgroups about which Mesos has been silent for too long since the last call: they are to be declared
        Lost."""
        silent, self._silent = list(self._silent.values()), {}
        return silent

    def _begin_round(self) -> None:
        desk = self._desk
        self._next_round = desk.now + desk.options.reconcile_interval
        self._round = Round(desk.now)
        self._compare_at, self._compared_at = None, desk.now
        desk.emit(Reconcile(cause=desk.cause))

    def _go_on(self) -> None:
        waiting = self._round
        if waiting is None:
            return
        if waiting.todo is None:
            if self._desk.now < waiting.last_answer + FIRST_ASK:
                return
            waiting.todo = list(self._desk.state.taskgroups)
        groups, heard = self._desk.state.taskgroups, waiting.heard
        for key in waiting.todo[-SLICE:]:
            group = groups.get(key)
            if group is not None and not group.ended and group.created_at <= waiting.began:
                for task in group.tasks:
                    if not task.ended and task.id not in heard:
                        self._put_in_question(task.id, waiting.began)
        del waiting.todo[-SLICE:]
        if not waiting.todo:
            self._round = None

    def _ask_young(self) -> None:
        while (key := self._young.pop(self._desk.now)) is not None:
            group = self._desk.state.taskgroups.get(key)
            if group is not None and group.status in ("Staging", "Starting"):
                self.ask([task.id for task in group.tasks if not task.ended])
                self._watch(group)

    def _ask_due(self) -> None:
        desk = self._desk
        self._budget = min(ASK_RATE, self._budget + (desk.now - self._budget_at) * ASK_RATE)
        self._budget_at = desk.now
        due: list[tuple[str, str]] = []
        longest = self._longest_pause()
        while len(due) < self._budget and (task_id := self._due.pop(desk.now)) is not None:
            question = self._open[task_id]
            group = desk.state.taskgroups.get(taskgroup_of(task_id))
            if group is None or all(t.ended or t.id != task_id for t in group.tasks):
                del self._open[task_id]
            elif desk.now - question.since >= desk.options.silence_timeout:
                del self._open[task_id]
                if not group.unreachable_since:
                    self._silent[group.id] = group
            else:
                due.append((task_id, group.agent_id))
                at = min(desk.now + question.pause, question.since + desk.options.silence_timeout)
                self._due.put(task_id, at)
                question.pause = min(question.pause * ASK_BACKOFF, longest)
        self._budget -= len(due)
        for first in range(0, len(due), ASK_CHUNK):
            desk.emit(Reconcile(tasks=tuple(due[first : first + ASK_CHUNK]), cause=desk.cause))

    def _longest_pause(self) -> float:
        """Few questions are repeated often, so that an answer is missed for no longer than a few seconds."""
        return min(ASK_MAX, 10.0 + len(self._open) / 200)
