"""Places demands on offers, many at once, with the result of the sequential greedy algorithm.

The algorithm, and what every shortcut below must agree with: for each demand in order, for each of its slots in order,
of all agents that pass every test the best one is taken, and what it gives is deducted at once. Best is the emptiest
(spread) or the fullest (binpack) agent before the placement, by `offers.table.score`; of equal ones the first row.
Why this can be done in batches without changing the result: docs/decisions/0003-placement.md.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from offers.explain import Explainer
from offers.ledger import Ledger
from offers.model import Census, Claim, Demand, MatchResult, Need, Placement, Pot, Ranges
from offers.order import Order, Scoring
from offers.pool import OfferPool
from offers.resources import SCALARS, amounts_of, draw_ports, draw_scalar, numbers, split_lowest, subtract, without
from offers.search import Search
from offers.table import Row
from offers.walk import Lanes, LaneWalk, Walk

__all__ = ["Scoring", "match"]

Scalars = tuple[tuple[Pot, int], ...]


def match(
    demands: Sequence[Demand],
    pool: OfferPool,
    census: Census,
    scoring: Scoring = "spread",
    *,
    dry_run: bool = False,
) -> MatchResult:
    """Places as much of the demands as possible, first come first served.

    What is placed is deducted from the pool; the caller takes the offers of every agent that was used. With `dry_run`
    the pool is left as it was. Demands that are not fully placed are diagnosed as things stand at the end.
    """
    one_pass = _Pass(pool, census, scoring)
    placements: list[Placement] = []
    unplaced: list[tuple[Demand, int]] = []
    for demand in demands:
        placed = one_pass.place(demand, placements)
        if placed < len(demand.slots):
            unplaced.append((demand, placed))
    explainer = Explainer(pool, one_pass.ledger)
    result = MatchResult(placements, [explainer.diagnose(demand, placed) for demand, placed in unplaced])
    if dry_run:
        one_pass.undo()
    return result


class _Pass:
    """The state of one run over all demands."""

    def __init__(self, pool: OfferPool, census: Census, scoring: Scoring) -> None:
        self.ledger = Ledger(census)
        self._pool = pool
        self._table = pool.table
        self._order = Order(pool.table, scoring)
        self._searches: dict[Hashable, Search] = {}
        self._fronts: dict[Hashable, Lanes] = {}
        self._private: dict[Hashable, Lanes] = {}

    def place(self, demand: Demand, placements: list[Placement]) -> int:
        """Places one demand, appending to `placements`; returns how many slots were placed."""
        rules = demand.rules
        # Equal demands share what was worked out for the first: many taskgroups that are replaced one by one are equal.
        shape = (demand.need, rules, demand.role, demand.only_host, demand.application if rules.live else "")
        search = self._search(shape, demand)
        walk = self._walk(shape, search, len(demand.slots))
        tally = self.ledger.tally(demand.application)
        drawer = _Drawer(demand.need)
        placed = 0
        for slot in demand.slots:
            row = walk.best()
            if row is None and walk.gave_up:
                walk.end()
                walk = self._private_walk(shape, search, len(demand.slots))
                row = walk.best()
            if row is None:
                break
            placements.append(self._placement(demand, slot, row, drawer, search))
            placed += 1
            tally.record(row)
            walk.again(row)
        walk.end()
        return placed

    def _search(self, shape: Hashable, demand: Demand) -> Search:
        search = self._searches.get(shape)
        if search is None:
            search = Search(self._table, self.ledger, demand, self._pool.eligibility(demand.rules, demand.role))
            if search.shareable:
                self._searches[shape] = search
        return search

    def _walk(self, shape: Hashable, search: Search, slots: int) -> Walk:
        """Through the private lanes of an equal demand before, if it needed any, else along the front."""
        if shape in self._private or not search.shareable:
            return self._private_walk(shape, search, slots)
        items = tuple(search.demand.rules.items[test.position] for test in search.elastic)
        front = self._fronts.get(items)
        if front is None or front.outlived:
            front = self._fronts[items] = Lanes(self._order, self._table.rows, search.elastic)
        return LaneWalk(search, front, slots) if items else Walk(search, front, slots)

    def _private_walk(self, shape: Hashable, search: Search, slots: int) -> Walk:
        lanes = self._private.get(shape)
        if lanes is None or lanes.outlived:
            lanes = Lanes(self._order, self._table.rows, search.elastic, search.suitable)
            if search.shareable:
                self._private[shape] = lanes
        return LaneWalk(search, lanes, slots) if search.elastic else Walk(search, lanes, slots)

    def _placement(self, demand: Demand, slot: Hashable, row: Row, drawer: _Drawer, search: Search) -> Placement:
        """Deducts one taskgroup from the row."""
        claim, ports = drawer.draw(row)
        amounts = row.amounts
        for line, amount in search.wants:
            amounts[line] -= amount
        row.claims.append(claim)
        row.rescore()
        self._order.log.append(row.number)
        self._table.placed_on(row.number)
        if search.extended or demand.labels:
            self.ledger.record(demand, row)
        return Placement(demand.id, slot, row.agent_id, row.hostname, row.ip, claim, ports, row.attributes)

    def undo(self) -> None:
        """Gives back everything the pass has deducted from the pool."""
        touched: dict[int, Row] = {}
        for number in self._order.log:
            row = self._table.rows[number]
            if row is not None:
                row.claims.pop()
                touched[number] = row
        for row in touched.values():
            self._table.amounts_changed(row)


class _Drawer:
    """Draws one need from rows, as `offers.resources.draw` does. Nearly always each scalar of an agent is a single
    pot; then all taskgroups on agents of that kind share one tuple of scalars."""

    def __init__(self, need: Need) -> None:
        self._amounts = amounts_of(need)
        self._random = need.random_ports
        self._fixed = need.fixed_ports
        self._shared: dict[int, Scalars] = {}

    def draw(self, row: Row) -> tuple[Claim, tuple[int, ...]]:
        """Takes the need out of the row's pots; the row can give it. Returns (claim, random ports)."""
        if self._fixed or len(row.ports) != 1:
            ranges, ports = self._any_ports(row)
        elif self._random:
            pot, free = row.ports[0]
            taken, rest = split_lowest(free, self._random)
            row.ports[0] = (pot, rest)
            ranges, ports = ((pot, taken),), numbers(taken)
        else:
            ranges, ports = (), ()
        if row.compound:
            claim = Claim(self._split_scalars(row), ranges)
            row.pots = subtract(row.pots, claim)
            return claim, ports
        return Claim(self._shared.get(id(row.layout)) or self._share(row.layout), ranges), ports

    def _any_ports(self, row: Row) -> tuple[tuple[tuple[Pot, Ranges], ...], tuple[int, ...]]:
        if not (self._fixed or self._random):
            return (), ()
        ranges, ports = draw_ports(row.ports, self._random, self._fixed)
        taken = dict(ranges)
        row.ports = [(pot, without(free, taken[pot]) if pot in taken else free) for pot, free in row.ports]
        return ranges, ports

    def _split_scalars(self, row: Row) -> Scalars:
        parts: list[tuple[Pot, int]] = []
        for name, wanted in zip(SCALARS, self._amounts, strict=True):
            parts += draw_scalar([part for part in row.pots.scalars.items() if part[0].name == name], name, wanted)
        return tuple(parts)

    def _share(self, layout: tuple[Pot | None, ...]) -> Scalars:
        scalars = tuple((pot, amount) for pot, amount in zip(layout, self._amounts, strict=True) if pot and amount > 0)
        self._shared[id(layout)] = scalars  # the table keeps layouts, so that ids stay unique
        return scalars
