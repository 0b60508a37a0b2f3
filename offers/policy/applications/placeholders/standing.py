"""Nominations of placeholders in standing capacity: their room counts as used until a unit of the gang claims the room.
A nomination ends with its time, with its agent, and when other programs have used the room."""

from __future__ import annotations

from collections import Counter

from offers.dimensions import Amounts
from offers.policy.applications.placeholders.backend import NotFound, Refused
from offers.policy.applications.placeholders.forms import Nominate, Operation, WithdrawNomination
from offers.standing.model import Nomination, UnitClaim
from offers.standing.pool import StandingPool


class StandingRoom:
    """Carries out the operations of `forms.Nominations` in a pool of standing capacity."""

    def __init__(self, pool: StandingPool) -> None:
        self._pool = pool
        self._until: dict[str, float] = {}
        """Placeholders with the Unix seconds until which their room is promised, the oldest first."""

    def send(self, operation: Operation) -> None:
        """Carries out one operation. A repeated promise gets another time. Raises Refused for an agent that does not
        exist, NotFound for a promise that has ended, and TypeError for operations of other forms."""
        match operation:
            case Nominate(placeholder=name, node=node, request=request, until=until):
                if self._pool.row(node) is None:
                    raise Refused(f"agent {node} does not exist")
                self._until[name] = until
                self._pool.nominate(Nomination(name, node, request))
            case WithdrawNomination(placeholder=name):
                if self._until.pop(name, None) is None:
                    raise NotFound
                self._pool.usage.withdraw(name)
            case _:
                raise TypeError(f"{type(operation).__name__} is not an operation of nominations")

    def take(self, placeholder: str, unit: str, amounts: Amounts) -> UnitClaim | None:
        """The room of a placeholder becomes the claim of a unit, in one step. None if the room is not promised any
        more, or if the unit has a claim or a place; the promise ends in each case."""
        usage = self._pool.usage
        promise = usage.nominations.get(placeholder)
        known = self._until.pop(placeholder, None) is not None
        usage.withdraw(placeholder)
        if promise is None or not known or unit in usage.allocations or unit in usage.users:
            return None
        return usage.assume(unit, promise.node, amounts, promise.ports)

    def lost(self, now: float) -> list[str]:
        """Ends the promises that cannot be kept, and returns their placeholders: their time is over, their agent is
        gone, or others use the room; then the newest promises of the agent go first. `now`: Unix seconds."""
        usage, found = self._pool.usage, list[str]()
        for name, until in reversed(list(self._until.items())):
            promise = usage.nominations.get(name)
            if promise is None or until <= now or not self._is_there(promise.node):
                del self._until[name]
                usage.withdraw(name)
                found.append(name)
        return found

    def _is_there(self, node: str) -> bool:
        """The agent has the room of all promises of placeholders, without room that is reserved for other reasons."""
        free, row = self._pool.free(node), self._pool.row(node)
        if free is None or row is None:
            return False
        left = Counter(dict(free))
        left.update(row.promised())
        for name in self._until:
            promise = self._pool.usage.nominations.get(name)
            if promise is not None and promise.node == node:
                left.subtract(dict(promise.amounts))
        return all(amount >= 0 for amount in left.values())
