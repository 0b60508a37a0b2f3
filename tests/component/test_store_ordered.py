"""store.state.ordered: keys in order while they come and go, also for readers in other threads; State.in_order over
them."""

from __future__ import annotations

import random
import threading

import pytest

from store.records import Application, TaskGroup
from store.state import State
from store.state.ordered import LARGEST, OrderedKeys


def filled(count: int, seed: int = 1) -> tuple[OrderedKeys, list[tuple[str, int]]]:
    orders = [("ns", number) for number in range(count)]
    shuffled = list(orders)
    random.Random(seed).shuffle(shuffled)
    keys = OrderedKeys()
    for order in shuffled:
        keys.add(order)
    return keys, orders


@pytest.mark.parametrize("count", [0, 1, LARGEST, LARGEST + 1, 20 * LARGEST + 7])
def test_keys_come_in_order_whatever_the_order_they_were_added_in(count: int) -> None:
    keys, orders = filled(count)
    assert list(keys.after()) == orders and len(keys) == count


@pytest.mark.parametrize("seed", range(5))
def test_any_mixture_of_additions_and_removals_leaves_what_a_set_would_hold(seed: int) -> None:
    draw, keys = random.Random(seed), OrderedKeys()
    model: set[tuple[str, int]] = set()
    for _ in range(12_000):
        order = ("ns", draw.randrange(4 * LARGEST))
        if order in model and draw.random() < (0.9 if len(model) > 2 * LARGEST else 0.4):
            keys.remove(order)
            model.remove(order)
        elif order not in model:
            keys.add(order)
            model.add(order)
    assert list(keys.after()) == sorted(model)
    for _ in range(200):
        after = ("ns", draw.randrange(-1, 4 * LARGEST + 1))
        assert list(keys.after(after)) == sorted(order for order in model if order > after)
    for order in draw.sample(sorted(model), len(model)):
        keys.remove(order)
    assert list(keys.after()) == [] and len(keys) == 0


def test_removing_what_is_not_there_changes_nothing() -> None:
    keys, orders = filled(3)
    for absent in (("ns", 7), ("aa", 0), ("zz", 0)):
        keys.remove(absent)
    OrderedKeys().remove(("ns", 1))
    assert list(keys.after()) == orders


def test_a_reader_sees_every_key_that_stays_exactly_once_while_others_come_and_go() -> None:
    keys, stop = OrderedKeys(), threading.Event()
    staying = [("ns", number) for number in range(0, 30_000, 3)]
    for order in staying:
        keys.add(order)

    def churn() -> None:
        draw = random.Random(3)
        while not stop.is_set():
            moving = [("ns", 3 * draw.randrange(10_000) + 1) for _ in range(3_000)]
            for order in set(moving):
                keys.add(order)
            for order in set(moving):
                keys.remove(order)

    thread = threading.Thread(target=churn)
    thread.start()
    try:
        for begin in range(0, 30_000, 1_000):
            seen = list(keys.after(("ns", begin)))
            assert [order for order in seen if order[1] % 3 == 0] == [order for order in staying if order[1] > begin]
            assert sorted(set(seen)) == seen
    finally:
        stop.set()
        thread.join()


class Counted(int):
    """A number that counts its comparisons."""

    seen = 0

    def __lt__(self, other: int) -> bool:
        Counted.seen += 1
        return int(self) < int(other)

    __hash__ = int.__hash__


def test_adding_and_removing_costs_with_the_logarithm_of_their_number() -> None:
    def comparisons(count: int) -> float:
        keys, _ = filled(count)
        draw = random.Random(2)
        new = [("ns", Counted(draw.randrange(count)), number) for number in range(500)]
        Counted.seen = 0
        for order in new:
            keys.add(order)
        for order in new:
            keys.remove(order)
        assert max(map(len, keys._blocks)) <= LARGEST, "what an addition or removal moves at most"
        return Counted.seen / len(new)

    assert comparisons(50_000) < 2 * comparisons(1_000)


def group(index: int, application: str = "web", namespace: str = "ns", updated_at: float = 0.0) -> TaskGroup:
    return TaskGroup(
        id=f"{index}.{application}.{namespace}.cluster.1",
        namespace=namespace,
        application=application,
        index=index,
        version="1",
        updated_at=updated_at,
    )


def test_taskgroups_are_in_order_of_their_index_within_namespace_and_application() -> None:
    groups = [group(10), group(9), group(1, "api"), group(0, "web", "a-b"), group(0, "web", "a")]
    state = State(groups)
    assert [g for _, g in state.in_order(TaskGroup)] == [groups[4], groups[3], groups[2], groups[1], groups[0]]
    assert [g for _, g in state.in_order(TaskGroup, ("ns", "web"))] == [groups[1], groups[0]]
    after = ("ns", "web", 9, groups[1].id)
    assert [g for _, g in state.in_order(TaskGroup, ("ns",), after)] == [groups[0]]
    assert list(state.in_order(TaskGroup, ("a",), after)) == []
    state.apply("taskgroup", groups[0].id, None)
    assert [g for _, g in state.in_order(TaskGroup, (), after)] == []


def test_namespaces_are_ordered_as_names_and_not_as_parts_of_keys() -> None:
    """`-` sorts before `/`, so sorting by the key would put a-b/x before a/x."""
    state = State([Application(namespace=namespace, name="x") for namespace in ("a-b", "a", "a.b")])
    assert [record.namespace for _, record in state.in_order(Application)] == ["a", "a-b", "a.b"]


def test_an_order_of_another_kind_is_refused() -> None:
    state = State([group(1)])
    with pytest.raises(TypeError):
        list(state.in_order(TaskGroup, (), ("ns", "web", "one", "x")))


def test_the_latest_change_of_an_applications_taskgroups_is_known_without_looking_at_them() -> None:
    state = State([group(0, updated_at=5.0), group(1, updated_at=7.0)])
    assert state.latest_of == {"ns/web": 7.0}
    state.apply("taskgroup", group(0).id, group(0, updated_at=9.0))
    assert state.latest_of == {"ns/web": 9.0}
    for index in (0, 1):
        state.apply("taskgroup", group(index).id, None)
    assert state.latest_of == {}
