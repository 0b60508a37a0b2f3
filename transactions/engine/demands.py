"""Open demands: the slots that transactions want a place for, the planned ones among them, and the reasons why others
found no place."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable
from typing import NamedTuple

from offers.model import Demand, Diagnosis
from offers.resources import amounts_of
from store.state.reader import StateReader
from transactions.base import Slot
from transactions.injection import Source

Owner = tuple[str, str]
"""Role and key of the application of demands."""


class Size(NamedTuple):
    """The common size of demands: offers that are too small for one of these demands are too small for all of them."""

    role: str
    amounts: tuple[int, ...]
    """Scalars of one slot, in the order of offers.resources.SCALARS."""
    counting: bool
    """Constraints count other taskgroups, so more than the size of an offer decides."""


class Plan:
    """Slots of a demand that have been matched with an agent and are not launched yet."""

    __slots__ = ("slots", "version")

    def __init__(self, version: str) -> None:
        self.version = version
        self.slots: set[Slot] = set()


class Demands:
    """The demand side of the engine (transactions.engine.engine). Belongs to the thread that owns the state."""

    def __init__(self) -> None:
        self.demands: dict[str, Demand[Slot]] = {}
        """Open demands by transaction id."""
        self.openings: dict[str, int] = {}
        """The number of the opening of each open demand: one that is closed and opened again has another number."""
        self._opened = 0
        self.diagnoses: dict[str, Diagnosis] = {}
        """Diagnoses of open demands that could not be placed in the last pass, by transaction id."""
        self.missing: dict[str, tuple[str, ...]] = {}
        """Missing configmaps, secrets or keys, as messages, of transactions that cannot launch without them, by
        transaction id. These transactions have no demand."""
        self.changed_demands: dict[str, None] = {}
        """Transaction ids of demands that have changed since the placer has taken them."""
        self._version_of: dict[str, str] = {}
        """Version that an open demand launches, by transaction id."""
        self._plans: dict[str, Plan] = {}
        """Planned slots by transaction id. Open demands have the other slots."""
        self.by_size: dict[Size, dict[str, None]] = {}
        """Ids of the open demands of each size, none of them empty."""
        self.gangs: dict[str, None] = {}
        """Ids of the open demands of gangs, which need several places at the same time. The placement pass adds demands
        of groups that have not reached their minimum."""
        self.promised: dict[str, None] = {}
        """Ids of the open demands for whose slots room was freed."""
        self.by_group: dict[str, dict[str, None]] = {}
        """Ids of the open demands of each group of applications, none of them empty."""
        self.wanted: Counter[Owner] = Counter()
        """Number of slots of the open demands by role and application, without planned slots."""
        self._slots = 0
        """Number of slots of all open demands and plans."""
        self._sources: dict[str, frozenset[Source]] = {}
        """Configmaps and secrets that a waiting launch takes something from, by transaction id; nothing if none."""
        self._takers: dict[Source, dict[str, None]] = {}
        """Ids of the transactions whose launches take something from a configmap or secret."""
        self._fresh: set[str] = set()
        """Transactions to be put into the queue with the next batch of changes."""

    @property
    def pending(self) -> int:
        """Taskgroups that wait for a place or for their launch (any thread)."""
        return self._slots

    def plan(self, identity: str, count: int) -> None:
        """The first `count` slots of an open demand have been matched and will be launched: the demand has the others
        left."""
        demand = self.demands[identity]
        plan = self._plans.get(identity)
        if plan is None:
            plan = self._plans[identity] = Plan(self._version_of[identity])
        before = len(plan.slots)
        plan.slots.update(demand.slots[:count])
        self._slots += len(plan.slots) - before
        if count < len(demand.slots):
            least = max(demand.min_members - count, 0)
            self._open(demand._replace(slots=demand.slots[count:], min_members=least))
        else:
            self._close(identity)

    def put_first(self, identity: str, slot: Slot) -> None:
        """Moves a slot of an open demand to the front, so that it is the next one that `plan` takes."""
        demand = self.demands[identity]
        self.demands[identity] = demand._replace(slots=(slot, *(one for one in demand.slots if one != slot)))

    def planned(self, identity: str) -> int:
        """Number of slots of a transaction that are matched and not launched yet."""
        plan = self._plans.get(identity)
        return len(plan.slots) if plan is not None else 0

    def unplan(self, identity: str, slot: Slot) -> None:
        """A planned slot will not be launched (its offers are gone): the transaction is looked at again."""
        if identity in self._plans:
            self._unplanned(identity, slot)
            self._fresh.add(identity)

    def want(self, demand: Demand[Slot], version: str) -> None:
        """Opens or changes a demand. Slots that are planned for this version, given by name, are not demanded again."""
        demand = self._without_planned(demand, version)
        self._version_of[demand.id] = version
        if not demand.slots:
            self._close(demand.id)
        elif self.demands.get(demand.id) != demand:
            self._open(demand)
            self.changed_demands[demand.id] = None

    def priority(self, state: StateReader, identity: str) -> int:
        """The priority of the version that an open demand launches; 0 if there is none."""
        demand = self.demands.get(identity)
        version = state.version(demand.application, self._version_of[identity]) if demand is not None else None
        return version.priority if version is not None else 0

    def waits_as_gang(self, state: StateReader, identity: str, application: str) -> bool:
        """True if an operation on an application has a demand for members of a gang: it needs more places at the same
        time when a member ends."""
        if identity not in self.demands:
            return False
        version = state.version(application, self._version_of[identity])
        return version is not None and version.min_available > 1

    def demands_taking(self, source: Source) -> Collection[str]:
        """Returns the ids of the transactions whose launches use the configmap or secret, including launches that wait
        for it."""
        return self._takers.get(source, ())

    def _takes(self, identity: str, sources: Iterable[Source]) -> None:
        """Records that the next launch of the transaction uses these configmaps and secrets."""
        now = frozenset(sources)
        before = self._sources.get(identity, frozenset())
        if now == before:
            return
        for source in before - now:
            members = self._takers[source]
            del members[identity]
            if not members:
                del self._takers[source]
        for source in now - before:
            self._takers.setdefault(source, {})[identity] = None
        if now:
            self._sources[identity] = now
        else:
            del self._sources[identity]

    def _open(self, demand: Demand[Slot]) -> None:
        before = self.demands.get(demand.id)
        if before is None:
            self._opened += 1
            self.openings[demand.id] = self._opened
        self._slots += len(demand.slots) - (len(before.slots) if before is not None else 0)
        if before is not None:
            self._count(before, -len(before.slots))
        self._count(demand, len(demand.slots))
        size = size_of(demand)
        if before is not None and size_of(before) != size:
            self._unsize(before)
        self.by_size.setdefault(size, {})[demand.id] = None
        if before is not None and before.group != demand.group:
            self._ungroup(before)
        if demand.group:
            self.by_group.setdefault(demand.group, {})[demand.id] = None
        if demand.promised:
            self.promised[demand.id] = None
        elif self.promised:
            self.promised.pop(demand.id, None)
        if demand.min_members > 1:
            self.gangs[demand.id] = None
        else:
            self.gangs.pop(demand.id, None)
        self.demands[demand.id] = demand

    def _close(self, identity: str) -> None:
        before = self.demands.pop(identity, None)
        if before is not None:
            del self.openings[identity]
            self._slots -= len(before.slots)
            self._count(before, -len(before.slots))
            self.gangs.pop(identity, None)
            self.promised.pop(identity, None)
            self._ungroup(before)
            self._unsize(before)

    def _count(self, demand: Demand[Slot], more: int) -> None:
        owner = (demand.role, demand.application)
        number = self.wanted[owner] + more
        if number:
            self.wanted[owner] = number
        else:
            del self.wanted[owner]

    def _ungroup(self, demand: Demand[Slot]) -> None:
        members = self.by_group.get(demand.group)
        if members is not None:
            members.pop(demand.id, None)
            if not members:
                del self.by_group[demand.group]

    def _unsize(self, demand: Demand[Slot]) -> None:
        size = size_of(demand)
        members = self.by_size[size]
        del members[demand.id]
        if not members:
            del self.by_size[size]

    def _unplanned(self, identity: str, slot: Slot) -> bool:
        """The slot is not planned any more; False if it has not been."""
        plan = self._plans.get(identity)
        if plan is None or slot not in plan.slots:
            return False
        plan.slots.discard(slot)
        self._slots -= 1
        return True

    def _drop_plan(self, identity: str) -> None:
        plan = self._plans.pop(identity, None)
        if plan is not None:
            self._slots -= len(plan.slots)

    def _without_planned(self, demand: Demand[Slot], version: str) -> Demand[Slot]:
        """The demand without the slots that are planned. A plan for another version is void, and so are planned slots
        that are not wanted any more."""
        plan = self._plans.get(demand.id)
        if plan is None:
            return demand
        before = len(plan.slots)
        plan.slots.intersection_update(demand.slots)
        self._slots += len(plan.slots) - before
        if plan.version != version or not plan.slots:
            self._drop_plan(demand.id)
            return demand
        left = tuple([slot for slot in demand.slots if slot not in plan.slots])
        return demand._replace(slots=left, min_members=max(demand.min_members - len(plan.slots), 0))

    def _drop_demand(self, identity: str) -> None:
        self.missing.pop(identity, None)
        self.changed_demands.pop(identity, None)
        self.diagnoses.pop(identity, None)
        self._version_of.pop(identity, None)
        self._takes(identity, ())
        self._close(identity)
        self._drop_plan(identity)


def size_of(demand: Demand[Slot]) -> Size:
    """The size of a demand."""
    return Size(demand.role, amounts_of(demand.request), bool(demand.rules.live))
