"""Explains why a demand found no place: counts agents by the first test that each failed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable
from functools import reduce
from typing import Any

import numpy as np

from offers.ledger.pool import AnyPool
from offers.ledger.table import Ints, Mask
from offers.matching.counts import PassCounts
from offers.matching.feasibility import Feasibility, RequestClass, kind_of
from offers.model import Demand, Diagnosis
from offers.resources import PORTS
from offers.rules.eligibility import TAINT, Eligibility

NOTHING = "fits by now"
"""Reason of an agent that fails no test at the end of the pass: GROUPBY admits more than when the demand was placed,
because a later demand has made the application larger."""


ROLE = "role"
"""Reason of an agent that offers nothing to the role of the demand. Its room is not tested."""
PROMISED = "promised"
"""Reason of an agent whose free room would suffice, if none of it were kept for the placeholders of gangs."""
KEPT = "the policy keeps the room for others"
"""Reason of agents that could take a taskgroup and are not given to it."""
UNTRIED = "offers requested"
"""The only reason of a demand for which offers have just been requested: the places on them are not known."""
TO_SPREAD = "waits to be spread"
"""The only reason of a demand that waits a moment for requested offers of emptier agents."""
WITH_GANG = "have room for a part of the gang"
"""Reason of agents that could take a taskgroup whose gang must start together and finds too few places."""
WITH_GROUP = "have room, and the group must start together"
"""Reason of agents that could take a taskgroup whose group is below its minimum."""
ELSEWHERE = "not on the agent it belongs to"
TAKEN = "has its taskgroup already"
"""Reasons of agents that are not acceptable for a demand with one taskgroup per agent."""
PORT = "port "
"""Begins the reason of an agent on which a fixed host port is not to be had."""


class Explainer:
    """Judges agents as things stand at the end of a pass."""

    def __init__(self, pool: AnyPool, counts: PassCounts) -> None:
        self._pool = pool
        self._table = pool.table
        self._counts = counts
        self._remembered: dict[Hashable, tuple[dict[str, int], tuple[tuple[str, int, int], ...]]] = {}

    def diagnose(self, demand: Demand[Any], placed: int) -> Diagnosis:
        """Explains why slots of the demand have found no place, from the present amounts. `placed`: number of slots
        that have found a place."""
        # When a cluster is full, many applications with equal requests wait for the same reason.
        kind = kind_of(demand)
        if kind not in self._remembered:
            self._remembered[kind] = self._judge(demand)
        reasons, closest = self._remembered[kind]
        return Diagnosis(demand.id, len(demand.slots), placed, sum(reasons.values()), reasons, closest)

    def tests(self, demand: Demand[Any]) -> list[tuple[str, Mask]]:
        """The tests of a demand whose result does not depend on free amounts, each as a reason and the rows that pass.
        Ports count, too, on rows that can be used at present."""
        self._table.flush()
        eligibility = self._pool.eligibility(demand.rules, demand.role)
        request_class = RequestClass(self._table, self._counts, demand, eligibility)
        feasibility = Feasibility(request_class, self._counts, demand.application)
        closed = ~self._table.active
        ports = [
            (title, ok | closed)
            for title, ok, _, _ in self._amount_tests(request_class)
            if title == PORTS or title.startswith(PORT)
        ]
        return [(ROLE, eligibility.role), *self._policy_tests(feasibility, demand), *ports]

    def _judge(self, demand: Demand[Any]) -> tuple[dict[str, int], tuple[tuple[str, int, int], ...]]:
        self._table.flush()
        eligibility = self._pool.eligibility(demand.rules, demand.role)
        request_class = RequestClass(self._table, self._counts, demand, eligibility)
        feasibility = Feasibility(request_class, self._counts, demand.application)
        remaining = self._table.active & eligibility.role
        reasons: Counter[str] = Counter()
        if others := self._pool.agents - int(remaining.sum()):
            reasons[ROLE] = others
        policy = self._policy_tests(feasibility, demand)
        amounts = self._amount_tests(request_class)
        tests = [*policy, *((title, ok) for title, ok, _, _ in amounts)]
        free = {title: (needed, there) for title, _, needed, there in amounts}
        left = int(np.count_nonzero(remaining))
        for title, ok in tests:
            passed = remaining & ok
            if (count := int(np.count_nonzero(passed))) < left:
                failed = remaining & ~ok
                if title in free and self._pool.holds and (kept := self._held(title, failed, *free[title])):
                    reasons[PROMISED] += len(kept)
                    failed[kept] = False
                if title == TAINT:
                    _count_taints(reasons, eligibility, failed)
                elif short := int(np.count_nonzero(failed)):
                    reasons[title] += short
            remaining, left = passed, count
        if left:
            reasons[NOTHING] = left
        return dict(reasons), self._closest(eligibility, policy, amounts)

    def _held(self, name: str, failed: Mask, needed: int, free: Ints) -> list[int]:
        """The rows of these whose amount of a dimension is short only because room is held for others."""
        rows = []
        for number in np.flatnonzero(failed).tolist():
            row = self._table.rows[number]
            if row is not None and int(free[number]) + row.held().get(name, 0) >= needed:
                rows.append(number)
        return rows

    def _policy_tests(self, feasibility: Feasibility, demand: Demand[Any]) -> list[tuple[str, Mask]]:
        """Tests that more resources would not help to pass, with the name each failure is counted under."""
        eligibility = feasibility.request_class.eligibility
        tests: list[tuple[str, Mask]] = []
        if demand.only_agents or demand.except_agents:
            tests.append((ELSEWHERE if demand.only_agents else TAKEN, feasibility.request_class.agent_mask()))
        if demand.only_host:
            tests.append(("host retention", feasibility.request_class.host_mask()))
        tests += eligibility.policy
        if eligibility.terms is not None:
            tests.append(("terms", eligibility.terms))
        live = {test.position: test.mask(final=True) for test in feasibility.live}
        for position in range(len(demand.rules.items)):
            ok = eligibility.fixed[position] if position in eligibility.fixed else live[position]
            tests.append((demand.rules.title(position), ok))
        return tests

    def _amount_tests(self, request_class: RequestClass) -> list[tuple[str, Mask, int, Ints]]:
        """(reason, rows with enough, amount needed, amount free per row); for a single port 1 and 0 or 1."""
        tests: list[tuple[str, Mask, int, Ints]] = []
        nothing = np.zeros(len(self._table.rows), dtype=np.int64)
        for name, needed in request_class.amounts.items():
            line = self._table.line_of.get(name)
            free = nothing if line is None else self._table.free[line]
            tests.append((name, free >= needed, needed, free))
        for name, needed in request_class.extended:
            free = np.zeros(len(self._table.rows), dtype=np.int64)
            for number in np.flatnonzero(self._table.active & request_class.capacity_mask(name, 1)).tolist():
                row = self._table.rows[number]
                if row is not None:
                    free[number] = max(self._counts.extended_free(row, name), 0)
            tests.append((f"extended resource {name}", free >= needed, needed, free))
        for port in request_class.fixed_ports:
            mask = self._table.port_free(port)
            tests.append((f"{PORT}{port} not free", mask, 1, mask.astype(np.int64)))
        return tests

    def _closest(
        self, eligibility: Eligibility, policy: list[tuple[str, Mask]], amounts: list[tuple[str, Mask, int, Ints]]
    ) -> tuple[tuple[str, int, int], ...]:
        """Finds for each amount that is short everywhere the greatest free amount of the agents that pass all other
        tests. Ports are left out: a single port is free or not."""
        suitable = self._table.active & eligibility.role
        for _, ok in policy:
            suitable = suitable & ok
        if reduce(np.logical_and, (ok for _, ok, _, _ in amounts), suitable).any():
            return ()  # an agent has enough of everything
        closest: list[tuple[str, int, int]] = []
        for title, _, needed, free in amounts:
            if title.startswith(PORT):
                continue
            others = suitable.copy()
            for other, ok, _, _ in amounts:
                if other != title:
                    others &= ok
            if others.any():
                closest.append((title.removeprefix("extended resource "), needed, int(free[others].max())))
        return tuple(closest)


def _count_taints(reasons: Counter[str], eligibility: Eligibility, failed: Mask) -> None:
    """Counts agents by the first of their taints that is not tolerated."""
    codes, counts = np.unique(eligibility.taints.codes[failed], return_counts=True)
    for code, count in zip(codes.tolist(), counts.tolist(), strict=True):
        taint = eligibility.rules.untolerated(eligibility.taints.values[code])
        if taint is not None:
            reasons[f"taint {taint.title}"] += count
