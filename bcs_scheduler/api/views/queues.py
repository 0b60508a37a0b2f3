"""The use of queues beside their settings and shares."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

import msgspec

from bcs_scheduler.api.views.objects.queues import Amounts, show_amounts
from bcs_scheduler.api.views.usage import AllocatedView
from bcs_scheduler.core.placement.queue_accounts import QueueFigures
from offers.agents import ListedAgent
from offers.dimensions import THOUSANDTHS


class QueueUsage(msgspec.Struct, frozen=True, kw_only=True):
    """`used`: of the taskgroups that have not ended, `taskgroups` in number. `deserved`: the share in the latest
    session of each role, added up; null before the first session, and without a policy that divides the cluster.
    Amounts are by resource,
    extended ones among them. `pending`: taskgroups that wait for a place, by reason. `total`: of all agents of the
    cluster."""

    name: str
    weight: int
    taskgroups: int
    used: Amounts
    deserved: Amounts | None
    guarantee: Amounts
    capability: Amounts
    pending: dict[str, int]
    total: AllocatedView


def cluster_total(agents: Iterable[ListedAgent]) -> AllocatedView:
    """The sum over the agents of the cluster."""
    return _sum(agent.total for agent in agents)


def show_queue_usage(figures: QueueFigures, total: AllocatedView) -> QueueUsage:
    queue = figures.queue
    return QueueUsage(
        name=queue.name,
        weight=queue.weight,
        taskgroups=figures.taskgroups,
        used=_summed(figures.used.values()),
        deserved=_summed(figures.deserved.values()) if figures.deserved else None,
        guarantee=show_amounts(queue.guaranteed),
        capability=show_amounts(queue.limits),
        pending=dict(figures.pending.items()),
        total=total,
    )


def _summed(each: Iterable[Mapping[str, int]]) -> Amounts:
    """Sums by resource; the four scalars are always among them."""
    sums = Counter(dict.fromkeys(THOUSANDTHS.names, 0))
    for amounts in each:
        sums.update(amounts)
    return show_amounts(sums)


def _sum(each: Iterable[Mapping[str, int]]) -> AllocatedView:
    sums: Counter[str] = Counter()
    for amounts in each:
        sums.update(amounts)
    return AllocatedView(**{name: THOUSANDTHS.get(name).displayed(sums[name]) for name in THOUSANDTHS.names})
