"""Units of dimensions: the same world in thousandths of a MB and in bytes gives the same decisions, in all engines."""

from __future__ import annotations

import random
from typing import Any

import pytest

from offers.dimensions import THOUSANDTHS, Amounts, Dimension, Dimensions, amounts
from offers.ledger.nodes import Node, node_pool
from offers.matching.statement import match
from offers.model import Demand, ResourceRequest
from offers.policy.hierarchy.cluster import occupy
from offers.policy.hierarchy.configuration.document import partition_of
from offers.policy.hierarchy.maintenance import maintain
from offers.policy.hierarchy.state.application import Application
from offers.policy.hierarchy.state.model import Allocation, Ask
from offers.policy.hierarchy.steps import recover_all
from offers.policy.hierarchy.tree import Tree
from offers.policy.session.model import Agent, Job, Queue, Status, Task, Template
from offers.policy.session.preemption import Measure
from offers.policy.session.session import decide
from offers.policy.session.snapshot import BadSnapshot, Snapshot
from offers.policy.session.state.templates import Needs
from offers.rules.constraints import EMPTY_RULES
from tests.effort import check_few
from tests.unit.offers.matching.reference_matcher import LiveCensus
from tests.unit.offers.policy.hierarchy.test_reference import random_queues
from tests.unit.offers.policy.session.policy_clusters import Cluster, crowded_cluster, policy, random_cluster

BYTES = Dimensions((Dimension("cpu", 1000, "cores"), Dimension("memory", 2**20, "MB")))
MB = 1000
NAMES = {"cpus": "cpu", "mem": "memory"}


def in_bytes(given: Amounts) -> Amounts:
    """Amounts with CPU and memory as `BYTES` has them. Amounts of memory are whole MB."""
    return amounts((NAMES.get(name, name), converted(name, amount)) for name, amount in given)


def converted(name: str, amount: int) -> int:
    assert name != "mem" or amount % MB == 0
    return amount * 2**20 // MB if name == "mem" else amount


def cluster_in_bytes(given: Cluster) -> Snapshot:
    templates: dict[int, Template] = {}

    def task(one: Task) -> Task:
        """Tasks that share a template share one afterwards."""
        template = one.template._replace(request=in_bytes(one.template.request))
        return one._replace(template=templates.setdefault(id(one.template), template))

    def job(one: Job) -> Job:
        facts: dict[str, Any] = {"min_available": one.min_available, "priority": one.priority, "created": one.created}
        return Job(one.name, one.queue, tuple(map(task, one.tasks)), **facts)

    return Snapshot(
        [one._replace(total=in_bytes(one.total), foreign=in_bytes(one.foreign)) for one in given.agents],
        [
            one._replace(
                guarantee=in_bytes(one.guarantee),
                capability=tuple((NAMES.get(name, name), converted(name, amount)) for name, amount in one.capability),
            )
            for one in given.queues
        ],
        [job(one) for one in given.jobs],
        given.now,
        units=BYTES,
    )


def with_memory_in_queues(given: Cluster, seed: int) -> Cluster:
    """The cluster with limits and guarantees of memory as well, whose sums may exceed the cluster."""
    chance = random.Random(seed)
    queues = []
    for queue in given.queues:
        guarantee, capability = queue.guarantee, queue.capability
        if chance.random() < 0.4:
            guarantee = amounts([*guarantee, ("mem", MB * chance.randrange(1, 12_000))])
        if chance.random() < 0.3:
            capability = (*capability, ("mem", MB * chance.randrange(12_000, 30_000)))
        queues.append(queue._replace(guarantee=guarantee, capability=capability))
    return given._replace(queues=queues)


@pytest.mark.parametrize("seed", check_few(range(160), 40, 80))
@pytest.mark.parametrize("make", (random_cluster, crowded_cluster))
def test_sessions_decide_alike(make: Any, seed: int) -> None:
    cluster = with_memory_in_queues(make(seed), seed)
    chosen = policy("allocate", "backfill", "preempt", "reclaim", strict=seed % 2 == 0)
    first, second = decide(cluster.snapshot(), chosen), decide(cluster_in_bytes(cluster), chosen)
    assert first.binds == second.binds
    assert first.evictions == second.evictions
    assert first.pipelined == second.pipelined
    assert first.held_back == second.held_back
    assert first.attempts == second.attempts
    shares = {
        queue: {NAMES.get(name, name): share * 2**20 / MB if name == "mem" else share for name, share in row.items()}
        for queue, row in first.deserved.items()
    }
    assert shares == second.deserved


def test_sessions_score_agents_by_the_dimensions_of_the_cluster() -> None:
    """The emptier agent comes first, also where amounts have other names and units."""
    full = Task("r", Template(amounts({"cpu": 3000, "memory": 3 * 2**30})), agent="a", status=Status.RUNNING)
    agents = [Agent(name, amounts({"cpu": 4000, "memory": 4 * 2**30})) for name in "ab"]
    job = Job("new", "q", (Task("t", Template(amounts({"cpu": 500, "memory": 2**29}))),))
    snapshot = Snapshot(agents, [Queue("q")], [Job("old", "q", (full,)), job], units=BYTES)
    (bind,) = decide(snapshot, policy("allocate")).binds
    assert bind.agent == "b"


def test_a_snapshot_in_other_dimensions_than_its_units_is_refused() -> None:
    agents = [Agent("a", amounts({"cpu": 4000, "memory": 4 * 2**30}))]
    job = Job("new", "q", (Task("t", Template(amounts({"cpu": 500}))),))
    with pytest.raises(BadSnapshot, match="nothing has an amount of cpus or mem, but of cpu, memory"):
        Snapshot(agents, [Queue("q")], [job])


@pytest.mark.parametrize("unit", (1, 1000))
def test_a_guarantee_that_is_cut_to_a_fraction_is_kept_in_every_unit(unit: int) -> None:
    """Three guarantees of 400 MB on 1,000 MB are 333.3 MB each: q0 would keep 333 MB, which is less."""
    units = Dimensions((Dimension("cpus", 1000, "cores"), Dimension("mem", unit, "MB")))

    def job(name: str, queue: str, *sizes: int, **fields: Any) -> Job:
        tasks = [Task(f"t{n}", Template((("mem", size * unit),)), **fields) for n, size in enumerate(sizes)]
        return Job(name, queue, tuple(tasks))

    runs = {"status": Status.RUNNING, "agent": "a"}
    jobs = [job("x", "q0", 100, 333, **runs), job("y", "q1", 100, **runs), job("z", "q2", 467, **runs)]
    queues = [Queue(f"q{n}", guarantee=(("mem", 400 * unit),)) for n in range(3)]
    agent = Agent("a", (("cpus", 8000), ("mem", 1000 * unit)))
    found = decide(Snapshot([agent], queues, [*jobs, job("new", "q1", 99)], units=units), policy("reclaim", "allocate"))
    assert not found.evictions


def test_small_requests_are_best_effort_in_every_unit() -> None:
    for units, request in ((THOUSANDTHS, (("cpus", 10), ("mem", 32 * MB))), (BYTES, (("cpu", 10), ("memory", 2**25)))):
        small, large = Template(request), Template((request[0], (request[1][0], request[1][1] + 1)))
        jobs = [Job("j", "q", (Task("small", small), Task("large", large)))]
        needs = Needs(Snapshot([Agent("a", request)], [Queue("q")], jobs, units=units))
        assert (needs.of(small).best_effort, needs.of(large).best_effort) == (True, False)


def test_the_measure_of_victims_is_the_same_in_a_large_cluster() -> None:
    """10,000 agents with 512 GB each: the bytes of all of them leave few digits for the weight of one byte."""
    mb = 10_000 * 512 * 1024
    plain = Measure((640_000_000, mb * MB), (1000, 1000))
    other = Measure((640_000_000, mb * 2**20), (1000, 2**20))
    for cpus, amount in ((1000, 4096), (999, 4097), (1, 1), (64_000, 512 * 1024)):
        assert plain.of([(0, cpus), (1, amount * MB)]) == other.of([(0, cpus), (1, amount * 2**20)])


@pytest.mark.parametrize("seed", check_few(range(60), 20, 30))
def test_trees_decide_alike(seed: int) -> None:
    assert decisions_of_tree(seed, {}) == decisions_of_tree(seed, NAMES)


def decisions_of_tree(seed: int, names: dict[str, str]) -> list[Any]:
    """The decisions of some rounds. `names`: of the dimensions in bytes; empty = thousandths."""
    chance = random.Random(seed)

    def of(mb: int, cpus: int) -> Amounts:
        plain = amounts({"cpus": cpus, "mem": MB * mb})
        return in_bytes(plain) if names else plain

    def translated(value: Any) -> Any:
        """The document with small numbers as cores, or GB."""
        if isinstance(value, dict):
            found = {}
            for name, inner in value.items():
                if name in ("guaranteed", "max", "maxresources") and isinstance(inner, dict):
                    found[name] = dict(of(inner.get("mem", 0) * 700, inner.get("cpus", 0) * 1000))
                else:
                    found[name] = translated(inner)
            return found
        return [translated(one) for one in value] if isinstance(value, list) else value

    document = translated(random_queues(chance))
    partition = partition_of(document, quantity=int)
    nodes = [(f"n{n}", dict(of(1000 * chance.randint(1, 8), 1000 * chance.randint(1, 8)))) for n in range(5)]
    tree = Tree(partition, nodes)
    leaves = sorted(name for name, queue in tree.queues.items() if queue.is_leaf)
    found: list[Any] = []
    for number in range(8):
        tree.submit(Application(f"a{number}", chance.choice(leaves), float(number), "", ()))
        for task in range(chance.randint(1, 6)):
            ask = Ask(
                f"a{number}",
                f"t{task}",
                of(100 * chance.randint(1, 15), 100 * chance.randint(1, 15)),
                float(number),
                chance.randint(0, 3),
            )
            if chance.random() < 0.5:
                tree.ask(ask)
            else:
                node = chance.choice(nodes)[0]
                if all(tree.nodes.by_name[node].free.get(name, 0) >= amount for name, amount in ask.request):
                    recover_all(tree, f"a{number}", [Allocation(ask, node)])
    if chance.random() < 0.2:
        occupy(tree, "n0", (), amounts(tree.nodes.by_name["n0"].free))
    for moment in range(4):
        found.append([(one.ask.id, one.node) for one in tree.run()])
        made = maintain(tree, 100.0 + 30 * moment)
        found.append([(one.ask.id, [victim.ask.id for victim in one.victims]) for one in made.preemptions])
        found.append([one.ask.id for one in made.given_back])
        found.append([(one.ask.id, one.node) for one in made.reserved])
        for victim in [victim for one in made.preemptions for victim in one.victims] + list(made.given_back):
            tree.release(victim.ask.application, victim.ask.name)
    return found


@pytest.mark.parametrize("scoring", ("spread", "binpack"))
@pytest.mark.parametrize("seed", check_few(range(60), 20, 30))
def test_the_matcher_places_alike(seed: int, scoring: Any) -> None:
    plain, other = (placements(seed, scoring, dimensions) for dimensions in (THOUSANDTHS, BYTES))
    assert plain == other and plain[0]


def placements(seed: int, scoring: Any, dimensions: Dimensions) -> tuple[list[Any], list[Any]]:
    """Places, and the numbers of taskgroups without one, of demands one after the other."""
    chance = random.Random(seed)

    def of(mb: int, cpus: int) -> Amounts:
        plain = amounts({"cpus": cpus, "mem": MB * mb})
        return plain if dimensions is THOUSANDTHS else in_bytes(plain)

    pool = node_pool(dimensions)
    for number in range(12):
        size = of(100 * chance.randint(20, 80), 100 * chance.randint(20, 80))
        pool.hand.put(Node(f"n{number}", size, {"zone": chance.choice("xy")}))
    demands = [
        Demand(
            f"d{number}",
            f"ns/a{number}",
            tuple(range(chance.randint(1, 8))),
            ResourceRequest(amounts=of(chance.randint(1, 1500), chance.randint(1, 1500))),
            EMPTY_RULES,
            min_members=chance.choice((0, 0, 2)),
        )
        for number in range(12)
    ]
    found = match(demands, pool, LiveCensus([]), scoring)
    places = [(one.demand, one.slot, one.agent_id) for one in found.placements]
    left = [(one.demand, one.slots, one.placed, one.reached) for one in found.diagnoses]
    return places, left
