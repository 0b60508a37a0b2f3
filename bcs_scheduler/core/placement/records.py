"""The source of units that are records: taskgroups (`core.placement.source`)."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING

from bcs_scheduler.core.interface.cluster_manager import Launch, LaunchOnAgent
from bcs_scheduler.core.interface.leased import Decline
from bcs_scheduler.core.placement.source import Member, Room, Tenant
from bcs_scheduler.core.run_times import OF_APPLICATION
from offers.ledger.holds import Cause
from offers.model import Demand, Placement, Site
from offers.policy.obstacles import Obstacle
from offers.resources import SCALARS
from store.ids import nanoseconds_of, object_key
from transactions.base import Failure, Refused, Slot
from transactions.injection import Injections
from transactions.kinds import reschedule
from transactions.obstacles import protecting
from transactions.resource_request import request_of
from transactions.rules import disruptions, gangs
from transactions.rules.application_types import bound_to_agents
from transactions.rules.gangs import Shortage

if TYPE_CHECKING:
    from bcs_scheduler.core.context import TurnContext

UNIT = 50
"""Taskgroups written in one unit at most, so that any store takes it whole."""
APPLICATIONS = 500
"""Applications that are looked at for runs that end soon, those with runs of their own first."""
TASKGROUPS = 500
"""Running taskgroups that are looked at for the same."""


class Records:
    """See `source.Source`. A unit is named by the id of its taskgroup, and a demand by the id of its transaction."""

    def __init__(self, turn: TurnContext) -> None:
        self._turn, self._state = turn, turn.state

    # --- units

    def tenant(self, unit: str) -> Tenant | None:
        """See `Source`."""
        group = self._state.taskgroups.get(unit)
        if group is None:
            return None
        title = object_key(group.namespace, group.name)
        leaves = bool(group.killing_since) or group.ended
        ended_at = group.ended_at if group.ended else 0.0
        return Tenant(unit, group.application_key, group.agent_id, title, leaves, ended_at)

    def has_ended(self, unit: str) -> bool:
        """See `Source`."""
        group = self._state.taskgroups.get(unit)
        return group is None or group.ended

    def has_started(self, application: str, since: float) -> bool:
        """See `Source`."""
        return any(group.created_at >= since for group in self._state.groups_of(application).values())

    def age_of(self, demand: str) -> int:
        """See `Units`: the id of a transaction has its time."""
        return nanoseconds_of(demand)

    def is_wanted(self, demand: str) -> bool:
        """See `Units`: its transaction is active."""
        transaction = self._state.transactions.get(demand)
        return transaction is not None and transaction.active

    def priority(self, demand: Demand[Slot]) -> int:
        """See `Source`: that of the version that is launched."""
        return self._turn.engine.priority(self._state, demand.id)

    def room_on(self, agent: str) -> Room:
        """See `Source`. The taskgroups of daemonsets stay."""
        used, lasting = Counter[str](), Counter[str]()
        for group in self._state.groups_on(agent).values():
            if not group.ended:
                application = self._state.applications.get(group.application_key)
                for sums in (used, lasting) if application and bound_to_agents(application) else (used,):
                    sums.update(cpus=group.resources.cpus, mem=group.resources.mem)
        return Room((used["cpus"], used["mem"]), (lasting["cpus"], lasting["mem"]))

    def leaving_on(self, agent: str) -> Mapping[str, int]:
        """See `Source`."""
        sums = Counter[str]()
        for group in self._state.groups_on(agent).values():
            if group.killing_since and not group.ended:
                sums.update({name: getattr(group.resources, name) for name in SCALARS})
        return sums

    def ending_within(self, role: str, seconds: float) -> Mapping[str, dict[str, int]]:
        """See `Source`. The median of the runs that have lasted longer than the present one is the expected end."""
        state, run_times, now = self._state, self._turn.run_times, self._turn.now
        found: dict[str, dict[str, int]] = {}
        if not len(run_times):
            return found
        own = run_times.applications()
        kinds: dict[str, tuple[float, ...]] = {}
        left = TASKGROUPS
        for key in dict.fromkeys((*islice(own, APPLICATIONS), *islice(list(state.applications), APPLICATIONS))):
            application = state.applications.get(key)
            version = state.version(key, application.version) if application is not None else None
            if application is None or version is None or version.restart_policy.policy == "Always" or left <= 0:
                continue
            runs = run_times.own(key)
            if runs is None:
                kind = application.type
                runs = kinds[kind] if kind in kinds else kinds.setdefault(kind, run_times.basis("", kind))
            for group in islice(state.groups_of(key).values(), left) if runs else ():
                left -= 1
                if group.ended or group.killing_since or not group.running_since or (group.role or "*") != role:
                    continue
                rest = runs[bisect_right(runs, now - group.created_at) :]
                if len(rest) >= OF_APPLICATION and rest[len(rest) // 2] - (now - group.created_at) <= seconds:
                    sums = found.setdefault(group.agent_id, {})
                    for name in SCALARS:
                        sums[name] = sums.get(name, 0) + getattr(group.resources, name)
        return found

    def shortage(self, group: str) -> Shortage | None:
        """See `Source`."""
        record = self._state.pod_groups.get(group)
        return gangs.shortage(self._state, record, self._planned) if record is not None else None

    def _planned(self, application: str) -> int:
        return sum(map(self._turn.engine.planned, self._state.active_of(application)))

    def members(self, group: str) -> Iterable[Member]:
        """See `Source`."""
        state, default = self._state, self._turn.options.transactions.role
        for key in list(state.indexes.applications_in(group)):
            application = state.applications.get(key)
            version = state.version(key, application.version) if application is not None else None
            if application is not None and version is not None:
                yield Member(application.member, version.role or default)

    # --- budgets

    def spends(self, unit: str) -> bool:
        """See `Source`."""
        group = self._state.taskgroups.get(unit)
        application = self._state.applications.get(group.application_key) if group is not None else None
        return group is not None and application is not None and disruptions.is_serving(application, group)

    def may_end(self, unit: str) -> bool:
        """See `Source`."""
        group = self._state.taskgroups.get(unit)
        return group is not None and disruptions.at(self._turn.context).judge(group, "evict").refusal is None

    def may_ever_end(self, unit: str) -> bool:
        """See `Source`."""
        group = self._state.taskgroups.get(unit)
        return group is not None and disruptions.at(self._turn.context).protection(group, "evict") is None

    def obstacle(self, unit: str) -> Obstacle:
        """See `Source`."""
        group = self._state.taskgroups.get(unit)
        return Obstacle.LEAVING if group is None else protecting(disruptions.at(self._turn.context), group)

    def allowance(self, application: str) -> int:
        """See `Source`."""
        return disruptions.allowance(self._turn.context, application)

    def admits_some(self, application: str) -> bool:
        """See `Source`."""
        return disruptions.admits_some(self._turn.context, application)

    def grows_at(self, application: str) -> float:
        """See `Source`."""
        return disruptions.grows_at(self._turn.context, application)

    def budget_of(self, application: str) -> tuple[str, ...]:
        """See `Source`."""
        return disruptions.budget_of(self._turn.context, application)

    # --- effects

    def evict(self, unit: str, beneficiary: str, queue: str, *, is_paid: bool) -> str | None:
        """See `Source`: begins a transaction, which kills the taskgroup and looks for another place."""
        group = self._state.taskgroups.get(unit)
        if group is None:
            return "it does not exist"
        try:
            reschedule.evict(self._turn.context, group, beneficiary, queue, is_paid=is_paid)
        except Refused as refused:
            return refused.message
        return None

    def fail(self, demand: str, failure: Failure) -> None:
        """See `Source`: the transaction ends."""
        self._turn.engine.fail(self._turn.context, demand, failure)

    def bind(self, site: Site, placements: Sequence[Placement[Slot]]) -> bool:
        """See `Source`: writes the taskgroups of one agent; their launch leaves after they are durable.

        The launch uses up lots, the leased parts of the agent; for a cluster manager with offers, a lot is an offer.
        Only `_send` depends on this."""
        pool, launches = self._turn.pool, list[Launch]()
        for first in range(0, len(placements), UNIT):
            self._write(placements[first : first + UNIT], launches)
        held = [launch for launch in launches if launch.held]
        if not held or len(held) < len(launches):
            lots = tuple(offer.id for offer in pool.hand.withdraw(*site))
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

    def _send(self, agent_id: str, lots: tuple[str, ...], launches: tuple[Launch, ...]) -> None:
        """One ACCEPT for all offers of the agent, or a DECLINE if nothing is left to be launched."""
        turn = self._turn
        if launches:
            turn.emit(LaunchOnAgent(agent_id=agent_id, offer_ids=lots, launches=launches, cause=turn.cause))
        else:
            turn.emit(Decline(offer_ids=lots, refuse_seconds=0.0, cause=turn.cause))

    def _write(self, placements: Sequence[Placement[Slot]], launches: list[Launch]) -> None:
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

    def _record(self, placements: Sequence[Placement[Slot]], written: list[Launch | None]) -> None:
        turn = self._turn
        injections = Injections(turn.state)
        for placement in placements:
            placed = turn.engine.placed(turn.context, placement, injections)
            launch = None
            if placed is not None:
                group, version, injected = placed
                launch = Launch(taskgroup=group, version=version, allocation=placement.allocation, injected=injected)
            written.append(launch)
