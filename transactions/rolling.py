"""The arithmetic of a rolling update: bounds, what may be added, what may go, and what counts as ready. Pure.

Two applications take part: one grows to `instances` taskgroups, one shrinks to none. The bounds hold for both
together: at least `floor` taskgroups ready, at most `ceiling` there. Both are bounds of what the update does by itself;
what fails uses up the same room, so the update waits.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import NamedTuple

from store.records import Application, Canary, Deployment, TaskGroup, Transaction
from store.state import State
from transactions import health, lifecycle
from transactions.base import Periods
from transactions.explain import several
from transactions.lifecycle import is_leaving, serves

MOST_AT_ONCE = 2000
"""Taskgroups chosen at once: they are named in one record, which must stay small."""
UNDER_WAY = ("Staging", "Starting", "Running", "Restarting")
"""Statuses of taskgroups that do what they should."""


class Side(NamedTuple):
    """One of the two applications. `leaving`: taskgroups chosen to go that are still there; `launching`: places that
    are wanted and not held by a taskgroup yet; `unready`: ids of wanted ones that do not serve (now)."""

    application: Application
    wanted: tuple[TaskGroup, ...]
    unready: frozenset[str]
    leaving: tuple[TaskGroup, ...]
    launching: int
    adding: Transaction | None
    """The INNERSCALE that brings more."""
    removing: Transaction | None
    """The INNERSCALE that takes some away."""

    @property
    def held(self) -> int:
        """Places this side takes in the end: its taskgroups, running or waiting for a restart, and those to come."""
        return len(self.wanted) + self.launching


class Picture(NamedTuple):
    """Both sides of an update at one moment."""

    growing: Side
    shrinking: Side
    instances: int
    floor: int
    ceiling: int
    min_ready: float
    now: float

    @property
    def room(self) -> int:
        """How many more taskgroups may be there. One that has ended and will be restarted keeps its place."""
        alive = sum(not group.ended for group in (*self.growing.leaving, *self.shrinking.leaving))
        return max(0, self.ceiling - self.growing.held - self.shrinking.held - alive)

    @property
    def ready(self) -> int:
        """Ready for `min_ready` on the growing side, where it has to prove itself; simply ready on the other."""
        here = len(self.shrinking.wanted) - len(self.shrinking.unready)
        return here + len(self.growing.wanted) - len(self.lacking)

    @property
    def lacking(self) -> list[TaskGroup]:
        """Taskgroups of the growing side that are not ready, or not for long enough."""
        return [
            group
            for group in self.growing.wanted
            if group.id in self.growing.unready or not available(group, self.min_ready, self.now)
        ]

    @property
    def available_at(self) -> float:
        """When the first of those that are ready will have been for long enough; inf = none is waiting."""
        unready = self.growing.unready
        return min((ready_since(g) + self.min_ready for g in self.lacking if g.id not in unready), default=math.inf)


def picture(state: State, deployment: Deployment, now: float) -> Picture | None:
    """None if one of the two applications is missing."""
    up, down = sides(deployment)
    growing, shrinking = state.applications.get(up), state.applications.get(down)
    if growing is None or shrinking is None:
        return None
    floor, ceiling = bounds(deployment)
    return Picture(
        growing=side(state, growing),
        shrinking=side(state, shrinking),
        instances=deployment.instances,
        floor=floor,
        ceiling=ceiling,
        # What comes back has proved itself before.
        min_ready=0.0 if deployment.back else deployment.strategy.min_ready,
        now=now,
    )


def sides(deployment: Deployment) -> tuple[str, str]:
    """Keys of the growing and of the shrinking application."""
    new, old = f"{deployment.namespace}/{deployment.successor}", f"{deployment.namespace}/{deployment.application}"
    return (old, new) if deployment.back else (new, old)


def waits(state: State, deployment: Deployment) -> bool:
    """The counts alone say that the present half is not done and that nothing has gone wrong on the growing side. In
    big updates so it is after most reports, and a closer look costs a walk over all taskgroups."""
    up, down = sides(deployment)
    counts = state.status_counts(up)
    if sum(counts.get(status, 0) for status in UNDER_WAY) < sum(counts.values()):
        return False
    if deployment.half == "START" and not deployment.back:
        return counts.get("Running", 0) < deployment.up_target
    shrinking = state.applications.get(down)
    return deployment.half == "DELETE" and shrinking is not None and len(state.groups_of(down)) > shrinking.instances


def bounds(deployment: Deployment) -> tuple[int, int]:
    """(at least ready, at most there)."""
    strategy = deployment.strategy
    return max(0, deployment.instances - strategy.max_unavailable), deployment.instances + strategy.max_surge


def spare(state: State, application: Application) -> float:
    """How many taskgroups that are ready may be ended now for the update that the application takes part in."""
    deployment = state.deployments.get(f"{application.namespace}/{application.deployment}")
    if deployment is None or not deployment.successor:
        return math.inf
    names = (deployment.application, deployment.successor)
    keys = [f"{deployment.namespace}/{name}" for name in names]
    return sum(serves(group) for key in keys for group in state.groups_of(key).values()) - bounds(deployment)[0]


def side(state: State, application: Application) -> Side:
    scales = [t for t in state.active_of(application.key).values() if t.type == "INNERSCALE"]
    adding = max((t for t in scales if not t.victims), key=lambda t: t.target, default=None)
    removing = next((t for t in scales if t.victims), None)
    chosen = {identity for t in scales for identity in t.victims}
    wanted: list[TaskGroup] = []
    leaving: list[TaskGroup] = []
    for group in state.groups_of(application.key).values():
        (leaving if is_leaving(group) or group.id in chosen else wanted).append(group)
    launching = max(0, adding.target - len(wanted)) if adding is not None else 0
    unready = frozenset(group.id for group in wanted if not serves(group))
    return Side(application, tuple(wanted), unready, tuple(leaving), launching, adding, removing)


# --- readiness ----------------------------------------------------------------------------------------------------


def ready_since(group: TaskGroup) -> float:
    """Unix seconds of the moment it has been ready from: when it began to run (again), or a check of it last changed
    its verdict. Of one that is not ready it means nothing."""
    moments = [group.running_since]
    for task in group.tasks:
        moments += [check.updated_at for check in task.checks]
        if task.last_status == "Restarting":
            moments.append(task.updated_at)
    return max(moments)


def available(group: TaskGroup, seconds: float, now: float) -> bool:
    """Ready, and that without a break for so many seconds."""
    return serves(group) and (not seconds or now >= ready_since(group) + seconds)


def failed(state: State, found: Picture, periods: Periods) -> list[TaskGroup]:
    """Taskgroups of the growing side that have ended, and that their restart policy leaves so."""
    growing = found.growing
    return [group for group in growing.wanted if _dead(state, growing.application, group, periods, found.now)]


def _dead(state: State, application: Application, group: TaskGroup, periods: Periods, now: float) -> bool:
    if not group.ended:
        return False
    if any(t.taskgroup == group.id for t in state.active_of(application.key).values()):
        return False
    version = state.version(application.key, group.version)
    return version is None or None is lifecycle.restart_decision(
        group, version.restart_policy, version.unreachable_policy, periods.restart_reset, now
    )


# --- halves of a step ---------------------------------------------------------------------------------------------


def goal(deployment: Deployment) -> int:
    """How many new taskgroups there may be for now: all, or those of the canary."""
    canary = deployment.strategy.canary
    if canary is None or deployment.canary_done or deployment.back:
        return deployment.instances
    return min(max(1, canary.instances), deployment.instances)


def waiting_canary(deployment: Deployment, found: Picture) -> Canary | None:
    """The canary, if its taskgroups are there and it is not decided yet that the rest follows."""
    if deployment.canary_done or deployment.back or deployment.half:
        return None
    return deployment.strategy.canary if len(found.growing.wanted) >= goal(deployment) else None


def to_add(found: Picture, most: int) -> int:
    """How many taskgroups the growing side may get now; `most` altogether."""
    return max(0, min(most - found.growing.held, found.room))


def to_remove(state: State, found: Picture, most: int) -> list[TaskGroup]:
    """Which taskgroups of the shrinking side go now: those that are no loss first, ready ones while more than `floor`
    are ready, and never so many that fewer than `floor` are there or have a place. With `most` < instances new ones
    wanted for now (a canary), as many old ones stay as belong to the rest."""
    wanted, grown = found.shrinking.wanted, found.growing
    spare = min(grown.held + len(wanted) - found.floor, len(wanted) - max(0, found.instances - most), MOST_AT_ONCE)
    if spare <= 0:
        return []
    unready = found.shrinking.unready
    dead = sorted((g for g in wanted if g.ended), key=_loss)[:spare]
    alive = sum(not g.ended for g in (*wanted, *grown.wanted))
    spare = min(spare - len(dead), max(0, alive - found.floor))
    lame = [g for g in wanted if not g.ended and g.id in unready]
    stuck = [g for g in lame if _out_of_reach(state, found, g)]
    chosen = sorted((g for g in lame if g not in stuck), key=_loss)[:spare]
    allowed = max(0, min(spare - len(chosen), found.ready - found.floor))
    chosen += sorted((g for g in wanted if g.id not in unready), key=_loss)[:allowed]
    # The ends of those out of reach may take long to come: only when there is nothing else to do.
    return [*dead, *chosen] or sorted(stuck, key=_loss)[:spare]


def _loss(group: TaskGroup) -> tuple[bool, int, str]:
    """What does not run goes first; then from the highest index."""
    return group.status == "Running", -group.index, group.id


def _out_of_reach(state: State, found: Picture, group: TaskGroup) -> bool:
    """It is on an unreachable agent and its policy does not allow to give it up (yet)."""
    if not group.unreachable_since:
        return False
    return found.now < given_up_at(state, found.shrinking.application, group)


def given_up_at(state: State, application: Application, group: TaskGroup) -> float:
    """When an unreachable taskgroup that is to go may be given up; inf = not before it is heard of."""
    version = state.version(application.key, group.version)
    at = lifecycle.replaceable_at(group, version.unreachable_policy) if version is not None else 0.0
    return math.inf if at is None else at


def complete(deployment: Deployment, found: Picture) -> bool:
    """The adding half is done: what was to come is there, and on the way forward all of it is ready. On the way back it
    need not be: what was there before the update may never have been, and the bounds alone decide what may go."""
    if len(found.growing.wanted) < deployment.up_target:
        return False
    return deployment.back or not found.lacking


def finished(deployment: Deployment, found: Picture) -> bool:
    growing, shrinking = found.growing, found.shrinking
    if shrinking.wanted or shrinking.leaving or growing.leaving or growing.launching:
        return False
    return len(growing.wanted) >= deployment.instances and (deployment.back or not found.lacking)


def up_life(deployment: Deployment, periods: Periods) -> float:
    """Seconds the adding half of a step may take."""
    strategy = deployment.strategy
    return strategy.step_timeout or periods.rolling_up + strategy.min_ready


# --- words --------------------------------------------------------------------------------------------------------


def wanting(found: Picture) -> str:
    """What the growing side waits for."""
    lacking = sorted(found.lacking, key=lambda g: (g.index, g.id))
    if not lacking:
        return "no more taskgroups may be ended or added within the bounds"
    return f"{several(len(lacking), 'taskgroup')} not ready: {named(lacking)}"


def named(groups: Iterable[TaskGroup], most: int = 3) -> str:
    """The first few, each with what is wrong with it."""
    listed = list(groups)
    words = "; ".join(f"{group.id} ({_trouble(group)})" for group in listed[:most])
    return f"{words}; and {len(listed) - most} more" if len(listed) > most else words


def _trouble(group: TaskGroup) -> str:
    if group.unreachable_since:
        return "its agent is unreachable"
    if group.status != "Running":
        return f"{group.status}: {group.message[: health.WORDS_LIMIT]}" if group.message else group.status
    return health.complaints(group) or ("is to end" if group.killing_since else "not ready for long enough")
