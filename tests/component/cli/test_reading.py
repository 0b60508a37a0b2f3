"""`bcs get`, `describe`, `explain`: what they show, and how."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
from importlib import metadata
from typing import Any

import pytest
import yaml

from tests.component.cli.standin import ACCEPTED, APPS, StandIn, application, ok, taskgroup, transaction


def test_get_prints_json_to_a_program(server: StandIn, bcs: Any) -> None:
    server.on("GET", APPS, ok([application()]))
    result = bcs("get", "app", "-l", "app=web")
    assert json.loads(result.out) == [application()]
    assert server.seen[0].query["labelSelector"] == "app=web"
    server.on("GET", f"{APPS}/web", ok(application()))
    assert json.loads(bcs("get", "app", "web").out) == application()
    assert yaml.safe_load(bcs("get", "app", "web", "-o", "yaml").out) == application()


@pytest.mark.parametrize("kind", ["taskgroups", "tasks"])
def test_taskgroups_are_selected_by_the_server(server: StandIn, bcs: Any, kind: str) -> None:
    server.on("GET", "/taskgroups", ok([taskgroup()]))
    assert len(json.loads(bcs("get", kind, "-l", "release=two", "-o", "json").out)) == 1
    (request,) = server.seen
    assert (request.query["labelSelector"], request.query["namespace"]) == ("release=two", "defaultGroup")


def test_a_name_and_a_selector_are_one_too_many(server: StandIn, bcs: Any) -> None:
    result = bcs("get", "taskgroups", "web", "-l", "release=two")
    assert result.code == 2 and "cannot be combined with NAME" in result.err
    assert not server.seen


def test_lists_are_read_page_by_page(server: StandIn, bcs: Any) -> None:
    server.on("GET", APPS, ok([application("a")], resume="t1"), ok([application("b")]))
    assert [item["Name"] for item in json.loads(bcs("get", "app").out)] == ["a", "b"]
    assert [request.query.get("continue") for request in server.seen] == [None, "t1"]


def test_tables_show_what_matters(server: StandIn, bcs: Any) -> None:
    server.on("GET", APPS, ok([application(), application("lobby", running=1, wanted=3)]))
    lines = bcs("get", "applications", "-o", "table").out.splitlines()
    assert lines[0].split() == ["NAME", "STATUS", "RUNNING", "AGE"]
    assert lines[1].split()[:3] == ["lobby", "Deploying", "1/3"]
    assert all(line == line.rstrip() for line in lines)
    assert lines[2].split()[:3] == ["web", "Running", "2/2"]
    server.on("GET", "/applications", ok([application(RunAs="arena")]))
    assert bcs("get", "app", "-A", "-o", "table").out.splitlines()[1].split()[:2] == ["arena", "web"]


def test_wide_tables_keep_whole_ids_even_in_a_narrow_place(
    server: StandIn, bcs: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    server.on("GET", f"{APPS}/web/taskgroups", ok([taskgroup(0), taskgroup(1, ReschededTimes=3)]))
    lines = bcs("get", "tg", "web", "-o", "wide").out.splitlines()
    assert lines[1].split()[:5] == ["web-0", "Running", "agent0", "http:31000", "0"]
    assert taskgroup(0)["ID"] in lines[1]
    assert lines[2].split()[4] == "3"
    assert "1700000000000000001" in lines[2]


def test_transactions_agents_offers_versions(server: StandIn, bcs: Any) -> None:
    server.on("GET", "/transactions/defaultGroup", ok([transaction("FINISH")]))
    row = bcs("get", "tx", "-o", "table").out.splitlines()[1].split()
    assert row[:5] == ["application-1", "launch", "web", "finished", "1/2"]
    agent = {"hostname": "agent1", "ip": "10.0.0.1", "id": "a-1", "cputotal": 4, "cpuused": 1.5, "disabled": True}
    server.on("GET", "/agents", ok([agent]))
    row = bcs("get", "agents", "-o", "table").out.splitlines()[1].split()
    assert row[:4] == ["agent1", "10.0.0.1", "cordoned", "1.5/4"]
    ports = {"name": "ports", "type": 1, "ranges": {"range": [{"begin": 31000, "end": 31099}]}}
    cpus = {"name": "cpus", "type": 0, "scalar": {"value": 0.5}}
    offer = {"id": {"value": "o-1"}, "hostname": "agent1", "resources": [cpus, {**cpus, "role": "web"}, ports]}
    server.on("GET", "/cluster/current/offers", ok([offer]))
    row = bcs("get", "offers", "-o", "table").out.splitlines()[1].split()
    assert row == ["agent1", "1", "0", "0", "100"]
    server.on("GET", f"{APPS}/web/versions", ok(["1", "2"]))
    for version in ("1", "2"):
        container = [{"Docker": {"Command": "python3", "Arguments": ["x"], "Image": ""}}]
        server.on(
            "GET", f"{APPS}/web/versions/{version}", ok({"Name": version, "Instances": 2, "Container": container})
        )
    rows = bcs("get", "versions", "web", "-o", "table").out.splitlines()
    assert [row.split()[0] for row in rows[1:]] == ["2", "1"]
    assert "python3 x" in rows[1]
    assert bcs("get", "versions").code == 2


def test_the_story_tells_of_health(server: StandIn, bcs: Any) -> None:
    checks = [
        {"type": "HTTP", "result": False, "message": "503", "updateTime": 1700000500},
        {"type": "REMOTE_TCP", "result": True, "message": "tcp check, not reported", "updateTime": 0},
    ]
    task = {"ID": "t", "Name": "server", "StartTime": 1700000002, "HealthCheckStatus": checks}
    server.on("GET", f"{APPS}/web", ok(application()))
    server.on("GET", f"{APPS}/web/taskgroups", ok([taskgroup(UpdateTime=1700000500, Taskgroup=[task])]))
    server.on("GET", "/transactions/defaultGroup", ok([]))
    story = json.loads(bcs("describe", "app", "web", "--events", "-o", "json").out)["events"]
    assert [(line["at"] - 1700000000, line["text"]) for line in story] == [
        (0, "taskgroup created for agent0"),
        (2, "taskgroup Starting -> Running"),
        (500, "task server: HTTP check fails: 503"),
    ]


def test_describe_shows_taskgroups_transactions_and_the_story(server: StandIn, bcs: Any) -> None:
    server.on("GET", f"{APPS}/web", ok(application(Message="all good [really]")))
    server.on("GET", f"{APPS}/web/taskgroups", ok([taskgroup()]))
    server.on("GET", "/transactions/defaultGroup", ok([transaction("FINISH")]))
    result = bcs("describe", "app", "web", "--events")
    assert result.code == 0
    for expected in ("all good [really]", "taskgroup/web-0", "2 running, 2 present, 2 defined", "launch: launching 2"):
        assert expected in result.out
    data = json.loads(bcs("describe", "app", "web", "--events", "-o", "json").out)
    assert sorted(line["text"] for line in data["events"]) == [
        "launch: launching 2",
        "taskgroup Starting -> Running",
        "taskgroup created for agent0",
    ]
    group = taskgroup()
    server.on("GET", f"/namespaces/defaultGroup/taskgroups/{group['ID']}", ok(group))
    assert "http 31000" in bcs("describe", "tg", group["ID"]).out
    server.on("GET", "/transactions/defaultGroup/application-1", ok(transaction()))
    assert "1 of 2" in bcs("describe", "tx", "application-1").out
    assert bcs("describe", "offers", "x").code == 2


def test_explain_prints_what_the_server_found(server: StandIn, bcs: Any) -> None:
    found = {
        "status": "Operating",
        "text": ["Operating: 1 of 2 taskgroups are ready", "3 of 3 agents: not enough cpus"],
    }
    server.on("GET", f"{APPS}/web/explain", ok(found))
    assert bcs("explain", "web", "-o", "table").out.splitlines() == found["text"]
    assert json.loads(bcs("explain", "web").out) == found


def test_describe_agent_shows_its_settings(server: StandIn, bcs: Any) -> None:
    amounts = {
        f"{key}{side}": 4.0 if side == "total" else 0.5
        for key in ("cpu", "mem", "disk", "gpu")
        for side in ("used", "total")
    }
    agent = {
        "id": "a-1",
        "key": "10.0.0.1",
        "hostname": "agent1",
        "ip": "10.0.0.1",
        "disabled": True,
        "taskgroups": 3,
        "registered_time": 1_700_000_000_000_000_000,
        "taints": {"dedicated": "db"},
        "extended": {"fpga": 2.0},
        **amounts,
    }
    server.on("GET", "/agents", ok([agent]))
    fields = dict(line.split(None, 1) for line in bcs("describe", "agent", "agent1").out.splitlines())
    assert fields["Status:"] == "cordoned"
    assert fields["Taints:"] == "dedicated=db"
    assert fields["Extended"].split() == ["resources:", "fpga=2.0"]
    assert fields["GPUs:"] == "0.5 of 4"
    assert "ago)" in fields["Registered:"]


def test_the_flag_shows_the_version_of_the_client_without_a_server(server: StandIn, bcs: Any) -> None:
    assert bcs("--version") == (0, f"bcs {metadata.version('bcs-scheduler')}\n", "")
    assert server.seen == []


def test_version_of_both_sides(server: StandIn, bcs: Any) -> None:
    server.rules.append(lambda r: ok({"version": "9.9"}) if r.path == "/version" else None)
    found = json.loads(bcs("version").out)
    assert found["server"]["version"] == "9.9"
    assert found["client"]


@pytest.mark.parametrize("form", ["json", "yaml", "table"])
def test_a_reader_that_has_seen_enough_is_no_fault(server: StandIn, form: str) -> None:
    server.on("GET", APPS, ok([application(f"web-{number}") for number in range(400)]))
    code = "from bcs_scheduler.cli.main import main; main()"
    line = [sys.executable, "-c", code, "--server", server.url, "get", "apps", "-o", form]
    reader = subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert reader.stdout is not None and reader.stderr is not None
    reader.stdout.close()
    with reader.stderr:
        assert reader.stderr.read() == b""
    assert reader.wait(30) == 0


def test_the_cluster_and_who_leads(server: StandIn, bcs: Any) -> None:
    amounts = {f"{name}{word}": 4.0 for name in ("cpu", "mem", "disk") for word in ("used", "total")}
    server.on("GET", "/cluster/resources", ok({**amounts, "agents": [{}, {}]}))
    assert bcs("get", "cluster", "-o", "table").out.splitlines()[1].split() == ["2", "4/4", "4/4", "4/4"]
    one = {"ip": "10.0.0.1", "port": 8080, "hostname": "a", "version": "1", "cluster": "c", "leader": True}
    server.on("GET", "/cluster/endpoints", ok({"mesosscheduler": [one], "mesosmaster": [{**one, "port": 5050}]}))
    lines = bcs("get", "servers", "-o", "table").out.splitlines()[1:]
    assert [line.split()[:-2] for line in lines] == [["scheduler", "a:8080"], ["mesos", "master", "a:5050"]]


def test_a_definition_is_shown_as_a_document(server: StandIn, bcs: Any) -> None:
    document = {"kind": "deployment", "metadata": {"name": "web"}}
    server.on("GET", "/definition/deployment/defaultGroup/web", ok(document))
    assert yaml.safe_load(bcs("get", "definition", "deployment/web", "-o", "table").out) == document
    assert json.loads(bcs("get", "definition", "deployment/web").out) == document
    assert bcs("get", "definition").code == bcs("get", "definition", "deployment/web", "-w").code == 2


def test_a_pipe_gets_the_table_of_a_terminal_without_colours(
    server: StandIn, bcs: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("BCS_OUTPUT")
    message = "3 of 3 agents: not enough cpus, which takes more room than a terminal has" * 3
    server.on("GET", APPS, ok([application("web-10"), application("web-2", running=0, Message=message)]))
    result = bcs("get", "app")
    assert [line.split()[0] for line in result.out.splitlines()] == ["NAME", "web-2", "web-10"]
    assert message in result.out and "\x1b" not in result.out
    server.on("PUT", f"{APPS}/web/scale/3", ok(ACCEPTED))
    server.on("GET", f"{APPS}/web", ok(application()))
    assert bcs("scale", "application/web", "3").out == "application/web scaled to 3 (transaction application-1)\n"
    assert bcs("get", "app", "-o", "table", "--no-headers").out.splitlines()[0].startswith("web-2 ")


def test_the_column_reason_names_the_cause_of_whatever_is_not_right(
    server: StandIn, bcs: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("BCS_OUTPUT")
    place = "2 taskgroups without a place: 0 of 3 agents match: 3 lack memory"
    server.on("GET", APPS, ok([application(Reason=""), application("huge", running=0, Reason=place, Message="waits")]))
    assert [line.endswith(place) for line in bcs("get", "app").out.splitlines()] == [False, True, False]
    failed = {"Status": "Failed", "Message": "exit code 3"}
    policy = {"RestartPolicy": {"policy": "OnFailure", "maxtimes": 2}}
    groups = [
        taskgroup(0, **failed, NotReplaced="policy"),
        taskgroup(1, **failed, NotReplaced="restarts", **policy),
        taskgroup(2, **failed, NotReplaced="", NextStart=time.time() + 60.9),
        taskgroup(3, NotReplaced="", NextStart=0),
        taskgroup(4, Status="Staging", Taskgroup=[], LastFailure="exit code 3"),
        taskgroup(5, LastFailure="exit code 3"),
    ]
    server.on("GET", "/taskgroups", ok(groups))
    shown = re.sub(r"starts again in (1m|5\ds)", "starts again in 1m", bcs("get", "tg").out)
    reasons = [line.split("  ")[-1].strip() for line in shown.splitlines()]
    assert reasons == [
        "REASON",
        "exit code 3, not restarted (restart policy Never)",
        "exit code 3, not restarted (all 2 restarts are used up)",
        "exit code 3, starts again in 1m",
        "-",
        "starts again after a failure: exit code 3",
        "-",
    ]
    agents = [
        {"hostname": "a1", "ip": "10.0.0.1", "id": "1", "disabled": True},
        {"hostname": "a2", "ip": "10.0.0.2", "id": "2", "drain": "failed", "disabled": True},
        {"hostname": "a3", "ip": "10.0.0.3", "id": "3", "taints": {"gpu": "yes"}},
        {"hostname": "a4", "ip": "10.0.0.4", "id": "4", "active": False},
        {"hostname": "a5", "ip": "10.0.0.5", "id": "5", "active": True},
    ]
    server.on("GET", "/agents", ok(agents))
    reasons = [line.split("  ")[-1].strip() for line in bcs("get", "agents").out.splitlines()[1:]]
    assert reasons[0].startswith("cordoned: no new taskgroups")
    assert reasons[1].startswith("not all its taskgroups could be moved away in time")
    assert reasons[2:] == ["only taskgroups that tolerate gpu=yes", "not registered with the Mesos master", "-"]


def test_formats_and_orders_that_the_user_chooses(server: StandIn, bcs: Any) -> None:
    groups = [taskgroup(2, StartTime=1700000300), taskgroup(10, HostName="a", StartTime=1700000100)]
    server.on("GET", "/taskgroups", ok(groups))
    server.on("GET", f"{APPS}/web", ok(application()))
    assert bcs("get", "tg", "-o", "jsonpath={.items[*].Name}").out == "web-2 web-10\n"
    assert bcs("get", "tg", "-o", "custom-columns=N:.Name,H:.HostName").out == "N       H\nweb-2   agent2\nweb-10  a\n"
    assert bcs("get", "app", "web", "-o", "template={{ item.Name }} is {{ item.Status }}").out == "web is Running\n"
    for order, first in (("name", "web-2"), ("AGE", "web-2"), ("host", "web-10"), (".StartTime", "web-10")):
        assert bcs("get", "tg", "--sort-by", order, "-o", "name").out.splitlines()[0] == f"taskgroup/{first}", order
    assert bcs("get", "tg", "-o", "jsonpath=[*)").code == 2
    assert bcs("get", "tg", "-o", "xml").code == 2


def test_expressions_read_metadata_as_objects_of_kubernetes_have_it(server: StandIn, bcs: Any) -> None:
    groups = [taskgroup(10, ObjectMeta={"name": "ID", "labels": {"tier": "back"}}), taskgroup(2)]
    server.on("GET", "/taskgroups", ok(groups))
    server.on("GET", f"{APPS}/web", ok(application()))
    server.on("GET", "/agents", ok([{"hostname": "agent-1", "ip": "10.0.0.1", "id": "a"}]))
    assert bcs("get", "tg", "-o", "jsonpath={.items[*].metadata.name}").out == "web-2 web-10\n"
    assert bcs("get", "tg", "-o", "jsonpath={.items[1].metadata.labels.tier}").out == "back\n"
    assert bcs("get", "app", "web", "-o", "jsonpath=.metadata.name").out == "web\n"
    assert bcs("get", "app", "web", "-o", "jsonpath={.metadata.namespace}/{.Name}").out == "defaultGroup/web\n"
    assert bcs("get", "nodes", "-o", "custom-columns=N:.metadata.name").out == "N\nagent-1\n"
    assert bcs("get", "app", "web", "-o", "template={{ item.metadata.name }}").out == "web\n"
    names = bcs("get", "tg", "--sort-by", ".metadata.labels.tier", "-o", "name").out.splitlines()
    assert names == ["taskgroup/web-10", "taskgroup/web-2"]
    assert "metadata" not in json.loads(bcs("get", "tg", "-o", "json").out)[0]


def test_labels_are_a_column_on_request(server: StandIn, bcs: Any) -> None:
    labelled = {"labels": {"tier": "back", "app": "web"}}
    server.on("GET", "/taskgroups", ok([taskgroup(0, ObjectMeta=labelled), taskgroup(1)]))
    lines = bcs("get", "tg", "--show-labels", "-o", "table").out.splitlines()
    assert [line.split()[-1] for line in lines] == ["LABELS", "app=web,tier=back", "-"]
    assert "LABELS" not in bcs("get", "tg", "-o", "table").out


def test_describe_without_names_describes_all_objects_of_the_kind(server: StandIn, bcs: Any) -> None:
    groups = [taskgroup(10), taskgroup(2)]
    server.on("GET", "/taskgroups", ok(groups))
    server.on("GET", f"{APPS}/web/taskgroups", ok(groups))
    lines = bcs("describe", "tg").out.splitlines()
    assert [line.split()[-1] for line in lines if line.startswith("Name:")] == ["web-2", "web-10"]
    server.on("GET", APPS, ok([]))
    result = bcs("describe", "apps")
    assert (result.code, result.out) == (0, "") and "no applications" in result.err
    assert bcs("describe", "commands").code == 2


def test_a_taskgroup_shows_the_time_of_its_definition_instead_of_the_number_of_its_version(
    server: StandIn, bcs: Any
) -> None:
    group = taskgroup()
    server.on("GET", f"/namespaces/defaultGroup/taskgroups/{group['ID']}", ok(group))
    shown = bcs("describe", "tg", group["ID"]).out
    assert "Defined:" in shown and group["VersionName"] not in shown
    assert group["VersionName"] in bcs("describe", "tg", group["ID"], "-o", "wide").out


def test_several_kinds_and_names(server: StandIn, bcs: Any) -> None:
    server.on("GET", APPS, ok([application()]))
    server.on("GET", f"{APPS}/web", ok(application()))
    server.on("GET", f"{APPS}/shop", ok(application("shop")))
    server.on("GET", "/taskgroups", ok([taskgroup()]))
    server.on("GET", "/agents", ok([{"hostname": "agent-1", "ip": "10.0.0.1", "id": "a"}]))
    lines = bcs("get", "app,pods", "-o", "table").out.splitlines()
    assert [line.split()[0] for line in lines if line] == ["NAME", "application/web", "NAME", "taskgroup/web-0"]
    assert sorted(json.loads(bcs("get", "app,tg").out)) == ["applications", "taskgroups"]
    assert bcs("get", "app", "web", "shop", "-o", "name").out == "application/web\napplication/shop\n"
    assert bcs("get", "app/shop", "app/web", "-o", "name").out == "application/shop\napplication/web\n"
    assert bcs("get", "nodes", "-o", "name").out == "agent/agent-1\n"
    for wrong in (("app,tg", "web"), ("app/web", "shop"), ("app/",), ("app", "x", "-l", "a=b"), ("events,app",)):
        assert bcs("get", *wrong).code == 2, wrong


def test_get_alone_lists_the_kinds(server: StandIn, bcs: Any) -> None:
    lines = bcs("get", "-o", "table").out.splitlines()
    assert lines[0].split() == ["NAME", "ALIASES", "NAMESPACED"]
    assert any(line.split()[0] == "agents" and "nodes" in line for line in lines)
    assert not server.seen


def test_all_kinds_of_workloads_at_once(server: StandIn, bcs: Any) -> None:
    for path in ("deployments", "daemonsets", "services"):
        server.on("GET", f"/namespaces/defaultGroup/{path}", ok([]))
    server.on("GET", APPS, ok([application()]))
    server.on("GET", "/taskgroups", ok([taskgroup()]))
    assert bcs("get", "all", "-o", "name").out == "application/web\ntaskgroup/web-0\n"


def test_agents_of_one_host_name_are_told_apart(server: StandIn, bcs: Any) -> None:
    agents = [{"hostname": "h", "ip": "10.0.0.1", "id": "a"}, {"hostname": "h", "ip": "10.0.0.2", "id": "b"}]
    server.on("GET", "/agents", ok([*agents, {"hostname": "h2", "ip": "10.0.0.2", "id": "c"}]))
    lines = bcs("get", "agents", "-o", "table").out.splitlines()[1:]
    assert [line.split()[0] for line in lines] == ["10.0.0.1", "b", "h2"]


def test_explain_shows_the_changes_that_would_help(server: StandIn, bcs: Any) -> None:
    found: dict[str, Any] = {"status": "Operating", "text": ["Operating: 1 of 2 taskgroups are ready"]}
    changes: dict[str, Any] = {"open": 1, "text": ["uncordon 1 agent (agent-1): 1 taskgroup placed on host-1"]}
    server.on("GET", f"{APPS}/web/explain", ok(found))
    server.on("GET", f"{APPS}/web/whatif", ok(changes))
    lines = bcs("explain", "web", "--what-if", "-o", "table").out.splitlines()
    assert lines == [*found["text"], "Changes that would help:", f"  {changes['text'][0]}"]
    assert json.loads(bcs("explain", "web", "--what-if").out) == {**found, "whatIf": changes}
    refused = bcs("explain", "daemonset/web", "--what-if")
    assert (refused.code, "supports applications" in refused.err) == (2, True)


def test_an_explanation_says_when_room_is_expected(server: StandIn, bcs: Any) -> None:
    placing = {"wanted": 2, "placed": 1}
    told = {"status": "Deploying", "text": ["1 taskgroup without a place"], "transactions": [{"placing": placing}]}
    words = "room is expected in about 12m, between 8m and 30m, from 41 runs"
    server.on("GET", f"{APPS}/web", ok(application()))
    server.on("GET", f"{APPS}/web/explain", ok(told))
    server.on("GET", f"{APPS}/web/whatif", ok({"when": {"seconds": 720, "text": words}}))
    assert bcs("explain", "app/web", "-o", "table").out.splitlines() == ["1 taskgroup without a place", words]
    assert [request.query for request in server.seen if request.path.endswith("/whatif")] == [{"changes": "false"}]


def test_an_explanation_needs_no_leader(server: StandIn, bcs: Any) -> None:
    placing = {"wanted": 2, "placed": 1}
    told = {"status": "Deploying", "text": ["1 taskgroup without a place"], "transactions": [{"placing": placing}]}
    server.on("GET", f"{APPS}/web", ok(application()))
    server.on("GET", f"{APPS}/web/explain", ok(told))
    assert bcs("explain", "app/web", "-o", "table").out.splitlines() == ["1 taskgroup without a place"]


HALTS = {
    "Warning": '299 bcs-scheduler "tasks run; `bcs framework show` lists them", 299 bcs-scheduler "agents are lost"'
}


@pytest.mark.parametrize(
    "words", [("get", "all"), ("get", "app", "-o", "json"), ("wait", "app/web", "--for", "running")]
)
def test_each_command_warns_once_of_the_halts_of_the_cluster(server: StandIn, bcs: Any, words: tuple[str, ...]) -> None:
    for kind in ("deployments", "daemonsets", "applications", "taskgroups", "services"):
        path = kind if kind in ("taskgroups", "daemonsets") else f"namespaces/defaultGroup/{kind}"
        server.on("GET", f"/{path}", ok([])._replace(headers=HALTS))
    server.on("GET", f"{APPS}/web", ok(application())._replace(headers=HALTS))
    result = bcs(*words)
    told = [line for line in result.err.splitlines() if line.startswith("warning:")]
    assert told == [
        "warning: the scheduler has halted: tasks run; `bcs framework show` lists them",
        "warning: the scheduler has halted: agents are lost",
    ], result
    assert "halted" not in result.out


@pytest.mark.parametrize(
    ("policy", "shown"),
    [
        ({"gracePeriod": 5.0, "shutdownDelaySeconds": 90.0}, "grace period 5s, shutdown delay 1m30s"),
        ({"gracePeriod": 5.0, "shutdownDelaySeconds": 0.0}, "grace period 5s"),
    ],
)
def test_describe_shows_the_kill_policy(server: StandIn, bcs: Any, policy: Any, shown: str) -> None:
    group = taskgroup(KillPolicy=policy)
    server.on("GET", "/taskgroup/" + group["ID"], ok(group))
    server.on("GET", f"{APPS}/web/taskgroups", ok([group]))
    result = bcs("describe", "taskgroup", "web-0", "-o", "text")
    (line,) = [line for line in result.out.splitlines() if line.startswith("Kill policy")]
    assert line.split(maxsplit=2)[2] == shown
