"""The ledger: agents with the settings of operators for them, and the units that hold their room.

There is one pool, and one kind of row, for both cluster managers. The difference is the source of the amounts that are
in hand (`Pool.hand`): offers, which come, age and are taken back (`offers.ledger.offered`), or nodes, which stand
(`offers.ledger.nodes`). Uses, claims and holds of units are in `Pool.usage`; an agent with offers shows its uses by the
amounts that it does not offer, so these are not counted again. The matcher works on `Pool.table`.

One thread changes a pool.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, Generic, Protocol, TypeVar

from offers.dimensions import Dimensions
from offers.ledger.coming import ComingRoom
from offers.ledger.holds import Holds, Left
from offers.ledger.table import Row, RowSource, Table
from offers.ledger.usage import ANY_ROLE, Usage
from offers.model import (
    AgentOverrides,
    Allocation,
    Attribute,
    Demand,
    Occupant,
    Placement,
    ResourceRequest,
    Site,
    Unit,
)
from offers.rules.constraints import Rules
from offers.rules.eligibility import Eligibilities, Eligibility

_PLAIN = AgentOverrides()


class Allocator(Protocol):
    """Takes the resources of one demand out of rows."""

    def claim(self, row: Row, slot: Hashable) -> tuple[Allocation, tuple[int, ...]]:
        """Takes the request of one slot out of a row that can give it: the claim is kept with the row, and the
        amounts and the score of the row are as they are without it; `Row.unclaim` gives it back. Returns (claim,
        random ports)."""


class Hand(RowSource, Protocol):
    """The source of the amounts in hand of a pool. The methods answer the questions of the same names of `Pool`."""

    @property
    def lines(self) -> Sequence[str]:
        """Names of the dimensions, CPU and memory first, and PORTS."""

    @property
    def dimensions(self) -> Dimensions:
        """The dimensions with their units, CPU and memory first."""

    @property
    def agents(self) -> int:
        """See `Pool.agents`."""

    @property
    def coming(self) -> ComingRoom:
        """Room that no unit has any more, and that is not in hand yet."""

    def eligibility(self, rules: Rules, role: str) -> Eligibility:
        """See `Pool.eligibility`."""

    def allocator(self, demand: Demand[Any], line_amounts: Sequence[tuple[int, int]]) -> Allocator:
        """See `Pool.allocator`."""

    def occupants(self, agent_id: str) -> list[Occupant]:
        """See `Pool.occupants`."""

    def set_aside(self, occupants: Sequence[Occupant]) -> Callable[[], None]:
        """See `Pool.set_aside`."""

    def attributes(self, row: Row, overrides: AgentOverrides) -> Mapping[str, Attribute]:
        """All attributes of an agent with these settings of operators; claims that they may void end."""

    def amounts(self, agent_id: str, role: str) -> list[int]:
        """The amounts of an agent that are in hand, claims included, in the order of `lines` without the ports: no
        unit that needs more fits there. Zeros if there is nothing in hand."""

    def lend(self, site: Site, request: ResourceRequest, replaces: str) -> Mapping[Unit, Left]:
        """Makes room on an agent that is held for a unit, `replaces`, usable for it, until `end_lending`. Returns the
        holds that `end_lending` needs."""

    def end_lending(self, site: Site, left: Mapping[Unit, Left], *, used: bool) -> None:
        """Ends `lend`. `used`: the unit has got a place; else the room is held as before."""

    def standing(self, site: Site) -> Callable[[Placement[Any]], bool]:
        """A test for placements on an agent that are not launched: their claims stand. It holds until the pool
        changes."""


HandT = TypeVar("HandT", bound=Hand)


class Pool(Generic[HandT]):
    """Agents by id: two agents on one host do not disturb each other."""

    def __init__(self, hand: Callable[[Pool[HandT]], HandT]) -> None:
        """`hand`: makes the source of the amounts in hand."""
        self.usage = Usage(self.room_changed)
        self.eligibilities = Eligibilities()
        self._rows: dict[Site, Row] = {}
        self._roles: dict[str, list[str]] = {}
        self._keys: dict[str, list[Row]] = {}
        self._overrides: dict[str, AgentOverrides] = {}
        self._totals: dict[str, tuple[int, int]] = {}
        self._sizes: dict[str, tuple[int, ...]] = {}
        self.hand = hand(self)
        self.table = Table(self.hand.lines)

    @property
    def holds(self) -> Holds:
        """The holds of units."""
        return self.usage.holds

    @property
    def agents(self) -> int:
        """Number of agents that a diagnosis speaks of."""
        return self.hand.agents

    # --- rows -------------------------------------------------------------------------------------------------

    def row(self, agent_id: str, role: str = ANY_ROLE) -> Row | None:
        """The row of an agent in a role, which nodes do not have; None if there is none. Amounts are up to date after
        `Table.flush`."""
        return self._rows.get((agent_id, role))

    def rows(self) -> list[Row]:
        """All rows, in the order in which they were added."""
        return list(self._rows.values())

    def rows_of(self, agent_id: str) -> list[Row]:
        """The rows of an agent, one per role in which it was ever in hand."""
        return [self._rows[agent_id, role] for role in self._roles.get(agent_id, ())]

    def rows_in(self, role: str) -> list[Row]:
        """The rows of all agents that were ever in hand in a role, in no particular order."""
        return [row for (_, known), row in self._rows.items() if known == role]

    def claims(self, agent_id: str, role: str) -> list[Any]:
        """Returns the claims that are deducted from the amounts of an agent for placements that have not been launched
        yet. A placement whose claim is not in the list (by identity) has lost its room."""
        row = self._rows.get((agent_id, role))
        return row.claims if row is not None else []

    def new_row(self, agent_id: str, role: str, key: str) -> Row:
        """Adds an agent. `key`: that by which operators name it."""
        row = self.table.new_row(lambda number: Row(number, agent_id, role, self.hand, len(self.table.lines)))
        row.key, row.totals = key, self._totals.get(agent_id, (0, 0))
        self._rows[row.site] = row
        self._roles.setdefault(agent_id, []).append(role)
        self._keys.setdefault(key, []).append(row)
        return row

    def remove_row(self, row: Row) -> None:
        """Undoes `new_row`."""
        del self._rows[row.site]
        roles = self._roles[row.agent_id]
        roles.remove(row.role)
        if not roles:
            del self._roles[row.agent_id]
        self._unlist(row)
        self.table.free_row(row)

    def remove_rows(self, agent_id: str) -> list[Row]:
        """Forgets an agent and its size. Returns the rows that it had."""
        self.touch(agent_id)
        rows = self.rows_of(agent_id)
        for row in rows:
            self.remove_row(row)
        self._totals.pop(agent_id, None)
        self._sizes.pop(agent_id, None)
        return rows

    def clear_rows(self) -> None:
        """Forgets all agents; settings and sizes stay."""
        touched = self.table.touched
        if touched is not None:
            touched.update(self._roles)
        self.table = Table(self.hand.lines)
        self.table.touched = touched
        self._rows, self._roles, self._keys = {}, {}, {}
        self.eligibilities = Eligibilities()

    def rename(self, row: Row, key: str) -> None:
        """Operators name an agent by another key than before, or by the same."""
        if key != row.key:
            self._unlist(row)
            row.key = key
            self._keys.setdefault(key, []).append(row)

    def _unlist(self, row: Row) -> None:
        rows = self._keys[row.key]
        rows.remove(row)
        if not rows:
            del self._keys[row.key]

    # --- facts of agents --------------------------------------------------------------------------------------

    def overrides(self, row: Row) -> AgentOverrides:
        """The settings of operators for an agent; the same object while they stay the same."""
        return self._overrides.get(row.key, _PLAIN)

    def override(self, agent_key: str, overrides: AgentOverrides) -> None:
        """Sets the settings of operators for the agent(s) with this key, present and later ones. Empty settings undo
        this."""
        if overrides == _PLAIN:
            self._overrides.pop(agent_key, None)
        else:
            self._overrides[agent_key] = overrides
        for row in self._keys.get(agent_key, ()):
            self.describe(row)

    def describe(self, row: Row) -> None:
        """Takes over the facts of an agent that do not depend on its use."""
        row.overrides = self.overrides(row)
        row.attributes = self.hand.attributes(row, row.overrides)
        self.table.static_changed(row)

    def learn_total(self, agent_id: str, cpus: int, mem: int, *others: int) -> None:
        """Sets the total of a whole agent, in thousandths; `others`: disk and GPUs, as far as they are known. Until
        then the greatest amounts seen in offers are used."""
        size = (cpus, mem, *others)
        if self._sizes.get(agent_id) == size:
            return
        self._sizes[agent_id], self._totals[agent_id] = size, (cpus, mem)
        self.touch(agent_id)
        for row in self.rows_of(agent_id):
            row.totals = (max(row.totals[0], cpus), max(row.totals[1], mem))
            self.room_changed(row.site)

    def learn_totals(self, totals: Mapping[str, tuple[int, ...]]) -> list[str]:
        """Calls `learn_total` for all agents that exist, with amounts in the order of `SCALARS`; forgets the totals of
        other agents, and returns their ids."""
        for agent_id, size in totals.items():
            self.learn_total(agent_id, *size)
        gone = [agent_id for agent_id in self._totals if agent_id not in totals]
        for agent_id in gone:
            self.touch(agent_id)
        if gone:
            self._totals = {agent_id: size for agent_id, size in self._totals.items() if agent_id in totals}
            self._sizes = {agent_id: size for agent_id, size in self._sizes.items() if agent_id in totals}
        return gone

    @property
    def totals(self) -> Mapping[str, tuple[int, int]]:
        """CPU and memory in thousandths of the agents whose whole size is known, by agent id."""
        return self._totals

    @property
    def sizes(self) -> Mapping[str, tuple[int, ...]]:
        """The whole size of the agents in `totals`: amounts in the order of `SCALARS`, the first two or more."""
        return self._sizes

    def room_changed(self, site: Site) -> None:
        """Other amounts of an agent may be used than before."""
        row = self._rows.get(site)
        if row is not None and row.open:
            self.table.amounts_changed(row)
        elif row is not None:
            self.touch(row.agent_id)  # the next offers have other room for others

    def follow(self) -> set[str]:
        """Returns the set to which ids of agents are added from now on when any of their facts changes. There is one
        reader, who empties the set."""
        if self.table.touched is None:
            self.table.touched = set()
        return self.table.touched

    def touch(self, agent_id: str) -> None:
        """A fact of an agent has changed that is not in its row."""
        if self.table.touched is not None:
            self.table.touched.add(agent_id)

    # --- questions of the matcher -----------------------------------------------------------------------------

    def eligibility(self, rules: Rules, role: str) -> Eligibility:
        """The fixed tests of these rules for all rows. To be asked after `Table.flush`; it holds for one pass."""
        return self.hand.eligibility(rules, role)

    def allocator(self, demand: Demand[Any], line_amounts: Sequence[tuple[int, int]]) -> Allocator:
        """Returns an allocator for one demand that wants these amounts on these rows of the table."""
        return self.hand.allocator(demand, line_amounts)

    def occupants(self, agent_id: str) -> list[Occupant]:
        """Returns the known users of the agent: units that run there, claims, and on nodes holds."""
        return self.hand.occupants(agent_id)

    def set_aside(self, occupants: Sequence[Occupant]) -> Callable[[], None]:
        """Makes the resources of these units free. The returned function undoes that exactly; all later changes must be
        undone before. Until then no fact about agents or units may change."""
        return self.hand.set_aside(occupants)


AnyPool = Pool[Any]
"""A pool of either source."""
