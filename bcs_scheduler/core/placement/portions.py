"""Demands with fewer slots or fewer agents."""

from __future__ import annotations

from offers.model import Demand
from transactions.base import Slot


def first_slots(demand: Demand[Slot], most: int) -> Demand[Slot]:
    """The demand for its first slots; for more than `most` if its gang needs them."""
    return demand._replace(slots=demand.slots[: max(most, demand.min_members)])


def avoiding(demand: Demand[Slot], agents: frozenset[str]) -> Demand[Slot]:
    """Returns the demand without these agents (ids)."""
    return demand._replace(except_agents=demand.except_agents | agents) if agents else demand


def without_first(demand: Demand[Slot], count: int) -> Demand[Slot]:
    """Returns the rest of a demand whose first slots have a place."""
    return demand._replace(slots=demand.slots[count:], min_members=max(demand.min_members - count, 0))
