"""Namespaces, admission webhooks and custom resources over the API: what is accepted, how it lives and dies."""

from __future__ import annotations

from base64 import b64encode
from pathlib import Path
from typing import Any

import pytest

from bcs_scheduler.api.admission import Admission
from bcs_scheduler.api.http.operation import ApiSettings
from bcs_scheduler.api.http.request_gate import RequestGate
from bcs_scheduler.api.objects.webhooks import TARGETS as WEBHOOK_TARGETS
from bcs_scheduler.cli.client.kinds import ALIASES, KINDS
from bcs_scheduler.cli.client.lookup import OWNERS
from bcs_scheduler.cli.commands.reading.top import KINDS as MEASURED
from bcs_scheduler.cli.documents import APPLY_ORDER
from bcs_scheduler.core.interface.cluster_manager import Traits
from bcs_scheduler.core.options import CoreOptions
from bcs_scheduler.security.tokens import hash_of, read_tokens
from bcs_scheduler.security.watched import WatchedFiles
from tests.component.apiserver import Api, paths, serving
from tests.component.test_api_admission import hook, webhook
from tests.unit.api_support import CoreGateway, document
from transactions.base import Overhead

Json = dict[str, Any]
DATABASES = "/crd/namespaces/shop/Database"
STRICT = {"fieldValidation": "Strict"}


def status(response: Any) -> tuple[int, str]:
    answer = response.json()
    return response.status_code, "" if answer["result"] else answer["data"]["reason"]


def namespace(name: str = "shop", labels: Json | None = None, **quota: Any) -> Json:
    return {"kind": "namespace", "metadata": {"name": name, "labels": labels or {}}, "spec": {"quota": quota}}


# --- namespaces -------------------------------------------------------------------------------------------------------


def test_a_namespace_lives_and_dies(api: Api, gateway: CoreGateway) -> None:
    body = namespace(cpus="1500m", mem="2Gi", disk=0, taskgroups=7)
    assert status(api.call("PUT", "/namespaces/shop", json=body)) == (404, "not_found")
    assert status(api.call("POST", "/namespaces?dryRun=true", json=body)) == (200, "")
    assert status(api.get("/namespaces/shop")) == (404, "not_found")
    assert status(api.call("POST", "/namespaces", json=body)) == (200, "")
    assert status(api.call("POST", "/namespaces", json=body)) == (409, "exists")
    shown = api.data("/namespaces/shop")
    assert shown["spec"] == {"quota": {"cpus": 1.5, "mem": 2048.0, "disk": 0.0, "taskgroups": 7}}
    assert shown["status"] == {
        "used": {"cpus": 0.0, "mem": 0.0, "disk": 0.0, "taskgroups": 0, "objects": 0, "objectStorage": 0.0},
        "contents": {},
        "recorded": True,
        "maxPriority": 0,
        "excess": [],
    }
    assert status(api.call("PUT", "/namespaces", json=namespace(cpus=2))) == (200, "")
    assert api.data("/namespaces/shop")["spec"] == {"quota": {"cpus": 2.0}}
    assert status(api.call("DELETE", "/namespaces/shop")) == (200, "")
    assert status(api.call("DELETE", "/namespaces/shop")) == (404, "not_found")


def test_a_quota_bounds_and_its_use_is_shown(api: Api, gateway: CoreGateway) -> None:
    api.call("POST", "/namespaces", json=namespace(cpu="0.5", memory="1Gi"))
    response = api.call("POST", "/namespaces/shop/applications", json=document(instance=6))
    assert status(response) == (409, "quota_exceeded")
    assert "cpus: quota 0.5 cores, used 0, 0.6 more asked for" in response.json()["message"]
    assert status(api.call("POST", "/namespaces/shop/applications", json=document(instance=5))) == (202, "")
    shown = api.data("/namespaces/shop")["status"]
    assert shown["used"] == {
        "cpus": 0.5, "mem": 480.0, "disk": 320.0, "taskgroups": 5, "objects": 1, "objectStorage": 0.0
    }  # fmt: skip
    assert shown["contents"] == {"applications": 1}
    assert status(api.call("DELETE", "/namespaces/shop")) == (409, "conflict")


def test_quota_usage_counts_the_overhead_of_the_cluster_manager_on_a_standby_too() -> None:
    overhead = Overhead(cpus=50, mem=1_000, disk=2_000)
    gateway = CoreGateway(options=CoreOptions(strict=True, traits=Traits(overhead=overhead)))
    with serving(gateway, ApiSettings(overhead=overhead)) as api:
        api.call("POST", "/namespaces", json=namespace(cpu="0.5"))
        response = api.call("POST", "/namespaces/shop/applications", json=document(instance=4))
        assert "cpus: quota 0.5 cores, used 0, 0.6 more asked for" in response.json()["message"]
        api.call("POST", "/namespaces/shop/applications", json=document(instance=3))
        expected = {"cpus": 0.45, "mem": 99.0, "disk": 6.0, "taskgroups": 3, "objects": 1, "objectStorage": 0.0}
        for _ in ("leader", "standby"):
            assert api.data("/namespaces/shop")["status"]["used"] == expected
            (listed,) = api.data("/namespaces")
            assert listed["status"]["used"] == expected
            gateway.stand_by("http://127.0.0.1:1")


def test_namespaces_exist_by_their_content_too(api: Api) -> None:
    for name, labels in (("b", {"tier": "x"}), ("a", {})):
        api.call("POST", "/namespaces", json=namespace(name, labels))
    api.call("POST", "/namespaces/c/configmaps", json={"kind": "configmap", "metadata": {"name": "conf"}})
    listed = api.data("/namespaces")
    assert [n["metadata"]["name"] for n in listed] == ["a", "b", "c"]
    assert [n["status"]["recorded"] for n in listed] == [True, True, False]
    assert api.data("/namespaces/c")["status"]["contents"] == {"configmaps": 1}
    assert [n["metadata"]["name"] for n in api.data("/namespaces?labelSelector=tier")] == ["b"]
    first = api.get("/namespaces?limit=2").json()
    rest = api.data(f"/namespaces?limit=2&continue={first['continue']}")
    assert [n["metadata"]["name"] for n in first["data"] + rest] == ["a", "b", "c"]


@pytest.mark.parametrize(
    ("quota", "path"),
    [
        ({"cpus": 0}, "cpus"),
        ({"cpus": -1}, "cpus"),
        ({"cpus": "lots"}, "cpus"),
        ({"mem": "1Xi"}, "mem"),
        ({"mem": 10**12}, "mem"),
        ({"disk": "-1"}, "disk"),
        ({"taskgroups": -1}, "taskgroups"),
        ({"taskgroups": 1.5}, "taskgroups"),
        ({"pods": 1}, "pods"),
    ],
)
def test_bad_quotas(api: Api, quota: Json, path: str) -> None:
    response = api.call("POST", "/namespaces", json=namespace(**quota), params={"fieldValidation": "Strict"})
    assert status(response) == (422, "invalid") and paths(response) == {f"$.spec.quota.{path}"}


def test_bad_namespaces(api: Api) -> None:
    assert paths(api.call("POST", "/namespaces", json=namespace("Shop"), params=STRICT)) == {"$.metadata.name"}
    assert paths(api.call("POST", "/namespaces", json=namespace("Sh.op"))) == {"$.metadata.name"}
    assert paths(api.call("PUT", "/namespaces/other", json=namespace())) == {"$.metadata.name"}
    body = namespace()
    body["metadata"]["namespace"] = "other"
    assert paths(api.call("POST", "/namespaces", json=body)) == {"$.metadata.namespace"}
    body["metadata"]["namespace"] = "shop"
    assert status(api.call("POST", "/namespaces", json=body)) == (200, "")
    assert paths(api.call("POST", "/namespaces", json={"kind": "secret"})) == {"$.kind"}


def test_a_namespace_names_a_queue_that_exists(api: Api, gateway: CoreGateway) -> None:
    body = namespace(cpus=1)
    body["spec"]["queue"] = "batch"
    refused = api.call("POST", "/namespaces", json=body)
    assert status(refused) == (422, "invalid") and paths(refused) == {"$.spec.queue"}
    api.call("POST", "/queues", json={"kind": "queue", "metadata": {"name": "batch"}})
    assert status(api.call("POST", "/namespaces", json=body)) == (200, "")
    assert api.data("/namespaces/shop")["spec"] == {"quota": {"cpus": 1.0}, "queue": "batch"}
    found = api.data("/queues/batch")["status"]
    assert found == {"namespaces": ["shop"], "recorded": True, "taskgroups": 0, "used": {}}
    refused = api.call("DELETE", "/queues/batch")
    assert status(refused) == (409, "conflict") and "1 namespace: shop" in refused.json()["message"]
    body["spec"]["queue"] = "default"
    assert status(api.call("PUT", "/namespaces", json=body)) == (200, "")
    assert api.data("/namespaces/shop")["spec"] == {"quota": {"cpus": 1.0}}
    assert status(api.call("DELETE", "/queues/batch")) == (200, "")
    body["spec"]["queue"] = "No.Name"
    assert paths(api.call("PUT", "/namespaces", json=body)) == {"$.spec.queue"}


# --- admission webhooks -----------------------------------------------------------------------------------------------


def test_a_webhook_lives_and_dies(api: Api, gateway: CoreGateway) -> None:
    service = {"name": "guard", "namespace": "system", "port": 8443, "path": "check"}
    body = webhook(
        hook("http://guard/", namespaceSelector={"operator": "In", "values": ["shop"]}),
        {"name": "two", "clientConfig": service},
    )
    assert status(api.call("PUT", "/admissionwebhook", json=body)) == (404, "not_found")
    assert status(api.call("POST", "/namespaces/system/admissionwebhook", json=body)) == (200, "")
    assert status(api.call("POST", "/admissionwebhook", json=body)) == (409, "exists")
    shown = api.data("/admissionwebhook/system/conf")
    assert shown["resourcesRef"] == {"operation": "Create", "kind": "application"} and shown["validating"] is False
    first, second = shown["admissionWebhooks"]
    assert first["failurePolicy"] == "Fail" and first["namespaceSelector"] == {"operator": "In", "values": ["shop"]}
    assert second["clientConfig"]["url"] == "https://guard.system:8443/check"
    assert (second["failurePolicy"], second["timeoutSeconds"]) == ("Ignore", 10.0)
    body["validating"] = True
    assert status(api.call("PUT", "/namespaces/system/admissionwebhook", json=body)) == (200, "")
    assert api.data("/namespaces/system/admissionwebhook/conf")["validating"] is True
    assert api.data("/admissionwebhooks") == api.data("/namespaces/system/admissionwebhook")
    assert api.data("/admissionwebhooks?namespace=other") == []
    assert status(api.call("DELETE", "/admissionwebhook/system/conf")) == (200, "")
    assert status(api.call("DELETE", "/namespaces/system/admissionwebhook/conf?mustExist=true")) == (404, "not_found")
    assert gateway.core.state.webhooks == {}


def test_what_is_read_of_a_webhook_can_be_handed_in_again(api: Api) -> None:
    api.call("POST", "/admissionwebhook", json=webhook(hook("http://guard/")))
    shown = api.data("/admissionwebhook/system/conf")
    del shown["metadata"]["updateTimestamp"]
    assert status(api.call("PUT", "/admissionwebhook", json=shown)) == (200, "")


NO_PEM = b64encode(b"-----BEGIN CERTIFICATE-----\nnonsense\n-----END CERTIFICATE-----").decode()


@pytest.mark.parametrize(
    ("change", "path"),
    [
        ({"resourcesRef": {"operation": "Delete", "kind": "application"}}, "$.resourcesRef.operation"),
        ({"resourcesRef": {"operation": "Create", "kind": "secret"}}, "$.resourcesRef.kind"),
        ({"admissionWebhooks": []}, "$.admissionWebhooks"),
        ({"admissionWebhooks": [hook("http://x/")] * 2}, "$.admissionWebhooks[1].name"),
        ({"admissionWebhooks": [hook("ftp://x/")]}, "$.admissionWebhooks[0].clientConfig.url"),
        ({"admissionWebhooks": [hook("http://u:p@x/")]}, "$.admissionWebhooks[0].clientConfig.url"),
        ({"admissionWebhooks": [hook("")]}, "$.admissionWebhooks[0].clientConfig"),
        ({"admissionWebhooks": [hook("http://x/", timeoutSeconds=0)]}, "$.admissionWebhooks[0].timeoutSeconds"),
        ({"admissionWebhooks": [hook("http://x/", timeoutSeconds=31)]}, "$.admissionWebhooks[0].timeoutSeconds"),
        ({"admissionWebhooks": [hook("http://x/", failurePolicy="Retry")]}, "$.admissionWebhooks[0].failurePolicy"),
        (
            {"admissionWebhooks": [hook("http://x/", namespaceSelector={"operator": "Exists", "values": ["a"]})]},
            "$.admissionWebhooks[0].namespaceSelector.operator",
        ),
        (
            {"admissionWebhooks": [hook("http://x/", namespaceSelector={"operator": "In", "values": []})]},
            "$.admissionWebhooks[0].namespaceSelector.values",
        ),
        (
            {"admissionWebhooks": [hook("", clientConfig={"url": "https://x/", "caBundle": NO_PEM})]},
            "$.admissionWebhooks[0].clientConfig.caBundle",
        ),
    ],
)
def test_bad_webhooks(api: Api, change: Json, path: str) -> None:
    response = api.call("POST", "/admissionwebhook", json=webhook(hook("http://x/"), **change))
    assert status(response) == (422, "invalid") and paths(response) == {path}


# --- custom resources -------------------------------------------------------------------------------------------------


def kind(name: str = "Database") -> Json:
    return {"apiVersion": "v4", "kind": "crr", "spec": {"names": {"kind": name}}}


def database(name: str = "main", **more: Any) -> Json:
    return {"apiVersion": "x/v1", "kind": "Database", "metadata": {"name": name}, "spec": {"size": 3}, **more}


def test_kinds_are_registered_once(api: Api, gateway: CoreGateway) -> None:
    assert status(api.call("POST", "/crr/register", json=kind())) == (200, "")
    again = api.call("POST", "/crr/register", json=kind()).json()
    assert again["data"] == {"kind": "Database", "unchanged": True}
    assert [found["spec"]["names"]["kind"] for found in api.data("/crr")] == ["Database"]
    assert api.data("/crr/Database")["kind"] == "crr"
    assert status(api.get("/crr/database")) == (404, "not_found")
    api.call("POST", DATABASES, json=database())
    assert status(api.call("DELETE", "/crr/Database")) == (409, "conflict")
    api.call("DELETE", f"{DATABASES}/main")
    assert status(api.call("DELETE", "/crr/Database")) == (200, "")
    assert status(api.call("DELETE", "/crr/Database")) == (404, "not_found")
    assert gateway.core.state.custom_kinds == {}


def test_custom_resources_are_kept_as_they_are(api: Api) -> None:
    assert status(api.call("POST", DATABASES, json=database())) == (404, "not_found")
    assert status(api.get(DATABASES)) == (404, "not_found")
    api.call("POST", "/crr/register", json=kind())
    assert api.data(DATABASES) == []
    odd = {"a": [1, None, {"b": 1.5}], "": "ü"}
    given = database(status=odd, metadata={"name": "main", "labels": {"l": "v"}, "annotations": {"k": "w"}})
    assert status(api.call("POST", DATABASES, json=given)) == (200, "")
    assert status(api.call("POST", DATABASES, json=given)) == (200, "")
    shown = api.data(f"{DATABASES}/main")
    assert (shown["apiVersion"], shown["spec"], shown["status"]) == ("x/v1", {"size": 3}, odd)
    assert shown["metadata"]["labels"] == {"l": "v"} and shown["metadata"]["annotations"] == {"k": "w"}
    assert status(api.call("PUT", DATABASES, json=database(spec=None))) == (200, "")
    assert api.data(f"{DATABASES}/main")["spec"] is None
    api.call("POST", "/crd/namespaces/other/Database", json=database())
    assert [d["metadata"]["namespace"] for d in api.data("/crd/Database")] == ["other", "shop"]
    assert [d["metadata"]["namespace"] for d in api.data("/crd/Database?namespace=other")] == ["other"]
    assert status(api.call("DELETE", f"{DATABASES}/main")) == (200, "")
    assert status(api.call("DELETE", f"{DATABASES}/main?mustExist=true")) == (404, "not_found")
    assert status(api.get(f"{DATABASES}/main")) == (404, "not_found")


WORDS = {*ALIASES, *KINDS, *OWNERS, *APPLY_ORDER, *MEASURED, *WEBHOOK_TARGETS}
"""What `bcs` takes for a kind."""


@pytest.mark.parametrize(
    "name",
    ["", "a.b", "9a", "a" * 64, "Deployment", "namespaces", "SECRET", "admissionwebhook", "Crr", "CRD", "cluster",
     "Servers", "definition", "agentsetting", "ExtendedResources", "Watch", "all", "Processes", *sorted(WORDS)],
)  # fmt: skip
def test_bad_kinds(api: Api, name: str) -> None:
    response = api.call("POST", "/crr/register", json=kind(name))
    assert status(response) == (422, "invalid") and paths(response) == {"$.spec.names.kind"}


@pytest.mark.parametrize("name", ["database", "DATABASE", "Databases", "databases"])
def test_kinds_that_users_could_not_tell_apart(api: Api, name: str) -> None:
    assert status(api.call("POST", "/crr/register", json=kind())) == (200, "")
    response = api.call("POST", "/crr/register", json=kind(name))
    assert status(response) == (409, "conflict") and paths(response) == {"$.spec.names.kind"}
    assert response.json()["message"] == f"kind {name} cannot be distinguished from kind Database"
    assert [found["spec"]["names"]["kind"] for found in api.data("/crr")] == ["Database"]
    api.call("DELETE", "/crr/Database")
    assert status(api.call("POST", "/crr/register", json=kind(name))) == (200, "")


def test_bad_custom_resources(api: Api) -> None:
    api.call("POST", "/crr/register", json=kind())
    assert paths(api.call("POST", DATABASES, json=database(kind="Other"))) == {"$.kind"}
    elsewhere = database(metadata={"name": "main", "namespace": "other"})
    assert paths(api.call("POST", DATABASES, json=elsewhere)) == {"$.metadata.namespace"}
    assert paths(api.call("POST", DATABASES, json=database("Main"), params=STRICT)) == {"$.metadata.name"}
    assert paths(api.call("POST", DATABASES, json=database(data={}), params=STRICT)) == {"$.data"}
    bodies: tuple[Any, ...] = ([], "x", 7)
    for body in bodies:
        assert paths(api.call("POST", DATABASES, json=body)) == {"$"}
    big = api.call("POST", DATABASES, json=database(spec="x" * 400_000))
    assert status(big) == (422, "invalid") and "300000" in big.text


# --- who may --------------------------------------------------------------------------------------------------------


def test_those_of_one_namespace_see_and_change_no_other(gateway: CoreGateway, tmp_path: Path) -> None:
    file = tmp_path / "tokens.toml"
    file.write_text(
        f'[[token]]\nname = "o"\nhash = "{hash_of("key")}"\nrole = "operator"\nnamespaces = ["shop"]\n'
        f'[[token]]\nname = "a"\nhash = "{hash_of("root")}"\nrole = "admin"\nnamespaces = "*"\n'
    )
    gate = RequestGate(tokens=WatchedFiles("tokens", [file], lambda: read_tokens(file)))
    admin, own = {"Authorization": "Bearer root"}, {"Authorization": "Bearer key"}
    with serving(gateway, gate=gate, admission=Admission()) as api:
        for name in ("shop", "other"):
            assert api.call("POST", "/namespaces", json=namespace(name), headers=admin).status_code == 200
            api.call("POST", "/crr/register", json=kind(), headers=admin)
            path = f"/crd/namespaces/{name}/Database"
            assert api.call("POST", path, json=database(), headers=admin).status_code == 200
        shown = api.data("/namespaces", headers=own)
        assert [n["metadata"]["name"] for n in shown] == ["shop"]
        assert [d["metadata"]["namespace"] for d in api.data("/crd/Database", headers=own)] == ["shop"]
        assert api.call("POST", DATABASES, json=database("mine"), headers=own).status_code == 200
        asked = webhook(hook("http://guard/"))
        refused = [
            ("GET", "/namespaces/other", None),
            ("POST", "/namespaces", namespace("third")),
            ("PUT", "/namespaces/shop", namespace("shop")),
            ("DELETE", "/namespaces/shop", None),
            ("POST", "/crr/register", kind("Queue")),
            ("DELETE", "/crr/Database", None),
            ("POST", "/crd/namespaces/other/Database", database()),
            ("GET", "/admissionwebhooks", None),
            ("POST", "/admissionwebhook", asked),
            (
                "POST",
                "/namespaces/shop/admissionwebhook",
                {**webhook(hook("http://guard/")), "metadata": {"name": "x"}},
            ),
            ("DELETE", "/namespaces/shop/admissionwebhook/x", None),
        ]
        for method, path, body in refused:
            assert status(api.call(method, path, json=body, headers=own)) == (403, "forbidden"), (method, path)
        # What they may not see is asked about their documents all the same.
        assert api.call("POST", "/admissionwebhook", json=webhook(hook("http://127.0.0.1/")), headers=admin).ok
        answer = api.call("POST", "/namespaces/shop/applications", json=document(), headers=own)
        assert status(answer) == (400, "admission")
