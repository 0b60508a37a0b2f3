"""Drains ask the policy of the role, also while they run: no taskgroup ends for which the policy has no place."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from bcs_scheduler.core.interface import requests
from bcs_scheduler.core.options import CoreOptions, RolePartition
from bcs_scheduler.core.placement.revisions import read_tree
from offers.policy.session.configuration import default_policy
from store.records import Drain, Limits, Queue, Strategy
from tests.unit.agentlab import Cluster
from tests.unit.lab import version
from tests.unit.rollinglab import named, wish
from transactions.rules.disruptions import WAITED


def tree(most: float) -> str:
    """A tree whose queue has at most so many cores."""
    return json.dumps({"queues": [{"name": "default", "resources": {"max": {"cpus": most}}}]})


SESSION: dict[str, Any] = {"policy": default_policy()}
HIERARCHICAL: dict[str, Any] = {"hierarchy": read_tree(tree(1.0)), "hierarchy_document": tree(1.0)}
PARTITIONS: dict[str, Any] = {
    "partitions": (RolePartition(("batch",)), RolePartition(("*",), policy=default_policy())),
}
POLICIES = {"session": SESSION, "hierarchical": HIERARCHICAL, "partitions": PARTITIONS}


def limit(lab: Cluster, policy: str, most: float) -> None:
    """Sets the most that the queue of the application may have, in cores."""
    if policy == "hierarchical":
        assert lab.ask(requests.PutQueueTree(document=tree(most), token=1)).error == ""
        return
    queue = Queue(name="default", capability=Limits(cpus=int(most * 1000)))
    assert lab.ask(requests.PutQueue(queue=queue)).error == ""


def loaded(policy: str) -> Cluster:
    """Two taskgroups of a tenth of a core on a0, and a1 with room."""
    lab = Cluster(2, options=CoreOptions(strict=True, validate=True, session_period=0.5, **POLICIES[policy]))
    assert lab.create(2, max_unavailable=2).error == ""
    lab.offer("a0")
    lab.wait(2.0)
    for group in lab.groups:
        lab.report(group, "RUNNING")
    assert [group.agent_id for group in lab.groups] == ["a0", "a0"]
    lab.offers()
    return lab


def on_a0(lab: Cluster) -> int:
    return sum(group.agent_id == "a0" and not group.ended for group in lab.groups)


def ending(lab: Cluster) -> int:
    return sum(bool(group.killing_since) and not group.ended for group in lab.groups)


def state_of(lab: Cluster) -> Drain:
    found = lab.core.state.agent_settings["a0"].drain
    assert found is not None
    return found


def play(lab: Cluster, seconds: float) -> None:
    """Agents end what they are told to end, run what is launched, and are offered again."""
    for _ in range(int(seconds / 0.6)):
        for group in lab.groups:
            if group.killing_since and not group.ended:
                lab.report(group, "KILLED")
            elif not group.started and not group.ended:
                lab.report(group, "RUNNING")
        lab.offers()
        lab.wait(0.6)


@pytest.mark.parametrize("policy", POLICIES)
def test_a_drain_waits_for_the_policy_and_goes_on_with_it(policy: str) -> None:
    lab = loaded(policy)
    limit(lab, policy, 0.1)  # one of two: neither would get a place if it ended
    assert lab.ask(requests.DrainAgent(agent="a0", at_once=2)).error == ""
    play(lab, 6.0)
    assert on_a0(lab) == 2 and ending(lab) == 0 and not state_of(lab).done_at
    assert "the policy has no place for" in state_of(lab).message
    limit(lab, policy, 1.0)
    play(lab, 12.0)
    assert on_a0(lab) == 0 and state_of(lab).message == "no taskgroups are left"


@pytest.mark.parametrize("policy", ["session", "hierarchical"])
def test_a_launch_that_waits_for_its_queue_keeps_no_agent_from_being_drained(policy: str) -> None:
    """The queue has room for two of three taskgroups. The successors come before the third one."""
    lab = Cluster(2, options=CoreOptions(strict=True, validate=True, session_period=0.5, **POLICIES[policy]))
    limit(lab, policy, 0.2)
    assert lab.create(3, max_unavailable=2).error == ""
    lab.offer("a0")
    lab.wait(2.0)
    play(lab, 2.0)
    assert on_a0(lab) == len(lab.groups) == 2 and lab.transaction("LAUNCH").active
    assert lab.ask(requests.DrainAgent(agent="a0", at_once=2)).error == ""
    play(lab, 20.0)
    assert on_a0(lab) == 0 and state_of(lab).phase == "Done"


def surging(policy: str, unavailable: int, surge: int, most: float) -> Cluster:
    """A deployment of two taskgroups on a0, whose queue has at most so many cores, and a1 with room."""
    lab = Cluster(2, options=CoreOptions(strict=True, validate=True, session_period=0.5, **POLICIES[policy]))
    limit(lab, policy, most)
    wanted = wish(2, strategy=Strategy(max_unavailable=unavailable, max_surge=surge))
    assert not lab.ask(requests.CreateDeployment(deployment=wanted, version=named(2, "web"))).error
    lab.offer("a0")
    lab.wait(2.0)
    play(lab, 2.0)
    assert on_a0(lab) == 2
    assert lab.ask(requests.DrainAgent(agent="a0", at_once=2)).error == ""
    return lab


@pytest.mark.parametrize("policy", ["session", "hierarchical"])
def test_a_deployment_whose_queue_has_no_part_for_a_stand_in_is_moved_without_one(policy: str) -> None:
    lab = surging(policy, unavailable=1, surge=1, most=0.2)
    play(lab, 20.0)
    assert on_a0(lab) == 0 and state_of(lab).phase == "Done"
    reasons = {event.reason for log in lab.core.state.event_logs.values() for event in log.events}
    assert "DrainFinished" in reasons and "DeploymentStandIn" not in reasons


@pytest.mark.parametrize("policy", ["session", "hierarchical"])
def test_a_deployment_that_must_have_a_stand_in_waits_for_its_queue_and_says_so(policy: str) -> None:
    lab = surging(policy, unavailable=0, surge=1, most=0.2)
    play(lab, 20.0)
    assert "the policy has no place for a stand-in of default/web" in state_of(lab).message
    assert on_a0(lab) == 2 == lab.application.instances
    limit(lab, policy, 0.3)
    play(lab, 40.0)
    assert on_a0(lab) == 0 and state_of(lab).phase == "Done"


@pytest.mark.parametrize("policy", ["session", "hierarchical"])
def test_a_stand_in_that_the_queue_does_not_admit_any_more_is_waited_for_a_minute(policy: str) -> None:
    """Two are wanted, and the queue has a part for one."""
    lab = surging(policy, unavailable=1, surge=2, most=0.3)
    play(lab, WAITED - 10.0)
    assert on_a0(lab) == 2 and "1 stand-in of default/web is not ready yet" in state_of(lab).message
    play(lab, 40.0)
    assert on_a0(lab) == 0 and state_of(lab).phase == "Done"


def test_two_moves_of_one_look_do_not_count_on_the_same_part_of_a_queue() -> None:
    lab = loaded("hierarchical")
    limit(lab, "hierarchical", 0.2)
    assert lab.ask(requests.DrainAgent(agent="a0", at_once=2)).error == ""
    lab.wait(0.6)
    assert ending(lab) == 2, "each gives back what its replacement takes"


def test_with_simple_the_matcher_alone_decides() -> None:
    lab = Cluster(2, options=CoreOptions(strict=True, validate=True))
    assert lab.create(2, max_unavailable=2).error == ""
    lab.offer("a0")
    for group in lab.groups:
        lab.report(group, "RUNNING")
    lab.offers()
    limit(lab, "simple", 0.1)
    assert lab.ask(requests.DrainAgent(agent="a0", at_once=2)).error == ""
    play(lab, 6.0)
    assert on_a0(lab) == 0


@pytest.mark.parametrize("policy", POLICIES)
def test_a_plan_counts_a_moved_taskgroup_once_in_its_queue(policy: str) -> None:
    lab = loaded(policy)
    limit(lab, policy, 0.2)
    reply = lab.ask(requests.PlanAgents(agents=("a0",), drain=True, dry_run=True))
    assert reply.data is not None
    plan = reply.data["agents"]["a0"]
    assert [move["agent"] for move in plan["move"]] == ["a1", "a1"] and plan["stay"] == []


@pytest.mark.parametrize("policy", ["session", "hierarchical"])
@pytest.mark.parametrize("priority", [0, 9, -1])
def test_work_that_waits_for_the_limit_of_its_queue_keeps_no_agent_from_being_drained(
    policy: str, priority: int
) -> None:
    """The taskgroups keep their part of the limit: other work waits as before, also if the policy puts it first."""
    lab = loaded(policy)
    limit(lab, policy, 0.2)
    other = msgspec.structs.replace(version(1, priority=priority), application="other", preemption_policy="Never")
    assert lab.ask(requests.CreateApplication(version=other)).error == ""
    play(lab, 3.0)
    assert lab.ask(requests.DrainAgent(agent="a0", at_once=2)).error == ""
    play(lab, 20.0)
    assert on_a0(lab) == 0 and state_of(lab).phase == "Done"
    assert len(lab.groups) == 2 and {group.application for group in lab.groups} == {"web"}
