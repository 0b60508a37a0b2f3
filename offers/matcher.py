"""Places demands on agents, many at once, with the result of the sequential greedy algorithm.

The algorithm, and what every shortcut below must agree with: for each demand in order, for each of its slots in order,
of all agents that pass every test the best one is taken, and what it gives is deducted at once. Best is the emptiest
(spread) or the fullest (binpack) agent before the placement, by `offers.table.score`; of equal ones the first row.
Why this can be done in batches without changing the result: docs/decisions/0003-placement.md.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence

from offers.capacity import Capacity, Drawer
from offers.constraints import Rules
from offers.explain import Explainer
from offers.ledger import Ledger
from offers.model import Census, Demand, MatchResult, Placement
from offers.order import Order, Scoring
from offers.search import Search, Shape
from offers.table import Row
from offers.walk import Kind, Lanes, LaneWalk, Walk

__all__ = ["Rehearsal", "Scoring", "match"]


def match(
    demands: Sequence[Demand],
    pool: Capacity,
    census: Census,
    scoring: Scoring = "spread",
    *,
    dry_run: bool = False,
) -> MatchResult:
    """Places as much of the demands as possible, first come first served.

    What is placed is deducted from the pool: the caller takes the offers of every agent that was used, or names the
    claims on standing capacity after their units. With `dry_run`
    the pool is left as it was, and so it is if an error is raised. Demands that are not fully placed are diagnosed as
    things stand at the end.
    """
    one_pass = _Pass(pool, census, scoring)
    result = _run(one_pass, demands, pool)
    if dry_run:
        one_pass.undo()
    return result


class Rehearsal:
    """Matches that build on each other and are undone together, the latest first. Nothing else may change the pool in
    between."""

    def __init__(self, pool: Capacity, scoring: Scoring = "spread") -> None:
        self._pool = pool
        self._scoring = scoring
        self._passes: list[_Pass] = []

    def match(self, demands: Sequence[Demand], census: Census) -> MatchResult:
        """As `match`; what is placed stays deducted until `undo`."""
        one_pass = _Pass(self._pool, census, self._scoring)
        result = _run(one_pass, demands, self._pool)
        self._passes.append(one_pass)
        return result

    def undo(self) -> None:
        """Leaves the pool as it was at first."""
        while self._passes:
            self._passes.pop().undo()


def _run(one_pass: _Pass, demands: Sequence[Demand], pool: Capacity) -> MatchResult:
    """Places the demands. The pool is left as it was if an error is raised."""
    placements: list[Placement] = []
    unplaced: list[tuple[Demand, int]] = []
    try:
        for demand in demands:
            placed = one_pass.place(demand, placements)
            if placed < len(demand.slots):
                unplaced.append((_without_used(demand, placements, placed), placed))
        explainer = Explainer(pool, one_pass.ledger)
        return MatchResult(placements, [explainer.diagnose(demand, placed) for demand, placed in unplaced])
    except BaseException:
        one_pass.undo()
        raise


def _without_used(demand: Demand, placements: list[Placement], placed: int) -> Demand:
    """The demand as what is left of it looks at the agents, those it has just been given included."""
    if not demand.per_agent or not placed:
        return demand
    used = {placement.agent_id for placement in placements[-placed:]}
    return demand._replace(except_agents=demand.except_agents | used)


class _Pass:
    """The state of one run over all demands."""

    def __init__(self, pool: Capacity, census: Census, scoring: Scoring) -> None:
        self.ledger = Ledger(census)
        self._pool = pool
        self._table = pool.table
        self._order = Order(pool.table, scoring)
        self._shapes: dict[Hashable, Shape] = {}
        self._searches: dict[Hashable, Search] = {}
        self._lanes: dict[Hashable, Lanes] = {}

    def place(self, demand: Demand, placements: list[Placement]) -> int:
        """Places one demand, appending to `placements`; returns how many slots were placed."""
        search, ways = self._search(demand)
        walk = self._walk(search, next(ways), demand)
        tally = self.ledger.tally(demand.application)
        drawer = self._pool.drawer(demand, search.shape.wants)
        used = walk.used
        placed = 0
        for slot in demand.slots:
            row = walk.best()
            while row is None and walk.gave_up:
                walk.end()
                walk = self._walk(search, next(ways), demand)
                walk.used = used
                row = walk.best()
            if row is None:
                break
            placements.append(self._placement(demand, slot, row, drawer, search.shape))
            placed += 1
            tally.record(row)
            walk.again(row)
        walk.end()
        return placed

    def _search(self, demand: Demand) -> tuple[Search, Iterator[Lanes]]:
        """The tests of a demand, and the lanes to find it a place in, one after the other.

        Equal demands share what was worked out for the first of them: many taskgroups that are replaced one by one
        are equal, and so are many small applications.
        """
        agents = (demand.only_agents, demand.except_agents)
        shape_key = (demand.need, demand.rules, demand.role, demand.only_host, agents)
        own_key = (shape_key, demand.application) if demand.rules.live else shape_key
        search = self._searches.get(own_key)
        if search is None:
            shape = self._shapes.get(shape_key)
            if shape is None:
                eligibility = self._pool.eligibility(demand.rules, demand.role)
                shape = self._shapes[shape_key] = Shape(self._table, self.ledger, demand, eligibility)
            search = Search(shape, self.ledger, demand.application)
            if search.shareable:
                self._searches[own_key] = search
        return search, self._ways(search, demand.rules, shape_key, own_key)

    def _ways(self, search: Search, rules: Rules, shape_key: Hashable, own_key: Hashable) -> Iterator[Lanes]:
        """From the cheapest lanes on, but starting with the kind that an equal demand before needed."""
        own, shape = ("own", own_key), ("shape", shape_key)
        if search.groupable and own not in self._lanes:
            if shape not in self._lanes:
                elastic = tuple(rules.items[test.position] for test in search.elastic)
                yield self._known("front", ("front", elastic), search)
            yield self._known("shape", shape, search)
        yield self._known("own", own if search.shareable else None, search)

    def _known(self, kind: Kind, key: Hashable, search: Search) -> Lanes:
        """The lanes under this key, made anew if there are none or too much has moved since."""
        lanes = self._lanes.get(key)
        if lanes is None or lanes.outlived:
            lanes = Lanes(kind, self._order, search)
            if key is not None:
                self._lanes[key] = lanes
        return lanes

    @staticmethod
    def _walk(search: Search, lanes: Lanes, demand: Demand) -> Walk:
        walk = (LaneWalk if search.elastic else Walk)(search, lanes, len(demand.slots))
        walk.used = set() if demand.per_agent else None
        return walk

    def _placement(self, demand: Demand, slot: Hashable, row: Row, drawer: Drawer, shape: Shape) -> Placement:
        """Deducts one taskgroup from the row."""
        claim, ports = drawer.take(row, slot)
        self._order.log.append(row.number)
        self._table.placed_on(row.number)
        if shape.extended or demand.labels:
            self.ledger.record(demand, row)
        return Placement(demand.id, slot, row.agent_id, row.hostname, row.ip, claim, ports, row.attributes)

    def undo(self) -> None:
        """Gives back everything the pass has deducted from the pool."""
        touched: dict[int, Row] = {}
        for number in reversed(self._order.log):
            row = self._table.rows[number]
            if row is not None:
                row.untake()
                touched[number] = row
        for row in touched.values():
            self._table.amounts_changed(row)
