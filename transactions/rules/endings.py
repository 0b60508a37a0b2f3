"""Messages for the ends of taskgroups, and the delay before them. The program compares only the code
(store.codes.EndCause)."""

from __future__ import annotations

from collections.abc import Mapping

from store.codes import EndCause
from store.records import TaskGroup, Version

_WORDS: Mapping[EndCause, str] = {
    "": "",
    "TaskEnded": "a task of it has ended",
    "NewVersion": "replaced by a new version",
    "RollingUpdate": "removed by a rolling update",
    "ScaledDown": "scaled down",
    "Deleted": "application deleted",
    "Rescheduled": "rescheduled on request",
    "Drained": "moved away from its agent",
    "Misplaced": "its agent is not for it any more",
    "Evicted": "evicted by the policy",
}
MOVES: tuple[EndCause, ...] = ("Drained", "Rescheduled")
"""The causes of ends of taskgroups that leave for another agent."""


def describe(cause: EndCause, detail: str = "") -> str:
    """Returns the message for an end cause; empty for the empty cause. `detail`: a message that takes the place of the
    general one, such as ``scaled down to 3``; empty: use the general message."""
    return detail or _WORDS[cause]


def shutdown_delay(group: TaskGroup, version: Version | None) -> float:
    """Returns the seconds from the decision to end a taskgroup until its first KILL. 0.0 for a taskgroup that no
    client can have used, or of which a task has ended. `version`: of the taskgroup; None: it is gone."""
    if version is None or not group.started or group.end_cause == "TaskEnded":
        return 0.0
    return version.kill_policy.shutdown_delay
