"""A scheduler on standing capacity: the loop of placement of the core, driven by units that are no records.

The loop, its engine, the matcher and the ledger are the real ones; the source of units is `source.Pods`. News and
answers of the cluster manager are taken into the ledger here, as a driver of Kubernetes will do.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from bcs_scheduler.core.options import CoreOptions, RolePartition
from bcs_scheduler.core.placement.engines.engine import Engine
from bcs_scheduler.core.placement.engines.hierarchical import Hierarchical
from bcs_scheduler.core.placement.engines.registry import Around
from bcs_scheduler.core.placement.engines.session import Session
from bcs_scheduler.core.placement.engines.simple import Simple
from bcs_scheduler.core.placement.inputs import Inputs
from bcs_scheduler.core.placement.partitions import Placing
from bcs_scheduler.core.placement.snapshots.snapshots import Snapshots
from offers.dimensions import Amounts, Dimension, Dimensions, amounts
from offers.ledger.nodes import Node, NodePool, node_pool
from offers.ledger.usage import ANY_ROLE, UnitClaim
from offers.matching.ranking import Scoring
from offers.matching.statement import match
from offers.model import Demand, Provisional, ResourceRequest
from offers.model import Unit as Name
from offers.rules.constraints import EMPTY_RULES
from tests.simulation.sessions import POLICY
from tests.simulation.standing.cluster import Cluster, Lists, News, Request, Unit
from tests.simulation.standing.gangs import Gangs, Store
from tests.simulation.standing.source import GPU, QUEUES, TREE, PlainTurn, queue_of
from tests.simulation.violation import Violation
from tests.simulation.world import World
from tests.unit.offers.ledger.standing_machine import kept
from tests.unit.offers.matching.reference_matcher import LiveCensus

ASSUME_TIMEOUT = 60.0
PROMISE = 60.0
"""Seconds for which room is kept for an important unit."""
NOBODY = LiveCensus([])


class Hurried:
    """The time of a turn. `is_hurried`: a turn launches on one agent, and the others follow in later turns."""

    def __init__(self, is_hurried: bool) -> None:
        self._is_hurried = is_hurried

    def spent(self) -> float:
        return 0.0

    def is_congested(self) -> bool:
        return self._is_hurried


class Scheduler:
    def __init__(
        self,
        world: World,
        cluster: Cluster,
        scoring: Scoring,
        dry: Callable[[NodePool], object],
        gangs: Store | None = None,
        engine: str = "simple",
        memory: int = 2**20,
    ) -> None:
        """`dry` takes a picture of a pool: it must be the same after a plan as before. `gangs`: None = there are no
        gangs. `engine`: its name. `memory`: the integer units of one MB."""
        self.world, self.cluster, self.scoring, self._dry = world, cluster, scoring, dry
        known = (Dimension("cpu", 1000, "cores"), Dimension("memory", memory, "MB"), Dimension("pods"), Dimension(GPU))
        self.pool = node_pool(Dimensions(known))
        self.nobody = NOBODY
        self.waiting: dict[str, Unit] = {}
        """Units that ask for a place, as far as known."""
        self.known: dict[str, int] = {}
        """`Cluster.touched` as of the latest news."""
        self.plan_changed = ""
        self.started: dict[str, float] = {}
        """The latest claim of each application, in Unix seconds."""
        self._promised: dict[str, float] = {}
        """The end of the promise of room to each important unit, in Unix seconds."""
        self._sites: dict[str, None] = {}
        """Agents of which something has changed since the latest turn."""
        self.has_news = True
        """Something has changed that may give room to waiting units."""
        self.units: dict[str, Unit] = {}
        """All units, as far as known."""
        self.decides = engine != "simple"
        options = CoreOptions(
            scoring=scoring,
            policy=POLICY if engine == "session" else None,
            hierarchy=TREE if engine == "hierarchical" else None,
            session_period=0.5,
            aging=0.0,
            strict=True,
        )
        self._turn = PlainTurn(self, options)
        self.placing = Placing(self._turn, self._engine)
        self.ready = False
        self._leads = False
        """It has taken over what the leader before has decided."""
        self.gangs = Gangs(self, gangs) if gangs is not None else None

    def _engine(self, part: RolePartition, around: Around) -> Engine:
        turn = self._turn
        if part.kind == "simple":
            return Simple(turn)
        plain = part.hierarchy is not None
        inputs = Inputs(turn, Snapshots(turn), around.launcher, around.promises, around.covers, plain=plain)
        if part.hierarchy is not None:
            return Hierarchical(turn, part, part.hierarchy, around.covers, around.untried, inputs, around.pauses)
        return Session(turn, around.policy, inputs, around.pauses)

    # --- news ---------------------------------------------------------------------------------------------------

    def listed(self, lists: Lists) -> None:
        self.has_news = True
        self.ready = True
        self.known = dict(lists.touched)
        self.pool.hand.put_all(lists.nodes)
        self.waiting = {unit.name: unit for unit in lists.units if unit.ours and not unit.node}
        self.units = {unit.name: unit for unit in lists.units}
        self._sites.update(dict.fromkeys(node.name for node in lists.nodes))
        self.pool.hand.all_seen(unit.user for unit in lists.units if unit.node)
        there = {unit.name for unit in lists.units}
        usage = self.pool.usage
        for name in [*usage.claims, *dict(usage.holds)]:
            if isinstance(name, str) and name not in there:
                usage.gone(name)

    def told(self, news: News) -> None:
        self.has_news = True
        node, touched = news.touched
        self._sites[node] = None
        if news.kind == "unit" and isinstance(news.now, Unit):
            self.units[news.name] = news.now
        elif news.kind == "unit":
            self.units.pop(news.name, None)
        self.known[node] = max(self.known.get(node, 0), touched)
        if news.kind == "node":
            if news.now is None:
                self.pool.hand.remove(news.name)
            else:
                assert isinstance(news.now, Node)
                self.pool.hand.put(news.now)
        elif news.now is None:
            self.waiting.pop(news.name, None)
            self.pool.usage.gone(news.name)
        else:
            assert isinstance(news.now, Unit)
            if news.now.node:
                self.waiting.pop(news.name, None)
                self.pool.hand.seen(news.now.user)
            elif news.now.ours:
                self.waiting[news.name] = news.now

    def answer(self, request: Request, word: str, unit: Unit | None) -> None:
        self.has_news = True
        usage = self.pool.usage
        match word:
            case "yes":
                usage.answered(request.unit, request.decision)
            case "no" | "not placed":
                usage.denied(request.unit, request.decision)
            case "unknown":
                usage.unknown(request.unit, request.decision)
            case "found":
                assert unit is not None
                if usage.confirmed(unit.user, request.decision):
                    self.units[unit.name] = unit
                    self.waiting.pop(request.unit, None)
            case "gone":
                usage.denied(request.unit, request.decision)

    # --- turns --------------------------------------------------------------------------------------------------

    def turn(self) -> None:
        """Asks for what is overdue, then decides about what waits and sends what is bound, as far as the turn lasts."""
        if not self.ready:
            return
        self._turn.now = self.world.now
        for allocation in self.pool.usage.due(self.world.now, ASSUME_TIMEOUT):
            self.world.count("asked for")
            self.cluster.ask(self, Request(str(allocation.unit), allocation.node, allocation.decision, None))
        self._end_promises()
        if self.gangs is not None:
            self.gangs.turn()
        if self.world.chance(0.2):
            self._plan()
        self._turn.source.refresh()
        self._turn.engine.refresh()
        if not self._leads:
            self._leads = True
            self.placing.recover()
        if self._sites:
            self.placing.try_again([(node, ANY_ROLE) for node in self._sites if self.pool.row(node) is not None])
        if self.pool.holds.take_freed() or self.has_news:
            self.placing.try_all()
        else:
            self.placing.try_changed()
        self.has_news = False
        self._sites.clear()
        before = self.held()
        self.placing.place(Hurried(self.world.chance(0.3)))
        if self.decides:
            self._check_decisions(before)
        else:
            self._promise()

    def held(self) -> dict[str, list[Amounts]]:
        """The amounts of the units of each application that are placed, claimed or planned, and do not leave."""
        found: dict[str, list[Amounts]] = {}
        usage = self.pool.usage
        for name, user in usage.users.items():
            tenant = self._turn.source.tenant(name)
            if user.ours and tenant is not None and not tenant.leaves:
                found.setdefault(tenant.application, []).append(user.amounts)
        for unit, claim in usage.claims.items():
            own = self._turn.engine.name_of(unit.demand, unit.slot) if isinstance(unit, Provisional) else unit
            if own in self.units:
                found.setdefault(self.units[own].application, []).append(claim.amounts)
        return found

    def is_owed(self, unit: Unit) -> bool:
        """True if others may end for a unit: the queue has a guarantee, and no more than it with the unit."""
        queue = next(one for one in QUEUES if one.name == queue_of(unit.application))
        used = _of_queue(queue.name, self.held())
        used.update(dict(unit.amounts))
        below = bool(queue.guarantee) and all(used[line] <= least for line, least in queue.guarantee)
        return below and unit.important and not self.is_full(unit)

    def is_full(self, unit: Unit) -> bool:
        """True if the queue of a unit would have more than its capability with it; with sessions, also if it would have
        more than the agents have beside the guarantees of other queues."""
        queue = next(one for one in QUEUES if one.name == queue_of(unit.application))
        of_queue = _of_queue(queue.name, self.held())
        of_queue.update(dict(unit.amounts))
        limits = list(queue.capability)
        if isinstance(self.placing.loops[0].engine, Session):
            total = Counter(dict(amounts(pair for node in self.pool.hand.all() for pair in node.allocatable)))
            others = (pair for one in QUEUES if one is not queue for pair in one.guarantee)
            limits += [(line, total[line] - least) for line, least in others]
        return any(of_queue[line] > most for line, most in limits if dict(unit.amounts).get(line))

    def _check_decisions(self, before: dict[str, list[Amounts]]) -> None:
        """S12 and S13."""
        after, losses = self.held(), self._turn.engine.losses
        self._turn.engine.losses = set()
        for queue in QUEUES:
            then, now = _of_queue(queue.name, before), _of_queue(queue.name, after)
            for name, most in queue.capability:
                if now[name] > max(most, then[name]):
                    raise Violation("S12", f"the queue {queue.name} gets {now[name]} of {most} {name}")
        there = Counter(unit.application for unit in self.units.values() if not unit.terminating)
        leasts = {unit.application: unit.least for unit in self.units.values()}
        for key, some in after.items():
            least = min(leasts[key], there[key]) if key in leasts else 1  # it may have been made smaller
            if key not in before and key not in losses and len(some) < least:
                raise Violation("S13", f"{len(some)} units of {key} start, of {least}", key)

    def asking(self) -> dict[str, Unit]:
        """The units that ask for a place by themselves."""
        gangs = self.gangs
        return self.waiting if gangs is None else {k: one for k, one in self.waiting.items() if not gangs.waits(one)}

    def _promise(self) -> None:
        """Makes room for important units that have found none."""
        usage = self.pool.usage
        for demand in list(self._turn.engine.demands.values()):
            for slot in demand.slots if not demand.promised else ():
                name = self._turn.engine.name_of(demand.id, slot)
                if name not in usage.claims and self.waiting[name].important and not self.world.calm:
                    self._make_room(self.waiting[name])

    def _end_promises(self) -> None:
        """Room that has not become free in time is for others."""
        for name, until in list(self._promised.items()):
            if until <= self.world.now or name not in self.pool.holds:
                self.pool.usage.release(name)
                del self._promised[name]

    def send(self, claim: UnitClaim) -> None:
        """The request of a claim leaves."""
        name = str(claim.unit)
        if self.pool.usage.sent(name, self.world.now):
            touched = self.cluster.touched.get(claim.node, 0)
            safe = touched if self.cluster.up and self.known.get(claim.node, 0) == touched else None
            self.cluster.place(self, Request(name, claim.node, claim.decision, safe))
            if name in self.waiting:
                self.started[self.waiting[name].application] = self.world.now

    def _plan(self) -> None:
        """A dry run with and without some users: it must change nothing."""
        before = self._dry(self.pool)
        demand = Demand("plan", "plan", (0, 1, 2), ResourceRequest(amounts=(("cpu", 700), ("pods", 1))), EMPTY_RULES)
        some: list[Name] = [*self.world.some(list(self.pool.usage.counted), 3)]
        with self.pool.hand.without(some):
            match([demand], self.pool, NOBODY, self.scoring, dry_run=True)
        if self._dry(self.pool) != before:
            self.plan_changed = f"a plan without {some} has changed the pool"

    def _make_room(self, unit: Unit) -> None:
        """Keeps room for a unit and ends another one there, if that is enough."""
        usage = self.pool.usage
        units = self.cluster.units
        victims = [u for u in usage.users.values() if u.ours and u.unit in units and not units[u.unit].important]
        for victim in self.world.some(victims, 3):
            demand = Demand("room", unit.application, (0,), ResourceRequest(amounts=unit.amounts), EMPTY_RULES)
            with self.pool.hand.without([victim.unit]):
                placements = match([demand], self.pool, NOBODY, self.scoring, dry_run=True).placements
            if placements and placements[0].agent_id == victim.node:
                self.world.count("nominations")
                self.pool.hand.hold(unit.name, *kept(victim.node, unit.amounts))
                self._promised[unit.name] = self.world.now + PROMISE
                self.cluster.end_unit(victim.unit)
                return


def _of_queue(queue: str, held: dict[str, list[Amounts]]) -> Counter[str]:
    """The amounts of the applications of a queue together."""
    return Counter(
        dict(amounts(pair for key, some in held.items() if queue_of(key) == queue for one in some for pair in one))
    )
