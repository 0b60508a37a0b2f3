"""Launches that did not happen: the record of a taskgroup is durable, but no executor has ever run a task of it.

Such a taskgroup is launched again under every restart policy, and the new launch is no restart: it neither spends the
restart budget nor is it reported or counted as one. A task must never be launched twice.

Two reports show that a launch did not happen. DROPPED: the task never reached an agent. GONE in answer to a question:
the agent is there and does not have the task. Why GONE is certain depends on the cluster manager
(docs/decisions/0020-launches-that-did-not-happen.md). UNREACHABLE and UNKNOWN are not certain: the agent may have
started the task and may come back with it.
"""

from __future__ import annotations

from typing import Protocol

import msgspec

from store.records import TaskGroup
from transactions.rules.task_states import TaskState

FETCH_ATTEMPTS = 5
"""So often in a row the executor of a taskgroup may fail to be fetched, then the taskgroup has failed: the address of
the scheduler may be one that the agents cannot reach, which launching again does not mend."""
FREE_LAUNCHES = 3
LONGEST_PAUSE = 60.0
"""Seconds. After FREE_LAUNCHES the next one is held back by 1, 2, 4, ... up to this."""


class Report(Protocol):
    """The parts of a status update that matter here (transactions.rules.lifecycle.Report)."""

    @property
    def state(self) -> TaskState:
        """State of the task."""

    @property
    def answer(self) -> bool:
        """True if the report answers a question of this scheduler."""

    @property
    def unfetched(self) -> bool:
        """True if the agent could not fetch the executor."""


def did_not_happen(report: Report, group: TaskGroup) -> bool:
    """Returns True if the report of the end of a task means that the taskgroup was never launched."""
    if group.started:
        return False
    if report.state == TaskState.GONE:
        return report.answer
    # One executor runs all tasks: if it was not fetched for one of them, no task has run. An answer has no reason.
    alike = report.answer and report.state == TaskState.FAILED and _was_unfetched(group)
    return (report.unfetched or alike) and group.executor == "bcs" and group.unfetched + 1 < FETCH_ATTEMPTS


def lacks_reason(report: Report, group: TaskGroup) -> bool:
    """Returns True if the report is an answer that a task has failed, of which no other report has come. An answer has
    no reason, so a launch that did not happen looks like a failure. The agent repeats its own report, with the reason,
    until the report is acknowledged."""
    unseen = not group.started and not group.killing_since and group.executor == "bcs"
    return unseen and report.answer and report.state == TaskState.FAILED


def is_due(group: TaskGroup) -> bool:
    """Returns True if the taskgroup has ended without having been launched."""
    return group.ended and not group.started and group.status == "Lost"


def pause(group: TaskGroup) -> float:
    """Seconds after its end until the taskgroup is launched again. A fetch that failed is held back from the first time
    on, all others after FREE_LAUNCHES."""
    if _was_unfetched(group):
        return min(2.0**group.unfetched, LONGEST_PAUSE)
    tried = group.relaunches - FREE_LAUNCHES
    return 0.0 if tried < 0 else min(2.0 ** min(tried, 30), LONGEST_PAUSE)


def follow(group: TaskGroup, before: TaskGroup) -> TaskGroup:
    """Returns the new taskgroup with the counts of the one that it launches again, so that restarts continue to count
    from there."""
    return msgspec.structs.replace(
        group,
        restarts=before.restarts,
        last_restart_at=before.last_restart_at,
        relaunches=before.relaunches + 1,
        unfetched=before.unfetched + _was_unfetched(before),
    )


def _was_unfetched(group: TaskGroup) -> bool:
    return any(task.unfetched for task in group.tasks)
