"""Faults put into sessions and evictions on purpose (tests.simulation.mutants); they are looked for in worlds with the
policy `session`."""

from __future__ import annotations

from typing import Any

import pytest

from bcs_scheduler.core.context import TurnContext
from bcs_scheduler.core.placement.records import Records
from bcs_scheduler.core.placement.snapshots import held, role
from bcs_scheduler.core.placement.source import Facts
from offers.policy.session.plugins import priority
from store.records import TaskGroup
from transactions import groups
from transactions.base import Context
from transactions.kinds import reschedule
from transactions.rules import disruptions


def start_gangs_in_parts(patch: pytest.MonkeyPatch) -> None:
    """Sessions know nothing of minima."""
    honest = Records.facts

    def facts(self: Records, application: str) -> Facts | None:
        found = honest(self, application)
        return found._replace(least=1) if found is not None else None

    patch.setattr(Records, "facts", facts)


def ignore_the_budget(patch: pytest.MonkeyPatch) -> None:
    """Evictions end as many as the policy likes. Drains and moves keep to the budgets: their rules would notice
    first."""
    honest = disruptions.Disruptions.judge

    def judge(self: disruptions.Disruptions, group: TaskGroup, purpose: disruptions.Purpose) -> disruptions.Answer:
        answer = honest(self, group, purpose)
        is_ignored = purpose == "evict" and answer.refusal in ("Budget", "NoBudget")
        return disruptions.Answer(None, 1) if is_ignored else answer

    patch.setattr(disruptions.Disruptions, "judge", judge)
    patch.setattr(disruptions, "allowance", lambda ctx, key: 1_000)


def evict_for_good(patch: pytest.MonkeyPatch) -> None:
    """Nobody looks for another place for the evicted."""

    def hasty(ctx: Context, group: TaskGroup, beneficiary: str, queue: str, **paid: bool) -> Any:
        groups.end(ctx, group, "Evicted", f"evicted for {beneficiary}")

    patch.setattr(reschedule, "evict", hasty)


def evict_anybody(patch: pytest.MonkeyPatch) -> None:
    """The priority of a victim does not matter."""
    patch.setattr(priority, "preemptable", lambda claim, candidates: list(candidates))


def overlook_taskgroups(patch: pytest.MonkeyPatch) -> None:
    """Taskgroups that are gone stay in the snapshot."""
    honest = held.HeldTasks.note

    def hasty(self: held.HeldTasks, application: str, identity: str, *, present: bool) -> None:
        if present:
            honest(self, application, identity, present=present)

    patch.setattr(held.HeldTasks, "note", hasty)


def overlook_agents(patch: pytest.MonkeyPatch) -> None:
    """The snapshot keeps the amounts of the first offer of an agent."""

    def hasty(self: role.RoleSnapshot, agent: str) -> None:
        if agent not in self._snapshot.rank:
            self._touched.add(agent)

    patch.setattr(role.RoleSnapshot, "touch", hasty)


def keep_silent_about_the_beneficiary(patch: pytest.MonkeyPatch) -> None:
    """Beneficiaries get no event."""
    _without_event(patch, "ApplicationPreempting")


def keep_silent_about_the_victim(patch: pytest.MonkeyPatch) -> None:
    """Victims get no event."""
    _without_event(patch, "TaskGroupEvicted")


def _without_event(patch: pytest.MonkeyPatch, dropped: str) -> None:
    genuine = TurnContext.record_event

    def record(self: TurnContext, kind: str, key: str, reason: Any, *arguments: Any, **named: Any) -> None:
        if reason != dropped:
            genuine(self, kind, key, reason, *arguments, **named)

    patch.setattr(TurnContext, "record_event", record)


def count_the_unready(patch: pytest.MonkeyPatch) -> None:
    """The budget counts taskgroups that are not ready."""
    patch.setattr(disruptions, "is_serving", lambda application, group: not group.ended)
