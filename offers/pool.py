"""The live offers, grouped per agent and role, and what operators set about their agents.

One thread changes the pool; `offers` may be called from any thread.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from offers.constraints import Rules
from offers.eligibility import Eligibilities, Eligibility
from offers.leased import Layouts, LeasedDrawer, LeasedRow
from offers.model import Claim, Decoration, Demand, Offer
from offers.resources import SCALARS
from offers.table import SCORE_UNIT, Table

_PLAIN = Decoration()
_SLACK = 1024
"""Entries of the heap of ages that may be without an offer, beside as many as there are offers."""
_POSTPONED = 1.0
"""Seconds until an offer that was due while it had claims is looked at again."""


class OfferPool:
    """Offers by agent. Agents are known by their id: two agents on one host do not disturb each other.

    What a pass has placed stays deducted, as claims, until the offers of the agent are taken for the ACCEPT. Claims are
    void when an offer of the agent goes or when the facts about the agent change.
    """

    def __init__(self) -> None:
        self.table = Table()
        self._layouts: Layouts = {}
        self._offers: dict[str, Offer] = {}
        self._ages: list[tuple[float, int, str]] = []
        """A heap of (received at, serial number, offer id). Entries of offers that are gone stay until they are due."""
        self._postponed: list[tuple[float, int, str]] = []
        """Entries whose offers were due while they had claims."""
        self._again_at = 0.0
        self._serial = 0
        self._offered: dict[str, int] = {}
        """Number of offers by agent."""
        self._rows: dict[tuple[str, str], LeasedRow] = {}
        self._roles: dict[str, list[str]] = {}
        self._keys: dict[str, list[LeasedRow]] = {}
        self._decorations: dict[str, Decoration] = {}
        self._totals: dict[str, tuple[int, int]] = {}
        self._eligibilities = Eligibilities()

    def __len__(self) -> int:
        """Number of offers."""
        return len(self._offers)

    @property
    def agents(self) -> int:
        """Number of agents with offers."""
        return len(self._offered)

    # --- offers -----------------------------------------------------------------------------------------------

    def add(self, offer: Offer) -> None:
        """Takes in an offer; one of the same id is replaced."""
        if offer.id in self._offers:
            self.rescind(offer.id)
        row = self._rows.get((offer.agent_id, offer.role)) or self._new_row(offer)
        row.offers[offer.id] = offer
        self._offers[offer.id] = offer
        self._offered[offer.agent_id] = self._offered.get(offer.agent_id, 0) + 1
        self._note_age(offer)
        self._learn(row, offer)
        self.table.amounts_changed(row)
        if offer.agent_id not in self._totals:
            row.work_out()  # the greatest amounts seen stand in for the size of the agent

    def rescind(self, offer_id: str) -> bool:
        """Forgets an offer; False if it is not (any more) in the pool."""
        offer = self._forget(offer_id)
        if offer is None:
            return False
        row = self._rows[offer.agent_id, offer.role]
        del row.offers[offer_id]
        row.claims.clear()
        self._shrunk(row)
        return True

    def room(self, agent_id: str, role: str) -> list[int]:
        """Scalars of all offers of an agent for a role, in the order of SCALARS, claims included: no taskgroup that
        needs more fits there. Zeros if there is no offer."""
        found = dict.fromkeys(SCALARS, 0)
        row = self._rows.get((agent_id, role))
        for offer in row.offers.values() if row is not None else ():
            for pot, amount in offer.scalars:
                if pot.name in found:
                    found[pot.name] += amount
        return list(found.values())

    def claims(self, agent_id: str, role: str) -> list[Claim]:
        """What is deducted from the offers of an agent for placements that have not been launched yet. A placement
        whose claim is not in the list (by identity) has lost its offers."""
        row = self._rows.get((agent_id, role))
        return row.claims if row is not None else []

    def take(self, agent_id: str, role: str | None = None) -> list[Offer]:
        """Removes and returns the offers of an agent, for one ACCEPT (or DECLINE). Mesos refuses an ACCEPT that mixes
        roles; without a role the offers of all roles are taken."""
        taken: list[Offer] = []
        for known in self._roles.get(agent_id, ()) if role is None else (role,):
            row = self._rows.get((agent_id, known))
            if row is None:
                continue
            taken.extend(offer for offer_id in row.offers if (offer := self._forget(offer_id)) is not None)
            row.offers.clear()
            self._shrunk(row)
        return taken

    def expire(self, now: float, age: float, keep: int = 0) -> list[Offer]:
        """Removes and returns offers that were received `age` seconds ago or earlier, the oldest first, but for those
        with claims: these are looked at again a moment later. `keep`: so many offers stay, however old."""
        if self._postponed and now >= self._again_at:
            for entry in self._postponed:
                heapq.heappush(self._ages, entry)
            self._postponed = []
        old: list[Offer] = []
        while self._ages and self._ages[0][0] + age <= now and len(self._offers) > keep:
            entry = heapq.heappop(self._ages)
            offer = self._offers.get(entry[2])
            if offer is None or offer.received_at != entry[0]:
                continue
            if self._rows[offer.agent_id, offer.role].claims:
                if not self._postponed:
                    self._again_at = now + _POSTPONED
                self._postponed.append(entry)
            else:
                self.rescind(offer.id)
                old.append(offer)
        return old

    def _shrunk(self, row: LeasedRow) -> None:
        if row.offers:
            self.table.amounts_changed(row)
        else:
            row.claims.clear()
            self.table.emptied(row)

    def _note_age(self, offer: Offer) -> None:
        self._serial += 1
        heapq.heappush(self._ages, (offer.received_at, self._serial, offer.id))
        if len(self._ages) > 2 * len(self._offers) + _SLACK:
            self._ages = [entry for entry in self._ages if entry[2] in self._offers]
            heapq.heapify(self._ages)

    def _forget(self, offer_id: str) -> Offer | None:
        offer = self._offers.pop(offer_id, None)
        if offer is not None:
            left = self._offered[offer.agent_id] - 1
            if left:
                self._offered[offer.agent_id] = left
            else:
                del self._offered[offer.agent_id]
        return offer

    def remove_agent(self, agent_id: str) -> list[Offer]:
        """Forgets an agent and all that is known about it; returns the offers it had."""
        taken = self.take(agent_id)
        for role in self._roles.pop(agent_id, ()):
            row = self._rows.pop((agent_id, role))
            self._unlist(row)
            self.table.free_row(row)
        self._totals.pop(agent_id, None)
        return taken

    def clear(self) -> None:
        """Forgets all offers, as after a new subscription; decorations and sizes of agents stay."""
        self.table = Table()
        self._offers = {}
        self._ages = []
        self._postponed = []
        self._offered = {}
        self._rows = {}
        self._roles = {}
        self._keys = {}
        self._eligibilities = Eligibilities()

    def copy(self) -> PoolCopy:
        """Takes note of everything the pool holds, so that another pool can be filled with it later."""
        claims = {place: list(row.claims) for place, row in self._rows.items() if row.claims}
        return PoolCopy(list(self._offers.values()), claims, dict(self._decorations), dict(self._totals))

    def offers(self) -> list[Offer]:
        """A snapshot of the offers, emptiest agent first. Safe to call from any thread."""
        offers = list(self._offers.values())
        totals, rows = self._totals, self._rows

        def emptiness(offer: Offer) -> int:
            row = rows.get((offer.agent_id, offer.role))
            return _emptiness(offer, totals.get(offer.agent_id) or (row.totals if row is not None else (0, 0)))

        return sorted(offers, key=emptiness, reverse=True)

    # --- agents -----------------------------------------------------------------------------------------------

    def decorate(self, agent_key: str, decoration: Decoration) -> None:
        """Sets what operators want of the agent(s) with this key, now and in later offers. An empty decoration undoes
        it."""
        if decoration == _PLAIN:
            self._decorations.pop(agent_key, None)
        else:
            self._decorations[agent_key] = decoration
        for row in self._keys.get(agent_key, ()):
            self._decorate(row, decoration)

    def learn_total(self, agent_id: str, cpus: int, mem: int) -> None:
        """Tells the size of a whole agent, in thousandths. Until then the greatest amounts seen in offers stand in."""
        if self._totals.get(agent_id) == (cpus, mem):
            return
        self._totals[agent_id] = (cpus, mem)
        for role in self._roles.get(agent_id, ()):
            row = self._rows[agent_id, role]
            row.totals = (max(row.totals[0], cpus), max(row.totals[1], mem))
            if row.offers:
                self.table.amounts_changed(row)

    def learn_totals(self, totals: Mapping[str, tuple[int, int]]) -> None:
        """`learn_total` for all agents there are; the sizes of others are forgotten."""
        for agent_id, (cpus, mem) in totals.items():
            self.learn_total(agent_id, cpus, mem)
        if len(self._totals) > len(totals):
            self._totals = {agent_id: size for agent_id, size in self._totals.items() if agent_id in totals}

    def rows_of(self, agent_id: str) -> list[LeasedRow]:
        """The rows of an agent, one per role in which it has ever been offered."""
        return [self._rows[agent_id, role] for role in self._roles.get(agent_id, ())]

    def eligibility(self, rules: Rules, role: str) -> Eligibility:
        """The fixed tests of a version for offers of a role, for all rows; remembered while they stay true."""
        return self._eligibilities.of(self.table, rules, role)

    def drawer(self, demand: Demand, wants: Sequence[tuple[int, int]]) -> LeasedDrawer:
        """Takes the need of a demand out of offers."""
        return LeasedDrawer(demand.need, wants)

    def _new_row(self, offer: Offer) -> LeasedRow:
        row = self.table.new_row(lambda number: LeasedRow(number, offer, self._layouts))
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
        decoration = self._decorations.get(row.key, _PLAIN)
        if (
            row.attributes
            and facts == (row.hostname, row.ip, row.unavailable)
            and decoration is row.decoration
            and (offer.attributes is row.own or offer.attributes == row.own)
        ):
            return
        row.hostname, row.ip, row.unavailable = facts
        row.own = offer.attributes
        self._decorate(row, decoration)

    def _decorate(self, row: LeasedRow, decoration: Decoration) -> None:
        row.decoration = decoration
        row.attributes = {**row.own, **decoration.attributes, "hostname": row.hostname}
        if row.claims:  # what is planned may not be allowed on the agent any more
            row.claims.clear()
            self.table.amounts_changed(row)
        self.table.static_changed(row)

    def _unlist(self, row: LeasedRow) -> None:
        rows = self._keys[row.key]
        rows.remove(row)
        if not rows:
            del self._keys[row.key]


class PoolCopy(NamedTuple):
    """What a pool held at one moment."""

    offers: list[Offer]
    claims: dict[tuple[str, str], list[Claim]]
    """By agent and role."""
    decorations: dict[str, Decoration]
    totals: dict[str, tuple[int, int]]

    def into(self, pool: OfferPool, at_once: int) -> Iterator[None]:
        """Fills an empty pool, with so many offers in each step."""
        pool._decorations, pool._totals = self.decorations, self.totals
        for first in range(0, len(self.offers), at_once):
            for offer in self.offers[first : first + at_once]:
                pool.add(offer)
            yield
        for place, claims in self.claims.items():
            row = pool._rows[place]
            row.claims += claims
            pool.table.amounts_changed(row)


def _emptiness(offer: Offer, totals: tuple[int, int]) -> int:
    """The score of what is in the offer (offers.table.Row.score)."""
    score = 0
    for pot, amount in offer.scalars:
        if pot.name in ("cpus", "mem"):
            score += amount * SCORE_UNIT // max(totals[pot.name == "mem"], amount, 1)
    return score
