"""One simulation of standing capacity from a seed: operations and faults, then calm, then everything must come to rest.

S1  no request of ours brings an agent above what it has, when nobody else has touched the agent since all that others
    had done there was known (checked by the cluster manager)
S2  what is counted, recounted from scratch from users, claims and nominations, is what the columns say (K-14); what is
    negative is what others have done (K-10)
S3  a unit has one claim at most, and none once it is used (K-11)
S4  a claim ends by an answer about it, by news of its unit, or before its request has left (K-12, K-13)
S5  a plan leaves everything as it was (K-15)
S6  at rest the users are those of the cluster, foreign ones included; nothing is claimed, and what is gone is freed
S7  at rest no unit waits that has room on an agent
S12 a queue gets no more than its capability
S13 a gang of which nothing is placed starts with its minimum
S14 at rest, with a tree, no unit waits for which units of one agent may end: its queue is below its guarantee
S8 to S11 are about gangs (tests.simulation.standing.gangs)
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace

from offers.dimensions import Amounts, amounts
from offers.ledger.nodes import Node, NodePool
from offers.ledger.usage import Sending, UnitClaim
from offers.matching.ranking import Scoring
from offers.model import Unit as Name
from offers.policy.applications.metadata import Style
from offers.resources import PORTS
from tests.simulation.standing.cluster import Cluster, Lists, News, Request, Unit
from tests.simulation.standing.gangs import Store, Wish
from tests.simulation.standing.scheduler import Scheduler
from tests.simulation.standing.source import GPU, queue_of
from tests.simulation.violation import Violation
from tests.simulation.world import World

NODES = 6
OPERATIONS = (
    (4.0, "create"),
    (2.0, "scale up"),
    (3.0, "scale down"),
    (1.0, "delete"),
    (2.0, "update"),
    (2.0, "reschedule"),
    (1.0, "resize"),
)
FAULTS = (
    "foreign",
    "foreign",
    "foreign ends",
    "rival",
    "resize node",
    "remove node",
    "node returns",
    "break stream",
    "break stream",
    "restart",
)
PATIENCE = 400.0
"""Seconds of calm after which everything must be at rest."""


def picture(pool: NodePool) -> object:
    """Everything that a plan could change."""
    pool.table.flush()
    usage = pool.usage
    rows = [(r.agent_id, tuple(r.amounts), r.score, r.totals) for r in pool.table.rows if r is not None]
    columns = (pool.table.free.tobytes(), pool.table.score.tobytes())
    return rows, columns, dict(usage.claims), dict(usage.counted), pool.hand.overcommitted()


class Watched(Scheduler):
    """Counts what may end a claim: an answer about it, or news of its unit."""

    ended: set[tuple[Name, int]]

    def answer(self, request: Request, word: str, unit: Unit | None) -> None:
        if word in ("no", "not placed", "found", "gone"):
            self.ended.add((request.unit, request.decision))
        super().answer(request, word, unit)

    def told(self, news: News) -> None:
        if news.kind == "unit" and (news.now is None or (isinstance(news.now, Unit) and news.now.node)):
            self._news_of(news.name)
        super().told(news)

    def listed(self, lists: Lists) -> None:
        waiting = {unit.name for unit in lists.units if not unit.node}
        for name in [*self.pool.usage.claims]:
            if name not in waiting and isinstance(name, str):
                self._news_of(name)
        super().listed(lists)

    def _news_of(self, name: str) -> None:
        allocation = self.pool.usage.claims.get(name)
        if allocation is not None:
            self.ended.add((name, allocation.decision))


class Simulation:
    def __init__(
        self, seed: int, gangs: bool = False, engine: str = "simple", memory: int = 2**20, uneven: bool = False
    ) -> None:
        """`gangs`: users ask for gangs with reservations (tests.simulation.standing.gangs). `engine`: of the loop.
        `memory`: the integer units of one MB. `uneven`: there are eighths of a MB where there are GB otherwise."""
        self._memory, self._uneven = memory, uneven
        self._engine = engine
        world = self.world = World(seed)
        self.cluster = Cluster(world)
        self._claims: dict[Name, UnitClaim] = {}
        self._applications = 0
        self._gangs = Store() if gangs else None
        self.scheduler = self._start()

    def run(self, steps: int) -> None:
        """Raises Violation."""
        world = self.world
        for number in range(NODES):
            self.cluster.put_node(self._node(f"node-{number}"))
        self.cluster.connect(self.scheduler)
        for _ in range(steps):
            for _ in range(world.number(0, 2)):
                self._operate()
            if world.chance(0.15):
                self._strike()
            self._go_on(world.between(10.0, 90.0) if world.chance(0.03) else world.between(0.01, 1.5))
        self._rest()

    def _go_on(self, seconds: float) -> None:
        self.world.run(self.world.now + seconds)
        self.check()
        self.scheduler.turn()
        self.check()

    def _start(self) -> Watched:
        scoring: Scoring = self.world.pick(("spread", "binpack"))
        scheduler = Watched(self.world, self.cluster, scoring, picture, self._gangs, self._engine, self._memory)
        scheduler.ended = set()
        self._claims = {}
        return scheduler

    # --- operations of users ------------------------------------------------------------------------------------

    def _operate(self) -> None:
        world, cluster = self.world, self.cluster
        ours = [unit for unit in cluster.units.values() if unit.ours]
        applications = sorted({unit.application for unit in ours})
        what = world.weighted(OPERATIONS)
        if what == "create" or not applications:
            self._applications += 1
            part = amounts({"cpu": world.number(1, 12) * 100, "memory": self._memory_of(0, 4), "pods": 1})
            if self._engine != "simple" and world.chance(0.4):
                part = amounts([*part, (GPU, world.number(1, 3))])
            if self._gangs is not None and world.chance(0.4):
                self._add_gang(self._gangs, f"gang-{self._applications}", part)
            else:
                least = world.pick((1, 1, 2, 3)) if self._engine != "simple" else 1
                self._add(f"app-{self._applications}", part, world.number(least, 6), world.chance(0.2), least)
            what = "create"
        else:
            application = world.pick(applications)
            mine = [unit for unit in ours if unit.application == application and not unit.terminating]
            one = world.pick(mine) if mine else None
            if one is None:
                return
            if what == "scale up":
                self._add(application, one.amounts, world.number(1, 3), one.important, one.least)
            elif what == "resize":
                if not one.node:
                    return  # only what runs is resized
                smaller = amounts({**dict(one.amounts), "cpu": world.number(1, 12) * 100})
                cluster.put_unit(replace(one, amounts=smaller))
            else:
                ending = mine if what == "delete" else world.some(mine, 1 if what == "reschedule" else 2)
                for unit in ending:
                    cluster.end_unit(unit.name)
                if what in ("update", "reschedule"):
                    self._add(application, one.amounts, len(ending), one.important, one.least)
        world.count(f"operation: {what}")

    def _add_gang(self, store: Store, application: str, part: Amounts) -> None:
        """One gang, or two that start together."""
        world = self.world
        style, timeout = world.pick((Style.SOFT, Style.HARD)), world.pick((5.0, 30.0, 90.0))
        names = [application, f"{application}-b"] if world.chance(0.4) else [application]
        group = application if len(names) > 1 else ""
        for name in names:
            members = world.number(2, 6) if not group else world.number(1, 3)
            store.wishes[name] = Wish(name, members, part, style, timeout, world.now, group)
            world.count("gangs")
            self._add(name, part, members + world.number(0, 1), important=False)

    def _add(
        self, application: str, part: tuple[tuple[str, int], ...], count: int, important: bool, least: int = 1
    ) -> None:
        for _ in range(count):
            name = self.cluster.new_name(application)
            unit = Unit(name, application, part, important=important, least=least, created=self.world.now)
            self.cluster.put_unit(unit, outside=False)

    # --- what others do, and what breaks --------------------------------------------------------------------------

    def _node(self, name: str) -> Node:
        cpu, memory = self.world.number(2, 8) * 1000, self._memory_of(4, 16)
        room = {"cpu": cpu, "memory": memory, "pods": self.world.number(5, 30)}
        if self._engine != "simple":
            room[GPU] = self.world.number(0, 8)
        return Node(name, amounts(room))

    def _memory_of(self, least: int, most: int) -> int:
        if self._uneven:
            return self.world.number(8 * least, 8 * most) * self._memory // 8
        return self.world.number(least, most) * 1024 * self._memory

    def _strike(self) -> None:
        world, cluster = self.world, self.cluster
        what = world.pick(FAULTS)
        foreign = [unit.name for unit in cluster.units.values() if not unit.ours]
        waiting = [unit for unit in cluster.units.values() if unit.ours and not unit.node]
        if what == "foreign" and cluster.nodes:
            part = amounts({"cpu": world.number(1, 30) * 100, "memory": self._memory_of(0, 6), "pods": 1})
            node = world.pick(sorted(cluster.nodes))
            cluster.put_unit(Unit(cluster.new_name("foreign"), "foreign", part, ours=False, node=node))
        elif what == "foreign ends" and foreign:
            cluster.remove_unit(world.pick(foreign))
        elif what == "rival" and waiting and cluster.nodes:
            cluster.put_unit(replace(world.pick(waiting), node=world.pick(sorted(cluster.nodes))))
        elif what == "resize node" and cluster.nodes:
            cluster.put_node(self._node(world.pick(sorted(cluster.nodes))))
        elif what == "remove node" and len(cluster.nodes) > 2:
            cluster.remove_node(world.pick(sorted(cluster.nodes)))
        elif what == "node returns" and cluster.away:
            cluster.put_node(cluster.away.pop(world.pick(sorted(cluster.away))))
        elif what == "break stream" and cluster.up:
            cluster.disconnect()
            world.after(world.between(0.1, 30.0), self._reconnect)
        elif what == "restart":
            cluster.disconnect()
            self.scheduler = self._start()
            cluster.connect(self.scheduler)
        else:
            return
        world.count(f"fault: {what}")

    def _reconnect(self) -> None:
        if not self.cluster.up:
            self.cluster.connect(self.scheduler)

    # --- invariants -----------------------------------------------------------------------------------------------

    def check(self) -> None:
        self._counted()
        self._claims_end_by_answers()
        if self.scheduler.gangs is not None:
            self.scheduler.gangs.check()
        if self.scheduler.plan_changed:
            raise Violation("S5", self.scheduler.plan_changed)

    def _counted(self) -> None:
        pool = self.scheduler.pool
        usage = pool.usage
        both = [unit for unit in usage.claims if unit in usage.users]
        if both:
            raise Violation("S3", f"{both} are used and claimed", *map(str, both))
        sums: dict[str, Counter[str]] = {}
        parts = [(user.node, user.amounts) for user in usage.users.values()]
        parts += [(allocation.node, allocation.amounts) for allocation in usage.claims.values()]
        parts += [
            (hold.site[0], hold.request.amounts)
            for name, hold in usage.holds
            if name not in usage.users and name not in usage.claims
        ]
        for used, part in parts:
            sums.setdefault(used, Counter()).update(dict(part))
        pool.table.flush()
        for node in pool.hand.all():
            row, has = pool.row(node.name), dict(node.allocatable)
            assert row is not None
            for line, name in enumerate(pool.table.lines):
                free = has.get(name, 0) - sums.get(node.name, Counter())[name]
                if name != PORTS and int(pool.table.free[line, row.number]) != free:
                    raise Violation("S2", f"{name} of {node.name}: {free} free, counted otherwise", node.name)
        if set(usage.agents()) != set(sums):
            raise Violation("S2", "something is counted on an agent that nobody uses")

    def _claims_end_by_answers(self) -> None:
        now = self.scheduler.pool.usage.claims
        for unit, before in self._claims.items():
            allocation = now.get(unit)
            if allocation is not None and allocation.decision == before.decision:
                continue
            if before.sending is not Sending.ASSUMED and (unit, before.decision) not in self.scheduler.ended:
                raise Violation("S4", f"the claim of {unit} has ended, and nobody has said so", str(unit))
        self._claims = dict(now)

    def _rest(self) -> None:
        """No more faults. What is placed stays; everything that can be placed is."""
        world, cluster = self.world, self.cluster
        world.calm = True
        for name in sorted(cluster.away):
            cluster.put_node(cluster.away.pop(name))
        self._reconnect()
        until = world.now + PATIENCE
        while world.now < until:
            self._go_on(2.0)
        usage = self.scheduler.pool.usage
        there = {unit.name: unit.user for unit in cluster.units.values() if unit.node}
        if usage.users != there:
            wrong = sorted(
                name for name in usage.users.keys() | there.keys() if usage.users.get(name) != there.get(name)
            )
            raise Violation("S6", f"users are not those of the cluster: {wrong}", *wrong)
        left = list(self.scheduler.gangs.left()) if self.scheduler.gangs is not None else []
        if left:
            raise Violation("S10", f"room is held or waited for: {left}", *left)
        if usage.claims:
            raise Violation("S6", f"claims are left: {list(usage.claims)}", *map(str, usage.claims))
        world.counts["units placed"] += sum(unit.ours for unit in cluster.units.values() if unit.node)
        gangs = self.scheduler.gangs
        for unit in cluster.units.values():
            if gangs is not None and gangs.waits(unit):
                continue  # of a gang that does not have all its room
            if self._engine == "hierarchical" and not unit.node and unit.least == 1 and self.scheduler.is_owed(unit):
                self._no_victims(unit)
            if self.scheduler.decides and not unit.node and (unit.least > 1 or self.scheduler.is_full(unit)):
                continue
            room = [name for name in cluster.nodes if not unit.node and self._has_room(name, unit)]
            if room:
                raise Violation("S7", f"{unit.name} waits although {room} have room", unit.name, *room)

    def _no_victims(self, unit: Unit) -> None:
        """S14. A gang is not ended for others, and nothing is on a node that has less than runs there."""
        for name in self.cluster.nodes:
            if self._is_overcommitted(name):
                continue
            there = [one for one in self.cluster.units.values() if one.node == name and one.ours and one.least == 1]
            victims = [one for one in there if queue_of(one.application) != queue_of(unit.application)]
            if self._has_room(name, unit, victims):
                raise Violation("S14", f"{unit.name} waits although its queue may end units of {name}", unit.name, name)

    def _free(self, name: str) -> Counter[str]:
        free = Counter(dict(self.cluster.nodes[name].allocatable))
        free.subtract(dict(self.cluster.used(name)))
        return free

    def _is_overcommitted(self, name: str) -> bool:
        return min(self._free(name).values()) < 0

    def _has_room(self, name: str, unit: Unit, without: Iterable[Unit] = ()) -> bool:
        """Whether an agent takes the unit, `without` others: room that is kept for others counts as used."""
        if self._is_overcommitted(name):
            return False
        free = self._free(name)
        free.update(dict(amounts(pair for one in without for pair in one.amounts)))
        usage = self.scheduler.pool.usage
        for holder, hold in usage.holds:
            if hold.site[0] == name and holder != unit.name and holder not in usage.users:
                free.subtract(dict(hold.request.amounts))
        return all(amount <= free[name] for name, amount in unit.amounts)


@dataclass(slots=True)
class Result:
    seed: int
    counts: Counter[str]
    violation: Violation | None
    story: list[str]


def simulate(seed: int, steps: int, *, gangs: bool = False, engine: str = "simple") -> Result:
    """Runs one seed; a violation is returned with the story of its objects. `gangs`, `engine`: as in
    `Simulation`."""
    simulation = Simulation(seed, gangs, engine)
    violation = None
    try:
        simulation.run(steps)
    except Violation as caught:
        violation = caught
    story = simulation.world.told(violation.objects) if violation is not None else []
    return Result(seed, simulation.world.counts, violation, story)
