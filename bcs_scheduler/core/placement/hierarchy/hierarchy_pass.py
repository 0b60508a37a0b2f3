"""The placement pass of the policy `hierarchical`: queues in a tree decide which demands get room.

The pass is that of sessions with other decisions: the tree gives the order, the limits and the victims, and the matcher
finds the exact places.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np

from bcs_scheduler.core.context import TurnContext
from bcs_scheduler.core.placement.hierarchy.role_tree import COUNTED, Admits, RoleTree
from bcs_scheduler.core.placement.sessions.agent_tests import AgentTests
from bcs_scheduler.core.placement.sessions.role import SessionInput
from bcs_scheduler.core.placement.sessions.session_pass import SessionPass
from bcs_scheduler.core.structures.time_budget import TimeBudget
from offers.model import HeldBack
from offers.policy.hierarchy import Allocation, Cause, Partition, Tree, cause_of, maintain
from offers.policy.hierarchy.preemption.quota import give_back
from offers.policy.holds import Hold
from offers.policy.session.columns import Array
from offers.policy.session.configuration.document import default_policy
from offers.policy.session.decisions import QUEUE_LIMIT, Bind, Decisions, Eviction
from offers.policy.session.model import Template
from store.ids import namespace_of
from transactions.rules import evictions
from transactions.rules.queues import queue_of

MAINTENANCE = 5.0
"""Seconds after which the queues look for victims again while taskgroups wait."""
QUEUE_HOLDS = frozenset(
    {Hold.QUEUE_MAXIMUM, Hold.QUEUE_APPLICATIONS, Hold.QUEUE_STOPPED, Hold.LIMIT_APPLICATIONS, Hold.LIMIT_RESOURCES}
)


class HierarchyPass(SessionPass):
    """Decides by one tree of queues per role."""

    def __init__(self, turn: TurnContext, partition: Partition) -> None:
        super().__init__(turn, default_policy())
        self._partition = partition
        self._trees: dict[str, RoleTree] = {}
        self._again = 0.0
        """Unix seconds of the next maintenance; 0: none is due."""

    def next_timer(self) -> float | None:
        """Unix seconds at which the queues decide again; None: nothing waits for them."""
        timer = super().next_timer()
        if not self._again:
            return timer
        return self._again if timer is None else min(timer, self._again)

    def place(self, pace: TimeBudget) -> bool:
        """Like `SessionPass.place`; while taskgroups wait, the queues decide from time to time."""
        if self._again and self._turn.now >= self._again:
            self._again = 0.0
            self._waiting = self._waiting or bool(self._turn.engine.demands)
        return super().place(pace)

    def void(self) -> None:
        """Like `SessionPass.void`; maintenance waits for offers."""
        super().void()
        self._again = 0.0

    def _decided(self, role: str, found: SessionInput) -> Decisions:
        known = self._trees.get(role)
        tree_of = self._trees.setdefault(role, RoleTree(self._partition)) if known is None else known
        snapshot = found.snapshot
        agents, jobs = (snapshot.rank, snapshot.jobs) if known is None else (found.agents, found.jobs)
        tree_of.follow(snapshot, agents, jobs, self._admits(found))
        found.agents.clear()
        found.jobs.clear()
        tree = tree_of.tree
        binds = [Bind(*names) for names in tree_of.run(found.missing)]
        tree.allowance = self._remaining(tree)
        evicted = self._maintain(tree)
        waiting = {demand.application for demand in found.tests.values()}
        return Decisions(
            tuple(binds),
            tuple(evicted),
            {},
            {},
            {},
            (),
            tuple(binds),
            {},
            held_back={name: QUEUE_LIMIT for name in waiting if self._hold(role, name) is not None},
        )

    def _admits(self, found: SessionInput) -> Admits:
        """The tests of the matcher, and the resources that queues do not count."""
        snapshot = found.snapshot
        tests = AgentTests(self._turn.placer.tests(), found.numbers, found.tests, lambda _: 0)
        known: dict[Template, Array] = {}

        def mask(template: Template) -> Array:
            accepted = tests.accepted(template).copy()
            idle, total = snapshot.columns.mirrors.idle, snapshot.columns.total_arrays
            full = (idle[0] <= 0) | (idle[1] <= 0)
            for name, amount in template.request:
                if name not in COUNTED and amount:
                    d = snapshot.index[name]
                    # Only victims make room on a full agent, and they free the other resources as well.
                    accepted &= np.where(full, total[d] >= amount, idle[d] >= amount)
            return accepted

        def admits(template: Template, agent: str) -> bool:
            accepted = known.get(template)
            if accepted is None:
                accepted = known[template] = mask(template)
            rank = snapshot.rank.get(agent)
            return rank is not None and bool(accepted[rank])

        return admits

    # --- evictions --------------------------------------------------------------------------------------------

    def _remaining(self, tree: Tree) -> Callable[[str], int]:
        """The disruption budget of an application, less the victims that were chosen and are not ended yet."""
        before = set(tree.leaving)

        def remaining(name: str) -> int:
            chosen = sum(
                victim.ask.application == name for identity, victim in tree.leaving.items() if identity not in before
            )
            return evictions.allowance(self._turn.context, name) - chosen

        return remaining

    def _maintain(self, tree: Tree) -> list[Eviction]:
        if not any(application.asks for application in tree.applications.values()):
            return [_eviction(victim, "") for victim in give_back(tree, self._turn.now)]
        self._again = self._turn.now + MAINTENANCE
        found = maintain(tree, self._turn.now)
        decided = [_eviction(victim, one.ask.application) for one in found.preemptions for victim in one.victims]
        return [*decided, *(_eviction(victim, "") for victim in found.given_back)]

    def _evict(self, decided: Iterable[Eviction]) -> None:
        decided = list(decided)
        super()._evict(decided)
        for eviction in decided:
            group = self._turn.state.taskgroups.get(eviction.task)
            if group is not None and not group.killing_since and not group.ended:
                self._keep(eviction)

    def _drop(self, decisions: Decisions) -> None:
        for eviction in decisions.evictions:
            self._keep(eviction)

    def _keep(self, eviction: Eviction) -> None:
        for tree_of in self._trees.values():
            application = tree_of.tree.applications.get(eviction.job)
            victim = application.allocations.get(eviction.task) if application is not None else None
            if victim is not None and victim.ask.id in tree_of.tree.leaving:
                tree_of.keep(victim)

    # --- explanations -----------------------------------------------------------------------------------------

    def _held_back(self, role: str, decisions: Decisions) -> dict[str, HeldBack]:
        found = {name: self._hold(role, name) for name in decisions.held_back}
        return {name: hold for name, hold in found.items() if hold is not None}

    def _hold(self, role: str, name: str) -> HeldBack | None:
        """The queue that holds an application back; None if no queue does."""
        tree_of = self._trees[role]
        tree = tree_of.tree
        if name in tree_of.unplaced:
            return HeldBack(queue_of(self._turn.state, namespace_of(name)), True, (), (), Hold.NO_QUEUE)
        application = tree.applications.get(name)
        if application is None or not application.asks:
            return None
        cause = cause_of(tree, name, next(iter(application.asks)))
        return _held(tree, cause) if cause.kind in QUEUE_HOLDS else None


def _held(tree: Tree, cause: Cause) -> HeldBack:
    queue = tree.queues[cause.where]
    used = tuple(sorted((name, amount) for name, amount in queue.allocated.items() if amount))
    return HeldBack(cause.where, True, used, tuple(sorted(queue.max.items())), cause.kind, cause.limit)


def _eviction(victim: Allocation, beneficiary: str) -> Eviction:
    return Eviction(victim.ask.application, victim.ask.name, victim.node, beneficiary)
