"""Queues over the API: what is accepted, how they live and die."""

from __future__ import annotations

from typing import Any

import pytest

from tests.component.apiserver import Api, paths
from tests.unit.api_support import CoreGateway

Json = dict[str, Any]
STRICT = {"fieldValidation": "Strict"}


def status(response: Any) -> tuple[int, str]:
    answer = response.json()
    return response.status_code, "" if answer["result"] else answer["data"]["reason"]


def queue(name: str = "batch", labels: Json | None = None, **spec: Any) -> Json:
    return {"kind": "queue", "metadata": {"name": name, "labels": labels or {}}, "spec": spec}


def test_a_queue_lives_and_dies(api: Api, gateway: CoreGateway) -> None:
    body = queue(
        weight=3,
        guarantee={"cpu": "1500m"},
        capability={"cpus": 8, "mem": "2Gi", "gpus": 2000},
        reclaimable=False,
        priority=4,
    )
    assert status(api.call("PUT", "/queues/batch", json=body)) == (404, "not_found")
    assert status(api.call("POST", "/queues?dryRun=true", json=body)) == (200, "")
    assert status(api.get("/queues/batch")) == (404, "not_found")
    assert status(api.call("POST", "/queues", json=body)) == (200, "")
    assert status(api.call("POST", "/queues", json=body)) == (409, "exists")
    shown = api.data("/queues/batch")
    assert shown["spec"] == {
        "weight": 3,
        "guarantee": {"cpus": 1.5},
        "capability": {"cpus": 8.0, "mem": 2048.0, "gpus": 2000.0},
        "reclaimable": False,
        "priority": 4,
    }
    assert status(api.call("PUT", "/queues", json=queue(weight=2))) == (200, "")
    replaced = api.data("/queues/batch")
    assert replaced["spec"] == {"weight": 2, "guarantee": {}, "capability": {}, "reclaimable": True, "priority": 0}
    stale = queue(weight=5)
    stale["metadata"]["resourceVersion"] = shown["metadata"]["resourceVersion"]
    assert status(api.call("PUT", "/queues/batch", json=stale)) == (409, "conflict")
    assert status(api.call("PUT", "/queues/batch", json=replaced)) == (200, ""), "what is shown can be stored"
    assert status(api.call("DELETE", "/queues/batch")) == (200, "")
    assert status(api.call("DELETE", "/queues/batch")) == (404, "not_found")


def test_the_default_queue_is_there_and_can_be_set(api: Api, gateway: CoreGateway) -> None:
    (shown,) = api.data("/queues")
    assert (shown["metadata"]["name"], shown["spec"]["weight"], shown["status"]["recorded"]) == ("default", 1, False)
    assert status(api.call("POST", "/queues", json=queue("default"))) == (409, "exists")
    assert status(api.call("PUT", "/queues/default", json=queue("default", weight=4))) == (200, "")
    assert api.data("/queues/default")["spec"]["weight"] == 4
    assert status(api.call("DELETE", "/queues/default")) == (409, "conflict")


def test_queues_are_listed_in_order_by_label_and_in_pages(api: Api, gateway: CoreGateway) -> None:
    for name, labels in (("z", {"tier": "x"}), ("a", {})):
        api.call("POST", "/queues", json=queue(name, labels))
    assert [q["metadata"]["name"] for q in api.data("/queues")] == ["a", "default", "z"]
    assert [q["metadata"]["name"] for q in api.data("/queues?labelSelector=tier")] == ["z"]
    first = api.get("/queues?limit=2").json()
    rest = api.data(f"/queues?limit=2&continue={first['continue']}")
    assert [q["metadata"]["name"] for q in first["data"] + rest] == ["a", "default", "z"]


@pytest.mark.parametrize(
    ("spec", "found"),
    [
        ({"weight": 0}, {"$.spec.weight"}),
        ({"weight": 1.5}, {"$.spec.weight"}),
        ({"priority": 2**31}, {"$.spec.priority"}),
        ({"weight": 10**7, "reclaimable": "no"}, {"$.spec.weight", "$.spec.reclaimable"}),
        ({"guarantee": {"cpus": -1}, "capability": {"mem": "1Xi"}}, {"$.spec.guarantee.cpus", "$.spec.capability.mem"}),
        ({"capability": {"gpus": 0.5}}, {"$.spec.capability.gpus"}),
        ({"capability": {"pods": 1}}, {"$.spec.capability.pods"}),
        ({"guarantee": {"cpus": 3}, "capability": {"cpus": 2}}, {"$.spec.guarantee.cpus"}),
        ({"parent": "root"}, {"$.spec.parent"}),
    ],
)
def test_bad_queues_are_refused_with_every_path(api: Api, spec: Json, found: set[str]) -> None:
    response = api.call("POST", "/queues", json=queue(**spec), params=STRICT)
    assert status(response) == (422, "invalid") and paths(response) == found


@pytest.mark.parametrize("validation", ["Warn", "Ignore"])
def test_amounts_that_would_have_no_effect_are_refused_in_every_mode(api: Api, validation: str) -> None:
    body = queue(guarantee={"my gpu": 2, "cpu": 1}, capability={"pods": 1, "memory": "1Gi"}, colour="red")
    response = api.call("POST", "/queues", json=body, params={"fieldValidation": validation})
    assert status(response) == (422, "invalid")
    assert paths(response) == {'$.spec.guarantee["my gpu"]', "$.spec.capability.pods"}


def test_extended_resources_of_queues_are_kept_by_name(api: Api) -> None:
    guarantee, capability = {"nvidia.com/gpu": 2, "cpu": 1, "mem": None}, {"nvidia.com/gpu": "8", "amd.com/gpu": 0}
    assert status(api.call("POST", "/queues", json=queue(guarantee=guarantee, capability=capability))) == (200, "")
    found = api.data("/queues/batch")["spec"]
    assert found["guarantee"] == {"cpus": 1, "nvidia.com/gpu": 2}
    assert found["capability"] == {"amd.com/gpu": 0, "nvidia.com/gpu": 8}
    assert status(api.call("PUT", "/queues", json=api.data("/queues/batch"))) == (200, "")
    bad = queue(
        "other", guarantee={"nvidia.com/gpu": 9, "x/y": "2k"}, capability={"nvidia.com/gpu": 8, "CPU": 1, "cpus": 1}
    )
    assert paths(api.call("POST", "/queues", json=bad)) == {
        '$.spec.guarantee["nvidia.com/gpu"]', '$.spec.guarantee["x/y"]', "$.spec.capability.cpus"
    }  # fmt: skip


def test_bad_names_of_queues(api: Api) -> None:
    assert paths(api.call("POST", "/queues", json=queue("Ba.tch"))) == {"$.metadata.name"}
    assert paths(api.call("PUT", "/queues/other", json=queue())) == {"$.metadata.name"}
    body = queue()
    body["metadata"]["namespace"] = "shop"
    assert paths(api.call("POST", "/queues", json=body)) == {"$.metadata.namespace"}
