"""The inputs of engines: one snapshot per role, which follows records and offers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from bcs_scheduler.core.placement.snapshots.pending import Planned
from bcs_scheduler.core.placement.snapshots.role import Changes, Moving, RoleInput, RoleSnapshot
from bcs_scheduler.core.placement.turn import Turn
from offers.model import Demand
from offers.policy.session.model import Nomination
from transactions.base import Slot

TaskName = tuple[str, str]
"""Names of job and task."""


class Snapshots:
    """Keeps a snapshot for each role about which engines have decided."""

    def __init__(self, turn: Turn) -> None:
        self._turn, self._pool = turn, turn.pool
        self._roles: dict[str, RoleSnapshot] = {}
        self._touched = turn.pool.follow()
        turn.source.follow(self)

    def roles(self, first: str) -> list[str]:
        """The roles with a snapshot, and this one."""
        return list(dict.fromkeys((first, *self._roles)))

    def of_role(
        self,
        role: str,
        demands: Iterable[Demand[Slot]],
        most: Mapping[str, int],
        planned: Iterable[Planned],
        nominations: Mapping[TaskName, Nomination],
        now: float,
        *,
        plain: bool = False,
    ) -> RoleInput:
        """The state of one role, valid until the next call. `demands`: the open ones of the role. `most`: number of
        slots that take part, by the id of the demand, where not all do. `now`: Unix seconds. `plain`: the decisions
        come from a tree of queues; the same in all calls for a role."""
        self.drain()
        return self._of(role, plain=plain).inputs(self.moving(role, demands, most, planned, nominations), now)

    def catch_up(self, role: str, now: float, *, plain: bool = False, left: int | None = None) -> bool:
        """Takes over a part of the changes of a role, if there are many. False: the next input costs little beside the
        open demands. `now`: Unix seconds. `left`: see `RoleSnapshot.catch_up`. The other arguments are those of
        `of_role`."""
        self.drain()
        return self._of(role, plain=plain).catch_up(now, left)

    def changes(self, role: str, *, is_new: bool) -> Changes:
        """See `RoleSnapshot.changes`. Raises KeyError before the first `catch_up` or `of_role`."""
        return self._roles[role].changes(is_new)

    def _of(self, role: str, *, plain: bool) -> RoleSnapshot:
        snapshot = self._roles.get(role)
        if snapshot is None:
            snapshot = self._roles[role] = RoleSnapshot(self._turn.source, self._pool, role, plain=plain)
        return snapshot

    def mark(self, role: str) -> None:
        """Has `unchanged` look at changes from now on."""
        self.drain()
        if role in self._roles:
            self._roles[role].mark()

    def unchanged(self, role: str) -> bool:
        """True if nothing that decides about new work has changed since the latest `of_role` for a role, and no agent
        since the latest `mark`. Changes of taskgroups that were launched before do not count."""
        self.drain()
        return role in self._roles and self._roles[role].unchanged

    def forget(self) -> None:
        """Drops the snapshots; the next ones are made anew."""
        self._roles.clear()

    def drop_figures(self) -> None:
        """Has all snapshots read everything again. No decision changes."""
        for role in self._roles.values():
            role.drop_figures()

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
        nominations: Mapping[TaskName, Nomination],
    ) -> Moving:
        """The arguments of `of_role` as a role takes them."""
        here = [(demand, placement) for demand, placement in planned if demand.role == role]
        return Moving(demands, most, here, nominations)

    # --- changes of the source

    def unit_changed(self, application: str, unit: str, *, present: bool) -> None:
        """See `source.Follower`."""
        for role in self._roles.values():
            role.held.note(application, unit, present=present)

    def application_changed(self, application: str) -> None:
        """See `source.Follower`."""
        for role in self._roles.values():
            role.application_changed(application)

    def namespace_changed(self, namespace: str) -> None:
        """See `source.Follower`."""
        for role in self._roles.values():
            role.namespace_changed(namespace)

    def queues_changed(self) -> None:
        """See `source.Follower`."""
        for role in self._roles.values():
            role.note_queues()
