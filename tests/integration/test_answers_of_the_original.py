"""A client of the original against a whole scheduler with tasks that run: what it sends, and whether it can decode what
it is answered, by the table of the types (tests/conformance/answers.yaml) and by Go itself."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
import requests

from tests.goanswers import STRUCTS, as_go, differences, type_of
from tests.integration.devprocess import Dev
from tests.waiting import wait_for

pytestmark = pytest.mark.rotating
PREFIX = "/bcsapi/v4/scheduler/mesos"
HEADERS = {"BCS-ClusterID": "BCS-MESOS-10001"}
SECONDS = 60.0
APPLICATION: dict[str, Any] = {
    "apiVersion": "v4",
    "kind": "application",
    "metadata": {"name": "r", "namespace": "fin", "labels": {"app": "r"}},
    "restartPolicy": {"policy": "OnFailure", "interval": 3, "backoff": 2},
    "killPolicy": {"gracePeriod": 2},
    "constraint": {
        "intersectionItem": [
            {"unionData": [{"name": "hostname", "operate": "MAXPER", "type": 3, "text": {"value": "5"}}]}
        ]
    },
    "spec": {
        "instance": 1,
        "template": {
            "metadata": {"labels": {"app": "r"}},
            "spec": {
                "networkMode": "HOST",
                "containers": [
                    {
                        "command": "/bin/sleep",
                        "args": ["900"],
                        "env": [
                            {"name": "MODE", "value": "fast"},
                            {"name": "MB", "valueFrom": {"resourceFieldRef": {"resource": "limits.memory"}}},
                        ],
                        "ports": [{"name": "web", "protocol": "tcp", "containerPort": 0}],
                        "resources": {"limits": {"cpu": "0.1", "memory": "32"}},
                    }
                ],
            },
        },
    },
}
COMMAND = {
    "apiVersion": "v4",
    "kind": "Command",
    "spec": {
        "commandTargetRef": {"kind": "Application", "namespace": "fin", "name": "r"},
        "command": ["/bin/sh", "-c", "echo out; echo err >&2; exit 3"],
    },
}
PROGRAM = """package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"time"
)

var _ time.Time

%s

func main() {
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 64*1024*1024)
	for lines.Scan() {
		var line struct {
			Type string
			Data json.RawMessage
		}
		if err := json.Unmarshal(lines.Bytes(), &line); err != nil {
			panic(err)
		}
		var target interface{}
		switch line.Type {
%s
		default:
			panic(line.Type)
		}
		if err := json.Unmarshal(line.Data, target); err != nil {
			fmt.Println(line.Type, err)
		}
	}
}
"""


class Client:
    """Keeps every answer with data, by its type."""

    def __init__(self, dev: Dev) -> None:
        self._url = dev.url
        self.answers: list[tuple[str, Any]] = []

    def call(self, method: str, path: str, *, document: Any = None, code: int = 0, id: str = "") -> Any:
        base = "" if path.startswith("/v1/") else PREFIX
        response = requests.request(
            method, self._url + base + path, json=document, params={"id": id}, headers=HEADERS, timeout=SECONDS
        )
        answer = response.json()
        assert (response.status_code, answer["code"]) == (200, code), response.text
        if code:
            return answer["message"]
        kind = type_of(method, path)
        assert differences(answer["data"], kind) == []
        self.answers.append((kind, answer["data"]))
        return answer["data"]

    def get(self, path: str, *, id: str = "") -> Any:
        return self.call("GET", path, id=id)


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    dev = Dev(tmp_path_factory.mktemp("dev"))
    try:
        wait_for(lambda: requests.get(f"{dev.url}/readyz", timeout=SECONDS).ok, SECONDS, "a leader")
        yield Client(dev)
    finally:
        dev.stop()


def test_a_client_decodes_every_answer(client: Client, tmp_path: Path) -> None:
    client.call("POST", "/namespaces/fin/applications", document=APPLICATION)
    nothing = deepcopy(APPLICATION)
    nothing["metadata"]["name"], nothing["spec"]["instance"] = "z", 0
    assert "$.spec.instance" in client.call("POST", "/namespaces/fin/applications", document=nothing, code=1405008)
    assert client.get("/definition/application/fin/r")["metadata"]["creationTimestamp"] == "0001-01-01T00:00:00Z"
    first = client.get("/transactions/fin")[0]
    assert first["curOp"]["opLaunchData"]["version"]["ID"] == "r"

    def running() -> Any:
        return [
            group for group in client.get("/namespaces/fin/applications/r/taskgroups") if group["Status"] == "Running"
        ]

    group = wait_for(running, SECONDS, "a taskgroup that runs")[0]
    task = group["Taskgroup"][0]
    report = json.loads(task["StatusData"])
    assert report["StartAt"].startswith("20") and report["FinishAt"] == "0001-01-01T00:00:00Z"
    assert (report["Ports"][0]["HostPort"], task["Env"]["MODE"]) == (str(task["PortMappings"][0]["HostPort"]), "fast")
    version = client.get(f"/namespaces/fin/applications/r/versions/{group['VersionName']}")
    assert version["Container"][0]["Docker"]["Env"] == {"MODE": "fast", "MB": "32"}
    assert version["Constraints"]["intersectionItem"][0]["unionData"][0]["text"] == {"value": "5"}
    assert version["raw_json"]["spec"]["template"]["spec"]["containers"][0]["resources"]["limits"]["cpu"] == "0.1"

    command = client.call("POST", "/command/application/fin/r", document=COMMAND)

    def ended() -> Any:
        groups = client.get("/command/application/fin/r", id=command)["status"]["taskgroups"]
        tasks = [one for each in groups for one in each["tasks"]]
        return tasks if tasks and all(one["status"] == "finish" for one in tasks) else None

    assert wait_for(ended, SECONDS, "the end of the command")[0]["commInspect"]["exitCode"] == 3
    assert client.call("POST", f"/v1/taskgroup/{group['ID']}/reload")["Type"] == 10
    for path in (
        "/namespaces/fin/applications",
        "/namespaces/fin/applications/r",
        "/namespaces/fin/applications/r/tasks",
        "/namespaces/fin/applications/r/versions",
        "/cluster/resources",
        "/cluster/endpoints",
        "/cluster/current/offers",
        "/agentsettings",
        "/v1/fin/apps",
    ):
        assert client.get(path), path
    _decode_with_go(client.answers, tmp_path)


def _decode_with_go(answers: list[tuple[str, Any]], folder: Path) -> None:
    """Without a Go compiler, the table alone judges."""
    go = shutil.which("go")
    if go is None:
        return
    lines = [(kind, data) for kind, data in answers if kind != "any"]
    reports = [task["StatusData"] for kind, data in lines if kind == "[]Task" for task in data]
    lines += [("StatusData", json.loads(report)) for report in reports]
    assert reports
    kinds = sorted({kind for kind, _ in lines} | set(STRUCTS))
    cases = "\n".join(f'\t\tcase "{kind}":\n\t\t\ttarget = new({kind})' for kind in kinds)
    program = folder / "main.go"
    program.write_text(PROGRAM % (as_go(), cases))
    # One answer that no client can decode shows that failures are noticed.
    wrong = ("KillPolicy", {"gracePeriod": 1.5})
    text = "\n".join(json.dumps({"type": kind, "data": data}) for kind, data in [*lines, wrong])
    environment = {"GOCACHE": str(folder / "cache"), "GO111MODULE": "off", "HOME": str(folder), "PATH": "/usr/bin:/bin"}
    done = subprocess.run(
        [go, "run", str(program)], input=text, capture_output=True, text=True, env=environment, timeout=SECONDS * 4
    )
    assert done.returncode == 0, done.stderr
    failures = done.stdout.splitlines()
    assert len(failures) == 1 and failures[0].startswith("KillPolicy "), failures
