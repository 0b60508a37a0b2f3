"""The tree of queues over the API: who changes it, what it shows, and that creators are recorded."""

from __future__ import annotations

from typing import Any

import pytest

from bcs_scheduler.core.interface.requests import CreateApplication, CreateDaemonset, CreateDeployment
from tests.component.apiserver import Api
from tests.component.cli.test_queue_trees import TREE, options
from tests.unit.api_support import CoreGateway, document
from tests.unit.deployment_support import deployment


@pytest.fixture
def gateway() -> CoreGateway:
    return CoreGateway(options=options())


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
