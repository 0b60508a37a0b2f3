"""The tree of queues: the specified vectors, limits on every path, independence of the order of the input."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from offers.policy.amounts import added
from offers.policy.hierarchy.changes import remade
from offers.policy.hierarchy.configuration.document import partition_of
from offers.policy.hierarchy.state.application import Application
from offers.policy.hierarchy.state.model import Ask
from offers.policy.hierarchy.state.queue import QueueState
from offers.policy.hierarchy.tree import Tree
from tests.vectors.reading import read
from tests.vectors.running import judge

SPECIFIED = Path(__file__).parents[4] / "vectors" / "policy_vectors.json"
LEAVES = ("root.p.a", "root.p.b", "root.c")
ASKS = st.lists(
    st.tuples(st.integers(0, 2), st.integers(0, 3), st.integers(1, 4), st.integers(0, 2), st.integers(0, 3)),
    max_size=30,
)


def tree(asks: list[tuple[int, int, int, int, int]], order: random.Random | None = None) -> Tree:
    """Each ask: leaf, application, amount, priority, moment. `order` shuffles the input."""
    partition = partition_of(
        {
            "queues": [
                {
                    "name": "p",
                    "resources": {"max": {"cpus": 9}},
                    "queues": [
                        {"name": "a", "maxapplications": 1, "resources": {"max": {"cpus": 5}}},
                        {"name": "b", "resources": {"guaranteed": {"cpus": 3}}},
                    ],
                },
                {"name": "c", "properties": {"application.sort.policy": "fair"}},
            ]
        },
        quantity=int,
    )
    found = Tree(partition, [("n1", {"cpus": 8}), ("n2", {"cpus": 6})])
    names = sorted({(leaf, application) for leaf, application, *_ in asks})
    numbered = list(enumerate(asks))
    if order is not None:
        order.shuffle(names)
        order.shuffle(numbered)
    for leaf, application in names:
        found.submit(Application(f"{leaf}-{application}", LEAVES[leaf], application))
    for number, (leaf, application, amount, priority, created) in numbered:
        found.ask(Ask(f"{leaf}-{application}", f"t{number}", (("cpus", amount),), created, priority))
    return found


@pytest.mark.parametrize(
    ("states", "placed"),
    [
        ([], "moved"),
        ([QueueState.STOPPED], "0-0"),
        ([QueueState.STOPPED, QueueState.ACTIVE], "moved"),
    ],
    ids=["active", "stopped", "started"],
)
def test_an_ask_that_has_left_another_node_keeps_its_part_of_all_maxima(states: list[QueueState], placed: str) -> None:
    """It comes before an older and more important ask of another leaf."""
    found = tree([(0, 0, 5, 9, 0)])
    found.submit(Application("moved", "root.p.b", 5.0))
    found.ask(Ask("moved", "t", (("cpus", 5),), 9.0, moves=True))
    for state in states:
        found.set_state("root.p.b", state)
    assert [allocation.ask.application for allocation in found.run()] == [placed]


def test_an_ask_that_has_left_another_node_leaves_the_promises_of_others_their_part_of_the_maxima() -> None:
    """Their victims would end in vain. It is tried again when the promise ends."""
    partition = partition_of({"queues": [{"name": "a", "resources": {"max": {"cpus": 6}}}]}, quantity=int)
    found = Tree(partition, [("n1", {"cpus": 6}), ("n2", {"cpus": 6})])
    for name, amount, node, moves in (("low", 2, "n1", False), ("high", 6, "", False), ("moved", 3, "n2", True)):
        found.submit(Application(name, "root.a", 0.0))
        found.ask(Ask(name, "t", (("cpus", amount),), required_node=node, moves=moves))
        if name == "low":
            (victim,) = found.run()
    found.leave(victim)
    found.promise("high", "t", "n1")
    assert list(found.run()) == []
    found.forget_promise("high", "t")
    assert [allocation.ask.application for allocation in found.run()] == ["moved"]


def test_an_allocation_that_leaves_for_another_node_keeps_its_part_of_all_maxima() -> None:
    """Otherwise others are ended for work that the maximum does not admit in the end."""
    found = tree([(0, 0, 3, 0, 0)])
    (allocation,) = found.run()
    for moves, kept in ((True, 3), (False, 0), (True, 3)):
        found.leave(allocation, moves=moves)
        for state in (found, remade(found)):
            assert [queue.expected("cpus") for queue in state.queues["root.p.a"].path] == [kept] * 3
            assert state.nodes.by_name[allocation.node].leaving == {"cpus": 3}
        found.stay(allocation)
        assert found.queues["root.p.a"].expected("cpus") == 3 and not found.moving
    found.leave(allocation, moves=True)
    found.release("0-0", "t0")
    assert found.queues["root.p.a"].expected("cpus") == 0 and not found.moving


def check(state: Tree) -> None:
    for queue in state.queues.values():
        assert all(queue.allocated.get(name, 0) <= most for name, most in queue.max.items())
        parts = [child.allocated for child in queue.children.values()]
        parts += [application.allocated for application in queue.applications.values()]
        assert {name: amount for name, amount in queue.allocated.items() if amount} == {
            name: amount for name, amount in added(*parts).items() if amount
        }
        if queue.config.max_applications is not None:
            assert queue.running <= queue.config.max_applications
    assert all(amount >= 0 for node in state.nodes.by_name.values() for amount in node.free.values())


def test_the_specified_orders_of_allocations() -> None:
    vectors = [vector for vector in read(SPECIFIED) if vector.id in ("D20", "D21", "D22")]
    assert len(vectors) == 3
    assert [verdict.line for verdict in judge(vectors) if verdict.differences] == []


@settings(max_examples=60, deadline=None)
@given(ASKS)
def test_no_maximum_on_any_path_is_exceeded(asks: list[tuple[int, int, int, int, int]]) -> None:
    state = tree(asks)
    for _ in state.run():
        check(state)


@settings(max_examples=60, deadline=None)
@given(ASKS, st.integers(0, 1000))
def test_decisions_do_not_depend_on_the_order_of_the_input(
    asks: list[tuple[int, int, int, int, int]], seed: int
) -> None:
    assert list(tree(asks).run()) == list(tree(asks, random.Random(seed)).run())


def test_what_is_put_aside_returns_when_room_is_given_back() -> None:
    state = tree([(0, 0, 5, 0, 0), (0, 1, 5, 0, 1)])
    assert [one.ask.id for one in state.run()] == ["0-0/t0"]
    state.release("0-0", "t0")
    check(state)
    assert [one.ask.id for one in state.run()] == ["0-1/t1"]


def test_states_of_queues() -> None:
    state = tree([(2, 0, 1, 0, 0)])
    state.set_state("root.c", QueueState.STOPPED)
    assert list(state.run()) == []
    state.set_state("root.c", QueueState.DRAINING)
    with pytest.raises(ValueError, match="takes no applications"):
        state.submit(Application("new", "root.c", 0))
    assert [one.ask.id for one in state.run()] == ["2-0/t0"]
