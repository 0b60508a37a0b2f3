"""How far an operation is: derived from the taskgroups that exist, never stored while it is active."""

from __future__ import annotations

from typing import NamedTuple

from store.records import Transaction
from store.state import State
from transactions.lifecycle import is_leaving, is_ready, serves


class Progress(NamedTuple):
    done: int
    remaining: int


def progress(state: State, transaction: Transaction) -> Progress:
    """How far an operation is, derived from the taskgroups that exist; the last word on it is the ended record.

    LAUNCH, SCALE: wanted indexes that are held, or on the way down what is not yet above the target. INNERSCALE of a
    rolling update: taskgroups that are there, or victims that are gone. UPDATE: taskgroups of the wanted version that
    are ready. RESCHEDULE: the old taskgroup has made way. DELETE: taskgroups that are gone.
    """
    target = transaction.target
    if not transaction.active:
        return Progress(transaction.progress, max(0, target - transaction.progress))
    application = f"{transaction.namespace}/{transaction.application}"
    if transaction.type == "LAUNCH" and transaction.inner:
        return _of_daemonset(state, application, target)
    if transaction.type == "INNERSCALE" and transaction.victims:
        left = sum(identity in state.taskgroups for identity in transaction.victims)
        return Progress(len(transaction.victims) - left, left)
    rolls = state.applications.get(application)
    if transaction.type == "INNERSCALE" and rolls is not None and rolls.rolling:
        there = sum(not is_leaving(group) for group in list(state.groups_of(application).values()))
        return Progress(min(there, target), max(0, target - there))
    match transaction.type:
        case "LAUNCH" | "SCALE" | "INNERSCALE":
            held = list(state.indexes_of(application))
            wanted = sum(1 for index in held if index < target)
            beyond = len(held) - wanted
            return Progress(max(0, target - beyond) if beyond else wanted, target - wanted + beyond)
        case "UPDATE":
            groups = list(state.groups_of(application).values())
            counted = serves if rolls is not None and rolls.type == "daemonset" else is_ready
            ready = sum(1 for group in groups if group.version == transaction.version and counted(group))
            return Progress(min(ready, target), max(0, target - ready))
        case "RESCHEDULE":
            waiting = transaction.taskgroup in state.taskgroups
            return Progress(int(not waiting), int(waiting))
        case "DELETE":
            left = len(state.groups_of(application))
            return Progress(max(0, target - left), left)


def _of_daemonset(state: State, key: str, target: int) -> Progress:
    """Agents that have got their taskgroup, of those that lacked one when the launch began."""
    application = state.applications.get(key)
    wanted = application.instances if application is not None else 0
    lacking = max(0, wanted - len({group.agent_id for group in list(state.groups_of(key).values())}))
    return Progress(max(0, target - lacking), lacking)
