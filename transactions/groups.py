"""Making, ending and removing taskgroups: the record side of it. Launching and killing follow from the records."""

from __future__ import annotations

import msgspec

from offers.model import Placement
from store.definition import AttributeValue
from store.ids import TaskGroupId
from store.records import Application, BoundPort, Executor, Remnant, Task, TaskGroup, Transaction, Version
from transactions import health, lifecycle, needs
from transactions.base import Context, Slot


def build(
    ctx: Context,
    application: Application,
    version: Version,
    slot: Slot,
    placement: Placement,
    transaction: Transaction | None = None,
) -> TaskGroup:
    """Writes the record of a new taskgroup (status Staging) on the agent of the placement and removes the one it
    replaces. The id is new, the index stays. `transaction`: the RESCHEDULE of the old taskgroup, whose record remembers
    the tasks that may be left; None = a Remnant remembers them."""
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
        resources=needs.amounts(version),
        extended=needs.extended(version),
        attributes=_attributes(version, placement),
        created_at=ctx.now,
        updated_at=ctx.now,
    )
    if old is not None:
        _forget(ctx, old, transaction)
        ctx.tell("taskgroup", old.id, "replaced", f"replaced by {group.id}")
    words = f"on {group.hostname}, version {version.name}" + (f", replaces {old.id}" if old is not None else "")
    ctx.tell("taskgroup", group.id, "placed", words, transaction=placement.demand)
    return ctx.uow.put(group)


def _executor(ctx: Context, application: Application, version: Version) -> Executor:
    """Host processes are driven by commands of their own, which only our executor knows."""
    processes = application.type == "process" or any(container.process is not None for container in version.containers)
    return "bcs" if processes else version.executor or ctx.executor


def _tasks(version: Version, taskgroup: TaskGroupId, placement: Placement, now: float) -> tuple[Task, ...]:
    drawn = iter(placement.ports)
    tasks = []
    for number, container in enumerate(version.containers):
        ports = []
        for port in container.ports:
            host = next(drawn) if needs.is_random(version, port) else needs.fixed_port(version, port)
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


def _attributes(version: Version, placement: Placement) -> dict[str, AttributeValue]:
    names = {c.name for union in version.constraints for c in union if c.operator in ("UNIQUE", "MAXPER", "GROUPBY")}
    found: dict[str, AttributeValue] = {}
    for name in sorted(names):
        value = placement.attributes.get(name)
        if isinstance(value, str):
            found[name] = AttributeValue(text=value)
        elif isinstance(value, int | float):
            found[name] = AttributeValue(number=float(value))
    return found


def beyond(application: Application, index: int) -> bool:
    """The application does not want an index as high as this. On the sides of a rolling update and for daemonsets the
    indexes say nothing."""
    return not application.rolling and application.type != "daemonset" and index >= application.instances


def still_open(ctx: Context, application: str, slot: Slot) -> bool:
    """Nobody else has filled the slot since the demand was made: the last word on "one taskgroup per index"."""
    if slot.replaces:
        return slot.replaces in ctx.state.taskgroups
    return slot.index not in ctx.state.indexes_of(application)


def end(ctx: Context, group: TaskGroup, reason: str) -> TaskGroup:
    """Marks a taskgroup as unwanted; the core then kills it (and repeats that) until it has ended."""
    if group.killing_since or group.ended:
        return group
    ctx.tell("taskgroup", group.id, "kill", reason)
    return ctx.uow.put(msgspec.structs.replace(group, killing_since=ctx.now, kill_reason=reason))


def choose(ctx: Context, group: TaskGroup) -> TaskGroup:
    """Marks a taskgroup as one that a rolling update removes, whatever it was to end for before."""
    if group.kill_reason == lifecycle.ROLLED:
        return group
    ctx.tell("taskgroup", group.id, "kill", lifecycle.ROLLED)
    since = group.killing_since or ctx.now
    return ctx.uow.put(msgspec.structs.replace(group, killing_since=since, kill_reason=lifecycle.ROLLED))


def remove(ctx: Context, group: TaskGroup, reason: str) -> None:
    """Removes the record of a taskgroup. What may be left of the taskgroup is killed until it is known to be gone."""
    ctx.tell("taskgroup", group.id, "removed", reason)
    _forget(ctx, group)


def _forget(ctx: Context, group: TaskGroup, transaction: Transaction | None = None) -> None:
    """Removes the record. The tasks that may still run stay recorded, until they are known to be gone: in the
    transaction, which is written in the same unit anyway, or in a record of their own."""
    ctx.uow.delete(group)
    tasks = tuple([task.id for task in group.tasks if not task.ended])
    if tasks and transaction is not None:
        ctx.uow.put(msgspec.structs.replace(transaction, left_agent=group.agent_id, left_tasks=tasks))
    elif tasks:
        ctx.uow.put(Remnant(id=group.id, agent_id=group.agent_id, tasks=tasks, since=ctx.now))
