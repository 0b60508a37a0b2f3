"""The placement pass of the policy `session`: a session decides about all open demands of a role at a time.

The session decides how many slots of which demands are launched, and on which agents; the matcher carries that out
(`Placer.assign`), because it knows exactly which parts of offers a taskgroup takes. Demands of one taskgroup per agent
do not wait for sessions: their agents are given.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import islice
from typing import TypeVar

from bcs_scheduler.core.context import TurnContext
from bcs_scheduler.core.placement.aging import Held, Room, is_gang
from bcs_scheduler.core.placement.copied import copied
from bcs_scheduler.core.placement.launcher import Launcher, Site
from bcs_scheduler.core.placement.pauses import Pauses
from bcs_scheduler.core.placement.placement_pass import Covers, PlacementPass, prompt
from bcs_scheduler.core.placement.placer import SLICE, Foreseen, Mode, avoiding, without_first
from bcs_scheduler.core.placement.sessions.agent_tests import AgentTests, PausedPairs
from bcs_scheduler.core.placement.sessions.chosen import Chosen, Session, assignments
from bcs_scheduler.core.placement.sessions.held import resource_of
from bcs_scheduler.core.placement.sessions.pending import demand_of, index_of, task_name
from bcs_scheduler.core.placement.sessions.role import SessionInput
from bcs_scheduler.core.placement.sessions.rooms import LeavingRooms
from bcs_scheduler.core.placement.sessions.set_aside import SetAside
from bcs_scheduler.core.placement.sessions.snapshots import Promises, Snapshots, TaskName
from bcs_scheduler.core.time_budget import MATCHING, TimeBudget
from offers.dimensions import Amounts
from offers.model import Demand, GroupGap, HeldBack, MatchResult, Placement
from offers.policy.hierarchy import Partition
from offers.policy.holds import Hold
from offers.policy.obstacles import Attempt, Obstacle
from offers.policy.session.configuration.policy import PluginChoice, Policy
from offers.policy.session.decisions import (
    QUEUE_GUARANTEES,
    QUEUE_LIMIT,
    Decisions,
    Eviction,
    Later,
    Passing,
    PluginFault,
    earliest,
)
from offers.policy.session.guard import UNWATCHED, Calls, NeverReturned, PluginFailed
from offers.policy.session.kept import NOTHING_KEPT, Kept, Standing
from offers.policy.session.memory import Memory
from offers.policy.session.model import Nomination
from offers.policy.session.preemption import EVICTING, Places, Wanted, places
from offers.policy.session.session import Session as Opened
from offers.policy.session.session import decide
from store.ids import namespace_of, object_key
from store.mentions import mention, private
from store.records import TaskGroup
from transactions.base import Failure, Refused, Slot
from transactions.explain import NAMED
from transactions.kinds import reschedule
from transactions.obstacles import attempted, protecting
from transactions.rules import disruptions
from transactions.rules.disruptions import BudgetName
from transactions.rules.queues import queue_of
from transactions.text import are, counted, duration

T = TypeVar("T")

NO_BOUND = 1 << 62
"""Above every number of taskgroups."""
AFTER_FAILURE = 60.0
"""Seconds until the next session after one that has failed unexpectedly."""
LEAST_SHARE = 0.4
"""Share of the time of a turn that a session has, however much of it is used up before."""
MOST_USES = 16
"""Times that a session looks for demands that may use the room of old ones; each time places one slot of a demand."""
TOLD_AGAIN = 300.0
"""Seconds between two events about the obstacles of one application, at least."""
TOLD_AT_ONCE = 16
"""Events about obstacles that one session records at most."""
QUEUED = frozenset({"queue", "namespace", "podgroup"})
"""Kinds of records that define queues, their namespaces, and groups of applications."""


class SessionPass(PlacementPass):
    """Runs a session when demands or offers have changed, not sooner than a period after the one before."""

    by_queues = False
    plain = False

    def __init__(
        self,
        turn: TurnContext,
        launcher: Launcher,
        covers: Covers,
        policy: Policy,
        snapshots: Snapshots | None,
        labels: tuple[str, ...] = (),
    ) -> None:
        """`snapshots`: shared with the passes of other partitions, since offers have one reader; None = own ones.
        `labels`: the label of the partition in counts by queue; empty unless several partitions have a tree of
        queues."""
        super().__init__(turn, launcher, covers)
        self._policy = policy
        self.labels = labels
        self._snapshots = snapshots or Snapshots(turn)
        self._set_aside = SetAside()
        self._nominations: dict[TaskName, Nomination] = {}
        """Promised rooms of tasks that wait for them. They end with the term: the next leader's sessions make their
        own."""
        self._awaiting: dict[str, dict[int, str]] = {}
        """Ids of the demands with promised room on agents with held room."""
        self.spreading.promised = self._with_promises
        self._leaving = LeavingRooms(turn.state, turn.pool)
        self._pauses = Pauses(turn, policy.nomination_seconds, self._leaving.__contains__)
        self._gaps: dict[str, GroupGap] = {}
        """The groups of applications that the latest session left below their minimum, by name."""
        self._capped = False
        """Taskgroups above the minimum of a group did not take part in the latest session."""
        self._attempts: dict[str, Attempt] = {}
        """The latest attempts to make room by evictions, by application that waits."""
        self._told: dict[str, tuple[Obstacle, float]] = {}
        """The obstacle that the latest event of an application named, and the time of the event in Unix seconds."""
        self._lacking: dict[str, int] = {}
        """Number of taskgroups that gangs lacked before the latest session, by application."""
        self._memories: dict[str, Memory] = {}
        """The memory of the sessions of each role."""
        self._bound: Callable[[], bool] | None = None
        """True if the session that runs should end; None: it has no bound."""
        self._remembers = False
        """A session runs whose decisions are carried out."""
        self._cut = False
        """The latest session ended before all demands had their turn; the next one continues in the next turn."""
        self._prompt: list[Demand[Slot]] = []
        """Demands whose planned placements are launched in one turn."""
        self._waiting = False
        """Something has changed since the latest session."""
        self._next = 0.0
        """Unix seconds before which no session begins."""
        self._later: Later | None = None
        """The earliest moment in Unix seconds at which a session may decide otherwise although nothing has changed;
        None: there is none."""

    @property
    def busy(self) -> bool:
        """Something can be decided, matched or launched right now."""
        return super().busy or (self._waiting and self._turn.now >= self._next)

    def next_timer(self) -> float | None:
        """Unix seconds at which the next session may begin; None: nothing waits for one."""
        follows = self._next if self._waiting else max(self._later.at, self._next) if self._later else None
        return min((one for one in (super().next_timer(), follows) if one is not None), default=None)

    def _spreads(self) -> bool:
        return self._policy.spreads

    def decide(self, pace: TimeBudget) -> None:
        """Runs a session if one is due, and matches demands of one taskgroup per agent."""
        turn = self._turn
        self._snapshots.drain()
        self._drop_promises()
        if self.spreading.is_over:
            self._judge_again()
        self.aging.step()
        self._pauses.step()
        if self._later is not None and turn.now >= self._later.at:
            self._later, self._waiting = None, self._waiting or self._has_demands()
        if not self._match_promised(pace):
            return
        self._report_hung()
        if self._waiting and turn.now >= self._next and self._caught_up(pace) and self._has_work():
            self._waiting = False
            used_up = max(MATCHING, pace.spent() + LEAST_SHARE)
            self._bound, self._cut = lambda: pace.spent() >= used_up, False
            failure = turn.attempt("core", "session", self._decide)
            self._bound = None
            if failure is not None:
                self._memories.clear()  # turns whose decisions were not carried out do not count
            self._next = turn.now + (AFTER_FAILURE if failure is not None else 0.0 if self._cut else self._pause())
            while self._prompt:
                self._launcher.launch_now(self._prompt.pop(0))
            self._report_hung()
            again = self._cut or (self._capped and not self._gaps)
            self._waiting = failure is not None or (again and self._has_demands())
            if failure is None and self.spreading.until is not None:
                self._next = min(self._next, self.spreading.until)
        self._match_open(pace)

    def _has_work(self) -> bool:
        """False if all demands wait to be spread: no session decides about them now."""
        self.spreading.judge(self._deciding())
        self._waiting = not self.spreading.waiting or bool(self._deciding())
        return self._waiting

    def _caught_up(self, pace: TimeBudget) -> bool:
        """Takes over changes in parts, if there are many. False: the rest follows in the next turn."""
        done = self._turn.attempt("core", "session", partial(self._catch_up, pace))
        return isinstance(done, Failure) or done

    def _catch_up(self, pace: TimeBudget) -> bool:
        for role in dict.fromkeys(demand.role for demand in self._deciding()):
            while self._snapshots.catch_up(role, self._turn.now, plain=self.plain):
                if pace.spent() >= MATCHING:
                    return False
        return True

    def notice(self, changed: Iterable[tuple[str, str]]) -> None:
        """Like `PlacementPass.notice`; queues and their namespaces decide about the order."""
        if not self._waiting and any(kind in QUEUED for kind, _ in changed):
            self._waiting = self._has_demands()

    def void(self) -> None:
        """Like `PlacementPass.void`; promised rooms are forgotten."""
        super().void()
        self._nominations.clear()
        self._leaving.clear()
        self._waiting = False

    def forget(self) -> None:
        """Like `PlacementPass.forget`; the snapshots are made anew."""
        super().forget()
        self._nominations.clear()
        self._leaving.clear()
        self._prompt.clear()
        self._snapshots.forget()
        self._memories.clear()
        self._waiting = False

    def promised(self) -> Collection[str]:
        """See `PlacementPass.promised`."""
        return {promise.agent for promise in self._nominations.values()}

    def offered(self, sites: Iterable[Site]) -> None:
        """See `PlacementPass.offered`; room of taskgroups that have ended on these agents is offered now."""
        super().offered(sites)
        sites = list(sites)
        self._renew_promises({site for site in sites if self._leaving.awaits(site)})
        self._leaving.offered(sites, self._turn.now)
        later = self._later
        if later is not None and later.code is Passing.OFFERS:
            later = Later(Passing.OFFERS, min(later.at, self._turn.offers_until))
        self._later = earliest((later, self._leaving.later()))

    def _renew_promises(self, sites: Collection[Site]) -> None:
        """The time of the promises on these agents in their roles begins now."""
        demands, until = self._turn.engine.demands, self._turn.now + self._policy.nomination_seconds
        for (job, task), promise in self._nominations.items() if sites else ():
            demand = demands.get(demand_of(task))
            if demand is not None and (promise.agent, demand.role) in sites:
                self._nominations[job, task] = promise._replace(until=until)

    def _judge_again(self) -> None:
        """See `PlacementPass._judge_again`. A session decides at once about demands that wait no longer."""
        waiting = list(self.spreading.waiting)
        super()._judge_again()
        demands = self._turn.engine.demands
        self.spreading.judge(demands[identity] for identity in waiting if identity in demands)
        if not self.spreading.waiting.keys() >= set(waiting):
            self._next = min(self._next, self._turn.now)

    def consider(self, identities: list[str]) -> None:
        """Like `PlacementPass.consider`, by the next session."""
        demands = self._turn.engine.demands
        self.aging.note(identities)
        known = [identity for identity in identities if identity in demands]
        apart = [identity for identity in known if demands[identity].per_agent or demands[identity].promised]
        super().consider(apart)
        self._waiting = self._waiting or len(apart) < len(known)

    def takes_back(self, demand: Demand[Slot], replaced: str) -> bool:  # noqa: ARG002
        """See `PlacementPass.takes_back`: the capability of the queue suffices."""
        return self._turn.queues.has_capability(demand, (planned for planned, _ in self._launcher.placements()))

    def admits_more(self, wants: Sequence[Demand[Slot]]) -> bool:
        """See `aging.Rules`: the latest session has not found the queue at a limit or at its share."""
        return not any(map(self._turn.queues.holds_back, dict.fromkeys(wants))) and self.takes(wants)

    def takes(self, wants: Sequence[Demand[Slot]]) -> bool:
        """See `aging.Rules`: the capability of the queues suffices, beside the promises to others."""
        taken = self._taken(wants)
        return all(
            self._turn.queues.has_capability(wants[number], (*taken, *wants[:number], *wants[number + 1 :]))
            for number in {namespace_of(one.application): at for at, one in enumerate(wants)}.values()
        )

    def outranks(self, demand: Demand[Slot], other: Demand[Slot]) -> bool:
        """See `aging.Rules`. A gang for which others are ended gets the room that they leave, too."""
        if demand.id in self._awaiting and is_gang(demand):
            return True
        return self._standing(demand).outranks(self._standing(other))

    def _standing(self, demand: Demand[Slot]) -> Standing:
        """The standing of a demand with all places that it needs at the same time."""
        wants = self.wants(demand)
        return self._turn.queues.standing(demand, (*self._taken(wants), *wants[1:]), self._priority(demand))

    def _taken(self, wants: Iterable[Demand[Slot]]) -> list[Demand[Slot]]:
        """The demand of each placement that is not launched yet, and of each promise, but for promises to these."""
        own, demands = {one.id for one in wants}, self._turn.engine.demands
        promised = (demand_of(task) for _, task in self._nominations)
        planned = [one for one, _ in self._launcher.placements()]
        return [*planned, *(demands[name] for name in promised if name in demands and name not in own)]

    def use_first(self) -> None:
        """Places demands that may use the room of old ones, before a session looks for room or victims for them."""
        kept = {(room.role, room.agent) for room in self.aging.rooms()}
        demands = self._turn.engine.demands
        self._awaiting = {}
        for (_, task), promise in self._nominations.items():
            name = demand_of(task)
            if name in demands and (demands[name].role, promise.agent) in kept:
                self._awaiting.setdefault(name, {})[index_of(task)] = promise.agent
        for _ in range(MOST_USES):
            if not self.aging.use(self._deciding(), self._awaiting):
                break

    def _use_rest(self) -> None:
        """The same after a session, by its deserved shares, for demands to which it promises no other room."""
        promised, self._awaiting = self._with_promises(), {}
        for _ in range(MOST_USES):
            if not self.aging.use([demand for demand in self._deciding() if demand.id not in promised], {}):
                break

    def _with_promises(self) -> set[str]:
        """Ids of the demands with promised room."""
        return {demand_of(task) for _, task in self._nominations}

    def _has_demands(self) -> bool:
        return any(self._covers(size.role) for size in self._turn.engine.by_size)

    def _deciding(self) -> list[Demand[Slot]]:
        """The open demands that sessions decide about now."""
        found = [
            demand
            for demand in self._turn.engine.demands.values()
            if not (demand.per_agent or demand.promised) and self._covers(demand.role)
        ]
        waiting = self.spreading.waiting
        if not waiting:
            return found
        groups = {demand.group for demand in found if demand.id in waiting and demand.group}
        return [demand for demand in found if demand.id not in waiting and demand.group not in groups]

    def _pause(self) -> float:
        """Seconds until the next session may begin."""
        return self._turn.options.session_period

    def _drop_promises(self) -> None:
        """Ends promises of room that have expired, or whose taskgroup does not wait any more: the room is for others,
        which wait for a session. Room that does not come after all is missed by the next session. The time of a promise
        does not pass while no offer of the agent can show its room."""
        demands, now = self._turn.engine.demands, self._turn.now
        self._renew_promises(
            {
                site
                for (_, task), promise in self._nominations.items()
                if promise.until <= now
                and (demand := demands.get(demand_of(task))) is not None
                and self._leaving.awaits(site := (promise.agent, demand.role))
            }
        )
        kept = {
            (job, task): promise
            for (job, task), promise in self._nominations.items()
            if promise.until > now and demand_of(task) in demands
        }
        if self._leaving.expire(now) or len(kept) < len(self._nominations):
            self._nominations = kept
            self._waiting = self._waiting or self._has_demands()

    # --- one session ------------------------------------------------------------------------------------------

    def _decide(self) -> None:
        self.use_first()
        turn, demands = self._turn, self._deciding()
        promised: dict[TaskName, Nomination] = {}
        held_back: dict[str, HeldBack] = {}
        self._gaps, self._capped, self._lacking = {}, False, {}
        waits = {demand.application for demand in demands}
        later: list[Later | None] = []
        self._attempts = {name: attempt for name, attempt in self._attempts.items() if name in waits}
        for role in dict.fromkeys(demand.role for demand in demands):
            decisions = self._decide_role(role, [demand for demand in demands if demand.role == role])
            promised.update(decisions.nominations)
            later.append(decisions.later)
            held_back.update(self._held_back(role, decisions))
        self._nominations = promised
        if not self.plain and self.aging.rooms():
            self._use_rest()
        if self._cut:
            return  # demands that still wait are explained with the last portion
        unshown = (demand for demand in demands if turn.is_unshown(demand.id)) if turn.awaits_offers else ()
        later += [Later(Passing.OFFERS, turn.shown_at(demand.id)) for demand in unshown]
        if turn.now < turn.returning_until:
            later.append(Later(Passing.OFFERS, turn.returning_until))
        self._later = earliest((*later, self._set_aside.later(turn.now), self._leaving.later()))
        waiting = self._waiting_demands(demands)
        turn.placer.explain(waiting, held_back, self._gaps, self._lacking, self._attempts)
        turn.engine.gangs.update(dict.fromkeys(demand.id for demand in waiting if demand.group in self._gaps))
        self._tell(waiting)

    def _tell(self, waiting: Iterable[Demand[Slot]]) -> None:
        """Records an event for each application whose most important obstacle is another one than before."""
        now, known = self._turn.now, self._attempts
        self._told = {name: told for name, told in self._told.items() if name in known or now - told[1] < TOLD_AGAIN}
        left = TOLD_AT_ONCE
        for name in dict.fromkeys(demand.application for demand in waiting):
            attempt, told = known.get(name), self._told.get(name)
            if attempt is None or attempt.cause in (None, Obstacle.NOT_OLD_ENOUGH) or left <= 0:
                continue
            if told is not None and (told[0] is attempt.cause or now - told[1] < TOLD_AGAIN):
                continue
            left -= 1
            self._told[name] = (attempt.cause, now)
            self._turn.record_event("application", name, "ApplicationBlocked", attempted(attempt))

    def _waiting_demands(self, demands: Iterable[Demand[Slot]]) -> list[Demand[Slot]]:
        """The first demands that still wait, as they are now."""
        rest = (found for demand in demands if (found := self._turn.engine.demands.get(demand.id)) is not None)
        return list(islice(rest, self._turn.options.explained))

    def _decide_role(self, role: str, demands: list[Demand[Slot]]) -> Decisions:
        """Runs the session, and carries its decisions out."""
        turn, clock = self._turn, self._turn.options.session_clock
        began = clock() if clock is not None else 0.0
        chosen = self._portion(role, demands)
        self._cut = self._cut or chosen.decisions.unfinished
        if unshown := turn.unshown(demands) | self.aging.gathering():
            chosen = chosen._replace(decisions=chosen.decisions.without_evictions(unshown, self._nominations))
        found, decisions = chosen.found, chosen.decisions
        self._capped = self._capped or chosen.capped
        self._gaps.update(chosen.gaps)
        self._lacking.update(found.missing)
        for fault in decisions.faults:
            self._report(fault, "failed")
        for name, attempt in decisions.attempts.items():
            if attempt is not None:
                self._attempts[name] = attempt
            else:
                self._attempts.pop(name, None)
        waits = {demand.application for demand in demands}
        self._attempts.update((name, one) for name, one in self.aging.attempts().items() if name in waits)
        turn.queues.decided(role, decisions, self._attempts)
        self._carry_out(chosen)
        self._evict(decisions.evictions)
        places, victims = set(decisions.pipelined.values()), {eviction.task for eviction in decisions.evictions}
        self._leaving.promise(role, found.snapshot, places, victims, turn.now)
        self._count_promises(decisions)
        turn.count("policy_session", (), clock() - began if clock is not None else 0.0)
        return decisions

    def _portion(self, role: str, demands: list[Demand[Slot]]) -> Chosen:
        """A session within its bound, which continues where the one before has stopped. Groups of applications are
        decided at once: a part of their members has no use."""
        bound, self._remembers = self._bound, True
        try:
            if any(demand.group for demand in demands):
                self._bound = None
            return self._choose(role, demands, self._session)
        finally:
            self._bound, self._remembers = bound, False

    def _choose(self, role: str, demands: list[Demand[Slot]], session: Session) -> Chosen:
        """The decisions of a session. A group of applications that it leaves below its minimum takes no part in a
        second one, so that others get the room."""
        incomplete = self._groups.incomplete(demands)
        gaps = self._groups.gaps(incomplete, demands, None)
        caps = self._groups.caps(incomplete, demands)
        while True:
            part = [demand for demand in demands if demand.group not in gaps]
            found, decisions = session(role, part, caps)
            short = self._groups.gaps({k: v for k, v in incomplete.items() if k not in gaps}, part, decisions)
            if not short:
                break
            self._drop(decisions)
            gaps.update(short)
        lacking = [lacks for name, lacks in incomplete.items() if name not in gaps]
        return Chosen(found, decisions, {demand.id: demand for demand in part}, lacking, gaps, capped=bool(caps))

    def paused(self, application: str) -> Mapping[str, float]:
        """See `Policy.paused`."""
        return self._pauses.present().get(application, {})

    # --- dry runs ---------------------------------------------------------------------------------------------

    def read_changes(self) -> None:
        """See `placer.Policies`. A session follows changes of agents as fast as a copy of it does."""

    def foresee(
        self,
        demands: Sequence[Demand[Slot]],
        without: frozenset[str] = frozenset(),
        queues: Partition | None = None,
    ) -> Foreseen:
        """See `Policy.foresee`. Costs as much as a session."""
        turn, role = self._turn, demands[0].role
        known = turn.state.transactions
        demands = [avoiding(demand, without) for demand in demands]
        own = {demand.id: demand for demand in demands}
        waiting = [
            avoiding(demand, without)
            for demand in turn.engine.demands.values()
            if demand.role == role
            and demand.id not in own
            and not (demand.per_agent or demand.promised)
            and (transaction := known.get(demand.id)) is not None
            and transaction.active  # the request may have ended it
        ]
        asked = self

        def session(role: str, demands: list[Demand[Slot]], caps: dict[str, int]) -> tuple[SessionInput, Decisions]:
            nonlocal asked
            asked = copied(self)
            return asked._answer(role, demands, caps, queues)

        chosen = self._choose(role, [*waiting, *demands], session)
        held_back = asked._held_back(role, chosen.decisions)
        missing = chosen.found.missing
        with turn.placer.trial() as trial:
            placements = turn.placer.assign(assignments(chosen), missing, chosen.lacking, trial)
            found = [placement for placement in placements if placement.demand in own]
            placed = Counter(placement.demand for placement in found)
            short = [without_first(one, placed[key]) for key, one in own.items() if placed[key] < len(one.slots)]
            why = turn.placer.reasons(short, held_back, chosen.gaps, missing, trial) if short else []
        applications = {demand.application for demand in demands}
        evicted = [one.task for one in chosen.decisions.evictions if one.beneficiary in applications]
        return Foreseen(MatchResult(found, why), tuple(evicted))

    def _answer(
        self, role: str, demands: list[Demand[Slot]], caps: dict[str, int], queues: Partition | None
    ) -> tuple[SessionInput, Decisions]:
        """The decisions of a session that are not carried out, in a copy of the pass. `queues`: see
        `Policy.foresee`."""
        del queues
        return self._session(role, demands, caps)

    def _drop(self, decisions: Decisions) -> None:
        """Decisions that are not carried out, because the session is repeated."""

    def _session(self, role: str, demands: list[Demand[Slot]], caps: dict[str, int]) -> tuple[SessionInput, Decisions]:
        while True:
            found = self._input(role, demands, caps)
            try:
                return found, self._decided(role, found)
            except NeverReturned as hangs:
                self._set_aside.add(hangs.fault, self._turn.now)
                self._snapshots.forget()  # the abandoned session may still use the snapshot
                self._memories.pop(role, None)

    def _input(self, role: str, demands: list[Demand[Slot]], caps: dict[str, int]) -> SessionInput:
        """The present state of a role. `caps`: number of slots that take part, by demand, where not all do."""
        most = {demand.id: self._most(demand) for demand in demands if demand.rules.live}
        most.update((identity, min(most.get(identity, cap), cap)) for identity, cap in caps.items())
        if demands:  # otherwise nothing waits for the room
            self._snapshots.expect(role, self._leaving, self._turn.now)
        moving = (role, demands, most, self._launcher.placements(), Promises(self._nominations, self._leaving))
        return self._snapshots.take(*moving, self._turn.now, plain=self.plain)

    def _decided(self, role: str, found: SessionInput) -> Decisions:
        """The decisions of the policy."""
        turn = self._turn
        found.agents.clear()
        found.jobs.clear()
        clock, paused = turn.options.session_clock, self._pauses.present()
        memory = self._memories.setdefault(role, Memory()) if self._remembers else None
        kept = self._kept_room(role)

        def work(policy: Policy, calls: Calls) -> Decisions:
            return decide(
                found.snapshot,
                policy,
                clock,
                calls,
                memory=memory,
                is_used_up=self._bound,
                paused=paused,
                kept=kept,
            )

        decisions = self._watched(found, work, self._allowance)
        return decisions._replace(later=earliest((decisions.later, found.later)))

    def _watched(
        self,
        found: SessionInput,
        work: Callable[[Policy, Calls], T],
        allowance: Callable[[str], int],
    ) -> T:
        """The result of `work`, which gets the policy with the tests of agents, and `allowance`. Plug-ins of third
        parties are bounded in time. Raises NeverReturned."""
        options, explainer = self._turn.options, self._turn.placer.tests()
        context = self._turn.context
        grows_at, budget_of = partial(disruptions.grows_at, context), partial(disruptions.budget_of, context)
        chosen = self._set_aside.rest(self._policy, self._turn.now)

        def with_tests(calls: Calls) -> T:
            budgets = (allowance, calls, self._kept, grows_at, budget_of)
            tests = AgentTests(explainer, found.numbers, found.tests, *budgets)
            tier = (PluginChoice(tests, {}, trusted=True), PluginChoice(PausedPairs(), {}, trusted=True))
            return work(chosen._replace(tiers=(*chosen.tiers, tier)), calls)

        if options.plugin_watch is None or chosen.trusted:
            return with_tests(UNWATCHED)
        return options.plugin_watch.run(with_tests, chosen.plugin_seconds)

    # --- old work ---------------------------------------------------------------------------------------------

    def _kept_room(self, role: str) -> Kept:
        """The room that is held for old work, as sessions see it."""
        held = self.aging.held(role)
        if held is None:
            return NOTHING_KEPT
        nominated = frozenset(job for (job, _), one in self._nominations.items() if one.agent in held.rooms)
        return Kept(held.rooms, held.lacks, self._standing(held.demand), held.applications, outranking=nominated)

    def _priority(self, demand: Demand[Slot]) -> int:
        return self._turn.engine.priority(self._turn.state, demand.id)

    def room_for(self, wants: Sequence[Demand[Slot]], held: Held | None) -> Room | None:
        """See `aging.Hands`. Costs as much as the begin of a session, or of two. Those that the budgets admit now end
        rather than less important ones whose budgets may never admit it."""
        role = wants[0].role
        demands = [demand for demand in self._deciding() if demand.role == role]
        names = self._waiting_tasks(wants)
        known = {demand.id for demand in demands}
        evicts = not EVICTING.isdisjoint(choice.action.name for choice in self._policy.actions)
        if not evicts or names is None or any(one.id not in known for one in wants):
            return None
        agents = held.agents if held is not None else ("",) * len(wants)
        wanted = [Wanted(one.application, name, agent) for one, name, agent in zip(wants, names, agents, strict=True)]
        kept = NOTHING_KEPT
        if held is not None:
            kept = Kept(held.rooms, held.lacks, self._standing(held.demand), held.applications, is_own=True)
        found, paused = self._input(role, demands, {}), self._pauses.present()
        clock = self._turn.options.session_clock

        def work(policy: Policy, calls: Calls) -> Places | None:
            try:
                return places(Opened(found.snapshot, policy, clock, calls=calls, paused=paused, kept=kept), wanted)
            except PluginFailed:
                return None  # the next session reports it

        try:
            made = self._watched(found, work, self._allowance) or self._watched(found, work, self._may_ever_end)
        except NeverReturned as hangs:
            self._set_aside.add(hangs.fault, self._turn.now)
            self._snapshots.forget()  # the abandoned session may still use the snapshot
            return None
        return self._as_room(made.agents, made.evictions) if made is not None else None

    def _waiting_tasks(self, wants: Sequence[Demand[Slot]]) -> list[str] | None:
        """The names of the tasks of places of demands, without those for which room is made already; None if there are
        too few."""
        names: list[str] = []
        left: dict[str, Iterator[str]] = {}
        for one in wants:
            if one.id not in left:
                tasks = (task_name(one, slot) for slot in one.slots)
                left[one.id] = (name for name in tasks if not self._is_promised(one, name))
            name = next(left[one.id], None)
            if name is None:
                return None
            names.append(name)
        return names

    def _is_promised(self, demand: Demand[Slot], task: str) -> bool:
        """True if room is being made for a task, given by name."""
        return (demand.application, task) in self._nominations

    def _may_ever_end(self, application: str) -> int:
        """The number of ready taskgroups of an application that may end one after the other, as its budget admits."""
        return NO_BOUND if disruptions.admits_some(self._turn.context, application) else 0

    def _as_room(self, agents: tuple[str, ...], evictions: tuple[Eviction, ...]) -> Room | None:
        """The room, or None if a taskgroup must not be ended with any budget."""
        judge, groups = disruptions.at(self._turn.context), self._turn.state.taskgroups
        for one in evictions:
            group = groups.get(one.task)
            if group is None or judge.protection(group, "evict") is not None:
                return None
        return Room(agents, evictions)

    def end_some(self, role: str, evictions: Sequence[Eviction]) -> list[TaskGroup]:
        """See `aging.Hands`."""
        snapshot = self._snapshots.changes(role, is_new=False).snapshot
        ended = [group for groups in self._end(self._within_budgets(evictions)).values() for group in groups]
        places, victims = {group.agent_id for group in ended}, {group.id for group in ended}
        self._leaving.promise(role, snapshot, places, victims, self._turn.now)
        return ended

    def _within_budgets(self, evictions: Iterable[Eviction]) -> list[Eviction]:
        """The evictions that the disruption budgets admit now. Those of a whole gang spend one together."""
        state, found = self._turn.state, list[Eviction]()
        left: dict[BudgetName, int] = {}
        gangs: dict[str, bool] = {}
        for one in evictions:
            group, application = state.taskgroups.get(one.task), state.applications.get(one.job)
            if group is None or application is None:
                continue
            if not disruptions.is_serving(application, group) and not one.with_gang:
                found.append(one)
                continue
            budget = disruptions.budget_of(self._turn.context, one.job)
            if budget not in left:
                left[budget] = self._allowance(one.job)
            if one.job not in gangs or not one.with_gang:
                gangs[one.job] = left[budget] > 0
                left[budget] -= 1
            if gangs[one.job]:
                found.append(one)
        return found

    def all_ended(self, application: str, groups: Sequence[TaskGroup]) -> None:
        """See `aging.Hands`."""
        self._pauses.evicted(application, groups)

    def _count_promises(self, decisions: Decisions) -> None:
        """Counts rooms that this session has promised, by the queue of the beneficiary."""
        new = Counter(self._queue_of(job) for job, task in decisions.pipelined if (job, task) not in self._nominations)
        for queue, number in new.items():
            self._turn.count("policy_decisions", (queue, "promise", *self.labels), number)

    def _queue_of(self, application: str) -> str:
        return queue_of(self._turn.state, namespace_of(application))

    def _held_back(self, role: str, decisions: Decisions) -> dict[str, HeldBack]:
        """The queues that hold applications back, by application."""
        del role
        found = {}
        for application, reason in decisions.held_back.items():
            queue = self._queue_of(application)
            used, parts = decisions.allocated[queue], decisions.deserved.get(queue, {})
            allocated = tuple((resource_of(name), amount) for name, amount in used.items() if amount)
            deserved = tuple((resource_of(name), int(part)) for name, part in parts.items() if part)
            if reason == QUEUE_LIMIT:
                found[application] = HeldBack(queue, True, allocated, self._capability(queue), Hold.QUEUE_MAXIMUM)
            else:
                hold = Hold.GUARANTEES if reason == QUEUE_GUARANTEES else ""
                found[application] = HeldBack(queue, False, allocated, deserved, hold)
        return found

    def _capability(self, queue: str) -> Amounts:
        record = self._turn.state.queues.get(queue)
        return tuple(record.limits.items()) if record is not None else ()

    def _most(self, demand: Demand[Slot]) -> int:
        """Number of slots that the matcher would place at most now. Constraints that count taskgroups are not known to
        sessions, and room must not be given to slots that cannot use it."""
        part = demand._replace(slots=demand.slots[:SLICE], min_members=0)
        return len(self._turn.placer.plan([part], Mode.DRY_RUN).placements)

    def _carry_out(self, chosen: Chosen) -> list[Placement[Slot]]:
        placements = self._turn.placer.assign(assignments(chosen), chosen.found.missing, chosen.lacking)
        self._plan_all(chosen.demands, placements)
        return placements

    def _plan_all(self, demands: dict[str, Demand[Slot]], placements: Iterable[Placement[Slot]]) -> None:
        counts: dict[str, int] = defaultdict(int)
        for placement in placements:
            self._launcher.add(demands[placement.demand], placement)
            counts[placement.demand] += 1
        launches: Counter[str] = Counter()
        for identity, count in counts.items():
            self._turn.engine.plan(identity, count)
            (self._prompt.append if prompt(demands[identity]) else self._settle)(demands[identity])
            launches[self._queue_of(demands[identity].application)] += count
        for queue, number in launches.items():
            self._turn.count("policy_decisions", (queue, "launch", *self.labels), number)

    def _allowance(self, application: str) -> int:
        return disruptions.allowance(self._turn.context, application)

    def _kept(self, taskgroup: str) -> Obstacle:
        """The obstacle for a taskgroup that may not be evicted."""
        group = self._turn.state.taskgroups.get(taskgroup)
        return Obstacle.LEAVING if group is None else protecting(disruptions.at(self._turn.context), group)

    def _evict(self, decided: Iterable[Eviction]) -> None:
        """Ends the victims. One that may not be ended after all stays: its beneficiary waits longer."""
        for beneficiary, groups in self._end(decided).items():
            if beneficiary:
                self._pauses.evicted(beneficiary, groups)

    def _end(self, decided: Iterable[Eviction]) -> Mapping[str, list[TaskGroup]]:
        """Ends victims. Returns those that are being ended, by beneficiary."""
        turn = self._turn
        ended: dict[str, list[TaskGroup]] = defaultdict(list)
        gangs: set[str] = set()
        for eviction in decided:
            if (group := turn.state.taskgroups.get(eviction.task)) is None:
                continue
            sides = (self._queue_of(group.application_key), self._queue_of(eviction.beneficiary or eviction.job))
            try:
                is_paid = eviction.with_gang and eviction.job in gangs
                reschedule.evict(turn.context, group, eviction.beneficiary, sides[1], is_paid=is_paid)
            except Refused as refused:
                if eviction.beneficiary:
                    words = f"a taskgroup stays that was to make room{private(f': {refused.message}')}"
                    turn.record_event("application", eviction.beneficiary, "ApplicationPreempting", words)
            else:
                gangs.add(eviction.job)
                ended[eviction.beneficiary].append(group)
                action = "preempt" if sides[0] == sides[1] else "reclaim"
                turn.count("queue_evictions", (*sides, action, *self.labels), 1)
        for beneficiary, groups in ended.items():
            if not beneficiary:
                continue
            victims = [object_key(group.namespace, group.name) for group in groups]
            named = mention("taskgroup", victims[:NAMED], within=namespace_of(beneficiary))
            words = f"{counted(len(victims), 'taskgroup')} {are(len(victims))} ended: {named}"
            more = f" and {len(victims) - NAMED} more" if len(victims) > NAMED else ""
            turn.record_event("application", beneficiary, "ApplicationPreempting", words + more)
        return ended

    def _report_hung(self) -> None:
        for fault in self._set_aside.untold():
            pause = duration(self._set_aside.pause(fault.plugin))
            self._report(fault._replace(cause=f"{fault.cause}; not used for {pause}"), "hung")

    def _report(self, fault: PluginFault, how: str) -> None:
        words = f"{fault.plugin}: {fault.function}: {fault.cause}"
        self._turn.record_event("framework", self._turn.state.framework.id, "PolicyPluginFailed", words)
        self._turn.count("policy_plugin_faults", (fault.plugin, how), 1)
