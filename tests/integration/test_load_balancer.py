"""A real HAProxy follows the endpoints of a service while its deployment rolls: no request fails."""

from __future__ import annotations

import queue
import signal
import socket
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import requests

from tests.integration.localmesos import LocalMesosProcess
from tests.integration.schedulerprocess import SchedulerProcess
from tests.integration.zookeeper import free_port
from tests.waiting import wait_for

ROOT = Path(__file__).parents[2]
SERVER = """
import http.server, os, signal

class Page(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def do_GET(self):
        text = os.environ["VERSION"].encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)
    def log_message(self, *words):
        pass

class Server(http.server.ThreadingHTTPServer):
    request_queue_size = 128

server = Server((os.environ["HOST"], int(os.environ["PORT_http"])), Page)
# As most programs: a SIGTERM ends it at once.
signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
server.serve_forever()
"""
LATE = 6.0
"""Seconds by which the load balancer hears late of changes."""
DELAY = 20
"""The shutdown delay of the deployment in seconds: LATE, and the time of a reload on a busy machine."""


def deployment(version: str, name: str, instances: int = 3) -> dict[str, Any]:
    environment = {"VERSION": version, "HOST": "${bcs.hostip}"}
    container = {
        "command": sys.executable,
        "args": ["-c", SERVER],
        "env": [{"name": name, "value": value} for name, value in environment.items()],
        "ports": [{"name": "http", "protocol": "http", "containerPort": 0}],
        "healthChecks": [
            {
                "type": "HTTP",
                "delaySeconds": 0,
                "intervalSeconds": 3,
                "timeoutSeconds": 2,
                "consecutiveFailures": 1000,
                "http": {"portName": "http", "path": "/"},
            }
        ],
        "resources": {"limits": {"cpu": "0.05", "memory": "64", "storage": "1"}},
    }
    rolling = {"maxUnavailable": 0, "maxSurge": instances, "rollingOrder": "CreateFirst"}
    return {
        "apiVersion": "v4",
        "kind": "deployment",
        "metadata": {"name": name, "namespace": "default", "labels": {"app": name}},
        "killPolicy": {"gracePeriod": 5, "shutdownDelaySeconds": DELAY},
        "spec": {
            "instance": instances,
            "strategy": {"type": "RollingUpdate", "rollingupdate": rolling},
            "template": {
                "metadata": {"labels": {"app": name}},
                "spec": {"networkMode": "HOST", "containers": [container]},
            },
        },
    }


def service_for(name: str, port: int, **where: str) -> dict[str, Any]:
    return {
        "apiVersion": "v4",
        "kind": "service",
        "metadata": {"name": name, "namespace": "default", "labels": {"BCSBALANCE": "roundrobin"}},
        "spec": {
            "selector": {"app": name},
            "ports": [{"name": "http", "protocol": "http", "servicePort": port, **where}],
        },
    }


class LateNews:
    """A way to the scheduler on which answers arrive `late` seconds late, so that the load balancer learns late of each
    change of an endpoint."""

    def __init__(self, target: str) -> None:
        parts = urlsplit(target)
        assert parts.hostname is not None and parts.port is not None
        self._target = (parts.hostname, parts.port)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.late = 0.0
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self._start(self._accept)

    @staticmethod
    def _start(work: Callable[[], None]) -> None:
        threading.Thread(target=work, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
                server = socket.create_connection(self._target)
            except OSError:
                return
            for source, sink, late in ((client, server, False), (server, client, True)):
                waiting: queue.Queue[tuple[float, bytes]] = queue.Queue()
                self._start(partial(self._read, source, waiting, late))
                self._start(partial(self._write, sink, waiting))

    def _read(self, source: socket.socket, waiting: queue.Queue[tuple[float, bytes]], late: bool) -> None:
        data = b"more"
        while data:
            try:
                data = source.recv(65_536)
            except OSError:
                data = b""
            waiting.put((time.monotonic() + (self.late if late else 0.0), data))

    @staticmethod
    def _write(sink: socket.socket, waiting: queue.Queue[tuple[float, bytes]]) -> None:
        data = b"more"
        while data:
            due, data = waiting.get()
            threading.Event().wait(max(0.0, due - time.monotonic()))
            try:
                sink.sendall(data) if data else sink.shutdown(socket.SHUT_WR)
            except OSError:
                return

    def close(self) -> None:
        self._listener.close()


class Customers:
    """They ask again and again, each over a connection that is kept or over a new one each time."""

    def __init__(self, url: str, kept: int = 3, fresh: int = 3) -> None:
        self._url = url
        self.answers: Counter[str] = Counter()
        self.failures: list[str] = []
        self._ended = threading.Event()
        self._threads = [
            threading.Thread(target=self._ask, args=(number < kept,), daemon=True) for number in range(kept + fresh)
        ]
        for thread in self._threads:
            thread.start()

    def _ask(self, keep: bool) -> None:
        session = requests.Session()
        session.trust_env = False
        if not keep:
            session.headers["Connection"] = "close"
        while not self._ended.is_set():
            try:
                answer = session.get(self._url, timeout=30)
                self.answers[f"{answer.status_code} {answer.text[:10].strip()}"] += 1
            except requests.RequestException as error:
                self.failures.append(f"{time.monotonic():.3f} {error}")
            self._ended.wait(0.02)

    def leave(self) -> None:
        self._ended.set()
        for thread in self._threads:
            thread.join(30)


class HAProxy:
    """The load balancer and `bcs follow` that configures it, as in docs/operations.md."""

    def __init__(self, folder: Path, scheduler: str) -> None:
        self._log = (folder / "haproxy.log").open("wb")
        self._config = folder / "haproxy.cfg"
        base = [sys.executable, "-m", "bcs_scheduler.cli.main", "follow", "-n", "default", "--server", scheduler]
        base += ["--template", str(ROOT / "conf" / "haproxy.cfg.template"), "--output", str(self._config)]
        base += ["--set", "bind=127.0.0.1", "--set", f"socket={folder / 'socket'}"]
        base += ["--check", "/usr/sbin/haproxy -c -q -f {}"]
        subprocess.run([*base, "--once"], check=True, stdout=self._log, stderr=self._log, timeout=60)
        self._process = subprocess.Popen(
            ["/usr/sbin/haproxy", "-W", "-db", "-f", str(self._config)], stdout=self._log, stderr=self._log
        )
        reload = f"/bin/kill -USR2 {self._process.pid}"
        self._follow = subprocess.Popen([*base, "--reload", reload], stdout=self._log, stderr=self._log)

    @property
    def configuration(self) -> str:
        return self._config.read_text()

    @property
    def servers(self) -> list[str]:
        return [line.split()[1] for line in self.configuration.splitlines() if line.strip().startswith("server ")]

    def stop(self) -> None:
        self._follow.terminate()
        self._follow.wait(30)
        self._process.send_signal(signal.SIGTERM)
        try:
            self._process.wait(30)
        except subprocess.TimeoutExpired:
            self._process.kill()
        self._log.close()


@pytest.fixture(scope="module")
def scheduler(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SchedulerProcess]:
    folder = tmp_path_factory.mktemp("balanced")
    cluster = LocalMesosProcess(folder, "--ports=24100-24199", "--agents=2").start()
    process = SchedulerProcess(folder, f"sqlite:///{folder / 'state.db'}", cluster.url, executor__default="bcs")
    try:
        yield process.start().wait_ready()
    finally:
        process.stop()
        cluster.stop()


@pytest.mark.slow
@pytest.mark.rotating
@pytest.mark.parametrize(("pairs", "requests_"), [(2, 2_000), (6, 20_000)])
def test_no_request_fails_while_a_deployment_rolls(
    scheduler: SchedulerProcess, tmp_path: Path, pairs: int, requests_: int
) -> None:
    """The news of endpoints reach the load balancer late, and programs end at once when they are told to: without the
    shutdown delay, the load balancer has no living server for seconds."""
    port, name = free_port(), f"shop-{pairs}"
    scheduler.call("POST", "/namespaces/default/deployments", deployment("v1", name))
    service = service_for(name, port)
    scheduler.call("POST", "/namespaces/default/services", service)

    def ready(count: int) -> bool:
        endpoint = scheduler.call("GET", f"/namespaces/default/endpoints/{name}")
        return bool(endpoint["ready"] == count == len(endpoint["eps"]))

    wait_for(lambda: ready(3), 60, "three that are ready")
    url = f"http://127.0.0.1:{port}/"
    news = LateNews(scheduler.url)
    balancer = HAProxy(tmp_path, news.url)
    try:
        wait_for(lambda: _answers(url), 30, "the load balancer")
        service["metadata"]["labels"] = {"BCSBALANCE": "leastconn"}
        scheduler.call("PUT", "/namespaces/default/services", service)
        wait_for(lambda: "balance leastconn" in balancer.configuration, 30, "a configuration that follows")
        news.late = LATE
        customers = Customers(url, kept=pairs, fresh=pairs)
        wait_for(lambda: customers.answers["200 v1"] > 200, 30, "customers that are served")
        scheduler.call("PUT", "/namespaces/default/deployments", deployment("v2", name))

        def only_new() -> bool:
            found = scheduler.call("GET", f"/namespaces/default/endpoints/{name}")
            applications = {member["application"] for member in found["eps"]}
            return ready(3) and len(applications) == 1 and requests.get(url, timeout=30).text == "v2"

        wait_for(only_new, 300, lambda: f"the new version everywhere: {customers.answers} {customers.failures[:3]}")
        served = customers.answers["200 v2"]
        wait_for(lambda: customers.answers["200 v2"] > served + 200, 60, "customers of the new version")
        wait_for(lambda: customers.answers.total() > requests_, 600, lambda: f"more requests: {customers.answers}")
        customers.leave()
        log = (tmp_path / "haproxy.log").read_text(errors="replace")
        assert not customers.failures, (customers.failures[:5], log[-3000:])
        assert set(customers.answers) == {"200 v1", "200 v2"}, (customers.answers, log[-3000:])
        endpoint = scheduler.call("GET", f"/namespaces/default/endpoints/{name}")
        wanted = sorted(member["targetRef"]["name"] for member in endpoint["eps"])
        wait_for(lambda: sorted(balancer.servers) == wanted, 60, "a configuration with those who are there")
    finally:
        balancer.stop()
        news.close()


def test_services_share_a_port_the_more_specific_first(scheduler: SchedulerProcess, tmp_path: Path) -> None:
    port = free_port()
    places = {
        "a-front": {"path": "/"},
        "b-api": {"path": "/api"},
        "c-docs": {"path": "/api/docs/"},
        "d-host": {"domainName": "Shop.example.org"},
        "e-host": {"domainName": "shop.example.org", "path": "/api"},
    }
    for name, where in places.items():
        scheduler.call("POST", "/namespaces/default/deployments", deployment(name, name, 1))
        scheduler.call("POST", "/namespaces/default/services", service_for(name, port, **where))

    def asked(path: str, host: str = "") -> str:
        headers = {"Host": host} if host else {}
        answer = requests.get(f"http://127.0.0.1:{port}{path}", headers=headers, timeout=30)
        return answer.text if answer.status_code == 200 else str(answer.status_code)

    def ready(name: str) -> bool:
        return bool(scheduler.call("GET", f"/namespaces/default/endpoints/{name}")["ready"] == 1)

    wait_for(lambda: all(map(ready, places)), 60, "one of each that is ready")
    balancer = HAProxy(tmp_path, scheduler.url)
    try:
        wait_for(lambda: _answers(f"http://127.0.0.1:{port}/"), 30, "the load balancer")
        found = {path: asked(path) for path in ("/", "/apis", "/api", "/api/", "/api?a=/x", "/api/x", "/api/docs/x")}
        assert found == {
            "/": "a-front",
            "/apis": "a-front",
            "/api": "b-api",
            "/api/": "b-api",
            "/api?a=/x": "b-api",
            "/api/x": "b-api",
            "/api/docs/x": "c-docs",
        }
        assert [asked(path) for path in ("/api/docs", "/api/docsx")] == ["c-docs", "b-api"]
        hosts = [asked(path, f"shop.example.org:{port}") for path in ("/", "/apis", "/api", "/api/docs")]
        assert hosts == ["d-host", "d-host", "e-host", "e-host"]
        assert asked("/api", "other.example.org") == "b-api"
    finally:
        balancer.stop()


def _answers(url: str) -> bool:
    try:
        return requests.get(url, timeout=30).status_code == 200
    except requests.ConnectionError:
        return False
