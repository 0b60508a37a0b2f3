"""Which builder makes the launch of a taskgroup: what runs it was decided when it was placed."""

from __future__ import annotations

from bcs_scheduler.core.effects import Launch
from bcs_scheduler.mesos.executorinfo import ExecutorBuilder, ExecutorOptions
from bcs_scheduler.mesos.taskinfo import DefaultExecutorBuilder, LaunchGroup, TaskBuilder
from store.records import Executor


class AnyExecutorBuilder:
    """A TaskBuilder for every kind of executor. For one thread."""

    def __init__(self, options: ExecutorOptions) -> None:
        self._builders: dict[Executor, TaskBuilder] = {
            "bcs": ExecutorBuilder(options),
            "mesos": DefaultExecutorBuilder(),
        }

    def build(self, launch: Launch, framework_id: str, group: LaunchGroup) -> None:
        self._builders[launch.taskgroup.executor].build(launch, framework_id, group)
