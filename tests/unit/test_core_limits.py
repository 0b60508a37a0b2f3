"""Limits changed in place: a new version without an update, and the running taskgroups are told."""

from __future__ import annotations

from typing import Any, Literal

from bcs_scheduler.core.interface import cluster_manager, effects, requests
from bcs_scheduler.core.options import CoreOptions
from store.records.definition import Amounts, Container, RestartPolicy
from tests.unit.lab import Lab, running, version


def containers(limit: int = 0, request: int = 100, command: str = "serve") -> tuple[Container, ...]:
    return (
        Container(command=command, requests=Amounts(cpus=request, mem=32_000), limits=Amounts(cpus=limit, mem=64_000)),
    )


def change(lab: Lab, instances: int = 2, *, dry_run: bool = False, **fields: Any) -> effects.Reply:
    wanted = version(instances, **fields)
    return lab.ask(requests.UpdateApplication(version=wanted, resources_only=True, dry_run=dry_run))


def test_running_taskgroups_are_moved_and_told() -> None:
    lab = running(2, containers=containers(200))
    ids = [group.id for group in lab.groups]
    reply = change(lab, containers=containers(400))
    assert reply.data["version"] == lab.application.version
    assert [message["taskgroup"] for message in reply.data["messages"]] == ids
    assert {group.version for group in lab.groups} == {lab.application.version}
    sent = lab.sent(cluster_manager.SendMessage)
    assert [m.type for m in sent] == ["resources", "resources"]
    assert sent[0].body == {"limits": [{"index": 0, "cpus": 400, "mem": 64_000}]}
    assert lab.application.status == "Running" and not lab.core.state.active_transactions()


def test_nothing_but_limits_changes_in_place() -> None:
    lab = running(2, containers=containers(200))
    reply = change(lab, containers=containers(400, request=200))
    assert reply.error == "invalid"
    assert reply.problems[0].path == "$.spec.template.spec.containers[0].resources.requests"
    assert change(lab, containers=containers(400, command="other")).error == "invalid"
    assert change(lab, 3, containers=containers(400)).problems[0].path == "$.spec.instance"
    assert len(lab.core.state.versions_of("default/web")) == 1


def test_the_same_limits_change_nothing() -> None:
    lab = running(2, containers=containers(200))
    assert change(lab, containers=containers(200)).data["unchanged"] is True
    assert not lab.core.state.commands


def test_what_cannot_be_told_keeps_the_version_whose_limits_it_has() -> None:
    lab = running(2, CoreOptions(strict=True), containers=containers(200))
    before = lab.application.version
    lab.report(lab.group(1), "UNREACHABLE")
    reply = change(lab, containers=containers(400))
    assert [message["status"] for message in reply.data["messages"]] == ["staging", "failed"]
    assert [group.version for group in lab.groups] == [lab.application.version, before]
    lab.report(lab.group(1), "RUNNING")
    again = change(lab, containers=containers(400))
    assert [message["taskgroup"] for message in again.data["messages"]] == [lab.group(1).id]
    assert {group.version for group in lab.groups} == {lab.application.version}


def test_the_replacement_of_what_has_ended_has_the_new_limits() -> None:
    policy = RestartPolicy(policy="OnFailure", interval=100.0)
    lab = running(1, containers=containers(200), restart_policy=policy)
    lab.report(lab.group(), "FAILED")
    reply = change(lab, 1, containers=containers(400), restart_policy=policy)
    assert reply.data["messages"] == []
    lab.wait(101)
    lab.offer()
    assert lab.group().version == lab.application.version and lab.group().status == "Staging"


def test_not_while_another_operation_is_at_work() -> None:
    lab = running(2, containers=containers(200))
    lab.update(2, containers=containers(200, command="other"))
    assert change(lab, containers=containers(400)).error == "conflict"


def test_a_plan_changes_nothing() -> None:
    lab = running(2, CoreOptions(strict=True, unit_changes=1), containers=containers(200))
    lab.offer()
    before = lab.application
    assert len(change(lab, containers=containers(400), dry_run=True).data["messages"]) == 2
    assert lab.application == before and not lab.core.state.commands
    assert len(lab.core.state.versions_of("default/web")) == 1


# --- executors that do not take them ----------------------------------------------------------------------------------


def answer(lab: Lab, index: int, status: Literal["running", "success", "failed"]) -> cluster_manager.MessageAnswered:
    (message,) = (m for m in lab.core.state.messages.values() if m.taskgroup == lab.group(index).id and m.open)
    return cluster_manager.MessageAnswered(
        agent_id=lab.group(index).agent_id, executor_id=message.taskgroup, message_id=message.id, status=status
    )


def test_one_that_fails_to_take_them_gets_its_version_back_and_is_told_again_on_request() -> None:
    lab = running(2, containers=containers(200))
    before = lab.application.version
    change(lab, containers=containers(400))
    lab.turn(answer(lab, 0, "success"), answer(lab, 1, "failed"))
    assert [group.version for group in lab.groups] == [lab.application.version, before]
    again = change(lab, containers=containers(400))
    assert [message["taskgroup"] for message in again.data["messages"]] == [lab.group(1).id]
    lab.turn(answer(lab, 1, "success"))
    assert change(lab, containers=containers(400)).data["unchanged"] is True


def test_one_that_is_silent_for_minutes_gets_its_version_back() -> None:
    lab = running(1, CoreOptions(strict=True, answer_timeout=30.0), containers=containers(200))
    before = lab.application.version
    change(lab, 1, containers=containers(400))
    sent = len(lab.sent(cluster_manager.SendMessage)) + sum(
        isinstance(e, cluster_manager.SendMessage) for e in lab.wait(89)
    )
    assert sent == 5  # after 0, 5, 15, 35 and 75 s
    assert lab.group().version == lab.application.version
    lab.wait(2)
    (message,) = lab.core.state.messages.values()
    assert (message.status, message.message) == ("failed", "no answer from the executor within 1m30s")
    assert lab.group().version == before
    assert len(change(lab, 1, containers=containers(400)).data["messages"]) == 1


def test_a_long_answer_timeout_bridges_minutes_without_its_executor() -> None:
    lab = running(1, CoreOptions(strict=True, answer_timeout=600.0), containers=containers(200))
    change(lab, 1, containers=containers(400))
    assert (
        sum(isinstance(e, cluster_manager.SendMessage) for e in lab.wait(400)) == 9
    )  # 5, 15, 35, 75 s, then every 60 s
    group = lab.group()
    lab.turn(cluster_manager.TasksReported(agent_id=group.agent_id, executor_id=group.id, tasks=()))
    assert len(lab.sent(cluster_manager.SendMessage)) == 1
    lab.turn(answer(lab, 0, "success"))
    lab.wait(300)
    assert next(iter(lab.core.state.messages.values())).status == "success"
    assert lab.group().version == lab.application.version


def test_a_later_change_is_not_undone_by_the_failure_of_an_earlier_one() -> None:
    lab = running(1, containers=containers(200))
    change(lab, 1, containers=containers(400))
    earlier = answer(lab, 0, "failed")
    change(lab, 1, containers=containers(800))
    lab.turn(earlier)
    assert lab.group().version == lab.application.version


def test_earlier_limits_are_not_sent_again_after_later_ones() -> None:
    lab = running(1, containers=containers(200))
    first = change(lab, 1, containers=containers(400)).data["messages"][0]["messageID"]
    change(lab, 1, containers=containers(800))
    assert lab.core.state.messages[first].status == "failed"
    assert lab.core.state.messages[first].message == "limits were changed again before the executor answered"
    again = [effect for effect in lab.wait(30) if isinstance(effect, cluster_manager.SendMessage)]
    assert again and {effect.body["limits"][0]["cpus"] for effect in again} == {800}


def test_other_messages_of_the_taskgroup_go_on() -> None:
    lab = running(1, containers=containers(200))
    lab.ask(requests.CreateCommand(namespace="default", name="web", type="signal", body={"signal": 1}))
    change(lab, 1, containers=containers(400))
    assert [message.status for message in lab.core.state.messages.values()] == ["staging", "staging"]


def test_forgetting_a_command_that_is_under_way_gives_the_version_back() -> None:
    lab = running(1, containers=containers(200))
    before = lab.application.version
    command = change(lab, 1, containers=containers(400)).data["commandID"]
    lab.ask(requests.DeleteCommand(id=command))
    assert lab.group().version == before


def test_the_replacement_of_one_that_ended_before_it_was_told_has_the_new_limits() -> None:
    lab = running(1, containers=containers(200))
    change(lab, 1, containers=containers(400))
    lab.report(lab.group(), "FAILED")
    lab.wait(30)
    lab.offer()
    lab.wait(5)
    assert lab.group().status == "Staging" and lab.group().version == lab.application.version


def test_requests_that_the_document_leaves_out_stay() -> None:
    """As in the original: a document with limits only raises them in place."""
    lab = running(1, containers=containers(100))
    before = lab.group().id
    wanted = version(1, containers=containers(400, request=400))
    left_out = (frozenset({"cpus", "mem", "disk", "gpus"}),)
    reply = lab.ask(requests.UpdateApplication(version=wanted, resources_only=True, requests_left_out=left_out))
    assert reply.error == "" and lab.group().id == before
    newest = lab.core.state.version("default/web", lab.application.version)
    assert newest is not None
    (container,) = newest.containers
    assert (container.requests.cpus, container.limits.cpus) == (100, 400)
    low = version(1, containers=containers(50, request=50))
    reply = lab.ask(requests.UpdateApplication(version=low, resources_only=True, requests_left_out=left_out))
    assert reply.problems[0].path == "$.spec.template.spec.containers[0].resources.limits"
