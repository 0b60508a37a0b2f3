"""Agents with standing capacity, and who holds what on them: the second kind of `offers.capacity.Capacity`.

One thread changes the pool. A pass of the matcher makes claims under provisional names; when the name of a unit is
known, `usage.rename` gives the claim to it, or `usage.forget` gives it back. Everything about users, claims and
nominations is asked of `usage`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager

import numpy as np

from offers.constraints import Rules
from offers.dimensions import Amounts, Dimensions, amounts
from offers.eligibility import Eligibilities, Eligibility
from offers.model import Decoration, Demand
from offers.resources import PORTS
from offers.standing.model import Kind, Node, Nomination, Unit, User
from offers.standing.row import ROLE, StandingDrawer, StandingRow
from offers.standing.usage import Usage
from offers.table import Table

OVERCOMMITTED = "overcommitted"
"""Reason of an agent on which others have given away more than there is of any dimension. Nothing is placed on it, not
even what wants none of that dimension, until it is below again."""
_PLAIN = Decoration()


class StandingPool:
    def __init__(self, dimensions: Dimensions) -> None:
        """`dimensions`: those that are known from the beginning, CPU and memory first. Others are added as counts when
        an agent or a unit has them."""
        self.dimensions = dimensions
        self.table = Table((*dimensions.names, PORTS))
        self.usage = Usage(self._use_changed)
        self._rows: dict[str, StandingRow] = {}
        self._keys: dict[str, set[str]] = {}
        """Names of agents by how operators name them."""
        self._decorations: dict[str, Decoration] = {}
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
        """An agent is there, or something about it has changed. What is held on it stays as it is. False if nothing is
        new. Raises ValueError if the agent has a dimension of the name that the table keeps ports under."""
        row = self._rows.get(node.name)
        if row is not None and row.node == node:
            return False
        if any(name == PORTS for name, _ in node.allocatable):
            raise ValueError(f"{PORTS!r} is no dimension of an agent")
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
        row.describe(self._decorations.get(node.key, _PLAIN))
        self.table.static_changed(row)
        self.table.amounts_changed(row)
        return True

    def remove_node(self, name: str) -> bool:
        """An agent is not there any more. What is held on it stays known, until the units are gone: the agent may come
        back. False if it was not there."""
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

    def decorate(self, key: str, decoration: Decoration) -> None:
        """Sets what operators want of the agent(s) with this key, now and later. An empty decoration undoes it. Claims
        stay."""
        if decoration == _PLAIN:
            self._decorations.pop(key, None)
        else:
            self._decorations[key] = decoration
        for name in sorted(self._keys.get(key, ())):
            self._rows[name].describe(decoration)
            self.table.static_changed(self._rows[name])

    # --- units ------------------------------------------------------------------------------------------------

    def seen(self, user: User) -> bool:
        """`Usage.seen`."""
        self._learn(user.amounts)
        return self.usage.seen(user)

    def all_seen(self, users: Iterable[User]) -> None:
        """`Usage.all_seen`."""
        listed = list(users)
        for user in listed:
            self._learn(user.amounts)
        self.usage.all_seen(listed)

    def nominate(self, nomination: Nomination) -> bool:
        """`Usage.nominate`."""
        self._learn(nomination.amounts)
        return self.usage.nominate(nomination)

    @contextmanager
    def without(self, units: Iterable[Unit]) -> Iterator[None]:
        """While the context lasts, everything is as if these units were gone: for plans that end some to place others,
        and to place a unit on the room that is kept for it. Claims that are made meanwhile and not given back stay, on
        top of what is counted again. No fact may change meanwhile."""
        self.usage.set_aside(units)
        try:
            yield
        finally:
            self.usage.put_back()

    def stands(self, unit: Unit) -> bool:
        """Whether the request of a claim may leave: its agent is there, and others have not given away since the match
        what was matched. To be asked before `Usage.sent`; a claim that does not stand is given back by `Usage.forget`
        and matched again. False if there is no claim."""
        claim = self.usage.claims.get(unit)
        row = self._rows.get(claim.node) if claim is not None else None
        if row is None:
            return False
        self.table.flush()
        return row.number not in self._overcommitted

    # --- capacity ---------------------------------------------------------------------------------------------

    def eligibility(self, rules: Rules, role: str) -> Eligibility:
        """The fixed tests of these rules for all rows. The role is not looked at."""
        found = self._eligibilities.of(self.table, rules, ROLE)
        if not self._overcommitted:
            return found
        ok = np.ones(len(self.table.rows), dtype=np.bool_)
        ok[list(self._overcommitted)] = False
        return found.also(OVERCOMMITTED, ok)

    def drawer(self, demand: Demand, wants: Sequence[tuple[int, int]]) -> StandingDrawer:
        """Claims what a demand needs."""
        return StandingDrawer(demand, wants)

    def free(self, name: str) -> Amounts | None:
        """What is free of an agent, by dimension: negative where it is overcommitted, or where room is kept that is not
        free yet. None if the agent is not there."""
        row = self._rows.get(name)
        if row is None:
            return None
        self.table.flush()
        return amounts(pair for pair in zip(self.table.lines, row.amounts, strict=True) if pair[0] != PORTS)

    def overcommitted(self) -> dict[str, Amounts]:
        """Agents on which more is used and claimed than there is, with what is too much of each dimension."""
        self.table.flush()
        return {
            name: amounts((line, -free) for line, free in self._beside_nominations(row) if free < 0)
            for name, row in self._rows.items()
            if row.number in self._overcommitted
        }

    # --- inside -----------------------------------------------------------------------------------------------

    def _beside_nominations(self, row: StandingRow) -> list[tuple[str, int]]:
        """What would be free of each dimension if no room were kept for anybody."""
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
