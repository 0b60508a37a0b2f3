"""Our own executor on the real Mesos: fetched from the scheduler, driven by the documents that come with a launch."""

from __future__ import annotations

import base64
import contextlib
import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import requests

from tests.integration.executortraces import executors_of, processes_of, sandbox, the_task, wait_gone
from tests.integration.mesoscluster import RealMesos
from tests.integration.schedulerprocess import SchedulerProcess, document
from tests.waiting import wait_for

pytestmark = [pytest.mark.mesos, pytest.mark.slow]

APPS = "/namespaces/default/applications"
SERVER = ["python3", "-u", "-m", "http.server", "${bcs.ports.http}", "--bind", "127.0.0.1"]
WEB = {
    "ports": [{"name": "http", "protocol": "tcp", "containerPort": 0, "hostPort": 0}],
    "resources": {"limits": {"cpu": "0.02", "memory": "64", "storage": "1"}},
}
AT_ONCE = {"restartPolicy": {"policy": "OnFailure", "interval": 0, "backoff": 0}}
HIDDEN = "n0t-t0-be-seen"

StartScheduler = Callable[..., SchedulerProcess]
Record = dict[str, Any]


@pytest.fixture
def start_scheduler(tmp_path: Path) -> Iterator[StartScheduler]:
    """Starts schedulers that use our executor unless told otherwise; ends them afterwards."""
    started: list[SchedulerProcess] = []

    def start(mesos: RealMesos, **settings: str) -> SchedulerProcess:
        folder = tmp_path / str(len(started))
        folder.mkdir()
        settings = {"executor__default": "bcs", **settings}
        scheduler = SchedulerProcess(folder, f"sqlite:///{tmp_path}/state.db", mesos.url, **settings)
        started.append(scheduler)
        return scheduler.start().wait_ready()

    yield start
    for scheduler in started:
        scheduler.stop()


def on_disk(folder: Path) -> list[str]:
    """Files with the secret, of an agent or of a task."""
    found = []
    for parent, _, names in os.walk(folder):
        for path in (Path(parent, name) for name in names):
            with contextlib.suppress(FileNotFoundError):
                if not path.is_symlink() and path.is_file() and HIDDEN.encode() in path.read_bytes():
                    found.append(str(path))
    return found


def page(taskgroup: Record) -> int:
    """Status of the page a taskgroup serves; 0 while nothing listens."""
    port = the_task(taskgroup)["PortMappings"][0]["HostPort"]
    try:
        return requests.get(f"http://127.0.0.1:{port}/", timeout=30).status_code
    except requests.ConnectionError:
        return 0


def wait_pages(taskgroups: list[Record]) -> None:
    for taskgroup in taskgroups:
        wait_for(lambda group=taskgroup: page(group) == 200, 30, "a page")  # type: ignore[misc]


def wait_replaced(scheduler: SchedulerProcess, name: str, old: Record, count: int = 1) -> Record:
    """The taskgroup that runs in the place of `old`."""

    def other() -> Record | None:
        groups = scheduler.taskgroups(name)
        if any(group["ID"] == old["ID"] for group in groups):
            return None
        return next((group for group in groups if group["InstanceID"] == old["InstanceID"]), None)

    wait_for(other, 30, lambda: f"a replacement of {old['ID']} in {scheduler.taskgroups(name)}")
    return next(g for g in scheduler.wait_running(name, count) if g["InstanceID"] == old["InstanceID"])


def test_launched_scaled_updated_and_deleted(real_mesos: RealMesos, start_scheduler: StartScheduler) -> None:
    scheduler = start_scheduler(real_mesos)
    scheduler.call("POST", APPS, document("web", 2, SERVER, container=WEB))
    first = scheduler.wait_running("web", 2)
    wait_pages(first)
    for group in first:
        assert group["Executor"] == "bcs"
        task = the_task(group)
        assert processes_of(group["ID"])[task["Pid"]][:2] == SERVER[:2]
        assert task["ContainerIP"] == "127.0.0.1"
        assert task["ExitCode"] is None
        assert task["StartTime"] > 0

    scheduler.call("PUT", f"{APPS}/web/scale/4")
    scaled = scheduler.wait_running("web", 4)
    wait_pages(scaled)

    changed = document("web", 4, [*SERVER, "--directory", "/tmp"], container=WEB)
    update = scheduler.call("PUT", APPS, changed)
    assert scheduler.wait_transaction(update["transactionID"])["status"] == "FINISH"
    updated = scheduler.wait_running("web", 4)
    wait_pages(updated)
    assert {g["ID"] for g in updated}.isdisjoint({g["ID"] for g in scaled})
    wait_gone(*scaled)

    deleted = scheduler.call("DELETE", f"{APPS}/web")
    assert scheduler.wait_transaction(deleted["transactionID"])["status"] == "FINISH"
    wait_gone(*updated)


def test_both_executors_side_by_side(real_mesos: RealMesos, start_scheduler: StartScheduler) -> None:
    scheduler = start_scheduler(real_mesos)
    scheduler.call("POST", APPS, document("ours", 1, SERVER, container=WEB))
    theirs = document("theirs", 1, SERVER, container=WEB) | {"executor": "mesos"}
    scheduler.call("POST", APPS, theirs)
    [ours], [other] = scheduler.wait_running("ours", 1), scheduler.wait_running("theirs", 1)
    wait_pages([ours, other])
    assert (ours["Executor"], other["Executor"]) == ("bcs", "mesos")
    assert executors_of(ours["ID"])
    assert not executors_of(other["ID"])
    for name in ("ours", "theirs"):
        scheduler.call("DELETE", f"{APPS}/{name}")
        wait_for(lambda name=name: scheduler.application(name) is None, 30, "deletion")  # type: ignore[misc]


@pytest.mark.parametrize("executor", ["bcs", "mesos"])
def test_a_failing_check_is_recovered(
    real_mesos: RealMesos, start_scheduler: StartScheduler, tmp_path: Path, executor: str
) -> None:
    """The file that the check looks for is there at first; the replacement makes it again. Mesos's own executor runs
    the check itself, in a sandbox of its own."""
    scheduler = start_scheduler(real_mesos)
    check = {
        "type": "COMMAND",
        "delaySeconds": 0,
        "gracePeriodSeconds": 0,
        "intervalSeconds": 2,
        "timeoutSeconds": 1,
        "consecutiveFailures": 1,
        "command": {"value": f"test -e {tmp_path}/well"},
    }
    line = ["/bin/sh", "-c", f"touch {tmp_path}/well; exec sleep 1000"]
    checked = document("checked", 1, line, container={"healthChecks": [check]}, **AT_ONCE)
    scheduler.call("POST", APPS, checked | {"executor": executor})
    [sick] = scheduler.wait_running("checked", 1)

    def healthy() -> bool:
        task = the_task(scheduler.taskgroups("checked")[0])
        return bool(task["IsChecked"] and task["Healthy"])

    wait_for(healthy, 30, lambda: f"health: {scheduler.taskgroups('checked')}")
    (tmp_path / "well").unlink()
    recovered = wait_replaced(scheduler, "checked", sick)
    wait_for(healthy, 30, lambda: f"health: {scheduler.taskgroups('checked')}")
    assert recovered["ReschededTimes"] == 1
    wait_gone(sick)
    scheduler.call("DELETE", f"{APPS}/checked")
    wait_gone(recovered)


@pytest.mark.parametrize("victim", [0, 1], ids=["the warden", "the executor"])
def test_a_killed_executor_is_replaced_and_leaves_no_orphan(
    real_mesos: RealMesos, start_scheduler: StartScheduler, victim: int
) -> None:
    """Its task ignores SIGTERM and has forked away into a session of its own."""
    scheduler = start_scheduler(real_mesos)
    line = "trap '' TERM; setsid sh -c \"trap '' TERM; while :; do sleep 1; done\" & while :; do sleep 1; done"
    policy = {"restartPolicy": {"policy": "Always", "interval": 0, "backoff": 0}}
    scheduler.call("POST", APPS, document("tough", 1, ["/bin/sh", "-c", line], **policy))
    [group] = scheduler.wait_running("tough", 1)
    wait_for(lambda: len(processes_of(group["ID"])) >= 5, 30, lambda: f"all processes: {processes_of(group['ID'])}")
    os.kill(executors_of(group["ID"])[victim], signal.SIGKILL)
    new = wait_replaced(scheduler, "tough", group)
    wait_gone(group)
    scheduler.call("DELETE", f"{APPS}/tough")
    wait_gone(new)


def test_a_restarted_agent_finds_its_executors_again(own_mesos: RealMesos, start_scheduler: StartScheduler) -> None:
    """What runs goes on; what ended while the agent was away is told when it is back."""
    scheduler = start_scheduler(own_mesos)
    here = {"constraint": {"intersectionItem": [{"unionData": [{"name": "hostname", "operate": "CLUSTER",
            "type": 4, "set": {"item": ["agent1"]}}]}]}}  # fmt: skip
    scheduler.call("POST", APPS, document("web", 1, SERVER, container=WEB, **here))
    once = document("once", 1, ["/bin/sh", "-c", "while ! test -e go; do sleep 0.05; done; exit 0"], **here)
    scheduler.call("POST", APPS, once)
    [web], [job] = scheduler.wait_running("web", 1), scheduler.wait_running("once", 1)
    wait_pages([web])

    own_mesos.stop_process("s1")
    assert page(web) == 200
    (sandbox(own_mesos, job["ID"]) / "tasks" / the_task(job)["ID"] / "go").touch()
    wait_for(lambda: the_task(job)["Pid"] not in processes_of(job["ID"]), 30, "the end of the job")
    own_mesos.start_process("s1")
    own_mesos.wait_for_agents()

    wait_for(lambda: (scheduler.application("once") or {})["Status"] == "Finish", 60, "the job to be Finish")
    assert the_task(scheduler.taskgroups("once")[0])["ExitCode"] == 0
    [still] = scheduler.wait_running("web", 1)
    assert (still["ID"], the_task(still)["Pid"]) == (web["ID"], the_task(web)["Pid"])
    assert page(still) == 200
    scheduler.call("DELETE", f"{APPS}/web")
    wait_gone(web, job)


def test_configuration_arrives_and_secrets_are_seen_nowhere_else(
    own_mesos: RealMesos, start_scheduler: StartScheduler, tmp_path: Path
) -> None:
    scheduler = start_scheduler(own_mesos, log__level="debug")
    head = {"apiVersion": "v4", "metadata": {"name": "conf", "namespace": "default"}}
    encoded = base64.b64encode(HIDDEN.encode()).decode()
    plain = base64.b64encode(b"port=${PORT_http}").decode()
    scheduler.call(
        "POST", "/namespaces/default/secrets", head | {"kind": "secret", "datas": {"key": {"content": encoded}}}
    )
    scheduler.call(
        "POST",
        "/namespaces/default/configmaps",
        head | {"kind": "configmap", "datas": {"main": {"type": "file", "content": plain}}},
    )
    container = {
        "secrets": [
            {"secretName": "conf", "items": [
                {"type": "file", "dataKey": "key", "keyOrPath": "private/key"},
                {"type": "file", "dataKey": "key", "keyOrPath": f"{tmp_path}/outside/key"},
                {"type": "env", "dataKey": "key", "keyOrPath": "KEY"}]}
        ],
        "configmaps": [{"name": "conf", "items": [{"type": "file", "dataKey": "main", "keyOrPath": "etc/main"}]}],
    }  # fmt: skip
    scheduler.call("POST", APPS, document("app", 1, ["/bin/sh", "-c", 'echo "$KEY" > seen; exec sleep 1000'],
                                          container=container))  # fmt: skip
    [group] = scheduler.wait_running("app", 1)
    home = sandbox(own_mesos, group["ID"]) / "tasks" / the_task(group)["ID"]
    wait_for(lambda: (home / "seen").exists() and (home / "seen").read_text() == f"{HIDDEN}\n", 30, "the variable")
    assert (home / "private/key").read_text() == (home / str(tmp_path)[1:] / "outside/key").read_text() == HIDDEN
    assert not (tmp_path / "outside").exists()
    memory = (home / "private/key").resolve().parent
    assert str(memory).startswith("/dev/shm/")
    assert (home / "private/key").stat().st_mode & 0o777 == 0o400
    assert (home / "etc/main").read_text() == "port=${PORT_http}"
    (home / "seen").unlink()
    assert on_disk(own_mesos.directory) == []

    scheduler.call("DELETE", f"{APPS}/app")
    wait_gone(group)
    assert not memory.exists()
    assert on_disk(own_mesos.directory) == []
    told = [scheduler.log(), *(own_mesos.log(name) for name in ("solo", *own_mesos.agents))]
    told += [(sandbox(own_mesos, group["ID"]) / name).read_text() for name in ("stdout", "stderr")]
    told += [
        scheduler.request("GET", path).text for path in (APPS, f"{APPS}/app/versions", "/namespaces/default/secrets")
    ]
    for text in told:
        assert HIDDEN not in text
        assert encoded not in text
