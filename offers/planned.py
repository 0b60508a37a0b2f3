"""The census as it will be when everything that is planned has been launched.

A placement is planned from the moment it is matched until its taskgroup is recorded. In between the taskgroup is in no
record, but constraints of other placements must count it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from offers.dimensions import amounts
from offers.model import Census, Demand, Occupant, Placement, Provisional
from offers.resources import normalise, summed


class PlannedCensus:
    """Implements offers.model.Census: the counts of another census with the planned placements on top. The cost of a
    question depends on the distinct values counted, not on the number of planned placements."""

    def __init__(self, census: Census) -> None:
        self._census = census
        self._placements: dict[str, dict[int, Placement[Any]]] = {}
        """Planned placements by application and by the identity of their claim."""
        self._counts: dict[tuple[str, str], Counter[str | float]] = {}
        """Planned placements by (application, attribute) and value, for attributes that have been asked for."""
        self._on_agent: dict[str, dict[int, tuple[Demand[Any], Placement[Any]]]] = {}
        """Planned placements by agent and by the identity of their claim."""
        self._extended: Counter[tuple[str, str]] = Counter()
        self._labelled: dict[str, dict[str, Counter[str]]] = {}
        """Planned placements by label, application and agent."""

    def clear(self) -> None:
        """Drops all planned placements."""
        for known in (self._placements, self._counts, self._on_agent, self._extended, self._labelled):
            known.clear()

    def add(self, demand: Demand[Any], placement: Placement[Any]) -> None:
        """Counts a placement of the demand."""
        members = self._placements.get(demand.application)
        if members is None:
            members = self._placements[demand.application] = {}
        members[id(placement.allocation)] = placement
        there = self._on_agent.get(placement.agent_id)
        if there is None:
            there = self._on_agent[placement.agent_id] = {}
        there[id(placement.allocation)] = demand, placement
        self._account(demand, placement, 1)

    def remove(self, demand: Demand[Any], placement: Placement[Any]) -> None:
        """Stops counting a placement that was added before: its taskgroup is recorded, or the placement is void."""
        members = self._placements[demand.application]
        del members[id(placement.allocation)]
        if not members:
            del self._placements[demand.application]
        there = self._on_agent[placement.agent_id]
        del there[id(placement.allocation)]
        if not there:
            del self._on_agent[placement.agent_id]
        self._account(demand, placement, -1)
        if not members and self._counts:
            for key in [key for key in self._counts if key[0] == demand.application]:
                del self._counts[key]

    def occupants(self, agent_id: str) -> list[Occupant]:
        """Returns the units planned on an agent, in the order in which they were placed."""
        return [_occupant(demand, placement) for demand, placement in self._on_agent.get(agent_id, {}).values()]

    def _account(self, demand: Demand[Any], placement: Placement[Any], step: int) -> None:
        for (application, attribute), counts in self._counts.items() if self._counts else ():
            if application == demand.application:
                _add(counts, placement.attributes.get(attribute), step)
        for name, amount in demand.request.extended:
            self._extended[placement.agent_id, name] += step * amount
        for pair in demand.labels:
            agents = self._labelled.setdefault(pair, {}).setdefault(demand.application, Counter())
            _add(agents, placement.agent_id, step)
            if not agents:
                del self._labelled[pair][demand.application]
                if not self._labelled[pair]:
                    del self._labelled[pair]

    # --- offers.model.Census ----------------------------------------------------------------------------------

    def attribute_counts(self, application: str, attribute: str) -> Mapping[str | float, int]:
        """Like `Census.attribute_counts`, recorded and planned taskgroups."""
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
        """Like `Census.total`, recorded and planned taskgroups."""
        return self._census.total(application) + len(self._placements.get(application, ()))

    def agents_with_label(self, pair: str, except_application: str) -> Mapping[str, int]:
        """Like `Census.agents_with_label`, recorded and planned taskgroups."""
        agents = Counter(self._census.agents_with_label(pair, except_application))
        for application, planned in self._labelled.get(pair, {}).items():
            if application != except_application:
                agents.update(planned)
        return agents

    def extended_used(self, agent_id: str, name: str) -> int:
        """Like `Census.extended_used`, recorded and planned taskgroups."""
        return self._census.extended_used(agent_id, name) + self._extended[agent_id, name]


def _occupant(demand: Demand[Any], placement: Placement[Any]) -> Occupant:
    allocation = placement.allocation
    return Occupant(
        unit=Provisional(demand.id, placement.slot),
        agent_id=placement.agent_id,
        application=demand.application,
        role=demand.role,
        hostname=placement.hostname,
        ip=placement.ip,
        amounts=amounts((resource_key.name, amount) for resource_key, amount in allocation.scalars),
        ports=normalise(part for _, ranges in allocation.ranges for part in ranges),
        counted={name: value for name, value in placement.attributes.items() if not isinstance(value, tuple)},
        labels=demand.labels,
        extended=tuple(summed(demand.request.extended).items()),
        attributes=placement.attributes,
        allocation=allocation,
    )


def _add(counts: Counter[str] | Counter[str | float], value: object, step: int) -> None:
    if not isinstance(value, str | float | int):
        return
    counts[value] += step  # type: ignore[index]
    if not counts[value]:  # type: ignore[index]
        del counts[value]
