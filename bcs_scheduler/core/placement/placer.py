"""The placer: the only part of the core that calls the matcher.

The placement pass, dry runs, drains and explanations ask the same `Placer`, so they follow the same rules: the order of
demands, the ranking of agents, gangs. The mode of a plan says how the plan is used:

    Mode.COMMIT    the plan is going to be launched: its room is taken, and its diagnoses are kept for `diagnosis`
    Mode.DRY_RUN   the plan is only shown

A trial is a statement whose plans see each other: it gives their room back at its end. While a trial on the offers is
open, nothing may be committed, and no offer may arrive or leave. A plan for very many slots is made in slices, on a
copy of the offers (`rehearsal`, `in_slices`), so that turns stay bounded in time.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Generator, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from enum import Enum
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from offers.ledger.offered import OfferPool, offer_pool
from offers.ledger.pool import AnyPool
from offers.ledger.table import Row
from offers.matching.counts import PassCounts
from offers.matching.explain import KEPT, NOTHING, PROMISED, WITH_GANG, WITH_GROUP, Explainer
from offers.matching.feasibility import kind_of
from offers.matching.ranking import Scoring
from offers.matching.statement import Statement, match
from offers.model import DecidedBy, Demand, Diagnosis, GroupGap, HeldBack, MatchResult, Occupant, Placement
from offers.planned import PlannedCensus
from offers.policy.hierarchy.configuration.partition import Partition
from offers.policy.obstacles import Attempt, Obstacle
from offers.policy.waiting import WaitCode
from offers.resources import requested
from transactions.base import Slot
from transactions.engine.demands import Demands
from transactions.rules.gangs import Shortage

if TYPE_CHECKING:
    from bcs_scheduler.core.placement.loop import Loop
    from bcs_scheduler.core.placement.partitions import Placing

Trial: TypeAlias = Statement
"""Plans that see each other and are undone at the end."""
SLICE = 512
"""Slots matched at once: some milliseconds, against about one that each call of the matcher costs at 5,000 agents."""
COPIED = 256
"""Offers copied at once."""


class Foreseen(NamedTuple):
    """The decisions of a policy about demands that are not open yet."""

    result: MatchResult[Slot]
    evicted: tuple[str, ...] = ()
    """Ids of the taskgroups that the policy would end for these demands."""


class Assignment(NamedTuple):
    """A decision of an engine: the next slots of a demand, one on each of these rows."""

    demand: Demand[Slot]
    rows: Sequence[Row]


class Mode(Enum):
    """The modes of a plan: it is committed, or only looked at."""

    COMMIT = "commit"
    DRY_RUN = "dry run"


class Placer:
    """Belongs to the thread that owns the state; `diagnosis` may be called from any thread."""

    _policies: Placing
    """The policies of all roles, named by `ask` before anything is placed."""

    def __init__(
        self,
        pool: AnyPool,
        census: PlannedCensus,
        demands: Demands,
        scoring: Scoring,
        remaining: Callable[[str], int] = lambda demand: 0,
    ) -> None:
        """`remaining`: number of units that the work of a demand, given by id, still has to place; 0 if there is no
        such work."""
        self._pool = pool
        self._census = census
        self._engine = demands
        self._remaining = remaining
        self._scoring: Scoring = scoring

    def ask(self, policies: Placing) -> None:
        """Has these policies asked from now on."""
        self._policies = policies

    @property
    def has_policy(self) -> bool:
        """True if `policy_of` names a policy for some roles."""
        return self._policies.has_policy

    def policy_of(self, role: str) -> Loop | None:
        """The loop whose policy decides about the demands of a role; None: they are matched in their order."""
        return self._policies.policy_of(role)

    def decided_by(self, role: str) -> DecidedBy | None:
        """The name of the policy of a role, for users; None: all roles have one policy."""
        return self._policies.decided_by(role)

    def plan(self, demands: Sequence[Demand[Slot]], mode: Mode) -> MatchResult[Slot]:
        """Finds places for the demands, in their order. Demands that are not fully placed are diagnosed. After an error
        nothing is changed."""
        if mode is Mode.DRY_RUN:
            return match(demands, self._pool, self._census, self._scoring, dry_run=True)
        result = match(demands, self._pool, self._census, self._scoring)
        self._keep_diagnoses(demands, result.diagnoses)
        return result

    def suppose(
        self, demands: Sequence[Demand[Slot]], gone: Sequence[Occupant], beside: Trial | None = None
    ) -> MatchResult[Slot]:
        """A dry run as if these units were gone. `beside`: a trial whose plans have taken room; None = none has."""
        with self._beside(beside) as trial:
            before = trial.savepoint()
            try:
                trial.set_aside(gone)
                return trial.plan(demands)
            finally:
                trial.undo(before)
                trial.keep(before)

    def read_changes(self) -> Iterable[None]:
        """Before a question: takes over changes of agents and taskgroups, if there are many, as between two decisions.
        Each copy would repeat this. Each step is a portion, and the rest may follow in later turns. Nothing may be
        supposed meanwhile."""
        return self._policies.read_changes()

    def foresee(
        self,
        demands: Sequence[Demand[Slot]],
        without: frozenset[str] = frozenset(),
        queues: Partition | None = None,
    ) -> Foreseen:
        """The decisions of the policy in force about these demands, which have one role, beside the other open ones,
        made by a copy that is dropped. Demands of one taskgroup per agent are only matched. `without`: ids of agents
        that take nothing. `queues`: the configuration of a tree of queues that is supposed; None: the present one."""
        policy = self.policy_of(demands[0].role)
        if policy is None or any(demand.per_agent or demand.promised for demand in demands):
            return Foreseen(self.plan([avoiding(demand, without) for demand in demands], Mode.DRY_RUN))
        return policy.foresee(demands, without, queues)

    def assign(
        self,
        assignments: Sequence[Assignment],
        missing: Mapping[str, int],
        groups: Sequence[Shortage] = (),
        beside: Trial | None = None,
    ) -> list[Placement[Slot]]:
        """Carries decisions of an engine out: each slot goes to the row that was decided on, or if that row cannot take
        the slot, to another one. The placements of a demand are for its first slots. `missing`: members that a gang
        lacks, by application; nothing of a gang is placed that would stay below its minimum. `groups`: the same
        for groups of applications. `beside`: the trial that takes the room; None: the placements are committed."""
        left_out: set[str] = set()
        with self._beside(beside) as statement:
            before = statement.savepoint()
            while True:
                assigned = _assigned(
                    statement,
                    [assignment for assignment in assignments if assignment.demand.application not in left_out],
                )
                placed = Counter(demand.application for demand, _ in assigned)
                failed = {key for key, number in missing.items() if key in placed and placed[key] < number}
                failed |= _of_incomplete(groups, placed)
                if not failed:
                    break
                left_out |= failed
                statement.undo(before)
            if beside is None:
                statement.commit()
            return [placement for _, placement in assigned]

    def plan_group(self, demands: Sequence[Demand[Slot]], lacks: Shortage, mode: Mode) -> MatchResult[Slot]:
        """Finds places for the open demands of one group of applications, if the group reaches its minimum with them;
        otherwise nothing is placed, and every demand is diagnosed with the gap. First the members with a minimum of
        their own get their places, so that no other member takes the room."""
        slots = sum(len(demand.slots) for demand in demands)
        if slots < lacks.needed:
            result = MatchResult[Slot]([], self._gaps(demands, {}, lacks.gap({}, slots)))
        else:
            with self.trial() as statement:
                result = _of_group(statement, demands, lacks)
                application_of = {demand.id: demand.application for demand in demands}
                places = Counter(application_of[placement.demand] for placement in result.placements)
                gap = lacks.gap(places, slots)
                if gap is not None:
                    short = {diagnosis.demand: diagnosis for diagnosis in result.diagnoses}
                    result = MatchResult([], self._gaps(demands, short, gap))
                elif mode is Mode.COMMIT:
                    statement.commit()
        if mode is Mode.COMMIT:
            self._keep_diagnoses(demands, result.diagnoses)
        return result

    def _gaps(
        self, demands: Sequence[Demand[Slot]], known: Mapping[str, Diagnosis], gap: GroupGap | None
    ) -> list[Diagnosis]:
        """Diagnoses of demands that the minimum of their group holds back. Demands that are not in `known` have found
        places."""
        agents = self._pool.agents
        return [
            known.get(demand.id, Diagnosis(demand.id, len(demand.slots), 0, agents, {WITH_GROUP: agents}))._replace(
                placed=0, gap=gap
            )
            for demand in demands
        ]

    def explain(
        self,
        demands: Sequence[Demand[Slot]],
        held_back: Mapping[str, HeldBack],
        gaps: Mapping[str, GroupGap] | None = None,
        missing: Mapping[str, int] | None = None,
        attempts: Mapping[str, Attempt] | None = None,
    ) -> None:
        """Keeps the reasons that `reasons` finds, for `diagnosis`. `attempts`: the latest attempts to make room, by
        application. Other arguments as there; None = nothing."""
        known = attempts or {}
        application_of = {demand.id: demand.application for demand in demands}
        diagnoses = self.reasons(demands, held_back, gaps, missing)
        self._keep_diagnoses(
            demands,
            [diagnosis._replace(attempt=known.get(application_of[diagnosis.demand])) for diagnosis in diagnoses],
        )

    def reasons(
        self,
        demands: Sequence[Demand[Slot]],
        held_back: Mapping[str, HeldBack],
        gaps: Mapping[str, GroupGap] | None = None,
        missing: Mapping[str, int] | None = None,
        beside: Trial | None = None,
    ) -> list[Diagnosis]:
        """The reasons why demands have no place, each as if it were alone. Where the matcher finds places, the gang
        does not find enough of them, or the policy has kept the room for others. `held_back`: by application, where a
        queue is the reason. `gaps`: by group of applications, where a group is below its minimum; None = no group is.
        `missing`: taskgroups that the gang of an application lacks, by application; None = nothing lacks. `beside`: a
        trial whose plans have taken room; None = none has."""
        diagnoses: list[Diagnosis] = []
        gangs: dict[str, int] = {}
        """Places for all demands of an application together."""
        known: dict[Hashable, tuple[Diagnosis, ...]] = {}
        """The diagnosis of the next taskgroup or gang, by kind; empty if it has room. Very many are of few kinds."""
        with self._beside(beside) as statement:
            before, explainer = statement.savepoint(), statement.explainer()
            for demand in demands:
                part = first_slots(demand, SLICE)
                agents, queue = self._pool.agents, _of_demand(held_back.get(demand.application), demand)
                least = (missing or {}).get(demand.application, 0)
                short: tuple[Diagnosis, ...] = ()
                if queue is None or not queue.at_limit:  # else more room would not help
                    kind = (kind_of(part), part.min_members)
                    if kind not in known:
                        known[kind] = _short(statement, explainer, part)
                        statement.undo(before)
                    short = known[kind]
                kept = Diagnosis(demand.id, 0, 0, agents, {KEPT: agents}, held_back=queue)
                if not short and queue is None and least > len(part.slots):
                    if demand.application not in gangs:
                        gangs[demand.application] = _places(statement, demands, demand.application)
                        statement.undo(before)
                    reached = gangs[demand.application]
                    if reached < least:
                        kept = kept._replace(reasons={WITH_GANG: agents}, min_members=least, reached=reached)
                gap = (gaps or {}).get(demand.group)
                diagnoses += [
                    diagnosis._replace(demand=demand.id, slots=len(demand.slots), gap=gap)
                    for diagnosis in short or (kept,)
                ]
        return diagnoses

    def tests(self) -> Explainer:
        """The tests that the matcher puts to agents, as things stand."""
        return Explainer(self._pool, PassCounts(self._census))

    def trial(self) -> Trial:
        """A trial on the offers."""
        return Statement(self._pool, self._census, self._scoring)

    def one_by_one(
        self, demands: Sequence[Demand[Slot]], gone: Sequence[Occupant] = ()
    ) -> Iterator[MatchResult[Slot] | None]:
        """A dry run of several demands that see each other, one per step, as if the units `gone` were gone; steps that
        only prepare the run yield None. The offers are those of the first step."""
        if not demands:
            return
        trial = yield from self.rehearsal()
        trial.set_aside(gone)
        for demand in demands:
            yield trial.plan([demand])

    def rehearsal(self) -> Generator[None, None, Trial]:
        """Returns a trial on a copy of the offers, made in slices. The trial may last longer than a turn."""
        return self.trial_on((yield from self.copied()))

    def copied(self) -> Generator[None, None, OfferPool]:
        """Returns a copy of the offers as they are at the first step, made in slices."""
        copy = self._pool.hand.copy()
        yield
        pool = offer_pool()
        yield from copy.into(pool, COPIED)
        return pool

    def trial_on(self, pool: OfferPool) -> Trial:
        """A trial on a copy of the offers (`copied`), which may last longer than a turn."""
        return Statement(pool, PlannedCensus(self._census), self._scoring)

    def diagnosis(self, transaction_id: str) -> Diagnosis | None:
        """Explains why taskgroups of an operation are not placed, by the last committed plan; None if none was short of
        room. If the operation waits for configmaps, secrets or keys that do not exist, these are the reasons, and no
        agent was asked. Any thread may call."""
        missing = self._engine.missing.get(transaction_id)
        if missing is None:
            return self._engine.diagnoses.get(transaction_id)
        return Diagnosis(transaction_id, self._remaining(transaction_id), 0, 0, dict.fromkeys(missing, 0))

    # --- inside -----------------------------------------------------------------------------------------------

    def _beside(self, trial: Trial | None) -> AbstractContextManager[Trial]:
        """The trial, which its owner ends; or one that ends here."""
        return nullcontext(trial) if trial is not None else self.trial()

    def _keep_diagnoses(self, demands: Sequence[Demand[Slot]], diagnoses: Sequence[Diagnosis]) -> None:
        known, groups = self._engine.diagnoses, dict[str, tuple[DecidedBy, ...]]()
        short = {diagnosis.demand: diagnosis for diagnosis in diagnoses}
        for demand in demands:
            if demand.id in short:
                why = _fuller(known.get(demand.id), short[demand.id])
                if why.gap is not None:
                    apart = groups.setdefault(why.gap.group, self._policies.apart(why.gap.group))
                    why = why._replace(gap=why.gap._replace(apart=apart))
                if PROMISED in why.reasons and not _names_reservations(why.attempt):
                    why = why._replace(attempt=_with(why.attempt, self._policies.reserved(demand)))
                known[demand.id] = why._replace(decided_by=self._policies.decided_by(demand.role))
            else:
                known.pop(demand.id, None)


def in_slices(trial: Trial, demand: Demand[Slot]) -> Iterator[MatchResult[Slot]]:
    """Plans a demand on a trial, one slice per step. The last result has the diagnosis if a slot finds no place."""
    placed, used = 0, demand.except_agents
    while placed < len(demand.slots):
        part = first_slots(without_first(demand, placed), SLICE)._replace(except_agents=used)
        result = trial.plan([part])
        if demand.per_agent:
            used |= {placement.agent_id for placement in result.placements}
        placed += len(result.placements)
        yield result
        if result.diagnoses:
            return


def first_slots(demand: Demand[Slot], most: int) -> Demand[Slot]:
    """The demand for its first slots; for more than `most` if its gang needs them."""
    return demand._replace(slots=demand.slots[: max(most, demand.min_members)])


def avoiding(demand: Demand[Slot], agents: frozenset[str]) -> Demand[Slot]:
    """Returns the demand without these agents (ids)."""
    return demand._replace(except_agents=demand.except_agents | agents) if agents else demand


def without_first(demand: Demand[Slot], count: int) -> Demand[Slot]:
    """Returns the rest of a demand whose first slots have a place."""
    return demand._replace(slots=demand.slots[count:], min_members=max(demand.min_members - count, 0))


def _names_reservations(attempt: Attempt | None) -> bool:
    return attempt is not None and any(obstacle.code is Obstacle.RESERVED for obstacle in attempt.met)


def _with(attempt: Attempt | None, more: Attempt | None) -> Attempt | None:
    """An attempt with the obstacles of another one at its end."""
    if attempt is None or more is None:
        return attempt or more
    return attempt if attempt.agent else attempt._replace(met=(*attempt.met, *more.met))


def _short(statement: Statement, explainer: Explainer, demand: Demand[Slot]) -> tuple[Diagnosis, ...]:
    """The reasons why the next taskgroup, or the gang, has no place; empty if it has one."""
    if demand.min_members or demand.rules.live:  # where one is placed decides about the next one
        return tuple(statement.plan([first_slots(demand, 1)]).diagnoses)
    diagnosis = explainer.diagnose(demand, 0)
    return () if NOTHING in diagnosis.reasons else (diagnosis,)


def _of_demand(queue: HeldBack | None, demand: Demand[Slot]) -> HeldBack | None:
    """The queue as it holds this demand back: one taskgroup may be larger than the whole maximum."""
    if queue is None or queue.code != WaitCode.QUEUE_MAXIMUM:
        return queue
    most, needed = dict(queue.deserved), requested(demand.request)
    return queue._replace(never=any(name in most and amount > most[name] for name, amount in needed.items()))


def _places(statement: Statement, demands: Sequence[Demand[Slot]], application: str) -> int:
    """Number of places for all demands of an application at the same time. The statement has them until it undoes."""
    parts = [demand._replace(min_members=0) for demand in demands if demand.application == application]
    return len(statement.plan(parts).placements)


def _of_incomplete(groups: Iterable[Shortage], placed: Mapping[str, int]) -> set[str]:
    """The applications with placements whose group stays below its minimum."""
    failed: set[str] = set()
    for lacks in groups:
        members = {key: placed[key] for key in lacks.member_of if key in placed}
        if members and lacks.gap(members, 0) is not None:
            failed |= members.keys()
    return failed


def of_minimums(demands: Iterable[Demand[Slot]], lacks: Shortage) -> Iterator[tuple[Demand[Slot], int]]:
    """Yields the demands of a group, each with the number of its slots that the minimums of the members need."""
    left = dict(lacks.members)
    for demand in demands:
        member = lacks.member_of.get(demand.application, "")
        missing = left.get(member, 0)
        least = min(max(missing, demand.min_members), len(demand.slots)) if missing else 0
        left[member] = max(missing - least, 0)
        yield demand, least


def _of_group(statement: Statement, demands: Sequence[Demand[Slot]], lacks: Shortage) -> MatchResult[Slot]:
    first: list[Demand[Slot]] = []
    rest: list[Demand[Slot]] = []
    for demand, least in of_minimums(demands, lacks):
        if least:
            first.append(demand._replace(slots=demand.slots[:least]))
        if least < len(demand.slots):
            rest.append(without_first(demand, least))
    minimum = statement.plan(first)
    if minimum.diagnoses:
        return minimum
    return MatchResult([*minimum.placements, *(more := statement.plan(rest)).placements], more.diagnoses)


def _assigned(statement: Statement, assignments: Sequence[Assignment]) -> list[tuple[Demand[Slot], Placement[Slot]]]:
    """First all slots on their rows, then the slots whose rows did not take them."""
    assigned: list[tuple[Demand[Slot], Placement[Slot]]] = []
    short: list[Demand[Slot]] = []
    for demand, rows in assignments:
        placed = statement.place_on(demand, rows)
        assigned += [(demand, placement) for placement in placed]
        if len(placed) < len(rows):
            rest = demand.slots[len(placed) : len(rows)]
            short.append(demand._replace(slots=rest, min_members=0))
    for demand in short:
        assigned += [(demand, placement) for placement in statement.place(demand)]
    return assigned


def _fuller(before: Diagnosis | None, now: Diagnosis) -> Diagnosis:
    """While a demand waits unchanged, the judgement that saw the most agents stands: a pass caused by the offers of one
    agent would otherwise explain the whole cluster by it."""
    if before is not None and before.agents > now.agents and before.slots - before.placed == now.slots - now.placed:
        return before._replace(attempt=now.attempt)
    return now
