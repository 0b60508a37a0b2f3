"""Taskgroups of daemonsets: one per agent, each bound to its agent for good.

The application behind a daemonset wants as many taskgroups as there are agents for it (core/controllers/daemonsets.py
counts them). A LAUNCH fills agents that have none, a RESCHEDULE replaces one that has ended on its own agent, an UPDATE
ends old ones within its bound and gives their agents new ones. A taskgroup whose agent is not for it any more is ended
as MISPLACED and never replaced.
"""

from __future__ import annotations

from collections.abc import Collection
from itertools import count, islice
from typing import NamedTuple

import msgspec

from offers.model import Demand, Placement
from store.records import AgentSetting, Application, TaskGroup, Transaction, Version
from transactions import base, groups, injection, lifecycle, needs, update
from transactions.base import Context, Slot, Step
from transactions.lifecycle import serves

MISPLACED = "its agent is not for it any more"
"""Kill reason of a taskgroup that is not replaced when it has ended."""


def is_daemonset(application: Application) -> bool:
    return application.type == "daemonset"


def leaving(group: TaskGroup) -> bool:
    """It is being ended for good, or is out of reach and will be if it comes back."""
    return group.kill_reason == MISPLACED


def misplace(ctx: Context, group: TaskGroup) -> None:
    """Ends a taskgroup for good, also one that is being ended already to be replaced."""
    if group.killing_since and not leaving(group):
        ctx.tell("taskgroup", group.id, "kill", MISPLACED)
        ctx.uow.put(msgspec.structs.replace(group, kill_reason=MISPLACED))
    else:
        groups.end(ctx, group, MISPLACED)


def setting_of(ctx: Context, group: TaskGroup) -> AgentSetting | None:
    """What operators have set about the agent of a taskgroup. One that is not listed is found by address or name."""
    settings = ctx.state.agent_settings
    agent = ctx.agents.agents.get(group.agent_id)
    if agent is not None:
        return settings.get(agent.key)
    return settings.get(group.agent_ip) or settings.get(group.hostname)


def takes_new(ctx: Context, group: TaskGroup, version: Version) -> bool:
    """Its agent may get a new taskgroup: it is listed, not disabled, and its taints are tolerated."""
    setting = setting_of(ctx, group)
    if group.agent_id not in ctx.agents.agents:
        return False
    return setting is None or not (
        setting.disabled or needs.rules_of(version).untolerated(tuple(setting.taints.items()))
    )


def begin_launch(ctx: Context, application: Application) -> Transaction:
    missing = lacking(ctx, application)
    note = f"{missing} agents are to get a taskgroup"
    return base.begin(ctx, "LAUNCH", application, inner=True, target=missing, version=application.version, note=note)


def begin_update(ctx: Context, application: Application, bound: int) -> Transaction:
    """To the newest version. An update that runs gives way to it."""
    for other in list(ctx.state.active_of(application.key).values()):
        if other.type == "UPDATE":
            base.end(ctx, other, "CANCEL", "a newer definition takes its place", 0)
    old = sum(group.version != application.version for group in staying(ctx, application))
    transaction = base.begin(
        ctx,
        "UPDATE",
        application,
        inner=True,
        target=old,
        version=application.version,
        max_unavailable=bound,
        note=f"daemonset in updating: {old} to version {application.version}, at most {bound} unavailable",
    )
    ctx.uow.put(base.own(ctx, application, transaction, "daemonset in updating"))
    return transaction


def staying(ctx: Context, application: Application) -> list[TaskGroup]:
    return [group for group in ctx.state.groups_of(application.key).values() if not leaving(group)]


def lacking(ctx: Context, application: Application) -> int:
    """Agents for it that have no taskgroup of it."""
    return max(0, application.instances - len({group.agent_id for group in staying(ctx, application)}))


class Standing(NamedTuple):
    """How the taskgroups that are to stay are doing; by index. What an update is about to replace is in none of the
    lists."""

    ended: tuple[TaskGroup, ...]
    dead: tuple[TaskGroup, ...]
    """Those of them that nothing restarts."""
    away: tuple[TaskGroup, ...]
    """Out of reach."""
    stuck: bool
    """Some are dead, and nothing is under way that the update, or whoever waits for all to run, could wait for."""


def standing(ctx: Context, application: Application, running: Transaction | None) -> Standing:
    """`running`: the update that is under way."""
    version = ctx.state.version(application.key, application.version)
    restarting = {transaction.taskgroup for transaction in ctx.state.active_of(application.key).values()}
    old: list[TaskGroup] = []
    kept: list[TaskGroup] = []
    away: list[TaskGroup] = []
    for group in sorted(staying(ctx, application), key=lambda group: group.index):
        if group.unreachable_since:
            away.append(group)
        elif running and version and group.version != version.name and takes_new(ctx, group, version):
            old.append(group)
        else:
            kept.append(group)
    ended = tuple(group for group in kept if group.ended)
    dead = tuple(group for group in ended if _is_dead(ctx, group, version, restarting))
    lost = {group.id for group in dead}
    # One that runs and is not healthy may become so, which helps nobody as long as others are dead.
    moving = any(group.killing_since or group.status != "Running" for group in (*old, *kept) if group.id not in lost)
    halted = running is None or not old or len(dead) >= running.max_unavailable
    return Standing(ended, dead, tuple(away), bool(dead) and ctx.agents.listed and not moving and halted)


def _is_dead(ctx: Context, group: TaskGroup, newest: Version | None, restarting: Collection[str]) -> bool:
    """It has ended, and neither is it restarted nor forgotten (what ended on an agent that is gone will be)."""
    version = ctx.state.version(f"{group.namespace}/{group.application}", group.version) or newest
    if group.id in restarting or group.agent_id not in ctx.agents.agents or version is None:
        return False
    reset_after = ctx.options.periods.restart_reset
    # As it was judged when it ended: it is not judged again merely because time has passed.
    decision = lifecycle.restart_decision(
        group, version.restart_policy, version.unreachable_policy, reset_after, group.ended_at
    )
    return decision is None


def launch_step(ctx: Context, transaction: Transaction) -> Step:
    application = ctx.application(transaction)
    if application is None:
        return Step(verdict=("FAIL", "the application is gone"))
    missing = lacking(ctx, application)
    if not missing:
        return Step(verdict=("FINISH", "every agent for it has its taskgroup"))
    taken = ctx.state.indexes_of(application.key)
    free = islice((index for index in count() if index not in taken), missing)
    return Step(
        slots=tuple(map(Slot, free)),
        version=application.version,
        per_agent=True,
        except_agents=frozenset(group.agent_id for group in ctx.state.groups_of(application.key).values()),
    )


def update_step(ctx: Context, transaction: Transaction) -> Step:
    found, ending = update_prospect(ctx, transaction)
    return update.end_these(ctx, found, ending)


def update_prospect(ctx: Context, transaction: Transaction) -> tuple[Step, list[TaskGroup]]:
    """What is out of reach, or on an agent that takes nothing new, stays as it is for now: nothing there could take its
    place. It does not count against the bound, because the update makes nothing worse there. A new one that has failed
    or finished does count, also if nothing restarts it: then the update waits until somebody sees to that."""
    application = ctx.application(transaction)
    version = ctx.state.version(f"{transaction.namespace}/{transaction.application}", transaction.version)
    if application is None or version is None:
        return Step(verdict=("FAIL", "the application or its version is gone")), []
    if not ctx.agents.listed:
        return Step(), []
    near = [group for group in staying(ctx, application) if not group.unreachable_since]
    new = [group for group in near if group.version == version.name]
    old = [group for group in near if group.version != version.name and takes_new(ctx, group, version)]
    if not old and all(map(serves, new)):
        left = sum(group.version != version.name for group in staying(ctx, application))
        rest = f", {left} stay as they are until their agents can be used again" if left else ""
        return Step(verdict=("FINISH", f"{len(new)} taskgroups at version {version.name}{rest}")), []
    gone = sorted((group for group in old if group.ended), key=lambda group: group.index)
    ending = sum(1 for group in old if group.killing_since and not group.ended)
    missing = injection.missing(ctx.state, version)
    chosen: list[TaskGroup] = []
    if not missing:
        changing = len(gone) + ending + sum(not serves(group) for group in new)
        bound = transaction.max_unavailable
        budget = bound - sum(not serves(group) for group in near)
        chosen = update.next_to_end(old, len(old) - len(gone) - ending, budget, bound - changing)
    found = Step(
        slots=tuple(Slot(group.index, group.id) for group in gone),
        version=version.name,
        per_agent=True,
        only_agents=frozenset(group.agent_id for group in gone),
        missing=missing,
    )
    return found, chosen


def slot_on(ctx: Context, application: Application, demand: Demand, placement: Placement) -> Slot | None:
    """The slot that belongs on the agent of the placement, None if none does (any more): the slots of a demand are
    alike to the matcher. The last word on "one taskgroup per agent"."""
    there = [
        group.id
        for group in ctx.state.groups_on(placement.agent_id).values()
        if (group.namespace, group.application) == (application.namespace, application.name)
    ]
    slot = placement.slot
    assert isinstance(slot, Slot)
    if not slot.replaces:
        return None if there else slot
    slots = (slot for slot in demand.slots if isinstance(slot, Slot))
    return next((slot for slot in slots if [slot.replaces] == there), None)
