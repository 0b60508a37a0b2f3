"""The room that decisions hold for tasks that wait.

The promises end with the term: the next leader's decisions make their own.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence

from bcs_scheduler.core.placement.snapshots.pending import demand_of, task_name
from bcs_scheduler.core.placement.turn import Turn
from offers.model import Demand, Site
from offers.policy.session.model import Nomination
from offers.resources import SCALARS, amounts_of
from transactions.base import Slot

TaskName = tuple[str, str]
"""Names of application and task."""


class PartitionHolds:
    """The holds of one partition of roles. Belongs to the thread that owns the state."""

    def __init__(self, turn: Turn, seconds: float) -> None:
        """`seconds`: the time for which a promise lasts."""
        self._turn, self._seconds = turn, seconds
        self.nominations: dict[TaskName, Nomination] = {}
        self._asked: dict[str, Demand[Slot]] = {}
        """The demands of the promises by id, as they were when the promises were made."""

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
        """These are the promises from now on, but for those to demands that were closed meanwhile."""
        demands = self._turn.engine.demands
        self.nominations = {name: promise for name, promise in nominations.items() if demand_of(name[1]) in demands}
        self._asked = {name: demands[name] for name in self.demands()}

    def offered(self, sites: Collection[Site]) -> None:
        """There are new offers of these agents in these roles: the time of the promises there begins now, if these were
        the first offers that could show the promised room."""
        if self.nominations:
            shown, agents = self._turn.pool.hand.coming.shown, self.agents()
            self._renew({site for site in sites if site[0] in agents and (site in shown or self._awaits(site))})

    def _awaits(self, site: Site) -> bool:
        """True if promised room of an agent in a role could not be offered yet."""
        return self._turn.pool.hand.coming.is_awaited(site) or bool(self._turn.source.leaving_on(site[0]))

    def expire(self) -> bool:
        """Ends promises of room that have expired, or whose taskgroup does not wait any more: the room is for others,
        which wait for a decision. Room that does not come after all is missed by the next decision. The time of a
        promise does not pass while no offer of the agent can show its room. Room of a demand that is closed passes to
        other taskgroups of the application. True if there are others than before."""
        demands, now = self._turn.engine.demands, self._turn.now
        before = set(self.nominations)
        self._hand_over()
        for (_, task), promise in self.nominations.items():
            self._turn.pool.hand.coming.keep((promise.agent, demands[demand_of(task)].role))
        self._renew(
            {
                site
                for (_, task), promise in self.nominations.items()
                if promise.until <= now and self._awaits(site := (promise.agent, demands[demand_of(task)].role))
            }
        )
        self.nominations = {name: promise for name, promise in self.nominations.items() if promise.until > now}
        return self.nominations.keys() != before

    def drop(self, tasks: Iterable[TaskName]) -> None:
        """Ends the promises to tasks that have found their places: others of the application have no claim to the
        room."""
        for task in tasks:
            self.nominations.pop(task, None)

    def _hand_over(self) -> None:
        """Other work ended for the application, and not for one demand: an operation may be replaced by another one
        while the room comes, also with smaller taskgroups."""
        demands = self._turn.engine.demands
        closed = [name for name in self.nominations if demand_of(name[1]) not in demands]
        applications = {application for application, _ in closed}
        open_tasks = [
            (demand, task_name(demand, slot))
            for demand in (demands.values() if closed else ())
            if demand.application in applications
            for slot in demand.slots
        ]
        for application, task in closed:
            before = self._asked[demand_of(task)]
            promise = self.nominations.pop((application, task))
            room: Sequence[int] = amounts_of(before.request)
            for demand, name in open_tasks:
                needed = amounts_of(demand.request)
                if (
                    (demand.application, demand.role) == (application, before.role)
                    and (application, name) not in self.nominations
                    and all(amount <= left for amount, left in zip(needed, room, strict=True))
                ):
                    self.nominations[application, name] = promise
                    self._asked[demand.id] = demand
                    room = [left - amount for left, amount in zip(room, needed, strict=True)]

    def _renew(self, sites: Collection[Site]) -> None:
        """The time of the promises on these agents in their roles begins now."""
        demands, until = self._turn.engine.demands, self._turn.now + self._seconds
        for (job, task), promise in self.nominations.items() if sites else ():
            demand = demands.get(demand_of(task))
            if demand is not None and (promise.agent, demand.role) in sites:
                self.nominations[job, task] = promise._replace(until=until)

    def clear(self) -> None:
        """Forgets all promises."""
        self.nominations.clear()
