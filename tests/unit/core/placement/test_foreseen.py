"""Dry runs answer by the policy in force: the answer is the outcome, and the dry run changes nothing."""

from __future__ import annotations

import random
from typing import Any

import msgspec
import pytest

from bcs_scheduler.core.context import ANSWER_SECONDS
from bcs_scheduler.core.interface import leased, requests
from bcs_scheduler.core.options import CoreOptions
from bcs_scheduler.core.placement.copied import copied
from bcs_scheduler.core.placement.engines.hierarchical import Hierarchical
from bcs_scheduler.core.placement.hierarchy.role_tree import RoleTree
from offers.policy.hierarchy.configuration.document import partition_of
from offers.policy.hierarchy.preemption.promises import promises
from offers.policy.hierarchy.state.model import Terms
from offers.policy.session.configuration import DEFAULT, policy_of
from store.records import Namespace, Queue, TaskGroup
from store.records.definition import Amounts
from tests.effort import check_few, share
from tests.unit.lab import Lab, version

SPACES = ("one", "two", "three")
TREE: dict[str, Any] = {
    "queues": [
        {"name": "one", "resources": {"max": {"cpus": 0.6}}},
        {"name": "two", "properties": {"application.sort.policy": "fair"}},
        {"name": "three", "maxapplications": 2, "resources": {"guaranteed": {"cpus": 0.3}}},
    ],
    "placementrules": [{"name": "tag", "value": "namespace"}],
}
POLICIES = {
    "session": {"policy": policy_of({**DEFAULT, "actions": "reclaim, allocate, backfill, preempt"})},
    "hierarchical": {"hierarchy": partition_of(TREE, ("cpus", "mem"))},
}


def wanted(chance: random.Random, name: str) -> Any:
    instances = chance.randint(1, 4)
    least = chance.choice((1, 1, instances))
    fields: dict[str, Any] = {"min_available": least, "priority": chance.randint(0, 2)}
    return msgspec.structs.replace(version(instances, **fields), namespace=chance.choice(SPACES), application=name)


def cluster(seed: int, policy: str) -> tuple[Lab, requests.Request]:
    """A cluster with work that runs and work that waits, and a request."""
    chance = random.Random(seed)
    lab = Lab(CoreOptions(strict=True, validate=True, session_period=0.5, **POLICIES[policy]))  # type: ignore[arg-type]
    for space in SPACES:
        limits: dict[str, Any] = {"guarantee": Amounts(cpus=100)} if chance.random() < 0.3 else {}
        lab.ask(requests.PutQueue(queue=Queue(name=space, weight=chance.randint(1, 3), **limits)))
        lab.ask(requests.PutNamespace(namespace=Namespace(name=space, queue=space)))
    rooms = [chance.choice((150, 250, 350, 550)) for _ in range(chance.randint(2, 5))]
    lab.turn(leased.OffersArrived(offers=tuple(lab.make_offer(f"a{n}", cpus=cpus) for n, cpus in enumerate(rooms))))
    for number in range(chance.randint(1, 5)):
        lab.ask(requests.CreateApplication(version=wanted(chance, f"app{number}")))
    lab.wait(1.0)
    for group in list(lab.core.state.taskgroups.values()):
        if not group.started and not group.ended:
            lab.report(group, "RUNNING")
    lab.wait(0.6)
    again = [f"a{number}" for number in range(len(rooms)) if chance.random() < 0.5]
    offers = [lab.make_offer(name, cpus=chance.choice((10, 150, 350))) for name in (*again, "late")]
    offers.append(lab.make_offer("spare", cpus=10))
    lab.turn(leased.OffersArrived(offers=tuple(offers)))
    known = list(lab.core.state.applications)
    if chance.random() < 0.3:
        space, _, name = chance.choice(known).partition("/")
        number = chance.randint(1, 6)
        return lab, requests.ScaleApplication(namespace=space, name=name, instances=number)
    return lab, requests.CreateApplication(version=wanted(chance, "new"))


def key_of(request: requests.Request) -> str:
    if isinstance(request, requests.ScaleApplication):
        return f"{request.namespace}/{request.name}"
    assert isinstance(request, requests.CreateApplication)
    return f"{request.version.namespace}/{request.version.application}"


def places(lab: Lab, key: str) -> set[tuple[int, str]]:
    return {(group.index, group.agent_id) for group in lab.core.state.groups_of(key).values() if not group.ended}


def leaving(lab: Lab) -> set[str]:
    return {group.id for group in lab.core.state.taskgroups.values() if group.killing_since and not group.ended}


def everything(lab: Lab) -> tuple[Any, ...]:
    """The outcome, without names that contain the time."""
    groups = lab.core.state.taskgroups.values()
    found = sorted((one.application_key, one.index, one.agent_id, one.status, one.killing_since > 0) for one in groups)
    return (found, sorted((one.key, one.status) for one in lab.core.state.applications.values()))


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("seed", check_few(range(share(240)), 12, always=20))
def test_the_answer_is_the_outcome(seed: int, policy: str) -> None:
    lab, request = cluster(seed, policy)
    key, ended = key_of(request), leaving(lab)
    before = places(lab, key)
    reply = lab.ask(msgspec.structs.replace(request, dry_run=True))
    assert places(lab, key) == before
    real = lab.ask(request)
    assert real.error == reply.error
    if real.error:
        return
    lab.wait(ANSWER_SECONDS + 0.6)  # taskgroups that would share an agent wait for further offers
    planned = {(place["index"], place["agent"]) for place in reply.data["place"]}
    assert places(lab, key) - before == planned
    own = {group.id for group in lab.core.state.groups_of(key).values()}
    if policy == "session" and "evict" in reply.data:
        assert set(reply.data["evict"]) <= leaving(lab) - ended - own
    if reply.data["unplaced"]:
        assert reply.data["message"]


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("seed", check_few(range(share(120)), 8, always=10))
def test_a_dry_run_changes_no_outcome(seed: int, policy: str) -> None:
    """Neither that of the same request nor that of other work."""
    outcomes = []
    for dry_runs in (0, 2):
        lab, request = cluster(seed, policy)
        for _ in range(dry_runs):
            lab.ask(msgspec.structs.replace(request, dry_run=True))
        lab.wait(0.3)
        lab.turn(leased.OffersArrived(offers=(lab.make_offer("more", cpus=350),)))
        lab.wait(0.6)
        lab.ask(request)
        lab.wait(0.6)
        outcomes.append(everything(lab))
    assert outcomes[0] == outcomes[1]


def test_an_answer_names_the_queue_that_holds_the_work_back() -> None:
    lab = Lab(CoreOptions(strict=True, session_period=0.5, **POLICIES["hierarchical"]))  # type: ignore[arg-type]
    lab.turn(leased.OffersArrived(offers=tuple(lab.make_offer(f"a{n}", cpus=550) for n in range(5))))
    big = msgspec.structs.replace(version(8), namespace="one", application="web")
    reply = lab.ask(requests.CreateApplication(version=big, dry_run=True))
    assert (len(reply.data["place"]), reply.data["unplaced"]) == (6, 2)
    assert "queue root.one has no room below its maximum" in reply.data["message"]
    assert not lab.core.state.applications
    (tree,) = trees(lab)
    assert not tree.tree.applications or not any(one.allocations for one in tree.tree.applications.values())


def test_promises_of_nodes_outlive_a_dry_run() -> None:
    """A node is promised to an ask that the dry run places there."""
    lab = Lab(CoreOptions(strict=True, session_period=0.5, **POLICIES["hierarchical"]))  # type: ignore[arg-type]
    lab.turn(leased.OffersArrived(offers=(lab.make_offer("a0", cpus=50), lab.make_offer("a1", cpus=50))))
    lab.ask(requests.CreateApplication(version=msgspec.structs.replace(version(1), namespace="two", application="w")))
    lab.wait(1.0)
    (found,) = trees(lab)
    (ask,) = found.tree.applications["two/w"].asks
    found.tree.promise("two/w", ask, "a0")
    found.tree.nodes.use("a0", (("cpus", 50),), -1)
    kept = promises(found.tree)
    asked = copied(found)
    made = asked.run(Terms())
    assert [node for _, _, node in made] == ["a0"] and not promises(asked.tree)
    assert promises(found.tree) == kept


def trees(lab: Lab) -> list[RoleTree]:
    placing = lab.core._offer_manager.placing.loops[0].engine
    assert isinstance(placing, Hierarchical)
    return list(placing.trees.roles.values())


@pytest.mark.parametrize("policy", POLICIES)
def test_the_reason_for_the_rest_counts_the_room_of_those_with_a_place(policy: str) -> None:
    lab = Lab(CoreOptions(strict=True, session_period=0.5, **POLICIES[policy]))  # type: ignore[arg-type]
    for space in SPACES:
        lab.ask(requests.PutNamespace(namespace=Namespace(name=space)))
    lab.turn(leased.OffersArrived(offers=(lab.make_offer("a0", cpus=250),)))
    new = msgspec.structs.replace(version(3), namespace="two", application="new")
    data = lab.ask(requests.CreateApplication(version=new, dry_run=True)).data
    assert (len(data["place"]), data["unplaced"]) == (2, 1)
    assert data["reasons"] == {"cpus": 1}


def with_one_running(policy: str) -> tuple[Lab, TaskGroup]:
    """An application with one running taskgroup on a0, which has no other room."""
    lab = Lab(CoreOptions(strict=True, validate=True, **POLICIES.get(policy, {})))  # type: ignore[arg-type]
    assert lab.ask(requests.CreateApplication(version=msgspec.structs.replace(version(1), namespace="one"))).error == ""
    lab.offer("a0")
    lab.wait(2.0)
    (group,) = lab.core.state.groups_of("one/web").values()
    lab.report(group, "RUNNING")
    return lab, group


@pytest.mark.parametrize("policy", ["simple", *POLICIES])
def test_a_dry_run_replaces_an_unreachable_taskgroup_once(policy: str) -> None:
    lab, group = with_one_running(policy)
    lab.report(group, "UNREACHABLE")
    lab.offer("a1")
    reply = lab.ask(requests.RescheduleTaskGroup(taskgroup=group.id, dry_run=True))
    assert reply.data is not None
    assert [(one["agent"], one["replaces"]) for one in reply.data["place"]] == [("a1", group.id)]
    assert reply.data["unplaced"] == 0


@pytest.mark.parametrize("policy", ["simple", *POLICIES])
def test_a_dry_run_names_the_place_of_a_running_taskgroup_that_is_replaced(policy: str) -> None:
    lab, group = with_one_running(policy)
    lab.offer("a1")
    data = lab.ask(requests.RescheduleTaskGroup(taskgroup=group.id, dry_run=True)).data
    assert data is not None
    assert [(one["agent"], one["replaces"]) for one in data["place"]] == [("a1", group.id)]
    assert (data["end"], data["unplaced"]) == ([group.id], 0)
    retained = requests.RescheduleTaskGroup(taskgroup=group.id, host_retain=60.0, dry_run=True)
    data = lab.ask(retained).data
    assert data is not None
    assert (data["place"], data["unplaced"]) == ([], 1)  # a0 has no free room now
    assert not lab.core.state.taskgroups[group.id].killing_since
