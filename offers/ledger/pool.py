"""The live offers, grouped per agent and role, with the settings of operators for their agents.

One thread changes the pool; `offers` may be called from any thread.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

from offers.ledger.ages import Ages
from offers.ledger.copying import PoolCopy
from offers.ledger.expected import ExpectedRooms, rest_of
from offers.ledger.holds import PROMISED_SECONDS, Holds, Left
from offers.ledger.rooms import KeptRooms
from offers.ledger.row import Layouts, LeasedAllocator, LeasedRow
from offers.matching.table import SCORE_UNIT, Table
from offers.model import AgentOverrides, Allocation, Demand, Occupant, Offer, ResourceRequest, Site, Unit
from offers.resources import SCALARS
from offers.rules.constraints import Rules
from offers.rules.eligibility import Eligibilities, Eligibility
from offers.statements.aside import Aside

_PLAIN = AgentOverrides()


class OfferPool:
    """Offers by agent. Agents are known by their id: two agents on one host do not disturb each other.

    The allocations of a pass stay deducted until the offers of the agent are taken for the ACCEPT. They are void when
    an offer of the agent is removed or when the facts about the agent change.
    """

    def __init__(self, occupants: Callable[[str], Iterable[Occupant]] = lambda agent_id: ()) -> None:
        """`occupants`: the users of the agent with an id: taskgroups and claims. Offers do not name the taskgroups that
        run, and a claim does not name its owner."""
        self.table = Table()
        self._occupants = occupants
        self._layouts: Layouts = {}
        self.rooms = KeptRooms()
        self.holds = Holds(lambda unit, site: self.room_changed(site))
        self.expected = ExpectedRooms()
        self.taken: list[str] = []
        """Ids of the offers that `take` and `expire` have removed, until the owner of the pool empties the list."""
        self._offers: dict[str, Offer] = {}
        self._ages = Ages()
        self._offered: dict[str, int] = {}
        """Number of offers by agent."""
        self._rows: dict[tuple[str, str], LeasedRow] = {}
        self._roles: dict[str, list[str]] = {}
        self._keys: dict[str, list[LeasedRow]] = {}
        self._overrides: dict[str, AgentOverrides] = {}
        self._totals: dict[str, tuple[int, int]] = {}
        self._sizes: dict[str, tuple[int, ...]] = {}
        self._eligibilities = Eligibilities()

    def __len__(self) -> int:
        """Number of offers."""
        return len(self._offers)

    @property
    def agents(self) -> int:
        """Number of agents with offers."""
        return len(self._offered)

    @property
    def promises(self) -> bool:
        """True if room is held for any taskgroup."""
        return bool(self.holds)

    # --- offers -----------------------------------------------------------------------------------------------

    def add(self, offer: Offer) -> None:
        """Takes in an offer; one of the same id is replaced."""
        if offer.id in self._offers:
            self.rescind(offer.id)
        row = self._rows.get((offer.agent_id, offer.role)) or self._new_row(offer)
        row.offers[offer.id] = offer
        self._offers[offer.id] = offer
        self.expected.drop(row.number)
        self.rooms.added(offer)
        self.count_offers(offer.agent_id, 1)
        self._ages.note(offer, self._offers)
        self._learn(row, offer)
        self.table.amounts_changed(row)
        if offer.agent_id not in self._totals:
            row.work_out()  # the greatest amounts seen stand in for the size of the agent

    def rescind(self, offer_id: str) -> bool:
        """Forgets an offer that was taken back; False if it is not (any more) in the pool."""
        row = self._remove(offer_id)
        if row is not None:
            self.expected.drop(row.number)
        return row is not None

    def _remove(self, offer_id: str) -> LeasedRow | None:
        """Forgets an offer. Returns its row; None if the offer is not (any more) in the pool."""
        offer = self._forget(offer_id)
        if offer is None:
            return None
        row = self._rows[offer.agent_id, offer.role]
        del row.offers[offer_id]
        row.allocations.clear()
        self._shrunk(row)
        return row

    def room(self, agent_id: str, role: str) -> list[int]:
        """Scalars of all offers of an agent for a role, in the order of SCALARS, claims included: no taskgroup that
        needs more fits there. Zeros if there is no offer."""
        found = dict.fromkeys(SCALARS, 0)
        row = self._rows.get((agent_id, role))
        for offer in row.offers.values() if row is not None else ():
            for resource_key, amount in offer.scalars:
                if resource_key.name in found:
                    found[resource_key.name] += amount
        return list(found.values())

    def allocations(self, agent_id: str, role: str) -> list[Allocation]:
        """Returns the allocations that are deducted from the offers of an agent for placements that have not been
        launched yet. A placement whose allocation is not in the list (by identity) has lost its offers."""
        row = self._rows.get((agent_id, role))
        return row.allocations if row is not None else []

    def take(self, agent_id: str, role: str | None = None) -> list[Offer]:
        """Removes and returns the offers of an agent, for one ACCEPT (or DECLINE). The cluster manager refuses an
        ACCEPT that mixes roles. `role` None: the offers of all roles."""
        taken: list[Offer] = []
        for known in self._roles.get(agent_id, ()) if role is None else (role,):
            row = self._rows.get((agent_id, known))
            if row is None:
                continue
            self.expected.more(row.number, rest_of(row.offers.values(), row.allocations))
            taken.extend(offer for offer_id in row.offers if (offer := self._forget(offer_id)) is not None)
            row.offers.clear()
            self._shrunk(row)
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
            needed = bool(self._rows[site].allocations or self.holds.on(site))
            if not needed and now < offer.received_at + PROMISED_SECONDS:
                agents = promised() if agents is None else agents
                needed = offer.agent_id in agents
            if needed:
                self._ages.postpone(offer, now)
            elif (row := self._remove(offer.id)) is not None:
                self.expected.more(row.number, rest_of((offer,)))
                old.append(offer)
        self.taken += [offer.id for offer in old]
        return old

    def unplan(self, site: Site) -> None:
        """Ends all allocations on an agent; its offers stay."""
        row = self._rows.get(site)
        if row is not None and row.allocations:
            row.allocations.clear()
            self._shrunk(row)

    def room_changed(self, site: Site) -> None:
        """Other parts of the offers of an agent may be used than before."""
        row = self._rows.get(site)
        if row is not None and row.offers:
            self.table.amounts_changed(row)
        elif row is not None:
            self._touch(row.agent_id)  # the next offers have other room for others

    def lend(self, site: Site, request: ResourceRequest, replaces: str) -> Mapping[Unit, Left]:
        """Makes the room of ended holders on an agent usable for one unit that was promised the room, until
        `end_lending`. `request`, `replaces`: as in `Holds.take_left`. Returns the holds that `end_lending` needs."""
        left = self.holds.take_left(site, request, replaces)
        self.rooms.lent = site
        self.room_changed(site)
        return left

    def end_lending(self, site: Site, left: Mapping[Unit, Left], *, used: bool) -> None:
        """Ends `lend`. `used`: the unit has got a place; else the room is left as before."""
        self.rooms.lent = None
        if not used:
            self.holds.put_back(left)
        self.room_changed(site)

    def _shrunk(self, row: LeasedRow) -> None:
        if row.offers:
            self.table.amounts_changed(row)
        else:
            row.allocations.clear()
            self.table.emptied(row)
            self.holds.emptied((row.agent_id, row.role))

    def _forget(self, offer_id: str) -> Offer | None:
        offer = self._offers.pop(offer_id, None)
        if offer is not None:
            self.rooms.removed(offer)
            self.count_offers(offer.agent_id, -1)
        return offer

    def freed(self, site: Site, amounts: Sequence[int]) -> None:
        """A unit has ended on an agent that was offered before: its room is expected. `amounts`: thousandths in the
        order of SCALARS."""
        row = self._rows.get(site)
        if row is not None:
            self.expected.more(row.number, amounts)

    def expect_nothing(self, agent_id: str) -> None:
        """No offer of an agent is expected: the agent is away."""
        for row in self.rows_of(agent_id):
            self.expected.drop(row.number)

    def open_room(self, name: str, now: float, *, loose: bool = False) -> None:
        """The taskgroup of a kept room has ended; `now`: Unix seconds. `loose`: all units may use the room; else only
        those that were promised room on the agent."""
        self.rooms.opened.setdefault(name, now)
        if loose:
            self.rooms.loose.add(name)
        for offer in self.rooms.offers_of(name):
            self.table.amounts_changed(self._rows[offer.agent_id, offer.role])

    def remove_agent(self, agent_id: str) -> list[Offer]:
        """Forgets an agent and all that is known about it; returns the offers it had."""
        taken = self.take(agent_id)
        self._touch(agent_id)
        for role in self._roles.pop(agent_id, ()):
            row = self._rows.pop((agent_id, role))
            self._unlist(row)
            self.table.free_row(row)
            self.expected.drop(row.number)
        self._totals.pop(agent_id, None)
        self._sizes.pop(agent_id, None)
        return taken

    def clear(self) -> None:
        """Forgets all offers, as after a new subscription; decorations and sizes of agents stay."""
        touched = self.table.touched
        if touched is not None:
            touched.update(self._roles)
        self.table = Table()
        self.table.touched = touched
        self._offers, self._offered = {}, {}
        self._ages.clear()
        self.rooms.clear()
        self.holds.cleared()
        self.expected = ExpectedRooms()
        self._rows = {}
        self._roles = {}
        self._keys = {}
        self._eligibilities = Eligibilities()

    def copy(self) -> PoolCopy:
        """Takes note of everything the pool holds, so that another pool can be filled with it later."""
        allocations = {place: list(row.allocations) for place, row in self._rows.items() if row.allocations}
        rooms, loose = dict(self.rooms.opened), set(self.rooms.loose)
        offers, overrides = list(self._offers.values()), dict(self._overrides)
        return PoolCopy(
            offers, allocations, overrides, dict(self._totals), dict(self._sizes), rooms, loose, list(self.holds)
        )

    def offers(self) -> list[Offer]:
        """A snapshot of the offers, emptiest agent first. Safe to call from any thread."""
        offers = list(self._offers.values())
        totals, rows = self._totals, self._rows

        def emptiness(offer: Offer) -> int:
            row = rows.get((offer.agent_id, offer.role))
            return _emptiness(offer, totals.get(offer.agent_id) or (row.totals if row is not None else (0, 0)))

        return sorted(offers, key=emptiness, reverse=True)

    # --- agents -----------------------------------------------------------------------------------------------

    def override(self, agent_key: str, overrides: AgentOverrides) -> None:
        """Sets the settings of operators for the agent(s) with this key, for present and later offers. Empty settings
        undo this."""
        if overrides == _PLAIN:
            self._overrides.pop(agent_key, None)
        else:
            self._overrides[agent_key] = overrides
        for row in self._keys.get(agent_key, ()):
            self._override(row, overrides)

    def learn_total(self, agent_id: str, cpus: int, mem: int, *others: int) -> None:
        """Sets the total of a whole agent, in thousandths; `others`: disk and GPUs, as far as they are known. Until
        then the greatest amounts seen in offers are used."""
        size = (cpus, mem, *others)
        if self._sizes.get(agent_id) == size:
            return
        self._sizes[agent_id], self._totals[agent_id] = size, (cpus, mem)
        self._touch(agent_id)
        for role in self._roles.get(agent_id, ()):
            row = self._rows[agent_id, role]
            row.totals = (max(row.totals[0], cpus), max(row.totals[1], mem))
            if row.offers:
                self.table.amounts_changed(row)

    def learn_totals(self, totals: Mapping[str, tuple[int, ...]]) -> None:
        """Calls `learn_total` for all agents that exist, with amounts in the order of `SCALARS`; forgets the totals of
        other agents."""
        for agent_id, size in totals.items():
            self.learn_total(agent_id, *size)
        if len(self._totals) > len(totals):
            for agent_id in self._totals.keys() - totals.keys():
                self._touch(agent_id)
                self.expect_nothing(agent_id)
            self._totals = {agent_id: size for agent_id, size in self._totals.items() if agent_id in totals}
            self._sizes = {agent_id: size for agent_id, size in self._sizes.items() if agent_id in totals}

    def rows_of(self, agent_id: str) -> list[LeasedRow]:
        """The rows of an agent, one per role in which it has ever been offered."""
        return [self._rows[agent_id, role] for role in self._roles.get(agent_id, ())]

    @property
    def totals(self) -> Mapping[str, tuple[int, int]]:
        """CPU and memory in thousandths of the agents whose whole size is known, by agent id."""
        return self._totals

    @property
    def sizes(self) -> Mapping[str, tuple[int, ...]]:
        """The whole size of the agents in `totals`: amounts in the order of `SCALARS`, the first two or more."""
        return self._sizes

    def row(self, agent_id: str, role: str) -> LeasedRow | None:
        """The row of an agent in a role; None if the agent was not offered in the role. Amounts are up to date after
        `Table.flush`."""
        return self._rows.get((agent_id, role))

    def rows_in(self, role: str) -> list[LeasedRow]:
        """The rows of all agents that have ever been offered in a role, in no particular order."""
        return [row for (_, known), row in self._rows.items() if known == role]

    def follow(self) -> set[str]:
        """Returns the set to which ids of agents are added from now on when any of their facts changes. There is one
        reader, who empties the set."""
        if self.table.touched is None:
            self.table.touched = set()
        return self.table.touched

    def _touch(self, agent_id: str) -> None:
        if self.table.touched is not None:
            self.table.touched.add(agent_id)

    def eligibility(self, rules: Rules, role: str) -> Eligibility:
        """The fixed tests of a version for offers of a role, for all rows; remembered while they stay true."""
        return self._eligibilities.of(self.table, rules, role)

    def allocator(self, demand: Demand[Any], line_amounts: Sequence[tuple[int, int]]) -> LeasedAllocator:
        """Takes the resource request of a demand out of offers."""
        return LeasedAllocator(demand.request, line_amounts)

    def occupants(self, agent_id: str) -> list[Occupant]:
        """Returns the users of an agent: units that run there, and planned placements."""
        return list(self._occupants(agent_id))

    def set_aside(self, occupants: Sequence[Occupant]) -> Callable[[], None]:
        """Makes the resources of these units free until the returned function is called. An agent without offers has
        the resources of its units."""
        return Aside(self, occupants).put_back

    def open_row(self, offer: Offer) -> tuple[LeasedRow, bool]:
        """The row that an offer belongs to, and whether it had to be made. The offer is not taken in."""
        row = self._rows.get((offer.agent_id, offer.role))
        if row is not None:
            return row, False
        row = self._new_row(offer)
        self._learn(row, offer)
        return row, True

    def close_row(self, row: LeasedRow) -> None:
        """Undoes `open_row`."""
        del self._rows[row.agent_id, row.role]
        roles = self._roles[row.agent_id]
        roles.remove(row.role)
        if not roles:
            del self._roles[row.agent_id]
        self._unlist(row)
        self.table.free_row(row)

    def count_offers(self, agent_id: str, step: int) -> None:
        """So many more offers of an agent are counted, or less."""
        number = self._offered.get(agent_id, 0) + step
        if number:
            self._offered[agent_id] = number
        else:
            self._offered.pop(agent_id, None)

    def _new_row(self, offer: Offer) -> LeasedRow:
        row = self.table.new_row(lambda number: LeasedRow(number, offer, self._layouts, self.rooms, self.holds))
        row.totals = self._totals.get(offer.agent_id, (0, 0))
        self._rows[offer.agent_id, offer.role] = row
        self._roles.setdefault(offer.agent_id, []).append(offer.role)
        self._keys.setdefault(row.key, []).append(row)
        return row

    def _learn(self, row: LeasedRow, offer: Offer) -> None:
        """Takes over the static facts of an offer, mostly the same ones as before."""
        if offer.key != row.key:
            self._unlist(row)
            row.key = offer.key
            self._keys.setdefault(row.key, []).append(row)
        facts = (offer.hostname, offer.ip, any(known.unavailable_from > 0 for known in row.offers.values()))
        overrides = self._overrides.get(row.key, _PLAIN)
        if (
            row.attributes
            and facts == (row.hostname, row.ip, row.unavailable)
            and overrides is row.overrides
            and (offer.attributes is row.own or offer.attributes == row.own)
        ):
            return
        row.hostname, row.ip, row.unavailable = facts
        row.own = offer.attributes
        self._override(row, overrides)

    def _override(self, row: LeasedRow, overrides: AgentOverrides) -> None:
        row.overrides = overrides
        row.attributes = {**row.own, **overrides.attributes, "hostname": row.hostname}
        if row.allocations:  # planned taskgroups may not be allowed on the agent any more
            row.allocations.clear()
            self.table.amounts_changed(row)
        self.table.static_changed(row)

    def _unlist(self, row: LeasedRow) -> None:
        rows = self._keys[row.key]
        rows.remove(row)
        if not rows:
            del self._keys[row.key]


def _emptiness(offer: Offer, totals: tuple[int, int]) -> int:
    """Returns the score of the resources of the offer (offers.matching.table.Row.score)."""
    score = 0
    for resource_key, amount in offer.scalars:
        if resource_key.name in ("cpus", "mem"):
            score += amount * SCORE_UNIT // max(totals[resource_key.name == "mem"], amount, 1)
    return score
