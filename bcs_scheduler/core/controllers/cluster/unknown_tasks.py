"""The guard against a store that does not know its tasks: an empty one, or one restored from an old copy.

A taskgroup is unknown if the cluster manager reports that it runs, and no record names it. A few of them are ordinary:
a launch that arrived late, or an agent that was away for longer than its taskgroups are remembered. They are ended, but
not before the cluster manager has named all tasks that it knows. Many of them, or one that no leader of this store can
have made, mean that the store is not the one with which the tasks were launched. Then none of them is ended and nothing
is launched, because a new taskgroup could be one that runs already, until an operator has decided.

The halt is a part of the framework record, so that it outlives the leader. The unknown taskgroups themselves are held
in memory, because the reconciliation of a new leader finds them again; the decision is written as one OrphanedTask
each.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import msgspec

from bcs_scheduler.core.context import TurnContext
from bcs_scheduler.core.controllers.cluster.orphaned_tasks import OrphanedTasks
from bcs_scheduler.core.controllers.cluster.reconciler import FIRST_ASK, Reconciler
from bcs_scheduler.core.interface.cluster_manager import Reconcile, StatusUpdate
from bcs_scheduler.core.interface.unknown import DecideUnknown, UnknownTaskGroup, UnknownTaskGroups
from bcs_scheduler.core.term_start import SLACK, is_from_gap
from store.ids import TaskGroupId, taskgroup_of
from store.reasons import EventReason
from store.records import OrphanedTask, Transaction, UnknownHalt
from transactions.base import Refused, Step
from transactions.rules.losses import UNDECIDED, words_of_unknown
from transactions.text import counted

LEAST, SHARE = 1, 0.05
"""Unknown taskgroups are ended without a question up to the greater of this number and this share of all."""
QUIET = FIRST_ASK
"""Seconds without another unknown taskgroup after which those that were found are counted: they arrive one by one, and
agents come back together."""
MOST = 100_000
"""Unknown taskgroups that are remembered at most. More are not counted: there is a halt already."""
INCOMPLETE = "the cluster manager has not named all running tasks yet, so more unknown taskgroups may be found"


class _Held:
    """An unknown taskgroup that waits for the count or for an operator."""

    __slots__ = ("agent_id", "executor", "newer", "since", "tasks")

    def __init__(self, agent_id: str, since: float, *, newer: bool) -> None:
        self.agent_id, self.since, self.newer = agent_id, since, newer
        self.tasks: set[str] = set()
        self.executor = False
        """An executor of ours has reported: it is ended too."""


class UnknownTasks:
    """Holds unknown taskgroups until they may be ended. Also a `transactions.base.Gate`."""

    def __init__(
        self, turn: TurnContext, orphaned_tasks: OrphanedTasks, reconciler: Reconciler, live: Callable[[], int]
    ) -> None:
        """`live`: number of taskgroups of the records that have not ended."""
        self._turn, self._orphaned_tasks, self._reconciler, self._live = turn, orphaned_tasks, reconciler, live
        self._held: dict[str, _Held] = {}
        """The unknown taskgroups by id."""
        self._newer = 0
        """Number of those that no leader of this store can have made."""
        self._latest = 0.0
        """Unix seconds at which the last one was found."""

    # --- reports ----------------------------------------------------------------------------------------------

    def heard(self, update: StatusUpdate, *, ended: bool, runs: bool) -> bool:
        """Takes an update of a task that no record wants: the task has `ended`, or it `runs`. False if the store knows
        its taskgroup, or if the task does neither: then the update is not for this guard."""
        key = taskgroup_of(update.task_id) or update.executor_id or update.task_id
        if not self._is_unknown(key):
            return False
        if runs:
            executor = update.detail is not None and bool(update.executor_id)
            self._hold(key, update.agent_id, (update.task_id,), executor=executor)
        elif ended:
            self._ended(key, update.task_id)
        return runs or ended

    def steady(self, key: str, agent_id: str, tasks: Sequence[str]) -> bool:
        """Takes a report of an executor about its taskgroup. False if the store knows the taskgroup. Such a report may
        arrive after the news that the taskgroup has ended, and after its record is gone. So the cluster manager is
        asked, and a taskgroup counts when the answer says that it runs."""
        if not self._is_unknown(key):
            return False
        if key in self._held:
            self._hold(key, agent_id, tasks, executor=True)
        elif tasks:  # a Reconcile without tasks would ask for all
            turn = self._turn
            turn.emit(Reconcile(tasks=tuple((task, agent_id) for task in tasks), cause=turn.cause))
        return True

    def _is_unknown(self, key: str) -> bool:
        return key not in self._turn.state.taskgroups and key not in self._orphaned_tasks

    def _hold(self, key: str, agent_id: str, tasks: Sequence[str], *, executor: bool) -> None:
        turn = self._turn
        if ("taskgroup", key) in turn.state.unreadable:
            return  # its record is there, and can be read again with the right key or version
        found = self._held.get(key)
        if found is None:
            if len(self._held) >= MOST:
                return
            found = self._held[key] = _Held(agent_id, turn.now, newer=self._is_newer(key))
            self._newer += found.newer
            self._latest = turn.now
        found.tasks.update(tasks)
        found.executor |= executor
        found.agent_id = agent_id or found.agent_id
        if turn.state.framework.unknown is None and self._are_many():
            self._halt()

    def _is_newer(self, key: str) -> bool:
        """True if no leader of this store can have made the id: it is from a span without a leader, from the future, or
        no id of a taskgroup at all."""
        parts = TaskGroupId.parse(key)
        if parts is None:
            return True
        turn = self._turn
        newest = max(turn.ids.last, int(turn.now * 1e9)) + SLACK
        return parts.nanoseconds > newest or is_from_gap(parts.nanoseconds, turn.state.framework.gaps)

    def _are_many(self) -> bool:
        held = len(self._held)
        return self._newer > 0 or held > max(LEAST, SHARE * (self._live() + held))

    def _ended(self, key: str, task_id: str) -> None:
        found = self._held.get(key)
        if found is not None:
            found.tasks.discard(task_id)
            if not found.tasks:
                self._drop(key)

    def _drop(self, key: str) -> _Held:
        found = self._held.pop(key)
        self._newer -= found.newer
        return found

    # --- the halt ---------------------------------------------------------------------------------------------

    def _halt(self) -> None:
        turn, count = self._turn, len(self._held)
        halt = UnknownHalt(since=turn.now, taskgroups=count, total=self._live() + count, newer=self._newer)
        turn.uow.put(msgspec.structs.replace(turn.state.framework, unknown=halt))
        self._record("UnknownTasksFound", words_of_unknown(halt))
        self._look_again()

    def _look_again(self) -> None:
        """Has all open operations ask the gate again."""
        self._turn.engine.queue_steps([transaction.id for transaction in self._turn.state.active_transactions()])

    def admitted(self, transaction: Transaction, step: Step) -> Step:  # noqa: ARG002 (all transactions wait alike)
        """Implements `Gate`: the step without its slots while there is a halt."""
        if self._turn.state.framework.unknown is None or not step.slots:
            return step
        return step._replace(slots=(), missing=(UNDECIDED, *step.missing))

    @property
    def is_complete(self) -> bool:
        """True if the cluster manager has named all tasks that it knows, and no unknown one has come for a while (any
        thread)."""
        return self._reconciler.is_answered and self._turn.now >= self._latest + QUIET

    # --- the decision -----------------------------------------------------------------------------------------

    def decide(self, request: DecideUnknown) -> dict[str, Any]:
        """Carries out the decision of an operator. The halt ends when no unknown taskgroup is left without a decision.
        Raises Refused: `unavailable` while more unknown taskgroups may come, `conflict` if there is nothing to decide
        about, `not_found` if an application has no such taskgroup."""
        turn = self._turn
        if not self.is_complete:
            # A part of them would end the halt, or leave so few that they are ended without a question.
            raise Refused("unavailable", f"{INCOMPLETE}; nothing was decided")
        undecided = self._chosen(self._held, request)
        adopted = self._chosen(self._adopted(), request) if request.adopted else []
        halted = turn.state.framework.unknown is not None
        if request.applications:
            owners = {_owner(key) for key in (*undecided, *adopted)}
            for application in request.applications:
                if application not in owners:
                    raise Refused("not_found", f"no unknown taskgroup belongs to the application {application}")
        elif not (undecided or adopted or halted):
            raise Refused("conflict", "there is no taskgroup to decide about: the store knows all tasks that run")
        data: dict[str, Any] = {"decision": request.decision, "taskgroups": len(undecided) + len(adopted)}
        if not request.dry_run:
            turn.later(self._carry_out(request, undecided, adopted, data))
        return {**data, "halted": halted and len(undecided) < len(self._held)} if request.dry_run else data

    def _carry_out(
        self, request: DecideUnknown, undecided: list[str], adopted: list[str], data: dict[str, Any]
    ) -> Iterator[None]:
        turn = self._turn
        decide = partial(self._decide, adopted=request.decision == "adopt")
        for work, keys in ((decide, undecided), (self._end_adopted, adopted)):
            for key in keys:
                data["taskgroups"] -= len(turn.each("taskgroup", (key,), work))
                yield
        words = "adopted: they stay" if request.decision == "adopt" else "ended"
        self._record("UnknownTasksDecided", f"{counted(data['taskgroups'], 'unknown taskgroup')} {words}")
        framework = turn.state.framework
        if framework.unknown is not None and not self._held:
            turn.uow.put(msgspec.structs.replace(framework, unknown=None))
            self._look_again()
        data["halted"] = turn.state.framework.unknown is not None
        yield

    def _decide(self, key: str, *, adopted: bool) -> None:
        turn, found = self._turn, self._held.get(key)
        if found is None or key in turn.state.orphaned_tasks:
            return
        tasks = tuple(sorted(found.tasks))
        turn.uow.put(OrphanedTask(id=key, agent_id=found.agent_id, tasks=tasks, since=turn.now, adopted=adopted))
        turn.checkpoint()
        self._drop(key)

    def _end_adopted(self, key: str) -> None:
        record = self._turn.state.orphaned_tasks.get(key)
        if record is not None and record.adopted:
            self._turn.uow.put(msgspec.structs.replace(record, adopted=False, since=self._turn.now))
            self._turn.checkpoint()

    def _chosen(self, taskgroups: Sequence[str] | dict[str, Any], request: DecideUnknown) -> list[str]:
        wanted = set(request.applications)
        return [key for key in taskgroups if not wanted or _owner(key) in wanted]

    def _adopted(self) -> list[str]:
        return [record.id for record in self._turn.state.orphaned_tasks.values() if record.adopted]

    def listed(self) -> UnknownTaskGroups:
        """The unknown taskgroups that have no decision, then the adopted ones, each by id (any thread)."""
        complete = self.is_complete
        undecided = [
            UnknownTaskGroup(key, one.agent_id, tuple(sorted(one.tasks)), one.newer, adopted=False, since=one.since)
            for key, one in sorted(self._held.copy().items())
        ]
        records = sorted(self._turn.state.orphaned_tasks.copy().values(), key=lambda record: record.id)
        adopted = [
            UnknownTaskGroup(record.id, record.agent_id, record.tasks, newer=False, adopted=True, since=record.since)
            for record in records
            if record.adopted
        ]
        return UnknownTaskGroups(complete, undecided + adopted)

    # --- controller -------------------------------------------------------------------------------------------

    def recover(self) -> None:
        """Counts anew. No record has the taskgroups: the reconciliation of a new leader finds them, and within a term
        those that were found stay."""
        self._held = {key: found for key, found in self._held.items() if self._is_unknown(key)}
        self._newer = sum(found.newer for found in self._held.values())

    def notice(self, changed: Sequence[tuple[str, str]]) -> None:
        """Ignores changes: a taskgroup that is held has no record."""

    def next_timer(self) -> float | None:
        """Returns no time (Unix seconds; None), because regular turns are frequent enough."""
        return None

    def tick(self) -> None:
        """Ends the unknown taskgroups if they are few, when all answers and no others have come."""
        turn = self._turn
        if not self._held or turn.state.framework.unknown is not None:
            return
        if not self.is_complete:
            return
        if self._are_many():  # others have ended since
            self._halt()
            return
        turn.each("taskgroup", list(self._held), self._end)

    def _end(self, key: str) -> None:
        turn, found = self._turn, self._held[key]
        if not self._is_unknown(key):
            self._drop(key)
            return
        tasks = sorted(found.tasks)
        self._orphaned_tasks.stray(key, found.agent_id, tasks)
        words = f"{', '.join(tasks) or 'its executor'} on {found.agent_id}: the store does not know it; ended"
        turn.record_event("taskgroup", key, "TaskGroupNotWanted", words)
        if found.executor:
            self._orphaned_tasks.shut_down(key, found.agent_id)
        turn.checkpoint()
        self._drop(key)

    def _record(self, reason: EventReason, words: str) -> None:
        self._turn.record_event("framework", self._turn.state.framework.id, reason, words)


def _owner(key: str) -> str:
    """Key of the application in the id of a taskgroup; empty if there is none."""
    parts = TaskGroupId.parse(key)
    return parts.owner if parts is not None else ""
