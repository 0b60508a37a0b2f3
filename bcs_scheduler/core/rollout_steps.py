"""The steps of a rolling update.

`advance` looks at an update as it is and does what can be done now: begins a half of a step, ends it, halts, finishes,
fails. What is wanted stands in the deployment and in INNERSCALE transactions with absolute targets; how far it is
follows from the taskgroups. So it may be called at any time, by any leader, and does nothing where there is nothing to
do.
"""

from __future__ import annotations

import bisect
import itertools
import math

import msgspec

from bcs_scheduler.core import rollout
from bcs_scheduler.core.desk import Desk
from store.records import Canary, Deployment, TaskGroup
from store.workloads import Half
from transactions import explain, rolling, scale
from transactions.rolling import Picture

SOON = 1.0
"""Seconds until a second look at taskgroups that were chosen to go and are not told yet."""
VICTIM_BYTES = 300_000
"""Bytes of the taskgroups that one step may name: they stand in one record, beside others in one commit."""
ROUNDS = 16
"""Bound on transitions that follow from each other in one go; another look is taken whenever anything changes."""


def advance(desk: Desk, deployment: Deployment) -> float:
    """Does what can be done now. Returns when another look is due at the latest even if nothing changes (Unix seconds);
    inf = never."""
    for _ in range(ROUNDS):
        if deployment.status != "Update":
            return math.inf
        after = _once(desk, deployment)
        if not isinstance(after, Deployment):
            return after
        deployment = after
    return desk.now


def _once(desk: Desk, deployment: Deployment) -> Deployment | float:
    """The deployment after one transition, or when to look again if there is none now."""
    found = rolling.picture(desk.state, deployment, desk.now)
    if found is None:
        return rollout.suspend(desk, deployment, "one of its applications is gone")
    dead = rolling.failed(desk.state, found, desk.options.transactions.periods)
    if deployment.back:
        # Those that have finished may have done so before the update as well.
        dead = [group for group in dead if group.status != "Finish"]
    if dead:
        words = f"ended for good: {explain.several(len(dead), 'taskgroup')}: {rolling.named(dead)}"
        return rollout.fail(desk, deployment, found, words)
    match deployment.half:
        case "START":
            return _adding(desk, deployment, found)
        case "DELETE":
            return _removing(desk, deployment, found)
    return _between(desk, deployment, found)


def _adding(desk: Desk, deployment: Deployment, found: Picture) -> Deployment | float:
    if rolling.complete(deployment, found):
        if deployment.strategy.order == "CreateFirst":
            return _remove(desk, deployment, found) or _end_step(desk, deployment)
        return _end_step(desk, deployment)
    life = rolling.up_life(deployment, desk.options.transactions.periods)
    deadline = deployment.step_since + life
    if desk.now >= deadline:
        return rollout.fail(desk, deployment, found, _overdue(desk, found, life), "TIMEOUT")
    if found.growing.adding is None and len(found.growing.wanted) < deployment.up_target:
        return rollout.fail(desk, deployment, found, f"not all taskgroups were launched: {_last_words(desk, found)}")
    return min(deadline, found.available_at)


def _overdue(desk: Desk, found: Picture, life: float) -> str:
    adding, engine = found.growing.adding, desk.engine
    if adding is None or not found.growing.launching:
        return f"after {life:.0f} s {rolling.wanting(found)}"
    return explain.timeout(desk.context, adding, engine.diagnoses.get(adding.id), engine.missing.get(adding.id, ()))


def _last_words(desk: Desk, found: Picture) -> str:
    ended = [t for t in desk.state.transactions_of(found.growing.application.key).values() if t.type == "INNERSCALE"]
    last = max(ended, key=lambda t: t.finished_at, default=None)
    return f"{last.status} {last.message}" if last is not None else "their transaction is gone"


def _removing(desk: Desk, deployment: Deployment, found: Picture) -> Deployment | float:
    if not found.shrinking.leaving:
        if deployment.strategy.order == "DeleteFirst":
            return _add(desk, deployment, found) or _end_step(desk, deployment)
        return _end_step(desk, deployment)
    needed = [group for group in found.shrinking.leaving if not group.killing_since]
    removing = found.shrinking.removing
    if needed and removing is not None and removing.created_at < desk.now:
        return _spare(desk, deployment, found, needed)
    life = desk.options.transactions.periods.rolling_down
    deadline = deployment.step_since + life
    if desk.now < deadline:
        # Those that were chosen in this turn may be needed for what else has happened in it.
        return min(deadline, desk.now + SOON) if needed and removing is not None else deadline
    left = sorted(found.shrinking.leaving, key=lambda g: g.id)
    words = f"not ended after {life:.0f} s: {explain.several(len(left), 'taskgroup')}: {rolling.named(left)}"
    return rollout.fail(desk, deployment, found, words)


def _spare(desk: Desk, deployment: Deployment, found: Picture, needed: list[TaskGroup]) -> Deployment:
    """Taskgroups that were to go and are needed now, because others have failed since, stay; the next step chooses
    anew."""
    side, removing = found.shrinking, found.shrinking.removing
    assert removing is not None
    spared = {group.id for group in needed}
    victims = tuple([identity for identity in removing.victims if identity not in spared])
    words = f"{len(needed)} taskgroups are needed now that others have failed, and stay for the time being"
    if victims:
        target = removing.target + len(needed)
        desk.uow.put(msgspec.structs.replace(removing, victims=victims, target=target))
    else:
        desk.engine.end(desk.context, removing, "CANCEL", words)
    application = desk.state.applications[side.application.key]
    desk.uow.put(msgspec.structs.replace(application, instances=application.instances + len(needed)))
    rollout.tell(desk, deployment, "spared", words)
    return rollout.put(desk, deployment, down_target=deployment.down_target + len(needed))


def _end_step(desk: Desk, deployment: Deployment) -> Deployment:
    words = f"step {deployment.step} ended"
    if deployment.strategy.pause and not deployment.back:
        words += f"; the next one begins {deployment.strategy.pause:.0f} s later, or when the update is resumed"
    rollout.tell(desk, deployment, "step-ended", words)
    return rollout.put(
        desk,
        deployment,
        half="",
        up_target=0,
        down_target=0,
        step_since=0.0,
        rested_at=desk.now,
        progress_at=desk.now,
        message=deployment.message if deployment.back else words,
    )


def _between(desk: Desk, deployment: Deployment, found: Picture) -> Deployment | float:
    """No half of a step is under way: finish, halt, wait, or begin the next one."""
    strategy, canary = deployment.strategy, rolling.waiting_canary(deployment, found)
    if canary is None and rolling.finished(deployment, found):
        return rollout.finish(desk, deployment, found)
    patience = _patience(desk, deployment, found)
    deadline = max(deployment.rested_at + strategy.pause, deployment.progress_at) + patience
    if canary is not None and not found.lacking and (canary.manual or not deployment.pausing):
        return _canary(desk, deployment, found, canary, deadline)
    if deployment.pausing:
        return _pause(desk, deployment, "paused on request")
    if not deployment.back:
        if found.lacking and desk.now < deadline:
            return min(deadline, found.available_at)
        if strategy.manual and deployment.rested_at and not found.lacking:
            return _pause(desk, deployment, f"paused after step {deployment.step}; resume to go on")
        if desk.now < deployment.rested_at + strategy.pause and not found.lacking:
            return deployment.rested_at + strategy.pause
    if deployment.back or not found.lacking:
        first, second = (_add, _remove) if strategy.order == "CreateFirst" else (_remove, _add)
        begun = first(desk, deployment, found) or second(desk, deployment, found)
        if begun is not None or desk.now < deadline:
            return begun or deadline
    return rollout.fail(desk, deployment, found, f"after {patience:.0f} s {rolling.wanting(found)}")


def _patience(desk: Desk, deployment: Deployment, found: Picture) -> float:
    """Seconds it may take between two steps until the next can begin."""
    periods, canary = desk.options.transactions.periods, rolling.waiting_canary(deployment, found)
    if found.growing.leaving or found.shrinking.leaving:
        return periods.rolling_down
    return rolling.up_life(deployment, periods) + (canary.hold if canary is not None else 0.0)


def _pause(desk: Desk, deployment: Deployment, words: str) -> Deployment:
    rollout.tell(desk, deployment, "paused", words)
    return rollout.put(desk, deployment, status="UpdatePaused", pausing=False, message=words)


def _canary(desk: Desk, deployment: Deployment, found: Picture, canary: Canary, deadline: float) -> Deployment | float:
    count = len(found.growing.wanted)
    if canary.manual:
        return _pause(
            desk, deployment, f"paused: a canary of {explain.several(count, 'new taskgroup')} is ready; resume to go on"
        )
    proven = max((rolling.ready_since(g) for g in found.growing.wanted), default=0.0)
    proven += canary.hold
    if desk.now < proven:
        if desk.now >= deadline:
            return rollout.fail(
                desk, deployment, found, f"the canary was not ready for {canary.hold:.0f} s without a break"
            )
        return min(proven, deadline)
    rollout.tell(
        desk, deployment, "canary", f"{explain.several(count, 'new taskgroup')} stayed ready for {canary.hold:.0f} s"
    )
    return rollout.put(desk, deployment, canary_done=True)


def _add(desk: Desk, deployment: Deployment, found: Picture) -> Deployment | None:
    """Begins the adding half, if anything may be added now."""
    count = rolling.to_add(found, rolling.goal(deployment))
    if not count:
        return None
    target = found.growing.held + count
    life = rolling.up_life(deployment, desk.options.transactions.periods)
    scale.grow(desk.context, found.growing.application, target, life)
    words = f"adding {explain.several(count, 'taskgroup')}, to {target} of {deployment.instances}"
    return _half(desk, deployment, "START", words, up_target=target)


def _remove(desk: Desk, deployment: Deployment, found: Picture) -> Deployment | None:
    """Begins the removing half, if anything may go now."""
    shrinking = found.shrinking
    chosen = rolling.to_remove(desk.state, found, rolling.goal(deployment))
    if not chosen and (not shrinking.leaving or shrinking.removing is not None):
        return None
    leaving = shrinking.leaving if shrinking.removing is None else ()
    going = _nameable([*leaving, *chosen])
    left = len(shrinking.wanted) - max(0, len(going) - len(leaving))
    victims = _ids(going)
    life = desk.options.transactions.periods.rolling_down
    scale.shrink(desk.context, shrinking.application, victims, left, life)
    return _half(
        desk,
        deployment,
        "DELETE",
        f"removing {explain.several(len(victims), 'taskgroup')}, {left} left",
        down_target=left,
    )


def _nameable(going: list[TaskGroup]) -> list[TaskGroup]:
    """The first of them, as many as one record can name; the next step takes up the others."""
    ends = list(itertools.accumulate(len(group.id) + 3 for group in going))
    return going[: bisect.bisect_right(ends, VICTIM_BYTES)]


def _ids(chosen: list[TaskGroup]) -> tuple[str, ...]:
    return tuple(group.id for group in chosen)


def _half(desk: Desk, deployment: Deployment, half: Half, words: str, **targets: int) -> Deployment:
    step = deployment.step if deployment.half else deployment.step + 1
    rollout.tell(desk, deployment, "step", f"step {step}: {words}")
    return rollout.put(
        desk,
        deployment,
        half=half,
        step=step,
        step_since=desk.now,
        progress_at=desk.now,
        message=deployment.message if deployment.back else f"step {step}: {words}",
        **targets,
    )
