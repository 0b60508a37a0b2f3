"""Offers in, launches out: holds the offers, runs the placement pass, and tells Mesos whether more are wanted.

While something waits for a place, offers are held and every pass considers all of them for all open demands. When
nothing does, they are declined for long and the framework is suppressed, so that others get the resources; new work
revives it. Offers that no open demand could use for `offer_hold` seconds are declined for a short while.
"""

from __future__ import annotations

from bcs_scheduler.core.desk import Desk
from bcs_scheduler.core.effects import Accept, AcceptInverseOffers, Decline, Launch, Revive, Suppress
from bcs_scheduler.core.events import InverseOffersArrived, OfferRescinded, OffersArrived
from offers.matcher import match
from offers.model import Decoration, Diagnosis, Offer, Placement
from store.ids import nanoseconds_of
from store.records import AgentSetting
from transactions.injection import Injections


class Supply:
    def __init__(self, desk: Desk) -> None:
        self._desk = desk
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
        self._desk.pool.clear()
        # The master keeps the filters of an earlier connection, of this leader or of another, if that connection was
        # still open; and a SUPPRESS or a decline that was decided before may still leave after this.
        self._refused = self._renewed = True
        self._suppressed = False
        self._idle_since = self._desk.now

    def disconnected(self) -> None:
        self._desk.pool.clear()

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

    def place(self) -> bool:
        """One pass over all open demands and all held offers, if either has changed. True if anything was placed."""
        desk = self._desk
        engine = desk.engine
        self._regulate()
        if not desk.connected or not engine.demands or not (self._fresh or engine.demands_changed):
            return False
        self._fresh = engine.demands_changed = False
        demands = [engine.demands[identity] for identity in sorted(engine.demands, key=nanoseconds_of)]
        desk.hand_over()
        result = match(demands, desk.pool, desk.state.census, desk.options.scoring)
        known = engine.diagnoses
        engine.diagnoses = {d.demand: _fuller(known.get(d.demand), d) for d in result.diagnoses}
        roles = {demand.id: demand.role for demand in demands}
        together: dict[tuple[str, str], list[Placement]] = {}
        for placement in result.placements:
            together.setdefault((placement.agent_id, roles[placement.demand]), []).append(placement)
        injections = Injections(desk.state)
        for (agent_id, role), placements in together.items():
            self._launch(agent_id, role, placements, injections)
            desk.hand_over(desk.options.hand_over)
        return bool(together)

    def _launch(self, agent_id: str, role: str, placements: list[Placement], injections: Injections) -> None:
        """Writes the taskgroups of one agent and sends one ACCEPT for all of its offers after they are durable. Mesos
        takes no ACCEPT that mixes offers of several roles."""
        desk = self._desk
        launches = []
        for placement in placements:
            placed = desk.engine.placed(desk.context, placement, injections)
            if placed is not None:
                group, version, injected = placed
                launches.append(Launch(taskgroup=group, version=version, claim=placement.claim, injected=injected))
            desk.checkpoint()
        used = tuple(offer.id for offer in desk.pool.take(agent_id, role))
        if launches:
            desk.emit(Accept(agent_id=agent_id, offer_ids=used, launches=tuple(launches), cause=desk.cause))
        else:
            desk.emit(Decline(offer_ids=used, refuse_seconds=0.0, cause=desk.cause))
        desk.cut()

    # --- wanting more or less ---------------------------------------------------------------------------------

    def _regulate(self) -> None:
        """REVIVE when work arrives that the present offers may not serve."""
        desk = self._desk
        if desk.engine.demands:
            self._idle_since = desk.now
            changed = desk.engine.demands_changed or self._renewed
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
        if desk.engine.demands:
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


def _fuller(before: Diagnosis | None, now: Diagnosis) -> Diagnosis:
    """While a demand waits unchanged, the judgement that saw the most agents stands: a pass caused by the offers of one
    agent would otherwise explain the whole cluster by it."""
    if before is not None and before.agents > now.agents and before.wanted - before.placed == now.wanted - now.placed:
        return before
    return now
