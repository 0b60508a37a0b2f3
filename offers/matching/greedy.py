"""The sequential greedy algorithm, one demand at a time, with the cached results of earlier demands.

For each slot of a demand in order, of all agents that pass every test the best one is taken, and the placed amounts are
deducted at once. Best is the emptiest (spread) or the fullest (binpack) agent before the placement, by
`offers.ledger.table.score`; of equal ones the first row. Every shortcut must agree with this. Why demands can be
placed in batches without changing the result: docs/decisions/0003-placement.md; why the shortcuts outlive an undo:
docs/decisions/0030-one-placer.md.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Sequence
from typing import Any

from offers.ledger.pool import Allocator, AnyPool
from offers.ledger.table import Row, Saved
from offers.matching.counts import PassCounts, Tally
from offers.matching.feasibility import Feasibility, RequestClass, class_of
from offers.matching.ranking import Ranking, Scoring
from offers.matching.scan import Candidates, GroupedScan, Kind, Scan
from offers.model import Demand, Placement, SlotT
from offers.rules.constraints import Rules


class Greedy:
    """Places demands on a pool. Results of earlier demands are valid while nothing else changes the pool; a caller that
    undoes placements or changes the pool calls `moved` or `changed`."""

    def __init__(self, pool: AnyPool, counts: PassCounts, scoring: Scoring, *, tentative: bool) -> None:
        """`tentative`: notes how each row was before each placement (`before`)."""
        self.taken: list[Row] = []
        """The rows that something was placed on, in the order of the placements."""
        self.before: list[Saved] = []
        """State of each row of `taken` before its placement (`Row.save`), if tentative."""
        self._pool = pool
        self._counts = counts
        self._scoring: Scoring = scoring
        self._tentative = tentative
        self._forget()

    def place(self, demand: Demand[SlotT], tally: Tally, placements: list[Placement[SlotT]]) -> int:
        """Places as many slots of one demand as possible and appends to `placements`. Returns their number. After an
        error the placements that were made before it are still there, for the caller to undo."""
        feasibility, ways = self._feasibility(demand)
        scan = self._scan(feasibility, next(ways), demand)
        allocator = self._pool.allocator(demand, feasibility.request_class.line_amounts)
        used = scan.used
        placed = 0
        try:
            for slot in demand.slots:
                row = scan.best()
                while row is None and scan.gave_up:
                    scan.end()
                    scan = self._scan(feasibility, next(ways), demand)
                    scan.used = used
                    row = scan.best()
                if row is None:
                    break
                placements.append(self._placement(demand, slot, row, allocator, feasibility.request_class))
                placed += 1
                tally.record(row)
                scan.again(row)
        except BaseException:
            self._broken = True
            raise
        scan.end()
        return placed

    def place_on(
        self, demand: Demand[SlotT], rows: Sequence[Row], tally: Tally, placements: list[Placement[SlotT]]
    ) -> int:
        """Places the next slot of the demand on each of the rows in turn that passes every test. Returns the number of
        placed slots. Errors as in `place`."""
        feasibility, _ = self._feasibility(demand)
        request_class = feasibility.request_class
        allocator = self._pool.allocator(demand, request_class.line_amounts)
        placed = 0
        try:
            for row in rows[: len(demand.slots)]:
                if row.open and request_class.has_room(row) and feasibility.admits(row) and not feasibility.waits(row):
                    placements.append(self._placement(demand, demand.slots[placed], row, allocator, request_class))
                    placed += 1
                    tally.record(row)
        except BaseException:
            self._broken = True
            raise
        return placed

    def moved(self, rows: Iterable[Row], applications: Iterable[str]) -> None:
        """Placements of these applications were undone on these rows, which are again as they were before."""
        if self._broken:
            self.changed()
            return
        for row in rows:
            self._ranking.log.append(row.number)
        for application in applications:
            for own_key in self._counting.pop(application, ()):
                del self._feasibilities[own_key]
                self._candidates.pop(("own", own_key), None)
        if self._fragile:
            self._forget_all_but_front()

    def changed(self) -> None:
        """Discards all results, because the pool or the counts have changed otherwise than by placements and their
        undoing."""
        self._forget()

    # --- cached results ----------------------------------------------------------------------------------------

    def _forget(self) -> None:
        self._broken = False
        """An error has left candidates out."""
        self._table = self._pool.table
        self._ranking = Ranking(self._table, self._scoring)
        self._candidates: dict[Hashable, Candidates] = {}
        self._forget_all_but_front()

    def _forget_all_but_front(self) -> None:
        self._request_classes: dict[Hashable, RequestClass] = {}
        self._feasibilities: dict[Hashable, Feasibility] = {}
        self._counting: dict[str, list[Hashable]] = {}
        """Keys of the searches that count taskgroups, by application: an undo makes them count too many."""
        self._fragile = False
        """A request class needs ports or extended resources: agents that failed its tests may pass them again after an
        undo."""
        self._candidates = {key: queues for key, queues in self._candidates.items() if queues.kind == "front"}

    def _feasibility(self, demand: Demand[Any]) -> tuple[Feasibility, Iterator[Candidates]]:
        """Returns the tests of a demand, and the queues of candidates to be tried one after the other.

        Equal demands share the results of the first of them: many taskgroups that are replaced one by one are equal,
        and so are many small applications.
        """
        class_key = class_of(demand)
        own_key = (class_key, demand.application) if demand.rules.live else class_key
        feasibility = self._feasibilities.get(own_key)
        if feasibility is None:
            request_class = self._request_classes.get(class_key)
            if request_class is None:
                eligibility = self._pool.eligibility(demand.rules, demand.role)
                request_class = self._request_classes[class_key] = RequestClass(
                    self._table, self._counts, demand, eligibility
                )
                self._fragile = self._fragile or bool(request_class.fixed_ports or request_class.extended)
            feasibility = Feasibility(request_class, self._counts, demand.application)
            if feasibility.shareable:
                self._feasibilities[own_key] = feasibility
                if demand.rules.live:
                    self._counting.setdefault(demand.application, []).append(own_key)
        return feasibility, self._ways(feasibility, demand.rules, class_key, own_key)

    def _ways(
        self, feasibility: Feasibility, rules: Rules, class_key: Hashable, own_key: Hashable
    ) -> Iterator[Candidates]:
        """Yields the kinds of queues from the cheapest on, but begins with the kind that an equal demand before
        needed."""
        own, request_class = ("own", own_key), ("class", class_key)
        if feasibility.groupable and own not in self._candidates:
            if request_class not in self._candidates:
                elastic = tuple(rules.items[test.position] for test in feasibility.elastic)
                yield self._known("front", ("front", elastic), feasibility)
            yield self._known("class", request_class, feasibility)
        yield self._known("own", own if feasibility.shareable else None, feasibility)

    def _known(self, kind: Kind, key: Hashable, feasibility: Feasibility) -> Candidates:
        """Returns the queues under this key; makes new ones if there are none or if too much has moved since."""
        queues = self._candidates.get(key)
        if queues is None or queues.outlived:
            queues = Candidates(kind, self._ranking, feasibility)
            if key is not None:
                self._candidates[key] = queues
        return queues

    @staticmethod
    def _scan(feasibility: Feasibility, queues: Candidates, demand: Demand[Any]) -> Scan:
        scan = (GroupedScan if feasibility.elastic else Scan)(feasibility, queues, len(demand.slots))
        scan.used = set() if demand.per_agent else None
        return scan

    def _placement(
        self, demand: Demand[SlotT], slot: SlotT, row: Row, allocator: Allocator, request_class: RequestClass
    ) -> Placement[SlotT]:
        """Deducts one taskgroup from the row."""
        if self._tentative:
            saved = row.save()
            allocation, ports = allocator.claim(row, slot)
            self.before.append(saved)
        else:
            allocation, ports = allocator.claim(row, slot)
        self.taken.append(row)
        self._ranking.log.append(row.number)
        self._table.placed_on(row.number)
        if request_class.extended or demand.labels:
            self._counts.record(demand, row)
        return Placement(demand.id, slot, row.agent_id, row.hostname, row.ip, allocation, ports, row.attributes)
