"""Services through a failover: who follows endpoints comes to the truth, and what is published is what the API says."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from kazoo.client import KazooClient

from bcs_scheduler.cli.client.client import Client
from bcs_scheduler.cli.commands.reading.follow import Endpoints
from tests.integration.localmesos import LocalMesosProcess
from tests.integration.schedulerprocess import SchedulerProcess, document
from tests.integration.zookeeper import ZooKeeperServer
from tests.waiting import wait_for

pytestmark = [pytest.mark.zookeeper, pytest.mark.rotating]

ENDPOINTS = "/namespaces/default/endpoints"


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[LocalMesosProcess]:
    local = LocalMesosProcess(tmp_path, "--ports=24500-24599", "--agents=2").start()
    yield local
    local.stop()


class Follower:
    """Keeps the last state of each endpoint it was told of, and their versions in the order in which they came."""

    def __init__(self, url: str) -> None:
        self._endpoints = Endpoints(Client(url), "default", frozenset())
        self.found: dict[str, Any] = {}
        self.versions: dict[str, list[int]] = {}

    def look(self) -> dict[str, Any]:
        """What is known now."""
        changed = self._endpoints.take(0.05)
        if changed is not None:
            self.found = {endpoint["metadata"]["name"]: endpoint for endpoint in changed}
            for name, endpoint in self.found.items():
                self.versions.setdefault(name, []).append(int(endpoint["resourceVersion"]))
        return self.found

    def close(self) -> None:
        self._endpoints.close()


def listed(scheduler: SchedulerProcess) -> dict[str, Any]:
    return {endpoint["metadata"]["name"]: endpoint for endpoint in scheduler.call("GET", ENDPOINTS)}


def published(client: KazooClient, root: str) -> dict[str, list[str]]:
    """Ids of the taskgroups of each endpoint."""
    found = {}
    base = f"{root}/endpoint/default"
    for name in client.get_children(base) if client.exists(base) else []:
        node = json.loads(client.get(f"{base}/{name}")[0])
        found[name] = [member["targetRef"]["id"] for member in node["eps"] or ()]
    return found


def ready(endpoint: Any) -> list[str]:
    return [member["targetRef"]["id"] for member in endpoint["eps"] if member["ready"]]


def launch(scheduler: SchedulerProcess, name: str) -> None:
    body = document(name, 3, ["/bin/sleep", "1000"], container={"ports": [{"name": "http", "protocol": "tcp"}]})
    body["metadata"]["labels"] = {"app": name}
    scheduler.call("POST", "/namespaces/default/applications", body)
    spec = {"selector": {"app": name}, "ports": [{"name": "http", "servicePort": 80}]}
    service = {"kind": "service", "metadata": {"name": name}, "spec": spec}
    scheduler.call("POST", "/namespaces/default/services", service)


def test_followers_and_zookeeper_come_to_the_truth(
    tmp_path: Path, zookeeper: ZooKeeperServer, cluster: LocalMesosProcess
) -> None:
    store, root = f"zk://{zookeeper.hosts}/services-{uuid4().hex[:8]}", f"/blueking-{uuid4().hex[:8]}"
    settings = {"services__publish": f"zk://{zookeeper.hosts}{root}", "store__session_timeout": "4"}
    folders = [tmp_path / "first", tmp_path / "second"]
    for folder in folders:
        folder.mkdir()
    first, second = (SchedulerProcess(folder, store, cluster.url, **settings) for folder in folders)
    client = KazooClient(hosts=zookeeper.hosts)
    client.start()
    follower = None
    try:
        first.start().wait_ready()
        second.start().wait_ready()
        follower = Follower(second.url)
        for name in ("a", "b"):
            launch(first, name)
        wait_for(lambda: {name: len(ready(e)) for name, e in follower.look().items()} == {"a": 3, "b": 3}, 60)
        assert follower.found == listed(first)
        wait_for(lambda: published(client, root) == {n: ready(e) for n, e in listed(first).items()}, 30)

        first.kill()
        victim = ready(follower.found["a"])[0]
        cluster.control("fail_tasks", taskgroup=victim)
        second.wait_leading()
        wait_for(lambda: len(ready(listed(second)["a"])) == 3 and victim not in ready(listed(second)["a"]), 60)
        second.call("DELETE", "/namespaces/default/services/b")
        wait_for(lambda: list(follower.look()) == ["a"] and follower.found == listed(second), 30)
        assert follower.versions["a"] == sorted(follower.versions["a"])
        wait_for(lambda: published(client, root) == {"a": ready(listed(second)["a"])}, 30)
        assert json.loads(client.get(f"{root}/publisher")[0])["url"] == second.url
        checks = second.session.get(second.url + "/readyz", timeout=60).json()["checks"]
        assert [check["ok"] for check in checks if check["name"] == "publishing"] == [True]
    finally:
        if follower is not None:
            follower.close()
        client.stop()
        first.kill()
        second.stop()
