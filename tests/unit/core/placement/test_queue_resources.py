"""Resources that queues count because their settings name them: extended ones, disk, GPUs. Trees and sessions."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from random import Random
from typing import Any

import msgspec
import pytest

from bcs_scheduler.api.views.explain import explain_application
from bcs_scheduler.core.interface import cluster_manager, requests
from bcs_scheduler.core.interface.leased import OffersArrived
from bcs_scheduler.core.options import CoreOptions
from bcs_scheduler.core.placement.hierarchy.figures import TreeQueueFigures
from bcs_scheduler.core.placement.queue_accounts import QueueFigures
from bcs_scheduler.core.placement.snapshots import role as role_snapshots
from offers.agents import ListedAgent
from offers.policy.hierarchy.configuration.document import canonical, partition_of
from offers.policy.session.configuration import DEFAULT, policy_of
from offers.resources import SCALARS
from store.mentions import plain
from store.records import Namespace, Queue
from store.records.definition import Amounts, Container
from tests.effort import check_few
from tests.unit.core.placement.test_queue_trees import put, trees
from tests.unit.lab import Lab, version

GPU = "nvidia.com/gpu"
SOON = {"preemption.delay": "1s"}


def options(*queues: dict[str, Any]) -> CoreOptions:
    return options_of(tree(*queues))


def options_of(document: dict[str, Any]) -> CoreOptions:
    return CoreOptions(
        strict=True,
        hierarchy=partition_of(document, SCALARS),
        hierarchy_document=canonical(document),
        session_period=0.5,
        validate=True,
    )


def tree(*queues: dict[str, Any]) -> dict[str, Any]:
    return {"queues": list(queues), "placementrules": [{"name": "tag", "value": "namespace"}]}


def queue(name: str, *, guaranteed: Any = None, most: Any = None, **fields: Any) -> dict[str, Any]:
    resources = {key: value for key, value in (("guaranteed", guaranteed), ("max", most)) if value is not None}
    return {"name": name, "resources": resources, **fields}


def gpu_lab(given: CoreOptions, agents: Mapping[str, int]) -> Lab:
    """A lab with agents that have so many GPUs, and cores for all work."""
    lab = Lab(given)
    for agent, number in agents.items():
        lab.ask(requests.SetAgent(agent=agent, extended={GPU: number * 1000}, force=True))
    offer(lab, agents)
    return lab


def offer(lab: Lab, agents: Iterable[str]) -> None:
    lab.turn(OffersArrived(offers=tuple(lab.make_offer(agent, cpus=8000) for agent in agents)))
    lab.wait(1.0)


def create(lab: Lab, namespace: str, instances: int, gpus: int = 1, name: str = "web", **fields: Any) -> None:
    extended = {GPU: gpus * 1000} if gpus else {}
    container = Container(command="serve", requests=Amounts(cpus=100, mem=32_000, disk=0), extended=extended)
    wanted = msgspec.structs.replace(
        version(instances, containers=(container,), **fields), namespace=namespace, application=name
    )
    lab.ask(requests.CreateApplication(version=wanted, user="ann"))


def running(lab: Lab, namespace: str) -> list[Any]:
    """Taskgroups of a namespace that have not ended."""
    found = lab.core.state.taskgroups.values()
    return [group for group in found if group.namespace == namespace and not group.ended]


def gpus(lab: Lab, namespace: str) -> int:
    return sum(int(group.extended.get(GPU, 0)) for group in running(lab, namespace)) // 1000


def leaving(lab: Lab) -> list[Any]:
    return [group for group in lab.core.state.taskgroups.values() if group.killing_since and not group.ended]


def start(lab: Lab) -> None:
    for group in lab.core.state.taskgroups.values():
        if not group.started and not group.ended:
            lab.report(group, "RUNNING")


def figures(lab: Lab, name: str) -> TreeQueueFigures:
    placing = lab.core._offer_manager.placing.trees()["default"]
    placing.follow()
    found = lab.core.turn_context.queues.tree("default")
    assert found is not None
    return next(one for one in found.queues if one.name == name)


def test_a_queue_with_eight_gpus_never_holds_nine() -> None:
    lab = gpu_lab(options(queue("a", most={GPU: 8}), queue("b")), dict.fromkeys(("g1", "g2", "g3", "g4"), 4))
    create(lab, "a", 12)
    for _ in range(3):
        offer(lab, ("g1", "g2", "g3", "g4"))
    assert gpus(lab, "a") == 8
    create(lab, "b", 12)
    offer(lab, ("g1", "g2", "g3", "g4"))
    assert (gpus(lab, "a"), gpus(lab, "b")) == (8, 8)
    shown = figures(lab, "root.a")
    assert (shown.used["*"][GPU], shown.waiting["*"][GPU], shown.max) == (8000, 4000, {GPU: 8000})
    found = explain_application(lab.core.state, lab.core.state.applications["a/web"], lab.core.diagnosis, lab.now)
    words = plain(" ".join(found.text))
    assert "queue root.a has no room below its maximum" in words and f"maximum: {GPU} 8" in words


@pytest.mark.parametrize("seed", check_few(range(16), 3, 6))
def test_no_maximum_of_gpus_is_exceeded_in_random_worlds(seed: int) -> None:
    chance = Random(seed)
    agents = {f"g{number}": chance.randrange(5) for number in range(6)}
    most = {"a": chance.randrange(1, 9), "b": chance.randrange(1, 9)}
    above = max(*most.values(), chance.randrange(4, 14))
    own = chance.randrange(most["a"] + 1)
    children = [queue("a", guaranteed={GPU: own}, most={GPU: most["a"]}), queue("b", most={GPU: most["b"]})]
    properties = {"preemption.delay": "1s", "quota.preemption.delay": "1s"}
    for child in children:
        child["properties"] = properties
    limit = {"users": ["*"], "maxresources": {GPU: max(1, above - 1)}}
    document = tree(queue("top", most={GPU: above}, queues=children, limits=[limit]), queue("c"))
    document["placementrules"].insert(
        0, {"name": "tag", "value": "namespace", "parent": {"name": "fixed", "value": "top"}}
    )
    lab = gpu_lab(options_of(document), agents)
    for number in range(30):
        match chance.randrange(4):
            case 0:
                name = chance.choice("abc")
                create(lab, name, chance.randrange(1, 7), chance.randrange(4), f"w{number}", max_unavailable=3)
            case 1:
                live = [
                    group for group in lab.core.state.taskgroups.values() if group.running_since and not group.ended
                ]
                for group in chance.sample(live, min(len(live), chance.randrange(4))):
                    lab.report(group, "FINISHED")
            case 2:
                for group in leaving(lab):
                    lab.report(group, "KILLED")
            case 3:
                lab.wait(chance.uniform(0.5, 20.0))
        offer(lab, [agent for agent in agents if chance.random() < 0.7])
        start(lab)
        held = {name: gpus(lab, name) for name in "abc"}
        assert all(held[name] <= most[name] for name in "ab"), held
        assert held["a"] + held["b"] <= max(1, above - 1), held
        for agent, number_of in agents.items():
            assert lab.core.state.census.extended_used(agent, GPU) <= number_of * 1000


def test_a_queue_below_its_guarantee_of_gpus_preempts_work_that_has_gpus() -> None:
    lab = gpu_lab(
        options(queue("a", properties=SOON), queue("b", guaranteed={GPU: 2}, properties=SOON)),
        {"g1": 2, "g2": 2, "n": 0},
    )
    create(lab, "a", 4, max_unavailable=4)
    create(lab, "a", 2, gpus=0, name="plain", max_unavailable=2)
    offer(lab, ("g1", "g2", "n"))
    start(lab)
    assert gpus(lab, "a") == 4
    create(lab, "b", 3)
    offer(lab, ("g1", "g2", "n"))
    lab.wait(20.0)
    victims = leaving(lab)
    assert [group.extended for group in victims] == [{GPU: 1000}] * 2
    for group in victims:
        lab.report(group, "KILLED")
    offer(lab, ("g1", "g2", "n"))
    assert (gpus(lab, "a"), gpus(lab, "b")) == (2, 2)


def test_a_lowered_maximum_of_gpus_takes_the_excess_back() -> None:
    lab = gpu_lab(options(queue("a", most={GPU: 4})), {"g1": 2, "g2": 2})
    create(lab, "a", 4, max_unavailable=4)
    create(lab, "a", 2, gpus=0, name="plain", max_unavailable=2)
    offer(lab, ("g1", "g2"))
    start(lab)
    lower = queue("a", most={GPU: 1}, properties={"quota.preemption.delay": "10s"})
    put(lab, json.dumps(tree(lower)))
    lab.wait(60.0)
    assert [group.extended for group in leaving(lab)] == [{GPU: 1000}] * 3


def test_a_limit_of_a_user_counts_gpus() -> None:
    lab = gpu_lab(options(queue("a", limits=[{"users": ["ann"], "maxresources": {GPU: 3}}])), {"g1": 4, "g2": 4})
    create(lab, "a", 6)
    offer(lab, ("g1", "g2"))
    assert gpus(lab, "a") == 3
    assert [dict(one.used)[GPU] for one in figures(lab, "root.a").limits] == [3000]


def test_names_that_no_agent_and_no_request_has_are_admitted() -> None:
    lab = gpu_lab(
        options(queue("a", guaranteed={"amd.com/gpu": 1}, most={"amd.com/gpu": 2, "disk": 10_000})), {"g1": 2}
    )
    create(lab, "a", 3)
    offer(lab, ("g1",))
    assert gpus(lab, "a") == 2, "the agent has two, and queues do not count them"
    assert figures(lab, "root.a").max == {"amd.com/gpu": 2000, "disk": 10_000_000}
    assert GPU not in figures(lab, "root.a").used["*"]


def test_a_queue_counts_disk() -> None:
    lab = Lab(options(queue("a", most={"disk": 1000})))
    lab.turn(OffersArrived(offers=(lab.make_offer("n"),)))
    container = Container(command="serve", requests=Amounts(cpus=100, mem=32_000, disk=300_000))
    wanted = msgspec.structs.replace(version(5, containers=(container,)), namespace="a")
    lab.ask(requests.CreateApplication(version=wanted))
    lab.wait(2.0)
    assert len(running(lab, "a")) == 2, "300 MB of its own, and 64 MB of the executor"


@pytest.mark.parametrize("step", (1, role_snapshots.STEP))
def test_a_tree_that_names_gpus_later_counts_the_work_that_runs(step: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(role_snapshots, "STEP", step)
    monkeypatch.setattr("bcs_scheduler.core.placement.hierarchy.trees.STEP", step)
    lab = gpu_lab(options(queue("a"), queue("b")), {"g1": 4, "g2": 4})
    create(lab, "a", 3, max_unavailable=3)
    create(lab, "b", 1)
    offer(lab, ("g1", "g2"))
    start(lab)
    lower = queue("a", most={GPU: 1}, properties={"quota.preemption.delay": "1s"})
    trial = put(lab, json.dumps(tree(lower, queue("b"))), dry_run=True).data["trial"]
    assert [one["application"] for one in trial["preempted"]] == ["a/web"] * 2
    before = trees(lab).of("*").tree
    put(lab, json.dumps(tree(queue("a", most={GPU: 4}), queue("b"))))
    create(lab, "a", 3, name="more")
    offer(lab, ("g1", "g2"))
    assert (gpus(lab, "a"), gpus(lab, "b")) == (4, 1)
    assert trees(lab).of("*").tree is before, "queues that drain keep their applications"
    assert figures(lab, "root.b").used["*"][GPU] == 1000
    put(lab, json.dumps(tree(queue("a"), queue("b"))))
    offer(lab, ("g1", "g2"))
    assert gpus(lab, "a") == 6
    assert GPU not in figures(lab, "root.a").used["*"]


def test_a_queue_that_drains_keeps_its_maximum_of_gpus() -> None:
    lab = gpu_lab(options(queue("a", most={GPU: 2}), queue("b")), {"g1": 4})
    create(lab, "a", 4)
    offer(lab, ("g1",))
    put(lab, json.dumps(tree(queue("b"))))
    offer(lab, ("g1",))
    assert gpus(lab, "a") == 2
    assert figures(lab, "root.a").is_dynamic


def test_the_size_of_an_agent_has_its_disk_and_gpus_while_nothing_is_offered() -> None:
    lab = Lab(options(queue("a", most={"gpus": 1})))
    total = {"cpus": 8000, "mem": 64_000_000, "disk": 64_000_000, "gpus": 2000}
    lab.turn(cluster_manager.AgentsListed(agents=(ListedAgent("n", "host-of-n", total=total),), clock=lab.now))
    assert figures(lab, "root").used == {"*": {}}
    assert trees(lab).of("*").tree.total == {"cpus": 8000, "mem": 64_000_000, "gpus": 2000}


# --- queues of the policy `session` ---------------------------------------------------------------------------------


def session_lab(agents: Mapping[str, int], *queues: Queue) -> Lab:
    """A lab with queues, each with a namespace of its name, and sessions that reclaim."""
    policy = policy_of({**DEFAULT, "actions": "reclaim, allocate, backfill"})
    lab = gpu_lab(CoreOptions(strict=True, policy=policy, session_period=0.5, validate=True), agents)
    for record in queues:
        lab.ask(requests.PutQueue(queue=record))
        lab.ask(requests.PutNamespace(namespace=Namespace(name=record.name, queue=record.name)))
    return lab


def of_queue(lab: Lab, name: str) -> QueueFigures:
    return next(one for one in lab.core.turn_context.queues.figures() if one.queue.name == name)


def test_a_queue_of_sessions_with_eight_gpus_never_holds_nine() -> None:
    agents = dict.fromkeys(("g1", "g2", "g3", "g4"), 4)
    lab = session_lab(agents, Queue(name="a", capability_extended={GPU: 8000}), Queue(name="b"))
    create(lab, "a", 3, gpus=3)
    create(lab, "a", 3, name="more")
    create(lab, "a", 2, gpus=0, name="plain")
    for _ in range(3):
        offer(lab, agents)
    assert gpus(lab, "a") == 8, "6 of two, and one each of two more"
    assert len(running(lab, "a")) == 6
    found = of_queue(lab, "a")
    assert (found.used["*"][GPU], found.pending) == (8000, {"queue_limit": 2})
    assert GPU in found.deserved["*"]
    words = explain_application(lab.core.state, lab.core.state.applications["a/more"], lab.core.diagnosis, lab.now).text
    assert f"maximum: {GPU} 8" in plain(" ".join(words))
    create(lab, "b", 12)
    offer(lab, agents)
    assert gpus(lab, "b") == 8


def test_a_guarantee_of_gpus_is_taken_back_from_other_queues() -> None:
    agents = {"g1": 2, "g2": 2}
    lab = session_lab(agents, Queue(name="a"), Queue(name="b", guarantee_extended={GPU: 2000}))
    create(lab, "a", 4, max_unavailable=4)
    create(lab, "a", 2, gpus=0, name="plain", max_unavailable=2)
    offer(lab, agents)
    start(lab)
    assert gpus(lab, "a") == 2, "the others are guaranteed to b"
    lab.ask(requests.PutQueue(queue=Queue(name="b")))
    offer(lab, agents)
    start(lab)
    assert gpus(lab, "a") == 4
    lab.ask(requests.PutQueue(queue=Queue(name="b", guarantee_extended={GPU: 2000})))
    create(lab, "b", 3)
    lab.wait(20.0)
    assert [group.extended for group in leaving(lab)] == [{GPU: 1000}] * 2
    for _ in range(3):
        for group in leaving(lab):
            lab.report(group, "KILLED")
        offer(lab, agents)
        start(lab)
        lab.wait(5.0)
    assert (gpus(lab, "a"), gpus(lab, "b")) == (2, 2)


@pytest.mark.parametrize("seed", check_few(range(12), 3, 6))
def test_no_capability_of_gpus_is_exceeded_in_random_worlds(seed: int) -> None:
    chance = Random(seed)
    agents = {f"g{number}": chance.randrange(5) for number in range(6)}
    most = {"a": chance.randrange(1, 9), "b": chance.randrange(1, 9)}
    own = chance.randrange(most["a"] + 1)
    limited = Queue(name="a", capability_extended={GPU: most["a"] * 1000}, guarantee_extended={GPU: own * 1000})
    lab = session_lab(agents, limited, Queue(name="b", capability_extended={GPU: most["b"] * 1000}), Queue(name="c"))
    for number in range(30):
        match chance.randrange(4):
            case 0:
                name = chance.choice("abc")
                create(lab, name, chance.randrange(1, 7), chance.randrange(4), f"w{number}", max_unavailable=3)
            case 1:
                live = [one for one in lab.core.state.taskgroups.values() if one.running_since and not one.ended]
                for group in chance.sample(live, min(len(live), chance.randrange(4))):
                    lab.report(group, "FINISHED")
            case 2:
                for group in leaving(lab):
                    lab.report(group, "KILLED")
            case 3:
                lab.wait(chance.uniform(0.5, 20.0))
        offer(lab, [agent for agent in agents if chance.random() < 0.7])
        start(lab)
        held = {name: gpus(lab, name) for name in "ab"}
        assert all(held[name] <= most[name] for name in "ab"), held
        assert all(of_queue(lab, name).used.get("*", {}).get(GPU, 0) == held[name] * 1000 for name in held)
