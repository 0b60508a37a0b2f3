"""Runs of one scenario under several policies, and the figures that differ."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

from bcs_scheduler.simulator.engine.recorder import Group
from bcs_scheduler.simulator.engine.simulation import Outcome


def summary(outcome: Outcome) -> dict[str, Any]:
    """The figures of a run as plain data. Times are seconds, parts are from 0 to 1."""
    samples = outcome.samples
    groups = outcome.groups
    return {
        "name": outcome.name,
        "seconds": outcome.seconds,
        "cpusUsed": _mean([one.cpus for one in samples]),
        "memUsed": _mean([one.mem for one in samples]),
        "fragmentation": _mean([one.fragmented for one in samples]),
        "fairness": fairness(groups.values()),
        "total": _figures(groups.values(), sum(outcome.waiting.values())),
        "groups": {name: _figures([groups[name]], outcome.waiting[name]) for name in sorted(groups)},
        "refused": outcome.refused,
    }


def _figures(groups: Iterable[Group], waiting: int) -> dict[str, Any]:
    found = list(groups)
    waits = sorted(wait for one in found for wait in one.waits)
    wanted = sum(one.wanted for one in found)
    return {
        "launched": sum(one.launched for one in found),
        "finished": sum(one.finished for one in found),
        "waiting": waiting,
        "preempted": sum(one.evicted for one in found),
        "waitMean": _mean(waits),
        "waitP95": percentile(waits, 0.95),
        "waitLongest": waits[-1] if waits else 0.0,
        "coreHours": sum(one.used for one in found) / 3600,
        "served": sum(one.used for one in found) / wanted if wanted else 1.0,
    }


def fairness(groups: Iterable[Group]) -> float:
    """Jain's index of the parts of the wanted core seconds that the groups got: 1 = equal parts, 1/n = one of n groups
    got everything."""
    parts = [one.used / one.wanted for one in groups if one.wanted]
    squares = sum(part * part for part in parts)
    return sum(parts) ** 2 / (len(parts) * squares) if squares else 1.0


def percentile(ordered: Sequence[float], part: float) -> float:
    """The smallest value that at least this part of the values does not exceed; 0.0 without values."""
    return ordered[max(0, math.ceil(len(ordered) * part) - 1)] if ordered else 0.0


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else 0.0
