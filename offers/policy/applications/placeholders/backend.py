"""The interface of a form of placeholders, and the parts that the forms have in common.

A backend sends operations to a cluster manager (`send`) and hears which placeholders exist (`seen`, `lost`). It
remembers nothing that it could not hear again, so a new one begins empty and listens.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from enum import StrEnum
from typing import Generic, NamedTuple, Protocol, TypeVar

from offers.policy.applications.gangs.effects import Create, Traits
from offers.policy.applications.gangs.recovery import Existing


class Form(StrEnum):
    """Forms of placeholders. Hold: an offer is kept; Reserve: room is reserved with the cluster manager; Sleep: a
    taskgroup runs that does nothing; Nominate: standing capacity is promised."""

    HOLD = "hold"
    RESERVE = "reserve"
    SLEEP = "sleep"
    NOMINATE = "nominate"


class Presence(StrEnum):
    """The knowledge of a backend about a placeholder. Awaited: requested and not seen; There: it exists; Leaving: its
    removal is requested; Gone: it does not exist."""

    AWAITED = "awaited"
    THERE = "there"
    LEAVING = "leaving"
    GONE = "gone"


class Refused(Exception):
    """The cluster manager cannot create a placeholder. The text has the reason."""


class NotFound(Exception):
    """The placeholder that is to be removed does not exist."""


class PlaceholderBackend(Protocol):
    """One form. Every operation may be repeated. An operation that cannot be sent raises an error, and changes
    nothing."""

    form: Form
    traits: Traits

    def create(self, spec: Create, now: float) -> None:
        """Requests a placeholder; `now` in Unix seconds. Raises Refused."""

    def confirm(self, placeholder: str) -> Presence:
        """The presence of a placeholder; Gone for an unknown one."""

    def release(self, placeholder: str, now: float) -> None:
        """Requests the removal of a placeholder; `now` in Unix seconds. One that is not there is gone."""

    def list(self) -> Iterator[tuple[str, Existing]]:
        """The placeholders that exist or may come to exist, each with its application."""

    def consumed(self, placeholder: str) -> None:
        """A launch takes the room of a placeholder."""

    def pass_time(self, now: float) -> tuple[str, ...]:
        """Renews placeholders where possible, and returns the names of those that have ended by themselves; `now` in
        Unix seconds."""


Operation = TypeVar("Operation")


class Tracked(NamedTuple):
    """A placeholder with its presence. `until`: Unix seconds at which a placeholder ends by itself; infinity: never."""

    spec: Create
    presence: Presence
    until: float = float("inf")


class TrackingBackend(Generic[Operation]):
    """The common part of the forms. A subclass says which operations create and remove a placeholder.

    A removal that is requested before the placeholder was seen is remembered, and requested again when the placeholder
    appears: otherwise it would stay."""

    form: Form
    traits: Traits
    renewable = False
    """True if a placeholder with a limited time is renewed for as long as its gang wants it."""

    def __init__(self, send: Callable[[Operation], None]) -> None:
        """`send` may raise Refused for an operation that creates, NotFound for one that removes."""
        self._send = send
        self._known: dict[str, Tracked] = {}

    def creation(self, spec: Create, now: float) -> Operation:
        """The operation that creates a placeholder; `now` in Unix seconds."""
        raise NotImplementedError

    def removal(self, spec: Create) -> Operation:
        """The operation that removes a placeholder."""
        raise NotImplementedError

    def lifetime(self) -> float:
        """The seconds for which a placeholder lives without renewal; infinity if it stays."""
        return float("inf")

    def create(self, spec: Create, now: float) -> None:
        """Requests a placeholder that is not known yet; `now` in Unix seconds. Raises Refused."""
        if spec.placeholder not in self._known:
            self._send(self.creation(spec, now))
            presence = Presence.AWAITED if self.traits.lasting else Presence.THERE
            self._known[spec.placeholder] = Tracked(spec, presence, now + self.lifetime())

    def confirm(self, placeholder: str) -> Presence:
        """The presence of a placeholder; Gone for an unknown one."""
        known = self._known.get(placeholder)
        return Presence.GONE if known is None else known.presence

    def release(self, placeholder: str, now: float) -> None:  # noqa: ARG002
        """Requests the removal of a placeholder; `now` in Unix seconds. A repeated request is sent again."""
        known = self._known.get(placeholder)
        if known is None:
            return
        try:
            self._send(self.removal(known.spec))
        except NotFound:
            del self._known[placeholder]
            return
        if self.traits.lasting:
            self._known[placeholder] = known._replace(presence=Presence.LEAVING)
        else:
            del self._known[placeholder]

    def list(self) -> Iterator[tuple[str, Existing]]:
        """The placeholders that exist or may come to exist, each with its application."""
        for known in list(self._known.values()):
            spec = known.spec
            yield spec.application, Existing(spec.placeholder, spec.group, spec.node)

    def consumed(self, placeholder: str) -> None:
        """A launch takes the room of a placeholder. One that lasts is known until its end is reported."""
        if not self.traits.lasting:
            self._known.pop(placeholder, None)

    # --- reports of the cluster manager -----------------------------------------------------------------------

    def seen(self, spec: Create) -> Presence:
        """A placeholder exists, as its labels describe it. Returns its presence."""
        known = self._known.get(spec.placeholder)
        if known is not None and known.presence is Presence.LEAVING:
            self._send(self.removal(spec))
            return Presence.LEAVING
        self._known[spec.placeholder] = Tracked(spec, Presence.THERE)
        return Presence.THERE

    def lost(self, placeholder: str) -> None:
        """A placeholder does not exist any more."""
        self._known.pop(placeholder, None)

    def pass_time(self, now: float) -> tuple[str, ...]:
        """Renews placeholders where possible, and returns the names of those that have ended by themselves; `now` in
        Unix seconds."""
        over = []
        for name, known in list(self._known.items()):
            if self.renewable and known.until - now <= self.lifetime() / 2:
                self._send(self.creation(known.spec, now))
                self._known[name] = known._replace(until=now + self.lifetime())
            elif known.until <= now:
                del self._known[name]
                over.append(name)
        return tuple(over)
