"""The present role of the process, and the answers that the API gets from it: from the term of a leader, or from the
standby of a process that does not lead."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import Future

from bcs_scheduler.core.interface.effects import Reply
from bcs_scheduler.core.interface.requests import Request
from bcs_scheduler.core.interface.unknown import UnknownTaskGroups
from bcs_scheduler.core.placement.hierarchy.figures import TreeFigures
from bcs_scheduler.core.placement.queue_accounts import QueueFigures
from bcs_scheduler.leadership import readiness
from bcs_scheduler.leadership.eligibility import Obstacle
from bcs_scheduler.leadership.gateway import Busy, Check, NotLeading, Role
from bcs_scheduler.leadership.hub import Hub
from bcs_scheduler.leadership.listeners import RoleObserver
from bcs_scheduler.leadership.standby import Standby
from bcs_scheduler.leadership.term import Term
from offers.agents import ListedAgent
from offers.model import DecidedBy, Diagnosis, Offer
from store.base import Store
from store.state import State

LASTING = 10.0
"""Seconds after which a leader is believed not to have met the obstacle that kept this process from leading: longer
than it takes to read the records."""


class PresentRole:
    """Implements bcs_scheduler.leadership.gateway.Gateway. A subclass changes the role; any thread may ask."""

    def __init__(
        self,
        store: Store,
        metrics: RoleObserver,
        url: str,
        wall: Callable[[], float],
        further_checks: Callable[[], list[Check]],
    ) -> None:
        self._store, self._metrics, self._url, self._wall = store, metrics, url, wall
        self._further_checks = further_checks
        self._term: Term | None = None
        self._standby: Standby | None = None
        """Follows the store while this process does not lead."""
        self._role: Role = "unknown"
        self._problem = "starting"
        """The reason why the store cannot be used; empty if it can."""
        self._opened = False
        self._quarantined = 0
        self._obstacle: Obstacle | None = None
        """The obstacle for which this process has refused to lead; None once a candidate leads."""
        self._leader_seen = (0, 0.0)
        """Epoch of the leader seen last, and since when (monotonic seconds)."""

    def _set_role(self, role: Role) -> None:
        self._role = self._metrics.role = role

    def role(self) -> Role:
        return self._role

    def leader_url(self) -> str | None:
        if self._term is not None:
            return self._url
        leader = self._store.leader() if self._opened else None
        return leader.url if leader is not None and leader.url != self._url else None

    def state(self) -> State:
        term = self._term
        if term is not None:
            return term.core.state
        if not self._opened:
            raise Busy(self._problem or "the store is not connected yet")
        standby = self._standby
        if standby is None:
            raise Busy("the records are about to be read from the store")
        return standby.state()

    def age(self) -> float | None:
        standby = self._standby
        return standby.status().age if standby is not None and self._term is None else None

    def submit(self, command: Request) -> Future[Reply]:
        term = self._term
        if term is None:
            raise NotLeading(self.leader_url())
        return term.submit(command)

    def withdraw(self, future: Future[Reply]) -> bool:
        term = self._term
        return term is not None and term.withdraw(future)

    def hub(self) -> Hub:
        term = self._term
        if term is None:
            raise NotLeading(self.leader_url())
        return term.hub

    def offers(self) -> list[Offer]:
        term = self._term
        return term.core.offers() if term is not None else []

    def unknown_tasks(self) -> UnknownTaskGroups:
        term = self._term
        if term is None:
            raise NotLeading(self.leader_url())
        return term.core.unknown_tasks.listed()

    def agents(self) -> list[ListedAgent]:
        term = self._term
        return term.core.agents if term is not None else []

    def awaits_agent(self, name: str) -> bool:
        term = self._term
        return term is not None and term.core.turn_context.agents.awaits(name)

    def queues(self) -> list[QueueFigures]:
        term = self._term
        return term.core.turn_context.queues.figures() if term is not None else []

    def partitions(self) -> list[DecidedBy]:
        term = self._term
        return term.core.turn_context.queues.partitions() if term is not None else []

    def queue_tree(self, partition: str) -> TreeFigures | None:
        term = self._term
        return term.core.turn_context.queues.tree(partition) if term is not None else None

    def mesos_master(self) -> str:
        term = self._term
        status = term.driver.status() if term is not None else {}
        return str(status["master"]) if status.get("connected") else ""

    def diagnosis(self, transaction_id: str) -> Diagnosis | None:
        term = self._term
        return term.core.diagnosis(transaction_id) if term is not None else None

    def checks(self) -> list[Check]:
        term = self._term
        return [
            self._store_check(),
            readiness.leadership(term, self.leader_url()),
            *self._records_check(),
            *readiness.standby(self._standby if term is None else None),
            *readiness.cluster_manager(term),
            *readiness.unknown_tasks(term),
            *readiness.publishing(term),
            *self._further_checks(),
        ]

    def _store_check(self) -> Check:
        standby = self._standby
        quarantined = standby.status().quarantined if standby is not None else self._quarantined
        problem = self._problem or ("" if self._opened else "not connected yet")
        return readiness.store(self._store, problem, self._term, quarantined)

    def _records_check(self) -> list[Check]:
        """The obstacle that this process has met, until a candidate has led for a while: one that meets the same
        obstacle leads only until it has read the records."""
        found = self._obstacle
        if found is None:
            return []
        leader = self._store.leader() if self._opened else None
        if leader is None or leader.url == self._url:
            self._leader_seen = (0, 0.0)
        elif self._leader_seen[0] != leader.epoch:
            self._leader_seen = (leader.epoch, time.monotonic())
        elif time.monotonic() - self._leader_seen[1] > LASTING:
            self._obstacle = None
            return []
        return [Check("records", False, found.message, found.code)]

    def now(self) -> float:
        term = self._term
        return term.clock.now() if term is not None else self._wall()

    def metrics(self) -> bytes:
        return self._metrics.render()
