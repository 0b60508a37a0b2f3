"""The census as it is when some units are gone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TypeVar

from offers.model import Census, Occupant

KeyT = TypeVar("KeyT")


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
