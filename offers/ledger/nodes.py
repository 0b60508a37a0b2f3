"""Nodes: agents that stand, and whose room all programs share. One of the two sources of amounts in hand.

All free room of a node is in hand, all the time: its allocatable amounts without the units that are counted there
(`Usage`). A pass of the matcher makes claims under provisional names; when the name of a unit is known, `Usage.rename`
gives the claim to it, or `Usage.forget` gives it back. Amounts are in the units of their dimensions
(offers.dimensions). Free amounts are negative if the agent is overcommitted, or if room is held that is not free yet.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from offers.dimensions import Amounts, Dimensions, amounts
from offers.host_ports import HostPort
from offers.ledger.coming import ComingRoom
from offers.ledger.holds import Cause, Left
from offers.ledger.pool import Pool
from offers.ledger.table import Row
from offers.ledger.usage import ANY_ROLE, Kind, User
from offers.model import (
    AgentOverrides,
    Allocation,
    Attribute,
    Demand,
    Occupant,
    Placement,
    Provisional,
    Ranges,
    ResourceKey,
    ResourceRequest,
    Site,
    Unit,
)
from offers.names import INNER_IP, name_of
from offers.resources import PORTS, normalise, numbers, requested, size, split_lowest, without
from offers.rules.constraints import Rules
from offers.rules.eligibility import Eligibility
from offers.rules.taints import Taint
from offers.rules.terms import NAME

OVERCOMMITTED = "overcommitted"
"""Reason of an agent on which more is used than it has of any dimension. Nothing is placed there until the use is below
the capacity again, not even a demand without that dimension."""
_NUMBER = re.compile(r"[+-]?[0-9]{1,18}(\.[0-9]{1,18})?", re.ASCII)
_PORTS = ResourceKey(PORTS, ANY_ROLE)


class Node(NamedTuple):
    """An agent that is always there. Its name is its identity: users refer to the agent by that name."""

    name: str
    allocatable: Amounts
    """Total amounts that units may use; a dimension that is not named has 0."""
    attributes: Mapping[str, Attribute] = {}
    taints: tuple[Taint, ...] = ()
    """Taints in the order in which diagnoses look at them. Every state that keeps units off the agent (cordoned, not
    ready) is a taint."""
    ip: str = ""
    ports: Ranges = ()
    """Port numbers that may be drawn at random, or requested for any protocol. Ports of one protocol
    (offers.model.ResourceRequest.host_ports) need not be in here."""

    @property
    def key(self) -> str:
        """The key by which operators name the agent: its InnerIP attribute, else its address, else its name."""
        return name_of(self.attributes, self.ip, self.name)


class Nodes:
    """The nodes of a pool. One thread changes it."""

    def __init__(self, pool: Pool[Nodes], dimensions: Dimensions) -> None:
        """`dimensions`: those that are known from the beginning, CPU and memory first. Others are added as counts when
        an agent or a unit has them."""
        self.dimensions = dimensions
        self.lines = (*dimensions.names, PORTS)
        self._pool, self._usage = pool, pool.usage
        self.coming = ComingRoom(pool.touch)
        """Always empty: all free room of a node is in hand."""
        self._overcommitted: set[int] = set()

    @property
    def agents(self) -> int:
        """Number of nodes."""
        return len(self._pool.rows())

    def all(self) -> list[Node]:
        """The nodes that are there."""
        return [row.node for row in self._pool.rows()]

    # --- nodes ------------------------------------------------------------------------------------------------

    def put(self, node: Node) -> bool:
        """Adds a node, or changes its facts. The units on it stay. Returns False if nothing is new. Raises ValueError
        if the node has a dimension with the name under which the table keeps ports."""
        pool = self._pool
        row = pool.row(node.name)
        if row is not None and row.node == node:
            return False
        if any(name == PORTS for name, _ in node.allocatable):
            raise ValueError(f"{PORTS!r} is not a dimension of an agent")
        self._learn(node.allocatable)
        if row is None:
            self._learn((name, 0) for name in self._usage.on(node.name).total)
            row = pool.new_row(node.name, ANY_ROLE, node.key)
        row.node, row.own, row.own_taints, row.ip, row.hostname = node, node.attributes, node.taints, node.ip, node.name
        pool.rename(row, node.key)
        pool.describe(row)
        pool.table.amounts_changed(row)
        return True

    def remove(self, name: str) -> bool:
        """Removes a node. The units on it stay known until they are gone, because the node may return. Returns False if
        the node was not known."""
        row = self._pool.row(name)
        if row is not None:
            self._overcommitted.discard(row.number)
        return bool(self._pool.remove_rows(name))

    def put_all(self, nodes: Iterable[Node]) -> None:
        """The whole list of nodes: those that are not in it are not there any more."""
        listed = {node.name: node for node in nodes}
        for node in self.all():
            if node.name not in listed:
                self.remove(node.name)
        for node in listed.values():
            self.put(node)

    # --- units ------------------------------------------------------------------------------------------------

    def seen(self, user: User) -> bool:
        """Calls `Usage.seen`."""
        self._learn(user.amounts)
        return self._usage.seen(user)

    def all_seen(self, users: Iterable[User]) -> None:
        """Calls `Usage.all_seen`."""
        listed = list(users)
        for user in listed:
            self._learn(user.amounts)
        self._usage.all_seen(listed)

    def hold(self, unit: str, cause: Cause, site: Site, request: ResourceRequest) -> bool:
        """Calls `Usage.hold`."""
        self._learn(request.amounts)
        return self._usage.hold(unit, cause, site, request)

    @contextmanager
    def without(self, units: Iterable[Unit]) -> Iterator[None]:
        """Context manager: inside, these units do not count, for plans that end some units to place others, or that
        place a unit on its held room. Claims made inside and not given back stay, on top of the units counted again. No
        fact may change inside."""
        aside = self._usage.set_aside(units)
        try:
            yield
        finally:
            self._usage.put_back(aside)

    def stands(self, unit: Unit) -> bool:
        """Returns True if the request of a claim may be sent: its agent exists and is not overcommitted, so the matched
        room has not been lost since the match. Call it before `Usage.sent`. A claim for which this returns False must
        be given back by `Usage.forget` and matched again. False if there is no claim."""
        claim = self._usage.claims.get(unit)
        row = self._pool.row(claim.node) if claim is not None else None
        if row is None:
            return False
        self._pool.table.flush()
        return row.number not in self._overcommitted

    def amounts(self, agent_id: str, role: str) -> list[int]:
        """See `Hand.amounts`: without the amounts of units that were seen, and held ones included."""
        names, row = self.dimensions.names, self._pool.row(agent_id, role)
        if row is None:
            return [0] * len(names)
        left, kinds = Counter(dict(row.node.allocatable)), self._usage.on(agent_id).by_kind
        for kind in (Kind.OURS, Kind.FOREIGN, Kind.TERMINATING):
            left.subtract(kinds.get(kind, {}))
        return [max(left[name], 0) for name in names]

    def lend(self, site: Site, request: ResourceRequest, replaces: str) -> Mapping[Unit, Left]:  # noqa: ARG002
        """See `Hand.lend`: the unit has a hold of its own."""
        hold = self._usage.holds.get(replaces)
        if hold is None or hold.site != site:
            return {}
        return self._usage.holds.lend(site, [replaces])

    def end_lending(self, site: Site, left: Mapping[Unit, Left], *, used: bool) -> None:  # noqa: ARG002
        """See `Hand.end_lending`."""
        if not used:
            self._usage.holds.put_back(left)

    def standing(self, site: Site) -> Callable[[Placement[Any]], bool]:  # noqa: ARG002 (claims have names)
        """See `Hand.standing`."""
        return lambda placement: self.stands(Provisional(placement.demand, placement.slot))

    def free(self, name: str) -> Amounts | None:
        """Returns the free amounts of a node by dimension. An amount is negative if the node is overcommitted, or if
        room is held that is not free yet. None if the node does not exist."""
        table, row = self._pool.table, self._pool.row(name)
        if row is None:
            return None
        table.flush()
        return amounts(pair for pair in zip(table.lines, row.amounts, strict=True) if pair[0] != PORTS)

    def overcommitted(self) -> dict[str, Amounts]:
        """Returns the nodes on which more is used and claimed than they have, with the excess of each dimension."""
        self._pool.table.flush()
        return {
            row.agent_id: amounts((line, -free) for line, free in self._beside_holds(row).items() if free < 0)
            for row in self._pool.rows()
            if row.number in self._overcommitted
        }

    def _beside_holds(self, row: Row) -> dict[str, int]:
        """Returns the amounts that would be free of each dimension if no room were held."""
        held = self.held(row)
        return {line: free + held.get(line, 0) for line, free in zip(self._pool.table.lines, row.amounts, strict=True)}

    def _learn(self, there: Iterable[tuple[str, int]]) -> None:
        """New dimensions become lines of the table."""
        names = [name for name, _ in there if name not in self._pool.table.line_of]
        if names:
            self.dimensions = self.dimensions.extended(names)
            self._pool.table.add_lines(names)

    # --- questions of the pool --------------------------------------------------------------------------------

    def eligibility(self, rules: Rules, role: str) -> Eligibility:  # noqa: ARG002 (nodes are not divided by roles)
        """See `Pool.eligibility`."""
        eligibility = self._pool.eligibilities.of(self._pool.table, rules, ANY_ROLE)
        if not self._overcommitted:
            return eligibility
        ok = np.ones(len(self._pool.table.rows), dtype=np.bool_)
        ok[list(self._overcommitted)] = False
        return eligibility.also(OVERCOMMITTED, ok)

    def allocator(self, demand: Demand[Any], line_amounts: Sequence[tuple[int, int]]) -> NodeAllocator:
        """See `Pool.allocator`."""
        return NodeAllocator(self._pool, demand, line_amounts)

    def occupants(self, agent_id: str) -> list[Occupant]:
        """See `Pool.occupants`: units that were seen on the node, claims and holds."""
        return [
            Occupant(
                unit,
                agent_id,
                hostname=agent_id,
                amounts=holding.amounts,
                ports=normalise((port.port, port.port) for port in holding.ports),
            )
            for unit, holding in self._usage.counted_on(agent_id).items()
        ]

    def set_aside(self, occupants: Sequence[Occupant]) -> Callable[[], None]:
        """See `Pool.set_aside`. The names of the units suffice."""
        return partial(self._usage.put_back, self._usage.set_aside([occupant.unit for occupant in occupants]))

    def attributes(self, row: Row, overrides: AgentOverrides) -> Mapping[str, Attribute]:
        """All attributes of a node with these settings of operators."""
        address = {INNER_IP: row.ip} if row.ip else {}
        return {**address, **row.own, **overrides.attributes, "hostname": row.hostname, NAME: row.hostname}

    # --- questions of a row -----------------------------------------------------------------------------------

    def is_open(self, row: Row) -> bool:  # noqa: ARG002 (of the protocol)
        """True: a node needs no offer."""
        return True

    def work_out(self, row: Row) -> None:
        """Works out all figures from the capacity of the node and the units that are counted there."""
        lines, use = self._pool.table.line_of, self._usage.on(row.agent_id)
        free = [0] * len(lines)
        for name, amount in row.node.allocatable:
            free[lines[name]] = amount
        row.totals = (free[0], free[1])
        for name, amount in use.total.items():
            free[lines[name]] -= amount
        ports = without(row.node.ports, normalise((port, port) for port in use.ports))
        row.ports = [(_PORTS, ports)]
        free[lines[PORTS]] = size(ports)
        row.amounts = free
        if any(amount < 0 for amount in self._beside_holds(row).values()):
            self._overcommitted.add(row.number)
        else:
            self._overcommitted.discard(row.number)
        _rescore(row)
        self._judge(row)

    def _judge(self, row: Row) -> None:
        """Finds the holds that the free room does not cover, the oldest first."""
        holds, short = self._usage.holds, list[Unit]()
        counted = self._usage.counted_on(row.agent_id) if holds.on(row.site) else {}
        left = Counter(self._beside_holds(row)) if counted else Counter[str]()
        for unit in holds.on(row.site):
            holding = counted.get(unit)
            if holding is not None and holding.kind is Kind.HELD:
                left.subtract(dict(holding.amounts))
                if any(left[name] < 0 for name, _ in holding.amounts):
                    short.append(unit)
        holds.judged(row.site, short)

    def has_host_port(self, row: Row, port: HostPort) -> bool:
        """Returns True if no unit holds a port that conflicts with this one."""
        return not self._usage.on(row.agent_id).conflicts(port)

    def held(self, row: Row) -> Mapping[str, int]:
        """The amounts of holds."""
        return self._usage.on(row.agent_id).by_kind.get(Kind.HELD, {})

    def give_back(self, claim: Provisional) -> None:
        """The matcher gives a claim back."""
        self._usage.forget(claim)

    def measure(self, value: Attribute | None) -> Attribute | None:
        """The attribute; a label that reads as a number counts as this number. None if there is none."""
        return float(value) if isinstance(value, str) and _NUMBER.fullmatch(value) else value


class NodeAllocator:
    """Claims the resources of one demand, slot by slot, under provisional names."""

    def __init__(self, pool: Pool[Nodes], demand: Demand[Any], line_amounts: Sequence[tuple[int, int]]) -> None:
        """`line_amounts`: (line of the table, amount) pairs of the resource request."""
        request = demand.request
        named = requested(request)
        del named[PORTS]
        self._usage, self._ports_line = pool.usage, pool.table.line_of[PORTS]
        self._demand = demand.id
        self._line_amounts = line_amounts
        self._random = request.random_ports
        self._amounts = amounts(named)
        self._scalars = tuple((ResourceKey(name, ANY_ROLE), amount) for name, amount in self._amounts)
        self._ports = request.named_ports
        self._numbers = normalise((port.port, port.port) for port in self._ports)

    def claim(self, row: Row, slot: Hashable) -> tuple[Allocation, tuple[int, ...]]:
        """Takes the resource request out of the row, which can give it. Returns (claim, random ports); the random
        ports are the lowest free ones. Raises AlreadyAllocated if the slot has a claim already."""
        unit = Provisional(self._demand, slot)
        free = row.ports[0][1]
        drawn = numbers(split_lowest(without(free, self._numbers), self._random)[0]) if self._random else ()
        ports = (*self._ports, *map(HostPort, drawn)) if drawn else self._ports
        self._usage.assume(unit, row.agent_id, self._amounts, ports)
        if row.claims and row.claims[-1] not in self._usage.claims:
            row.claims.clear()
        row.claims.append(unit)
        for line, amount in self._line_amounts:
            row.amounts[line] -= amount
        if not ports:
            _rescore(row)
            return Allocation(self._scalars), ()
        held = normalise((port.port, port.port) for port in ports)
        free = without(free, held)
        row.ports[0] = (_PORTS, free)
        row.amounts[self._ports_line] = size(free)
        _rescore(row)
        return Allocation(self._scalars, ((_PORTS, held),)), drawn


def _rescore(row: Row) -> None:
    """Never negative, although a node may be overcommitted."""
    row.rescore()
    row.score = max(row.score, 0)


NodePool = Pool[Nodes]


def node_pool(dimensions: Dimensions) -> NodePool:
    """A pool of nodes. `dimensions`: as for `Nodes`."""
    return Pool(lambda pool: Nodes(pool, dimensions))
