"""Quotas, admission webhooks and custom resources of a real scheduler process: they hold over a kill -9."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from tests.integration.localmesos import LocalMesosProcess
from tests.integration.schedulerprocess import SchedulerProcess, document
from tests.integration.zookeeper import ZooKeeperServer

APPS = "/namespaces/default/applications"
QUOTA = {"kind": "namespace", "metadata": {"name": "default"}, "spec": {"quota": {"taskgroups": 3}}}
KIND = {"kind": "crr", "spec": {"names": {"kind": "Database"}}}
CUSTOM = {"kind": "Database", "metadata": {"name": "main"}, "spec": {"size": [1, {"a": None}]}}


class Labelling(BaseHTTPRequestHandler):
    """Puts a label on everything, and takes nothing that is called bad."""

    def do_POST(self) -> None:
        given = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if given["metadata"]["name"] == "bad":
            status, said = 403, {"message": "no bad names here"}
        else:
            given["metadata"]["labels"] = {"checked": "yes"}
            status, said = 200, given
        body = json.dumps(said).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args: Any) -> None:
        pass


@pytest.fixture
def webhook_url() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Labelling)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_address[1]}/"
    server.shutdown()
    server.server_close()
    thread.join()


def webhook(name: str, url: str, **more: Any) -> dict[str, Any]:
    hook = {"name": "labels", "failurePolicy": "Fail", "clientConfig": {"url": url}}
    about = {"operation": "create", "kind": "Application"}
    metadata = {"name": name, "namespace": "system"}
    return {
        "kind": "admissionwebhook", "metadata": metadata, "resourcesRef": about, "admissionWebhooks": [hook], **more
    }  # fmt: skip


@pytest.mark.parametrize("store", ["sqlite", pytest.param("zookeeper", marks=pytest.mark.zookeeper)])
def test_they_hold_over_a_kill(tmp_path: Path, store: str, webhook_url: str, request: pytest.FixtureRequest) -> None:
    url = f"sqlite:///{tmp_path / 'state.db'}"
    if store == "zookeeper":
        zookeeper: ZooKeeperServer = request.getfixturevalue("zookeeper")
        url = f"zk://{zookeeper.hosts}/extensions"
    cluster = LocalMesosProcess(tmp_path, "--synthetic").start()
    process = SchedulerProcess(tmp_path, url, cluster.url, webhooks__local="true", store__session_timeout="4")
    try:
        process.start().wait_ready()
        process.call("POST", "/namespaces", QUOTA)
        process.call("POST", "/admissionwebhook", webhook("changing", webhook_url))
        process.call("POST", "/admissionwebhook", webhook("refusing", webhook_url, validating=True))
        process.call("POST", "/crr/register", KIND)
        process.call("POST", "/crd/namespaces/shop/Database", CUSTOM)
        process.call("POST", APPS, document("web", 2, ["serve"]))
        process.wait_running("web", 2)
        _holds(process)
        process.kill()
        process.start().wait_leading()
        _holds(process)
        assert process.call("GET", "/crd/namespaces/shop/Database/main")["spec"] == CUSTOM["spec"]
        metrics = process.session.get(f"{process.url}/metrics", timeout=30).text
        counted = set(re.findall(r'webhook_calls_total{webhook="([^"]*)",outcome="([^"]*)"} 1.0', metrics))
        assert counted == {
            ("system/changing/labels", "failed"),
            ("system/changing/labels", "changed"),
            ("system/refusing/labels", "allowed"),
        }
    finally:
        process.stop()
        cluster.stop()


def _holds(process: SchedulerProcess) -> None:
    """What was set, before and after."""
    found = process.application("web")
    assert found is not None and found["ObjectMeta"]["labels"] == {"checked": "yes"}
    refused = process.request("POST", APPS, document("bad", 1, ["serve"])).json()
    assert refused["data"]["reason"] == "admission" and "HTTP 403" in refused["message"]
    for name, scale in (("more", ""), ("web", f"{APPS}/web/scale/4")):
        answer = process.request("PUT", scale) if scale else process.request("POST", APPS, document(name, 2, ["serve"]))
        said = answer.json()
        assert (answer.status_code, said["data"]["reason"]) == (409, "quota_exceeded"), said
        assert "taskgroups: quota 3, used 2, 2 more asked for" in said["message"]
    shown = process.call("GET", "/namespaces/default")
    assert (shown["spec"]["quota"], shown["status"]["used"]["taskgroups"]) == ({"taskgroups": 3}, 2)
    assert [w["metadata"]["name"] for w in process.call("GET", "/admissionwebhooks")] == ["changing", "refusing"]
