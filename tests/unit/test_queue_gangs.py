"""The bound for gangs is never below the number of asks that cycles place. Gangs above the bound cost little."""

from __future__ import annotations

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from offers.policy.hierarchy import Application, Ask, Tree, most_that_fit, partition_of, withdraw_all
from tests.counting import lines
from tests.effort import share
from tests.unit.test_queue_steps import cluster, frame

ONE = (("cpus", 1), ("mem", 1))


@given(st.integers(0, 2**32))
@example(29)  # a node with a promise takes other work after the promised ask
@settings(max_examples=share(150), deadline=None)
def test_cycles_place_no_more_than_the_bound(seed: int) -> None:
    tree = cluster(seed)
    wanted = {name: len(one.asks) for name, one in tree.applications.items()}
    bounds = {name: most_that_fit(tree, tree.applications[name], number) for name, number in wanted.items()}
    placed = dict.fromkeys(wanted, 0)
    for allocation in tree.run():
        placed[allocation.ask.application] += 1
    assert all(placed[name] <= bounds[name] <= wanted[name] for name in wanted)


def single(maximum: int | None, nodes: int = 3) -> tuple[Tree, Application]:
    queue = {"name": "q"} if maximum is None else {"name": "q", "resources": {"max": {"cpus": maximum}}}
    tree = Tree(
        partition_of({"queues": [queue]}, quantity=int), [(f"n{n}", {"cpus": 4, "mem": 3}) for n in range(nodes)]
    )
    application = Application("a", "root.q", 0.0)
    tree.submit(application)
    return tree, application


@pytest.mark.parametrize(("maximum", "most"), [(None, 9), (5, 5), (0, 0)])
def test_the_bound_is_exact_for_equal_asks(maximum: int | None, most: int) -> None:
    tree, application = single(maximum)
    tree.ask_all(Ask("a", f"t{n}", ONE) for n in range(20))
    assert most_that_fit(tree, application, 20) == most
    assert most_that_fit(tree, application, 4) == min(most, 4)
    assert sum(1 for _ in tree.run()) == most


def test_asks_for_one_node_count_the_room_of_this_node() -> None:
    tree, application = single(None)
    tree.ask_all(Ask("a", f"t{n}", ONE, required_node="n1") for n in range(20))
    assert most_that_fit(tree, application, 20) == 3


@given(st.integers(0, 2**32))
@settings(max_examples=share(50), deadline=None)
def test_withdrawing_all_asks_is_the_same_as_one_after_the_other(seed: int) -> None:
    at_once, one_by_one = cluster(seed), cluster(seed)
    for name, application in at_once.applications.items():
        withdraw_all(at_once, name)
        assert not application.asks
        for ask in list(one_by_one.applications[name].asks):
            one_by_one.withdraw(name, ask)
    # The number of tries and the version may be different: they count steps.
    assert frame(at_once)[:4] == frame(one_by_one)[:4]


def test_the_cost_of_withdrawing_grows_with_the_number_of_asks() -> None:
    def cost(number: int) -> int:
        tree, _ = single(None)
        tree.ask_all(Ask("a", f"t{n}", ONE) for n in range(number))
        return lines(lambda: withdraw_all(tree, "a"))

    assert cost(2000) < 11 * cost(200)
