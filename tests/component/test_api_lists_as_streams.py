"""Lists as streams: the first list, changes, resumption, visibility, and the cost of many readers."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bcs_scheduler.api.http.operation import BASE
from bcs_scheduler.api.routes import applications
from bcs_scheduler.api.views.applications import show_application
from bcs_scheduler.core.interface.cluster_manager import AgentsListed
from bcs_scheduler.leadership.hub import Hub
from bcs_scheduler.leadership.touches import Touches
from tests.component.apiserver import Api, serving
from tests.component.test_api_access import MINE, THEIRS, Guarded
from tests.streams import Reader
from tests.unit.api_support import CoreGateway, document, listed_agent
from tests.unit.deployment_support import deployment
from tests.waiting import wait_for


@pytest.fixture
def gateway() -> CoreGateway:
    made = CoreGateway()
    made.connect()
    made.offer()
    return made


@pytest.fixture
def api(gateway: CoreGateway) -> Iterator[Api]:
    with serving(gateway) as served:
        yield served
        gateway.follow.close("the test is over")


def create(api: Api, name: str = "web", namespace: str = "shop", **more: Any) -> None:
    made = api.call("POST", f"/namespaces/{namespace}/applications", json=document(name, namespace, **more))
    assert made.status_code == 202, made.text


def read(api: Api, path: str, **more: Any) -> Reader:
    """A stream, after its first list."""
    reader = Reader(api.url + BASE + path, **more)
    assert reader.answer.status_code == 200, reader.answer.text
    wait_for(lambda: reader.data("synced"), what="the end of the first list")
    return reader


def names(reader: Reader, kind: str = "application") -> list[str]:
    return [found.get("name") or found.get("Name") or found["ID"] for found in reader.data(kind)]


def running(reader: Reader) -> int:
    return int(reader.data("application")[-1]["RunningInstances"])


def identity(reader: Reader) -> str:
    """Id of the last frame."""
    return [line for line in reader.lines if line.startswith("id: ")][-1].removeprefix("id: ")


def test_a_stream_begins_with_the_list_and_tells_changes(gateway: CoreGateway, api: Api) -> None:
    create(api)
    reader = read(api, "/applications?watch=true")
    assert reader.answer.headers["content-type"] == "text/event-stream"
    assert reader.data("synced") == [{"objects": 1, "resumed": False}]
    (listed,) = api.data("/applications?pods=false")
    assert reader.data("application") == [listed]
    gateway.report("RUNNING", "shop/web")  # the view counts taskgroups, which are other records
    wait_for(lambda: running(reader) == 2, what="the running taskgroups")
    assert api.call("DELETE", "/namespaces/shop/applications/web").status_code == 202
    gateway.report("KILLED", "shop/web")
    wait_for(lambda: reader.data("deleted"), what="the end")
    assert reader.data("deleted") == [{"kind": "application", "namespace": "shop", "name": "web"}]


def test_every_kind_is_told(gateway: CoreGateway, api: Api) -> None:
    kinds = "applications,taskgroups,deployments,transactions,agents,queues"
    reader = read(api, f"/watch?kinds={kinds}")
    assert [found["id"] for found in reader.data("agent")] == ["agent-1"]
    assert [found["metadata"]["name"] for found in reader.data("queue")] == ["default"]
    created = api.call("POST", "/namespaces/shop/deployments", json=deployment("front"))
    assert created.status_code == 202, created.text
    gateway.report("RUNNING", "shop/front")
    wait_for(lambda: names(reader, "deployment"), what="the deployment")
    wait_for(lambda: "FINISH" in [found["status"] for found in reader.data("transaction")], what="the verdict")
    wait_for(lambda: "Running" in [found["Status"] for found in reader.data("taskgroup")], what="the taskgroups")
    wait_for(lambda: reader.data("agent")[-1]["taskgroups"] > 0, what="the taskgroups of the agent")
    wait_for(lambda: reader.data("deployment")[-1]["counts"]["newReady"] > 0, what="the counts of the deployment")
    queue = {"apiVersion": "v4", "kind": "queue", "metadata": {"name": "batch"}, "spec": {"weight": 2}}
    assert api.call("POST", "/queues", json=queue).status_code == 200
    wait_for(lambda: "batch" in [q["metadata"]["name"] for q in reader.data("queue")], what="the queue")
    assert api.call("POST", "/agentsettings/disable?ips=10.0.0.1").status_code == 200
    wait_for(lambda: reader.data("agent")[-1]["disabled"], what="the cordon")


def test_agents_that_come_change_and_go_are_told(gateway: CoreGateway, api: Api) -> None:
    reader = read(api, "/agents?watch=true")

    def listed(*numbers: int) -> None:
        gateway.listed = [listed_agent(number, 8, 8192) for number in numbers]
        gateway.feed(AgentsListed(agents=tuple(gateway.listed)))
        gateway.follow.touch_agents(gateway.listed)

    listed(1, 2)
    wait_for(lambda: [found["id"] for found in reader.data("agent")] == ["agent-1", "agent-1", "agent-2"], what="2")
    listed(2)
    wait_for(lambda: [gone["name"] for gone in reader.data("deleted")] == ["agent-1"], what="the end of the first")
    assert len(reader.data("agent")) == 3  # the second has not changed


def test_a_reader_that_comes_back_gets_what_has_changed(gateway: CoreGateway, api: Api) -> None:
    create(api, "web")
    create(api, "cache")
    known = identity(read(api, "/applications?watch=true"))
    create(api, "queue")
    headers = {"Last-Event-ID": known}
    back = read(api, "/applications?watch=true", headers=headers)
    assert (names(back), back.data("synced")) == (["queue"], [{"objects": 1, "resumed": True}])
    again = read(api, f"/applications?watch=true&lastEventId={identity(back)}")
    assert (names(again), again.data("synced")) == ([], [{"objects": 0, "resumed": True}])


def test_a_reader_of_another_term_or_of_long_ago_gets_the_whole_list(gateway: CoreGateway, api: Api) -> None:
    gateway.follow = Hub(state=gateway.core.state, touches=Touches(gateway.core.state, epoch=7, most=2))
    create(api, "web")
    create(api, "cache")
    for known in ("6-1", "7-0", "7-999999"):
        reader = read(api, f"/applications?watch=true&lastEventId={known}")
        assert (sorted(names(reader)), reader.data("synced")[0]["resumed"]) == (["cache", "web"], False), known
    assert api.get("/applications?watch=true&lastEventId=soon").status_code == 400


def test_filters_hold_for_the_list_and_for_changes(gateway: CoreGateway, api: Api) -> None:
    create(api, "web")
    create(api, "other", "tools")
    gateway.report("RUNNING", "shop/web")
    reader = read(api, "/namespaces/shop/applications?watch=true&status=Running&labelSelector=app%3Dweb")
    assert names(reader) == ["web"]
    create(api, "cache")  # has another label, and is unknown to the reader
    gateway.report("FAILED", "shop/web")  # runs no longer
    wait_for(lambda: "web" in [gone["name"] for gone in reader.data("deleted")], what="web to leave the list")
    assert set(names(reader)) == {"web"}
    for wrong in ("limit=1", "continue=x", "labelSelector=%21%21"):
        assert api.get(f"/applications?watch=true&{wrong}").status_code == 400, wrong


def test_the_taskgroups_of_one_application_are_a_stream(gateway: CoreGateway, api: Api) -> None:
    create(api, "web", instance=1)
    create(api, "webshop", instance=1)
    reader = read(api, "/namespaces/shop/applications/web/taskgroups?watch=true")
    gateway.report("RUNNING", "shop/webshop")
    gateway.report("RUNNING", "shop/web")
    wait_for(lambda: [found["Status"] for found in reader.data("taskgroup")][-1] == "Running", what="the status")
    assert {found["AppID"] for found in reader.data("taskgroup")} == {"web"}


def test_a_caller_sees_its_own_namespaces(tmp_path: Path) -> None:
    guarded = Guarded(tmp_path)
    with serving(guarded.gateway, gate=guarded.gate) as api:
        guarded.gateway.offer()
        admin, mine = ({"Authorization": f"Bearer {name}"} for name in ("admin", "viewer"))
        reader = read(api, "/watch?kinds=applications,transactions,deployments,taskgroups", headers=mine)
        assert reader.data("application")
        for namespace in (THEIRS, MINE):
            body = document("new", namespace)
            made = api.call("POST", f"/namespaces/{namespace}/applications", json=body, headers=admin)
            assert made.status_code == 202
        wait_for(lambda: "new" in names(reader), what="the application")
        wait_for(lambda: "new" in [found["objectName"] for found in reader.data("transaction")], what="its transaction")
        assert {found["ObjectMeta"]["namespace"] for found in reader.data("application")} == {MINE}
        assert {found["ObjectMeta"]["namespace"] for found in reader.data("taskgroup")} == {MINE}
        assert {found["metadata"]["namespace"] for found in reader.data("deployment")} == {MINE}
        assert {found["namespace"] for found in reader.data("transaction")} == {MINE}
        for closed in ("/watch?kinds=agents", "/agents?watch=true", f"/namespaces/{THEIRS}/applications?watch=true"):
            assert api.get(closed, headers=mine).status_code == 403, closed
        guarded.gateway.follow.close("the test is over")


def test_kinds_are_checked(api: Api) -> None:
    answer = api.get("/watch?kinds=applications,pods")
    assert (answer.status_code, answer.json()["data"]["problems"][0]["path"]) == (400, "?kinds")
    assert {"agent", "queue"} <= {line.removeprefix("event: ") for line in read(api, "/watch").lines}


def test_a_standby_points_to_the_leader(gateway: CoreGateway, api: Api) -> None:
    gateway.stand_by("http://127.0.0.1:9")
    answer = api.get("/applications?watch=true")
    assert answer.status_code == 307
    assert answer.headers["location"] == f"http://127.0.0.1:9{BASE}/applications?watch=true"
    assert api.get("/applications").status_code == 200


def test_events_are_a_stream_too(gateway: CoreGateway, api: Api) -> None:
    create(api)
    reader = Reader(api.url + BASE + "/events?watch=true&last=1")
    wait_for(lambda: reader.data("event"), what="the last event")
    assert api.get("/events?watch=true&limit=1").status_code == 400


def test_readers_share_the_frame_of_a_change(gateway: CoreGateway, api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    create(api, instance=1)
    readers = [read(api, "/applications?watch=true") for _ in range(20)]
    made: list[str] = []
    honest = show_application

    def show(state: Any, record: Any, *more: Any, **options: Any) -> Any:
        made.append(record.key)
        return honest(state, record, *more, **options)

    monkeypatch.setattr(applications, "show_application", show)
    gateway.report("RUNNING", "shop/web")
    wait_for(lambda: all(running(reader) == 1 for reader in readers), what="all readers")
    # One change of the cluster is a few commits at most; each is shown once, and not once for each reader.
    assert len(made) < len(readers)
