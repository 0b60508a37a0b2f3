"""The four forms of placeholders: held offers, dynamic reservations, sleep tasks; nominations for standing capacity."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from offers.dimensions import Amounts
from offers.leased.holds import HOLD_SECONDS
from offers.policy.applications.gangs.effects import Create, Traits
from offers.policy.applications.placeholders.backend import Form, PlaceholderBackend, TrackingBackend

NOMINATION_SECONDS = 60.0
"""The time for which a nomination is valid without renewal."""
APPLICATION, GROUP, PLACEHOLDER = "application", "taskgroup", "placeholder"
"""The labels by which a placeholder is recognized after a crash."""


class HoldOffer(NamedTuple):
    """Keep room of the offers of a node for a placeholder, until a moment in Unix seconds."""

    placeholder: str
    node: str
    request: Amounts
    until: float


class ReturnOffer(NamedTuple):
    """Give the held room back."""

    placeholder: str
    node: str


class ReserveRoom(NamedTuple):
    """Reserve room of a node for the role of the framework, with labels."""

    node: str
    request: Amounts
    labels: tuple[tuple[str, str], ...]


class UnreserveRoom(NamedTuple):
    """Remove a reservation with these labels."""

    node: str
    request: Amounts
    labels: tuple[tuple[str, str], ...]


class LaunchSleeper(NamedTuple):
    """Launch a taskgroup that does nothing, with the constraints and ports of `terms`, and without restarts."""

    node: str
    request: Amounts
    labels: tuple[tuple[str, str], ...]
    terms: str


class KillSleeper(NamedTuple):
    """End such a taskgroup at once."""

    placeholder: str


class Nominate(NamedTuple):
    """Promise room of standing capacity to a placeholder, until a moment in Unix seconds."""

    placeholder: str
    node: str
    request: Amounts
    until: float


class WithdrawNomination(NamedTuple):
    """End such a promise."""

    placeholder: str


def labels_of(spec: Create) -> tuple[tuple[str, str], ...]:
    """The labels of a placeholder."""
    return ((APPLICATION, spec.application), (GROUP, spec.group), (PLACEHOLDER, spec.placeholder))


def spec_of(node: str, request: Amounts, labels: tuple[tuple[str, str], ...], terms: str = "") -> Create | None:
    """The placeholder that a reservation or taskgroup with these labels is; None if it is no placeholder."""
    found = dict(labels)
    if not all(found.get(name) for name in (APPLICATION, GROUP, PLACEHOLDER)):
        return None
    return Create(found[PLACEHOLDER], found[APPLICATION], found[GROUP], node, request, terms)


class HeldOffers(TrackingBackend[HoldOffer | ReturnOffer]):
    """Offers that are not declined. They are there at once, and lost when the scheduler ends: for seconds only."""

    form = Form.HOLD
    traits = Traits(at_once=True, lasting=False)

    def creation(self, spec: Create, now: float) -> HoldOffer:
        """The operation that holds the offers of a node; `now` in Unix seconds."""
        return HoldOffer(spec.placeholder, spec.node, spec.request, now + HOLD_SECONDS)

    def removal(self, spec: Create) -> ReturnOffer:
        """The operation that gives the room back."""
        return ReturnOffer(spec.placeholder, spec.node)

    def lifetime(self) -> float:
        """The seconds for which an offer is held without renewal."""
        return HOLD_SECONDS


class Reservations(TrackingBackend[ReserveRoom | UnreserveRoom]):
    """Reservations for the role. They outlive the scheduler, and a launch consumes them without a kill. The framework
    needs a principal with the right to reserve."""

    form = Form.RESERVE
    traits = Traits(at_once=True, lasting=True)

    def creation(self, spec: Create, now: float) -> ReserveRoom:  # noqa: ARG002
        """The operation that reserves; `now` in Unix seconds."""
        return ReserveRoom(spec.node, spec.request, labels_of(spec))

    def removal(self, spec: Create) -> UnreserveRoom:
        """The operation that removes the reservation."""
        return UnreserveRoom(spec.node, spec.request, labels_of(spec))


class Sleepers(TrackingBackend[LaunchSleeper | KillSleeper]):
    """Taskgroups that sleep. They need no right and hold ports and volumes too; a swap waits for their end."""

    form = Form.SLEEP
    traits = Traits(at_once=False, lasting=True)

    def creation(self, spec: Create, now: float) -> LaunchSleeper:  # noqa: ARG002
        """The operation that launches; `now` in Unix seconds."""
        return LaunchSleeper(spec.node, spec.request, labels_of(spec), spec.terms)

    def removal(self, spec: Create) -> KillSleeper:
        """The operation that ends the taskgroup."""
        return KillSleeper(spec.placeholder)


class Nominations(TrackingBackend[Nominate | WithdrawNomination]):
    """Promises of standing capacity, which has no offers."""

    form = Form.NOMINATE
    traits = Traits(at_once=True, lasting=False)
    renewable = True

    def creation(self, spec: Create, now: float) -> Nominate:
        """The operation that promises; `now` in Unix seconds."""
        return Nominate(spec.placeholder, spec.node, spec.request, now + NOMINATION_SECONDS)

    def removal(self, spec: Create) -> WithdrawNomination:
        """The operation that ends the promise."""
        return WithdrawNomination(spec.placeholder)

    def lifetime(self) -> float:
        """The seconds for which a nomination is valid without renewal."""
        return NOMINATION_SECONDS


Operation = (
    HoldOffer | ReturnOffer | ReserveRoom | UnreserveRoom | LaunchSleeper | KillSleeper | Nominate | WithdrawNomination
)
"""Every operation of every form."""


def backend_of(form: Form, send: Callable[[Operation], None]) -> PlaceholderBackend:
    """The backend of a form, which sends its operations by `send`."""
    forms: dict[Form, Callable[[Callable[[Operation], None]], PlaceholderBackend]] = {
        Form.HOLD: HeldOffers,
        Form.RESERVE: Reservations,
        Form.SLEEP: Sleepers,
        Form.NOMINATE: Nominations,
    }
    return forms[form](send)
