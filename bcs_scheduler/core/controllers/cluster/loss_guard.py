"""The guard against large losses: if a large part of the cluster is lost at once, lost taskgroups are not replaced.

Such a loss is often one of the connection: the tasks still run, and their agents come back. Replacing a third of the
cluster at once would overload the rest, and would run all of it twice.

The halt is a record, so that it outlives the leader. It ends when the loss is over, on request, or by time. Losses up
to the end of a halt never cause another one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any, NamedTuple

import msgspec

from bcs_scheduler.core.context import TurnContext
from bcs_scheduler.core.interface.requests import ResumeReplacements
from bcs_scheduler.core.work_queue import WorkQueue
from store.reasons import EventReason
from store.records import LossHalt, Record, TaskGroup, Transaction
from transactions.base import Refused, Step
from transactions.rules.losses import HALTED, WINDOW, is_lost, words_of_loss
from transactions.text import counted, duration

LEAST_AGENTS = 5
"""A loss of fewer agents is never large: in a small cluster, one agent is a large part."""


class _Loss(NamedTuple):
    agent: str
    at: float
    """Unix seconds."""


class _Left(NamedTuple):
    """A lost taskgroup that is lost no more. `group`: the last record of the loss. `loss`: None if the loss did not
    count as recent."""

    group: TaskGroup
    loss: _Loss | None


class LossGuard:
    """Follows losses, and holds back the slots that replace lost taskgroups while there is a halt. Also a
    `transactions.base.Gate`. The cost of a loss does not depend on other objects."""

    def __init__(self, turn: TurnContext) -> None:
        self._turn = turn
        self._live = 0
        """Taskgroups that have not ended."""
        self._lost: dict[str, bool] = {}
        """All lost taskgroups that still have no replacement, and whether they have ended."""
        self._ended = 0
        """Number of lost taskgroups that have ended."""
        self._recent: dict[str, _Loss] = {}
        """The lost taskgroups whose loss is within WINDOW, and after the last halt."""
        self._times = WorkQueue()
        """The times of these losses."""
        self._left: dict[str, _Left] = {}
        """The taskgroups that have ceased to be lost since the last `notice`, by id: the change may be undone."""
        self._agents: Counter[str] = Counter()
        """Number of recent losses by agent."""
        self._changed = False
        turn.watch("lossguard", ("taskgroup",), self._follow)

    @property
    def live(self) -> int:
        """Number of taskgroups that have not ended."""
        return self._live

    # --- controller -------------------------------------------------------------------------------------------

    def recover(self) -> None:
        """Derives the recent losses from the records."""
        turn = self._turn
        for known in (self._lost, self._recent, self._times, self._agents, self._left):
            known.clear()
        self._live, self._ended, lost = 0, 0, list[tuple[float, str, str]]()

        def count(key: str) -> None:
            group = turn.state.taskgroups[key]
            self._live += not group.ended
            if is_lost(group):
                lost.append((group.unreachable_since or group.updated_at, group.id, group.agent_id))
                self._lost[group.id] = group.ended
                self._ended += group.ended

        turn.each("taskgroup", turn.state.taskgroups, count)
        accepted = turn.state.framework.losses_accepted_at
        for at, identity, agent in sorted(lost):
            if at > max(accepted, turn.now - WINDOW):
                self._add(identity, agent, at)

    def notice(self, changed: Iterable[tuple[str, str]]) -> None:  # noqa: ARG002 (the state tells it of taskgroups)
        """Begins a halt if the losses since the last call are too large."""
        self._left.clear()
        if self._changed:
            self._changed = False
            self._begin_if_large()

    def next_timer(self) -> float | None:
        """Unix seconds of the end of a halt by time; None if there is none."""
        halt, pause = self._turn.state.framework.halt, self._turn.options.loss_pause
        return halt.since + pause if halt is not None and pause else None

    def tick(self) -> None:
        """Ends a halt whose time is over, or whose loss is over."""
        self._expire()
        halt = self._turn.state.framework.halt
        if halt is None:
            return
        end = self.next_timer()
        if not self._turn.options.loss_share:
            self._end("the guard is switched off (scheduler.loss_share)")
        elif end is not None and self._turn.now >= end:
            self._end(f"{duration(self._turn.options.loss_pause)} have passed (scheduler.loss_pause)")
        elif self._turn.connected and len(self._lost) <= self._turn.options.loss_share * self._total / 2:
            self._end(f"{counted(len(self._lost), 'taskgroup')} of {self._total} left without contact")

    # --- requests and slots -----------------------------------------------------------------------------------

    def resume(self, request: ResumeReplacements) -> dict[str, Any]:
        """Ends the halt. Raises Refused (conflict) if there is none."""
        halt = self._turn.state.framework.halt
        if halt is None:
            raise Refused("conflict", "lost taskgroups are replaced already: there is no halt")
        self._end("on request", dry_run=request.dry_run)
        return {"taskgroups": len(self._lost)}

    def admitted(self, transaction: Transaction, step: Step) -> Step:  # noqa: ARG002 (the slots name the taskgroups)
        """Implements `Gate`: the step without the slots that replace lost taskgroups, while there is a halt. Slots that
        belong to one agent pass: they follow the return of this agent."""
        if self._turn.state.framework.halt is None or step.per_agent or not step.slots:
            return step
        slots = tuple(slot for slot in step.slots if slot.replaces not in self._lost)
        if len(slots) == len(step.slots):
            return step
        return step._replace(slots=slots) if slots else step._replace(slots=(), missing=(*step.missing, HALTED))

    # --- losses -----------------------------------------------------------------------------------------------

    @property
    def _total(self) -> int:
        """Taskgroups that have not ended, and lost ones."""
        return self._live + self._ended

    def _follow(self, key: str, before: Record | None, after: Record | None) -> None:
        """Called for each change of a taskgroup, undone ones included."""
        was = before if isinstance(before, TaskGroup) else None
        now = after if isinstance(after, TaskGroup) else None
        self._live += (now is not None and not now.ended) - (was is not None and not was.ended)
        known = self._lost.get(key)
        if now is not None and is_lost(now):
            self._lost[key] = now.ended
            self._ended += now.ended - (known or False)
            if known is None:
                self._lose(now)
        elif known is not None and was is not None:
            del self._lost[key]
            self._ended -= known
            self._left[key] = _Left(was, self._recent.get(key))
            self._remove(key)

    def _lose(self, group: TaskGroup) -> None:
        """A loss that comes back, because the change that ended it was undone, keeps its time."""
        left = self._left.pop(group.id, None)
        if left is None or left.group is not group:
            self._add(group.id, group.agent_id, self._turn.now)
            self._changed = True
        elif left.loss is not None:
            self._add(group.id, left.loss.agent, left.loss.at)

    def _add(self, identity: str, agent: str, at: float) -> None:
        self._recent[identity] = _Loss(agent, at)
        self._times.put(identity, at)
        self._agents[agent] += 1

    def _remove(self, identity: str) -> None:
        self._times.drop(identity)
        loss = self._recent.pop(identity, None)
        if loss is not None:
            self._agents[loss.agent] -= 1
            if not self._agents[loss.agent]:
                del self._agents[loss.agent]

    def _expire(self) -> None:
        while (identity := self._times.pop(self._turn.now - WINDOW)) is not None:
            self._remove(identity)

    # --- the halt ---------------------------------------------------------------------------------------------

    def _begin_if_large(self) -> None:
        self._expire()
        turn, share = self._turn, self._turn.options.loss_share
        framework, agents, taskgroups = turn.state.framework, len(self._agents), len(self._recent)
        if not share or framework.halt is not None or agents < LEAST_AGENTS:
            return
        total = self._total
        if taskgroups <= share * total and agents <= share * len(turn.state.agent_ids()):
            return
        halt = LossHalt(since=turn.now, agents=agents, taskgroups=taskgroups, total=total)
        turn.uow.put(msgspec.structs.replace(framework, halt=halt))
        self._record("ReplacementsHalted", words_of_loss(halt))
        self._look_again()

    def _end(self, words: str, *, dry_run: bool = False) -> None:
        turn = self._turn
        framework = msgspec.structs.replace(turn.state.framework, halt=None, losses_accepted_at=turn.now)
        turn.uow.put(framework)
        self._record("ReplacementsResumed", words)
        if not dry_run:
            self._recent.clear()
            self._times.clear()
            self._agents.clear()
            self._look_again()

    def _look_again(self) -> None:
        """Has the replacements of all lost taskgroups ask the gate again."""
        state = self._turn.state
        applications = {state.taskgroups[identity].application_key for identity in self._lost}
        replacing = [t for key in sorted(applications) for t in state.active_of(key).values()]
        self._turn.engine.queue_steps([t.id for t in replacing if t.taskgroup in self._lost])

    def _record(self, reason: EventReason, words: str) -> None:
        self._turn.record_event("framework", self._turn.state.framework.id, reason, words)
