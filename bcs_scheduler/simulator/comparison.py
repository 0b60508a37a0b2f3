"""Runs of one scenario under several policies, and the figures that differ."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

from bcs_scheduler.simulator.recorder import Group, Moment
from bcs_scheduler.simulator.simulation import Outcome

CLUSTER = ("cpusUsed", "memUsed", "fragmentation", "fairness")
"""Figures of a run as a whole."""


def summary(outcome: Outcome) -> dict[str, Any]:
    """The figures of a run as plain data. Times are seconds, parts are from 0 to 1."""
    samples = outcome.samples
    groups = outcome.groups
    return {
        "name": outcome.name,
        "seconds": outcome.seconds,
        "complete": outcome.complete,
        "cpusUsed": _mean([one.cpus for one in samples]),
        "memUsed": _mean([one.mem for one in samples]),
        "fragmentation": _mean([one.fragmented for one in samples]),
        "fairness": fairness(groups.values()),
        "total": _figures(groups.values(), sum(outcome.waiting.values())),
        "groups": {name: _figures([groups[name]], outcome.waiting[name]) for name in sorted(groups)},
        "refused": outcome.refused,
        "history": history(outcome),
    }


def history(outcome: Outcome) -> dict[str, Any]:
    """The figures over virtual time: for each figure a list with one value for each moment of `at` (seconds from the
    start). `waited`: seconds for which the oldest pending taskgroup has waited; `preempted`: since the start."""
    samples = outcome.samples
    none = Moment(0.0, 0.0, 0, 0.0, 0)
    groups = {
        name: {
            field: [round(getattr(sample.groups.get(name, none), field), 6) for sample in samples]
            for field in Moment._fields
        }
        for name in sorted(outcome.groups)
    }
    return {
        "at": [round(sample.at, 3) for sample in samples],
        "cpus": [round(sample.cpus, 6) for sample in samples],
        "mem": [round(sample.mem, 6) for sample in samples],
        "pending": [sample.waiting for sample in samples],
        "waited": [round(sample.waited, 3) for sample in samples],
        "fragmented": [round(sample.fragmented, 6) for sample in samples],
        "preempted": [sample.preempted for sample in samples],
        "groups": groups,
    }


def differences(runs: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Each run but the first against the first: the figure of the run less that of the first. Groups that only one of
    them has are left out."""
    first, *others = runs
    return [
        {
            "name": run["name"],
            "against": first["name"],
            "cluster": {key: run[key] - first[key] for key in CLUSTER},
            "total": _less(run["total"], first["total"]),
            "groups": {
                name: _less(row, first["groups"][name])
                for name, row in run["groups"].items()
                if name in first["groups"]
            },
        }
        for run in others
    ]


def _less(figures: dict[str, float], others: dict[str, float]) -> dict[str, float]:
    return {key: value - others[key] for key, value in figures.items()}


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
        "waitMedian": percentile(waits, 0.5),
        "waitP90": percentile(waits, 0.9),
        "waitP95": percentile(waits, 0.95),
        "waitLongest": waits[-1] if waits else 0.0,
        "coreHours": sum(one.used for one in found) / 3600,
        "wantedCoreHours": wanted / 3600,
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
