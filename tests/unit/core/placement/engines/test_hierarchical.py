"""The policy `hierarchical` in the core: the tree of queues decides about room, limits and victims."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from copy import deepcopy
from dataclasses import replace
from itertools import permutations
from typing import Any

import msgspec
import pytest

from bcs_scheduler.api.views.explain import explain_application
from bcs_scheduler.core.context import ANSWER_SECONDS
from bcs_scheduler.core.interface import effects, leased, requests
from bcs_scheduler.core.interface.cluster_manager import AgentRemoved, LaunchOnAgent, StatusUpdate
from bcs_scheduler.core.interface.requests import PutPriorityClass
from bcs_scheduler.core.options import CoreOptions
from bcs_scheduler.core.placement.engines import hierarchical
from bcs_scheduler.core.placement.engines.hierarchical import FULL_PAUSE, Hierarchical
from bcs_scheduler.core.placement.hierarchy import trees
from bcs_scheduler.core.placement.hierarchy.role_tree import RoleTree
from bcs_scheduler.core.placement.records import Records
from bcs_scheduler.core.placement.snapshots import role as role_snapshots
from bcs_scheduler.core.time_budget import UNLIMITED, TimeBudget
from offers.dimensions import THOUSANDTHS
from offers.policy.hierarchy.configuration.document import partition_of
from offers.policy.hierarchy.state.model import Allocation, Terms
from offers.policy.hierarchy.tree import Tree
from offers.policy.session.snapshot import Snapshot
from store.mentions import plain
from store.records import Namespace, PriorityClass, Queue, Transaction
from store.records.definition import Amounts as Resources
from store.records.definition import Constraint, Container, UnreachablePolicy
from tests.effort import check_few
from tests.unit.lab import Lab, version
from tests.unit.spenttime import Spent
from transactions.kinds import reschedule
from transactions.rules import disruptions
from transactions.rules.task_states import TaskState

WHOLE = 150
"""Thousandths of a core of an agent with room for one taskgroup and not for two."""
DOCUMENT: dict[str, Any] = {
    "queues": [
        {"name": "default"},
        {
            "name": "work",
            "queues": [
                {"name": "batch", "properties": {"preemption.delay": "1s"}},
                {
                    "name": "online",
                    "resources": {"guaranteed": {"cpus": 0.3}},
                    "properties": {"preemption.delay": "1s"},
                },
            ],
        },
        {"name": "small", "resources": {"max": {"cpus": 0.2}}},
        {"name": "few", "maxapplications": 1},
    ],
    "placementrules": [
        {"name": "tag", "value": "namespace", "parent": {"name": "fixed", "value": "work"}},
        {"name": "tag", "value": "namespace"},
        {"name": "provided"},
    ],
}


def options(document: dict[str, Any] | None = None) -> CoreOptions:
    partition = partition_of(document or DOCUMENT, ("cpus", "mem"))
    return CoreOptions(strict=True, hierarchy=partition, session_period=0.5, validate=True)


def create(lab: Lab, namespace: str, instances: int, name: str = "web", **fields: Any) -> effects.Reply:
    wanted = msgspec.structs.replace(version(instances, **fields), namespace=namespace, application=name)
    return lab.ask(requests.CreateApplication(version=wanted))


def groups(lab: Lab, namespace: str, name: str = "web") -> list[Any]:
    return [group for group in lab.core.state.groups_of(f"{namespace}/{name}").values() if not group.ended]


def arrive(lab: Lab, *agents: str, cpus: int = WHOLE) -> None:
    lab.turn(leased.OffersArrived(offers=tuple(lab.make_offer(agent, cpus=cpus) for agent in agents)))
    lab.wait(1.0)


def run(lab: Lab) -> None:
    for group in lab.core.state.taskgroups.values():
        if not group.started and not group.ended:
            lab.report(group, "RUNNING")


def agents(number: int) -> list[str]:
    return [f"agent-{index}" for index in range(number)]


def test_queues_place_what_is_wanted() -> None:
    lab = Lab(options())
    create(lab, "batch", 3)
    arrive(lab, *agents(4))
    assert len(groups(lab, "batch")) == 3


def test_taskgroups_that_start_are_not_looked_at_unless_something_may_be_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    looks: list[str] = []
    serves = disruptions.is_serving

    def counted(application: Any, group: Any) -> bool:
        looks.append(group.id)
        return serves(application, group)

    monkeypatch.setattr(disruptions, "is_serving", counted)
    lab = Lab(options())
    create(lab, "batch", 30)
    arrive(lab, *agents(20))
    lab.wait(20.0)
    assert len(groups(lab, "batch")) == 20 and lab.core.turn_context.engine.demands
    assert not looks
    create(lab, "online", 1)
    lab.wait(20.0)
    assert looks


def test_a_maximum_holds_and_is_explained() -> None:
    lab = Lab(options())
    create(lab, "small", 4)
    arrive(lab, *agents(5))
    assert len(groups(lab, "small")) == 2
    diagnosis = lab.core.turn_context.engine.diagnoses[lab.transaction("LAUNCH").id]
    assert diagnosis.held_back is not None
    assert (diagnosis.held_back.queue, diagnosis.held_back.code) == ("root.small", "QueueMaximum")
    assert dict(diagnosis.held_back.allocated)["cpus"] == 200


@pytest.mark.parametrize("left", [0, 1, 3])
def test_a_maximum_is_named_for_all_that_wait_whatever_room_is_offered(left: int) -> None:
    """One count: that of the taskgroups that are not there. More agents would not help, with room for some or none."""
    lab = Lab(options())
    create(lab, "small", 6)
    arrive(lab, *agents(2))
    run(lab)
    if left:
        arrive(lab, *(f"more-{number}" for number in range(left)))
    lab.wait(20.0)
    found = explain_application(lab.core.state, lab.core.state.applications["small/web"], lab.core.diagnosis, lab.now)
    assert found.existing == 2
    (operation,) = found.transactions
    assert operation.placing is not None
    assert (operation.placing.wanted, operation.placing.placed) == (operation.target - operation.progress, 0) == (4, 0)
    assert any(
        line.startswith("4 taskgroups without a place: queue root.small has no room below") for line in found.text
    )


def test_a_queue_runs_no_more_applications_than_it_may() -> None:
    lab = Lab(options())
    create(lab, "few", 1)
    create(lab, "few", 1, "second")
    arrive(lab, *agents(3))
    assert len(groups(lab, "few")) + len(groups(lab, "few", "second")) == 1


def test_an_application_without_a_queue_waits_and_says_why() -> None:
    document = {"queues": [{"name": "other"}]}
    lab = Lab(options(document))
    create(lab, "nowhere", 1)
    arrive(lab, "agent-1")
    assert not groups(lab, "nowhere")
    (diagnosis,) = lab.core.turn_context.engine.diagnoses.values()
    assert diagnosis.held_back is not None and diagnosis.held_back.code == "NoQueue"


def test_a_namespace_names_its_queue() -> None:
    lab = Lab(options())
    lab.turn(requests.PutQueue(queue=Queue(name="small")))
    lab.turn(requests.PutNamespace(namespace=Namespace(name="team", queue="small")))
    create(lab, "team", 4)
    arrive(lab, *agents(5))
    assert len(groups(lab, "team")) == 2


def test_a_queue_below_its_guarantee_preempts_within_the_budget() -> None:
    lab = full(6, max_unavailable=2)
    create(lab, "online", 3)
    for _ in range(4):
        lab.wait(20.0)
    leaving = ending(lab)
    assert len(leaving) == 2
    for group in leaving:
        lab.report(group, "KILLED")
    message = plain(lab.core.state.applications["batch/web"].message)
    assert message.endswith("evicted for online/web (queue root.work.online)")
    arrive(lab, *(group.agent_id for group in leaving))
    run(lab)
    assert len(groups(lab, "online")) == 2
    assert len([group for group in groups(lab, "batch") if not group.killing_since]) == 4


def gang_document(setting: str) -> dict[str, Any]:
    document = deepcopy(DOCUMENT)
    document["queues"][1]["properties"] = {"preemption.gangs": setting}
    return document


def test_a_gang_keeps_its_minimum() -> None:
    lab = full(3, Lab(options(gang_document("keep"))), min_available=3, max_unavailable=3)
    create(lab, "online", 1)
    for _ in range(4):
        lab.wait(20.0)
    assert ending(lab) == []


def test_a_gang_that_may_end_as_a_whole_ends_in_one_step_and_starts_again_together() -> None:
    lab = full(3, Lab(options(gang_document("whole"))), min_available=3)
    create(lab, "online", 1)
    steps = []
    for _ in range(40):
        lab.wait(1.0)
        steps.append(len(ending(lab)))
    assert set(steps) == {0, 3}
    victims = ending(lab)
    for victim in victims:
        lab.report(victim, "KILLED")
    arrive(lab, *agents(3))
    run(lab)
    assert len(groups(lab, "online")) == 1
    assert not groups(lab, "batch"), "two places do not suffice for the gang"
    arrive(lab, "agent-3")
    run(lab)
    lab.wait(20.0)
    assert len(groups(lab, "batch")) == 3


def test_a_whole_gang_stays_if_its_budget_is_used_up() -> None:
    lab = full(
        3,
        Lab(options(gang_document("whole"))),
        min_available=3,
        unreachable_policy=UnreachablePolicy(replace_after=-1.0),
    )
    victim = groups(lab, "batch")[0]
    lab.report(victim, "UNREACHABLE")
    create(lab, "online", 1)
    for _ in range(4):
        lab.wait(20.0)
    assert ending(lab) == []


def test_a_gang_of_which_members_run_gets_the_others_back_one_by_one() -> None:
    lab = full(3, min_available=3)
    lost = groups(lab, "batch")[:2]
    for group in lost:
        lab.report(group, "FAILED")
    lab.wait(600.0)
    arrive(lab, lost[0].agent_id)
    lab.wait(20.0)
    assert len(groups(lab, "batch")) == 2
    arrive(lab, lost[1].agent_id)
    lab.wait(20.0)
    assert len(groups(lab, "batch")) == 3


def test_a_gang_that_is_lost_and_that_its_constraints_keep_from_every_agent_waits() -> None:
    """Its job has no tasks then: nothing of it runs, and none of it can be placed."""
    apart = ((Constraint(name="hostname", operator="UNIQUE"),),)
    lab = full(3, min_available=3, constraints=apart)
    lost = groups(lab, "batch")
    for group in lost:
        lab.report(group, "FAILED")
    lab.wait(600.0)
    arrive(lab, lost[0].agent_id)
    lab.wait(20.0)
    assert not groups(lab, "batch")
    arrive(lab, *agents(3))
    lab.wait(20.0)
    assert len(groups(lab, "batch")) == 3


def full(number: int = 3, lab: Lab | None = None, **fields: Any) -> Lab:
    """Agents, each with a running taskgroup of `batch` and room for no other. `fields`: of its version."""
    lab = lab or Lab(options())
    create(lab, "batch", number, **fields)
    arrive(lab, *agents(number))
    run(lab)
    return lab


def ending(lab: Lab) -> list[Any]:
    """The taskgroups of `batch` that are being ended."""
    return [group for group in groups(lab, "batch") if group.killing_since]


def replaced(lab: Lab, victims: Iterable[Any]) -> None:
    """Victims end one after the other, and their agents are offered each time."""
    for victim in victims:
        lab.report(victim, "KILLED")
        arrive(lab, victim.agent_id)
        run(lab)


def the_tree(lab: Lab) -> RoleTree:
    """The tree of the one role."""
    placing = lab.core._offer_manager.placing.loops[0].engine
    assert isinstance(placing, Hierarchical)
    (tree_of,) = placing.trees.roles.values()
    return tree_of


def preempting(lab: Lab) -> Any:
    """The one taskgroup that is ended for another queue."""
    for _ in range(4):
        lab.wait(5.0)
    (victim,) = (one for one in lab.core.state.taskgroups.values() if one.killing_since and not one.ended)
    return victim


def test_a_taskgroup_whose_promised_agent_is_lost_preempts_on_another_one() -> None:
    lab = full(max_unavailable=3)
    create(lab, "online", 1)
    victim = preempting(lab)
    lab.report(victim, "KILLED")
    lab.turn(AgentRemoved(agent_id=victim.agent_id))
    other = preempting(lab)
    assert other.agent_id != victim.agent_id
    lab.report(other, "KILLED")
    arrive(lab, other.agent_id)
    assert [group.agent_id for group in groups(lab, "online")] == [other.agent_id]


@pytest.mark.parametrize("order", list(permutations(range(3))))
def test_victims_that_end_in_any_order_are_as_many_as_needed(order: tuple[int, ...]) -> None:
    lab = full(6, max_unavailable=6)
    create(lab, "online", 6)
    for _ in range(4):
        lab.wait(5.0)
    victims = ending(lab)
    assert len(victims) == 3
    replaced(lab, [victims[number] for number in order])
    lab.wait(20.0)
    assert len(groups(lab, "online")) == 3
    assert ending(lab) == []


def test_a_queue_waits_for_the_offers_that_were_requested_before_it_preempts() -> None:
    document = deepcopy(DOCUMENT)
    document["queues"][1]["queues"][1]["properties"]["preemption.delay"] = "0s"
    lab = Lab(options(document))
    create(lab, "batch", 3, max_unavailable=3)
    arrive(lab, *agents(3), "free")
    run(lab)
    for _ in range(10):
        lab.wait(1.0)
    assert not lab.core.turn_context.pool.hand.all()
    create(lab, "online", 2)
    lab.wait(ANSWER_SECONDS / 2)
    assert ending(lab) == []
    arrive(lab, "free")
    lab.wait(2.0)
    assert [group.agent_id for group in groups(lab, "online")] == ["free"]
    assert len(ending(lab)) == 1


def contended() -> Lab:
    """Six agents with room for one taskgroup each: `online` uses its guarantee of three and wants more; `batch` has the
    others, wants more, and has reserved agents."""
    lab = full(6, max_unavailable=6)
    create(lab, "online", 3)
    for _ in range(4):
        lab.wait(5.0)
    replaced(lab, ending(lab))
    create(lab, "online", 3, "more")
    lab.wait(20.0)
    assert len(groups(lab, "online")) == len(groups(lab, "batch")) == 3
    return lab


@pytest.mark.parametrize("state", ("FAILED", "FINISHED", "KILLED"))
@pytest.mark.parametrize("at_once", (True, False))
def test_a_queue_at_its_guarantee_preempts_nothing_when_its_own_taskgroup_ends(state: Any, at_once: bool) -> None:
    lab = contended()
    failing = groups(lab, "online")[0]
    offer = leased.OffersArrived(offers=(lab.make_offer(failing.agent_id, cpus=WHOLE),))
    report = StatusUpdate(task_id=failing.tasks[0].id, state=TaskState[state], agent_id=failing.agent_id, uuid=b"e")
    lab.turn(report, *([offer] if at_once else []))
    lab.wait(1.0)
    if not at_once:
        lab.turn(offer)
    run(lab)
    lab.wait(100.0)
    assert ending(lab) == []
    assert len(groups(lab, "online")) + len(groups(lab, "online", "more")) == 3
    (there,) = [one for one in lab.core.state.taskgroups.values() if one.agent_id == failing.agent_id and not one.ended]
    assert there.name.startswith("web" if state == "FAILED" else ("web", "more"))


def test_room_that_others_take_after_a_failure_is_preempted_elsewhere() -> None:
    lab = contended()
    failing = groups(lab, "online")[0]
    lab.report(failing, "FAILED")
    lab.turn(AgentRemoved(agent_id=failing.agent_id))
    victim = preempting(lab)
    assert victim.namespace == "batch"
    lab.report(victim, "KILLED")
    arrive(lab, victim.agent_id)
    assert len(groups(lab, "online")) + len(groups(lab, "online", "more")) == 3


def test_a_promise_outlives_that_the_tree_is_made_anew() -> None:
    lab = full(max_unavailable=3)
    create(lab, "online", 1)
    victim = preempting(lab)
    the_tree(lab).renew()
    arrive(lab, *(f"new-{index}" for index in range(33)), cpus=WHOLE // 2)
    tree_of = the_tree(lab)
    tree = tree_of.tree
    assert [node.name for node in tree.nodes if node.promises] == [victim.agent_id]
    assert preempting(lab) == victim


@pytest.mark.parametrize("moves", [False, True])
def test_room_that_comes_is_for_an_application_that_is_placed_anew(moves: bool) -> None:
    """It is deleted and created anew, or its namespace moves to another queue: others do not get the room."""
    batch, online = DOCUMENT["queues"][1]["queues"]
    other = {**online, "name": "other", "properties": {"preemption.delay": "1h"}}
    lab = Lab(options({"queues": [{"name": "default"}, batch, online, other]}))
    for name in ("batch", "online", "other"):
        lab.turn(requests.PutQueue(queue=Queue(name=name)))
    for name in ("batch", "online"):
        lab.turn(requests.PutNamespace(namespace=Namespace(name=name, queue=name)))
    full(lab=lab, max_unavailable=3)
    create(lab, "online", 1)
    create(lab, "default", 1)  # it comes first among those with the same share
    victim = preempting(lab)
    if moves:
        assert not lab.ask(requests.PutNamespace(namespace=Namespace(name="online", queue="other"))).error
    else:
        assert not lab.ask(requests.DeleteApplication(namespace="online", name="web")).error
        assert not create(lab, "online", 1).error
    lab.report(victim, "KILLED")
    arrive(lab, victim.agent_id)
    assert [group.agent_id for group in groups(lab, "online")] == [victim.agent_id]


@pytest.mark.parametrize("free", [0, 1])
def test_a_gang_keeps_the_room_of_its_first_victim_until_the_last_one_has_ended(free: int) -> None:
    lab = full(max_unavailable=3)
    create(lab, "online", 3, min_available=3)
    lab.wait(2.0)
    arrive(lab, *(f"free-{index}" for index in range(free)))
    lab.wait(20.0)
    victims = [group for group in groups(lab, "batch") if group.killing_since]
    assert len(victims) == 3 - free
    for victim in victims:
        assert not groups(lab, "online")
        lab.report(victim, "KILLED")
        arrive(lab, victim.agent_id)
    assert len(groups(lab, "online")) == 3
    lab.wait(100.0)
    assert ending(lab) == []


def test_no_taskgroup_is_ended_for_a_gang_that_could_not_start() -> None:
    lab = full(max_unavailable=1)
    create(lab, "online", 2, min_available=2)
    lab.wait(100.0)
    assert ending(lab) == []


@pytest.mark.parametrize("agent", ("agent-0", "agent-9"))
def test_placements_that_are_not_launched_yet_are_no_victims(agent: str) -> None:
    lab = Lab(options())
    at_once = UnreachablePolicy(replace_after=0.0)
    create(lab, "online", 3, unreachable_policy=at_once)
    arrive(lab, "agent-1", "agent-2", "lost-1")
    create(lab, "batch", 2, max_unavailable=2, unreachable_policy=at_once)
    arrive(lab, "agent-3", "lost-2")
    run(lab)
    lost = [group for group in lab.core.state.taskgroups.values() if group.agent_id.startswith("lost")]
    for group in lost:
        lab.turn(AgentRemoved(agent_id=group.agent_id))
        lab.report(group, "UNREACHABLE")
    lab.wait(1.5)
    reports = [
        StatusUpdate(task_id=group.tasks[0].id, state=TaskState.FAILED, agent_id=group.agent_id, uuid=b"f")
        for group in lost
    ]
    lab.turn(*reports, leased.OffersArrived(offers=(lab.make_offer(agent, cpus=WHOLE),)))
    lab.wait(0.1)
    assert sorted(group.agent_id for group in groups(lab, "batch")) == sorted(["agent-3", agent])
    run(lab)
    victim = preempting(lab)
    assert victim.namespace == "batch"
    lab.report(victim, "KILLED")
    arrive(lab, victim.agent_id)
    assert [group.agent_id for group in groups(lab, "online")] == ["agent-1", "agent-2", victim.agent_id]


def test_a_new_leader_preempts_when_agents_are_offered() -> None:
    lab = full(max_unavailable=3)
    create(lab, "online", 1)
    lab.now += 2.0  # the first leader stands still
    lab = lab.succeed()
    lab.wait(4.0)
    assert ending(lab) == []
    timer = lab.core._offer_manager.placing.next_timer()
    assert timer is not None and timer <= lab.now + hierarchical.MAINTENANCE  # however small the offers are
    arrive(lab, *agents(3), cpus=50)
    assert len(ending(lab)) == 1


@pytest.mark.parametrize("gang", (0, 3))
@pytest.mark.parametrize("ended", (0, 1, 2))
def test_a_new_leader_ends_no_other_taskgroups_and_keeps_the_room_of_those_that_have_ended(
    ended: int, gang: int
) -> None:
    lab = full(6, max_unavailable=6)
    create(lab, "online", 3, min_available=gang or 1)
    for _ in range(4):
        lab.wait(5.0)
    victims = ending(lab)
    assert len(victims) == 3
    for victim in victims[:ended]:
        lab.report(victim, "KILLED")
    lab = lab.succeed()
    free = {victim.agent_id for victim in victims[:ended]}
    offers = [lab.make_offer(agent, cpus=WHOLE if agent in free else 50) for agent in agents(6)]
    lab.turn(leased.OffersArrived(offers=tuple(offers)))
    for _ in range(5):
        lab.wait(5.0)
        run(lab)
    assert {group.id for group in ending(lab)} == {victim.id for victim in victims[ended:]}
    assert len(groups(lab, "online")) == (0 if gang else ended)
    for victim in victims[ended:]:
        lab.report(lab.core.state.taskgroups[victim.id], "KILLED")
        arrive(lab, victim.agent_id, cpus=WHOLE - 50)
        run(lab)
    lab.wait(20.0)
    assert sorted(group.agent_id for group in groups(lab, "online")) == sorted(victim.agent_id for victim in victims)
    assert ending(lab) == []


def test_a_new_leader_ends_nothing_before_the_offers_are_there_and_then_what_is_necessary() -> None:
    lab = full(max_unavailable=3)
    create(lab, "online", 1)
    lab.now += 2.0  # the first leader stands still
    lab = lab.succeed()
    lab.turn(leased.OffersArrived(offers=tuple(lab.make_offer(agent, cpus=50) for agent in agents(3))))
    lab.wait(3.0)
    assert len(ending(lab)) == 1


@pytest.mark.parametrize("other", ("web", "more"))
def test_room_that_a_taskgroup_does_not_need_any_more_goes_to_the_next_one_of_its_queue(other: str) -> None:
    lab = full(max_unavailable=3)
    create(lab, "online", 1)
    victim = preempting(lab)
    arrive(lab, "free", victim.agent_id, cpus=WHOLE - 100)
    arrive(lab, "free")
    assert [group.agent_id for group in groups(lab, "online")] == ["free"]
    run(lab)
    if other == "web":
        lab.ask(requests.ScaleApplication(namespace="online", name="web", instances=2))
    else:
        create(lab, "online", 1, "more")
    for _ in range(4):
        lab.wait(5.0)
    assert ending(lab) == [victim]
    replaced(lab, [victim])
    assert [group.agent_id for group in groups(lab, "online", other)][-1] == victim.agent_id
    assert ending(lab) == []


def test_an_agent_that_changes_its_size_leaves_the_tree_in_place() -> None:
    lab = full()
    tree_of = the_tree(lab)
    tree = tree_of.tree

    def size() -> int:
        assert tree_of.tree is tree
        return tree.nodes.by_name["agent-1"].total["cpus"]

    assert size() == WHOLE
    create(lab, "batch", 2, "other")
    arrive(lab, "agent-1")
    assert size() == WHOLE + 100
    assert [group.agent_id for group in groups(lab, "batch", "other")] == ["agent-1"]
    lab.turn(AgentRemoved(agent_id="agent-1"))
    lab.wait(10.0)
    assert size() == 200
    assert [queue.allocated["cpus"] for queue in tree.queues["root.work.batch"].path] == [400] * 3


def test_room_that_is_offered_before_the_report_of_the_end_makes_no_agent_larger() -> None:
    lab = full()
    tree_of = the_tree(lab)
    lab.core.turn_context.pool.learn_totals(dict.fromkeys(agents(3), (WHOLE, 64000000)))
    (ending,) = [group for group in groups(lab, "batch") if group.agent_id == "agent-1"]
    create(lab, "batch", 1, "other")
    arrive(lab, "agent-1")
    assert tree_of.tree.nodes.by_name["agent-1"].total["cpus"] == WHOLE
    assert not groups(lab, "batch", "other")
    lab.report(ending, "FAILED")
    lab.wait(2.0)
    assert tree_of.tree.nodes.by_name["agent-1"].total["cpus"] == WHOLE
    there = [group for group in lab.core.state.taskgroups.values() if group.agent_id == "agent-1" and not group.ended]
    assert len(there) == 1 and there[0].id != ending.id


def test_critical_work_is_spared_while_other_work_ends() -> None:
    lab = Lab(options())
    lab.turn(PutPriorityClass(priority_class=PriorityClass(name="system-node-critical", value=0)))
    allowed = Namespace(name="batch", priority_classes=("system-node-critical",))
    lab.turn(requests.PutNamespace(namespace=allowed))
    for name, named in (("plain", ""), ("vital", "system-node-critical")):
        origin: Any = "class" if named else ""
        create(lab, "batch", 3, name, max_unavailable=3, priority_class=named, priority_from=origin)
        arrive(lab, *(f"{name}-{agent}" for agent in agents(3)))
    run(lab)
    create(lab, "online", 3)
    for _ in range(4):
        lab.wait(20.0)
    leaving = [group for group in lab.core.state.taskgroups.values() if group.killing_since]
    assert leaving and {group.name.rpartition("-")[0] for group in leaving} == {"plain"}


def test_a_queue_with_its_guarantee_preempts_nothing_more() -> None:
    lab = Lab(options())
    create(lab, "batch", 6, max_unavailable=6)
    arrive(lab, *agents(6))
    run(lab)
    create(lab, "online", 6)
    for _ in range(4):
        lab.wait(20.0)
    assert sum(bool(group.killing_since) for group in groups(lab, "batch")) == 3


def test_a_gang_starts_whole_and_leaves_its_room_to_others_before() -> None:
    lab = Lab(options())
    create(lab, "batch", 4, "gang", min_available=4)
    create(lab, "batch", 2, "small")
    arrive(lab, *agents(3))
    assert not groups(lab, "batch", "gang") and len(groups(lab, "batch", "small")) == 2
    arrive(lab, *(f"more-{number}" for number in range(4)))
    assert len(groups(lab, "batch", "gang")) == 4


def test_constraints_and_settings_of_agents_hold() -> None:
    lab = Lab(options())
    lab.turn(requests.SetAgent(agent="agent-1", disabled=True))
    create(lab, "batch", 1)
    arrive(lab, "agent-1")
    assert not groups(lab, "batch")
    lab.turn(requests.SetAgent(agent="agent-1", disabled=False))
    lab.wait(2.0)
    assert len(groups(lab, "batch")) == 1


def test_few_taskgroups_wait_for_a_part_of_the_period_and_many_for_the_whole() -> None:
    lab = Lab(options())
    arrive(lab, *agents(8))
    create(lab, "batch", 1)
    lab.wait(2.0)
    run(lab)
    create(lab, "batch", 1, "second")
    create(lab, "batch", 1, "third")
    assert not groups(lab, "batch", "third")
    assert lab.core.next_wakeup(lab.now) == pytest.approx(lab.now + 0.05)
    create(lab, "small", FULL_PAUSE, "many")
    lab.wait(0.05)
    assert len(groups(lab, "batch", "third")) == 1
    create(lab, "batch", 1, "fourth")
    lab.wait(0.45)
    assert not groups(lab, "batch", "fourth")
    lab.wait(0.1)
    assert len(groups(lab, "batch", "fourth")) == 1


def test_a_gang_that_cannot_fit_is_not_attempted_and_others_get_the_room(monkeypatch: pytest.MonkeyPatch) -> None:
    lab = Lab(options())
    create(lab, "batch", 40, min_available=40)
    create(lab, "batch", 2, "second")
    placed: list[str] = []
    cycle = Tree.cycle

    def recorded(tree: Tree) -> Allocation | None:
        made = cycle(tree)
        placed.extend([made.ask.application] if made is not None else [])
        return made

    monkeypatch.setattr(Tree, "cycle", recorded)
    arrive(lab, *agents(4))
    assert not groups(lab, "batch")
    assert len(groups(lab, "batch", "second")) == 2
    # One task shows that the gang has its turn; the bound refuses the others.
    assert placed.count("batch/web") <= 2


def test_other_policies_do_not_change() -> None:
    lab = Lab(replace(options(), hierarchy=None))
    create(lab, "small", 4)
    arrive(lab, *agents(5))
    assert len(groups(lab, "small")) == 4


def figures(tree_of: RoleTree) -> Any:
    tree = tree_of.tree
    return (
        {name: {k: v for k, v in queue.allocated.items() if v} for name, queue in tree.queues.items()},
        {name: {k: v for k, v in queue.pending.items() if v} for name, queue in tree.queues.items()},
        {node.name: {k: v for k, v in node.free.items() if v} for node in tree.nodes},
        {name: (one.queue, set(one.asks), set(one.allocations)) for name, one in tree.applications.items()},
    )


@pytest.mark.parametrize(
    ("portion", "step"), ((hierarchical.PORTION, role_snapshots.STEP), (2, role_snapshots.STEP), (2, 1))
)
@pytest.mark.parametrize("seed", check_few(range(12), 3, always=4))
def test_the_kept_tree_equals_one_that_is_made_from_nothing(
    monkeypatch: pytest.MonkeyPatch, seed: int, portion: int, step: int
) -> None:
    """`step`: number of changes that are taken over at once."""
    import random

    from tests.unit.core.placement.test_session_snapshots import Steps

    monkeypatch.setattr(hierarchical, "PORTION", portion)
    monkeypatch.setattr(role_snapshots, "STEP", step)
    monkeypatch.setattr(trees, "STEP", step)
    steps = Steps(random.Random(seed), options())
    for _ in range(40):
        if portion == 2:  # several changes within one decision
            for _ in range(steps.chance.randint(0, 4)):
                steps.chance.choice(steps.steps)()
        steps()
        placing = steps.lab.core._offer_manager.placing.loops[0].engine
        assert isinstance(placing, Hierarchical)
        for role, kept in placing.trees.roles.items():
            snapshot = placing._inputs.snapshots._roles[role]._snapshot
            kept.follow(snapshot, (), (), Terms())
            source, always = Records(steps.lab.core.turn_context), THOUSANDTHS.names[:2]
            fresh = RoleTree(placing.trees.partition, placing.trees.halts, source, always)
            fresh.follow(snapshot, snapshot.rank, snapshot.jobs, Terms())
            assert figures(kept) == figures(fresh)


def followed(present: int, instances: int) -> tuple[Lab, Hierarchical]:
    """So many agents with an application, which the tree has taken over."""
    lab = Lab(options())
    arrive(lab, *agents(present))
    create(lab, "batch", instances)
    lab.wait(2.0)
    engine = lab.core._offer_manager.placing.loops[0].engine
    assert isinstance(engine, Hierarchical)
    engine.follow()
    return lab, engine


def test_an_agent_that_is_gone_leaves_the_tree_with_its_last_taskgroup() -> None:
    lab, engine = followed(2, 1)
    (used,) = {group.agent_id for group in groups(lab, "batch")}
    ((role, tree_of),) = engine.trees.roles.items()
    present = engine._inputs.snapshots.changes(role, is_new=False).snapshot
    left = [agent for agent in present.agents if agent.name != used]
    tree_of.follow(Snapshot(left, (), present.jobs.values(), plain=True), [used], (), Terms(), partly=True)
    assert used in tree_of.tree.nodes.by_name
    tree_of.follow(Snapshot(left, (), (), plain=True), (), list(present.jobs), Terms())
    assert used not in tree_of.tree.nodes.by_name


def launches(lab: Lab, instances: int, **fields: Any) -> list[tuple[str, str]]:
    """Names and agents of the taskgroups that two applications launch on four agents. Each agent takes all its launches
    at once."""
    create(lab, "batch", instances, **fields)
    create(lab, "online", instances)
    sent = lab.turn(leased.OffersArrived(offers=tuple(lab.make_offer(agent, cpus=900) for agent in agents(4))))
    for _ in range(4):
        sent += lab.wait(0.5)
    used = [one.agent_id for one in sent if isinstance(one, LaunchOnAgent)]
    assert len(used) == len(set(used))
    return sorted((group.name, group.agent_id) for group in lab.core.state.taskgroups.values())


@pytest.fixture
def portions(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Numbers of places of each run of the tree."""
    found: list[int] = []
    honest = RoleTree.run

    def spied(tree: RoleTree, *arguments: Any) -> list[tuple[str, str, str]]:
        made = honest(tree, *arguments)
        found.append(len(made))
        return made

    monkeypatch.setattr(RoleTree, "run", spied)
    return found


def test_a_decision_about_many_goes_on_in_the_next_turns(monkeypatch: pytest.MonkeyPatch, portions: list[int]) -> None:
    at_once = launches(Lab(options()), 8)
    assert len(at_once) == max(portions) == 16
    portions.clear()
    monkeypatch.setattr(hierarchical, "PORTION", 3)
    assert launches(Lab(options()), 8) == at_once
    assert max(portions) == 3 and sum(portions) == 16


def test_a_gang_is_decided_whole_in_a_decision_of_portions(
    monkeypatch: pytest.MonkeyPatch, portions: list[int]
) -> None:
    monkeypatch.setattr(hierarchical, "PORTION", 3)
    assert len(launches(Lab(options()), 8, min_available=8)) == 16
    assert 8 <= max(portions) < 16


@pytest.fixture
def follows(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """An entry for each time that a tree has followed the records."""
    found: list[str] = []
    honest = RoleTree.follow

    def spied(tree: RoleTree, *arguments: Any) -> int:
        found.append("follow")
        return honest(tree, *arguments)

    monkeypatch.setattr(RoleTree, "follow", spied)
    monkeypatch.setattr(hierarchical, "FOLLOWED", float("inf"))
    return found


def crowd(lab: Lab, *, cpus: int = 900, **fields: Any) -> None:
    """Two applications of eight, of which one portion has been decided on four agents."""
    create(lab, "batch", 8, **fields)
    create(lab, "online", 8)
    first, *rest = agents(4)
    offers = [lab.make_offer(first, cpus=cpus), *(lab.make_offer(agent, cpus=900) for agent in rest)]
    lab.turn(leased.OffersArrived(offers=tuple(offers)))
    while not lab.core._offer_manager.placing.planning:
        lab.wait(max(lab.core.next_wakeup(lab.now) - lab.now, 0.001))
    assert not lab.core.state.taskgroups


def test_applications_do_not_wait_for_a_turn_in_which_no_agent_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    lab, engine = followed(8, 6)
    monkeypatch.setattr(role_snapshots, "STEP", 4)
    snapshot = engine._inputs.snapshots._roles["*"]
    snapshot.application_changed("batch/web")
    snapshot.touch("agent-0")
    assert snapshot.catch_up(lab.now)
    snapshot.touch("agent-0")
    assert not snapshot.catch_up(lab.now)


def test_figures_follow_when_nothing_has_been_decided_for_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    lab, looks = Lab(options()), list[float]()
    honest = Hierarchical.follow

    def spied(engine: Hierarchical) -> None:
        looks.append(lab.now)
        honest(engine)

    monkeypatch.setattr(Hierarchical, "follow", spied)
    arrive(lab, *agents(20))
    create(lab, "batch", 1)
    lab.wait(1.0)
    looks.clear()
    for number in range(12):
        create(lab, "online", 1, f"app-{number}")
        lab.wait(1.0)
        run(lab)
    assert not looks
    decided = lab.now
    for _ in range(8):
        lab.wait(1.0)
    (looked,) = looks
    assert 3.0 < looked - decided < 6.0
    engine = lab.core._offer_manager.placing.loops[0].engine
    assert isinstance(engine, Hierarchical)
    assert engine.trees.roles["*"].tree.queues["root.work.online"].allocated["cpus"] == 12 * 100


def test_portions_follow_the_records_once(monkeypatch: pytest.MonkeyPatch, follows: list[str]) -> None:
    monkeypatch.setattr(hierarchical, "PORTION", 3)
    lab = Lab(options())
    crowd(lab)
    follows.clear()
    lab.wait(0.1)
    assert len(lab.core.state.taskgroups) == 16
    assert not follows


def test_portions_know_the_resources_that_queues_do_not_count(
    monkeypatch: pytest.MonkeyPatch, follows: list[str]
) -> None:
    monkeypatch.setattr(hierarchical, "PORTION", 1)
    lab = Lab(options())
    container = Container(command="serve", requests=Resources(cpus=100, mem=32_000, disk=30_000_000))
    crowd(lab, cpus=16_000, containers=(container,))  # disk for two on each; the first agent has the most cores
    follows.clear()
    lab.wait(0.1)
    assert len(lab.core.state.taskgroups) == 16
    assert not follows
    assert sorted(Counter(group.agent_id for group in groups(lab, "batch")).values()) == [2, 2, 2, 2]


@pytest.mark.parametrize("change", ("application", "offer", "rescinded", "deleted", "queue"))
def test_portions_follow_a_change_in_between(monkeypatch: pytest.MonkeyPatch, follows: list[str], change: str) -> None:
    monkeypatch.setattr(hierarchical, "PORTION", 3)
    lab = Lab(options(), [Queue(name="default"), Queue(name="few")])
    crowd(lab)
    follows.clear()
    wanted = 16
    match change:
        case "application":
            create(lab, "default", 2)
            wanted += 2
        case "offer":
            lab.offer("agent-9", cpus=900)
        case "rescinded":
            lab.turn(leased.OfferRescinded(offer_id="o1"))
            wanted -= 1  # the slot that was planned there waits for other offers
        case "deleted":
            lab.turn(requests.DeleteApplication(namespace="batch", name="web", enforce=True))
            wanted -= 8
        case _:
            assert not lab.ask(requests.PutNamespace(namespace=Namespace(name="batch", queue="few"))).error
    lab.wait(3.0)
    assert follows
    alive = [group for group in lab.core.state.taskgroups.values() if not group.ended]
    assert len(alive) == wanted
    assert all(group.agent_id != agents(4)[0] for group in alive) or change != "rescinded"


def crowded() -> Lab:
    """24 taskgroups of eight applications run on six agents."""
    lab = Lab(options())
    for number in range(8):
        create(lab, "batch", 3, f"old-{number}")
    lab.turn(leased.OffersArrived(offers=tuple(lab.make_offer(agent, cpus=900) for agent in agents(6))))
    lab.wait(2.0)
    for group in list(lab.core.state.taskgroups.values()):
        lab.report(group, "RUNNING")
    return lab


def begun(before: Lab, pace: TimeBudget) -> tuple[Lab, list[tuple[str, str]]]:
    """A term that begins with the records of another lab, and a launch in it. Returns the lab, and names and agents of
    the new taskgroups."""
    lab = Lab(options(), before.records(), before.now)
    assert len(lab.core.state.taskgroups) == 24
    create(lab, "online", 4)
    batch: list[Any] = [leased.OffersArrived(offers=tuple(lab.make_offer(agent, cpus=300) for agent in agents(6)))]
    for _ in range(400):
        lab.core.turn(batch, lab.now, pace)
        batch = []
        lab.now = min(max(lab.core.next_wakeup(lab.now), lab.now + 0.001), lab.now + 0.1)
    return lab, sorted((group.name, group.agent_id) for group in groups(lab, "online"))


def test_a_term_begins_in_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first decision, and the first figures, read everything that runs: a few objects in each turn."""
    before = crowded()
    _, at_once = begun(before, UNLIMITED)
    assert len(at_once) == 4
    monkeypatch.setattr(role_snapshots, "STEP", 3)
    monkeypatch.setattr(trees, "STEP", 3)
    looked_at: list[int] = []
    honest = RoleTree.follow

    def spied(tree: RoleTree, snapshot: Any, names: Iterable[str], jobs: Iterable[str], *rest: Any, **how: Any) -> int:
        jobs = list(jobs)
        looked_at.append(sum(len(snapshot.jobs[name].tasks) for name in jobs if name in snapshot.jobs))
        return honest(tree, snapshot, names, jobs, *rest, **how)

    monkeypatch.setattr(RoleTree, "follow", spied)
    lab, in_steps = begun(before, Spent())
    assert in_steps == at_once
    assert max(looked_at) <= 7 < sum(looked_at)  # the four that wait, and an application
    tree_of = the_tree(lab)
    assert sum(len(one.allocations) for one in tree_of.tree.applications.values()) == 28


def test_every_application_names_the_queue_that_holds_it_back() -> None:
    """Applications that are alike for the matcher, too."""
    lab = Lab(options())
    for name in ("a", "b", "c"):
        create(lab, "small", 3, name)
    lab.turn(leased.OffersArrived(offers=tuple(lab.make_offer(agent, cpus=900) for agent in agents(4))))
    lab.wait(3.0)
    found = [lab.core.diagnosis(one.id) for one in lab.core.state.transactions.values() if one.active]
    assert len(found) == 3
    assert [one.held_back.queue for one in found if one is not None and one.held_back is not None] == ["root.small"] * 3


def test_a_dry_run_that_ends_a_taskgroup_leaves_no_trace() -> None:
    lab = full(3, max_unavailable=3)
    for group in groups(lab, "batch"):
        lab.turn(requests.RescheduleTaskGroup(taskgroup=group.id, dry_run=True))
        lab.wait(5.0)
    create(lab, "online", 1)
    assert preempting(lab).namespace == "batch"


@pytest.mark.parametrize("gang", (1, 3))
def test_a_decision_that_fails_is_made_again_without_traces(gang: int, monkeypatch: pytest.MonkeyPatch) -> None:
    lab = full(6, Lab(replace(options(), strict=False)), max_unavailable=6)
    honest, fails = reschedule.evict, [True]

    def evict(*arguments: Any, **fields: Any) -> Transaction:
        if fails:
            raise RuntimeError("nothing can be ended")
        return honest(*arguments, **fields)

    monkeypatch.setattr(reschedule, "evict", evict)
    create(lab, "online", 3, min_available=gang)
    for _ in range(4):
        lab.wait(5.0)
    assert ending(lab) == []
    fails.clear()
    lab.turn(requests.ScaleApplication(namespace="online", name="web", instances=4, dry_run=True))
    lab.turn(requests.CreateApplication(version=msgspec.structs.replace(version(1), namespace="few"), dry_run=True))
    for _ in range(14):
        lab.wait(5.0)
    assert len(ending(lab)) == 3
