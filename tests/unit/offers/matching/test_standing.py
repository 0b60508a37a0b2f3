"""One matcher for both kinds of capacity: the same agents, leased or standing, give the same placements."""

from __future__ import annotations

from typing import Any, Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from offers.dimensions import THOUSANDTHS, Dimension, Dimensions, amounts
from offers.errors import AlreadyAllocated, FactsDuringPlan
from offers.host_ports import HostPort
from offers.ledger.nodes import OVERCOMMITTED, Node, NodePool, node_pool
from offers.ledger.offered import offer_pool
from offers.ledger.usage import User
from offers.matching.statement import match
from offers.model import AgentOverrides, Demand, Offer, Provisional, ResourceKey, ResourceRequest
from offers.resources import SCALARS
from offers.rules.constraints import EMPTY_RULES, RuleSpec, compile_rules
from offers.rules.taints import Taint, Toleration
from offers.rules.terms import NAME, Expression
from tests.effort import share
from tests.unit.offers import offers_strategies as strategies
from tests.unit.offers.ledger.standing_machine import kept
from tests.unit.offers.matching.reference_matcher import Agent, Live, LiveCensus, reference
from tests.unit.offers.matching.test_matcher import SCORINGS, decorated, limits, thresholds

NODE_DIMENSIONS = Dimensions((Dimension("cpu", 1000, "cores"), Dimension("memory", 2**20, "MB"), Dimension("pods")))
NOBODY = LiveCensus([])
PORTS = ((1, 20),)


@st.composite
def plain_agents(draw: st.DrawFn) -> list[Offer]:
    """Agents as leased and standing capacity both can have them: one offer each, one role, nothing reserved."""
    return [
        Offer(
            f"o{number}", f"host-{number}", f"host-{number}", "", "*",
            draw(st.fixed_dictionaries(
                {"zone": st.sampled_from(strategies.ZONES), "rack": st.sampled_from(("r1", "r2", "r3"))},
                optional={"level": st.sampled_from((1.0, 2.0, 3.5)), "odd": st.sampled_from(("x", 1.0))},
            )),
            tuple((ResourceKey(name, "*"), draw(strategies.amounts(16))) for name in SCALARS),
            ((ResourceKey("ports", "*"), PORTS),),
        )
        for number in range(draw(st.integers(0, 8)))
    ]  # fmt: skip


def as_nodes(offers: list[Offer], overrides: dict[str, AgentOverrides]) -> NodePool:
    pool = node_pool(THOUSANDTHS)
    for key, values in overrides.items():
        pool.override(key, values)
    for offer in offers:
        scalars = amounts((resource_key.name, amount) for resource_key, amount in offer.scalars)
        pool.hand.put(Node(offer.agent_id, scalars, offer.attributes, ports=PORTS))
    return pool


def leased(demands: list[Demand[Any]]) -> list[Demand[Any]]:
    """Without what only one kind of capacity has: roles, and ports of one protocol."""
    return [demand._replace(role="*", request=demand.request._replace(host_ports=())) for demand in demands]


@pytest.mark.slow
@settings(max_examples=share(200, 3), deadline=None)
@given(plain_agents(), decorated, strategies.demands(), strategies.running, st.sampled_from(SCORINGS), thresholds)
def test_leased_and_standing_capacity_give_the_same_placements(
    offers: list[Offer],
    overrides: dict[str, AgentOverrides],
    demands: list[Demand[Any]],
    live: list[Live],
    scoring: Literal["spread", "binpack"],
    threshold: tuple[int, int, int],
) -> None:
    demands = leased(demands)
    offered = offer_pool()
    for key, values in overrides.items():
        offered.override(key, values)
    for offer in offers:
        offered.hand.add(offer)
    there = as_nodes(offers, overrides)
    agents = [Agent([offer], overrides.get(offer.hostname, AgentOverrides())) for offer in offers]
    with limits(*threshold):
        one = match(demands, offered, LiveCensus(live), scoring)
        other = match(demands, there, LiveCensus(live), scoring)
    expected = reference(agents, demands, live, scoring)
    assert one.placements == expected
    assert [place._replace(allocation=None, attributes={}) for place in other.placements] == [  # type: ignore[arg-type]
        place._replace(allocation=None, attributes={})  # type: ignore[arg-type]
        for place in expected
    ]
    for mine, theirs in zip(other.placements, expected, strict=True):
        assert {k: v for k, v in mine.attributes.items() if k != NAME} == theirs.attributes
        assert sorted((resource_key.name, amount) for resource_key, amount in mine.allocation.scalars) == sorted(
            amounts((resource_key.name, amount) for resource_key, amount in theirs.allocation.scalars)
        )
        assert mine.allocation.ranges == theirs.allocation.ranges
    assert other.diagnoses == one.diagnoses


def cluster(*allocatable: int, labels: dict[str, str] | None = None, taints: tuple[Taint, ...] = ()) -> NodePool:
    """Agents n1, n2, ... with this many thousandths of a core."""
    pool = node_pool(NODE_DIMENSIONS)
    for number, cpu in enumerate(allocatable, start=1):
        there = amounts({"cpu": cpu, "memory": 8 * 10**9, "pods": 110})
        pool.hand.put(Node(f"n{number}", there, labels or {}, taints))
    return pool


def units(name: str, count: int, cpu: int = 0, memory: int = 0, **more: int) -> Demand[Any]:
    request = ResourceRequest(amounts=amounts({"cpu": cpu, "memory": memory, "pods": 1, **more}))
    return Demand(name, f"ns/{name}", tuple(range(count)), request, EMPTY_RULES)


def test_scenario_7_what_does_not_fit_is_explained_in_named_dimensions() -> None:
    pool = cluster(4000)
    result = match([units("d", 3, cpu=1600)], pool, NOBODY)
    assert len(result.placements) == 2
    assert result.diagnoses[0].reasons == {"cpu": 1}
    assert result.diagnoses[0].closest == (("cpu", 1600, 800),)


def test_scenario_8_bytes_fill_an_agent_exactly() -> None:
    pool = cluster(4000)
    result = match([units("d", 9, cpu=100, memory=10**9)], pool, NOBODY)
    assert len(result.placements) == 8
    assert result.diagnoses[0].reasons == {"memory": 1}
    assert dict(pool.hand.free("n1") or ()) == {"cpu": 3200, "pods": 102}


def test_scenario_11_ports_of_one_protocol() -> None:
    pool = cluster(4000)
    pool.hand.seen(User("foreign", "n1", (("pods", 1),), (HostPort(8080, "TCP", "0.0.0.0"),), ours=False))

    def asks(port: HostPort) -> Demand[Any]:
        demand = units(str(port), 1)
        return demand._replace(request=demand.request._replace(host_ports=(port,)))

    wanted = [HostPort(8080, "TCP", "127.0.0.1"), HostPort(8080, "UDP"), HostPort(8081, "TCP")]
    result = match([asks(port) for port in wanted], pool, NOBODY)
    assert [placement.demand for placement in result.placements] == ["UDP/8080", "TCP/8081"]
    assert result.diagnoses[0].reasons == {"port TCP/8080 not free": 1}


def test_scenario_24_an_overcommitted_agent_takes_nothing_until_it_is_below() -> None:
    pool = cluster(4000)
    for number, cpu in enumerate((3000, 2000)):
        pool.hand.seen(User(f"foreign-{number}", "n1", amounts({"cpu": cpu, "pods": 1}), ours=False))
    assert pool.hand.overcommitted() == {"n1": (("cpu", 1000),)}
    result = match([units("d", 1, cpu=1000), units("none", 1)], pool, NOBODY)
    assert result.placements == []
    assert [diagnosis.reasons for diagnosis in result.diagnoses] == [{OVERCOMMITTED: 1}] * 2
    pool.usage.gone("foreign-1")
    assert pool.hand.overcommitted() == {}
    assert len(match([units("e", 1, cpu=1000)], pool, NOBODY).placements) == 1


def test_a_dimension_that_appears_later_and_one_that_nobody_has() -> None:
    pool = cluster(4000)
    demand = units("d", 2, card=1)
    result = match([demand], pool, NOBODY)
    assert result.diagnoses[0].reasons == {"card": 1}
    assert result.diagnoses[0].closest == (("card", 1, 0),)
    pool.hand.put(Node("n2", amounts({"cpu": 1000, "memory": 1, "pods": 9, "card": 1})))
    assert pool.hand.dimensions.names == ("cpu", "memory", "pods", "card")
    result = match([demand], pool, NOBODY)
    assert [placement.agent_id for placement in result.placements] == ["n2"]
    assert result.diagnoses[0].reasons == {"card": 2}


def test_taints_of_agents_and_of_operators() -> None:
    pool = cluster(4000, taints=(Taint("cordoned", "", "NoSchedule"), Taint("old", "", "PreferNoSchedule")))
    result = match([units("d", 1)], pool, NOBODY)
    assert result.diagnoses[0].reasons == {"taint cordoned=:NoSchedule": 1}
    rules = compile_rules([], tolerated=[Toleration("cordoned", "Exists")])
    assert len(match([units("d", 1)._replace(rules=rules)], pool, NOBODY).placements) == 1
    pool.override("n1", AgentOverrides(taints={"dedicated": "arena"}))
    result = match([units("e", 1)._replace(rules=rules)], pool, NOBODY)
    assert result.diagnoses[0].reasons == {"taint dedicated=arena": 1}


def test_numeric_labels_are_numbers_to_greater_and_the_name_is_a_label() -> None:
    pool = cluster(4000, 4000, labels={"level": "7"})
    greater = compile_rules([[RuleSpec("level", "GREATER", number=6.5)]])
    named = compile_rules([[RuleSpec("level", "CLUSTER", ("7",))]], terms=((Expression(NAME, "In", ("n2",)),),))
    result = match([units("d", 2, cpu=9)._replace(rules=greater), units("e", 1)._replace(rules=named)], pool, NOBODY)
    assert [placement.agent_id for placement in result.placements] == ["n1", "n2", "n2"]
    other = compile_rules([], terms=((Expression("level", "Gt", ("7",)),),))
    assert match([units("f", 1)._replace(rules=other)], pool, NOBODY).diagnoses[0].reasons == {"terms": 2}


def test_room_that_is_kept_is_for_its_unit() -> None:
    pool = cluster(4000)
    pool.hand.hold("high", *kept("n1", amounts({"cpu": 3000, "pods": 1})))
    assert match([units("d", 1, cpu=2000)], pool, NOBODY).placements == []
    with pool.hand.without(["high"]):
        (placement,) = match([units("high", 1, cpu=3000)], pool, NOBODY).placements
    allocation = pool.usage.rename(Provisional(placement.demand, placement.slot), "high")
    assert allocation is not None
    assert dict(pool.hand.free("n1") or ())["cpu"] == 1000, "the claim has taken the place of the nomination"


def test_no_fact_changes_while_units_are_counted_as_gone() -> None:
    pool = cluster(4000)
    user = User("u", "n1", amounts({"cpu": 4000, "pods": 1}))
    pool.hand.seen(user)
    with pool.hand.without(["u"]):
        assert len(match([units("d", 1, cpu=4000)], pool, NOBODY, dry_run=True).placements) == 1
        for change in (lambda: pool.hand.seen(user), lambda: pool.usage.gone("u"), lambda: pool.hand.all_seen([])):
            with pytest.raises(FactsDuringPlan):
                change()
    assert match([units("d", 1, cpu=4000)], pool, NOBODY).placements == []


def test_a_slot_that_has_a_claim_is_refused_and_nothing_is_changed() -> None:
    pool = cluster(4000)
    match([units("d", 1, cpu=100)], pool, NOBODY)
    before = pool.hand.free("n1")
    with pytest.raises(AlreadyAllocated):
        match([units("e", 3, cpu=100), units("d", 1, cpu=100)], pool, NOBODY)
    assert pool.hand.free("n1") == before
    assert list(pool.usage.claims) == [Provisional("d", 0)]


def test_units_on_an_agent_that_is_not_known_yet_are_counted_when_it_comes() -> None:
    pool = node_pool(NODE_DIMENSIONS)
    pool.hand.seen(User("u", "n1", amounts({"cpu": 1500, "pods": 1, "card": 1})))
    assert pool.hand.free("n1") is None
    pool.hand.put(Node("n1", amounts({"cpu": 4000, "pods": 110, "card": 2})))
    assert pool.hand.free("n1") == amounts({"cpu": 2500, "pods": 109, "card": 1})


def test_names_that_would_be_taken_for_ports_are_refused() -> None:
    with pytest.raises(ValueError, match="ports"):
        node_pool(NODE_DIMENSIONS).hand.put(Node("n1", amounts({"ports": 1})))


def test_an_answer_that_was_overtaken_does_not_bring_back_a_unit_that_is_gone() -> None:
    pool = cluster(4000)
    (placement,) = match([units("d", 1, cpu=1000)], pool, NOBODY).placements
    allocation = pool.usage.rename(Provisional("d", placement.slot), "u")
    assert allocation is not None
    assert pool.usage.sent("u", 1.0)
    pool.usage.gone("u")
    assert not pool.usage.confirmed(User("u", "n1", allocation.amounts), allocation.decision)
    assert pool.hand.free("n1") == pool.hand.all()[0].allocatable
