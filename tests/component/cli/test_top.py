"""`bcs top`: what is used beside what is allocated, in order, with what is not known."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml

from tests.component.cli.standin import StandIn, ok

UNKNOWN = {"cpus": None, "mem": None, "disk": None}
AWAY = "agent 10.0.0.3:5051 does not answer within 3 s"


def amounts(cpus: float, mem: float, disk: float | None = 0.0) -> dict[str, Any]:
    return {"cpus": cpus, "mem": mem, "disk": disk}


def agent(number: int, used: dict[str, Any], allocated: float = 1.0, **more: Any) -> dict[str, Any]:
    return {
        "id": f"S{number}", "hostname": f"host-{number}", "ip": f"10.0.0.{number}", "disabled": False, "taskgroups": 2,
        "used": used, "allocated": {**amounts(allocated, 100, 0.0), "gpus": 0.0},
        "total": {**amounts(4, 1000, 0.0), "gpus": 0.0}, "interval": 2.04, "uncounted": 0, "problem": "", **more,
    }  # fmt: skip


def group(index: int, used: dict[str, Any], app: str = "web", namespace: str = "shop", **more: Any) -> dict[str, Any]:
    return {
        "id": f"{index}.{app}", "namespace": namespace, "application": app, "status": "Running", "hostname": "host-1",
        "used": used, "allocated": {**amounts(0.5, 64, 10), "gpus": 0.0}, "interval": 1.0, "problem": "", **more,
    }  # fmt: skip


@pytest.fixture(autouse=True)
def answers(server: StandIn) -> None:
    agents = [
        agent(1, amounts(0.5, 800, None)),
        agent(2, amounts(3.7, 300), uncounted=1),
        agent(3, UNKNOWN, interval=0.0, problem=AWAY),
        agent(4, UNKNOWN, 2.0, interval=0.0, problem=AWAY),
    ]
    groups = [
        group(0, amounts(0.2, 60, 5)),
        group(1, amounts(0.3, 20, 5)),
        group(0, UNKNOWN, "far", problem=AWAY),
        group(0, amounts(0.25, 10, None), "far", "another"),
        group(1, UNKNOWN, "far", "another", problem=AWAY),
    ]
    server.on("GET", "/usage/agents", ok(agents))
    server.on("GET", "/usage/taskgroups", ok(groups))
    server.on("GET", "/namespaces/shop/usage/taskgroups", ok(groups[:3]))


def rows(text: str) -> list[list[str]]:
    """Cells below the head of a table; a share belongs to its number."""
    return [line.split() for line in text.splitlines()[1:]]


def test_agents_by_what_they_use_with_shares_of_what_they_have(bcs: Any) -> None:
    result = bcs("top", "-o", "table")
    assert rows(result.out) == [
        ["host-2", "ready", "2", "≥3.70", "92%", "1/4", "25%", "≥300", "30%", "100/1000", "10%"],
        ["host-1", "ready", "2", "0.50", "12%", "1/4", "25%", "800", "80%", "100/1000", "10%"],
        ["host-4", "ready", "2", "-", "2/4", "50%", "-", "100/1000", "10%"],
        ["host-3", "ready", "2", "-", "1/4", "25%", "-", "100/1000", "10%"],
    ]
    assert result.err == f"unknown for 2: {AWAY}\n"
    assert [row[0] for row in rows(bcs("top", "--sort", "memory", "-o", "table").out)][:2] == ["host-1", "host-2"]
    assert rows(bcs("top", "--sort", "name", "-o", "table").out)[0][0] == "host-1"


def test_wide_tables_say_of_how_many_seconds(bcs: Any) -> None:
    out = bcs("top", "agents", "-o", "wide").out
    assert "SECONDS" in out and [row[-1] for row in rows(out)] == ["2.0", "2.0", "-", "-"]


def test_taskgroups_with_shares_of_what_is_allocated(bcs: Any) -> None:
    out = bcs("top", "taskgroups", "-n", "shop", "-o", "table").out
    assert rows(out) == [
        ["1.web", "Running", "host-1", "0.30", "60%", "0.5", "20", "31%", "64"],
        ["0.web", "Running", "host-1", "0.20", "40%", "0.5", "60", "94%", "64"],
        ["0.far", "Running", "host-1", "-", "0.5", "-", "64"],
    ]
    assert len(rows(bcs("top", "taskgroups", "-A", "-o", "table").out)) == 5


def test_owners_have_the_sum_of_what_is_known(bcs: Any) -> None:
    found = json.loads(bcs("top", "applications", "-A", "-o", "json").out)
    assert [(each["namespace"], each["application"], each["used"], each["uncounted"]) for each in found] == [
        ("shop", "web", amounts(0.5, 80, 10), 0),
        ("another", "far", amounts(0.25, 10, None), 1),
        ("shop", "far", UNKNOWN, 1),
    ]
    assert found[0]["allocated"] == {**amounts(1.0, 128, 20), "gpus": 0.0}
    assert [each["problem"] for each in found] == ["", AWAY, AWAY]
    found = yaml.safe_load(bcs("top", "namespaces", "-o", "yaml").out)
    assert [(each["namespace"], each["used"]["cpus"], each["taskgroups"]) for each in found] == [
        ("shop", 0.5, 3),
        ("another", 0.25, 2),
    ]


def test_data_says_what_is_not_known_and_why(bcs: Any) -> None:
    result = bcs("top", "agents", "-o", "json")
    assert result.err == ""
    found = {each["agent"]: each for each in json.loads(result.out)}
    assert (found["host-3"]["used"], found["host-3"]["problem"]) == (UNKNOWN, AWAY)
    assert found["host-1"]["used"] == amounts(0.5, 800, None)


def test_many_different_reasons_are_cut_short(server: StandIn, bcs: Any) -> None:
    server.rules.clear()
    many = [agent(n, UNKNOWN, problem=f"agent {n} is away") for n in range(9)]
    server.on("GET", "/usage/agents", ok(many))
    lines = bcs("top", "-o", "table").err.splitlines()
    assert len(lines) == 6 and lines[-1] == "and 4 more reasons; -o json shows all"


def test_nothing_to_show(server: StandIn, bcs: Any) -> None:
    server.on("GET", "/namespaces/empty/usage/taskgroups", ok([]))
    result = bcs("top", "taskgroups", "-n", "empty", "-o", "table")
    assert (result.code, result.out, result.err) == (0, "", "no taskgroups\n")


def test_objects_are_shown_by_name(server: StandIn, bcs: Any) -> None:
    groups = [
        {**group(index, amounts(index, 1), app, namespace), "id": f"{index}.{app}.{namespace}.dev.1700000000000000000"}
        for index, app, namespace in ((0, "web", "shop"), (1, "web", "shop"), (0, "far", "shop"), (0, "far", "bank"))
    ]
    server.on("GET", "/usage/taskgroups", ok(groups))
    server.on("GET", "/namespaces/shop/usage/taskgroups", ok(groups[:3]))

    def shown(*words: str) -> list[str]:
        result = bcs("top", *words, "-o", "name")
        assert result.code == 0, result.err
        return [".".join(line.split(".")[:3]) for line in result.out.split()]

    assert shown("pod", "web-1", "-n", "shop") == ["taskgroup/1.web.shop"]
    assert shown("pod/web-1", "po/web-0", "-n", "shop") == ["taskgroup/1.web.shop", "taskgroup/0.web.shop"]
    assert shown("tg", "web", "-n", "shop") == ["taskgroup/1.web.shop", "taskgroup/0.web.shop"]
    assert shown("tg", groups[0]["id"], "-n", "shop") == ["taskgroup/0.web.shop"]
    assert shown("pods", "far-0", "-A") == ["taskgroup/0.far.bank", "taskgroup/0.far.shop"]
    assert shown("node", "host-3", "10.0.0.1") == ["agent/host-1", "agent/host-3"]
    assert shown("app/far", "-A") == ["application/far"] * 2
    for words, code in (
        (("pod", "web-7", "-n", "shop"), 3),
        (("node", "host-9"), 3),
        (("pods,nodes",), 2),
        (("services",), 2),
    ):
        assert bcs("top", *words).code == code


@pytest.mark.parametrize(("kind", "key"), [("taskgroups", "ID"), ("applications", "Name")])
def test_a_selector_chooses_by_labels(server: StandIn, bcs: Any, kind: str, key: str) -> None:
    path = "/taskgroups" if kind == "taskgroups" else "/namespaces/shop/applications"
    server.on("GET", path, ok([{"RunAs": "shop", key: "0.far" if kind == "taskgroups" else "far"}]))
    found = json.loads(bcs("top", kind, "-n", "shop", "-l", "app=far", "-o", "json").out)
    assert [item["application"] for item in found] == ["far"]
    (asked,) = [request for request in server.seen if request.path == path]
    assert asked.query["labelSelector"] == "app=far"
