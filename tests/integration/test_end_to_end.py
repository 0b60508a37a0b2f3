"""The main job on the real Mesos and the real ZooKeeper: a document in, running processes out, whatever dies."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import requests

from tests.integration.mesoscluster import RealMesos
from tests.integration.schedulerprocess import SchedulerProcess, document
from tests.integration.zookeeper import ZooKeeperServer
from tests.waiting import wait_for

pytestmark = [pytest.mark.mesos, pytest.mark.zookeeper, pytest.mark.slow]

SERVER = ["python3", "-u", "-m", "http.server", "${bcs.ports.http}", "--bind", "127.0.0.1"]
HTTP_PORT = {"ports": [{"name": "http", "protocol": "tcp", "containerPort": 0, "hostPort": 0}]}

SESSION_SECONDS = "4"
"""Until a leader that was killed is followed by another, or by itself."""

StartScheduler = Callable[..., SchedulerProcess]


@pytest.fixture
def start_scheduler(zookeeper: ZooKeeperServer, tmp_path: Path) -> Iterator[StartScheduler]:
    """Starts schedulers on a store of this test's own; ends them afterwards."""
    started: list[SchedulerProcess] = []

    def start(mesos: str, **settings: str) -> SchedulerProcess:
        folder = tmp_path / str(len(started))
        folder.mkdir()
        settings = {"store__session_timeout": SESSION_SECONDS, **settings}
        scheduler = SchedulerProcess(folder, f"zk://{zookeeper.hosts}/{tmp_path.name}", mesos, **settings)
        started.append(scheduler)
        return scheduler.start()

    yield start
    for scheduler in started:
        scheduler.stop()


def running_in_mesos(mesos: RealMesos) -> list[str]:
    """Ids of tasks that the real master holds as running."""
    frameworks = mesos.state()["frameworks"]
    return [t["id"] for f in frameworks for t in f["tasks"] if t["state"] == "TASK_RUNNING"]


def index_of(task_id: str) -> int:
    return int(task_id.split(".")[2])


def page(taskgroup: dict[str, Any]) -> int:
    """Status of the page a taskgroup serves; 0 while nothing listens (Running means started, not listening)."""
    port = taskgroup["Taskgroup"][0]["PortMappings"][0]["HostPort"]
    try:
        return requests.get(f"http://127.0.0.1:{port}/", timeout=30).status_code
    except requests.ConnectionError:
        return 0


def test_an_application_from_creation_to_deletion(real_mesos: RealMesos, start_scheduler: StartScheduler) -> None:
    scheduler = start_scheduler(real_mesos.url).wait_ready()
    accepted = scheduler.call(
        "POST", "/namespaces/default/applications", document("web", 3, SERVER, container=HTTP_PORT)
    )
    first = scheduler.wait_running("web", 3)
    assert scheduler.wait_transaction(accepted["transactionID"])["status"] == "FINISH"
    for taskgroup in first:
        wait_for(lambda group=taskgroup: page(group) == 200, 30, "a page")  # type: ignore[misc]

    scheduler.call("PUT", "/namespaces/default/applications/web/scale/5")
    assert {g["InstanceID"] for g in scheduler.wait_running("web", 5)} == set(range(5))

    update = scheduler.call(
        "PUT",
        "/namespaces/default/applications",
        document("web", 5, [*SERVER, "--directory", "/tmp"], container=HTTP_PORT),
    )
    assert scheduler.wait_transaction(update["transactionID"])["status"] == "FINISH"
    updated = scheduler.wait_running("web", 5)
    assert {g["VersionName"] for g in updated}.isdisjoint({g["VersionName"] for g in first})

    victim = updated[2]
    reschedule = scheduler.call("PUT", f"/namespaces/default/applications/web/taskgroups/{victim['ID']}/rescheduler")
    assert scheduler.wait_transaction(reschedule["transactionID"])["status"] == "FINISH"
    ids = {g["ID"] for g in scheduler.wait_running("web", 5)}
    assert victim["ID"] not in ids

    scheduler.call("PUT", "/namespaces/default/applications/web/scale/2")
    assert {g["InstanceID"] for g in scheduler.wait_running("web", 2)} == {0, 1}

    deletion = scheduler.call("DELETE", "/namespaces/default/applications/web")
    assert scheduler.wait_transaction(deletion["transactionID"])["status"] == "FINISH"
    assert scheduler.application("web") is None
    wait_for(lambda: not running_in_mesos(real_mesos), 30, "an empty cluster")
    assert scheduler.stop() == 0


def test_a_dead_agent_is_survived(start_scheduler: StartScheduler, own_mesos: RealMesos) -> None:
    scheduler = start_scheduler(own_mesos.url).wait_ready()
    body = document("spread", 6, ["/bin/sleep", "1000"], restartPolicy={"policy": "Always"})
    body["unreachablePolicy"] = {"replaceAfterSeconds": 0}
    scheduler.call("POST", "/namespaces/default/applications", body)
    before = scheduler.wait_running("spread", 6)
    on_dead = {g["ID"] for g in before if g["HostName"] == "agent3"}
    assert on_dead, "the spread scoring uses every agent"
    own_mesos.kill_agent("s3", with_tasks=True)

    def replaced() -> bool:
        groups = scheduler.taskgroups("spread")
        return (
            len(groups) == 6
            and all(g["Status"] == "Running" and g["HostName"] != "agent3" for g in groups)
            and on_dead.isdisjoint(g["ID"] for g in groups)
        )

    wait_for(replaced, 90, lambda: f"replacements: {scheduler.taskgroups('spread')}")
    assert {g["InstanceID"] for g in scheduler.taskgroups("spread")} == set(range(6))


def test_a_failed_over_master_changes_nothing(ha_mesos: RealMesos, start_scheduler: StartScheduler) -> None:
    scheduler = start_scheduler(ha_mesos.zk_url).wait_ready()
    scheduler.call("POST", "/namespaces/default/applications", document("steady", 4, ["/bin/sleep", "1000"]))
    before = {g["ID"] for g in scheduler.wait_running("steady", 4)}
    old = ha_mesos.wait_for_leader()
    ha_mesos.kill_process(old)
    wait_for(lambda: ha_mesos.leader() not in ("", old), 60, "another leading master")
    ha_mesos.wait_for_agents(3, 150)  # agents pause between two attempts to register, up to a minute
    scheduler.wait_ready()
    scheduler.call("PUT", "/namespaces/default/applications/steady/scale/6")
    after = {g["ID"] for g in scheduler.wait_running("steady", 6, 90)}
    assert before < after
    wait_for(lambda: len(running_in_mesos(ha_mesos)) == 6, 30, "six running tasks")


@pytest.mark.rotating
def test_kill_9_in_the_middle_of_launching_200(start_scheduler: StartScheduler, big_mesos: RealMesos) -> None:
    scheduler = start_scheduler(big_mesos.url).wait_ready()
    accepted = scheduler.call("POST", "/namespaces/default/applications", document("many", 200, ["/bin/sleep", "1000"]))
    wait_for(lambda: (scheduler.application("many") or {}).get("RunningInstances", 0) >= 20, 60, "some are running")
    scheduler.kill()
    running_at_death = set(running_in_mesos(big_mesos))
    scheduler.start().wait_ready()
    groups = scheduler.wait_running("many", 200, 180)
    assert {g["InstanceID"] for g in groups} == set(range(200))
    assert scheduler.wait_transaction(accepted["transactionID"])["status"] == "FINISH"
    wait_for(lambda: len(running_in_mesos(big_mesos)) == 200, 60, "exactly 200 tasks in Mesos")
    running = set(running_in_mesos(big_mesos))
    assert sorted(index_of(task) for task in running) == list(range(200))
    assert {task["ID"] for g in groups for task in g["Taskgroup"]} == running
    assert running_at_death <= running, "what ran already was not launched again"


def test_a_standby_takes_over(real_mesos: RealMesos, start_scheduler: StartScheduler) -> None:
    leader = start_scheduler(real_mesos.url).wait_ready()
    standby = start_scheduler(real_mesos.url).wait_ready()
    leader.call("POST", "/namespaces/default/applications", document("shared", 2, ["/bin/sleep", "1000"]))
    before = {g["ID"] for g in leader.wait_running("shared", 2)}
    assert {g["ID"] for g in standby.wait_running("shared", 2)} == before, "a standby answers reads"
    write = standby.request("PUT", "/namespaces/default/applications/shared/scale/3")
    assert write.status_code == 307
    assert write.headers["Location"].startswith(leader.url)
    leader.kill()
    wait_for(
        lambda: standby.request("GET", "/cluster/endpoints").status_code == 200 and is_master(standby), 60, "master"
    )
    standby.wait_leading()
    standby.call("PUT", "/namespaces/default/applications/shared/scale/3")
    assert before < {g["ID"] for g in standby.wait_running("shared", 3)}
    standby.call("DELETE", "/namespaces/default/applications/shared")
    wait_for(lambda: standby.application("shared") is None, 30, "deletion")


def is_master(scheduler: SchedulerProcess) -> bool:
    checks = scheduler.session.get(scheduler.url + "/readyz", timeout=30).json()
    return "master" in str(checks)


def test_mesos_away_at_the_start_and_later(start_scheduler: StartScheduler, own_mesos: RealMesos) -> None:
    """Unready while it is away; nothing is lost; all goes on when it is back."""
    own_mesos.kill_process("solo")
    scheduler = start_scheduler(own_mesos.url)
    wait_for(lambda: scheduler.session.get(scheduler.url + "/readyz", timeout=30).status_code == 503, 30, "unready")
    wait_for(lambda: is_master(scheduler), 30, "leadership")
    scheduler.call("POST", "/namespaces/default/applications", document("late", 2, ["/bin/sleep", "1000"]))
    own_mesos.start_process("solo")
    scheduler.wait_running("late", 2, 90)
