"""Tasks and agents of snapshots as a tree has them, and victims and causes of a tree as the core has them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from bcs_scheduler.core.placement.snapshots.pending import REPLACES, demand_of
from offers.dimensions import Amounts
from offers.model import HeldBack
from offers.policy.amounts import Vector
from offers.policy.hierarchy.configuration.partition import Partition
from offers.policy.hierarchy.explanation import Cause
from offers.policy.hierarchy.state.model import Allocation, Ask, Preemption
from offers.policy.hierarchy.tree import Tree
from offers.policy.session.decisions import Eviction
from offers.policy.session.model import Agent, Job, Status, Task
from offers.policy.session.snapshot import Snapshot
from offers.policy.waiting import WaitCode

QUEUE_HOLDS = frozenset(
    {
        WaitCode.QUEUE_MAXIMUM,
        WaitCode.QUEUE_KEPT,
        WaitCode.QUEUE_APPLICATIONS,
        WaitCode.QUEUE_STOPPED,
        WaitCode.LIMIT_APPLICATIONS,
        WaitCode.LIMIT_RESOURCES,
    }
)


class Counted:
    """The resources that the queues and nodes of a tree count: CPU, memory, and those that its configuration names. The
    tree has them under the names of the configuration, in thousandths; snapshots have dimensions."""

    def __init__(self, names: Iterable[str], dimension: Callable[[str], str]) -> None:
        """`names`: of the resources. `dimension`: see `Source.dimension`."""
        self.names = frozenset(names)
        self.by_dimension: Mapping[str, str] = {dimension(name): name for name in sorted(self.names)}
        """The names by dimension."""
        self._is_renamed = any(dimension != name for dimension, name in self.by_dimension.items())

    def of(self, amounts: Amounts) -> Amounts:
        """The amounts that count, of amounts by dimension."""
        known = self.by_dimension
        counted = [(known[name], amount) for name, amount in amounts if name in known]
        if self._is_renamed:
            counted.sort()
        return tuple(counted)


def counted_with(tree: Tree, partition: Partition) -> frozenset[str]:
    """The resources that a tree counts with a configuration: those that it names, and those of the maxima of queues
    that are no longer configured and have applications."""
    return partition.resources.union(*[queue.max for queue in tree.queues.values()])


def ask_of(job: Job, task: Task, counted: Counted, age_of: Callable[[str], int]) -> Ask:
    """A task as the tree has it. Conditions on nodes matter only while the task waits. `age_of`: see `Source`."""
    pending = task.status is Status.PENDING
    created = age_of(demand_of(task.name)) / 1e9 if pending else task.created
    constraint, request = task.template if pending else None, counted.of(task.template.request)
    return Ask(
        job.name,
        safe(task.name),
        request,
        created,
        job.priority,
        constraint=constraint,
        may_preempt=job.preempts,
        preemptable=not task.critical,
        critical=task.critical,
        lasting=job.lasting,
        replaces=pending and task.created <= REPLACES,
        moves=pending and task.moves,
    )


def least_of(job: Job) -> int:
    """The number of allocations that a gang needs; 0: the job is no gang. Tasks on unreachable agents hold room and are
    no members."""
    return job.min_available + sum(task.status is Status.UNKNOWN for task in job.tasks) if job.min_available > 1 else 0


def same(before: Task, after: Task | None) -> bool:
    """True if the tree has nothing to change for the later task; None: the task is gone."""
    return after is not None and (before.template, before.agent) == (after.template, after.agent)


def sized_anew(
    known: Mapping[str, Agent], snapshot: Snapshot, agents: Iterable[str], counted: Counted
) -> dict[str, Vector]:
    """The counted sizes of those of the agents in a snapshot that are not known, or are known with other sizes."""
    vectors: dict[str, Vector] = {}
    for name in agents:
        if name in snapshot.rank:
            agent, before = snapshot.agents[snapshot.rank[name]], known.get(name)
            if before is not None and before.total == agent.total:
                continue
            size = counted.of(agent.total)
            if before is None or size != counted.of(before.total):
                vectors[name] = dict(size)
    return vectors


def safe(task: str) -> str:
    """The name of a task as a name of an ask: these have no slash, and names of slots have one."""
    return task.replace("/", "|")


def task_name(ask: str) -> str:
    """The name of the task of an ask."""
    return ask.replace("|", "/")


def evictions_of(tree: Tree, preemptions: Iterable[Preemption]) -> list[Eviction]:
    """The evictions of the victims of preemptions, which the tree has noted."""
    return [
        _eviction(tree, victim, preemption.ask.application)
        for preemption in preemptions
        for victim in preemption.victims
    ]


def given_back_of(tree: Tree, victims: Iterable[Allocation]) -> list[Eviction]:
    """The evictions of victims whose queue is above its maximum, which the tree has noted."""
    return [_eviction(tree, victim, "") for victim in victims]


def _eviction(tree: Tree, victim: Allocation, beneficiary: str) -> Eviction:
    owner = tree.applications[victim.ask.application]
    with_gang = owner.least > 1 and owner.leaving == len(owner.allocations)
    return Eviction(owner.name, victim.ask.name, victim.node, beneficiary, with_gang)


def held_back(cause: Cause, used: Amounts, most: Amounts) -> HeldBack:
    """The cause as the diagnosis of a demand has it. `used`, `most`: usage and maximum of the queue."""
    held = tuple(entry for entry in used if entry[1])
    return HeldBack(cause.where, True, held, most, cause.kind, cause.limit, cause.whose)
