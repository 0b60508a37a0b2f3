"""Reasons in lists: one line about a workload that is not as it is defined. `views.explain` has more."""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice
from typing import Literal, TypeAlias

from offers.model import Diagnosis
from store.records import Application, TaskGroup, Transaction, Version
from store.state.reader import StateReader
from transactions import explain
from transactions.rules import health, relaunch
from transactions.text import are, counted, have, named

Diagnose: TypeAlias = Callable[[str], Diagnosis | None]
"""The last placement pass for the open taskgroups of the transaction with this id; None = all have places, or the
scheduler does not lead."""
NotReplaced: TypeAlias = Literal["", "policy", "restarts", "finished"]
"""The code of the reason for which nothing replaces a taskgroup that has ended. policy: the restart policy is Never.
restarts: the restarts of the policy are used up. finished: its tasks were successful, and the policy replaces failed
taskgroups only. Empty: the taskgroup is replaced, has not ended, or was ended by an operation."""
RIGHT = ("Running", "Finish", "Stopped")
"""Statuses of applications without a reason, unless taskgroups are missing."""
FAILED = ("Failed", "Error", "Lost")
STARTING = ("Staging", "Starting")
LOOKED_AT = 100
"""Taskgroups and transactions of one application that are looked at to name one of them."""


def reason_of(state: StateReader, application: Application, diagnose: Diagnose) -> str:
    """Returns why an application is not as it is defined; empty if it is. Looks at a bounded number of taskgroups."""
    present = len(state.indexes_of(application.key))
    if application.status in RIGHT and present >= application.instances and not state.unhealthy(application.key):
        return ""
    found = "; ".join(causes(state, application, diagnose))
    return found or _operation(state, application) or application.message


def causes(state: StateReader, application: Application, diagnose: Diagnose) -> list[str]:
    """The causes of `reason_of` that taskgroups have; empty if only an operation or the message says more. Looks at a
    bounded number of taskgroups."""
    counts = state.status_counts(application.key)
    failed = sum(counts.get(status, 0) for status in FAILED)
    unhealthy = state.unhealthy(application.key)
    parts = [_without_place(state, application, diagnose)]
    if failed:
        parts.append(f"{counted(failed, 'taskgroup')} failed{_example(state, application, _failure)}")
    if unhealthy:
        example = _example(state, application, health.describe_failures)
        parts.append(f"{counted(unhealthy, 'taskgroup')} {are(unhealthy)} not healthy{example}")
    if again := _example(state, application, _failed_before):
        parts.append(f"starts again after a failure{again}")
    if evicted := sum(state.evicted(application.key).values()):
        example = _example(state, application, _eviction)
        parts.append(f"{counted(evicted, 'taskgroup')} {have(evicted)} no place after an eviction{example}")
    if counts.get("Unknown", 0):
        away = counts["Unknown"]
        parts.append(f"{counted(away, 'taskgroup')} {have(away)} no contact to the agent")
    return list(filter(None, parts))


def not_replaced(group: TaskGroup, version: Version | None, restarting: bool) -> NotReplaced:
    """Returns the code of the reason why a taskgroup is not replaced. `version`: its version; None = not known.
    `restarting`: a transaction replaces it."""
    if not group.ended or restarting or version is None or group.killing_since or relaunch.is_due(group):
        return ""
    policy = version.restart_policy
    if group.status == "Finish":
        return "" if policy.policy == "Always" and not policy.max_times else "finished"
    if policy.policy == "Never":
        return "policy"
    return "restarts" if 0 < policy.max_times <= group.restarts else ""


class Replacements:
    """The transactions that replace taskgroups of one state; kept for the duration of a request."""

    def __init__(self, state: StateReader) -> None:
        self._state = state
        self._known: dict[str, dict[str, Transaction]] = {}
        """The transactions of an application by taskgroup; only for applications with taskgroups that have ended."""

    def of(self, group: TaskGroup) -> Transaction | None:
        """The transaction that replaces a taskgroup; None if there is none, or the taskgroup has not ended."""
        if not group.ended:
            return None
        found = self._known.get(group.application_key)
        if found is None:
            active = list(self._state.active_of(group.application_key).values())
            found = self._known[group.application_key] = {one.taskgroup: one for one in active if one.taskgroup}
        return found.get(group.id)


def _without_place(state: StateReader, application: Application, diagnose: Diagnose) -> str:
    """The number of taskgroups that found no place, with the tests that agents failed for the first of them; empty if
    all have places. Replacements have a transaction each."""
    active = list(islice(state.active_of(application.key).values(), LOOKED_AT))
    found = list(filter(None, (diagnose(transaction.id) for transaction in active)))
    missing = sum(one.slots - one.placed for one in found)
    return f"{counted(missing, 'taskgroup')} without a place: {explain.reasons(found[0])}" if found else ""


def _operation(state: StateReader, application: Application) -> str:
    """The operation that works on the application; empty if there is none."""
    own: Transaction | None = state.transactions.get(application.operation)
    return f"{named(own.type, own.id)} is in progress" if own is not None and own.active else ""


def _example(state: StateReader, application: Application, words: Callable[[TaskGroup], str]) -> str:
    """The first taskgroup for which there are words, with them; empty if none is found among the first ones."""
    groups = state.in_order(TaskGroup, (application.namespace, application.name))
    for _, group in islice(groups, LOOKED_AT):
        found = words(group)
        if found:
            return f" ({group.name}: {found})"
    return ""


def _eviction(group: TaskGroup) -> str:
    return group.kill_reason if group.end_cause == "Evicted" else ""


def _failed_before(group: TaskGroup) -> str:
    return group.last_failure if group.status in STARTING else ""


def _failure(group: TaskGroup) -> str:
    return group.message if group.status in FAILED else ""
