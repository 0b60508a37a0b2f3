"""Why a demand found no place: agents counted by the first test each failed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable

import numpy as np

from offers.capacity import Capacity
from offers.eligibility import TAINT, Eligibility
from offers.ledger import Ledger
from offers.model import Demand, Diagnosis
from offers.search import Search, Shape
from offers.table import Ints, Mask

NOTHING = "fits by now"
"""Reason of an agent that fails no test at the end of the pass: GROUPBY admits more than when the demand was placed,
because a later demand has made the application larger."""


ELSEWHERE = "not on the agent it belongs to"
TAKEN = "has its taskgroup already"
"""Reasons of agents that are not acceptable to what may have one taskgroup per agent."""
PORT = "port "
"""Begins the reason of an agent on which a fixed host port is not to be had."""


class Explainer:
    """Judges agents as things stand at the end of a pass."""

    def __init__(self, pool: Capacity, ledger: Ledger) -> None:
        self._pool = pool
        self._table = pool.table
        self._ledger = ledger
        self._remembered: dict[Hashable, tuple[dict[str, int], tuple[tuple[str, int, int], ...]]] = {}

    def diagnose(self, demand: Demand, placed: int) -> Diagnosis:
        # Many applications of the same shape wait for the same reason when a cluster is full.
        agents = (demand.only_agents, demand.except_agents)
        alike = (demand.need, demand.rules, demand.role, demand.only_host, agents)
        key = (*alike, demand.application if demand.rules.live else "")
        if key not in self._remembered:
            self._remembered[key] = self._judge(demand)
        reasons, closest = self._remembered[key]
        return Diagnosis(demand.id, len(demand.slots), placed, sum(reasons.values()), reasons, closest)

    def _judge(self, demand: Demand) -> tuple[dict[str, int], tuple[tuple[str, int, int], ...]]:
        self._table.flush()
        eligibility = self._pool.eligibility(demand.rules, demand.role)
        shape = Shape(self._table, self._ledger, demand, eligibility)
        search = Search(shape, self._ledger, demand.application)
        remaining = self._table.active & eligibility.role
        reasons: Counter[str] = Counter()
        if others := self._pool.agents - int(remaining.sum()):
            reasons["role"] = others
        policy = self._policy_tests(search, demand)
        amounts = self._amount_tests(shape)
        tests = [*policy, *((title, ok) for title, ok, _, _ in amounts)]
        for title, ok in tests:
            failed = remaining & ~ok
            if title == TAINT:
                _count_taints(reasons, eligibility, failed)
            elif count := int(failed.sum()):
                reasons[title] += count
            remaining &= ok
        if count := int(remaining.sum()):
            reasons[NOTHING] = count
        return dict(reasons), self._closest(eligibility, policy, amounts)

    def _policy_tests(self, search: Search, demand: Demand) -> list[tuple[str, Mask]]:
        """Tests that more resources would not help to pass, with the name each failure is counted under."""
        eligibility = search.shape.eligibility
        tests: list[tuple[str, Mask]] = []
        if demand.only_agents or demand.except_agents:
            tests.append((ELSEWHERE if demand.only_agents else TAKEN, search.shape.agent_mask()))
        if demand.only_host:
            tests.append(("host retention", search.shape.host_mask()))
        tests += eligibility.policy
        if eligibility.terms is not None:
            tests.append(("terms", eligibility.terms))
        live = {test.position: test.mask(final=True) for test in search.live}
        for position in range(len(demand.rules.items)):
            ok = eligibility.fixed[position] if position in eligibility.fixed else live[position]
            tests.append((demand.rules.title(position), ok))
        return tests

    def _amount_tests(self, shape: Shape) -> list[tuple[str, Mask, int, Ints]]:
        """(reason, rows with enough, amount needed, amount free per row); for a single port 1 and 0 or 1."""
        tests: list[tuple[str, Mask, int, Ints]] = []
        nothing = np.zeros(len(self._table.rows), dtype=np.int64)
        for name, wanted in shape.amounts.items():
            line = self._table.line_of.get(name)
            free = nothing if line is None else self._table.free[line]
            tests.append((name, free >= wanted, wanted, free))
        for name, wanted in shape.extended:
            free = np.zeros(len(self._table.rows), dtype=np.int64)
            for number in np.flatnonzero(self._table.active & shape.capacity_mask(name, 1)).tolist():
                row = self._table.rows[number]
                if row is not None:
                    free[number] = max(self._ledger.extended_free(row, name), 0)
            tests.append((f"extended resource {name}", free >= wanted, wanted, free))
        for port in shape.fixed_ports:
            mask = self._table.port_free(port)
            tests.append((f"{PORT}{port} not free", mask, 1, mask.astype(np.int64)))
        return tests

    def _closest(
        self, eligibility: Eligibility, policy: list[tuple[str, Mask]], amounts: list[tuple[str, Mask, int, Ints]]
    ) -> tuple[tuple[str, int, int], ...]:
        """For each amount that is short everywhere, the most that an agent has which passes all other tests. A single
        port is there or not: its reason says all."""
        suitable = self._table.active & eligibility.role
        for _, ok in policy:
            suitable = suitable & ok
        found: list[tuple[str, int, int]] = []
        for title, enough, wanted, free in amounts:
            if title.startswith(PORT):
                continue
            others = suitable.copy()
            for other, ok, _, _ in amounts:
                if other != title:
                    others &= ok
            if others.any() and not (enough & others).any():
                found.append((title.removeprefix("extended resource "), wanted, int(free[others].max())))
        return tuple(found)


def _count_taints(reasons: Counter[str], eligibility: Eligibility, failed: Mask) -> None:
    """Counts agents by the first of their taints that is not tolerated."""
    codes, counts = np.unique(eligibility.taints.codes[failed], return_counts=True)
    for code, count in zip(codes.tolist(), counts.tolist(), strict=True):
        taint = eligibility.rules.untolerated(eligibility.taints.values[code])
        if taint is not None:
            reasons[f"taint {taint.title}"] += count
