"""Ends tasks that may run although no record requires them, until the cluster manager reports that they are gone.

There are two kinds. Orphaned tasks are the remaining tasks of a taskgroup whose record was removed before the taskgroup
had ended: by a forced deletion, or by a replacement while its agent was unreachable. Orphaned tasks are recorded, so a
new leader continues to end them. The record is an OrphanedTask (store.records.OrphanedTask), or after a restart the
ended transaction (`left_tasks`), which is written in any case. A transaction is not written again when its orphaned
tasks are gone: a new leader sends a KILL, and the answer shows that they are gone. When a transaction is deleted early,
an OrphanedTask takes over the tasks that are still open. A stray is a task that the cluster manager reports and that no
record requires (`unknown_tasks` decides whether it may be ended). Strays are held in memory, because the reconciliation
of a new leader finds them again.

An OrphanedTask that an operator has adopted is not killed: the cluster manager is asked instead whether its tasks
still run, so that the record ends with them.

Tasks of both kinds are killed at once, again with growing pauses, and again as soon as their agent has registered. The
master answers a KILL for an unknown task as it answers a reconciliation request for this task (Master::kill), so the
answers to the kills show when a task is gone. The scheduler gives up orphaned tasks after `agent_forget` seconds. If
their agent returns later, these tasks are strays.
"""

from __future__ import annotations

from collections import OrderedDict, defaultdict
from collections.abc import Iterable, Sequence
from itertools import islice

import msgspec

from bcs_scheduler.core.context import RETRY, TurnContext
from bcs_scheduler.core.controllers.cluster.task_killer import PATIENCE
from bcs_scheduler.core.interface.cluster_manager import End, Reconcile, StatusUpdate
from bcs_scheduler.core.work_queue import WorkQueue
from store.ids import taskgroup_of
from store.records import OrphanedTask, Transaction
from transactions.kinds.registry import kind_of

LONGEST_PAUSE = 600.0
"""Greatest pause in seconds between two kills without an answer: the agent is unreachable, and its return is
noticed."""
MOST = 100_000
"""Most taskgroups with orphaned tasks that are remembered; beyond that number the oldest are dropped. Each takes some
300 bytes in the store."""
AT_ONCE = 500
"""Taskgroups that one turn kills again, at most: a new leader may begin with many thousands."""
GRACE = 1.0
"""Seconds that an unwanted task has between SIGTERM and SIGKILL."""


class _Open:
    """State of an unwanted taskgroup that may still run."""

    __slots__ = ("adopted", "agent_id", "sent", "since", "tasks")

    def __init__(self, agent_id: str, tasks: Iterable[str], since: float, *, adopted: bool = False) -> None:
        self.agent_id, self.tasks, self.since, self.adopted = agent_id, set(tasks), since, adopted
        self.sent = 0


class OrphanedTasks:
    """Kills orphaned tasks until they are known to be gone. They are kept by taskgroup id, which is also the id of the
    executor."""

    def __init__(self, turn: TurnContext) -> None:
        self._turn = turn
        self._open: OrderedDict[str, _Open] = OrderedDict()
        self._due = WorkQueue()
        self._more = False
        """True if the last turn had no time for all that were due."""
        self._on: defaultdict[str, set[str]] = defaultdict(set)
        """Ids by agent."""

    def __len__(self) -> int:
        return len(self._open)

    def __contains__(self, taskgroup_id: str) -> bool:
        """True for a taskgroup whose tasks are being ended, or have been adopted."""
        return taskgroup_id in self._open

    # --- records ------------------------------------------------------------------------------------------------

    def recover(self) -> None:
        """Takes over the orphaned tasks of the records that are not older than `agent_forget`. No record has the
        strays: within a term those that are known stay."""
        turn = self._turn
        before = list(self._open.items())
        for known in (self._open, self._due, self._on):
            known.clear()
        self._more = False
        found = list(turn.state.orphaned_tasks.values())

        def take(key: str) -> None:
            left = self._left(turn.state.transactions[key])
            if left is not None and turn.now < left.since + turn.options.agent_forget:
                found.append(left)

        turn.each("transaction", turn.state.transactions, take)
        for record in sorted(found, key=lambda record: record.since):
            self._add(record.id, record.agent_id, record.tasks, record.since, adopted=record.adopted)
        for key, stray in before:
            if key not in self._open and key not in turn.state.taskgroups:
                self._add(key, stray.agent_id, stray.tasks, stray.since, adopted=stray.adopted)

    def notice(self, changed: Sequence[tuple[str, str]]) -> None:
        """Kills tasks that new records list as orphaned."""
        self._turn.each_change(changed, self._follow)

    def _follow(self, kind: str, key: str) -> None:
        if kind == "remnant":
            record = self._turn.state.orphaned_tasks.get(key)
            if record is None:
                self._drop(key)
            else:
                self._begin(record)
        elif kind == "transaction":
            transaction = self._turn.state.transactions.get(key)
            left = self._left(transaction) if transaction is not None else None
            if left is not None:
                self._begin(left)

    def _begin(self, record: OrphanedTask) -> None:
        found = self._open.get(record.id)
        if found is None or found.adopted != record.adopted:
            self._drop(record.id)
            self._add(record.id, record.agent_id, record.tasks, record.since, adopted=record.adopted)
            if not record.adopted:
                self._kill(record.id)

    def keep(self, transaction: Transaction) -> None:
        """The transaction is going to be deleted in the open unit: writes an OrphanedTask with those of its tasks that
        are not known to be gone, unless the scheduler is about to give them up."""
        left, turn = self._left(transaction), self._turn
        found = self._open.get(left.id) if left is not None else None
        if left is None or found is None or turn.now + LONGEST_PAUSE >= left.since + turn.options.agent_forget:
            return
        tasks = tuple([task for task in left.tasks if task in found.tasks])
        if tasks and left.id not in turn.state.orphaned_tasks:
            turn.uow.put(msgspec.structs.replace(left, tasks=tasks))

    def _add(self, key: str, agent_id: str, tasks: Iterable[str], since: float, *, adopted: bool = False) -> _Open:
        found = self._open[key] = _Open(agent_id, tasks, since, adopted=adopted)
        self._on[agent_id].add(key)
        self._due.put(key, self._turn.now)
        while len(self._open) > MOST:
            self._give_up(next(iter(self._open)))
        return found

    def _drop(self, key: str) -> None:
        found = self._open.pop(key, None)
        self._due.forget(key)
        if found is not None:
            members = self._on[found.agent_id]
            members.discard(key)
            if not members:
                del self._on[found.agent_id]

    def _give_up(self, key: str) -> None:
        record = self._turn.state.orphaned_tasks.get(key)
        if record is not None:
            self._turn.uow.delete(record)
        self._drop(key)

    # --- reports of the cluster manager and of executors
    # ---------------------------------------------------------------------------

    def heard(self, update: StatusUpdate, *, ended: bool, runs: bool) -> bool:
        """An update of a task that no record wants: the task has `ended`, or it `runs`. True if that was not known; the
        task is killed then."""
        key = taskgroup_of(update.task_id) or update.executor_id or update.task_id
        if ended:
            self._ended(key, update.task_id)
            return False
        if not runs:
            return False
        if not update.answer:
            # The agent is reachable, perhaps again. An answer to a question does not show that.
            self._due.move_earlier(key, self._turn.now)
        return self.stray(key, update.agent_id, (update.task_id,))

    def stray(self, key: str, agent_id: str, tasks: Sequence[str]) -> bool:
        """Tasks of this taskgroup run on the agent, unwanted. True if that was not known; they are killed then."""
        found = self._open.get(key)
        if found is not None and found.agent_id == agent_id and found.tasks.issuperset(tasks):
            return False
        if found is not None and found.adopted:
            self._adopt_also(key, tasks)
            return False
        known = found.tasks if found is not None else set()
        self._drop(key)
        self._add(key, agent_id, {*known, *tasks}, self._turn.now)
        self._kill(key)
        return True

    def _adopt_also(self, key: str, tasks: Sequence[str]) -> None:
        """More tasks of an adopted taskgroup: its tasks stay together."""
        self._open[key].tasks.update(tasks)
        record = self._turn.state.orphaned_tasks.get(key)
        if record is not None:
            self._turn.uow.put(msgspec.structs.replace(record, tasks=tuple(dict.fromkeys((*record.tasks, *tasks)))))

    def shut_down(self, key: str, agent_id: str) -> None:
        """An executor of this taskgroup has reported from the agent, and no record wants the taskgroup: the executor is
        ended with all that it runs, unless the taskgroup was adopted."""
        found = self._open.get(key)
        if found is None or not found.adopted:
            self._end(key, (), agent_id, forced=True)

    def _ended(self, key: str, task_id: str) -> None:
        found = self._open.get(key)
        if found is None or task_id not in found.tasks:
            return
        found.tasks.discard(task_id)
        record = self._turn.state.orphaned_tasks.get(key)
        if not found.tasks:
            self._give_up(key)
        elif record is not None:
            left = tuple([task for task in record.tasks if task in found.tasks])
            self._turn.uow.put(msgspec.structs.replace(record, tasks=left))

    # --- time ---------------------------------------------------------------------------------------------------

    def resend(self) -> None:
        """After a new subscription: everything at once."""
        self._turn.each("taskgroup", self._due, self._again)

    def returned(self, agent_ids: Iterable[str]) -> None:
        """These agents have registered again: KILLs that were sent before may not have reached them."""
        for agent_id in agent_ids:
            self._turn.each("taskgroup", self._on.get(agent_id, ()), self._again)

    def _again(self, key: str) -> None:
        self._open[key].sent = 0
        self._due.reset_pause(key)
        self._due.put(key, self._turn.now)

    def next_timer(self) -> float | None:
        """Returns the present time (Unix seconds) if the last turn has left some work; else None, because regular turns
        are frequent enough."""
        return self._turn.now if self._more else None

    def tick(self) -> None:
        """Kills the orphaned tasks that are due, at most `AT_ONCE` per turn."""
        turn = self._turn
        self._more = False
        if not turn.connected:
            return
        for key in turn.each("taskgroup", islice(self._due.due(turn.now), AT_ONCE), self._look_at):
            self._due.put(key, turn.now + RETRY)
        first = self._due.first()
        self._more = first is not None and first <= turn.now

    def _look_at(self, key: str) -> None:
        turn, found = self._turn, self._open[key]
        if not found.adopted and turn.now >= found.since + turn.options.agent_forget:
            turn.record_event(
                "taskgroup", key, "TaskGroupGivenUp", "no report about its remaining tasks has arrived for too long"
            )
            self._give_up(key)
        else:
            self._kill(key)
        turn.checkpoint()

    def _kill(self, key: str) -> None:
        """Kills the tasks; of an adopted taskgroup, asks for them."""
        turn, found = self._turn, self._open[key]
        forced = found.sent >= PATIENCE and bool(found.agent_id)
        if found.adopted:
            turn.emit(Reconcile(tasks=tuple((task, found.agent_id) for task in sorted(found.tasks)), cause=turn.cause))
        else:
            self._end(key, sorted(found.tasks), found.agent_id, forced=forced)
        self._due.put(key, turn.now + GRACE + self._due.pause(key, turn.options.kill_retry, LONGEST_PAUSE))
        found.sent += 1

    def _end(self, key: str, tasks: Sequence[str], agent_id: str, *, forced: bool) -> None:
        cause = self._turn.cause
        self._turn.emit(
            End(taskgroup=key, tasks=tuple(tasks), agent_id=agent_id, grace_period=GRACE, forced=forced, cause=cause)
        )

    def _left(self, transaction: Transaction) -> OrphanedTask | None:
        """Returns the tasks that an ended transaction has recorded as possibly running; None if there are none."""
        return kind_of(self._turn.state, transaction).left(transaction)
