"""Series of hierarchical queues, in the families of the other queues: names are full names of the tree.

Amounts are those of each queue with the queues below. Numbers of taskgroups and applications belong to the leaves, so
that sums count nothing twice.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from prometheus_client.core import GaugeMetricFamily

from bcs_scheduler.core.placement.hierarchy.figures import TreeFigures, TreeQueueFigures
from bcs_scheduler.observability.exposition import PREFIX
from offers.dimensions import THOUSANDTHS, recorded
from offers.policy.hierarchy.configuration.partition import ROOT


class _Families:
    """Makes families of gauges, and adds values to them."""

    def __init__(self, partition: str | None) -> None:
        """`partition`: value of the label `partition`; None = the families do not have the label."""
        self._labels: tuple[str, ...] = () if partition is None else ("partition",)
        self._values: tuple[str, ...] = () if partition is None else (partition,)

    def family(self, name: str, documentation: str, *labels: str) -> GaugeMetricFamily:
        return GaugeMetricFamily(PREFIX + name, documentation, labels=(*labels, *self._labels))

    def add(self, family: GaugeMetricFamily, values: Iterable[str], number: float) -> None:
        family.add_metric([*values, *self._values], number)

    def add_amount(self, family: GaugeMetricFamily, values: Iterable[str], resource: str, amount: int) -> None:
        """`amount`: thousandths."""
        self.add(family, (*values, resource), recorded(resource).displayed(amount))


def tree_series(tree: TreeFigures, *, named: bool = False) -> Iterator[GaugeMetricFamily]:
    """All gauges of a tree. `named`: with the label `partition`, because queues of several trees may share names."""
    made = _Families(tree.name if named else None)
    labels = ("queue", "role", "resource")
    used = made.family("queue_used", "Resources that the taskgroups of a queue hold", *labels)
    wanted = made.family("queue_wanted", "Resources of the taskgroups that wait for a place", *labels)
    guarantee = made.family("queue_guarantee", "Amounts towards which a queue may preempt", "queue", "resource")
    most = made.family("queue_capability", "The most that a queue may have; none: not limited", "queue", "resource")
    groups = made.family("queue_taskgroups", "Taskgroups of a queue that have not ended", "queue")
    pending = made.family(
        "queue_pending_taskgroups", "Taskgroups that wait for a place, by the reason", "queue", "reason"
    )
    applications = made.family("queue_running_applications", "Applications of a queue that have taskgroups", "queue")
    halted = made.family("queue_halted", "1 if an operator has stopped the queue or lets it drain, else 0", "queue")
    counted = sorted({*THOUSANDTHS.names[:2], *(name for each in tree.queues for name in _named(each))})
    for each in tree.queues:
        for role in each.used:
            for resource in counted:
                # A queue without taskgroups has nothing; without the series, rules could not compare.
                made.add_amount(used, [each.name, role], resource, each.used[role].get(resource, 0))
                made.add_amount(wanted, [each.name, role], resource, each.waiting[role].get(resource, 0))
        for family, amounts in ((guarantee, each.guaranteed), (most, each.max)):
            for resource, amount in amounts.items():
                made.add_amount(family, [each.name], resource, amount)
        made.add(halted, [each.name], int(each.state != "Active"))
        if each.is_leaf:
            made.add(groups, [each.name], each.taskgroups)
            made.add(applications, [each.name], each.running)
        for reason, number in _own(each).items():
            made.add(pending, [each.name, reason], number)
    revision = made.family("queue_tree_revision", "Revision of the tree of queues that counts; 0: nothing is stored")
    made.add(revision, [], tree.revision.number if tree.revision is not None else 0)
    yield from (used, wanted, guarantee, most, groups, pending, applications, halted, revision)


def _named(queue: TreeQueueFigures) -> Iterator[str]:
    """The resources of a queue that it names, or that its taskgroups hold or wait for."""
    for amounts in (queue.guaranteed, queue.max, *queue.used.values(), *queue.waiting.values()):
        yield from amounts


def _own(queue: TreeQueueFigures) -> dict[str, int]:
    """Taskgroups that wait in the queue itself; root has those of applications that no queue takes."""
    if queue.is_leaf:
        return dict(queue.pending)
    return {reason: number for reason, number in queue.pending.items() if queue.name == ROOT and reason == "no_queue"}
