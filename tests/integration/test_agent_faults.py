"""What becomes of taskgroups on the real Mesos when programs, disks, agents, messages or secrets are not as they should
be: each has a clear outcome, nothing is lost, and nothing is left behind."""

from __future__ import annotations

import io
import json
import os
import resource
import signal
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import requests

from tests.component.executor.webserver import Web, content, protected, serving
from tests.integration.executortraces import executors_of, processes_of, sandbox, the_task, wait_gone
from tests.integration.livefiles import contents_below
from tests.integration.mesoscluster import RealMesos
from tests.integration.onetaskgroup import (
    APPS,
    NAMESPACE,
    Record,
    ask,
    create,
    encoded,
    home,
    outcome,
    put_secret,
    remove,
    settled,
    tell,
)
from tests.integration.schedulerprocess import SchedulerProcess, document
from tests.waiting import wait_for

pytestmark = [pytest.mark.mesos, pytest.mark.rotating]

USER, PASSWORD = "reader", "n0t-t0-be-seen"
NEVER: dict[str, Any] = {"restartPolicy": {"policy": "Never"}}
AT_ONCE: dict[str, Any] = {"restartPolicy": {"policy": "Always", "interval": 0, "backoff": 0}}
RECOVERY = 3
"""Seconds after which executors of these agents give up waiting for one that is away."""


@pytest.fixture(scope="module")
def mesos(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealMesos]:
    environment = {"MESOS_RECOVERY_TIMEOUT": f"{RECOVERY}secs"}
    cluster = RealMesos(tmp_path_factory.mktemp("mesos-faults"), environment=environment)
    # Tasks of other users must be able to reach their directories.
    for folder in (cluster.directory, *list(cluster.directory.parents)[:2]):
        folder.chmod(0o755)
    try:
        yield cluster.start()
    finally:
        cluster.stop()


@pytest.fixture(scope="module")
def scheduler(mesos: RealMesos, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SchedulerProcess]:
    folder = tmp_path_factory.mktemp("scheduler")
    settings = {"executor__default": "bcs", "executor__log_max_bytes": "20000", "log__level": "debug"}
    settings |= {"scheduler__kill_retry": "0.5"}
    process = SchedulerProcess(folder, f"sqlite:///{folder}/state.db", mesos.url, **settings)
    try:
        yield process.start().wait_ready()
    finally:
        process.stop()


@pytest.fixture(scope="module")
def web() -> Iterator[Web]:
    with serving() as found:
        yield found


# --- programs -------------------------------------------------------------------------------------------------------


def test_programs_of_every_kind(mesos: RealMesos, scheduler: SchedulerProcess) -> None:
    leaking = "import time\nkept = []\nwhile True:\n    kept.append(bytearray(4 << 20))\n    time.sleep(0.01)\n"
    create(scheduler, "leaks", f"exec python3 -S -c '{leaking}'", memory="64", **NEVER)
    create(scheduler, "crashes", "echo gone >&2; exit 3", **NEVER)
    create(scheduler, "finishes", "exit 0", **NEVER)
    create(scheduler, "ignores", "trap '' TERM; echo ready; while :; do sleep 0.2; done", killPolicy={"gracePeriod": 1})
    create(scheduler, "forks", "(setsid sh -c 'trap \"\" TERM; while :; do sleep 0.2; done' &) ; exec sleep 1000")

    leaks = settled(scheduler, "leaks", "Failed")
    assert leaks["Message"].startswith("out of memory: ")
    assert leaks["Message"].endswith("64 MB")
    assert the_task(leaks)["OOMKilled"]
    crashes = settled(scheduler, "crashes", "Failed")
    assert (crashes["Message"], the_task(crashes)["ExitCode"]) == ("exit code 3", 3)
    assert (home(mesos, crashes) / "stderr").read_text() == "gone\n"
    finishes = settled(scheduler, "finishes", "Finish")
    assert (the_task(finishes)["ExitCode"], the_task(finishes)["OOMKilled"]) == (0, False)
    wait_gone(leaks, crashes, finishes)

    ignores, forks = settled(scheduler, "ignores", "Running"), settled(scheduler, "forks", "Running")
    wait_for(lambda: (home(mesos, ignores) / "stdout").read_text(), 30, "the trap")
    wait_for(lambda: len(processes_of(forks["ID"])) >= 5, 30, lambda: f"all processes: {processes_of(forks['ID'])}")
    remove(scheduler, leaks, crashes, finishes, ignores, forks)


def test_an_executor_that_hangs_is_ended_with_all_it_runs(scheduler: SchedulerProcess) -> None:
    """It leaves KILLs without effect; its agent ends it."""
    create(scheduler, "frozen", "trap '' TERM; setsid sleep 1000 & while :; do sleep 0.2; done")
    group = settled(scheduler, "frozen", "Running")
    wait_for(lambda: len(processes_of(group["ID"])) >= 4, 30, lambda: f"all processes: {processes_of(group['ID'])}")
    os.kill(executors_of(group["ID"])[1], signal.SIGSTOP)
    remove(scheduler, group)


def test_a_check_that_hangs_fails_its_taskgroup(mesos: RealMesos, scheduler: SchedulerProcess) -> None:
    """The first of two tasks is ill: the second, which ignores SIGTERM, ends with it."""
    check = {
        "type": "COMMAND",
        "delaySeconds": 0,
        "gracePeriodSeconds": 0,
        "intervalSeconds": 2,
        "timeoutSeconds": 1,
        "consecutiveFailures": 1,
        "command": {"value": "trap '' TERM; test -e well || while :; do sleep 0.2; done"},
    }
    ill = document("hangs", 1, ["/bin/sh", "-c", "exec sleep 1000"], container={"healthChecks": [check]}, **NEVER)
    containers = ill["spec"]["template"]["spec"]["containers"]
    line = ["-c", "trap '' TERM; while :; do sleep 0.2; done"]
    containers.append({"command": "/bin/sh", "args": line, "resources": containers[0]["resources"]})
    scheduler.call("POST", APPS, ill)

    def ended() -> Record | None:
        groups = scheduler.taskgroups("hangs")
        return groups[0] if [task["Status"] for task in groups[0]["Taskgroup"]] == ["Failed", "Killed"] else None

    settled(scheduler, "hangs", "Failed")
    group = wait_for(ended, 30, lambda: f"the end of both: {scheduler.taskgroups('hangs')}")
    assert group["Message"] == "COMMAND health check failed 2 times in a row: timed out after 1 s"
    assert group["Taskgroup"][0]["HealthCheckStatus"][0]["result"] is False
    remove(scheduler, group)


def test_checks_and_kill_policy_of_the_executor_of_mesos(scheduler: SchedulerProcess) -> None:
    """Nothing of ours on the agent: one program is ill, both ignore SIGTERM."""
    check = {
        "type": "COMMAND",
        "delaySeconds": 0,
        "gracePeriodSeconds": 0,
        "intervalSeconds": 2,
        "timeoutSeconds": 1,
        "consecutiveFailures": 1,
        "command": {"value": "false"},
    }
    line = "trap '' TERM; while :; do sleep 0.2; done"
    for name, container in (("native-ill", {"healthChecks": [check]}), ("native", {})):
        policies = {**AT_ONCE, "killPolicy": {"gracePeriod": 1}}
        asked = document(name, 1, ["/bin/sh", "-c", line], container=container, **policies)
        scheduler.call("POST", APPS, asked | {"executor": "mesos"})
    well, ill = settled(scheduler, "native", "Running"), settled(scheduler, "native-ill", "Running")
    scheduler.wait_replaced("native-ill", ill["ID"], 60)
    wait_gone(ill)
    assert processes_of(well["ID"])
    assert not executors_of(well["ID"])
    assert scheduler.taskgroups("native")[0]["ID"] == well["ID"]
    remove(scheduler, well, scheduler.taskgroups("native-ill")[0])


# --- what taskgroups are given --------------------------------------------------------------------------------------


def packed(name: str, data: bytes) -> bytes:
    """A tar.gz with one executable file."""
    archive = io.BytesIO()
    entry = tarfile.TarInfo(name)
    entry.size, entry.mode = len(data), 0o755
    with tarfile.open(fileobj=archive, mode="w:gz") as file:
        file.addfile(entry, io.BytesIO(data))
    return archive.getvalue()


def test_everything_a_taskgroup_can_be_given(mesos: RealMesos, scheduler: SchedulerProcess, web: Web) -> None:
    web.pages["/rules"] = protected(b"rule one\n", USER, PASSWORD)
    web.pages["/tools.tar.gz"] = protected(packed("bin/tool", b"#!/bin/sh\necho tool runs\n"), USER, PASSWORD)
    put_secret(scheduler, "download", PASSWORD)
    remote = {"type": "http", "content": web.url("/rules"), "remoteUser": USER, "remotePasswd": "secret::download||key"}
    datas = {"plain": {"type": "file", "content": encoded(b"plain")}, "remote": remote}
    head = {"apiVersion": "v4", "kind": "configmap", "metadata": {"name": "given", "namespace": "default"}}
    scheduler.call("POST", f"{NAMESPACE}/configmaps", head | {"datas": datas})
    secret_items = [
        {"type": "file", "dataKey": "key", "keyOrPath": "private/key"},
        {"type": "file", "dataKey": "key", "keyOrPath": "private/open", "readOnly": False, "user": "root"},
    ]
    map_items = [
        {"type": "file", "dataKey": "plain", "keyOrPath": "etc/${bcs.appname}", "readOnly": True},
        {"type": "file", "dataKey": "remote", "keyOrPath": "etc/rules"},
        {"type": "env", "dataKey": "remote", "keyOrPath": "RULES"},
    ]
    container = {
        "user": "nobody",
        "workingDir": "etc",
        "uris": [{"value": web.url("/tools.tar.gz"), "user": USER, "pwd": "secret::download||key", "output": "tools/"}],
        "ports": [{"name": "web", "protocol": "tcp", "containerPort": 0, "hostPort": 0}],
        "env": [
            {"name": "PLACE", "value": "${bcs.namespace}/${bcs.taskgroupname}:${bcs.ports.web}"},
            {"name": "SAME", "value": "$PORT_web"},
            {"name": "MEMORY", "valueFrom": {"resourceFieldRef": {"resource": "limits.memory"}}},
        ],
        "secrets": [{"secretName": "download", "items": secret_items}],
        "configmaps": [{"name": "given", "items": map_items}],
    }
    create(scheduler, "given", "env; id -un; ../tools/bin/tool; pwd; exec sleep 1000", container=container)
    group = settled(scheduler, "given", "Running")
    place = home(mesos, group)
    output = wait_for(lambda: (text := (place / "stdout").read_text()).endswith("/etc\n") and text, 30, "the output")
    port = the_task(group)["PortMappings"][0]["HostPort"]
    expected = {
        f"PLACE=default/given-0:{port}",
        f"PORT_web={port}",
        f"SAME={port}",
        "RULES=rule one",
        f"BCS_POD_ID={group['ID']}",
        "BCS_CONTAINER_IP=127.0.0.1",
        "nobody",
        "tool runs",
    }
    assert expected <= set(output.splitlines())
    assert any(line.startswith("MEMORY=32") for line in output.splitlines())
    found = {
        name: (oct((place / name).stat().st_mode & 0o777), (place / name).owner(), (place / name).read_bytes())
        for name in ("etc/given", "etc/rules", "private/key", "private/open")
    }
    assert found == {
        "etc/given": ("0o444", "nobody", b"plain"),
        "etc/rules": ("0o644", "nobody", b"rule one\n"),
        "private/key": ("0o400", "nobody", PASSWORD.encode()),
        "private/open": ("0o600", "root", PASSWORD.encode()),
    }
    remove(scheduler, group)


def test_what_cannot_be_given_fails_with_its_reason(mesos: RealMesos, scheduler: SchedulerProcess, web: Web) -> None:
    web.pages["/half.tar.gz"] = content(b"half", claimed=4000)
    web.pages["/closed"] = protected(b"", USER, PASSWORD)
    cases: dict[str, tuple[Record, str]] = {
        "missing": ({"uris": [{"value": web.url("/none")}]}, "404 Not Found"),
        "half": ({"uris": [{"value": web.url("/half.tar.gz")}]}, "truncated: 4 of 4000 bytes"),
        "closed": ({"uris": [{"value": web.url("/closed"), "user": USER, "pwd": f"{PASSWORD}-2"}]}, "401 Unauthorized"),
        "nobody": ({"user": "nobody-at-all"}, "user 'nobody-at-all' does not exist on the agent"),
        "nowhere": ({"workingDir": "/nowhere/at/all"}, "working directory /nowhere/at/all does not exist"),
    }
    for name, (container, _) in cases.items():
        create(scheduler, f"not-{name}", "exec sleep 1000", container=container, **NEVER)
    groups = {name: settled(scheduler, f"not-{name}", "Failed") for name in cases}
    for name, (_, reason) in cases.items():
        assert reason in groups[name]["Message"], name
    remove(scheduler, *groups.values())


def test_a_secret_that_vanished_is_waited_for(mesos: RealMesos, scheduler: SchedulerProcess) -> None:
    """Between creation and launch, and between launch and restart."""
    put_secret(scheduler, "fleeting", f"{PASSWORD}-1")
    secrets = {
        "secrets": [{"secretName": "fleeting", "items": [{"type": "file", "dataKey": "key", "keyOrPath": "key"}]}]
    }
    there: dict[str, Any] = {"constraint": {"intersectionItem": [{"unionData": [
        {"name": "hostname", "operate": "CLUSTER", "type": 4, "set": {"item": ["agent1"]}}]}]}}  # fmt: skip
    agent = next(item for item in scheduler.call("GET", "/agents") if item["hostname"] == "agent1")
    scheduler.call("POST", "/agentsettings/disable", ips=agent["key"])
    create(scheduler, "later", "exec sleep 1000", container=secrets, **there)
    create(scheduler, "again", "exec sleep 1000", container=secrets, **AT_ONCE)
    before = settled(scheduler, "again", "Running")
    scheduler.call("DELETE", f"{NAMESPACE}/secrets/fleeting")
    scheduler.call("POST", "/agentsettings/enable", ips=agent["key"])
    os.kill(the_task(before)["Pid"], signal.SIGKILL)

    def explained(name: str) -> str:
        return " ".join(scheduler.call("GET", f"{APPS}/{name}/explain")["text"])

    reason = "waiting for configuration: secret default/fleeting does not exist"
    wait_for(lambda: reason in explained("later") and reason in explained("again"), 30, lambda: explained("again"))
    assert scheduler.taskgroups("later") == []
    put_secret(scheduler, "fleeting", f"{PASSWORD}-2")
    groups = [settled(scheduler, name, "Running") for name in ("later", "again")]
    assert [(home(mesos, group) / "key").read_text() for group in groups] == [f"{PASSWORD}-2"] * 2
    assert groups[1]["ID"] != before["ID"]
    remove(scheduler, *groups)
    wait_gone(before)


# --- disks and messages ---------------------------------------------------------------------------------------------


def test_a_disk_that_takes_no_more(mesos: RealMesos, scheduler: SchedulerProcess) -> None:
    """No file of the executor may grow beyond 4000 bytes, which its writes see as they see a full disk."""
    create(scheduler, "prints", "while :; do echo this is printed for as long as it runs; sleep 0.005; done")
    group = settled(scheduler, "prints", "Running")
    [_, executor] = executors_of(group["ID"])
    before = resource.prlimit(executor, resource.RLIMIT_FSIZE, (4000, resource.RLIM_INFINITY))
    place = home(mesos, group)
    file = {"to": "file", "user": "root", "right": "rw", "ctx": encoded(b"x" * 8000)}
    refused = tell(scheduler, group, msgtype="local", msgdata=file)
    assert refused["Status"] == "failed"
    assert "cannot be written: " in refused["Message"]
    assert not (place / "file").exists()
    wait_for(lambda: (place / "stdout").stat().st_size == 4000, 30, "the limit of stdout")
    assert outcome(scheduler, ask(scheduler, group, "echo still here"))["Results"][0]["commInspect"]["stdout"]
    assert settled(scheduler, "prints", "Running")["ID"] == group["ID"]

    resource.prlimit(executor, resource.RLIMIT_FSIZE, before)
    assert tell(scheduler, group, msgtype="local", msgdata=file)["Status"] == "success"

    def told() -> bool:
        return b"bytes of output were dropped: the disk refused them" in (place / "stdout").read_bytes()

    wait_for(told, 30, "a word about what was dropped")
    remove(scheduler, group)


def test_rubbish_in_the_name_of_an_executor(mesos: RealMesos, scheduler: SchedulerProcess) -> None:
    create(scheduler, "victim", "exec sleep 1000")
    group = settled(scheduler, "victim", "Running")
    task = the_task(group)["ID"]
    words = Path(f"/proc/{executors_of(group['ID'])[0]}/environ").read_bytes().decode().split("\0")
    environment = dict(word.split("=", 1) for word in words if "=" in word)
    identity = {
        "framework_id": {"value": environment["MESOS_FRAMEWORK_ID"]},
        "executor_id": {"value": environment["MESOS_EXECUTOR_ID"]},
    }
    detail = {"pid": "many", "exit_code": [PASSWORD], "checks": {}}
    for data in (
        b"",
        b"\xff\xfe",
        b'{"v": 1, "type": "rep',
        b"[" * 100_000,
        b'{"v": 1, "type": "dance"}',
        b'{"v": 7, "type": "report", "tasks": []}',
        b'{"v": 1, "type": "answer", "id": "0", "status": "success", "results": [{}]}',
        json.dumps({"v": 1, "type": "report", "tasks": [{"task": task, "detail": detail}]}).encode(),
        json.dumps({"v": 1, "type": "report", "tasks": [{"task": "another", "detail": {}}]}).encode(),
    ):
        call = {"type": "MESSAGE", **identity, "message": {"data": encoded(data)}}
        url = f"http://{environment['MESOS_AGENT_ENDPOINT']}/api/v1/executor"
        assert requests.post(url, json=call, timeout=60).status_code == 202
    assert outcome(scheduler, ask(scheduler, group, "echo alive"))["Results"][0]["commInspect"]["stdout"] == "alive\n"
    [same] = scheduler.taskgroups("victim")
    assert (same["ID"], the_task(same)["Pid"]) == (group["ID"], the_task(group)["Pid"])
    wait_for(lambda: "mesos.executor.unreadable" in scheduler.log(), 30, "a word in the log")
    remove(scheduler, group)


# --- schedulers and agents that are away ----------------------------------------------------------------------------


def test_what_happens_while_no_scheduler_is_there(mesos: RealMesos, scheduler: SchedulerProcess) -> None:
    """A command that is under way and tasks that end: the next scheduler hears of all, and nothing is done twice."""
    until = "while ! test -e go; do sleep 0.05; done"
    create(scheduler, "works", "exec sleep 1000")
    create(scheduler, "ends", f"{until}; exit 0", **NEVER)
    create(scheduler, "breaks", f"{until}; exit 5", **AT_ONCE)
    works, ends, breaks = (settled(scheduler, name, "Running") for name in ("works", "ends", "breaks"))
    told = ask(scheduler, works, f"echo ran >> count; {until}; echo done")
    counted = home(mesos, works) / "count"
    wait_for(counted.exists, 30, "the begin of the command")
    scheduler.kill()
    for group in (works, ends, breaks):
        (home(mesos, group) / "go").touch()
    pids = [the_task(group)["Pid"] for group in (ends, breaks)]
    wait_for(lambda: not any(Path(f"/proc/{pid}").exists() for pid in pids), 30, "the end of the tasks")
    scheduler.start().wait_ready()
    assert outcome(scheduler, told)["Results"][0]["commInspect"]["stdout"] == "done\n"
    assert counted.read_text() == "ran\n"
    assert the_task(settled(scheduler, "ends", "Finish"))["ExitCode"] == 0
    scheduler.wait_replaced("breaks", breaks["ID"])
    again = settled(scheduler, "breaks", "Running")
    assert again["ReschededTimes"] == 1
    wait_gone(ends, breaks)
    remove(scheduler, works, ends, again)


def test_an_agent_away_for_longer_than_the_recovery_time(mesos: RealMesos, scheduler: SchedulerProcess) -> None:
    """Its executors end all they run, whatever it is; when it is back, the taskgroup is replaced."""
    line = "trap '' TERM; (setsid sh -c 'trap \"\" TERM; while :; do sleep 0.2; done' &); while :; do sleep 0.2; done"
    create(scheduler, "left", line, **AT_ONCE)
    group = settled(scheduler, "left", "Running")
    wait_for(lambda: len(processes_of(group["ID"])) >= 5, 30, lambda: f"all processes: {processes_of(group['ID'])}")
    agent = sandbox(mesos, group["ID"]).relative_to(mesos.directory).parts[0]
    log = sandbox(mesos, group["ID"]) / "stderr"
    mesos.stop_process(agent)
    try:
        wait_gone(group)
        assert "the agent is gone" in log.read_text()
    finally:
        mesos.start_process(agent)
    mesos.wait_for_agents()
    scheduler.wait_replaced("left", group["ID"], 60)
    remove(scheduler, settled(scheduler, "left", "Running"))


def test_no_secret_was_told(mesos: RealMesos, scheduler: SchedulerProcess) -> None:
    """After all of the above they are in no log, no answer and nothing that agents keep, but in the files asked for."""
    paths = [APPS, f"{NAMESPACE}/secrets", f"{NAMESPACE}/configmaps", "/taskgroups", "/transactions"]
    told = [json.dumps(scheduler.call("GET", path, limit=1000)) for path in paths]
    told += [requests.get(f"{scheduler.url}/metrics", timeout=60).text, scheduler.log()]
    told += [mesos.log(name) for name in ("solo", *mesos.agents)]
    told += [json.dumps(mesos.state())]
    folders = [mesos.directory / name for name in mesos.agents]
    outputs = [data for folder in folders for _, data in contents_below(folder / "work/slaves", "std")]
    assert outputs
    told += [data.decode(errors="replace") for data in outputs]
    for text in told:
        assert PASSWORD not in text
        assert encoded(PASSWORD.encode()) not in text
    # Agents remove the files of ended containers meanwhile.
    kept = [found for folder in folders for part in ("work/meta", "run") for found in contents_below(folder / part)]
    assert kept
    for path, data in kept:
        assert PASSWORD.encode() not in data, path
