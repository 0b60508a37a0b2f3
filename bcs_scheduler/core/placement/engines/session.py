"""The policy `session`: a session decides about all open demands of a role at a time.

The session decides how many slots of which demands are launched, and on which agents; the matcher carries that out
(`Placer.assign`), because it knows exactly which parts of offers a taskgroup takes.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import TypeVar

from bcs_scheduler.core.placement.aging import (
    MOST_USES,
    Aging,
    Awaiting,
    EvictionPlan,
    Holder,
    NotKnown,
    OldHold,
    as_plan,
    is_gang,
    may_ever_end,
)
from bcs_scheduler.core.placement.copied import copied
from bcs_scheduler.core.placement.engines.engine import (
    LEFT,
    Deciding,
    Decisions,
    Portion,
    Rest,
    none,
    nothing,
)
from bcs_scheduler.core.placement.engines.set_aside import SetAside
from bcs_scheduler.core.placement.inputs import Inputs
from bcs_scheduler.core.placement.pauses import Pauses
from bcs_scheduler.core.placement.snapshots.agent_tests import AgentTests, PausedPairs
from bcs_scheduler.core.placement.snapshots.held import resource_of
from bcs_scheduler.core.placement.snapshots.pending import demand_of, index_of, waiting_tasks
from bcs_scheduler.core.placement.snapshots.role import RoleInput
from bcs_scheduler.core.placement.source import News
from bcs_scheduler.core.placement.turn import Turn
from bcs_scheduler.core.time_budget import MATCHING, TimeBudget
from offers.model import Demand, HeldBack
from offers.policy.hierarchy.configuration.partition import Partition
from offers.policy.session.decisions import (
    QUEUE_GUARANTEES,
    QUEUE_KEPT,
    QUEUE_LIMIT,
    Bind,
    PluginFault,
    SessionResult,
    earliest,
)
from offers.policy.session.guard import UNWATCHED, Calls, NeverReturned, PluginFailed
from offers.policy.session.kept import NOTHING_KEPT, Kept, Standing
from offers.policy.session.memory import Memory
from offers.policy.session.policy import PluginChoice, Policy
from offers.policy.session.preemption import EVICTING, AskedPlace, Places, places
from offers.policy.session.session import Session as Opened
from offers.policy.session.session import decide
from offers.policy.waiting import WaitCode
from store.ids import namespace_of
from transactions.base import Slot
from transactions.text import duration

T = TypeVar("T")


class Session:
    """The engine of one partition of roles whose policy is `session`."""

    decides, by_queues = True, False
    drop = accept = next_timer = conclude = recover = void = staticmethod(nothing)
    idle = promised = agent_holds = staticmethod(none)

    def __init__(self, turn: Turn, policy: Policy, inputs: Inputs, pauses: Pauses) -> None:
        self._turn, self._policy, self._inputs, self._pauses = turn, policy, inputs, pauses
        self._set_aside = SetAside()
        self._faults: list[tuple[PluginFault, str]] = []
        self._memories: dict[str, Memory] = {}
        """The memory of the sessions of each role: turns of demands continue where the session before has stopped."""

    # --- one session ------------------------------------------------------------------------------------------

    def begin(self) -> bool:
        """See `Engine`."""
        self._inputs.snapshots.drain()
        return False

    def catch_up(self, roles: Iterable[str], pace: TimeBudget) -> bool:
        """See `Engine`."""
        for role in roles:
            while self._inputs.catch_up(role):
                if pace.spent() >= MATCHING:
                    return False
        return True

    def decide(self, portion: Portion) -> Decisions:
        """See `Engine`. A session within its bound continues where the one before has stopped."""
        role, until = portion.role, portion.until
        is_used_up: Callable[[], bool] | None = None
        memory: Memory | None = None
        if until is not None:
            memory = self._memories.setdefault(role, Memory())
            if not portion.is_grouped:
                is_used_up = lambda: portion.pace.spent() >= until  # noqa: E731
        while True:
            inputs = self._inputs.of_role(role, portion.demands, portion.caps)
            try:
                outcome = self._decided(inputs, portion, memory, is_used_up)
            except NeverReturned as hangs:
                self._put_aside(hangs)
                self._memories.pop(role, None)
                memory = None if memory is None else self._memories.setdefault(role, Memory())
            else:
                break
        if until is not None:
            self._faults += ((fault, "failed") for fault in outcome.faults)
        return self._decisions(inputs, outcome)

    def _decided(
        self, inputs: RoleInput, portion: Portion, memory: Memory | None, is_used_up: Callable[[], bool] | None
    ) -> SessionResult:
        inputs.agents.clear()
        inputs.jobs.clear()
        clock, paused = self._turn.options.session_clock, self._pauses.present()
        kept, closed = self._kept(portion.held), portion.closed

        def work(policy: Policy, calls: Calls) -> SessionResult:
            return decide(
                inputs.snapshot,
                policy,
                clock,
                calls,
                memory=memory,
                is_used_up=is_used_up,
                paused=paused,
                kept=kept,
                closed=closed,
            )

        return self._watched(inputs, work, self._turn.source.allowance)

    def _watched(self, inputs: RoleInput, work: Callable[[Policy, Calls], T], allowance: Callable[[str], int]) -> T:
        """The result of `work`, which gets the policy with the tests of agents, and `allowance`. Plug-ins of third
        parties are bounded in time. Raises NeverReturned."""
        options, explainer = self._turn.options, self._turn.placer.tests()
        source = self._turn.source
        chosen = self._set_aside.rest(self._policy, self._turn.now)

        def with_tests(calls: Calls) -> T:
            budgets = (allowance, calls, source.obstacle, source.grows_at, source.budget_of)
            tests = AgentTests(explainer, inputs.numbers, inputs.tests, *budgets)
            tier = (PluginChoice(tests, {}, trusted=True), PluginChoice(PausedPairs(), {}, trusted=True))
            return work(chosen._replace(tiers=(*chosen.tiers, tier)), calls)

        if options.plugin_watch is None or chosen.trusted:
            return with_tests(UNWATCHED)
        return options.plugin_watch.run(with_tests, chosen.plugin_seconds)

    def _put_aside(self, hangs: NeverReturned) -> None:
        self._set_aside.add(hangs.fault, self._turn.now)
        self._inputs.snapshots.forget()  # the abandoned session may still use the snapshot

    def _decisions(self, inputs: RoleInput, outcome: SessionResult) -> Decisions:
        return Decisions(
            outcome.binds,
            outcome.evictions,
            outcome.nominations,
            inputs.missing,
            self._held_back(outcome),
            outcome.attempts,
            {queue: {name: int(part) for name, part in parts.items()} for queue, parts in outcome.deserved.items()},
            earliest((outcome.later, self._set_aside.later(self._turn.now))),
            Rest.TURNS if outcome.unfinished else Rest.NOTHING,
        )

    def _held_back(self, outcome: SessionResult) -> dict[str, HeldBack]:
        """The queues that hold applications back, by application."""
        held_back = {}
        for application, reason in outcome.held_back.items():
            queue = self.queue_of(application)
            used, parts = outcome.allocated[queue], outcome.deserved.get(queue, {})
            allocated = tuple((resource_of(name), amount) for name, amount in used.items() if amount)
            deserved = tuple((resource_of(name), int(part)) for name, part in parts.items() if part)
            if reason in {QUEUE_LIMIT, QUEUE_KEPT}:
                most = self._turn.source.capability(queue)
                code = WaitCode.QUEUE_MAXIMUM if reason == QUEUE_LIMIT else WaitCode.QUEUE_KEPT
                held_back[application] = HeldBack(queue, True, allocated, most, code)
            else:
                hold = WaitCode.GUARANTEES if reason == QUEUE_GUARANTEES else ""
                held_back[application] = HeldBack(queue, False, allocated, deserved, hold)
        return held_back

    def answer(self, portion: Portion, queues: Partition | None = None) -> Decisions:  # noqa: ARG002
        """See `Engine`. Costs as much as a session."""
        return copied(self).decide(portion)

    def read_changes(self) -> Iterator[None]:
        """See `Engine`."""
        for role in self._inputs.roles():
            while self._inputs.catch_up(role, LEFT):
                yield

    def failed(self) -> None:
        """See `Engine`: turns whose decisions were not carried out do not count."""
        self._memories.clear()

    def faults(self) -> list[tuple[PluginFault, str]]:
        """See `Engine`."""
        faults, self._faults = self._faults, []
        for fault in self._set_aside.untold():
            words = f"{fault.cause}; not used for {duration(self._set_aside.pause(fault.plugin))}"
            faults.append((fault._replace(cause=words), "hung"))
        return faults

    # --- questions --------------------------------------------------------------------------------------------

    def spreads(self) -> bool:
        """See `Engine`."""
        return self._policy.spreads

    def queue_of(self, application: str) -> str:
        """See `Engine`."""
        return self._turn.source.queue_of(application)

    def takes_back(self, demand: Demand[Slot], replaced: str) -> bool:  # noqa: ARG002
        """See `Engine`: the capability of the queue suffices."""
        return self._turn.queues.has_capability(demand, self._inputs.planned())

    def admits_more(self, wants: Sequence[Demand[Slot]]) -> bool:
        """See `Engine`: the latest session has not found the queue at a limit or at its share."""
        return not any(map(self._turn.queues.holds_back, dict.fromkeys(wants))) and self.fits_queues(wants)

    def fits_queues(self, wants: Sequence[Demand[Slot]]) -> bool:
        """See `Engine`: the capability of the queues suffices, beside the promises to others."""
        taken = self._taken(wants)
        return all(
            self._turn.queues.has_capability(wants[number], (*taken, *wants[:number], *wants[number + 1 :]))
            for number in {namespace_of(want.application): at for at, want in enumerate(wants)}.values()
        )

    def outranks(
        self,
        demand: Demand[Slot],
        wants: Sequence[Demand[Slot]],
        holder: Holder,
        *,
        awaits: bool,
    ) -> bool:
        """See `Engine`. A gang for which others are ended gets the room that they leave, too."""
        if awaits and is_gang(demand):
            return True
        return self._standing(demand, wants).outranks(self._standing_of(holder))

    def _standing_of(self, holder: Holder) -> Standing:
        """The standing of old work."""
        standing = self._standing(holder.demand, holder.wants)
        return standing._replace(has_victims=holder.has_victims)

    def _standing(self, demand: Demand[Slot], wants: Sequence[Demand[Slot]]) -> Standing:
        """The standing of a demand with all places that it needs at the same time."""
        priority = self._turn.source.priority(demand)
        return self._turn.queues.standing(demand, (*self._taken(wants), *wants[1:]), priority)

    def _taken(self, wants: Iterable[Demand[Slot]]) -> list[Demand[Slot]]:
        """The demand of each placement that is not launched yet, and of each promise, but for promises to these."""
        own, demands = {want.id for want in wants}, self._turn.engine.demands
        promised = (demand_of(task) for _, task in self._inputs.promises.nominations)
        return [*self._inputs.planned(), *(demands[name] for name in promised if name in demands and name not in own)]

    def use_held(self, aging: Aging, deciding: Deciding) -> None:
        """See `Engine`."""
        awaiting = self.awaiting()
        for _ in range(MOST_USES):
            if not aging.use(deciding(""), awaiting):
                break

    def use_rest(self, aging: Aging, deciding: Deciding) -> None:
        """See `Engine`; by the deserved shares of the session."""
        promised = self.awaiting()
        for _ in range(MOST_USES):
            if not aging.use([demand for demand in deciding("") if demand.id not in promised], {}):
                break

    def bound(self, binds: Sequence[Bind]) -> None:
        """See `Engine`."""
        self._inputs.promises.drop((bind.job, bind.task) for bind in binds)

    def awaiting(self) -> Awaiting:
        """See `Engine`."""
        awaiting: dict[str, dict[int, str]] = {}
        for (_, task), promise in self._inputs.promises.nominations.items():
            awaiting.setdefault(demand_of(task), {})[index_of(task)] = promise.agent
        return awaiting

    def promised_amounts(self, role: str, without: Collection[str]) -> dict[str, Mapping[str, int]]:
        """See `Engine`."""
        return self._inputs.promises.amounts(role, without)

    def pause(self) -> float:
        """See `Engine`."""
        return self._turn.options.session_period

    # --- old work ---------------------------------------------------------------------------------------------

    def _kept(self, held: OldHold | None) -> Kept:
        """The room that is held for old work, as sessions see it."""
        if held is None:
            return NOTHING_KEPT
        nominations = self._inputs.promises.nominations
        nominated = frozenset(job for (job, _), nomination in nominations.items() if nomination.agent in held.amounts)
        standing, holder = self._standing_of(held.holder), held.holder
        served = frozenset(self._places(holder.wants) or ()) if holder.makes_room else frozenset()
        return Kept(held.amounts, held.lacks, standing, holder.applications, outranking=nominated, served=served)

    def _places(self, wants: Sequence[Demand[Slot]]) -> list[tuple[str, str]] | None:
        """The names of job and task of each place that is not promised; None if there are too few."""
        nominations = self._inputs.promises.nominations
        return waiting_tasks(wants, lambda *task: task in nominations)

    def evictions_for(
        self, wants: Sequence[Demand[Slot]], held: OldHold | None, deciding: Deciding, *, anywhere: bool
    ) -> EvictionPlan | None:
        """See `Engine`. Costs as much as the begin of a session, or of two. Those that the budgets admit now end rather
        than less important ones whose budgets may never admit it."""
        tasks, role = self._places(wants), wants[0].role
        demands = deciding(role)
        known = {demand.id for demand in demands}
        evicts = not EVICTING.isdisjoint(choice.action.name for choice in self._policy.actions)
        if not evicts or tasks is None or any(want.id not in known for want in wants):
            return None
        agents = ("",) * len(wants) if held is None or anywhere else held.agents
        needed = [AskedPlace(*task, agent) for task, agent in zip(tasks, agents, strict=True)]
        kept = NOTHING_KEPT
        if held is not None:
            standing = self._standing_of(held.holder)
            kept = Kept(held.amounts, held.lacks, standing, held.holder.applications, is_own=True)
        inputs, paused = self._inputs.of_role(role, demands, {}), self._pauses.present()
        clock, source = self._turn.options.session_clock, self._turn.source

        def work(policy: Policy, calls: Calls) -> Places | None:
            try:
                return places(Opened(inputs.snapshot, policy, clock, calls=calls, paused=paused, kept=kept), needed)
            except PluginFailed as failure:  # the next session reports it
                raise NotKnown from failure

        try:
            made = self._watched(inputs, work, source.allowance)
            made = made or self._watched(inputs, work, partial(may_ever_end, source))
        except NeverReturned as hangs:
            self._put_aside(hangs)
            raise NotKnown from hangs
        return as_plan(source, made.agents, made.evictions) if made is not None else None

    # --- following --------------------------------------------------------------------------------------------

    def notice(self, news: News) -> bool:
        """See `Engine`; queues and their namespaces decide about the order."""
        return news.queues

    def drop_figures(self) -> None:
        """See `Engine`: the snapshots, and the tries in vain and capacities of the memories."""
        self._inputs.snapshots.drop_figures()
        for memory in self._memories.values():
            memory.drop_figures()

    def forget(self) -> None:
        """See `Engine`; the snapshots are made anew."""
        self._inputs.snapshots.forget()
        self._memories.clear()
