"""Faults in the delivery of status updates and of messages between scheduler and executors."""

from __future__ import annotations

import asyncio

from bcs_scheduler.local.agents.updates import Deliver
from bcs_scheduler.local.objects.model import Task
from bcs_scheduler.mesos.proto import mesos_pb2 as pb


class Faults:
    """Stands between agents and master. Counters say how many of the next updates are hit; a dropped one comes again
    with the next retry of its agent."""

    def __init__(self, forward: Deliver) -> None:
        self._forward = forward
        self.drop = 0
        self.duplicate = 0
        self.delay_count = 0
        self.delay_seconds = 0.0
        self.drop_messages = 0

    def lose_message(self) -> bool:
        """True if the message that is about to be delivered, in either direction, is lost. Nobody repeats it."""
        lost = self.drop_messages > 0
        self.drop_messages -= lost
        return lost

    def deliver(self, task: Task, status: pb.TaskStatus) -> None:
        if self.drop > 0:
            self.drop -= 1
            return
        if self.delay_count > 0:
            self.delay_count -= 1
            asyncio.get_running_loop().call_later(self.delay_seconds, self._late, task, status)
            return
        self._forward(task, status)
        if self.duplicate > 0:
            self.duplicate -= 1
            self._forward(task, status)

    def _late(self, task: Task, status: pb.TaskStatus) -> None:
        """Updates of tasks that were settled in the meantime are dropped, as by a master."""
        if task.pending and task.pending[0].uuid == status.uuid:
            self._forward(task, status)
