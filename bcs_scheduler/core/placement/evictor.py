"""Ends units that an engine has decided to end, with events and counts, as far as their budgets admit now."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from bcs_scheduler.core.placement.engines.engine import Engine
from bcs_scheduler.core.placement.pauses import Pauses
from bcs_scheduler.core.placement.source import Tenant
from bcs_scheduler.core.placement.turn import Turn
from offers.policy.session.decisions import Eviction
from store.ids import namespace_of
from store.mentions import mention, private
from transactions.explain import NAMED
from transactions.text import are, counted


class Evictor:
    """Carries out the evictions of one engine."""

    def __init__(self, turn: Turn, engine: Engine, pauses: Pauses, labels: tuple[str, ...]) -> None:
        """`labels`: the label of the partition in counts by queue."""
        self._turn, self._engine, self._pauses, self._labels = turn, engine, pauses, labels

    def evict(self, decided: Sequence[Eviction]) -> None:
        """Ends the victims. One that may not be ended after all stays: its beneficiary waits longer."""
        for beneficiary, ended in self._end(decided).items():
            if beneficiary:
                self._pauses.evicted(beneficiary, ended, self._turn.now)

    def end_some(self, evictions: Sequence[Eviction]) -> list[Tenant]:
        """Ends as many of these as the disruption budgets admit now. Returns them."""
        return [tenant for some in self._end(self._within_budgets(evictions)).values() for tenant in some]

    def _within_budgets(self, evictions: Iterable[Eviction]) -> list[Eviction]:
        """The evictions that the disruption budgets admit now. Those of a whole gang spend one together."""
        source, admitted = self._turn.source, list[Eviction]()
        left: dict[tuple[str, ...], int] = {}
        gangs: dict[str, bool] = {}
        for eviction in evictions:
            if source.tenant(eviction.task) is None:
                continue
            if not source.spends(eviction.task) and not eviction.with_gang:
                admitted.append(eviction)
                continue
            budget = source.budget_of(eviction.job)
            if budget not in left:
                left[budget] = source.allowance(eviction.job)
            if eviction.job not in gangs or not eviction.with_gang:
                gangs[eviction.job] = left[budget] > 0
                left[budget] -= 1
            if gangs[eviction.job]:
                admitted.append(eviction)
        return admitted

    def _end(self, decided: Sequence[Eviction]) -> Mapping[str, list[Tenant]]:
        """Ends victims. Returns those that are being ended, by beneficiary."""
        turn, source = self._turn, self._turn.source
        ended: dict[str, list[Tenant]] = defaultdict(list)
        gangs: set[str] = set()
        torn = self._torn(decided)
        for eviction in decided:
            victim = source.tenant(eviction.task)
            if victim is None or (eviction.with_gang and eviction.job in torn):
                continue
            sides = (self._queue_of(victim.application), self._queue_of(eviction.beneficiary or eviction.job))
            is_paid = eviction.with_gang and eviction.job in gangs
            refusal = source.evict(eviction.task, eviction.beneficiary, sides[1], is_paid=is_paid)
            if refusal is None:
                gangs.add(eviction.job)
                ended[eviction.beneficiary].append(victim)
                action = "preempt" if sides[0] == sides[1] else "reclaim"
                turn.count("queue_evictions", (*sides, action, *self._labels), 1)
            elif eviction.beneficiary:
                words = f"a taskgroup stays that was to make room{private(f': {refusal}')}"
                turn.record_event("application", eviction.beneficiary, "ApplicationPreempting", words)
        self._report(ended)
        present = ((eviction, source.tenant(eviction.task)) for eviction in decided)
        self._engine.drop(eviction for eviction, victim in present if victim is None or not victim.leaves)
        return ended

    def _torn(self, decided: Iterable[Eviction]) -> set[str]:
        """The applications whose whole gang was to end, and of which a member may not be ended: the others stay."""
        gangs = [eviction for eviction in decided if eviction.with_gang]
        if not gangs:
            return set()
        return {eviction.job for eviction in gangs if not self._turn.source.may_end(eviction.task)}

    def _report(self, ended: Mapping[str, Sequence[Tenant]]) -> None:
        for beneficiary, some in ended.items():
            if not beneficiary:
                continue
            victims = [tenant.title for tenant in some]
            named = mention("taskgroup", victims[:NAMED], within=namespace_of(beneficiary))
            words = f"{counted(len(victims), 'taskgroup')} {are(len(victims))} ended: {named}"
            more = f" and {len(victims) - NAMED} more" if len(victims) > NAMED else ""
            self._turn.record_event("application", beneficiary, "ApplicationPreempting", words + more)

    def _queue_of(self, application: str) -> str:
        return self._engine.queue_of(application)
