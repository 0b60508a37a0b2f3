"""The steps of a rolling update.

`advance` examines the present state of an update and does the work that is possible now: begins a phase of a step, ends
it, halts, finishes, fails. The deployment and the INNERSCALE transactions hold absolute targets; the progress is
derived from the taskgroups. So any leader may call `advance` at any time; without possible work the call has no effect.
"""

from __future__ import annotations

import bisect
import itertools
import math

import msgspec

from bcs_scheduler.core.context import TurnContext
from bcs_scheduler.core.rollout import update_records
from store.advice import advise
from store.ids import object_key
from store.records import Canary, Deployment, RollingPayload, TaskGroup
from store.records.workloads import StepPhase
from transactions import groups
from transactions.base import longest_shutdown_delay
from transactions.kinds import scale
from transactions.rules import rolling
from transactions.rules.lifecycle import is_chosen_by_rollout, is_ready
from transactions.rules.rolling import PhaseTransaction, RolloutState, Side
from transactions.text import are, counted, duration

SOON = 1.0
"""Seconds until a second look at taskgroups that were chosen to be ended and have not been ended yet."""
VICTIM_BYTES = 300_000
"""Bytes of the taskgroups that one step may name: they stand in one record, beside others in one commit."""
ROUNDS = 16
"""Most transitions that follow from each other in one call; every change causes another call."""


def advance(turn: TurnContext, deployment: Deployment, *, resized: bool = False) -> float:
    """Does the possible work of the present step. Returns the Unix seconds of the next look even if nothing changes;
    infinity = never. `resized`: a request has just changed the number of taskgroups. An update that makes no step now
    gets this number; without such a request, at least as many as its bounds demand."""
    least = deployment.instances if resized else rolling.bounds(deployment)[0]
    for _ in range(ROUNDS):
        if deployment.status != "Update":
            found = rolling.rollout_state(turn.state, deployment, turn.now)
            if found is not None and deployment.status in update_records.HALTED:
                _keep_number(turn, deployment, found, least)
            return math.inf
        after = _once(turn, deployment, least)
        if not isinstance(after, Deployment):
            return after
        deployment = after
    return turn.now


def _once(turn: TurnContext, deployment: Deployment, least: int) -> Deployment | float:
    """The deployment after one transition, or when to look again if there is none now."""
    found = rolling.rollout_state(turn.state, deployment, turn.now)
    if found is None:
        return update_records.suspend(turn, deployment, "one of its applications is gone")
    dead = rolling.failed(turn.state, found, turn.options.transactions.periods)
    if deployment.rolling_back:
        # Finished taskgroups may have finished before the update.
        dead = [group for group in dead if group.status != "Finish"]
    if dead:
        words = f"ended for good: {counted(len(dead), 'taskgroup')}: {rolling.with_problems(dead)}"
        return update_records.fail(turn, deployment, found, words)
    lost = rolling.unreachable(turn.state, found.growing, turn.now)
    spared = [group for group in lost if group.id in found.growing.leaving]
    if spared:
        return _spare(turn, deployment, found, spared)
    match deployment.phase:
        case "START":
            return _adding(turn, deployment, found)
        case "DELETE":
            return _removing(turn, deployment, found)
    after = _between(turn, deployment, found)
    if not isinstance(after, Deployment):
        _keep_number(turn, deployment, found, least)
    return after


def _keep_number(turn: TurnContext, deployment: Deployment, found: RolloutState, least: int) -> None:
    """An update that makes no step now has the wanted number of taskgroups nevertheless: the side that serves grows if
    both have fewer than `least` places together, and the larger side shrinks if both have more than the bound."""
    own = rolling.side(turn.state, rolling.serving(deployment, found))
    target = max(own.wanted, own.held + min(deployment.instances - found.held, found.room))
    if own.adding is not None and own.adding.target != target:
        update_records.stop_adding(turn, own, "CANCEL", f"deployment {deployment.key} is scaled")
    if target > own.wanted and (found.held < least if own.adding is None else own.adding.target != target):
        application = turn.state.applications[own.application.key]
        scale.grow(turn.context, application, target, turn.options.transactions.periods.inner_reschedule)
        words = f"application {application.name} grows to {counted(target, 'taskgroup')} while the update waits"
        update_records.record_event(turn, deployment, "DeploymentScaled", words)
        return
    if found.held <= found.ceiling:
        return
    for side in (found.growing, found.shrinking):
        update_records.stop_adding(turn, side, "CANCEL", f"deployment {deployment.key} is scaled")
    going = _nameable(rolling.surplus(turn.state, found))
    for side in (found.growing, found.shrinking):
        _shrink(turn, side, going)
    if going:
        words = f"{counted(len(going), 'taskgroup')} removed while the update waits"
        update_records.record_event(turn, deployment, "DeploymentScaled", words)


def _adding(turn: TurnContext, deployment: Deployment, found: RolloutState) -> Deployment | float:
    if rolling.complete(deployment, found):
        if deployment.strategy.order == "CreateFirst":
            return _remove(turn, deployment, found) or _end_step(turn, deployment)
        return _end_step(turn, deployment)
    life = rolling.adding_timeout(deployment, turn.options.transactions.periods)
    deadline = deployment.step_since + life
    if turn.now >= deadline:
        return update_records.fail(turn, deployment, found, _overdue(turn, found, life), "TIMEOUT")
    if found.growing.adding is None and found.growing.wanted < deployment.up_target:
        return update_records.fail(
            turn, deployment, found, f"not all taskgroups were launched: {_last_words(turn, found)}"
        )
    return min(deadline, found.available_at)


def _overdue(turn: TurnContext, found: RolloutState, life: float) -> str:
    adding = found.growing.adding
    if adding is None or not found.growing.launching:
        return f"after {duration(life)} {rolling.waiting_for(turn.state, found)}"
    return turn.engine.overdue(turn.context, adding)


def _last_words(turn: TurnContext, found: RolloutState) -> str:
    ended = rolling.phase_transactions(turn.state.transactions_of(found.growing.application.key).values())
    last = max((each.transaction for each in ended), key=lambda t: t.finished_at, default=None)
    return f"{last.status} {last.message}" if last is not None else "their transaction is gone"


def _removing(turn: TurnContext, deployment: Deployment, found: RolloutState) -> Deployment | float:
    lost = {group.id for group in rolling.unreachable(turn.state, found.shrinking, turn.now)}
    if found.shrinking.leaving.keys() <= lost:
        # The step does not wait for taskgroups that cannot be ended. A later step removes them.
        staying = len(found.shrinking.leaving)
        away = f"{counted(staying, 'taskgroup')} left, on unreachable agents"
        words = away if staying else "its taskgroups are gone"
        for each in _removals(turn, found.shrinking):
            # Before the next step: of two removals at the same time, the finished one would be mistaken for the other.
            turn.engine.end(turn.context, each.transaction, "FINISH", words)
        if deployment.strategy.order == "DeleteFirst":
            return _add(turn, deployment, found) or _end_step(turn, deployment)
        return _end_step(turn, deployment)
    needed = [group for group in found.shrinking.leaving.values() if not group.killing_since and is_ready(group)]
    removing = found.shrinking.removing
    # The removal continues while more taskgroups exist than must be ready: it has had no time for the others yet.
    scarce = rolling.disruption_budget(turn.state, found.shrinking.application) <= 0
    if needed and scarce and removing is not None and removing.created_at < turn.now:
        return _keep_needed(turn, deployment, found, needed)
    applications = found.shrinking.applications
    delay = max((longest_shutdown_delay(turn.state, each) for each in applications), default=0.0)
    life = turn.options.transactions.periods.rolling_down + delay
    deadline = deployment.step_since + life
    if turn.now < deadline:
        # Victims chosen in this turn may be needed because of other changes in the same turn.
        return min(deadline, turn.now + SOON) if needed and removing is not None else deadline
    left = sorted(found.shrinking.leaving.values(), key=lambda g: g.id)
    words = f"not ended after {duration(life)}: {counted(len(left), 'taskgroup')}: {rolling.with_problems(left)}"
    return update_records.fail(turn, deployment, found, words)


def _keep_needed(turn: TurnContext, deployment: Deployment, found: RolloutState, needed: list[TaskGroup]) -> Deployment:
    """Taskgroups that were to go and are needed now, because others have failed since, stay; the next step chooses
    anew."""
    kept_now = f"{counted(len(needed), 'taskgroup')} {are(len(needed))} needed"
    words = f"{kept_now} now that others have failed, and not removed for the time being"
    _release(turn, found.shrinking, needed, words)
    update_records.record_event(turn, deployment, "RemovalReduced", words)
    return update_records.put(turn, deployment, down_target=deployment.down_target + len(needed))


def _spare(turn: TurnContext, deployment: Deployment, found: RolloutState, lost: list[TaskGroup]) -> Deployment:
    """Taskgroups that were to go are wanted again, because the update is undone, and they cannot be ended now: their
    agents are unreachable. They hold their places. If the agent returns they are ended as announced and replaced."""
    words = f"{counted(len(lost), 'taskgroup')} on unreachable agents {are(len(lost))} wanted again"
    _release(turn, found.growing, lost, words)
    for group in lost:
        if is_chosen_by_rollout(group):
            groups.replace_end_cause(turn.context, group, "Rescheduled", "removed by an update, and wanted again")
    update_records.record_event(turn, deployment, "RemovalReduced", words)
    return deployment


def _release(turn: TurnContext, side: Side, kept: list[TaskGroup], words: str) -> None:
    """The removals of one side leave these taskgroups alone."""
    ids = {group.id for group in kept}
    for removing, chosen in _removals(turn, side):
        victims = tuple([identity for identity in chosen if identity not in ids])
        if victims == chosen:
            continue
        if victims:
            target = removing.target + len(chosen) - len(victims)
            turn.uow.put(msgspec.structs.replace(removing, payload=RollingPayload(victims=victims), target=target))
        else:
            turn.engine.end(turn.context, removing, "CANCEL", words)
    for each in side.applications:
        stay = sum(group.application == each.name for group in kept)
        if stay:
            application = turn.state.applications[each.key]
            turn.uow.put(msgspec.structs.replace(application, instances=application.instances + stay))


def _removals(turn: TurnContext, side: Side) -> list[PhaseTransaction]:
    """Returns the active operations that end taskgroups of one side; after a failed step there may be several."""
    active = (turn.state.active_of(application.key).values() for application in side.applications)
    return [each for each in rolling.phase_transactions(itertools.chain.from_iterable(active)) if each.victims]


def _end_step(turn: TurnContext, deployment: Deployment) -> Deployment:
    words = f"step {deployment.step} ended"
    if deployment.strategy.pause and not deployment.rolling_back:
        words += f"; the next one begins {duration(deployment.strategy.pause)} later, or when the update is resumed"
    update_records.record_event(turn, deployment, "StepEnded", words)
    return update_records.put(
        turn,
        deployment,
        phase="",
        up_target=0,
        down_target=0,
        step_since=0.0,
        rested_at=turn.now,
        progress_at=turn.now,
        message=deployment.message if deployment.rolling_back else words,
        retiring=_not_empty(turn, deployment),
    )


def _not_empty(turn: TurnContext, deployment: Deployment) -> tuple[str, ...]:
    """Names of the superseded applications that still have taskgroups. The others are deleted by the controller of
    deployments, as all that a deployment does not need any more."""
    names = deployment.retiring
    return tuple([name for name in names if turn.state.groups_of(object_key(deployment.namespace, name))])


def _between(turn: TurnContext, deployment: Deployment, found: RolloutState) -> Deployment | float:
    """Finishes, halts, waits, or begins the next step. The caller has checked that no phase is in progress."""
    strategy, canary = deployment.strategy, rolling.waiting_canary(deployment, found)
    if canary is None and rolling.finished(deployment, found):
        return update_records.finish(turn, deployment, found)
    patience = _patience(turn, deployment, found)
    deadline = max(deployment.rested_at + strategy.pause, deployment.progress_at) + patience
    if canary is not None and not found.unavailable and (canary.manual or not deployment.pausing):
        return _canary(turn, deployment, found, canary, deadline)
    if deployment.pausing:
        return _pause(turn, deployment, "paused on request")
    if not deployment.rolling_back:
        if found.unavailable and turn.now < deadline:
            return min(deadline, found.available_at)
        if strategy.manual and deployment.rested_at and not found.unavailable:
            return _pause(turn, deployment, f"paused after step {deployment.step}; {advise('resume_to_continue')}")
        if turn.now < deployment.rested_at + strategy.pause and not found.unavailable:
            return deployment.rested_at + strategy.pause
    if deployment.rolling_back or not found.unavailable:
        first, second = (_add, _remove) if strategy.order == "CreateFirst" else (_remove, _add)
        begun = first(turn, deployment, found) or second(turn, deployment, found)
        if begun is not None or turn.now < deadline:
            return begun or _await_agents(turn, deployment, found) or min(deadline, _given_up_at(turn, found))
    words = f"after {duration(patience)} {rolling.waiting_for(turn.state, found)}"
    return update_records.fail(turn, deployment, found, words)


def _patience(turn: TurnContext, deployment: Deployment, found: RolloutState) -> float:
    """Seconds it may take between two steps until the next can begin."""
    periods, canary = turn.options.transactions.periods, rolling.waiting_canary(deployment, found)
    if found.growing.leaving or found.shrinking.leaving or rolling.unreachable(turn.state, found.shrinking, turn.now):
        return periods.rolling_down
    return rolling.adding_timeout(deployment, periods) + (canary.hold if canary is not None else 0.0)


def _await_agents(turn: TurnContext, deployment: Deployment, found: RolloutState) -> Deployment | None:
    """Says for which taskgroups the next step waits, if their agents are unreachable; None if that is said already."""
    if deployment.rolling_back or not rolling.unreachable(turn.state, found.shrinking, turn.now):
        return None
    words = f"step {deployment.step} ended; {rolling.waiting_for(turn.state, found)}"
    return update_records.put(turn, deployment, message=words) if words != deployment.message else None


def _given_up_at(turn: TurnContext, found: RolloutState) -> float:
    """Unix seconds at which the next taskgroup on an unreachable agent may be given up; infinity = none."""
    state = turn.state
    lost = rolling.unreachable(state, found.shrinking, turn.now)
    return min((rolling.given_up_at(state, state.applications[g.application_key], g) for g in lost), default=math.inf)


def _pause(turn: TurnContext, deployment: Deployment, words: str) -> Deployment:
    update_records.record_event(turn, deployment, "UpdatePaused", words)
    return update_records.put(turn, deployment, status="UpdatePaused", pausing=False, message=words)


def _canary(
    turn: TurnContext, deployment: Deployment, found: RolloutState, canary: Canary, deadline: float
) -> Deployment | float:
    count = found.growing.wanted
    if canary.manual:
        words = f"paused: a canary of {counted(count, 'new taskgroup')} is ready"
        return _pause(turn, deployment, f"{words}; {advise('resume_to_continue')}")
    proven = max(
        (rolling.ready_since(g) for g in turn.state.groups_of(found.growing.application.key).values()), default=0.0
    )
    proven += canary.hold
    if turn.now < proven:
        if turn.now >= deadline:
            return update_records.fail(
                turn, deployment, found, f"the canary was not ready for {duration(canary.hold)} without a break"
            )
        return min(proven, deadline)
    update_records.record_event(
        turn,
        deployment,
        "CanaryPassed",
        f"{counted(count, 'new taskgroup')} stayed ready for {duration(canary.hold)}",
    )
    return update_records.put(turn, deployment, canary_done=True)


def _add(turn: TurnContext, deployment: Deployment, found: RolloutState) -> Deployment | None:
    """Begins the adding phase, if anything may be added now."""
    count = rolling.to_add(found, rolling.wanted_new(deployment))
    if not count:
        return None
    target = found.growing.held + count
    life = rolling.adding_timeout(deployment, turn.options.transactions.periods)
    if found.growing.adding is not None:
        update_records.stop_adding(
            turn, found.growing, "CANCEL", f"a step of deployment {deployment.key} launches them"
        )
    scale.grow(turn.context, turn.state.applications[found.growing.application.key], target, life)
    words = f"adding {counted(count, 'taskgroup')}, to {target} of {deployment.instances}"
    return _begin_phase(turn, deployment, "START", words, up_target=target)


def _remove(turn: TurnContext, deployment: Deployment, found: RolloutState) -> Deployment | None:
    """Begins the removing phase, if anything may go now."""
    shrinking = found.shrinking
    chosen = rolling.to_remove(turn.state, found, rolling.wanted_new(deployment))
    lost = {group.id for group in rolling.unreachable(turn.state, shrinking, turn.now)}
    leaving = [g for g in shrinking.leaving.values() if shrinking.removing is None and g.id not in lost]
    if not chosen and not leaving:
        return None
    going = _nameable([*leaving, *chosen])
    left = shrinking.wanted - max(0, len(going) - len(leaving))
    victims = _ids(going)
    update_records.stop_adding(turn, shrinking, "CANCEL", f"the update of deployment {deployment.key} continues")
    _shrink(turn, shrinking, going)
    return _begin_phase(
        turn,
        deployment,
        "DELETE",
        f"removing {counted(len(victims), 'taskgroup')}, {left} left",
        down_target=left,
    )


def _shrink(turn: TurnContext, side: Side, going: list[TaskGroup]) -> None:
    """Begins the removal of the taskgroups that belong to applications of this side."""
    for each in side.applications:
        own = [group for group in going if group.application == each.name]
        if not own:
            continue
        gone = sum(group.application == each.name for group in side.leaving.values())
        chosen = sum(group.id not in side.leaving for group in own)
        left = len(turn.state.groups_of(each.key)) - gone - chosen
        application = turn.state.applications[each.key]
        scale.shrink(turn.context, application, _ids(own), left, turn.options.transactions.periods.rolling_down)


def _nameable(going: list[TaskGroup]) -> list[TaskGroup]:
    """The first of them, as many as one record can name; the next step takes up the others."""
    ends = list(itertools.accumulate(len(group.id) + 3 for group in going))
    return going[: bisect.bisect_right(ends, VICTIM_BYTES)]


def _ids(chosen: list[TaskGroup]) -> tuple[str, ...]:
    return tuple(group.id for group in chosen)


def _begin_phase(turn: TurnContext, deployment: Deployment, phase: StepPhase, words: str, **targets: int) -> Deployment:
    step = deployment.step if deployment.phase else deployment.step + 1
    update_records.record_event(turn, deployment, "StepStarted", f"step {step}: {words}")
    return update_records.put(
        turn,
        deployment,
        phase=phase,
        step=step,
        step_since=turn.now,
        progress_at=turn.now,
        message=deployment.message if deployment.rolling_back else f"step {step}: {words}",
        **targets,
    )
