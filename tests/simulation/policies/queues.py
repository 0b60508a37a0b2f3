"""What a queue may have and what it may lose, for each policy, from records and documents.

Said once more and plainly: usage is summed up anew at each question, and the engines are not asked.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from types import MappingProxyType
from typing import NamedTuple

from bcs_scheduler.core.placement.engines.hierarchical import Hierarchical
from bcs_scheduler.core.placement.engines.session import Session
from bcs_scheduler.core.placement.snapshots.pending import demand_of
from offers.model import Demand
from offers.policy.hierarchy.configuration.partition import Fencing, PreemptionPolicy
from offers.policy.hierarchy.preemption.promises import promises
from offers.policy.hierarchy.state.queue import Queue as TreeQueue
from offers.policy.session.plugins.proportion import Share, fill
from store.records import DEFAULT_QUEUE, Application, Namespace, Queue, TaskGroup, Version
from tests.simulation.policies.world import QuietWorld
from transactions.base import Slot

Amount = Counter[str]
Planned = Mapping[str, Amount]
"""Amounts by application."""
NOTHING: Planned = MappingProxyType({})
NAMES = ("cpus", "mem")
MOVES = ("Drained", "Rescheduled")
"""Causes of ends after which the successor has the same part of the limits."""


class Ask(NamedTuple):
    """One taskgroup that waits for a place."""

    application: str
    cpus: int
    mem: int
    since: float
    moves: bool = False
    """It is for the successor of a taskgroup that has left another agent."""

    @property
    def amount(self) -> Amount:
        return Counter(cpus=self.cpus, mem=self.mem)


def of(group: TaskGroup) -> Amount:
    """The amounts of a taskgroup."""
    return Counter(cpus=group.resources.cpus, mem=group.resources.mem)


def asks(world: QuietWorld) -> list[Ask]:
    """Everything that waits for a place, one by one; work that is bound to agents is left out."""
    found = []
    for demand in world.core.turn_context.engine.demands.values():
        if not demand.per_agent and not demand.only_host and not demand.only_agents:
            found += [_ask(world, demand, slot) for slot in demand.slots]
    return found


def _ask(world: QuietWorld, demand: Demand[Slot], slot: Slot) -> Ask:
    transaction = world.state.transactions.get(demand.id)
    since = transaction.created_at if transaction is not None else world.now
    return Ask(demand.application, demand.request.cpus, demand.request.mem, since, slot.moves)


def version_of(world: QuietWorld, application: str) -> Version | None:
    """The present version of an application."""
    found = world.state.applications.get(application)
    return world.state.version(application, found.version) if isinstance(found, Application) else None


def priority_of(world: QuietWorld, application: str) -> int:
    """The priority of the present version."""
    version = version_of(world, application)
    return version.priority if version is not None else 0


class Promised(NamedTuple):
    """Room that is kept on an agent for an application. `leaves`: others leave for it, and the limits of its queues
    hold its amount already."""

    agent: str
    application: str
    amount: Amount
    leaves: bool = True


class Queues(ABC):
    """The rules of the queues of one policy. What is being ended counts as gone, unless it moves. `staying`: ids of
    taskgroups that count although they are being ended; `gone`: ids of those that do not, although they are not being
    ended."""

    def __init__(self, world: QuietWorld) -> None:
        self.world = world

    def usage(self, application: str, staying: Collection[str] = (), gone: Collection[str] = ()) -> Amount:
        """The amounts of an application."""
        found = Amount()
        for group in self.world.state.groups_of(application).values():
            is_there = not group.killing_since or group.end_cause in MOVES or group.id in staying
            if is_there and not group.ended and group.id not in gone:
                found.update(of(group))
        return found

    @abstractmethod
    def promised(self) -> list[Promised]:
        """The room that is kept for work that waits."""

    @abstractmethod
    def name(self, application: str) -> str:
        """The queue of an application; empty if it has none."""

    @abstractmethod
    def limits(self, application: str) -> Mapping[str, Mapping[str, int]]:
        """The limits of the queue of an application, and of those above it, by name of the queue."""

    def admits(
        self,
        application: str,
        wanted: Amount,
        staying: Collection[str] = (),
        gone: Collection[str] = (),
        *,
        promises: bool = True,
        planned: Planned = NOTHING,
    ) -> bool:
        """Whether the limits admit so much more. `promises`: beside what is promised to others. So it is where others
        are ended for work; work that finds idle room does not wait for promises. `planned`: amounts that applications
        have beside what they use. Successors of its own taskgroups may be what the application wants."""
        own = self.world.state.groups_of(application).values()
        gone = {*gone, *(group.id for group in own if group.killing_since and group.id not in staying)}
        for queue, most in self.limits(application).items():
            used = self.used(queue, staying, gone)
            for other, amount in planned.items():
                if self.is_in(other, queue):
                    used += amount
            if promises:
                used += self._promised_to_others(queue, application)
            if any(used[name] + wanted[name] > amount for name, amount in most.items() if wanted[name]):
                return False
        return True

    def may_hold(self, application: str, wanted: Amount) -> bool:
        """Whether the limits could admit so much if nothing of the queue ran."""
        limits = self.limits(application).values()
        return all(wanted[name] <= amount for most in limits for name, amount in most.items() if wanted[name])

    def used(self, queue: str, staying: Collection[str] = (), gone: Collection[str] = ()) -> Amount:
        """The amounts of the applications of a queue, or below it."""
        found = Amount()
        for application in self.world.state.applications:
            if self.is_in(application, queue):
                found.update(self.usage(application, staying, gone))
        return found

    def _promised_to_others(self, queue: str, application: str) -> Amount:
        """The amounts of a queue for which others leave, but for those of an application itself."""
        found = Amount()
        for one in self.promised():
            if one.leaves and one.application != application and self.is_in(one.application, queue):
                found.update(one.amount)
        return found

    def is_in(self, application: str, queue: str) -> bool:
        """Whether an application is in a queue, or below it."""
        return self.name(application) == queue

    @abstractmethod
    def waits_for_its_share(self, application: str) -> bool:
        """Whether the policy lets others go first because the queue has its share."""

    def outranks(
        self, application: str, other: str, staying: Collection[str] = (), *, has_victims: bool = False
    ) -> bool:
        """Whether an application may use room that is kept for another one, beside what guarantees say. `has_victims`:
        work was ended for the other one."""
        del staying, has_victims
        return priority_of(self.world, application) > priority_of(self.world, other)

    @abstractmethod
    def is_entitled(self, application: str, wanted: Amount) -> bool:
        """Whether the queue may take so much from others."""

    @abstractmethod
    def may_lose(self, group: TaskGroup, ask: Ask) -> bool:
        """Whether the queue of a taskgroup may lose it for the ask of an entitled queue."""


class SessionQueues(Queues):
    """Queues of the policy `session`: capability, guarantee and deserved share."""

    def __init__(self, world: QuietWorld) -> None:
        super().__init__(world)
        self._shared_at = -1
        """Number of the turn after which the deserved shares were worked out."""
        self._shares: dict[str, dict[str, int]] = {}

    def promised(self) -> list[Promised]:
        found, demands = [], self.world.core.turn_context.engine.demands
        for one in self._passes():
            for (application, task), promise in one._inputs.promises.nominations.items():
                demand = demands.get(demand_of(task))
                amount = Amount() if demand is None else _ask(self.world, demand, demand.slots[0]).amount
                found.append(Promised(promise.agent, application, amount))
        return found

    def _passes(self) -> list[Session]:
        every = self.world.core._offer_manager.placing.loops
        return [one.engine for one in every if isinstance(one.engine, Session)]

    def name(self, application: str) -> str:
        return self._of(application.partition("/")[0])

    def _of(self, namespace: str) -> str:
        record = self.world.state.namespaces.get(namespace)
        name = record.queue if isinstance(record, Namespace) else ""
        return name if name in self.world.state.queues else DEFAULT_QUEUE

    def limits(self, application: str) -> Mapping[str, Mapping[str, int]]:
        queue = self.name(application)
        return {queue: self._limit(queue)}

    def waits_for_its_share(self, application: str) -> bool:
        queue = self.name(application)
        used, deserved = self.used(queue), self._deserved()[queue]
        return all(used[name] >= deserved[name] for name in NAMES)

    def outranks(
        self, application: str, other: str, staying: Collection[str] = (), *, has_victims: bool = False
    ) -> bool:
        if not super().outranks(application, other) or self.name(application) == self.name(other):
            return super().outranks(application, other)
        if has_victims:
            return False
        return self._is_within_share(application, staying) or not self._is_within_share(other, staying)

    def _is_within_share(self, application: str, staying: Collection[str]) -> bool:
        """Whether the queue has its deserved share at most with one more taskgroup of the application."""
        queue = self.name(application)
        used, deserved = self.used(queue, staying), self._deserved()[queue]
        wants = [ask.amount for ask in asks(self.world) if ask.application == application]
        return any(all(used[name] + wanted[name] <= deserved[name] for name in NAMES) for wanted in wants)

    def is_entitled(self, application: str, wanted: Amount) -> bool:
        if not any(choice.action.name == "reclaim" for one in self._passes() for choice in one._policy.actions):
            return False
        queue = self.name(application)
        used, deserved = self.used(queue), self._deserved()[queue]
        return all(used[name] + wanted[name] <= deserved[name] for name in NAMES if wanted[name])

    def may_lose(self, group: TaskGroup, ask: Ask) -> bool:
        queue = self.name(group.application_key)
        record = self._records().get(queue, Queue(name=queue))
        if queue == self.name(ask.application) or not record.reclaimable:
            return False
        used, deserved = self.used(queue), self._deserved()[queue]
        least = Counter(cpus=record.guarantee.cpus, mem=record.guarantee.mem)
        lost = of(group)
        above = any(used[name] > deserved[name] for name in NAMES if ask.amount[name])
        return above and all(used[name] - lost[name] >= least[name] for name in NAMES if lost[name])

    def _could_run(self, ask: Ask) -> bool:
        """Whether empty agents, and the limit of the queue, could hold the application: else it has no share."""
        version, settings = version_of(self.world, ask.application), self.world.state.agent_settings
        application = self.world.state.applications.get(ask.application)
        members = application.instances if application is not None else 1
        least = max(1, min(version.min_available, members) if version is not None else 1)
        room = 0
        for agent in self.world.cluster._agents.values():
            total, setting = agent.machine.total, settings.get(str(agent.machine.attributes["InnerIP"]))
            if setting is None or not (setting.disabled or setting.drain):
                room += min(total[one] // ask.amount[one] for one in NAMES if ask.amount[one])
        most = self._limit(self.name(ask.application))
        return room >= least and all(ask.amount[name] * least <= most[name] for name in NAMES)

    def _records(self) -> Mapping[str, Queue]:
        return {DEFAULT_QUEUE: Queue(name=DEFAULT_QUEUE), **self.world.state.queues}

    def _total(self) -> Amount:
        found = Amount()
        for agent in self.world.cluster._agents.values():
            found.update({name: agent.machine.total[name] for name in NAMES})
        return found

    def _limit(self, queue: str) -> Amount:
        records, found = self._records(), self._total()
        for name, record in records.items():
            if name != queue:
                found.subtract({"cpus": record.guarantee.cpus, "mem": record.guarantee.mem})
        most = records[queue].capability
        return Counter(
            cpus=found["cpus"] if most.cpus is None else min(found["cpus"], most.cpus),
            mem=found["mem"] if most.mem is None else min(found["mem"], most.mem),
        )

    def _deserved(self) -> dict[str, dict[str, int]]:
        """Floors of the deserved shares. Work that could never run takes nothing from the shares of other queues."""
        turns = self.world.counts["turns"]  # records and demands change in turns only
        if turns != self._shared_at:
            full, usable = self._filled(lambda _: True), self._filled(self._could_run)
            self._shared_at, self._shares = (
                turns,
                {queue: {name: max(row[name], usable[queue][name]) for name in NAMES} for queue, row in full.items()},
            )
        return self._shares

    def _filled(self, counts: Callable[[Ask], bool]) -> dict[str, dict[str, int]]:
        requested = {name: self.used(name) for name in self._records()}
        with_jobs = {queue for queue, used in requested.items() if any(used.values())}
        for ask in asks(self.world):
            with_jobs.add(self.name(ask.application))
            if counts(ask):
                requested[self.name(ask.application)].update(ask.amount)
        total, found = self._total(), dict[str, dict[str, int]]()
        queues = [name for name in self._records() if name in with_jobs]
        for name in self._records():
            found[name] = dict.fromkeys(NAMES, 0)
        for resource in NAMES:
            shares = []
            for name in queues:
                record = self._records()[name]
                most = min(requested[name][resource], self._limit(name)[resource])
                shares.append(Share(getattr(record.guarantee, resource), most, record.weight))
            for name, deserved in zip(queues, fill(total[resource], shares), strict=True):
                found[name][resource] = int(deserved)
        return found


class TreeQueues(Queues):
    """Queues of the policy `hierarchical`: maxima and guarantees on the path of a leaf."""

    def promised(self) -> list[Promised]:
        roles = [role for placing in self._passes() for role in placing.trees.roles.values()]
        return [
            Promised(one.node, one.ask.application, Amount(dict(one.ask.request)), leaves=not one.reserves)
            for role in roles
            for one in promises(role.tree)
        ]

    def _path(self, application: str) -> list[TreeQueue]:
        """From root to the leaf, whatever way round the product keeps it."""
        for placing in self._passes():
            for role in placing.trees.roles.values():
                found = role.tree.applications.get(application)
                if found is not None:
                    return sorted(role.tree.queues[found.queue].path, key=lambda queue: queue.name.count("."))
        return []

    def _passes(self) -> Iterable[Hierarchical]:
        return self.world.core._offer_manager.placing.trees().values()

    def name(self, application: str) -> str:
        path = self._path(application)
        return path[-1].name if path else ""

    def limits(self, application: str) -> Mapping[str, Mapping[str, int]]:
        return {queue.name: queue.max for queue in self._path(application)[1:]}

    def is_in(self, application: str, queue: str) -> bool:
        return any(one.name == queue for one in self._path(application))

    def admits(
        self,
        application: str,
        wanted: Amount,
        staying: Collection[str] = (),
        gone: Collection[str] = (),
        *,
        promises: bool = True,
        planned: Planned = NOTHING,
    ) -> bool:
        path = self._path(application)
        may_start = path and all(self._admits_application(queue, application) for queue in path)
        return bool(may_start) and super().admits(
            application, wanted, staying, gone, promises=promises, planned=planned
        )

    def _admits_application(self, queue: TreeQueue, name: str) -> bool:
        """Whether the limits of applications admit one more, if this one does not run. Limits of the amounts of users
        are not judged: they admit nothing."""
        if any(limit.max_resources for limit in queue.config.limits):
            return False
        if self.usage(name):
            return True
        started = [
            one
            for one in self.world.state.applications.values()
            if self.usage(one.key) and any(above.name == queue.name for above in self._path(one.key))
        ]
        user = self.world.state.applications[name].user
        of_user = sum(one.user == user for one in started)
        limits = [limit.max_applications for limit in queue.config.limits if limit.max_applications is not None]
        most = queue.config.max_applications
        return (most is None or len(started) < most) and all(of_user < one for one in limits)

    def waits_for_its_share(self, application: str) -> bool:
        return not self._path(application)

    def is_entitled(self, application: str, wanted: Amount) -> bool:
        names = [name for name in NAMES if wanted[name]]
        for queue in reversed(self._path(application)):
            least = queue.guaranteed
            if any(least.get(name) for name in names):
                used = self.used(queue.name)
                return all(used[name] + wanted[name] <= least[name] for name in names if name in least)
        return False

    def may_lose(self, group: TaskGroup, ask: Ask) -> bool:
        mine, theirs = self._path(ask.application), self._path(group.application_key)
        if not theirs or theirs[-1].name == mine[-1].name:
            return False
        for queue in {queue.name: queue for queue in (*mine, *theirs)}.values():
            properties = queue.config.properties
            if properties.preemption_policy is not PreemptionPolicy.DEFAULT:
                return False
            if properties.priority_offset or properties.priority_policy is not Fencing.DEFAULT:
                return False
        if priority_of(self.world, group.application_key) > priority_of(self.world, ask.application):
            return False
        lost, own = of(group), {queue.name for queue in mine}
        if any(queue.guaranteed for queue in mine[1:] if queue.name in {one.name for one in theirs}):
            return False  # within one guaranteed parent: whether siblings count is not judged here
        for queue in theirs:
            used = self.used(queue.name) if queue.guaranteed and queue.name not in own else Amount()
            for name, least in queue.guaranteed.items():
                if queue.name not in own and ask.amount[name] and used[name] - lost[name] < least:
                    return False
        return True
