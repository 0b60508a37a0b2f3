"""Agents with standing capacity, and the resources that units hold on them: the second kind of
`offers.capacity.Capacity`.

One thread changes the pool. A pass of the matcher makes claims under provisional names; when the name of a unit is
known, `usage.rename` gives the claim to it, or `usage.forget` gives it back. Everything about users, claims and
nominations is asked of `usage`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np

from offers.dimensions import Amounts, Dimensions, amounts
from offers.ledger.model import Kind, Node, Nomination, Unit, User
from offers.ledger.standing_row import ROLE, StandingAllocator, StandingRow
from offers.ledger.usage import Usage
from offers.matching.table import Table
from offers.model import AgentOverrides, Demand, Occupant
from offers.resources import PORTS, normalise
from offers.rules.constraints import Rules
from offers.rules.eligibility import Eligibilities, Eligibility

OVERCOMMITTED = "overcommitted"
"""Reason of an agent on which more is used than it has of any dimension. Nothing is placed there until the use is below
the capacity again, not even a demand without that dimension."""
_PLAIN = AgentOverrides()


class StandingPool:
    """Agents with standing capacity, which is there for everybody: the pool counts who uses it."""

    def __init__(self, dimensions: Dimensions) -> None:
        """`dimensions`: those that are known from the beginning, CPU and memory first. Others are added as counts when
        an agent or a unit has them."""
        self.dimensions = dimensions
        self.table = Table((*dimensions.names, PORTS))
        self.usage = Usage(self._use_changed)
        self._rows: dict[str, StandingRow] = {}
        self._keys: dict[str, set[str]] = {}
        """Names of agents by how operators name them."""
        self._overrides: dict[str, AgentOverrides] = {}
        self._overcommitted: set[int] = set()
        self._eligibilities = Eligibilities()

    @property
    def agents(self) -> int:
        """Number of agents that are there."""
        return len(self._rows)

    def nodes(self) -> list[Node]:
        """The agents that are there."""
        return [row.node for row in self._rows.values()]

    def row(self, name: str) -> StandingRow | None:
        """An agent as the matcher sees it; None if it is not there."""
        return self._rows.get(name)

    # --- agents -----------------------------------------------------------------------------------------------

    def put_node(self, node: Node) -> bool:
        """Adds an agent, or changes its facts. The holdings on it stay. Returns False if nothing is new. Raises
        ValueError if the agent has a dimension with the name under which the table keeps ports."""
        row = self._rows.get(node.name)
        if row is not None and row.node == node:
            return False
        if any(name == PORTS for name, _ in node.allocatable):
            raise ValueError(f"{PORTS!r} is not a dimension of an agent")
        self._learn(node.allocatable)
        if row is None:
            for name in self.usage.on(node.name).total:
                self._learn(((name, 0),))
            row = self._rows[node.name] = self.table.new_row(
                lambda number: StandingRow(number, node, self.table, self.usage, self._overcommitted)
            )
        else:
            self._unlist(row)
            row.node = node
        self._keys.setdefault(node.key, set()).add(node.name)
        row.describe(self._overrides.get(node.key, _PLAIN))
        self.table.static_changed(row)
        self.table.amounts_changed(row)
        return True

    def remove_node(self, name: str) -> bool:
        """Removes an agent. The holdings on it stay known until the units are gone, because the agent may return.
        Returns False if the agent was not known."""
        row = self._rows.pop(name, None)
        if row is None:
            return False
        self._unlist(row)
        self._overcommitted.discard(row.number)
        self.table.free_row(row)
        return True

    def put_all_nodes(self, nodes: Iterable[Node]) -> None:
        """The whole list of agents: those that are not in it are not there any more."""
        listed = {node.name: node for node in nodes}
        for name in [name for name in self._rows if name not in listed]:
            self.remove_node(name)
        for node in listed.values():
            self.put_node(node)

    def override(self, key: str, overrides: AgentOverrides) -> None:
        """Sets the settings of operators for the agent(s) with this key, present and later ones. Empty settings undo
        this. Claims stay."""
        if overrides == _PLAIN:
            self._overrides.pop(key, None)
        else:
            self._overrides[key] = overrides
        for name in sorted(self._keys.get(key, ())):
            self._rows[name].describe(overrides)
            self.table.static_changed(self._rows[name])

    # --- units ------------------------------------------------------------------------------------------------

    def seen(self, user: User) -> bool:
        """Calls `Usage.seen`."""
        self._learn(user.amounts)
        return self.usage.seen(user)

    def all_seen(self, users: Iterable[User]) -> None:
        """Calls `Usage.all_seen`."""
        listed = list(users)
        for user in listed:
            self._learn(user.amounts)
        self.usage.all_seen(listed)

    def nominate(self, nomination: Nomination) -> bool:
        """Calls `Usage.nominate`."""
        self._learn(nomination.amounts)
        return self.usage.nominate(nomination)

    @contextmanager
    def without(self, units: Iterable[Unit]) -> Iterator[None]:
        """Context manager: inside, these units do not count, for plans that end some units to place others, or that
        place a unit on its reserved room. Claims made inside and not given back stay, on top of the units counted
        again. No fact may change inside."""
        aside = self.usage.set_aside(units)
        try:
            yield
        finally:
            self.usage.put_back(aside)

    def set_aside(self, occupants: Sequence[Occupant]) -> Callable[[], None]:
        """Stops counting these units; the returned function counts them again. Only their names are used, because the
        pool knows their holdings. No fact may change meanwhile."""
        aside = self.usage.set_aside([occupant.unit for occupant in occupants])
        return partial(self.usage.put_back, aside)

    def occupants(self, agent_id: str) -> list[Occupant]:
        """Returns the resources that each unit holds on an agent: units that were seen there, claims, and units with
        reserved room."""
        return [
            Occupant(
                unit,
                agent_id,
                hostname=agent_id,
                amounts=holding.amounts,
                ports=normalise((port.port, port.port) for port in holding.ports),
            )
            for unit, holding in self.usage.counted_on(agent_id).items()
        ]

    @property
    def promises(self) -> bool:
        """True if room is reserved for any unit."""
        return bool(self.usage.nominations)

    def stands(self, unit: Unit) -> bool:
        """Returns True if the request of a claim may be sent: its agent exists and is not overcommitted, so the matched
        room has not been lost since the match. Call it before `Usage.sent`. A claim for which this returns False must
        be given back by `Usage.forget` and matched again. False if there is no claim."""
        allocation = self.usage.allocations.get(unit)
        row = self._rows.get(allocation.node) if allocation is not None else None
        if row is None:
            return False
        self.table.flush()
        return row.number not in self._overcommitted

    # --- capacity ---------------------------------------------------------------------------------------------

    def eligibility(self, rules: Rules, role: str) -> Eligibility:  # noqa: ARG002 (of the protocol)
        """The fixed tests of these rules for all rows. The role is not looked at."""
        found = self._eligibilities.of(self.table, rules, ROLE)
        if not self._overcommitted:
            return found
        ok = np.ones(len(self.table.rows), dtype=np.bool_)
        ok[list(self._overcommitted)] = False
        return found.also(OVERCOMMITTED, ok)

    def allocator(self, demand: Demand[Any], line_amounts: Sequence[tuple[int, int]]) -> StandingAllocator:
        """Returns an allocator that claims the resources of a demand."""
        return StandingAllocator(demand, line_amounts)

    def free(self, name: str) -> Amounts | None:
        """Returns the free amounts of an agent by dimension. An amount is negative if the agent is overcommitted, or if
        room is reserved that is not free yet. None if the agent does not exist."""
        row = self._rows.get(name)
        if row is None:
            return None
        self.table.flush()
        return amounts(pair for pair in zip(self.table.lines, row.amounts, strict=True) if pair[0] != PORTS)

    def overcommitted(self) -> dict[str, Amounts]:
        """Returns the agents on which more is used and claimed than they have, with the excess of each dimension."""
        self.table.flush()
        return {
            name: amounts((line, -free) for line, free in self._beside_nominations(row) if free < 0)
            for name, row in self._rows.items()
            if row.number in self._overcommitted
        }

    # --- inside -----------------------------------------------------------------------------------------------

    def _beside_nominations(self, row: StandingRow) -> list[tuple[str, int]]:
        """Returns the amounts that would be free of each dimension if no room were reserved."""
        kept = self.usage.on(row.node.name).by_kind.get(Kind.NOMINATED, {})
        return [(line, free + kept.get(line, 0)) for line, free in zip(self.table.lines, row.amounts, strict=True)]

    def _learn(self, there: Amounts) -> None:
        """New dimensions become lines of the table."""
        names = [name for name, _ in there if name not in self.table.line_of]
        if names:
            self.dimensions = self.dimensions.extended(names)
            self.table.add_lines(names)

    def _use_changed(self, name: str) -> None:
        row = self._rows.get(name)
        if row is not None:
            self.table.amounts_changed(row)

    def _unlist(self, row: StandingRow) -> None:
        names = self._keys[row.key]
        names.discard(row.node.name)
        if not names:
            del self._keys[row.key]
