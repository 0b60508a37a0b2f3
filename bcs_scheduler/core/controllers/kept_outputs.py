"""The last output of tasks that have failed. Our executor sends the output; the output of other tasks is read from the
agent. The output is kept even if the sandbox is removed, the agent is lost, or another scheduler leads. Three limits
apply: the rate of writes, the number of outputs for each owner, and the total size. The owner is the deployment of the
application, or the application if it has none: an update removes an application of the deployment, and the outputs show
why the update failed. The deletion of the owner removes its outputs (transactions.kinds.delete, workloads.deployments).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice

from bcs_scheduler.core.context import RETRY, TurnContext
from bcs_scheduler.core.controllers.ended_objects import EndedObjects
from bcs_scheduler.core.interface.cluster_manager import FetchOutput, OutputReported
from bcs_scheduler.core.work_queue import WorkQueue
from store.ids import TaskId, object_key
from store.records import Application, FailedOutput, Task, TaskGroup

RATE = 100.0
"""kB per second that are written, if many taskgroups fail at the same time; the store has other work."""
BURST = 1000.0
"""kB that are written at once."""
FAILURES = frozenset({"Failed", "Lost"})
"""Statuses of ended tasks that have failed."""
ENDED_WITH_OTHERS = FAILURES | {"Killed"}
"""Statuses of ended tasks that the failure of another task has ended."""
AT_ONCE = 100
"""Records removed in one turn at most."""


def size_of(output: FailedOutput) -> int:
    """Returns the size in the store in kB, at least 1. The store has base64."""
    return 1 + len(output.data) * 4 // 3 // 1000


class KeptOutputs:
    """Follows the records of outputs. All its state is derived from these records."""

    def __init__(self, turn: TurnContext) -> None:
        self._turn = turn
        self._kept: EndedObjects[str] = EndedObjects(turn.options.output_keep, turn.options.output_keep_total)
        self._expiry = WorkQueue()
        self._room = BURST
        self.dropped = 0
        """Outputs of this term that were not kept (any thread)."""
        self._since = 0.0

    def changed(self, group: TaskGroup, before: Task, after: Task) -> None:
        """Requests the output of a task that has failed without a request to end, or that ended because another task of
        its taskgroup had failed, unless the executor has sent the output. Our executor sends the output before the end
        of the task; an executor that was killed sends nothing. A task that has not begun to start has no sandbox. A
        task on an unreachable agent has not ended."""
        if not after.ended or before.ended or before.status == "Staging" or after.id in self._turn.state.outputs:
            return
        if not (_failed(group, after) or _ended_with_others(group, after)):
            return
        if not self._turn.options.output_keep:
            return
        self._turn.emit(
            FetchOutput(
                agent_id=group.agent_id,
                executor_id=group.id,
                task_id=after.id,
                name=after.name,
                cause=self._turn.cause,
            )
        )

    def reported(self, event: OutputReported) -> None:
        """Keeps an output. An output that is not kept is counted: too many come at once, or the application has been
        deleted."""
        turn, task = self._turn, TaskId.parse(event.task_id)
        if task is None or str(task.taskgroup) != event.executor_id:
            return
        if event.fetched and event.task_id in turn.state.outputs:
            return  # the executor has sent it meanwhile, with order and times
        application = turn.state.applications.get(object_key(task.namespace, task.application))
        group = turn.state.taskgroups.get(event.executor_id)
        names = {known.id: known.name for known in group.tasks} if group is not None else {}
        output = FailedOutput(
            id=event.task_id,
            taskgroup=event.executor_id,
            namespace=task.namespace,
            application=task.application,
            deployment=application.deployment if application is not None else "",
            index=task.index,
            number=task.number,
            name=names.get(event.task_id, event.name),
            agent_id=event.agent_id,
            at=turn.now,
            data=event.data,
        )
        if application is None or _is_older(task, application) or not turn.options.output_keep:
            self.dropped += 1
            return
        if not self._admitted(output):
            self.dropped += 1
            return
        turn.uow.put(output)

    @property
    def kept(self) -> tuple[int, int]:
        """Number of outputs and their size in kB (any thread)."""
        return len(self._kept), self._kept.weight

    def _admitted(self, output: FailedOutput) -> bool:
        now = self._turn.now
        self._room = min(BURST, self._room + RATE * max(0.0, now - self._since))
        self._since = now
        size = size_of(output)
        if size > self._room:
            return False
        self._room -= size
        return True

    # --- records ------------------------------------------------------------------------------------------------

    def recover(self) -> None:
        """Takes up all outputs, oldest first. Those without an owner, which an older leader has left, are removed
        by the next `tick`."""
        self._kept.clear()
        self._expiry.clear()
        found: list[tuple[float, str]] = []
        outputs = self._turn.state.outputs
        self._turn.each(FailedOutput.kind, outputs, lambda key: found.append((outputs[key].at, key)))
        self._turn.each(FailedOutput.kind, [key for _, key in sorted(found)], self._follow)

    def notice(self, changed: Iterable[tuple[str, str]]) -> None:
        """Follows the records."""
        kind = FailedOutput.kind
        self._turn.each(kind, [key for one, key in changed if one == kind], self._follow)

    def _follow(self, key: str) -> None:
        output = self._turn.state.outputs.get(key)
        if output is not None:
            self._keep(output)
        else:
            self._kept.remove(key)
            self._expiry.drop(key)

    def _keep(self, output: FailedOutput) -> None:
        self._kept.remove(output.id)
        state, owner = self._turn.state, output.owner
        self._kept.add(output.id, "/".join(owner), size_of(output))
        owned = state.get(*owner) is not None or owner in state.unreadable
        self._expiry.put(output.id, output.at + self._turn.options.output_retention if owned else self._turn.now)

    # --- time ---------------------------------------------------------------------------------------------------

    def next_timer(self) -> float | None:
        """Like `Controller.next_timer`: None, because regular turns are frequent enough."""
        return None

    def tick(self) -> None:
        """Removes the outputs that are too old and the surplus outputs, the oldest first. An output that was just
        removed with its owner pushes out no other, and one that was just written again is the newest."""
        turn = self._turn
        if self._kept.surplus() is not None:
            self.notice(list(turn.changed))
        for identity in turn.each(FailedOutput.kind, islice(self._superfluous(), AT_ONCE), self._remove):
            self._expiry.put(identity, turn.now + RETRY)

    def _superfluous(self) -> Iterator[str]:
        while (identity := self._expiry.pop(self._turn.now) or self._kept.surplus()) is not None:
            self._kept.remove(identity)
            self._expiry.drop(identity)
            yield identity

    def _remove(self, identity: str) -> None:
        output = self._turn.state.outputs.get(identity)
        if output is not None:
            self._turn.uow.delete(output)
            self._turn.checkpoint()


def _failed(group: TaskGroup, task: Task) -> bool:
    """The task has failed, and its taskgroup was not to end."""
    return task.status in FAILURES and not group.killing_since


def _ended_with_others(group: TaskGroup, task: Task) -> bool:
    """The failure of another task has ended this one: by its executor, or by the scheduler (TaskEnded)."""
    requested = group.killing_since and group.end_cause != "TaskEnded"
    others = any(other.ended and other.status in FAILURES for other in group.tasks if other.id != task.id)
    return task.status in ENDED_WITH_OTHERS and others and not requested


def _is_older(task: TaskId, application: Application) -> bool:
    """The task belonged to a deleted application of the same name. Ids have the time at which they were made."""
    return task.nanoseconds < int(application.created_at * 1e9)
