"""Configmaps and secrets over the API: what is accepted, how it lives and dies, what is shown of it."""

from __future__ import annotations

from base64 import b64encode
from hashlib import sha256
from typing import Any

import pytest

from tests.component.apiserver import Api, paths
from tests.unit.api_support import CoreGateway, document

CONFIGMAPS, SECRETS = "/namespaces/shop/configmaps", "/namespaces/shop/secrets"


def base64(text: str) -> str:
    return b64encode(text.encode()).decode()


def config_map(name: str = "conf", **datas: Any) -> dict[str, Any]:
    return {"apiVersion": "v4", "kind": "configmap", "metadata": {"name": name}, "datas": datas}


def secret(name: str = "keys", **datas: str) -> dict[str, Any]:
    contents = {key: {"content": base64(text)} for key, text in datas.items()}
    return {"apiVersion": "v4", "kind": "secret", "metadata": {"name": name}, "datas": contents}


def status(response: Any) -> tuple[int, str]:
    answer = response.json()
    return response.status_code, "" if answer["result"] else answer["data"]["reason"]


def test_a_configmap_lives_and_dies(gateway: CoreGateway, api: Api) -> None:
    first = config_map(a={"content": base64("one")}, b={"type": "http", "content": "http://h/x"})
    assert status(api.call("POST", CONFIGMAPS, json=first)) == (200, "")
    assert status(api.call("POST", CONFIGMAPS, json=first)) == (409, "exists")
    shown = api.data(f"{CONFIGMAPS}/conf")
    assert shown["datas"] == {
        "a": {"type": "file", "content": base64("one")},
        "b": {"type": "http", "content": "http://h/x"},
    }
    assert (shown["kind"], shown["metadata"]["namespace"]) == ("configmap", "shop")
    assert status(api.call("PUT", CONFIGMAPS, json=config_map(c={"content": ""}))) == (200, "")
    assert api.data("/configmap/shop/conf")["datas"] == {"c": {"type": "file", "content": ""}}
    assert status(api.call("PUT", CONFIGMAPS, json=config_map("none"))) == (404, "not_found")
    assert status(api.call("DELETE", f"{CONFIGMAPS}/conf")) == (200, "")
    assert status(api.call("DELETE", f"{CONFIGMAPS}/conf?mustExist=true")) == (404, "not_found")
    assert status(api.get(f"{CONFIGMAPS}/conf")) == (404, "not_found")
    assert gateway.core.state.config_maps == {}


def test_a_secret_is_shown_by_digest_and_size_only(gateway: CoreGateway, api: Api) -> None:
    assert status(api.call("POST", "/secret", json=secret(a="pssst", b="pssst", c="other"))) == (422, "invalid")
    body = secret(a="pssst", b="pssst", c="other")
    body["metadata"]["namespace"] = "shop"
    assert status(api.call("POST", "/secret", json=body)) == (200, "")
    assert gateway.core.state.secrets["shop/keys"].items["a"] == base64("pssst")
    datas = api.data(f"{SECRETS}/keys")["datas"]
    assert {key: item["size"] for key, item in datas.items()} == {"a": 5, "b": 5, "c": 5}
    assert datas["a"] == datas["b"] != datas["c"]
    assert datas["a"].keys() == {"digest", "size"}
    assert api.data("/secrets")[0]["datas"] == datas
    assert status(api.call("PUT", SECRETS, json=secret(a="pssst"))) == (200, "")
    assert api.data("/secret/shop/keys")["datas"] == {"a": datas["a"]}
    assert status(api.call("DELETE", "/secret/shop/keys")) == (200, "")
    assert status(api.call("DELETE", "/secret/shop/keys?mustExist=true")) == (404, "not_found")


def test_a_digest_cannot_be_computed_by_whoever_guesses_the_content(api: Api) -> None:
    api.call("POST", SECRETS, json=secret(pin="1234"))
    digest = api.data(f"{SECRETS}/keys")["datas"]["pin"]["digest"]
    assert len(digest) == 16
    assert not sha256(b"1234").hexdigest().startswith(digest)


def test_lists_span_namespaces_and_filter_by_label(api: Api) -> None:
    for namespace, name, tier in (("b", "one", "x"), ("a", "two", "y"), ("a", "one", "x")):
        for kind in ("configmap", "secret"):
            body = {"kind": kind, "metadata": {"name": name, "labels": {"tier": tier}}}
            assert status(api.call("POST", f"/namespaces/{namespace}/{kind}s", json=body)) == (200, "")

    def listed(path: str) -> list[str]:
        return [f"{item['metadata']['namespace']}/{item['metadata']['name']}" for item in api.data(path)]

    for kind in ("configmaps", "secrets"):
        assert listed(f"/{kind}") == ["a/one", "a/two", "b/one"]
        assert listed(f"/namespaces/a/{kind}") == listed(f"/{kind}?namespace=a") == ["a/one", "a/two"]
        assert listed(f"/{kind}?labelSelector=tier%3Dx") == ["a/one", "b/one"]
        answer = api.get(f"/{kind}?limit=2").json()
        assert len(answer["data"]) == 2
        assert listed(f"/{kind}?limit=2&continue={answer['continue']}") == ["b/one"]


def test_a_dry_run_keeps_nothing(gateway: CoreGateway, api: Api) -> None:
    assert status(api.call("POST", f"{SECRETS}?dryRun=true", json=secret(a="x"))) == (200, "")
    assert gateway.core.state.secrets == {}


@pytest.mark.parametrize(
    ("item", "path"),
    [
        ({"content": "not base64!"}, ".content"),
        ({"content": "YQ"}, ".content"),
        ({}, ".content"),
        ({"type": "ftp", "content": "http://h/x"}, ".content"),
        ({"type": "ftps", "content": "ftps://u:p@h/x"}, ".content"),
        ({"type": "url", "content": ""}, ".type"),
        ({"type": "http", "content": "https://h/x"}, ".content"),
        ({"type": "http", "content": "http://u:p@h/x"}, ".content"),
        ({"type": "http", "content": "http://h:port/x"}, ".content"),
        ({"type": "http", "content": "http:///x"}, ".content"),
        ({"type": "http", "content": "http://h/x", "remotePasswd": "x"}, ".remoteUser"),
        ({"type": "http", "content": "http://h/x", "remoteUser": "u", "remotePasswd": "***"}, ".remotePasswd"),
        ({"content": "", "remoteUser": "u"}, ".remoteUser"),
        ({"content": "", "digest": "x"}, ".digest"),
    ],
)
def test_problems_of_configmaps(api: Api, item: dict[str, Any], path: str) -> None:
    response = api.call("POST", CONFIGMAPS, json=config_map(k=item))
    assert status(response) == (422, "invalid")
    assert f"$.datas.k{path}" in paths(response)
    assert "not base64" not in response.text and "u:p" not in response.text


def test_all_problems_come_at_once(api: Api) -> None:
    body = config_map("Conf", **{"a/b": {"content": ""}, "k": {"content": "%"}})
    body["data"] = {}
    response = api.call("POST", CONFIGMAPS, json=body, params={"fieldValidation": "Strict"})
    assert paths(response) == {"$.metadata.name", '$.datas["a/b"]', "$.datas.k.content", "$.data"}
    assert "did you mean datas?" in response.text
    wrong = api.call("POST", CONFIGMAPS, json=secret(a="x"))
    assert paths(wrong) == {"$.kind"}
    body = {**secret(a="x"), "metadata": {"name": "keys", "namespace": "other"}}
    assert paths(api.call("POST", SECRETS, json=body)) == {"$.metadata.namespace"}


def test_base64_may_be_folded(gateway: CoreGateway, api: Api) -> None:
    text = base64("x" * 100)
    folded = "\n".join([text[:76], text[76:], ""])
    assert status(api.call("POST", CONFIGMAPS, json=config_map(k={"content": folded}))) == (200, "")
    assert gateway.core.state.config_maps["shop/conf"].items["k"].content == text


def test_variables_that_are_fetched_need_our_executor(gateway: CoreGateway, api: Api) -> None:
    gateway.connect()
    datas: dict[str, Any] = {"plain": {"content": ""}, "fetched": {"type": "http", "content": "http://h/x"}}
    api.call("POST", CONFIGMAPS, json=config_map(**datas))
    items = [{"type": "env", "dataKey": key, "keyOrPath": key.upper()} for key in datas]
    raw = document(configmaps=[{"name": "conf", "items": items}])
    response = api.call("POST", "/namespaces/shop/applications", json={**raw, "executor": "mesos"})
    assert paths(response) == {"$.spec.template.spec.containers[0].configmaps[0].items[1]"}
    assert status(api.call("POST", "/namespaces/shop/applications", json=raw)) == (202, "")


def test_an_application_needs_what_it_refers_to(gateway: CoreGateway, api: Api) -> None:
    gateway.connect()
    item = {"type": "env", "dataKey": "a", "keyOrPath": "A"}
    raw = document(secrets=[{"secretName": "keys", "items": [item]}])
    response = api.call("POST", "/namespaces/shop/applications", json=raw)
    assert status(response) == (422, "invalid") and "secret shop/keys" in response.json()["message"]
    api.call("POST", SECRETS, json=secret(a="x"))
    assert status(api.call("POST", "/namespaces/shop/applications", json=raw)) == (202, "")
