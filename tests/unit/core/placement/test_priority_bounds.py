"""The greatest priority of namespaces: no request makes work with more, and work that has more is kept and named."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from bcs_scheduler.core.interface import effects, managed, requests
from bcs_scheduler.core.options import CoreOptions
from offers.policy.hierarchy.configuration.document import partition_of
from store.records import (
    GROUP_ANNOTATION,
    Daemonset,
    Deployment,
    ManagedApplication,
    ManagedTask,
    Namespace,
    PodGroup,
    PriorityClass,
    Queue,
    Version,
)
from tests.unit.core.policy_options import POLICIES
from tests.unit.lab import Lab, version

ONLINE = PriorityClass(name="online", value=100)


def bounded(**settings: Any) -> Lab:
    """A cluster with the class `online`, in which no namespace has a greatest priority but `default`, if given."""
    lab = Lab(max_priority=0)
    assert not lab.ask(requests.PutPriorityClass(priority_class=ONLINE)).error
    if settings:
        give(lab, **settings)
    lab.offer()
    return lab


def tried(lab: Lab, request: requests.Request) -> str:
    """Code of the refusal of a dry run; empty if the request would be carried out."""
    lab.turn(msgspec.structs.replace(request, dry_run=True))
    found = lab.sent(effects.Reply) or [one for one in lab.wait(5.0) if isinstance(one, effects.Reply)]
    return found[0].error


def give(lab: Lab, **settings: Any) -> effects.Reply:
    reply = lab.ask(requests.PutNamespace(namespace=Namespace(name="default", **settings)))
    assert not reply.error
    return reply


def numbered(priority: int, **fields: Any) -> Version:
    return version(1, priority=priority, priority_from="document" if priority else "", **fields)


def classed(name: str = "online") -> Version:
    return version(1, priority_class=name, priority_from="class")


def deployment(name: str = "web") -> Deployment:
    return Deployment(namespace="default", name=name, instances=1)


def creations(wanted: Version) -> dict[str, requests.Request]:
    return {
        "application": requests.CreateApplication(version=wanted),
        "deployment": requests.CreateDeployment(deployment=deployment(), version=wanted),
        "daemonset": requests.CreateDaemonset(daemonset=Daemonset(namespace="default", name="web"), version=wanted),
    }


KINDS = tuple(creations(version()))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("wanted", [numbered(1), numbered(1_000_000_000), classed()])
def test_new_work_beyond_the_greatest_priority_is_refused_and_leaves_nothing(kind: str, wanted: Version) -> None:
    lab = bounded()
    request = creations(wanted)[kind]
    before = lab.core.state.records()
    reply = lab.ask(request)
    assert reply.error == "invalid" and "the greatest priority of namespace default is 0" in reply.message
    assert lab.ask(msgspec.structs.replace(request, dry_run=True)).error == "invalid"
    (planned,) = lab.ask(requests.PlanRequests(requests=(request,))).data["requests"]
    assert planned["error"] == "invalid"
    assert lab.core.state.records() == before


@pytest.mark.parametrize("kind", KINDS)
def test_work_within_the_bound_is_made(kind: str) -> None:
    for settings, wanted in (
        ({}, numbered(0)),
        ({}, numbered(-5)),
        ({"max_priority": 7}, numbered(7)),
        ({"priority_classes": ("online",)}, classed()),
    ):
        reply = bounded(**settings).ask(creations(wanted)[kind])
        assert not reply.error and "warnings" not in reply.data, reply


def test_the_error_names_the_command_that_allows_the_work() -> None:
    lab = bounded()
    said = lab.ask(requests.CreateApplication(version=numbered(10)))
    assert "bcs set namespace default --max-priority 10" in said.message
    assert [problem.path for problem in said.problems] == ["$.spec.template.spec.priority"]
    said = lab.ask(requests.CreateApplication(version=classed()))
    assert "bcs set namespace default --priority-class online" in said.message
    assert [problem.path for problem in said.problems] == ["$.spec.template.spec.priorityClassName"]


def test_the_lesser_of_namespace_and_queue_counts_and_the_settings_without_both() -> None:
    lab = bounded()
    lab.ask(requests.PutQueue(queue=Queue(name="default", max_priority=5)))
    assert not tried(lab, requests.CreateApplication(version=numbered(5)))
    said = lab.ask(requests.CreateApplication(version=numbered(6)))
    assert "the greatest priority of queue default is 5" in said.message
    assert "bcs queue set default --max-priority 6" in said.message
    give(lab, max_priority=50)
    assert lab.ask(requests.CreateApplication(version=numbered(6))).error == "invalid"
    give(lab, max_priority=2)
    assert lab.ask(requests.CreateApplication(version=numbered(3))).error == "invalid"
    lab = Lab(CoreOptions(strict=True), max_priority=9)
    assert not tried(lab, requests.CreateApplication(version=numbered(9)))
    assert lab.ask(requests.CreateApplication(version=numbered(10))).error == "invalid"


_FENCED: dict[str, Any] = {
    "queues": [{"name": "team", "properties": {"priority.policy": "fence", "priority.offset": 100}}],
    "placementrules": [{"name": "tag", "value": "namespace"}],
}
TREES = {**POLICIES, "fenced": {"hierarchy": partition_of(_FENCED, ("cpus", "mem"))}}


@pytest.mark.parametrize("queue", ["", "team"])
@pytest.mark.parametrize("policy", TREES)
def test_the_bound_holds_under_every_policy_and_in_every_queue(policy: str, queue: str) -> None:
    """A tree of queues has no bounds of its own (docs/decisions/0094-greatest-priorities.md)."""
    lab = Lab(CoreOptions(strict=True, session_period=0.1, **TREES[policy]), max_priority=0)
    if policy != "fenced":
        lab.ask(requests.PutQueue(queue=Queue(name="team")))
    lab.offer()
    give(lab, queue=queue)
    assert lab.ask(requests.CreateApplication(version=numbered(1))).error == "invalid"
    give(lab, queue=queue, max_priority=5)
    assert lab.ask(requests.CreateApplication(version=numbered(6))).error == "invalid"
    assert not lab.ask(requests.CreateApplication(version=numbered(5))).error
    lab.wait(1.0)
    said = lab.ask(requests.UpdateApplication(version=numbered(6), on_conflict="supersede"))
    assert said.error == "invalid" and "the greatest priority of namespace default is 5" in said.message
    assert "bcs set namespace default --max-priority 6" in said.message


def test_the_default_class_is_for_every_namespace_and_critical_classes_for_those_that_name_them() -> None:
    lab = bounded()
    lab.ask(requests.PutPriorityClass(priority_class=PriorityClass(name="usual", value=3, global_default=True)))
    assert not tried(lab, requests.CreateApplication(version=version(1)))
    critical = "system-node-critical"
    lab.ask(requests.PutPriorityClass(priority_class=PriorityClass(name=critical, value=-1)))
    assert lab.ask(requests.CreateApplication(version=classed(critical))).error == "invalid"
    give(lab, priority_classes=(critical,))
    assert not lab.ask(requests.CreateApplication(version=classed(critical))).error


def test_a_number_beside_the_name_of_an_allowed_class_has_no_rights() -> None:
    lab = bounded(priority_classes=("online",))
    forged = version(1, priority=10**9, priority_class="online", priority_from="document")
    assert lab.ask(requests.CreateApplication(version=forged)).error == "invalid"


def test_existing_work_is_kept_changed_and_named() -> None:
    lab = bounded(max_priority=20)
    lab.ask(requests.CreateApplication(version=numbered(20)))
    lab.run()
    (warning,) = give(lab).data["warnings"]
    assert "application default/web: priority 20" in warning
    (warning,) = lab.scale(2).data["warnings"]
    assert "application default/web: priority 20 is kept" in warning
    lab.run()
    reply = lab.ask(requests.UpdateApplication(version=numbered(20, labels={"a": "b"})))
    assert not reply.error and len(reply.data["warnings"]) == 1
    lab.run()
    assert lab.ask(requests.UpdateApplication(version=numbered(21))).error == "invalid"
    assert "warnings" not in lab.ask(requests.UpdateApplication(version=numbered(0))).data


def test_an_older_version_gives_back_no_priority() -> None:
    lab = bounded(max_priority=20)
    lab.ask(requests.CreateApplication(version=numbered(20)))
    lab.run()
    lab.ask(requests.UpdateApplication(version=numbered(0)))
    lab.run()
    give(lab)
    assert lab.ask(requests.RollbackApplication(namespace="default", name="web")).error == "invalid"
    assert lab.application.version == max(lab.core.state.versions_of("default/web"))


def test_an_older_version_gives_back_no_priority_of_a_class_that_is_the_default_no_more() -> None:
    lab = bounded()
    usual = PriorityClass(name="usual", value=30, global_default=True)
    lab.ask(requests.PutPriorityClass(priority_class=usual))
    assert not lab.ask(requests.CreateApplication(version=version(1))).error
    lab.run()
    lab.ask(requests.PutPriorityClass(priority_class=msgspec.structs.replace(usual, global_default=False)))
    lab.offer()
    (warning,) = lab.scale(2).data["warnings"]
    assert "application default/web: priority 30 (class usual) is kept" in warning
    lab.run()
    assert not lab.ask(requests.UpdateApplication(version=version(2, priority=0, priority_from="document"))).error
    lab.run()
    reply = lab.ask(requests.RollbackApplication(namespace="default", name="web"))
    assert reply.error == "invalid" and "the greatest priority of namespace default is 0" in reply.message


def test_an_older_revision_of_a_deployment_gives_back_no_priority_but_an_update_can_be_undone() -> None:
    lab = bounded(max_priority=20)
    lab.ask(requests.CreateDeployment(deployment=deployment(), version=numbered(20)))
    for _ in range(3):
        for group in list(lab.core.state.taskgroups.values()):
            if not group.ended and not group.started:
                lab.report(group, "RUNNING")
        lab.wait(5.0)
    give(lab)
    changed = requests.UpdateDeployment(deployment=deployment(), version=numbered(20, labels={"a": "b"}))
    assert not tried(lab, changed)
    lowered = requests.UpdateDeployment(deployment=deployment(), version=numbered(0))
    assert not lab.ask(lowered).error
    again = requests.UpdateDeployment(deployment=deployment(), version=numbered(20), on_conflict="supersede")
    assert not tried(lab, again)  # the update goes back
    raised = requests.UpdateDeployment(deployment=deployment(), version=numbered(21), on_conflict="supersede")
    assert lab.ask(raised).error == "invalid"


def test_a_queued_request_is_judged_when_it_comes_and_when_it_begins() -> None:
    lab = bounded(max_priority=20)
    lab.ask(requests.CreateApplication(version=msgspec.structs.replace(numbered(0), instances=500)))
    queued = requests.UpdateApplication(version=numbered(21), on_conflict="queue")
    assert lab.ask(queued).error == "invalid"
    queued = requests.UpdateApplication(version=numbered(20), on_conflict="queue")
    assert lab.ask(queued).data["queuePosition"] == 1
    give(lab)
    lab.ask(requests.CancelTransaction(id=lab.transaction("LAUNCH").id))
    lab.wait(2.0)
    assert lab.transaction("UPDATE").status == "FAIL"
    newest = lab.core.state.version("default/web", lab.application.version)
    assert newest is not None and newest.priority == 0


def test_a_group_gives_its_members_no_class_that_the_namespace_may_not_use() -> None:
    lab = bounded()
    group = PodGroup(namespace="default", name="gang", min_member=1, priority_class="online")
    refused = lab.ask(requests.PutPodGroup(pod_group=group))
    assert refused.error == "invalid" and refused.problems[0].path == "$.spec.priorityClassName"
    give(lab, priority_classes=("online",))
    assert not lab.ask(requests.PutPodGroup(pod_group=group)).error
    member = version(1, annotations={GROUP_ANNOTATION: "gang"})
    assert not tried(lab, requests.CreateApplication(version=member))
    give(lab)
    assert lab.ask(requests.CreateApplication(version=member)).error == "invalid"


USUAL = PriorityClass(name="usual", value=3, global_default=True)


@pytest.mark.parametrize("kind", KINDS)
def test_a_group_and_documents_may_name_the_default_class(kind: str) -> None:
    lab = bounded()
    lab.ask(requests.PutPriorityClass(priority_class=USUAL))
    group = PodGroup(namespace="default", name="gang", min_member=1, priority_class="usual")
    assert not lab.ask(requests.PutPodGroup(pod_group=group)).error
    member = version(1, annotations={GROUP_ANNOTATION: "gang"})
    for wanted in (member, classed("usual")):
        reply = lab.ask(msgspec.structs.replace(creations(wanted)[kind], dry_run=True))
        assert not reply.error, reply.message
    forged = version(1, priority=4, priority_class="usual", priority_from="document")
    assert lab.ask(creations(forged)[kind]).error == "invalid"
    lab.ask(requests.PutPriorityClass(priority_class=msgspec.structs.replace(USUAL, global_default=False)))
    assert "priority class usual has priority 3" in lab.ask(creations(classed("usual"))[kind]).message


def test_the_refusal_of_a_member_names_the_class_of_its_group_and_not_the_default_class() -> None:
    lab = bounded(priority_classes=("online",))
    lab.ask(requests.PutPriorityClass(priority_class=USUAL))
    group = PodGroup(namespace="default", name="gang", min_member=1, priority_class="online")
    assert not lab.ask(requests.PutPodGroup(pod_group=group)).error
    give(lab)
    member = requests.CreateApplication(version=version(1, annotations={GROUP_ANNOTATION: "gang"}))
    reply = lab.ask(member)
    assert reply.message.startswith(
        "priority class online of pod group gang has priority 100; the greatest priority of"
    )
    assert [problem.path for problem in reply.problems] == [f'$.metadata.annotations["{GROUP_ANNOTATION}"]']
    lab.ask(requests.DeletePriorityClass(name="online"))
    reply = lab.ask(member)
    assert reply.error == "invalid" and reply.message == "priority class online of pod group gang does not exist"


def test_the_refusal_of_a_critical_class_names_its_cause() -> None:
    lab = bounded()
    critical = "system-node-critical"
    lab.ask(requests.PutPriorityClass(priority_class=PriorityClass(name=critical, value=-1)))
    group = PodGroup(namespace="default", name="gang", min_member=1, priority_class=critical)
    for request in (requests.CreateApplication(version=classed(critical)), requests.PutPodGroup(pod_group=group)):
        reply = lab.ask(request)
        assert "is only for namespaces that name it; namespace default does not" in reply.message
        assert f"bcs set namespace default --priority-class {critical}" in reply.message


def test_tasks_of_managers_are_bounded() -> None:
    lab = bounded()
    owner = ManagedApplication(namespace="default", name="job", manager="m")
    assert not lab.ask(managed.AddManagedApplication(application=owner)).error
    for wanted in (numbered(5), classed(), version(1, priority=5)):
        task = ManagedTask(namespace="default", application="job", name="one", version=wanted)
        assert lab.ask(managed.AddManagedTask(task=task)).error == "invalid"
    assert not lab.core.state.managed_tasks
