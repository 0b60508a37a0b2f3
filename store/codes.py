"""Codes on records: closed sets that the program compares. Sentences for people are made from them, and never compared.

Each set is additive: a new code is a new value.
"""

from __future__ import annotations

from typing import Literal

EndCause = Literal[
    "", "TaskEnded", "NewVersion", "RollingUpdate", "ScaledDown", "Deleted", "Rescheduled", "Drained", "Misplaced",
    "Evicted",
]  # fmt: skip
"""Reasons for which the scheduler ends a taskgroup; empty: the taskgroup is not being ended.

* TaskEnded: a task of the taskgroup has ended by itself, so the others are ended; the restart policy applies
* NewVersion: an update replaces the taskgroup
* RollingUpdate: a rolling update removes the taskgroup; nothing restarts or replaces it
* ScaledDown: the application wants fewer taskgroups
* Deleted: the application is deleted
* Rescheduled: a user asked for a replacement
* Drained: the taskgroup moves away from an agent that is drained
* Misplaced: the agent is not for the daemonset (any more); nothing replaces the taskgroup
* Evicted: the policy gives the room to more urgent work; the taskgroup waits for another place
"""

DrainPhase = Literal["Pending", "Moving", "Done", "Failed"]
"""The phases of a drain.

* Pending: recorded, and not looked at since
* Moving: taskgroups are moved, or wait to be moved
* Done: no taskgroup is left
* Failed: the drain ended with taskgroups left, or no agent has its name
"""

NoteCode = Literal["", "Stuck"]
"""The meaning of a history line for the program; empty: the line is for users only.

* Stuck: the update of a daemonset made no progress, and an event has told so
"""
