"""Proposals of what-if pass through the policy and the dry runs: none of them is refused when a user follows it."""

from __future__ import annotations

import random
from typing import Any

import pytest

from bcs_scheduler.api.views.whatif import show_what_if
from bcs_scheduler.core.interface import requests
from bcs_scheduler.core.interface.requests import PlanAgents
from bcs_scheduler.core.options import CoreOptions
from offers.policy.hierarchy.configuration.document import partition_of
from offers.policy.session.configuration import DEFAULT, policy_of
from store.records import Limits, Namespace, Queue
from tests.effort import share
from tests.unit.agentlab import Cluster
from tests.unit.core.placement.whatif.test_evictions import ask, groups_of, has, sized, start
from transactions.rules import disruptions

TREE = {
    "queues": [{"name": "default", "resources": {"max": {"cpus": 20}}}],
    "placementrules": [{"name": "fixed", "value": "default"}],
}
POLICIES: dict[str, dict[str, Any]] = {
    "simple": {},
    "session": {"policy": policy_of(DEFAULT), "session_period": 0.1},
    "hierarchical": {"hierarchy": partition_of(TREE, ("cpus", "mem")), "session_period": 0.1},
}


def loaded(policy: str, rooms: list[int], apps: list[tuple[str, int, int, int]]) -> Cluster:
    """Agents a0, a1, ... with this many thousandths of a core, and applications (name, taskgroups, size, bound of
    updates) that run there."""
    lab = Cluster(len(rooms), options=CoreOptions(strict=True, validate=True, **POLICIES[policy]))
    lab.ask(requests.PutQueue(queue=Queue(name="small", capability=Limits(cpus=20_000))))
    lab.ask(requests.PutNamespace(namespace=Namespace(name="default", queue="small")))
    for number, cpus in enumerate(rooms):
        lab.offer(f"a{number}", cpus=cpus)
    for name, instances, cpus, bound in apps:
        lab.ask(sized(name, instances, cpus, max_unavailable=bound))
    start(lab)
    lab.wait(1.0)
    start(lab)
    give_back(lab, rooms)
    lab.wait(0.5)
    return lab


def give_back(lab: Cluster, rooms: list[int]) -> None:
    """Offers the rest of each agent."""
    used = dict.fromkeys(range(len(rooms)), 0)
    for group in lab.core.state.taskgroups.values():
        if not group.ended:
            used[int(group.agent_id[1:])] += group.resources.cpus
    for number, cpus in enumerate(rooms):
        lab.core.turn_context.pool.hand.remove_agent(f"a{number}")
        lab.offer(f"a{number}", cpus=cpus - used[number])
    lab.core.turn_context.pool.learn_totals({f"a{n}": (cpus, 64_000_000) for n, cpus in enumerate(rooms)})


def limit(lab: Cluster, cpus: int) -> None:
    lab.ask(requests.PutQueue(queue=Queue(name="small", capability=Limits(cpus=cpus)), create=False))
    lab.wait(0.5)


def check_drains(lab: Cluster, data: dict[str, Any]) -> int:
    """Each drain that is proposed moves everything; returns the number of drains."""
    number = 0
    for one in data["solutions"]:
        for change in one["changes"]:
            if change["kind"] != "drainAgent":
                continue
            number += 1
            reply = lab.ask(PlanAgents(agents=tuple(change["agents"]), drain=True))
            assert not reply.error and isinstance(reply.data, dict)
            for plan in reply.data["agents"].values():
                assert not plan["stay"] and not plan["unplanned"], (change, plan)
                assert {move["taskgroup"] for move in plan["move"]} == set(change["taskgroups"])
            for identity in change["taskgroups"]:
                group = lab.core.state.taskgroups[identity]
                assert not disruptions.at(lab.core.turn_context.context).reason(group, "drain")
    return number


@pytest.mark.parametrize("policy", POLICIES)
def test_no_drain_is_proposed_that_its_dry_run_refuses(policy: str) -> None:
    lab = loaded(policy, [1000, 1000], [("one", 1 if policy == "session" else 2, 290, 1)])
    if policy == "session":  # a session puts both taskgroups of one application on one agent
        lab.ask(sized("two", 1, 290, max_unavailable=1))
        lab.wait(0.3)
        start(lab)
        give_back(lab, [1000, 1000])
    lab.ask(sized("web", 1, 890))
    lab.wait(0.3)
    assert check_drains(lab, ask(lab)), "the property is looked at"
    for seed in range(share(36)):
        chance = random.Random(seed)
        rooms = [chance.choice((1000, 1400)) for _ in range(chance.randint(2, 3))]
        bounds = [chance.choice((0, 1, 1, 1, 1)) for _ in range(len(rooms) + 1)]
        lab = loaded(policy, rooms, [(f"app{n}", 1, chance.choice((190, 290)), one) for n, one in enumerate(bounds)])
        if chance.random() < 0.2:
            for group in list(lab.core.state.taskgroups.values())[:1]:
                lab.report(group, "FAILED")
        if policy == "session" and chance.random() < 0.3:
            limit(lab, chance.choice((200, 600, 900)))
        if chance.random() < 0.5:
            lab.ask(sized("other", 1, 590))
        lab.ask(sized("web", 1, chance.choice((890, 990))))
        lab.wait(0.3)
        check_drains(lab, ask(lab))


@pytest.mark.parametrize("agents", [1, 2])
def test_no_agents_are_proposed_where_the_limit_of_the_queue_is_the_cause(agents: int) -> None:
    """The cluster is full, and the queue has its capability: more room of any kind would not help."""
    lab = loaded("session", [500] * agents, [("one", agents, 490, 1)])
    limit(lab, 490 * agents)
    lab.ask(sized("web", 1, 300, priority=0))
    lab.wait(0.5)
    data = ask(lab)
    assert data["limited"] and data["heldBack"]
    assert {change["kind"] for one in data["solutions"] for change in one["changes"]} <= {"raiseQueueLimit"}
    text = show_what_if(data).text
    assert text == [
        "a limit of the queue holds the taskgroups back, and a greater one alone does not suffice; see above"
    ]
    limit(lab, 490 * agents + 300)
    data = ask(lab)
    assert not data["limited"] and has(data, "addAgents"), "with a greater limit, agents are the cause"


def test_no_agents_are_proposed_for_more_than_the_rest_of_a_limit() -> None:
    """One of two taskgroups is within the limit; room for both would start one."""
    lab = loaded("session", [500], [("one", 1, 490, 1)])
    limit(lab, 490 + 300)
    lab.ask(sized("web", 2, 300))
    lab.wait(0.5)
    assert ask(lab)["limited"] and not has(ask(lab), "addAgents")


def test_a_limit_in_a_tree_is_the_cause_and_the_size_of_the_cluster_is_not() -> None:
    lab = loaded("hierarchical", [500], [("one", 1, 490, 1)])
    lab.ask(sized("web", 1, 300))
    lab.wait(0.5)
    data = ask(lab)
    assert not data["limited"] and has(data, "addAgents")
    huge = sized("huge", 1, 20_100)
    lab.ask(huge)
    lab.wait(0.5)
    data = ask(lab, "huge")
    assert data["limited"] and not has(data, "addAgents")


@pytest.mark.parametrize("policy", ["session", "hierarchical"])
@pytest.mark.parametrize("kind", ["addAgents", "uncordonAgents", "preemptTaskgroups"])
def test_room_that_goes_to_other_work_first_is_not_proposed(kind: str, policy: str) -> None:
    """One agent, or the end of less important work, would be enough for one of two that wait. The policy takes the
    other one first."""
    cordon = kind == "uncordonAgents"
    lab = loaded(policy, [500, 500] if cordon else [500], [("one", 1, 490, 1)])
    if cordon:
        (used,) = {group.agent_id for group in groups_of(lab, "one")}
        (empty,) = {"a0", "a1"} - {used}
        lab.ask(requests.SetAgent(agent=empty, disabled=True))
    lab.ask(sized("first", 1, 490, priority=20, preemption_policy="Never"))
    lab.ask(sized("web", 1, 490, priority=10 if kind == "preemptTaskgroups" else 0))
    lab.wait(0.5)
    before = state_of(lab)
    assert not groups_of(lab, "first") and not groups_of(lab, "web")
    data = ask(lab)
    assert not has(data, kind) and data["refused"] and not data["limited"]
    assert state_of(lab) == before, "nothing is left of the trial"
    lab.ask(requests.DeleteApplication(namespace="default", name="first"))
    lab.wait(0.5)
    assert has(ask(lab), kind)


def state_of(lab: Cluster) -> tuple[Any, ...]:
    """The agents and their room, as everybody sees them."""
    pool = lab.core.turn_context.pool
    return pool.agents, dict(pool.totals), [(row.key, row.overrides, list(row.amounts)) for row in pool.rows_in("*")]


@pytest.mark.parametrize("policy", ["session", "hierarchical"])
def test_a_smaller_request_is_found_where_a_limit_is_the_cause(policy: str) -> None:
    lab = loaded(policy, [9000, 9000, 9000], [("one", 2, 7500, 1)])  # the limit is 20 cores
    if policy == "session":
        limit(lab, 20_000)
    lab.ask(sized("web", 1, 5100))
    lab.wait(0.5)
    data = ask(lab)
    assert data["limited"] and not has(data, "addAgents") and has(data, "raiseQueueLimit")
    (change,) = next(one["changes"] for one in data["solutions"] if one["changes"][0]["kind"] == "reduceResource")
    assert change["to"] <= 5.0
    lab.ask(requests.DeleteApplication(namespace="default", name="web"))
    lab.ask(sized("less", 1, round(change["to"] * 1000)))
    lab.wait(1.0)
    assert len(groups_of(lab, "less")) == 1


@pytest.mark.parametrize("policy", POLICIES)
def test_a_smaller_request_starts_as_proposed(policy: str) -> None:
    lab = loaded(policy, [1000, 700], [("one", 2, 490, 1)])
    lab.ask(sized("web", 2, 800))
    lab.wait(0.5)
    before = {group.id for group in groups_of(lab, "web")}
    data = ask(lab)
    assert not before
    (change,) = next(one for one in data["solutions"] if [c["kind"] for c in one["changes"]] == ["reduceResource"])[
        "changes"
    ]
    lab.ask(requests.DeleteApplication(namespace="default", name="web"))
    lab.ask(sized("less", 2, round(change["to"] * 1000)))
    give_back(lab, [1000, 700])
    lab.wait(1.0)
    assert len(groups_of(lab, "less")) == 2


def test_what_may_not_be_ended_is_not_proposed() -> None:
    """A drain that would wait for a budget is not proposed."""
    lab = loaded("simple", [1000, 1000], [("one", 2, 290, 1)])
    lab.ask(sized("web", 1, 890))
    assert has(ask(lab), "drainAgent")
    lab.report(groups_of(lab, "one")[0], "FAILED")
    assert not has(ask(lab), "drainAgent")
