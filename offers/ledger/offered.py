"""Offers: an agent has the resources in its offers, until these are used, declined or taken back. One of the two
sources of amounts in hand.

The free amounts of a row are the sum of its offers without the claims on them and the holds. A claim is an
`Allocation`: it names the parts of offers that it takes (`ResourceKey`), because the ACCEPT must name them, and ends
with the offers. The claims of a pass stay deducted until the offers of the agent are taken for the ACCEPT. They are
void when an offer of the agent is removed or when the facts about the agent change.

One thread changes the offers; `Offers.all` may be called from any thread.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Container, Hashable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from offers.dimensions import THOUSANDTHS
from offers.host_ports import HostPort
from offers.ledger.ages import Ages
from offers.ledger.coming import ComingRoom
from offers.ledger.expected import ExpectedRoom, rest_of
from offers.ledger.external import ExternalHolds
from offers.ledger.holds import PROMISED_SECONDS, Hold, Left, set_apart, together
from offers.ledger.pool import Pool
from offers.ledger.table import AMOUNTS, SCORE_UNIT, Mask, Row
from offers.model import (
    AgentOverrides,
    Allocation,
    Attribute,
    Demand,
    Occupant,
    Offer,
    Placement,
    Ranges,
    ResourceKey,
    ResourceRequest,
    Site,
    Unit,
)
from offers.resources import (
    PORTS,
    SCALARS,
    ResourceMap,
    amount_of,
    amounts_of,
    draw_ports,
    draw_scalar,
    gather,
    normalise,
    numbers,
    ports_of,
    remaining,
    requested,
    size,
    split_lowest,
    subtract,
    summed,
    without,
)
from offers.rules.constraints import Rules
from offers.rules.eligibility import Eligibility

Scalars = tuple[tuple[ResourceKey, int], ...]
Layout = tuple[ResourceKey | None, ...]
_NOTHING: Mapping[Unit, ResourceRequest] = {}
_LINE_OF = {name: line for line, name in enumerate(SCALARS)}


class Offers:
    """The offers of a pool by id."""

    lines: Sequence[str] = AMOUNTS
    dimensions = THOUSANDTHS

    def __init__(self, pool: Pool[Offers], occupants: Callable[[str], Iterable[Occupant]]) -> None:
        """`occupants`: the users of the agent with an id: taskgroups and claims. Offers do not name the taskgroups that
        run, and a claim does not name its owner."""
        self._pool, self._occupants = pool, occupants
        self.external = ExternalHolds()
        self.expected = ExpectedRoom()
        self.coming = ComingRoom(pool.touch)
        self.taken: list[str] = []
        """Ids of the offers that `withdraw` and `expire` have removed, until the owner of the pool empties the list."""
        self._offers: dict[str, Offer] = {}
        self._ages = Ages()
        self._offered: dict[str, int] = {}
        """Number of offers by agent."""
        self._layouts: dict[Layout, Layout] = {}
        """Every layout there is, by itself, so that equal layouts are identical."""

    def __len__(self) -> int:
        """Number of offers."""
        return len(self._offers)

    @property
    def agents(self) -> int:
        """Number of agents with offers."""
        return len(self._offered)

    # --- offers come and go -----------------------------------------------------------------------------------

    def add(self, offer: Offer) -> None:
        """Takes in an offer; one of the same id is replaced."""
        if offer.id in self._offers:
            self.rescind(offer.id)
        row = self._pool.row(offer.agent_id, offer.role) or self._pool.new_row(offer.agent_id, offer.role, offer.key)
        row.offers[offer.id] = offer
        self._offers[offer.id] = offer
        self.expected.drop(row.number)
        if self.coming.is_expected(row.site):
            self.coming.offered(row.site, rest_of((offer,)))
        self.external.added(offer)
        self.count_offers(offer.agent_id, 1)
        self._ages.note(offer, self._offers)
        self._learn(row, offer)
        self._pool.table.amounts_changed(row)
        if offer.agent_id not in self._pool.totals:
            row.work_out()  # the greatest amounts seen stand in for the size of the agent

    def rescind(self, offer_id: str) -> bool:
        """Forgets an offer that was taken back; False if it is not (any more) in hand."""
        row = self._remove(offer_id)
        if row is not None:
            self.expected.drop(row.number)
        return row is not None

    def _remove(self, offer_id: str) -> Row | None:
        """Forgets an offer. Returns its row; None if the offer is not (any more) in hand."""
        offer = self._forget(offer_id)
        row = self._pool.row(offer.agent_id, offer.role) if offer is not None else None
        if row is not None:
            del row.offers[offer_id]
            self._void(row)
        return row

    def _forget(self, offer_id: str) -> Offer | None:
        offer = self._offers.pop(offer_id, None)
        if offer is not None:
            self.external.removed(offer)
            self.count_offers(offer.agent_id, -1)
        return offer

    def _void(self, row: Row) -> None:
        """Ends the claims on an agent whose offers have become less."""
        row.claims.clear()
        if row.offers:
            self._pool.table.amounts_changed(row)
        else:
            self._pool.table.emptied(row)
            self._pool.holds.emptied(row.site)

    def standing(self, site: Site) -> Callable[[Placement[Any]], bool]:
        """See `Hand.standing`: claims are compared by identity."""
        claims = {id(allocation) for allocation in self._pool.claims(*site)}
        return lambda placement: id(placement.allocation) in claims

    def unplan(self, site: Site) -> None:
        """Ends all claims on an agent; its offers stay."""
        row = self._pool.row(*site)
        if row is not None and row.claims:
            self._void(row)

    def withdraw(self, agent_id: str, role: str | None = None) -> list[Offer]:
        """Removes and returns the offers of an agent, for one ACCEPT (or DECLINE). The cluster manager refuses an
        ACCEPT that mixes roles. `role` None: the offers of all roles."""
        taken: list[Offer] = []
        for row in self._pool.rows_of(agent_id):
            if role is None or row.role == role:
                self._give_back(row, rest_of(row.offers.values(), row.claims))
                taken.extend(offer for offer_id in row.offers if (offer := self._forget(offer_id)) is not None)
                row.offers.clear()
                self._void(row)
        self.taken += [offer.id for offer in taken]
        return taken

    def expire(
        self, now: float, age: float, keep: int = 0, promised: Callable[[], Collection[str]] = tuple
    ) -> list[Offer]:
        """Removes and returns offers that were received `age` seconds ago or earlier, the oldest first, but for those
        with claims, held or promised room: these are looked at again a moment later. `keep`: so many offers stay,
        however old. `promised`: gives the ids of agents with room that was promised; their offers stay for
        `PROMISED_SECONDS`."""
        old: list[Offer] = []
        agents: Collection[str] | None = None
        while len(self._offers) > keep and (offer := self._ages.take_due(self._offers, now, age)) is not None:
            site = (offer.agent_id, offer.role)
            needed = bool(self._pool.claims(*site) or self._pool.holds.on(site))
            if not needed and now < offer.received_at + PROMISED_SECONDS:
                agents = promised() if agents is None else agents
                needed = offer.agent_id in agents
            if needed:
                self._ages.postpone(offer, now)
            elif (row := self._remove(offer.id)) is not None:
                self._give_back(row, rest_of((offer,)))
                old.append(offer)
        self.taken += [offer.id for offer in old]
        return old

    def _give_back(self, row: Row, amounts: Sequence[int]) -> None:
        self.expected.more(row.number, amounts)
        self.coming.more(row.site, amounts)

    def clear(self) -> None:
        """Forgets all offers, as after a new subscription; settings and sizes of agents stay."""
        self._pool.clear_rows()
        self._offers, self._offered = {}, {}
        self._ages.clear()
        self.external.clear()
        self._pool.holds.cleared()
        self.expected = ExpectedRoom()
        self.coming.clear()

    def remove_agent(self, agent_id: str) -> list[Offer]:
        """Forgets an agent and all that is known about it; returns the offers it had."""
        taken = self.withdraw(agent_id)
        for row in self._pool.remove_rows(agent_id):
            self.expected.drop(row.number)
            self.coming.drop(row.site)
        return taken

    def all(self) -> list[Offer]:
        """A snapshot of the offers, emptiest agent first. Safe to call from any thread."""
        offers = list(self._offers.values())
        totals, row = self._pool.totals, self._pool.row

        def emptiness(offer: Offer) -> int:
            there = row(offer.agent_id, offer.role)
            return _emptiness(offer, totals.get(offer.agent_id) or (there.totals if there is not None else (0, 0)))

        return sorted(offers, key=emptiness, reverse=True)

    def amounts(self, agent_id: str, role: str) -> list[int]:
        """Scalars of all offers of an agent for a role, in the order of SCALARS, claims included: no taskgroup that
        needs more fits there. Zeros if there is no offer."""
        sums = dict.fromkeys(SCALARS, 0)
        row = self._pool.row(agent_id, role)
        for offer in row.offers.values() if row is not None else ():
            for resource_key, amount in offer.scalars:
                if resource_key.name in sums:
                    sums[resource_key.name] += amount
        return list(sums.values())

    def copy(self) -> Copy:
        """Takes note of everything the pool holds, so that another pool can be filled with it later."""
        pool, external = self._pool, self.external
        claims = {row.site: list(row.claims) for row in pool.rows() if row.claims}
        return Copy(
            list(self._offers.values()),
            claims,
            dict(pool._overrides),
            dict(pool.totals),
            dict(pool.sizes),
            dict(external.opened),
            set(external.loose),
            list(pool.holds),
        )

    # --- expected, kept and lent ------------------------------------------------------------------------------

    def freed(self, site: Site, amounts: Sequence[int]) -> None:
        """A unit has ended, and has left its room to its agent. `amounts`: thousandths in the order of SCALARS."""
        self.coming.more(site, amounts)
        row = self._pool.row(*site)
        if row is not None:
            self.expected.more(row.number, amounts)
            self._pool.touch(row.agent_id)

    def expect_nothing(self, agent_id: str) -> None:
        """No offer of an agent is expected: the agent is away."""
        for row in self._pool.rows_of(agent_id):
            self.expected.drop(row.number)
            self.coming.drop(row.site)
            self._pool.touch(agent_id)

    def expect_nothing_on(self, rows: Mask) -> None:
        """No offer is expected of the agents of these rows, and no unread one."""
        self.expected.drop_all(rows)
        for number in np.flatnonzero(rows).tolist():
            row = self._pool.table.rows[number]
            if row is not None:
                self._pool.touch(row.agent_id)

    def open_hold(self, name: str, now: float, *, loose: bool = False) -> None:
        """The taskgroup of an external hold has ended; `now`: Unix seconds. `loose`: all units may use the hold; else
        only those that were promised room on the agent."""
        self.external.opened.setdefault(name, now)
        if loose:
            self.external.loose.add(name)
        for offer in self.external.offers_of(name):
            self._pool.room_changed((offer.agent_id, offer.role))

    def lend(self, site: Site, request: ResourceRequest, replaces: str) -> Mapping[Unit, Left]:
        """Makes the room of ended holders on an agent usable for one unit that was promised the room, until
        `end_lending`. `request`, `replaces`: as in `Holds.take_left`. Returns the holds that `end_lending` needs."""
        left = self._pool.holds.take_left(site, request, replaces)
        self.external.lent = site
        self._pool.room_changed(site)
        return left

    def end_lending(self, site: Site, left: Mapping[Unit, Left], *, used: bool) -> None:
        """Ends `lend`. `used`: the unit has got a place; else the room is left as before."""
        self.external.lent = None
        if not used:
            self._pool.holds.put_back(left)
        self._pool.room_changed(site)

    # --- agents -----------------------------------------------------------------------------------------------

    def open_row(self, offer: Offer) -> tuple[Row, bool]:
        """The row that an offer belongs to, and whether it had to be made. The offer is not taken in."""
        row = self._pool.row(offer.agent_id, offer.role)
        if row is not None:
            return row, False
        row = self._pool.new_row(offer.agent_id, offer.role, offer.key)
        self._learn(row, offer)
        return row, True

    def count_offers(self, agent_id: str, step: int) -> None:
        """So many more offers of an agent are counted, or less."""
        number = self._offered.get(agent_id, 0) + step
        if number:
            self._offered[agent_id] = number
        else:
            self._offered.pop(agent_id, None)

    def _learn(self, row: Row, offer: Offer) -> None:
        """Takes over the static facts of an offer, mostly the same ones as before."""
        self._pool.rename(row, offer.key)
        facts = (offer.hostname, offer.ip, any(known.unavailable_from > 0 for known in row.offers.values()))
        if (
            row.attributes
            and facts == (row.hostname, row.ip, row.unavailable)
            and self._pool.overrides(row) is row.overrides
            and (offer.attributes is row.own or offer.attributes == row.own)
        ):
            return
        row.hostname, row.ip, row.unavailable = facts
        row.own = offer.attributes
        self._pool.describe(row)

    # --- questions of the pool --------------------------------------------------------------------------------

    def eligibility(self, rules: Rules, role: str) -> Eligibility:
        """See `Pool.eligibility`; remembered while it stays true."""
        return self._pool.eligibilities.of(self._pool.table, rules, role)

    def allocator(self, demand: Demand[Any], line_amounts: Sequence[tuple[int, int]]) -> OfferAllocator:
        """See `Pool.allocator`."""
        return OfferAllocator(demand.request, line_amounts)

    def occupants(self, agent_id: str) -> list[Occupant]:
        """See `Pool.occupants`."""
        return list(self._occupants(agent_id))

    def set_aside(self, occupants: Sequence[Occupant]) -> Callable[[], None]:
        """See `Pool.set_aside`. An agent without offers has the resources of its units."""
        return Aside(self._pool, occupants).put_back

    def attributes(self, row: Row, overrides: AgentOverrides) -> Mapping[str, Attribute]:
        """All attributes of an agent with these settings of operators. Its claims end: planned taskgroups may not be
        allowed there any more."""
        if row.claims:
            self._void(row)
        return {**row.own, **overrides.attributes, "hostname": row.hostname}

    # --- questions of a row -----------------------------------------------------------------------------------

    def is_open(self, row: Row) -> bool:
        """True if the agent has an offer that can be used."""
        return bool(row.offers)

    def has_host_port(self, row: Row, port: HostPort) -> bool:  # noqa: ARG002 (of the protocol)
        """False: offers have numbers."""
        return False

    def give_back(self, claim: Allocation) -> None:
        """The row has kept the claim."""

    def measure(self, value: Attribute | None) -> Attribute | None:
        """The attribute as it is; None if there is none."""
        return value

    def held(self, row: Row) -> Mapping[str, int]:
        """The amounts that holds take out of the present offers: a hold that these do not cover takes all that there
        is."""
        sums: Counter[str] = Counter()
        for request in self._pool.holds.on(row.site).values():
            sums.update(requested(request))
        there = Counter(dict.fromkeys(SCALARS, 0))
        for line, amount in zip(SCALARS, row.amounts, strict=False):
            there[line] -= amount
        for offer in row.offers.values():
            for key, amount in offer.scalars:
                there[key.name] += 0 if key.room else amount
        for claim in row.claims:
            for key, amount in claim.scalars:
                there[key.name] -= amount
        return {name: min(amount, max(there[name], 0)) if name in SCALARS else amount for name, amount in sums.items()}

    def work_out(self, row: Row) -> None:
        """Computes all figures anew from offers, claims and holds."""
        held = self._pool.holds.on(row.site) if self._pool.holds.by_site else _NOTHING
        if row.claims or held or len(row.offers) != 1 or not self._work_out_plain(row, *row.offers.values()):
            self._work_out_any(row, held)
        row.rescore()

    def _work_out_plain(self, row: Row, offer: Offer) -> bool:
        """The usual case, in a third of the time: a single offer, whose resource keys are neither reserved nor
        empty, with at most one of each name. False if it is not that."""
        amounts = [0] * len(AMOUNTS)
        layout: list[ResourceKey | None] = [None] * len(SCALARS)
        for resource_key, amount in offer.scalars:
            line = _LINE_OF.get(resource_key.name)
            if resource_key.reservations or not amount or line is None or layout[line] is not None:
                return False
            layout[line] = resource_key
            amounts[line] = amount
        ports = [entry for entry in offer.ranges if entry[0].name == PORTS]
        if len(ports) > 1 or any(resource_key.reservations or not ranges for resource_key, ranges in offer.ranges):
            return False
        if ports:
            amounts[-1] = size(ports[0][1])
        row.resources = ResourceMap(dict(offer.scalars), dict(offer.ranges))
        row.ports = ports
        row.compound = False
        self._set(row, amounts, layout, amounts)
        return True

    def _work_out_any(self, row: Row, held: Mapping[Unit, ResourceRequest]) -> None:
        offered = self._without(gather(row.offers.values()), lambda name: name not in self.external.opened)
        row.resources = remaining(offered, row.claims) if row.claims else offered
        if held:
            self._set_apart(row, held)
        if self.external.opened:
            row.resources = self._without(row.resources, lambda name: not self.external.usable(name, row.site))
        row.ports = [
            (resource_key, ranges)
            for resource_key, ranges in row.resources.ranges.items()
            if resource_key.name == PORTS
        ]
        row.compound = False
        amounts = [0] * len(AMOUNTS)
        layout: list[ResourceKey | None] = [None] * len(SCALARS)
        for resource_key, amount in row.resources.scalars.items():
            line = _LINE_OF.get(resource_key.name)
            if line is not None:
                row.compound |= layout[line] is not None
                layout[line] = resource_key
                amounts[line] += amount
        amounts[-1] = size(row.ports[0][1] if len(row.ports) == 1 else ports_of(row.resources))
        whole = amounts if row.resources is offered else [amount_of(offered, name) for name in SCALARS]
        self._set(row, amounts, layout, whole)

    def _set_apart(self, row: Row, held: Mapping[Unit, ResourceRequest]) -> None:
        """Takes the held room out of the resources."""
        short: list[Unit] = []
        if len(held) > 1 and not row.spared:
            sum_of = together(held.values())
            rest, covered = set_apart(row.resources, sum_of)
            if covered and len(set(sum_of.fixed_ports)) == len(sum_of.fixed_ports):
                row.resources = rest
                self._pool.holds.judged(row.site, short)
                return
        for unit, request in held.items():
            if row.spared and unit in row.spared:
                continue
            row.resources, covered = set_apart(row.resources, request)
            if not covered:
                short.append(unit)
        if row.spared is None:
            self._pool.holds.judged(row.site, short)

    @staticmethod
    def _without(resources: ResourceMap, kept: Callable[[str], bool]) -> ResourceMap:
        """Without the external holds of others."""
        if not any(key.room and kept(key.room) for key in (*resources.scalars, *resources.ranges)):
            return resources
        return ResourceMap(
            {key: amount for key, amount in resources.scalars.items() if not (key.room and kept(key.room))},
            {key: ranges for key, ranges in resources.ranges.items() if not (key.room and kept(key.room))},
        )

    def _set(self, row: Row, amounts: list[int], layout: list[ResourceKey | None], whole: list[int]) -> None:
        """`whole`: the amounts of the offers before all placements."""
        row.amounts = amounts
        key = tuple(layout)
        row.layout = self._layouts.setdefault(key, key)
        cpus, mem = row.totals
        if whole[0] > cpus or whole[1] > mem:
            row.totals = (max(cpus, whole[0]), max(mem, whole[1]))


class OfferAllocator:
    """Draws one need from rows, as `offers.resources.draw` does. Nearly always each scalar of an agent is a single
    resource key; then all taskgroups on agents of that kind share one tuple of scalars."""

    def __init__(self, request: ResourceRequest, line_amounts: Sequence[tuple[int, int]]) -> None:
        """`line_amounts`: (line of the table, amount) pairs of the resource request."""
        self._amounts = amounts_of(request)
        self._random = request.random_ports
        self._fixed = request.fixed_ports
        self._line_amounts = line_amounts
        self._shared: dict[int, Scalars] = {}

    def claim(self, row: Row, slot: Hashable) -> tuple[Allocation, tuple[int, ...]]:  # noqa: ARG002 (of the protocol)
        """Takes the resource request out of the row, which can give it. Returns (claim, random ports)."""
        if self._fixed or len(row.ports) != 1:
            ranges, ports = self._any_ports(row)
        elif self._random:
            resource_key, free = row.ports[0]
            taken, rest = split_lowest(free, self._random)
            row.ports[0] = (resource_key, rest)
            ranges, ports = ((resource_key, taken),), numbers(taken)
        else:
            ranges, ports = (), ()
        if row.compound:
            allocation = Allocation(self._split_scalars(row), ranges)
            row.resources = subtract(row.resources, allocation)
        else:
            allocation = Allocation(self._shared.get(id(row.layout)) or self._share(row.layout), ranges)
        amounts = row.amounts
        for line, amount in self._line_amounts:
            amounts[line] -= amount
        row.claims.append(allocation)
        row.rescore()
        return allocation, ports

    def _any_ports(self, row: Row) -> tuple[tuple[tuple[ResourceKey, Ranges], ...], tuple[int, ...]]:
        if not (self._fixed or self._random):
            return (), ()
        ranges, ports = draw_ports(row.ports, self._random, self._fixed)
        taken = dict(ranges)
        row.ports = [
            (resource_key, without(free, taken[resource_key]) if resource_key in taken else free)
            for resource_key, free in row.ports
        ]
        return ranges, ports

    def _split_scalars(self, row: Row) -> Scalars:
        parts: list[tuple[ResourceKey, int]] = []
        for name, needed in zip(SCALARS, self._amounts, strict=True):
            parts += draw_scalar([part for part in row.resources.scalars.items() if part[0].name == name], name, needed)
        return tuple(parts)

    def _share(self, layout: Layout) -> Scalars:
        scalars = tuple(
            (resource_key, amount)
            for resource_key, amount in zip(layout, self._amounts, strict=True)
            if resource_key and amount > 0
        )
        self._shared[id(layout)] = scalars  # the pool keeps layouts, so that ids stay unique
        return scalars


class Copy(NamedTuple):
    """A copy of the content of a pool at one moment, for plans that last longer than a turn."""

    offers: list[Offer]
    claims: dict[Site, list[Allocation]]
    overrides: dict[str, AgentOverrides]
    totals: dict[str, tuple[int, int]]
    sizes: dict[str, tuple[int, ...]]
    opened: dict[str, float]
    """External holds whose taskgroups have ended."""
    loose: set[str]
    """Opened holds that all units may use."""
    holds: list[tuple[Unit, Hold]]
    """Holds with their units."""

    def into(self, pool: OfferPool, at_once: int) -> Iterator[None]:
        """Fills an empty pool, with so many offers in each step."""
        pool._overrides, pool._totals, pool._sizes = self.overrides, self.totals, self.sizes
        pool.hand.external.opened.update(self.opened)
        pool.hand.external.loose |= self.loose
        for unit, hold in self.holds:
            pool.holds.add(unit, *hold)
        for first in range(0, len(self.offers), at_once):
            for offer in self.offers[first : first + at_once]:
                pool.hand.add(offer)
            yield
        for site, claims in self.claims.items():
            row = pool._rows[site]
            row.claims += claims
            pool.table.amounts_changed(row)


def _emptiness(offer: Offer, totals: tuple[int, int]) -> int:
    """Returns the score of the resources of the offer (offers.ledger.table.Row.score)."""
    score = 0
    for resource_key, amount in offer.scalars:
        if resource_key.name in ("cpus", "mem"):
            score += amount * SCORE_UNIT // max(totals[resource_key.name == "mem"], amount, 1)
    return score


OfferPool = Pool[Offers]


def offer_pool(occupants: Callable[[str], Iterable[Occupant]] = lambda agent_id: ()) -> OfferPool:
    """A pool of offers. `occupants`: as for `Offers`."""
    return Pool(lambda pool: Offers(pool, occupants))


_PLAIN = ("amounts", "score", "ports", "resources", "compound", "layout", "totals")
"""The attributes that `Row.work_out` sets. It sets new objects and changes none."""


class Aside:
    """Offers as if some units were gone: the resources that they hold count as offered, until they are put back. Later
    changes of the pool must be undone before that.

    This is the state soon after the end of a taskgroup: then the cluster manager offers its resources. An agent that is
    full has no offers, so a row may have to be made for it. The units are taskgroups that run, and claims that are not
    launched yet."""

    def __init__(self, pool: OfferPool, occupants: Sequence[Occupant]) -> None:
        self._pool = pool
        self._rows: list[_Row] = []
        self._made: list[Row] = []
        pool.table.flush()
        places: dict[tuple[str, str], list[Occupant]] = {}
        for occupant in occupants:
            if occupant.allocation is not None or occupant.amounts or occupant.ports:
                places.setdefault((occupant.agent_id, occupant.role), []).append(occupant)
        for members in places.values():
            self._free(members)

    def _free(self, members: Sequence[Occupant]) -> None:
        """Frees the resources that units hold on one agent in one role."""
        pool = self._pool
        allocations = {id(occupant.allocation) for occupant in members if occupant.allocation is not None}
        first = members[0]
        held = pool.holds.on((first.agent_id, first.role))
        spared = frozenset(occupant.unit for occupant in members if occupant.unit in held)
        offer = _left(members, spared - pool.holds.short.keys())
        row, made = pool.hand.open_row(offer)
        if made:
            self._made.append(row)
        self._rows.append(_Row(row))
        row.spared = spared | (row.spared or frozenset())
        row.claims[:] = [allocation for allocation in row.claims if id(allocation) not in allocations]
        if offer.scalars or offer.ranges:
            name = f"set aside {len(row.offers)}"
            row.offers[name] = offer._replace(id=name)
            pool.hand.count_offers(row.agent_id, 1)
        row.work_out()
        pool.table.placed_on(row.number)

    def put_back(self) -> None:
        """Leaves the pool as it was."""
        pool = self._pool
        for saved in reversed(self._rows):
            row = saved.row
            pool.hand.count_offers(row.agent_id, len(saved.offers) - len(row.offers))
            saved.restore()
            pool.table.placed_on(row.number)
        for row in reversed(self._made):
            pool.remove_row(row)


class _Row:
    """A row as it is now."""

    def __init__(self, row: Row) -> None:
        self.row = row
        self.offers = dict(row.offers)
        self._spared = row.spared
        self._allocations = list(row.claims)
        self._plain: dict[str, Any] = {name: getattr(row, name) for name in _PLAIN}

    def restore(self) -> None:
        row = self.row
        row.offers, row.spared = self.offers, self._spared
        row.claims[:] = self._allocations
        for name, value in self._plain.items():
            setattr(row, name, value)


def _left(members: Sequence[Occupant], covered: Container[Unit] = ()) -> Offer:
    """Returns the resources that would be offered of one agent in one role, beside the present offers, if these units
    were gone. `covered`: units that run nothing, and whose held room is in the present offers."""
    first = members[0]
    running = [occupant for occupant in members if occupant.allocation is None and occupant.unit not in covered]
    amounts = summed(part for occupant in running for part in occupant.amounts)
    ports = normalise(part for occupant in running for part in occupant.ports)
    return Offer(
        id="",
        agent_id=first.agent_id,
        hostname=first.hostname,
        ip=first.ip,
        role=first.role,
        attributes=first.attributes,
        scalars=tuple((ResourceKey(name, first.role), amount) for name, amount in amounts.items() if amount),
        ranges=((ResourceKey(PORTS, first.role), ports),) if ports else (),
    )
