"""Real scheduler processes on a real ZooKeeper ensemble of three, and an embedded cluster of synthetic agents."""

from __future__ import annotations

import http.client
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import requests
from kazoo.client import KazooClient

from bcs_scheduler.local.cluster import LocalCluster
from bcs_scheduler.local.settings import ClusterSettings
from store.zookeeper.tree import Tree
from tests.integration.gate import Gate
from tests.integration.schedulerprocess import PREFIX, SchedulerProcess, document
from tests.integration.storeplaces import catch_up
from tests.integration.zookeeperensemble import ZooKeeperEnsemble
from tests.waiting import wait_for

pytestmark = [pytest.mark.zookeeper, pytest.mark.slow, pytest.mark.rotating]

APPLICATIONS = "/namespaces/default/applications"
FOREVER = ["/bin/sleep", "1000"]
START_DELAY = 0.2
"""Seconds until a task runs, so that a launch lasts long enough to be disturbed."""

StartScheduler = Callable[..., SchedulerProcess]


@pytest.fixture
def cluster() -> Iterator[LocalCluster]:
    settings = ClusterSettings(agents=20, cpus=64, mem=65536, disk=65536, synthetic=True, start_delay=START_DELAY)
    with LocalCluster(settings) as cluster:
        yield cluster


@pytest.fixture
def root(tmp_path: Path) -> str:
    return f"/{tmp_path.name}"


@pytest.fixture
def start_scheduler(
    zookeeper_ensemble: ZooKeeperEnsemble, cluster: LocalCluster, root: str, tmp_path: Path
) -> Iterator[StartScheduler]:
    """Starts schedulers on one store and one cluster of this test's own, the first of which leads."""
    started: list[SchedulerProcess] = []

    def start(hosts: str = zookeeper_ensemble.hosts, **settings: str) -> SchedulerProcess:
        folder = tmp_path / str(len(started))
        folder.mkdir()
        scheduler = SchedulerProcess(folder, f"zk://{hosts}{root}", cluster.url, **settings)
        started.append(scheduler)
        return scheduler.start().wait_ready()

    yield start
    for scheduler in started:
        scheduler.kill()


@pytest.fixture
def gates(zookeeper_ensemble: ZooKeeperEnsemble) -> Iterator[list[Gate]]:
    """One before each member."""
    gates = [Gate(member.port) for member in zookeeper_ensemble.members]
    yield gates
    for gate in gates:
        gate.stop()


def readiness(scheduler: SchedulerProcess) -> dict[str, Any]:
    found: dict[str, Any] = scheduler.session.get(scheduler.url + "/readyz", timeout=60).json()
    return found


def check(scheduler: SchedulerProcess, name: str) -> tuple[bool, str]:
    return next((c["ok"], c["message"]) for c in readiness(scheduler)["checks"] if c["name"] == name)


def leads(scheduler: SchedulerProcess, epoch: int) -> bool:
    found = readiness(scheduler)
    return found["ready"] and check(scheduler, "leadership") == (True, f"master, epoch {epoch}")


def mesos_tasks(cluster: LocalCluster) -> dict[str, str]:
    """State of each task that the cluster has not yet settled with a scheduler, by id."""
    frameworks = requests.get(cluster.url + "/state", timeout=60).json()["frameworks"]
    return {task["id"]: task["state"] for framework in frameworks for task in framework["tasks"]}


def indices_running(cluster: LocalCluster) -> list[int]:
    """Index of each taskgroup that the cluster runs, sorted; an index that runs twice is there twice."""
    return sorted(int(task.split(".")[2]) for task, state in mesos_tasks(cluster).items() if state == "TASK_RUNNING")


def wait_exactly(scheduler: SchedulerProcess, cluster: LocalCluster, name: str, count: int) -> None:
    """One taskgroup per index, in the scheduler's eyes and in the cluster's."""
    groups = scheduler.wait_running(name, count)
    assert sorted(group["InstanceID"] for group in groups) == list(range(count))
    wait_for(
        lambda: indices_running(cluster) == list(range(count)),
        what=lambda: f"one task per index of {count}: {indices_running(cluster)}",
    )


def test_without_a_quorum_writes_wait_then_are_refused_and_nothing_is_lost(
    zookeeper_ensemble: ZooKeeperEnsemble, cluster: LocalCluster, start_scheduler: StartScheduler
) -> None:
    leader, standby = start_scheduler(), start_scheduler()
    leader.call("POST", APPLICATIONS, document("web", 5, FOREVER, restartPolicy={"policy": "Always"}))
    victim = leader.wait_running("web", 5)[3]
    for member in zookeeper_ensemble.members[:2]:
        member.kill()
    with ThreadPoolExecutor() as pool:
        waiting: Future[requests.Response] = pool.submit(leader.request, "PUT", f"{APPLICATIONS}/web/scale/8")
        fail = {"action": "fail_tasks", "taskgroup": victim["ID"]}
        assert requests.post(cluster.url + "/control", json=fail, timeout=60).status_code == 200
        wait_for(lambda: not check(standby, "store")[0], what="an unready standby")
        wait_for(lambda: "changes have been waiting" in check(leader, "store")[1], what="a stalled leader")
        assert not leader.ready() and not standby.ready()
        refused = leader.request("PUT", f"{APPLICATIONS}/web/scale/9")
        assert refused.status_code == 503
        assert "nothing was changed" in refused.text or "has not accepted changes" in refused.text
        assert leader.application("web") is not None, "reads go on"
        assert not waiting.done()
        assert len(indices_running(cluster)) == 4, "nothing is launched before it is stored"

        zookeeper_ensemble.heal()
        accepted = waiting.result(60)
    assert accepted.status_code == 202
    assert leader.wait_transaction(accepted.json()["data"]["transactionID"])["status"] == "FINISH"
    wait_exactly(leader, cluster, "web", 8)
    assert victim["ID"] not in {group["ID"] for group in leader.taskgroups("web")}
    assert leads(leader, epoch=1), "the session has survived, so has the term"
    wait_for(standby.ready, what="a ready standby")
    assert check(standby, "leadership") == (True, f"slave of {leader.url}")


def test_a_leader_that_stood_still_for_longer_than_its_session_writes_nothing_when_it_wakes(
    zookeeper_ensemble: ZooKeeperEnsemble, cluster: LocalCluster, start_scheduler: StartScheduler, root: str
) -> None:
    frozen, standby = (start_scheduler(store__session_timeout="4") for _ in range(2))
    launch = frozen.call("POST", APPLICATIONS, document("many", 200, FOREVER))
    wait_for(lambda: mesos_tasks(cluster), what="the first launched tasks")
    frozen.suspend()
    late = http.client.HTTPConnection(frozen.url.removeprefix("http://"), timeout=60)
    late.request("PUT", f"{PREFIX}{APPLICATIONS}/many/scale/250", headers={"Content-Length": "0"})

    wait_for(lambda: leads(standby, epoch=2), what="the standby leads")
    assert standby.wait_transaction(launch["transactionID"])["status"] == "FINISH"
    wait_exactly(standby, cluster, "many", 200)
    tasks = mesos_tasks(cluster)
    with connected(zookeeper_ensemble.hosts) as client:
        before = written(client, Tree(root), leading=2)
        frozen.resume()
        # 408: the time for the request was over before the process woke up and read the request.
        assert late.getresponse().status in (307, 408, 503, 504)
        wait_for(lambda: check(frozen, "leadership")[1] == f"slave of {standby.url}", what="the woken one steps down")
        assert written(client, Tree(root), leading=2) == before
    assert [readiness(scheduler)["role"] for scheduler in (frozen, standby)] == ["slave", "master"]
    assert leads(standby, epoch=2)
    assert mesos_tasks(cluster) == tasks
    wait_for(frozen.ready, what="the woken one is ready")
    assert standby.stop() == 0
    wait_for(lambda: leads(frozen, epoch=3), what="the woken one may lead again")
    wait_exactly(frozen, cluster, "many", 200)


def test_a_leader_cut_off_from_zookeeper_alone_gives_way(
    zookeeper_ensemble: ZooKeeperEnsemble,
    cluster: LocalCluster,
    start_scheduler: StartScheduler,
    root: str,
    gates: list[Gate],
) -> None:
    """It still hears Mesos, and learns from it that another has taken its place. What it had sent to ZooKeeper arrives
    when that one has long been leading."""
    cut = start_scheduler(",".join(gate.address for gate in gates), store__session_timeout="4")
    standby = start_scheduler(store__session_timeout="4")
    launch = cut.call("POST", APPLICATIONS, document("many", 200, FOREVER))
    wait_for(lambda: indices_running(cluster), what="the first running tasks")
    for gate in gates:
        gate.close()
    wait_for(lambda: leads(standby, epoch=2), what="the standby leads")
    wait_for(lambda: readiness(cut)["role"] == "slave", what="the one that is cut off steps down")
    assert cut.request("PUT", f"{APPLICATIONS}/many/scale/250").status_code == 503
    assert standby.wait_transaction(launch["transactionID"])["status"] == "FINISH"
    wait_exactly(standby, cluster, "many", 200)
    tasks = mesos_tasks(cluster)
    with connected(zookeeper_ensemble.hosts) as client:
        before = written(client, Tree(root), leading=2)
        for gate in gates:
            gate.open()
        wait_for(lambda: check(cut, "leadership")[1] == f"slave of {standby.url}", what="a standby that knows it")
        assert written(client, Tree(root), leading=2) == before
    assert leads(standby, epoch=2)
    assert mesos_tasks(cluster) == tasks


@contextmanager
def connected(hosts: str) -> Iterator[KazooClient]:
    client = KazooClient(hosts)
    client.start()
    try:
        yield client
    finally:
        client.stop()
        client.close()


def written(client: KazooClient, tree: Tree, leading: int) -> dict[str, int]:
    """The transaction that last changed each node that is not about elections: a write of a deposed leader shows, be
    it no more than its term's counter. Counter and log of the term that leads are left out: that leader rightly goes on
    committing, also batches that change no record. So is the framework record, where that leader marks that it is at
    work."""
    catch_up(client, tree)
    found: dict[str, int] = {}
    paths = [tree.root]
    for path in paths:
        left_out = (tree.slot(f"{leading % 2}-"), f"{tree.kind('framework')}/")
        if path not in (tree.election, tree.counter(leading)) and not path.startswith(left_out):
            paths += [f"{path}/{child}" for child in client.get_children(path)]
            found[path] = client.exists(path).mzxid
    return found


def test_a_rolling_restart_of_all_members_under_operations(
    zookeeper_ensemble: ZooKeeperEnsemble, cluster: LocalCluster, start_scheduler: StartScheduler
) -> None:
    # All operations are on one application: none of them may be forgotten before it is looked at.
    keep = {"scheduler__transaction_keep": "1000"}
    leader, standby = start_scheduler(**keep), start_scheduler(**keep)
    operations = Operations(leader)
    for member in [*zookeeper_ensemble.followers(), zookeeper_ensemble.leader()]:
        member.stop()
        operations.go_on()
        member.start()
    count = operations.end()
    wait_exactly(leader, cluster, "many", count)
    listed = leader.call("GET", "/transactions", limit=1000)
    assert {t["transactionID"]: t["status"] for t in listed} == dict.fromkeys(operations.accepted, "FINISH")
    assert leads(leader, epoch=1)
    assert check(standby, "leadership") == (True, f"slave of {leader.url}")


class Operations:
    """A thread that launches 300 taskgroups and then scales to and fro, one operation after the other."""

    def __init__(self, leader: SchedulerProcess) -> None:
        self.accepted: list[str] = []
        self._leader = leader
        self._stopping = threading.Event()
        self._pool = ThreadPoolExecutor(1)
        self._count = self._pool.submit(self._run)

    def _run(self) -> int:
        count = 300
        self._operate("POST", APPLICATIONS, document("many", count, FOREVER))
        while not self._stopping.is_set() or len(self.accepted) < 2:
            count = 360 if count == 300 else 300
            self._operate("PUT", f"{APPLICATIONS}/many/scale/{count}")
        return count

    def _operate(self, method: str, path: str, body: Any = None) -> None:
        identity = self._leader.call(method, path, body)["transactionID"]
        self.accepted.append(identity)
        self._leader.wait_transaction(identity)

    def go_on(self) -> None:
        """Waits until one more operation has been accepted."""
        wanted = len(self.accepted) + 1
        wait_for(lambda: len(self.accepted) >= wanted or self._count.done(), what="operations are accepted")

    def end(self) -> int:
        """How many taskgroups the last operation wanted; raises what went wrong with any of them."""
        self._stopping.set()
        self._pool.shutdown()
        return self._count.result()


def test_the_leading_scheduler_and_the_leading_member_die_together(
    zookeeper_ensemble: ZooKeeperEnsemble, cluster: LocalCluster, start_scheduler: StartScheduler
) -> None:
    leader, standby = (start_scheduler(store__session_timeout="4") for _ in range(2))
    launch = leader.call("POST", APPLICATIONS, document("many", 200, FOREVER))
    wait_for(lambda: indices_running(cluster), what="the first running tasks")
    leader.kill()
    zookeeper_ensemble.leader().kill()
    wait_for(lambda: leads(standby, epoch=2), what="the standby leads")
    assert standby.wait_transaction(launch["transactionID"])["status"] == "FINISH"
    wait_exactly(standby, cluster, "many", 200)
