"""Lost taskgroups: those that ended with their agent, and those on unreachable agents."""

from __future__ import annotations

from store.advice import advise
from store.records import TaskGroup
from transactions.rules.taskgroups import relaunch

HALTED = "for the end of a large loss: lost taskgroups are not replaced now (bcs resume)"
"""Message of a replacement that a large loss stops."""

UNDECIDED = f"for a decision about running taskgroups that the store does not know: {advise('decide_unknown')}"
"""Message of a launch that unknown tasks stop."""
HALTS = frozenset({HALTED, UNDECIDED})


def is_lost(group: TaskGroup) -> bool:
    """True if the agent of the taskgroup is unreachable or gone, and the taskgroup has no replacement yet. A launch
    that did not happen is no loss: a leader that dies in a large launch leaves many of these."""
    return bool(group.unreachable_since) or (group.status == "Lost" and not relaunch.is_due(group))
