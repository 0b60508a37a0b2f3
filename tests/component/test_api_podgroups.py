"""Pod groups over the API: what is accepted, and which workloads belong to a group."""

from __future__ import annotations

from typing import Any

import pytest

from tests.component.apiserver import Api, paths
from tests.unit.api_support import CoreGateway, document
from tests.unit.deployment_support import deployment

Json = dict[str, Any]
STRICT = {"fieldValidation": "Strict"}
GROUPS = "/namespaces/shop/podgroups"
ANNOTATION = "scheduling.k8s.io/group-name"
RESERVATION = "yunikorn.apache.org/schedulingPolicyParameters"


def status(response: Any) -> tuple[int, str]:
    answer = response.json()
    return response.status_code, "" if answer["result"] else answer["data"]["reason"]


def group(name: str = "train", **spec: Any) -> Json:
    return {"kind": "PodGroup", "metadata": {"name": name}, "spec": spec}


def within(raw: Json, name: str = "train") -> Json:
    raw["metadata"]["annotations"] = {ANNOTATION: name}
    return raw


def test_a_group_lives_and_dies(api: Api, gateway: CoreGateway) -> None:
    body = group(minMember=3, minTaskMember={"web": 1}, queue="default")
    assert status(api.call("PUT", f"{GROUPS}/train", json=body)) == (404, "not_found")
    assert status(api.call("POST", f"{GROUPS}?dryRun=true", json=body)) == (200, "")
    assert status(api.call("POST", GROUPS, json=body)) == (200, "")
    assert status(api.call("POST", GROUPS, json=body)) == (409, "exists")
    assert status(api.call("POST", "/namespaces/shop/applications", json=within(document()))) == (202, "")
    front = within(deployment())
    front["spec"]["minAvailable"] = 2
    assert status(api.call("POST", "/namespaces/shop/deployments", json=front)) == (202, "")
    shown = api.data(f"{GROUPS}/train")
    assert shown["spec"] == {
        "minMember": 3, "minTaskMember": {"web": 1}, "queue": "default", "priorityClassName": "",
    }  # fmt: skip
    assert (shown["status"]["phase"], shown["status"]["running"]) == ("Pending", 0)
    assert [member["application"] for member in shown["status"]["members"]] == ["front", "web"]
    assert [one["metadata"]["name"] for one in api.data(GROUPS)] == ["train"]
    assert status(api.call("PUT", f"{GROUPS}/train", json=shown)) == (200, ""), "what is shown can be stored"
    assert status(api.call("DELETE", f"{GROUPS}/train")) == (409, "conflict")
    version = gateway.core.state.version("shop/front", gateway.core.state.applications["shop/front"].version)
    assert version is not None and version.min_available == 2
    assert status(api.call("POST", GROUPS, json=group("other", minMember=2))) == (200, "")
    assert status(api.call("DELETE", f"{GROUPS}/other")) == (200, "")
    assert status(api.get(f"{GROUPS}/other")) == (404, "not_found")


def test_the_list_of_all_namespaces_has_every_group(api: Api, gateway: CoreGateway) -> None:
    for namespace, name in (("shop", "b"), ("shop", "a"), ("lab", "c")):
        body = group(name, minMember=2)
        assert status(api.call("POST", f"/namespaces/{namespace}/podgroups", json=body)) == (200, "")

    def names(path: str) -> list[str]:
        return [f"{one['metadata']['namespace']}/{one['metadata']['name']}" for one in api.data(path)]

    assert names("/podgroups") == ["lab/c", "shop/a", "shop/b"]
    assert names("/podgroups?namespace=shop") == names(GROUPS) == ["shop/a", "shop/b"]


def test_a_missing_group_is_refused_with_its_path(api: Api, gateway: CoreGateway) -> None:
    for route, body in (("applications", document()), ("deployments", deployment())):
        refused = api.call("POST", f"/namespaces/shop/{route}", json=within(body, "missing"))
        assert status(refused) == (422, "invalid")
        assert paths(refused) == {f'$.metadata.annotations["{ANNOTATION}"]'}
    assert not gateway.core.state.applications


@pytest.mark.parametrize(
    ("spec", "found"),
    [
        ({}, {"$.spec.minMember"}),
        ({"minMember": -1}, {"$.spec.minMember"}),
        ({"minTaskMember": {"web": 0}}, {"$.spec.minTaskMember.web"}),
        ({"minMember": 2, "queue": "batch"}, {"$.spec.queue"}),
        ({"minMember": 2, "priorityClassName": "missing"}, {"$.spec.priorityClassName"}),
        ({"minMember": 2, "minPods": 3}, {"$.spec.minPods"}),
    ],
)
def test_bad_groups_are_refused_with_every_path(api: Api, gateway: CoreGateway, spec: Json, found: set[str]) -> None:
    response = api.call("POST", GROUPS, json=group(**spec), params=STRICT)
    assert status(response) == (422, "invalid") and found <= paths(response)
    assert not gateway.core.state.pod_groups


@pytest.mark.parametrize(
    ("spec", "text", "found"),
    [
        ({"minMember": 3}, "", {"$.spec.minTaskMember"}),
        ({"minMember": 4, "minTaskMember": {"web": 3}}, "", {"$.spec.minMember"}),
        ({"minTaskMember": {"a": 300, "b": 201}}, "", {"$.spec.minTaskMember"}),
        (
            {"minTaskMember": {"web": 1}},
            "placeholderTimeoutInSeconds=soon",
            {f'$.metadata.annotations["{RESERVATION}"]'},
        ),
    ],
)
def test_a_group_with_a_reservation_names_the_number_of_each_member(
    api: Api, gateway: CoreGateway, spec: Json, text: str, found: set[str]
) -> None:
    body = group(**spec)
    body["metadata"]["annotations"] = {RESERVATION: text}
    response = api.call("POST", GROUPS, json=body, params=STRICT)
    assert status(response) == (422, "invalid") and paths(response) == found
    assert not gateway.core.state.pod_groups


def test_a_reservation_without_effect_is_named(api: Api) -> None:
    """A group asks for the reservation of its members, and a gang needs a minimum."""
    assert status(api.call("POST", GROUPS, json=group(minMember=2))) == (200, "")
    for number, body in enumerate((document(), within(document()))):
        body["metadata"]["name"] = f"web-{number}"
        body["metadata"].setdefault("annotations", {})[RESERVATION] = ""
        answer = api.call("POST", "/namespaces/shop/applications", json=body)
        assert status(answer) == (202, "")
        assert [one["path"] for one in answer.json()["warnings"]] == [f'$.metadata.annotations["{RESERVATION}"]']


def test_the_minimum_of_a_deployment_is_at_most_its_size(api: Api) -> None:
    body = deployment()
    body["spec"]["minAvailable"] = 3
    assert paths(api.call("POST", "/namespaces/shop/deployments", json=body)) == {"$.spec.minAvailable"}
