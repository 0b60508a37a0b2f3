"""Daemonsets: one taskgroup on every agent for them, whatever agents, taskgroups and leaders do."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from bcs_scheduler.core.interface import cluster_manager, requests
from bcs_scheduler.core.options import CoreOptions
from offers.agents import ListedAgent
from store.records import Version
from store.records.definition import Constraint, RestartPolicy, Toleration, UnreachablePolicy
from tests.unit.agentlab import Cluster, record
from tests.unit.lab import KEY, Lab, version
from transactions.base import Options, Periods
from transactions.rules.lifecycle import is_ready_or_finished


def running(agents: int = 3, bound: int = 1, **fields: Any) -> Cluster:
    lab = Cluster(agents)
    reply = lab.begin(bound, **fields)
    assert not reply.error
    lab.settle()
    assert lab.daemonset.status == "Running"
    return lab


ALWAYS = RestartPolicy(policy="Always")
ZONE = ((Constraint(name="zone", operator="CLUSTER", items=("z1",)),),)


def test_every_agent_gets_one() -> None:
    lab = running(4)
    assert sorted(lab.places) == ["a0", "a1", "a2", "a3"]
    assert [group.index for group in lab.groups] == [0, 1, 2, 3]
    assert lab.application.instances == 4
    assert lab.transaction("LAUNCH").status == "FINISH"


def test_one_pass_places_no_two_on_one_agent() -> None:
    lab = Cluster(3)
    lab.begin()
    lab.offers()
    assert sorted(lab.places) == ["a0", "a1", "a2"]


def test_nothing_is_decided_before_the_agents_are_listed() -> None:
    lab = running(2)
    successor = lab.succeed()
    successor.turn()
    assert successor.application.instances == 2
    assert len(successor.groups) == 2
    successor.list()
    assert successor.application.instances == 2


def test_an_agent_that_joins_gets_one() -> None:
    lab = running(1)
    lab.join("late")
    assert lab.application.instances == 2
    assert lab.daemonset.status == "Starting"
    lab.settle()
    assert sorted(lab.places) == ["a0", "late"]
    assert lab.daemonset.status == "Running"


def test_the_list_is_asked_for_while_there_are_daemonsets() -> None:
    lab = Cluster(1)
    assert not [e for e in lab.wait(30) if isinstance(e, cluster_manager.ListAgents)]
    lab.begin()
    asked = [e for e in lab.wait(30) if isinstance(e, cluster_manager.ListAgents)]
    assert 6 <= len(asked) <= 7


def test_no_agent_is_for_it() -> None:
    lab = Cluster(2)
    lab.begin(constraints=ZONE)
    lab.settle()
    assert lab.application.instances == 0
    assert not lab.groups
    assert (lab.daemonset.status, lab.daemonset.message) == ("Running", "no agent is for it")


def test_attributes_decide_also_those_that_operators_set() -> None:
    lab = Cluster()
    lab.join("in", zone="z1")
    lab.join("out", zone="z2")
    lab.begin(constraints=ZONE)
    lab.settle()
    assert sorted(lab.places) == ["in"]
    lab.set_agent("out", strings={"zone": "z1"})
    lab.settle()
    assert sorted(lab.places) == ["in", "out"]
    lab.set_agent("out", strings={})
    assert lab.on("out").killing_since
    lab.settle()
    assert sorted(lab.places) == ["in"]
    assert lab.application.instances == 1
    assert not [t for t in lab.core.state.transactions.values() if t.type == "RESCHEDULE"]


def test_taints_need_tolerations() -> None:
    lab = Cluster(2)
    lab.set_agent("a1", taints={"dedicated": "db"})
    lab.begin()
    lab.settle()
    assert sorted(lab.places) == ["a0"]
    assert lab.application.instances == 1
    lab.change(tolerations=(Toleration(key="dedicated", value="db"),))
    lab.settle()
    assert sorted(lab.places) == ["a0", "a1"]


def test_a_taint_ends_nothing_and_lets_nothing_new_in() -> None:
    lab = running(2, restart_policy=ALWAYS)
    lab.set_agent("a1", taints={"dedicated": "db"})
    lab.settle()
    assert sorted(lab.places) == ["a0", "a1"]
    lab.change(labels={"revision": "2"})
    lab.settle()
    assert lab.on("a0").version == lab.application.version
    assert lab.on("a1").version != lab.application.version, "nothing could take its place"
    told = (lab.daemonset.status, lab.daemonset.message)
    assert told == ("Running", "1 taskgroup of an older version on agents that take nothing new")
    lab.report(lab.on("a1"), "FAILED")
    lab.settle()
    assert sorted(lab.places) == ["a0"]


def test_a_disabled_agent_keeps_its_own_and_gets_no_new_one() -> None:
    lab = running(2, restart_policy=ALWAYS)
    lab.set_agent("a1", disabled=True)
    lab.settle()
    assert sorted(lab.places) == ["a0", "a1"]
    lab.report(lab.on("a1"), "FAILED")
    lab.settle()
    assert sorted(lab.places) == ["a0"]
    assert lab.application.instances == 1
    lab.set_agent("a1", disabled=False)
    lab.settle()
    assert sorted(lab.places) == ["a0", "a1"]


def test_what_does_not_fit_stays_pending_and_is_explained() -> None:
    lab = Cluster(2)
    lab.begin()
    lab.offer("a0")
    lab.offer("a1", cpus=10)
    assert sorted(lab.places) == ["a0"]
    assert lab.daemonset.message == "1 agent without a taskgroup"
    diagnosis = lab.core.diagnosis(lab.transaction("LAUNCH").id)
    assert diagnosis is not None
    assert diagnosis.reasons == {"cpus": 1}
    lab.wait(3600)
    assert lab.transaction("LAUNCH").status == "INIT"
    lab.settle()
    assert sorted(lab.places) == ["a0", "a1"]


def test_what_does_not_fit_for_long_is_tried_again() -> None:
    lab = Cluster(1, options=CoreOptions(transactions=Options(periods=Periods(inner_reschedule=60)), strict=True))
    lab.begin()
    first = lab.transaction("LAUNCH")
    lab.wait(61)
    assert lab.core.state.transactions[first.id].status == "TIMEOUT"
    again = lab.transaction("LAUNCH")
    assert again.active
    lab.settle()
    assert list(lab.places) == ["a0"]


def test_a_failed_one_is_restarted_on_its_agent_and_nowhere_else() -> None:
    lab = running(2, restart_policy=RestartPolicy(policy="OnFailure", interval=10))
    lab.join("a2")
    old = lab.on("a1")
    lab.report(old, "FAILED")
    lab.offer("a0")
    lab.offer("a2")
    assert lab.daemonset.status == "Abnormal"
    lab.wait(11)
    assert sorted(lab.places) == ["a0", "a1", "a2"]
    assert lab.on("a1").id == old.id
    lab.offer("a0")
    assert lab.on("a1").id == old.id
    lab.offer("a1")
    assert lab.on("a1").id != old.id
    assert lab.on("a1").index == old.index
    assert lab.on("a1").restarts == 1


@pytest.mark.parametrize(("policy", "state"), [("Never", "FAILED"), ("OnFailure", "FINISHED")])
def test_one_that_its_policy_leaves_ended_is_not_launched_again(policy: str, state: str) -> None:
    lab = running(2, restart_policy=RestartPolicy(policy=policy))  # type: ignore[arg-type]
    ended = lab.on("a1")
    lab.report(ended, state)
    lab.wait(100)
    lab.settle()
    assert lab.on("a1").id == ended.id
    assert lab.application.instances == 2


def test_one_out_of_reach_is_never_doubled() -> None:
    lab = running(2, unreachable_policy=UnreachablePolicy(replace_after=60.0))
    old = lab.on("a1")
    lab.report(old, "UNREACHABLE")
    lab.offers()
    lab.wait(120)
    lab.offers()
    assert lab.on("a1").id == old.id, "it may come back with its agent, which is listed"
    lab.report(old, "RUNNING")
    lab.settle()
    assert lab.on("a1").id == old.id
    assert lab.daemonset.status == "Running"


def test_an_agent_that_stays_away_is_given_up_and_its_taskgroup_killed_if_it_returns() -> None:
    lab = running(2, unreachable_policy=UnreachablePolicy(replace_after=60.0))
    old = lab.on("a1")
    lab.report(old, "UNREACHABLE")
    lab.leave("a1")
    lab.wait(30)
    assert lab.application.instances == 2
    assert lab.daemonset.status == "Abnormal"
    lab.wait(40)
    assert lab.application.instances == 1
    assert lab.daemonset.status == "Running"
    lab.join("a1")
    lab.offers()
    assert lab.on("a1").id == old.id, "the place is not free until it is certain that the old one has ended"
    lab.report(old, "RUNNING")
    lab.wait(60)
    lab.settle()
    assert lab.on("a1").id != old.id
    assert lab.daemonset.status == "Running"


def test_what_has_ended_on_an_agent_that_is_gone_is_forgotten() -> None:
    lab = running(2, restart_policy=ALWAYS)
    lab.leave("a1")
    lab.report(lab.on("a1"), "GONE")
    lab.wait(100)
    assert sorted(lab.places) == ["a0", "a1"], "after a change of masters agents need time to register again"
    lab.wait(900)
    assert sorted(lab.places) == ["a0"]
    assert lab.application.instances == 1


@pytest.mark.rotating
@pytest.mark.slow
def test_nothing_is_forgotten_that_its_agent_has_not_brought_back_for_a_day() -> None:
    lab = running(2)
    lab.report(lab.on("a1"), "UNREACHABLE")
    lab.leave("a1")
    lab.wait(86_000)
    assert sorted(lab.places) == ["a0", "a1"]
    lab.wait(1000)
    assert sorted(lab.places) == ["a0"]


def ready(lab: Cluster) -> int:
    return sum(map(is_ready_or_finished, lab.groups))


def steps(lab: Cluster, worst: list[int]) -> Iterator[None]:
    """Ends and starts one taskgroup after the other; notes how many were not ready."""
    for _ in range(400):
        if lab.transaction("UPDATE").status != "INIT":
            return
        ending = [g for g in lab.groups if g.killing_since and not g.ended]
        staged = [g for g in lab.groups if not g.started and not g.ended]
        for group in ending[:1]:
            lab.report(group, "KILLING")
            worst.append(lab.application.instances - ready(lab))
            lab.report(group, "KILLED")
        for group in staged[:1]:
            lab.report(group, "RUNNING")
        worst.append(lab.application.instances - ready(lab))
        lab.offers()
        yield


@pytest.mark.parametrize("bound", [1, 3])
def test_an_update_stays_within_its_bound_and_on_the_same_agents(bound: int) -> None:
    lab = running(7, bound)
    before = {agent: (group.index, group.id) for agent, group in lab.places.items()}
    reply = lab.change(bound, labels={"revision": "2"})
    assert reply.data["opType"] == "UPDATE"
    worst: list[int] = []
    for _ in steps(lab, worst):
        assert lab.places
    assert lab.transaction("UPDATE").status == "FINISH"
    assert max(worst) == bound
    assert {agent: group.index for agent, group in lab.places.items()} == {a: i for a, (i, _) in before.items()}
    assert all(group.version == lab.application.version for group in lab.groups)
    lab.settle()
    assert lab.daemonset.status == "Running"


def test_an_update_goes_on_under_another_leader() -> None:
    lab = running(4)
    lab.change(labels={"revision": "2"})
    worst: list[int] = []
    for _ in range(20):
        if lab.transaction("UPDATE").status != "INIT":
            break
        next(steps(lab, worst), None)
        lab = lab.succeed()
        lab.list()
    assert lab.transaction("UPDATE").status == "FINISH"
    assert max(worst) == 1
    assert all(group.version == lab.application.version for group in lab.groups)


def test_an_update_whose_taskgroups_fail_takes_no_more_down() -> None:
    lab = running(4)
    lab.change(labels={"revision": "2"})
    for _ in range(10):
        lab.offers()
        for group in lab.groups:
            if group.killing_since and not group.ended:
                lab.report(group, "KILLED")
            elif not group.started and not group.ended:
                lab.report(group, "FAILED")
        lab.wait(1)
    assert ready(lab) == 3
    assert lab.daemonset.status == "Updating"
    reply = lab.ask(requests.RollbackDaemonset(namespace="default", name="web"))
    assert not reply.error
    for _ in range(20):
        lab.wait(10)
        lab.settle()
    assert ready(lab) == 4
    assert lab.daemonset.status == "Running"


def test_an_update_leaves_what_it_could_not_replace_for_later() -> None:
    lab = running(3)
    lab.set_agent("a2", disabled=True)
    lab.change(labels={"revision": "2"})
    lab.settle()
    update = lab.transaction("UPDATE")
    assert update.status == "FINISH"
    assert "1 stay as they are" in update.message
    assert lab.on("a2").version != lab.application.version
    lab.set_agent("a2", disabled=False)
    assert lab.transaction("UPDATE").id != update.id
    lab.settle()
    assert lab.on("a2").version == lab.application.version


def test_agents_join_while_it_is_updated() -> None:
    lab = running(2)
    lab.change(labels={"revision": "2"})
    lab.join("a2")
    lab.settle()
    assert sorted(lab.places) == ["a0", "a1", "a2"]
    assert {group.version for group in lab.groups} == {lab.application.version}


def test_a_restart_replaces_all_with_the_same_definition() -> None:
    lab = running(3)
    before = {group.id for group in lab.groups}
    versions = lab.core.state.versions_of(KEY)
    assert not lab.ask(requests.RestartDaemonset(namespace="default", name="web")).error
    lab.settle()
    assert not before & {group.id for group in lab.groups}
    one, other = versions.values()
    assert msgspec.structs.replace(one, name="", created_at=0) == msgspec.structs.replace(other, name="", created_at=0)


def test_roll_back() -> None:
    lab = running(1, labels={"revision": "1"})
    first = lab.application.version
    assert lab.ask(requests.RollbackDaemonset(namespace="default", name="web")).error == "conflict"
    lab.change(labels={"revision": "2"})
    lab.settle()
    lab.ask(requests.RollbackDaemonset(namespace="default", name="web", version=first))
    lab.settle()
    now = lab.core.state.version(KEY, lab.on("a0").version)
    assert isinstance(now, Version)
    assert now.labels == {"revision": "1"}
    assert lab.ask(requests.RollbackDaemonset(namespace="default", name="web", version="7")).error == "not_found"


def test_the_same_definition_changes_nothing_but_the_bound() -> None:
    lab = running(2)
    assert lab.change().data["unchanged"]
    assert not lab.change(bound=2).data["unchanged"]
    assert lab.daemonset.max_unavailable == 2
    assert not [t for t in lab.core.state.transactions.values() if t.type == "UPDATE"]


def test_a_request_replaces_one_on_its_agent() -> None:
    lab = running(2)
    old = lab.on("a0")
    assert not lab.ask(requests.RescheduleTaskGroup(taskgroup=old.id)).error
    lab.report(old, "KILLED")
    lab.offer("a1")
    assert sorted(lab.places) == ["a0", "a1"]
    lab.settle()
    assert lab.on("a0").id != old.id


def test_what_belongs_to_it_is_changed_through_it_only() -> None:
    lab = running(1)
    launch = lab.core.state.transactions[lab.transaction("LAUNCH").id]
    lab.join("a1")
    for command in (
        requests.ScaleApplication(namespace="default", name="web", instances=3),
        requests.UpdateApplication(version=version(labels={"revision": "2"})),
        requests.RollbackApplication(namespace="default", name="web"),
        requests.DeleteApplication(namespace="default", name="web"),
        requests.CancelTransaction(id=lab.transaction("LAUNCH").id),
    ):
        reply = lab.ask(command)
        assert (reply.error, "daemonset default/web" in reply.message) == ("conflict", True), command
    assert lab.transaction("LAUNCH").id != launch.id


def test_its_name_is_taken_for_applications_and_the_other_way_round() -> None:
    lab = running(1)
    assert lab.begin().error == "exists"
    assert lab.create().error == "exists"
    other = Lab()
    other.create()
    assert other.ask(requests.CreateDaemonset(daemonset=record(), version=version())).error == "exists"


def test_delete_ends_everything_and_forgets_it() -> None:
    lab = running(2)
    reply = lab.ask(requests.DeleteDaemonset(namespace="default", name="web"))
    assert reply.data["opType"] == "DELETE"
    assert lab.daemonset.status == "Deleting"
    assert lab.change(labels={"revision": "2"}).error == "conflict"
    lab.join("a2")
    lab.settle()
    assert not lab.core.state.daemonsets
    assert not lab.core.state.applications
    assert not lab.groups
    assert lab.ask(requests.DeleteDaemonset(namespace="default", name="web")).error == "not_found"


def test_delete_waits_for_an_agent_out_of_reach_unless_enforced() -> None:
    lab = running(2)
    lab.report(lab.on("a1"), "UNREACHABLE")
    lab.ask(requests.DeleteDaemonset(namespace="default", name="web"))
    lab.settle()
    assert list(lab.places) == ["a1"]
    lab.ask(requests.DeleteDaemonset(namespace="default", name="web", enforce=True))
    assert not lab.core.state.daemonsets


def test_a_new_leader_takes_up_a_delete() -> None:
    lab = running(1)
    lab.ask(requests.DeleteDaemonset(namespace="default", name="web"))
    lab = lab.succeed()
    lab.settle()
    assert not lab.core.state.daemonsets


def test_a_plan_changes_nothing() -> None:
    lab = Cluster(2)
    lab.offers()
    reply = lab.ask(requests.CreateDaemonset(daemonset=record(), version=version(), dry_run=True))
    assert not reply.error
    assert sorted(place["agent"] for place in reply.data["place"]) == ["a0", "a1"]
    assert not lab.core.state.daemonsets


def test_many_agents_do_not_make_a_report_expensive() -> None:
    lab = Cluster(options=CoreOptions(strict=True))
    for number in range(400):
        lab.listed[f"a{number}"] = ListedAgent(
            id=f"a{number}",
            hostname=f"h{number}",
            ip="10.0.0.1",
            attributes={"InnerIP": f"a{number}"},
            total={},
            active=True,
        )
    lab.list()
    lab.begin()
    lab.settle()
    lab.wait(1)
    assert len(lab.places) == 400
    assert lab.daemonset.status == "Running"


def test_what_has_ended_on_an_agent_that_is_not_for_it_is_forgotten_although_an_update_runs() -> None:
    """Updates that follow each other would otherwise keep the place of the agent for ever, if it is for it again."""
    lab = running(3)
    lab.change(labels={"new": "label"})
    assert lab.transaction("UPDATE").active
    agent = next(agent for agent, group in lab.places.items() if not group.killing_since)
    assert not lab.ask(requests.DrainAgent(agent=agent, daemonsets=True)).error
    lab.wait(2.0)
    assert lab.on(agent).killing_since
    lab.report(lab.on(agent), "KILLED")
    assert lab.transaction("UPDATE").active
    assert agent not in lab.places
