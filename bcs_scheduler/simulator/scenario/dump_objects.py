"""The objects of a dump that are no workloads: agents, namespaces, queues, priority classes, and groups."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from bcs_scheduler.simulator.scenario.dump_format import Dump, DumpedAgent, Resources, extended, thousandths
from bcs_scheduler.simulator.scenario.model import PORTS, START, Machine
from offers.model import Attribute, Ranges
from offers.names import name_of
from offers.resources import normalise
from store.records import DEFAULT_QUEUE, AgentSetting, Limits, Namespace, PodGroup, PriorityClass, Queue, Record
from store.records.definition import Amounts

NONE = {"cpus": 0, "mem": 0, "disk": 0, "gpus": 0}


def objects_of(dump: Dump, agents: Iterable[DumpedAgent]) -> Iterator[Record]:
    """The records. `agents`: those that are active."""
    classes = tuple(one.name for one in dump.priority_classes)
    for space in dump.namespaces:
        yield Namespace(name=space.name, queue=space.queue, priority_classes=classes)
    for queue in dump.queues:
        if queue.recorded:
            yield Queue(
                name=queue.name,
                weight=queue.weight,
                guarantee=Amounts(**thousandths(queue.guarantee)),
                guarantee_extended=extended(queue.guarantee),
                capability=Limits(**thousandths(queue.capability)),
                capability_extended=extended(queue.capability),
                reclaimable=queue.reclaimable,
                priority=queue.priority,
            )
    recorded = {queue.name for queue in dump.queues if queue.recorded}
    for name in sorted({space.queue for space in dump.namespaces} - recorded - {"", DEFAULT_QUEUE}):
        yield Queue(name=name)  # a queue of the tree, which namespaces may name under other policies, too
    for one in dump.priority_classes:
        yield PriorityClass(
            name=one.name,
            value=one.value,
            global_default=one.global_default,
            preemption_policy=one.preemption_policy,
            created_at=START,
        )
    for group in dump.pod_groups:
        yield PodGroup(
            namespace=group.namespace,
            name=group.name,
            min_member=group.min_member,
            min_task_member=group.min_task_member,
            queue=group.queue,
            priority_class=group.priority_class,
            created_at=START,
        )
    yield from _settings(agents)


def _settings(agents: Iterable[DumpedAgent]) -> Iterator[Record]:
    for agent in agents:
        if agent.cordoned or agent.taints or agent.extended:
            yield AgentSetting(
                agent=name_of(agent.attributes, agent.hostname),
                disabled=agent.cordoned,
                taints=agent.taints,
                extended={name: round(amount * 1000) for name, amount in agent.extended.items()},
            )


def ports_of(dump: Dump) -> Ranges:
    """The ports of every agent: those of an agent whose ports are not known, and all that documents and tasks name."""
    fixed = {port for one in dump.demands or () for container in one.containers for port in container.host_ports}
    held = {port.host_port for group in dump.taskgroups for task in group.tasks for port in task.ports}
    return normalise((*PORTS, *((port, port) for port in (fixed | held) if port > 0)))


def machine_of(agent: DumpedAgent, held: Amounts, ports: Ranges) -> Machine:
    """An agent has at least the capacity that its taskgroups hold."""
    total = {name: max(amount, getattr(held, name)) for name, amount in agent.total.given().items()}
    attributes: dict[str, Attribute] = {
        name: tuple(value) if isinstance(value, list) else value for name, value in agent.attributes.items()
    }
    return Machine(agent.id, agent.hostname, attributes, total, ports, agent.ip)


def added(held: Amounts, more: Resources) -> Amounts:
    """The sum."""
    return Amounts(**{name: getattr(held, name) + amount for name, amount in {**NONE, **thousandths(more)}.items()})
