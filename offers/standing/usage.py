"""Who holds what on which agent.

Every unit is counted exactly once: as a user where it was seen; else by its claim; else by its nomination. That rule
is one function (`_counted_as`), and every change goes through `_recount`, so a use and a claim of the same unit can
never be counted together, whatever comes first: that the unit was seen, or the answer to the request.

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

from offers.dimensions import Amounts
from offers.errors import AlreadyClaimed, FactsDuringPlan
from offers.hostports import HostPort
from offers.standing.model import Holding, Kind, Nomination, Provisional, Sending, Unit, UnitClaim, User


class AgentUse:
    """What is held on one agent."""

    __slots__ = ("by_kind", "ports", "total", "units")

    def __init__(self) -> None:
        self.units = 0
        self.total: dict[str, int] = {}
        """Amounts by dimension, all kinds together, without zeros."""
        self.by_kind: dict[Kind, dict[str, int]] = {}
        self.ports: dict[int, Counter[HostPort]] = {}
        """Ports by number, with how many units hold each: others may have given one away twice."""

    def count(self, holding: Holding, step: int) -> None:
        """Adds (1) or removes (-1) what a unit holds."""
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
        """Whether somebody holds a port that cannot be held beside this one."""
        return any(port.conflicts(other) for other in self.ports.get(port.port, ()))


EMPTY = AgentUse()
"""Of agents on which nothing is held. Not to be changed."""


def _add(sums: dict[str, int], name: str, amount: int) -> None:
    total = sums.get(name, 0) + amount
    if total:
        sums[name] = total
    else:
        sums.pop(name, None)


class Usage:
    """Kept by one thread. `changed` is called with the name of each agent on which something else is held than before,
    but for claims that the matcher makes: it accounts for these itself."""

    def __init__(self, changed: Callable[[str], None] = lambda node: None) -> None:
        self._changed = changed
        self._users: dict[str, User] = {}
        self._claims: dict[Unit, UnitClaim] = {}
        self._nominations: dict[str, Nomination] = {}
        self._counted: dict[Unit, Holding] = {}
        self._agents: dict[str, AgentUse] = {}
        self._in_flight: OrderedDict[Unit, None] = OrderedDict()
        """Units whose request has left, those that were asked for longest ago first."""
        self._aside: frozenset[Unit] = frozenset()
        self._decisions = 0

    # --- what is held -----------------------------------------------------------------------------------------

    @property
    def users(self) -> Mapping[str, User]:
        return self._users

    @property
    def claims(self) -> Mapping[Unit, UnitClaim]:
        return self._claims

    @property
    def nominations(self) -> Mapping[str, Nomination]:
        return self._nominations

    @property
    def counted(self) -> Mapping[Unit, Holding]:
        """What is counted of each unit."""
        return self._counted

    def on(self, node: str) -> AgentUse:
        """What is held on an agent, known or not."""
        return self._agents.get(node, EMPTY)

    def agents(self) -> list[str]:
        """Names of the agents on which anything is held."""
        return list(self._agents)

    # --- facts ------------------------------------------------------------------------------------------------

    def seen(self, user: User) -> bool:
        """A unit is on an agent, or something about it has changed. What was claimed or kept for it ends in the same
        step, wherever that was. True if it had a claim."""
        self._check()
        self._users[user.unit] = user
        claimed = self._drop(user.unit)
        self._nominations.pop(user.unit, None)
        self._recount(user.unit)
        return claimed

    def gone(self, unit: str) -> bool:
        """A unit does not exist any more. True if anything was counted of it."""
        self._check()
        known = unit in self._counted
        self._users.pop(unit, None)
        self._drop(unit)
        self._nominations.pop(unit, None)
        self._recount(unit)
        return known

    def all_seen(self, users: Iterable[User]) -> None:
        """The whole list of units on agents. Users that are not in it are gone; claims are not touched, because a unit
        that is claimed need not be on an agent yet."""
        self._check()
        listed = {user.unit: user for user in users}
        for unit in [unit for unit in self._users if unit not in listed]:
            self.gone(unit)
        for unit, user in listed.items():
            if self._users.get(unit) != user:
                self.seen(user)

    # --- claims -----------------------------------------------------------------------------------------------

    def assume(self, unit: Unit, node: str, amounts: Amounts, ports: tuple[HostPort, ...] = ()) -> UnitClaim:
        """A unit is going to be placed. Raises AlreadyClaimed if it has a claim or a place; then nothing changes."""
        if unit in self._claims or unit in self._users:
            raise AlreadyClaimed(str(unit))
        self._decisions += 1
        claim = self._claims[unit] = UnitClaim(unit, node, amounts, ports, self._decisions)
        self._recount(unit, tell=False)
        return claim

    def rename(self, provisional: Provisional, unit: str) -> UnitClaim | None:
        """The claim gets the name of its unit. None if there is no such claim, or if the unit has one or a place
        already: then the claim is given back."""
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
        """A claim is given back of which nothing has left. False if there is none; claims whose request has left are
        kept."""
        claim = self._claims.get(unit)
        if claim is None or claim.sending is not Sending.ASSUMED:
            return False
        self._drop(unit)
        self._recount(unit)
        return True

    def sent(self, unit: str, now: float) -> bool:
        """The request of a claim leaves at this Unix time. False if it must not leave: there is no such claim (any
        more), or its request has left already."""
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
        """It is certain that the unit has no place by this decision: the request was refused, or the cluster manager
        was asked and does not have it. False if that is about no present claim."""
        self._check()
        claim = self._about(unit, decision)
        if claim is not None:
            self._drop(unit)
            self._recount(unit)
        return claim is not None

    def confirmed(self, user: User, decision: int) -> bool:
        """The cluster manager was asked and has the unit: as `seen`, but only if that is about a present claim. Such an
        answer may be older than what has been seen since; it must not bring back a unit that is gone. False if that is
        about no present claim."""
        known = self._about(user.unit, decision) is not None
        if known:
            self.seen(user)
        return known

    def unknown(self, unit: str, decision: int) -> bool:
        """The fate of the request is not known: the unit is due to be asked for at once. The claim stays. False if that
        is about no present claim."""
        claim = self._about(unit, decision)
        if claim is not None:
            self._claims[unit] = claim._replace(asked_at=float("-inf"))
            self._in_flight[unit] = None
            self._in_flight.move_to_end(unit, last=False)
        return claim is not None

    def due(self, now: float, timeout: float) -> list[UnitClaim]:
        """Claims whose units are to be asked for now: their requests have left, or were asked for, at least `timeout`
        seconds ago. They are due again after as long; `now` must not go back."""
        found: list[UnitClaim] = []
        for unit in self._in_flight:
            claim = self._claims[unit]
            if claim.asked_at + timeout > now:
                break
            found.append(claim)
        for claim in found:
            self._in_flight.move_to_end(claim.unit)
            self._claims[claim.unit] = claim._replace(asked_at=now)
        return found

    # --- nominations ------------------------------------------------------------------------------------------

    def nominate(self, nomination: Nomination) -> bool:
        """Room is kept for a unit; an earlier nomination of the unit is replaced. False if it has a place already."""
        self._check()
        if nomination.unit in self._users:
            return False
        self._nominations[nomination.unit] = nomination
        self._recount(nomination.unit)
        return True

    def withdraw(self, unit: str) -> bool:
        """No room is kept for the unit any more; False if there was none."""
        self._check()
        found = self._nominations.pop(unit, None) is not None
        self._recount(unit)
        return found

    # --- as if some were gone ---------------------------------------------------------------------------------

    def set_aside(self, units: Iterable[Unit]) -> None:
        """Counts everything but these units until `put_back`: for plans of what could be placed if they were gone.
        Meanwhile no fact may change; claims of a plan can be made and forgotten. Raises FactsDuringPlan if some are set
        aside already."""
        self._check()
        self._aside = frozenset(units)
        for unit in self._aside:
            self._recount(unit)

    def put_back(self) -> None:
        """Counts everything again."""
        aside, self._aside = self._aside, frozenset()
        for unit in aside:
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
        nomination = self._nominations.get(unit) if isinstance(unit, str) else None
        if nomination is not None:
            return Holding(Kind.NOMINATED, nomination.node, nomination.amounts, nomination.ports)
        return None

    def _recount(self, unit: Unit, *, tell: bool = True) -> None:
        """Brings what is counted of a unit up to date."""
        before, now = self._counted.get(unit), self._counted_as(unit)
        if before == now:
            return
        if before is not None:
            del self._counted[unit]
            use = self._agents[before.node]
            use.count(before, -1)
            if not use.units:
                del self._agents[before.node]
        if now is not None:
            self._counted[unit] = now
            self._agents.setdefault(now.node, AgentUse()).count(now, 1)
        if tell:
            for node in {holding.node for holding in (before, now) if holding is not None}:
                self._changed(node)

    def _about(self, unit: str, decision: int) -> UnitClaim | None:
        claim = self._claims.get(unit)
        return claim if claim is not None and claim.decision == decision else None

    def _drop(self, unit: Unit) -> bool:
        self._in_flight.pop(unit, None)
        return self._claims.pop(unit, None) is not None

    def _check(self) -> None:
        if self._aside:
            raise FactsDuringPlan
