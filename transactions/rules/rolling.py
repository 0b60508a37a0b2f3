"""The arithmetic of a rolling update: bounds, the taskgroups that may be added or ended, and the taskgroups that count
as ready. Pure.

Two sides take part: one application grows to `instances` taskgroups, the others shrink to none. There is one other
application, or several if newer documents have superseded updates. The bounds hold for all of them together: at least
`floor` taskgroups ready, at most `ceiling` there. Both are bounds of the actions of the update; failed taskgroups use
the same room, so the update waits for their restarts. Within the bounds a step is as large as the strategy says: it
adds at most `max_surge` taskgroups and removes at most `max_unavailable`.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from store.advice import advise
from store.ids import object_key
from store.records import Application, Canary, Deployment, RollingPayload, TaskGroup, Transaction
from store.state import State
from store.state.reader import StateReader
from transactions.base import Periods
from transactions.rules import health, lifecycle
from transactions.rules.lifecycle import is_chosen_by_rollout, is_ready
from transactions.text import counted

MOST_AT_ONCE = 2000
"""Taskgroups chosen at once: they are named in one record, which must stay small."""
UNDER_WAY = ("Staging", "Starting", "Running", "Restarting")
"""Statuses of taskgroups that run or are being started."""


class Side(NamedTuple):
    """One of the two applications of a rolling update.

    `leaving`: existing taskgroups that were chosen to be ended; `wanted`: number of the others; `unready`: those of the
    others that are not ready now, by id; `launching`: wanted places that no taskgroup holds yet. Computed from counts
    and from the taskgroups that are not ready, so the cost does not depend on the others.
    """

    application: Application
    wanted: int
    unready: dict[str, TaskGroup]
    leaving: dict[str, TaskGroup]
    launching: int
    adding: Transaction | None
    """The INNERSCALE that brings more."""
    removing: Transaction | None
    """The latest INNERSCALE that takes some away."""
    others: tuple[Application, ...] = ()
    """Further applications on the shrinking side; the counts are those of all."""

    @property
    def applications(self) -> tuple[Application, ...]:
        """All applications of this side, in the order in which ready taskgroups of them go."""
        return (self.application, *self.others)

    @property
    def held(self) -> int:
        """Number of places that this side will hold: its taskgroups, running or waiting for a restart, and those to be
        launched."""
        return self.wanted + self.launching


class RolloutState(NamedTuple):
    """The two sides of a rolling update at one moment."""

    growing: Side
    shrinking: Side
    instances: int
    floor: int
    ceiling: int
    most_added: float
    """Most taskgroups that one step adds; infinity on the way back, which has no steps of the user's."""
    most_removed: float
    """Most taskgroups that one step removes; infinity as above."""
    not_yet_available: dict[str, TaskGroup]
    """Taskgroups of the growing side that serve, but not for long enough."""
    min_ready: float
    now: float

    @property
    def room(self) -> int:
        """Number of taskgroups that may be added. A taskgroup that has ended and will be restarted keeps its place."""
        alive = sum(not group.ended for group in (*self.growing.leaving.values(), *self.shrinking.leaving.values()))
        return max(0, self.ceiling - self.growing.held - self.shrinking.held - alive)

    @property
    def held(self) -> int:
        """Number of places that both sides hold."""
        return self.growing.held + self.shrinking.held

    @property
    def ready(self) -> int:
        """Number of ready taskgroups. On the growing side a taskgroup counts when it has been ready for `min_ready`
        seconds, on the other side at once."""
        here = self.shrinking.wanted - len(self.shrinking.unready)
        return here + self.growing.wanted - len(self.growing.unready) - len(self.not_yet_available)

    @property
    def unavailable(self) -> list[TaskGroup]:
        """Taskgroups of the growing side that are not ready, or have not been ready for long enough."""
        return [*self.growing.unready.values(), *self.not_yet_available.values()]

    @property
    def available_at(self) -> float:
        """Unix seconds at which the first of the ready taskgroups becomes available; infinity = none is waiting."""
        return min((ready_since(group) + self.min_ready for group in self.not_yet_available.values()), default=math.inf)


def rollout_state(state: State, deployment: Deployment, now: float) -> RolloutState | None:
    """Returns both sides of the update; None if its old or its new application is missing. `now`: Unix seconds."""
    up, downs = sides(deployment)
    applications = state.applications
    if deployment.application_key not in applications or _successor(deployment) not in applications:
        return None
    floor, ceiling = bounds(deployment)
    most_added, most_removed = step_sizes(deployment)
    # In a rollback the old version has been available before.
    min_ready = 0.0 if deployment.rolling_back else deployment.strategy.min_ready
    grown = side(state, applications[up])
    return RolloutState(
        growing=grown,
        shrinking=side(state, *[applications[key] for key in downs if key in applications]),
        instances=deployment.instances,
        floor=floor,
        ceiling=ceiling,
        most_added=most_added,
        most_removed=most_removed,
        not_yet_available=_not_yet_available(state, grown, min_ready, now) if min_ready else {},
        min_ready=min_ready,
        now=now,
    )


def sides(deployment: Deployment) -> tuple[str, tuple[str, ...]]:
    """Returns the key of the growing application, and the keys of the shrinking ones in the order in which their ready
    taskgroups go: superseded ones first, the newest before the others. The bound application is needed longest, for an
    update that is undone."""
    new, old = _successor(deployment), deployment.application_key
    retiring = tuple(object_key(deployment.namespace, name) for name in reversed(deployment.retiring))
    return (old, (new, *retiring)) if deployment.rolling_back else (new, (*retiring, old))


def _successor(deployment: Deployment) -> str:
    return object_key(deployment.namespace, deployment.successor)


def must_wait(state: StateReader, deployment: Deployment) -> bool:
    """Returns True if the counts alone show that the present phase of a step is not done and that the growing side has
    no problem. This is the case after most reports in big updates, and a closer look costs a walk over all
    taskgroups."""
    up, downs = sides(deployment)
    counts = state.status_counts(up)
    if sum(counts.get(status, 0) for status in UNDER_WAY) < sum(counts.values()):
        return False
    if deployment.phase == "START" and not deployment.rolling_back:
        return counts.get("Running", 0) < deployment.up_target
    if deployment.phase != "DELETE":
        return False
    shrinking = [application for key in downs if (application := state.applications.get(key)) is not None]
    # Lost ones may be on agents that are unreachable, and a step does not wait for these.
    keys = [application.key for application in shrinking]
    there = sum(len(state.groups_of(key)) - state.status_counts(key).get("Lost", 0) for key in keys)
    return there > sum(application.instances for application in shrinking)


def bounds(deployment: Deployment) -> tuple[int, int]:
    """Returns the least number of ready taskgroups and the greatest number of existing taskgroups."""
    strategy = deployment.strategy
    return max(0, deployment.instances - strategy.max_unavailable), deployment.instances + strategy.max_surge


def step_sizes(deployment: Deployment) -> tuple[float, float]:
    """Returns the most taskgroups that one step adds, and the most that it removes: the written numbers. A number of 0
    counts as the other one, because a step without one of its halves would never end the update. The way back has no
    steps of the user's: only the bounds apply (infinity)."""
    strategy = deployment.strategy
    if deployment.rolling_back:
        return math.inf, math.inf
    return strategy.max_surge or strategy.max_unavailable, strategy.max_unavailable or strategy.max_surge


def least_steps(deployment: Deployment, old: int) -> int:
    """Returns the least number of steps of an update that replaces this number of old taskgroups. With unequal numbers
    of new and old taskgroups for a step, the slower half decides."""
    added, removed = step_sizes(deployment)
    return max(math.ceil(deployment.instances / added), math.ceil(old / removed))


def disruption_budget(state: State, application: Application) -> float:
    """Number of ready taskgroups that may be ended now, by the bounds of the update that the application takes part in;
    infinity without an update."""
    deployment = state.deployments.get(application.deployment_key)
    if deployment is None or not deployment.successor:
        return math.inf
    keys = [object_key(deployment.namespace, name) for name in deployment.sides]
    serving = sum(len(state.groups_of(key)) - len(state.readiness.unready(key)) for key in keys)
    return serving - bounds(deployment)[0]


class PhaseTransaction(NamedTuple):
    """A transaction that is one phase of a step; a phase without victims adds taskgroups."""

    transaction: Transaction
    victims: tuple[str, ...]


def phase_transactions(transactions: Iterable[Transaction]) -> list[PhaseTransaction]:
    """Returns the transactions of the phases of steps, with their victims."""
    found = ((transaction, transaction.payload) for transaction in transactions)
    return [PhaseTransaction(t, payload.victims) for t, payload in found if isinstance(payload, RollingPayload)]


def side(state: State, *applications: Application) -> Side:
    """Counts of the applications of one side of an update, as they are now; there is at least one."""
    scales = [
        each for application in applications for each in phase_transactions(state.active_of(application.key).values())
    ]
    adding = max((each.transaction for each in scales if not each.victims), key=lambda t: t.target, default=None)
    removing = max(
        (each.transaction for each in scales if each.victims), key=lambda t: (t.created_at, t.id), default=None
    )
    members = state.taskgroups
    leaving = {identity: members[identity] for each in scales for identity in each.victims if identity in members}
    unready: dict[str, TaskGroup] = {}
    for application in applications:
        for identity, group in state.readiness.unready(application.key).items():
            if is_chosen_by_rollout(group):
                leaving[identity] = group
            elif identity not in leaving:
                unready[identity] = group
    wanted = sum(len(state.groups_of(application.key)) for application in applications) - len(leaving)
    launching = 0
    if adding is not None:
        # Its target is for one of the applications.
        key = adding.application_key
        gone = sum(group.application_key == key for group in leaving.values())
        launching = max(0, adding.target - len(state.groups_of(key)) + gone)
    return Side(applications[0], wanted, unready, leaving, launching, adding, removing, applications[1:])


def _not_yet_available(state: State, growing: Side, seconds: float, now: float) -> dict[str, TaskGroup]:
    """Returns the changed taskgroups that are ready, but not for this number of seconds. Others are not examined."""
    members, found = state.groups_of(growing.application.key), dict[str, TaskGroup]()
    candidates = state.readiness.follow(growing.application.key, members)
    for identity in list(candidates):
        group = members.get(identity)
        if group is None or available(group, seconds, now):
            del candidates[identity]
        elif identity not in growing.leaving and identity not in growing.unready:
            found[identity] = group
    return found


# --- readiness ----------------------------------------------------------------------------------------------------


def ready_since(group: TaskGroup) -> float:
    """Unix seconds from which the taskgroup has been ready: it began to run (again), or one of its checks last changed
    its result. Meaningless for a taskgroup that is not ready."""
    moments = [group.running_since]
    for task in group.tasks:
        moments += [check.updated_at for check in task.checks]
        if task.last_status == "Restarting":
            moments.append(task.updated_at)
    return max(moments)


def available(group: TaskGroup, seconds: float, now: float) -> bool:
    """Returns True if the taskgroup has been ready without a break for this number of seconds. `now`: Unix seconds."""
    return is_ready(group) and (not seconds or now >= ready_since(group) + seconds)


def failed(state: StateReader, found: RolloutState, periods: Periods) -> list[TaskGroup]:
    """Returns the taskgroups of the growing side that have ended and that their restart policy does not restart."""
    growing = found.growing
    return [group for group in growing.unready.values() if _dead(state, growing.application, group, periods, found.now)]


def _dead(state: StateReader, application: Application, group: TaskGroup, periods: Periods, now: float) -> bool:
    if not group.ended:
        return False
    if any(t.taskgroup == group.id for t in state.active_of(application.key).values()):
        return False
    version = state.version(application.key, group.version)
    return version is None or None is lifecycle.restart_decision(
        group, version.restart_policy, version.unreachable_policy, periods.restart_reset, now
    )


# --- phases of a step ---------------------------------------------------------------------------------------------


def wanted_new(deployment: Deployment) -> int:
    """Number of new taskgroups that may exist for now: all, or those of the canary."""
    canary = deployment.strategy.canary
    if canary is None or deployment.canary_done or deployment.rolling_back:
        return deployment.instances
    return min(max(1, canary.instances), deployment.instances)


def waiting_canary(deployment: Deployment, found: RolloutState) -> Canary | None:
    """Returns the canary if its taskgroups exist and the update has not been released for the rest; else None."""
    if deployment.canary_done or deployment.rolling_back or deployment.phase:
        return None
    return deployment.strategy.canary if found.growing.wanted >= wanted_new(deployment) else None


def to_add(found: RolloutState, most: int) -> int:
    """Number of taskgroups that the present step may add to the growing side. `most`: greatest number of its
    taskgroups."""
    return int(max(0, min(most - found.growing.held, found.room, found.most_added)))


def to_remove(state: State, found: RolloutState, most: int) -> list[TaskGroup]:
    """Returns the taskgroups of the shrinking side that the present step may end. Taskgroups that are not ready come
    first. Ready ones follow while more than `floor` are ready. At least `floor` taskgroups always exist or have a
    place. If `most`, the number of new taskgroups wanted for now, is less than the instances (a canary), enough old
    ones stay for the rest. Those that are `unreachable` are not chosen, because they cannot be ended now."""
    shrinking, grown = found.shrinking, found.growing
    wanted, unready = shrinking.wanted, shrinking.unready.values()
    least = max(0, found.instances - most)
    disruption_budget = int(min(grown.held + wanted - found.floor, wanted - least, found.most_removed, MOST_AT_ONCE))
    if disruption_budget <= 0:
        return []
    dead = sorted((g for g in unready if g.ended), key=_loss)
    alive = wanted - len(dead) + grown.wanted - sum(g.ended for g in grown.unready.values())
    dead = dead[:disruption_budget]
    disruption_budget = min(disruption_budget - len(dead), max(0, alive - found.floor))
    can_end = (g for g in unready if not g.ended and not _is_unreachable(state, g, found.now))
    chosen = sorted(can_end, key=_loss)[:disruption_budget]
    allowed = max(0, min(disruption_budget - len(chosen), found.ready - found.floor))
    return [*dead, *chosen, *itertools.islice(_serving(state, shrinking), allowed)]


def serving(deployment: Deployment, found: RolloutState) -> Application:
    """Returns the application that gets more taskgroups while the update does not continue: the one with more ready
    taskgroups. A canary stays as small as it is, and on the way back the new application gets no more."""
    growing, shrinking = found.growing, found.shrinking
    both = (growing.application, *shrinking.applications)
    bound = next(each for each in both if each.key == deployment.application_key)
    if deployment.rolling_back or wanted_new(deployment) < deployment.instances:
        return bound
    old, new = (side.wanted - len(side.unready) for side in (shrinking, growing))
    return growing.application if new > old else bound


def surplus(state: State, found: RolloutState) -> list[TaskGroup]:
    """Returns the taskgroups beyond the ceiling of an update that makes no step, after a change to a smaller number.
    They are taken from the larger side, one by one, those that are not ready first. Places that no taskgroup holds yet
    do not count."""
    sizes = {"new": found.growing.wanted, "old": found.shrinking.wanted}
    members = {"new": _in_order_of_loss(state, found, found.growing)}
    members["old"] = _in_order_of_loss(state, found, found.shrinking)
    chosen: list[TaskGroup] = []
    for _ in range(min(sum(sizes.values()) - found.ceiling, MOST_AT_ONCE)):
        larger = max(sizes, key=lambda name: sizes[name])
        group = next(members[larger], None)
        if group is None:
            break
        sizes[larger] -= 1
        chosen.append(group)
    return chosen


def _in_order_of_loss(state: State, found: RolloutState, side: Side) -> Iterator[TaskGroup]:
    """Wanted taskgroups of one side that can be ended, those that are missed least first."""
    yield from sorted((g for g in side.unready.values() if not _is_unreachable(state, g, found.now)), key=_loss)
    yield from _serving(state, side)


def _serving(state: State, side: Side) -> Iterator[TaskGroup]:
    """Wanted taskgroups that serve: application by application, from the highest index."""
    for application in side.applications:
        for group in state.in_reverse(TaskGroup, (application.namespace, application.name)):
            if group.id not in side.unready and group.id not in side.leaving:
                yield group


def _loss(group: TaskGroup) -> tuple[bool, int, str]:
    """Sort key of taskgroups to be ended: those that do not run come first; then from the highest index."""
    return group.status == "Running", -group.index, group.id


def unreachable(state: StateReader, side: Side, now: float) -> list[TaskGroup]:
    """Returns the taskgroups of one side that cannot be ended now: their agents are unreachable, and their policy does
    not allow to give them up (yet). `now`: Unix seconds."""
    both = itertools.chain(side.leaving.values(), side.unready.values())
    return [group for group in both if _is_unreachable(state, group, now)]


def _is_unreachable(state: StateReader, group: TaskGroup, now: float) -> bool:
    if group.ended or not group.unreachable_since:
        return False
    return now < given_up_at(state, state.applications[group.application_key], group)


def given_up_at(state: StateReader, application: Application, group: TaskGroup) -> float:
    """Unix seconds from which an unreachable taskgroup that is to be ended may be given up; infinity = not before its
    agent returns."""
    version = state.version(application.key, group.version)
    at = lifecycle.replaceable_at(group, version.unreachable_policy) if version is not None else 0.0
    return math.inf if at is None else at


def complete(deployment: Deployment, found: RolloutState) -> bool:
    """Returns True if the adding phase of a step is done: all taskgroups to be added exist, and in a roll forward all
    of them are available. In a rollback they need not be, because the old taskgroups may never have been ready; the
    bounds alone decide which taskgroups may be ended."""
    if found.growing.wanted < deployment.up_target:
        return False
    return deployment.rolling_back or not found.unavailable


def finished(deployment: Deployment, found: RolloutState) -> bool:
    """Returns True if the update has reached its end: the shrinking side is empty, and the growing side is complete."""
    growing, shrinking = found.growing, found.shrinking
    if shrinking.wanted or shrinking.leaving or growing.leaving or growing.launching:
        return False
    return growing.wanted >= deployment.instances and (deployment.rolling_back or not found.unavailable)


def adding_timeout(deployment: Deployment, periods: Periods) -> float:
    """Seconds that the adding phase of a step may take."""
    strategy = deployment.strategy
    return strategy.step_timeout or periods.rolling_up + strategy.min_ready


# --- words --------------------------------------------------------------------------------------------------------


def waiting_for(state: StateReader, found: RolloutState) -> str:
    """Returns a message that says why the update waits."""
    unavailable = sorted(found.unavailable, key=lambda g: (g.index, g.id))
    lost = sorted(unreachable(state, found.shrinking, found.now), key=lambda g: (g.index, g.id))
    reasons = []
    if unavailable:
        reasons.append(f"{counted(len(unavailable), 'taskgroup')} not ready: {with_problems(unavailable)}")
    if lost:
        to_end = f"{counted(len(lost), 'taskgroup')} cannot be ended: {with_problems(lost)}"
        reasons.append(f"{to_end}; {advise('give_up_by_reschedule')}")
    return "; ".join(reasons) or "no more taskgroups may be ended or added within the bounds"


def with_problems(groups: Iterable[TaskGroup], most: int = 3) -> str:
    """Lists the first `most` taskgroups, each with its problem, and the number of others."""
    listed = list(groups)
    words = "; ".join(f"{group.name} ({_problem(group)})" for group in listed[:most])
    return f"{words}; and {len(listed) - most} more" if len(listed) > most else words


def _problem(group: TaskGroup) -> str:
    if group.unreachable_since:
        return "its agent is unreachable"
    if group.status != "Running":
        return f"{group.status}: {group.message[: health.WORDS_LIMIT]}" if group.message else group.status
    return health.describe_failures(group) or ("is to end" if group.killing_since else "not ready for long enough")
