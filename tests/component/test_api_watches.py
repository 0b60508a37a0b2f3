"""Many who watch the same: what they see is made once for all of them, and is what each of them may see."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
import requests

from bcs_scheduler.api.http.operation import BASE, ApiSettings
from bcs_scheduler.api.routes import deployments, transactions
from bcs_scheduler.api.streams import streaming
from bcs_scheduler.core.options import CoreOptions
from bcs_scheduler.core.scheduler import Core
from bcs_scheduler.leadership.hub import Hub
from bcs_scheduler.leadership.items import Item
from store.records import Deployment
from tests.component.apiserver import TIMEOUT, WATCH, Api, serving
from tests.component.test_api_access import MINE, THEIRS, Guarded
from tests.unit.api_support import CoreGateway, document
from tests.unit.deployment_support import deployment
from tests.waiting import wait_for

ALL = "/namespaces/shop/deployments"
FRONT = f"{ALL}/front"


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


class Watchers:
    """As many long polls at once; they know the deployment as it is."""

    def __init__(self, api: Api, count: int, path: str, **query: str) -> None:
        self._query = {"watch": "true", "timeoutSeconds": str(WATCH), **query}
        self._url = api.url + BASE + path
        self.answers: list[dict[str, Any]] = []
        self._threads = [threading.Thread(target=self._poll) for _ in range(count)]
        for thread in self._threads:
            thread.start()

    def _poll(self) -> None:
        self.answers.append(requests.get(self._url, params=self._query, timeout=TIMEOUT).json())

    def ended(self) -> list[dict[str, Any]]:
        for thread in self._threads:
            thread.join(TIMEOUT)
        return [answer["data"] for answer in self.answers]


def counted(monkeypatch: pytest.MonkeyPatch, module: Any, name: str) -> list[object]:
    """What each view that is made from now on is made of."""
    made: list[object] = []
    honest = getattr(module, name)

    def show(state: Any, record: object, *more: Any) -> object:
        made.append(record)
        return honest(state, record, *more)

    monkeypatch.setattr(module, name, show)
    return made


def test_watchers_of_a_deployment_share_its_view(
    gateway: CoreGateway, api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streaming, "LOOK_SECONDS", 3600.0)
    raw = deployment()
    hidden = {"image": "x", "imagePullUser": "u", "imagePullPasswd": "hush"}
    raw["spec"]["template"]["spec"]["containers"][0] |= hidden
    assert api.call("POST", ALL, json=raw).status_code == 202
    known = api.data(FRONT)["resourceVersion"]
    made = counted(monkeypatch, deployments, "show_deployment")
    watchers = Watchers(api, 6, FRONT, resourceVersion=known)
    wait_for(lambda: gateway.hub().watchers == 6 and made, what="all watchers")
    raw["spec"]["strategy"]["rollingupdate"]["maxSurge"] = 3
    assert api.call("PUT", FRONT, json=raw).status_code == 202
    views = watchers.ended()
    assert [view["strategy"]["rollingupdate"]["maxSurge"] for view in views] == [3] * 6
    assert not any("hush" in str(view) for view in views)
    assert len({view["resourceVersion"] for view in views} - {known}) == 1
    assert len(made) == len(set(map(id, made))) == 2
    assert (gateway.hub().watchers, len(streaming._sights)) == (0, 0)


def test_counts_that_change_alone_are_seen_by_all(
    gateway: CoreGateway, api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert api.call("POST", ALL, json=deployment()).status_code == 202
    gateway.report("RUNNING", "shop/front")
    view = api.data(FRONT)
    assert view["counts"]["ready"] == 2
    watchers = Watchers(api, 4, FRONT, resourceVersion=view["resourceVersion"])
    wait_for(lambda: gateway.hub().watchers == 4, what="all watchers")
    group = next(iter(gateway.core.state.groups_of("shop/front").values()))
    record = gateway.core.state.deployments["shop/front"]
    gateway.core.state.apply("taskgroup", group.id, msgspec.structs.replace(group, status="Lost"))
    assert gateway.core.state.deployments["shop/front"] is record
    assert [seen["counts"]["ready"] for seen in watchers.ended()] == [1] * 4


def test_nobody_is_shown_what_is_older_than_what_they_know(
    gateway: CoreGateway, api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streaming, "LOOK_SECONDS", 3600.0)
    assert api.call("POST", ALL, json=deployment()).status_code == 202
    gateway.report("RUNNING", "shop/front")
    before = api.data(FRONT)["resourceVersion"]
    made = counted(monkeypatch, deployments, "show_deployment")
    watchers = Watchers(api, 1, FRONT, resourceVersion=before)
    wait_for(lambda: made, what="the view that is shared")
    group = next(iter(gateway.core.state.groups_of("shop/front").values()))
    gateway.core.state.apply("taskgroup", group.id, msgspec.structs.replace(group, status="Lost"))
    after = api.data(FRONT)
    query = {"watch": "true", "resourceVersion": after["resourceVersion"], "timeoutSeconds": "0.1"}
    assert after["resourceVersion"] != before
    assert api.data(FRONT, params=query) == after
    assert api.data(FRONT, params={"watch": "true"}) == after
    assert api.call("PUT", f"{FRONT}/scale/3").status_code == 202
    assert [view["instances"] for view in watchers.ended()] == [3]


def test_watchers_see_what_the_next_leader_has(gateway: CoreGateway, api: Api) -> None:
    assert api.call("POST", ALL, json=deployment()).status_code == 202
    watchers = Watchers(api, 3, FRONT, resourceVersion=api.data(FRONT)["resourceVersion"])
    wait_for(lambda: gateway.hub().watchers == 3, what="all watchers")
    records = [
        msgspec.structs.replace(record, message="as the next leader knows it")
        if isinstance(record, Deployment)
        else record
        for record in gateway.core.state.records()
    ]
    successor = Core(records, CoreOptions(strict=True), time.time())
    gateway.follow.close("stepped down")
    gateway.core, gateway.follow = successor, Hub(state=successor.state)
    assert [view["message"] for view in watchers.ended()] == ["as the next leader knows it"] * 3
    assert not streaming._sights


def test_watchers_of_a_transaction_share_its_view_and_see_its_progress(
    gateway: CoreGateway, api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streaming, "LOOK_SECONDS", 3600.0)
    raw = document("big", instance=3, resources={"limits": {"cpu": "5", "memory": "32"}})
    made = counted(monkeypatch, transactions, "show_transaction")
    identity = api.call("POST", "/namespaces/shop/applications", json=raw).json()["data"]["transactionID"]
    watchers = Watchers(api, 5, f"/transactions/shop/{identity}", resourceProgress="1")
    wait_for(lambda: gateway.hub().watchers == 5 and made, what="all watchers")
    gateway.offer(2)
    assert [view["progress"] for view in watchers.ended()] == [2] * 5
    assert len(made) < 5 + 5


def test_who_may_not_see_it_is_not_shown_what_others_watch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streaming, "LOOK_SECONDS", 3600.0)
    guarded = Guarded(tmp_path)
    path = f"/namespaces/{THEIRS}/deployments/deployment-{THEIRS}"
    with serving(guarded.gateway, ApiSettings(), gate=guarded.gate) as guarded.api:
        known = guarded.call("admin", "GET", path).json()["data"]
        made = counted(monkeypatch, deployments, "show_deployment")
        query = {"watch": "true", "resourceVersion": known["resourceVersion"], "timeoutSeconds": str(WATCH)}
        seen: list[Any] = []
        headers = {"Authorization": "Bearer admin"}
        url = guarded.api.url + BASE + path
        watcher = threading.Thread(
            target=lambda: seen.append(requests.get(url, params=query, headers=headers, timeout=TIMEOUT).json())
        )
        watcher.start()
        wait_for(lambda: made and streaming._sights, what="the watcher")
        for holder, status in (("viewer", 403), ("operator", 403), ("admin-of-mine", 403), ("viewer-of-all", 200)):
            answer = guarded.call(holder, "GET", path, params={**query, "timeoutSeconds": "0.1"})
            assert answer.status_code == status, holder
            assert (known["resourceVersion"] in answer.text) == (status == 200)
        assert len(made) == 1
        mine = f"/namespaces/{MINE}/deployments/deployment-{MINE}"
        assert guarded.call("viewer", "GET", mine, params={"watch": "true"}).status_code == 200
        state = guarded.gateway.core.state
        changed = msgspec.structs.replace(state.deployments[f"{THEIRS}/deployment-{THEIRS}"], message="changed")
        state.apply("deployment", changed.key, changed)
        now = guarded.call("viewer-of-all", "GET", path, params={"watch": "true"}).json()["data"]
        guarded.gateway.follow.publish([Item("deployment", changed.key, changed)])
        watcher.join(TIMEOUT)
    assert (now["message"], [answer["data"] for answer in seen]) == ("changed", [now])
