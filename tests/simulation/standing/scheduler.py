"""A scheduler on standing capacity in small: what waits is matched, claims are named and sent, answers are taken in.

It stands for what the core will do with `offers.ledger`; the matcher, the pool and the usage are the real ones.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable

from offers.dimensions import Amounts, Dimension, Dimensions
from offers.ledger.nodes import Node, NodePool, node_pool
from offers.ledger.usage import UnitClaim
from offers.matching.matcher import Scoring, match
from offers.model import Demand, Provisional, ResourceRequest
from offers.model import Unit as Name
from offers.rules.constraints import EMPTY_RULES
from tests.simulation.standing.cluster import Cluster, Lists, News, Request, Unit
from tests.simulation.standing.gangs import Gangs, Store
from tests.simulation.world import World
from tests.unit.offers.ledger.standing_machine import kept
from tests.unit.offers.matching.reference_matcher import LiveCensus

DIMENSIONS = Dimensions((Dimension("cpu", 1000, "cores"), Dimension("memory", 2**20, "MB"), Dimension("pods")))
ASSUME_TIMEOUT = 60.0
NOBODY = LiveCensus([])


class Scheduler:
    def __init__(
        self,
        world: World,
        cluster: Cluster,
        scoring: Scoring,
        dry: Callable[[NodePool], object],
        gangs: Store | None = None,
    ) -> None:
        """`dry` takes a picture of a pool: it must be the same after a plan as before. `gangs`: None = there are no
        gangs."""
        self.world, self.cluster, self.scoring, self._dry = world, cluster, scoring, dry
        self.pool = node_pool(DIMENSIONS)
        self.nobody = NOBODY
        self.waiting: dict[str, Unit] = {}
        """Units that ask for a place, as far as known."""
        self.known: dict[str, int] = {}
        """`Cluster.touched` as of the latest news."""
        self.plan_changed = ""
        self._planned: dict[Provisional, str] = {}
        self._rounds = 0
        self.ready = False
        self.gangs = Gangs(self, gangs) if gangs is not None else None

    # --- news ---------------------------------------------------------------------------------------------------

    def listed(self, lists: Lists) -> None:
        self.ready = True
        self.known = dict(lists.touched)
        self.pool.hand.put_all(lists.nodes)
        self.waiting = {unit.name: unit for unit in lists.units if unit.ours and not unit.node}
        self.pool.hand.all_seen(unit.user for unit in lists.units if unit.node)
        there = {unit.name for unit in lists.units}
        usage = self.pool.usage
        for name in [*usage.allocations, *dict(usage.holds)]:
            if isinstance(name, str) and name not in there:
                usage.gone(name)

    def told(self, news: News) -> None:
        node, touched = news.touched
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
                    self.waiting.pop(request.unit, None)
            case "gone":
                usage.denied(request.unit, request.decision)

    # --- turns --------------------------------------------------------------------------------------------------

    def turn(self) -> None:
        """Asks for what is overdue, names and sends what an earlier turn has matched, matches what waits."""
        if not self.ready:
            return
        for allocation in self.pool.usage.due(self.world.now, ASSUME_TIMEOUT):
            self.world.count("asked for")
            self.cluster.ask(self, Request(str(allocation.unit), allocation.node, allocation.decision, None))
        self._launch()
        if self.gangs is not None:
            self.gangs.turn()
        if self.world.chance(0.2):
            self._plan()
        self._match()
        if self.world.chance(0.7):
            self._launch()

    def _match(self) -> None:
        usage = self.pool.usage
        planned = set(self._planned.values())
        shapes: defaultdict[tuple[str, Amounts, bool], list[str]] = defaultdict(list)
        for name, unit in self.waiting.items():
            if self.gangs is not None and self.gangs.waits(unit):
                continue
            if name not in usage.allocations and name not in planned:
                shapes[unit.application, unit.amounts, name in usage.holds].append(name)
        for (application, part, nominated), names in shapes.items():
            self._rounds += 1
            demand = Demand(
                f"round-{self._rounds}", application, tuple(names), ResourceRequest(amounts=part), EMPTY_RULES
            )
            own: list[Name] = [*names] if nominated else []
            with self.pool.hand.without(own):
                result = match([demand], self.pool, NOBODY, self.scoring)
            for placement in result.placements:
                self._planned[Provisional(demand.id, placement.slot)] = str(placement.slot)
            for name in names[len(result.placements) :]:
                if self.waiting[name].important and not nominated and not self.world.calm:
                    self._make_room(self.waiting[name])

    def _launch(self) -> None:
        planned, self._planned = self._planned, {}
        usage = self.pool.usage
        for provisional, name in planned.items():
            if not self.pool.hand.stands(provisional):
                self.world.count("claims that do not stand")
                usage.forget(provisional)
                continue
            if name not in self.waiting or self.world.chance(0.05):
                usage.forget(provisional)
                continue
            allocation = usage.rename(provisional, name)
            if allocation is None:
                self.world.count("named too late")
                continue
            self.send(allocation)

    def send(self, claim: UnitClaim) -> None:
        """The request of a claim leaves."""
        name = str(claim.unit)
        if self.pool.usage.sent(name, self.world.now):
            touched = self.cluster.touched.get(claim.node, 0)
            safe = touched if self.cluster.up and self.known.get(claim.node, 0) == touched else None
            self.cluster.place(self, Request(name, claim.node, claim.decision, safe))

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
                self.cluster.end_unit(victim.unit)
                return
