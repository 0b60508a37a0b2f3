"""Daemonsets and drains over the API."""

from __future__ import annotations

from typing import Any

import pytest

from bcs_scheduler.core.interface.cluster_manager import AgentsListed
from tests.component.apiserver import Api, paths
from tests.unit.api_support import CoreGateway, document

DAEMONSETS = "/namespaces/shop/daemonsets"
KEY = "shop/probe"


def daemonset(name: str = "probe", **head: Any) -> dict[str, Any]:
    made = {**document(name), "kind": "daemonset", **head}
    del made["spec"]["instance"]
    return made


@pytest.fixture
def gateway() -> CoreGateway:
    gateway = CoreGateway()
    gateway.connect()
    agents(gateway, 1, 2)
    return gateway


def agents(gateway: CoreGateway, *numbers: int) -> None:
    """These agents are listed, and offer what they have."""
    gateway.listed = []
    for number in numbers:
        gateway.offer(number)
    gateway.feed(AgentsListed(agents=tuple(gateway.listed)))


def create(api: Api, **head: Any) -> None:
    response = api.call("POST", DAEMONSETS, json=daemonset(**head))
    assert response.status_code == 202, response.text


def test_a_daemonset_lives_and_dies(gateway: CoreGateway, api: Api) -> None:
    create(api, updatePolicy={"maxUnavailable": 2})
    again = api.call("POST", DAEMONSETS, json=daemonset())
    assert (again.status_code, again.json()["data"]["reason"]) == (409, "exists")
    gateway.report("RUNNING", KEY)
    shown = api.data(f"{DAEMONSETS}/probe")
    assert (shown["Status"], shown["Instances"], shown["RunningInstances"], shown["maxUnavailable"]) == (
        "Running", 2, 2, 2,
    )  # fmt: skip
    assert shown["counts"] == {
        "desired": 2, "current": 2, "ready": 2, "updated": 2, "available": 2, "misscheduled": 0,
    }  # fmt: skip
    assert len(shown["Pods"]) == 2
    assert len(api.data(f"{DAEMONSETS}/probe/taskgroups")) == 2
    assert api.data("/definition/daemonset/shop/probe")["kind"] == "daemonset"
    assert [found["name"] for found in api.data("/daemonsets")] == ["probe"]
    assert api.data("/daemonsets", params={"labelSelector": "app=other"}) == []
    assert api.data(DAEMONSETS, params={"status": "Abnormal"}) == []
    assert api.call("DELETE", f"{DAEMONSETS}/probe").status_code == 202
    assert api.data(f"{DAEMONSETS}/probe")["Status"] == "Deleting"
    gateway.report("KILLED", KEY)
    assert api.get(f"{DAEMONSETS}/probe").status_code == 404
    assert api.call("DELETE", f"{DAEMONSETS}/probe?mustExist=true").status_code == 404


def test_it_is_updated_rolled_back_and_restarted(gateway: CoreGateway, api: Api) -> None:
    create(api)
    gateway.report("RUNNING", KEY)
    changed = daemonset()
    assert api.call("PUT", DAEMONSETS, json=changed).json()["data"]["unchanged"]
    changed["spec"]["template"]["spec"]["containers"][0]["command"] = "server2"
    answer = api.call("PUT", f"{DAEMONSETS}/probe", json=changed)
    assert (answer.status_code, answer.json()["data"]["opType"]) == (202, "UPDATE")
    shown = api.data(f"{DAEMONSETS}/probe")
    assert (shown["Status"], shown["counts"]["updated"]) == ("Updating", 0)
    assert shown["transaction"] == answer.json()["data"]["transactionID"]
    assert api.call("PUT", f"{DAEMONSETS}/probe/rollback").status_code == 202
    assert api.call("PUT", f"{DAEMONSETS}/probe/rollback", params={"version": "7"}).status_code == 404
    assert api.call("PUT", f"{DAEMONSETS}/probe/restart").status_code == 202
    assert api.call("PUT", f"{DAEMONSETS}/other/restart").status_code == 404
    assert api.call("PUT", f"{DAEMONSETS}/other", json=changed).status_code == 422


def test_its_application_is_not_changed_past_it(gateway: CoreGateway, api: Api) -> None:
    create(api)
    application = "/namespaces/shop/applications/probe"
    assert api.data(application)["Kind"] == "daemonset"
    for method, path in (
        ("PUT", f"{application}/scale/5"),
        ("DELETE", application),
        ("PUT", f"{application}/rollback"),
    ):
        refused = api.call(method, path)
        assert refused.status_code == 409, refused.text
        assert "belongs to daemonset shop/probe" in refused.json()["message"]


def test_what_each_agent_is_to_it(gateway: CoreGateway, api: Api) -> None:
    agents(gateway, 1, 2, 3, 4)
    assert api.call("POST", "/agentsettings/disable", params={"ips": "10.0.0.3"}).status_code == 200
    taints = [{"innerIP": "10.0.0.4", "noSchedule": {"dedicated": "db"}}]
    assert api.call("PUT", "/agentsettings/taint", json=taints).status_code == 200
    zone = {"name": "zone", "operate": "UNLIKE", "type": 3, "text": {"value": "z2"}}
    create(api, constraint={"intersectionItem": [{"unionData": [zone]}]})
    found = {standing["hostname"]: standing for standing in api.data(f"{DAEMONSETS}/probe/agents")}
    assert {name: (s["wanted"], s["message"]) for name, s in found.items()} == {
        "host-1": (True, "all tasks are staging"),
        "host-2": (False, "constraint UNLIKE zone"),
        "host-3": (False, "the agent is cordoned"),
        "host-4": (False, "taint dedicated=db"),
    }
    assert found["host-1"]["updated"]
    assert not found["host-1"]["ready"]


def test_what_finds_no_place_is_explained(gateway: CoreGateway, api: Api) -> None:
    document = daemonset()
    document["spec"]["template"]["spec"]["containers"][0]["resources"] = {"limits": {"cpu": "100"}}
    assert api.call("POST", DAEMONSETS, json=document).status_code == 202
    text = " ".join(api.data(f"{DAEMONSETS}/probe/explain")["text"])
    assert "2 agents without a taskgroup" in text
    assert "2 lack CPUs" in text


@pytest.mark.parametrize(
    ("change", "path"),
    [
        ({"kind": "application"}, "$.kind"),
        ({"metadata": {"name": "probe", "namespace": "other"}}, "$.metadata.namespace"),
        ({"spec": {}}, "$.spec.template"),
        ({"updatePolicy": {"maxUnavailable": -1}}, "$.updatePolicy.maxUnavailable"),
        ({"constraint": {"intersectionItem": [{"unionData": [{"operate": "NEVER"}]}]}}, "$.constraint"),
    ],
)
def test_bad_documents_are_refused_where_they_are_wrong(api: Api, change: dict[str, Any], path: str) -> None:
    refused = api.call("POST", DAEMONSETS, json={**daemonset(), **change})
    assert refused.status_code == 422
    assert any(found.startswith(path) for found in paths(refused)), refused.text


def test_a_number_of_instances_says_nothing(gateway: CoreGateway, api: Api) -> None:
    document = daemonset()
    document["spec"]["instance"] = 7
    assert api.call("POST", "/namespaces/shop/daemonset", json=document).status_code == 202
    assert api.data(f"{DAEMONSETS}/probe")["counts"]["desired"] == 2


def test_a_plan_changes_nothing(api: Api) -> None:
    planned = api.call("POST", DAEMONSETS, params={"dryRun": "true"}, json=daemonset())
    assert planned.status_code == 200
    assert sorted(place["hostname"] for place in planned.json()["data"]["place"]) == ["host-1", "host-2"]
    assert api.data("/daemonsets") == []


# --- drains -----------------------------------------------------------------------------------------------------------


def test_a_drain_is_told_agent_by_agent(gateway: CoreGateway, api: Api) -> None:
    web = document(instance=1)
    assert api.call("POST", "/namespaces/shop/applications", json=web).status_code == 202
    gateway.report("RUNNING", "shop/web")
    (group,) = gateway.core.state.taskgroups.values()
    answer = api.call("POST", "/agentsettings/drain", params={"ips": group.hostname, "atOnce": 2, "timeoutSeconds": 60})
    assert answer.json()["data"] == [{"innerIP": group.agent_ip, "result": True, "message": "success"}]
    gateway.feed()
    (told,) = api.data("/agentsettings/drain")
    assert (told["innerIP"], told["state"], told["left"], told["atOnce"]) == (group.agent_ip, "draining", 1, 2)
    assert told["deadline"]
    (setting,) = api.data("/agentsettings", params={"ips": group.agent_ip})
    assert (setting["disabled"], setting["drain"]) == (True, "draining")
    (agent,) = [found for found in api.data("/cluster/resources")["agents"] if found["key"] == group.agent_ip]
    assert agent["drain"] == "draining"
    assert api.call("POST", "/agentsettings/enable", params={"ips": group.agent_ip}).status_code == 200
    assert api.data("/agentsettings/drain") == []


def test_agents_that_nobody_knows_are_named(api: Api) -> None:
    answer = api.call("POST", "/agentsettings/drain", params={"ips": "10.0.0.1,10.9.9.9"})
    assert answer.status_code == 404
    results = {result["innerIP"]: result["result"] for result in answer.json()["data"]["results"]}
    assert results == {"10.0.0.1": True, "10.9.9.9": False}
    assert api.get("/agentsettings/drain", params={"ips": "10.0.0.2"}).status_code == 404
    assert api.call("POST", "/agentsettings/drain").status_code == 400
    assert api.call("POST", "/agentsettings/drain", params={"ips": "10.0.0.1", "atOnce": 0}).status_code == 400


def test_what_blocks_a_drain_is_listed(gateway: CoreGateway, api: Api) -> None:
    web = document(instance=1)
    assert api.call("POST", "/namespaces/shop/applications", json=web).status_code == 202
    gateway.report("UNREACHABLE", "shop/web")
    (group,) = gateway.core.state.taskgroups.values()
    api.call("POST", "/agentsettings/drain", params={"ips": group.agent_ip})
    gateway.feed()
    (told,) = api.data("/agentsettings/drain", params={"ips": group.agent_ip})
    assert told["blocked"] == [{"taskgroup": group.id, "reason": "its agent is unreachable"}]
    assert "unreachable" in told["message"]


def test_one_agent_can_be_named_in_the_path(gateway: CoreGateway, api: Api) -> None:
    assert api.get("/agentsetting/10.0.0.1").status_code == 404
    answer = api.call("POST", "/agentsetting/host-1/disable")
    assert answer.json()["data"] == [{"innerIP": "10.0.0.1", "result": True, "message": "success"}]
    assert api.data("/agentsetting/10.0.0.1")["disabled"]
    assert api.call("POST", "/agentsetting/10.0.0.1/enable").status_code == 200
    assert not api.data("/agentsetting/host-1")["disabled"]
