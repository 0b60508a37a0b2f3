"""Slow and simple hierarchical queues, written from the rules alone: every choice looks at everything again.

`test_reference` compares its decisions with those of the engine. Amounts are dictionaries, shares are fractions, and
nothing is remembered between two choices except what runs, what waits, and what was promised.
"""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction
from itertools import groupby
from typing import Any

from offers.dimensions import share
from offers.policy.hierarchy.configuration.partition import (
    Fencing,
    GangPreemption,
    Limit,
    NodeOrder,
    Partition,
    PreemptionPolicy,
    QueueConfig,
    SortPolicy,
)
from offers.policy.hierarchy.state.model import Allocation, Ask

Figures = dict[str, int]
Unit = list[Allocation]
"""Allocations that end together."""
Cost = tuple[bool, bool, int, int, Fraction]


class Member:
    """An application as the reference knows it."""

    def __init__(self, name: str, queue: str, submitted: float, user: str, groups: tuple[str, ...]) -> None:
        self.name, self.queue, self.submitted, self.user, self.groups = name, queue, submitted, user, groups
        self.oldest = submitted


class Reference:
    """A partition. Queues are named by their full names."""

    def __init__(self, partition: Partition, nodes: dict[str, Figures]) -> None:
        self.partition, self.nodes = partition, nodes
        self.queues: dict[str, QueueConfig] = {}
        self._walk(partition.root, "root")
        self.members: dict[str, Member] = {}
        self.running: dict[str, Allocation] = {}
        self.pending: dict[str, Ask] = {}
        self.promised: dict[str, str] = {}
        self.leaving: set[str] = set()
        self.stopped: set[str] = set()
        self.least: dict[str, int] = {}
        """The minimum of each gang."""
        self.allowances: dict[str, int] = {}
        """The victims that the disruption budgets of applications admit; others admit all."""
        self.budgets: dict[str, tuple[str, ...]] = {}
        """The applications that have one budget together, by each of them; others have their own."""
        self.bound = "root"
        """The fence of the latest search."""
        self.candidates: list[Allocation] = []
        """The eligible allocations of the latest search, in the order of loss."""
        self.names = sorted({name for total in nodes.values() for name in total} | {"cpus", "mem"})

    def _walk(self, config: QueueConfig, full: str) -> None:
        self.queues[full] = config
        for child in config.queues:
            self._walk(child, f"{full}.{child.name}")

    # --- figures ----------------------------------------------------------------------------------------------

    @staticmethod
    def path(queue: str) -> list[str]:
        parts = queue.split(".")
        return [".".join(parts[:length]) for length in range(len(parts), 0, -1)]

    def below(self, queue: str, ask: Ask) -> bool:
        return queue in self.path(self.members[ask.application].queue)

    @staticmethod
    def sum(asks: Iterable[Ask]) -> Figures:
        total: Figures = {}
        for ask in asks:
            for name, amount in ask.request:
                total[name] = total.get(name, 0) + amount
        return total

    def usage(self, queue: str) -> Figures:
        return self.sum(one.ask for one in self.running.values() if self.below(queue, one.ask))

    def expected(self, queue: str) -> Figures:
        """Usage without what leaves, with what is promised."""
        staying = [one.ask for name, one in self.running.items() if name not in self.leaving]
        promised = [self.pending[name] for name in self.promised]
        return self.sum(ask for ask in (*staying, *promised) if self.below(queue, ask))

    def most(self, queue: str) -> Figures:
        if queue == "root":
            return self.sum(Ask("", "", tuple(total.items())) for total in self.nodes.values())
        return dict(self.queues[queue].max)

    def fair_max(self, queue: str) -> Figures:
        found: Figures = {}
        for one in reversed(self.path(queue)):
            found.update(self.most(one))
        return found

    def started(self, application: str) -> bool:
        return any(one.ask.application == application for one in self.running.values())

    def free(self, node: str) -> Figures:
        used = self.sum(one.ask for one in self.running.values() if one.node == node)
        return {name: self.nodes[node].get(name, 0) - used.get(name, 0) for name in {*self.nodes[node], *used}}

    # --- order ------------------------------------------------------------------------------------------------

    def asks(self, queue: str) -> list[Ask]:
        return [ask for ask in self.pending.values() if self.below(queue, ask)]

    def shown(self, queue: str) -> int | None:
        """The priority that a queue shows; None if nothing is pending."""
        config = self.queues[queue]
        if config.is_parent:
            inner = [self.shown(f"{queue}.{child.name}") for child in config.queues]
            known = [priority for priority in inner if priority is not None]
        else:
            known = [ask.priority for ask in self.asks(queue)]
        if not known:
            return None
        fenced = config.properties.priority_policy is Fencing.FENCE
        return config.properties.priority_offset + (0 if fenced else max(known))

    def fair_share(self, queue: str) -> Fraction:
        whole = {**self.fair_max(queue), **self.queues[queue].guaranteed}
        used = self.usage(queue)
        return max((share(amount, whole.get(name, 0)) for name, amount in used.items()), default=Fraction(0))

    def children(self, queue: str) -> list[str]:
        by_priority = self.queues[queue].properties.sort_priority
        names = [f"{queue}.{child.name}" for child in self.queues[queue].queues]
        names = [name for name in names if self.asks(name)]

        def key(name: str) -> tuple[Any, ...]:
            pending = self.sum(self.asks(name))
            more = tuple(-pending.get(one, 0) for one in self.names)
            return (-(self.shown(name) or 0) if by_priority else 0, self.fair_share(name), more, name)

        return sorted(names, key=key)

    def application_key(self, name: str) -> tuple[Any, ...]:
        member = self.members[name]
        properties = self.queues[member.queue].properties
        priorities = [ask.priority for ask in self.pending.values() if ask.application == name]
        priority = -max(priorities, default=0)
        order: Any = member.oldest
        if properties.sort_policy is SortPolicy.FAIR:
            whole = {**self.fair_max(member.queue), **self.queues[member.queue].guaranteed}
            used = self.sum(one.ask for one in self.running.values() if one.ask.application == name)
            order = sorted((share(amount, whole.get(kind, 0)) for kind, amount in used.items()), reverse=True)
        first = (priority, order) if properties.sort_priority else (order, priority)
        return (*first, member.oldest, name)

    def ordered(self, queue: str) -> list[Ask]:
        """The pending asks of a leaf."""
        return sorted(
            self.asks(queue),
            key=lambda ask: (self.application_key(ask.application), -ask.priority, ask.created, ask.name),
        )

    def open(self, node: str) -> Figures:
        """The free room that the promises of a node do not need once everything has left that is leaving."""
        promised = self.sum(self.pending[name] for name, where in self.promised.items() if where == node)
        leaving = self.sum(self.running[name].ask for name in self.leaving if self.running[name].node == node)
        return {
            name: amount - max(0, promised.get(name, 0) - leaving.get(name, 0))
            for name, amount in self.free(node).items()
        }

    # --- placing ----------------------------------------------------------------------------------------------

    def cycle(self) -> Allocation | None:
        promised = sorted(
            (self.pending[name] for name in self.promised),
            key=lambda ask: (
                self.members[ask.application].queue,
                self.application_key(ask.application),
                -ask.priority,
                ask.created,
                ask.name,
            ),
        )
        for ask in promised:
            if not self.admitted(ask):
                continue
            node = self.promised[ask.id]
            found = node if self.fits(ask, self.free(node)) else None if ask.required_node else self.node(ask)
            if found is not None:
                return self.place(ask, found)
        return self.descend("root")

    def descend(self, queue: str) -> Allocation | None:
        if queue in self.stopped:
            return None
        for child in self.children(queue) if self.queues[queue].is_parent else ():
            found = self.descend(child)
            if found is not None:
                return found
        for ask in [] if self.queues[queue].is_parent else self.ordered(queue):
            if ask.id in self.promised or not self.admitted(ask):
                continue
            node = self.node(ask)
            if node is not None:
                return self.place(ask, node)
        return None

    def place(self, ask: Ask, node: str) -> Allocation:
        del self.pending[ask.id]
        self.promised.pop(ask.id, None)
        self.running[ask.id] = Allocation(ask, node)
        return self.running[ask.id]

    @staticmethod
    def fits(ask: Ask, room: Figures) -> bool:
        return all(amount <= room.get(name, 0) for name, amount in ask.request)

    def node(self, ask: Ask) -> str | None:
        sign = 1 if self.partition.node_order is NodeOrder.FAIR else -1
        nodes = [name for name in self.nodes if ask.required_node in ("", name)]
        fitting = [name for name in nodes if self.fits(ask, self.open(name))]

        def key(name: str) -> tuple[Fraction, str]:
            total, free = self.nodes[name], self.free(name)
            shares = [Fraction(amount - free[one], amount) for one, amount in total.items() if amount]
            return (sign * sum(shares, Fraction(0)) / (len(shares) or 1), name)

        return min(fitting, key=key, default=None)

    def admitted(self, ask: Ask) -> bool:
        for queue in self.path(self.members[ask.application].queue):
            most = self.most(queue)
            for used in (self.usage(queue), *(() if ask.id in self.promised else (self.expected(queue),))):
                if any(name in most and used.get(name, 0) + amount > most[name] for name, amount in ask.request):
                    return False
        return self.allowed(ask)

    def allowed(self, ask: Ask) -> bool:
        """True if no state of a queue and no limit of applications, users or groups is in the way."""
        member = self.members[ask.application]
        started = self.started(ask.application)
        wanted = dict(ask.request)
        for queue in self.path(member.queue):
            config = self.queues[queue]
            if queue in self.stopped or (not started and self.full(config.max_applications, None, queue)):
                return False
            for same, limit in self.limits(config, member):
                used = self.sum(
                    one.ask for one in self.running.values() if self.below(queue, one.ask) and same(one.ask)
                )
                for name, most in limit.max_resources.items():
                    if wanted.get(name, 0) and used.get(name, 0) + wanted[name] > most:
                        return False
                if not started and self.full(limit.max_applications, same, queue):
                    return False
        return True

    def full(self, limit: int | None, same: Any, queue: str) -> bool:
        running = {
            one.ask.application
            for one in self.running.values()
            if self.below(queue, one.ask) and (same is None or same(one.ask))
        }
        return limit is not None and len(running) >= limit

    def limits(self, config: QueueConfig, member: Member) -> list[tuple[Any, Limit]]:
        """The limits of a queue that hold for a member, each with a test of the asks that count."""
        found: list[tuple[Any, Limit]] = []
        users = [limit for limit in config.limits if member.user in limit.users]
        users += [limit for limit in config.limits if "*" in limit.users]
        if users:
            found.append((lambda ask: self.members[ask.application].user == member.user, users[0]))
        group = self.group(config, member)
        if group is not None:
            name, limit = group
            found.append((lambda ask: (self.group(config, self.members[ask.application]) or ("",))[0] == name, limit))
        return found

    @staticmethod
    def group(config: QueueConfig, member: Member) -> tuple[str, Limit] | None:
        for limit in config.limits:
            for name in member.groups:
                if name in limit.groups:
                    return name, limit
        return next((("*", limit) for limit in config.limits if "*" in limit.groups), None)

    # --- preemption -------------------------------------------------------------------------------------------

    def preempt(self, ask: Ask) -> tuple[str, list[str]] | None:
        """Node and victims for an ask, in the order in which they were taken; None if there are none."""
        leaf = self.members[ask.application].queue
        wanted = dict(ask.request)
        goal = next((one for one in self.path(leaf) if set(self.queues[one].guaranteed) & set(wanted)), None)
        if goal is None or ask.id in self.promised or not self.allowed(ask):
            return None
        over = self.short(wanted, self.expected(goal), dict(self.queues[goal].guaranteed))
        between = self.path(leaf)[: self.path(leaf).index(goal)]
        siblings = any(self.queues[one].guaranteed for one in between)
        self.bound = fence = self.fence(ask, leaf)
        eligible = [one for one in self.eligible(ask, leaf) if (siblings if self.below(goal, one.ask) else not over)]
        eligible = [one for one in eligible if self.keeps_guarantees(one, self.lost((one,), leaf), leaf, wanted)]
        self.candidates = eligible
        entitled = not over
        for one in eligible:
            if self.below(goal, one.ask):
                self.less(over, one)
        if over:
            return None
        above: Figures = {}
        for queue in self.path(leaf)[:-1]:
            for name, amount in self.short(wanted, self.expected(queue), self.most(queue)).items():
                above[name] = max(amount, above.get(name, 0))
        found: list[tuple[Cost, str, list[Allocation]]] = []
        partial: list[tuple[Cost, str, list[Unit]]] = []
        for node in sorted(self.nodes):
            local = [one for one in eligible if one.node == node]
            lacking = self.lacking(ask, node)
            if not lacking:
                partial.append((self.cost([], fence), node, []))
            units, short, left = self.on(ask, node, local, above, leaf)
            if not short and not left:
                units = self.trim(units, lacking, above, node)
                if units or entitled:
                    taken = [one for unit in units for one in unit]
                    found.append((self.cost(taken, fence), node, taken))
            elif not short:
                units, _, _ = self.on(ask, node, local, {}, leaf)
                units = self.trim(units, lacking, {}, node)
                partial.append((self.cost([one for unit in units for one in unit], fence), node, units))
        if partial and above:
            _, node, units = min(partial, key=lambda entry: entry[:2])
            units, _, left = self.with_one(units, eligible, self.lacking(ask, node), above, node, ask, leaf)
            if not left:
                units = self.trim(units, self.lacking(ask, node), above, node)
                if units:
                    taken = [one for unit in units for one in unit]
                    found.append((self.cost(taken, fence), node, taken))
        if not found:
            return None
        _, node, taken = min(found, key=lambda entry: entry[:2])
        return node, [one.ask.id for one in taken]

    def cost(self, taken: list[Allocation], fence: str) -> Cost:
        """What is compared between nodes: strong wishes, the highest priority, the number, the sum of amounts."""
        whole = self.most("root")
        return (
            any(not one.ask.preemptable for one in taken),
            any(one.ask.originator for one in taken),
            max((self.importance(one, fence) for one in taken), default=-(2**62)),
            len(taken),
            sum((share(amount, whole[name]) for one in taken for name, amount in one.ask.request), Fraction(0)),
        )

    def importance(self, one: Allocation, fence: str) -> int:
        """The priority that an allocation shows at a queue above it."""
        shown = one.ask.priority
        for queue in self.path(self.members[one.ask.application].queue):
            if queue == fence:
                break
            properties = self.queues[queue].properties
            fenced = properties.priority_policy is Fencing.FENCE
            shown = properties.priority_offset + (0 if fenced else shown)
        return shown

    def on(
        self, ask: Ask, node: str, local: list[Allocation], above: Figures, leaf: str
    ) -> tuple[list[Unit], Figures, Figures]:
        """The victims on one node."""
        return self.with_one([], local, self.lacking(ask, node), above, node, ask, leaf)

    def with_one(
        self, begun: list[Unit], local: list[Allocation], lacking: Figures, above: Figures, node: str,
        ask: Ask, leaf: str,
    ) -> tuple[list[Unit], Figures, Figures]:  # fmt: skip
        """The victims; if they do not suffice, one that suffices alone, and those after it."""
        found = self.take(begun, local, lacking, above, node, ask, leaf)
        if found[1] or found[2]:
            for one in local:
                first = self.take(begun, [one], lacking, above, node, ask, leaf)
                if len(first[0]) > len(begun) and not first[1] and (found[1] or not first[2]):
                    others = [other for other in local if other is not one]
                    return self.take(first[0], others, lacking, above, node, ask, leaf)
        return found

    def unit(self, one: Allocation, units: list[Unit], eligible: list[Allocation]) -> Unit | None:
        """The allocations that end with one; None if its application does not admit that."""
        name = one.ask.application
        chosen = [other for unit in units for other in unit if other.ask.application == name]
        here = [
            other
            for identity, other in self.running.items()
            if other.ask.application == name and identity not in self.leaving
        ]
        sides = [side for side in self.budgets.get(name, ()) if side != name]
        elsewhere = [other for unit in units for other in unit if other.ask.application in sides]
        allowance, least = self.allowances.get(name, 99) - len(elsewhere), self.least.get(name, 0)
        if least > 1 and len(here) - len(chosen) <= least:
            queue = self.members[name].queue
            settings = (self.queues[above].properties.gang_preemption for above in self.path(queue))
            whole = next((each for each in settings if each is not None), GangPreemption.KEEP) is GangPreemption.WHOLE
            return here if whole and allowance >= 1 and all(other in eligible for other in here) else None
        return [one] if len(chosen) < allowance else None

    def fence(self, ask: Ask, leaf: str) -> str:
        """The queue that bounds the search."""
        for queue in self.path(leaf):
            if self.queues[queue].properties.preemption_policy is PreemptionPolicy.FENCE or self.short(
                dict(ask.request), self.expected(queue), self.most(queue)
            ):
                return queue
        return "root"

    def eligible(self, ask: Ask, leaf: str) -> list[Allocation]:
        """All allocations that may be victims, in the order of loss."""
        shown: dict[str, int] = {}
        priority, fence = ask.priority, self.fence(ask, leaf)
        for queue in self.path(leaf):
            properties = self.queues[queue].properties
            fenced = properties.priority_policy is Fencing.FENCE
            priority = shown[queue] = properties.priority_offset + (0 if fenced else priority)
        found = []
        for name, one in self.running.items():
            queue = self.members[one.ask.application].queue
            if fence not in self.path(queue) or queue == leaf or name in self.leaving or one.ask.required_node:
                continue
            branch = [part for part in self.path(queue) if part not in self.path(leaf)]
            above = branch[-1].rpartition(".")[0]
            towards = next(part for part in self.path(leaf) if part.rpartition(".")[0] == above)
            if self.may_lose(branch, shown[towards], one.ask.priority):
                found.append(one)

        def order(one: Allocation) -> tuple[Any, ...]:
            ask = one.ask
            return (not ask.preemptable, ask.originator, self.importance(one, fence), -ask.created, ask.id)

        return sorted(found, key=order)

    def may_lose(self, branch: list[str], relative: int, priority: int) -> bool:
        everything = False
        for queue in reversed(branch):
            properties = self.queues[queue].properties
            if properties.preemption_policy is PreemptionPolicy.DISABLED:
                return False
            if everything:
                continue
            if properties.priority_policy is Fencing.FENCE:
                if properties.priority_offset > relative:
                    return False
                everything = True
            else:
                relative -= properties.priority_offset
        return everything or priority <= relative

    @staticmethod
    def short(wanted: Figures, used: Figures, most: Figures) -> Figures:
        over = {name: used.get(name, 0) + amount - most[name] for name, amount in wanted.items() if name in most}
        return {name: amount for name, amount in over.items() if amount > 0}

    def lacking(self, ask: Ask, node: str) -> Figures:
        used = self.sum(
            [one.ask for name, one in self.running.items() if one.node == node and name not in self.leaving]
            + [self.pending[name] for name, where in self.promised.items() if where == node]
        )
        lacks = {name: amount + used.get(name, 0) - self.nodes[node].get(name, 0) for name, amount in ask.request}
        return {name: amount for name, amount in lacks.items() if amount > 0}

    def lost(self, taken: Iterable[Allocation], leaf: str) -> dict[tuple[str, str], int]:
        """What queues that are not on the path of a leaf lose with some victims."""
        lost: dict[tuple[str, str], int] = {}
        for one in taken:
            for queue in self.path(self.members[one.ask.application].queue):
                if queue not in self.path(leaf):
                    for name, amount in one.ask.request:
                        lost[queue, name] = lost.get((queue, name), 0) + amount
        return lost

    def take(
        self, begun: list[Unit], candidates: list[Allocation], short: Figures, above: Figures, node: str,
        ask: Ask, leaf: str,
    ) -> tuple[list[Unit], Figures, Figures]:  # fmt: skip
        """Takes victims until nothing is short; also what is still short."""
        units = list(begun)
        started = short, above
        short, above = dict(short), dict(above)
        for unit in begun:
            for one in unit:
                self.reduce(short, above, one, node)
        for one, is_later in self.gangs_last(candidates):
            if not short and not above:
                break
            taken = [other for unit in units for other in unit]
            names = {name for name, _ in one.ask.request}
            if one in taken or not ((one.node == node and names & set(short)) or names & set(above)):
                continue
            found = self.unit(one, units, self.candidates)
            if found is None or (len(found) > 1 and not is_later):
                continue
            taken += [other for other in found if other not in taken]
            if not self.keeps_guarantees(one, self.lost(taken, leaf), leaf, dict(ask.request)):
                continue
            units = [unit for unit in units if not any(other in found for other in unit)] + [found]
            short, above = dict(started[0]), dict(started[1])
            for other in taken:
                self.reduce(short, above, other, node)
        return units, short, above

    def gangs_last(self, candidates: list[Allocation]) -> list[tuple[Allocation, bool]]:
        """The candidates by importance; of equally important ones, all once more (True), for whole gangs."""

        def key(one: Allocation) -> tuple[bool, bool, int]:
            return (not one.ask.preemptable, one.ask.originator, self.importance(one, self.bound))

        found: list[tuple[Allocation, bool]] = []
        for _, group in groupby(candidates, key):
            alike = list(group)
            found += [(one, is_later) for is_later in (False, True) for one in alike]
        return found

    def keeps_guarantees(self, one: Allocation, lost: dict[tuple[str, str], int], leaf: str, wanted: Figures) -> bool:
        for queue in self.path(self.members[one.ask.application].queue):
            if queue in self.path(leaf):
                continue
            staying = self.sum(
                other.ask
                for name, other in self.running.items()
                if name not in self.leaving and self.below(queue, other.ask)
            )
            for name, least in self.queues[queue].guaranteed.items():
                if name in wanted and staying.get(name, 0) - lost.get((queue, name), 0) < least:
                    return False
        return True

    @staticmethod
    def less(figures: Figures, one: Allocation) -> None:
        for name, amount in one.ask.request:
            if name in figures:
                figures[name] -= amount
                if figures[name] <= 0:
                    del figures[name]

    def reduce(self, short: Figures, above: Figures, one: Allocation, node: str) -> None:
        if one.node == node:
            self.less(short, one)
        self.less(above, one)

    def trim(self, units: list[Unit], short: Figures, above: Figures, node: str) -> list[Unit]:
        """The victims that are needed; the most important ones are given back first."""
        kept = list(units)
        for unit in sorted(units, key=lambda one: max(map(self.candidates.index, one)), reverse=True):
            others = [other for other in kept if other is not unit]
            short_left, above_left = dict(short), dict(above)
            for one in (one for other in others for one in other):
                self.reduce(short_left, above_left, one, node)
            if not short_left and not above_left:
                kept = others
        return kept
