"""The tree of queues over the API: who changes it, what it shows, and that creators are recorded."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from bcs_scheduler.core.interface.requests import CreateApplication, CreateDaemonset, CreateDeployment
from bcs_scheduler.core.options import CoreOptions
from tests.component.apiserver import Api
from tests.component.cli.test_queue_trees import SMALL, TREE, options, two_trees
from tests.unit.api_support import CoreGateway, document
from tests.unit.deployment_support import deployment


@pytest.fixture
def gateway(request: pytest.FixtureRequest) -> CoreGateway:
    return CoreGateway(options=getattr(request, "param", None) or options())


def data(response: Any) -> Any:
    assert response.status_code == 200, response.text
    return response.json()["data"]


def test_a_change_is_validated_tried_and_stored(api: Api, gateway: CoreGateway) -> None:
    assert data(api.call("GET", "/queuetree"))["spec"] == TREE
    tree = {"queues": [{"name": "only"}]}
    tried = data(api.call("PUT", "/queuetree?dryRun=true", json=tree))
    assert tried["revision"] == 2 and tried["trial"]["preempting"] == 0
    assert data(api.call("PUT", "/queuetree?expected=1", json=tree)) == {"revision": 2}
    again = api.call("PUT", "/queuetree?expected=1", json=TREE)
    assert (again.status_code, again.json()["data"]["reason"]) == (409, "conflict")
    bad = api.call("PUT", "/queuetree", json={"queues": [{"name": "a.b"}], "placementrules": [{"name": "odd"}]})
    assert bad.status_code == 422
    paths = [problem["path"] for problem in bad.json()["data"]["problems"]]
    assert paths == ["$.queues[0].name", "$.placementrules[0].name"]
    assert data(api.call("POST", "/queuetree/rollback?revision=1")) == {"revision": 3}
    kept = data(api.call("GET", "/queuetree/revisions"))
    assert [(one["metadata"]["revision"], one["present"]) for one in kept] == [(3, True), (2, False), (1, False)]
    assert data(api.call("GET", "/queuetree/revisions/2"))["spec"] == tree
    assert api.call("GET", "/queuetree/revisions/9").status_code == 404


def test_the_answer_of_get_can_be_changed_and_put(api: Api, gateway: CoreGateway) -> None:
    answer = data(api.call("GET", "/queuetree"))
    assert data(api.call("PUT", "/queuetree", json=answer)) == {"revision": 1, "unchanged": True}
    answer["spec"]["queues"].append({"name": "more"})
    assert data(api.call("PUT", "/queuetree", json=answer))["revision"] == 2
    late = api.call("PUT", "/queuetree", json=answer)
    assert (late.status_code, late.json()["data"]["reason"]) == (409, "conflict")
    other = api.call("PUT", "/queuetree", json={**answer, "partition": "night"})
    assert other.status_code == 404
    bare = api.call("PUT", "/queuetree", json={"kind": "queuetree", "spec": None})
    assert bare.status_code == 422 and bare.json()["data"]["problems"]


def test_queues_are_halted(api: Api, gateway: CoreGateway) -> None:
    assert data(api.call("POST", "/queuetree/queues/root.batch/stop")) == {"queue": "root.batch", "state": "Stopped"}
    halted = data(api.call("GET", "/queuetree"))["halted"]
    assert [(one["queue"], one["state"]) for one in halted] == [("root.batch", "Stopped")]
    assert data(api.call("GET", "/queuetree/queues/root.batch"))["status"]["state"] == "Stopped"
    assert data(api.call("POST", "/queuetree/queues/root.batch/start"))["state"] == "Active"
    assert api.call("POST", "/queuetree/queues/root.none/drain").status_code == 404


def test_a_page_of_queues_ends_where_the_next_begins(api: Api) -> None:
    first = api.call("GET", "/queuetree/queues?limit=4").json()
    rest = api.call("GET", f"/queuetree/queues?continue={first['continue']}").json()
    names = [one["name"] for one in (*first["data"], *rest["data"])]
    assert names[:3] == ["root", "root.batch", "root.batch.night"] and len(names) == 6


def test_workloads_have_their_creator(api: Api, gateway: CoreGateway) -> None:
    api.call("POST", "/namespaces/shop/applications", json=document())
    front = deployment()
    api.call("POST", f"/namespaces/{front['metadata']['namespace']}/deployments", json=front)
    made = [one for one in gateway.commands if isinstance(one, CreateApplication | CreateDeployment | CreateDaemonset)]
    assert len(made) == 2
    assert {(one.user, one.user_groups) for one in made} == {("", ())}


def test_a_namespace_names_a_queue_of_the_tree(api: Api) -> None:
    settings = {"kind": "namespace", "metadata": {"name": "nightly"}, "spec": {"queue": "batch.night"}}
    assert data(api.call("POST", "/namespaces", json=settings))["name"] == "nightly"
    settings["spec"] = {"queue": "root.batch.reports"}
    assert data(api.call("PUT", "/namespaces/nightly", json=settings))["name"] == "nightly"
    for wrong in ("batch.none", "batch..night"):
        settings["spec"] = {"queue": wrong}
        refused = api.call("PUT", "/namespaces/nightly", json=settings)
        assert (refused.status_code, refused.json()["data"]["problems"][0]["path"]) == (422, "$.spec.queue")


def unnamed() -> CoreOptions:
    """Two trees, and none of the partition default."""
    parts = (replace(part, name=part.name or "day") for part in two_trees().partitions)
    return CoreOptions(strict=True, partitions=tuple(parts))


@pytest.mark.parametrize("gateway", [two_trees()], indirect=True)
def test_requests_name_one_of_several_partitions(api: Api, gateway: CoreGateway) -> None:
    found = data(api.call("GET", "/queuetree/partitions"))
    assert found == [
        {"name": "default", "policy": "hierarchical", "roles": ["*"], "revision": 1},
        {"name": "night", "policy": "hierarchical", "roles": ["batch"], "revision": 1},
    ]
    assert data(api.call("GET", "/queuetree"))["spec"] == TREE
    night = data(api.call("GET", "/queuetree?partition=night"))
    assert (night["partition"], night["spec"]) == ("night", SMALL)
    assert [(part["name"], part["roles"]) for part in night["partitions"]] == [("default", ["*"]), ("night", ["batch"])]
    assert data(api.call("GET", "/queuetree/queues/root.batch?partition=night"))["spec"]["max"] == {}
    names = [(one["partition"], one["name"]) for one in data(api.call("GET", "/queuetree/queues"))]
    assert names == sorted(names, key=lambda one: (one[0], one[1].replace(".", "\0"))) and len(names) == 9
    first = api.call("GET", "/queuetree/queues?limit=7").json()
    rest = api.call("GET", f"/queuetree/queues?continue={first['continue']}").json()
    assert [(one["partition"], one["name"]) for one in (*first["data"], *rest["data"])] == names
    assert len(data(api.call("GET", "/queuetree/queues?partition=night"))) == 3
    put = data(api.call("PUT", "/queuetree?partition=night", json={"queues": [{"name": "only"}]}))
    assert put == {"revision": 2, "partition": "night"}
    assert data(api.call("GET", "/queuetree/revisions?partition=night"))[0]["metadata"]["revision"] == 2
    assert [one["partition"] for one in data(api.call("GET", "/queuetree/revisions"))] == ["default"]
    assert api.call("GET", "/queuetree/revisions/2").status_code == 404
    assert data(api.call("GET", "/queuetree/revisions/2?partition=night"))["partition"] == "night"


@pytest.mark.parametrize("gateway", [two_trees()], indirect=True)
def test_a_document_of_yunikorn_changes_the_partition_that_it_names(api: Api) -> None:
    def put(name: str, query: str = "") -> Any:
        document = {"partitions": [{"name": name, "queues": [{"name": f"of-{name}"}]}]}
        return data(api.call("PUT", f"/queuetree{query}", json=document))["partition"]

    assert (put("night"), put("other"), put("night", "?partition=default")) == ("night", "default", "default")


@pytest.mark.parametrize("gateway", [unnamed()], indirect=True)
def test_without_a_default_partition_a_request_must_name_one(api: Api) -> None:
    tree = {"queues": [{"name": "only"}]}
    for method, path, body in (
        ("GET", "/queuetree", None),
        ("PUT", "/queuetree", tree),
        ("POST", "/queuetree/rollback", None),
        ("GET", "/queuetree/revisions", None),
        ("GET", "/queuetree/queues/root", None),
        ("POST", "/queuetree/queues/root.batch/stop", None),
    ):
        refused = api.call(method, path, json=body)
        assert (refused.status_code, refused.json()["data"]["problems"][0]["path"]) == (400, "?partition"), path
        assert "day, night" in refused.json()["message"]
        unknown = api.call(method, f"{path}?partition=week", json=body)
        assert unknown.status_code == 404 and "day, night" in unknown.json()["message"]
    assert len(data(api.call("GET", "/queuetree/queues"))) == 9
    assert data(api.call("PUT", "/queuetree?partition=day", json=tree)) == {"revision": 2, "partition": "day"}


def test_one_policy_is_one_partition(api: Api) -> None:
    assert data(api.call("GET", "/queuetree/partitions")) == [
        {"name": "default", "policy": "hierarchical", "roles": ["*"], "revision": 1}
    ]
    assert data(api.call("GET", "/queuetree?partition=default"))["partition"] == "default"


@pytest.mark.parametrize("gateway", [CoreOptions(strict=True)], indirect=True)
def test_partitions_with_other_policies_have_no_tree(api: Api) -> None:
    assert data(api.call("GET", "/queuetree/partitions")) == [
        {"name": "", "policy": "simple", "roles": ["*"], "revision": None}
    ]
    assert api.call("GET", "/queuetree").status_code == 404


@pytest.mark.parametrize("gateway", [two_trees()], indirect=True)
def test_a_standby_has_the_revisions_of_the_stored_trees(
    api: Api, gateway: CoreGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gateway, "partitions", list)
    kept = data(api.call("GET", "/queuetree/revisions?partition=night"))
    assert [(one["partition"], one["metadata"]["revision"]) for one in kept] == [("night", 1)]
    assert data(api.call("GET", "/queuetree/revisions/1"))["spec"] == TREE
    unknown = api.call("GET", "/queuetree/revisions?partition=week")
    assert unknown.status_code == 404 and "default, night" in unknown.json()["message"]
