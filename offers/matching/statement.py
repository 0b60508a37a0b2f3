"""Tentative placements: demands are placed one after the other, and the latest can be undone exactly.

    statement = Statement(pool, census)
    before = statement.savepoint()
    placed = statement.place(demand)
    if not good_enough(placed):
        statement.undo(before)      # the pool and all counts are as they were at the savepoint
    statement.commit()              # the placements stay deducted

Savepoints are nested: undoing to one forgets those made after it. Units can be counted as gone (`set_aside`), so that a
plan sees the room that they would leave; that is undone in the same order. While a statement is open, nothing else may
change the pool. An error undoes the demand in which it happens, and leaves the statement as it was before that.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any, NamedTuple, Self

from offers.errors import StaleSavepoint, StillSetAside
from offers.ledger.pool import AnyPool
from offers.ledger.table import Row
from offers.matching.counts import PassCounts, Tally
from offers.matching.explain import Explainer
from offers.matching.feasibility import kind_of
from offers.matching.greedy import Greedy
from offers.matching.ranking import Scoring
from offers.model import Census, Demand, Diagnosis, MatchResult, Occupant, Placement, SlotT


class Savepoint:
    """A moment of a statement. Made by `Statement.savepoint`."""

    __slots__ = ("depth",)

    def __init__(self, depth: int) -> None:
        self.depth = depth


class _Placed(NamedTuple):
    demand: Demand[Any]
    tally: Tally
    first: int
    """Position of its first placement among all of the statement."""


class _SetAside(NamedTuple):
    occupants: Sequence[Occupant]
    put_back: Callable[[], None]


class Statement:
    """Tentative placements with savepoints. As a context manager, the statement undoes at its end everything that was
    not committed."""

    def __init__(self, pool: AnyPool, census: Census, scoring: Scoring = "spread", *, tentative: bool = True) -> None:
        """`tentative`: undoing is expected. Each row is noted before a placement; that makes placing a little slower,
        and undoing much faster."""
        self._pool = pool
        self._tentative = tentative
        self._counts = PassCounts(census)
        self._greedy = Greedy(pool, self._counts, scoring, tentative=tentative)
        self._done: list[_Placed | _SetAside] = []
        self._savepoints: list[Savepoint] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.undo()

    # --- doing ------------------------------------------------------------------------------------------------

    def place(self, demand: Demand[SlotT]) -> list[Placement[SlotT]]:
        """Places as many slots of the demand as possible, in their order. Empty, and undone, if fewer find a place than
        the gang must have."""
        placements: list[Placement[SlotT]] = []
        if self._place(demand, placements) < demand.min_members:
            self._give_up(placements)
        return placements

    def place_on(self, demand: Demand[SlotT], rows: Sequence[Row]) -> list[Placement[SlotT]]:
        """Places the next slot of the demand on each of these rows of the pool in turn, if the row can take the slot; a
        row may be named several times. The minimum of a gang is left to the caller."""
        placements: list[Placement[SlotT]] = []
        self._step(demand, lambda tally: self._greedy.place_on(demand, rows, tally, placements))
        return placements

    def plan(self, demands: Sequence[Demand[SlotT]]) -> MatchResult[SlotT]:
        """Places the demands, first come first served. Those that are not fully placed are diagnosed as things stand
        when all have been placed; a gang that does not reach its minimum is diagnosed as things stand when it is given
        up. After an error everything is as it was before the call."""
        start = len(self._done)
        try:
            return self._plan(demands)
        except BaseException:
            self._undo_to(start)
            raise

    def explainer(self) -> Explainer:
        """Judges agents as things stand now. It must not be asked while more is placed or set aside."""
        return Explainer(self._pool, self._counts)

    def set_aside(self, occupants: Sequence[Occupant]) -> None:
        """Continues as if these units were gone: their resources are free, and no constraint counts them. A unit that
        is set aside already stays so."""
        aside = {occupant.unit for step in self._done if isinstance(step, _SetAside) for occupant in step.occupants}
        more = list({occupant.unit: occupant for occupant in occupants if occupant.unit not in aside}.values())
        put_back = self._pool.set_aside(more)
        self._counts.set_aside(more)
        self._done.append(_SetAside(more, put_back))
        self._greedy.changed()

    # --- undoing ----------------------------------------------------------------------------------------------

    def savepoint(self) -> Savepoint:
        """Returns a savepoint of the present state for `undo`. The savepoint is known until `keep`, or until an earlier
        change is undone."""
        point = Savepoint(len(self._done))
        self._savepoints.append(point)
        return point

    def undo(self, to: Savepoint | None = None) -> None:
        """Undoes all changes since the savepoint, the latest first; None: all changes. The savepoint stays known.
        Raises StaleSavepoint, and undoes nothing, if the savepoint is not known (any more)."""
        if to is not None:
            del self._savepoints[self._position(to) + 1 :]
            self._undo_to(to.depth)
        else:
            self._savepoints.clear()
            self._undo_to(0)

    def keep(self, since: Savepoint) -> None:
        """Forgets the savepoint and later ones; changes since then can only be undone together with earlier ones.
        Raises StaleSavepoint."""
        del self._savepoints[self._position(since) :]

    def commit(self) -> None:
        """Makes the placements permanent. Raises StillSetAside, and changes nothing, while units are set aside:
        placements may use room that these units still hold."""
        if any(isinstance(step, _SetAside) for step in self._done):
            raise StillSetAside
        self._done.clear()
        self._savepoints.clear()

    # --- inside -----------------------------------------------------------------------------------------------

    def _plan(self, demands: Sequence[Demand[SlotT]]) -> MatchResult[SlotT]:
        placements: list[Placement[SlotT]] = []
        short: list[tuple[Demand[SlotT], int, Diagnosis | None]] = []
        gangs: dict[Hashable, Diagnosis] = {}
        """Gangs that were given up. An equal one needs no second look as long as nothing more has been placed."""
        for demand in demands:
            before = len(placements)
            gang = (kind_of(demand), demand.per_agent, demand.min_members, before) if demand.min_members else None
            if gang in gangs:
                short.append((demand, 0, gangs[gang]._replace(demand=demand.id, slots=len(demand.slots))))
                continue
            placed = self._place(demand, placements)
            if placed < demand.min_members:
                gangs[gang] = self._judged(demand, placements[before:])
                short.append((demand, 0, gangs[gang]))
                self._give_up(placements)
            elif placed < len(demand.slots):
                short.append((_without_used(demand, placements[before:]), placed, None))
        explainer = self.explainer()
        return MatchResult(
            placements, [diagnosis or explainer.diagnose(rest, placed) for rest, placed, diagnosis in short]
        )

    def _place(self, demand: Demand[SlotT], placements: list[Placement[SlotT]]) -> int:
        return self._step(demand, lambda tally: self._greedy.place(demand, tally, placements))

    def _step(self, demand: Demand[Any], place: Callable[[Tally], int]) -> int:
        tally = self._counts.tally(demand.application)
        self._done.append(_Placed(demand, tally, len(self._greedy.taken)))
        try:
            return place(tally)
        except BaseException:
            self._undo_to(len(self._done) - 1)
            raise

    def _give_up(self, placements: list[Placement[SlotT]]) -> None:
        """Undoes the demand that was placed last; its placements are the last ones."""
        taken = len(self._greedy.taken)
        self._undo_to(len(self._done) - 1)
        del placements[len(placements) - taken + len(self._greedy.taken) :]

    def _judged(self, demand: Demand[SlotT], members: Sequence[Placement[SlotT]]) -> Diagnosis:
        diagnosis = self.explainer().diagnose(_without_used(demand, members), 0)
        return diagnosis._replace(min_members=demand.min_members, reached=len(members))

    def _position(self, point: Savepoint) -> int:
        for position in range(len(self._savepoints) - 1, -1, -1):
            if self._savepoints[position] is point:
                return position
        raise StaleSavepoint

    def _undo_to(self, depth: int) -> None:
        rows: dict[int, Row] = {}
        applications: set[str] = set()
        changed = not self._tentative
        while len(self._done) > depth:
            step = self._done.pop()
            if isinstance(step, _SetAside):
                step.put_back()
                self._counts.put_back(step.occupants)
                changed = True
            else:
                self._take_back(step, rows)
                applications.add(step.demand.application)
        if changed:
            self._greedy.changed()
        else:
            self._greedy.moved(rows.values(), applications)

    def _take_back(self, step: _Placed, rows: dict[int, Row]) -> None:
        """Undoes one demand and notes its rows."""
        table, taken, before = self._pool.table, self._greedy.taken, self._greedy.before
        recorded = bool(step.demand.request.extended or step.demand.labels)
        while len(taken) > step.first:
            row = taken.pop()
            row.unclaim()
            if self._tentative:
                row.load(before.pop())
                table.placed_on(row.number)
                rows[row.number] = row
            else:
                table.amounts_changed(row)
            step.tally.take_back()
            if recorded:
                self._counts.take_back(step.demand, row)


def _without_used(demand: Demand[SlotT], placed: Sequence[Placement[SlotT]]) -> Demand[SlotT]:
    """Returns the demand with the agents that it may still use: a demand with one slot per agent excludes those of its
    new placements."""
    if not demand.per_agent or not placed:
        return demand
    return demand._replace(except_agents=demand.except_agents | {placement.agent_id for placement in placed})


def match(
    demands: Sequence[Demand[SlotT]],
    pool: AnyPool,
    census: Census,
    scoring: Scoring = "spread",
    *,
    dry_run: bool = False,
) -> MatchResult[SlotT]:
    """Places as much of the demands as possible, first come, first served.

    The placements are deducted from the pool: the caller takes the offers of every used agent, or renames the claims on
    standing capacity to their units. With `dry_run`, and after an error, the pool is as it was before. Demands that are
    not fully placed are diagnosed (`Statement.plan`).
    """
    tentative = dry_run or any(demand.min_members for demand in demands)
    with Statement(pool, census, scoring, tentative=tentative) as statement:
        result = statement.plan(demands)
        if not dry_run:
            statement.commit()
    return result
