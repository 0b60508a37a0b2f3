"""Offers in, launches out: holds the offers, has the placer work, and tells Mesos whether more are wanted.

While something waits for a place, offers are held and all of them are considered for all open demands. When
nothing does, they are declined for long and the framework is suppressed, so that others get the resources; new work
revives it. Offers that no open demand could use for `offer_hold` seconds are declined for a short while.
"""

from __future__ import annotations

from bcs_scheduler.core.desk import Desk
from bcs_scheduler.core.effects import AcceptInverseOffers, Decline, Revive, Suppress
from bcs_scheduler.core.events import InverseOffersArrived, OfferRescinded, OffersArrived
from bcs_scheduler.core.pace import Pace
from bcs_scheduler.core.placement import Placer
from offers.model import Decoration, Offer
from store.records import AgentSetting


class Supply:
    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self.placer = Placer(desk)
        self._fresh = False
        """Offers have come since the last pass."""
        self._refused = False
        """Filters are set in Mesos that may hide offers from us; REVIVE clears them."""
        self._suppressed = False
        self._renewed = False
        """There has been a subscription since the last look at the demands."""
        self._idle_since = 0.0
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
        for offer in event.offers:
            self._desk.pool.add(offer._replace(received_at=self._desk.now))
        self._fresh = True

    def rescinded(self, event: OfferRescinded) -> None:
        self._desk.pool.rescind(event.offer_id)

    def inverse(self, event: InverseOffersArrived) -> None:
        """Planned maintenance is accepted: new work stays away (offers say so), running work is the operator's call."""
        ids = tuple(identity for identity, _, _ in event.offers)
        self._desk.emit(AcceptInverseOffers(offer_ids=ids, cause=self._desk.cause))

    def decorate(self, agent: str) -> None:
        """Brings the settings of an agent into its offers."""
        self._desk.pool.decorate(agent, decoration(self._desk.state.agent_settings.get(agent)))
        self._fresh = True

    # --- placing ----------------------------------------------------------------------------------------------

    @property
    def busy(self) -> bool:
        """More can be placed right now."""
        return self._desk.connected and (self.placer.busy or self._due())

    def place(self, pace: Pace) -> bool:
        """Matches demands that have changed, or all of them if offers have come, and launches. True if anything was
        launched."""
        self._regulate()
        if not self._desk.connected:
            return False
        if self._fresh:
            self._fresh = False
            self.placer.try_all()
        else:
            self.placer.try_changed()
        return self.placer.place(pace)

    def _due(self) -> bool:
        engine = self._desk.engine
        return bool(engine.changed_demands) or (self._fresh and bool(engine.demands))

    # --- wanting more or less ---------------------------------------------------------------------------------

    def _regulate(self) -> None:
        """REVIVE when work arrives that the present offers may not serve."""
        desk = self._desk
        if desk.engine.demands or self.placer.planning:
            self._idle_since = desk.now
            changed = bool(desk.engine.changed_demands) or self._renewed
            if desk.connected and changed and (self._suppressed or self._refused):
                desk.emit(Revive(cause=desk.cause))
                self._suppressed = self._refused = False
        if desk.connected:
            self._renewed = False

    def revive(self) -> None:
        """Asks for offers although nothing is to be launched (a plan wants to look at them)."""
        self._idle_since = self._desk.now
        if self._desk.connected and (self._suppressed or self._refused):
            self._desk.emit(Revive(cause=self._desk.cause))
            self._suppressed = self._refused = False

    def want(self) -> None:
        """Something wants to see offers for longer than a moment: they are held and renewed as for open demands."""
        desk = self._desk
        self._idle_since = desk.now
        if self._suppressed or (self._refused and desk.now >= self._revived_at + desk.options.refuse_unfit):
            self._revived_at = desk.now
            self.revive()

    def tick(self) -> None:
        desk = self._desk
        if not desk.connected:
            return
        if desk.engine.demands or self.placer.planning:
            self._decline(desk.pool.expire(desk.now, desk.options.offer_hold), desk.options.refuse_unfit)
        elif desk.now >= self._idle_since + desk.options.offer_hold:
            if not self._suppressed:
                self._suppressed = True
                desk.emit(Suppress(cause=desk.cause))
            self._decline(desk.pool.expire(desk.now, 0.0), desk.options.refuse_idle)
        else:
            self._decline(desk.pool.expire(desk.now, desk.options.offer_hold), desk.options.refuse_unfit)

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
