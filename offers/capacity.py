"""The interface between the matcher and a pool of agents, for both kinds of capacity.

leased     `offers.ledger.pool.OfferPool`: the free resources of an agent are those of its offers
standing   `offers.ledger.standing_pool.StandingPool`: the free resources of an agent are those without user or claim
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any, Protocol

from offers.matching.table import Row, Table
from offers.model import Allocation, Demand, Occupant
from offers.rules.constraints import Rules
from offers.rules.eligibility import Eligibility


class Allocator(Protocol):
    """Takes the resources of one demand out of rows."""

    def take(self, row: Row, slot: Hashable) -> tuple[Allocation, tuple[int, ...]]:
        """Takes the request of one slot out of a row that can give it: the claim is kept with the row, and the
        amounts and the score of the row are as they are without it; `Row.untake` gives it back. Returns (claim,
        random ports)."""


class Capacity(Protocol):
    """A pool of agents."""

    table: Table

    @property
    def agents(self) -> int:
        """Number of agents that a diagnosis speaks of."""

    @property
    def promises(self) -> bool:
        """True if room of any agent is kept for units that have no place yet (`Row.promised`)."""

    def eligibility(self, rules: Rules, role: str) -> Eligibility:
        """The fixed tests of these rules for all rows. To be asked after `Table.flush`; it holds for one pass."""

    def allocator(self, demand: Demand[Any], line_amounts: Sequence[tuple[int, int]]) -> Allocator:
        """Returns an allocator for one demand that wants these amounts on these rows of the table."""

    def occupants(self, agent_id: str) -> list[Occupant]:
        """Returns the known users of the agent: units that run there, and claims."""

    def set_aside(self, occupants: Sequence[Occupant]) -> Callable[[], None]:
        """Makes the resources of these units free. The returned function undoes that exactly; all later changes must be
        undone before. Until then no fact about agents or units may change."""
