"""A run of repeated allocations leaves the same tree as allocations that each renew everything, step by step."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from itertools import groupby
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from offers.dimensions import amounts
from offers.policy.hierarchy import steps
from offers.policy.hierarchy.configuration.document import partition_of
from offers.policy.hierarchy.state.application import Application
from offers.policy.hierarchy.state.model import Allocation, Ask
from offers.policy.hierarchy.state.queue import Queue
from offers.policy.hierarchy.tree import Tree
from tests.effort import share
from tests.unit.offers.policy.hierarchy.test_reference import random_queues

Frame = tuple[Any, ...]


def cluster(seed: int) -> Tree:
    """Asks in bundles of equal ones, for applications with different priorities, limits and orders."""
    chance = random.Random(seed)
    partition = partition_of(random_queues(chance), quantity=int)
    nodes = {
        f"n{n}": {"cpus": chance.randint(4, 20), "mem": chance.randint(4, 20)} for n in range(chance.randint(1, 4))
    }
    tree = Tree(partition, list(nodes.items()))
    leaves = [leaf.name for leaf in tree.root.leaves()]
    for number in range(chance.randint(1, 6)):
        groups = tuple(f"g{n}" for n in range(2) if chance.random() < 0.4)
        submitted = float(chance.randint(0, 3))
        tree.submit(Application(f"a{number}", chance.choice(leaves), submitted, f"u{number % 2}", groups))
    for bundle in range(chance.randint(1, 8)):
        application = chance.choice(list(tree.applications))
        request = amounts({"cpus": chance.randint(1, 2), "mem": chance.choice((0, 1, 1, 3))})
        created, priority = float(chance.randint(0, 5)), chance.choice((0, 0, 0, 1, 2))
        needed = chance.choice(("", "", "", "n0"))
        tree.ask_all(
            Ask(application, f"t{bundle}-{n}", request, created, priority, required_node=needed)
            for n in range(chance.randint(1, 12))
        )
    if chance.random() < 0.3:
        application = chance.choice(list(tree.applications))
        for name in list(tree.applications[application].asks)[:1]:
            tree.promise(application, name, "n0")
    return tree


def frame(tree: Tree) -> Frame:
    """All figures and keys of a tree that decisions depend on."""

    def classes(queue: Queue) -> Any:
        # Classes are made in no particular order, which no decision depends on.
        return sorted(
            repr((alternative, one.key, one.waits is None, [(group.key, len(group.asks)) for group in one.members]))
            for alternative, one in queue.classes.items()
        )

    queues = {
        queue.name: (
            queue.key, queue.shown, queue.allocated, queue.pending, queue.promised, queue.running, queue.places,
            queue.requests, len(queue.waiting), [child.name for child in queue.ready_children], classes(queue),
            [one.alternative for one in queue.ready_started], [one.alternative for one in queue.ready_new],
        )
        for queue in tree.queues.values()
    }  # fmt: skip
    applications = {
        name: (one.key, one.allocated, sorted(one.allocations), sorted(one.asks), one.counts_as_started)
        for name, one in tree.applications.items()
    }
    nodes = [(node.name, node.free, node.key, node.promised, node.running) for node in tree.nodes]
    trackers = {key: (one.allocated, one.running) for key, one in tree.trackers.known.items()}
    running = [(*entry[:4], [one.order for one in entry[4]]) for entry in nodes]
    # Texts, because the figures change with the next step.
    return (repr(queues), repr(applications), repr(running), repr(trackers), tree.tries)


def stepwise(seed: int, counts: Counter[str]) -> None:
    """Compares a tree step by step with one of which every allocation renews everything."""
    fast, whole = cluster(seed), cluster(seed)
    may_repeat: Callable[..., bool] = steps._may_repeat
    while True:
        found = fast.cycle()
        steps._may_repeat = lambda request_class, group: False
        try:
            expected = whole.cycle()
        finally:
            steps._may_repeat = may_repeat
        assert found == expected
        assert frame(fast) == frame(whole)
        if found is None:
            return
        counts["allocations"] += 1


@given(st.integers(0, 2**32))
@settings(max_examples=share(150), deadline=None)
def test_repeated_allocations_leave_the_tree_as_single_steps_do(seed: int) -> None:
    stepwise(seed, Counter())


def test_the_clusters_have_repeated_allocations(monkeypatch: pytest.MonkeyPatch) -> None:
    counts: Counter[str] = Counter()
    repeated = steps._repeated

    def counted(*arguments: Any) -> Any:
        counts["repeated"] += 1
        return repeated(*arguments)

    monkeypatch.setattr(steps, "_repeated", counted)
    for seed in range(40):
        stepwise(seed, counts)
    assert counts["repeated"] > counts["allocations"] / 2 > 50


def test_an_application_that_keeps_a_wrong_place_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(steps, "_keeps_place", lambda application, one: True)
    with pytest.raises(AssertionError):
        for seed in range(200):
            stepwise(seed, Counter())


def figures(tree: Tree) -> Frame:
    """The figures that allocations determine."""
    queues = {
        queue.name: (
            queue.key, queue.shown, queue.allocated, queue.pending, queue.running, queue.places, queue.requests,
            queue.lowest.greatest(),
        )
        for queue in tree.queues.values()
    }  # fmt: skip
    applications = {name: (one.key, one.allocated, one.allocations) for name, one in tree.applications.items()}
    nodes = [(node.name, node.free, node.key, [one[:2] for one in node.running]) for node in tree.nodes]
    return queues, applications, nodes, {key: (one.allocated, one.running) for key, one in tree.trackers.known.items()}


@given(st.integers(0, 2**32))
@settings(max_examples=share(150), deadline=None)
def test_an_allocation_that_is_renamed_is_as_one_that_was_released_and_recovered(seed: int) -> None:
    """Names change places, too: the tasks of planned placements are numbered anew when they are launched."""
    chance = random.Random(seed)
    renamed, anew = cluster(seed), cluster(seed)
    list(renamed.run()), list(anew.run())
    for name, application in sorted(renamed.applications.items()):
        chosen = sorted(one for one in application.allocations if chance.random() < 0.7)
        names = [*chosen[1:], *chosen[:1]] if chance.random() < 0.5 else [f"after-{one}" for one in chosen]
        priority = chance.choice((None, 3))
        pairs = []
        for before, after in zip(chosen, names, strict=True):
            held = application.allocations[before]
            urgency = held.ask.priority if priority is None else priority
            ask = held.ask._replace(name=after, created=9.0, constraint=None, priority=urgency)
            pairs.append((before, held._replace(ask=ask)))
        steps.rename(renamed, name, pairs)
        for before, _ in pairs:
            anew.release(name, before)
        for _, allocation in pairs:
            anew.recover(allocation)
    assert list(renamed.run()) == list(anew.run())
    assert figures(renamed) == figures(anew)


@given(st.integers(0, 2**32))
@settings(max_examples=share(150), deadline=None)
def test_allocations_are_recovered_at_once_as_one_by_one(seed: int) -> None:
    """With one renewal of each node at the end, and with releases and promises in between."""
    chance = random.Random(seed)
    at_once, single = cluster(seed), cluster(seed)
    found = [one for one in cluster(seed).run() if chance.random() < 0.8]
    ended = [one for one in found if chance.random() < 0.2]
    by_application = groupby(sorted(found, key=lambda one: one.ask.application), lambda one: one.ask.application)
    parts = {name: list(part) for name, part in by_application}
    for tree in (at_once, single):
        for one in found:
            tree.withdraw(one.ask.application, one.ask.name)
    with at_once.nodes.settling():
        for name, part in parts.items():
            steps.recover_all(at_once, name, part)
        for one in ended:
            at_once.release(one.ask.application, one.ask.name)
    for part in parts.values():
        for one in part:
            single.recover(one)
    for one in ended:
        single.release(one.ask.application, one.ask.name)
    assert figures(at_once) == figures(single)
    assert list(at_once.run()) == list(single.run())
    assert figures(at_once) == figures(single)


def test_nothing_is_recovered_if_a_node_is_not_known() -> None:
    tree = Tree(partition_of({"queues": [{"name": "q"}]}, quantity=int), [("n0", {"cpus": 4})])
    tree.submit(Application("a", "root.q", 0.0))
    before = frame(tree)
    asks = [Ask("a", name, amounts({"cpus": 1}), 0.0) for name in ("x", "y")]
    with pytest.raises(KeyError):
        steps.recover_all(tree, "a", [Allocation(asks[0], "n0"), Allocation(asks[1], "n1")])
    assert frame(tree) == before


def test_an_allocation_is_not_renamed_to_another_node_or_while_it_leaves() -> None:
    tree = Tree(partition_of({"queues": [{"name": "q"}]}, quantity=int), [("n0", {"cpus": 4}), ("n1", {"cpus": 4})])
    tree.submit(Application("a", "root.q", 0.0))
    tree.ask_all(Ask("a", name, amounts({"cpus": 1}), 0.0) for name in ("x", "y"))
    held = {one.ask.name: one for one in tree.run()}
    elsewhere = held["y"]._replace(node="n1" if held["y"].node == "n0" else "n0")
    before = frame(tree)
    with pytest.raises(ValueError, match="a/y cannot continue as a/y"):
        steps.rename(tree, "a", [("x", held["x"]), ("y", elsewhere)])
    assert frame(tree) == before
    tree.leave(held["x"])
    with pytest.raises(ValueError, match="a/x cannot continue as a/z"):
        steps.rename(tree, "a", [("x", held["x"]._replace(ask=held["x"].ask._replace(name="z")))])
