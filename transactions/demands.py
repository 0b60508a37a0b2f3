"""Open demands: what transactions want a place for, what of that is planned, and why the rest found no place."""

from __future__ import annotations

from collections.abc import Hashable

from offers.model import Demand, Diagnosis
from store.records import Version


class Plan:
    """Slots of a demand that have been matched with an agent and are not launched yet."""

    __slots__ = ("slots", "version")

    def __init__(self, version: str) -> None:
        self.version = version
        self.slots: set[Hashable] = set()


class Demands:
    """The demand side of the engine (transactions.engine). Belongs to the thread that owns the state."""

    def __init__(self) -> None:
        self.demands: dict[str, Demand] = {}
        """Open demands by transaction id."""
        self.diagnoses: dict[str, Diagnosis] = {}
        """Why open demands could not be placed in the last pass, by transaction id."""
        self.missing: dict[str, tuple[str, ...]] = {}
        """What transactions wait for that launch nothing because a configmap, secret or key does not exist, in words,
        by transaction id. They have no demand."""
        self.changed_demands: dict[str, None] = {}
        """Transaction ids of demands that have changed since the placer has taken them."""
        self._version_of: dict[str, str] = {}
        """Version that an open demand launches, by transaction id."""
        self._plans: dict[str, Plan] = {}
        """What is planned for a transaction, by transaction id. Open demands have the other slots."""
        self._fresh: set[str] = set()
        """Transactions to be put into the queue with the next batch of changes."""

    @property
    def pending(self) -> int:
        """Taskgroups that wait for a place or for their launch (any thread)."""
        waiting = sum([len(demand.slots) for demand in list(self.demands.values())])
        return waiting + sum([len(plan.slots) for plan in list(self._plans.values())])

    def plan(self, identity: str, count: int) -> None:
        """The first `count` slots of an open demand have been matched and will be launched: the demand has the others
        left."""
        demand = self.demands[identity]
        plan = self._plans.get(identity)
        if plan is None:
            plan = self._plans[identity] = Plan(self._version_of[identity])
        plan.slots.update(demand.slots[:count])
        if count < len(demand.slots):
            self.demands[identity] = demand._replace(slots=demand.slots[count:])
        else:
            del self.demands[identity]

    def unplan(self, identity: str, slot: Hashable) -> None:
        """A planned slot will not be launched (its offers are gone): the transaction is looked at again."""
        plan = self._plans.get(identity)
        if plan is not None:
            plan.slots.discard(slot)
            self._fresh.add(identity)

    def want(self, demand: Demand, version: Version) -> None:
        """Opens or changes a demand. Slots that are planned for this version are not demanded again."""
        demand = self._without_planned(demand, version)
        self._version_of[demand.id] = version.name
        if not demand.slots:
            self.demands.pop(demand.id, None)
        elif self.demands.get(demand.id) != demand:
            self.demands[demand.id] = demand
            self.changed_demands[demand.id] = None

    def _without_planned(self, demand: Demand, version: Version) -> Demand:
        """The demand without the slots that are planned. A plan for another version is void, and so are planned slots
        that are not wanted any more."""
        plan = self._plans.get(demand.id)
        if plan is None:
            return demand
        plan.slots.intersection_update(demand.slots)
        if plan.version != version.name or not plan.slots:
            del self._plans[demand.id]
            return demand
        return demand._replace(slots=tuple([slot for slot in demand.slots if slot not in plan.slots]))

    def _drop_demand(self, identity: str) -> None:
        self.missing.pop(identity, None)
        self.demands.pop(identity, None)
        self.changed_demands.pop(identity, None)
        self.diagnoses.pop(identity, None)
        self._version_of.pop(identity, None)
        self._plans.pop(identity, None)
