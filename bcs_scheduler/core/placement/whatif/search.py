"""The search for the smallest sets of changes that make a placement succeed.

A change is a lever with strengths from 0 (nothing changes) to `most`. Sets of one lever are tried at full strength
first, then sets of two. A set that contains a successful smaller set is not tried. The strengths of a successful set
are then lowered, each by bisection: with one step less of the last lowered lever, the placement fails.

Placements are tried on a copy of the offers, which stays as it is (`try_on`).
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any, Generic, NamedTuple, TypeVar

from bcs_scheduler.core.context import TurnContext
from bcs_scheduler.core.placement.placer import SLICE, Trial
from offers.ledger.offered import OfferPool
from offers.model import Demand, Occupant, Placement
from transactions.base import Slot

LARGEST = 2
"""Greatest number of levers in a set."""
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Lever:
    """One change that can be made more or less."""

    kind: str
    """Code of the change. Levers of the same kind and no `part` exclude each other."""
    most: int
    """Full strength, 1 at least."""
    rank: int
    """Cost beside other kinds of changes: lower ranks are shown first."""
    part: str = ""
    """The thing that changes: name of the resource, title of the constraint; empty if there is only one."""
    facts: Any = None
    """Data of the maker of the lever."""


Strengths = Mapping[int, int]
"""Strength by the number of the lever; levers that are missing have the strength 0."""
Try = Callable[[Strengths], Generator[None, None, T | None]]
"""Tries a placement in steps; None: the placement fails."""


@dataclass(frozen=True, slots=True)
class Solution(Generic[T]):
    """A set of changes that suffices, and the result of the placement."""

    strengths: dict[int, int]
    result: T


class Budget:
    """Bounds of a search: Unix seconds at which the search ends, and the number of trials."""

    def __init__(self, now: Callable[[], float], until: float, trials: int) -> None:
        self._now = now
        self._until = until
        self._trials = trials

    def spend(self) -> bool:
        """Counts one trial. False: the search must end."""
        self._trials -= 1
        return self._trials >= 0 and self._now() < self._until


class _Ended(Exception):
    """The budget is used up."""


def search(
    levers: Sequence[Lever], attempt: Try[T], budget: Budget
) -> Generator[None, None, tuple[list[Solution[T]], bool]]:
    """Returns the solutions, the cheapest first, and True if all sets were tried. A set whose strengths were not
    lowered to the end when the budget was used up is left out. Each step makes a part of one trial."""
    solutions: list[Solution[T]] = []

    def try_once(strengths: Strengths) -> Generator[None, None, T | None]:
        if not budget.spend():
            raise _Ended
        return (yield from attempt(strengths))

    complete = True
    try:
        for size in range(1, LARGEST + 1):
            for numbers in combinations(range(len(levers)), size):
                if _excluded(levers, numbers) or any(
                    solution.strengths.keys() <= set(numbers) for solution in solutions
                ):
                    continue
                strengths = {number: levers[number].most for number in numbers}
                result = yield from try_once(strengths)
                if result is not None:
                    solutions.append((yield from _lowered(strengths, result, try_once)))
    except _Ended:
        complete = False
    solutions.sort(key=lambda solution: _cost(levers, solution))
    return solutions, complete


def _lowered(strengths: dict[int, int], result: T, attempt: Try[T]) -> Generator[None, None, Solution[T]]:
    for number in strengths:
        fails, works = 0, strengths[number]
        while works - fails > 1:
            middle = (fails + works) // 2
            other = yield from attempt({**strengths, number: middle})
            if other is None:
                fails = middle
            else:
                works, result = middle, other
        strengths[number] = works
    return Solution(strengths, result)


def _excluded(levers: Sequence[Lever], numbers: Sequence[int]) -> bool:
    """True if two levers of the set are alternatives to each other."""
    alone = [levers[number].kind for number in numbers if not levers[number].part]
    return len(set(alone)) < len(alone)


def _cost(levers: Sequence[Lever], solution: Solution[T]) -> tuple[int, int, float]:
    chosen = [(levers[number], strength) for number, strength in solution.strengths.items()]
    relative = sum(strength / lever.most for lever, strength in chosen)
    return len(chosen), sum(lever.rank for lever, _ in chosen), relative


class Places(NamedTuple):
    """The places of a trial."""

    own: list[Placement[Slot]]
    moved: list[Placement[Slot]]
    """Places of taskgroups that drains move; `Slot.replaces` is the taskgroup."""


def try_on(
    turn: TurnContext,
    pool: OfferPool,
    demand: Demand[Slot],
    gone: Sequence[Occupant] = (),
    moved: Sequence[Demand[Slot]] = (),
    ahead: Sequence[Demand[Slot]] = (),
) -> Generator[None, None, Places | None]:
    """The places of all slots on the copy, which stays as it is; None if a slot finds no place. One slice per step.
    `gone`: taskgroups that have left. `moved`: demands that must find places first. `ahead`: demands that take room
    first if they find any."""
    places = Places([], [])
    with turn.placer.trial_on(pool) as trial:
        if gone:
            trial.set_aside(gone)
        for other in moved:
            if not (yield from _place_all(trial, other, places.moved)):
                return None
        for other in ahead:
            trial.place(other)
            yield
        if not (yield from _place_all(trial, demand, places.own)):
            return None
    return places


def _place_all(trial: Trial, demand: Demand[Slot], places: list[Placement[Slot]]) -> Generator[None, None, bool]:
    """Adds the places of all slots to `places`. False: a slot finds no place."""
    for start in range(0, len(demand.slots), SLICE):
        part = demand._replace(slots=demand.slots[start : start + SLICE], min_members=0)
        placements = trial.place(part)
        places += placements
        yield
        if len(placements) < len(part.slots):
            return False
    return True
