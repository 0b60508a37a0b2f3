"""Messages for the ends of taskgroups. The program compares only the code (store.codes.EndCause)."""

from __future__ import annotations

from collections.abc import Mapping

from store.codes import EndCause

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


def describe(cause: EndCause, detail: str = "") -> str:
    """Returns the message for an end cause; empty for the empty cause. `detail`: a message that takes the place of the
    general one, such as ``scaled down to 3``; empty: use the general message."""
    return detail or _WORDS[cause]
