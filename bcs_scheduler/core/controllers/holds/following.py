"""The changes of taskgroups that concern holds."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from bcs_scheduler.core.context import TurnContext
from offers.model import Site
from store.records import TaskGroup


def site_of(group: TaskGroup) -> Site:
    """The agent and the role with the room of a taskgroup."""
    return group.agent_id, group.role or "*"


def follow_taskgroups(
    turn: TurnContext,
    changed: Iterable[tuple[str, str]],
    concerns: Callable[[TaskGroup], bool],
    follow: Callable[[TaskGroup], None],
    forget: Callable[[str], None],
) -> None:
    """Calls `follow` for each changed taskgroup that is alive and for which `concerns` is true, and `forget` for the id
    of each that has ended or is gone. `changed`: kind and key, as for `Controller.notice`."""

    def follow_key(key: str) -> None:
        group = turn.state.taskgroups.get(key)
        if group is None or group.ended:
            forget(key)
        elif concerns(group):
            follow(group)

    turn.each("taskgroup", [key for kind, key in changed if kind == "taskgroup"], follow_key)
