"""The loop of placement: takes demands that may have a chance, asks an engine, and carries its decisions out.

A turn of the loop:

    old work       reservations of agents for demands that have waited for long (`aging`)
    freed room     slots for which room was freed are matched, each on its agent
    the engine     decides about the open demands of one role after the other, in portions that end with the turn. Its
                   launches are placed by the matcher (`Placer.assign`) and planned, victims are ended, promises kept,
                   and the reasons why the others wait are explained
    the others     demands that the engine does not decide about are matched in their order (`engines.simple`)

Everything about queues, limits and victims is the engine's. The loop has no rule of a policy.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from math import inf
from typing import NamedTuple, TypeVar

from bcs_scheduler.core.placement.aging import AgentHold, Aging
from bcs_scheduler.core.placement.engines.engine import Decide, Decisions, Engine, Portion, Rest
from bcs_scheduler.core.placement.engines.simple import Matching, Untried
from bcs_scheduler.core.placement.evictor import Evictor
from bcs_scheduler.core.placement.groups import Groups
from bcs_scheduler.core.placement.launcher import Launcher, prompt
from bcs_scheduler.core.placement.pauses import Pauses
from bcs_scheduler.core.placement.placer import Assignment, Foreseen, avoiding, without_first
from bcs_scheduler.core.placement.promises import PartitionHolds, TaskName
from bcs_scheduler.core.placement.snapshots.pending import demand_of
from bcs_scheduler.core.placement.source import News
from bcs_scheduler.core.placement.spreading import Spreading
from bcs_scheduler.core.placement.turn import Turn
from bcs_scheduler.core.time_budget import MATCHING, TimeBudget
from offers.model import Demand, GroupGap, HeldBack, MatchResult, Placement, Site
from offers.policy.hierarchy.configuration.partition import Partition
from offers.policy.obstacles import Attempt, Obstacle
from offers.policy.session.decisions import Later, Passing, earliest
from offers.policy.session.model import Nomination
from transactions.base import Failure, Slot
from transactions.obstacles import attempted
from transactions.rules.gangs import Shortage

T = TypeVar("T")
Covers = Callable[[str], bool]
"""True for the roles of a partition."""

AFTER_FAILURE = 60.0
"""Seconds until the next decision after one that has failed unexpectedly."""
LEAST_SHARE = 0.4
"""Share of the time of a turn that a decision has, however much of it is used up before."""
EXPLAINED_AFTER = 2.0
"""Seconds until the next decision while demands are still to be explained: each explains others of very many."""
REPORTED_AGAIN = 300.0
"""Seconds between two events about the obstacles of one application, at least."""
REPORTED_AT_ONCE = 16
"""Events about obstacles that one decision records at most."""


class Chosen(NamedTuple):
    """The decisions about a role."""

    portion: Portion
    decisions: Decisions
    demands: dict[str, Demand[Slot]]
    """The demands that took part, by id."""
    lacking: list[Shortage]
    """The groups of applications below their minimum that took part."""
    gaps: dict[str, GroupGap]
    """The groups that did not take part, because they stay below their minimum."""


class Loop:
    """The loop of one partition of roles."""

    def __init__(
        self,
        turn: Turn,
        launcher: Launcher,
        covers: Covers,
        groups: Groups,
        engine: Engine,
        untried: Untried,
        promises: PartitionHolds,
        pauses: Pauses,
        labels: tuple[str, ...] = (),
    ) -> None:
        """`launcher`: shared by all partitions. `covers`: the roles of the partition. `labels`: the label of the
        partition in counts by queue; empty unless several partitions have a tree of queues."""
        self._turn, self._launcher, self._covers = turn, launcher, covers
        self.engine, self._untried, self._promises, self._pauses = engine, untried, promises, pauses
        self._labels, self._groups = labels, groups
        self.spreading = Spreading(turn, engine)
        self.evictor = Evictor(turn, engine, pauses, labels)
        self.aging = Aging(turn, covers, engine, groups, self.evictor, pauses, launcher, self._deciding)
        self._matching = Matching(turn, launcher, untried, groups, self.spreading, engine, self._settle)
        self._waiting = False
        """Something has changed since the latest decision."""
        self._left: Collection[str] = ()
        """Ids of the demands that the latest decision has left open."""
        self._next = 0.0
        """Unix seconds before which the engine is not asked."""
        self._later: Later | None = None
        """The earliest moment in Unix seconds at which the engine may decide otherwise although nothing has changed;
        None: there is none."""
        self._has_ended = False
        """A decision of this turn has ended taskgroups."""
        self._rests: set[Rest] = set()
        """The parts of the decisions of this turn that are left to the next one."""
        self._unsettled: dict[str, Demand[Slot]] = {}
        """Demands whose launches wait for the end of a decision (`Rest.PORTION`), by id."""
        self._prompt: list[Demand[Slot]] = []
        """Demands whose planned placements are launched in one turn."""
        self._gaps: dict[str, GroupGap] = {}
        """The groups of applications that the latest decision left below their minimum, by name."""
        self._capped = False
        """Taskgroups above the minimum of a group did not take part in the latest decision."""
        self._attempts: dict[str, Attempt] = {}
        """The latest attempts to make room by evictions, by application that waits."""
        self._reported: dict[str, tuple[Obstacle, float]] = {}
        """The obstacle that the latest event of an application named, and the time of the event in Unix seconds."""
        self._explained: set[str] = set()
        """Ids of the demands that were explained, while others of very many are still to be explained."""
        self._lacking: dict[str, int] = {}
        """Number of taskgroups that gangs lacked before the latest decision, by application."""

    @property
    def by_queues(self) -> bool:
        """See `Engine`."""
        return self.engine.by_queues

    @property
    def busy(self) -> bool:
        """Something can be decided or matched right now."""
        return bool(self._untried) or self.spreading.is_over or (self._waiting and self._turn.now >= self._next)

    def next_timer(self) -> float | None:
        """Unix seconds at which something can be decided or matched that must wait until then; None: nothing waits for
        a moment."""
        follows = self._next if self._waiting else max(self._later.at, self._next) if self._later else None
        room = None if self._waiting else self.aging.next_timer()  # decisions come first
        timers = (self.spreading.until, room, self.engine.next_timer(), follows)
        return min((timer for timer in timers if timer is not None), default=None)

    def waits_to_be_spread(self, demand: str) -> bool:
        """True if the demand of this id waits for requested offers of emptier agents (any thread)."""
        return demand in self.spreading.waiting

    def promised(self) -> Collection[str]:
        """The ids of agents with room that is promised to demands which wait for more room."""
        return {*self._promises.agents(), *self.engine.promised()}

    def agent_holds(self) -> list[AgentHold]:
        """The room of agents that is kept for work that waits (any thread)."""
        return [*self.aging.holds(), *self.engine.agent_holds()]

    def paused(self, application: str) -> Mapping[str, float]:
        """The applications of which nothing is ended for another one, given by its key, with the Unix seconds at which
        that ends (`pauses`)."""
        return self._pauses.present().get(application, {})

    # --- demands that may have a chance -----------------------------------------------------------------------

    def offered(self, sites: Collection[Site]) -> None:
        """Offers for these sites have come, or held room is open again. The room may suffice together with that of
        victims, even if no demand fits it. Demands that have waited to be spread are decided about again."""
        self._judge_again()
        if self.engine.decides and not self._waiting:
            self._waiting = any(self._covers(role) for _, role in sites) and self._has_demands()
        self._promises.offered(sites)
        later = self._later
        if later is not None and later.code is Passing.OFFERS:
            later = Later(Passing.OFFERS, min(later.at, self._turn.offers_until))
        self._later = earliest((later, self._room_comes()))

    def _room_comes(self) -> Later | None:
        """The moment from which room that comes counts as that of others, so that the engine may decide otherwise.
        None: no such room is expected, or no engine decides."""
        until = self._turn.pool.hand.coming.until() if self.engine.decides else inf
        return Later(Passing.ROOM, until) if until < inf else None

    def _judge_again(self) -> None:
        """Demands that have waited to be spread are decided about again, and at once if they wait no longer."""
        if not self.spreading.waiting:
            return
        waiting = list(self.spreading.waiting)
        self.consider(self.spreading.release())
        if self.engine.decides:
            demands = self._turn.engine.demands
            self.spreading.judge(demands[identity] for identity in waiting if identity in demands)
            if not self.spreading.waiting.keys() >= set(waiting):
                self._next = min(self._next, self._turn.now)

    def consider(self, identities: list[str]) -> None:
        """Has these demands decided about; others are left as they are. Demands that are not open are ignored."""
        self.aging.note(identities)
        demands, decides = self._turn.engine.demands, self.engine.decides
        for identity in identities:
            demand = demands.get(identity)
            if demand is None:
                continue
            if decides and not (demand.per_agent or demand.promised):
                self._waiting = True
            else:
                self._untried.push(demand)

    def _has_demands(self) -> bool:
        return any(self._covers(size.role) for size in self._turn.engine.by_size)

    def _deciding(self, role: str = "") -> list[Demand[Slot]]:
        """The open demands of a role that the engine decides about now; empty: of all roles of the partition."""
        demands = [
            demand
            for demand in self._turn.engine.demands.values()
            if not (demand.per_agent or demand.promised) and self._covers(demand.role)
        ]
        waiting = self.spreading.waiting
        if waiting:
            groups = {demand.group for demand in demands if demand.id in waiting and demand.group}
            demands = [demand for demand in demands if demand.id not in waiting and demand.group not in groups]
        return [demand for demand in demands if demand.role == role] if role else demands

    # --- a turn -----------------------------------------------------------------------------------------------

    def decide(self, pace: TimeBudget) -> None:
        """Finds places for as long as the turn lasts, and plans the launches."""
        self._rests.clear()
        self._has_ended = False
        self._decide(pace)
        if Rest.PORTION not in self._rests:
            while self._unsettled:
                self._launcher.settle(self._unsettled.popitem()[1])

    def _decide(self, pace: TimeBudget) -> None:
        turn = self._turn
        self._report_faults()
        if self.engine.begin():
            if self._has_demands():
                self._waiting = True
            else:
                self._attempt("queues", partial(self._end_idle, pace))
        for hold in self.aging.holds():
            turn.pool.hand.coming.keep((hold.agent, hold.role))
        if self._promises.expire():
            self._waiting = self._waiting or self._has_demands()
        if self.spreading.is_over:
            self._judge_again()
        self.aging.step()
        self._pauses.step()
        if self._later is not None and turn.now >= self._later.at:
            self._later, self._waiting = None, self._waiting or self._has_demands()
        if self._waiting and turn.now >= self._next:
            if not self._matching.match_promised(pace):
                return
            if self._caught_up(pace) and self._has_work():
                self._ask(pace)
        self._matching.match_open(pace)
        # Decisions that are still to come may use up the limits that admit old work; and its victims could
        # have been the room for which this decision has ended others.
        if not (self._waiting or self._has_ended):
            self.aging.make_room()

    def _end_idle(self, pace: TimeBudget) -> None:
        for evictions in self.engine.idle(pace):
            self.evictor.evict(evictions)

    def _caught_up(self, pace: TimeBudget) -> bool:
        """Takes over changes in parts, if there are many. False: the rest follows in the next turn."""
        roles = dict.fromkeys(demand.role for demand in self._deciding())
        done = self._turn.attempt("core", "decision", partial(self.engine.catch_up, roles, pace))
        if done is False and self._unsettled:
            self._rests.add(Rest.PORTION)  # its launches still wait
        return done is not False

    def _has_work(self) -> bool:
        """False if all demands wait to be spread: nothing is decided about them now."""
        self.spreading.judge(self._deciding())
        self._waiting = not self.spreading.waiting or bool(self._deciding())
        return self._waiting

    def _ask(self, pace: TimeBudget) -> None:
        """Has the engine decide about all demands, as far as the turn lasts."""
        turn = self._turn
        self._waiting = False
        until = max(MATCHING, pace.spent() + LEAST_SHARE)
        failure = self._attempt("decision", partial(self._decide_all, pace, until))
        is_cut = self._is_cut()
        pause = self.engine.pause()
        self._next = turn.now + (AFTER_FAILURE if failure is not None else 0.0 if is_cut else pause)
        while self._prompt:
            self._launcher.launch_now(self._prompt.pop(0))
        self._report_faults()
        again = is_cut or (self._capped and not self._gaps)
        self._waiting = failure is not None or (again and self._has_demands())
        if failure is None and self.spreading.until is not None:
            self._next = min(self._next, self.spreading.until)
        if not self._rests.isdisjoint((Rest.PORTION, Rest.VICTIMS)):
            self._waiting, self._next = True, turn.now

    def _is_cut(self) -> bool:
        """The decisions are not complete: the next ones follow in the next turn."""
        return not self._rests.isdisjoint((Rest.PORTION, Rest.TURNS))

    def _attempt(self, key: str, work: Callable[[], T]) -> T | Failure:
        """Like `Turn.attempt`. The engine learns of errors."""
        result = self._turn.attempt("core", key, work)
        if isinstance(result, Failure):
            self.engine.failed()
        return result

    # --- the decisions of a turn ------------------------------------------------------------------------------

    def _decide_all(self, pace: TimeBudget, until: float) -> None:
        """Has the engine decide about one role after the other, and explains why demands still wait. Those of a
        decision that is not complete are explained with its last portion."""
        self.engine.use_held(self.aging, self._deciding)
        turn, demands = self._turn, self._deciding()
        unexplained = [demand for demand in demands if demand.id not in self._explained]
        explains = unexplained[: turn.options.explained]
        promised: dict[TaskName, Nomination] = {}
        held_back: dict[str, HeldBack] = {}
        self._gaps, self._capped, self._lacking = {}, False, {}
        waits = {demand.application for demand in demands}
        later: list[Later | None] = []
        self._attempts = {name: attempt for name, attempt in self._attempts.items() if name in waits}
        for role in dict.fromkeys(demand.role for demand in demands):
            of_role = [demand for demand in demands if demand.role == role]
            decisions = self._decide_role(role, of_role, explains, pace, until)
            promised.update(decisions.promises)
            later.append(decisions.later)
            held_back.update(decisions.held_back)
        self._promises.keep(promised)
        self._left = {demand.id for demand in demands if demand.id in turn.engine.demands}
        if self.aging.holds():
            self.engine.use_rest(self.aging, self._deciding)
        if self._is_cut():
            return
        unshown = (demand for demand in demands if turn.is_unshown(demand.id)) if turn.awaits_offers else ()
        later += [Later(Passing.OFFERS, turn.shown_at(demand.id)) for demand in unshown]
        if turn.now < turn.returning_until:
            later.append(Later(Passing.OFFERS, turn.returning_until))
        self._later = earliest((*later, self._room_comes()))
        if 0 < len(explains) < len(unexplained):
            self._explained.update(demand.id for demand in explains)
            self._later = earliest((self._later, Later(Passing.EXPLAINED, turn.now + EXPLAINED_AFTER)))
        else:
            self._explained.clear()
        waiting = [present for demand in explains if (present := turn.engine.demands.get(demand.id)) is not None]
        turn.placer.explain(waiting, held_back, self._gaps, self._lacking, self._attempts)
        turn.engine.gangs.update(dict.fromkeys(demand.id for demand in waiting if demand.group in self._gaps))
        self._report_obstacles(waiting)

    def _decide_role(
        self,
        role: str,
        demands: list[Demand[Slot]],
        explains: Iterable[Demand[Slot]],
        pace: TimeBudget,
        until: float,
    ) -> Decisions:
        """Asks about the demands of a role, and carries the decisions out. `explains`: the demands of which it is
        explained why they wait, of all roles."""
        turn, clock = self._turn, self._turn.options.session_clock
        began = clock() if clock is not None else 0.0
        self.aging.review(role)
        closed = turn.unshown(demands) | self.aging.gathering()
        named = tuple(dict.fromkeys(demand.application for demand in explains))
        portion = Portion(role, demands, {}, self.aging.held(role), named, closed, pace, until)
        chosen = self._choose(portion, self.engine.decide)
        decisions = chosen.decisions
        self._rests |= {decisions.rest} - {Rest.NOTHING}
        self._capped = self._capped or bool(chosen.portion.caps)
        self._gaps.update(chosen.gaps)
        self._lacking.update(decisions.missing)
        for name, attempt in decisions.attempts.items():
            if attempt is not None:
                self._attempts[name] = attempt
            else:
                self._attempts.pop(name, None)
        waits = {demand.application for demand in demands}
        self._attempts.update((name, attempt) for name, attempt in self.aging.attempts().items() if name in waits)
        turn.queues.decided(role, decisions, self._attempts)
        placed = turn.placer.assign(self._assignments(chosen), decisions.missing, chosen.lacking)
        self._plan(chosen.demands, placed)
        if decisions.rest is Rest.PORTION:
            self.engine.accept(chosen.portion, decisions, placed, self._deciding(role))
        if decisions.evictions and portion.held is not None and not self.aging.review(role):
            decisions = self._without_victims(decisions)  # others may fit the room that was held
        self.evictor.evict(decisions.evictions)
        self._has_ended = self._has_ended or bool(decisions.evictions)
        if decisions.promises:
            self._count_promises(decisions)
        turn.count("policy_session", (), clock() - began if clock is not None else 0.0)
        return decisions

    def _without_victims(self, decisions: Decisions) -> Decisions:
        """The decisions without evictions and the promises that rely on them; these are decided about again at once."""
        self.engine.drop(decisions.evictions)
        self._rests.add(Rest.VICTIMS)
        known = self._promises.nominations
        promises = {task: promise for task, promise in decisions.promises.items() if task in known}
        return decisions._replace(evictions=(), promises=promises)

    def _choose(self, portion: Portion, decide: Decide) -> Chosen:
        """The decisions of an engine. A group of applications that they leave below its minimum takes no part in a
        second decision, so that others get the room."""
        demands = portion.demands
        incomplete = self._groups.incomplete(demands)
        gaps = self._groups.gaps(incomplete, demands, None)
        caps = self._groups.caps(incomplete, demands)
        while True:
            part = portion._replace(demands=[demand for demand in demands if demand.group not in gaps], caps=caps)
            decisions = decide(part)
            short = self._groups.gaps({k: v for k, v in incomplete.items() if k not in gaps}, part.demands, decisions)
            if not short:
                break
            if portion.until is not None:
                self.engine.drop(decisions.evictions)
            gaps.update(short)
        lacking = [lacks for name, lacks in incomplete.items() if name not in gaps]
        return Chosen(part, decisions, {demand.id: demand for demand in part.demands}, lacking, gaps)

    def _assignments(self, chosen: Chosen) -> list[Assignment]:
        """The launches as the placer takes them: rows for the next slots of each demand."""
        pool, role = self._turn.pool, chosen.portion.role
        rows = defaultdict(list)
        for bind in chosen.decisions.binds:
            row = pool.row(bind.agent, role)
            if row is not None:  # no plug-in may choose another agent, but one of a third party might
                rows[demand_of(bind.task)].append(row)
        return [Assignment(chosen.demands[identity], of_demand) for identity, of_demand in rows.items()]

    def _plan(self, demands: Mapping[str, Demand[Slot]], placements: Iterable[Placement[Slot]]) -> None:
        launches: Counter[str] = Counter()
        for identity, count in self._launcher.plan(demands, placements).items():
            (self._prompt.append if prompt(demands[identity]) else self._settle)(demands[identity])
            launches[self.engine.queue_of(demands[identity].application)] += count
        for queue, number in launches.items():
            self._turn.count("policy_decisions", (queue, "launch", *self._labels), number)

    def _settle(self, demand: Demand[Slot]) -> None:
        """A demand has been matched as far as possible now."""
        if Rest.PORTION in self._rests:
            self._unsettled[demand.id] = demand
        else:
            self._launcher.settle(demand)

    def _count_promises(self, decisions: Decisions) -> None:
        """Counts the promises that this decision has made, by the queue of the beneficiary."""
        before = self._promises.nominations
        new = Counter(self.engine.queue_of(job) for job, task in decisions.promises if (job, task) not in before)
        for queue, number in new.items():
            self._turn.count("policy_decisions", (queue, "promise", *self._labels), number)

    # --- dry runs ---------------------------------------------------------------------------------------------

    def foresee(
        self,
        demands: Sequence[Demand[Slot]],
        without: frozenset[str] = frozenset(),
        queues: Partition | None = None,
    ) -> Foreseen:
        """See `Placer.foresee`. Costs as much as a decision."""
        turn, role = self._turn, demands[0].role
        demands = [avoiding(demand, without) for demand in demands]
        own = {demand.id: demand for demand in demands}
        waiting = [
            avoiding(demand, without)
            for demand in turn.engine.demands.values()
            if demand.role == role
            and demand.id not in own
            and not (demand.per_agent or demand.promised)
            and turn.source.is_needed(demand.id)  # the request may have ended it
        ]
        named = tuple(dict.fromkeys(demand.application for demand in demands))
        portion = Portion(role, [*waiting, *demands], {}, self.aging.held(role), named)
        chosen = self._choose(portion, partial(self.engine.answer, queues=queues))
        missing, held_back = chosen.decisions.missing, chosen.decisions.held_back
        with turn.placer.trial() as trial:
            placements = turn.placer.assign(self._assignments(chosen), missing, chosen.lacking, trial)
            own_placements = [placement for placement in placements if placement.demand in own]
            placed = Counter(placement.demand for placement in own_placements)
            short = [
                without_first(own_demand, placed[key])
                for key, own_demand in own.items()
                if placed[key] < len(own_demand.slots)
            ]
            why = turn.placer.reasons(short, held_back, chosen.gaps, missing, trial) if short else []
        applications = {demand.application for demand in demands}
        evicted = [eviction.task for eviction in chosen.decisions.evictions if eviction.beneficiary in applications]
        return Foreseen(MatchResult(own_placements, why), tuple(evicted))

    # --- following --------------------------------------------------------------------------------------------

    def conclude(self, pace: TimeBudget) -> None:
        """Follows up the launches of the turn, for as long as the turn lasts."""
        self.engine.conclude(pace)

    def notice(self, news: News) -> None:
        """Follows changes from outside of the placement."""
        demands = self._turn.engine.demands
        # Work that waits no longer leaves its share, its limit or a reservation to others.
        if self.engine.notice(news) or any(key in self._left and key not in demands for key in news.demands):
            self._waiting = self._waiting or self._has_demands()
        if not self.engine.decides:
            for group in news.groups:
                self.consider([demand.id for demand in self._groups.demands(group)])

    def recover(self) -> None:
        """A term begins: takes over the records of the policy."""
        self.engine.recover()

    def void(self) -> None:
        """All offers are gone, and with them everything that is planned."""
        self._drop_plans()
        self.engine.void()

    def forget(self) -> None:
        """After an error: drops everything that is planned, promised or derived from the records."""
        self._drop_plans()
        self.aging.forget()
        self._prompt.clear()
        self._rests.clear()
        self.engine.forget()

    def _drop_plans(self) -> None:
        self._untried.clear()
        self._unsettled.clear()
        self.spreading.waiting.clear()
        self._promises.clear()
        self._waiting = False

    # --- events -----------------------------------------------------------------------------------------------

    def _report_obstacles(self, waiting: Iterable[Demand[Slot]]) -> None:
        """Records an event for each application whose most important obstacle is another one than before."""
        now, known = self._turn.now, self._attempts
        self._reported = {
            name: report for name, report in self._reported.items() if name in known or now - report[1] < REPORTED_AGAIN
        }
        left = REPORTED_AT_ONCE
        for name in dict.fromkeys(demand.application for demand in waiting):
            attempt, latest = known.get(name), self._reported.get(name)
            if attempt is None or attempt.cause in (None, Obstacle.NOT_OLD_ENOUGH) or left <= 0:
                continue
            if latest is not None and (latest[0] is attempt.cause or now - latest[1] < REPORTED_AGAIN):
                continue
            left -= 1
            self._reported[name] = (attempt.cause, now)
            self._turn.record_event("application", name, "ApplicationBlocked", attempted(attempt))

    def _report_faults(self) -> None:
        for fault, how in self.engine.faults():
            words = f"{fault.plugin}: {fault.function}: {fault.cause}"
            self._turn.record_event("framework", self._turn.framework, "PolicyPluginFailed", words)
            self._turn.count("policy_plugin_faults", (fault.plugin, how), 1)
