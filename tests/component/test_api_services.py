"""Services over the API, and their endpoints: fetched, listed, waited for, followed."""

from __future__ import annotations

import contextlib
import threading
from pathlib import Path
from typing import Any

import msgspec
import pytest
import requests

from bcs_scheduler.api.http.operation import BASE
from bcs_scheduler.api.http.request_gate import RequestGate
from bcs_scheduler.security.tokens import hash_of, read_tokens
from bcs_scheduler.security.watched import WatchedFiles
from tests.component.apiserver import TIMEOUT, Api, paths, serving
from tests.unit.api_support import CoreGateway, document
from tests.waiting import wait_for

SERVICES, ENDPOINTS = "/namespaces/shop/services", "/namespaces/shop/endpoints"


def service(name: str = "front", **fields: Any) -> dict[str, Any]:
    spec = {"selector": {"app": "web"}, "ports": [{"name": "http", "protocol": "http", "servicePort": 80}]}
    return {"apiVersion": "v4", "kind": "service", "metadata": {"name": name}, "spec": spec, **fields}


@pytest.fixture
def gateway() -> CoreGateway:
    gateway = CoreGateway()
    gateway.connect()
    gateway.offer()
    return gateway


def put(api: Api, method: str = "POST", path: str = SERVICES, **fields: Any) -> requests.Response:
    return api.call(method, path, json=service(**fields))


def launch(gateway: CoreGateway, api: Api) -> None:
    """Two taskgroups that run."""
    assert api.call("POST", "/namespaces/shop/applications", json=document()).status_code == 202
    gateway.report("RUNNING", "shop/web")


class Following:
    """Reads a stream in a thread of its own: (event, data) by frame."""

    def __init__(self, api: Api, path: str, headers: dict[str, str] | None = None, **params: Any) -> None:
        self.answer = requests.get(api.url + BASE + path, params=params, headers=headers, stream=True, timeout=TIMEOUT)
        assert self.answer.status_code == 200, self.answer.text
        self.frames: list[tuple[str, Any]] = []
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        event = ""
        with contextlib.suppress(requests.RequestException, OSError, ValueError, AttributeError):  # closed meanwhile
            for line in self.answer.iter_lines(chunk_size=1, decode_unicode=True):
                if line.startswith("event: "):
                    event = line.removeprefix("event: ")
                elif line.startswith("data: "):
                    self.frames.append((event, msgspec.json.decode(line.removeprefix("data: "))))

    def has(self, event: str) -> bool:
        return any(known == event for known, _ in self.frames)

    def names(self, event: str) -> list[str]:
        return [data.get("name") or data["metadata"]["name"] for known, data in self.frames if known == event]


def test_a_service_lives_and_dies(api: Api) -> None:
    assert put(api).json()["data"] == {"namespace": "shop", "name": "front"}
    assert put(api).status_code == 409
    shown = api.data(f"{SERVICES}/front")
    assert shown["kind"] == "service"
    assert shown["spec"] == {
        "selector": {"app": "web"},
        "ports": [{"name": "http", "protocol": "http", "servicePort": 80}],
        "type": "",
        "clusterIP": [],
    }
    changed = service(metadata={"name": "front", "labels": {"BCSBALANCE": "source"}})
    assert api.call("PUT", f"{SERVICES}/front", json=changed).status_code == 200
    assert api.data("/service/shop/front")["metadata"]["labels"] == {"BCSBALANCE": "source"}
    assert api.data(f"{ENDPOINTS}/front")["metadata"]["labels"] == {"BCSBALANCE": "source"}
    assert api.call("DELETE", f"{SERVICES}/front").status_code == 200
    assert api.call("DELETE", f"{SERVICES}/front?mustExist=true").status_code == 404
    assert api.get(f"{ENDPOINTS}/front").status_code == 404


def test_what_is_read_can_be_handed_in_again(api: Api) -> None:
    put(api, metadata={"name": "front", "labels": {"BCS-WEIGHT-web": "3"}})
    shown = api.data(f"{SERVICES}/front")
    assert api.call("PUT", SERVICES, json=shown).status_code == 200
    assert api.data(f"{SERVICES}/front") == shown


def test_lists_by_namespace_and_label(api: Api) -> None:
    put(api, metadata={"name": "a", "labels": {"BCSGROUP": "external"}})
    put(api, metadata={"name": "b"})
    put(api, path="/service", metadata={"name": "c", "namespace": "other"})
    names = [item["metadata"]["name"] for item in api.data("/services")]
    assert names == ["c", "a", "b"]
    assert [i["metadata"]["name"] for i in api.data(f"{ENDPOINTS}?labelSelector=BCSGROUP=external")] == ["a"]
    first = api.get("/endpoints?limit=2").json()
    rest = api.data(f"/endpoints?limit=2&continue={first['continue']}")
    assert [i["metadata"]["name"] for i in (*first["data"], *rest)] == names
    assert [i["metadata"]["name"] for i in api.data("/endpoints?namespace=other")] == ["c"]


def test_what_an_endpoint_says(gateway: CoreGateway, api: Api) -> None:
    put(api, metadata={"name": "front", "labels": {"BCS-WEIGHT-web": "4"}})
    launch(gateway, api)
    endpoint = api.data(f"{ENDPOINTS}/front")
    assert (endpoint["kind"], endpoint["ready"], endpoint["omitted"]) == ("endpoint", 2, 0)
    assert endpoint["ports"] == [{"name": "http", "protocol": "http", "servicePort": 80}]
    member = endpoint["eps"][1]
    port = member["ports"][0]
    group = next(g for g in gateway.core.state.taskgroups.values() if g.index == 1)
    assert member["targetRef"] == {
        "kind": "taskgroup", "id": group.id, "name": "web-1", "namespace": "shop", "image": "",
    }  # fmt: skip
    assert (member["networkMode"], member["nodeIP"], member["containerIP"]) == ("HOST", "10.0.0.1", "10.0.0.1")
    assert (member["ready"], member["reason"], member["weight"], member["application"]) == (True, "", 4, "web")
    assert (port["name"], port["hostIP"], port["protocol"]) == ("http", "10.0.0.1", "tcp")
    assert port["address"] == f"10.0.0.1:{port['hostPort']}"


@pytest.mark.parametrize(
    ("fields", "path"),
    [
        ({"metadata": {"name": "watch"}}, "$.metadata.name"),
        ({"metadata": {"name": "Fro.nt"}}, "$.metadata.name"),
        ({"metadata": {"name": "front", "namespace": "other"}}, "$.metadata.namespace"),
        ({"metadata": {"name": "f", "labels": {"BCS-WEIGHT-a": "-1"}}}, '$.metadata.labels["BCS-WEIGHT-a"]'),
        ({"metadata": {"name": "f", "labels": {"BCS-WEIGHT-": "1"}}}, "$.metadata.labels.BCS-WEIGHT-"),
        ({"spec": {"ports": [{"name": "a b"}]}}, "$.spec.ports[0].name"),
        ({"spec": {"ports": [{"name": "a"}, {"name": "a"}]}}, "$.spec.ports[1].name"),
        ({"spec": {"ports": [{"name": "a", "protocol": "sctp"}]}}, "$.spec.ports[0].protocol"),
        ({"spec": {"ports": [{"name": "a", "servicePort": 70000}]}}, "$.spec.ports[0].servicePort"),
        ({"spec": {"ports": [{"name": "a", "domainName": "a.b\n    bind *:22"}]}}, "$.spec.ports[0].domainName"),
        ({"spec": {"ports": [{"name": "a", "path": "/x }"}]}}, "$.spec.ports[0].path"),
        ({"spec": {"ports": [None]}}, "$.spec.ports[0]"),
        ({"spec": {"selektor": {}}}, "$.spec.selektor"),
        ({"kind": "configmap"}, "$.kind"),
        ({"spec": None}, "$.spec"),
    ],
)
def test_what_is_wrong_is_named(api: Api, fields: dict[str, Any], path: str) -> None:
    response = put(api, **fields)
    assert response.status_code == 422, response.text
    assert [found.replace('["BCS-WEIGHT-a"]', "X").replace(".BCS-WEIGHT-a", "X") for found in paths(response)] == [
        path.replace('["BCS-WEIGHT-a"]', "X")
    ]


def test_a_long_poll_waits_for_the_next_change(gateway: CoreGateway, api: Api) -> None:
    put(api)
    launch(gateway, api)
    before = api.data(f"{ENDPOINTS}/front")
    known = f"{ENDPOINTS}/front?watch=true&resourceVersion={before['resourceVersion']}"
    assert api.data(f"{known}&timeoutSeconds=0.05") == before
    answers: list[Any] = []
    asking = threading.Thread(target=lambda: answers.append(requests.get(api.url + BASE + known, timeout=TIMEOUT)))
    asking.start()
    wait_for(lambda: gateway.hub().watchers == 1, 30)
    group = next(iter(gateway.core.state.taskgroups))
    gateway.report_taskgroup("UNREACHABLE", group)
    asking.join(30)
    after = answers[0].json()["data"]
    assert int(after["resourceVersion"]) > int(before["resourceVersion"])
    assert [(m["ready"], m["reason"]) for m in after["eps"] if m["targetRef"]["id"] == group] == [
        (False, "unreachable")
    ]
    assert api.get(f"{ENDPOINTS}/front?watch=true&resourceVersion=x").status_code == 400
    assert api.get(f"{ENDPOINTS}/none?watch=true").status_code == 404


def test_a_long_poll_ends_with_the_service(gateway: CoreGateway, api: Api) -> None:
    put(api)
    known = api.data(f"{ENDPOINTS}/front")["resourceVersion"]
    path = f"{api.url}{BASE}{ENDPOINTS}/front?watch=true&resourceVersion={known}"
    answers: list[int] = []
    asking = threading.Thread(target=lambda: answers.append(requests.get(path, timeout=TIMEOUT).status_code))
    asking.start()
    wait_for(lambda: gateway.hub().watchers == 1, 30)
    api.call("DELETE", f"{SERVICES}/front")
    asking.join(30)
    assert answers == [404]


def test_a_stream_begins_with_what_there_is(gateway: CoreGateway, api: Api) -> None:
    put(api, metadata={"name": "a"})
    put(api, metadata={"name": "b"})
    put(api, path="/service", metadata={"name": "c", "namespace": "other"})
    everything, shop, one = (
        Following(api, "/endpoints/watch"),
        Following(api, f"{ENDPOINTS}/watch"),
        Following(api, f"{ENDPOINTS}/watch", name="b"),
    )
    for following in (everything, shop, one):
        wait_for(lambda following=following: following.has("synced"), 30)  # type: ignore[misc]
    assert everything.names("endpoint") == ["c", "a", "b"]
    assert shop.names("endpoint") == ["a", "b"]
    assert one.frames == [("endpoint", api.data(f"{ENDPOINTS}/b")), ("synced", {"endpoints": 1})]
    launch(gateway, api)
    wait_for(lambda: ("endpoint", api.data(f"{ENDPOINTS}/b")) == one.frames[-1], 30)
    api.call("DELETE", f"{SERVICES}/a")
    wait_for(lambda: shop.has("deleted") and everything.has("deleted"), 30)
    assert shop.names("deleted") == ["a"]
    assert not one.has("deleted")
    assert "c" not in shop.names("endpoint")


def test_a_standby_points_to_the_leader(gateway: CoreGateway, api: Api) -> None:
    put(api)
    gateway.stand_by("http://127.0.0.1:1")
    answer = api.get("/endpoints/watch")
    assert (answer.status_code, answer.headers["Location"]) == (307, f"http://127.0.0.1:1{BASE}/endpoints/watch")
    assert api.data(f"{ENDPOINTS}/front")["ready"] == 0


def test_a_stream_of_all_namespaces_is_cut_down_to_the_callers(gateway: CoreGateway, tmp_path: Path) -> None:
    file = tmp_path / "tokens.toml"
    file.write_text(
        f'[[token]]\nname = "v"\nhash = "{hash_of("key")}"\nrole = "viewer"\nnamespaces = ["shop"]\n'
        f'[[token]]\nname = "a"\nhash = "{hash_of("root")}"\nrole = "admin"\nnamespaces = "*"\n'
    )
    gate = RequestGate(tokens=WatchedFiles("tokens", [file], lambda: read_tokens(file)))
    with serving(gateway, gate=gate) as api:
        admin = {"Authorization": "Bearer root"}

        def create(name: str, namespace: str) -> None:
            body = service(metadata={"name": name, "namespace": namespace})
            assert api.call("POST", "/service", json=body, headers=admin).status_code == 200

        create("hidden", "other")
        following = Following(api, "/endpoints/watch", headers={"Authorization": "Bearer key"})
        wait_for(lambda: following.has("synced"), 30)
        create("secret", "other")
        create("seen", "shop")
        wait_for(lambda: following.names("endpoint"), 30)
        api.call("DELETE", "/service/other/secret", headers=admin)
        api.call("DELETE", "/service/shop/seen", headers=admin)
        wait_for(lambda: following.names("deleted"), 30)
        assert (following.names("endpoint"), following.names("deleted")) == (["seen"], ["seen"])
        theirs = api.call("GET", "/namespaces/other/endpoints/watch", headers={"Authorization": "Bearer key"})
        assert theirs.status_code == 403
        gateway.hub().close("the test is over")


def test_an_endpoint_that_is_removed_while_a_stream_begins_breaks_nothing(
    gateway: CoreGateway, api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Fleeting(dict[str, Any]):
        """Somebody removes what was just found."""

        def __contains__(self, key: object) -> bool:
            return self.pop(str(key), None) is not None

    put(api, metadata={"name": "a"})
    monkeypatch.setattr(gateway.core.state, "endpoints", Fleeting(gateway.core.state.endpoints))
    following = Following(api, f"{ENDPOINTS}/watch", name="a")
    wait_for(lambda: following.has("synced"), 30)
    assert following.names("endpoint") == ["a"]
