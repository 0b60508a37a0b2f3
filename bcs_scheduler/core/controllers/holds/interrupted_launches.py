"""Launches of an earlier leader that may not have left (docs/decisions/0074-interrupted-launches.md).

A taskgroup is recorded before its launch leaves. If the leader ends in between, its successor is offered the room of
the taskgroup as free room. The successor holds the room until the cluster manager has said whether the taskgroup was
launched. If it was not, the taskgroup that is launched in its place gets the room before all other demands.

The room of a placeholder that the cluster manager keeps is in the offers of the agent, or the launch did not leave.
Then the launch is repeated, because such a placeholder has no task that could be started twice.
"""

from __future__ import annotations

from collections.abc import Iterable

from bcs_scheduler.core.context import TurnContext
from bcs_scheduler.core.controllers.cluster.reconciler import Reconciler
from bcs_scheduler.core.controllers.holds.following import follow_taskgroups, site_of
from bcs_scheduler.core.interface.cluster_manager import Launch, LaunchOnAgent
from bcs_scheduler.core.work_queue import WorkQueue
from offers.errors import Shortage
from offers.ledger.holds import ANSWER_SECONDS, Cause
from offers.model import ResourceRequest, Site
from offers.resources import draw
from store.records import TaskGroup, Transaction, Version
from transactions.base import Step
from transactions.injection import Injections
from transactions.resource_request import request_of
from transactions.rules import relaunch
from transactions.rules.application_types import bound_to_agents


class InterruptedLaunches:
    """Holds the room of taskgroups that an earlier leader has placed, and that have no report yet. Also a
    `transactions.base.Gate`."""

    def __init__(self, turn: TurnContext, reconciler: Reconciler) -> None:
        self._turn = turn
        self._reconciler = reconciler
        self._holds = turn.pool.holds
        self._covered: dict[str, None] = {}
        """Taskgroups without a report whose room is in the offers, until their launch is repeated or asked for."""
        self._promised: dict[str, Site] = {}
        """Agent and role with room for the replacement of a taskgroup whose launch did not leave."""
        self._began = turn.now
        """Unix seconds of the begin of the term: later launches are those of this leader."""
        self._due = WorkQueue()
        """Taskgroups of both kinds, by the time at which their room is free for all."""

    # --- controller -------------------------------------------------------------------------------------------

    def recover(self) -> None:
        """Holds the room of the taskgroups without a report."""
        turn = self._turn
        for name in (*self._holds.of(Cause.INTERRUPTED), *self._promised):
            self._free(name)
        if turn.options.traits.capacity != "leased":
            return
        turn.each("taskgroup", turn.state.taskgroups, self._hold)

    def _hold(self, key: str) -> None:
        turn, group = self._turn, self._turn.state.taskgroups[key]
        version = self._interrupted(group)
        if version is not None:
            self._holds.add(key, Cause.INTERRUPTED, site_of(group), self._request(group, version))
            self._due.put(key, turn.now + ANSWER_SECONDS)

    def notice(self, changed: Iterable[tuple[str, str]]) -> None:
        """Ends the holds of taskgroups that were reported or ended."""
        if not (self._holds or self._promised):
            return
        follow_taskgroups(self._turn, changed, lambda group: self._waits(group.id), self._follow, self._ended)

    def next_timer(self) -> float | None:
        """Unix seconds at which the next hold ends; None: there is no hold."""
        return self._due.first()

    def tick(self) -> None:
        """Asks for the tasks whose room is free, and repeats the launches of kept placeholders."""
        turn = self._turn
        turn.each("taskgroup", self._due.due(turn.now), self._free)
        if not self._holds.of(Cause.INTERRUPTED):
            return
        turn.pool.table.flush()
        for name in self._holds.take_news(Cause.INTERRUPTED):
            if name in self._holds.short:
                self._covered.pop(name, None)
            else:
                self._covered[name] = None
        again: dict[Site, list[str]] = {}

        def judge(name: str) -> None:
            group = turn.state.taskgroups[name]
            if not self._is_kept(group):
                # An answer that came before the room would leave the place of the taskgroup in its queue to others.
                self._reconciler.ask([task.id for task in group.tasks])
                del self._covered[name]
            elif self._has_room(group):
                self.confirmed(name)
            else:
                again.setdefault(site_of(group), []).append(name)

        turn.each("taskgroup", list(self._covered), judge)
        for site, names in again.items():
            self._repeat(site, names)
        turn.cut()

    def confirmed(self, name: str) -> None:
        """The cluster manager knows the taskgroup of this name: its room is not free. Names of other taskgroups are
        ignored."""
        if self._waits(name):
            self._free(name)

    def admitted(self, transaction: Transaction, step: Step) -> Step:  # noqa: ARG002 (the slots name the taskgroups)
        """Implements `Gate`: slots with held room are placed there, before the other slots of the step."""
        if not self._promised or step.per_agent:
            return step
        pinned = {slot: self._promised[slot.replaces][0] for slot in step.slots if slot.replaces in self._promised}
        if not pinned:
            return step
        return step._replace(
            slots=tuple(pinned), only_agents=frozenset(pinned.values()), promised=tuple(pinned.items())
        )

    # --- taskgroups -------------------------------------------------------------------------------------------

    def _interrupted(self, group: TaskGroup) -> Version | None:
        """The version of a taskgroup whose launch may not have left; None for all others. A taskgroup that is bound to
        its agent competes with none, and placeholders with held room have no launch."""
        if group.status != "Staging" or group.started or group.killing_since or group.unreachable_since:
            return None
        if group.created_at > self._began:
            return None
        state = self._turn.state
        application = state.applications.get(group.application_key)
        version = state.version(group.application_key, group.version)
        if version is None or version.held or application is None or bound_to_agents(application):
            return None
        return version

    def _waits(self, name: str) -> bool:
        """True for a taskgroup without a report."""
        return self._holds.cause_of(name) is Cause.INTERRUPTED

    def _follow(self, group: TaskGroup) -> None:
        if group.status != "Staging" or group.killing_since or group.unreachable_since:
            self._free(group.id)

    def _ended(self, name: str) -> None:
        """The taskgroup has ended or is gone."""
        if not self._waits(name):
            if name in self._promised and name not in self._turn.state.taskgroups:
                self._free(name)  # its replacement is placed
            return
        group = self._turn.state.taskgroups.get(name)
        if group is None or group.held or not relaunch.is_due(group) or relaunch.pause(group):
            self._free(name)
            return
        self._covered.pop(name, None)
        self._promised[name] = site_of(group)
        self._due.put(name, self._holds.leave(name, Cause.REPLACEMENT, self._turn.now))

    def _free(self, name: str) -> None:
        """Ends the hold of a taskgroup: anybody may use the room."""
        self._covered.pop(name, None)
        self._due.drop(name)
        self._holds.drop(name)
        if self._promised.pop(name, None) is not None:
            group = self._turn.state.taskgroups.get(name)
            if group is not None:
                self._turn.engine.queue_steps(self._turn.state.active_of(group.application_key))

    # --- kept placeholders ------------------------------------------------------------------------------------

    def _is_kept(self, group: TaskGroup) -> bool:
        version = self._turn.state.version(group.application_key, group.version)
        return version is not None and version.kept

    def _has_room(self, group: TaskGroup) -> bool:
        """The cluster manager keeps the room, by the offers or by the latest list of agents."""
        offered = any(True for _ in self._turn.pool.hand.external.offers_of(group.id))
        return offered or group.id in self._turn.agents.external_holds.get(group.agent_id, ())

    def _repeat(self, site: Site, names: list[str]) -> None:
        """Launches taskgroups again, with all offers of their agent."""
        turn, pool = self._turn, self._turn.pool
        row = pool.row(*site)
        if row is None or row.claims or row.overrides.disabled:
            return  # a launch on the agent is planned, and its rest returns in another offer; or no launch is allowed
        for name in names:
            self.confirmed(name)
        pool.table.flush()
        resources, launches, injections = row.resources, list[Launch](), Injections(turn.state)
        for name in names:
            group = turn.state.taskgroups[name]
            version = turn.state.version(group.application_key, group.version)
            injected = injections.of(version) if version is not None else None
            if version is None or injected is None:
                continue
            try:
                allocation, _, resources = draw(resources, self._request(group, version))
            except Shortage:
                continue
            launches.append(Launch(taskgroup=group, version=version, allocation=allocation, injected=injected))
            turn.record_event("taskgroup", name, "TaskGroupRelaunched", f"launched again on {group.hostname}")
        if launches:
            pool.hand.external.used(launch.allocation for launch in launches)
            lots = tuple(offer.id for offer in pool.hand.withdraw(*site))
            turn.emit(LaunchOnAgent(agent_id=site[0], offer_ids=lots, launches=tuple(launches), cause=turn.cause))

    def _request(self, group: TaskGroup, version: Version) -> ResourceRequest:
        """The resources of a taskgroup that was placed before: its drawn ports are fixed."""
        request = request_of(version, self._turn.options.traits.overhead)
        ports = {port.host_port for task in group.tasks for port in task.ports if port.host_port}
        return request._replace(random_ports=0, fixed_ports=tuple(sorted(ports))) if ports else request
