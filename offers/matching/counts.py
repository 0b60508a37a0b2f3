"""Counts running taskgroups and those that the pass has placed so far together, so that later demands of a pass see
earlier ones."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeVar

from offers.ledger.table import Row
from offers.model import Census, Demand, Occupant

KeyT = TypeVar("KeyT")
Counts = dict[Any, int]
"""Counts by value of an attribute, text or number."""


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
        """Live taskgroups by the value of the attribute; stays up to date until the census changes."""
        counts = self._counts.get(attribute)
        if counts is None:
            counts = dict(self._census.attribute_counts(self._application, attribute))
            self._counts[attribute] = counts
            for row in self._placed:
                _count(counts, row, attribute, 1)
        return counts

    def record(self, row: Row) -> None:
        """One more has been placed."""
        self.total += 1
        self._placed.append(row)
        for attribute, counts in self._counts.items():
            _count(counts, row, attribute, 1)

    def take_back(self) -> None:
        """The placement that was recorded last is undone."""
        self.total -= 1
        row = self._placed.pop()
        for attribute, counts in self._counts.items():
            _count(counts, row, attribute, -1)

    def replace(self, census: Census) -> None:
        """Counts on top of another census. Earlier results of `counts` are out of date."""
        self._census = census
        self._counts.clear()
        self.total = census.total(self._application) + len(self._placed)


def _count(counts: Counts, row: Row, attribute: str, step: int) -> None:
    value = row.attributes.get(attribute)
    if isinstance(value, str | float | int):
        counts[value] = counts.get(value, 0) + step


class PassCounts:
    """The accounts of one pass. Everything that is recorded can be taken back, the latest first."""

    def __init__(self, census: Census) -> None:
        self._censuses = [census]
        """The last census is in use; the one before it also counts the units that were set aside last."""
        self._tallies: dict[str, Tally] = {}
        self._extended: dict[tuple[str, str], int] = {}
        """Used thousandths of the extended resources of an agent, as far as they have been asked for."""
        self._labelled: defaultdict[str, dict[str, dict[str, int]]] = defaultdict(dict)
        """Number of placements by label, application and agent; the numbers may be 0."""

    def tally(self, application: str) -> Tally:
        """The counts of an application, recorded and placed."""
        tally = self._tallies.get(application)
        if tally is None:
            tally = self._tallies[application] = Tally(application, self._censuses[-1])
        return tally

    def extended_free(self, row: Row, name: str) -> int:
        """Thousandths of an extended resource that are left on the agent; negative if it is overcommitted."""
        used = self._extended.get((row.agent_id, name))
        if used is None:
            used = self._extended[row.agent_id, name] = self._censuses[-1].extended_used(row.agent_id, name)
        return row.overrides.extended.get(name, 0) - used

    def agents_with_labels(self, pairs: Iterable[str], except_application: str) -> set[str]:
        """Agents that run a taskgroup of another application with one of the labels."""
        agents: set[str] = set()
        for pair in pairs:
            agents.update(self._censuses[-1].agents_with_label(pair, except_application))
            for application, placed in self._labelled.get(pair, {}).items():
                if application != except_application:
                    agents.update(agent for agent, number in placed.items() if number)
        return agents

    def record(self, demand: Demand[Any], row: Row) -> None:
        """Counts the resources of a placement that are neither offered resources nor counts of constraints."""
        for name, _ in demand.request.extended:
            self.extended_free(row, name)
        self._account(demand, row, 1)

    def take_back(self, demand: Demand[Any], row: Row) -> None:
        """Undoes `record`."""
        self._account(demand, row, -1)

    def _account(self, demand: Demand[Any], row: Row, step: int) -> None:
        for name, amount in demand.request.extended:
            self._extended[row.agent_id, name] += step * amount
        for pair in demand.labels:
            agents = self._labelled[pair].setdefault(demand.application, {})
            agents[row.agent_id] = agents.get(row.agent_id, 0) + step

    def set_aside(self, occupants: Sequence[Occupant]) -> None:
        """Stops counting these units, until `put_back`."""
        self._censuses.append(CensusWithout(self._censuses[-1], occupants))
        self._recount(occupants, -1)

    def put_back(self, occupants: Sequence[Occupant]) -> None:
        """Counts the units again that were set aside last."""
        self._censuses.pop()
        self._recount(occupants, 1)

    def _recount(self, occupants: Sequence[Occupant], step: int) -> None:
        for tally in self._tallies.values():
            tally.replace(self._censuses[-1])
        for occupant in occupants:
            for name, amount in occupant.extended:
                if (occupant.agent_id, name) in self._extended:
                    self._extended[occupant.agent_id, name] += step * amount


class CensusWithout:
    """Implements offers.model.Census: the counts of another census, less those of units that it counts."""

    def __init__(self, census: Census, occupants: Sequence[Occupant]) -> None:
        self._census = census
        self._occupants = occupants

    def attribute_counts(self, application: str, attribute: str) -> Mapping[str | float, int]:
        """Like `Census.attribute_counts`, without the occupants that are set aside."""
        counts = self._census.attribute_counts(application, attribute)
        mine = [occupant.counted for occupant in self._occupants if occupant.application == application]
        gone = [counted[attribute] for counted in mine if attribute in counted]
        return _less(counts, gone) if gone else counts

    def total(self, application: str) -> int:
        """Like `Census.total`, without the occupants that are set aside."""
        return self._census.total(application) - sum(o.application == application for o in self._occupants)

    def agents_with_label(self, pair: str, except_application: str) -> Mapping[str, int]:
        """Like `Census.agents_with_label`, without the occupants that are set aside."""
        counts = self._census.agents_with_label(pair, except_application)
        gone = [o.agent_id for o in self._occupants if pair in o.labels and o.application != except_application]
        return _less(counts, gone) if gone else counts

    def extended_used(self, agent_id: str, name: str) -> int:
        """Like `Census.extended_used`, without the occupants that are set aside."""
        used = self._census.extended_used(agent_id, name)
        return used - sum(
            amount
            for occupant in self._occupants
            if occupant.agent_id == agent_id
            for known, amount in occupant.extended
            if known == name
        )


def _less(counts: Mapping[KeyT, int], gone: Sequence[KeyT]) -> Mapping[KeyT, int]:
    left = Counter(dict(counts))
    left.subtract(gone)
    return +left
