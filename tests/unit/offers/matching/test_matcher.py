"""The matcher against the sequential greedy reference, placement by placement."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, Literal
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from offers.ledger.offered import OfferPool, offer_pool
from offers.matching.explain import ELSEWHERE, TAKEN
from offers.matching.statement import match
from offers.model import AgentOverrides, Demand, Offer, ResourceKey, ResourceRequest
from offers.rules.constraints import RuleSpec, compile_rules
from tests.effort import share
from tests.unit.offers import offers_strategies as strategies
from tests.unit.offers.matching.reference_matcher import Agent, Live, LiveCensus, reference

Scoring = Literal["spread", "binpack"]
SCORINGS: tuple[Scoring, ...] = ("spread", "binpack")


def build(offers: list[Offer], overrides: dict[str, AgentOverrides]) -> tuple[OfferPool, list[Agent]]:
    """The same world for the matcher and for the reference."""
    pool = offer_pool()
    for key, values in overrides.items():
        pool.override(key, values)
    groups: dict[tuple[str, str], list[Offer]] = defaultdict(list)
    for offer in offers:
        pool.hand.add(offer)
        groups[offer.agent_id, offer.role].append(offer)
    return pool, [Agent(group, overrides.get(group[-1].hostname, AgentOverrides())) for group in groups.values()]


@contextmanager
def limits(patience: int, block: int, resort: int) -> Iterator[None]:
    """Other thresholds between the ways to find a row, so that small worlds take them all."""
    with ExitStack() as stack:
        stack.enter_context(patch("offers.matching.scan.PATIENCE", patience))
        stack.enter_context(patch("offers.matching.scan.FIRST_BLOCK", block))
        stack.enter_context(patch("offers.matching.ranking.RESORT_BASE", resort))
        yield


decorated = st.dictionaries(st.integers(0, 6).map(lambda number: f"host-{number}"), strategies.overrides, max_size=4)
thresholds = st.one_of(
    st.just((48, 24, 64)), st.tuples(st.integers(-20, 4), st.integers(1, 3), st.integers(0, 6))
)  # fmt: skip


@pytest.mark.slow
@settings(max_examples=share(250, 3), deadline=None)
@given(strategies.worlds(), decorated, strategies.demands(), strategies.running, st.sampled_from(SCORINGS), thresholds)
def test_equals_the_sequential_greedy_result(
    offers: list[Offer],
    overrides: dict[str, AgentOverrides],
    demands: list[Demand[Any]],
    live: list[Live],
    scoring: Scoring,
    threshold: tuple[int, int, int],
) -> None:
    pool, agents = build(offers, overrides)
    with limits(*threshold):
        result = match(demands, pool, LiveCensus(live), scoring)
    assert result.placements == reference(agents, demands, live, scoring)
    placed = {demand.id: sum(p.demand == demand.id for p in result.placements) for demand in demands}
    assert {d.demand: d.placed for d in result.diagnoses} == {
        demand.id: placed[demand.id] for demand in demands if placed[demand.id] < len(demand.slots)
    }
    for diagnosis in result.diagnoses:
        assert sum(diagnosis.reasons.values()) == diagnosis.agents == pool.agents


RULES = {
    "none": [],
    "UNIQUE": [[RuleSpec("hostname", "UNIQUE")]],
    "UNIQUE rack": [[RuleSpec("rack", "UNIQUE")]],
    "MAXPER": [[RuleSpec("rack", "MAXPER", limit=2)]],
    "GROUPBY": [[RuleSpec("zone", "GROUPBY", ("z1", "z2", "z3"))]],
    "GROUPBY and UNIQUE": [[RuleSpec("zone", "GROUPBY", ("z1", "z2"))], [RuleSpec("hostname", "UNIQUE")]],
    "two GROUPBY": [
        [RuleSpec("zone", "GROUPBY", ("z1", "z2"))],
        [RuleSpec("rack", "GROUPBY", ("r1", "r2", "r3"))],
    ],
    "GROUPBY or CLUSTER": [[RuleSpec("zone", "GROUPBY", ("z1", "z2")), RuleSpec("rack", "CLUSTER", ("r5",))]],
    "GROUPBY or EXCLUDE": [[RuleSpec("zone", "GROUPBY", ("z1",)), RuleSpec("label", "EXCLUDE", ("tier:db",))]],
    "EXCLUDE": [[RuleSpec("label", "EXCLUDE", ("tier:db",))]],
    "LIKE": [[RuleSpec("hostname", "LIKE", ("host-1*",))]],
    "UNLIKE": [[RuleSpec("rack", "UNLIKE", ("re:r[12]",))]],
    "GREATER": [[RuleSpec("level", "GREATER", number=1.5)]],
}


def cluster(seed: int) -> tuple[OfferPool, list[Agent]]:
    """Forty agents with room, varied by the seed."""
    chance = random.Random(seed)
    offers = [
        Offer(
            f"o{number}",
            f"a{number}",
            f"host-{number}",
            f"10.0.0.{number}",
            "*",
            {"zone": f"z{chance.randint(1, 4)}", "rack": f"r{chance.randint(1, 6)}", "level": float(number % 4)},
            tuple((ResourceKey(name, "*"), chance.randrange(2, 17) * 1000) for name in ("cpus", "mem", "disk")),
            ((ResourceKey("ports", "*"), ((100, 100 + chance.randrange(20)),)),),
        )
        for number in range(40)
    ]
    overrides = {f"host-{number}": AgentOverrides(extended={"vendor/card": 2000}) for number in range(10, 30)}
    overrides["host-3"] = AgentOverrides(disabled=True)
    overrides["host-4"] = AgentOverrides(taints={"dedicated": "arena"})
    return build(offers, overrides)


@pytest.mark.parametrize("scoring", SCORINGS)
@pytest.mark.parametrize("name", RULES)
def test_equals_the_reference_on_a_cluster_with_room(name: str, scoring: Scoring) -> None:
    """Many demands after each other, several of one application and equal ones among them."""
    chance = random.Random(name)
    pool, agents = cluster(len(name))
    rules = compile_rules(RULES[name])
    demands = [
        Demand(
            f"d{number}",
            f"ns/app-{number % 4}",
            tuple(range(chance.choice((1, 1, 2, 9)))),
            ResourceRequest(
                cpus=chance.choice((500, 1000)),
                mem=1000,
                random_ports=chance.choice((0, 2)),
                extended=(("vendor/card", 1500),) if number % 6 == 5 else (),
            ),
            rules if number % 3 else compile_rules([]),
            labels=("tier:db",) if number % 4 == 1 else (),
            per_agent=number % 5 == 4,
            except_agents=frozenset(f"a{n}" for n in range(0, 40, 3)) if number % 7 == 3 else frozenset(),
        )
        for number in range(24)
    ]
    live = [Live(f"ns/app-{n % 5}", f"a{n}", agents[n].attributes, ("tier:db",) if n % 5 == 4 else ()) for n in (7, 9)]
    with limits(*chance.choice(((48, 24, 64), (0, 2, 3), (-100, 1, 0)))):
        result = match(demands, pool, LiveCensus(live), scoring)
    assert len(result.placements) > 20
    assert result.placements == reference(agents, demands, live, scoring)


@pytest.mark.parametrize("threshold", [(48, 24, 64), (-100, 1, 0)])
@pytest.mark.parametrize("name", ["none", "MAXPER", "GROUPBY", "EXCLUDE"])
def test_one_per_agent_stays_one_per_agent_when_the_way_of_searching_changes(
    name: str, threshold: tuple[int, int, int]
) -> None:
    pool, agents = cluster(3)
    rules = compile_rules(RULES[name])
    demands = [
        Demand(f"d{n}", f"ns/app-{n}", tuple(range(50)), ResourceRequest(cpus=100), rules, per_agent=n != 1)
        for n in range(3)
    ]
    with limits(*threshold):
        result = match(demands, pool, LiveCensus([]))
    assert result.placements == reference(agents, demands, [], "spread")
    for demand in (demands[0], demands[2]):
        used = [placement.agent_id for placement in result.placements if placement.demand == demand.id]
        assert len(used) == len(set(used)) > 0


def test_says_which_agents_have_theirs_and_which_it_is_bound_to() -> None:
    pool, _ = cluster(1)
    request, rules = ResourceRequest(cpus=100), compile_rules([])
    every = Demand("d", "ns/a", tuple(range(50)), request, rules, per_agent=True, except_agents=frozenset({"a1", "a2"}))
    bound = Demand("e", "ns/b", (0, 1), request, rules, per_agent=True, only_agents=frozenset({"a3", "a5"}))
    result = match([every, bound], pool, LiveCensus([]))
    first, second = result.diagnoses
    assert first.placed == 36
    assert first.reasons == {TAKEN: 38, "disabled": 1, "taint dedicated=arena": 1}
    assert second.placed == 1
    assert second.reasons == {ELSEWHERE: 39, "disabled": 1}
    assert [p.agent_id for p in result.placements if p.demand == "e"] == ["a5"]


def test_a_dry_run_changes_nothing() -> None:
    pool, _ = cluster(1)
    demand = Demand(
        "d", "ns/a", tuple(range(30)), ResourceRequest(cpus=1000, mem=1000, random_ports=2), compile_rules([])
    )
    planned = match([demand], pool, LiveCensus([]), dry_run=True)
    assert len(planned.placements) == 30
    assert match([demand], pool, LiveCensus([])) == planned
    assert match([demand], pool, LiveCensus([])).placements != planned.placements, "the second pass sees the first"


def test_what_is_placed_stays_deducted_until_the_offers_are_taken() -> None:
    pool = offer_pool()
    offer = Offer("o", "a", "h", "10.0.0.1", "*", {}, ((ResourceKey("cpus", "*"), 1000),), ())
    pool.hand.add(offer)
    demand = Demand("d", "ns/a", (0, 1), ResourceRequest(cpus=600), compile_rules([]))
    assert len(match([demand], pool, LiveCensus([])).placements) == 1
    assert match([demand], pool, LiveCensus([])).placements == []
    assert pool.hand.withdraw("a") == [offer]
    pool.hand.add(offer)
    assert len(match([demand], pool, LiveCensus([])).placements) == 1


def test_reserved_pots_are_used_first_and_named() -> None:
    reserved = strategies.RESERVED
    pool = offer_pool()
    resources = (ResourceKey("cpus", "prod"), ResourceKey("cpus", "prod", reserved))
    pool.hand.add(Offer("o", "a", "h", "10.0.0.1", "prod", {}, ((resources[0], 1000), (resources[1], 500)), ()))
    demand = Demand("d", "ns/a", (0, 1), ResourceRequest(cpus=700), compile_rules([]), "prod")
    first, second = match([demand], pool, LiveCensus([])).placements
    assert first.allocation.scalars == ((resources[1], 500), (resources[0], 200))
    assert second.allocation.scalars == ((resources[0], 700),)
