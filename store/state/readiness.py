"""Taskgroups that are not ready, kept beside the records of taskgroups.

In a healthy application there is none, so the cost of a query about an application of 50,000 taskgroups depends only on
those that fail, start or end.
"""

from __future__ import annotations

from collections.abc import Mapping

from store.records import TaskGroup

Key = str
_NONE: Mapping[str, TaskGroup] = {}


class Readiness:
    """The taskgroups that are not ready, by application. State calls `changed` for every taskgroup that is put or
    removed. Only one thread may ask and change."""

    def __init__(self) -> None:
        self._unready: dict[Key, dict[str, TaskGroup]] = {}
        self._followed: dict[Key, dict[str, None]] = {}

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Readiness) and self._unready == other._unready

    __hash__ = None  # type: ignore[assignment]

    def unready(self, application: Key) -> Mapping[str, TaskGroup]:
        """Taskgroups of the application that are not ready, by id. Other threads may ask for the length, and copy
        the values at once."""
        return self._unready.get(application, _NONE)

    @property
    def all(self) -> Mapping[Key, Mapping[str, TaskGroup]]:
        """All taskgroups that are not ready, by application and id. For the thread of the core alone."""
        return self._unready

    def settle(self) -> None:
        """See `State.settle`."""
        self._unready = {
            application: dict(sorted(groups.items(), key=lambda item: (item[1].index, item[0])))
            for application, groups in sorted(self._unready.items())
        }

    def follow(self, application: Key, members: Mapping[str, TaskGroup]) -> dict[str, None]:
        """Ids of the taskgroups that have changed since the first call for the application, which returns all of
        `members`. The caller removes the ids that it has handled; an id comes back when its taskgroup changes again or
        a change is undone."""
        found = self._followed.get(application)
        if found is None:
            found = self._followed[application] = dict.fromkeys(members)
        return found

    def unfollow(self, application: Key) -> None:
        """Ends the effect of `follow` for the application; does nothing if it is not followed."""
        self._followed.pop(application, None)

    def changed(self, application: Key, key: str, after: TaskGroup | None) -> None:
        """Follows one changed taskgroup; `after` None: the record was removed."""
        unready = self._unready.get(application)
        if after is not None and not is_ready(after):
            if unready is None:
                unready = self._unready[application] = {}
            unready[key] = after
        elif unready is not None and key in unready:
            del unready[key]
            if not unready:
                del self._unready[application]
        if self._followed:
            self._note(application, key, after)

    def _note(self, application: Key, key: str, after: TaskGroup | None) -> None:
        followed = self._followed.get(application)
        if followed is None:
            return
        if after is None:
            followed.pop(key, None)
        else:
            followed[key] = None


def is_ready(group: TaskGroup) -> bool:
    """Returns True if the taskgroup runs, all checks of its tasks pass, and it is not being ended."""
    return group.status == "Running" and not group.killing_since and passes(group)


def passes(group: TaskGroup) -> bool:
    """Returns True if every check of every running task has passed; also without any checks."""
    for task in group.tasks:  # noqa: SIM110 (asked for every change of a taskgroup)
        if task.checks and not task.ended and task.healthy is not True:
            return False
    return True


def is_plain(group: TaskGroup) -> bool:
    """Returns True if the taskgroup has tasks, none of which has ended or is unhealthy. This holds for nearly all
    reported taskgroups."""
    for task in group.tasks:
        if task.ended or task.healthy is False:
            return False
    return bool(group.tasks)


def is_unhealthy(group: TaskGroup) -> bool:
    """Returns True if a task that has not ended fails its health checks."""
    for task in group.tasks:  # noqa: SIM110 (asked twice per status report)
        if task.healthy is False and not task.ended:
            return True
    return False
