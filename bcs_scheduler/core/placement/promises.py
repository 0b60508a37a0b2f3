"""The room that decisions hold for tasks that wait, and the room that ended taskgroups are leaving.

The promises end with the term: the next leader's decisions make their own.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Mapping

from bcs_scheduler.core.placement.snapshots.leaving import LeavingTasks
from bcs_scheduler.core.placement.snapshots.pending import demand_of
from bcs_scheduler.core.placement.turn import Turn
from offers.model import Site
from offers.policy.session.model import Nomination
from offers.resources import SCALARS, amounts_of

TaskName = tuple[str, str]
"""Names of application and task."""


class PartitionHolds:
    """The holds of one partition of roles. Belongs to the thread that owns the state."""

    def __init__(self, turn: Turn, seconds: float) -> None:
        """`seconds`: the time for which a promise lasts."""
        self._turn, self._seconds = turn, seconds
        self.nominations: dict[TaskName, Nomination] = {}
        self.leaving = LeavingTasks(turn.source, turn.pool)

    def agents(self) -> set[str]:
        """The ids of agents with promised room."""
        return {promise.agent for promise in self.nominations.values()}

    def demands(self) -> set[str]:
        """Ids of the demands with promised room."""
        return {demand_of(task) for _, task in self.nominations}

    def amounts(self, role: str, without: Collection[str]) -> dict[str, Mapping[str, int]]:
        """Amounts by agent and dimension that must stay free for promises of a role to other applications than
        `without`: the taskgroups that are ending there do not leave them. Room of ended taskgroups that is not offered
        yet counts as there: for a moment, too much stays free."""
        demands, sums = self._turn.engine.demands, defaultdict[str, Counter[str]](Counter)
        for (application, task), promise in self.nominations.items():
            demand = demands.get(demand_of(task))
            if demand is not None and demand.role == role and application not in without:
                sums[promise.agent].update(dict(zip(SCALARS, amounts_of(demand.request), strict=True)))
        for agent, left in sums.items():
            left.subtract(self._turn.source.leaving_on(agent))
        return {agent: +left for agent, left in sums.items() if +left}

    def keep(self, nominations: Mapping[TaskName, Nomination]) -> None:
        """These are the promises from now on."""
        self.nominations = dict(nominations)

    def offered(self, sites: Collection[Site]) -> None:
        """There are new offers of these agents in these roles: room of taskgroups that have ended there is offered
        now."""
        if len(self.leaving):
            self._renew({site for site in sites if self.leaving.awaits(site)})
            self.leaving.offered(sites, self._turn.now)

    def expire(self) -> bool:
        """Ends promises of room that have expired, or whose taskgroup does not wait any more: the room is for others,
        which wait for a decision. Room that does not come after all is missed by the next decision. The time of a
        promise does not pass while no offer of the agent can show its room. True if some have ended."""
        demands, now = self._turn.engine.demands, self._turn.now
        self._renew(
            {
                site
                for (_, task), promise in self.nominations.items()
                if promise.until <= now
                and (demand := demands.get(demand_of(task))) is not None
                and self.leaving.awaits(site := (promise.agent, demand.role))
            }
        )
        kept = {
            (job, task): promise
            for (job, task), promise in self.nominations.items()
            if promise.until > now and demand_of(task) in demands
        }
        if self.leaving.expire(now) or len(kept) < len(self.nominations):
            self.nominations = kept
            return True
        return False

    def _renew(self, sites: Collection[Site]) -> None:
        """The time of the promises on these agents in their roles begins now."""
        demands, until = self._turn.engine.demands, self._turn.now + self._seconds
        for (job, task), promise in self.nominations.items() if sites else ():
            demand = demands.get(demand_of(task))
            if demand is not None and (promise.agent, demand.role) in sites:
                self.nominations[job, task] = promise._replace(until=until)

    def clear(self) -> None:
        """Forgets all promises and taskgroups that leave."""
        self.nominations.clear()
        self.leaving.clear()
