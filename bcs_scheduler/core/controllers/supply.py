"""Offers in, launches out: holds the offers, has the placer work, and tells Mesos whether more are wanted.

While something waits for a place, offers are held and all of them are considered for all open demands. Offers that no
open demand could use for `offer_hold` seconds are declined for a short while.

When nothing waits, a reserve of offers is kept for `offer_hold` seconds, for what may come next: a cluster in which
taskgroups fail or are launched all the time need not offer everything for each of them. What comes beyond the reserve
is declined unread and for long, and the framework is suppressed, so that others get the resources. After that time the
reserve is declined, too. Work that the offers at hand do not serve revives the framework.
"""

from __future__ import annotations

from bcs_scheduler.core.desk import Desk
from bcs_scheduler.core.effects import AcceptInverseOffers, Decline, Revive, Suppress
from bcs_scheduler.core.events import InverseOffersArrived, OfferRescinded, OffersArrived
from bcs_scheduler.core.pace import Pace
from bcs_scheduler.core.placement import Placer, Site
from offers.model import Decoration, Offer
from store.records import AgentSetting

RESERVE_PART = 20
"""The reserve: one offer for so many agents, but CoreOptions.offer_reserve at least. On 10,000 agents 500 launches of
one taskgroup share the cost of one round of offers."""


class Supply:
    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self.placer = Placer(desk)
        self._sites: dict[Site, None] = {}
        """Agents and roles whose offers have come since the last pass."""
        self._redecorated = False
        """Facts about agents have changed since the last pass."""
        self._refused = False
        """Filters are set in Mesos that may hide offers from us; REVIVE clears them."""
        self._suppressed = False
        self._renewed = False
        """There has been a subscription since the last look at the demands."""
        self._asking = False
        """Work has come that may need more offers than are at hand."""
        self._idle_since = 0.0
        self._looked_at_until = 0.0
        """Until then somebody looks at all offers, although nothing waits for a place."""
        self._revived_at = 0.0

    def recover(self) -> None:
        for setting in self._desk.state.agent_settings.values():
            self.decorate(setting.agent)

    # --- what Mesos says --------------------------------------------------------------------------------------

    def subscribed(self) -> None:
        self._clear()
        # The master keeps the filters of an earlier connection, of this leader or of another, if that connection was
        # still open; and a SUPPRESS or a decline that was decided before may still leave after this.
        self._refused = self._renewed = True
        self._suppressed = False
        self._idle_since = self._desk.now

    def disconnected(self) -> None:
        self._clear()

    def _clear(self) -> None:
        self._desk.pool.clear()
        self.placer.void()

    def arrived(self, event: OffersArrived) -> None:
        desk = self._desk
        room = len(event.offers) if self._wanted() else max(0, self._reserve() - len(desk.pool))
        unusable: list[str] = []
        for offer in event.offers[:room]:
            try:
                opened = offer.open()
            except ValueError:  # the others must not be lost with it
                unusable.append(offer.id)
                continue
            desk.pool.add(opened._replace(received_at=desk.now))
            self._sites[opened.agent_id, opened.role] = None
        surplus = [offer.id for offer in event.offers[room:]]
        if surplus:
            self._suppress()
        if declined := (*unusable, *surplus):
            self._refused = True
            desk.emit(Decline(offer_ids=declined, refuse_seconds=desk.options.refuse_idle, cause=desk.cause))

    def _wanted(self) -> bool:
        """All offers are wanted: something waits for a place, or somebody looks at them."""
        desk = self._desk
        return bool(desk.engine.demands) or self.placer.planning or desk.now < self._looked_at_until

    def _reserve(self) -> int:
        return max(self._desk.options.offer_reserve, len(self._desk.agents.agents) // RESERVE_PART)

    def _suppress(self) -> None:
        if not self._suppressed:
            self._suppressed = True
            self._desk.emit(Suppress(cause=self._desk.cause))

    def rescinded(self, event: OfferRescinded) -> None:
        self._desk.pool.rescind(event.offer_id)

    def inverse(self, event: InverseOffersArrived) -> None:
        """Planned maintenance is accepted: new work stays away (offers say so), running work is the operator's call."""
        ids = tuple(identity for identity, _, _ in event.offers)
        self._desk.emit(AcceptInverseOffers(offer_ids=ids, cause=self._desk.cause))

    def decorate(self, agent: str) -> None:
        """Brings the settings of an agent into its offers."""
        self._desk.pool.decorate(agent, decoration(self._desk.state.agent_settings.get(agent)))
        self._redecorated = True

    # --- placing ----------------------------------------------------------------------------------------------

    @property
    def busy(self) -> bool:
        """More can be placed right now."""
        return self._desk.connected and (self.placer.busy or self._due())

    def place(self, pace: Pace) -> bool:
        """Matches demands that have changed, and others if offers have come, and launches. True if anything was
        launched."""
        desk = self._desk
        if desk.engine.demands or self.placer.planning:
            self._idle_since = desk.now
            self._asking = self._asking or bool(desk.engine.changed_demands) or self._renewed
        if not desk.connected:
            return False
        self._renewed = False
        if self._redecorated:
            self.placer.try_all()
        elif self._sites:
            self.placer.try_again(self._sites)
        else:
            self.placer.try_changed()
        self._redecorated = False
        self._sites.clear()
        launched = self.placer.place(pace)
        if self._asking and not self.busy:
            self._asking = False
            if desk.engine.demands or self.placer.planning:
                self._revive()
        return launched

    def _due(self) -> bool:
        engine = self._desk.engine
        return bool(engine.changed_demands) or (bool(engine.demands) and (self._redecorated or bool(self._sites)))

    # --- wanting more or less ---------------------------------------------------------------------------------

    def revive(self) -> None:
        """Asks for offers although nothing is to be launched (a plan wants to look at them)."""
        desk = self._desk
        self._idle_since = desk.now
        self._looked_at_until = desk.now + desk.options.offer_hold
        if desk.connected:
            self._revive()

    def _revive(self) -> None:
        if self._suppressed or self._refused:
            self._desk.emit(Revive(cause=self._desk.cause))
            self._suppressed = self._refused = False

    def want(self) -> None:
        """Something wants to see offers for longer than a moment: they are held and renewed as for open demands."""
        desk = self._desk
        self._idle_since = desk.now
        self._looked_at_until = desk.now + desk.options.offer_hold
        if self._suppressed or (self._refused and desk.now >= self._revived_at + desk.options.refuse_unfit):
            self._revived_at = desk.now
            self.revive()

    def tick(self) -> None:
        desk, options = self._desk, self._desk.options
        if not desk.connected:
            return
        if self._wanted():
            self._decline(desk.pool.expire(desk.now, options.offer_hold), options.refuse_unfit)
        elif desk.now >= self._idle_since + options.offer_hold:
            self._suppress()
            self._decline(desk.pool.expire(desk.now, 0.0), options.refuse_idle)
        else:
            self._decline(desk.pool.expire(desk.now, options.offer_hold, self._reserve()), options.refuse_unfit)

    def _decline(self, offers: list[Offer], refuse_seconds: float) -> None:
        if offers:
            self._refused = True
            self._desk.emit(
                Decline(offer_ids=tuple(o.id for o in offers), refuse_seconds=refuse_seconds, cause=self._desk.cause)
            )


def decoration(setting: AgentSetting | None) -> Decoration:
    if setting is None:
        return Decoration()
    return Decoration(
        disabled=setting.disabled,
        attributes={**setting.strings, **setting.scalars},
        taints=setting.taints,
        extended=setting.extended,
    )
