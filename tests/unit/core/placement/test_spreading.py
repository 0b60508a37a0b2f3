"""Taskgroups that would share an agent wait a moment for requested offers: the first offers do not get all of them."""

from __future__ import annotations

from collections import Counter
from copy import deepcopy
from dataclasses import replace
from typing import Any

import msgspec
import pytest

from bcs_scheduler.api.views.explain import explain_application
from bcs_scheduler.api.views.reasons import reason_of
from bcs_scheduler.core.context import ANSWER_SECONDS
from bcs_scheduler.core.controllers.cluster.offer_manager import SETTLE_SECONDS
from bcs_scheduler.core.interface import requests
from bcs_scheduler.core.interface.leased import OfferRescinded, OffersArrived, Revive
from bcs_scheduler.core.options import CoreOptions
from offers.matching.explain import TO_SPREAD
from offers.policy.hierarchy.configuration.document import partition_of
from offers.policy.session.configuration import DEFAULT, policy_of
from offers.policy.session.model import Nomination
from store.records import GROUP_ANNOTATION, PodGroup, Strategy
from store.records.definition import Amounts, Constraint, Container, RestartPolicy
from tests.unit.agentlab import Cluster
from tests.unit.lab import KEY, version
from tests.unit.rollinglab import named, wish
from transactions.explain import TO_SPREAD_WORDS

AGENTS = ("a0", "a1", "a2")
WHOLE = 16_000
PART = 2_000
"""Thousandths of a core of a taskgroup: a session tells agents apart by tenths."""
CONTAINERS = (Container(command="serve", requests=Amounts(cpus=PART)),)
LARGE = (Container(command="serve", requests=Amounts(cpus=2 * WHOLE)),)
TREE: dict[str, Any] = {"queues": [{"name": "default"}], "placementrules": [{"name": "fixed", "value": "default"}]}
POLICIES = ("simple", "session", "hierarchical")
WHY = ("cordoned", "left", "inactive", "constraint", "too small", "one", "binpack", "rescinded")


def options(policy: str = "simple", order: str = "spread", **fields: Any) -> CoreOptions:
    plain = CoreOptions(strict=True, session_period=0.05, offer_hold=2.0, **fields)
    if policy == "session":
        document = deepcopy(dict(DEFAULT))
        weights = {"leastrequested.weight": 0, "mostrequested.weight": 1} if order == "binpack" else {}
        document["tiers"][1]["plugins"][-1]["arguments"] = weights
        return replace(plain, policy=policy_of(document))
    if policy == "hierarchical":
        kind = "binpacking" if order == "binpack" else "fair"
        tree = partition_of({**TREE, "nodesortpolicy": {"type": kind}}, ("cpus", "mem"))
        return replace(plain, hierarchy=tree)
    return replace(plain, scoring="binpack" if order == "binpack" else "spread")


def idle(policy: str = "simple", **fields: Any) -> Cluster:
    """Three equal agents after a while without work: the offers are declined, and none is at hand."""
    lab = Cluster(3, options=options(policy, **fields))
    for agent in AGENTS:
        lab.offer(agent)
    lab.wait(lab.options.offer_hold + 1)
    assert not lab.core.offers()
    return lab


def partly(policy: str = "simple", **fields: Any) -> Cluster:
    """Of three equal agents, the offer of the first is at hand. The others have been declined, because large work
    waits that fits nowhere."""
    lab = Cluster(3, options=options(policy, **fields))
    create(lab, 1, "large", containers=LARGE)
    for agent in AGENTS[1:]:
        lab.offer(agent)
    lab.wait(lab.options.offer_hold - 0.5)
    lab.offer("a0")
    lab.wait(0.6)
    assert [offer.agent_id for offer in lab.core.offers()] == ["a0"]
    return lab


def create(lab: Cluster, instances: int = 3, name: str = "web", **fields: Any) -> None:
    wanted = version(instances, **{"containers": CONTAINERS, **fields})
    wanted = msgspec.structs.replace(wanted, application=name)
    assert not lab.ask(requests.CreateApplication(version=wanted)).error


def used(lab: Cluster, name: str = "web") -> list[int]:
    groups = lab.core.state.groups_of(f"default/{name}").values()
    return sorted(Counter(group.agent_id for group in groups if not group.ended).values(), reverse=True)


@pytest.mark.parametrize("start", [idle, partly])
@pytest.mark.parametrize("policy", POLICIES)
def test_three_taskgroups_wait_for_three_equal_agents(policy: str, start: Any) -> None:
    lab = start(policy)
    create(lab)
    assert lab.sent(Revive)
    began = lab.now
    for agent in AGENTS[start is partly :]:
        assert not lab.groups
        lab.wait(0.01)
        lab.offer(agent)
    lab.wait(0.06)
    assert used(lab) == [1, 1, 1] and lab.now < began + SETTLE_SECONDS, "all have come: nothing to wait for"


@pytest.mark.parametrize("policy", POLICIES)
def test_a_second_at_most_is_waited_and_only_once_for_the_same_agents(policy: str) -> None:
    """Another framework has the room of the others."""
    lab = partly(policy)
    create(lab)
    lab.wait(ANSWER_SECONDS - 0.1)
    assert not lab.groups
    lab.wait(0.2)
    assert used(lab) == [3]
    decline_and_return(lab, "a0")
    create(lab, name="next")
    lab.wait(0.06)
    assert used(lab, "next") == [3], "the other agents have not offered their room before"


def decline_and_return(lab: Cluster, agent: str) -> None:
    """Nothing happens for a while; then the agent offers its room again."""
    lab.wait(lab.options.offer_hold + 1)
    lab.offer(agent, cpus=WHOLE // 2)
    lab.wait(0.06)  # the pause after a session


@pytest.mark.parametrize("policy", POLICIES)
def test_an_agent_that_makes_an_offer_again_is_waited_for_again(policy: str) -> None:
    lab = partly(policy)
    create(lab)
    lab.wait(ANSWER_SECONDS + 0.1)
    lab.offer("a1")
    decline_and_return(lab, "a0")
    create(lab, 2, name="next")
    lab.wait(0.06)
    assert used(lab, "next") == []
    lab.offer("a1", cpus=WHOLE // 2)
    lab.wait(0.06)
    assert used(lab, "next") == [1, 1]


def full(policy: str) -> Cluster:
    """Three agents with eight runs each that fill them. No offer is at hand."""
    lab = Cluster(3, options=options(policy))
    lab.offers()
    create(lab, 24, "first", restart_policy=RestartPolicy(policy="Never"))
    lab.wait(lab.options.offer_hold + 1)
    assert used(lab, "first") == [8, 8, 8]
    return lab


def end(lab: Cluster, agent: str, number: int) -> None:
    there = [one for one in lab.core.state.taskgroups.values() if one.agent_id == agent and not one.ended]
    for group in there[:number]:
        lab.report(group, "FINISHED")


@pytest.mark.parametrize("policy", POLICIES)
def test_full_agents_are_not_waited_for(policy: str) -> None:
    lab = full(policy)
    end(lab, "a0", 3)
    create(lab)
    lab.offer("a0", cpus=3 * PART)
    lab.wait(0.06)
    assert used(lab) == [3]


def test_no_room_is_expected_after_a_dry_run() -> None:
    """The search for changes that help ends taskgroups on trial."""
    lab = full("session")
    pool = lab.core.turn_context.pool
    create(lab, 1, priority=5)
    reply = lab.ask(requests.AskWhatIf(namespace="default", name="web"))
    assert any(change["kind"] == "preemptTaskgroups" for one in reply.data["solutions"] for change in one["changes"])
    assert not pool.hand.expected.fits((PART, 0, 0, 0), len(pool.table.rows)).any()


@pytest.mark.parametrize("policy", POLICIES)
def test_agents_on_which_taskgroups_have_ended_are_waited_for(policy: str) -> None:
    lab = full(policy)
    for agent in AGENTS:
        end(lab, agent, 3)
    create(lab)
    assert lab.sent(Revive)
    for agent in AGENTS:
        assert not lab.groups
        lab.offer(agent, cpus=3 * PART)
    lab.wait(0.06)
    assert used(lab) == [1, 1, 1]


@pytest.mark.parametrize(
    "why", ["cordoned", "left", "inactive", "constraint", "too small", "one", "binpack", "rescinded"]
)
@pytest.mark.parametrize("policy", POLICIES)
def test_nothing_waits_without_a_reason(policy: str, why: str) -> None:
    lab = idle(policy, order="binpack" if why == "binpack" else "spread")
    fields: dict[str, Any] = {}
    if why == "cordoned":
        for agent in AGENTS[1:]:
            lab.set_agent(agent, disabled=True)
    elif why == "left":
        for agent in AGENTS[1:]:
            del lab.listed[agent]
        lab.list()
    elif why == "inactive":
        for agent in AGENTS[1:]:
            lab.listed[agent] = lab.listed[agent]._replace(active=False)
        lab.list()
    elif why == "constraint":
        fields["constraints"] = ((Constraint(name="hostname", operator="LIKE", items=("host-of-a0",)),),)
    elif why == "rescinded":
        create(lab, 1, "other")
        for agent in AGENTS:
            lab.offer(agent)
        lab.turn(*(OfferRescinded(offer_id=one.id) for one in lab.core.offers()))
    elif why == "too small":
        lab = Cluster(3, options=options(policy))
        for agent in AGENTS:
            lab.offer(agent, cpus=WHOLE if agent == "a0" else PART // 2)
        lab.wait(lab.options.offer_hold + 1)
    create(lab, 1 if why == "one" else 3, **fields)
    lab.offer("a0")
    lab.wait(0.06)
    assert used(lab) == ([1] if why == "one" else [3])


@pytest.mark.parametrize("policy", POLICIES)
def test_a_larger_number_is_spread_over_agents_with_as_many(policy: str) -> None:
    lab = idle(policy)
    create(lab)
    for agent in AGENTS:
        lab.offer(agent)
    lab.wait(lab.options.offer_hold + 1)
    assert used(lab) == [1, 1, 1]
    lab.scale(6)
    for agent in AGENTS:
        assert len(lab.groups) == 3
        lab.offer(agent, cpus=WHOLE - PART)
    lab.wait(0.06)
    assert used(lab) == [2, 2, 2]


@pytest.mark.parametrize("policy", POLICIES)
def test_one_more_does_not_wait_for_an_agent_with_one_less(policy: str) -> None:
    """Three, two and two or two, two and three: nothing is gained."""
    lab = idle(policy)
    create(lab, 6)
    for agent in AGENTS:
        lab.offer(agent)
    lab.wait(lab.options.offer_hold + 1)
    assert used(lab) == [2, 2, 2]
    lab.scale(7)
    lab.offer("a0", cpus=WHOLE - 2 * PART)
    lab.wait(0.06)
    assert used(lab) == [3, 2, 2]


@pytest.mark.parametrize("policy", ("simple", "session"))
def test_a_group_of_applications_waits_together(policy: str) -> None:
    lab = idle(policy)
    group = PodGroup(namespace="default", name="pair", min_member=4)
    assert not lab.ask(requests.PutPodGroup(pod_group=group)).error
    for name in ("web", "other"):
        create(lab, 2, name, annotations={GROUP_ANNOTATION: "pair"})
    for agent in AGENTS[:2]:
        assert not lab.core.state.taskgroups
        lab.offer(agent)
    lab.wait(0.06)
    assert Counter(running(lab)) == {"a0": 2, "a1": 2}


@pytest.mark.parametrize("policy", POLICIES)
def test_offers_that_were_declined_unread_are_waited_for(policy: str) -> None:
    """Only one agent is known: the offers of the others were beyond the reserve."""
    lab = Cluster(3, options=options(policy, offer_reserve=1))
    lab.turn(OffersArrived(offers=tuple(lab.make_offer(agent) for agent in AGENTS)))
    assert [offer.agent_id for offer in lab.core.offers()] == ["a0"]
    create(lab)
    assert lab.sent(Revive)
    for agent in AGENTS[1:]:
        assert not lab.groups
        lab.offer(agent)
    lab.wait(0.06)
    assert used(lab) == [1, 1, 1]


def test_steps_of_an_update_are_spread() -> None:
    """Each step launches one taskgroup. The same agent offers first every time, and no offer is at hand before."""
    lab = idle()
    strategy = Strategy(max_surge=1, max_unavailable=0)
    lab.ask(requests.CreateDeployment(deployment=wish(3, strategy=strategy), version=named(3, "web")))
    go_on(lab)
    assert sorted(running(lab)) == list(AGENTS)
    changed = version(3, labels={"revision": "2"})
    assert not lab.ask(requests.UpdateDeployment(deployment=wish(3, strategy=strategy), version=changed)).error
    for _ in range(30):
        go_on(lab)
        deployment = lab.core.state.deployments[KEY]
        if deployment.status == "Running" and deployment.revision == 2 and len(running(lab)) == 3:
            break
    assert deployment.revision == 2 and sorted(running(lab)) == list(AGENTS)


def running(lab: Cluster) -> list[str]:
    return [one.agent_id for one in lab.core.state.taskgroups.values() if not one.ended]


def go_on(lab: Cluster) -> None:
    """What is staged runs, and what is to end has ended; then agents offer what they have, the first one first."""
    for group in list(lab.core.state.taskgroups.values()):
        if group.killing_since and not group.ended:
            lab.report(group, "KILLED")
        elif not group.started and not group.ended:
            lab.report(group, "RUNNING")
    lab.wait(0.5)
    for agent in AGENTS:
        lab.offer(agent, cpus=WHOLE - 110 * running(lab).count(agent))
    lab.wait(lab.options.offer_hold + 0.2)


@pytest.mark.parametrize("policy", POLICIES)
def test_explanations_say_what_is_waited_for(policy: str) -> None:
    lab = partly(policy)
    create(lab)
    lab.wait(0.06)
    assert not lab.groups
    (transaction,) = lab.core.state.active_of(KEY)
    found = lab.core.diagnosis(transaction)
    assert found is not None and (found.reasons, found.slots, found.placed) == ({TO_SPREAD: 0}, 3, 0)
    words = f"3 taskgroups without a place: {TO_SPREAD_WORDS}"
    assert reason_of(lab.core.state, lab.application, lab.core.diagnosis) == words
    assert words in explain_application(lab.core.state, lab.application, lab.core.diagnosis, lab.now).text
    lab.wait(ANSWER_SECONDS)
    assert lab.groups and lab.core.diagnosis(transaction) is None


def test_a_demand_with_promised_room_does_not_lose_it_to_wait() -> None:
    """Offers are requested anew within the first second of a demand for which others have just been ended."""
    lab = partly("session")
    (placing,) = lab.core._offer_manager.placing.loops
    lab.core.turn((requests.CreateApplication(version=version(3, containers=CONTAINERS)),), lab.now)
    (transaction,) = lab.core.state.active_of(KEY)
    demand, task = lab.core.turn_context.engine.demands[transaction], (KEY, f"{transaction}/0")
    assert placing.spreading.waits(demand)
    placing.spreading.waiting.clear()
    placing._promises.nominations = {task: Nomination("a0", lab.now + 10)}
    assert not placing.spreading.waits(demand)
    placing._waiting = True
    lab.wait(0.06)
    assert task in placing._promises.nominations or lab.groups
