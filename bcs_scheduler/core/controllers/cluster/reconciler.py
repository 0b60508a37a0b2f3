"""Reconciliation: asks the cluster manager about tasks before a taskgroup is declared Lost, and makes the cluster
manager report tasks that no record requires.

There are three kinds of questions:

* A round begins with every subscription and every `reconcile_interval` seconds. One implicit RECONCILE makes the master
  report every task it knows. When its answers have stopped coming for FIRST_ASK seconds, tasks without an answer are
  asked for one by one. A round writes no record. Live taskgroups are examined in slices, so a round does not delay
  other work.
* A comparison follows when agents have registered again. A master that has failed over learns from such an agent which
  tasks run on the agent, and does not report them to the framework. An implicit RECONCILE finds those that no record
  requires. Tasks recorded on these agents are asked for at once. Comparisons are limited to a share of the processor
  time.
* Single tasks are asked for when their state is in doubt: a launch of unknown outcome, an executor or agent that is
  gone, a taskgroup that stays Staging or Starting.

A question is repeated with growing pauses until the cluster manager answers, because a master that has just failed over
is silent about agents that are not back. Only when the cluster manager has not answered for `silence_timeout` seconds
while connected is a task declared Lost (and then as unreachable: it may come back).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial

from bcs_scheduler.core.context import RETRY, TurnContext
from bcs_scheduler.core.interface.cluster_manager import Reconcile
from bcs_scheduler.core.work_queue import WorkQueue
from offers.agents import ListedAgent
from store.ids import taskgroup_of
from store.records import TaskGroup

FIRST_ASK = 3.0
"""Seconds without an answer to an implicit RECONCILE until it counts as answered."""
ASK_MAX = 120.0
"""Longest pause in seconds between two questions about one task if very many are open; see _longest_pause."""
ASK_CHUNK = 1000
"""Tasks named in one RECONCILE call."""
ASK_RATE = 5000.0
"""Tasks asked for in a second, at most: each answer costs some 20 microseconds here and as much at the master."""
SLICE = 2_000
"""Taskgroups that a round looks at in one turn: up to 8 ms, if the cluster manager has answered for none of them."""
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


class Round:
    """A comparison of all live taskgroups with the reports of the master."""

    __slots__ = ("began", "heard", "last_answer", "todo")

    def __init__(self, now: float) -> None:
        self.began = self.last_answer = now
        self.heard: set[str] = set()
        self.todo: list[str] | None = None
        """Taskgroups that have not been looked at; None while answers may still come."""


class Reconciler:
    """A follower of records for the sake of taskgroups that stay Staging or Starting."""

    def __init__(self, turn: TurnContext) -> None:
        self._turn = turn
        self._open: dict[str, float] = {}
        """Since when a task is in question, by its id."""
        self._due = WorkQueue()
        """Open questions by the time at which they are asked next."""
        self._young = WorkQueue()
        """Taskgroups that are Staging or Starting by the time at which they are asked for."""
        self._round: Round | None = None
        self._next_round = 0.0
        self._compare_at: float | None = None
        """Unix seconds at which the next comparison is due; None = no comparison is needed."""
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
        unheard = len(self._turn.state.taskgroups) if waiting.todo is None else len(waiting.todo)
        return len(self._open) + max(unheard - len(waiting.heard), 0)

    @property
    def is_answered(self) -> bool:
        """True if the cluster manager has named all tasks that it knows: the answers to the implicit RECONCILE of the
        present subscription have stopped coming."""
        waiting = self._round
        return self._turn.connected and (waiting is None or waiting.todo is not None)

    # --- inputs -------------------------------------------------------------------------------------------------

    def subscribed(self) -> None:
        """Puts everything in question: news may have been missed."""
        self._forget()
        self._subscribed_at = self._turn.now
        self._begin_round()

    def disconnected(self) -> None:
        """Forgets open questions: their answers do not come any more."""
        self._forget()

    def _forget(self) -> None:
        self._open.clear()
        self._due.clear()
        self._round = self._compare_at = None

    def heard(self, task_id: str, *, answer: bool = False) -> None:
        """The cluster manager said something about the task; `answer`: because it was asked."""
        if self._open.pop(task_id, None) is not None:
            self._due.forget(task_id)
        waiting = self._round
        if waiting is not None:
            waiting.heard.add(task_id)
            if answer and waiting.todo is None:
                waiting.last_answer = self._turn.now

    def ask(self, task_ids: Iterable[str]) -> None:
        """Asks for these tasks in this turn, unless that has been done and no answer has come yet."""
        for task_id in task_ids:
            self._put_in_question(task_id, self._turn.now)

    def _put_in_question(self, task_id: str, since: float) -> None:
        if task_id not in self._open and not self._is_kept(task_id):
            self._open[task_id] = since
            self._due.put(task_id, self._turn.now)

    def _is_kept(self, task_id: str) -> bool:
        """True for a placeholder that runs nothing: the cluster manager does not know its task."""
        group = self._turn.state.taskgroups.get(taskgroup_of(task_id))
        version = self._turn.state.version(group.application_key, group.version) if group is not None else None
        return version is not None and version.kept

    def listed(self, agents: Sequence[ListedAgent], clock: float) -> list[str]:
        """Takes a list of the master's agents; `clock`: Unix time of the master when it made it, 0.0 if not known.
        Returns the ids of agents that have registered since the last one, whose tasks are in question now."""
        known, first = self._registered or {}, self._registered is None
        self._registered = {agent.id: agent.registered_time for agent in agents}
        if first:
            # Agents that registered before the subscription are part of its round.
            newest = clock - (self._turn.now - self._subscribed_at) - SKEW if clock else 0.0
            returned = [agent_id for agent_id, at in self._registered.items() if at >= newest]
        else:
            returned = [agent_id for agent_id, at in self._registered.items() if known.get(agent_id) != at]
        if returned:
            self._returned(returned)
        return returned

    def _returned(self, agent_ids: Iterable[str]) -> None:
        turn = self._turn
        for agent_id in agent_ids:
            turn.each("taskgroup", list(turn.state.groups_on(agent_id)), self._ask_at_once)
        if self._compare_at is None:
            pause = max(COMPARE_PAUSE, COMPARE_COST * len(turn.state.taskgroups))
            self._compare_at = max(turn.now + GATHER, self._compared_at + pause)

    def _ask_at_once(self, key: str) -> None:
        for task in self._turn.state.taskgroups[key].tasks:
            if not task.ended:
                self._put_in_question(task.id, self._turn.now)
                self._due.reset_pause(task.id)
                self._due.move_earlier(task.id, self._turn.now)

    # --- records ------------------------------------------------------------------------------------------------

    def recover(self) -> None:
        """Watches taskgroups that are being started. Questions that were open are asked by a new round."""
        self._forget()
        self._young.clear()
        self._silent.clear()
        self._registered = None
        if self._turn.connected:
            self._begin_round()
        self._turn.each("taskgroup", self._turn.state.taskgroups, self._follow)

    def notice(self, changed: Sequence[tuple[str, str]]) -> None:
        """Watches taskgroups that are being started, and no others."""
        self._turn.each("taskgroup", [key for kind, key in changed if kind == "taskgroup"], self._follow)

    def _follow(self, key: str) -> None:
        group = self._turn.state.taskgroups.get(key)
        if group is None or group.status not in ("Staging", "Starting"):
            self._young.drop(key)
        elif key not in self._young:
            self._watch(group)

    def _watch(self, group: TaskGroup) -> None:
        if group.status in ("Staging", "Starting"):
            age = max(self._turn.now - group.created_at, 0.0)
            self._young.put(group.id, self._turn.now + max(self._patience, age))

    @property
    def _patience(self) -> float:
        return min(YOUNG, self._turn.options.staging_timeout)

    # --- time ---------------------------------------------------------------------------------------------------

    def next_timer(self) -> float | None:
        """Returns the present time (Unix seconds) while a round is in progress, so that it continues in the next turn;
        else None."""
        waiting = self._round
        return self._turn.now if waiting is not None and waiting.todo and self._turn.connected else None

    def tick(self) -> None:
        """Asks the questions that are due."""
        turn = self._turn
        if not turn.connected:
            return
        if turn.options.traits.loses_news and turn.now >= self._next_round:
            self._begin_round()
        if self._compare_at is not None and turn.now >= self._compare_at:
            self._compare_at, self._compared_at = None, turn.now
            turn.emit(Reconcile(cause=turn.cause))
        self._go_on()
        self._ask_young()
        self._ask_due()

    def take_silent(self) -> list[TaskGroup]:
        """Taskgroups about which the cluster manager has been silent for too long since the last call: they are to
        be declared Lost."""
        silent, self._silent = list(self._silent.values()), {}
        return silent

    def _begin_round(self) -> None:
        turn = self._turn
        self._next_round = turn.now + turn.options.reconcile_interval
        self._round = Round(turn.now)
        self._compare_at, self._compared_at = None, turn.now
        turn.emit(Reconcile(cause=turn.cause))

    def _go_on(self) -> None:
        waiting = self._round
        if waiting is None:
            return
        if waiting.todo is None:
            if self._turn.now < waiting.last_answer + FIRST_ASK:
                return
            waiting.todo = list(self._turn.state.taskgroups)
        self._turn.each("taskgroup", waiting.todo[-SLICE:], partial(self._compare, waiting))
        del waiting.todo[-SLICE:]
        if not waiting.todo:
            self._round = None

    def _compare(self, waiting: Round, key: str) -> None:
        group = self._turn.state.taskgroups.get(key)
        if group is not None and not group.ended and group.created_at <= waiting.began:
            for task in group.tasks:
                if not task.ended and task.id not in waiting.heard:
                    self._put_in_question(task.id, waiting.began)

    def _ask_young(self) -> None:
        for key in self._turn.each("taskgroup", self._young.due(self._turn.now), self._ask_about):
            self._young.put(key, self._turn.now + RETRY)

    def _ask_about(self, key: str) -> None:
        group = self._turn.state.taskgroups.get(key)
        if group is not None and group.status in ("Staging", "Starting"):
            self.ask([task.id for task in group.tasks if not task.ended])
            self._watch(group)

    def _ask_due(self) -> None:
        turn = self._turn
        self._budget = min(ASK_RATE, self._budget + (turn.now - self._budget_at) * ASK_RATE)
        self._budget_at = turn.now
        due: list[tuple[str, str]] = []
        longest = self._longest_pause()

        def look(task_id: str) -> None:
            since = self._open.get(task_id, turn.now)
            latest = since + turn.options.silence_timeout
            group = turn.state.taskgroups.get(taskgroup_of(task_id))
            if group is None or all(t.ended or t.id != task_id for t in group.tasks):
                self._close(task_id)
            elif turn.now >= latest:
                self._close(task_id)
                if not group.unreachable_since:
                    self._silent[group.id] = group
            else:
                due.append((task_id, group.agent_id))
                self._due.put(task_id, min(turn.now + self._due.pause(task_id, FIRST_ASK, longest), latest))

        def within_budget() -> Iterator[str]:
            while len(due) < self._budget and (task_id := self._due.pop(turn.now)) is not None:
                yield task_id

        for task_id in turn.each("task", within_budget(), look):
            self._due.put(task_id, turn.now + RETRY)
        self._budget -= len(due)
        for first in range(0, len(due), ASK_CHUNK):
            turn.emit(Reconcile(tasks=tuple(due[first : first + ASK_CHUNK]), cause=turn.cause))

    def _close(self, task_id: str) -> None:
        self._open.pop(task_id, None)
        self._due.forget(task_id)

    def _longest_pause(self) -> float:
        """Few questions are repeated often, so that an answer is missed for no longer than a few seconds."""
        return min(ASK_MAX, 10.0 + len(self._open) / 200)
