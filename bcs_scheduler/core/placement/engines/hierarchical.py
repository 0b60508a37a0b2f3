"""The policy `hierarchical`: queues in a tree decide which demands get room, one tree for each role.

The tree gives the order, the limits and the victims, and the matcher finds the exact places.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from math import inf
from typing import TypeVar

from bcs_scheduler.core.options import RolePartition
from bcs_scheduler.core.placement.aging import (
    MOST_USES,
    AgentHold,
    Aging,
    Awaiting,
    EvictionPlan,
    Holder,
    OldHold,
    Why,
    as_plan,
    is_gang,
    may_ever_end,
)
from bcs_scheduler.core.placement.copied import copied
from bcs_scheduler.core.placement.engines.engine import LEFT, Deciding, Decisions, Portion, Rest, none, nothing
from bcs_scheduler.core.placement.engines.simple import Untried
from bcs_scheduler.core.placement.hierarchy.admission import admission
from bcs_scheduler.core.placement.hierarchy.asks import evictions_of, given_back_of, held_back, safe
from bcs_scheduler.core.placement.hierarchy.continuation import Continuation
from bcs_scheduler.core.placement.hierarchy.role_tree import AskedPlaces, RoleTree
from bcs_scheduler.core.placement.hierarchy.trees import Trees
from bcs_scheduler.core.placement.inputs import Inputs
from bcs_scheduler.core.placement.pauses import Pauses
from bcs_scheduler.core.placement.snapshots.held import request_of
from bcs_scheduler.core.placement.snapshots.pending import demand_of, index_of, task_name
from bcs_scheduler.core.placement.snapshots.role import RoleInput
from bcs_scheduler.core.placement.source import News
from bcs_scheduler.core.placement.turn import Turn
from bcs_scheduler.core.time_budget import MATCHING, TimeBudget
from offers.dimensions import amounts
from offers.ledger.holds import LONGEST
from offers.model import Demand, HeldBack, Placement
from offers.policy.hierarchy.configuration.partition import NodeOrder, Partition
from offers.policy.hierarchy.explanation import attempt_of, cause_in_queues
from offers.policy.hierarchy.maintenance import maintain, spare
from offers.policy.hierarchy.preemption.places import places
from offers.policy.hierarchy.preemption.quota import give_back
from offers.policy.hierarchy.preemption.reservation import reservations
from offers.policy.hierarchy.state.model import Allocation, Ask, Kept, Terms
from offers.policy.hierarchy.tree import Tree
from offers.policy.session.columns import Array
from offers.policy.session.decisions import Bind, Eviction
from offers.policy.session.model import HOLDING
from offers.policy.waiting import WaitCode
from transactions.base import Failure, Slot

T = TypeVar("T")

MAINTENANCE = 5.0
"""Seconds after which the queues look for victims again while taskgroups wait."""
FOLLOWED = 5.0
"""Seconds between two looks at records that have changed while nothing is decided, for the figures of queues."""
LEAST_PAUSE = 0.1
"""The shortest pause between two decisions, as a part of the period of sessions."""
FULL_PAUSE = 4_000
"""Number of changed agents and of tasks of changed applications from which the pause after a decision is the whole
period. A decision takes some 20 microseconds for each; an agent changes several times during a launch."""
PORTION = 1024
"""Number of places after which a decision continues in the next turn: some 30 ms."""


class Hierarchical:
    """The engine of one partition of roles whose policy is `hierarchical`."""

    decides = by_queues = True
    faults = staticmethod(none)
    use_rest = staticmethod(nothing)

    def __init__(
        self,
        turn: Turn,
        part: RolePartition,
        partition: Partition,
        covers: Callable[[str], bool],
        untried: Untried,
        inputs: Inputs,
        pauses: Pauses,
    ) -> None:
        """`part`: the partition of roles, with the tree `partition`, and `covers`, its roles. `untried`: gets the
        demands with promised room when the trees have followed, because they may not have known the applications."""
        self._turn, self._part, self._covers = turn, part, covers
        self._untried, self._inputs, self._pauses = untried, inputs, pauses
        self.trees = Trees(turn, partition, part.hierarchy_document, covers, part.title)
        self._again = 0.0
        """Unix seconds of the next maintenance; 0: none is due."""
        self._followed_at = 0.0
        """Unix seconds at which the trees of all roles have followed the state at least; 0: all are to follow in this
        turn."""
        self._decided_at: dict[str, float] = {}
        """Unix seconds at which the tree of a role has followed for its latest decision."""
        self._outdated = True
        """Records have changed since then."""
        self._following = False
        """The figures have changes left to follow."""
        self._looked_at = 0
        """Number of agents and tasks that the trees have looked at since the latest pause was set."""
        self._portions: dict[str, Continuation] = {}
        """Decisions of which a portion is being carried out, by role."""
        self._rest: dict[str, Continuation] = {}
        """Decisions that continue in the next turn, by role."""
        self._soon: dict[str, tuple[float, Mapping[str, Mapping[str, int]]]] = {}
        """Room that is expected soon, by role: the moment of the latest look in Unix seconds, and amounts by agent."""
        self._reserved: list[AgentHold] = []
        self._unknown: set[str] = set()
        """Demands with promised room of whose applications a tree knew nothing: it has followed once for each."""

    # --- one decision -----------------------------------------------------------------------------------------

    def begin(self) -> bool:
        """See `Engine`; while taskgroups wait, the queues decide from time to time."""
        self._inputs.snapshots.drain()
        is_due = bool(self._again) and self._turn.now >= self._again
        if is_due:
            self._again = 0.0
        return is_due

    def catch_up(self, roles: Iterable[str], pace: TimeBudget) -> bool:  # noqa: ARG002
        """See `Engine`, for all roles."""
        for role in self._roles():
            while role not in self._rest and self._step(role):
                if pace.spent() >= MATCHING:
                    return False
        return True

    def _step(self, role: str, left: int | None = None) -> bool:
        """Takes over a part of the changes of a role, if there are many: the snapshot first, then its tree. False: the
        rest is done at once. `left`: see `RoleSnapshot.catch_up`."""
        if self._inputs.catch_up(role, left):
            return True
        tree_of = self.trees.roles.get(role)
        is_new = tree_of is None or tree_of.wants_all()
        looked_at = self.trees.catch_up(role, self._inputs.snapshots.changes(role, is_new=is_new), left)
        self._looked_at += looked_at
        return looked_at > 0

    def decide(self, portion: Portion) -> Decisions:
        """See `Engine`. The tree places first, and looks for victims when nothing more finds a place."""
        role = portion.role
        rest = self._rest.pop(role, None)
        if rest is None or portion.caps or not rest.holds(role, portion.demands, self._inputs.snapshots):
            inputs = self._inputs_of(role, portion.demands, portion.caps)
            tree_of = self._follow(role, inputs)
            self._decided_at[role] = self._turn.now
            rest, terms = Continuation(inputs, (), ()), tree_of.tree.terms
        else:
            inputs, tree_of = rest.inputs, self.trees.roles[role]
            terms = self._terms(tree_of, inputs, rest.taken)
        terms = terms._replace(kept=None if portion.held is None else self._as_kept(tree_of, portion.held))
        tree_of.tree.begin(terms)
        tree_of.attempts.renew(self._turn.now, partial(self._is_shown, role))
        made = tree_of.run(terms, None if portion.is_grouped else PORTION)
        tree_of.attempts.renew(self._turn.now, partial(self._is_shown, role))
        if tree_of.attempts.unfinished:
            self._portions[role] = rest
            return self._decisions(portion, inputs, made, [], Rest.PORTION)
        evicted, is_behind = self._maintain(portion, tree_of, inputs)
        return self._decisions(portion, inputs, made, evicted, Rest.VICTIMS if is_behind else Rest.NOTHING)

    def _is_shown(self, role: str, agent: str) -> bool:
        """True if an offer shows the free room of an agent."""
        row = self._turn.pool.row(agent, role)
        return row is not None and self._turn.pool.hand.is_open(row)

    def _inputs_of(self, role: str, demands: list[Demand[Slot]], caps: Mapping[str, int]) -> RoleInput:
        """See `Inputs.of_role`. A gang of which members run gets the others back one by one, as they find room: it
        would hold the room of the first for as long as there is none for the last."""
        inputs = self._inputs.of_role(role, demands, caps)
        if not inputs.missing:
            return inputs
        starting = {demand.application for demand in demands if any(not slot.replaces for slot in demand.slots)}
        jobs = inputs.snapshot.jobs
        missing = {
            name: number
            for name, number in inputs.missing.items()
            # Without a job, nothing of the application runs, and nothing of it can be placed now.
            if name in starting or (job := jobs.get(name)) is None or not any(t.status in HOLDING for t in job.tasks)
        }
        return inputs._replace(missing=missing)

    def _follow(self, role: str, inputs: RoleInput) -> RoleTree:
        """The tree of a role, as the state is now."""
        self._rest.pop(role, None)
        is_new = role not in self.trees.roles
        tree_of, snapshot = self.trees.of(role), inputs.snapshot
        agents: Collection[str] = inputs.agents
        jobs: Collection[str] = inputs.jobs
        if tree_of.wants_all() or is_new:
            agents, jobs = snapshot.rank, {*snapshot.jobs, *inputs.jobs}
        self._looked_at += tree_of.follow(snapshot, agents, jobs, self._terms(tree_of, inputs))
        inputs.agents.clear()
        inputs.jobs.clear()
        return tree_of

    def _terms(self, tree_of: RoleTree, inputs: RoleInput, taken: Sequence[Array] = ()) -> Terms:
        """The facts of a decision, with the room that was held for old work in the one before. `taken`: see
        `Continuation`."""
        return Terms(
            admission(inputs, self._turn.placer.tests(), lambda: tree_of.counted, taken),
            inputs.missing,
            self._remaining(tree_of),
            self._turn.source.budget_of,
            self._pauses.present(),
            partial(self._idle, tree_of),
            tree_of.tree.terms.kept,
        )

    def _decisions(
        self, portion: Portion, inputs: RoleInput, made: list[tuple[str, str, str]], evicted: list[Eviction], rest: Rest
    ) -> Decisions:
        tree_of, now = self.trees.roles[portion.role], self._turn.now
        tree, known = tree_of.tree, tree_of.tree.applications
        waiting = list(filter(tree_of.waits, portion.explains))
        return Decisions(
            [Bind(*names) for names in made],
            evicted,
            missing=inputs.missing,
            held_back={name: queue for name in waiting if (queue := self._held_back(tree_of, name)) is not None},
            attempts={name: attempt_of(tree, name, now) if name in known else None for name in waiting},
            rest=rest,
        )

    def _held_back(self, tree_of: RoleTree, name: str) -> HeldBack | None:
        """The queue that holds an application back; None if no queue does."""
        tree = tree_of.tree
        if name in tree_of.unplaced:
            refusal = str(tree_of.unplaced[name])
            source = self._turn.source
            named = source.submission(name).queue or source.queue_of(name)
            return HeldBack(named, True, (), (), WaitCode.NO_QUEUE, whose=refusal)
        application = tree.applications.get(name)
        if application is None or not application.asks:
            return None
        cause = cause_in_queues(tree, name, next(iter(application.asks)))
        if cause is None:
            return None
        queue = tree.queues[cause.where]
        return held_back(cause, amounts(queue.allocated), amounts(queue.max))

    def answer(self, portion: Portion, queues: Partition | None = None) -> Decisions:
        """See `Engine`. Nothing is preempted: work must wait for `preemption.delay` before that."""
        asked = copied(self)
        if queues is not None:
            asked.trees.suppose(queues)
        inputs = asked._inputs_of(portion.role, portion.demands, portion.caps)
        tree_of = asked._follow(portion.role, inputs)
        made = tree_of.run(tree_of.tree.terms)
        return asked._decisions(portion, inputs, made, [], Rest.NOTHING)

    def read_changes(self) -> Iterator[None]:
        """See `Engine`; a decision that continues sees no changes."""
        for role in self._inputs.roles():
            while role not in self._rest and self._step(role, LEFT):
                yield
            if role not in self._rest:
                self.trees.settle(role)

    def drop(self, evictions: Iterable[Eviction]) -> None:
        """See `Engine`."""
        for eviction in evictions:
            self.trees.keep(eviction)

    def accept(
        self, portion: Portion, decisions: Decisions, placed: Sequence[Placement[Slot]], left: Sequence[Demand[Slot]]
    ) -> None:
        """See `Engine`."""
        demands = {demand.id: demand for demand in portion.demands}
        rest = self._portions.pop(portion.role).after(demands, decisions.binds, placed, left)
        if rest is not None:
            self._inputs.snapshots.mark(portion.role)
            self._rest[portion.role] = rest

    def failed(self) -> None:
        """See `Engine`. The trees may count launches and evictions that were not carried out."""
        self.trees.forget()
        self._rest.clear()

    # --- evictions --------------------------------------------------------------------------------------------

    def _maintain(self, portion: Portion, tree_of: RoleTree, inputs: RoleInput) -> tuple[list[Eviction], bool]:
        """The evictions for taskgroups that wait, and of queues above their maximum. True: the time was over before all
        had their turn."""
        tree, role, closed = tree_of.tree, portion.role, set(portion.closed)
        is_over = partial(_is_over, portion.pace)
        shown = self._turn.shown_until
        gangs = tree_of.attempts.preempt(inputs.missing, shown, self._can_end, closed, is_over) if inputs.rows else ()
        tree_of.attempts.restore()
        waits = any(application.asks for application in tree.applications.values())
        if waits:
            is_away = self._turn.now < self._turn.returning_until
            self._maintain_at(self._turn.returning_until if is_away else self._turn.now + MAINTENANCE)
        if not (waits and inputs.rows):  # without an offer in this term a try is in vain, and the next one is due late
            return self._given_back(tree, is_over), False
        done = maintain(tree, shown, self._can_end, closed, self._ending_soon(role), is_over)
        kept = reservations(tree, self._turn.now)
        self._reserved = [
            *(room for room in self._reserved if room.role != role),
            *(
                AgentHold(
                    reservation.ask.application,
                    role,
                    reservation.node,
                    reservation.ask.created,
                    reservation.until,
                    Why.RESERVED,
                )
                for reservation in kept
            ),
        ]
        for at in [self._turn.now] if done.again else [reservation.until for reservation in kept]:
            self._maintain_at(at)
        evicted = [*evictions_of(tree, spare(tree, (*gangs, *done.preemptions))), *given_back_of(tree, done.given_back)]
        return evicted, done.is_unfinished or tree_of.attempts.is_behind

    def idle(self, pace: TimeBudget) -> Iterator[Sequence[Eviction]]:
        """See `Engine`: looks at queues above their maximum."""
        self.follow()
        for tree_of in self.trees.roles.values():
            yield self._given_back(tree_of.tree, partial(_is_over, pace))

    def _given_back(self, tree: Tree, is_over: Callable[[], bool]) -> list[Eviction]:
        evictions = given_back_of(tree, give_back(tree, self._turn.now, is_over))
        due = self._turn.now if "quota" in tree.rests else self._turn.now + MAINTENANCE
        if "quota" in tree.rests or any(queue.above_since is not None for queue in tree.queues.values()):
            self._maintain_at(due)
        return evictions

    def _maintain_at(self, at: float) -> None:
        """A tree wants maintenance at a moment (Unix seconds). Another one may want it sooner."""
        self._again = min(self._again or at, at)

    def _ending_soon(self, role: str) -> Mapping[str, Mapping[str, int]]:
        """Room by agent that is expected within the time that reservations last; looked up from time to time."""
        looked_at, ending = self._soon.get(role, (-inf, {}))
        if self._turn.now >= looked_at + MAINTENANCE:
            ending = self._turn.source.ending_within(role, LONGEST)
            self._soon[role] = (self._turn.now, ending)
        return ending

    def _remaining(self, tree_of: RoleTree) -> Callable[[str], int]:
        """The disruption budget of an application, less the ready victims that were chosen and are not ended yet, those
        of the other side of a rolling update included."""
        source, budgets = self._turn.source, dict[str, int]()
        at = self._turn.now

        def remaining(name: str) -> int:
            nonlocal at
            if at != self._turn.now:
                at = self._turn.now
                budgets.clear()
            sides, tree = source.budget_of(name), tree_of.tree
            chosen = sum(
                identity not in tree.idle
                and (tenant := source.tenant(victim.ask.name)) is not None
                and not tenant.leaves
                for identity, victim in tree.leaving.items()
                if victim.ask.application in sides
            )
            if name not in budgets:
                budgets[name] = source.allowance(name)
            return budgets[name] - chosen

        return remaining

    def _idle(self, tree_of: RoleTree) -> Iterator[tuple[str, str]]:
        """Yields the taskgroups that are not ready."""
        for application, unit in self._turn.source.idle():
            if application in tree_of.tree.applications:
                yield application, unit

    def _can_end(self, _ask: Ask, _node: str, victims: tuple[Allocation, ...]) -> bool:
        """False if a victim is a placement of this decision: nothing that could be ended runs there yet."""
        return all(self._turn.source.tenant(victim.ask.name) is not None for victim in victims)

    # --- questions --------------------------------------------------------------------------------------------

    def spreads(self) -> bool:
        """See `Engine`."""
        return self.trees.partition.node_order is NodeOrder.FAIR

    def queue_of(self, application: str) -> str:
        """See `Engine`; the full name."""
        return self.trees.queue_of(application)

    def takes_back(self, demand: Demand[Slot], replaced: str) -> bool:
        """See `Engine`. A tree that does not know the application follows in this turn, and the demand is considered
        again: the promise lasts only a few seconds."""
        tree_of = self.trees.knowing(demand)
        if tree_of is None:
            self._unknown &= self._turn.engine.promised.keys()
            if demand.id not in self._unknown:
                self._unknown.add(demand.id)
                self._outdated, self._followed_at = True, 0.0
            return False
        request = request_of(demand.request, demand.request.extended)
        return tree_of.takes_back(demand.application, replaced, request)

    def admits_more(self, wants: Sequence[Demand[Slot]]) -> bool:
        """See `Engine`. The tree has no applications of a group that took no part in its latest decision."""
        if any(self.trees.knowing(want) is None for want in wants):
            self.follow()
        return self._takes(wants, uses=False)

    def fits_queues(self, wants: Sequence[Demand[Slot]]) -> bool:
        """See `Engine`. The tree may count taskgroups that have ended."""
        self.follow()
        return self._takes(wants, uses=True)

    def _takes(self, wants: Sequence[Demand[Slot]], *, uses: bool) -> bool:
        """Like `RoleTree.takes_together`; False for a role without a tree."""
        tree_of = self.trees.roles.get(wants[0].role)
        asks = [(want.application, request_of(want.request, want.request.extended)) for want in wants]
        own = {(want.application, want.id) for want in wants}
        return tree_of is not None and tree_of.takes_together(asks, own, uses=uses)

    def outranks(
        self,
        demand: Demand[Slot],
        wants: Sequence[Demand[Slot]],
        holder: Holder,
        *,
        awaits: bool,  # noqa: ARG002
    ) -> bool:
        """See `Engine`. The tree follows before it is asked about an application that it does not know."""
        tree_of = self.trees.knowing(demand)
        if tree_of is None:
            return True
        numbers = Counter(want.id for want in wants)
        needs = (
            AskedPlaces(
                want.application,
                want.id,
                (task_name(want, slot) for slot in want.slots),
                numbers[want.id],
                is_gang(demand),
            )
            for want in {want.id: want for want in wants}.values()
        )
        return tree_of.outrank(needs, holder.applications, self._turn.source.priority(holder.demand))

    def use_held(self, aging: Aging, deciding: Deciding) -> None:
        """See `Engine`."""
        for _ in range(MOST_USES):
            if not aging.betters(deciding(""), self.awaiting()):
                break
            self.follow()  # it may not know them
            if not aging.use(deciding(""), self.awaiting()):
                break

    def bound(self, binds: Sequence[Bind]) -> None:
        """See `Engine`."""
        for tree_of in self.trees.roles.values():
            tree_of.end_promises(bind for bind in binds if bind.job in tree_of.tree.applications)

    def awaiting(self) -> Awaiting:
        """See `Engine`."""
        awaiting: dict[str, dict[int, str]] = {}
        for tree_of in self.trees.roles.values():
            for task, agent in tree_of.awaiting():
                awaiting.setdefault(demand_of(task), {})[index_of(task)] = agent
        return awaiting

    def promised_amounts(self, role: str, without: Collection[str]) -> Mapping[str, Mapping[str, int]]:
        """See `Engine`."""
        tree_of = self.trees.roles.get(role)
        return {} if tree_of is None else tree_of.promised_amounts(without)

    def promised(self) -> Collection[str]:
        """See `Engine`."""
        return self.trees.promised()

    def agent_holds(self) -> list[AgentHold]:
        """See `Engine`: the nodes that asks have reserved."""
        return self._reserved

    def next_timer(self) -> float | None:
        """See `Engine`."""
        return self._turn.now if self._following else self._again or None

    def pause(self) -> float:
        """See `Engine`. Queues decide sooner than sessions, as long as their decisions take a small part of the
        time."""
        looked_at, self._looked_at = self._looked_at, 0
        return self._turn.options.session_period * min(max(looked_at / FULL_PAUSE, LEAST_PAUSE), 1.0)

    def evictions_for(
        self,
        wants: Sequence[Demand[Slot]],
        held: OldHold | None,
        deciding: Deciding,  # noqa: ARG002
        *,
        anywhere: bool,
    ) -> EvictionPlan | None:
        """See `Engine`. Costs as much as a decision that places nothing, and one search for each place, or two. Those
        that the budgets admit now end rather than less important ones whose budgets may never admit it."""
        self.follow()
        live = self.trees.roles.get(wants[0].role)
        if live is None:
            return None
        agents = () if held is None or anywhere else held.agents
        return next(
            filter(None, (self._evictions(live, wants, held, agents, ever=ever) for ever in (False, True))), None
        )

    def _evictions(
        self, live: RoleTree, wants: Sequence[Demand[Slot]], held: OldHold | None, agents: Sequence[str], *, ever: bool
    ) -> EvictionPlan | None:
        """`agents`: that of each place; empty: any. `ever`: as if the budgets admitted one end after the other; else as
        they are now."""
        tasks = live.without_victims(wants)
        if tasks is None:
            return None
        tree_of = copied(live)
        tree_of.attempts.restore()
        asks = tree_of.pending(tasks)
        if asks is None:
            return None
        tree, kept, source = tree_of.tree, None, self._turn.source
        if held is not None:
            kept = self._as_kept(tree_of, held, is_own=True)
        allowance = partial(may_ever_end, source) if ever else self._remaining(tree_of)
        tree.begin(tree.terms._replace(allowance=allowance, idle=partial(self._idle, tree_of), kept=kept))
        made = places(tree, asks, agents, self._turn.now, self._can_end)
        if made is None:
            return None
        return as_plan(source, tuple(preemption.node for preemption in made), tuple(evictions_of(tree, made)))

    def _as_kept(self, tree_of: RoleTree, held: OldHold, *, is_own: bool = False) -> Kept:
        """The room that is held for old work, as trees see it."""
        counted = tree_of.counted
        held_amounts, lacks = (
            {agent: dict(counted.of(tuple(amounts.items()))) for agent, amounts in by_agent.items()}
            for by_agent in (held.amounts, held.lacks)
        )
        holder, served = held.holder, defaultdict[str, set[str]](set)
        for application, task in (tree_of.without_victims(holder.wants) or ()) if holder.makes_room else ():
            served[application].add(safe(task))
        priority = self._turn.source.priority(holder.demand)
        return Kept(held_amounts, lacks, holder.applications, priority, is_own, holder.has_victims, served)

    # --- following --------------------------------------------------------------------------------------------

    def follow(self) -> None:
        """Brings the trees of all roles up to date, without decisions: for figures and trials. Costs with the objects
        that wait, and with those that have changed."""
        self._follow_all()
        self._followed_at, self._outdated = self._turn.now, False
        self._untried.push_promised()

    def _follow_all(self) -> None:
        demands = [demand for demand in self._turn.engine.demands.values() if not demand.per_agent]
        for role in self._roles():
            self._follow(role, self._inputs_of(role, [demand for demand in demands if demand.role == role], {}))

    def present(self) -> Trees:
        """A copy of the trees that is up to date, for questions."""
        asked = copied(self)
        asked._follow_all()
        return asked.trees

    def _roles(self) -> Iterable[str]:
        """The roles of all trees, and of everything that waits or holds room."""
        engine, held = self._turn.engine, self._turn.source.roles()
        demands = (demand.role for demand in engine.demands.values() if not demand.per_agent)
        roles = dict.fromkeys((self._turn.options.transactions.role, *held, *demands, *self.trees.roles))
        return [role for role in roles if self._covers(role)]

    def notice(self, news: News) -> bool:
        """See `Engine`; the stored tree of the partition is followed."""
        self._outdated = self._outdated or news.units
        has_changed = self.trees.name in news.trees and self._attempt(self._change) is True
        return has_changed or news.queues

    def _change(self) -> bool:
        """Takes over the stored tree; taskgroups that wait, and queues above a lowered maximum, are looked at. False:
        it is the present one."""
        if not self.trees.load():
            return False
        self._rest.clear()
        self._outdated = True
        self._followed_at = 0.0
        self._again = self._turn.now
        return True

    def conclude(self, pace: TimeBudget) -> None:
        """See `Engine`; the figures follow the state from time to time."""
        self._following = False
        if self._is_behind():
            done = self._attempt(partial(self.catch_up, (), pace))
            if isinstance(done, Failure) or done:
                self._attempt(self.follow)
            else:
                self._following = True

    def _is_behind(self) -> bool:
        """True if the trees are to follow the state although nothing is decided. A decision brings the tree of its role
        up to date; but demands with promised room are matched only after all trees have followed."""
        turn = self._turn
        if not self._outdated or turn.now < self._followed_at + FOLLOWED:
            return False
        if self._followed_at and not turn.engine.promised:
            decided = min((self._decided_at.get(role, 0.0) for role in self._roles()), default=0.0)
            self._followed_at = max(self._followed_at, decided)
        return turn.now >= self._followed_at + FOLLOWED

    def _attempt(self, work: Callable[[], T]) -> T | Failure:
        """Like `TurnContext.attempt`."""
        result = self._turn.attempt("core", "queues", work)
        if isinstance(result, Failure):
            self.failed()
        return result

    def recover(self) -> None:
        """See `Engine`: the tree of the settings is stored, if no tree is."""
        self.trees.recover()
        role = self._turn.options.transactions.role
        for name in (role,) if self._covers(role) else self._part.roles:
            self.trees.of(name)

    def void(self) -> None:
        """See `Engine`; maintenance waits for offers."""
        self._again = 0.0
        self._rest.clear()

    def drop_figures(self) -> None:
        """See `Engine`: the snapshots, and the order, sums and columns of the trees, with their tries in vain. A
        decision that continues begins anew."""
        self._inputs.snapshots.drop_figures()
        self._rest.clear()
        for tree_of in self.trees.roles.values():
            tree_of.drop_figures()

    def forget(self) -> None:
        """See `Engine`; the snapshots and the trees are made anew."""
        self._inputs.snapshots.forget()
        self.failed()
        self._following, self._outdated = False, True
        self._unknown.clear()
        self._soon.clear()


def _is_over(pace: TimeBudget) -> bool:
    return pace.spent() >= MATCHING
