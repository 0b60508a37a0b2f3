"""The status update manager of the agents: in order per task, one at a time, repeated until acknowledged."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from bcs_scheduler.local.model import Task
from bcs_scheduler.mesos.proto import mesos_pb2 as pb

Deliver = Callable[[Task, pb.TaskStatus], None]


class StatusUpdates:
    """`deliver` forwards one update to the master. Times are seconds of a monotonic clock."""

    def __init__(self, deliver: Deliver, clock: Callable[[], float], interval: float, interval_max: float) -> None:
        self._deliver = deliver
        self._clock = clock
        self._interval = interval
        self._interval_max = interval_max
        self._unacknowledged: dict[Task, tuple[float, float]] = {}
        """When to send again, and the pause after that."""

    def __len__(self) -> int:
        return len(self._unacknowledged)

    def enqueue(self, task: Task, status: pb.TaskStatus) -> None:
        task.pending.append(status)
        if len(task.pending) == 1:
            self._send(task)

    def acknowledge(self, task: Task, uuid: bytes) -> bool:
        """Whether this was the update waiting for it; then the next one is sent."""
        if not task.pending or task.pending[0].uuid != uuid:
            return False
        task.pending.popleft()
        if task.pending:
            self._send(task)
        else:
            del self._unacknowledged[task]
        return True

    def resend(self, tasks: Iterable[Task]) -> None:
        """At once, as after a failover of the framework or a return of the agent."""
        for task in list(tasks):
            if task.pending:
                self._send(task)

    def forget(self, task: Task) -> None:
        task.pending.clear()
        self._unacknowledged.pop(task, None)

    def sweep(self) -> None:
        """Repeats what is due. To be called regularly."""
        now = self._clock()
        for task, (due, pause) in list(self._unacknowledged.items()):
            if due <= now and task in self._unacknowledged:
                self._unacknowledged[task] = (now + pause, min(2 * pause, self._interval_max))
                self._deliver(task, task.pending[0])

    def _send(self, task: Task) -> None:
        self._unacknowledged[task] = (self._clock() + self._interval, min(2 * self._interval, self._interval_max))
        self._deliver(task, task.pending[0])
