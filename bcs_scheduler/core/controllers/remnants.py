"""Ends tasks that may run although no record wants them, until Mesos says that they are gone.

There are two kinds. A remnant is what is left of a taskgroup whose record was removed before the taskgroup had ended:
by a forced deletion, by a replacement while its agent was away. It is recorded, so a new leader goes on ending it: as a
record of its own (store.records.Remnant), or after a restart in the ended transaction (`left_tasks`), which is written
anyway. A transaction is not written again when its remnant is gone: a new leader sends a KILL, and the answer tells it.
When a transaction is deleted early, a Remnant takes over what is open. A stray is a task that Mesos reports and that no
record wants; it is held in memory, because the reconciliation of a new leader brings it to light again.

Both are killed at once, again with growing pauses, and again as soon as their agent has registered: a KILL for a task
that the master does not know makes it answer like a question about the task (Master::kill), so the kills themselves
tell when a task is gone. A remnant is given up after `agent_forget` seconds; if its agent comes back even later, its
tasks are strays.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence

import msgspec

from bcs_scheduler.core.agenda import Agenda
from bcs_scheduler.core.controllers.killer import PATIENCE
from bcs_scheduler.core.desk import Desk
from bcs_scheduler.core.effects import Kill, Shutdown
from bcs_scheduler.core.events import RECONCILIATION, StatusUpdate
from store.ids import taskgroup_of
from store.records import Remnant, Transaction

LONGEST_PAUSE = 600.0
"""Seconds between two kills of what stays unanswered, at most: its agent is away, and its return is noticed."""
MOST = 100_000
"""Remnants that are remembered; beyond that the oldest are dropped. Some 300 bytes each in the store."""
AT_ONCE = 500
"""Taskgroups that one turn kills again, at most: a new leader may begin with many thousands."""
GRACE = 1.0
"""Seconds that an unwanted task has between SIGTERM and SIGKILL."""


class _Open:
    """What is known of an unwanted taskgroup."""

    __slots__ = ("agent_id", "pause", "sent", "since", "tasks")

    def __init__(self, agent_id: str, tasks: Iterable[str], since: float, pause: float) -> None:
        self.agent_id, self.tasks, self.since, self.pause = agent_id, set(tasks), since, pause
        self.sent = 0


class Remnants:
    """By taskgroup id, which is the id of the executor as well."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._open: dict[str, _Open] = {}
        self._due = Agenda()
        self._more = False
        """Some were due that the last turn had no time for."""
        self._on: defaultdict[str, set[str]] = defaultdict(set)
        """Ids by agent."""

    def __len__(self) -> int:
        return len(self._open)

    # --- records ------------------------------------------------------------------------------------------------

    def recover(self) -> None:
        desk = self._desk
        found = list(desk.state.remnants.values())
        found += [
            left
            for transaction in desk.state.transactions.values()
            if (left := _left(transaction)) is not None and desk.now < left.since + desk.options.agent_forget
        ]
        for record in sorted(found, key=lambda record: record.since):
            self._add(record.id, record.agent_id, record.tasks, record.since)

    def notice(self, changed: Sequence[tuple[str, str]]) -> None:
        """Kills what has newly been left behind."""
        for kind, key in changed:
            if kind == "remnant":
                record = self._desk.state.remnants.get(key)
                if record is None:
                    self._drop(key)
                else:
                    self._begin(record)
            elif kind == "transaction":
                transaction = self._desk.state.transactions.get(key)
                left = _left(transaction) if transaction is not None else None
                if left is not None:
                    self._begin(left)

    def _begin(self, record: Remnant) -> None:
        if record.id not in self._open:
            self._add(record.id, record.agent_id, record.tasks, record.since)
            self._kill(record.id)

    def keep(self, transaction: Transaction) -> None:
        """The transaction is going to be deleted in the open unit: writes a Remnant of the tasks it remembers that are
        not known to be gone, unless they are about to be given up."""
        left, desk = _left(transaction), self._desk
        found = self._open.get(left.id) if left is not None else None
        if left is None or found is None or desk.now + LONGEST_PAUSE >= left.since + desk.options.agent_forget:
            return
        tasks = tuple([task for task in left.tasks if task in found.tasks])
        if tasks and left.id not in desk.state.remnants:
            desk.uow.put(msgspec.structs.replace(left, tasks=tasks))

    def _add(self, key: str, agent_id: str, tasks: Iterable[str], since: float) -> _Open:
        found = self._open[key] = _Open(agent_id, tasks, since, self._desk.options.kill_retry)
        self._on[agent_id].add(key)
        self._due.put(key, self._desk.now)
        while len(self._open) > MOST:
            self._give_up(next(iter(self._open)))
        return found

    def _drop(self, key: str) -> None:
        found = self._open.pop(key, None)
        self._due.drop(key)
        if found is not None:
            members = self._on[found.agent_id]
            members.discard(key)
            if not members:
                del self._on[found.agent_id]

    def _give_up(self, key: str) -> None:
        record = self._desk.state.remnants.get(key)
        if record is not None:
            self._desk.uow.delete(record)
        self._drop(key)

    # --- what Mesos and executors say ---------------------------------------------------------------------------

    def heard(self, update: StatusUpdate, *, ended: bool, runs: bool) -> bool:
        """An update of a task that no record wants: the task has `ended`, or it `runs`. True if that was not known; the
        task is killed then."""
        key = taskgroup_of(update.task_id) or update.executor_id or update.task_id
        if ended:
            self._ended(key, update.task_id)
            return False
        if not runs:
            return False
        if update.reason != RECONCILIATION:
            # The agent is in contact, perhaps again. An answer to a question says nothing about that.
            self._due.hasten(key, self._desk.now)
        return self.stray(key, update.agent_id, (update.task_id,))

    def stray(self, key: str, agent_id: str, tasks: Sequence[str]) -> bool:
        """Tasks of this taskgroup run on the agent, unwanted. True if that was not known; they are killed then."""
        found = self._open.get(key)
        if found is not None and found.agent_id == agent_id and found.tasks.issuperset(tasks):
            return False
        known = found.tasks if found is not None else set()
        self._drop(key)
        self._add(key, agent_id, {*known, *tasks}, self._desk.now)
        self._kill(key)
        return True

    def _ended(self, key: str, task_id: str) -> None:
        found = self._open.get(key)
        if found is None or task_id not in found.tasks:
            return
        found.tasks.discard(task_id)
        record = self._desk.state.remnants.get(key)
        if not found.tasks:
            self._give_up(key)
        elif record is not None:
            left = tuple([task for task in record.tasks if task in found.tasks])
            self._desk.uow.put(msgspec.structs.replace(record, tasks=left))

    # --- time ---------------------------------------------------------------------------------------------------

    def resend(self) -> None:
        """After a new subscription: everything at once."""
        for key in self._due:
            self._again(key)

    def returned(self, agent_ids: Iterable[str]) -> None:
        """These agents have registered again: KILLs that were sent before may not have reached them."""
        for agent_id in agent_ids:
            for key in self._on.get(agent_id, ()):
                self._again(key)

    def _again(self, key: str) -> None:
        self._open[key].pause, self._open[key].sent = self._desk.options.kill_retry, 0
        self._due.put(key, self._desk.now)

    def next_timer(self) -> float | None:
        """At once if the last turn has left some; else None: the grain of the turns is fine enough."""
        return self._desk.now if self._more else None

    def tick(self) -> None:
        desk = self._desk
        self._more = desk.connected
        if not desk.connected:
            return
        for _ in range(AT_ONCE):
            key = self._due.pop(desk.now)
            if key is None:
                self._more = False
                break
            if desk.now >= self._open[key].since + desk.options.agent_forget:
                desk.tell("taskgroup", key, "given up", "what may be left of it has not been heard of for too long")
                self._give_up(key)
            else:
                self._kill(key)
            desk.checkpoint()

    def _kill(self, key: str) -> None:
        desk, found = self._desk, self._open[key]
        for task_id in sorted(found.tasks):
            desk.emit(Kill(task_id=task_id, agent_id=found.agent_id, grace_period=GRACE, cause=desk.cause))
        if found.sent >= PATIENCE and found.agent_id:
            desk.emit(Shutdown(executor_id=key, agent_id=found.agent_id, cause=desk.cause))
        self._due.put(key, desk.now + GRACE + found.pause)
        found.sent += 1
        found.pause = min(2 * found.pause, LONGEST_PAUSE)


def _left(transaction: Transaction) -> Remnant | None:
    """The remnant that an ended transaction remembers; None if there is none."""
    if transaction.active or not transaction.left_tasks:
        return None
    return Remnant(
        id=transaction.taskgroup,
        agent_id=transaction.left_agent,
        tasks=transaction.left_tasks,
        since=transaction.finished_at,
    )
