"""The placement pass of the policy `hierarchical`: queues in a tree decide which demands get room.

The pass is that of sessions with other decisions: the tree gives the order, the limits and the victims, and the matcher
finds the exact places.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from itertools import islice
from math import inf
from typing import TypeVar

from bcs_scheduler.core.context import TurnContext
from bcs_scheduler.core.options import RolePartition
from bcs_scheduler.core.placement.aging import Held, KeptRoom, Room, Why, ending_within, is_gang
from bcs_scheduler.core.placement.copied import copied
from bcs_scheduler.core.placement.hierarchy.admission import Admits, admission
from bcs_scheduler.core.placement.hierarchy.asks import Counted, evictions_of, given_back_of, held_back
from bcs_scheduler.core.placement.hierarchy.continuation import Continuation, continuation
from bcs_scheduler.core.placement.hierarchy.role_tree import RoleTree, Wanted
from bcs_scheduler.core.placement.hierarchy.trees import Trees
from bcs_scheduler.core.placement.launcher import Launcher
from bcs_scheduler.core.placement.placement_pass import Covers
from bcs_scheduler.core.placement.sessions.chosen import Chosen
from bcs_scheduler.core.placement.sessions.pending import demand_of, index_of, task_name
from bcs_scheduler.core.placement.sessions.role import SessionInput
from bcs_scheduler.core.placement.sessions.session_pass import MOST_USES, SessionPass
from bcs_scheduler.core.placement.sessions.snapshots import Snapshots
from bcs_scheduler.core.time_budget import MATCHING, UNLIMITED, TimeBudget
from offers.dimensions import amounts
from offers.ledger.holds import LONGEST
from offers.model import DecidedBy, Demand, HeldBack, Placement
from offers.policy.hierarchy import Allocation, Ask, Partition, Tree, cause_in_queues, maintain, spare
from offers.policy.hierarchy.configuration.partition import NodeOrder
from offers.policy.hierarchy.obstacles import attempt_of
from offers.policy.hierarchy.preemption.places import places
from offers.policy.hierarchy.preemption.quota import give_back
from offers.policy.hierarchy.preemption.reservation import reservations
from offers.policy.hierarchy.state.model import Kept
from offers.policy.holds import Hold
from offers.policy.obstacles import Attempt
from offers.policy.session.columns import Array
from offers.policy.session.configuration.document import default_policy
from offers.policy.session.decisions import Bind, Decisions, Eviction
from offers.policy.session.model import HOLDING
from store.records import TaskGroup
from transactions.base import Failure, Slot
from transactions.rules import disruptions
from transactions.rules.queues import partition_of_revision

T = TypeVar("T")

MAINTENANCE = 5.0
"""Seconds after which the queues look for victims again while taskgroups wait."""
FOLLOWED = 5.0
"""Seconds between two looks at records that have changed while no session runs, for the figures of queues."""
LEAST_PAUSE = 0.1
"""The shortest pause between two decisions, as a part of the period of sessions."""
FULL_PAUSE = 4_000
"""Number of changed agents and of tasks of changed applications from which the pause after a decision is the whole
period. A decision takes some 20 microseconds for each; an agent changes several times during a launch."""
PORTION = 1024
"""Number of places after which a decision continues in the next turn: some 30 ms."""
LEFT = 32
"""Changed agents and taskgroups that the trees may leave for the copies that questions make of them."""
FOLLOWED_KINDS = frozenset({"taskgroup", "application", "namespace", "version"})


class HierarchyPass(SessionPass):
    """Decides by one tree of queues per role."""

    by_queues = True
    plain = True

    def __init__(
        self,
        turn: TurnContext,
        launcher: Launcher,
        covers: Covers,
        part: RolePartition,
        partition: Partition,
        snapshots: Snapshots | None,
        decides: DecidedBy | None,
        labels: tuple[str, ...],
    ) -> None:
        """`part`: the partition of roles, with the tree `partition`. `decides`: its name for users; None: all roles
        have one policy."""
        super().__init__(turn, launcher, covers, default_policy(), snapshots, labels)
        self._part, self.decides = part, decides
        self.trees = Trees(turn, partition, part.hierarchy_document, covers, part.title)
        turn.queues.trees[self.trees.name] = self.trees
        self._again = 0.0
        """Unix seconds of the next maintenance; 0: none is due."""
        self._followed_at = 0.0
        """Unix seconds at which the trees have followed the state the last time."""
        self._outdated = True
        """Records have changed since then."""
        self._unfinished = False
        """The latest decision has found as many places as it may, and continues in the next turn."""
        self._rest: dict[str, Continuation] = {}
        """Decisions that continue in the next turn, by role."""
        self._is_behind = False
        """The time of the turn was over before all taskgroups that may preempt had their turn."""
        self._pace: TimeBudget = UNLIMITED
        self._continued: Continuation | None = None
        """The decision of which a portion is being carried out; None for the first portion."""
        self._unsettled: dict[str, Demand[Slot]] = {}
        """Demands whose launches wait for the end of a decision, by id: an agent takes all its launches at once."""
        self._following = False
        """The figures have changes left to follow."""
        self._looked_at = 0
        """Number of agents and tasks that the trees have looked at since the latest pause was set."""
        self._soon: dict[str, tuple[float, Mapping[str, Mapping[str, int]]]] = {}
        """Room that is expected soon, by role: the moment of the latest look in Unix seconds, and amounts by agent."""
        self._reserved: list[KeptRoom] = []
        self._unknown: set[str] = set()
        """Demands with promised room of whose applications a tree knew nothing: it has followed once for each."""

    def recover(self) -> None:
        """Makes the file of the settings the first revision of the stored tree."""
        self.trees.seed()
        role = self._turn.options.transactions.role
        for name in (role,) if self._covers(role) else self._part.roles:
            self.trees.of(name)

    def next_timer(self) -> float | None:
        """Unix seconds at which the queues decide again; None: nothing waits for them."""
        timer = super().next_timer()
        if self._following:
            return self._turn.now
        return min((one for one in (timer, self._again or None) if one is not None), default=None)

    def _spreads(self) -> bool:
        return self.trees.partition.node_order is NodeOrder.FAIR

    def decide(self, pace: TimeBudget) -> None:
        """Like `SessionPass.decide`; while taskgroups wait, the queues decide from time to time."""
        self._pace = pace
        if self._again and self._turn.now >= self._again:
            self._again = 0.0
            if self._has_demands():
                self._waiting = True
            else:
                self._attempt(self._give_back)
        self._unfinished, self._is_behind = False, False
        super().decide(pace)
        if self._unfinished or self._is_behind:
            self._waiting, self._next = True, self._turn.now
        if not self._unfinished:
            while self._unsettled:
                self._launcher.settle(self._unsettled.popitem()[1])

    def _decide(self) -> None:
        try:
            super()._decide()
        except Exception:
            self._forget()
            raise

    def _attempt(self, work: Callable[[], T]) -> T | Failure:
        """Like `TurnContext.attempt`."""
        result = self._turn.attempt("core", "queues", work)
        if isinstance(result, Failure):
            self._forget()
        return result

    def _forget(self) -> None:
        """After an error. The trees may count launches and evictions that were not carried out."""
        self.trees.forget()
        self._rest.clear()

    def promised(self) -> Collection[str]:
        """See `PlacementPass.promised`."""
        return self.trees.promised()

    def takes_back(self, demand: Demand[Slot], replaced: str) -> bool:
        """Like `Trees.takes_back`. A tree that does not know the application follows in this turn, and the demand is
        considered again: the promise lasts only a few seconds."""
        if not self.trees.knows(demand):
            self._unknown &= self._turn.engine.promised.keys()
            if demand.id not in self._unknown:
                self._unknown.add(demand.id)
                self._outdated, self._followed_at = True, 0.0
            return False
        return self.trees.takes_back(demand, replaced)

    def admits_more(self, wants: Sequence[Demand[Slot]]) -> bool:
        """See `aging.Rules`."""
        return self.trees.takes_together(wants, root=False)

    def kept_rooms(self) -> list[KeptRoom]:
        """See `PlacementPass.kept_rooms`; with the nodes that asks have reserved, as of the latest decision."""
        return [*super().kept_rooms(), *self._reserved]

    def takes(self, wants: Sequence[Demand[Slot]]) -> bool:
        """See `aging.Rules`. The tree may count taskgroups that have ended."""
        self.follow()
        return self.trees.takes_together(wants, root=True)

    def outranks(self, demand: Demand[Slot], other: Demand[Slot]) -> bool:
        """See `aging.Rules`. The tree follows before it is asked about an application that it does not
        know."""
        if not self.trees.knows(demand):
            return True
        wants = self.wants(demand)
        numbers = Counter(one.id for one in wants)
        return self.trees.roles[demand.role].outrank(
            (
                Wanted(
                    one.application,
                    one.id,
                    (task_name(one, slot) for slot in one.slots),
                    numbers[one.id],
                    is_gang(demand),
                )
                for one in {one.id: one for one in wants}.values()
            ),
            self.aging.owners(other.role),
            self._priority(other),
        )

    def use_first(self) -> None:
        """See `aging.Hands`."""
        for _ in range(MOST_USES):
            if not self.aging.betters(self._deciding(), self._awaited()):
                break
            self.follow()  # it may not know them
            if not self.aging.use(self._deciding(), self._awaited()):
                break

    def _awaited(self) -> dict[str, dict[int, str]]:
        """See `aging.Awaiting`."""
        found: dict[str, dict[int, str]] = {}
        for tree_of in self.trees.roles.values():
            for task, agent in tree_of.awaiting():
                found.setdefault(demand_of(task), {})[index_of(task)] = agent
        return found

    def promised_rooms(self, role: str, without: Collection[str]) -> Mapping[str, Mapping[str, int]]:
        """See `aging.Rules`."""
        tree_of = self.trees.roles.get(role)
        return {} if tree_of is None else tree_of.promised_rooms(without)

    def _with_promises(self) -> set[str]:
        return set(self._awaited())

    def _waiting_demands(self, demands: Iterable[Demand[Slot]]) -> list[Demand[Slot]]:
        """Demands that still wait are explained at the end of a decision."""
        return [] if self._unfinished else super()._waiting_demands(demands)

    def _settle(self, demand: Demand[Slot]) -> None:
        if self._unfinished:
            self._unsettled[demand.id] = demand
        else:
            super()._settle(demand)

    def conclude(self, pace: TimeBudget) -> None:
        """Like `SessionPass.conclude`; the figures follow the state from time to time."""
        self._following = False
        if self._outdated and self._turn.now >= self._followed_at + FOLLOWED:
            done = self._attempt(partial(self._catch_up, pace))
            if isinstance(done, Failure) or done:
                self._attempt(self.follow)
            else:
                self._following = True

    def _catch_up(self, pace: TimeBudget) -> bool:
        for role in self._roles():
            while role not in self._rest and self._step(role):
                if pace.spent() >= MATCHING:
                    self._unfinished = self._unfinished or bool(self._unsettled)
                    return False
        return True

    def read_changes(self) -> None:
        """See `placer.Policies`. A decision that continues sees no changes."""
        for role in self._snapshots.roles(self._turn.options.transactions.role):
            while self._covers(role) and role not in self._rest and self._step(role, LEFT):
                pass

    def _step(self, role: str, left: int | None = None) -> bool:
        """Takes over a part of the changes of a role, if there are many: the snapshot first, then its tree. False: the
        rest is done at once. `left`: see `RoleSnapshot.catch_up`."""
        if self._snapshots.catch_up(role, self._turn.now, plain=self.plain, left=left):
            return True
        tree_of = self.trees.roles.get(role)
        is_new = tree_of is None or tree_of.wants_all()
        looked_at = self.trees.catch_up(role, self._snapshots.changes(role, is_new=is_new), left)
        self._looked_at += looked_at
        return looked_at > 0

    def _roles(self) -> Iterable[str]:
        """The roles of all trees, and of everything that waits or holds room."""
        engine, held = self._turn.engine, (role for _, role in self._turn.state.held())
        demands = (demand.role for demand in engine.demands.values() if not demand.per_agent)
        found = dict.fromkeys((self._turn.options.transactions.role, *held, *demands, *self.trees.roles))
        return [role for role in found if self._covers(role)]

    def _pause(self) -> float:
        """Queues decide sooner than sessions, as long as their decisions take a small part of the time."""
        looked_at, self._looked_at = self._looked_at, 0
        return self._turn.options.session_period * min(max(looked_at / FULL_PAUSE, LEAST_PAUSE), 1.0)

    def notice(self, changed: Iterable[tuple[str, str]]) -> None:
        """Like `SessionPass.notice`; the stored tree of the partition is followed."""
        changed = list(changed)
        kinds = {kind for kind, _ in changed}
        self._outdated = self._outdated or not kinds.isdisjoint(FOLLOWED_KINDS)
        super().notice(changed)
        if any(kind == "queuetree" and partition_of_revision(key) == self.trees.name for kind, key in changed):
            self._attempt(self._change)

    def _change(self) -> None:
        """Takes over the stored tree; taskgroups that wait, and queues above a lowered maximum, are looked at."""
        if self.trees.load():
            self._rest.clear()
            self._outdated = True
            self._followed_at = 0.0
            self._waiting = self._waiting or self._has_demands()
            self._again = self._turn.now

    def follow(self) -> None:
        """Brings the trees of all roles up to date, without decisions: for figures and trials. Costs with the objects
        that wait, and with those that have changed."""
        self._follow_all()
        self._followed_at, self._outdated = self._turn.now, False
        self.consider_promised()  # the trees may not have known their applications

    def _follow_all(self) -> None:
        demands = [demand for demand in self._turn.engine.demands.values() if not demand.per_agent]
        for role in self._roles():
            self._follow(role, self._input(role, [demand for demand in demands if demand.role == role], {}))

    def present(self) -> Trees:
        """A copy of the trees that is up to date, for questions."""
        asked = copied(self)
        asked._follow_all()
        return asked.trees

    def void(self) -> None:
        """Like `SessionPass.void`; maintenance waits for offers."""
        super().void()
        self._again = 0.0
        self._unsettled.clear()
        self._rest.clear()

    def forget(self) -> None:
        """Like `SessionPass.forget`; the trees are made anew."""
        super().forget()
        self._forget()
        self._unfinished, self._following, self._outdated = False, False, True
        self._unsettled.clear()
        self._unknown.clear()
        self._soon.clear()

    def _session(self, role: str, demands: list[Demand[Slot]], caps: dict[str, int]) -> tuple[SessionInput, Decisions]:
        rest = self._rest.pop(role, None)
        if rest is None or caps or not rest.holds(role, demands, self._snapshots):
            self._continued = None
            return super()._session(role, demands, caps)
        self._continued = rest
        tree_of = self.trees.roles[role]
        tree_of.admits = self._admits(rest.found, tree_of.counted, rest.taken)
        tree_of.tree.allowance = self._remaining(tree_of.tree)
        return rest.found, self._run(role, rest.found, tree_of)

    def _carry_out(self, chosen: Chosen) -> list[Placement[Slot]]:
        placements = super()._carry_out(chosen)
        for role in {demand.role for demand in chosen.demands.values()} if self._unfinished else ():
            left = [demand for demand in self._deciding() if demand.role == role]
            rest = continuation(self._continued, chosen, placements, left)
            if rest is not None and self.trees.roles[role].attempts.unfinished:
                self._snapshots.mark(role)
                self._rest[role] = rest
        return placements

    def _input(self, role: str, demands: list[Demand[Slot]], caps: dict[str, int]) -> SessionInput:
        """Like `SessionPass._input`. A gang of which members run gets the others back one by one, as they find room: it
        would hold the room of the first for as long as there is none for the last."""
        found = super()._input(role, demands, caps)
        if not found.missing:
            return found
        starting = {one.application for one in demands if any(not slot.replaces for slot in one.slots)}
        jobs = found.snapshot.jobs
        missing = {
            name: number
            for name, number in found.missing.items()
            # Without a job, nothing of the application runs, and nothing of it can be placed now.
            if name in starting or (job := jobs.get(name)) is None or not any(t.status in HOLDING for t in job.tasks)
        }
        return found._replace(missing=missing)

    def _decided(self, role: str, found: SessionInput) -> Decisions:
        return self._run(role, found, self._follow(role, found))

    def _run(self, role: str, found: SessionInput, tree_of: RoleTree) -> Decisions:
        grouped = any(demand.group for demand in self._deciding())  # their members are decided together
        tree_of.attempts.renew(self._turn.now, partial(self._is_shown, role))
        binds = tree_of.run(found.missing, None if grouped else PORTION)
        tree_of.attempts.renew(self._turn.now, partial(self._is_shown, role))
        self._unfinished |= tree_of.attempts.unfinished
        tree_of.tree.allowance = self._remaining(tree_of.tree)
        evicted = [] if tree_of.attempts.unfinished else self._maintain(role, tree_of, found)
        return self._decisions(role, found, binds, evicted)

    def _is_shown(self, role: str, agent: str) -> bool:
        """True if an offer shows the free room of an agent."""
        row = self._turn.pool.row(agent, role)
        return row is not None and bool(row.offers)

    def _answer(
        self, role: str, demands: list[Demand[Slot]], caps: dict[str, int], queues: Partition | None
    ) -> tuple[SessionInput, Decisions]:
        """Like `SessionPass._answer`. Nothing is preempted: work must wait for `preemption.delay` before that."""
        if queues is not None:
            self.trees.suppose(queues)
        found = self._input(role, demands, caps)
        return found, self._decisions(role, found, self._follow(role, found).run(found.missing), [])

    def _decisions(
        self, role: str, found: SessionInput, made: list[tuple[str, str, str]], evicted: list[Eviction]
    ) -> Decisions:
        binds = [Bind(*names) for names in made]
        tree_of = self.trees.roles[role]
        waiting = list(islice(filter(tree_of.waits, found.waiting), self._turn.options.explained))
        return Decisions(
            tuple(binds),
            tuple(evicted),
            {},
            {},
            {},
            (),
            tuple(binds),
            {},
            held_back={name: hold.hold for name in waiting if (hold := self._hold(role, name)) is not None},
            attempts={name: self._attempt_of(tree_of.tree, name) for name in waiting},
        )

    def _follow(self, role: str, found: SessionInput) -> RoleTree:
        """The tree of a role, as the state is now."""
        self._rest.pop(role, None)
        is_new = role not in self.trees.roles
        tree_of, snapshot = self.trees.of(role), found.snapshot
        agents: Collection[str] = found.agents
        jobs: Collection[str] = found.jobs
        if tree_of.wants_all() or is_new:
            agents, jobs = snapshot.rank, {*snapshot.jobs, *found.jobs}
        self._looked_at += tree_of.follow(snapshot, agents, jobs, self._admits(found, tree_of.counted))
        tree_of.tree.allowance, tree_of.tree.budget_of = self._remaining(tree_of.tree), self._budget_of
        found.agents.clear()
        found.jobs.clear()
        return tree_of

    def _admits(self, found: SessionInput, counted: Counted, taken: Sequence[Array] = ()) -> Admits:
        return admission(found, self._turn.placer.tests(), counted, taken)

    # --- evictions --------------------------------------------------------------------------------------------

    def _remaining(self, tree: Tree) -> Callable[[str], int]:
        """The disruption budget of an application, less the ready victims that were chosen and are not ended yet, those
        of the other side of a rolling update included."""
        before = set(tree.leaving)
        budgets: dict[str, int] = {}
        at = self._turn.now

        def remaining(name: str) -> int:
            nonlocal at
            if at != self._turn.now:
                at = self._turn.now
                budgets.clear()
            sides = self._budget_of(name)
            chosen = sum(
                victim.ask.application in sides and identity not in tree.idle
                for identity, victim in tree.leaving.items()
                if identity not in before
            )
            if name not in budgets:
                budgets[name] = disruptions.allowance(self._turn.context, name)
            return budgets[name] - chosen

        return remaining

    def _budget_of(self, application: str) -> tuple[str, ...]:
        return disruptions.budget_of(self._turn.context, application)

    def _note_idle(self, tree: Tree) -> None:
        """Tells the tree which taskgroups are not ready."""
        state = self._turn.state
        tree.set_idle(
            lambda: (
                (key, group.id)
                for key, groups in state.readiness.all.items()
                if key in tree.applications and (application := state.applications.get(key)) is not None
                for group in groups.values()
                if not (group.ended or group.killing_since or disruptions.is_serving(application, group))
            )
        )

    def _maintain(self, role: str, tree_of: RoleTree, found: SessionInput) -> list[Eviction]:
        tree = tree_of.tree
        self._note_idle(tree)
        self._note_kept(role, tree_of)
        shown, unshown = self._turn.shown_until, self._turn.unshown(self._deciding()) | self.aging.gathering()
        tree.paused = self._pauses.present()
        gangs = (
            tree_of.attempts.preempt(found.missing, shown, self._can_end, unshown, self._is_over) if found.rows else ()
        )
        tree_of.attempts.restore()
        waits = any(application.asks for application in tree.applications.values())
        if waits:
            is_away = self._turn.now < self._turn.returning_until
            self._look_again(self._turn.returning_until if is_away else self._turn.now + MAINTENANCE)
        if not (waits and found.rows):  # without an offer in this term a try is in vain, and the next one is due late
            return self._given_back(tree)
        done = maintain(tree, shown, self._can_end, unshown, self._ending_soon(role), self._is_over)
        self._is_behind = self._is_behind or done.is_unfinished or tree_of.attempts.is_behind
        kept = reservations(tree, self._turn.now)
        self._reserved = [
            *(one for one in self._reserved if one.role != role),
            *(KeptRoom(one.ask.application, role, one.node, one.ask.created, one.until, Why.RESERVED) for one in kept),
        ]
        for at in [self._turn.now] if done.again else [one.until for one in kept]:
            self._look_again(at)
        return [*evictions_of(tree, spare(tree, (*gangs, *done.preemptions))), *given_back_of(tree, done.given_back)]

    def _look_again(self, at: float) -> None:
        """A tree wants maintenance at a moment (Unix seconds). Another one may want it sooner."""
        self._again = min(self._again or at, at)

    def _ending_soon(self, role: str) -> Mapping[str, Mapping[str, int]]:
        """Room by agent that is expected within the time that reservations last; looked up from time to time."""
        looked_at, found = self._soon.get(role, (-inf, {}))
        if self._turn.now >= looked_at + MAINTENANCE:
            found = ending_within(self._turn, role, LONGEST)
            self._soon[role] = (self._turn.now, found)
        return found

    def _is_over(self) -> bool:
        return self._pace.spent() >= MATCHING

    def _can_end(self, _ask: Ask, _node: str, victims: tuple[Allocation, ...]) -> bool:
        """False if a victim is a placement of this decision: nothing that could be ended runs there yet."""
        return all(victim.ask.name in self._turn.state.taskgroups for victim in victims)

    def _give_back(self) -> None:
        """Looks at queues above their maximum while nothing waits for a place."""
        self.follow()
        for tree_of in self.trees.roles.values():
            self._note_idle(tree_of.tree)
            self._evict(self._given_back(tree_of.tree))

    def _given_back(self, tree: Tree) -> list[Eviction]:
        found = given_back_of(tree, give_back(tree, self._turn.now, self._is_over))
        due = self._turn.now if "quota" in tree.rests else self._turn.now + MAINTENANCE
        if "quota" in tree.rests or any(queue.above_since is not None for queue in tree.queues.values()):
            self._again = min(self._again or due, due)
        return found

    def _end(self, decided: Iterable[Eviction]) -> Mapping[str, list[TaskGroup]]:
        decided = list(decided)
        ended = super()._end(self._without_torn(decided))
        for eviction in decided:
            group = self._turn.state.taskgroups.get(eviction.task)
            if group is None or not (group.killing_since or group.ended):
                self.trees.keep(eviction)
        return ended

    def room_for(self, wants: Sequence[Demand[Slot]], held: Held | None) -> Room | None:
        """See `aging.Hands`. Costs as much as a decision that places nothing, and one search for each place."""
        self.follow()
        role, names = wants[0].role, self._waiting_tasks(wants)
        live = self.trees.roles.get(role)
        if live is None or names is None:
            return None
        tree_of = copied(live)
        tree_of.attempts.restore()
        asks = tree_of.pending(zip((one.application for one in wants), names, strict=True))
        if asks is None:
            return None
        tree, kept = tree_of.tree, None
        tree.paused = self._pauses.present()
        self._note_idle(tree)
        if held is not None:
            kept = self._as_kept(tree_of, held, is_own=True)
        agents = held.agents if held is not None else ()
        made = places(tree, asks, agents, kept, self._may_ever_end, self._turn.now, self._can_end)
        if made is None:
            return None
        return self._as_room(tuple(one.node for one in made), tuple(evictions_of(tree, made)))

    def _is_promised(self, demand: Demand[Slot], task: str) -> bool:
        tree_of = self.trees.roles.get(demand.role)
        return tree_of is not None and tree_of.has_victims(demand.application, task)

    def _note_kept(self, role: str, tree_of: RoleTree) -> None:
        """Tells the tree which room is held for old work."""
        held = self.aging.held(role)
        tree_of.tree.keep_room(None if held is None else self._as_kept(tree_of, held))

    def _as_kept(self, tree_of: RoleTree, held: Held, *, is_own: bool = False) -> Kept:
        counted = tree_of.counted
        rooms, lacks = (
            {agent: dict(counted.of(tuple(amounts.items()))) for agent, amounts in one.items()}
            for one in (held.rooms, held.lacks)
        )
        return Kept(rooms, lacks, held.applications, self._priority(held.demand), is_own)

    def _without_torn(self, decided: Sequence[Eviction]) -> list[Eviction]:
        """The evictions without those of whole gangs of which a member may not be ended."""
        state, judge = self._turn.state, disruptions.at(self._turn.context)
        members = [(one.job, state.taskgroups.get(one.task)) for one in decided if one.with_gang]
        torn = {job for job, group in members if group is None or judge.judge(group, "evict").refusal is not None}
        return [one for one in decided if not (one.with_gang and one.job in torn)]

    def _drop(self, decisions: Decisions) -> None:
        for eviction in decisions.evictions:
            self.trees.keep(eviction)

    # --- explanations -----------------------------------------------------------------------------------------

    def _held_back(self, role: str, decisions: Decisions) -> dict[str, HeldBack]:
        found = {name: self._hold(role, name) for name in decisions.held_back}
        return {name: hold for name, hold in found.items() if hold is not None}

    def _hold(self, role: str, name: str) -> HeldBack | None:
        """The queue that holds an application back; None if no queue does."""
        tree_of = self.trees.roles[role]
        tree = tree_of.tree
        if name in tree_of.unplaced:
            refusal = str(tree_of.unplaced[name])
            return HeldBack(self.trees.named_queue(name), True, (), (), Hold.NO_QUEUE, whose=refusal)
        application = tree.applications.get(name)
        if application is None or not application.asks:
            return None
        cause = cause_in_queues(tree, name, next(iter(application.asks)))
        if cause is None:
            return None
        queue = tree.queues[cause.where]
        return held_back(cause, amounts(queue.allocated), amounts(queue.max))

    def _attempt_of(self, tree: Tree, name: str) -> Attempt | None:
        return attempt_of(tree, name, self._turn.now) if name in tree.applications else None

    def _queue_of(self, application: str) -> str:
        return self.trees.queue_of(application)
