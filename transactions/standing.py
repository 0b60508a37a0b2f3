"""How a deployment stands: counts, progress and conditions, derived from its record and its taskgroups. Pure.

`Available` says whether it serves within its bounds, `Progressing` whether it gets where it is wanted; their reasons
are single words that programs may rely on.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple

from store.records import Deployment, TaskGroup
from store.state import State
from transactions.explain import several
from transactions.lifecycle import serves
from transactions.rolling import available, named


class Condition(NamedTuple):
    type: Literal["Progressing", "Available"]
    status: Literal["True", "False", "Unknown"]
    reason: str
    message: str


class Standing(NamedTuple):
    """`old` and `new`: taskgroups on the leaving and the arriving side of an update; without one all are new. `done` of
    `total` are where they are wanted."""

    old: int
    new: int
    new_ready: int
    ready: int
    available: int
    done: int
    total: int
    conditions: tuple[Condition, Condition]


def standing(state: State, deployment: Deployment, now: float) -> Standing:
    """`now`: Unix seconds. Any thread may ask."""
    bound = _groups(state, deployment, deployment.application)
    successor = _groups(state, deployment, deployment.successor)
    old, new = (bound, successor) if deployment.updating else ([], bound)
    everything = [*old, *new]
    lasting = 0.0 if deployment.back else deployment.strategy.min_ready
    serving = sum(available(group, lasting, now) for group in everything)
    wanted, leaving = (old, new) if deployment.back else (new, old)
    there = sum(available(group, lasting, now) for group in wanted)
    total = deployment.instances
    # As long as anything has to go, the update has not come to its end.
    done = min(there, total) if not leaving else min(there, max(0, total - 1))
    return Standing(
        old=len(old),
        new=len(new),
        new_ready=sum(map(serves, new)),
        ready=sum(map(serves, everything)),
        available=serving,
        done=done,
        total=total,
        conditions=(_progressing(state, deployment, done, total), _available(deployment, serving)),
    )


def _groups(state: State, deployment: Deployment, name: str) -> Sequence[TaskGroup]:
    return list(state.groups_of(f"{deployment.namespace}/{name}").values()) if name else []


def _progressing(state: State, deployment: Deployment, done: int, total: int) -> Condition:
    words = deployment.message
    match deployment.status:
        case "UpdateSuspend":
            return Condition("Progressing", "False", "StepFailed", words or "a step of the update did not end in time")
        case "UpdatePaused":
            return Condition("Progressing", "Unknown", "Paused", words or "the update is paused")
        case "Deleting":
            return Condition("Progressing", "True", "Deleting", words or "its taskgroups are being ended")
    if deployment.updating:
        reason = "RollingBack" if deployment.back else "Updating"
        return Condition("Progressing", "True", reason, words or f"{done} of {total} taskgroups are as wanted")
    if deployment.status == "UpdateResource":
        return Condition("Progressing", "True", "ChangingLimits", words or "limits are being changed in place")
    if max(state.revisions_of(deployment.key), default=0) > deployment.revision:
        return Condition("Progressing", "False", "RolledBack", words or f"revision {deployment.revision} runs again")
    halted = _halted(state, deployment)
    if halted is not None:
        return halted
    if done < total:
        return Condition("Progressing", "True", "Starting", words or f"{done} of {total} taskgroups are available")
    return Condition("Progressing", "True", "Complete", words or f"revision {deployment.revision} runs")


def _halted(state: State, deployment: Deployment) -> Condition | None:
    """Why a deployment at rest does not get to all it wants by itself, or not soon."""
    key = f"{deployment.namespace}/{deployment.application}"
    active = list(state.active_of(key).values())
    missing = deployment.instances - len(state.indexes_of(key))
    if missing > 0 and all(transaction.type == "RESCHEDULE" for transaction in active):
        words = deployment.message or f"{missing} of {deployment.instances} taskgroups are missing"
        return Condition("Progressing", "False", "LaunchFailed", f"{words}; it is tried again")
    restarted = {transaction.taskgroup for transaction in active}
    ended = [g for g in state.groups_of(key).values() if g.ended and g.id not in restarted]
    if not ended:
        return None
    words = f"{several(len(ended), 'taskgroup')} ended and not restarted: {named(sorted(ended, key=lambda g: g.index))}"
    return Condition("Progressing", "False", "Ended", words)


def _available(deployment: Deployment, serving: int) -> Condition:
    needed = max(0, deployment.instances - deployment.strategy.max_unavailable)
    if serving >= needed:
        return Condition("Available", "True", "Enough", f"{serving} taskgroups are available, {needed} are needed")
    return Condition("Available", "False", "TooFew", f"{serving} taskgroups are available, {needed} are needed")
