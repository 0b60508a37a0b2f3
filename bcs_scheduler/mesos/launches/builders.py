"""Chooses the builder of the launch of a taskgroup, by the executor that was chosen at its placement."""

from __future__ import annotations

from bcs_scheduler.core.interface.cluster_manager import Launch
from bcs_scheduler.mesos.launches.executor_info import ExecutorBuilder, ExecutorOptions
from bcs_scheduler.mesos.launches.task_info import DefaultExecutorBuilder, LaunchGroup, TaskBuilder
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
