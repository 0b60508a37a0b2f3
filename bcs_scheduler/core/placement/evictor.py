"""Ends taskgroups that an engine has decided to end, with events and counts, as far as the records admit now."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from bcs_scheduler.core.context import TurnContext
from bcs_scheduler.core.placement.engines.engine import Engine
from bcs_scheduler.core.placement.pauses import Pauses
from offers.policy.session.decisions import Eviction
from store.ids import namespace_of, object_key
from store.mentions import mention, private
from store.records import TaskGroup
from transactions.base import Refused
from transactions.explain import NAMED
from transactions.kinds import reschedule
from transactions.rules import disruptions
from transactions.rules.disruptions import BudgetName
from transactions.text import are, counted


class Evictor:
    """Carries out the evictions of one engine."""

    def __init__(self, turn: TurnContext, engine: Engine, pauses: Pauses, labels: tuple[str, ...]) -> None:
        """`labels`: the label of the partition in counts by queue."""
        self._turn, self._engine, self._pauses, self._labels = turn, engine, pauses, labels

    def evict(self, decided: Sequence[Eviction]) -> None:
        """Ends the victims. One that may not be ended after all stays: its beneficiary waits longer."""
        for beneficiary, groups in self._end(decided).items():
            if beneficiary:
                self._pauses.evicted(beneficiary, groups)

    def end_some(self, role: str, evictions: Sequence[Eviction]) -> list[TaskGroup]:
        """See `aging.Hands`."""
        ended = [group for groups in self._end(self._within_budgets(evictions)).values() for group in groups]
        self._engine.expect(role, {group.agent_id for group in ended}, {group.id for group in ended})
        return ended

    def _within_budgets(self, evictions: Iterable[Eviction]) -> list[Eviction]:
        """The evictions that the disruption budgets admit now. Those of a whole gang spend one together."""
        state, found = self._turn.state, list[Eviction]()
        left: dict[BudgetName, int] = {}
        gangs: dict[str, bool] = {}
        for one in evictions:
            group, application = state.taskgroups.get(one.task), state.applications.get(one.job)
            if group is None or application is None:
                continue
            if not disruptions.is_serving(application, group) and not one.with_gang:
                found.append(one)
                continue
            budget = disruptions.budget_of(self._turn.context, one.job)
            if budget not in left:
                left[budget] = disruptions.allowance(self._turn.context, one.job)
            if one.job not in gangs or not one.with_gang:
                gangs[one.job] = left[budget] > 0
                left[budget] -= 1
            if gangs[one.job]:
                found.append(one)
        return found

    def _end(self, decided: Sequence[Eviction]) -> Mapping[str, list[TaskGroup]]:
        """Ends victims. Returns those that are being ended, by beneficiary."""
        turn, groups = self._turn, self._turn.state.taskgroups
        ended: dict[str, list[TaskGroup]] = defaultdict(list)
        gangs: set[str] = set()
        torn = self._torn(decided)
        for eviction in decided:
            group = groups.get(eviction.task)
            if group is None or (eviction.with_gang and eviction.job in torn):
                continue
            sides = (self._queue_of(group.application_key), self._queue_of(eviction.beneficiary or eviction.job))
            try:
                is_paid = eviction.with_gang and eviction.job in gangs
                reschedule.evict(turn.context, group, eviction.beneficiary, sides[1], is_paid=is_paid)
            except Refused as refused:
                if eviction.beneficiary:
                    words = f"a taskgroup stays that was to make room{private(f': {refused.message}')}"
                    turn.record_event("application", eviction.beneficiary, "ApplicationPreempting", words)
            else:
                gangs.add(eviction.job)
                ended[eviction.beneficiary].append(group)
                action = "preempt" if sides[0] == sides[1] else "reclaim"
                turn.count("queue_evictions", (*sides, action, *self._labels), 1)
        self._tell(ended)
        present = ((one, groups.get(one.task)) for one in decided)
        self._engine.drop(one for one, group in present if group is None or not (group.killing_since or group.ended))
        return ended

    def _torn(self, decided: Iterable[Eviction]) -> set[str]:
        """The applications whose whole gang was to end, and of which a member may not be ended: the others stay."""
        gangs = [one for one in decided if one.with_gang]
        if not gangs:
            return set()
        groups, judge = self._turn.state.taskgroups, disruptions.at(self._turn.context)
        members = ((one.job, groups.get(one.task)) for one in gangs)
        return {job for job, group in members if group is None or judge.judge(group, "evict").refusal is not None}

    def _tell(self, ended: Mapping[str, Sequence[TaskGroup]]) -> None:
        for beneficiary, groups in ended.items():
            if not beneficiary:
                continue
            victims = [object_key(group.namespace, group.name) for group in groups]
            named = mention("taskgroup", victims[:NAMED], within=namespace_of(beneficiary))
            words = f"{counted(len(victims), 'taskgroup')} {are(len(victims))} ended: {named}"
            more = f" and {len(victims) - NAMED} more" if len(victims) > NAMED else ""
            self._turn.record_event("application", beneficiary, "ApplicationPreempting", words + more)

    def _queue_of(self, application: str) -> str:
        return self._engine.queue_of(application)
