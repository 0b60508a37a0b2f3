"""The inputs of sessions: one snapshot per role, which follows records and offers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from typing import NamedTuple

from bcs_scheduler.core.context import TurnContext
from bcs_scheduler.core.placement.sessions.pending import Planned
from bcs_scheduler.core.placement.sessions.role import Changes, Moving, RoleSnapshot, SessionInput
from bcs_scheduler.core.placement.sessions.rooms import LeavingRooms
from offers.model import Demand
from offers.policy.session.model import Nomination
from store.ids import owner_of
from store.records import Namespace, Record, TaskGroup
from transactions.base import Slot

LEAVES_ROOM = frozenset({"Failed", "Error", "Finish", "Killed"})
"""The states of taskgroups that have ended on an agent that is there: the agent has their room."""
TaskName = tuple[str, str]
"""Names of job and task."""


class Promises(NamedTuple):
    """The promises of earlier sessions."""

    nominations: Mapping[TaskName, Nomination]
    leaving: LeavingRooms


class Snapshots:
    """Keeps a snapshot for each role in which sessions have been held."""

    def __init__(self, turn: TurnContext) -> None:
        self._turn, self._state, self._pool = turn, turn.state, turn.pool
        self._roles: dict[str, RoleSnapshot] = {}
        self._touched = turn.pool.follow()
        turn.watch("offers", ("taskgroup",), self._group_changed)
        turn.watch("offers", ("application",), self._application_changed)
        turn.watch("offers", ("version",), self._version_changed)
        turn.watch("offers", ("namespace",), self._namespace_changed)
        turn.watch("offers", ("queue",), self._queue_changed)

    def roles(self, first: str) -> list[str]:
        """The roles with a snapshot, and this one."""
        return list(dict.fromkeys((first, *self._roles)))

    def take(
        self,
        role: str,
        demands: Iterable[Demand[Slot]],
        most: Mapping[str, int],
        planned: Iterable[Planned],
        promises: Promises,
        now: float,
        *,
        plain: bool = False,
    ) -> SessionInput:
        """The state of one role, valid until the next call. `demands`: the open ones of the role. `most`: number of
        slots that take part, by the id of the demand, where not all do. `now`: Unix seconds. `plain`: the decisions
        come from a tree of queues; the same in all calls for a role."""
        self.drain()
        return self._of(role, plain=plain).take(self.moving(role, demands, most, planned, promises), now)

    def expect(self, role: str, rooms: LeavingRooms, now: float) -> None:
        """Has `rooms` follow the taskgroups of a role that have ended since the latest call. `now`: Unix seconds."""
        found = self._roles.get(role)
        if found is not None:
            rooms.end(role, found.changes(is_new=False).snapshot, found.held.ended(), now)

    def catch_up(self, role: str, now: float, *, plain: bool = False, left: int | None = None) -> bool:
        """Takes over a part of the changes of a role, if there are many. False: the next `take` costs little beside the
        open demands. `now`: Unix seconds. `left`: see `RoleSnapshot.catch_up`. The other arguments are those of
        `take`."""
        self.drain()
        return self._of(role, plain=plain).catch_up(now, left)

    def changes(self, role: str, *, is_new: bool) -> Changes:
        """See `RoleSnapshot.changes`. Raises KeyError before the first `catch_up` or `take`."""
        return self._roles[role].changes(is_new)

    def _of(self, role: str, *, plain: bool) -> RoleSnapshot:
        found = self._roles.get(role)
        if found is None:
            found = self._roles[role] = RoleSnapshot(self._state, self._pool, role, plain=plain)
        return found

    def mark(self, role: str) -> None:
        """Has `unchanged` look at changes from now on."""
        self.drain()
        if role in self._roles:
            self._roles[role].mark()

    def unchanged(self, role: str) -> bool:
        """True if nothing that decides about new work has changed since the latest `take` for a role, and no agent
        since the latest `mark`. Changes of taskgroups that were launched before do not count."""
        self.drain()
        return role in self._roles and self._roles[role].unchanged

    def forget(self) -> None:
        """Drops the snapshots; the next ones are made anew."""
        self._roles.clear()

    def drain(self) -> None:
        """Takes over which agents have changed."""
        for agent in self._touched:
            for role in self._roles.values():
                role.touch(agent)
        self._touched.clear()

    def moving(
        self,
        role: str,
        demands: Iterable[Demand[Slot]],
        most: Mapping[str, int],
        planned: Iterable[Planned],
        promises: Promises,
    ) -> Moving:
        """The arguments of `take` as a role takes them."""
        here = [(demand, placement) for demand, placement in planned if demand.role == role]
        gone = partial(promises.leaving.tasks, role, here)
        return Moving(demands, most, here, promises.nominations, gone)

    # --- changes of records -----------------------------------------------------------------------------------

    def _group_changed(self, key: str, before: Record | None, after: Record | None) -> None:
        group = after if after is not None else before
        if isinstance(group, TaskGroup):
            for role in self._roles.values():
                role.held.note(group.application_key, key, present=after is not None)
            if not (isinstance(before, TaskGroup) and isinstance(after, TaskGroup)):
                return
            if before.ended and not after.ended:
                for role in self._roles.values():
                    role.held.forget_end(key)
            elif _leaves_room(before, after):
                for role in self._roles.values():
                    if not (role.plain and before.killing_since):  # trees follow their own victims
                        role.held.note_end(before, self._turn.now)

    def _application_changed(self, key: str, _before: Record | None, _after: Record | None) -> None:
        for role in self._roles.values():
            role.application_changed(key)

    def _version_changed(self, key: str, _before: Record | None, _after: Record | None) -> None:
        for role in self._roles.values():
            role.application_changed(owner_of(key))

    def _namespace_changed(self, key: str, _before: Record | None, _after: Record | None) -> None:
        for role in self._roles.values():
            role.namespace_changed(key)

    def _queue_changed(self, key: str, before: Record | None, after: Record | None) -> None:
        for role in self._roles.values():
            role.note_queues()
        if (before is None) is not (after is None):
            for name, record in self._state.namespaces.items():
                if isinstance(record, Namespace) and record.queue == key:
                    self._namespace_changed(name, None, None)


def _leaves_room(before: TaskGroup, after: TaskGroup) -> bool:
    """True if a taskgroup has ended and was not lost."""
    return after.status in LEAVES_ROOM and after.ended and not before.ended
