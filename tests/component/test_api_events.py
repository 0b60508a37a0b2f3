"""Events over HTTP: filters, pages, what a stream begins with, and how it resumes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from bcs_scheduler.api.http.operation import BASE
from bcs_scheduler.api.streams import sse
from bcs_scheduler.leadership.gateway import Busy
from store.records import Event, EventLog
from tests.component.apiserver import Api, serving
from tests.streams import Reader
from tests.unit.api_support import CoreGateway, document
from tests.waiting import wait_for


@pytest.fixture
def gateway() -> CoreGateway:
    made = CoreGateway()
    made.connect()
    return made


@pytest.fixture
def api(gateway: CoreGateway) -> Iterator[Api]:
    with serving(gateway) as served:
        yield served
        gateway.follow.close("the test is over")


def launch(api: Api, gateway: CoreGateway, name: str = "web", instances: int = 2, namespace: str = "shop") -> None:
    gateway.offer()
    api.call("POST", f"/namespaces/{namespace}/applications", json=document(name, namespace, instances))
    gateway.report("RUNNING", f"{namespace}/{name}")


def reasons(events: list[dict[str, Any]]) -> list[str]:
    return [event["reason"] for event in events]


def test_events_are_listed_newest_last_with_all_they_say(gateway: CoreGateway, api: Api) -> None:
    launch(api, gateway, instances=1)
    events = api.data("/namespaces/shop/events")
    assert [event["id"] for event in events] == sorted(event["id"] for event in events)
    assert reasons(events)[0] == "TransactionStarted"
    (placed,) = [event for event in events if event["reason"] == "TaskGroupPlaced"]
    (group,) = gateway.core.state.taskgroups
    (transaction,) = gateway.core.state.transactions
    assert placed == {
        "id": placed["id"],
        "time": placed["time"],
        "kind": "taskgroup",
        "namespace": "shop",
        "name": group,
        "reason": "TaskGroupPlaced",
        "message": placed["message"],
        "level": "info",
        "transaction": transaction,
        "cause": gateway.commands[0].cause,
        "agent": "10.0.0.1",
    }
    assert placed["message"].startswith("on host-1")
    assert {event["name"] for event in events if event["kind"] == "application"} == {"web"}


def test_filters(gateway: CoreGateway, api: Api) -> None:
    launch(api, gateway)
    launch(api, gateway, "web-2", 1)
    launch(api, gateway, "web", 1, "other")
    gateway.report("FAILED", "shop/web-2")
    everything = api.data("/events")
    launched = next(event for event in everything if event["reason"] == "TransactionStarted")

    def found(query: str) -> list[dict[str, Any]]:
        events: list[dict[str, Any]] = api.data(f"/events?{query}")
        assert events, query
        assert all(event in everything for event in events)
        return events

    assert {event["namespace"] for event in api.data("/namespaces/other/events")} == {"other"}
    assert {event["kind"] for event in found("kind=taskgroup")} == {"taskgroup"}
    ended = found("reason=TransactionStarted,TransactionFinished")
    assert set(reasons(ended)) == {"TransactionStarted", "TransactionFinished"}
    assert {event["level"] for event in found("level=warning")} == {"warning"}
    assert {event["transaction"] for event in found(f"transaction={launched['transaction']}")} == {
        launched["transaction"]
    }
    assert {event["name"] for event in found("kind=application&name=web")} == {"web"}
    assert {event["name"] for event in found("kind=application&prefix=web")} == {"web", "web-2"}
    own = {event["name"] for event in api.data("/namespaces/shop/events?owner=web-2")}
    assert {name.split(".")[1] for name in own if "." in name} == {"web-2"}
    assert any(name.startswith("application-") for name in own), "its transactions are its own"
    assert api.data("/events?since=4000000000") == []
    assert found("last=3") == everything[-3:]


def test_pages(gateway: CoreGateway, api: Api) -> None:
    launch(api, gateway, instances=5)
    whole, pages, token = api.data("/events"), [], ""
    while True:
        answer = api.get("/events", params={"limit": 3, **({"continue": token} if token else {})}).json()
        pages += answer["data"]
        token = answer.get("continue", "")
        if not token:
            break
    assert pages == whole


def test_what_is_not_durable_is_not_shown(gateway: CoreGateway, api: Api) -> None:
    launch(api, gateway)
    shown = api.data("/events")
    gateway.follow.latest -= 2
    assert api.data("/events") == shown[:-2]
    gateway.stand_by(None)
    assert api.data("/events") == shown, "a standby has read only what is durable"


def test_a_stream_begins_now_or_with_the_newest(gateway: CoreGateway, api: Api) -> None:
    launch(api, gateway)
    known = api.data("/events")
    fresh, late = follow(api, ""), follow(api, "last=2&level=info")
    wait_for(lambda: gateway.follow.watchers == 2, what="both watches")
    launch(api, gateway, "second", 1)
    news = api.data("/events")[len(known) :]
    wait_for(lambda: len(fresh.data("event")) >= len(news), what="the new events")
    assert fresh.data("event") == news
    wait_for(lambda: len(late.data("event")) >= len(news) + 2, what="the newest and the new events")
    assert late.data("event") == known[-2:] + news


def follow(api: Api, query: str, **headers: str) -> Reader:
    return Reader(f"{api.url}{BASE}/namespaces/shop/events/watch?{query}", headers=headers)


def test_a_stream_resumes_without_a_gap_and_without_a_repeat(gateway: CoreGateway, api: Api) -> None:
    launch(api, gateway, instances=30)
    whole = api.data("/events?kind=taskgroup")
    reader = follow(api, "kind=taskgroup", **{"Last-Event-ID": str(whole[3]["id"])})
    wait_for(lambda: len(reader.data("event")) == len(whole) - 4, what="what was missed")
    launch(api, gateway, "second", 1)
    whole = api.data("/events?kind=taskgroup")
    wait_for(lambda: len(reader.data("event")) >= len(whole) - 4, what="what is new")
    assert reader.data("event") == whole[4:]
    assert reader.data("gap") == []


def test_a_reader_that_is_told_little_still_learns_where_the_stream_is(
    gateway: CoreGateway, api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sse, "HEARTBEAT", 0.05)
    reader = follow(api, "reason=never")
    wait_for(lambda: gateway.follow.watchers == 1, what="the watch")
    launch(api, gateway)
    wait_for(lambda: f"id: {gateway.follow.latest}" in reader.lines, what="the newest id")
    assert reader.data("event") == []


def test_readers_are_told_of_the_end_of_a_term_while_the_store_does_not_answer(gateway: CoreGateway, api: Api) -> None:
    """A filter by owner looks at records: at those of the term, not at those that the store would have to give."""
    launch(api, gateway)
    reader = follow(api, "owner=web")
    wait_for(lambda: gateway.follow.watchers == 1, what="the watch")
    gateway.refusal = Busy("the store cannot be read")
    gateway.report("FAILED", "shop/web")
    gateway.follow.close("stepped down: the store has gone")
    wait_for(lambda: reader.data("end"), what="the end")
    assert [end["reason"] for end in reader.data("end")] == ["stepped_down"]
    assert "TaskGroupFailed" in reasons(reader.data("event"))


def test_what_is_not_kept_any_more_is_told_as_a_gap(gateway: CoreGateway, api: Api) -> None:
    state = gateway.core.state
    for key in list(state.event_logs):
        state.apply("journal", key, None)
    event = Event(number=500, at=1.0, object="service", key="shop/a", namespace="shop", reason="x", message="")
    state.apply("journal", "00000000000000000500", EventLog(number=500, events=(event,)))
    gateway.follow.latest = 500
    reader = follow(api, "", **{"Last-Event-ID": "7"})
    wait_for(lambda: reader.data("event"), what="the event")
    assert [(gap["first"], gap["last"]) for gap in reader.data("gap")] == [(8, 499)]
    assert [event["id"] for event in reader.data("event")] == [500]


def test_numbers_from_another_time_are_told_as_a_gap(gateway: CoreGateway, api: Api) -> None:
    reader = follow(api, "", **{"Last-Event-ID": "99999"})
    wait_for(lambda: gateway.follow.watchers == 1, what="the watch")
    launch(api, gateway, instances=1)
    wait_for(lambda: reader.data("event"), what="an event")
    assert [gap["message"] for gap in reader.data("gap")] == ["the numbering of events has started again"]


@pytest.mark.parametrize("bad", ["soon", "-1", "1.5", "9" * 16, "²"])
def test_a_bad_place_to_resume_from_is_refused(api: Api, bad: str) -> None:
    answer = api.get("/events/watch", params={"lastEventId": bad})
    assert (answer.status_code, answer.json()["data"]["reason"]) == (400, "bad_parameter")


def test_events_and_streams_are_in_the_description(api: Api) -> None:
    paths = api.get("/openapi.json", base="").json()["paths"]
    stream = paths[f"{BASE}/events/watch"]["get"]
    assert list(stream["responses"]["200"]["content"]) == ["text/event-stream"]
    assert {"Last-Event-ID", "lastEventId"} <= {parameter["name"] for parameter in stream["parameters"]}
    assert {"307", "503"} <= set(stream["responses"])


def test_no_secret_is_ever_in_an_event(gateway: CoreGateway, api: Api) -> None:
    body = {
        "apiVersion": "v4",
        "kind": "secret",
        "metadata": {"name": "keys", "namespace": "shop"},
        "datas": {"password": {"content": "aHVudGVyMg=="}},
    }
    assert api.call("POST", "/namespaces/shop/secrets", json=body).status_code == 200
    launch(api, gateway)
    text = msgspec.json.encode(api.data("/events")).decode()
    assert '"secret"' in text
    assert "hunter2" not in text
    assert "aHVudGVyMg" not in text
