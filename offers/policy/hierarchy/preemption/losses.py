"""The allocations that applications may lose to others: their disruption budgets, the minima of gangs, and the pauses
after preemptions that have not helped (`Tree.paused`)."""

from __future__ import annotations

from offers.policy.hierarchy.configuration.partition import GangPreemption
from offers.policy.hierarchy.state.model import Allocation
from offers.policy.hierarchy.tree import Tree
from offers.policy.obstacles import Obstacle

UNBOUNDED = 1 << 62


class Losses:
    """The allocations that one search has chosen, beside those that are leaving already. A gang that would fall below
    its minimum loses nothing, or all that it has in one step, as `preemption.gangs` of its queue says. A whole gang
    spends one of the disruption budget: it does not work with less."""

    def __init__(self, tree: Tree, beneficiary: str = "") -> None:
        """`beneficiary`: the application that gets the room; empty: none, a maximum was lowered."""
        self._tree = tree
        self._paused = tree.paused.get(beneficiary, {})
        self._allowances: dict[str, int] = {}
        self._obstacles: dict[tuple[str, bool], Obstacle | None] = {}

    def allowance(self, application: str) -> int:
        """The number of allocations that the disruption budget of an application admits before those of this search."""
        found = self._allowances.get(application)
        if found is None:
            allowance = self._tree.allowance
            found = self._allowances[application] = UNBOUNDED if allowance is None else allowance(application)
        return found

    def obstacle(self, allocation: Allocation) -> Obstacle | None:
        """The obstacle of an allocation before the search has chosen others of its application; None if it may end,
        alone or with its gang."""
        kind = allocation.ask.application, allocation.ask.id in self._tree.idle
        if kind not in self._obstacles:
            unit = self.unit(allocation, 0, 0)
            self._obstacles[kind] = unit if isinstance(unit, Obstacle) else None
        return self._obstacles[kind]

    def paused_until(self, application: str) -> float:
        """The moment from which allocations of an application may end for the beneficiary again, in seconds; 0: they
        may end now."""
        return self._paused.get(application, 0.0)

    def unit(self, allocation: Allocation, lost: int, working: int) -> tuple[Allocation, ...] | Obstacle:
        """The allocations that end together with one: itself, or all of its gang that are not leaving; or the obstacle.
        `lost`: number of allocations of the application that the search has chosen; `working`: of those among them that
        work."""
        application = self._tree.applications[allocation.ask.application]
        if application.name in self._paused:
            return Obstacle.PAUSED
        allowance, spare = self.allowance(application.name), application.spare
        if spare is not None and spare <= lost:
            if self._tree.queues[application.queue].gang_preemption is not GangPreemption.WHOLE:
                return Obstacle.GANG
            if allowance < 1:
                return Obstacle.BUDGET
            leaving = self._tree.leaving
            return tuple(one for one in application.allocations.values() if one.ask.id not in leaving)
        is_free = allocation.ask.id in self._tree.idle
        return (allocation,) if is_free or working < allowance else Obstacle.BUDGET
