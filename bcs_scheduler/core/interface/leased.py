"""Inputs and effects of a cluster manager that lends its capacity by offers (Apache Mesos). A manager with standing
capacity neither sends these inputs nor gets these effects."""

from __future__ import annotations

from bcs_scheduler.core.interface.effects import Effect
from bcs_scheduler.core.interface.inputs import Input
from offers.model import Allocation, SealedOffer


class OffersArrived(Input, frozen=True, kw_only=True):
    """New offers, not decoded yet."""

    offers: tuple[SealedOffer, ...]


class OfferRescinded(Input, frozen=True, kw_only=True):
    """The cluster manager has taken an offer back."""

    offer_id: str


class InverseOffersArrived(Input, frozen=True, kw_only=True):
    """Planned maintenance: agents whose resources are asked back, with the moment (Unix seconds)."""

    offers: tuple[tuple[str, str, float], ...]  # (inverse offer id, agent id or "", unavailable from)


class Decline(Effect, frozen=True, kw_only=True):
    """Gives offers back. `refuse_seconds`: for so long the resources are not offered again."""

    offer_ids: tuple[str, ...]
    refuse_seconds: float = 5.0


class GiveUpRooms(Effect, frozen=True, kw_only=True):
    """Gives kept rooms up (offers.ledger.external). The call uses up the offers; all their resources return in other
    offers, the rooms among them as parts that anybody may use."""

    agent_id: str
    offer_ids: tuple[str, ...]
    rooms: Allocation


class AcceptInverseOffers(Effect, frozen=True, kw_only=True):
    """Agrees to planned maintenance of agents."""

    offer_ids: tuple[str, ...]


class Suppress(Effect, frozen=True, kw_only=True):
    """Asks for no further offers until `Revive`."""


class Revive(Effect, frozen=True, kw_only=True):
    """Asks for offers again, also for resources that were declined."""
