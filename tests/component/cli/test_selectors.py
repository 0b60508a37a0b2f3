"""Objects chosen by labels and fields: `--field-selector` of `get` and `events`, `bcs delete -l`."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.component.cli.standin import ACCEPTED, APPS, StandIn, application, failed, ok, taskgroup
from tests.component.cli.test_events import event

NS = "/namespaces/defaultGroup"
GROUPS = [
    taskgroup(0),
    taskgroup(1, Status="Staging"),
    taskgroup(2, Status="Finish", HostName="agent0"),
    taskgroup(3, Status="Failed", RunAs="shop"),
    taskgroup(4, Status="Lost", Healthy=False),
]


def names(bcs: Any, *words: str) -> list[str]:
    result = bcs("get", *words, "-o", "name")
    assert result.code == 0, result.err
    return [line.partition("/")[2] for line in result.out.split()]


@pytest.mark.parametrize(
    ("selector", "chosen"),
    [
        ("status.phase=Running", [0]),
        ("status.phase!=Running", [1, 2, 3, 4]),
        ("status.phase==Succeeded", [2]),
        ("status.phase=Finish", [2]),
        ("status=Pending", [1]),
        ("status.phase!=Failed,status.phase!=Unknown", [0, 1, 2]),
        ("spec.nodeName=agent0", [0, 2]),
        ("spec.nodeName=agent0,status.phase=Running", [0]),
        ("spec.nodeName=a-1", [0, 1, 2, 3, 4]),
        (" metadata.name = web-3 ", [3]),
        ("metadata.namespace!=shop", [0, 1, 2, 4]),
        ("healthy=false", [4]),
        ("application=web,agent=agent3", [3]),
        ("metadata.name=", []),
    ],
)
def test_taskgroups_are_chosen_by_fields(server: StandIn, bcs: Any, selector: str, chosen: list[int]) -> None:
    server.on("GET", "/taskgroups", ok(GROUPS))
    assert sorted(names(bcs, "pods", "--field-selector", selector)) == [f"web-{number}" for number in chosen]


def test_fields_are_chosen_beside_labels_and_in_several_kinds(server: StandIn, bcs: Any) -> None:
    server.on("GET", "/taskgroups", ok(GROUPS))
    server.on("GET", APPS, ok([application(), application("shop")]))
    agents = [{"hostname": f"host-{n}", "ip": f"10.0.0.{n}", "id": f"S{n}", "disabled": n == 2} for n in (1, 2)]
    server.on("GET", "/agents", ok(agents))
    assert names(bcs, "pods", "-l", "app=web", "--field-selector=status.phase=Running") == ["web-0"]
    assert server.seen[-1].query["labelSelector"] == "app=web"
    assert names(bcs, "pods,apps", "--field-selector=metadata.name=shop") == ["shop"]
    assert names(bcs, "nodes", "--field-selector=spec.unschedulable=true") == ["host-2"]
    listed = bcs("get", "nodes", "--field-selector=spec.unschedulable=true", "-o", "json")
    assert [agent["id"] for agent in json.loads(listed.out)] == ["S2"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ("pods", "--field-selector", "spec.nodename=a"),
            "taskgroups have no field 'spec.nodename'; known: meta",
        ),
        (("apps,pods", "--field-selector", "spec.nodeName=a"), "applications have no field 'spec.nodeName'"),
        (("pods", "--field-selector", "status.phase"), "'status.phase' is not FIELD=VALUE"),
        (("pods", "--field-selector", "status.phase in (a)"), "is not FIELD=VALUE"),
        (("pods", "web", "--field-selector", "status=Running"), "--field-selector cannot be combined with NAME"),
        (("events", "--field-selector", "metadata.name=a"), "events have no field"),
        (("events", "-l", "app=web"), "-l is supported for"),
    ],
)
def test_field_selectors_that_are_refused(server: StandIn, bcs: Any, words: tuple[str, ...], message: str) -> None:
    result = bcs("get", *words)
    assert result.code == 2 and message in result.err
    assert server.seen == []


def test_events_are_chosen_by_the_fields_of_kubectl(server: StandIn, bcs: Any) -> None:
    found = [
        event(1, "TaskGroupRunning"),
        event(2, "TaskGroupLost", "error"),
        event(3, "Started", kind="deployment", name="web"),
        event(4, "Left", "warning", kind="agent", name="host-1"),
    ]
    server.on("GET", f"{NS}/events", ok(found))
    for selector, chosen in (
        ("involvedObject.kind=Pod", [1, 2]),
        ("involvedObject.kind=Pod,involvedObject.name=web-0,type!=Normal", [2]),
        ("involvedObject.name=web", [3]),
        ("type=Warning", [2, 4]),
        ("reason!=Left,level=warning", []),
        ("involvedObject.kind=Node", [4]),
    ):
        for words in (("events",), ("get", "events")):
            result = bcs(*words, "--field-selector", selector)
            assert [one["id"] for one in json.loads(result.out)] == chosen, selector
    assert [one["id"] for one in json.loads(bcs("events", "--last=1", "--field-selector=type=Normal").out)] == [3]


@pytest.fixture
def shop(server: StandIn) -> StandIn:
    """Applications web and shop, and one of deployment front, which has the same labels; a service web."""
    owned = application("front-v1", Deployment="front")
    server.on("GET", APPS, ok([application(), application("shop", running=1), owned]))
    server.on("GET", f"{NS}/deployments", ok([{"name": "front", "metadata": {"name": "front"}, "status": "Running"}]))
    server.on("GET", f"{NS}/daemonsets", ok([]))
    server.on("GET", "/taskgroups", ok(GROUPS))
    server.on("GET", f"{NS}/services", ok([{"metadata": {"name": "web", "namespace": "defaultGroup"}}]))
    for path in ("applications/web", "applications/shop", "deployments/front", "services/web"):
        server.on("DELETE", f"{NS}/{path}", ok(ACCEPTED))
    return server


def deleted(server: StandIn) -> list[str]:
    return [request.path.removeprefix(f"{NS}/") for request in server.requests("DELETE")]


def test_objects_with_labels_are_named_and_deleted(shop: StandIn, bcs: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("BCS_OUTPUT")
    result = bcs("delete", "all", "-l", "app=x", "--dry-run")
    assert result.code == 0, result.err
    assert result.err == "4 objects to delete: deployment/front, application/web, application/shop, service/web\n"
    assert all(request.query["dryRun"] == "true" for request in shop.requests("DELETE"))
    assert {request.query["labelSelector"] for request in shop.requests("GET")} == {"app=x"}
    shop.seen.clear()
    result = bcs("delete", "svc,deploy", "-l", "app=x")
    assert deleted(shop) == ["deployments/front", "services/web"], "an object before those that it refers to"
    assert result.out.splitlines()[0].startswith("deployment/front deletion started")
    shop.seen.clear()
    result = bcs("delete", "apps", "--field-selector", "status!=Running")
    assert deleted(shop) == ["applications/shop"]
    assert "warning: application/front-v1 belongs to deployment/front: left out" not in result.err
    shop.seen.clear()
    result = bcs("delete", "apps", "--all")
    assert deleted(shop) == ["applications/web", "applications/shop"]
    assert "application/front-v1 belongs to deployment/front: left out" in result.err


def test_a_selection_of_nothing_deletes_nothing(shop: StandIn, bcs: Any) -> None:
    result = bcs("delete", "apps", "--field-selector", "metadata.name=none")
    assert (result.code, result.out, result.err) == (0, "", "0 objects to delete\n")
    assert not deleted(shop)


@pytest.mark.parametrize(
    "words",
    [
        ("-l", "app=x"),
        ("apps", "web", "-l", "app=x"),
        ("app/web", "-l", "app=x"),
        ("pods", "-l", "app=x"),
        ("apps,pods", "--all"),
        ("agents", "-l", "app=x"),
        ("events", "--all"),
        ("versions", "--all"),
        ("apps", "--all", "-l", "app=x"),
        ("-f", "x.yaml", "--all"),
        ("jobs", "--all"),
        ("apps", "--field-selector", "nix=x"),
    ],
)
def test_selections_that_are_refused_delete_nothing(shop: StandIn, bcs: Any, words: tuple[str, ...]) -> None:
    assert bcs("delete", *words).code == 2
    assert not deleted(shop)


def test_a_failure_does_not_end_the_deletion(shop: StandIn, bcs: Any) -> None:
    shop.on("DELETE", f"{APPS}/web", failed(409, "is busy", "conflict"))
    result = bcs("delete", "apps", "--all", "-o", "text")
    assert result.code == 6 and "is busy" in result.err and "1 of 2 objects failed" in result.err
    assert deleted(shop) == ["applications/web", "applications/shop"]


def test_names_with_their_kinds_are_deleted(shop: StandIn, bcs: Any) -> None:
    assert bcs("delete", "svc/web", "app/shop").code == 0
    assert deleted(shop) == ["services/web", "applications/shop"]
    assert bcs("delete", "app/shop", "pod/web-0").code == 2


@pytest.mark.parametrize("kinds", ["deploy", "deploy,svc", "pods", "cm"])
def test_a_kind_alone_is_no_name(server: StandIn, bcs: Any, kinds: str) -> None:
    refused = bcs("delete", kinds)
    assert refused.code == 2 and f"{kinds}: give names after the kind" in refused.err
    assert [request.path.rpartition("/")[0] for request in server.requests("DELETE")] == [APPS]
