"""The status update manager of the agents: in order per task, one at a time, repeated until acknowledged."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable

from bcs_scheduler.local.objects.model import Task
from bcs_scheduler.mesos.proto import mesos_pb2 as pb

Deliver = Callable[[Task, pb.TaskStatus], None]


class StatusUpdates:
    """`deliver` forwards one update to the master. Times are seconds of a monotonic clock."""

    def __init__(self, deliver: Deliver, clock: Callable[[], float], interval: float, interval_max: float) -> None:
        self._deliver = deliver
        self._clock = clock
        self._interval = interval
        self._interval_max = interval_max
        self._due: list[tuple[float, int, float, Task]] = []
        """Heap of updates that may have to be sent again: time, number of the sending, the following pause in seconds,
        and task. An entry is ignored at its time if the update was acknowledged or sent again."""
        self._count = 0

    def enqueue(self, task: Task, status: pb.TaskStatus) -> None:
        task.pending.append(status)
        if len(task.pending) == 1:
            self._send(task)

    def acknowledge(self, task: Task, uuid: bytes) -> bool:
        """True if this was the update waiting for it; then the next one is sent."""
        if not task.pending or task.pending[0].uuid != uuid:
            return False
        task.pending.popleft()
        if task.pending:
            self._send(task)
        return True

    def resend(self, tasks: Iterable[Task]) -> None:
        """Sends the waiting updates at once, as after a failover of the framework or a return of the agent."""
        for task in list(tasks):
            if task.pending:
                self._send(task)

    def forget(self, task: Task) -> None:
        task.pending.clear()

    def sweep(self) -> None:
        """Repeats the updates that are due. To be called regularly."""
        now = self._clock()
        while self._due and self._due[0][0] <= now:
            _, number, pause, task = heapq.heappop(self._due)
            if task.pending and task.sending == number:
                self._repeat_at(now + pause, pause, task)
                self._deliver(task, task.pending[0])

    def _send(self, task: Task) -> None:
        self._repeat_at(self._clock() + self._interval, self._interval, task)
        self._deliver(task, task.pending[0])

    def _repeat_at(self, due: float, pause: float, task: Task) -> None:
        self._count += 1
        task.sending = self._count
        heapq.heappush(self._due, (due, self._count, min(2 * pause, self._interval_max), task))
