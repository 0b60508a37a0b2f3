"""Series of hierarchical queues, in the families of the other queues: names are full names of the tree.

Amounts are those of each queue with the queues below. Numbers of taskgroups and applications belong to the leaves, so
that sums count nothing twice.
"""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client.core import GaugeMetricFamily

from bcs_scheduler.core.placement.hierarchy.figures import TreeFigures, TreeQueueFigures
from bcs_scheduler.observability.exposition import PREFIX
from offers.dimensions import recorded
from offers.policy.hierarchy.configuration.partition import ROOT

COUNTED = ("cpus", "mem")


def tree_series(tree: TreeFigures) -> Iterator[GaugeMetricFamily]:
    """All gauges of a tree."""
    labels = ("queue", "role", "resource")
    used = _family("queue_used", "Resources that the taskgroups of a queue hold", *labels)
    wanted = _family("queue_wanted", "Resources of the taskgroups that wait for a place", *labels)
    guarantee = _family("queue_guarantee", "Amounts towards which a queue may preempt", "queue", "resource")
    most = _family("queue_capability", "The most that a queue may have; none: not limited", "queue", "resource")
    groups = _family("queue_taskgroups", "Taskgroups of a queue that have not ended", "queue")
    pending = _family("queue_pending_taskgroups", "Taskgroups that wait for a place, by the reason", "queue", "reason")
    applications = _family("queue_running_applications", "Applications of a queue that have taskgroups", "queue")
    halted = _family("queue_halted", "1 if an operator has stopped the queue or lets it drain, else 0", "queue")
    for each in tree.queues:
        for role in each.used:
            for resource in COUNTED:
                # A queue without taskgroups has nothing; without the series, rules could not compare.
                _add(used, [each.name, role], resource, each.used[role].get(resource, 0))
                _add(wanted, [each.name, role], resource, each.wanted[role].get(resource, 0))
        for family, amounts in ((guarantee, each.guaranteed), (most, each.max)):
            for resource, amount in amounts.items():
                _add(family, [each.name], resource, amount)
        halted.add_metric([each.name], int(each.state != "Active"))
        if each.is_leaf:
            groups.add_metric([each.name], each.taskgroups)
            applications.add_metric([each.name], each.running)
        for reason, number in _own(each).items():
            pending.add_metric([each.name, reason], number)
    revision = _family("queue_tree_revision", "Revision of the tree of queues that counts; 0: nothing is stored")
    revision.add_metric([], tree.revision.number if tree.revision is not None else 0)
    yield from (used, wanted, guarantee, most, groups, pending, applications, halted, revision)


def _own(queue: TreeQueueFigures) -> dict[str, int]:
    """Taskgroups that wait in the queue itself; root has those of applications that no queue takes."""
    if queue.is_leaf:
        return dict(queue.pending)
    return {reason: number for reason, number in queue.pending.items() if queue.name == ROOT and reason == "no_queue"}


def _add(family: GaugeMetricFamily, labels: list[str], resource: str, amount: int) -> None:
    family.add_metric([*labels, resource], recorded(resource).displayed(amount))


def _family(name: str, documentation: str, *labels: str) -> GaugeMetricFamily:
    return GaugeMetricFamily(PREFIX + name, documentation, labels=labels)
