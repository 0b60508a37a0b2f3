"""The placement of all roles: each partition of roles has a policy of its own, and a loop that asks it.

A loop sees the demands and the offers of its roles only. The loops decide one after the other. They share one launcher,
so that namespaces take turns at launches across partitions, and the snapshots, one for each role.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable
from itertools import islice
from operator import le

from bcs_scheduler.core.options import OTHERS, RolePartition
from bcs_scheduler.core.placement.aging import AgentHold
from bcs_scheduler.core.placement.engines.hierarchical import Hierarchical
from bcs_scheduler.core.placement.engines.registry import Around, Engines
from bcs_scheduler.core.placement.engines.simple import Untried
from bcs_scheduler.core.placement.groups import Groups, apart
from bcs_scheduler.core.placement.launcher import Launcher
from bcs_scheduler.core.placement.loop import Covers, Loop
from bcs_scheduler.core.placement.pauses import Pauses
from bcs_scheduler.core.placement.promises import PartitionHolds
from bcs_scheduler.core.placement.source import News
from bcs_scheduler.core.placement.turn import Turn
from bcs_scheduler.core.time_budget import LAUNCHES, TimeBudget
from offers.model import DecidedBy, Demand, Site
from offers.policy.obstacles import Attempt, Obstacle, Tally
from offers.policy.session.configuration import default_policy
from transactions.base import Slot

MOST_HOLDS = 256
"""Holds of taskgroups that an explanation looks at, the oldest."""


class Placing:
    """Takes the demands that may have a chance, hands each to the loop of its role, and launches."""

    def __init__(self, turn: Turn, engines: Engines) -> None:
        """`engines`: makes the engine of each partition."""
        parts = turn.options.parts()
        self._turn = turn
        self._launcher = Launcher(turn)
        self._parts = parts
        self._numbers = {role: number for number, part in enumerate(parts) for role in part.roles}
        self.loops = tuple(self._loop(number, part, engines) for number, part in enumerate(parts))
        """The loops in the order of the partitions, at least one."""
        self.has_policy = any(loop.engine.decides for loop in self.loops)
        """See `Placer.has_policy`."""
        turn.placer.ask(self)

    def _loop(self, number: int, part: RolePartition, engines: Engines) -> Loop:
        turn, launcher, covers = self._turn, self._launcher, self._covers(number)
        labels: tuple[str, ...] = ()
        if sum(sibling.kind == "hierarchical" for sibling in self._parts) > 1:
            labels = (part.title if part.kind == "hierarchical" else "",)
        policy = part.policy or default_policy()
        promises, untried = PartitionHolds(turn, policy.nomination_seconds), Untried(turn, covers)
        pauses = Pauses(turn, policy.nomination_seconds)
        groups = Groups(turn, covers)
        engine = engines(part, Around(policy, covers, launcher, groups, untried, promises, pauses))
        return Loop(turn, launcher, covers, groups, engine, untried, promises, pauses, labels)

    def _number_of(self, role: str) -> int:
        number = self._numbers.get(role)
        return self._numbers[OTHERS] if number is None else number

    def _covers(self, number: int) -> Covers:
        if len(self._parts) == 1:
            return lambda role: True
        return lambda role: self._number_of(role) == number

    @property
    def busy(self) -> bool:
        """Something can be decided, matched or launched right now."""
        return self._launcher.ready or any(loop.busy for loop in self.loops)

    @property
    def planning(self) -> bool:
        """Something is planned and not launched."""
        return self._launcher.planning

    def next_timer(self) -> float | None:
        """Unix seconds at which a loop decides again; None: nothing waits for a moment."""
        timers = [timer for loop in self.loops if (timer := loop.next_timer()) is not None]
        return min(timers, default=None)

    def waits_to_be_spread(self, demand: str) -> bool:
        """True if the demand of this id waits for requested offers of emptier agents (any thread)."""
        return any(loop.waits_to_be_spread(demand) for loop in self.loops)

    def promised(self) -> Collection[str]:
        """The ids of agents with room that is promised to demands which wait for more room."""
        return {agent for loop in self.loops for agent in loop.promised()}

    def agent_holds(self) -> list[AgentHold]:
        """The room of agents that is kept for work that waits (any thread)."""
        return [hold for loop in self.loops for hold in loop.agent_holds()]

    def trees(self) -> dict[str, Hierarchical]:
        """The engines with a tree of queues, by the name of the partition."""
        engines = (loop.engine for loop in self.loops)
        return {engine.trees.name: engine for engine in engines if isinstance(engine, Hierarchical)}

    # --- policies, as the placer asks about them --------------------------------------------------------------

    def policy_of(self, role: str) -> Loop | None:
        """See `Placer.policy_of`."""
        loop = self.loops[self._number_of(role)]
        return loop if loop.engine.decides else None

    def decided_by(self, role: str) -> DecidedBy | None:
        """See `Placer.decided_by`."""
        return self._parts[self._number_of(role)].decides if len(self._parts) > 1 else None

    def apart(self, group: str) -> tuple[DecidedBy, ...]:
        """The policies that decide about the members of a group, if there are several; else empty."""
        return apart(self._turn, group)

    def read_changes(self) -> Iterable[None]:
        """See `Placer.read_changes`."""
        for loop in self.loops:
            yield from loop.engine.read_changes()

    def reserved(self, demand: Demand[Slot]) -> Attempt | None:
        """The reservations of other applications in the role of a demand, and their holds of taskgroups; None if there
        are none."""
        turn, kept = self._turn, dict[tuple[str, str], float]()
        # The latest end in Unix seconds by application and agent; 0 if no moment is known.
        for room in self.agent_holds():
            if room.role == demand.role:
                kept[room.application, room.agent] = room.until
        for unit, (_, site, _) in islice(turn.pool.holds, MOST_HOLDS):
            holder = turn.source.tenant(unit) if isinstance(unit, str) else None
            if holder is not None and site[1] == demand.role:
                kept.setdefault((holder.application, site[0]), turn.pool.holds.until(unit) or 0.0)
        tally = Tally()
        for (application, _), until in kept.items():
            if application != demand.application:
                tally.count(Obstacle.RESERVED, 1, application, until)
        return tally.attempt(turn.now) if tally else None

    # --- demands that may have a chance -----------------------------------------------------------------------

    def try_all(self) -> None:
        """Facts about agents have changed: every open demand is matched again, the oldest first."""
        engine = self._turn.engine
        engine.changed_demands.clear()
        self._consider(sorted(engine.demands, key=self._turn.source.age_of))

    def try_again(self, sites: Iterable[Site]) -> None:
        """Offers for these sites have come: matches the open demands for which they may be large enough, and those that
        are new or have changed, the oldest first. Very many demands that fit nowhere must not cost anything whenever an
        agent offers a little."""
        sites = list(sites)
        for loop in self.loops:
            loop.offered(sites)
        engine = self._turn.engine
        greatest: dict[str, list[int]] = {}
        for agent, role in sites:
            room = self._turn.pool.hand.amounts(agent, role)
            known = greatest.setdefault(role, room)
            greatest[role] = list(map(max, known, room))
        changed = dict.fromkeys(engine.changed_demands)
        engine.changed_demands.clear()
        changed.update(dict.fromkeys(islice(engine.demands, self._turn.options.explained)))
        for size, members in engine.by_size.items():
            room = greatest.get(size.role, [])
            if size.counting or (room and all(map(le, size.amounts, room))):
                changed.update(members)
        self._consider(sorted(changed, key=self._turn.source.age_of))

    def try_changed(self) -> None:
        """Matches demands that are new or have changed."""
        changed = self._turn.engine.changed_demands
        if changed:
            self._consider(sorted(changed, key=self._turn.source.age_of))
            changed.clear()

    def _consider(self, identities: list[str]) -> None:
        """Has these demands decided about; others are left as they are. Demands that are not open are ignored."""
        if len(self.loops) == 1:
            self.loops[0].consider(identities)
            return
        demands, by_loop = self._turn.engine.demands, defaultdict[int, list[str]](list)
        for identity in identities:
            demand = demands.get(identity)
            if demand is not None:
                by_loop[self._number_of(demand.role)].append(identity)
        for number, known in by_loop.items():
            self.loops[number].consider(known)

    # --- a turn -----------------------------------------------------------------------------------------------

    def place(self, pace: TimeBudget) -> bool:
        """Decides and launches for as long as the turn lasts. True if anything was launched."""
        self._turn.pool.hand.coming.tick(self._turn.now)
        for loop in self.loops:
            loop.decide(pace)
        launched = False
        while self._launcher.ready and not (launched and (pace.spent() >= LAUNCHES or pace.is_congested())):
            launched = self._launcher.launch_next() or launched
        for loop in self.loops:
            loop.conclude(pace)
        return launched

    # --- following --------------------------------------------------------------------------------------------

    def notice(self, news: News) -> None:
        """Follows changes from outside of the placement."""
        for loop in self.loops:
            loop.notice(news)

    def recover(self) -> None:
        """A term begins: takes over the records of the policies."""
        for loop in self.loops:
            loop.recover()

    def void(self) -> None:
        """All offers are gone, and with them everything that is planned."""
        self._launcher.void()
        for loop in self.loops:
            loop.void()

    def forget(self) -> None:
        """After an error: drops everything that is planned, promised or derived from the records. The engine is made
        anew, too."""
        self._launcher.forget()
        for loop in self.loops:
            loop.forget()
