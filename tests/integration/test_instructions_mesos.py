"""Processes, and what executors can be told, on the real Mesos: from the HTTP API through master and agent and back."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.integration.executortraces import processes_of, sandbox, the_task, wait_gone
from tests.integration.mesoscluster import RealMesos
from tests.integration.schedulerprocess import SchedulerProcess, document
from tests.waiting import wait_for

pytestmark = pytest.mark.mesos

APPS = "/namespaces/default/applications"
Record = dict[str, Any]
DAEMON = {
    "apiVersion": "v4",
    "kind": "process",
    "metadata": {"name": "beacon", "namespace": "default"},
    "killPolicy": {"gracePeriod": 5},
    "spec": {
        "instance": 1,
        "template": {
            "spec": {
                "processes": [
                    {
                        "procName": "beacond",
                        "workPath": "${work_base_dir}",
                        "pidFile": "${run_base_dir}/${processname}.pid",
                        "startCmd": 'echo "start $WHO" >> ../events; cp "$(command -v sleep)" beacond;'
                        " ./beacond 100000 > /dev/null 2>&1 & echo $! > ${pidFile}",
                        "startGracePeriod": 2,
                        "stopCmd": 'echo stop >> ../events; kill "$(cat ${pidFile})"',
                        "reloadCmd": "echo reload >> ../events",
                        "env": [{"name": "WHO", "value": "${namespace}/${processname}-${instanceid}"}],
                        "resources": {"limits": {"cpu": "0.1", "memory": "64"}},
                    }
                ]
            }
        },
    },
}


@pytest.fixture
def scheduler(real_mesos: RealMesos, tmp_path: Path) -> Iterator[SchedulerProcess]:
    url = f"sqlite:///{tmp_path}/state.db"
    process = SchedulerProcess(tmp_path, url, real_mesos.url, executor__default="bcs", executor__output_limit="1000")
    try:
        yield process.start().wait_ready()
    finally:
        process.stop()


def outcome(scheduler: SchedulerProcess, told: Record) -> Record:
    """The message of the one taskgroup that was told something, once the last word is there."""
    identity = told["messages"][0]["messageID"]

    def done() -> Record | None:
        message: Record = scheduler.call("GET", f"/message/{identity}")
        return message if message["Status"] in ("success", "failed") else None

    return wait_for(done, 30, lambda: f"the end of {scheduler.call('GET', f'/message/{identity}')}")


def run(scheduler: SchedulerProcess, name: str, *argv: str, **spec: Any) -> Record:
    body = {
        "kind": "Command",
        "spec": {"commandTargetRef": {"kind": "Application", "name": name}, "command": argv, **spec},
    }
    return outcome(scheduler, scheduler.call("POST", f"/command/application/default/{name}", body))


def test_a_process_with_commands_of_its_own(real_mesos: RealMesos, scheduler: SchedulerProcess) -> None:
    scheduler.call("POST", "/namespaces/default/processes", DAEMON)
    [group] = scheduler.wait_running("beacon", 1)
    events = sandbox(real_mesos, group["ID"]) / "events"
    assert events.read_text() == "start default/beacon-0\n"
    pid = the_task(group)["Pid"]
    assert processes_of(group["ID"])[pid][0] == "./beacond"

    reloaded = scheduler.call("POST", f"{APPS}/beacon/taskgroups/{group['ID']}/reload")
    assert outcome(scheduler, reloaded)["Status"] == "success"
    assert events.read_text().split("\n")[1] == "reload"

    os.kill(pid, signal.SIGKILL)
    scheduler.wait_replaced("beacon", group["ID"])
    [new] = scheduler.wait_running("beacon", 1)
    wait_gone(group)
    scheduler.call("DELETE", f"{APPS}/beacon")
    wait_gone(new)
    assert (sandbox(real_mesos, new["ID"]) / "events").read_text().split("\n")[1] == "stop"


def test_commands_signals_files_and_restarts(real_mesos: RealMesos, scheduler: SchedulerProcess) -> None:
    line = "trap 'echo heard >> ears' USR1; while :; do sleep 0.05; done"
    scheduler.call("POST", APPS, document("app", 1, ["/bin/sh", "-c", line]))
    [group] = scheduler.wait_running("app", 1)
    home = sandbox(real_mesos, group["ID"]) / "tasks" / the_task(group)["ID"]

    ran = run(scheduler, "app", "sh", "-c", "echo $COLOUR; pwd >&2; exit 3", env=["COLOUR=blue"])
    assert ran["Status"] == "success"
    inspected = ran["Results"][0]["commInspect"]
    assert (inspected["exitCode"], inspected["stdout"], inspected["truncated"]) == (3, "blue\n", False)
    assert Path(inspected["stderr"].strip()).resolve() == home.resolve()

    endless = run(scheduler, "app", "sh", "-c", "while :; do echo yes; done", timeout=3)
    assert endless["Status"] == "failed"
    assert len(endless["Results"][0]["commInspect"]["stdout"]) == 1000
    assert endless["Results"][0]["commInspect"]["truncated"]

    body = {"msgtype": "signal", "msgdata": {"signal": int(signal.SIGUSR1)}}
    assert outcome(scheduler, scheduler.call("POST", f"{APPS}/app/message", body))["Status"] == "success"
    wait_for(lambda: (home / "ears").exists(), 30, "the signal to be heard")

    restarted = scheduler.call("POST", f"{APPS}/app/taskgroups/{group['ID']}/restart")
    assert outcome(scheduler, restarted)["Status"] == "success"

    def another_process() -> bool:
        [same] = scheduler.taskgroups("app")
        return same["ID"] == group["ID"] and the_task(same)["Pid"] not in (0, the_task(group)["Pid"])

    wait_for(another_process, 30, lambda: f"another pid: {scheduler.taskgroups('app')}")
    [same] = scheduler.wait_running("app", 1)
    assert same["ReschededTimes"] == 0
    assert the_task(group)["Pid"] not in processes_of(group["ID"])
    scheduler.call("DELETE", f"{APPS}/app")
    wait_gone(group)


def test_a_message_outlives_the_agents_absence(own_mesos: RealMesos, tmp_path: Path) -> None:
    """Sent while the agent is away, it is sent again until the executor has answered, and carried out once."""
    url = f"sqlite:///{tmp_path}/state.db"
    scheduler = SchedulerProcess(tmp_path, url, own_mesos.url, executor__default="bcs").start().wait_ready()
    try:
        scheduler.call("POST", APPS, document("app", 1, ["/bin/sleep", "1000"]))
        [group] = scheduler.wait_running("app", 1)
        home = sandbox(own_mesos, group["ID"]) / "tasks" / the_task(group)["ID"]
        agent = next(name for name in own_mesos.agents if f"/{name}/" in str(home))
        own_mesos.stop_process(agent)
        body = {
            "kind": "Command",
            "spec": {
                "commandTargetRef": {"kind": "Application", "name": "app"},
                "command": ["sh", "-c", "echo once >> count"],
            },
        }
        told = scheduler.call("POST", "/command/application/default/app", body)
        own_mesos.start_process(agent)
        own_mesos.wait_for_agents()
        assert outcome(scheduler, told)["Status"] == "success"
        assert (home / "count").read_text() == "once\n"
    finally:
        scheduler.stop()
