"""`bcs dump`: the file, its fields, pseudonyms, pages, and the failures that leave no file behind."""

from __future__ import annotations

import gzip
import json
import stat
from pathlib import Path
from typing import Any

import pytest

from bcs_scheduler.cli.commands import dump as dumping
from bcs_scheduler.cli.commands.dump import Pseudonyms
from tests.component.cli.standin import Answer, Json, Request, StandIn, application, failed, ok, taskgroup
from tests.component.cli.standin import transaction as made_transaction

CONFIDENTIAL = "s3cr3t"
"""In every free text, command and annotation of the answers."""
NAMES = ("shop-ns", "cart-app", "rack-host", "10.9.8.7", "team-label", "red-value", "zone-value", "lead-queue",
         "taint-key", "member-one", "urgent-class", "group-of-cart", "agent-id-7", "alice-user", "cart-deploy",
         "mesos-role")  # fmt: skip
"""Every name of the answers."""


def meta(name: str, **more: Any) -> Json:
    return {"name": name, "labels": {"team-label": "red-value"}, "annotations": {"note": CONFIDENTIAL}, **more}


def amounts(cpus: float, **more: float) -> Json:
    return {"cpus": cpus, "mem": 100.0, "disk": 0.0, **more}


AGENT: Json = {
    "id": "agent-id-7", "key": "10.9.8.7", "hostname": "rack-host", "ip": "10.9.8.7", "active": True,
    "disabled": False, "drain": "", "taskgroups": 2, "taints": {"taint-key": "red-value"}, "extended": {"fpga": 2.0},
    "cputotal": 8.0, "memtotal": 1000.0, "disktotal": 5.0, "gputotal": 1.0,
    "cpuused": 2.5, "memused": 200.0, "diskused": 0.0, "gpuused": 0.0, "registered_time": 5, "host_attributes": [],
    "attributes": [
        {"name": "zone", "type": 103, "text": {"value": "zone-value"}},
        {"name": "height", "type": 101, "scalar": {"value": 4.5}},
        {"name": "slots", "type": 102, "ranges": {"range": [{"begin": 1, "end": 3}]}},
    ],
}  # fmt: skip
NAMESPACE: Json = {
    "metadata": meta("shop-ns"), "spec": {"quota": {"cpus": 10.0}, "queue": "root.lead-queue"},
    "status": {"used": amounts(2.5, taskgroups=2), "contents": {"applications": 1}, "recorded": True},
}  # fmt: skip
QUEUE: Json = {
    "metadata": meta("lead-queue"), "spec": {"weight": 3, "guarantee": {}, "capability": {"cpus": 4.0},
    "reclaimable": True}, "status": {"namespaces": ["shop-ns"], "recorded": True, "taskgroups": 2, "used": {}},
}  # fmt: skip
TREE_QUEUE: Json = {
    "partition": "default", "name": "root.lead-queue",
    "spec": {"guaranteed": {"cpus": 1.0}, "max": {}, "maxApplications": None,
    "properties": {"priority.offset": 2}}, "total": {},
    "status": {"state": "Active", "leaf": True, "dynamic": False, "used": {}, "waiting": {}, "taskgroups": 2,
               "applications": 1, "runningApplications": 1, "pending": {"no_room": 1},
               "limits": [{"role": "r", "whose": "user alice-user", "used": {}, "max": {"cpus": 2.0}, "running": 1,
                           "maxApplications": 5}]},
}  # fmt: skip
PRIORITY: Json = {"metadata": meta("urgent-class"), "value": 9, "globalDefault": True, "preemptionPolicy": "Never",
                  "description": CONFIDENTIAL}  # fmt: skip
POD_GROUP: Json = {
    "metadata": meta("group-of-cart", namespace="shop-ns"),
    "spec": {"minMember": 2, "minTaskMember": {"member-one": 1}, "queue": "lead-queue",
             "priorityClassName": "urgent-class"},
    "status": {"phase": "Running", "running": 2,
               "members": [{"application": "cart-app", "running": 2, "wanted": 2}]},
}  # fmt: skip
DEMAND: Json = {
    "namespace": "shop-ns", "application": "cart-app", "version": "1700000000", "priority": 9, "role": "mesos-role",
    "containers": [{"resources": {"cpus": 0.5, "mem": 64.0}, "extended": {"fpga": 1.0}, "hostPorts": [0, 8080],
                    "command": CONFIDENTIAL, "image": CONFIDENTIAL}],
    "constraints": [[{"name": "zone", "operator": "CLUSTER", "items": ["zone-value"]},
                     {"name": "zone", "operator": "LIKE", "items": ["zone-v.*"]}],
                    [{"name": "rack", "operator": "EXCLUDE", "items": ["team-label:red-value"]}],
                    [{"name": "height", "operator": "GREATER", "number": 3.5}]],
    "tolerations": [{"key": "taint-key", "value": "red-value"}], "priorityClass": "urgent-class", "minAvailable": 2,
    "podGroup": "group-of-cart", "restartPolicy": "Always", "annotations": {"note": CONFIDENTIAL},
}  # fmt: skip
PART: Json = {"name": "default", "policy": "hierarchical", "roles": ["*"], "revision": 3}
TREE: Json = {
    "kind": "queuetree", "partition": "default",
    "metadata": {"revision": 3, "author": CONFIDENTIAL, "why": CONFIDENTIAL},
    "spec": {"queues": [
                 {"name": "lead-queue", "submitacl": CONFIDENTIAL,
                  "resources": {"max": {"cpus": 6}, "guaranteed": {"cpus": 2}},
                  "properties": {"application.sort.policy": "fair"}, "maxapplications": 7,
                  "limits": [{"users": ["alice-user", "*"], "maxapplications": 2, "maxresources": {"cpus": 3}}]},
                 {"name": "team-label", "parent": True}],
             "placementrules": [{"name": "provided"},
                                {"name": "tag", "value": "namespace", "create": True,
                                 "parent": {"name": "fixed", "value": "root.team-label"}}]},
}  # fmt: skip
APPLICATION = application("cart-app", RunAs="shop-ns", Message=CONFIDENTIAL, Deployment="cart-deploy",
                          ObjectMeta=meta("cart-app", namespace="shop-ns"))  # fmt: skip
DEPLOYMENT: Json = {
    "name": "cart-deploy", "namespace": "shop-ns", "metadata": meta("cart-deploy", namespace="shop-ns"),
    "selector": {"team-label": "red-value"}, "status": "Running", "application": {"name": "cart-app"},
    "application_ext": None, "strategy": {"rollingupdate": {"maxSurge": 1, "canary": {"x": CONFIDENTIAL}}},
    "raw_json": CONFIDENTIAL, "message": CONFIDENTIAL, "instances": 2, "counts": {"ready": 2},
}  # fmt: skip
DAEMONSET: Json = {"name": "cart-app", "namespace": "shop-ns", "metadata": meta("cart-app"), "Status": "Running",
                   "Pods": {"0.cart-app.shop-ns.dev.1": {}}, "message": CONFIDENTIAL, "Instances": 1}  # fmt: skip
EVENT: Json = {"id": 4, "time": "2026-01-01T00:00:00Z", "kind": "application", "namespace": "shop-ns",
               "name": "cart-app", "reason": "Scaled", "message": CONFIDENTIAL, "level": "info",
               "transaction": "", "cause": "api-1"}  # fmt: skip


def group(index: int) -> Json:
    return taskgroup(index, ID=f"{index}.cart-app.shop-ns.dev.1", AppID="cart-app", RunAs="shop-ns",
                     HostName="rack-host", AgentID="agent-id-7", AgentIP="10.9.8.7", Role="mesos-role",
                     Message=CONFIDENTIAL, KillReason=CONFIDENTIAL, CurrResource={"Cpus": 0.5},
                     Taskgroup=[{"ID": f"1.0.{index}.cart-app.shop-ns.dev.1", "Status": "Running", "ExitCode": None,
                                 "Command": CONFIDENTIAL, "Arguments": [CONFIDENTIAL], "StatusData": CONFIDENTIAL,
                                 "PortMappings": [{"Protocol": "tcp", "HostPort": 31000, "Name": "x"}]}])  # fmt: skip


@pytest.fixture
def cluster(server: StandIn) -> StandIn:
    open_, closed = (
        made_transaction(status, objectName="cart-app", namespace="shop-ns", message=CONFIDENTIAL, finishTime=end)
        for status, end in (("INIT", ""), ("FINISH", "2026-01-01T00:00:00Z"))
    )
    server.rules.append(
        lambda request: ok({"version": "9.8.7", "role": "slave"}) if request.path.endswith("/version") else None
    )
    for path, answer in {
        "/cluster/halt": {"halted": False, "since": "", "agents": 0, "taskgroups": 0, "total": 0},
        "/agents": [AGENT], "/namespaces": [NAMESPACE], "/namespaces/shop-ns/podgroups": [POD_GROUP],
        "/queues": [QUEUE], "/queuetree/queues": [TREE_QUEUE], "/priorityclasses": [PRIORITY],
        "/applications": [APPLICATION], "/deployments": [DEPLOYMENT], "/daemonsets": [DAEMONSET],
        "/demands": [DEMAND], "/queuetree": TREE, "/queuetree/partitions": [PART],
        "/taskgroups": [group(0), group(1)], "/transactions": [open_, closed], "/events": [EVENT],
    }.items():  # fmt: skip
        server.on("GET", path, ok(answer))
    return server


def test_a_dump_has_every_section_and_nothing_confidential(cluster: StandIn, bcs: Any, tmp_path: Path) -> None:
    file = tmp_path / "dump.json"
    result = bcs("dump", str(file), "--events")
    assert result.code == 0, result.err
    assert f"{file} written (1 agents, 1 applications, 2 taskgroups; {file.stat().st_size} bytes)" in result.out
    text = file.read_text()
    assert CONFIDENTIAL not in text
    assert [name for name in NAMES if name not in text] == []
    found = json.loads(text)
    head = ("format", "formatVersion", "scheduler", "anonymized", "missing")
    assert [found[key] for key in head] == ["bcs-dump", 1, {"version": "9.8.7"}, False, []]
    counts = {name: len(value) for name, value in found.items() if isinstance(value, list)}
    assert counts == {"missing": 0, "agents": 1, "namespaces": 1, "podGroups": 1, "queues": 1, "queueTree": 1,
                      "priorityClasses": 1, "demands": 1, "applications": 1, "deployments": 1, "daemonsets": 1,
                      "taskgroups": 2, "transactions": 1, "events": 1}  # fmt: skip
    agent = found["agents"][0]
    assert agent["attributes"] == {"zone": "zone-value", "height": 4.5, "slots": [[1, 3]]}
    assert agent["total"] == {"cpus": 8.0, "mem": 1000.0, "disk": 5.0, "gpus": 1.0}
    assert agent["allocated"]["cpus"] == 2.5
    assert found["transactions"][0]["status"] == "INIT", "ended transactions are left out"
    assert found["taskgroups"][1]["tasks"][0]["ports"] == [{"protocol": "tcp", "hostPort": 31000}]
    assert found["queueTree"][0]["limits"] == [
        {"whose": "user alice-user", "used": {}, "max": {"cpus": 2.0}, "running": 1, "maxApplications": 5}
    ]


def test_a_dump_has_the_parts_of_documents_that_decide_about_placements(
    cluster: StandIn, bcs: Any, tmp_path: Path
) -> None:
    plain, hidden = tmp_path / "plain.json", tmp_path / "hidden.json"
    assert bcs("dump", str(plain)).code == 0 and bcs("dump", str(hidden), "--anonymize").code == 0
    found = json.loads(plain.read_text())
    (demand,) = found["demands"]
    assert demand["constraints"] == DEMAND["constraints"] and demand["minAvailable"] == 2
    assert demand["containers"] == [
        {"resources": {"cpus": 0.5, "mem": 64.0}, "extended": {"fpga": 1.0}, "hostPorts": [0, 8080]}
    ]
    assert found["queueTreeDocument"]["revision"] == 3
    tree = found["queueTreeDocument"]["spec"]
    assert tree["placementrules"] == TREE["spec"]["placementrules"]
    assert {**tree["queues"][0], "submitacl": CONFIDENTIAL} == TREE["spec"]["queues"][0]
    other = json.loads(hidden.read_text())
    zone, excluded, height = other["demands"][0]["constraints"]
    assert zone == [
        {"name": "zone", "operator": "CLUSTER", "items": [other["agents"][0]["attributes"]["zone"]]},
        {"name": "zone", "operator": "LIKE", "hidden": True},
    ]
    label = other["deployments"][0]["labels"]
    assert excluded[0]["items"] == [":".join(next(iter(label.items())))] and height == DEMAND["constraints"][2]
    assert list(other["agents"][0]["taints"].items()) == [tuple(other["demands"][0]["tolerations"][0].values())]
    queue, parent = other["queueTreeDocument"]["spec"]["queues"]
    (*_, rule) = other["queueTreeDocument"]["spec"]["placementrules"]
    assert rule["parent"]["value"] == f"root.{parent['name']}" and rule["value"] == "namespace"
    assert f"root.{queue['name']}" == other["queueTree"][0]["name"]
    assert queue["resources"] == {"max": {"cpus": 6}, "guaranteed": {"cpus": 2}}
    assert queue["limits"][0]["users"][1] == "*"


def test_an_older_scheduler_has_no_demands(cluster: StandIn, bcs: Any, tmp_path: Path) -> None:
    cluster.on("GET", "/demands", failed(404, "no such path", "not_found"))
    assert bcs("dump", str(tmp_path / "dump.json")).code == 0
    found = json.loads((tmp_path / "dump.json").read_text())
    assert (found["demands"], found["missing"]) == ([], [])


def test_pseudonyms_hide_all_names_and_keep_what_is_equal(cluster: StandIn, bcs: Any, tmp_path: Path) -> None:
    texts = []
    for number in range(2):
        file = tmp_path / f"{number}.json"
        assert bcs("dump", str(file), "--anonymize", "--events").code == 0
        texts.append(file.read_text())
        assert [name for name in (*NAMES, CONFIDENTIAL) if name in texts[-1]] == []
    found, other = map(json.loads, texts)
    application, agent = found["applications"][0], found["agents"][0]
    assert {group["application"] for group in found["taskgroups"]} == {application["name"]}
    assert {group["agent"] for group in found["taskgroups"]} == {agent["id"]}
    assert found["events"][0]["name"] == application["name"] == found["podGroups"][0]["members"][0]["application"]
    assert application["deployment"] == found["deployments"][0]["name"]
    assert application["labels"] == found["deployments"][0]["selector"]
    assert found["namespaces"][0]["queue"] == f"root.{found['queues'][0]['name']}" == found["queueTree"][0]["name"]
    assert len({group["id"] for group in found["taskgroups"]}) == 2
    assert application["name"] != other["applications"][0]["name"], "each dump has its own key"
    assert (application["status"], application["createTime"], application["wanted"]) == ("Running", 1700000000, 2)
    assert agent["attributes"]["height"] == 4.5 and agent["total"]["cpus"] == 8.0


def test_no_two_names_share_a_pseudonym() -> None:
    hide = Pseudonyms()
    assert len({hide(f"web-{number}") for number in range(20_000)}) == 20_000
    assert hide("web-1") == hide("web-1") != Pseudonyms()("web-1")


def test_the_file_is_private_compressed_and_replaced_whole(cluster: StandIn, bcs: Any, tmp_path: Path) -> None:
    file = tmp_path / "dump.json.gz"
    file.write_text("old")
    file.chmod(0o644)
    assert bcs("dump", str(file)).code == 0
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    found = json.loads(gzip.decompress(file.read_bytes()))
    assert "events" not in found and len(found["taskgroups"]) == 2
    assert list(tmp_path.iterdir()) == [file], "no temporary file stays"


def test_without_a_name_the_file_has_the_time(
    cluster: StandIn, bcs: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert bcs("dump").code == 0
    (file,) = tmp_path.iterdir()
    found = json.loads(gzip.decompress(file.read_bytes()))
    assert file.name == f"bcs-dump-{found['time'].replace('-', '').replace(':', '')}.json.gz"


def test_lists_are_read_in_pages_of_a_thousand(
    cluster: StandIn, bcs: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    groups = [group(number) for number in range(2500)]

    def pages(request: Request) -> Answer | None:
        if request.path != "/taskgroups":
            return None
        begin, size = int(request.query.get("continue") or 0), int(request.query["limit"])
        return ok(groups[begin : begin + size], resume=str(begin + size) if begin + size < len(groups) else "")

    cluster.rules.insert(0, pages)
    monkeypatch.setattr(dumping, "REPORT_INTERVAL", 0.0)
    file = tmp_path / "dump.json"
    result = bcs("dump", str(file))
    assert len(json.loads(file.read_text())["taskgroups"]) == 2500
    asked = [request.query for request in cluster.seen if request.path == "/taskgroups"]
    assert [query["limit"] for query in asked] == ["1000"] * 3
    assert "taskgroups: 2500 read\n" in result.err


@pytest.mark.parametrize(
    ("path", "section"), [("/agents", "agents"), ("/taskgroups", "taskgroups"), ("/namespaces", "namespaces")]
)
def test_a_part_that_cannot_be_read_is_named(
    cluster: StandIn, bcs: Any, tmp_path: Path, path: str, section: str
) -> None:
    cluster.on("GET", path, failed(403, "the token lacks the role viewer in all namespaces", "forbidden"))
    file = tmp_path / "dump.json"
    result = bcs("dump", str(file))
    assert result.code == 1
    assert f"{section} cannot be read: the token lacks the role viewer" in result.err and "--partial" in result.err
    assert list(tmp_path.iterdir()) == []
    result = bcs("dump", str(file), "--partial")
    assert result.code == 0
    assert f"{section} is missing in the dump: the token lacks" in result.err
    found = json.loads(file.read_text())
    assert section in found["missing"] and section not in found
    assert ("podGroups" in found["missing"]) == (section == "namespaces")
    assert found["applications"]


def test_an_answer_of_another_form_is_named(cluster: StandIn, bcs: Any, tmp_path: Path) -> None:
    cluster.on("GET", "/agents", ok([{**AGENT, "drain": {"state": CONFIDENTIAL}}]))
    result = bcs("dump", str(tmp_path / "dump.json"))
    assert result.code == 1 and "agents: the answer of the server has an unexpected form" in result.err
    assert list(tmp_path.iterdir()) == []


def test_other_policies_have_no_tree(cluster: StandIn, bcs: Any, tmp_path: Path) -> None:
    cluster.on("GET", "/queuetree/queues", failed(404, "the policy has no tree of queues", "not_found"))
    cluster.on("GET", "/queuetree/partitions", ok([{**PART, "name": "", "policy": "simple", "revision": None}]))
    assert bcs("dump", str(tmp_path / "dump.json")).code == 0
    found = json.loads((tmp_path / "dump.json").read_text())
    assert (found["queueTree"], found["queueTreeDocument"], found["missing"]) == ([], {}, [])


def test_several_partitions_have_a_tree_each(cluster: StandIn, bcs: Any, tmp_path: Path) -> None:
    parts = [{**PART, "name": name} for name in ("default", "night-part")]
    cluster.on("GET", "/queuetree/partitions", ok(parts))
    file = tmp_path / "dump.json"
    assert bcs("dump", str(file)).code == 0
    found = json.loads(file.read_text())
    assert len(found["queueTreeDocuments"]) == 2 and found["queueTreeDocument"] == found["queueTreeDocuments"][0]
    assert found["queueTree"][0]["partition"] == "default"
    asked = [one.query for one in cluster.seen if one.path == "/queuetree"]
    assert asked == [{"partition": "default"}, {"partition": "night-part"}]


def test_a_bad_place_is_refused_before_the_cluster_is_read(server: StandIn, bcs: Any, tmp_path: Path) -> None:
    result = bcs("dump", str(tmp_path / "no" / "dump.json"))
    assert result.code == 2 and f"the directory {tmp_path / 'no'} does not exist" in result.err
    assert bcs("dump", str(tmp_path)).code == 2
    assert server.seen == []


def test_a_failed_write_keeps_the_present_file(
    cluster: StandIn, bcs: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    file = tmp_path / "dump.json"
    file.write_text("old")
    result = bcs("dump", str(file))
    assert result.code == 1 and f"{file}: cannot be written: No space left on device" in result.err
    assert file.read_text() == "old" and list(tmp_path.iterdir()) == [file]
