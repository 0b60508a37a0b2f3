"""The reason of a taskgroup that has ended, in the same words for all commands and answers."""

from __future__ import annotations

NOT_REPLACED = {
    "policy": "not restarted (restart policy Never)",
    "restarts": "not restarted (all {limit} restarts are used up)",
}
"""Words for the codes of the reasons for which nothing replaces a taskgroup."""
BY_ITSELF = ("", "TaskEnded")
"""Causes of the end (`store.codes.EndCause`) of taskgroups that ended without a request: the task has the message."""


def cause_of_end(end_cause: str, kill_reason: str, message: str) -> str:
    """Returns the cause for which a taskgroup has ended: the request or the work that ended it, or the message of its
    task. May be empty."""
    return message if end_cause in BY_ITSELF else kill_reason or message


def ended(cause: str, *, again: str = "", not_replaced: str = "", limit: object = None) -> str:
    """The cause with the consequence, such as ``exit code 3, starts again in 12s``. `again`: the time until the next
    start; empty = not known. `not_replaced`: the code of the reason for which there is none; `limit`: the greatest
    number of restarts."""
    following = f"starts again in {again}" if again else ""
    return ", ".join(filter(None, (cause, NOT_REPLACED.get(not_replaced, "").format(limit=limit) or following)))
