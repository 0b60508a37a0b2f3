"""The status of a deployment: counts, progress and conditions, derived from its record and its taskgroups. Pure.

The condition `Available` says whether enough taskgroups are available, `Progressing` whether the deployment approaches
its wanted state. Their reasons are single words that programs may rely on.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Literal, NamedTuple

from store.advice import advise
from store.ids import object_key
from store.records import Deployment, TaskGroup
from store.state.reader import StateReader
from transactions.rules.lifecycle import is_ready
from transactions.rules.rolling import available, with_problems
from transactions.text import counted

ProgressReason = Literal[
    "StepFailed",
    "Paused",
    "Deleting",
    "RollingBack",
    "Updating",
    "ChangingLimits",
    "RolledBack",
    "LaunchFailed",
    "Ended",
    "Starting",
    "Complete",
]
"""Reasons of the condition Progressing. The set is additive: docs/api.md lists it, and programs compare it."""
AvailableReason = Literal["Enough", "TooFew"]
"""Reasons of the condition Available."""


class Condition(NamedTuple):
    """One condition of a deployment. `reason` is a code, `message` is for people."""

    type: Literal["Progressing", "Available"]
    status: Literal["True", "False", "Unknown"]
    reason: ProgressReason | AvailableReason
    message: str


class DeploymentSummary(NamedTuple):
    """Counts and conditions of a deployment. `old` and `new`: taskgroups of the shrinking and of the growing side of an
    update; without an update, all are new. `done` of `total` taskgroups are as wanted."""

    old: int
    new: int
    new_ready: int
    ready: int
    available: int
    done: int
    total: int
    conditions: tuple[Condition, Condition]


def summarize(state: StateReader, deployment: Deployment, now: float) -> DeploymentSummary:
    """Computes the summary of a deployment. `now`: Unix seconds. Any thread may call, also while the core changes
    records: the summary is of one moment, and calls nothing a failure that the core may be about to repair."""
    return state.moment.read(partial(_summary, state, deployment, now))


def _summary(state: StateReader, deployment: Deployment, now: float, since: float) -> DeploymentSummary:
    """The summary. `since`: see `Moment`."""
    bound = _groups(state, deployment, deployment.application)
    successor = _groups(state, deployment, deployment.successor)
    old, new = (bound, successor) if deployment.updating else ([], bound)
    superseded = [group for name in deployment.retiring for group in _groups(state, deployment, name)]
    everything = [*old, *superseded, *new]
    lasting = 0.0 if deployment.rolling_back else deployment.strategy.min_ready
    serving = sum(available(group, lasting, now) for group in everything)
    wanted, leaving = (old, new) if deployment.rolling_back else (new, old)
    leaving = [*leaving, *superseded]
    there = sum(available(group, lasting, now) for group in wanted)
    total = deployment.instances
    # The update has not ended while taskgroups have to be removed.
    done = min(there, total) if not leaving else min(there, max(0, total - 1))
    return DeploymentSummary(
        old=len(old) + len(superseded),
        new=len(new),
        new_ready=sum(map(is_ready, new)),
        ready=sum(map(is_ready, everything)),
        available=serving,
        done=done,
        total=total,
        conditions=(_progressing(state, deployment, done, total, since), _available(deployment, serving)),
    )


def _groups(state: StateReader, deployment: Deployment, name: str) -> Sequence[TaskGroup]:
    return list(state.groups_of(object_key(deployment.namespace, name)).values()) if name else []


def _progressing(state: StateReader, deployment: Deployment, done: int, total: int, since: float) -> Condition:
    words = deployment.message
    match deployment.status:
        case "UpdateSuspend":
            return Condition("Progressing", "False", "StepFailed", words or "a step of the update did not end in time")
        case "UpdatePaused":
            return Condition("Progressing", "Unknown", "Paused", words or "the update is paused")
        case "Deleting":
            return Condition("Progressing", "True", "Deleting", words or "its taskgroups are being ended")
    if deployment.updating:
        reason: ProgressReason = "RollingBack" if deployment.rolling_back else "Updating"
        return Condition("Progressing", "True", reason, words or f"{done} of {counted(total, 'taskgroup')} as wanted")
    if deployment.status == "UpdateResource":
        return Condition("Progressing", "True", "ChangingLimits", words or "limits are being changed in place")
    later = [r for r in list(state.revisions_of(deployment.key).values()) if r.number > deployment.revision]
    # The revision of an update is written before the update begins.
    undone = any(revision.created_at < since for revision in later)
    if undone and not deployment.rollback_requested:
        return Condition("Progressing", "False", "RolledBack", words or f"revision {deployment.revision} runs again")
    halted = _halted(state, deployment, since)
    if halted is not None:
        return halted
    if done < total:
        return Condition(
            "Progressing", "True", "Starting", words or f"{done} of {counted(total, 'taskgroup')} available"
        )
    return Condition("Progressing", "True", "Complete", words or f"revision {deployment.revision} runs")


def _halted(state: StateReader, deployment: Deployment, since: float) -> Condition | None:
    """Returns the condition of a deployment at rest that does not reach its wanted state by itself, or not soon; None
    if there is no such obstacle. Taskgroups and operations that have ended in turns whose consequences are not all
    recorded (`since`) are no obstacle yet."""
    key = deployment.application_key
    if deployment.updated_at >= since or any(t.finished_at >= since for t in list(state.transactions_of(key).values())):
        return None
    active = list(state.active_of(key).values())
    missing = deployment.instances - len(state.indexes_of(key))
    if missing > 0 and all(transaction.taskgroup for transaction in active):
        words = deployment.message or f"{missing} of {counted(deployment.instances, 'taskgroup')} missing"
        way_on = "it is tried again"
        if deployment.launch_failed:
            way_on = advise("launch_again", name=deployment.name, instances=str(deployment.instances))
        return Condition("Progressing", "False", "LaunchFailed", f"{words}; {way_on}")
    restarted = {transaction.taskgroup for transaction in active}
    ended = [g for g in list(state.groups_of(key).values()) if g.ended and g.ended_at < since and g.id not in restarted]
    if not ended:
        return None
    listed = with_problems(sorted(ended, key=lambda g: g.index))
    words = f"{counted(len(ended), 'taskgroup')} ended and not restarted: {listed}"
    return Condition("Progressing", "False", "Ended", words)


def _available(deployment: Deployment, serving: int) -> Condition:
    # With one instance, maxUnavailable would allow that there is none: it must not be called available then.
    needed = max(min(1, deployment.instances), deployment.instances - deployment.strategy.max_unavailable)
    if serving >= needed:
        return Condition("Available", "True", "Enough", f"{counted(serving, 'taskgroup')} available, {needed} needed")
    return Condition("Available", "False", "TooFew", f"{counted(serving, 'taskgroup')} available, {needed} needed")
