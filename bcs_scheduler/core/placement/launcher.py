"""Launches placed taskgroups, agent by agent, with the messages of the cluster manager.

The cluster manager takes an offer whole: the remainder of the offer after a launch comes back in another offer, seconds
later. So all placements of an agent must leave in one ACCEPT, and a big demand must be placed completely before its
first agent is launched. Until then placements are planned: the pool remembers them as claims, and `PlannedCensus`
counts them.

A plan is void if an offer of its agent is rescinded, if the agent goes or if its settings change; its slots are matched
again.

The output is a launch of (agent, lots, launches). Lots are the leased parts of the agent that the launches use up; for
a cluster manager with offers, a lot is an offer. Only `_send` depends on this.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from bcs_scheduler.core.context import TurnContext
from bcs_scheduler.core.interface.cluster_manager import Launch, LaunchOnAgent
from bcs_scheduler.core.interface.leased import Decline
from offers.ledger.holds import Cause
from offers.model import Demand, Placement
from store import ids
from transactions.base import Slot
from transactions.engine.fair import FairQueue
from transactions.injection import Injections
from transactions.resource_request import request_of

UNIT = 50
"""Taskgroups written in one unit at most, so that any store takes it whole."""

Site = tuple[str, str]
"""Agent id and role of one ACCEPT. The cluster manager refuses an ACCEPT that mixes offers of several roles."""


class Launcher:
    """Sends planned placements to agents, a slice per turn, and writes the taskgroups."""

    def __init__(self, turn: TurnContext) -> None:
        self._turn = turn
        self._ready: FairQueue[Site] = FairQueue()
        """Agents to be launched on."""
        self._planned: dict[Site, list[tuple[Demand[Slot], Placement[Slot]]]] = {}
        self._partly: dict[str, dict[Site, None]] = {}
        """Agents that hold planned placements of a demand which is still being matched, by the id of the demand."""

    @property
    def ready(self) -> bool:
        """An agent can be launched on right now."""
        return bool(self._ready)

    @property
    def planning(self) -> bool:
        """Something is planned and not launched."""
        return bool(self._planned)

    def placements(self) -> Iterator[tuple[Demand[Slot], Placement[Slot]]]:
        """Everything that is planned and not launched."""
        for planned in self._planned.values():
            yield from planned

    def add(self, demand: Demand[Slot], placement: Placement[Slot]) -> None:
        """Plans a placement. The launch follows after `settle` of its demand, or together with another launch on its
        agent."""
        site = (placement.agent_id, demand.role)
        self._planned.setdefault(site, []).append((demand, placement))
        self._partly.setdefault(demand.id, {})[site] = None
        self._turn.census.add(demand, placement)

    def settle(self, demand: Demand[Slot]) -> None:
        """The demand has been matched as far as possible: its agents may be launched on."""
        for site in self._partly.pop(demand.id, ()):
            self._ready.push(ids.namespace_of(demand.application), site)

    def launch_now(self, demand: Demand[Slot]) -> None:
        """Launches on all agents that hold placements of a demand."""
        for site in self._partly.pop(demand.id, ()):
            if site in self._planned:
                self._launch(site)

    def launch_next(self) -> bool:
        """Launches on one agent. True if anything was launched."""
        item = self._ready.pop()
        return item is not None and item[2] in self._planned and self._launch(item[2])

    def void(self) -> None:
        """All offers are gone, and with them everything that is planned."""
        for planned in self._planned.values():
            for demand, placement in planned:
                self._turn.census.remove(demand, placement)
                self._turn.engine.unplan(demand.id, placement.slot)
        self._planned.clear()
        self._partly.clear()
        self._ready = FairQueue()

    def forget(self) -> None:
        """After an error, when the engine is made anew: nothing is planned."""
        self._turn.census.clear()
        self._planned.clear()
        self._partly.clear()
        self._ready = FairQueue()

    # --- one agent --------------------------------------------------------------------------------------------

    def _launch(self, site: Site) -> bool:
        """Writes the taskgroups of one agent; their launch leaves after they are durable. True if anything was
        launched."""
        valid = self._valid(site)
        if not valid:
            return False
        pool, launches = self._turn.pool, list[Launch]()
        for first in range(0, len(valid), UNIT):
            self._write(valid[first : first + UNIT], launches)
        held = [launch for launch in launches if launch.held]
        if not held or len(held) < len(launches):
            lots = tuple(offer.id for offer in pool.hand.take(*site))
            sent = tuple(launch for launch in launches if not launch.held)
            if pool.hand.external:
                pool.hand.external.used(launch.allocation for launch in sent)
            self._send(site[0], lots, sent)
        pool.hand.unplan(site)
        for launch in held:
            request = request_of(launch.version, self._turn.options.traits.overhead)
            pool.holds.add(launch.taskgroup.id, Cause.PLACEHOLDER, site, request)
        self._turn.cut()
        return bool(launches)

    def _valid(self, site: Site) -> list[Placement[Slot]]:
        """The placements on an agent whose allocations are still valid. They leave the plan."""
        turn = self._turn
        allocations = {id(allocation) for allocation in turn.pool.claims(*site)}
        valid: list[Placement[Slot]] = []
        for demand, placement in self._planned.pop(site):
            turn.census.remove(demand, placement)
            if id(placement.allocation) in allocations:
                valid.append(placement)
            else:
                turn.engine.unplan(demand.id, placement.slot)
        return valid

    def _send(self, agent_id: str, lots: tuple[str, ...], launches: tuple[Launch, ...]) -> None:
        """One ACCEPT for all offers of the agent, or a DECLINE if nothing is left to be launched."""
        turn = self._turn
        if launches:
            turn.emit(LaunchOnAgent(agent_id=agent_id, offer_ids=lots, launches=launches, cause=turn.cause))
        else:
            turn.emit(Decline(offer_ids=lots, refuse_seconds=0.0, cause=turn.cause))

    def _write(self, placements: list[Placement[Slot]], launches: list[Launch]) -> None:
        """Writes the taskgroups of placements as one unit and adds their launches to `launches`. A placement that
        cannot be written ends its transaction; the others of the unit are matched again."""
        turn = self._turn
        written: list[Launch | None] = []
        failure = turn.attempt("agent", placements[0].agent_id, partial(self._record, placements, written))
        if failure is None:
            launches += [launch for launch in written if launch is not None]
            return
        for number, placement in enumerate(placements):
            if number == len(written):
                turn.engine.fail(turn.context, placement.demand, failure)
            else:
                turn.engine.restore(turn.context, placement.demand, placement.slot)

    def _record(self, placements: list[Placement[Slot]], written: list[Launch | None]) -> None:
        turn = self._turn
        injections = Injections(turn.state)
        for placement in placements:
            placed = turn.engine.placed(turn.context, placement, injections)
            launch = None
            if placed is not None:
                group, version, injected = placed
                launch = Launch(taskgroup=group, version=version, allocation=placement.allocation, injected=injected)
            written.append(launch)
