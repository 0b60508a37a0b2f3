"""What-if: preemption, drains and limits of queues. Each set that is shown makes room, and asking changes nothing."""

from __future__ import annotations

import random
from typing import Any

import msgspec
import pytest

from bcs_scheduler.api.views.whatif import show_what_if
from bcs_scheduler.core.context import ANSWER_SECONDS
from bcs_scheduler.core.interface import requests
from bcs_scheduler.core.options import CoreOptions
from offers.policy.hierarchy.configuration.document import canonical, partition_of
from offers.policy.session.configuration import DEFAULT, policy_of
from store.ids import object_key
from store.records import Namespace, Queue, TaskGroup
from store.records.definition import Amounts, Container, HealthCheck
from store.records.objects import Limits
from tests.effort import share
from tests.unit.agentlab import Cluster
from tests.unit.lab import Lab, version

TREE: dict[str, Any] = {
    "queues": [
        {
            "name": "team",
            "parent": True,
            "resources": {"max": {"cpus": 1.5}},
            "queues": [{"name": "default", "resources": {"max": {"cpus": 1}}}],
        }
    ],
    "placementrules": [{"name": "tag", "value": "namespace", "parent": {"name": "fixed", "value": "team"}}],
}


def sized(name: str, instances: int, cpus: int, **fields: Any) -> requests.CreateApplication:
    container = Container(command="serve", requests=Amounts(cpus=cpus, mem=32_000, disk=0))
    wanted = version(instances, containers=(container,), **fields)
    return requests.CreateApplication(version=msgspec.structs.replace(wanted, application=name))


def groups_of(lab: Lab, name: str) -> list[TaskGroup]:
    return [group for group in lab.core.state.groups_of(object_key("default", name)).values() if not group.ended]


def start(lab: Lab) -> None:
    """Everything that is launched runs."""
    lab.wait(0.5)
    for group in list(lab.core.state.taskgroups.values()):
        if not group.started and not group.ended:
            lab.report(group, "RUNNING")


def ask(lab: Lab, name: str = "web") -> dict[str, Any]:
    """The answer; proves that nothing changes."""

    def seen() -> tuple[Any, ...]:
        return sorted(msgspec.json.encode(record) for record in lab.records()), lab.core.offers()

    before = seen()
    reply = lab.ask(requests.AskWhatIf(namespace="default", name=name))
    assert not reply.error, reply.message
    assert seen() == before
    assert isinstance(reply.data, dict)
    return reply.data


def of_kind(data: dict[str, Any], kind: str) -> dict[str, Any]:
    """The first set of this one change."""
    found, *_ = [one for one in data["solutions"] if [change["kind"] for change in one["changes"]] == [kind]]
    return {**found, **found["changes"][0]}


def has(data: dict[str, Any], kind: str) -> bool:
    return any(change["kind"] == kind for one in data["solutions"] for change in one["changes"])


def loaded(rooms: list[int], apps: list[tuple[str, int, int, int]]) -> Cluster:
    """Agents a0, a1, ... with this many thousandths of a core, and applications (name, taskgroups, size, priority) that
    are placed on the agents in turn."""
    lab = Cluster(len(rooms), options=CoreOptions(strict=True, validate=True))
    for number, cpus in enumerate(rooms):
        lab.offer(f"a{number}", cpus=cpus)
    for name, instances, cpus, priority in apps:
        lab.ask(sized(name, instances, cpus, priority=priority, max_unavailable=instances))
    lab.wait(ANSWER_SECONDS)  # taskgroups that would share an agent wait for further offers
    start(lab)
    used = dict.fromkeys(range(len(rooms)), 0)
    for group in lab.core.state.taskgroups.values():
        used[int(group.agent_id[1:])] += group.resources.cpus
    for number, cpus in enumerate(rooms):
        lab.core.turn_context.pool.hand.remove_agent(f"a{number}")
        lab.offer(f"a{number}", cpus=cpus - used[number])
    return lab


@pytest.mark.parametrize(
    ("apps", "wanted", "number"),
    [
        ([("one", 1, 800, 2), ("many", 5, 190, 1)], "many", 4),
        ([("one", 1, 800, 1), ("many", 5, 190, 1)], "one", 1),
        ([("large", 1, 900, 1), ("small", 1, 800, 1)], "small", 1),
    ],
    ids=["the lowest priorities", "then the fewest", "then the smallest"],
)
def test_the_taskgroups_that_cost_least_are_named(
    apps: list[tuple[str, int, int, int]], wanted: str, number: int
) -> None:
    """As the policies compare agents. Each agent has the taskgroups of one application."""
    lab = loaded([1000, 1000], apps)
    lab.core.turn_context.pool.learn_totals({"a0": (1000, 64_000_000), "a1": (1000, 64_000_000)})
    lab.ask(sized("web", 1, 700, priority=5))
    found = of_kind(ask(lab), "preemptTaskgroups")
    assert len(found["taskgroups"]) == number
    assert {group.id for group in groups_of(lab, wanted)} >= set(found["taskgroups"])
    assert found["placed"] == 1


def test_taskgroups_of_the_same_importance_and_of_small_budgets_stay() -> None:
    lab = loaded([1000], [("same", 1, 800, 5)])
    lab.ask(sized("web", 1, 700, priority=5))
    assert not has(ask(lab), "preemptTaskgroups")
    lab = loaded([1000], [("low", 1, 800, 1)])
    lab.ask(sized("web", 1, 700, priority=5, preemption_policy="Never"))
    assert not has(ask(lab), "preemptTaskgroups")
    lab = loaded([1000], [("low", 1, 800, 1)])
    lab.ask(sized("gang", 1, 50, priority=1))
    lab.ask(sized("web", 1, 700, priority=5))
    assert has(ask(lab), "preemptTaskgroups")


def test_what_is_not_ready_is_proposed_first_and_needs_no_budget() -> None:
    lab = loaded([2000], [("ready", 2, 800, 1)])
    checked = Container(
        command="serve",
        requests=Amounts(cpus=200, mem=32_000, disk=0),
        health_checks=(HealthCheck(type="REMOTE_TCP", port=80),),
    )
    broken = msgspec.structs.replace(
        version(1, containers=(checked,), priority=3, max_unavailable=1), application="bad"
    )
    lab.ask(requests.CreateApplication(version=broken))
    start(lab)
    lab.core.turn_context.pool.hand.remove_agent("a0")
    lab.offer("a0", cpus=200)
    lab.ask(sized("web", 1, 300, priority=5))
    assert of_kind(ask(lab), "preemptTaskgroups")["taskgroups"] == [groups_of(lab, "bad")[0].id]


def test_a_launch_that_waits_protects_nothing() -> None:
    lab = loaded([1000], [("low", 3, 400, 1)])
    assert lab.transaction("LAUNCH").active
    lab.ask(sized("web", 1, 400, priority=5))
    assert has(ask(lab), "preemptTaskgroups")


@pytest.mark.parametrize("seed", range(share(60)))
def test_preempted_taskgroups_leave_the_room_that_is_needed(seed: int) -> None:
    chance = random.Random(seed)
    rooms = [chance.choice((600, 1000, 1400)) for _ in range(chance.randint(1, 4))]
    apps = [
        (f"app{number}", chance.randint(1, 3), chance.choice((90, 190, 290, 490)), chance.randint(0, 3))
        for number in range(chance.randint(1, 6))
    ]
    lab = loaded(rooms, apps)
    lab.ask(sized("web", chance.randint(1, 3), chance.choice((390, 590, 890)), priority=2))
    data = ask(lab)
    if not has(data, "preemptTaskgroups"):
        return
    singles = [one for one in data["solutions"] if [c["kind"] for c in one["changes"]] == ["preemptTaskgroups"]]
    for one in singles:
        victims = [lab.core.state.taskgroups[identity] for identity in one["changes"][0]["taskgroups"]]
        for victim in victims:
            made = lab.core.state.version(victim.application_key, victim.version)
            assert made is not None and made.priority < 2
        room: dict[str, int] = {}
        for offer in lab.core.offers():
            room[offer.agent_id] = sum(amount for key, amount in offer.scalars if key.name == "cpus")
        for victim in victims:
            room[victim.agent_id] = room.get(victim.agent_id, 0) + victim.resources.cpus
        fresh = Cluster(options=CoreOptions(strict=True))
        for agent, cpus in room.items():
            fresh.join(agent)
            if cpus:
                fresh.offer(agent, cpus=cpus)
        left = data["examined"]
        web = lab.core.state.version(object_key("default", "web"), lab.core.state.applications["default/web"].version)
        assert web is not None
        fresh.ask(sized("web", left, web.containers[0].requests.cpus))
        fresh.wait(0.5)
        assert len(groups_of(fresh, "web")) == left == one["placed"]


def test_an_agent_is_drained_for_a_large_taskgroup() -> None:
    lab = loaded([1000, 1000], [("one", 2, 290, 0)])
    assert sorted(group.agent_id for group in groups_of(lab, "one")) == ["a0", "a1"]
    lab.core.turn_context.pool.learn_totals({"a0": (1000, 64_000_000), "a1": (1000, 64_000_000)})
    lab.ask(sized("web", 1, 890))
    found = of_kind(ask(lab), "drainAgent")
    (moved,) = found["moves"]
    assert found["taskgroups"] == [moved["taskgroup"]]
    assert found["agents"] == [found["agents"][0]] and found["placed"] == 1
    (drained,) = [group for group in groups_of(lab, "one") if group.id == moved["taskgroup"]]
    assert moved["hostname"] != drained.hostname
    assert found["agents"][0] == drained.agent_id
    text = show_what_if(ask(lab)).text
    assert any(f"drain agent {drained.agent_id} (1 taskgroup) and uncordon the agent" in line for line in text)


def test_no_drain_is_advised_whose_taskgroups_have_no_place_elsewhere() -> None:
    """The copy of the offers has possible new agents, which take no taskgroups of a drain."""
    lab = loaded([1000, 1000], [("one", 2, 890, 0)])
    lab.core.turn_context.pool.learn_totals({"a0": (1000, 64_000_000), "a1": (1000, 64_000_000)})
    lab.ask(sized("web", 1, 890))
    data = ask(lab)
    assert has(data, "addAgents") and not has(data, "drainAgent")


def test_a_queue_of_sessions_is_raised_to_the_least_limit() -> None:
    lab = Lab(CoreOptions(strict=True, validate=True, session_period=0.1, policy=policy_of(DEFAULT)))
    lab.ask(requests.PutQueue(queue=Queue(name="small", capability=Limits(cpus=500))))
    lab.ask(requests.PutNamespace(namespace=Namespace(name="default", queue="small")))
    lab.offer(cpus=4000)
    lab.ask(sized("web", 5, 200))
    start(lab)
    lab.offer(cpus=4000)
    lab.wait(0.2)
    running = len(groups_of(lab, "web"))
    assert 0 < running < 5
    data = ask(lab)
    assert data["heldBack"]
    found = of_kind(data, "raiseQueueLimit")
    assert found["queue"] == "small" and found["placed"] == 5 - running
    (limit,) = found["limits"]
    assert (limit["resource"], limit["from"]) == ("cpus", 0.5)
    assert show_what_if(data).text[0].startswith("raise the limit of queue small: cpus from 0.5 to ")
    least = round(limit["to"] * 1000)
    lab.ask(requests.PutQueue(queue=Queue(name="small", capability=Limits(cpus=least - 1))))
    lab.wait(0.5)
    assert len(groups_of(lab, "web")) < 5
    lab.offer(cpus=4000)
    lab.ask(requests.PutQueue(queue=Queue(name="small", capability=Limits(cpus=least))))
    lab.wait(0.5)
    assert len(groups_of(lab, "web")) == 5


def test_limits_of_a_tree_are_raised_up_to_root() -> None:
    options = CoreOptions(strict=True, validate=True, session_period=0.1, hierarchy=partition_of(TREE, ("cpus", "mem")))
    lab = Lab(options)
    lab.offer(cpus=4000)
    lab.ask(sized("web", 10, 200))
    start(lab)
    lab.offer(cpus=4000)
    lab.wait(0.2)
    running = len(groups_of(lab, "web"))
    assert 0 < running < 10
    data = ask(lab)
    (solution,) = data["solutions"]
    assert [change["queue"] for change in solution["changes"]] == ["root.team", "root.team.default"]
    assert solution["placed"] == 10 - running
    again = ask(lab)
    assert again == data
    to = {change["queue"]: change["limits"][0]["to"] for change in solution["changes"]}
    tree = msgspec.json.decode(canonical(TREE))
    for enough in (False, True):
        part = 0.0 if enough else 0.001
        changed = msgspec.json.decode(msgspec.json.encode(tree))
        _set_max(changed, "team", to["root.team"])
        _set_max(changed, "default", to["root.team.default"] - part)
        reply = lab.ask(requests.PutQueueTree(document=canonical(changed)))
        assert not reply.error, reply.message
        lab.offer(cpus=4000)
        lab.wait(1.0)
        assert (len(groups_of(lab, "web")) == 10) is enough


def _set_max(node: Any, name: str, cpus: float) -> None:
    """Sets the maximum of the queue of this name, in cores."""
    for child in node.get("queues", []):
        if child["name"] == name:
            child.setdefault("resources", {}).setdefault("max", {})["cpus"] = cpus
        _set_max(child, name, cpus)
