"""ACCEPT: from offers and operations to running tasks, or to the updates a real master sends instead."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from uuid import uuid4

from bcs_scheduler.local.master import operations, validation
from bcs_scheduler.local.master.launch_plan import Launch, LaunchPlan
from bcs_scheduler.local.master.offers import Offers
from bcs_scheduler.local.master.tasks import Tasks
from bcs_scheduler.local.objects.model import TERMINAL, Agent, Executor, Framework, Task
from bcs_scheduler.local.objects.resources import sum_of
from bcs_scheduler.mesos.proto import mesos_pb2 as pb
from bcs_scheduler.mesos.proto import scheduler_pb2

log = logging.getLogger(__name__)

LAUNCHES = (pb.Offer.Operation.LAUNCH, pb.Offer.Operation.LAUNCH_GROUP)


def accept(offers: Offers, tasks: Tasks, framework: Framework, call: scheduler_pb2.Call.Accept) -> None:
    """Everything is checked before anything is changed, and all amounts are accounted for before an agent begins to
    launch: an exception on the way leaves the offers as they were."""
    ids = [offer_id.value for offer_id in call.offer_ids]
    if error := validation.offers(ids, offers.known, framework):
        _drop(offers, tasks, framework, call, ids, error)
        return
    accepted = [offers.known[offer_id] for offer_id in ids]
    agent, role = accepted[0].agent, accepted[0].role
    plan = LaunchPlan(framework, agent, role, sum_of(offer.amounts for offer in accepted))
    for operation in call.operations:
        plan.add(operation)
    for offer in accepted:
        offers.remove(offer)
    for _, conversions in plan.conversions:
        for consumed, converted in conversions:
            agent.convert(consumed, converted)
    registered = [(*_register(framework, agent, launch), launch.group) for launch in plan.launches]
    offers.recover(framework, role, agent, plan.left, call.filters.refuse_seconds)
    for operation, message in plan.dropped:
        operations.dropped(framework, operation, message)
    for operation, _ in plan.conversions:
        operations.finished(framework, operation, agent)
    for refused, message, reason in plan.refusals:
        _answer(tasks, framework, refused, pb.TASK_ERROR, message, reason)
    for executor, started, group in registered:
        _start(tasks, executor, started, group=group)


def _drop(
    offers: Offers,
    tasks: Tasks,
    framework: Framework,
    call: scheduler_pb2.Call.Accept,
    ids: Iterable[str],
    error: str,
) -> None:
    """Of an ACCEPT with invalid offers nothing is launched, and those that are valid are given back."""
    for offer_id in ids:
        offer = offers.known.get(offer_id)
        if offer is not None:
            offers.discard(offer)
    state = pb.TASK_DROPPED if framework.partition_aware else pb.TASK_LOST
    for operation in call.operations:
        if operation.type in LAUNCHES:
            message = f"Task launched with invalid offers: {error}"
            _answer(tasks, framework, _infos(operation), state, message, pb.TaskStatus.REASON_INVALID_OFFERS)
        else:
            operations.dropped(framework, operation, error)


def _infos(operation: pb.Offer.Operation) -> Iterable[pb.TaskInfo]:
    if operation.type == pb.Offer.Operation.LAUNCH:
        return operation.launch.task_infos
    return operation.launch_group.task_group.tasks


def _answer(
    tasks: Tasks, framework: Framework, infos: Iterable[pb.TaskInfo], state: int, message: str, reason: int
) -> None:
    for info in infos:
        tasks.master_status(framework, info.task_id.value, state, message, reason, agent_id=info.agent_id.value)


def _register(framework: Framework, agent: Agent, launch: Launch) -> tuple[Executor, list[Task]]:
    executor = agent.executors.get((framework.id, launch.executor.executor_id.value))
    if executor is None:
        executor = Executor(framework, agent, launch.executor, launch.amounts, str(uuid4()), is_command=launch.command)
        agent.executors[framework.id, executor.id] = executor
    tasks = [Task(framework, agent, executor, info, amounts) for info, amounts in launch.tasks]
    for task in tasks:
        framework.tasks[task.id] = task
        agent.tasks[framework.id, task.id] = task
        executor.tasks[task.id] = task
    return executor, tasks


def _start(tasks: Tasks, executor: Executor, started: list[Task], *, group: bool) -> None:
    """An agent that fails costs these tasks only: they have failed, and their amounts are free again."""
    try:
        executor.agent.launch(executor, started, group=group)
    except Exception as error:
        log.exception("agent %s could not launch executor %s", executor.agent.spec.hostname, executor.id)
        for task in started:
            executor.tasks.pop(task.id, None)
            if task.latest not in TERMINAL:
                tasks.task_status(
                    task, pb.TASK_FAILED, message=f"Failed to launch container: {type(error).__name__}",
                    reason=pb.TaskStatus.REASON_CONTAINER_LAUNCH_FAILED, source=pb.TaskStatus.SOURCE_AGENT,
                )  # fmt: skip
        if not executor.tasks:
            tasks.executor_exited(executor, -1)
