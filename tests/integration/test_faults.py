"""What happens around a scheduler: stores and clusters that are not there, full disks, broken records, wrong settings.
Real processes; the cluster is the embedded one."""

from __future__ import annotations

import os
import resource
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import requests
from kazoo.client import KazooClient

from tests.integration.localmesos import LocalMesosProcess
from tests.integration.schedulerprocess import SchedulerProcess, document
from tests.integration.storeplaces import ZooKeeperPlace
from tests.integration.zookeeper import ZooKeeperServer
from tests.waiting import wait_for

pytestmark = [pytest.mark.slow, pytest.mark.rotating]

APPS = "/namespaces/default/applications"
NOBODY = "http://127.0.0.1:1"
"""Where no Mesos is."""
SLEEP = ["/bin/sleep", "1000"]

Start = Callable[..., SchedulerProcess]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    started: list[SchedulerProcess] = []

    def start(store: str, mesos: str = NOBODY, **settings: str) -> SchedulerProcess:
        folder = tmp_path / f"scheduler-{len(started)}"
        folder.mkdir()
        started.append(SchedulerProcess(folder, store, mesos, **settings))
        return started[-1].start()

    yield start
    for scheduler in started:
        scheduler.stop()


@pytest.fixture
def own_zookeeper(tmp_path: Path) -> Iterator[ZooKeeperServer]:
    """Not started yet."""
    server = ZooKeeperServer(tmp_path)
    yield server
    server.stop()


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[LocalMesosProcess]:
    """Agents without processes."""
    process = LocalMesosProcess(tmp_path, "--synthetic").start()
    yield process
    process.stop()


def check(scheduler: SchedulerProcess, name: str) -> tuple[bool, str]:
    """A line of /readyz; not well, without words, while it is missing."""
    for line in requests.get(f"{scheduler.url}/readyz", timeout=60).json()["checks"]:
        if line["name"] == name:
            return line["ok"], line["message"]
    return False, ""


def leads(scheduler: SchedulerProcess) -> SchedulerProcess:
    wait_for(lambda: check(scheduler, "leadership")[1].startswith("master"), 30, "leadership")
    return scheduler


def create(scheduler: SchedulerProcess, name: str, instances: int = 1) -> requests.Response:
    return scheduler.request("POST", APPS, document(name, instances, SLEEP, restartPolicy={"policy": "Always"}))


def refusal(answer: requests.Response) -> tuple[int, str]:
    return answer.status_code, answer.json()["data"]["reason"]


# --- the store ----------------------------------------------------------------------------------------------------


@pytest.mark.zookeeper
def test_a_store_that_is_not_there_at_the_start(
    start: Start, own_zookeeper: ZooKeeperServer, cluster: LocalMesosProcess
) -> None:
    scheduler = start(f"zk://{own_zookeeper.hosts}/late", cluster.url)
    wait_for(lambda: "cannot connect to the store" in check(scheduler, "store")[1], 30, "the first attempt")
    assert own_zookeeper.hosts in check(scheduler, "store")[1]
    assert not scheduler.ready()
    assert requests.get(f"{scheduler.url}/healthz", timeout=60).status_code == 200
    refused = create(scheduler, "early")
    assert refusal(refused) == (503, "no_leader") and refused.headers["Retry-After"]
    assert refusal(scheduler.request("GET", "/applications")) == (503, "unavailable")
    own_zookeeper.start()
    scheduler.wait_ready()
    assert scheduler.call("GET", "/applications") == [], "what was refused was not kept for later"
    assert create(scheduler, "late").status_code == 202
    scheduler.wait_running("late", 1)


@pytest.mark.zookeeper
def test_a_store_that_is_lost_and_comes_back(
    start: Start, own_zookeeper: ZooKeeperServer, cluster: LocalMesosProcess
) -> None:
    own_zookeeper.start()
    scheduler = start(f"zk://{own_zookeeper.hosts}/lost", cluster.url).wait_ready()
    assert create(scheduler, "before", 3).status_code == 202
    scheduler.wait_running("before", 3)
    running = cluster.running()
    own_zookeeper.kill()
    answers: list[requests.Response] = []
    during = threading.Thread(target=lambda: answers.append(create(scheduler, "during", 2)))
    during.start()
    wait_for(lambda: "changes have been waiting" in check(scheduler, "store")[1], 30, "the stall to be seen")
    refused = create(scheduler, "refused")
    assert refusal(refused) == (503, "unavailable") and "has not accepted changes" in refused.json()["message"]
    assert scheduler.application("before") is not None, "reads go on"
    own_zookeeper.start()
    during.join(60)
    assert [answer.status_code for answer in answers] == [202]
    scheduler.wait_ready()
    scheduler.wait_running("during", 2)
    assert scheduler.application("refused") is None
    assert running.items() <= cluster.running().items(), "what ran was left alone"


def test_a_full_disk(start: Start, tmp_path: Path) -> None:
    """No file of the process may grow any more: that is what the store sees of a full disk."""
    scheduler = leads(start(f"sqlite:///{tmp_path}/state.db"))
    assert create(scheduler, "before").status_code == 202
    limit = (tmp_path / "state.db-wal").stat().st_size
    assert limit > scheduler.log_file.stat().st_size + 4096, "the log can go on"
    resource.prlimit(scheduler.pid, resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))
    answers: list[requests.Response] = []
    during = threading.Thread(target=lambda: answers.append(create(scheduler, "during")))
    during.start()
    wait_for(lambda: "changes have been waiting" in check(scheduler, "store")[1], 30, "the stall to be seen")
    assert refusal(create(scheduler, "refused")) == (503, "unavailable")
    assert "cannot write" in scheduler.log()
    resource.prlimit(scheduler.pid, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    during.join(60)
    assert [answer.status_code for answer in answers] == [202]
    scheduler.kill()
    leads(scheduler.start())
    assert {app["Name"] for app in scheduler.call("GET", "/applications")} == {"before", "during"}


def test_a_data_folder_that_cannot_be(start: Start, tmp_path: Path) -> None:
    """The scheduler waits: whatever keeps the folder from being there may end."""
    obstacle = tmp_path / "obstacle"
    obstacle.write_text("a file where a folder should be")
    scheduler = start(f"sqlite:///{obstacle}/state.db")
    wait_for(lambda: f"cannot open {obstacle}/state.db" in check(scheduler, "store")[1], 30, "the first attempt")
    assert refusal(create(scheduler, "early")) == (503, "no_leader")
    obstacle.unlink()
    assert create(leads(scheduler), "late").status_code == 202


@pytest.mark.zookeeper
def test_a_broken_record_is_named_and_kept(
    start: Start, zookeeper: ZooKeeperServer, cluster: LocalMesosProcess, tmp_path: Path
) -> None:
    root = f"/broken-{tmp_path.name}"
    scheduler = start(f"zk://{zookeeper.hosts}{root}", cluster.url, store__session_timeout="4").wait_ready()
    for name in ("good", "bad"):
        assert create(scheduler, name).status_code == 202
        scheduler.wait_running(name, 1)
    scheduler.kill()
    client = KazooClient(zookeeper.hosts)
    client.start()
    try:
        place = ZooKeeperPlace(zookeeper.hosts, root, client)
        place.plant("application", "default/bad", b'{"namespace": "default", "name": ')
        place.plant("transaction", "unheard-of", b"\xff\x00")
        leads(scheduler.start()).wait_ready()
        assert check(scheduler, "store") == (True, "2 records quarantined, see the log")
        for named in ("default/bad", "unheard-of"):
            assert [line for line in scheduler.log().splitlines() if "record quarantined" in line and named in line]
        scheduler.call("PUT", f"{APPS}/good/scale/2")
        scheduler.wait_running("good", 2)
        assert refusal(scheduler.request("GET", f"{APPS}/bad")) == (404, "not_found")
        assert place.raw("application", "default/bad") == b'{"namespace": "default", "name": '
        assert place.raw("transaction", "unheard-of") == b"\xff\x00"
    finally:
        client.stop()
        client.close()


# --- Mesos --------------------------------------------------------------------------------------------------------


def test_a_cluster_that_vanishes_with_all_its_tasks(start: Start, cluster: LocalMesosProcess, tmp_path: Path) -> None:
    scheduler = start(f"sqlite:///{tmp_path}/state.db", cluster.url).wait_ready()
    assert create(scheduler, "web", 3).status_code == 202
    scheduler.wait_running("web", 3)
    cluster.kill()
    wait_for(lambda: "not subscribed" in check(scheduler, "mesos")[1], 30, "the loss to be seen")
    assert not scheduler.ready()
    assert scheduler.request("PUT", f"{APPS}/web/scale/5").status_code == 202, "work is taken"
    cluster.start()

    def replaced() -> bool:
        groups = scheduler.taskgroups("web")
        known = {task["ID"] for group in groups for task in group["Taskgroup"]}
        indexes = sorted(group["InstanceID"] for group in groups if group["Status"] == "Running")
        return indexes == [0, 1, 2, 3, 4] and known == set(cluster.running())

    wait_for(replaced, 60, lambda: f"replacements: {scheduler.taskgroups('web')} {cluster.running()}")


# --- the start ----------------------------------------------------------------------------------------------------


def program(*arguments: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "bcs_scheduler.main", *arguments]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def test_what_cannot_start_says_why_in_one_line(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("[scheduler]\noffer_hodl = 3\n")
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        attempts = {
            "flag --store": ["serve", "--store=redis://x"],
            f"{file}: scheduler.offer_hodl": ["serve", f"--config={file}"],
            f"127.0.0.1:{port}: Address already in use": ["serve", "--store=memory:", f"--api=127.0.0.1:{port}"],
            f"--data {file}/x": ["dev", f"--data={file}/x"],
            "ports: ": ["dev", f"--data={tmp_path}/data", "--ports=30-20"],
        }
        processes = {said: program(*arguments) for said, arguments in attempts.items()}
        ended = {said: (process.communicate(timeout=60)[1], process.returncode) for said, process in processes.items()}
    for said, (text, code) in ended.items():
        assert code == 2, text
        assert said in text and text.startswith("bcs-scheduler: ") and text.count("\n") == 1, text


# --- everything in one process ------------------------------------------------------------------------------------


class Dev:
    """`bcs-scheduler dev` on one data folder."""

    def __init__(self, data: Path) -> None:
        self.data = data
        self._process: subprocess.Popen[str] | None = None
        self.client = SchedulerProcess(data.parent, "", "")

    def start(self) -> SchedulerProcess:
        self._process = program("dev", f"--data={self.data}", "--api=127.0.0.1:0", "--ports=24400-24499")
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line.startswith("api http://"), line
        self.client.url = line.split()[1]
        return self.client

    def end(self, number: int = signal.SIGTERM) -> int:
        process, self._process = self._process, None
        if process is None:
            return 0
        process.send_signal(number)
        try:
            process.communicate(timeout=30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            raise
        return process.returncode


@pytest.fixture
def dev(tmp_path: Path) -> Iterator[Dev]:
    made = Dev(tmp_path / "data")
    yield made
    made.end()


def sleepers(mark: str) -> set[int]:
    """Processes with this word in their command line."""
    found = set()
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                words = (entry / "cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            if words[0] == b"/bin/sleep" and mark.encode() in words:
                found.add(int(entry.name))
    return found


def running(client: SchedulerProcess, name: str, count: int) -> list[dict[str, Any]]:
    wait_for(lambda: (client.application(name) or {}).get("RunningInstances") == count, 60, f"{count} of {name}")
    return client.taskgroups(name)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_everything_embedded_comes_back_from_its_folder(dev: Dev, number: int) -> None:
    """Its processes end with it, however it ends; their replacements start with it."""
    seconds = f"{os.getpid()}{number}"  # by which its processes are known
    client = leads(dev.start())
    body = document("web", 3, ["/bin/sleep", seconds], restartPolicy={"policy": "Always"})
    client.call("POST", APPS, body)
    before = {group["ID"] for group in running(client, "web", 3)}
    first = sleepers(seconds)
    assert len(first) == 3
    dev.end(number)
    wait_for(lambda: not sleepers(seconds), 30, "all processes to be gone")
    client = leads(dev.start())
    wait_for(lambda: len(sleepers(seconds)) == 3, 60, "replacements")
    after = {group["ID"] for group in running(client, "web", 3)}
    assert before.isdisjoint(after)
    assert first.isdisjoint(sleepers(seconds))


def test_two_on_one_folder(dev: Dev) -> None:
    dev.start()
    second = program("dev", f"--data={dev.data}", "--api=127.0.0.1:0", "--ports=24400-24499")
    text = second.communicate(timeout=60)[1]
    assert second.returncode == 2
    assert f"another cluster runs in {dev.data}" in text and text.count("\n") == 1
    assert dev.client.ready() or dev.client.wait_ready()
    assert dev.end() == 0
    dev.start()
