"""The manager of offers: holds the offers, starts the placement pass, and asks the cluster manager for more offers.

While demands are open, offers are held, and each open demand may use every offer. Offers that no open demand could use
for `offer_hold` seconds are declined for a short while, except those of agents whose room is promised to a demand that
waits for more.

While no demand is open, a reserve of offers is kept for `offer_hold` seconds for the next demands: a cluster in which
taskgroups fail or are launched all the time need not offer all its resources for each of them. Offers beyond the
reserve are declined unread and for long, and the framework is suppressed, so that other frameworks get the resources.
After `offer_hold` seconds the reserve is declined, too. A demand that the held offers cannot place revives the
framework. Nothing is ended for such a demand before the offers have come (`TurnContext.shown_until`), and taskgroups
that are to be spread may wait for these offers, too (core.placement.spreading).
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import partial

from bcs_scheduler.core.context import ANSWER_SECONDS, ERRORS_AT_ONCE, TurnContext
from bcs_scheduler.core.interface.leased import (
    AcceptInverseOffers,
    Decline,
    InverseOffersArrived,
    OfferRescinded,
    OffersArrived,
    Revive,
    Suppress,
)
from bcs_scheduler.core.placement.engines.registry import engines_of_records
from bcs_scheduler.core.placement.partitions import Placing
from bcs_scheduler.core.placement.records import news_of
from bcs_scheduler.core.time_budget import TimeBudget
from offers.model import AgentOverrides, Offer, Site
from offers.resources import SCALARS
from store.records import AgentSetting, Namespace, PodGroup, Queue, QueueTree, Record, TaskGroup
from transactions.base import Failure

RESERVE_PART = 20
"""The reserve: one offer for so many agents, but CoreOptions.offer_reserve at least. On 10,000 agents 500 launches of
one taskgroup share the cost of one round of offers."""

SETTLE_SECONDS = 0.1
"""Seconds after the first of these offers in which others may come."""
KEPT_DEMANDS = 100
"""Number of closed demands that are remembered beside as many as are open."""
LEAVES_ROOM = frozenset({"Failed", "Error", "Finish", "Killed"})
"""The states of taskgroups that have ended on an agent that is there: the agent has their room."""
LIMITS = frozenset({QueueTree.kind, Queue.kind, Namespace.kind, PodGroup.kind})
"""Records that hold back work. Offers that nothing could use are declined, so the offers at hand do not show the room
that a change of these records opens."""


class OfferManager:
    """Takes offers while demands are open, keeps a reserve, and declines the rest."""

    def __init__(self, turn: TurnContext) -> None:
        self._turn = turn
        self.placing = Placing(turn, engines_of_records(turn))
        self._followers: list[Callable[[Collection[Site] | None], None]] = []
        self._sites: dict[Site, None] = {}
        """Agents and roles whose offers have come since the last pass."""
        self._overridden = False
        """Facts about agents have changed since the last pass."""
        self._refused = False
        """Filters are set in the cluster manager that may hide offers from us; REVIVE clears them."""
        self._suppressed = False
        self._renewed = False
        """There has been a subscription since the last look at the demands."""
        self._asking = False
        """Work has come that may need more offers than are at hand."""
        self._idle_since = 0.0
        self._looked_at_until = 0.0
        """Time until which offers beyond the reserve are taken although no demand is open: a caller examines all
        offers."""
        self._revived_at = 0.0
        self._wanted_until = 0.0
        """Unix seconds until which the offers may come that `want` has requested."""
        self._changed_groups: dict[str, Record | None] = {}
        """The taskgroups that have changed since the last look at them, by id, as they were then; None: there was none.
        Changes that were undone are included."""
        turn.watch("offers", (TaskGroup.kind,), self._group_changed)

    def follow(self, follower: Callable[[Collection[Site] | None], None]) -> None:
        """Calls the follower when room may have come on some sites; with None when facts about agents have changed."""
        self._followers.append(follower)

    def recover(self) -> None:
        """Takes over the settings of all agents, and the tree of queues. After an error, gives all offers back, and
        drops all plans. The engine is made anew, too."""
        self._give_back_all()
        self.placing.forget()
        self.placing.recover()
        settings = self._turn.state.agent_settings
        self._turn.each("agentsetting", settings, lambda key: self.override(settings[key].agent))

    def _give_back_all(self) -> None:
        turn = self._turn
        if not turn.connected:
            return
        held = tuple(offer.id for offer in turn.pool.hand.all())
        if held:
            turn.emit(Decline(offer_ids=held, refuse_seconds=0.0, cause=turn.cause))
        turn.pool.hand.clear()
        self._sites.clear()
        self._overridden = self._renewed = self._asking = True

    # --- reports of the cluster manager
    # --------------------------------------------------------------------------------------

    def subscribed(self) -> None:
        """A connection has begun: offers of earlier ones are void, and filters of the cluster manager are to be
        cleared."""
        self._clear()
        # The master keeps the filters of an earlier connection, of this leader or of another, if that connection was
        # still open; and a SUPPRESS or a decline that was decided before may still leave after this.
        self._refused = self._renewed = True
        self._suppressed = False
        self._idle_since = self._turn.now

    def disconnected(self) -> None:
        """Offers end with the connection."""
        self._clear()

    def _clear(self) -> None:
        self._turn.pool.hand.clear()
        self.placing.void()

    def arrived(self, event: OffersArrived) -> None:
        """Takes the offers that are wanted or fit the reserve, and declines the others."""
        turn = self._turn
        self._expect_freed()  # these offers may have the room
        room = len(event.offers) if self._wanted() else max(0, self._reserve() - len(turn.pool.hand))
        unusable: list[str] = []
        for offer in event.offers[:room]:
            try:
                opened = offer.open()
            except ValueError:  # the other offers must not be lost
                unusable.append(offer.id)
                continue
            turn.pool.hand.add(opened._replace(received_at=turn.now))
            self._sites[opened.agent_id, opened.role] = None
        expected = turn.pool.hand.expected
        expected.unread = max(0, expected.unread - len(event.offers[:room]))
        settled = turn.now + SETTLE_SECONDS
        turn.returning_until = min(turn.returning_until, settled)
        if not (self._suppressed or self._refused):
            turn.offers_until = min(turn.offers_until, settled)
            self._wanted_until = min(self._wanted_until, settled)
        surplus = [offer.id for offer in event.offers[room:]]
        if surplus:
            self._suppress()
            expected.unread += len(surplus)
        if declined := (*unusable, *surplus):
            self._refused = True
            turn.emit(Decline(offer_ids=declined, refuse_seconds=turn.options.refuse_idle, cause=turn.cause))

    def _wanted(self) -> bool:
        """True if all offers are wanted: a demand is open, or a user is looking at offers."""
        turn = self._turn
        waiting = bool(turn.engine.demands) or bool(turn.pool.hand.external.awaited) or bool(turn.pool.holds)
        return waiting or self.placing.planning or turn.now < self._looked_at_until

    def _reserve(self) -> int:
        return max(self._turn.options.offer_reserve, len(self._turn.agents.agents) // RESERVE_PART)

    def _suppress(self) -> None:
        if not self._suppressed:
            self._suppressed = True
            self._turn.emit(Suppress(cause=self._turn.cause))

    def rescinded(self, event: OfferRescinded) -> None:
        """Removes an offer that the cluster manager has taken back; does nothing if it is not known."""
        self._turn.pool.hand.rescind(event.offer_id)

    def inverse(self, event: InverseOffersArrived) -> None:
        """Planned maintenance is accepted: new work stays away (offers say so), running work is the operator's call."""
        ids = tuple(identity for identity, _, _ in event.offers)
        self._turn.emit(AcceptInverseOffers(offer_ids=ids, cause=self._turn.cause))

    def override(self, agent: str) -> None:
        """Brings the settings of an agent into its offers. Declined offers are requested again: more may fit now."""
        self._asking = True
        self._turn.pool.override(agent, overrides(self._turn.state.agent_settings.get(agent)))
        self._overridden = True

    def _group_changed(self, key: str, before: Record | None, _: Record | None) -> None:
        self._changed_groups.setdefault(key, before)

    def _expect_freed(self) -> None:
        """Expects the room of the taskgroups that have ended. Dry runs have undone their changes. An error of one
        taskgroup delays no other."""
        changed, self._changed_groups = self._changed_groups, {}
        failures = 0
        for key, before in changed.items():
            if before is None:
                continue
            done = self._turn.attempt("taskgroup", key, partial(self._expect_room_of, key, before))
            failures += isinstance(done, Failure)
            if failures >= ERRORS_AT_ONCE:
                return  # less room is expected

    def _expect_room_of(self, key: str, before: Record) -> None:
        after = self._turn.state.taskgroups.get(key)
        if not isinstance(before, TaskGroup) or before.ended or before.id in self._turn.pool.holds:
            return  # room that the scheduler holds is in hand
        if after is None or after.status in LEAVES_ROOM:
            site = (before.agent_id, before.role or "*")
            self._turn.pool.hand.freed(site, [getattr(before.resources, name) for name in SCALARS])

    def notice(self, changed: Collection[tuple[str, str]]) -> None:
        """Follows records that have changed, each named by kind and key."""
        self._expect_freed()
        self._asking = self._asking or any(kind in LIMITS for kind, _ in changed)
        self.placing.notice(news_of(changed))

    # --- placing ----------------------------------------------------------------------------------------------

    @property
    def busy(self) -> bool:
        """More can be placed right now."""
        return self._turn.connected and (self.placing.busy or self._due())

    def next_timer(self) -> float | None:
        """Unix seconds at which more can be placed; None: at no particular time."""
        return self.placing.next_timer() if self._turn.connected else None

    def place(self, pace: TimeBudget) -> bool:
        """Matches demands that have changed, and others if offers have come, and launches. True if anything was
        launched."""
        turn = self._turn
        if turn.engine.demands or self.placing.planning:
            self._idle_since = turn.now
            self._asking = self._asking or bool(turn.engine.changed_demands) or self._renewed
            self._note_demands()
        if not turn.connected:
            return False
        self._renewed = False
        self._sites.update(dict.fromkeys(turn.pool.holds.take_freed()))
        if self._overridden or self._sites:
            for follower in self._followers:
                follower(None if self._overridden else self._sites)
        if self._overridden:
            self.placing.try_all()
        elif self._sites:
            self.placing.try_again(self._sites)
        else:
            self.placing.try_changed()
        self._overridden = False
        self._sites.clear()
        if self._asking and (self._suppressed or self._refused):
            turn.offers_until = turn.now + ANSWER_SECONDS
        launched = self.placing.place(pace)
        if self._asking and not self.busy:
            self._asking = False
            if turn.engine.demands or self.placing.planning:
                self._revive()
        return launched

    def _note_demands(self) -> None:
        turn = self._turn
        since, demands = turn.waiting_since, turn.engine.demands
        for identity in turn.engine.changed_demands:
            since.setdefault(identity, turn.now)
        if len(since) > 2 * len(demands) + KEPT_DEMANDS:
            for identity in [identity for identity in since if identity not in demands]:
                del since[identity]

    def _due(self) -> bool:
        engine = self._turn.engine
        return bool(engine.changed_demands) or (
            bool(engine.demands) and (self._overridden or bool(self._sites) or self._turn.pool.holds.has_freed)
        )

    # --- wanting more or less ---------------------------------------------------------------------------------

    def revive(self) -> None:
        """Requests offers although nothing is to be launched, for a plan."""
        turn = self._turn
        self._idle_since = turn.now
        self._looked_at_until = turn.now + turn.options.offer_hold
        if turn.connected:
            self._revive()

    def gather(self) -> bool:
        """Like `want`. True if declined offers have been requested, so that more arrive within moments."""
        before = self._revived_at
        self.want()
        return self._turn.connected and self._revived_at > before

    def _revive(self) -> None:
        if self._suppressed or self._refused:
            self._turn.emit(Revive(cause=self._turn.cause))
            self._suppressed = self._refused = False

    def want(self) -> None:
        """Something wants to see offers for longer than a moment: they are held and renewed as for open demands."""
        turn = self._turn
        self._idle_since = turn.now
        self._looked_at_until = turn.now + turn.options.offer_hold
        if self._suppressed or (self._refused and turn.now >= self._revived_at + turn.options.refuse_unfit):
            self._revived_at = turn.now
            self._wanted_until = turn.now + ANSWER_SECONDS
            self.revive()

    @property
    def awaited(self) -> bool:
        """True while offers may come that `want` has requested: those at hand do not show all the free room."""
        return self._turn.now < self._wanted_until

    @property
    def awaited_until(self) -> float:
        """Unix seconds until which `awaited` is true."""
        return self._wanted_until

    def tick(self) -> None:
        """Declines offers that were held too long, and suppresses or revives offers."""
        turn, options = self._turn, self._turn.options
        if not turn.connected:
            return
        if turn.engine.gangs or turn.pool.hand.external.awaited or turn.pool.holds.short:
            self.want()  # offers that are held and declined at different times would never be there together
        if self._wanted():
            old = turn.pool.hand.expire(turn.now, options.offer_hold, promised=self.placing.promised)
            self._decline(old, options.refuse_unfit)
        elif turn.now >= self._idle_since + options.offer_hold:
            self._suppress()
            self._decline(turn.pool.hand.expire(turn.now, 0.0), options.refuse_idle)
        else:
            self._decline(turn.pool.hand.expire(turn.now, options.offer_hold, self._reserve()), options.refuse_unfit)

    def _decline(self, offers: list[Offer], refuse_seconds: float) -> None:
        if offers:
            self._refused = True
            self._turn.emit(
                Decline(offer_ids=tuple(o.id for o in offers), refuse_seconds=refuse_seconds, cause=self._turn.cause)
            )


def overrides(setting: AgentSetting | None) -> AgentOverrides:
    """Returns the settings of an agent in the form of the matcher; empty overrides if `setting` is None."""
    if setting is None:
        return AgentOverrides()
    return AgentOverrides(
        disabled=setting.disabled,
        attributes={**setting.strings, **setting.scalars},
        taints=setting.taints,
        extended=setting.extended,
    )
