"""`bcs get events`: filters, forms, and following over ends of streams."""

from __future__ import annotations

import json
from types import MappingProxyType
from typing import Any

import pytest

from bcs_scheduler.cli.client.kinds import KINDS, SINGULAR
from bcs_scheduler.cli.kinds.workloads import events
from bcs_scheduler.cli.output.terminal import Terminal
from bcs_scheduler.core.event_log import INTERNAL
from store.reasons import REASONS
from tests.component.cli.standin import APPS, Answer, StandIn, application, ok, taskgroup, transaction

PATH = "/namespaces/defaultGroup/events"
GROUP = "0.web.defaultGroup.demo.1700000000000000001"


def event(number: int, reason: str = "Running", level: str = "info", **fields: Any) -> dict[str, Any]:
    return {
        "id": number,
        "time": "2023-11-14T22:13:20.000000Z",
        "kind": "taskgroup",
        "namespace": "defaultGroup",
        "name": GROUP,
        "reason": reason,
        "message": f"it is {reason} [really]",
        "level": level,
        "transaction": "application-1",
        "cause": "api-1",
        **fields,
    }


def stream(*frames: tuple[str, Any, str]) -> Answer:
    """(event, data, id) of each frame."""
    lines = ["retry: 1000\n\n"]
    for name, data, identity in frames:
        head = f"id: {identity}\n" if identity else ""
        lines.append(f"{head}event: {name}\ndata: {json.dumps(data)}\n\n" if name else f"{head}:\n\n")
    return Answer(200, "".join(lines).encode(), MappingProxyType({"Content-Type": "text/event-stream"}))


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(events, "FIRST_PAUSE", 0.01)


def test_a_list_is_a_table_of_the_newest(server: StandIn, bcs: Any) -> None:
    server.on("GET", PATH, ok([event(1, "placed"), event(2, "Failed", "warning")]))
    result = bcs("get", "events", "-o", "table")
    assert result.code == 0
    assert "taskgroup/web-0" in result.out and GROUP not in result.out
    assert "it is Failed [really]" in result.out
    assert "application-1" not in result.out
    assert server.seen[-1].query["last"] == "500"
    wide = bcs("get", "ev", "-o", "wide").out
    assert "application-1" in wide and GROUP in wide and "2023-11-14" in wide
    assert [one["id"] for one in json.loads(bcs("get", "event", "-o", "json").out)] == [1, 2]


def test_filters_go_to_the_server(server: StandIn, bcs: Any) -> None:
    server.on("GET", "/events", ok([]))
    server.on("GET", PATH, ok([]))
    assert bcs("get", "events", "-A", "--level", "warning", "--reason", "Lost,Failed", "--last", "3").code == 0
    query = server.seen[-1].query
    assert (query["level"], query["reason"], query["last"]) == ("warning", "Lost,Failed", "3")
    bcs("get", "events", "--since", "10m")
    assert float(server.seen[-1].query["since"]) > 1_700_000_000
    server.on("GET", "/agents", ok([{"id": "S1", "key": "10.0.0.1", "ip": "10.0.0.1", "hostname": "host-1"}]))
    for path in ("applications/web", "deployments/web", "services/web", f"taskgroups/{GROUP}"):
        server.on("GET", f"/namespaces/defaultGroup/{path}", ok({}))
    server.on("GET", "/transactions/defaultGroup/application-1", ok({}))
    for arguments, expected in (
        (("web",), {"owner": "web"}),
        (("--for", "app/web"), {"owner": "web"}),
        (("--for", "deployment/web"), {"owner": "web"}),
        (("--for", f"tg/{GROUP}"), {"kind": "taskgroup", "name": GROUP}),
        (("--for", "agent/10.0.0.1"), {"kind": "agent", "name": "10.0.0.1"}),
        (("--for", "svc/web"), {"kind": "service", "name": "web"}),
        (("--for", "transaction/application-1"), {"kind": "transaction", "name": "application-1"}),
    ):
        result = bcs("get", "events", *arguments, "-o", "table")
        assert result.code == 0
        assert "no events in namespace defaultGroup" in result.err
        assert {key: server.seen[-1].query.get(key) for key in expected} == expected


@pytest.mark.parametrize("watch", [(), ("-w",)])
@pytest.mark.parametrize(
    "about", ["app/nope", "deployment/nope", "svc/nope", "cm/nope", "agent/nope", "tx/nope", "nope"]
)
def test_an_object_that_does_not_exist_is_an_error(
    server: StandIn, bcs: Any, about: str, watch: tuple[str, ...]
) -> None:
    server.on("GET", PATH, ok([]))
    server.on("GET", "/agents", ok([]))
    result = bcs("events", about, *watch) if "/" not in about else bcs("events", "--for", about, *watch)
    assert result.code == 3 and "nope" in result.err and not result.out


def test_a_deleted_object_has_its_events(server: StandIn, bcs: Any) -> None:
    server.on("GET", PATH, ok([event(1, kind="service", name="gone")]))
    assert "service/gone" in bcs("events", "--for", "svc/gone", "-o", "table").out


def test_an_unknown_kind_is_an_error_and_a_registered_one_is_found(server: StandIn, bcs: Any) -> None:
    server.on("GET", "/crr", ok([{"spec": {"names": {"kind": "Database"}}}]))
    server.on("GET", PATH, ok([]))
    assert "unknown kind 'servce'" in bcs("events", "--for", "servce/web").err
    assert bcs("events", "--for", "database/main").code == 0
    query = server.seen[-1].query
    assert (query["kind"], query["name"]) == ("customobject", "Database/defaultGroup/main")


def test_kinds_of_events_that_are_not_listed_are_known() -> None:
    kinds = {kind for meaning in REASONS.values() for kind in meaning.kinds}
    assert sorted(kinds - INTERNAL - {SINGULAR[kind] for kind in KINDS}) == sorted(events.WITHOUT_LISTS)


def test_what_makes_no_sense_is_refused(server: StandIn, bcs: Any) -> None:
    for arguments, words in (
        (("get", "apps", "--level", "warning"), "--level is supported for events only"),
        (("get", "events", "--for", "web"), "KIND/NAME"),
        (("get", "events", "web", "--for", "app/web"), "once"),
        (("get", "events", "--level", "loud"), "loud"),
    ):
        result = bcs(*arguments)
        assert result.code != 0
        assert words in result.err


def test_following_goes_on_where_the_last_stream_ended(server: StandIn, bcs: Any) -> None:
    server.on(
        "GET",
        f"{PATH}/watch",
        stream(("event", event(1, "placed"), "1"), ("event", event(2), "2"), ("end", {"reason": "stepped_down"}, "")),
        stream(("", None, "40")),
        stream(("gap", {"message": "events 41 to 50 are no longer stored"}, "50"), ("event", event(51, "Lost"), "51")),
        Answer(404, {"result": False, "code": 1, "message": "enough", "data": {"reason": "not_found"}}),
    )
    result = bcs("get", "events", "-w", "-o", "json", "--level", "info")
    assert [json.loads(line)["id"] for line in result.out.splitlines()] == [1, 2, 51]
    assert "no longer stored" in result.err
    assert "enough" in result.err
    asked = [request.query for request in server.seen]
    assert [query.get("lastEventId") for query in asked] == [None, "2", "40", "51"]
    assert [query.get("last") for query in asked] == ["20", None, None, None]
    assert {query["level"] for query in asked} == {"info"}


def test_following_prints_lines_for_people(server: StandIn, bcs: Any) -> None:
    server.on(
        "GET",
        f"{PATH}/watch",
        stream(("event", event(1, "Failed", "warning"), "1")),
        Answer(404, {"result": False, "code": 1, "message": "enough", "data": {"reason": "not_found"}}),
    )
    (line,) = bcs("get", "events", "-w", "-o", "table").out.splitlines()
    assert line.endswith("warning  taskgroup/web-0  Failed  it is Failed [really]")


def test_the_story_is_made_of_events(server: StandIn, bcs: Any) -> None:
    group = taskgroup()
    server.on("GET", f"{APPS}/web", ok(application()))
    server.on("GET", f"{APPS}/web/taskgroups", ok([group]))
    server.on("GET", "/transactions/defaultGroup", ok([transaction("FINISH")]))
    begin = event(1, "begin", kind="transaction", name="application-1", message="LAUNCH of x: launching 2")
    server.on("GET", PATH, ok([begin, event(2, "placed", name=group["ID"], message="on agent0")]))
    story = json.loads(bcs("describe", "app", "web", "--events", "-o", "json").out)["events"]
    assert [line["text"] for line in story] == ["begin: LAUNCH of x: launching 2", "placed: on agent0"]
    assert [request.query["owner"] for request in server.seen if request.path == PATH] == ["web"]


def test_events_of_a_description_are_wrapped_between_words_in_a_terminal(
    server: StandIn, bcs: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.on("GET", f"{APPS}/web", ok(application()))
    server.on("GET", f"{APPS}/web/taskgroups", ok([]))
    server.on("GET", "/transactions/defaultGroup", ok([]))
    words = "replaced by a new version " * 6
    server.on("GET", PATH, ok([event(1, "TaskGroupEnding", message=words)]))
    (whole,) = bcs("describe", "app", "web", "--events").out.partition("Events\n")[2].splitlines()
    monkeypatch.setattr(Terminal, "width", 80)
    lines = bcs("describe", "app", "web", "--events").out.partition("Events\n")[2].splitlines()
    assert len(lines) > 2 and max(map(len, lines)) <= 80 and all(line.startswith("      ") for line in lines[1:])
    assert " ".join(" ".join(lines).split()) == " ".join(whole.split())


def test_events_is_a_command_of_its_own(server: StandIn, bcs: Any) -> None:
    server.on("GET", "/events", ok([]))
    server.on("GET", PATH, ok([event(1)]))
    for arguments, expected in (
        (("web",), {"owner": "web"}),
        (("deploy/web",), {"owner": "web"}),
        (("--for", "svc/web", "--level", "error"), {"kind": "service", "name": "web", "level": "error"}),
        (("--types=Warning",), {"level": "warning"}),
        (("--types", "Normal,Warning", "--last", "3"), {"level": "info", "last": "3"}),
        (("--reason", "Lost"), {"reason": "Lost"}),
    ):
        result = bcs("events", *arguments, "-o", "table", "--no-headers")
        assert result.code == 0 and result.out.split()[2] == "taskgroup/web-0", result.err
        assert server.seen[-1].query == {"limit": "500", "last": "500", **expected}
    assert bcs("events", "-A").code == 0 and server.seen[-1].path == "/events"
    for wrong in (("app/web", "--for", "app/web"), ("--types", "Normal"), ("web", "--for", "app/web")):
        assert bcs("events", *wrong).code == 2
