"""Server-sent events and long polls: what is sent, how it resumes, how it ends."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator
from typing import Any

import pytest
import requests

from bcs_scheduler.api.http import app
from bcs_scheduler.api.http.errors import not_found
from bcs_scheduler.api.http.operation import BASE, Answer, Call, Param, Table
from bcs_scheduler.api.streams import sse, streaming
from bcs_scheduler.api.streams.sse import EventStream, frame
from bcs_scheduler.leadership.hub import Hub
from bcs_scheduler.leadership.items import Item
from store.records import Endpoint
from tests.component.apiserver import TIMEOUT, WATCH, Api, serving
from tests.streams import Reader
from tests.unit.api_support import CoreGateway
from tests.waiting import wait_for

table = Table("tests")


def show(item: Item) -> bytes:
    if item.value is None:
        return frame("deleted", {"key": item.key})
    assert isinstance(item.value, Endpoint)
    return frame("changed", {"version": item.value.version}, item.value.version)


@streaming.streams(table, "/watch/{name}", "Follow an endpoint", answer=dict[str, Any])
async def watch_endpoint(call: Call) -> EventStream:
    watch = streaming.watch(call, "endpoint", f"shop/{call.path['name']}")
    opening = [frame("resumed", call.last_event_id)] if call.last_event_id else []
    return EventStream(watch, show, opening, call.query.get("timeoutSeconds"))


@table.read("/poll/{name}", "Wait for an endpoint", query=(Param("version", "int", "Known.", 0),), answer=int)
async def poll_endpoint(call: Call) -> Answer:
    async def look() -> int:
        record = call.state().endpoints.get(f"shop/{call.path['name']}")
        return record.version if record is not None else 0

    def news(version: int) -> bool:
        return bool(version > call.query["version"])

    return Answer(await streaming.long_poll(call, look, news, 5.0, "endpoint", f"shop/{call.path['name']}"))


class Views:
    """What a shared view costs: `made` of which versions; each waits until it may be made."""

    def __init__(self) -> None:
        self.made: list[int] = []
        self.may = threading.Event()
        self.at_work = 0
        self.at_once = 0

    def make(self, record: Endpoint) -> int:
        self.at_work += 1
        self.at_once = max(self.at_once, self.at_work)
        assert self.may.wait(TIMEOUT)
        self.made.append(record.version)
        self.at_work -= 1
        return record.version


views = Views()


@table.read("/shared/{name}", "Wait for an endpoint", query=(Param("version", "int", "Known.", 0),), answer=int)
async def poll_together(call: Call) -> Answer:
    key = f"shop/{call.path['name']}"

    def present() -> Endpoint:
        if (found := call.state().endpoints.get(key)) is None:
            raise not_found("endpoint", key)
        return found

    def news(version: int) -> bool:
        return bool(version > call.query["version"])

    with streaming.shared(call, ("endpoint", key), present, views.make, news) as look:
        return Answer(await streaming.long_poll(call, look, news, WATCH, "endpoint", key))


@pytest.fixture
def api(gateway: CoreGateway, monkeypatch: pytest.MonkeyPatch) -> Iterator[Api]:
    monkeypatch.setattr(app, "operations", lambda: table.operations)
    with serving(gateway) as served:
        yield served
        gateway.follow.close("the test is over")


def publish(gateway: CoreGateway, name: str, version: int) -> None:
    record = Endpoint(namespace="shop", name=name, version=version)
    gateway.core.state.apply("endpoint", record.key, record)
    gateway.follow.publish([Item("endpoint", record.key, record)])


def test_a_stream_gives_what_its_watch_gives(gateway: CoreGateway, api: Api) -> None:
    reader = Reader(api.url + BASE + "/watch/web")
    assert reader.answer.headers["content-type"] == "text/event-stream"
    assert reader.answer.headers["cache-control"] == "no-store"
    wait_for(lambda: gateway.follow.watchers == 1, what="the watch")
    publish(gateway, "web", 7)
    publish(gateway, "other", 8)
    wait_for(lambda: reader.data("changed"), what="the first frame")
    gateway.follow.publish([Item("endpoint", "shop/web", None)])
    wait_for(lambda: reader.data("deleted"), what="the last frame")
    assert reader.lines[:2] == ["retry: 1000", ""]
    assert reader.lines[2:6] == ["id: 7", "event: changed", 'data: {"version":7}', ""]
    assert reader.data("deleted") == [{"key": "shop/web"}]


def test_a_reader_says_where_it_was(gateway: CoreGateway, api: Api) -> None:
    by_header = Reader(api.url + BASE + "/watch/web", headers={"Last-Event-ID": "41"})
    by_query = Reader(api.url + BASE + "/watch/web?lastEventId=42")
    wait_for(lambda: by_header.data("resumed") and by_query.data("resumed"), what="both streams")
    assert (by_header.data("resumed"), by_query.data("resumed")) == (["41"], ["42"])


def test_silence_is_filled_with_comments(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sse, "HEARTBEAT", 0.05)
    reader = Reader(api.url + BASE + "/watch/web")
    wait_for(lambda: reader.lines.count(":") >= 2, what="two heartbeats")


def test_a_stream_ends_with_the_time_asked_for(api: Api) -> None:
    reader = Reader(api.url + BASE + "/watch/web?timeoutSeconds=0.1")
    assert reader.ended.wait(TIMEOUT)
    assert [last["reason"] for last in reader.data("end")] == ["timeout"]


def test_a_stream_ends_with_the_term_and_says_so(gateway: CoreGateway, api: Api) -> None:
    reader = Reader(api.url + BASE + "/watch/web")
    wait_for(lambda: gateway.follow.watchers == 1, what="the watch")
    gateway.follow.close("stepped down: the process stops")
    assert reader.ended.wait(TIMEOUT)
    assert reader.data("end") == [{"reason": "stepped_down", "message": "stepped down: the process stops"}]


def test_a_reader_that_goes_is_forgotten(gateway: CoreGateway, api: Api) -> None:
    host, _, port = api.url.removeprefix("http://").rpartition(":")
    with socket.create_connection((host, int(port)), TIMEOUT) as connection:
        connection.sendall(f"GET {BASE}/watch/web HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())
        wait_for(lambda: gateway.follow.watchers == 1, what="the watch")
    wait_for(lambda: gateway.follow.watchers == 0, what="the end of the watch")


def test_a_reader_that_takes_nothing_is_given_up(
    gateway: CoreGateway, api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sse, "STUCK", 0.3)
    host, _, port = api.url.removeprefix("http://").rpartition(":")
    with socket.create_connection((host, int(port)), TIMEOUT) as connection:
        connection.sendall(f"GET {BASE}/watch/web HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())
        wait_for(lambda: gateway.follow.watchers == 1, what="the watch")

        def given_up() -> bool:
            gateway.follow.publish([Item("endpoint", "shop/web", None)])
            return gateway.follow.watchers == 0

        monkeypatch.setitem(show.__globals__, "frame", lambda *_: b"x" * 200_000)
        wait_for(given_up, what="the end of the watch")
        end = b""
        with contextlib.suppress(ConnectionResetError):
            while piece := connection.recv(1 << 20):
                end = (end + piece)[-5:]
    assert end != b"0\r\n\r\n", "broken off, not ended"


def test_the_number_of_streams_is_bounded(gateway: CoreGateway, api: Api) -> None:
    gateway.follow = Hub(most=1)
    Reader(api.url + BASE + "/watch/web")
    wait_for(lambda: gateway.follow.watchers == 1, what="the watch")
    refused = api.get("/watch/web")
    assert refused.status_code == 503
    assert refused.json()["data"]["reason"] == "too_many_watchers"
    assert refused.headers["retry-after"] == "5"


def test_a_standby_points_streams_to_the_leader(gateway: CoreGateway, api: Api) -> None:
    gateway.stand_by("http://10.0.0.9:31088")
    answer = api.get("/watch/web?timeoutSeconds=1")
    assert answer.status_code == 307
    assert answer.headers["location"] == f"http://10.0.0.9:31088{BASE}/watch/web?timeoutSeconds=1"
    gateway.stand_by(None)
    assert api.get("/watch/web").json()["data"]["reason"] == "no_leader"


def test_only_the_head_of_a_stream_can_be_asked_for(gateway: CoreGateway, api: Api) -> None:
    answer = api.call("HEAD", "/watch/web")
    assert (answer.status_code, answer.headers["content-type"]) == (200, "text/event-stream")
    wait_for(lambda: gateway.follow.watchers == 0, what="the end of the watch")


def test_a_long_poll_answers_as_soon_as_there_is_news(
    gateway: CoreGateway, api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streaming, "LOOK_SECONDS", 3600.0)
    publish(gateway, "web", 3)
    assert api.data("/poll/web?version=2") == 3
    watchers = Watchers(api, 1, "/poll/web?version=3")
    wait_for(lambda: gateway.follow.watchers == 1, what="the watch")
    publish(gateway, "web", 4)
    assert watchers.ended() == [(200, 4)]
    assert gateway.follow.watchers == 0


def test_a_long_poll_outlives_the_hub(gateway: CoreGateway, api: Api) -> None:
    watchers = Watchers(api, 1, "/poll/web?version=3")
    wait_for(lambda: gateway.follow.watchers == 1, what="the watch")
    gateway.follow.close("stepped down")
    gateway.core.state.apply("endpoint", "shop/web", endpoint(5))
    assert watchers.ended() == [(200, 5)]


class Watchers:
    """Many who poll the same."""

    def __init__(self, api: Api, count: int, path: str) -> None:
        self.answers: list[Any] = []
        self._threads = [threading.Thread(target=self._poll, args=[api, path]) for _ in range(count)]
        for thread in self._threads:
            thread.start()

    def _poll(self, api: Api, path: str) -> None:
        answer = requests.get(api.url + BASE + path, timeout=TIMEOUT)
        self.answers.append((answer.status_code, answer.json()["data"]))

    def ended(self) -> list[Any]:
        for thread in self._threads:
            thread.join(TIMEOUT)
        return self.answers


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> Views:
    made = Views()
    monkeypatch.setattr(views, "make", made.make)
    monkeypatch.setattr(streaming, "LOOK_SECONDS", 3600.0)
    return made


def test_a_shared_view_is_made_once_for_all_and_once_for_each_change(
    gateway: CoreGateway, api: Api, looks: Views
) -> None:
    publish(gateway, "web", 3)
    watchers = Watchers(api, 8, "/shared/web?version=3")
    wait_for(lambda: gateway.follow.watchers == 8 and looks.at_work == 1, what="all watchers")
    looks.may.set()
    wait_for(lambda: looks.made == [3], what="the first view")
    publish(gateway, "web", 4)
    assert watchers.ended() == [(200, 4)] * 8
    assert (looks.made, looks.at_once) == ([3, 4], 1)
    assert not streaming._sights, "kept for as long as somebody watches"


def test_a_change_while_a_view_is_made_is_not_missed(gateway: CoreGateway, api: Api, looks: Views) -> None:
    publish(gateway, "web", 3)
    watchers = Watchers(api, 3, "/shared/web?version=3")
    wait_for(lambda: gateway.follow.watchers == 3 and looks.at_work == 1, what="all watchers")
    publish(gateway, "web", 4)
    looks.may.set()
    assert watchers.ended() == [(200, 4)] * 3
    assert looks.made == [3, 4]


def test_a_shared_view_is_looked_at_even_if_nothing_was_told(
    gateway: CoreGateway, api: Api, looks: Views, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streaming, "LOOK_SECONDS", 0.05)
    looks.may.set()
    gateway.core.state.apply("endpoint", "shop/web", endpoint(3))
    watchers = Watchers(api, 3, "/shared/web?version=3")
    wait_for(lambda: len(looks.made) > 3, what="looks at common moments")
    gateway.stand_by(None)
    gateway.follow.close("stepped down")
    gateway.core.state.apply("endpoint", "shop/web", endpoint(4))
    assert watchers.ended() == [(200, 4)] * 3
    assert looks.at_once == 1


def test_what_is_gone_is_gone_for_all_who_share_it(gateway: CoreGateway, api: Api, looks: Views) -> None:
    looks.may.set()
    publish(gateway, "web", 3)
    watchers = Watchers(api, 3, "/shared/web?version=3")
    wait_for(lambda: gateway.follow.watchers == 3 and looks.made, what="all watchers")
    gateway.core.state.apply("endpoint", "shop/web", None)
    gateway.follow.publish([Item("endpoint", "shop/web", None)])
    assert [status for status, _ in watchers.ended()] == [404] * 3
    assert not streaming._sights


def endpoint(version: int) -> Endpoint:
    return Endpoint(namespace="shop", name="web", version=version)
