"""Priority classes over the API: what is accepted, and how workloads get the priority of a class."""

from __future__ import annotations

from typing import Any

import pytest

from tests.component.apiserver import Api, paths
from tests.unit.api_support import CoreGateway, document
from tests.unit.deployment_support import deployment

Json = dict[str, Any]
STRICT = {"fieldValidation": "Strict"}
CLASS_PATH = "$.spec.template.spec.priorityClassName"


def status(response: Any) -> tuple[int, str]:
    answer = response.json()
    return response.status_code, "" if answer["result"] else answer["data"]["reason"]


def priority_class(name: str = "high", value: Any = 100, **fields: Any) -> Json:
    return {"kind": "PriorityClass", "metadata": {"name": name}, "value": value, **fields}


def with_class(raw: Json, name: str) -> Json:
    raw["spec"]["template"]["spec"]["priorityClassName"] = name
    return raw


def newest(gateway: CoreGateway, application: str = "shop/web") -> tuple[int, str, str, str]:
    state = gateway.core.state
    found = state.version(application, state.applications[application].version)
    assert found is not None
    return found.priority, found.priority_class, found.priority_from, found.preemption_policy


def test_a_class_lives_and_dies(api: Api, gateway: CoreGateway) -> None:
    body = priority_class(description="for shops", preemptionPolicy="Never", globalDefault=True)
    assert status(api.call("PUT", "/priorityclasses/high", json=body)) == (404, "not_found")
    assert status(api.call("POST", "/priorityclasses?dryRun=true", json=body)) == (200, "")
    assert status(api.get("/priorityclasses/high")) == (404, "not_found")
    assert status(api.call("POST", "/priorityclasses", json=body)) == (200, "")
    assert status(api.call("POST", "/priorityclasses", json=body)) == (409, "exists")
    shown = api.data("/priorityclasses/high")
    assert {name: shown[name] for name in ("value", "globalDefault", "preemptionPolicy", "description")} == {
        "value": 100, "globalDefault": True, "preemptionPolicy": "Never", "description": "for shops",
    }  # fmt: skip
    assert status(api.call("PUT", "/priorityclasses/high", json=shown)) == (200, ""), "what is shown can be stored"
    changed = {**body, "description": "", "globalDefault": False}
    assert status(api.call("PUT", "/priorityclasses", json=changed)) == (200, "")
    assert status(api.call("PUT", "/priorityclasses/high", json={**shown, "description": "x"})) == (409, "conflict")
    refused = api.call("PUT", "/priorityclasses/high", json=priority_class(value=5))
    assert status(refused) == (422, "invalid") and paths(refused) == {"$.value", "$.preemptionPolicy"}
    assert status(api.call("DELETE", "/priorityclasses/high")) == (200, "")
    assert status(api.call("DELETE", "/priorityclasses/high")) == (404, "not_found")


def test_one_class_at_most_is_the_default(api: Api, gateway: CoreGateway) -> None:
    assert status(api.call("POST", "/priorityclasses", json=priority_class("a", globalDefault=True))) == (200, "")
    refused = api.call("POST", "/priorityclasses", json=priority_class("b", globalDefault=True))
    assert status(refused) == (422, "invalid") and paths(refused) == {"$.globalDefault"}
    assert status(api.call("PUT", "/priorityclasses/a", json=priority_class("a"))) == (200, "")
    assert status(api.call("POST", "/priorityclasses", json=priority_class("b", globalDefault=True))) == (200, "")
    assert [one["metadata"]["name"] for one in api.data("/priorityclasses")] == ["a", "b"]


@pytest.mark.parametrize(
    ("body", "found"),
    [
        ({"kind": "PriorityClass", "metadata": {"name": "high"}}, {"$.value"}),
        (priority_class(value=1.5), {"$.value"}),
        (priority_class(value=2_000_000_000), {"$.value"}),
        (priority_class(globalDefault="yes", preemptionPolicy="Always"), {"$.globalDefault", "$.preemptionPolicy"}),
        (priority_class("system-node"), {"$.metadata.name"}),
        (priority_class("Hi.gh"), {"$.metadata.name"}),
        ({**priority_class(), "spec": {"value": 5}}, {"$.spec"}),
    ],
)
def test_bad_classes_are_refused_with_every_path(api: Api, body: Json, found: set[str]) -> None:
    response = api.call("POST", "/priorityclasses", json=body, params=STRICT)
    assert status(response) == (422, "invalid") and paths(response) == found


def test_a_missing_class_is_refused_with_its_path(api: Api, gateway: CoreGateway) -> None:
    daemonset = with_class(document("agent"), "missing")
    daemonset["kind"] = "daemonset"
    del daemonset["spec"]["instance"]
    for route, body in (
        ("applications", with_class(document(), "missing")),
        ("deployments", with_class(deployment(), "missing")),
        ("daemonsets", daemonset),
    ):
        refused = api.call("POST", f"/namespaces/shop/{route}", json=body)
        assert status(refused) == (422, "invalid") and paths(refused) == {CLASS_PATH}, route
    both = with_class(document(), "high")
    both["spec"]["template"]["spec"]["priority"] = 3
    assert paths(api.call("POST", "/namespaces/shop/applications", json=both)) == {"$.spec.template.spec.priority"}
    assert not gateway.core.state.applications


def test_work_gets_the_number_of_its_class_and_keeps_it(api: Api, gateway: CoreGateway) -> None:
    api.call("POST", "/priorityclasses", json=priority_class(preemptionPolicy="Never"))
    body = with_class(document(), "high")
    assert status(api.call("POST", "/namespaces/shop/applications", json=body)) == (202, "")
    assert newest(gateway) == (100, "high", "class", "Never")
    assert status(api.call("DELETE", "/priorityclasses/high")) == (200, "")
    assert newest(gateway) == (100, "high", "class", "Never"), "a deleted class leaves its work as it is"
    refused = api.call("PUT", "/namespaces/shop/applications", json=body)
    assert status(refused) == (422, "invalid") and paths(refused) == {CLASS_PATH}
    assert status(api.call("PUT", "/namespaces/shop/applications/web/scale/3")) == (202, "")
    front = with_class(deployment(), "low")
    api.call("POST", "/priorityclasses", json=priority_class("low", -5))
    assert status(api.call("POST", "/namespaces/shop/deployments", json=front)) == (202, "")
    assert newest(gateway, "shop/front")[:3] == (-5, "low", "class")


def test_the_default_class_is_for_new_work_without_priority(api: Api, gateway: CoreGateway) -> None:
    old, zero, new = document("old"), document("zero"), document("new")
    zero["spec"]["template"]["spec"]["priority"] = 0
    assert status(api.call("POST", "/namespaces/shop/applications", json=old)) == (202, "")
    api.call("POST", "/priorityclasses", json=priority_class("usual", 7, globalDefault=True))
    for body in (zero, new):
        assert status(api.call("POST", "/namespaces/shop/applications", json=body)) == (202, "")
    assert newest(gateway, "shop/new")[:3] == (7, "usual", "default")
    assert newest(gateway, "shop/zero")[:3] == (0, "", "document")
    answer = api.call("PUT", "/namespaces/shop/applications", json=old).json()
    assert answer["data"]["unchanged"], "a new default class replaces no taskgroups"
    assert newest(gateway, "shop/old")[:3] == (0, "", "")
