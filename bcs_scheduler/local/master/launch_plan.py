"""The plan of an ACCEPT: the launches and the refusals of its operations. Planning changes no state."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from itertools import combinations
from typing import NamedTuple

from bcs_scheduler.local.errors import InvalidResources
from bcs_scheduler.local.master import operations, validation
from bcs_scheduler.local.objects.model import Agent, Framework
from bcs_scheduler.local.objects.resources import Amounts
from bcs_scheduler.mesos.proto import mesos_pb2 as pb

log = logging.getLogger(__name__)

SHOWN_COMMAND = 15
"""Characters of a command in the name of its executor; of a longer one the first twelve are shown, as by Mesos."""


class Refused(Exception):
    """A task or task group cannot be launched; the message says why."""


class Launch(NamedTuple):
    """Tasks with their amounts for one executor. `amounts` are those of the executor; they are zero if it runs already.
    `command`: a task without an executor of the framework's own."""

    executor: pb.ExecutorInfo
    amounts: Amounts
    tasks: Sequence[tuple[pb.TaskInfo, Amounts]]
    group: bool = False
    command: bool = False


class Refusal(NamedTuple):
    """Tasks that get TASK_ERROR with this message and reason."""

    tasks: Sequence[pb.TaskInfo]
    message: str
    reason: int


class LaunchPlan:
    """`left`: the remainder of the offered amounts. Operations see the tasks and executors of the operations before
    them."""

    def __init__(self, framework: Framework, agent: Agent, role: str, offered: Amounts) -> None:
        self.left = offered
        self.launches: list[Launch] = []
        self.refusals: list[Refusal] = []
        self.conversions: list[tuple[pb.Offer.Operation, list[operations.Conversion]]] = []
        self.dropped: list[tuple[pb.Offer.Operation, str]] = []
        """Operations other than launches that are refused, with the reasons."""
        self._framework = framework
        self._agent = agent
        self._role = role
        self._tasks: set[str] = set()
        self._executors: dict[str, pb.ExecutorInfo] = {}
        """Of the plan itself, by id."""

    def add(self, operation: pb.Offer.Operation) -> None:
        if operation.type == pb.Offer.Operation.LAUNCH_GROUP:
            self._add_group(operation)
        elif operation.type == pb.Offer.Operation.LAUNCH:
            for info in operation.launch.task_infos:
                self._add_task(info, operation)
        elif operations.is_conversion(operation):
            self._add_conversion(operation)
        else:
            log.warning("operation %s is not supported and dropped", pb.Offer.Operation.Type.Name(operation.type))

    def _running(self, executor_id: str) -> pb.ExecutorInfo | None:
        """The executor of this id that runs on the agent, or will before this operation."""
        executor = self._agent.executors.get((self._framework.id, executor_id))
        return executor.info if executor is not None else self._executors.get(executor_id)

    def _take(self, launch: Launch, total: Amounts) -> None:
        self.left = self.left - total
        self.launches.append(launch)
        self._executors[launch.executor.executor_id.value] = launch.executor
        self._tasks.update(info.task_id.value for info, _ in launch.tasks)

    # --- RESERVE, UNRESERVE ---

    def _add_conversion(self, operation: pb.Offer.Operation) -> None:
        try:
            conversions = operations.of_framework(operation, self._framework, self._agent, self._role)
            self.left = operations.applied(self.left, conversions, self._role)
        except operations.InvalidOperation as error:
            self.dropped.append((operation, str(error)))
            return
        self.conversions.append((operation, conversions))

    # --- LAUNCH_GROUP ---

    def _add_group(self, operation: pb.Offer.Operation) -> None:
        group = operation.launch_group
        try:
            if operation.HasField("id"):
                raise Refused("The `id` field cannot be set on LAUNCH_GROUP operations")
            executor_amounts, task_amounts = self._check_group(group)
            if self._running(group.executor.executor_id.value) is not None:
                executor_amounts = Amounts()
            total = sum(task_amounts, executor_amounts)
            if not self.left.contains(total):
                raise Refused(
                    f"Total resources {total} required by task group and its executor are more than available "
                    f"{self.left}"
                )
        except (Refused, InvalidResources) as error:
            reason = pb.TaskStatus.REASON_TASK_GROUP_INVALID
            self.refusals.append(Refusal(group.task_group.tasks, str(error), reason))
            return
        tasks = list(zip(group.task_group.tasks, task_amounts, strict=True))
        self._take(Launch(group.executor, executor_amounts, tasks, group=True), total)

    def _check_group(self, group: pb.Offer.Operation.LaunchGroup) -> tuple[Amounts, list[Amounts]]:
        """Amounts of the executor and of each task. Raises Refused or InvalidResources."""
        executor = group.executor
        inject_role(executor.resources, self._role)
        task_amounts = []
        seen: set[str] = set()
        for info in group.task_group.tasks:
            name = info.task_id.value
            if info.HasField("executor"):
                inject_role(info.executor.resources, self._role)
            try:
                amounts = self._check_task(info)
            except (Refused, InvalidResources) as error:
                raise Refused(f"Task '{name}' is invalid: {error}") from None
            complaint = validation.group_task(info, executor)
            if complaint is None and name in seen:
                complaint = f"Task has duplicate ID: {name}"
            if complaint:
                raise Refused(f"Task '{name}' is invalid: {complaint}")
            seen.add(name)
            task_amounts.append(amounts)
        executor_amounts = self._check_executor(executor)
        if complaint := validation.group_executor(executor, executor_amounts):
            raise Refused(complaint)
        if any(a.overlaps(b) for a, b in combinations([executor_amounts, *task_amounts], 2) if a.ranges and b.ranges):
            raise Refused(
                "There are overlapping resources in the task group's task resources and/or executor resources"
            )
        return executor_amounts, task_amounts

    def _check_task(self, info: pb.TaskInfo) -> Amounts:
        """One task, apart from its executor. Raises Refused or InvalidResources."""
        inject_role(info.resources, self._role)
        amounts = validation.parse(info.resources, "Task")
        complaint = validation.task(info, self._framework, self._agent)
        if complaint is None and info.task_id.value in self._tasks:
            complaint = f"Task has duplicate ID: {info.task_id.value}"
        complaint = complaint or _allocated("task", self._role, info.resources)
        if complaint:
            raise Refused(complaint)
        return amounts

    def _check_executor(self, info: pb.ExecutorInfo) -> Amounts:
        """Its amounts. Raises Refused or InvalidResources."""
        amounts = validation.parse(info.resources, "Executor")
        complaint = validation.executor(info, self._framework, self._running(info.executor_id.value))
        complaint = complaint or _allocated("executor", self._role, info.resources)
        if complaint:
            raise Refused(complaint)
        return amounts

    # --- LAUNCH ---

    def _add_task(self, info: pb.TaskInfo, operation: pb.Offer.Operation) -> None:
        """With a custom executor, or a command that gets an executor of its own."""
        try:
            if operation.HasField("id"):
                raise Refused("The `id` field cannot be set on LAUNCH operations")
            launch = self._check_single(info)
            total = sum((amounts for _, amounts in launch.tasks), launch.amounts)
            if not self.left.contains(total):
                raise Refused(
                    f"Total resources {total} required by task and its executor is more than available {self.left}"
                )
        except (Refused, InvalidResources) as error:
            self.refusals.append(Refusal([info], str(error), pb.TaskStatus.REASON_TASK_INVALID))
            return
        self._take(launch, total)

    def _check_single(self, info: pb.TaskInfo) -> Launch:
        """Raises Refused or InvalidResources."""
        amounts = self._check_task(info)
        if info.HasField("executor") == info.HasField("command"):
            raise Refused("Task should have at least one (but not both) of CommandInfo or ExecutorInfo present")
        if info.HasField("command"):
            return self._command(info, amounts)
        executor = info.executor
        inject_role(executor.resources, self._role)
        if not executor.HasField("framework_id"):
            executor.framework_id.value = self._framework.id
        executor_amounts = self._check_executor(executor)
        if executor.HasField("type") and executor.type != pb.ExecutorInfo.CUSTOM:
            raise Refused("'ExecutorInfo.type' must be 'CUSTOM'")
        if not executor.HasField("command"):
            raise Refused("'ExecutorInfo.command' must be set")
        if amounts.overlaps(executor_amounts):
            raise Refused("There are overlapping resources in the task resources and executor resources")
        if self._running(executor.executor_id.value) is not None:
            executor_amounts = Amounts()
        return Launch(executor, executor_amounts, [(info, amounts)])

    def _command(self, info: pb.TaskInfo, amounts: Amounts) -> Launch:
        """Its executor has the id of the task. If the framework has an executor of this id on the agent, that gets the
        task, as from a real agent."""
        running = self._running(info.task_id.value)
        if running is not None:
            return Launch(running, Amounts(), [(info, amounts)])
        return Launch(command_executor(info, self._framework.id), Amounts(), [(info, amounts)], command=True)


def command_executor(info: pb.TaskInfo, framework_id: str) -> pb.ExecutorInfo:
    """The executor that an agent makes for a command. Its resources are zero: the resources that Mesos adds for it
    belong to the agent."""
    command, task_id = info.command, info.task_id.value
    value = command.value if len(command.value) <= SHOWN_COMMAND else f"{command.value[: SHOWN_COMMAND - 3]}..."
    shown = f"sh -c '{value}'" if command.shell else f"[{', '.join([command.value, *command.arguments])}]"
    executor = pb.ExecutorInfo(source=task_id, name=f"Command Executor (Task: {task_id}) (Command: {shown})")
    executor.executor_id.value = task_id
    executor.framework_id.value = framework_id
    return executor


def inject_role(messages: Iterable[pb.Resource], role: str) -> None:
    """The master fills in the offer's role where a call leaves the allocation out."""
    for message in messages:
        if not message.HasField("allocation_info"):
            message.allocation_info.role = role


def _allocated(who: str, role: str, messages: Iterable[pb.Resource]) -> str | None:
    error = validation.allocated_to(role, messages)
    return f"Invalid {who} resources: {error}" if error else None
