"""Quotas of namespaces: what grows beyond them is refused as a whole, what is there may stay."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from bcs_scheduler.core.interface import effects, requests
from bcs_scheduler.core.quotas import over
from store.records import (
    Application,
    ConfigMap,
    CustomKind,
    CustomObject,
    Deployment,
    Namespace,
    PodGroup,
    Quota,
    Revision,
    Secret,
    Strategy,
    Version,
)
from store.records.definition import Amounts, Container
from store.records.messages import ConfigItem
from store.records.services import Service
from store.state import State
from tests.unit.lab import Lab, running, version
from tests.unit.rollinglab import NEW, RollingLab
from transactions.resource_request import EXECUTOR
from transactions.rules import quota_usage
from transactions.rules.quota_usage import QuotaUsage

ONE = QuotaUsage(cpus=100, mem=32_000 + EXECUTOR.mem, disk=EXECUTOR.disk, taskgroups=1)
"""One taskgroup of tests.unit.lab.version."""


def with_objects(usage: QuotaUsage, number: int = 1) -> QuotaUsage:
    """The usage of `number` workloads that are created."""
    return usage._replace(objects=number)


def put(lab: Lab, **quota: Any) -> effects.Reply:
    return lab.ask(requests.PutNamespace(namespace=Namespace(name="default", quota=Quota(**quota))))


def used(lab: Lab) -> QuotaUsage:
    return quota_usage.of_namespace(lab.core.state, "default", EXECUTOR)


def big(instances: int, cpus: int = 400) -> Version:
    container = Container(command="serve", requests=Amounts(cpus=cpus, mem=32_000))
    return version(instances, containers=(container,))


def test_what_is_wanted_is_the_number_times_the_need_of_the_newest_version() -> None:
    lab = Lab()
    lab.create(3)
    assert used(lab) == with_objects(QuotaUsage(*(3 * amount for amount in ONE)))
    lab.delete()
    lab.run()
    assert used(lab) == quota_usage.NOTHING


def stored(kind: str, name: str = "a", size: int = 0) -> requests.Request:
    text = "x" * size
    match kind:
        case "configmap":
            items = {"k": ConfigItem(content=text)}
            return requests.PutConfigMap(config_map=ConfigMap(namespace="default", name=name, items=items))
        case "secret":
            return requests.PutSecret(secret=Secret(namespace="default", name=name, items={"k": text}))
        case "service":
            return requests.PutService(service=Service(namespace="default", name=name, raw=text))
        case "podgroup":
            group = PodGroup(namespace="default", name=name, min_member=1, annotations={"k": text})
            return requests.PutPodGroup(pod_group=group)
    record = CustomObject(type="Shelf", namespace="default", name=name, raw=text)
    return requests.PutCustomObject(custom_object=record)


@pytest.mark.parametrize("kind", quota_usage.STORED)
def test_objects_and_their_texts_are_bounded(kind: str) -> None:
    lab = Lab()
    lab.ask(requests.PutCustomKind(custom_kind=CustomKind(name="Shelf", raw="{}")))
    put(lab, objects=2, object_storage=40)
    assert not lab.ask(stored(kind)).error and not lab.ask(stored(kind, "b")).error
    full = lab.ask(stored(kind, "c"))
    assert full.error == "quota_exceeded" and "objects: quota 2, used 2, 1 more asked for" in full.message
    assert used(lab).objects == 2
    assert not lab.ask(stored(kind, "b", 40_000)).error, "40 of 40 thousandths of a MB, with the other one"
    larger = lab.ask(stored(kind, "b", 41_000))
    assert larger.error == "quota_exceeded" and "objectStorage: quota 0.04 MB, used 0.04," in larger.message
    put(lab, objects=1, object_storage=10)  # only stops growth
    assert not lab.ask(stored(kind, "b", 30_000)).error and lab.ask(stored(kind, "b", 35_000)).error
    assert used(lab) == quota_usage.NOTHING._replace(objects=2, object_storage=30)


def test_removed_objects_and_other_namespaces_do_not_count() -> None:
    lab = Lab()
    put(lab, objects=1)
    other = ConfigMap(namespace="other", name="a")
    assert not lab.ask(requests.PutConfigMap(config_map=other)).error
    assert not lab.ask(stored("configmap")).error
    assert lab.ask(stored("secret")).error == "quota_exceeded"
    assert lab.create(1).error == "quota_exceeded", "a workload is an object, too"
    assert not lab.ask(requests.DeleteConfigMap(namespace="default", name="a")).error
    assert not lab.create(1).error


def test_a_creation_beyond_the_quota_is_refused_and_leaves_nothing() -> None:
    lab = Lab()
    put(lab, cpus=250, taskgroups=10)
    reply = lab.create(3)
    assert reply.error == "quota_exceeded"
    assert "cpus: quota 0.25 cores, used 0, 0.3 more asked for" in reply.message
    assert "taskgroups" not in reply.message
    assert not lab.core.state.applications and not lab.core.state.transactions
    assert lab.create(2).error == ""


def test_scale_and_update_are_bounded_too() -> None:
    lab = running(2)
    put(lab, cpus=400, taskgroups=3)
    assert lab.scale(4).error == "quota_exceeded"
    assert lab.application.instances == 2
    assert lab.scale(3).error == ""
    lab.run()
    assert lab.ask(requests.UpdateApplication(version=big(3))).error == "quota_exceeded"
    assert len(lab.core.state.versions_of("default/web")) == 1
    assert lab.ask(requests.UpdateApplication(version=big(3, cpus=133))).error == ""


def test_a_quota_below_what_is_there_stops_growth_and_nothing_else() -> None:
    lab = running(3)
    assert put(lab, taskgroups=1).error == ""
    refused = lab.scale(4)
    assert refused.error == "quota_exceeded" and "taskgroups: quota 1, used 3, 1 more asked for" in refused.message
    assert lab.ask(requests.UpdateApplication(version=big(3))).error == ""
    lab.run()
    assert lab.scale(2).error == ""
    lab.run()
    assert lab.delete().error == ""


def test_other_namespaces_are_not_concerned() -> None:
    lab = Lab()
    lab.ask(requests.PutNamespace(namespace=Namespace(name="other", quota=Quota(taskgroups=0))))
    assert lab.create(3).error == ""
    reply = lab.ask(requests.CreateApplication(version=msgspec.structs.replace(version(1), namespace="other")))
    assert reply.error == "quota_exceeded"


def test_two_commands_of_one_turn_are_not_both_let_in() -> None:
    lab = Lab()
    put(lab, taskgroups=3)
    second = msgspec.structs.replace(version(2), application="api")
    lab.turn(
        requests.CreateApplication(version=version(2), token=1), requests.CreateApplication(version=second, token=2)
    )
    assert [reply.error for reply in lab.sent(effects.Reply)] == ["", "quota_exceeded"]


def test_a_plan_is_judged_and_takes_nothing_away() -> None:
    lab = Lab()
    lab.offer()
    put(lab, taskgroups=3)
    assert lab.ask(requests.CreateApplication(version=version(4), dry_run=True)).error == "quota_exceeded"
    assert lab.ask(requests.CreateApplication(version=version(3), dry_run=True)).error == ""
    assert lab.create(3).error == ""


def test_a_successor_counts_what_it_finds() -> None:
    lab = running(3)
    put(lab, taskgroups=4)
    successor = lab.succeed()
    assert successor.scale(5).error == "quota_exceeded"
    assert successor.scale(4).error == ""


def test_the_sums_kept_equal_a_look_at_everything() -> None:
    lab = running(2)
    put(lab, taskgroups=1000)
    for number, instances in enumerate((3, 5, 1)):
        named = msgspec.structs.replace(version(instances), application=f"app{number}")
        lab.ask(requests.CreateApplication(version=named))
        lab.ask(requests.DeleteApplication(namespace="default", name=f"app{number}", enforce=number == 1))
        lab.run()
    quotas = lab.core.turn_context.quotas
    assert quotas.room("default", ONE, 5000) == 1000 - used(lab).taskgroups
    lab.scale(7)
    assert quotas.room("default", ONE, 5000) == 1000 - used(lab).taskgroups
    lab.ask(requests.DeleteNamespace(name="default"))
    lab.ask(requests.PutNamespace(namespace=Namespace(name="default")))
    assert quotas.room("default", ONE, 5000) == 5000


def test_room_is_what_the_scarcest_resource_leaves() -> None:
    lab = running(2)
    put(lab, cpus=1000, mem=5 * ONE.mem)
    assert lab.core.turn_context.quotas.room("default", ONE, 100) == 3
    assert lab.core.turn_context.quotas.room("default", ONE, 2) == 2
    assert lab.core.turn_context.quotas.room("elsewhere", ONE, 100) == 100
    put(lab, cpus=100)
    assert lab.core.turn_context.quotas.room("default", ONE, 100) == 0


def deployed(**fields: Any) -> State:
    old = msgspec.structs.replace(version(4), application="web", name="1")
    new = msgspec.structs.replace(big(0), application="web-v2", name="2")
    deployment = Deployment(
        namespace="default", name="web", instances=4, application="web", strategy=Strategy(max_surge=2), **fields
    )
    return State(
        [
            old,
            new,
            Application(namespace="default", name="web", deployment="web", instances=4, version="1"),
            Application(namespace="default", name="web-v2", deployment="web", instances=2, version="2"),
            deployment,
        ]
    )


def test_a_deployment_stands_for_its_applications() -> None:
    assert quota_usage.of_namespace(deployed(), "default", EXECUTOR) == with_objects(
        QuotaUsage(*(4 * amount for amount in ONE))
    )


def test_a_deployment_that_moves_wants_all_and_the_surge_at_the_greater_need() -> None:
    moving = quota_usage.of_namespace(deployed(successor="web-v2", previous_instances=3), "default", EXECUTOR)
    assert moving == with_objects(QuotaUsage(6 * 400, 6 * ONE.mem, 6 * ONE.disk, 6))
    shrinking = quota_usage.of_namespace(deployed(successor="web-v2", previous_instances=9), "default", EXECUTOR)
    assert shrinking.taskgroups == 11


def test_the_wanted_revision_counts_before_its_application_exists() -> None:
    state = deployed()
    revision = Revision(namespace="default", deployment="web", number=1, version=big(4, cpus=700))
    state.apply("revision", revision.key, revision)
    assert quota_usage.of_namespace(state, "default", EXECUTOR).cpus == 4 * 700


@pytest.mark.parametrize(
    ("before", "after", "named"),
    [
        (QuotaUsage(taskgroups=5), QuotaUsage(taskgroups=5), 0),
        (QuotaUsage(taskgroups=9), QuotaUsage(taskgroups=8), 0),
        (QuotaUsage(taskgroups=5), QuotaUsage(taskgroups=6), 1),
        (QuotaUsage(), QuotaUsage(cpus=1001, taskgroups=5), 2),
        (QuotaUsage(), QuotaUsage(cpus=1000, taskgroups=4), 0),
    ],
)
def test_only_growth_beyond_the_quota_is_too_much(before: QuotaUsage, after: QuotaUsage, named: int) -> None:
    assert len(over(Quota(cpus=1000, taskgroups=4), before, after)) == named


# --- the records ----------------------------------------------------------------------------------------------------


def test_settings_of_a_namespace_live_and_die() -> None:
    lab = Lab()
    record = Namespace(name="default", labels={"team": "x"})
    assert lab.ask(requests.PutNamespace(namespace=record, create=False)).error == "not_found"
    assert lab.ask(requests.PutNamespace(namespace=record, create=True)).data == {"name": "default"}
    assert lab.ask(requests.PutNamespace(namespace=record, create=True)).error == "exists"
    assert lab.ask(requests.PutNamespace(namespace=record)).data == {"name": "default", "unchanged": True}
    lab.now += 5
    put(lab, cpus=1)
    kept = lab.core.state.namespaces["default"]
    assert kept.created_at < kept.updated_at == lab.now
    assert lab.ask(requests.DeleteNamespace(name="default")).error == ""
    assert lab.ask(requests.DeleteNamespace(name="default")).error == "not_found"


def test_a_namespace_with_anything_in_it_is_not_deleted() -> None:
    lab = Lab()
    put(lab, cpus=10_000)
    lab.ask(requests.PutConfigMap(config_map=ConfigMap(namespace="default", name="a")))
    lab.create(1)
    reply = lab.ask(requests.DeleteNamespace(name="default"))
    assert reply.error == "conflict" and "1 applications, 1 configmaps" in reply.message
    assert "default" in lab.core.state.namespaces


# --- deployments and daemonsets -------------------------------------------------------------------------------------


def test_deployments_are_bounded_at_creation_scale_and_update() -> None:
    lab = RollingLab()
    put(lab, taskgroups=5)
    assert lab.deploy(6).error == "quota_exceeded"
    assert not lab.core.state.deployments and not lab.core.state.applications
    assert lab.deploy(4, strategy=Strategy(max_surge=2)).error == ""
    lab.run()
    assert used(lab).taskgroups == 4
    assert lab.resize(6).error == "quota_exceeded"
    refused = lab.renew(4, **NEW)
    assert refused.error == "quota_exceeded" and "taskgroups: quota 5, used 4, 2 more asked for" in refused.message
    assert lab.deployment.status == "Running" and not lab.deployment.successor
    assert len(lab.core.state.applications) == 1
    assert lab.renew(4, strategy=Strategy(max_surge=1), **NEW).error == ""
    assert used(lab).taskgroups == 5
    lab.run()
    assert lab.deployment.status == "Running" and used(lab).taskgroups == 4
    assert lab.resize(5).error == ""


def test_an_update_that_is_refused_leaves_a_deployment_that_can_be_updated() -> None:
    lab = RollingLab()
    lab.deploy(3)
    lab.run()
    put(lab, cpus=300)
    assert lab.renew(3, **NEW).error == "quota_exceeded"
    lab.wait(5)
    put(lab, cpus=10_000)
    assert lab.renew(3, **NEW).error == ""
    lab.run()
    assert lab.deployment.status == "Running" and lab.deployment.revision == 2


def test_going_back_needs_no_more_than_is_counted_already() -> None:
    lab = RollingLab()
    lab.deploy(3)
    lab.run()
    put(lab, taskgroups=4)
    assert lab.renew(3, **NEW).error == ""
    put(lab, taskgroups=1)
    assert lab.control("cancel").error == ""
    lab.run()
    assert lab.deployment.status == "Running" and used(lab).taskgroups == 3
