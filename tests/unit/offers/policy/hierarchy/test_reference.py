"""The tree of queues decides as the simple reference does, on random small clusters and through random changes."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from offers.dimensions import amounts
from offers.policy.hierarchy.changes import apply
from offers.policy.hierarchy.configuration.document import partition_of
from offers.policy.hierarchy.preemption import preemption
from offers.policy.hierarchy.preemption.preemption import attempt
from offers.policy.hierarchy.state.application import Application
from offers.policy.hierarchy.state.model import Allocation, Ask
from offers.policy.hierarchy.state.queue import QueueState
from offers.policy.hierarchy.tree import Tree
from tests.effort import share
from tests.unit.offers.policy.hierarchy.queue_reference import Member, Reference
from tests.unit.offers.policy.hierarchy.test_changes import copied

NOW = 10_000.0


def random_queues(chance: random.Random) -> dict[str, Any]:
    """A document with leaves root.p.a, root.p.b, root.c and root.d.e."""

    def figures(low: int, high: int) -> dict[str, int]:
        return {name: chance.randint(low, high) for name in ("cpus", "mem") if chance.random() < 0.7}

    def one(name: str, *children: Any) -> dict[str, Any]:
        entry: dict[str, Any] = {"name": name, "queues": list(children), "resources": {}, "properties": {}}
        if chance.random() < 0.3 and not children:
            entry["resources"]["max"] = figures(4, 12)
        if chance.random() < 0.8 and not children:
            most = entry["resources"].get("max", {})
            entry["resources"]["guaranteed"] = {
                kind: min(amount, most.get(kind, amount)) for kind, amount in figures(0, 6).items()
            }
        if children and chance.random() < 0.5:
            below = [child["resources"].get("guaranteed", {}).get("cpus", 0) for child in children]
            entry["resources"]["guaranteed"] = {"cpus": sum(below) + chance.randint(0, 2)}
        if chance.random() < 0.1:
            entry["maxapplications"] = chance.randint(1, 3) if not children else 4
        if chance.random() < 0.15:
            entry["limits"] = [
                {"users": [chance.choice(["*", "u0"])], "maxapplications": 1},
                {"groups": [chance.choice(["*", "g0"])], "maxresources": {"cpus": chance.randint(1, 4)}},
            ]
        properties = entry["properties"]
        properties["priority.offset"] = chance.choice((0, 0, 0, 1, -1))
        properties["priority.policy"] = chance.choice(("default", "default", "fence"))
        properties["preemption.policy"] = chance.choice(("default",) * 6 + ("fence", "disabled"))
        if chance.random() < 0.4:
            properties["preemption.gangs"] = chance.choice(("keep", "whole"))
        properties["application.sort.policy"] = chance.choice(("fifo", "fair"))
        properties["application.sort.priority"] = chance.choice(("enabled", "enabled", "disabled"))
        return entry

    queues = [one("p", one("a"), one("b")), one("c"), one("d", one("e"))]
    for queue in queues:
        for child in queue["queues"]:
            child.pop("limits", None)
    return {"queues": queues, "nodesortpolicy": {"type": chance.choice(("fair", "binpacking"))}}


class Pair:
    """The engine and the reference, which are given the same."""

    def __init__(
        self, chance: random.Random, document: Any = None, nodes: dict[str, dict[str, int]] | None = None
    ) -> None:
        self.chance = chance
        partition = partition_of(document or random_queues(chance), quantity=int)
        nodes = nodes or {
            f"n{n}": {"cpus": chance.randint(2, 6), "mem": chance.randint(3, 8)} for n in range(chance.randint(1, 3))
        }
        self.tree, self.reference = Tree(partition, list(nodes.items())), Reference(partition, nodes)
        self.tree.begin(self.tree.terms._replace(allowance=self.allowance))
        self.tree.begin(self.tree.terms._replace(budget_of=lambda name: self.reference.budgets.get(name, (name,))))
        self.asked = 0
        self.parts = 0
        """Searches that were halted."""
        leaves = [leaf.name for leaf in self.tree.root.leaves()]
        for number in range(chance.randint(1, 7) if document is None else 8):
            leaf = chance.choice(leaves) if document is None else leaves[number % len(leaves)]
            user, groups = f"u{chance.randint(0, 1)}", tuple(f"g{n}" for n in range(2) if chance.random() < 0.4)
            submitted = float(chance.randint(0, 3))
            self.tree.submit(Application(f"a{number}", leaf, submitted, user, groups))
            if chance.random() < (0.1 if document is None else 0.4):
                least = self.tree.applications[f"a{number}"].least = chance.randint(2, 3)
                self.reference.least[f"a{number}"] = least
            if chance.random() < (0.1 if document is None else 0.2):
                self.reference.allowances[f"a{number}"] = chance.randint(0, 2)
            self.reference.members[f"a{number}"] = Member(f"a{number}", leaf, submitted, user, groups)
        if chance.random() < 0.2 and len(self.reference.members) > 1:
            sides = ("a0", "a1")
            self.reference.budgets.update(dict.fromkeys(sides, sides))
            self.reference.allowances.update(dict.fromkeys(sides, chance.randint(1, 2)))

    def allowance(self, application: str) -> int:
        return self.reference.allowances.get(application, 99)

    def wanted(self, cpus: int, *queues: str) -> Ask:
        """An ask of an application below one of the queues, if there is one."""
        chance = self.chance
        self.asked += 1
        names = [name for name, one in self.tree.applications.items() if not queues or one.queue.startswith(queues)]
        return Ask(
            chance.choice(names or list(self.tree.applications)),
            f"t{self.asked}",
            amounts({"cpus": cpus, "mem": chance.choice((0, 1, 1, 3))}),
            float(chance.randint(0, 9)),
            chance.choice((0, 0, 0, 1, 2)),
            preemptable=chance.random() < 0.8,
            originator=chance.random() < 0.2,
            required_node=chance.choice(("", "", "", "", "n0")),
        )

    def ask(self, *queues: str) -> None:
        ask = self.wanted(self.chance.randint(1, 3), *queues)
        self.tree.ask(ask)
        self.reference.pending[ask.id] = ask
        member = self.reference.members[ask.application]
        member.oldest = min(member.oldest, ask.created)

    def run(self) -> int:
        found = []
        for allocation in self.tree.run():
            found.append(allocation)
            assert self.reference.cycle() == allocation
        assert self.reference.cycle() is None
        return len(found)

    def release(self) -> None:
        if self.reference.running:
            identity = self.chance.choice(sorted(self.reference.running))
            gone = self.reference.running.pop(identity)
            self.reference.leaving.discard(identity)
            assert self.tree.release(gone.ask.application, gone.ask.name) == gone

    def withdraw(self) -> None:
        if self.reference.pending:
            identity = self.chance.choice(sorted(self.reference.pending))
            ask = self.reference.pending.pop(identity)
            self.reference.promised.pop(identity, None)
            assert self.tree.withdraw(ask.application, ask.name) == ask

    def preempt(self, *, divided: bool = False) -> int:
        """Every pending ask tries; the victims of the last are gone at once, sometimes. `divided`: the time is over
        after each node."""
        found = 0
        for identity in sorted(self.reference.pending):
            ask = self.reference.pending[identity]
            if ask.required_node:
                continue
            self.tree.applications[ask.application].preempted_at.pop(ask.name, None)
            wanted = self.reference.preempt(ask)
            result = attempt(self.tree, ask, NOW, None, lambda: divided)
            while ask.id in self.tree.halted:
                self.parts += 1
                assert result is None
                result = attempt(self.tree, ask, NOW, None, lambda: divided)
            assert (None if result is None else (result.node, [one.ask.id for one in result.victims])) == wanted
            if wanted is not None:
                found += 1
                self.reference.promised[identity] = wanted[0]
                self.reference.leaving.update(wanted[1])
        return found

    def end_victims(self) -> None:
        for identity in sorted(self.reference.leaving):
            gone = self.reference.running.pop(identity)
            self.tree.release(gone.ask.application, gone.ask.name)
        self.reference.leaving.clear()

    def stop(self) -> None:
        name = self.chance.choice([name for name in self.tree.queues if name != "root"])
        stopped = name in self.reference.stopped
        self.tree.set_state(name, QueueState.ACTIVE if stopped else QueueState.STOPPED)
        (self.reference.stopped.discard if stopped else self.reference.stopped.add)(name)
        for identity in list(self.reference.promised):
            if not stopped and self.reference.below(name, self.reference.pending[identity]):
                del self.reference.promised[identity]

    def change(self) -> None:
        """The same configuration again, or a copy: neither may change a decision."""
        if self.chance.random() < 0.5:
            apply(self.tree, self.tree.partition)
        else:
            self.tree = copied(self.tree)


def compare(seed: int) -> tuple[int, int]:
    chance = random.Random(seed)
    pair = Pair(chance)
    placed = preempted = 0
    for _ in range(chance.randint(1, 6)):
        for _ in range(chance.randint(3, 9)):
            pair.ask()
        placed += pair.run()
        preempted += pair.preempt()
        step = chance.choice((pair.release, pair.withdraw, pair.end_victims, pair.end_victims, pair.stop, pair.change))
        step()
        if chance.random() < 0.3:
            pair.end_victims()
        placed += pair.run()
    return placed, preempted


@given(st.integers(0, 2**32))
@settings(max_examples=share(150), deadline=None)
def test_the_tree_decides_as_the_reference(seed: int) -> None:
    compare(seed)


def test_the_clusters_place_and_preempt() -> None:
    found = [compare(seed) for seed in range(120)]
    assert sum(placed > 3 for placed, _ in found) >= 20
    assert sum(preempted > 0 for _, preempted in found) >= 8


def crowded(seed: int) -> Pair:
    """Nodes that others fill, and asks of a queue below its guarantee: most asks may preempt."""
    chance = random.Random(seed)

    def queue(name: str, guaranteed: int | None = None, *queues: Any) -> dict[str, Any]:
        properties: dict[str, Any] = {"priority.offset": chance.choice((0, 0, 0, 1, -1))}
        properties["priority.policy"] = chance.choice(("default",) * 4 + ("fence",))
        properties["preemption.policy"] = chance.choice(("default",) * 8 + ("fence", "disabled"))
        if chance.random() < 0.5:
            properties["preemption.gangs"] = chance.choice(("keep", "whole"))
        resources: dict[str, Any] = {} if guaranteed is None else {"guaranteed": {"cpus": guaranteed}}
        return {"name": name, "queues": list(queues), "properties": properties, "resources": resources}

    wide = queue("wide", None, queue("a", chance.choice((None, 0, 2))), queue("b", chance.choice((None, 1))))
    mine = queue("mine", 8, queue("x", chance.choice((None, 4, 6))), queue("y", chance.choice((None, 1))))
    if chance.random() < 0.3:
        mine["resources"]["max"] = {"cpus": chance.randint(8, 10)}
    document = {"queues": [wide, mine, queue("c", chance.choice((None, 2)))]}
    pair = Pair(chance, document, {f"n{n}": {"cpus": chance.randint(3, 6), "mem": 20} for n in range(3)})
    for node, total in pair.reference.nodes.items():
        left = total["cpus"] - chance.choice((0, 0, 1))
        while left > 0:
            ask = pair.wanted(min(left, chance.choice((1, 1, 1, 2, 3))), "root.wide", "root.c", "root.mine.y")
            pair.tree.recover(Allocation(ask, node))
            pair.reference.running[ask.id] = Allocation(ask, node)
            pair.reference.members[ask.application].oldest = pair.tree.applications[ask.application].submitted
            left -= dict(ask.request)["cpus"]
    return pair


def compare_crowded(seed: int, *, divided: bool = False) -> tuple[int, int]:
    """Preemptions, and those with several victims. `divided`: as for `Pair.preempt`; then the number of halts."""
    pair = crowded(seed)
    found = several = 0
    for _ in range(3):
        pair.ask("root.mine")
        pair.ask("root.mine")
        pair.run()
        found += pair.preempt(divided=divided)
        several += len(pair.reference.leaving) > 1
        if pair.chance.random() < 0.7:
            pair.end_victims()
            pair.run()
    return found, pair.parts if divided else several


@given(st.integers(0, 2**32))
@settings(max_examples=share(150), deadline=None)
def test_victims_are_those_of_the_reference(seed: int) -> None:
    compare_crowded(seed)


def test_a_search_that_is_divided_finds_the_same_victims(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(preemption, "AT_A_TIME", 1)
    found = [compare_crowded(seed, divided=True) for seed in range(share(60))]
    assert sum(preempted for preempted, _ in found) >= share(20)
    assert sum(parts for _, parts in found) >= share(60)


def test_room_beside_a_promise_is_used_when_more_begins_to_leave() -> None:
    compare_crowded(960)


def test_crowded_clusters_preempt() -> None:
    found = [compare_crowded(seed) for seed in range(100)]
    assert sum(preempted for preempted, _ in found) >= 40
    assert sum(several for _, several in found) >= 10


@pytest.mark.rotating
@pytest.mark.slow
@pytest.mark.parametrize("block", range(10))
def test_the_tree_decides_as_the_reference_on_many_clusters(block: int) -> None:
    for seed in range(block * 300, block * 300 + share(300)):
        compare(seed)
        compare_crowded(seed)


def test_an_allocation_on_the_wrong_node_is_found() -> None:
    pair = Pair(random.Random(3))
    pair.ask()
    (ask,) = pair.reference.pending.values()
    node = next(iter(pair.tree.nodes))
    pair.tree.withdraw(ask.application, ask.name)
    pair.tree.recover(Allocation(ask, node.name))
    with pytest.raises(AssertionError):
        pair.run()
