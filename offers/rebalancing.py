"""Chooses moves that make agents fewer in use (pack) or more even (spread).

The measure of a cluster is the sum over its agents of the mean square of their used shares, one share per dimension.
Pack raises the sum: this is the fitness of bin packing in Falkenauer and Delchambre, "A Genetic Algorithm for Bin
Packing and Line Balancing" (1992), with exponent 2, which rewards full bins beside empty ones. Spread lowers the sum,
which is least where all shares are equal. Each move improves the measure by a least gain, the measure is between 0 and
the number of agents, and a unit moves once in a plan, so a plan ends and is never worse than no move.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Hashable, Iterable, Iterator, Sequence
from typing import Literal, NamedTuple

Goal = Literal["pack", "spread"]

SOURCES = 8
"""Agents from which a step tries to move a unit."""
KINDS = 8
"""Kinds of units tried of one agent in a step."""
TARGETS = 4
"""Agents tried for one unit in a step, best first."""
REFUSALS = 24
"""Candidates that are refused before the search looks at other agents: with a policy, each answer costs a session."""
LOOKED_AT = 64
"""Agents examined for one unit in a step: full agents are passed over."""


class Unit(NamedTuple):
    """A unit that may move. Units of equal `kind` are interchangeable. `amounts`: thousandths by dimension."""

    name: str
    kind: Hashable
    amounts: tuple[int, ...]


class Load:
    """An agent: its total and used amounts in thousandths by dimension, and the units that may leave."""

    __slots__ = ("name", "total", "units", "used", "value")

    def __init__(self, name: str, total: Sequence[int], used: Sequence[int], units: Iterable[Unit] = ()) -> None:
        self.name = name
        self.total = tuple(total)
        self.used = list(used)
        self.units = {unit.name: unit for unit in units}
        self.value = self.measure()
        """The mean square of the used shares."""

    def add(self, amounts: Sequence[int], sign: int = 1) -> None:
        """Adds amounts to the used ones, or with `sign` -1 takes them away."""
        for dimension, amount in enumerate(amounts):
            self.used[dimension] += sign * amount
        self.value = self.measure()

    def takes(self, amounts: Sequence[int]) -> bool:
        """Returns True if the amounts fit beside the used ones."""
        return all(
            used + amount <= total for used, amount, total in zip(self.used, amounts, self.total, strict=True) if amount
        )

    def measure(self, amounts: Sequence[int] = (), sign: int = 1) -> float:
        """The mean square of the used shares, with these amounts added or (`sign` -1) taken away."""
        more = amounts or (0,) * len(self.total)
        shares = (
            (used + sign * amount) / total
            for used, amount, total in zip(self.used, more, self.total, strict=True)
            if total
        )
        return sum(share * share for share in shares) / len(self.total)


class Move(NamedTuple):
    """A unit, the agents that it leaves and enters, and the gain (difference of the measure, positive)."""

    unit: Unit
    source: str
    target: str
    gain: float


def measure(loads: Iterable[Load]) -> float:
    """The measure of a cluster, between 0 and the number of its agents (a sum of squared shares)."""
    return sum(load.value for load in loads)


def gain(goal: Goal, unit: Unit, source: Load, target: Load) -> float:
    """The gain of a move as a difference of the measure; negative if the move makes the cluster worse."""
    left, entered = source.measure(unit.amounts, -1), target.measure(unit.amounts)
    change = left + entered - source.value - target.value
    return change if goal == "pack" else -change


def moves(
    loads: Sequence[Load], goal: Goal, least: float, admits: Callable[[Unit, str], bool]
) -> Iterator[Move | None]:
    """Yields moves of at least the gain `least` (difference of the measure, above 0), until none is found. None is
    yielded after each refusal, and where a step finds no move, and the next one looks further. `loads` follow the
    moves. `admits` is asked for a unit and a target, and takes the room if it answers True."""
    exhausted: set[str] = set()
    """Agents that no unit could leave since the last move."""
    moved: set[str] = set()
    while True:
        order = sorted(loads, key=lambda load: (load.value, load.name), reverse=goal == "spread")
        sources = [load for load in order if load.name not in exhausted and load.units][:SOURCES]
        if not sources:
            return
        best = yield from _best(sources, order, goal, least, moved, admits)
        if best is None:
            exhausted.update(load.name for load in sources)
            yield None
            continue
        # Room has changed, so agents that were given up may have a move again.
        exhausted.clear()
        move, source, target = best
        del source.units[move.unit.name]
        source.add(move.unit.amounts, -1)
        target.add(move.unit.amounts)
        moved.add(move.unit.name)
        yield move


def _best(
    sources: Sequence[Load],
    order: Sequence[Load],
    goal: Goal,
    least: float,
    moved: set[str],
    admits: Callable[[Unit, str], bool],
) -> Generator[None, None, tuple[Move, Load, Load] | None]:
    """Returns the admitted move with the greatest gain among some; None if there is none. A step asks one question."""
    candidates: list[tuple[float, str, Move, Load, Load]] = []
    for source in sources:
        for unit in _kinds(source, moved):
            for target in _targets(order, source, unit):
                value = gain(goal, unit, source, target)
                if value >= least:
                    candidates.append((-value, unit.name, Move(unit, source.name, target.name, value), source, target))
    refused: set[tuple[Hashable, str]] = set()
    for _, _, move, source, target in sorted(candidates, key=lambda entry: entry[:2]):
        place = (move.unit.kind, move.target)
        if place in refused:
            continue
        if admits(move.unit, move.target):
            return move, source, target
        refused.add(place)
        if len(refused) >= REFUSALS:
            break
        yield
    return None


def _kinds(source: Load, moved: set[str]) -> list[Unit]:
    """One unit of each kind, of some kinds."""
    kinds: dict[Hashable, Unit] = {}
    for unit in source.units.values():
        if unit.name not in moved:
            kinds.setdefault((unit.kind, unit.amounts), unit)
            if len(kinds) >= KINDS:
                break
    return list(kinds.values())


def _targets(order: Sequence[Load], source: Load, unit: Unit) -> list[Load]:
    """Agents with room, best first: the order begins with the best sources, so the best targets are at its end."""
    targets: list[Load] = []
    for number in range(len(order) - 1, max(-1, len(order) - 1 - LOOKED_AT), -1):
        load = order[number]
        if load is not source and load.takes(unit.amounts):
            targets.append(load)
            if len(targets) >= TARGETS:
                break
    return targets
