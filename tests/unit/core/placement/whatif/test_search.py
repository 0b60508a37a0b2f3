"""What-if: each set of changes that is shown suffices, and is the smallest of its kind."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, TypeVar

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bcs_scheduler.api.views.whatif import show_what_if
from bcs_scheduler.core.interface import requests
from bcs_scheduler.core.placement.whatif.levers import applied, prepare
from bcs_scheduler.core.placement.whatif.search import Budget, Lever, search
from offers.ledger.offered import OfferPool, offer_pool
from offers.matching.statement import match
from offers.model import AgentOverrides, Demand, Offer, ResourceKey, ResourceRequest
from offers.rules.constraints import RuleSpec, compile_rules
from store.records import Version
from store.records.definition import Amounts, Constraint, Container
from tests.unit.lab import Lab, version
from tests.unit.offers.matching.reference_matcher import LiveCensus
from transactions.base import Slot

T = TypeVar("T")
ASK = requests.AskWhatIf(namespace="default", name="web")


def ask(lab: Lab) -> dict[str, Any]:
    reply = lab.ask(ASK)
    assert not reply.error, reply.message
    assert isinstance(reply.data, dict)
    return reply.data


def kinds(data: dict[str, Any]) -> list[list[str]]:
    return [[change["kind"] for change in one["changes"]] for one in data["solutions"]]


def change(data: dict[str, Any], kind: str) -> dict[str, Any]:
    """The set of this one change."""
    (found,) = [one for one in data["solutions"] if [each["kind"] for each in one["changes"]] == [kind]]
    return {**found, **found["changes"][0]}


def sized(cpus: int, instances: int = 1, **fields: Any) -> Version:
    container = Container(command="serve", requests=Amounts(cpus=cpus, mem=32_000, disk=0))
    return version(instances, containers=(container,), **fields)


def create(lab: Lab, wanted: Version) -> None:
    assert not lab.ask(requests.CreateApplication(version=wanted)).error


def test_fewer_cores_are_the_most_with_which_all_taskgroups_fit() -> None:
    lab = Lab()
    create(lab, sized(4000, 2))
    lab.offer(cpus=3000)
    found = change(ask(lab), "reduceResource")
    assert (found["resource"], found["from"], found["placed"]) == ("cpus", 4.0, 2)
    assert found["to"] == 1.49  # the executor needs 0.01 cores if no container is large enough to spare them
    assert found["agents"] == [{"hostname": "host-of-agent-1", "taskgroups": 2}]
    assert not lab.groups
    again = requests.UpdateApplication(version=sized(1490, 2), on_conflict="supersede")
    assert not lab.ask(again).error
    lab.wait(5)
    assert len(lab.groups) == 2


def test_as_few_agents_as_possible_are_uncordoned() -> None:
    lab = Lab()
    create(lab, sized(1000, 5))
    for number, cpus in enumerate((1500, 4500, 2500, 1500)):
        lab.ask(requests.SetAgent(agent=f"agent-{number}", disabled=True))
        lab.offer(f"agent-{number}", cpus=cpus)
    found = change(ask(lab), "uncordonAgents")
    assert found["agents"] == ["agent-1", "agent-2"]
    assert found["placed"] == 5
    for agent in found["agents"]:
        lab.ask(requests.SetAgent(agent=agent, disabled=False))
    lab.wait(5)
    assert len(lab.groups) == 5


def test_a_constraint_that_no_agent_meets_is_named() -> None:
    lab = Lab()
    rule = Constraint(name="zone", operator="CLUSTER", items=("b",))
    create(lab, sized(1000, 1, constraints=((rule,),)))
    lab.offer()
    data = ask(lab)
    found = change(data, "dropConstraint")
    assert found["constraint"] == "constraint CLUSTER zone"
    assert "addAgents" not in [kind for one in kinds(data) for kind in one[:1]]


def test_new_agents_have_a_size_of_the_cluster() -> None:
    lab = Lab()
    create(lab, sized(4000, 3))
    for agent in ("agent-1", "agent-2"):
        lab.offer(agent, cpus=4500)
    lab.wait(1)
    found = change(ask(lab), "addAgents")
    assert (found["count"], found["size"]["cpus"]) == (1, 4.5)
    assert not [agent for agent in lab.core.offers() if "new" in agent.agent_id]


def test_two_changes_are_needed_where_no_single_one_suffices() -> None:
    lab = Lab()
    rule = Constraint(name="zone", operator="CLUSTER", items=("b",))
    create(lab, sized(8000, 1, constraints=((rule,),)))
    lab.offer(cpus=4000)
    assert [sorted(one) for one in kinds(ask(lab))][:1] == [["dropConstraint", "reduceResource"]]


def test_an_application_that_waits_for_nothing_and_one_that_does_not_exist() -> None:
    lab = Lab()
    assert lab.ask(ASK).error == "not_found"
    lab.offer()
    create(lab, sized(100, 1))
    data = ask(lab)
    assert (data["open"], data["solutions"]) == (0, [])
    assert show_what_if(data).text == ["no taskgroup waits for a place"]


def test_the_search_ends_in_time_and_says_so() -> None:
    budget = Budget(lambda: 5.0, 5.0, 100)
    levers = [Lever("reduceResource", 10, 1, "cpus")]
    assert run(search(levers, attempt, budget)) == ([], False)
    lab = Lab()
    create(lab, sized(4000, 2))
    lab.offer(cpus=3000)
    late = show_what_if({**ask(lab), "solutions": [], "complete": False})
    assert late.text == ["the search ended for lack of time; other changes may help"]


def attempt(strengths: Any) -> Generator[None, None, list[Any] | None]:
    yield
    return []


def run(steps: Generator[None, None, T]) -> T:
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return end.value  # type: ignore[no-any-return]


@st.composite
def clusters(draw: st.DrawFn) -> tuple[OfferPool, Demand[Slot]]:
    """A few agents, some of them cordoned, and a demand with up to two constraints."""
    pool = offer_pool()
    for number in range(draw(st.integers(1, 6))):
        scalars = {"cpus": draw(st.integers(1, 60)) * 100, "mem": draw(st.integers(1, 60)) * 100_000}
        offer = Offer(
            f"o{number}",
            f"a{number}",
            f"h{number}",
            "",
            "*",
            {"InnerIP": f"k{number}", "zone": draw(st.sampled_from("abc"))},
            tuple((ResourceKey(name, "*"), amount) for name, amount in scalars.items()),
            (),
        )
        pool.hand.add(offer)
        if draw(st.booleans()):
            pool.override(f"k{number}", AgentOverrides(disabled=True))
    rules = [RuleSpec("zone", "CLUSTER", ("a",)), RuleSpec("hostname", "UNIQUE")]
    chosen = draw(st.lists(st.sampled_from(rules), unique=True, max_size=2))
    request = ResourceRequest(cpus=draw(st.integers(1, 40)) * 100, mem=draw(st.integers(1, 40)) * 100_000)
    slots = tuple(Slot(index) for index in range(draw(st.integers(1, 6))))
    return pool, Demand("d", "default/web", slots, request, compile_rules([[rule] for rule in chosen]))


@given(clusters())
@settings(deadline=None)
def test_each_set_suffices_and_no_smaller_one_does(cluster: tuple[OfferPool, Demand[Slot]]) -> None:
    pool, demand = cluster
    tried, levers = prepare(pool, demand, {"cpus": 0, "mem": 0, "disk": 0}, pool)

    def place(strengths: Any) -> bool:
        changed = applied(tried, levers, strengths)
        found = match([changed], pool, LiveCensus([]), "spread", dry_run=True)
        return len(found.placements) == len(demand.slots)

    def steps(strengths: Any) -> Generator[None, None, bool | None]:
        yield
        return place(strengths) or None

    if place({}):
        return
    found, complete = run(search(levers, steps, Budget(lambda: 0.0, 1.0, 10_000)))
    assert complete
    for one in found:
        assert place(one.strengths)
        for number, strength in one.strengths.items():
            assert not place({**one.strengths, number: strength - 1}), (levers[number], one)
    sets = [one.strengths.keys() for one in found]
    assert not [(a, b) for a in sets for b in sets if a < b]


@pytest.mark.parametrize("pending", [1, 40])
def test_asking_changes_no_record_and_no_offer(pending: int) -> None:
    lab = Lab()
    create(lab, sized(4000, pending))
    lab.offer(cpus=3000)
    before, offers = lab.records(), lab.core.offers()
    assert ask(lab)["solutions"]
    assert (lab.records(), lab.core.offers()) == (before, offers)
