"""Placeholders that a cluster manager keeps outside of our records: their creation, their removal, and orphans.

`Placeholders` carries out the effects of gangs, and reports to them. It remembers nothing that it could not hear again,
so a new one begins empty and listens. `Nominations` is the form for standing capacity: the room of a placeholder counts
as used until a unit of the gang claims the room. Pure: the caller passes the time, in Unix seconds.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from enum import StrEnum
from math import isfinite
from typing import NamedTuple, Protocol

from offers.dimensions import Amounts
from offers.ledger.holds import NOMINATION_SECONDS, Cause
from offers.ledger.nodes import NodePool
from offers.ledger.usage import ANY_ROLE, UnitClaim
from offers.model import ResourceRequest
from offers.policy.applications.gang import Gang
from offers.policy.applications.records import Create, Effect, Existing, Launch, Release, Traits

REMOVAL_SECONDS = 5.0
"""The time between two attempts to remove a placeholder."""


class Refused(Exception):
    """The cluster manager cannot create a placeholder. The text has the reason."""


class NotFound(Exception):
    """The placeholder that is to be removed does not exist."""


class Backend(Protocol):
    """One form of placeholders. Every operation may be repeated. One that cannot be sent raises an error, and changes
    nothing. `seconds`: for which a placeholder lives without renewal; infinity if it stays."""

    traits: Traits
    seconds: float

    def create(self, spec: Create, until: float) -> None:
        """Requests or renews a placeholder; `until` in Unix seconds. Raises Refused."""

    def remove(self, spec: Create) -> None:
        """Requests the removal of a placeholder. Raises NotFound."""


class Presence(StrEnum):
    """The knowledge about a placeholder. Awaited: requested and not seen; There: it exists; Leaving: its removal is
    requested."""

    AWAITED = "awaited"
    THERE = "there"
    LEAVING = "leaving"


class Tracked(NamedTuple):
    """A placeholder with its presence. `until`: Unix seconds at which it ends without renewal."""

    spec: Create
    presence: Presence
    until: float = float("inf")


class Placeholders:
    """The placeholders of all gangs of one form. A removal is repeated until the placeholder is gone."""

    def __init__(self, backend: Backend, gang_of: Callable[[str], Gang | None]) -> None:
        """`gang_of`: the gang of an application; None if there is none."""
        self._backend, self._gang_of = backend, gang_of
        self.known: dict[str, Tracked] = {}
        """The placeholders that exist or may come to exist, by name."""
        self.removals: dict[str, float] = {}
        """The placeholders that are not gone yet, with the moment of the next attempt in Unix seconds."""
        self.faults: dict[str, str] = {}
        """The last error of each placeholder whose operation could not be sent."""

    def carry_out(self, gang: Gang, effects: Iterable[Effect], now: float) -> None:
        """Carries out the effects of a gang that concern placeholders."""
        for effect in list(effects):
            match effect:
                case Create(placeholder=name):
                    if name not in self.known:
                        present = Presence.AWAITED if self._backend.traits.lasting else Presence.THERE
                        self._request(effect, present, now)
                    if name in self.known and self.known[name].presence is Presence.THERE:
                        gang.bound(name, now)
                case Release(placeholder=name) if name not in self.known:
                    gang.gone(name, now)
                case Release(placeholder=name) if name not in self.removals:
                    self._remove(name, now)
                case Launch(consumes=name) if not self._backend.traits.lasting:
                    self.known.pop(name, None)

    def seen(self, spec: Create, now: float) -> None:
        """A placeholder exists, as its labels describe it. A removal that was requested before is requested again:
        otherwise the placeholder would stay."""
        known = self.known.get(spec.placeholder)
        if known is not None and known.presence is Presence.LEAVING:
            self._backend.remove(spec)
            return
        self.known[spec.placeholder] = Tracked(spec, Presence.THERE)
        gang = self._gang_of(spec.application)
        if gang is not None:
            gang.bound(spec.placeholder, now)

    def lost(self, name: str, now: float) -> None:
        """A placeholder does not exist any more."""
        known = self.known.pop(name, None)
        self.removals.pop(name, None)
        self.faults.pop(name, None)
        gang = self._gang_of(known.spec.application) if known is not None else None
        if gang is not None:
            gang.gone(name, now)

    def existing(self, application: str) -> Iterator[Existing]:
        """The placeholders of an application that exist or may come to exist, for `Gang.adopt`."""
        specs = [known.spec for known in self.known.values() if known.spec.application == application]
        yield from (Existing(spec.placeholder, spec.group, spec.node) for spec in specs)

    def retry(self, now: float) -> None:
        """Renews placeholders, and removes those that no gang knows and those that were not removed."""
        for name, known in list(self.known.items()):
            if name in self.removals:
                continue
            if not self._is_wanted(known.spec):
                self.removals[name] = now
            elif isfinite(known.until) and known.until - now <= self._backend.seconds / 2:
                self._request(known.spec, known.presence, now)
        for name, at in list(self.removals.items()):
            if at <= now:
                self._remove(name, now)

    def next_wake(self) -> float | None:
        """The moment of the next attempt in Unix seconds; None if nothing is to be removed."""
        return min(self.removals.values(), default=None)

    def _is_wanted(self, spec: Create) -> bool:
        """True if the gang has a record of the placeholder, or launches a task that consumes it."""
        gang, name = self._gang_of(spec.application), spec.placeholder
        if gang is None:
            return False
        return name in gang.placeholders or any(member.placeholder == name for member in gang.members.values())

    def _request(self, spec: Create, presence: Presence, now: float) -> None:
        name, until = spec.placeholder, now + self._backend.seconds
        try:
            self._backend.create(spec, until)
        except Refused:
            gang = self._gang_of(spec.application)
            if gang is not None:
                gang.creation_failed(name, now)
        except Exception as error:
            self.faults[name] = f"{type(error).__name__}: {error}"
        else:
            self.faults.pop(name, None)
            self.known[name] = Tracked(spec, presence, until)

    def _remove(self, name: str, now: float) -> None:
        self.removals[name] = now + REMOVAL_SECONDS
        known = self.known[name]
        try:
            self._backend.remove(known.spec)
        except NotFound:
            self.lost(name, now)
        except Exception as error:
            self.faults[name] = f"{type(error).__name__}: {error}"
        else:
            self.faults.pop(name, None)
            self.known[name] = known._replace(presence=Presence.LEAVING)
            if not self._backend.traits.lasting:
                self.lost(name, now)


class Nominations:
    """Promises of room in a pool of standing capacity. A nomination ends with its time, with its agent, and when other
    programs have used the room."""

    traits = Traits(at_once=True, lasting=False)
    seconds = NOMINATION_SECONDS

    def __init__(self, pool: NodePool) -> None:
        self._pool = pool
        self._until: dict[str, float] = {}
        """Placeholders with the Unix seconds until which their room is promised, the oldest first."""

    def create(self, spec: Create, until: float) -> None:
        """Promises room. A repeated promise gets another time. Raises Refused for an agent that does not exist."""
        if self._pool.row(spec.node) is None:
            raise Refused(f"agent {spec.node} does not exist")
        self._until[spec.placeholder] = until
        request = ResourceRequest(amounts=spec.request)
        self._pool.hand.hold(spec.placeholder, Cause.STANDING, (spec.node, ANY_ROLE), request)

    def remove(self, spec: Create) -> None:
        """Ends a promise. Raises NotFound for one that has ended."""
        if self._until.pop(spec.placeholder, None) is None:
            raise NotFound
        self._pool.usage.release(spec.placeholder)

    def swap(self, placeholder: str, unit: str, amounts: Amounts) -> UnitClaim | None:
        """The room of a placeholder becomes the claim of a unit, in one step. None if the room is not promised any
        more, or if the unit has a claim or a place; the promise ends in each case."""
        usage = self._pool.usage
        promise = usage.holds.get(placeholder)
        known = self._until.pop(placeholder, None) is not None
        usage.release(placeholder)
        if promise is None or not known or unit in usage.claims or unit in usage.users:
            return None
        return usage.assume(unit, promise.site[0], amounts, promise.request.named_ports)

    def lost(self, now: float) -> list[str]:
        """Ends the promises that cannot be kept, and returns their placeholders: their time is over, their agent is
        gone, or others use the room; then the newest promises of the agent go first."""
        usage, lost = self._pool.usage, list[str]()
        for name, until in reversed(list(self._until.items())):
            promise = usage.holds.get(name)
            if promise is None or until <= now or not self._is_there(promise.site[0]):
                del self._until[name]
                usage.release(name)
                lost.append(name)
        return lost

    def _is_there(self, node: str) -> bool:
        """The agent has the room of all promises of placeholders, without room that is reserved for other reasons."""
        free, row = self._pool.hand.free(node), self._pool.row(node)
        if free is None or row is None:
            return False
        left = Counter(dict(free))
        left.update(row.held())
        for name in self._until:
            promise = self._pool.holds.get(name)
            if promise is not None and promise.site[0] == node:
                left.subtract(dict(promise.request.amounts))
        return all(amount >= 0 for amount in left.values())
