"""The plain source of units: pods of the simulated cluster manager. No unit, application or demand is a record.

A demand has the waiting units of one application that are alike; the index of a slot is the number of its unit.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from functools import cache
from math import inf
from operator import attrgetter
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from bcs_scheduler.core.options import CoreOptions
from bcs_scheduler.core.placement.placer import Placer
from bcs_scheduler.core.placement.source import Facts, Follower, Member, StoredTree, Tenant, UsedAmounts
from offers.dimensions import Amounts
from offers.ledger.usage import ANY_ROLE
from offers.model import Demand, Placement, Provisional, ResourceRequest, Site
from offers.planned import PlannedCensus
from offers.policy.hierarchy.configuration.document import partition_of
from offers.policy.hierarchy.placement import Submission
from offers.policy.obstacles import Attempt, Obstacle
from offers.policy.session.kept import Standing
from offers.policy.session.model import Queue, Status, Task, Template
from offers.resources import summed
from offers.rules.constraints import EMPTY_RULES
from tests.simulation.standing.cluster import Unit
from transactions.base import Failure, Slot
from transactions.engine.demands import Demands
from transactions.rules.gangs import Shortage

if TYPE_CHECKING:
    from tests.simulation.standing.scheduler import Scheduler

T = TypeVar("T")
GPU = "nvidia.com/gpu"
QUEUES = (
    Queue("free"),
    Queue("bounded", 2, guarantee=(("cpu", 5000),), capability=(("cpu", 6000), (GPU, 8), ("pods", 12))),
)
"""The queues of applications, which take turns."""
TREE = partition_of(
    {
        "queues": [
            {
                "name": queue.name,
                "resources": {"guaranteed": dict(queue.guarantee), "max": dict(queue.capability)},
                "properties": {"preemption.delay": "2s"},
            }
            for queue in QUEUES
        ]
    },
    quantity=int,
)
"""The same queues as a tree."""


def queue_of(application: str) -> str:
    return QUEUES[int(application.removesuffix("-b").rpartition("-")[2]) % len(QUEUES)].name


@cache
def template_of(request: Amounts) -> Template:
    return Template(request)


def facts_of(unit: Unit) -> Facts:
    return Facts(unit.least, 9 if unit.important else 0, unit.important, 0.0)


class Alike(NamedTuple):
    """The properties that units of one demand have in common. `promised`: room is held for each."""

    application: str
    amounts: Amounts
    promised: bool


class Work(Demands):
    """The open demands."""

    def __init__(self, scheduler: Scheduler) -> None:
        super().__init__()
        self._scheduler = scheduler
        self._alike: dict[Alike, str] = {}
        self._units: dict[tuple[str, int], str] = {}
        self._made = 0
        self.ages: dict[str, int] = {}
        """The Unix nanoseconds from which the oldest unit of each demand has waited."""
        self.losses: set[str] = set()
        """Applications of units whose claims were given back since the latest look."""

    def refresh(self) -> None:
        """Demands places for the units that wait, and for no others."""
        usage, waiting = self._scheduler.pool.usage, self._scheduler.asking()
        wanted: defaultdict[Alike, list[str]] = defaultdict(list)
        kinds = {identity: alike for alike, identity in self._alike.items()}
        planned = {
            self._units[identity, slot.index]: kinds[identity]
            for identity, plan in self._plans.items()
            for slot in plan.slots
        }
        for name, unit in waiting.items():
            if name not in usage.claims:
                alike = Alike(unit.application, unit.amounts, name in usage.holds)
                wanted[planned.get(name, alike)].append(name)
        for alike in [alike for alike in self._alike if alike not in wanted]:
            gone = self._alike.pop(alike)
            self._drop_demand(gone)
            del self.ages[gone]
        self._units = {}
        for alike, names in wanted.items():
            self.want(self._demand(alike, names), "")

    def _demand(self, alike: Alike, names: Sequence[str]) -> Demand[Slot]:
        if alike not in self._alike:
            self._made += 1
            self._alike[alike] = f"wish-{self._made}"
        identity = self._alike[alike]
        self.ages[identity] = min(int(self._scheduler.waiting[name].created * 1e9) for name in names)
        slots, promised = list[Slot](), list[tuple[Slot, str]]()
        for name in names:
            slot = Slot(int(name.rpartition("-")[2]), name if alike.promised else "")
            self._units[identity, slot.index] = name
            slots.append(slot)
            if (hold := self._scheduler.pool.holds.get(name)) is not None:
                promised.append((slot, hold.site[0]))
        request = ResourceRequest(amounts=alike.amounts)
        return Demand(identity, alike.application, tuple(slots), request, EMPTY_RULES, promised=tuple(promised))

    def name_of(self, demand: str, slot: Hashable) -> str:
        """The unit of a slot; empty if it does not wait any more."""
        return self._units.get((demand, slot.index), "") if isinstance(slot, Slot) else ""

    def bound(self, placement: Placement[Slot]) -> str:
        """A planned slot leaves the plan. Returns its unit; empty if it does not wait any more."""
        self._unplanned(placement.demand, placement.slot)
        return self.name_of(placement.demand, placement.slot)

    def unplan(self, identity: str, slot: Slot) -> None:
        self._scheduler.pool.usage.forget(Provisional(identity, slot))
        self._scheduler.world.count("claims that do not stand")
        self.note_loss(identity)
        super().unplan(identity, slot)

    def note_loss(self, identity: str) -> None:
        """A claim for a unit of a demand, given by id, was given back."""
        self._scheduler.has_news = True
        self.losses |= {alike.application for alike, known in self._alike.items() if known == identity}


class Pods:
    """See `placement.source.Source`."""

    def __init__(self, scheduler: Scheduler, work: Work) -> None:
        self._scheduler, self._work = scheduler, work
        self._followers: list[Follower] = []
        self._tasks: dict[str, tuple[str, Task]] = {}
        """The units that followers know, as tasks with their applications."""
        self._facts: dict[str, Facts] = {}
        self._ending: set[str] = set()
        """Units that are being ended, as long as they are there."""

    def refresh(self) -> None:
        """Has followers follow the changes since the latest call."""
        usage, units = self._scheduler.pool.usage, self._scheduler.units
        self._ending &= units.keys()
        facts = {unit.application: facts_of(unit) for unit in units.values() if unit.ours}
        present = {
            name: unit.application for name, unit in units.items() if name in usage.users or name in usage.claims
        }
        tasks = {name: (key, task) for name, key in present.items() if (task := self.task(name, ANY_ROLE, False))}
        applications = [key for key in {**self._facts, **facts} if self._facts.get(key) != facts.get(key)]
        before, self._tasks, self._facts = self._tasks, tasks, facts
        for one in self._followers:
            for key in applications:
                one.application_changed(key)
            for name in {**before, **tasks}:
                if before.get(name) != tasks.get(name):
                    key, _ = tasks.get(name) or before[name]
                    one.unit_changed(key, name, present=name in tasks)

    # --- units

    def tenant(self, unit: str) -> Tenant | None:
        user, pod = self._scheduler.pool.usage.users.get(unit), self._scheduler.units.get(unit)
        if user is None or pod is None:
            return None
        return Tenant(unit, pod.application, user.node, unit, user.terminating or unit in self._ending, 0.0)

    def has_ended(self, unit: str) -> bool:
        return unit not in self._scheduler.pool.usage.users

    def has_started(self, application: str, since: float) -> bool:
        return self._scheduler.started.get(application, -inf) >= since

    def age_of(self, demand: str) -> int:
        return self._work.ages[demand]

    def is_needed(self, demand: str) -> bool:
        return demand in self._work.demands

    def priority(self, demand: Demand[Slot]) -> int:
        facts = self._facts.get(demand.application)
        return facts.priority if facts is not None else 0

    def used_on(self, agent: str) -> UsedAmounts:
        total = self._scheduler.pool.usage.on(agent).total
        return UsedAmounts((total.get("cpu", 0), total.get("memory", 0)), (0, 0))

    def leaving_on(self, agent: str) -> Mapping[str, int]:
        users = self._scheduler.pool.usage.users.values()
        return summed(amount for user in users if user.node == agent and user.terminating for amount in user.amounts)

    def ending_within(self, role: str, seconds: float) -> Mapping[str, dict[str, int]]:
        return {}

    def shortage(self, group: str) -> Shortage | None:
        return None

    def members(self, group: str) -> Iterable[Member]:
        return ()

    # --- tasks and jobs

    def follow(self, follower: Follower) -> None:
        self._followers.append(follower)

    def units(self) -> Iterable[tuple[str, str]]:
        return [(key, name) for name, (key, _) in self._tasks.items()]

    def task(self, unit: str, role: str, plain: bool) -> Task | None:
        usage, pod = self._scheduler.pool.usage, self._scheduler.units.get(unit)
        user, claim = usage.users.get(unit), usage.claims.get(unit)
        if pod is None or not pod.ours:
            return None
        if user is not None:
            leaves = user.terminating or unit in self._ending
            status = Status.RELEASING if leaves else Status.RUNNING
            return Task(unit, template_of(user.amounts), status, user.node, created=pod.created)
        if claim is not None:
            return Task(unit, template_of(claim.amounts), Status.BINDING, claim.node, created=pod.created)
        return None

    def applications(self) -> Collection[str]:
        return self._facts

    def facts(self, application: str) -> Facts | None:
        return self._facts.get(application)

    def queue_of(self, application: str) -> str:
        return queue_of(application)

    def queues(self) -> list[Queue]:
        return list(QUEUES)

    def capability(self, queue: str) -> Amounts:
        return next(one.capability for one in QUEUES if one.name == queue)

    # --- trees of queues

    def tree(self, partition: str) -> StoredTree | None:
        return None

    def keep_tree(self, partition: str, document: str) -> bool:
        return False

    def dimension(self, resource: str) -> str:
        return resource

    def submission(self, application: str) -> Submission:
        return Submission(queue=queue_of(application))

    def roles(self) -> Iterable[str]:
        return (ANY_ROLE,)

    def beneficiaries(self) -> Iterable[tuple[str, str]]:
        ending = (unit for unit in self._scheduler.units.values() if unit.beneficiary)
        return [(unit.name, unit.beneficiary) for unit in sorted(ending, key=attrgetter("ended_at"))]

    def idle(self) -> Iterable[tuple[str, str]]:
        return ()

    # --- budgets

    def spends(self, unit: str) -> bool:
        return True

    def may_end(self, unit: str) -> bool:
        tenant = self.tenant(unit)
        return tenant is not None and not tenant.leaves

    may_ever_end = may_end

    def obstacle(self, unit: str) -> Obstacle:
        return Obstacle.LEAVING

    def allowance(self, application: str) -> int:
        return 1 << 20

    def admits_some(self, application: str) -> bool:
        return True

    def grows_at(self, application: str) -> float:
        return inf

    def budget_of(self, application: str) -> tuple[str, ...]:
        return (application,)

    # --- effects

    def bind(self, site: Site, placements: Sequence[Placement[Slot]]) -> bool:
        """Names the claims of the units, and sends them."""
        scheduler, usage, bound = self._scheduler, self._scheduler.pool.usage, False
        for placement in placements:
            unit, claim = self._work.bound(placement), Provisional(placement.demand, placement.slot)
            if unit not in scheduler.waiting or scheduler.world.fault(0.05):
                usage.forget(claim)
                self._work.note_loss(placement.demand)
            elif (named := usage.rename(claim, unit)) is None:
                scheduler.world.count("named too late")
            else:
                scheduler.send(named)
                bound = True
        return bound

    def evict(self, unit: str, beneficiary: str, queue: str, *, is_paid: bool) -> str | None:
        self._scheduler.world.count("evictions")
        self._ending.add(unit)
        self._scheduler.cluster.end_unit(unit, beneficiary)
        return None

    def fail(self, demand: str, failure: Failure) -> None:
        raise AssertionError(f"{demand}: {failure.words}")


class NoQueues:
    """See `queue_accounts.Accounts`: there are no queues."""

    def decided(self, role: str, decisions: object, attempts: Mapping[str, Attempt]) -> None:
        pass

    def has_capability(self, demand: Demand[Slot], planned: Iterable[Demand[Slot]]) -> bool:
        return True

    def standing(self, demand: Demand[Slot], planned: Iterable[Demand[Slot]], priority: int) -> Standing:
        return Standing("", priority, False, True)

    def holds_back(self, demand: Demand[Slot]) -> bool:
        return False


class PlainTurn:
    """See `turn.Turn`: agents stand, so nothing has to be offered."""

    returning_until = offers_until = 0.0
    awaits_offers = False
    framework = "standing"

    def __init__(self, scheduler: Scheduler, options: CoreOptions) -> None:
        self.now = scheduler.world.now
        self._world = scheduler.world
        self.pool, self.options = scheduler.pool, options
        self.engine = Work(scheduler)
        self.census = PlannedCensus(scheduler.nobody)
        self.source = Pods(scheduler, self.engine)
        self.queues = NoQueues()
        self.placer = Placer(self.pool, self.census, self.engine, options.scoring)

    @property
    def shown_until(self) -> float:
        return self.now

    def shown_at(self, demand: str) -> float:
        return 0.0

    def is_unshown(self, demand: str) -> bool:
        return False

    def unshown(self, demands: Iterable[Demand[Slot]]) -> set[str]:
        return set()

    def attempt(self, kind: str, key: str, work: Callable[[], T]) -> T | Failure:
        return work()

    def count(self, name: str, labels: tuple[str, ...], value: float) -> None:
        self._world.count(f"metric: {name}")

    def record_event(self, kind: str, key: str, reason: str, message: str) -> Any:
        self._world.tell("event", (kind, key, reason, message))
