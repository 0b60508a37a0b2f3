"""Taskgroups of daemonsets: one per agent, each bound to its agent for good.

The application behind a daemonset wants as many taskgroups as there are agents for it
(core/controllers/daemonsets.py counts them). A LAUNCH fills agents that have none, a RESCHEDULE replaces
one that has ended on its own agent, an UPDATE ends old ones within its bound and gives their agents new ones. A
taskgroup whose agent is not for it any more is ended as Misplaced (store.codes.EndCause) and never replaced.
"""

from __future__ import annotations

from collections.abc import Collection
from itertools import count, islice
from typing import NamedTuple

from offers.model import Demand, Placement
from store.records import AgentSetting, Application, TaskGroup, Transaction, UpdatePayload, Version
from store.state.reader import StateReader
from transactions import base, groups, injection, resource_request
from transactions.base import Context, Periods, Progress, Slot, Step, Terms
from transactions.kinds import update
from transactions.kinds.kind import Kind
from transactions.rules import lifecycle
from transactions.rules.lifecycle import is_ready
from transactions.text import counted


def is_misplaced(group: TaskGroup) -> bool:
    """Returns True if the taskgroup is being ended for good, or will be when its unreachable agent returns."""
    return group.end_cause == "Misplaced"


def end_as_misplaced(ctx: Context, group: TaskGroup) -> None:
    """Ends a taskgroup for good, also one that is being ended already to be replaced."""
    if group.killing_since:
        groups.replace_end_cause(ctx, group, "Misplaced")
    else:
        groups.end(ctx, group, "Misplaced")


def setting_of(ctx: Context, group: TaskGroup) -> AgentSetting | None:
    """Returns the setting of the agent of a taskgroup; None if operators have not set anything. The setting of an agent
    that is not listed is found by the address or host name in the taskgroup."""
    settings = ctx.state.agent_settings
    agent = ctx.agents.agents.get(group.agent_id)
    if agent is not None:
        return settings.get(agent.key)
    return settings.get(group.agent_ip) or settings.get(group.hostname)


def accepts_new(ctx: Context, group: TaskGroup, version: Version) -> bool:
    """Returns True if the agent of the taskgroup may get a new taskgroup of the version: the agent is listed and not
    cordoned, and the version tolerates its taints."""
    setting = setting_of(ctx, group)
    if group.agent_id not in ctx.agents.agents:
        return False
    return setting is None or not (
        setting.disabled or resource_request.rules_of(version).untolerated(tuple(setting.taints.items()))
    )


def begin_launch(ctx: Context, application: Application) -> Transaction:
    """Begins the LAUNCH that gives a taskgroup to each agent without one."""
    missing = agents_without_taskgroup(ctx, application)
    note = f"{counted(missing, 'agent')} will get a taskgroup"
    terms = Terms(target=missing, version=application.version, inner=True, note=note)
    return base.begin(ctx, LAUNCH, application, terms)


def begin_update(ctx: Context, application: Application, bound: int) -> Transaction:
    """Begins an update to the newest version. An update that runs is cancelled. `bound`: greatest number of unavailable
    taskgroups."""
    running = active_update(ctx.state, application.key)
    if running is not None:
        base.end(ctx, running, "CANCEL", "superseded by a newer definition", 0)
    old = sum(group.version != application.version for group in remaining(ctx, application))
    terms = Terms(
        target=old,
        version=application.version,
        inner=True,
        note=f"daemonset in updating: {old} to version {application.version}, at most {bound} unavailable",
    )
    transaction = base.begin(ctx, UPDATE, application, terms, UpdatePayload(max_unavailable=bound))
    ctx.uow.put(base.mark_operating(ctx, application, transaction, "daemonset in updating"))
    return transaction


def active_launch(state: StateReader, key: str) -> Transaction | None:
    """Returns the active launch for the daemonset; None if there is none."""
    return next((t for t in state.active_of(key).values() if t.type == LAUNCH.type), None)


def active_update(state: StateReader, key: str) -> Transaction | None:
    """Returns the active update of the daemonset; None if there is none."""
    return next((t for t in state.active_of(key).values() if t.type == UPDATE.type), None)


def remaining(ctx: Context, application: Application) -> list[TaskGroup]:
    """Taskgroups of the application that are not being ended for good."""
    return [group for group in ctx.state.groups_of(application.key).values() if not is_misplaced(group)]


def agents_without_taskgroup(ctx: Context, application: Application) -> int:
    """Number of wanted agents that have no taskgroup of the application."""
    return max(0, application.instances - len({group.agent_id for group in remaining(ctx, application)}))


class UpdateHealth(NamedTuple):
    """The condition of the taskgroups that are to stay, sorted by index. Taskgroups that an update is about to replace
    are in none of the lists."""

    ended: tuple[TaskGroup, ...]
    dead: tuple[TaskGroup, ...]
    """The ended taskgroups that nothing restarts."""
    away: tuple[TaskGroup, ...]
    """Out of reach."""
    stuck: bool
    """True if there are dead taskgroups and no activity in progress that the update could wait for."""


def update_health(ctx: Context, application: Application, running: Transaction | None) -> UpdateHealth:
    """Determines the condition of the daemonset's taskgroups. `running`: the active update; None: there is none."""
    version = ctx.state.version(application.key, application.version)
    restarting = {transaction.taskgroup for transaction in ctx.state.active_of(application.key).values()}
    old: list[TaskGroup] = []
    kept: list[TaskGroup] = []
    away: list[TaskGroup] = []
    for group in sorted(remaining(ctx, application), key=lambda group: group.index):
        if group.unreachable_since:
            away.append(group)
        elif running and version and group.version != version.name and accepts_new(ctx, group, version):
            old.append(group)
        else:
            kept.append(group)
    ended = tuple(group for group in kept if group.ended)
    dead = tuple(group for group in ended if _is_dead(ctx, group, version, restarting))
    lost = {group.id for group in dead}
    # A running taskgroup that is not healthy may become healthy; the update is stuck all the same while others are
    # dead.
    moving = any(group.killing_since or group.status != "Running" for group in (*old, *kept) if group.id not in lost)
    halted = running is None or not old or len(dead) >= UpdatePayload.of(running).max_unavailable
    return UpdateHealth(ended, dead, tuple(away), bool(dead) and ctx.agents.listed and not moving and halted)


def _is_dead(ctx: Context, group: TaskGroup, newest: Version | None, restarting: Collection[str]) -> bool:
    """Returns True if the taskgroup has ended and is neither restarted nor removed. Ended taskgroups on an agent that
    is gone will be removed."""
    version = ctx.state.version(group.application_key, group.version) or newest
    if group.id in restarting or group.agent_id not in ctx.agents.agents or version is None:
        return False
    reset_after = ctx.options.periods.restart_reset
    # The decision of the moment at which it ended counts, so the result does not change with time alone.
    decision = lifecycle.restart_decision(
        group, version.restart_policy, version.unreachable_policy, reset_after, group.ended_at
    )
    return decision is None


class DaemonsetLaunch(Kind):
    """Fills agents that have no taskgroup of the daemonset. Goes on beside updates and deletes."""

    type = "LAUNCH"
    exclusive = False

    def life(self, periods: Periods, *, inner: bool) -> float:
        """Like `BasicKind.life`; the same as for restarts."""
        return periods.inner_reschedule

    def step(self, ctx: Context, transaction: Transaction) -> Step:
        """One slot for each agent without a taskgroup; FINISH if there is none."""
        application = ctx.application(transaction)
        if application is None:
            return Step(verdict=("FAIL", "the application does not exist any more"))
        missing = agents_without_taskgroup(ctx, application)
        if not missing:
            return Step(verdict=("FINISH", "every eligible agent has its taskgroup"))
        taken = ctx.state.indexes_of(application.key)
        free = islice((index for index in count() if index not in taken), missing)
        return Step(
            slots=tuple(map(Slot, free)),
            version=application.version,
            per_agent=True,
            except_agents=frozenset(group.agent_id for group in ctx.state.groups_of(application.key).values()),
        )

    def progress(self, state: StateReader, transaction: Transaction) -> Progress:
        """Agents that have got their taskgroup, of those that lacked one when the launch began."""
        key = transaction.application_key
        application = state.applications.get(key)
        wanted = application.instances if application is not None else 0
        missing = max(0, wanted - len({group.agent_id for group in list(state.groups_of(key).values())}))
        return Progress(max(0, transaction.target - missing), missing)


class DaemonsetUpdate(update.Update):
    """Ends taskgroups of older versions within its bound, and gives their agents new ones."""

    def life(self, periods: Periods, *, inner: bool) -> float:
        """Like `BasicKind.life`; the same as for restarts."""
        return periods.inner_reschedule

    def step(self, ctx: Context, transaction: Transaction) -> Step:
        """Ends old taskgroups within the bound and asks for new ones on their agents."""
        found, ending = self.preview(ctx, transaction)
        return update.end_chosen(ctx, found, ending)

    def preview(self, ctx: Context, transaction: Transaction) -> tuple[Step, list[TaskGroup]]:
        """Returns the slots of the next step and the taskgroups that it would end. Taskgroups that are unreachable, or
        whose agents accept no new taskgroup, stay as they are for now, because nothing could replace them there. They
        do not count against the bound, because the update does not worsen their state. A new taskgroup that has failed
        or finished counts, also if no policy restarts it; the update then waits until an operator solves the
        problem."""
        application = ctx.application(transaction)
        version = ctx.state.version(transaction.application_key, transaction.version)
        if application is None or version is None:
            return Step(verdict=("FAIL", "the application or its version does not exist any more")), []
        if not ctx.agents.listed:
            return Step(), []
        near = [group for group in remaining(ctx, application) if not group.unreachable_since]
        new = [group for group in near if group.version == version.name]
        old = [group for group in near if group.version != version.name and accepts_new(ctx, group, version)]
        if not old and all(map(is_ready, new)):
            left = sum(group.version != version.name for group in remaining(ctx, application))
            rest = f", {left} stay as they are until their agents can be used again" if left else ""
            return Step(verdict=("FINISH", f"{counted(len(new), 'taskgroup')} at version {version.name}{rest}")), []
        gone = sorted((group for group in old if group.ended), key=lambda group: group.index)
        ending = sum(1 for group in old if group.killing_since and not group.ended)
        missing = injection.missing(ctx.state, version)
        chosen: list[TaskGroup] = []
        if not missing:
            changing = len(gone) + ending + sum(not is_ready(group) for group in new)
            bound = UpdatePayload.of(transaction).max_unavailable
            budget = bound - sum(not is_ready(group) for group in near)
            unready = [group for group in old if not is_ready(group)]
            wanted = len(old) - len(gone) - ending
            chosen = update.choose_to_end(filter(is_ready, old), unready, wanted, budget, bound - changing)
        found = Step(
            slots=tuple(Slot(group.index, group.id) for group in gone),
            version=version.name,
            per_agent=True,
            only_agents=frozenset(group.agent_id for group in gone),
            missing=missing,
        )
        return found, chosen

    def replaces(self, state: StateReader, transaction: Transaction, group: TaskGroup) -> bool:
        """Returns True if the taskgroup is of an older version: the update is for all of them."""
        return group.version != transaction.version

    def progress(self, state: StateReader, transaction: Transaction) -> Progress:
        """Taskgroups of the wanted version that serve: one that has finished does not."""
        return update.update_progress(state, transaction, is_ready)


LAUNCH, UPDATE = DaemonsetLaunch(), DaemonsetUpdate()


def slot_on(ctx: Context, application: Application, demand: Demand[Slot], placement: Placement[Slot]) -> Slot | None:
    """Returns the slot that belongs on the agent of the placement; None if there is none (any more). The slots of a
    demand are alike to the matcher. This is the final test for "one taskgroup per agent"."""
    there = [
        group.id
        for group in ctx.state.groups_on(placement.agent_id).values()
        if (group.namespace, group.application) == (application.namespace, application.name)
    ]
    slot = placement.slot
    if not slot.replaces:
        return None if there else slot
    return next((slot for slot in demand.slots if [slot.replaces] == there), None)
