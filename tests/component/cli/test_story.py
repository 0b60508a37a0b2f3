"""`bcs story`: events by cause, over transactions and leaders."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml

from bcs_scheduler.cli.kinds.workloads.story import grouped, lines_of
from tests.component.cli.standin import StandIn, failed, ok, transaction
from tests.component.cli.test_events import GROUP, PATH, event, stream

OTHER = "1.web.defaultGroup.demo.1700000000000000002"


def framework(number: int, reason: str) -> dict[str, Any]:
    return event(
        number, reason, kind="framework", name="f-1", namespace="", transaction="", cause="mesos:1", message="with m"
    )


def started(number: int, identity: str, cause: str) -> dict[str, Any]:
    return event(number, "TransactionStarted", kind="transaction", name=identity, transaction=identity, cause=cause)


EVENTS = [
    started(10, "application-1", "api-1"),
    event(11, "TaskGroupPlaced", transaction="application-1", cause="api-1"),
    event(12, "TaskGroupRunning", transaction="application-1", cause="mesos:7"),
    event(21, "TaskGroupPlaced", name=OTHER, transaction="application-1", cause="api-1"),
    event(22, "TaskGroupFailed", "warning", transaction="", cause="mesos:7"),
    event(23, "TaskGroupEvicted", transaction="", cause="turn"),
]
LEADERS = [
    framework(5, "FrameworkSubscribed"),
    framework(20, "FrameworkSubscribed"),
    framework(30, "FrameworkDisconnected"),
    framework(31, "FrameworkSubscribed"),
]


@pytest.fixture(autouse=True)
def answers(server: StandIn) -> None:
    server.on("GET", PATH, ok(EVENTS))
    server.on("GET", "/events", ok(LEADERS))
    server.on("GET", f"{PATH}/watch", stream(("gap", {"first": 1, "last": 4, "message": "gone"}, "4")))
    server.on("GET", "/transactions/defaultGroup", ok([transaction("FINISH")]))


def causes(story: dict[str, Any]) -> list[tuple[str, str, list[int]]]:
    return [(one["type"], one["cause"], [each["id"] for each in one["events"]]) for one in story["causes"]]


def test_a_request_is_one_cause_over_leaders_and_a_report_is_not(server: StandIn, bcs: Any) -> None:
    story = json.loads(bcs("story", "app/web", "-o", "json").out)
    assert causes(story) == [
        ("request", "api-1", [10, 11, 21]),
        ("report", "mesos:7", [12]),
        ("leader", "mesos:1", [20]),
        ("report", "mesos:7", [22]),
        ("policy", "turn", [23]),
        ("connection", "mesos:1", [30]),
        ("connection", "mesos:1", [31]),
    ]
    assert story["object"] == {"kind": "application", "namespace": "defaultGroup", "name": "web"}
    assert (story["gap"], story["truncated"]) == ({"first": 1, "last": 4}, False)
    assert story["causes"][0]["transactions"] == [{"id": "application-1", "operation": "launch", "status": "FINISH"}]
    assert yaml.safe_load(bcs("story", "app", "web", "-o", "yaml").out) == story


def test_a_caller_of_one_namespace_is_told_that_leaders_are_missing(server: StandIn, bcs: Any) -> None:
    server.on("GET", "/events", failed(403, "ann needs the role viewer in all namespaces", "forbidden"))
    result = bcs("story", "app/web", "-o", "json")
    assert causes(json.loads(result.out))[:2] == [("request", "api-1", [10, 11, 21]), ("report", "mesos:7", [12, 22])]
    assert "changes of leader and of agents are not shown: ann needs" in result.err
    server.on("GET", "/events", failed(400, "broken", "bad_parameter"))
    assert bcs("story", "app/web").code == 1


def test_a_take_over_names_the_leader_and_has_its_connection(server: StandIn, bcs: Any) -> None:
    took = {
        **framework(19, "LeaderTookOver"),
        "cause": "takeover",
        "message": "http://10.0.0.2:31000 took over, term 7",
    }
    lost = framework(29, "FrameworkDisconnected")
    server.on(
        "GET", "/events", ok([took, *LEADERS[1:], {**took, "id": 40}, lost, framework(41, "FrameworkSubscribed")])
    )
    story = json.loads(bcs("story", "app/web", "-o", "json").out)
    assert [(kind, numbers) for kind, _, numbers in causes(story) if kind in ("leader", "connection")] == [
        ("leader", [19, 20]),
        ("connection", [29]),
        ("connection", [30]),
        ("connection", [31]),
        ("leader", [40, 41]),
    ]
    assert "LeaderTookOver: http://10.0.0.2:31000 took over, term 7" in bcs("story", "app/web").out


def test_a_story_has_the_events_of_the_agents_of_its_taskgroups(server: StandIn, bcs: Any) -> None:
    server.on("GET", PATH, ok([{**one, "agent": "10.0.0.1"} for one in EVENTS]))
    here = {"id": "S1", "hostname": "host-1", "ip": "10.0.0.1", "key": "rack-1", "attributes": {}}
    server.on(
        "GET", "/agents", ok([here, {**here, "id": "S2", "ip": "10.0.0.2", "key": "rack-2", "hostname": "host-2"}])
    )
    agent = {"kind": "agent", "namespace": "", "transaction": ""}
    agents = [
        event(13, "AgentLeft", name="10.0.0.1", cause="agents", **agent),
        event(14, "AgentLeft", name="10.0.0.2", cause="agents", **agent),
        event(24, "DrainStarted", name="rack-1", cause="api-9", **agent),
    ]
    server.on("GET", "/events", ok([]), ok(agents))
    story = json.loads(bcs("story", "app/web", "-o", "json").out)
    assert causes(story) == [
        ("request", "api-1", [10, 11, 21]),
        ("report", "mesos:7", [12, 22]),
        ("scheduler", "agents", [13]),
        ("policy", "turn", [23]),
        ("request", "api-9", [24]),
    ]
    assert [one.query["kind"] for one in server.seen if one.path == "/events"] == ["framework", "agent"]


def test_a_pod_group_has_the_events_of_its_members(server: StandIn, bcs: Any) -> None:
    created = event(1, "PodGroupCreated", kind="podgroup", name="together", transaction="", cause="api-0")
    members = [{"application": name, "running": 1, "wanted": 1} for name in ("web", "db")]
    server.on("GET", "/namespaces/defaultGroup/podgroups/together", ok({"status": {"members": members}}))
    server.on("GET", PATH, ok([created]), ok(EVENTS[:2]), ok([EVENTS[2]]))
    story = json.loads(bcs("story", "podgroup/together", "-o", "json").out)
    assert [numbers for kind, _, numbers in causes(story) if kind in ("request", "report")] == [[1], [10, 11], [12]]


def test_only_the_events_of_the_object_are_read(server: StandIn, bcs: Any) -> None:
    for words, expected in (
        (("deploy", "web"), {"owner": "web"}),
        (("ds/web",), {"owner": "web"}),
        (("svc", "web"), {"kind": "service", "name": "web"}),
        (("tg", GROUP), {"kind": "taskgroup", "name": GROUP}),
    ):
        server.seen.clear()
        assert bcs("story", *words, "--since", "10m").code == 0
        first, *others = [request.query for request in server.seen if request.path.endswith("/events")]
        assert expected.items() <= first.items() and float(first["since"]) > 1_700_000_000
        assert all(query["kind"] in ("framework", "transaction") for query in others)
        assert not any(request.path.endswith("/watch") for request in server.seen)
    assert first["last"] == "1001"


def test_a_taskgroup_has_the_events_of_its_transactions_each_once(server: StandIn, bcs: Any) -> None:
    server.on("GET", PATH, ok(EVENTS[1:3]), ok([EVENTS[0], EVENTS[1]]))
    story = json.loads(bcs("story", "tg", GROUP, "-o", "json").out)
    assert causes(story)[:2] == [("request", "api-1", [10, 11]), ("report", "mesos:7", [12])]
    asked = [request.query for request in server.seen if request.path == PATH]
    assert [query.get("transaction") for query in asked] == [None, "application-1"]


def test_agents_are_found_by_their_names(server: StandIn, bcs: Any) -> None:
    server.on("GET", "/agents", ok([{"id": "S1", "hostname": "host-1", "ip": "10.0.0.1", "attributes": {}}]))
    drained = event(40, "DrainStarted", kind="agent", name="host-1", namespace="", transaction="", cause="api-9")
    server.on("GET", "/events", ok([drained]), ok([drained]), ok([drained]), ok([]))
    server.on("GET", "/events/watch", stream(("", None, "40")))
    story = json.loads(bcs("story", "agent", "host-1", "-o", "json").out)
    assert causes(story) == [("request", "api-9", [40])]
    assert story["gap"] is None and story["object"]["namespace"] == ""


def test_the_limit_keeps_the_newest_and_says_so(server: StandIn, bcs: Any) -> None:
    result = bcs("story", "app", "web", "--limit", "5", "-o", "json")
    story = json.loads(result.out)
    assert story["truncated"] and causes(story)[0] == ("request", "api-1", [11, 21])
    assert next(r.query["last"] for r in server.seen if r.path == PATH) == "6"
    assert "Only the newest events are shown" in bcs("story", "app", "web", "--limit", "5").out


def test_text_has_headings_with_events_under_them_and_says_what_is_gone(bcs: Any) -> None:
    lines = bcs("story", "app", "web").out.splitlines()
    assert lines[0] == "Earlier events are no longer kept (events 1 to 4)."
    assert lines[1].endswith("request api-1: launch application-1") and not lines[1].startswith(" ")
    assert lines[2].startswith("  ") and "transaction/application-1  TransactionStarted: " in lines[2]
    assert any(line.endswith("  change of leader") for line in lines)


def test_text_fits_into_a_terminal_of_80_columns() -> None:
    long = [event(1, "TaskGroupFailed", message="a long message of many words " * 8), *EVENTS]
    story = {
        "object": {"kind": "taskgroup", "name": GROUP}, "gap": {"first": 1, "last": 4}, "truncated": True,
        "causes": grouped(long, {}),
    }  # fmt: skip
    lines = list(lines_of(story, 80))
    assert max(map(len, lines)) <= 80
    assert f"taskgroup/{GROUP}" not in "\n".join(lines)
    assert " ".join(" ".join(lines).split()).count("a long message of many words") == 8


def test_what_has_no_story_is_refused(server: StandIn, bcs: Any) -> None:
    result = bcs("story", "configmap/web")
    assert result.code == 2 and "story does not support configmaps; supported kinds: deployment" in result.err
    assert bcs("story", "app").code == 2
    server.on("GET", PATH, ok([]))
    result = bcs("story", "app/web")
    assert result.code != 0 and "no events of application web are kept" in result.err
