"""Why a demand is not placed: every agent is counted once, under the first test it fails."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from offers.ledger.offered import OfferPool, offer_pool
from offers.matching.statement import match
from offers.model import AgentOverrides, Demand, Diagnosis, Offer, ResourceKey, ResourceRequest
from offers.rules.constraints import RuleSpec, compile_rules
from tests.unit.offers.matching.reference_matcher import Live, LiveCensus

HOSTS = [f"h{number}" for number in range(4)]


def pool_of(overrides: Mapping[str, AgentOverrides] | None = None, **changed: Any) -> OfferPool:
    """Four agents with 1 CPU, 1000 MB, ports 80 to 89 in zones a, b, a, b; `changed` fields are those of h0."""
    pool = offer_pool()
    for number, host in enumerate(HOSTS):
        offer = Offer(
            f"o{number}",
            f"a{number}",
            host,
            f"10.0.0.{number}",
            "*",
            {"zone": "ab"[number % 2]},
            ((ResourceKey("cpus", "*"), 1000), (ResourceKey("mem", "*"), 1000_000)),
            ((ResourceKey("ports", "*"), ((80, 89),)),),
        )
        pool.hand.add(offer._replace(**changed) if number == 0 else offer)
    for key, values in (overrides or {}).items():
        pool.override(key, values)
    return pool


def why(
    pool: OfferPool,
    request: ResourceRequest = ResourceRequest(),  # noqa: B008 - an immutable value
    specs: list[list[RuleSpec]] | None = None,
    slots: int = 9,
    live: list[Live] | None = None,
    **fields: Any,
) -> Diagnosis:
    demand = Demand("d", "ns/a", tuple(range(slots)), request, compile_rules(specs or []), **fields)
    (diagnosis,) = match([demand], pool, LiveCensus(live or [])).diagnoses
    return diagnosis


def test_scarce_resources_are_counted_and_the_closest_agent_is_named() -> None:
    pool = pool_of(scalars=((ResourceKey("cpus", "*"), 3000), (ResourceKey("mem", "*"), 10_000)))
    diagnosis = why(pool, ResourceRequest(cpus=2000, mem=20_000))
    assert diagnosis.reasons == {"cpus": 3, "mem": 1}
    assert diagnosis.closest == (("cpus", 2000, 1000), ("mem", 20_000, 10_000))
    assert (diagnosis.slots, diagnosis.placed, diagnosis.agents) == (9, 0, 4)


@pytest.mark.parametrize(
    ("wanted", "reason", "closest"),
    [
        (ResourceRequest(gpus=1000), "gpus", ("gpus", 1000, 0)),
        (ResourceRequest(disk=1000), "disk", ("disk", 1000, 0)),
        (ResourceRequest(random_ports=11), "ports", ("ports", 11, 10)),
        (ResourceRequest(fixed_ports=(8080,)), "port 8080 not free", None),
        (
            ResourceRequest(extended=(("vendor/card", 1500),)),
            "extended resource vendor/card",
            ("vendor/card", 1500, 1000),
        ),
    ],
)
def test_each_resource_has_its_reason(
    wanted: ResourceRequest, reason: str, closest: tuple[str, int, int] | None
) -> None:
    pool = pool_of({"h1": AgentOverrides(extended={"vendor/card": 2000})})
    live = [Live("ns/other", "a1", {}, extended=(("vendor/card", 1000),))]
    diagnosis = why(pool, wanted, live=live)
    assert diagnosis.reasons == {reason: 4}
    assert diagnosis.closest == ((closest,) if closest else ())


def test_policy_comes_before_resources() -> None:
    pool = pool_of(
        {"h1": AgentOverrides(disabled=True), "h2": AgentOverrides(taints={"dedicated": "arena"})}, unavailable_from=1e9
    )
    diagnosis = why(pool, ResourceRequest(cpus=5000), [[RuleSpec("zone", "CLUSTER", ("a",))]])
    assert diagnosis.reasons == {
        "maintenance": 1, "disabled": 1, "taint dedicated=arena": 1, "constraint CLUSTER zone": 1
    }  # fmt: skip
    assert diagnosis.closest == ()


def test_counts_are_those_at_the_end_of_the_pass() -> None:
    diagnosis = why(pool_of(), ResourceRequest(cpus=600), [[RuleSpec("zone", "MAXPER", limit=1)]])
    assert diagnosis.placed == 2
    assert diagnosis.reasons == {"constraint MAXPER zone": 4}


def test_a_full_agent_is_counted_under_what_it_lacks() -> None:
    diagnosis = why(pool_of(), ResourceRequest(cpus=600))
    assert diagnosis.placed == 4
    assert diagnosis.reasons == {"cpus": 4}
    assert diagnosis.closest == (("cpus", 600, 400),)


def test_live_taskgroups_of_others_exclude_their_agents() -> None:
    specs = [[RuleSpec("label", "EXCLUDE", ("tier:db",))]]
    live = [Live("ns/other", host.replace("h", "a"), {}, ("tier:db",)) for host in HOSTS[:3]]
    diagnosis = why(pool_of(), ResourceRequest(cpus=1000), specs, live=[*live, Live("ns/a", "a3", {}, ("tier:db",))])
    assert diagnosis.placed == 1
    assert diagnosis.reasons == {"constraint EXCLUDE label": 3, "cpus": 1}


def test_role_and_host_retention_are_reasons() -> None:
    pool = pool_of(role="prod")
    assert why(pool, ResourceRequest(cpus=5000), only_host="h1").reasons == {"role": 1, "host retention": 2, "cpus": 1}
    assert why(pool, ResourceRequest(), role="batch").reasons == {"role": 4}


def test_an_empty_item_never_holds() -> None:
    assert why(pool_of(), ResourceRequest(), [[]]).reasons == {"constraint (empty)": 4}


def test_growth_by_a_later_demand_is_not_hidden() -> None:
    """GROUPBY refuses zone a to the first demand; the second one makes the application larger, and so admits more."""
    rules = compile_rules([[RuleSpec("zone", "GROUPBY", ("a", "c"))]])
    first = Demand("d1", "ns/a", (0, 1), ResourceRequest(), rules)
    second = Demand("d2", "ns/a", (0, 1), ResourceRequest(), compile_rules([[RuleSpec("zone", "CLUSTER", ("b",))]]))
    result = match([first, second], pool_of(), LiveCensus([]))
    (diagnosis,) = result.diagnoses
    assert (diagnosis.demand, diagnosis.placed) == ("d1", 1)
    assert diagnosis.reasons == {"constraint GROUPBY zone": 2, "fits by now": 2}


def test_no_offers_no_agents() -> None:
    diagnosis = why(offer_pool(), ResourceRequest(cpus=1))
    assert (diagnosis.agents, diagnosis.reasons) == (0, {})
