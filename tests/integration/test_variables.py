"""Every variable that a document may use or that is injected (docs/original.md#environment), as a process really sees
it: on the embedded cluster and on the real Mesos, with both executors."""

from __future__ import annotations

import base64
import json
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.integration.schedulerprocess import SchedulerProcess, document
from tests.waiting import wait_for

Record = dict[str, Any]
NAMESPACE = "/namespaces/default"
SHOW = "python3 -c 'import json, os; print(json.dumps(dict(os.environ)), flush=True)'"


class Variable(NamedTuple):
    """One variable of the environment. `given`: its value, or its whole entry, in the document; None: it is injected.
    `seen`: its value in the process of the taskgroup."""

    given: str | Record | None
    seen: Callable[[Record], str]


def port(group: Record) -> str:
    return str(group["Taskgroup"][0]["PortMappings"][0]["HostPort"])


def address(group: Record) -> str:
    return str(group["Taskgroup"][0]["AgentIPAddress"])


def identity(group: Record) -> str:
    return str(group["ID"])


def always(text: str) -> Callable[[Record], str]:
    return lambda group: text


def field(name: str) -> Record:
    return {"valueFrom": {"resourceFieldRef": {"resource": name}}}


INJECTED = {
    "PORT_http": Variable(None, port),
    "BCS_POD_ID": Variable(None, identity),
    "BCS_NODE_IP": Variable(None, address),
    "BCS_CONTAINER_IP": Variable(None, address),
}
COMMON = {
    **INJECTED,
    "PLAIN": Variable("as given $HOME ${HOME} ${nobody}", always("as given $HOME ${HOME} ${nobody}")),
    "TO_PORT": Variable("$PORT_http", port),
    "TO_POD": Variable("$BCS_POD_ID", identity),
    "TO_NODE": Variable("$BCS_NODE_IP", address),
    "TO_CONTAINER": Variable("$BCS_CONTAINER_IP", address),
    "CHAIN": Variable("$TO_CONTAINER", address),
    "TO_CONFIGMAP": Variable("$FROM_CONFIGMAP", always("east")),
    "TO_NOBODY": Variable("$NOBODY", always("$NOBODY")),
    "FROM_CONFIGMAP": Variable(None, always("east")),
    "FROM_SECRET": Variable(None, always("$PLAIN")),
    "LIMIT_CPU": Variable(field("limits.cpu"), always("50")),
    "LIMIT_MEMORY": Variable(field("limits.memory"), always("64")),
    "REQUEST_CPU": Variable(field("requests.cpu"), always("20")),
    "REQUEST_MEMORY": Variable(field("requests.memory"), always("48")),
}
APPLICATION = {
    **COMMON,
    "AT_0": Variable({"name": "AT_${bcs.instanceid}", "value": "here"}, always("here")),
    "NAME": Variable("${bcs.appname}", lambda group: str(group["AppID"])),
    "NAMESPACE": Variable("${bcs.namespace}", always("default")),
    "INDEX": Variable("${bcs.instanceid}", lambda group: str(group["InstanceID"])),
    "HOST_ADDRESS": Variable("${bcs.hostip}", address),
    "PORT_INSIDE": Variable(
        "http://${bcs.hostip}:${bcs.ports.http}/", lambda group: f"http://{address(group)}:{port(group)}/"
    ),
    "GROUP_ID": Variable("${bcs.taskgroupid}", identity),
    "GROUP_NAME": Variable("${bcs.taskgroupname}", lambda group: str(group["Name"])),
}


PROCESS = {
    **COMMON,
    "AT_0": Variable({"name": "AT_${instanceid}", "value": "here"}, always("here")),
    "NAME": Variable("${processname}", lambda group: str(group["AppID"])),
    "NAMESPACE": Variable("${namespace}", always("default")),
    "INDEX": Variable("${instanceid}", lambda group: str(group["InstanceID"])),
    "HOST_ADDRESS": Variable("${hostip}", address),
    "PORT_INSIDE": Variable("${ports.http}", port),
}
PLACES = {
    "WORK": "${workPath}",
    "PID_FILE": "${pidFile}",
    "WORK_BASE": "${work_base_dir}",
    "RUN_BASE": "${run_base_dir}",
}


@pytest.fixture(params=["embedded_mesos", pytest.param("real_mesos", marks=pytest.mark.mesos)], scope="module")
def scheduler(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SchedulerProcess]:
    cluster = request.getfixturevalue(request.param)
    url = f"http://{cluster}" if isinstance(cluster, str) else cluster.url
    folder = tmp_path_factory.mktemp("variables")
    scheduler = SchedulerProcess(folder, f"sqlite:///{folder}/state.db", url).start().wait_ready()
    head = {"apiVersion": "v4", "metadata": {"name": "conf", "namespace": "default"}}
    datas = {"region": {"type": "file", "content": encoded("east")}}
    scheduler.call("POST", f"{NAMESPACE}/configmaps", {**head, "kind": "configmap", "datas": datas})
    scheduler.call(
        "POST", f"{NAMESPACE}/secrets", {**head, "kind": "secret", "datas": {"key": {"content": encoded("$PLAIN")}}}
    )
    yield scheduler
    scheduler.stop()


def encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def variable_of(key: str, name: str) -> Record:
    return {"type": "env", "dataKey": key, "keyOrPath": name}


def task(variables: dict[str, Variable], **more: Any) -> Record:
    """What containers and processes share."""
    env = []
    for name, variable in variables.items():
        if isinstance(variable.given, str):
            env.append({"name": name, "value": variable.given})
        elif variable.given is not None:
            env.append({"name": name, **variable.given})
    return {
        "env": env,
        "ports": [{"name": "http", "protocol": "tcp", "hostPort": 0}],
        "resources": {
            "limits": {"cpu": "0.05", "memory": "64"},
            "requests": {"cpu": "0.02", "memory": "48", "storage": "1"},
        },
        "configmaps": [{"name": "conf", "items": [variable_of("region", "FROM_CONFIGMAP")]}],
        "secrets": [{"secretName": "conf", "items": [variable_of("key", "FROM_SECRET")]}],
        **more,
    }


def environment(scheduler: SchedulerProcess, name: str) -> tuple[Record, dict[str, str]]:
    """The taskgroup, and what its process has printed of its environment."""
    (group,) = scheduler.wait_running(name, 1)

    def printed() -> Any:
        lines = scheduler.call("GET", f"/taskgroup/{group['ID']}/logs")["data"].splitlines()
        return json.loads(lines[0]) if lines else None

    return group, wait_for(printed, 30, "the environment")


def differences(
    variables: dict[str, Variable], group: Record, seen: dict[str, str]
) -> dict[str, tuple[str | None, str]]:
    expected = {name: variable.seen(group) for name, variable in variables.items()}
    return {name: (seen.get(name), value) for name, value in expected.items() if seen.get(name) != value}


@pytest.mark.parametrize("executor", ["bcs", "mesos"])
def test_a_command_sees_every_variable(scheduler: SchedulerProcess, executor: str) -> None:
    name = f"Seen_{executor}"  # as the original takes it: no name for DNS
    line = f"echo ${{bcs.appname}} $0 > word; {SHOW}; exec sleep 1000"
    raw = document(name, 1, ["/bin/sh", "-c", line, "${bcs.instanceid}"], container=task(APPLICATION))
    raw["spec"]["template"]["spec"]["executor"] = executor
    scheduler.call("POST", f"{NAMESPACE}/applications", raw)
    group, seen = environment(scheduler, name)
    assert differences(APPLICATION, group, seen) == {}
    word = scheduler.call("GET", f"/taskgroup/{group['ID']}/logs", file="word")["data"]
    assert word == f"{name} 0\n", "commands and arguments are templates, too"
    scheduler.call("DELETE", f"{NAMESPACE}/applications/{name}")


def test_a_process_sees_every_variable(scheduler: SchedulerProcess, tmp_path: Path) -> None:
    package = tmp_path / "package.tar.gz"
    with tarfile.open(package, "w:gz") as archive:
        archive.add(__file__, "program")
    given = {name: Variable(value, always("")) for name, value in PLACES.items()}
    file = {"type": "file", "dataKey": "region", "keyOrPath": "${work_base_dir}/${processname}.0/${instanceid}.conf"}
    process = task(
        {**PROCESS, **given},
        procName="sleep",
        workPath="${work_base_dir}/${processname}.${instanceid}",
        uris=[{"value": package.as_uri(), "outputDir": "${work_base_dir}/${processname}.${instanceid}/"}],
        pidFile="${run_base_dir}/${processname}.${instanceid}.pid",
        startCmd=f"{SHOW}; pwd > ${{work_base_dir}}/where; sleep 1000 & echo $! > ${{pidFile}}",
        stopCmd="kill $(cat ${pidFile})",
    )
    process["configmaps"][0]["items"].append(file)
    raw = {
        "apiVersion": "v4",
        "kind": "process",
        "metadata": {"name": "served", "namespace": "default"},
        "spec": {"instance": 1, "template": {"spec": {"processes": [process]}}},
    }
    scheduler.call("POST", f"{NAMESPACE}/processes", raw)
    group, seen = environment(scheduler, "served")
    assert differences(PROCESS, group, seen) == {}
    work, run = Path(seen["WORK_BASE"]), Path(seen["RUN_BASE"])
    assert (work.name, run.name) == ("work_dir", "run_dir") and work.parent == run.parent
    assert (seen["WORK"], seen["PID_FILE"]) == (f"{work}/served.0", f"{run}/served.0.pid")
    assert (work / "served.0" / "program").exists()
    assert (work / "where").read_text().strip() == seen["WORK"]
    assert (work / "served.0" / "0.conf").read_text() == "east"
    assert Path(seen["PID_FILE"]).read_text().strip().isdigit()
    scheduler.call("DELETE", f"{NAMESPACE}/processes/served")
