"""The placement passes of all partitions of roles: each partition has a policy of its own.

A pass sees the demands and the offers of its roles only. The passes decide one after the other. They share one
launcher, so that namespaces take turns at launches across partitions, and the snapshots, one for each role.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Sequence
from functools import partial
from itertools import islice

from bcs_scheduler.core.context import TurnContext
from bcs_scheduler.core.options import OTHERS, RolePartition
from bcs_scheduler.core.placement.aging import KeptRoom
from bcs_scheduler.core.placement.foreseen import Policy
from bcs_scheduler.core.placement.groups import apart
from bcs_scheduler.core.placement.hierarchy.hierarchy_pass import HierarchyPass
from bcs_scheduler.core.placement.launcher import Launcher, Site
from bcs_scheduler.core.placement.placement_pass import Covers, PlacementPass, every_role
from bcs_scheduler.core.placement.sessions.session_pass import SessionPass
from bcs_scheduler.core.placement.sessions.snapshots import Snapshots
from bcs_scheduler.core.time_budget import TimeBudget
from offers.model import Demand
from offers.policy.obstacles import Attempt, Obstacle, Tally
from transactions.base import Slot

MOST_HOLDS = 256
"""Holds of taskgroups that an explanation looks at, the oldest."""


def placing_of(turn: TurnContext) -> PlacementPass:
    """The pass of the options: that of the one partition, or `Partitions`. The placer asks it from now on."""
    placing = _placing(turn)
    turn.placer.reserved = partial(_reserved, turn, placing)
    return placing


def _reserved(turn: TurnContext, placing: PlacementPass, demand: Demand[Slot]) -> Attempt | None:
    """The agents of the role of a demand whose room is kept for other applications, by reservations and by holds of
    taskgroups; None if there are none."""
    kept: dict[tuple[str, str], float] = {}
    """The latest end in Unix seconds by application and agent; 0 if no moment is known."""
    for room in placing.kept_rooms():
        if room.role == demand.role:
            kept[room.application, room.agent] = room.until
    for unit, (_, site, _) in islice(turn.pool.holds, MOST_HOLDS):
        group = turn.state.taskgroups.get(unit) if isinstance(unit, str) else None
        if group is not None and site[1] == demand.role:
            kept.setdefault((group.application_key, site[0]), turn.pool.holds.until(unit) or 0.0)
    tally = Tally()
    for (application, _), until in kept.items():
        if application != demand.application:
            tally.count(Obstacle.RESERVED, 1, application, until)
    return tally.attempt(turn.now) if tally else None


def _placing(turn: TurnContext) -> PlacementPass:
    parts, launcher = turn.options.parts(), Launcher(turn)
    if len(parts) == 1:
        placing = _pass(turn, parts[0], launcher, every_role)
        only = placing if isinstance(placing, SessionPass) else None
        turn.placer.policy_of, turn.placer.has_policy = (lambda role: only), only is not None
        return placing
    numbers = {role: number for number, part in enumerate(parts) for role in part.roles}
    rest = numbers[OTHERS]

    def number_of(role: str) -> int:
        return numbers.get(role, rest)

    def covers(number: int) -> Covers:
        return lambda role: number_of(role) == number

    snapshots = Snapshots(turn) if any(part.kind != "simple" for part in parts) else None
    passes = [_pass(turn, part, launcher, covers(number), snapshots) for number, part in enumerate(parts)]
    policies: list[Policy | None] = [one if isinstance(one, SessionPass) else None for one in passes]
    turn.placer.policy_of, turn.placer.has_policy = (lambda role: policies[number_of(role)]), any(policies)
    named = [part.decides for part in parts]
    trees = sum(isinstance(one, HierarchyPass) for one in passes)
    for one, decides in zip(passes, named, strict=True):
        one.decides = decides
        if trees > 1:
            one.labels = (decides.name if isinstance(one, HierarchyPass) else "",)
    turn.placer.decided_by = lambda role: named[number_of(role)]
    turn.placer.apart = lambda group: apart(turn, group)
    return Partitions(turn, launcher, passes, number_of)


def tree_passes(placing: PlacementPass) -> dict[str, HierarchyPass]:
    """The passes with a tree of queues, by the name of the partition."""
    found = placing.passes if isinstance(placing, Partitions) else (placing,)
    return {one.trees.name: one for one in found if isinstance(one, HierarchyPass)}


def _pass(
    turn: TurnContext, part: RolePartition, launcher: Launcher, covers: Covers, snapshots: Snapshots | None = None
) -> PlacementPass:
    if part.hierarchy is not None:
        return HierarchyPass(turn, part, part.hierarchy, launcher, covers, snapshots)
    if part.policy is not None:
        return SessionPass(turn, part.policy, launcher, covers, snapshots)
    return PlacementPass(turn, launcher, covers)


class Partitions(PlacementPass):
    """Hands each demand to the pass of its role."""

    def __init__(
        self,
        turn: TurnContext,
        launcher: Launcher,
        passes: Sequence[PlacementPass],
        number_of: Callable[[str], int],
    ) -> None:
        """`number_of`: index in `passes` of the pass of a role."""
        super().__init__(turn, launcher)
        self.passes = tuple(passes)
        self._number_of = number_of

    @property
    def busy(self) -> bool:
        """Something can be decided, matched or launched right now."""
        return any(one.busy for one in self.passes)

    def next_timer(self) -> float | None:
        """Unix seconds at which a pass decides again; None: nothing waits for a moment."""
        timers = [timer for one in self.passes if (timer := one.next_timer()) is not None]
        return min(timers, default=None)

    def waits_to_be_spread(self, demand: str) -> bool:
        """See `PlacementPass.waits_to_be_spread`."""
        return any(one.waits_to_be_spread(demand) for one in self.passes)

    def promised(self) -> Collection[str]:
        """See `PlacementPass.promised`."""
        return {agent for one in self.passes for agent in one.promised()}

    def kept_rooms(self) -> list[KeptRoom]:
        """See `PlacementPass.kept_rooms`."""
        return [room for one in self.passes for room in one.kept_rooms()]

    def offered(self, sites: Iterable[Site]) -> None:
        """See `PlacementPass.offered`."""
        sites = list(sites)
        for one in self.passes:
            one.offered(sites)

    def consider(self, identities: list[str]) -> None:
        """See `PlacementPass.consider`."""
        demands = self._turn.engine.demands
        found: dict[int, list[str]] = defaultdict(list)
        for identity in identities:
            demand = demands.get(identity)
            if demand is not None:
                found[self._number_of(demand.role)].append(identity)
        for number, known in found.items():
            self.passes[number].consider(known)

    def decide(self, pace: TimeBudget) -> None:
        """See `PlacementPass.decide`."""
        for one in self.passes:
            one.decide(pace)

    def conclude(self, pace: TimeBudget) -> None:
        """See `PlacementPass.conclude`."""
        for one in self.passes:
            one.conclude(pace)

    def notice(self, changed: Iterable[tuple[str, str]]) -> None:
        """See `PlacementPass.notice`."""
        changed = list(changed)
        for one in self.passes:
            one.notice(changed)

    def recover(self) -> None:
        """See `PlacementPass.recover`."""
        for one in self.passes:
            one.recover()

    def forget(self) -> None:
        """See `PlacementPass.forget`."""
        super().forget()
        for one in self.passes:
            one.forget()

    def void(self) -> None:
        """See `PlacementPass.void`."""
        super().void()
        for one in self.passes:
            one.void()
