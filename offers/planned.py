"""The census as it will be when everything that is planned has been launched.

A placement is planned from the moment it is matched until its taskgroup is recorded. In between the taskgroup is in no
record, but constraints of other placements must count it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from offers.model import Census, Demand, Placement


class PlannedCensus:
    """Implements offers.model.Census: the counts of another census with the planned placements on top. The cost of a
    question depends on the distinct values counted, not on the number of planned placements."""

    def __init__(self, census: Census) -> None:
        self._census = census
        self._placements: dict[str, dict[int, Placement]] = {}
        """Planned placements by application and by the identity of their claim."""
        self._counts: dict[tuple[str, str], Counter[str | float]] = {}
        """Planned placements by (application, attribute) and value, for attributes that have been asked for."""
        self._extended: Counter[tuple[str, str]] = Counter()
        self._labelled: dict[str, dict[str, Counter[str]]] = {}
        """Planned placements by label, application and agent."""

    def add(self, demand: Demand, placement: Placement) -> None:
        """Counts a placement of the demand."""
        self._placements.setdefault(demand.application, {})[id(placement.claim)] = placement
        self._account(demand, placement, 1)

    def remove(self, demand: Demand, placement: Placement) -> None:
        """Stops counting a placement that was added before: its taskgroup is recorded, or the placement is void."""
        members = self._placements[demand.application]
        del members[id(placement.claim)]
        if not members:
            del self._placements[demand.application]
        self._account(demand, placement, -1)

    def _account(self, demand: Demand, placement: Placement, step: int) -> None:
        for (application, attribute), counts in self._counts.items():
            if application == demand.application:
                _add(counts, placement.attributes.get(attribute), step)
        for name, amount in demand.need.extended:
            self._extended[placement.agent_id, name] += step * amount
        for pair in demand.labels:
            agents = self._labelled.setdefault(pair, {}).setdefault(demand.application, Counter())
            _add(agents, placement.agent_id, step)
            if not agents:
                del self._labelled[pair][demand.application]
                if not self._labelled[pair]:
                    del self._labelled[pair]
        if demand.application not in self._placements:
            for key in [key for key in self._counts if key[0] == demand.application]:
                del self._counts[key]

    # --- offers.model.Census ----------------------------------------------------------------------------------

    def attribute_counts(self, application: str, attribute: str) -> Mapping[str | float, int]:
        recorded = self._census.attribute_counts(application, attribute)
        planned = self._placements.get(application)
        if planned is None:
            return recorded
        counts = self._counts.get((application, attribute))
        if counts is None:
            counts = self._counts[application, attribute] = Counter()
            for placement in planned.values():
                _add(counts, placement.attributes.get(attribute), 1)
        return Counter(recorded) + counts

    def total(self, application: str) -> int:
        return self._census.total(application) + len(self._placements.get(application, ()))

    def agents_with_label(self, pair: str, except_application: str) -> frozenset[str]:
        agents = self._census.agents_with_label(pair, except_application)
        for application, planned in self._labelled.get(pair, {}).items():
            if application != except_application:
                agents |= frozenset(planned)
        return agents

    def extended_used(self, agent_id: str, name: str) -> int:
        return self._census.extended_used(agent_id, name) + self._extended[agent_id, name]


def _add(counts: Counter[str] | Counter[str | float], value: object, step: int) -> None:
    if not isinstance(value, str | float | int):
        return
    counts[value] += step  # type: ignore[index]
    if not counts[value]:  # type: ignore[index]
        del counts[value]
