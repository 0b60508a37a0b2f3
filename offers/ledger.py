"""What runs already and what the pass has placed so far, as one account: later demands of a pass see earlier ones."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import Any

from offers.model import Census, Demand
from offers.table import Row

Counts = dict[Any, int]
"""By value of an attribute, text or number."""


class Tally:
    """Live taskgroups of one application: the census, and the placements of this pass on top."""

    __slots__ = ("_application", "_census", "_counts", "_placed", "total")

    def __init__(self, application: str, census: Census) -> None:
        self._application = application
        self._census = census
        self._counts: dict[str, Counts] = {}
        self._placed: list[Row] = []
        self.total = census.total(application)

    def counts(self, attribute: str) -> Counts:
        """Live taskgroups by the value of the attribute; stays up to date."""
        counts = self._counts.get(attribute)
        if counts is None:
            counts = dict(self._census.attribute_counts(self._application, attribute))
            self._counts[attribute] = counts
            for row in self._placed:
                _count(counts, row, attribute)
        return counts

    def record(self, row: Row) -> None:
        self.total += 1
        self._placed.append(row)
        for attribute, counts in self._counts.items():
            _count(counts, row, attribute)


def _count(counts: Counts, row: Row, attribute: str) -> None:
    value = row.attributes.get(attribute)
    if isinstance(value, str | float | int):
        counts[value] = counts.get(value, 0) + 1


class Ledger:
    """The accounts of one pass."""

    def __init__(self, census: Census) -> None:
        self._census = census
        self._tallies: dict[str, Tally] = {}
        self._extended: dict[tuple[str, str], int] = {}
        self._labelled: defaultdict[str, dict[str, set[str]]] = defaultdict(dict)

    def tally(self, application: str) -> Tally:
        tally = self._tallies.get(application)
        if tally is None:
            tally = self._tallies[application] = Tally(application, self._census)
        return tally

    def extended_free(self, row: Row, name: str) -> int:
        """Thousandths of an extended resource that are left on the agent; negative if it is overcommitted."""
        used = self._extended.get((row.agent_id, name))
        if used is None:
            used = self._extended[row.agent_id, name] = self._census.extended_used(row.agent_id, name)
        return row.decoration.extended.get(name, 0) - used

    def agents_with_labels(self, pairs: Iterable[str], except_application: str) -> set[str]:
        """Agents that run a taskgroup of another application with one of the labels."""
        agents: set[str] = set()
        for pair in pairs:
            agents |= self._census.agents_with_label(pair, except_application)
            for application, placed in self._labelled.get(pair, {}).items():
                if application != except_application:
                    agents |= placed
        return agents

    def record(self, demand: Demand, row: Row) -> None:
        """Accounts for what a placement holds besides the offered resources and the counts."""
        for name, amount in demand.need.extended:
            self.extended_free(row, name)
            self._extended[row.agent_id, name] += amount
        for pair in demand.labels:
            self._labelled[pair].setdefault(demand.application, set()).add(row.agent_id)
