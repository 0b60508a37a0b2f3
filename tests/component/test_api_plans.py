"""Plans of several documents over the API: each sees the effect of the earlier ones, and nothing changes."""

from __future__ import annotations

from typing import Any

from tests.component.apiserver import Api
from tests.unit.api_support import CoreGateway, document


def configmap(name: str = "motd", namespace: str = "shop") -> dict[str, Any]:
    item = {"type": "file", "content": "aGVsbG8="}
    metadata = {"name": name, "namespace": namespace}
    return {"kind": "configmap", "apiVersion": "v4", "metadata": metadata, "datas": {"item": item}}


def quota(namespace: str, taskgroups: int) -> dict[str, Any]:
    return {"kind": "namespace", "metadata": {"name": namespace}, "spec": {"quota": {"taskgroups": taskgroups}}}


def of_cores(name: str, instance: int, cores: int) -> dict[str, Any]:
    limits = {"cpu": str(cores), "memory": "32"}
    return document(name, instance=instance, resources={"limits": limits, "requests": limits})


def planned(api: Api, documents: Any, **query: str) -> dict[str, Any]:
    answer = api.call("POST", "/plans", json=documents, params=query)
    assert answer.status_code == 200, answer.text
    data: dict[str, Any] = answer.json()["data"]
    return data


def test_later_documents_see_the_room_that_earlier_ones_take(gateway: CoreGateway, api: Api) -> None:
    gateway.connect()
    gateway.offer(1, cpus=8)
    before = gateway.core.state.records()
    plan = planned(api, [configmap(), of_cores("web", 2, 3), of_cores("shop", 3, 1)])
    assert [one["outcome"] for one in plan["documents"]] == ["created"] * 3
    motd, web, shop = plan["documents"]
    assert (motd["kind"], motd["namespace"], motd["name"]) == ("configmap", "shop", "motd")
    assert [place["hostname"] for place in web["place"]] == ["host-1", "host-1"]
    assert (len(shop["place"]), shop["unplaced"]) == (2, 1)
    assert shop["reasons"] == {"cpus": 1} and shop["message"]
    assert (plan["placed"], plan["unplaced"]) == (4, 1)
    assert gateway.core.state.records() == before
    alone = planned(api, [of_cores("shop", 3, 1)])["documents"][0]
    assert (len(alone["place"]), "unplaced" in alone) == (3, False)


def test_a_refused_document_does_not_end_the_plan(gateway: CoreGateway, api: Api) -> None:
    gateway.connect()
    gateway.offer(1)
    wrong = document("wrong")
    wrong["spec"]["template"]["spec"]["containers"] = []
    plan = planned(api, [quota("shop", 3), document("web"), document("more"), wrong, document("one", instance=1)])
    namespace, web, more, bad, one = plan["documents"]
    assert (namespace["outcome"], web["outcome"], one["outcome"]) == ("created", "created", "created")
    assert (more["outcome"], more["reason"]) == ("refused", "quota_exceeded")
    assert (bad["outcome"], bad["reason"]) == ("refused", "invalid")
    assert [problem["path"] for problem in bad["problems"]] == ["$.spec.template.spec.containers"]
    assert plan["placed"] == 3
    assert not gateway.core.state.applications and not gateway.core.state.namespaces


def test_documents_of_existing_objects_change_them_or_nothing(gateway: CoreGateway, api: Api) -> None:
    gateway.connect()
    gateway.offer(1)
    assert api.call("POST", "/namespaces/shop/applications", json=document("web")).status_code == 202
    assert api.call("POST", "/namespaces/shop/configmaps", json=configmap()).status_code == 200
    gateway.report("TASK_RUNNING", "shop.web")
    gateway.offer(1)
    plan = planned(api, [configmap(), document("web", instance=3), document("web", instance=4), document("api")])
    assert [one["outcome"] for one in plan["documents"]] == ["unchanged", "changed", "refused", "created"]
    assert len(plan["documents"][1]["place"]) == 1
    assert plan["documents"][2]["reason"] == "conflict"


def test_a_document_without_an_identity_and_too_many_documents_are_refused(gateway: CoreGateway, api: Api) -> None:
    for body, path in (([{"kind": "application"}], "$[0]"), ([document()] * 501, "$"), ({}, "$")):
        answer = api.call("POST", "/plans", json=body)
        assert answer.status_code == 422, answer.text
        assert answer.json()["data"]["problems"][0]["path"] == path
    assert planned(api, []) == {"documents": [], "evict": [], "placed": 0, "unplaced": 0}
    assert not gateway.commands


def test_parts_without_effect_are_named_or_refused(gateway: CoreGateway, api: Api) -> None:
    gateway.connect()
    gateway.offer(1)
    odd = {**document("web"), "colour": "red"}
    (told,) = planned(api, [odd])["documents"]
    assert told["outcome"] == "created" and told["warnings"][0]["path"] == "$.colour"
    (strict,) = planned(api, [odd], fieldValidation="Strict")["documents"]
    assert (strict["outcome"], strict["reason"]) == ("refused", "invalid")


def test_a_command_is_refused_and_the_other_documents_are_planned(gateway: CoreGateway, api: Api) -> None:
    gateway.connect()
    gateway.offer(1)
    target = {"kind": "Application", "name": "web", "namespace": "shop"}
    command = {"kind": "Command", "apiVersion": "v4", "spec": {"commandTargetRef": target, "command": ["date"]}}
    plan = planned(api, [document("web"), command])
    web, refused = plan["documents"]
    assert (web["outcome"], len(web["place"])) == ("created", 2)
    assert (refused["kind"], refused["namespace"], refused["name"]) == ("Command", "shop", "web")
    assert (refused["outcome"], refused["reason"]) == ("refused", "invalid")
    assert [problem["path"] for problem in refused["problems"]] == ["$.kind"]
