"""ACCEPT: from offers and operations to running tasks, or to the updates a real master sends instead."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from itertools import combinations
from typing import TYPE_CHECKING
from uuid import uuid4

from bcs_scheduler.local import validation
from bcs_scheduler.local.agent import Agent
from bcs_scheduler.local.errors import InvalidResources
from bcs_scheduler.local.model import Executor, Framework, Task
from bcs_scheduler.local.resources import Amounts
from bcs_scheduler.mesos.proto import mesos_pb2 as pb
from bcs_scheduler.mesos.proto import scheduler_pb2

if TYPE_CHECKING:
    from bcs_scheduler.local.master import Master

log = logging.getLogger(__name__)

LAUNCHES = (pb.Offer.Operation.LAUNCH, pb.Offer.Operation.LAUNCH_GROUP)


class Refused(Exception):
    """A task or task group cannot be launched; the message says why."""


def accept(master: Master, framework: Framework, call: scheduler_pb2.Call.Accept) -> None:
    ids = [offer_id.value for offer_id in call.offer_ids]
    known = master.offers.known
    if error := validation.offers(ids, known, framework):
        _drop(master, framework, call, ids, error)
        return
    offers = [known[offer_id] for offer_id in ids]
    agent, role = offers[0].agent, offers[0].role
    offered = Amounts()
    for offer in offers:
        offered = offered + offer.amounts
        master.offers.remove(offer)
    left = offered
    for operation in call.operations:
        if operation.type == pb.Offer.Operation.LAUNCH_GROUP:
            left = _launch_group(master, framework, agent, role, operation, left)
        elif operation.type == pb.Offer.Operation.LAUNCH:
            for info in operation.launch.task_infos:
                left = _launch(master, framework, agent, role, info, operation, left)
        else:
            log.warning("operation %s is not supported and dropped", pb.Offer.Operation.Type.Name(operation.type))
    master.offers.recover(framework, role, agent, left, call.filters.refuse_seconds)


def _drop(
    master: Master, framework: Framework, call: scheduler_pb2.Call.Accept, ids: Iterable[str], error: str
) -> None:
    """Of an ACCEPT with invalid offers nothing is launched, and those that are valid are given back."""
    for offer_id in ids:
        offer = master.offers.known.get(offer_id)
        if offer is not None:
            master.offers.discard(offer)
    state = pb.TASK_DROPPED if framework.partition_aware else pb.TASK_LOST
    for operation in call.operations:
        if operation.type in LAUNCHES:
            message = f"Task launched with invalid offers: {error}"
            _answer(master, framework, _tasks(operation), state, message, pb.TaskStatus.REASON_INVALID_OFFERS)


def _tasks(operation: pb.Offer.Operation) -> Iterable[pb.TaskInfo]:
    if operation.type == pb.Offer.Operation.LAUNCH:
        return operation.launch.task_infos
    return operation.launch_group.task_group.tasks


def _answer(
    master: Master, framework: Framework, tasks: Iterable[pb.TaskInfo], state: int, message: str, reason: int
) -> None:
    for info in tasks:
        master.tasks.master_status(framework, info.task_id.value, state, message, reason, agent_id=info.agent_id.value)


def _launch_group(
    master: Master, framework: Framework, agent: Agent, role: str, operation: pb.Offer.Operation, left: Amounts
) -> Amounts:
    group = operation.launch_group
    try:
        if operation.HasField("id"):
            raise Refused("The `id` field cannot be set on LAUNCH_GROUP operations")
        executor_amounts, task_amounts = _check_group(framework, agent, role, group)
        executor = agent.executors.get((framework.id, group.executor.executor_id.value))
        total = sum(task_amounts, Amounts())
        if executor is None:
            total = total + executor_amounts
        if not left.contains(total):
            raise Refused(
                f"Total resources {total} required by task group and its executor are more than available {left}"
            )
    except (Refused, InvalidResources) as error:
        _answer(
            master, framework, group.task_group.tasks, pb.TASK_ERROR, str(error),
            pb.TaskStatus.REASON_TASK_GROUP_INVALID,
        )  # fmt: skip
        return left
    if executor is None:
        executor = _new_executor(framework, agent, group.executor, executor_amounts)
    _start(framework, agent, executor, zip(group.task_group.tasks, task_amounts, strict=True), group=True)
    return left - total


def _check_group(
    framework: Framework, agent: Agent, role: str, group: pb.Offer.Operation.LaunchGroup
) -> tuple[Amounts, list[Amounts]]:
    """Amounts of the executor and of each task. Raises Refused or InvalidResources."""
    executor = group.executor
    inject_role(executor.resources, role)
    task_amounts = []
    seen: set[str] = set()
    for info in group.task_group.tasks:
        inject_role(info.resources, role)
        if info.HasField("executor"):
            inject_role(info.executor.resources, role)
        try:
            amounts = validation.parse(info.resources, "Task")
        except InvalidResources as error:
            raise Refused(f"Task '{info.task_id.value}' is invalid: {error}") from None
        complaint = validation.task(info, framework, agent) or _allocated("task", role, info.resources)
        complaint = complaint or validation.group_task(info, executor)
        if complaint:
            raise Refused(f"Task '{info.task_id.value}' is invalid: {complaint}")
        if info.task_id.value in seen:
            raise Refused(f"Task '{info.task_id.value}' is invalid: Task has duplicate ID: {info.task_id.value}")
        seen.add(info.task_id.value)
        task_amounts.append(amounts)
    executor_amounts = validation.parse(executor.resources, "Executor")
    complaint = (
        validation.executor(executor, framework, agent)
        or _allocated("executor", role, executor.resources)
        or validation.group_executor(executor, executor_amounts)
    )
    if complaint:
        raise Refused(complaint)
    if any(a.overlaps(b) for a, b in combinations([executor_amounts, *task_amounts], 2) if a.ranges and b.ranges):
        raise Refused("There are overlapping resources in the task group's task resources and/or executor resources")
    return executor_amounts, task_amounts


def _launch(
    master: Master, framework: Framework, agent: Agent, role: str, info: pb.TaskInfo,
    operation: pb.Offer.Operation, left: Amounts,
) -> Amounts:  # fmt: skip
    """One task of a LAUNCH: with a custom executor, or a command that gets an executor of its own."""
    try:
        if operation.HasField("id"):
            raise Refused("The `id` field cannot be set on LAUNCH operations")
        amounts, executor_amounts = _check_single(framework, agent, role, info)
        executor_id = info.executor.executor_id.value or info.task_id.value
        executor = agent.executors.get((framework.id, executor_id))
        total = amounts if executor is not None else amounts + executor_amounts
        if not left.contains(total):
            raise Refused(f"Total resources {total} required by task and its executor is more than available {left}")
    except (Refused, InvalidResources) as error:
        _answer(master, framework, [info], pb.TASK_ERROR, str(error), pb.TaskStatus.REASON_TASK_INVALID)
        return left
    if executor is None:
        executor_info = info.executor
        if not info.HasField("executor"):
            executor_info = pb.ExecutorInfo(framework_id=info.executor.framework_id)
            executor_info.executor_id.value = executor_id
            executor_info.framework_id.value = framework.id
        executor = _new_executor(framework, agent, executor_info, executor_amounts)
    _start(framework, agent, executor, [(info, amounts)], group=False)
    return left - total


def _check_single(framework: Framework, agent: Agent, role: str, info: pb.TaskInfo) -> tuple[Amounts, Amounts]:
    inject_role(info.resources, role)
    amounts = validation.parse(info.resources, "Task")
    error = validation.task(info, framework, agent) or _allocated("task", role, info.resources)
    if error:
        raise Refused(error)
    if info.HasField("executor") == info.HasField("command"):
        raise Refused("Task should have at least one (but not both) of CommandInfo or ExecutorInfo present")
    if not info.HasField("executor"):
        return amounts, Amounts()
    executor = info.executor
    inject_role(executor.resources, role)
    if not executor.HasField("framework_id"):
        executor.framework_id.value = framework.id
    executor_amounts = validation.parse(executor.resources, "Executor")
    error = validation.executor(executor, framework, agent) or _allocated("executor", role, executor.resources)
    if error:
        raise Refused(error)
    if executor.HasField("type") and executor.type != pb.ExecutorInfo.CUSTOM:
        raise Refused("'ExecutorInfo.type' must be 'CUSTOM'")
    if not executor.HasField("command"):
        raise Refused("'ExecutorInfo.command' must be set")
    if amounts.overlaps(executor_amounts):
        raise Refused("There are overlapping resources in the task resources and executor resources")
    return amounts, executor_amounts


def inject_role(messages: Iterable[pb.Resource], role: str) -> None:
    """The master fills in the offer's role where a call leaves the allocation out."""
    for message in messages:
        if not message.HasField("allocation_info"):
            message.allocation_info.role = role


def _allocated(who: str, role: str, messages: Iterable[pb.Resource]) -> str | None:
    error = validation.allocated_to(role, messages)
    return f"Invalid {who} resources: {error}" if error else None


def _new_executor(framework: Framework, agent: Agent, info: pb.ExecutorInfo, amounts: Amounts) -> Executor:
    executor = Executor(framework, agent, info, amounts, str(uuid4()))
    agent.executors[framework.id, executor.id] = executor
    return executor


def _start(
    framework: Framework, agent: Agent, executor: Executor, tasks: Iterable[tuple[pb.TaskInfo, Amounts]], *, group: bool
) -> None:
    started = []
    for info, amounts in tasks:
        task = Task(framework, agent, executor, info, amounts)
        framework.tasks[task.id] = task
        agent.tasks[framework.id, task.id] = task
        executor.tasks[task.id] = task
        started.append(task)
    agent.launch(executor, started, group=group)
