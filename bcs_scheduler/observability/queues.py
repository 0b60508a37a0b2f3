"""Series of queues: counts of decisions of the policy, and gauges that are read from the live state at a scrape.

The series of a queue end with the queue. Without a policy of queues there are none.
"""

from __future__ import annotations

import threading
from collections import Counter as Tally
from collections.abc import Collection, Iterable, Iterator, Mapping

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

from bcs_scheduler.core.interface.effects import Observed
from bcs_scheduler.core.placement.queue_accounts import QueueFigures
from bcs_scheduler.leadership.listeners import Leading
from bcs_scheduler.observability.exposition import PREFIX
from bcs_scheduler.observability.queuetrees import tree_series
from bcs_scheduler.observability.series import Labels
from offers.dimensions import THOUSANDTHS, recorded
from store.records import DEFAULT_QUEUE

QUEUES: Mapping[str, int] = {"policy_decisions": 1, "queue_evictions": 2}
"""Counters (names of core.interface.effects.Observed), and how many of their first labels name queues."""


class QueueSeries(Collector):
    """Counters and gauges by queue. Any thread may call."""

    def __init__(self) -> None:
        self.leading: Leading | None = None
        self._lock = threading.Lock()
        self._counts: dict[str, Tally[Labels]] = {name: Tally() for name in QUEUES}

    def observe(self, observed: Observed) -> None:
        """Counts an event of a name in `QUEUES`."""
        with self._lock:
            self._counts[observed.name][observed.labels] += int(observed.value)

    def clear(self) -> None:
        """The term ends: counts belong to it."""
        with self._lock:
            for counts in self._counts.values():
                counts.clear()

    def collect(self) -> Iterator[CounterMetricFamily | GaugeMetricFamily]:
        leading = self.leading
        if leading is None:
            return
        turn = leading.core.turn_context
        shares = any(part.policy is not None for part in turn.options.parts())
        trees = [tree for name in list(turn.queues.trees) if (tree := turn.queues.tree(name)) is not None]
        if not trees and not shares:
            return
        several = len(trees) > 1
        figures = turn.queues.figures() if shares else []
        existing = {("", each) for each in (DEFAULT_QUEUE, *(each.queue.name for each in figures)) if shares}
        existing |= {(tree.name if several else "", each.name) for tree in trees for each in tree.queues}
        yield from self._counters(existing, several=several)
        of_trees = [family for tree in trees for family in tree_series(tree, named=several)]
        yield from _merged([*of_trees, *(_series(figures) if shares else ())])

    def _counters(self, existing: Collection[tuple[str, str]], *, several: bool) -> Iterator[CounterMetricFamily]:
        """`existing`: partition and name of queues. `several`: counts have the label of the partition at their end."""
        with self._lock:
            for name, counts in self._counts.items():
                for labels in [known for known in counts if not _exist(known, QUEUES[name], existing, several=several)]:
                    del counts[labels]
            decisions, evictions = (list(self._counts[name].items()) for name in QUEUES)
        more = ("partition",) if several else ()
        words = "Decisions of sessions: launch, promise of room"
        yield _counter("policy_decisions", words, ("queue", "decision", *more), decisions)
        words = "Taskgroups that were ended for others; preempt: of the same queue, reclaim: of another one"
        yield _counter("queue_evictions", words, ("queue", "beneficiary", "action", *more), evictions)


def _exist(labels: Labels, queues: int, existing: Collection[tuple[str, str]], *, several: bool) -> bool:
    """True if all queues that the labels of a count name exist."""
    partition = labels[-1] if several else ""
    return all((partition, queue) in existing for queue in labels[:queues])


def _merged(families: Iterable[GaugeMetricFamily]) -> Collection[GaugeMetricFamily]:
    """One family for each name: with several partitions of roles, queues of sessions and of trees share names."""
    found: dict[str, GaugeMetricFamily] = {}
    for family in families:
        known = found.setdefault(family.name, family)
        if known is not family:
            known.samples.extend(family.samples)
    return found.values()


def _series(figures: Collection[QueueFigures]) -> Iterator[GaugeMetricFamily]:
    yield from _settings(figures)
    yield from _amounts(figures)
    groups = _family("queue_taskgroups", "Taskgroups of a queue that have not ended", "queue")
    pending = _family("queue_pending_taskgroups", "Taskgroups that wait for a place, by the reason", "queue", "reason")
    for each in figures:
        groups.add_metric([each.queue.name], each.taskgroups)
        for reason, number in each.pending.items():
            pending.add_metric([each.queue.name, reason], number)
    yield groups
    yield pending


def _settings(figures: Collection[QueueFigures]) -> Iterator[GaugeMetricFamily]:
    weight = _family("queue_weight", "Weight of a queue", "queue")
    guarantee = _family("queue_guarantee", "Amounts that other queues cannot have", "queue", "resource")
    capability = _family("queue_capability", "The most that a queue may have; none: not limited", "queue", "resource")
    for each in figures:
        queue = each.queue
        weight.add_metric([queue.name], queue.weight)
        for family, amounts in ((guarantee, queue.guaranteed), (capability, queue.limits)):
            for resource, amount in sorted(amounts.items()):
                _add(family, [queue.name], resource, amount)
    yield weight
    yield guarantee
    yield capability


def _amounts(figures: Collection[QueueFigures]) -> Iterator[GaugeMetricFamily]:
    labels = ("queue", "role", "resource")
    used = _family("queue_used", "Resources of the taskgroups of a queue that have not ended", *labels)
    deserved = _family("queue_deserved", "Deserved share of a queue in the latest session", *labels)
    resources = sorted({*THOUSANDTHS.names, *(name for each in figures for name in _named(each))})
    for each in figures:
        for role in {**each.used, **each.deserved}:
            own = [each.queue.name, role]
            for resource in resources:
                # A queue without taskgroups has nothing; without the series, rules could not compare.
                _add(used, own, resource, each.used.get(role, {}).get(resource, 0))
            for resource, amount in each.deserved.get(role, {}).items():
                if resource in resources:
                    _add(deserved, own, resource, amount)
    yield used
    yield deserved


def _add(family: GaugeMetricFamily, labels: list[str], resource: str, amount: int) -> None:
    family.add_metric([*labels, resource], recorded(resource).displayed(amount))


def _named(figures: QueueFigures) -> set[str]:
    """The extended resources that a queue names, or that its taskgroups hold."""
    return {
        name for amounts in (figures.queue.guaranteed, figures.queue.limits, *figures.used.values()) for name in amounts
    }


def _family(name: str, documentation: str, *labels: str) -> GaugeMetricFamily:
    return GaugeMetricFamily(PREFIX + name, documentation, labels=labels)


def _counter(
    name: str, documentation: str, labels: tuple[str, ...], counts: list[tuple[Labels, int]]
) -> CounterMetricFamily:
    family = CounterMetricFamily(PREFIX + name, documentation, labels=labels)
    for values, count in counts:
        family.add_metric(list(values), count)
    return family
