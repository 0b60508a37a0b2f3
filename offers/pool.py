"""The live offers, grouped per agent and role, and what operators set about their agents.

One thread changes the pool; `offers` may be called from any thread.
"""

from __future__ import annotations

from offers.constraints import Rules
from offers.eligibility import Eligibility
from offers.model import Claim, Decoration, Offer
from offers.table import Row, Table

_PLAIN = Decoration()
_REMEMBERED = 512
"""How many versions' fixed tests are kept; each takes about 10 bytes per agent."""


class OfferPool:
    """Offers by agent. Agents are known by their id: two agents on one host do not disturb each other.

    What a pass has placed stays deducted, as claims, until the offers of the agent are taken for the ACCEPT. Claims are
    void when an offer of the agent goes or when the facts about the agent change.
    """

    def __init__(self) -> None:
        self.table = Table()
        self._offers: dict[str, Offer] = {}
        self._rows: dict[tuple[str, str], Row] = {}
        self._roles: dict[str, list[str]] = {}
        self._keys: dict[str, list[Row]] = {}
        self._decorations: dict[str, Decoration] = {}
        self._totals: dict[str, tuple[int, int]] = {}
        self._eligibilities: dict[tuple[Rules, str], Eligibility] = {}

    def __len__(self) -> int:
        """Number of offers."""
        return len(self._offers)

    @property
    def agents(self) -> int:
        """Number of agents with offers."""
        return len({offer.agent_id for offer in list(self._offers.values())})

    # --- offers -----------------------------------------------------------------------------------------------

    def add(self, offer: Offer) -> None:
        """Takes in an offer; one of the same id is replaced."""
        if offer.id in self._offers:
            self.rescind(offer.id)
        row = self._rows.get((offer.agent_id, offer.role)) or self._new_row(offer)
        row.offers[offer.id] = offer
        self._offers[offer.id] = offer
        self._learn(row, offer)
        self.table.amounts_changed(row)

    def rescind(self, offer_id: str) -> bool:
        """Forgets an offer; False if it is not (any more) in the pool."""
        offer = self._offers.pop(offer_id, None)
        if offer is None:
            return False
        row = self._rows[offer.agent_id, offer.role]
        del row.offers[offer_id]
        row.claims.clear()
        self.table.amounts_changed(row)
        return True

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
            taken.extend(self._offers.pop(offer_id) for offer_id in row.offers)
            row.offers.clear()
            row.claims.clear()
            self.table.amounts_changed(row)
        return taken

    def expire(self, now: float, age: float) -> list[Offer]:
        """Removes and returns offers that were received `age` seconds ago or earlier, but for those with claims."""
        old = [offer for offer in self._offers.values() if offer.received_at + age <= now and not self._claimed(offer)]
        for offer in old:
            self.rescind(offer.id)
        return old

    def _claimed(self, offer: Offer) -> bool:
        return bool(self._rows[offer.agent_id, offer.role].claims)

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
        """Forgets all offers and agents, as after a new subscription; decorations stay."""
        self.table = Table()
        self._offers = {}
        self._rows = {}
        self._roles = {}
        self._keys = {}
        self._totals = {}
        self._eligibilities = {}

    def offers(self) -> list[Offer]:
        """A snapshot of the offers, emptiest agent first. Safe to call from any thread."""
        offers = list(self._offers.values())
        rows, scores = self._rows, self.table.score

        def emptiness(offer: Offer) -> int:
            row = rows.get((offer.agent_id, offer.role))
            return int(scores[row.number]) if row is not None and row.number < len(scores) else 0

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
        self._totals[agent_id] = (cpus, mem)
        for role in self._roles.get(agent_id, ()):
            row = self._rows[agent_id, role]
            row.totals = (max(row.totals[0], cpus), max(row.totals[1], mem))
            self.table.amounts_changed(row)

    def rows_of(self, agent_id: str) -> list[Row]:
        """The rows of an agent, one per role in which it has ever been offered."""
        return [self._rows[agent_id, role] for role in self._roles.get(agent_id, ())]

    def eligibility(self, rules: Rules, role: str) -> Eligibility:
        """The fixed tests of a version for offers of a role, for all rows; remembered while they stay true."""
        found = self._eligibilities.get((rules, role))
        if found is None or found.statics != self.table.statics:
            if len(self._eligibilities) >= _REMEMBERED:
                self._eligibilities.clear()
            found = self._eligibilities[rules, role] = Eligibility(self.table, rules, role)
        return found

    def _new_row(self, offer: Offer) -> Row:
        row = self.table.new_row(offer)
        row.totals = self._totals.get(offer.agent_id, (0, 0))
        self._rows[offer.agent_id, offer.role] = row
        self._roles.setdefault(offer.agent_id, []).append(offer.role)
        self._keys.setdefault(row.key, []).append(row)
        return row

    def _learn(self, row: Row, offer: Offer) -> None:
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

    def _decorate(self, row: Row, decoration: Decoration) -> None:
        row.decoration = decoration
        row.attributes = {**row.own, **decoration.attributes, "hostname": row.hostname}
        if row.claims:  # what is planned may not be allowed on the agent any more
            row.claims.clear()
            self.table.amounts_changed(row)
        self.table.static_changed(row)

    def _unlist(self, row: Row) -> None:
        rows = self._keys[row.key]
        rows.remove(row)
        if not rows:
            del self._keys[row.key]
