"""Groups of applications start together or not at all, with every policy, and the explanation names the group."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from bcs_scheduler.core.interface import cluster_manager, effects, leased, requests
from bcs_scheduler.core.interface.requests import DeletePodGroup, PutPodGroup, PutPriorityClass
from bcs_scheduler.core.options import CoreOptions
from offers.policy.hierarchy.configuration.document import partition_of
from offers.policy.session.configuration import default_policy
from store.records import GROUP_ANNOTATION, PodGroup, PriorityClass
from tests.unit.lab import Lab, version
from transactions import explain

WHOLE = 150
"""Thousandths of a core of an agent with room for one taskgroup and not for two."""
SIMPLE = CoreOptions(strict=True, validate=True)
SESSION = CoreOptions(strict=True, validate=True, policy=default_policy(), session_period=1.0)
PARTITION = partition_of({"queues": [{"name": "default"}]}, ("cpus", "mem"))
HIERARCHICAL = CoreOptions(strict=True, validate=True, hierarchy=PARTITION, session_period=1.0)
each = pytest.mark.parametrize("options", [SIMPLE, SESSION, HIERARCHICAL], ids=["simple", "session", "hierarchical"])


def put(lab: Lab, least: int = 0, create: bool | None = None, **fields: Any) -> effects.Reply:
    group = PodGroup(namespace="default", name="train", min_member=least, **fields)
    return lab.ask(PutPodGroup(pod_group=group, create=create))


def create(lab: Lab, name: str, instances: int, group: str = "train", **fields: Any) -> effects.Reply:
    annotations = {GROUP_ANNOTATION: group} if group else {}
    wanted = msgspec.structs.replace(version(instances, annotations=annotations, **fields), application=name)
    return lab.ask(requests.CreateApplication(version=wanted, token=1))


def count(lab: Lab, name: str) -> int:
    return len(lab.core.state.groups_of(f"default/{name}"))


def arrive(lab: Lab, *agents: str) -> None:
    lab.turn(leased.OffersArrived(offers=tuple(lab.make_offer(agent, cpus=WHOLE) for agent in agents)))
    lab.wait(2.0)


def why(lab: Lab, name: str) -> str:
    (transaction,) = lab.core.state.active_of(f"default/{name}")
    diagnosis = lab.core.diagnosis(transaction)
    assert diagnosis is not None
    return explain.reasons(diagnosis)


@each
def test_members_wait_for_each_other_and_start_in_one_turn(options: CoreOptions) -> None:
    lab = Lab(options)
    put(lab, 3)
    create(lab, "master", 1)
    arrive(lab, "a", "b")
    assert count(lab, "master") == 0, "the second application does not exist yet"
    assert why(lab, "master").startswith(
        "group default/train: 3 taskgroups missing, the applications of the group request 1"
    )
    create(lab, "worker", 3)
    lab.wait(2.0)
    assert count(lab, "master") + count(lab, "worker") == 0
    assert why(lab, "worker").startswith("group default/train: 3 places needed at the same time, 2 found")
    arrive(lab, "c")
    assert count(lab, "master") + count(lab, "worker") == 3
    arrive(lab, "d")
    assert (count(lab, "master"), count(lab, "worker")) == (1, 3), "taskgroups above the minimum count alone"


@each
def test_each_member_may_have_a_minimum_of_its_own(options: CoreOptions) -> None:
    """The first application would take all places if its minimum was not counted by itself."""
    lab = Lab(options)
    put(lab, min_task_member={"master": 1, "worker": 2})
    create(lab, "worker", 5, priority=9)
    create(lab, "master", 1)
    arrive(lab, "a", "b")
    assert not lab.core.state.taskgroups
    assert "missing by member: master 1" in why(lab, "master")
    arrive(lab, "c")
    assert (count(lab, "master"), count(lab, "worker")) == (1, 2)
    arrive(lab, "d", "e")
    assert (count(lab, "master"), count(lab, "worker")) == (1, 4), "the others follow"


@each
def test_a_waiting_group_leaves_its_room_to_others(options: CoreOptions) -> None:
    lab = Lab(options)
    put(lab, 3)
    create(lab, "master", 1, priority=9)
    create(lab, "worker", 2, priority=9)
    create(lab, "small", 2, group="")
    lab.wait(2.0)
    arrive(lab, "a", "b")
    assert (count(lab, "master"), count(lab, "worker"), count(lab, "small")) == (0, 0, 2)


@each
def test_a_smaller_minimum_takes_effect_at_once(options: CoreOptions) -> None:
    lab = Lab(options)
    put(lab, 4)
    create(lab, "master", 1)
    create(lab, "worker", 1)
    arrive(lab, "a", "b")
    assert not lab.core.state.taskgroups
    put(lab, 2)
    lab.wait(1.5)
    assert len(lab.core.state.taskgroups) == 2


def test_a_restart_does_not_wait_for_others() -> None:
    lab = Lab(SIMPLE)
    put(lab, 3)
    create(lab, "master", 1)
    create(lab, "worker", 2)
    arrive(lab, "a", "b", "c")
    for group in list(lab.core.state.taskgroups.values()):
        lab.report(group, "RUNNING")
    for group in list(lab.core.state.taskgroups.values())[:2]:
        lab.report(group, "FAILED")
    lab.wait(20.0)
    arrive(lab, "d")
    alive = [group for group in lab.core.state.taskgroups.values() if not group.ended]
    assert len(alive) == 2, "one place is enough for one restart"


def test_events_of_a_group_belong_to_its_namespace() -> None:
    lab = Lab(SIMPLE)
    put(lab, 2)
    (recorded,) = lab.sent(effects.EventsRecorded)
    found = [(one.namespace, one.reason) for one in recorded.events if one.object == "podgroup"]
    assert found == [("default", "PodGroupCreated")]


def test_a_group_lives_and_dies() -> None:
    lab = Lab(SIMPLE)
    refused = create(lab, "master", 1)
    assert (refused.error, refused.message) == ("invalid", "pod group train does not exist in namespace default")
    assert put(lab, 2, create=False).error == "not_found"
    assert put(lab, 2, queue="batch").error == "invalid"
    assert put(lab, 2, priority_class="high").error == "invalid"
    lab.ask(PutPriorityClass(priority_class=PriorityClass(name="high", value=7)))
    assert put(lab, 2, create=True, priority_class="high", queue="default").error == ""
    assert put(lab, 2, create=True).error == "exists"
    assert create(lab, "master", 1).error == ""
    made = lab.core.state.version("default/master", lab.core.state.applications["default/master"].version)
    assert made is not None and (made.priority, made.priority_class) == (7, "high")
    refused = lab.ask(DeletePodGroup(namespace="default", name="train"))
    assert (refused.error, refused.message) == ("conflict", "pod group default/train has 1 application: default/master")
    lab.ask(requests.DeleteApplication(namespace="default", name="master"))
    lab.wait(1.0)
    assert lab.ask(DeletePodGroup(namespace="default", name="train")).error == ""
    assert not lab.core.state.pod_groups and not lab.sent(cluster_manager.LaunchOnAgent)
