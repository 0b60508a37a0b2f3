"""The tests of the matcher and the disruption budgets as a plug-in of sessions.

Tests are constraints, taints, settings of agents, host retention and ports: sessions and matcher have one judgement of
agents. The tests are made once per session and demand; placements of the
same session that change the counts of constraints are judged again when the decisions are carried out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache, partial
from math import inf
from typing import TYPE_CHECKING, Any

from bcs_scheduler.core.placement.snapshots.pending import Kind
from bcs_scheduler.core.placement.snapshots.role import NOT_OFFERED
from offers.matching.explain import Explainer
from offers.model import Demand
from offers.policy.obstacles import Obstacle
from offers.policy.session.columns import Array
from offers.policy.session.decisions import Passing
from offers.policy.session.guard import UNWATCHED, Calls
from offers.policy.session.model import Template
from offers.policy.session.plugins.interface import Argument, Claim, Feasibility, Functions, Victim
from offers.policy.session.state.templates import Need

if TYPE_CHECKING:
    from offers.policy.session.session import Session


class AgentTests:
    """The plug-in of one session. `rows`: numbers of the rows of the matcher's table, by the rank of the agent."""

    name = "agent-tests"
    arguments: Mapping[str, Argument] = {}

    def __init__(
        self,
        explainer: Explainer,
        rows: Array,
        demands: Mapping[Kind, Demand[Any]],
        allowance: Callable[[str], int],
        calls: Calls = UNWATCHED,
        kept: Callable[[str], Obstacle] = lambda _: Obstacle.BUDGET,
        grows_at: Callable[[str], float] = lambda _: inf,
        budget_of: Callable[[str], tuple[str, ...]] = lambda name: (name,),
    ) -> None:
        """`demands`: a demand for each value of `Template.tests`. `allowance`: number of ready taskgroups of an
        application that may be evicted now, by its key; `grows_at`: Unix seconds from which it may be greater although
        nothing changes; `budget_of`: the applications that spend the same budget. `calls` follows uses of the matcher
        and of records. `kept`: the obstacle for a taskgroup, given by id, that may not be evicted."""
        self._calls = calls
        self._allowance, self._grows_at, self._budget_of = cache(allowance), cache(grows_at), cache(budget_of)
        self._kept = kept
        self._explainer = explainer
        self._rows = rows
        self._demands = demands

    def open(self, session: Session, arguments: Mapping[str, Any]) -> Functions:  # noqa: ARG002
        """See `Plugin.open`."""
        evictable = partial(self._evictable, session)
        return Functions(feasibility=self._feasibility, evictable=evictable, keeps=self._keeps)

    def _evictable(self, session: Session, claim: Claim, candidates: list[Victim]) -> list[Victim]:  # noqa: ARG002
        """The candidates within the budgets of their applications, less the victims of this session. Tasks that are not
        ready spend nothing. Critical ones stay with any plug-ins of the policy."""
        taken: dict[tuple[str, ...], int] = {}
        evictable: list[Victim] = []
        self._calls.enter_own()
        for victim in candidates:
            job = victim.job
            if victim.task.critical:
                continue
            if not victim.task.ready:
                evictable.append(victim)
                continue
            names = self._budget_of(job.name)
            spent = taken.get(names)
            if spent is None:
                sides = [side for name in names if (side := session.jobs.get(name)) is not None]
                spent = sum(side.job.tasks[position].ready for side in sides for position in side.evicted)
            if spent < self._allowance(job.name):
                spent += 1
                evictable.append(victim)
            elif (at := self._grows_at(job.name)) < inf:
                session.may_change(Passing.BUDGET, at)
            taken[names] = spent
        self._calls.leave_own()
        return evictable

    def _keeps(self, victim: Victim) -> Obstacle:
        self._calls.enter_own()
        obstacle = self._kept(victim.task.name)
        self._calls.leave_own()
        return obstacle

    def accepted(self, template: Template) -> Array:
        """The agents by rank that pass the tests of a template."""
        return self._judged(template)[0]

    def _feasibility(self, need: Need) -> Feasibility:
        accepted, tests = self._judged(need.template)
        return Feasibility(accepted, lambda rank: next((reason for reason, ok in tests if not ok[rank]), None))

    def _judged(self, template: Template) -> tuple[Array, list[tuple[str, Array]]]:
        kind = template.tests
        demand = self._demands.get(kind) if isinstance(kind, Kind) else None
        accepted = self._rows != NOT_OFFERED
        tests = [("role", accepted.copy())]
        if demand is not None:
            self._calls.enter_own()
            tests += [(reason, ok[self._rows]) for reason, ok in self._explainer.tests(demand)]
            self._calls.leave_own()
        for _, ok in tests:
            accepted &= ok
        return accepted, tests


class PausedPairs:
    """The plug-in of one session that keeps evictions away which have not helped lately
    (`bcs_scheduler.core.placement.pauses`)."""

    name = "pauses"
    arguments: Mapping[str, Argument] = {}

    def open(self, session: Session, arguments: Mapping[str, Any]) -> Functions:  # noqa: ARG002
        """See `Plugin.open`."""
        return Functions(evictable=partial(self._evictable, session), keeps=lambda _: Obstacle.PAUSED)

    @staticmethod
    def _evictable(session: Session, claim: Claim, candidates: list[Victim]) -> list[Victim]:
        paused = session.paused.get(claim.job.name)
        if paused is None:
            return candidates
        for ends in {paused[victim.job.name] for victim in candidates if victim.job.name in paused}:
            session.may_change(Passing.PAUSE, ends)
        return [victim for victim in candidates if victim.job.name not in paused]
