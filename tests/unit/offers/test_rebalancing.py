"""The planner of rebalancing: never worse than before, within its limits, and it ends."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from offers.rebalancing import Goal, Load, Move, Unit, gain, measure, moves

GOALS: tuple[Goal, ...] = ("pack", "spread")


@st.composite
def clusters(draw: st.DrawFn) -> list[Load]:
    loads: list[Load] = []
    for number in range(draw(st.integers(1, 8))):
        total = (draw(st.integers(1, 16)) * 1000, draw(st.integers(1, 16)) * 1000)
        load = Load(f"a{number}", total, (0, 0))
        for index in range(draw(st.integers(0, 6))):
            amounts = (draw(st.integers(0, 3000)), draw(st.integers(0, 3000)))
            if load.takes(amounts):
                load.add(amounts)
                unit = Unit(f"{number}.{index}", draw(st.integers(0, 3)), amounts)
                load.units[unit.name] = unit
        loads.append(load)
    return loads


def planned(loads: list[Load], goal: Goal, least: float, budget: dict[object, int]) -> list[Move]:
    spent: Counter[object] = Counter()

    def admits(unit: Unit, target: str) -> bool:
        if spent[unit.kind] >= budget.get(unit.kind, 0):
            return False
        spent[unit.kind] += 1
        return True

    found = [move for move in moves(loads, goal, least, admits) if move is not None]
    assert spent == Counter(move.unit.kind for move in found)
    return found


@given(
    loads=clusters(),
    goal=st.sampled_from(GOALS),
    least=st.floats(0.001, 0.5),
    budget=st.dictionaries(st.integers(0, 3), st.integers(0, 5)),
)
def test_moves_only_improve_within_budget_and_room_and_end(
    loads: list[Load], goal: Goal, least: float, budget: dict[object, int]
) -> None:
    before, units = measure(loads), sorted(name for load in loads for name in load.units)
    names = {load.name: load for load in loads}
    found = planned(loads, goal, least, budget)
    after = measure(loads)
    improvement = after - before if goal == "pack" else before - after
    assert improvement == pytest.approx(sum(move.gain for move in found))
    assert all(move.gain >= least for move in found)
    assert all(number <= budget.get(kind, 0) for kind, number in Counter(m.unit.kind for m in found).items())
    assert max(Counter(move.unit.name for move in found).values(), default=0) <= 1
    assert all(used <= total for load in loads for used, total in zip(load.used, load.total, strict=True))
    gone = {move.unit.name for move in found}
    assert sorted({*gone, *(name for load in loads for name in load.units)}) == units
    assert all(move.source != move.target and {move.source, move.target} <= set(names) for move in found)


@given(loads=clusters(), goal=st.sampled_from(GOALS))
def test_where_nothing_is_admitted_nothing_moves_and_the_search_ends(loads: list[Load], goal: Goal) -> None:
    before = measure(loads)
    assert [move for move in moves(loads, goal, 0.001, lambda *_: False) if move is not None] == []
    assert measure(loads) == before


def even(*numbers: int) -> list[Load]:
    """Agents of ten units of room with so many units."""
    loads = []
    for agent, number in enumerate(numbers):
        load = Load(f"a{agent}", (10_000, 10_000), (number * 1000, number * 1000))
        load.units = {f"{agent}.{k}": Unit(f"{agent}.{k}", "web", (1000, 1000)) for k in range(number)}
        loads.append(load)
    return loads


def test_spread_makes_equal_agents_even() -> None:
    loads = even(9, 0, 3)
    planned(loads, "spread", 0.001, {"web": 100})
    assert [load.used[0] for load in loads] == [4000, 4000, 4000]


def test_pack_empties_agents() -> None:
    loads = even(2, 7, 1)
    planned(loads, "pack", 0.001, {"web": 100})
    assert sorted(load.used[0] for load in loads) == [0, 0, 10_000]


def test_a_move_below_the_bound_does_not_happen() -> None:
    loads = even(5, 3)
    value = gain("spread", loads[0].units["0.0"], loads[0], loads[1])
    assert value == pytest.approx(0.5**2 + 0.3**2 - 2 * 0.4**2)
    assert not planned(even(5, 3), "spread", value * 1.01, {"web": 9})
    assert len(planned(even(5, 3), "spread", value * 0.99, {"web": 9})) == 1


def test_full_agents_are_passed_over() -> None:
    loads = even(1, 10, 10, 10, 10, 10, 5)
    (move,) = planned(loads, "pack", 0.001, {"web": 1})
    assert (move.source, move.target) == ("a0", "a6")
