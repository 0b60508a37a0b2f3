"""The resources that units hold on agents.

Every unit is counted exactly once: as a user where it was seen; else by its claim; else by its hold. One function has
this rule (`_counted_as`), and every change goes through `_recount`, so a use and a claim of the same unit can never
be counted together. The order of the report of the unit and of the answer to the request does not matter.

    match            sent              answered          seen on an agent
    ------> ASSUMED ------> SENT ----------------> ANSWERED ---------------> used
               |              |                       |
               |  forget      |  denied (certain)     |  denied, gone, seen elsewhere
               v              v                       v
             nothing       nothing                 nothing

No claim ends by time. A unit whose request has left, and that has not been seen, is asked for (`due`) until an answer
comes. An answer names the decision that it is about, so the late answer to an earlier request for the unit does not end
the claim of a later one.

Uses are kept by the name of the agent, whether the agent is known or not: a unit may be seen before its agent, and an
agent may come back.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable, Mapping
from enum import Enum
from typing import NamedTuple

from offers.dimensions import Amounts
from offers.dimensions import amounts as amounts_in_order
from offers.errors import AlreadyAllocated, FactsDuringPlan
from offers.host_ports import HostPort
from offers.ledger.holds import Cause, Holds
from offers.model import Provisional, ResourceRequest, Site, Unit
from offers.resources import PORTS, requested


class User(NamedTuple):
    """A unit that was seen on an agent. It uses its amounts until it is gone, however it ends."""

    unit: str
    node: str
    amounts: Amounts
    ports: tuple[HostPort, ...] = ()
    ours: bool = True
    """False: another program placed the unit, and this scheduler must not end it."""
    terminating: bool = False
    """True if the unit has been asked to end."""


class Sending(Enum):
    """The progress of a claim on its way to the cluster manager."""

    ASSUMED = "assumed"
    """The match has made it; nothing has left."""
    SENT = "sent"
    """The request has left. Only the cluster manager knows whether it was carried out."""
    ANSWERED = "answered"
    """The cluster manager has agreed. The unit has not been seen yet."""


class UnitClaim(NamedTuple):
    """The resources that a unit is going to use on an agent. `decision` distinguishes successive claims of one unit."""

    unit: Unit
    node: str
    amounts: Amounts
    ports: tuple[HostPort, ...]
    decision: int
    sending: Sending = Sending.ASSUMED
    asked_at: float = 0.0
    """Unix time at which the request left, or at which the unit was asked for last; 0.0 = nothing has left."""


class Kind(Enum):
    """The ways in which the resources of a unit are counted."""

    OURS = "ours"
    FOREIGN = "foreign"
    TERMINATING = "terminating"
    """A unit of this scheduler or of another program that still exists and is ending."""
    CLAIMED = "claimed"
    HELD = "held"


class Holding(NamedTuple):
    """The resources that one unit holds, and the agent on which it holds them."""

    kind: Kind
    node: str
    amounts: Amounts
    ports: tuple[HostPort, ...]


ANY_ROLE = "*"
"""The role of units whose agents are not divided by roles."""


class AgentUse:
    """The resources that are held on one agent."""

    __slots__ = ("by_kind", "ports", "total", "units")

    def __init__(self) -> None:
        self.units = 0
        self.total: dict[str, int] = {}
        """Amounts by dimension, all kinds together, without zeros."""
        self.by_kind: dict[Kind, dict[str, int]] = {}
        self.ports: dict[int, Counter[HostPort]] = {}
        """Ports by number, with how many units hold each: others may have given one away twice."""

    def count(self, holding: Holding, step: int) -> None:
        """Adds (1) or removes (-1) the holding of a unit."""
        self.units += step
        part = self.by_kind.setdefault(holding.kind, {})
        for name, amount in holding.amounts:
            _add(self.total, name, step * amount)
            _add(part, name, step * amount)
        if not part:
            del self.by_kind[holding.kind]
        for port in holding.ports:
            same = self.ports.setdefault(port.port, Counter())
            same[port] += step
            if not same[port]:
                del same[port]
                if not same:
                    del self.ports[port.port]

    def conflicts(self, port: HostPort) -> bool:
        """Returns True if a unit holds a port that cannot be held beside this one."""
        return any(port.conflicts(other) for other in self.ports.get(port.port, ()))


EMPTY = AgentUse()
"""The use of agents on which nothing is held. Must not be changed."""


def _add(sums: dict[str, int], name: str, amount: int) -> None:
    total = sums.get(name, 0) + amount
    if total:
        sums[name] = total
    else:
        sums.pop(name, None)


class Usage:
    """Kept by one thread. `changed` is called with each agent and role on which something else is held than before, but
    for claims that the matcher makes: it accounts for these itself."""

    def __init__(self, changed: Callable[[Site], None] = lambda site: None) -> None:
        self._changed = changed
        self.holds = Holds(self._held)
        """Holds of units. Everything about them is asked of it; they begin and end there, or by facts of the units."""
        self._users: dict[str, User] = {}
        self._claims: dict[Unit, UnitClaim] = {}
        self._counted: dict[Unit, Holding] = {}
        self._agents: dict[str, AgentUse] = {}
        self._units: dict[str, dict[Unit, None]] = {}
        """The units that something is counted of, by agent."""
        self._in_flight: OrderedDict[Unit, None] = OrderedDict()
        """Units whose request has left, those that were asked for longest ago first."""
        self._aside: frozenset[Unit] = frozenset()
        self._decisions = 0

    # --- held resources ---------------------------------------------------------------------------------------

    @property
    def users(self) -> Mapping[str, User]:
        """Units that are known to exist, by their names."""
        return self._users

    @property
    def claims(self) -> Mapping[Unit, UnitClaim]:
        """Claims by unit: decisions of this scheduler that the cluster does not show yet."""
        return self._claims

    @property
    def counted(self) -> Mapping[Unit, Holding]:
        """The holdings that are counted, by unit."""
        return self._counted

    def on(self, node: str) -> AgentUse:
        """Returns the resources that are held on an agent; the agent need not be known."""
        return self._agents.get(node, EMPTY)

    def counted_on(self, node: str) -> dict[Unit, Holding]:
        """Returns the counted holdings on an agent, by unit; the agent need not be known."""
        return {unit: self._counted[unit] for unit in self._units.get(node, ())}

    def agents(self) -> list[str]:
        """Names of the agents on which anything is held."""
        return list(self._agents)

    # --- facts ------------------------------------------------------------------------------------------------

    def seen(self, user: User) -> bool:
        """A unit is on an agent, or has changed there. Its claim or hold ends in the same step, on whichever
        agent. True if the unit had a claim."""
        self._check()
        self._users[user.unit] = user
        claimed = self._drop(user.unit)
        self._recount(user.unit)
        self.holds.drop(user.unit)
        return claimed

    def gone(self, unit: str) -> bool:
        """A unit does not exist any more. True if anything was counted of it."""
        self._check()
        known = unit in self._counted
        self._users.pop(unit, None)
        self._drop(unit)
        self._recount(unit)
        self.holds.drop(unit)
        return known

    def all_seen(self, users: Iterable[User]) -> None:
        """Takes the whole list of units on agents. Known users that are not in the list are removed; claims stay,
        because a claimed unit need not be on an agent yet."""
        self._check()
        listed = {user.unit: user for user in users}
        for unit in [unit for unit in self._users if unit not in listed]:
            self.gone(unit)
        for unit, user in listed.items():
            if self._users.get(unit) != user:
                self.seen(user)

    # --- claims -----------------------------------------------------------------------------------------------

    def assume(self, unit: Unit, node: str, amounts: Amounts, ports: tuple[HostPort, ...] = ()) -> UnitClaim:
        """Claims room for a unit that is going to be placed. Raises AlreadyAllocated, and changes nothing, if the unit
        has a claim or a place."""
        if unit in self._claims or unit in self._users:
            raise AlreadyAllocated(str(unit))
        self._decisions += 1
        claim = self._claims[unit] = UnitClaim(unit, node, amounts, ports, self._decisions)
        self._recount(unit, notify=False)
        return claim

    def rename(self, provisional: Provisional, unit: str) -> UnitClaim | None:
        """Gives a claim the name of its unit. None if there is no such claim, or if the unit has a claim or a place
        already; in the second case the claim is given back."""
        self._check()
        claim = self._claims.get(provisional)
        if claim is None:
            return None
        self.forget(provisional)
        if unit in self._claims or unit in self._users:
            return None
        claim = self._claims[unit] = claim._replace(unit=unit)
        self._recount(unit)
        return claim

    def forget(self, unit: Unit) -> bool:
        """Gives back a claim whose request has not left. False if there is none; claims whose request has left are
        kept."""
        claim = self._claims.get(unit)
        if claim is None or claim.sending is not Sending.ASSUMED:
            return False
        self._drop(unit)
        self._recount(unit)
        return True

    def sent(self, unit: str, now: float) -> bool:
        """The request of a claim leaves now (Unix seconds). False if it must not leave: there is no such claim, or its
        request has left already."""
        claim = self._claims.get(unit)
        if claim is None or claim.sending is not Sending.ASSUMED:
            return False
        self._claims[unit] = claim._replace(sending=Sending.SENT, asked_at=now)
        self._in_flight[unit] = None
        return True

    def answered(self, unit: str, decision: int) -> bool:
        """The cluster manager has agreed. False if that is about no present claim."""
        claim = self._about(unit, decision)
        if claim is not None:
            self._claims[unit] = claim._replace(sending=Sending.ANSWERED)
        return claim is not None

    def denied(self, unit: str, decision: int) -> bool:
        """The unit certainly has no place by this decision: the cluster manager has refused the request, or does not
        know the unit. False if no present claim is concerned."""
        self._check()
        claim = self._about(unit, decision)
        if claim is not None:
            self._drop(unit)
            self._recount(unit)
        return claim is not None

    def confirmed(self, user: User, decision: int) -> bool:
        """Records that the cluster manager has the unit, in answer to a question: like `seen`, but only for a present
        claim. Such an answer may be older than later reports, so it must not bring back a unit that is gone. Returns
        False if there is no such claim."""
        known = self._about(user.unit, decision) is not None
        if known:
            self.seen(user)
        return known

    def unknown(self, unit: str, decision: int) -> bool:
        """The outcome of the request is not known: the unit is to be asked for at once, and the claim stays. False if
        no present claim is concerned."""
        claim = self._about(unit, decision)
        if claim is not None:
            self._claims[unit] = claim._replace(asked_at=float("-inf"))
            self._in_flight[unit] = None
            self._in_flight.move_to_end(unit, last=False)
        return claim is not None

    def due(self, now: float, timeout: float) -> list[UnitClaim]:
        """Claims whose units are to be asked for now: their requests have left, or were asked for, at least `timeout`
        seconds ago. They are due again after as long; `now` must not go back."""
        overdue: list[UnitClaim] = []
        for unit in self._in_flight:
            claim = self._claims[unit]
            if claim.asked_at + timeout > now:
                break
            overdue.append(claim)
        for claim in overdue:
            self._in_flight.move_to_end(claim.unit)
            self._claims[claim.unit] = claim._replace(asked_at=now)
        return overdue

    # --- holds ------------------------------------------------------------------------------------------------

    def hold(self, unit: str, cause: Cause, site: Site, request: ResourceRequest) -> bool:
        """Room is kept for a unit; an earlier hold of the unit ends. False if it has a place already."""
        self._check()
        if unit in self._users:
            return False
        self.holds.add(unit, cause, site, request)
        return True

    def release(self, unit: str) -> bool:
        """No room is kept for the unit any more; False if there was none."""
        self._check()
        known = unit in self.holds
        self.holds.drop(unit)
        return known

    def _held(self, unit: Unit, site: Site) -> None:
        self._recount(unit, notify=False)
        self._changed(site)

    # --- as if some were gone ---------------------------------------------------------------------------------

    def set_aside(self, units: Iterable[Unit]) -> frozenset[Unit]:
        """Stops counting these units until `put_back`, for plans without them. Returns the units that were not set
        aside before. Until then no fact may change; claims of a plan may be made and forgotten."""
        more = frozenset(units) - self._aside
        self._aside |= more
        for unit in more:
            self._recount(unit)
        return more

    def put_back(self, units: frozenset[Unit]) -> None:
        """Counts these units again, which one call of `set_aside` has returned."""
        self._aside -= units
        for unit in units:
            self._recount(unit)

    # --- one rule ---------------------------------------------------------------------------------------------

    def _counted_as(self, unit: Unit) -> Holding | None:
        """The one thing that is counted of a unit; None = nothing."""
        if unit in self._aside:
            return None
        if isinstance(unit, str):
            user = self._users.get(unit)
            if user is not None:
                kind = Kind.TERMINATING if user.terminating else Kind.OURS if user.ours else Kind.FOREIGN
                return Holding(kind, user.node, user.amounts, user.ports)
        claim = self._claims.get(unit)
        if claim is not None:
            return Holding(Kind.CLAIMED, claim.node, claim.amounts, claim.ports)
        hold = self.holds.get(unit)
        if hold is None:
            return None
        named = requested(hold.request)
        del named[PORTS]
        return Holding(Kind.HELD, hold.site[0], amounts_in_order(named), hold.request.named_ports)

    def _recount(self, unit: Unit, *, notify: bool = True) -> None:
        """Brings the counted amounts of a unit up to date."""
        before, now = self._counted.get(unit), self._counted_as(unit)
        if before == now:
            return
        if before is not None:
            del self._counted[unit]
            use = self._agents[before.node]
            use.count(before, -1)
            del self._units[before.node][unit]
            if not use.units:
                del self._agents[before.node]
                del self._units[before.node]
        if now is not None:
            self._counted[unit] = now
            self._agents.setdefault(now.node, AgentUse()).count(now, 1)
            self._units.setdefault(now.node, {})[unit] = None
        if notify:
            for node in {holding.node for holding in (before, now) if holding is not None}:
                self._changed((node, ANY_ROLE))

    def _about(self, unit: str, decision: int) -> UnitClaim | None:
        claim = self._claims.get(unit)
        return claim if claim is not None and claim.decision == decision else None

    def _drop(self, unit: Unit) -> bool:
        self._in_flight.pop(unit, None)
        return self._claims.pop(unit, None) is not None

    def _check(self) -> None:
        if self._aside:
            raise FactsDuringPlan
