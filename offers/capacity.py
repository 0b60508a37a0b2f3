"""What the matcher asks of a pool of agents, whatever kind of capacity they have.

leased     `offers.pool.OfferPool`: an agent has what its offers hold
standing   `offers.standing.pool.StandingPool`: an agent has what nobody uses or claims of it
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Protocol

from offers.constraints import Rules
from offers.eligibility import Eligibility
from offers.model import Claim, Demand
from offers.table import Row, Table


class Drawer(Protocol):
    """Takes what one demand needs out of rows."""

    def take(self, row: Row, slot: Hashable) -> tuple[Claim, tuple[int, ...]]:
        """Takes the need of one slot out of a row that can give it: the claim is kept with the row, and the amounts and
        the score of the row are as they are without it; `Row.untake` gives it back. Returns (claim, random ports)."""


class Capacity(Protocol):
    """A pool of agents."""

    table: Table

    @property
    def agents(self) -> int:
        """Number of agents that a diagnosis speaks of."""

    def eligibility(self, rules: Rules, role: str) -> Eligibility:
        """The fixed tests of these rules for all rows. To be asked after `Table.flush`; it holds for one pass."""

    def drawer(self, demand: Demand, wants: Sequence[tuple[int, int]]) -> Drawer:
        """For one demand that wants these amounts of these lines of the table."""
