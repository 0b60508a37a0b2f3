"""The documents of conf/examples/ on the embedded cluster with the real executor: each does what it is there to show.

The container engine is a stand-in: of container.json it is seen what the engine is asked for.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import requests

from tests.component.executor.standinengine import StandInEngine
from tests.integration.localmesos import LocalMesosProcess
from tests.integration.schedulerprocess import SchedulerProcess
from tests.waiting import wait_for

EXAMPLES = Path(__file__).parents[2] / "conf" / "examples"
PATIENCE = 60.0


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StandInEngine]:
    """The container engine of all agents."""
    found = StandInEngine(tmp_path_factory.mktemp("engine") / "engine.sock")
    yield found
    found.away()


@pytest.fixture(scope="module")
def scheduler(tmp_path_factory: pytest.TempPathFactory, engine: StandInEngine) -> Iterator[SchedulerProcess]:
    folder = tmp_path_factory.mktemp("examples")
    cluster = LocalMesosProcess(folder, "--ports=24000-24099", "--agents=2").start()
    settings = {"executor__default": "bcs", "executor__docker_socket": engine.path}
    process = SchedulerProcess(folder, f"sqlite:///{folder / 'state.db'}", cluster.url, **settings)
    try:
        yield process.start().wait_ready()
    finally:
        process.stop()
        cluster.stop()


def example(name: str) -> Any:
    return json.loads((EXAMPLES / f"{name}.json").read_text())


def apply(scheduler: SchedulerProcess, name: str) -> list[dict[str, Any]]:
    """Creates what the example describes and waits until it runs."""
    body = example(name)
    collection = {"configmap": "configmaps", "secret": "secrets", "process": "processes"}
    scheduler.call("POST", f"/namespaces/default/{collection.get(body['kind'], 'applications')}", body)
    if "spec" not in body:
        return []
    return scheduler.wait_running(body["metadata"]["name"], body["spec"]["instance"], PATIENCE)


def remove(scheduler: SchedulerProcess, name: str) -> None:
    deletion = scheduler.call("DELETE", f"/namespaces/default/applications/{name}")
    assert scheduler.wait_transaction(deletion["transactionID"], PATIENCE)["status"] == "FINISH"


def outcome(scheduler: SchedulerProcess, application: str, accepted: dict[str, Any]) -> dict[str, Any]:
    """The command when every taskgroup has answered."""
    path = f"/command/application/default/{application}"

    def answered() -> dict[str, Any] | None:
        command = scheduler.call("GET", path, id=accepted["commandID"])
        return command if command["state"] != "running" else None

    return wait_for(answered, PATIENCE, "the outcome of a command")


def outputs(scheduler: SchedulerProcess, application: str, line: str) -> list[str]:
    """What a line for the shell prints in each taskgroup."""
    body = {"kind": "Command", "spec": {"commandTargetRef": {}, "command": ["/bin/sh", "-c", line]}}
    accepted = scheduler.call("POST", f"/command/application/default/{application}", body)
    groups = outcome(scheduler, application, accepted)["status"]["taskgroups"]
    return [group["tasks"][0]["commInspect"]["stdout"] for group in groups]


def page(taskgroup: dict[str, Any], path: str = "/") -> str:
    """What the taskgroup serves; empty while nothing listens."""
    task = taskgroup["Taskgroup"][0]
    address, port = task["AgentIPAddress"], task["PortMappings"][0]["HostPort"]
    try:
        answer = requests.get(f"http://{address}:{port}{path}", timeout=30)
    except requests.ConnectionError:
        return ""
    return answer.text if answer.status_code == 200 else ""


def test_a_program_in_the_foreground_serves(scheduler: SchedulerProcess) -> None:
    for group in apply(scheduler, "process-simple"):
        wait_for(lambda group=group: "Directory listing" in page(group), PATIENCE, "a page")  # type: ignore[misc]
        assert group["Kind"] == "process" and group["Executor"] == "bcs" and group["Taskgroup"][0]["Pid"] > 0
    remove(scheduler, "pages")


def test_a_daemon_is_driven_by_its_commands(scheduler: SchedulerProcess) -> None:
    groups = apply(scheduler, "process")
    names = outputs(scheduler, "beacon", 'echo "$BEACON_NAME"')
    assert names == ["default/beacon-0\n", "default/beacon-1\n"]
    accepted = scheduler.call("POST", f"/taskgroup/{groups[0]['ID']}/reload")
    assert outcome(scheduler, "beacon", accepted)["state"] == "success"
    assert outputs(scheduler, "beacon", 'cat "$BEACON_EVENTS"') == ["start\nreload\n", "start\n"]
    remove(scheduler, "beacon")


def test_configmaps_and_secrets_reach_the_tasks(scheduler: SchedulerProcess) -> None:
    apply(scheduler, "configmap")
    apply(scheduler, "secret")
    for group in apply(scheduler, "configured"):
        wait_for(lambda group=group: "from a configmap" in page(group), PATIENCE, "a page")  # type: ignore[misc]
    line = 'echo "$GREETING $SITE_TOKEN"; stat -Lc %a page/index.html private/token; cat private/token'
    expected = "hello not-a-real-token\n444\n400\nnot-a-real-token"
    assert outputs(scheduler, "site", line) == [expected, expected]
    assert "not-a-real-token" not in scheduler.log()
    remove(scheduler, "site")


def test_a_failing_check_ends_the_task_and_the_policy_replaces_it(scheduler: SchedulerProcess) -> None:
    first = apply(scheduler, "checked")

    def healthy() -> bool:
        tasks = [task for group in scheduler.taskgroups("checked") for task in group["Taskgroup"]]
        return all(
            item["result"] and "not reported" not in item["message"] for t in tasks for item in t["HealthCheckStatus"]
        )

    wait_for(healthy, PATIENCE, "passed checks")
    outputs(scheduler, "checked", "rm page/health")
    before = {group["ID"] for group in first}

    def replaced() -> bool:
        groups = scheduler.taskgroups("checked")
        return before.isdisjoint(group["ID"] for group in groups) and all(g["Status"] == "Running" for g in groups)

    wait_for(replaced, PATIENCE, lambda: f"new taskgroups: {scheduler.taskgroups('checked')}")
    remove(scheduler, "checked")


def test_containers_are_handed_to_the_engine(scheduler: SchedulerProcess, engine: StandInEngine) -> None:
    apply(scheduler, "registry-login")
    groups = apply(scheduler, "container")
    ports = {group["Taskgroup"][0]["ContainerID"]: group["Taskgroup"][0]["PortMappings"][0] for group in groups}
    assert ports.keys() == engine.containers.keys()
    for container in engine.containers.values():
        host = container.body["HostConfig"]
        assert container.body["Image"] == "registry.example.org/demo/front:1.4"
        assert container.body["Cmd"] == ["/srv/front", "--listen", "0.0.0.0:8080"]
        assert "CPU_LIMIT=1000" in container.body["Env"]
        assert host["NetworkMode"] == "bridge"
        assert host["PortBindings"] == {"8080/tcp": [{"HostPort": str(ports[container.id]["HostPort"])}]}
        assert "/usr/share/zoneinfo:/usr/share/zoneinfo:ro" in host["Binds"]
        assert (host["CpuShares"], host["CpuQuota"], host["Memory"]) == (256, 100_000, 256 << 20)
        assert "not-a-real-password" not in str(container.body)
    pull = engine.last("POST /images/create")
    assert pull.query == {"fromImage": "registry.example.org/demo/front", "tag": "1.4"}
    account = json.loads(base64.urlsafe_b64decode(pull.headers["X-Registry-Auth"]))
    assert (account["username"], account["password"]) == ("puller", "not-a-real-password")
    remove(scheduler, "front")
    assert engine.containers == {}


def test_mesos_own_executor_takes_no_messages(scheduler: SchedulerProcess) -> None:
    assert {group["Executor"] for group in apply(scheduler, "mesos-executor")} == {"mesos"}
    answer = scheduler.request(
        "POST", "/namespaces/default/applications/plain/message", example("requests/message-signal")
    )
    assert answer.status_code == 409 and len(answer.json()["data"]["messages"]) == 2
    remove(scheduler, "plain")


def test_requests_do_what_they_say(scheduler: SchedulerProcess) -> None:
    apply(scheduler, "web")
    accepted = scheduler.call("POST", "/command/application/default/web", example("requests/command"))
    command = outcome(scheduler, "web", accepted)
    printed = [group["tasks"][0]["commInspect"]["stdout"] for group in command["status"]["taskgroups"]]
    assert len(printed) == 5 and all(text.startswith("uptime of the host\n") for text in printed)
    for name in ("message-file", "message-raw"):
        sent = scheduler.call("POST", "/namespaces/default/applications/web/message", example(f"requests/{name}"))
        assert outcome(scheduler, "web", sent)["state"] == "success"
    assert outputs(scheduler, "web", "stat -c %a etc/motd; cat etc/motd") == ["444\nmaintenance at noon\n"] * 5
    remove(scheduler, "web")


@pytest.mark.rotating
def test_a_daemonset_is_on_every_agent(scheduler: SchedulerProcess) -> None:
    scheduler.call("POST", "/namespaces/default/daemonsets", example("daemonset"))
    path = "/namespaces/default/daemonsets/node-probe"

    def everywhere() -> bool:
        record = scheduler.call("GET", path)
        return bool(record["Status"] == "Running" and record["counts"]["ready"] == 2)

    wait_for(everywhere, PATIENCE, lambda: f"two probes: {scheduler.call('GET', path)}")
    hosts = {group["HostName"] for group in scheduler.call("GET", f"{path}/taskgroups")}
    assert len(hosts) == 2
    assert outputs(scheduler, "node-probe", "echo here") == ["here\n", "here\n"]
    deletion = scheduler.call("DELETE", path)
    assert scheduler.wait_transaction(deletion["transactionID"], PATIENCE)["status"] == "FINISH"
