"""Making, ending and removing taskgroups: the record side of it. Launching and killing follow from the records."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from offers.model import Placement
from store.ids import TaskGroupId
from store.records import (
    Application,
    BoundPort,
    EndCause,
    Executor,
    OrphanedTask,
    Task,
    TaskGroup,
    Version,
)
from store.records.definition import AttributeValue
from transactions import resource_request
from transactions.base import Context, Slot
from transactions.rules import endings, health
from transactions.rules.application_types import bound_to_agents

Remember = Callable[[TaskGroup, tuple[str, ...]], None]
"""Records which tasks may still run of a taskgroup whose record is removed, until they are known to be gone. Without
such a function, an OrphanedTask is written."""


def build(
    ctx: Context,
    application: Application,
    version: Version,
    slot: Slot,
    placement: Placement[Slot],
    remember: Remember | None = None,
) -> TaskGroup:
    """Writes the record of a new taskgroup (status Staging) on the agent of the placement and removes the one it
    replaces. The id is new, the index stays. `remember`: see `Remember`."""
    cluster = ctx.state.framework.cluster
    identity = TaskGroupId.make(slot.index, application.name, application.namespace, cluster, ctx.ids.next(ctx.now))
    old = ctx.state.taskgroups.get(slot.replaces) if slot.replaces else None
    group = TaskGroup(
        id=str(identity),
        namespace=application.namespace,
        application=application.name,
        index=slot.index,
        version=version.name,
        agent_id=placement.agent_id,
        hostname=placement.hostname,
        agent_ip=placement.ip,
        role=version.role or ctx.options.role,
        executor=_executor(ctx, application, version),
        message="all tasks are staging",
        tasks=_tasks(version, identity, placement, ctx.now),
        resources=resource_request.amounts(version, ctx.overhead),
        extended=resource_request.extended(version),
        attributes=_attributes(version, placement),
        created_at=ctx.now,
        updated_at=ctx.now,
    )
    if old is not None:
        _forget(ctx, old, remember)
        ctx.record_event("taskgroup", old.id, "TaskGroupReplaced", f"replaced on {group.hostname}")
    words = f"on {group.hostname}" + (f", replaces the one on {old.hostname}" if old is not None else "")
    ctx.record_event("taskgroup", group.id, "TaskGroupPlaced", words, transaction=placement.demand)
    return ctx.uow.put(group)


def _executor(ctx: Context, application: Application, version: Version) -> Executor:
    """Host processes are driven by commands of their own, which only our executor knows."""
    if application.type == "process":
        return "bcs"
    for container in version.containers:
        if container.process is not None:
            return "bcs"
    return version.executor or ctx.executor


def _tasks(version: Version, taskgroup: TaskGroupId, placement: Placement[Slot], now: float) -> tuple[Task, ...]:
    drawn = iter(placement.ports)
    tasks = []
    for number, container in enumerate(version.containers):
        ports = []
        for port in container.ports:
            host = (
                next(drawn) if resource_request.is_random(version, port) else resource_request.fixed_port(version, port)
            )
            inside = port.container_port if port.container_port > 0 and version.network_mode != "HOST" else host
            ports.append(BoundPort(name=port.name, protocol=port.protocol, container_port=inside, host_port=host))
        tasks.append(
            Task(
                id=str(taskgroup.task(number)),
                name=container.name or f"{version.application}-{number}",
                ports=tuple(ports),
                checks=health.unknown(container),
                updated_at=now,
            )
        )
    return tuple(tasks)


def _attributes(version: Version, placement: Placement[Slot]) -> dict[str, AttributeValue]:
    if not version.constraints:
        return {}
    names = {c.name for union in version.constraints for c in union if c.operator in ("UNIQUE", "MAXPER", "GROUPBY")}
    found: dict[str, AttributeValue] = {}
    for name in sorted(names):
        value = placement.attributes.get(name)
        if isinstance(value, str):
            found[name] = AttributeValue(text=value)
        elif isinstance(value, int | float):
            found[name] = AttributeValue(number=float(value))
    return found


def is_surplus(application: Application, index: int) -> bool:
    """Returns True if the index is higher than the application wants. Always False for the sides of a rolling update
    and for daemonsets, whose indexes have no meaning."""
    return not application.rolling and not bound_to_agents(application) and index >= application.instances


def still_open(ctx: Context, application: str, slot: Slot) -> bool:
    """Returns True if no transaction has filled the slot since the demand was made. This is the final test for "one
    taskgroup per index"."""
    if slot.replaces:
        wanted = ctx.state.applications.get(application)
        return slot.replaces in ctx.state.taskgroups and not (wanted is not None and is_surplus(wanted, slot.index))
    return slot.index not in ctx.state.indexes_of(application)


def end(ctx: Context, group: TaskGroup, cause: EndCause, detail: str = "") -> TaskGroup:
    """Marks a taskgroup as unwanted; the core then kills it, and repeats that until the taskgroup has ended. A
    taskgroup that is being ended or has ended is returned unchanged. `detail`: see
    `transactions.rules.endings.describe`."""
    if group.killing_since or group.ended:
        return group
    return replace_end_cause(ctx, group, cause, detail)


def replace_end_cause(ctx: Context, group: TaskGroup, cause: EndCause, detail: str = "") -> TaskGroup:
    """Like `end`, but also for a taskgroup that is being ended for another cause: the new cause replaces the old
    one."""
    if group.end_cause == cause:
        return group
    words = endings.describe(cause, detail)
    ctx.record_event("taskgroup", group.id, "TaskGroupEnding", words)
    since = group.killing_since or ctx.now
    return ctx.uow.put(msgspec.structs.replace(group, killing_since=since, end_cause=cause, kill_reason=words))


def remove(ctx: Context, group: TaskGroup, reason: str) -> None:
    """Removes the record of a taskgroup. Tasks that may still run are killed until they are known to be gone."""
    ctx.record_event("taskgroup", group.id, "TaskGroupRemoved", reason)
    _forget(ctx, group)


def _forget(ctx: Context, group: TaskGroup, remember: Remember | None = None) -> None:
    ctx.uow.delete(group)
    tasks = tuple([task.id for task in group.tasks if not task.ended])
    if tasks and remember is not None:
        remember(group, tasks)
    elif tasks:
        ctx.uow.put(OrphanedTask(id=group.id, agent_id=group.agent_id, tasks=tasks, since=ctx.now))
