"""Limits changed in place: a new version without an update, and the running taskgroups are told."""

from __future__ import annotations

from typing import Any

from bcs_scheduler.core import effects, events
from bcs_scheduler.core.desk import CoreOptions
from store.definition import Amounts, Container, RestartPolicy
from tests.unit.lab import Lab, running, version


def containers(limit: int = 0, request: int = 100, command: str = "serve") -> tuple[Container, ...]:
    return (
        Container(command=command, requests=Amounts(cpus=request, mem=32_000), limits=Amounts(cpus=limit, mem=64_000)),
    )


def change(lab: Lab, instances: int = 2, *, dry_run: bool = False, **fields: Any) -> effects.Reply:
    wanted = version(instances, **fields)
    return lab.ask(events.UpdateApplication(version=wanted, resources_only=True, dry_run=dry_run))


def test_running_taskgroups_are_moved_and_told() -> None:
    lab = running(2, containers=containers(200))
    ids = [group.id for group in lab.groups]
    reply = change(lab, containers=containers(400))
    assert reply.data["version"] == lab.application.version
    assert [message["taskgroup"] for message in reply.data["messages"]] == ids
    assert {group.version for group in lab.groups} == {lab.application.version}
    sent = lab.sent(effects.SendMessage)
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
    lab.report(lab.group(1), "TASK_UNREACHABLE")
    reply = change(lab, containers=containers(400))
    assert [message["status"] for message in reply.data["messages"]] == ["staging", "failed"]
    assert [group.version for group in lab.groups] == [lab.application.version, before]
    lab.report(lab.group(1), "TASK_RUNNING")
    again = change(lab, containers=containers(400))
    assert [message["taskgroup"] for message in again.data["messages"]] == [lab.group(1).id]
    assert {group.version for group in lab.groups} == {lab.application.version}


def test_the_replacement_of_what_has_ended_has_the_new_limits() -> None:
    policy = RestartPolicy(policy="OnFailure", interval=100.0)
    lab = running(1, containers=containers(200), restart_policy=policy)
    lab.report(lab.group(), "TASK_FAILED")
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
