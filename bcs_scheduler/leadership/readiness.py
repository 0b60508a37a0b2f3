"""The checks of /readyz about the role of a process, as functions of its term and its standby."""

from __future__ import annotations

import time

from bcs_scheduler.leadership.gateway import Check
from bcs_scheduler.leadership.standby import READING, STALE, Standby
from bcs_scheduler.leadership.term import STALL, Term
from store.base import Store
from transactions.rules.losses import words_of_unknown
from transactions.text import duration


def store(store: Store, problem: str, term: Term | None, quarantined: int) -> Check:
    """Checks the store. `problem`: why the store cannot be used, empty if it can. `term` None: the process does not
    lead. `quarantined`: number of records that cannot be decoded."""
    stalled = term.stalled_for() if term is not None else 0.0
    if problem:
        return Check("store", False, problem)
    if stalled > STALL:
        return Check("store", False, f"changes have been waiting for {duration(stalled)}")
    if not store.healthy():
        return Check("store", False, "the store cannot be reached or written; the log has the reason")
    return Check("store", True, f"{quarantined} records quarantined, see the log" if quarantined else "connected")


def leadership(term: Term | None, leader: str | None) -> Check:
    """Checks that a leader is known. `term` None: this process does not lead. `leader`: URL of the process that leads;
    None: no leader is known."""
    if term is not None:
        return Check("leadership", True, f"master, epoch {term.epoch}")
    return Check("leadership", leader is not None, f"slave of {leader}" if leader else "no leader is known")


def standby(following: Standby | None) -> list[Check]:
    """Checks that a process that does not lead can answer reads. `following` None: the process leads, or follows
    nothing yet; then there is no check."""
    if following is None:
        return []
    age = following.status().age
    if age is None:
        return [Check("standby", False, following.problem or READING)]
    return [Check("standby", age <= STALE, f"its records are {duration(age)} old")]


def cluster_manager(term: Term | None) -> list[Check]:
    """Checks that the leader is subscribed. `term` None: this process does not lead; then there is no check."""
    if term is None:
        return []
    if term.core.fatal:
        return [Check("mesos", False, f"the framework was removed: {term.core.fatal}")]
    status = term.driver.status()
    if status["connected"]:
        return [Check("mesos", True, f"subscribed with {status.get('master', '')}")]
    return [Check("mesos", False, f"not subscribed: {status.get('error') or 'connecting'}")]


def unknown_tasks(term: Term | None) -> list[Check]:
    """Checks that the store knows the tasks that run. `term` None: this process does not lead; then there is no check,
    as without a fault."""
    halt = term.core.state.framework.unknown if term is not None else None
    if halt is None:
        return []
    return [Check("tasks", False, words_of_unknown(halt), "unknown_tasks")]


def publishing(term: Term | None) -> list[Check]:
    """Checks that services are published, if the settings ask for publishing. `term` None: this process does not lead;
    then there is no check."""
    status = term.publishing() if term is not None else None
    if status is None:
        return []
    if status.problem:
        # Another scheduler could not publish either, and this one serves everything else.
        return [Check("publishing", True, f"for {duration(time.monotonic() - status.since)}: {status.problem}")]
    words = "services are published"
    if status.skipped:
        path, why = min(status.skipped.items())
        more = f", and {len(status.skipped) - 1} more" if len(status.skipped) > 1 else ""
        words += f", without {path} ({why}){more}"
    return [Check("publishing", True, words)]
