"""Placement alone: how many decisions a second one pass of the matcher makes.

    python -m benchmarks.placement

A deterministic cluster of varied agents (three sizes, partly used, racks of 20 in three zones), and applications of
five sizes with a random port per taskgroup. Timed is `offers.matching.statement.match` as the scheduler calls it, from
demands to placements with claims and ports; filling the pool is not. What was placed is checked to be complete.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from offers.ledger.offered import OfferPool, offer_pool
from offers.matching.ranking import Scoring
from offers.matching.statement import Statement, match
from offers.model import Demand, Offer, Placement, ResourceKey, ResourceRequest
from offers.rules.constraints import EMPTY_RULES, Rules, RuleSpec, compile_rules

SIZES = ((16, 32), (32, 64), (64, 256))
"""Cores and GB of the kinds of agents."""
ZONES = ("a", "b", "c")
NEEDS = ((100, 128), (200, 256), (250, 512), (500, 512), (100, 64))
"""Thousandths of a core and MB of the kinds of taskgroups; the mean fits 10,000 of them on 100 agents."""
CPUS, MEM, DISK, PORTS = (ResourceKey(name, "*") for name in ("cpus", "mem", "disk", "ports"))

REPEATS = 5


class NoCensus:
    """Nothing runs yet."""

    def attribute_counts(self, application: str, attribute: str) -> Mapping[str | float, int]:
        return {}

    def total(self, application: str) -> int:
        return 0

    def agents_with_label(self, pair: str, except_application: str) -> Mapping[str, int]:
        return {}

    def extended_used(self, agent_id: str, name: str) -> int:
        return 0


def synthetic_pool(agents: int, room: int = 0) -> OfferPool:
    """Agents of varied size and use. `room`: taskgroups that the pool must take; small pools get larger agents."""
    scale = max(1, -(-room // (agents * 25)))
    pool = offer_pool()
    for number in range(agents):
        cores, gigabytes = SIZES[number % len(SIZES)]
        used = (number * 7919) % 10  # tenths
        pool.learn_total(f"agent-{number}", cores * scale * 1000, gigabytes * scale * 1024 * 1000)
        free = 20 - used
        pool.hand.add(
            Offer(
                id=f"offer-{number}",
                agent_id=f"agent-{number}",
                hostname=f"host-{number}.example",
                ip=f"10.{number >> 16}.{number >> 8 & 255}.{number & 255}",
                role="*",
                attributes={"zone": ZONES[number % 3], "rack": f"rack-{number // 20}", "InnerIP": f"10.0.{number}"},
                scalars=(
                    (CPUS, cores * scale * 1000 * free // 20),
                    (MEM, gigabytes * scale * 1024 * 1000 * free // 20),
                    (DISK, 500_000 * 1000),
                ),
                ranges=((PORTS, ((31000, 31000 + 1000 * scale - 1),)),),
            )
        )
    return pool


CONSTRAINTS = ("UNIQUE", "MAXPER", "GROUPBY")


def rules_of(constrained: str | None, size: int, agents: int) -> Rules:
    """The constraint of a benchmark. MAXPER leaves room for twice the `size` of an application."""
    match constrained:
        case None:
            return EMPTY_RULES
        case "UNIQUE":
            return compile_rules([[RuleSpec("hostname", "UNIQUE")]])
        case "MAXPER":
            return compile_rules([[RuleSpec("hostname", "MAXPER", limit=max(1, -(-2 * size // agents)))]])
        case "GROUPBY":
            return compile_rules([[RuleSpec("zone", "GROUPBY", ZONES)]])
    raise ValueError(constrained)


def demands_of(taskgroups: int, applications: int, agents: int, constrained: str | None) -> list[Demand[int]]:
    """As many equally large applications; with the constraint "mixed" they take UNIQUE, MAXPER and GROUPBY in turn."""
    size = taskgroups // applications
    demands: list[Demand[int]] = []
    for number in range(applications):
        cpus, mem = NEEDS[number % len(NEEDS)]
        constraint = CONSTRAINTS[number % 3] if constrained == "mixed" else constrained
        demands.append(
            Demand(
                id=f"t{number}",
                application=f"bench/app-{number}",
                slots=tuple(range(size)),
                request=ResourceRequest(cpus=cpus, mem=mem * 1000, random_ports=1),
                rules=rules_of(constraint, size, agents),
            )
        )
    return demands


class Timing(NamedTuple):
    seconds: float
    placed: int


Run = Callable[[list[Demand[int]], OfferPool, Scoring], list[Placement[int]]]


def plainly(demands: list[Demand[int]], pool: OfferPool, scoring: Scoring) -> list[Placement[int]]:
    """As the placement pass does."""
    return match(demands, pool, NoCensus(), scoring).placements


def tentatively(demands: list[Demand[int]], pool: OfferPool, scoring: Scoring) -> list[Placement[int]]:
    """Each demand is tried; every other one is undone and tried again. All are kept in the end."""
    placements: list[Placement[int]] = []
    with Statement(pool, NoCensus(), scoring) as statement:
        for number, demand in enumerate(demands):
            point = statement.savepoint()
            placed = statement.place(demand)
            if number % 2:
                statement.undo(point)
                placed = statement.place(demand)
            statement.keep(point)
            placements += placed
        statement.commit()
    return placements


def timed(pool: OfferPool, demands: list[Demand[int]], scoring: Scoring, run: Run = plainly) -> Timing:
    """The best of several passes over the same pool; the first one also warms the pool's columns, as in life.

    The garbage collector stays on, but the cluster and the demands are frozen: they are the set-up, not the pass.
    """
    best, placed = float("inf"), 0
    for _ in range(REPEATS):
        gc.collect()
        gc.freeze()
        start = time.perf_counter()
        placements = run(demands, pool, scoring)
        best = min(best, time.perf_counter() - start)
        gc.unfreeze()
        placed = len(placements)
        # Give the offers back, as they would come again from Mesos.
        used = {placement.agent_id for placement in placements}
        for offer in [offer for agent_id in used for offer in pool.hand.withdraw(agent_id)]:
            pool.hand.add(offer)
    return Timing(best, placed)


def place(
    taskgroups: int, agents: int, constrained: str | None = None, applications: int = 0, scoring: Scoring = "spread"
) -> dict[str, Any]:
    """Places `taskgroups` of `applications` equal applications over `agents`; `constrained` is None, UNIQUE, MAXPER,
    GROUPBY or mixed. Without a number the applications have 1,000 taskgroups, or one per agent where that is the most
    that UNIQUE admits. Returns seconds and decisions per second; raises RuntimeError if something found no place."""
    if not applications:
        applications = max(1, taskgroups // min(1000, agents if constrained in ("UNIQUE", "mixed") else 1000))
    pool = synthetic_pool(agents, taskgroups)
    timing = timed(pool, demands_of(taskgroups, applications, agents, constrained), scoring)
    if timing.placed != taskgroups:
        raise RuntimeError(f"only {timing.placed} of {taskgroups} taskgroups found a place")
    return {
        "agents": agents,
        "taskgroups": taskgroups,
        "applications": applications,
        "constrained": constrained,
        "scoring": scoring,
        "seconds": timing.seconds,
        "per_second": timing.placed / timing.seconds,
    }


def place_statements(taskgroups: int, agents: int, rounds: int = 3) -> dict[str, Any]:
    """The same applications of 10 taskgroups placed plainly and tentatively, alternating. Returns the seconds of a
    tentative run, the placements that it tries per second (half as many again as it keeps), and as `slower` by what
    factor a plain run makes more of them."""
    pool = synthetic_pool(agents, taskgroups)
    demands = demands_of(taskgroups, max(1, taskgroups // 10), agents, None)
    plain = tentative = float("inf")
    tried = sum(len(demand.slots) * (1 + number % 2) for number, demand in enumerate(demands))
    for _ in range(rounds):
        for run in (plainly, tentatively):
            timing = timed(pool, demands, "spread", run)
            if timing.placed != taskgroups:
                raise RuntimeError(f"only {timing.placed} of {taskgroups} taskgroups found a place")
            if run is plainly:
                plain = min(plain, timing.seconds)
            else:
                tentative = min(tentative, timing.seconds)
    rate = tried / tentative
    return {"seconds": tentative, "per_second": rate, "slower": taskgroups / plain / rate}


def main() -> None:
    print(f"{'applications':>12} {'agents':>7} {'constraint':>10} {'scoring':>8} {'seconds':>9} {'decisions/s':>12}")
    for scoring in ("spread", "binpack"):
        for applications in (0, 1000):
            for agents in (100, 1000, 5000):
                for constrained in (None, "UNIQUE", "MAXPER", "GROUPBY"):
                    got = place(10_000, agents, constrained, applications, scoring)
                    shape = f"{got['applications']}x{10_000 // got['applications']}"
                    print(
                        f"{shape:>12} {agents:>7} {constrained or '-':>10} {scoring:>8}"
                        f" {got['seconds']:>9.4f} {got['per_second']:>12,.0f}",
                        flush=True,
                    )
    got = place_statements(10_000, 5000)
    print(f"statements: {got['per_second']:,.0f} placements tried/s, {got['slower']:.2f} times as many without")
    for constrained in (None, "UNIQUE", "MAXPER", "GROUPBY"):
        got = place(1, 5000, constrained, 1)
        print(f"one taskgroup on 5,000 agents, {constrained or 'unconstrained'}: {got['seconds'] * 1e6:,.0f} us")


if __name__ == "__main__":
    main()
