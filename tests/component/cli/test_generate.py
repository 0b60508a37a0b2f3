"""Documents from the command line, allocations, taints."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from bcs_scheduler.api.documents.deployment import read_deployment
from bcs_scheduler.api.documents.validate import read_application
from tests.component.cli.standin import ACCEPTED, APPS, StandIn, application, ok

ALL = "/namespaces/defaultGroup/deployments"


def agent(number: int, **changes: Any) -> dict[str, Any]:
    return {
        "hostname": f"host-{number}", "ip": f"10.0.0.{number}", "id": f"S{number}", "key": f"10.0.0.{number}",
        "disabled": False, "taskgroups": 2, "taints": {"old": "x"}, "cpuused": 3.8 - number, "cputotal": 4.0,
        "memused": 100.0, "memtotal": 1000.0, "diskused": 0.0, "disktotal": 0.0, **changes,
    }  # fmt: skip


def test_generated_documents_are_taken_by_the_server(server: StandIn, bcs: Any) -> None:
    described = ("--image", "web:1", "--port", "http:80", "-e", "A=b", "--cpu", "500m", "--memory", "64", "--", "-x")
    result = bcs("create", "deployment", "front", "--instances", "3", "--max-surge", "2", "--dry-run", *described)
    body = json.loads(result.out)
    document = read_deployment(body, namespace="defaultGroup")
    assert document.spec.instance == 3 and document.spec.strategy.rollingupdate.max_surge == 2
    assert document.spec.selector == document.metadata.labels == {"app": "front"}
    result = bcs("create", "application", "web", "--command", "serve", "--port", "http", "--dry-run", "-o", "yaml")
    made = read_application(yaml.safe_load(result.out), namespace="defaultGroup", creating=True)
    assert made.spec.template.spec.containers[0].command == "serve" and made.spec.instance == 1
    assert server.seen == []


def test_without_dry_run_they_are_handed_in(server: StandIn, bcs: Any) -> None:
    server.on("POST", APPS, ok(ACCEPTED, 202))
    server.on("POST", ALL, ok(ACCEPTED, 202))
    assert bcs("create", "application", "web", "--command", "x", "-o", "text").out.startswith("application/web created")
    made = bcs("create", "deployment", "front", "--command", "x", "-o", "text")
    assert made.out.startswith("deployment/front created")
    assert server.requests("POST")[1].body["kind"] == "deployment"


def test_a_running_application_becomes_a_deployment(server: StandIn, bcs: Any) -> None:
    server.on("GET", f"{APPS}/web", ok(application(wanted=4, running=4)))
    server.on("POST", ALL, ok(ACCEPTED, 202))
    result = bcs("create", "deployment", "front", "--from-application", "web", "-o", "text")
    assert result.out.startswith("deployment/front created")
    assert result.out.endswith("\ndeployment/front adopts application web\n")
    spec = server.requests("POST")[0].body["spec"]
    assert (spec["instance"], spec["selector"], "template" in spec) == (4, {"app": "web"}, False)
    assert bcs("create", "deployment", "front", "--from-application", "web", "--image", "x").code == 2
    server.on("GET", f"{APPS}/bare", ok(application("bare", ObjectMeta={"name": "bare"})))
    assert "no labels" in bcs("create", "deployment", "front", "--from-application", "bare").err


@pytest.mark.parametrize(
    "arguments",
    [
        (),
        ("--command", "x", "-e", "novalue"),
        ("--image", "x", "--port", "http:x"),
        ("--command", "x", "--port", "a:1"),
    ],
)
def test_incomplete_descriptions_are_refused(server: StandIn, bcs: Any, arguments: tuple[str, ...]) -> None:
    assert bcs("create", "application", "web", *arguments).code == 2
    assert server.seen == []


def test_contents_come_from_lines_of_variables(server: StandIn, bcs: Any, tmp_path: Path) -> None:
    server.on("POST", "/namespaces/defaultGroup/configmaps", ok({}))
    file = tmp_path / "app.env"
    file.write_text("# comment\n\nA=1\nexport B = 'two words'\nC=x=y\n")
    assert bcs("create", "configmap", "site", "--from-env-file", str(file)).code == 0
    datas = server.requests("POST")[0].body["datas"]
    assert {key: item["content"] for key, item in datas.items()} == {"A": "MQ==", "B": "dHdvIHdvcmRz", "C": "eD15"}
    file.write_text("A=1\nnonsense hush\n")
    result = bcs("create", "secret", "site", "--from-env-file", str(file))
    assert result.code == 2 and "line 2" in result.err and "hush" not in result.err


def test_taints_are_set_and_removed_beside_the_others(server: StandIn, bcs: Any) -> None:
    server.on("GET", "/agents", ok([agent(1), agent(2, taints={})]))
    server.on("PUT", "/agentsettings/taint", ok([]))
    result = bcs("taint", "host-1", "gpu=yes", "old-", "-o", "text")
    assert (result.code, result.out) == (0, "agent/10.0.0.1 tainted (gpu=yes)\n")
    result = bcs("taint", "S2", "unknown", "gpu=yes", "-o", "text")
    assert [one for request in server.requests("PUT") for one in request.body] == [
        {"innerIP": name, "noSchedule": {"gpu": "yes"}} for name in ("10.0.0.1", "10.0.0.2", "unknown")
    ]
    assert bcs("taint", "host-1").code == bcs("taint", "a=b").code == bcs("taint", "host-1", "=b").code == 2


def test_a_taint_that_is_not_there_is_not_removed(server: StandIn, bcs: Any) -> None:
    """The other agents are changed, as kubectl does."""
    server.on("GET", "/agents", ok([agent(1), agent(2, taints={})]))
    server.on("PUT", "/agentsettings/taint", ok([]))
    result = bcs("taint", "host-1", "old=y-")
    assert result.code == 3 and "taint old=y of agent 10.0.0.1 not found" in result.err, "another value"
    assert not server.requests("PUT")
    result = bcs("taint", "host-1", "S2", "old-", "-o", "text")
    assert (result.code, result.out) == (3, "agent/10.0.0.1 without taints\n")
    assert "taint old of agent 10.0.0.2 not found" in result.err
    assert server.requests("PUT")[0].body == [{"innerIP": "10.0.0.1", "noSchedule": {}}]


def test_cordoned_agents_are_disabled(server: StandIn, bcs: Any) -> None:
    for switch in ("enable", "disable"):
        server.on("POST", f"/agentsettings/{switch}", ok([]))
    assert bcs("cordon", "a", "b").code == bcs("uncordon", "a").code == 0
    assert [(r.path.rpartition("/")[2], r.query) for r in server.requests("POST")] == [
        ("disable", {"ips": "a,b"}),
        ("enable", {"ips": "a"}),
    ]
