"""`bcs` on services and endpoints, against the real API over a core."""

from __future__ import annotations

import json
import logging
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import structlog
import yaml

from bcs_scheduler.cli.client import outage
from bcs_scheduler.cli.client.client import Client
from bcs_scheduler.cli.client.reaching import NO_SERVER
from bcs_scheduler.cli.client.streamed import StreamedList
from bcs_scheduler.cli.errors import Unreachable
from bcs_scheduler.cli.main import run
from bcs_scheduler.leadership.hub import Hub
from tests.component.apiserver import Api, serving
from tests.unit.api_support import CoreGateway, document
from tests.waiting import wait_for

SERVICE = {
    "apiVersion": "v4",
    "kind": "service",
    "metadata": {"name": "front"},
    "spec": {"selector": {"app": "web"}, "ports": [{"name": "http", "protocol": "http", "servicePort": 80}]},
}


@pytest.fixture
def gateway() -> CoreGateway:
    gateway = CoreGateway()
    gateway.connect()
    gateway.offer()
    return gateway


@pytest.fixture
def api(gateway: CoreGateway) -> Iterator[Api]:
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))  # it shares our output
    with serving(gateway) as api:
        yield api
        gateway.hub().close("the test is over")
    structlog.reset_defaults()


@pytest.fixture
def bcs(api: Api, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Any:
    monkeypatch.setenv("BCS_OUTPUT", "json")
    monkeypatch.setenv("BCS_SERVER", api.url)
    monkeypatch.setenv("COLUMNS", "300")

    def call(*arguments: str, code: int = 0) -> str:
        found = run([*arguments, "-n", "shop"])
        captured = capsys.readouterr()
        assert found == code, captured.err
        return captured.out + captured.err

    return call


def done(text: str) -> dict[str, str]:
    """What was done, by kind."""
    return {change["kind"]: change["done"] for change in json.loads(text)}


def lines(text: str) -> list[list[str]]:
    """Words of each line of a table, without its frame."""
    return [line.split() for line in text.splitlines() if line.strip("─━ ")]


def test_documents_are_applied_and_deleted(bcs: Any, gateway: CoreGateway, tmp_path: Path) -> None:
    file = tmp_path / "shop.yaml"
    file.write_text(yaml.safe_dump_all([document(), SERVICE]))
    first = bcs("apply", "-f", str(file), "--dry-run", "-o", "json")
    assert not gateway.core.state.services, first
    assert done(bcs("apply", "-f", str(file)))["service"] == "created"
    assert done(bcs("apply", "-f", str(file)))["service"] == "unchanged"
    file.write_text(yaml.safe_dump({**SERVICE, "spec": {"selector": {}}}))
    assert done(bcs("update", "-f", str(file))) == {"service": "updated"}
    assert gateway.core.state.services["shop/front"].selector == {}
    bcs("delete", "svc", "front")
    assert not gateway.core.state.endpoints
    assert "not exist" in bcs("delete", "service", "front", code=3)


def test_tables_and_details(bcs: Any, api: Api, gateway: CoreGateway) -> None:
    assert "no services in namespace shop" in bcs("get", "svc", "-o", "table")
    api.call("POST", "/namespaces/shop/applications", json=document())
    api.call("POST", "/namespaces/shop/services", json=SERVICE)
    gateway.report("RUNNING", "shop/web")
    group = next(g.id for g in gateway.core.state.taskgroups.values() if g.index == 1)
    gateway.report_taskgroup("UNREACHABLE", group)
    assert lines(bcs("get", "services", "-o", "table"))[1][:3] == ["front", "app=web", "http:80/http"]
    (head, row) = lines(bcs("get", "ep", "-A", "-o", "table"))
    assert (head[:3], row[:3]) == (["NAMESPACE", "NAME", "READY"], ["shop", "front", "1/2"])
    assert row[3].startswith("10.0.0.1:")
    assert json.loads(bcs("get", "endpoints", "front", "-o", "json"))["ready"] == 1
    detail = bcs("describe", "service", "front")
    assert ["Selects:", "app=web"] in lines(detail)
    assert ["web-0", "yes", "1", "HOST"] in [line[:4] for line in lines(detail)]
    assert ["web-1", "unreachable", "1", "HOST"] in [line[:4] for line in lines(detail)]
    assert "web-1" in bcs("describe", "endpoint", "front")
    assert set(json.loads(bcs("describe", "service", "front", "-o", "json"))) == {"service", "endpoint"}


def test_an_endpoint_is_watched_as_it_changes(api: Api, gateway: CoreGateway) -> None:
    api.call("POST", "/namespaces/shop/applications", json=document())
    api.call("POST", "/namespaces/shop/services", json=SERVICE)
    command = [sys.executable, "-m", "bcs_scheduler.cli.main", "get", "ep", "front", "-w", "-n", "shop", "-o", "json"]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, env={**os.environ, "BCS_SERVER": api.url, "PYTHONUNBUFFERED": "1"}
    )
    assert process.stdout is not None
    output = process.stdout
    seen: list[str] = []
    threading.Thread(target=lambda: seen.extend(output), daemon=True).start()
    try:
        wait_for(lambda: '"ready": 0' in "".join(seen), 30, what="the present state")
        wait_for(lambda: gateway.hub().watchers == 1, 30, what="a watcher that knows it")
        gateway.report("RUNNING", "shop/web")
        wait_for(lambda: '"ready": 2' in "".join(seen), 30, what=lambda: f"the change in {seen}")
        assert "".join(seen).count('"resourceVersion"') == 2
    finally:
        process.kill()
        process.wait()


def test_a_list_is_watched_as_it_changes(api: Api, gateway: CoreGateway) -> None:
    api.call("POST", "/namespaces/shop/applications", json=document())
    command = [sys.executable, "-m", "bcs_scheduler.cli.main", "get", "app", "-w", "-n", "shop", "-o", "name"]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, env={**os.environ, "BCS_SERVER": api.url, "PYTHONUNBUFFERED": "1"}
    )
    assert process.stdout is not None
    output = process.stdout
    seen: list[str] = []
    threading.Thread(target=lambda: seen.extend(output), daemon=True).start()
    try:
        wait_for(lambda: "application/web\n" in seen, what="the present list")
        gateway.hub().close("the term ends")  # the command comes back to the next one
        gateway.follow = Hub(state=gateway.core.state)
        api.call("POST", "/namespaces/shop/applications", json=document("cache"))
        wait_for(lambda: "application/cache\n" in seen, what=lambda: f"the new application in {seen}")
        api.call("DELETE", "/namespaces/shop/applications/cache")
        gateway.report("KILLED", "shop/cache")
        wait_for(lambda: seen[-1] == "application/web\n" and len(seen) > 3, what=lambda: f"the end in {seen}")
    finally:
        process.kill()
        process.wait()


def test_a_watch_of_a_list_tells_of_a_server_that_is_away(
    api: Api, gateway: CoreGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []
    client = Client(api.url)
    monkeypatch.setattr(outage, "NOTICE", 0.0)
    stream = StreamedList(client, "applications", "shop", "", said.append)
    try:
        assert stream.take(30) == []
        monkeypatch.setattr(client, "follow_list", away)
        gateway.hub().close("the term ends")
        gateway.follow = Hub(state=gateway.core.state)
        wait_for(lambda: said == ["cannot reach the server; trying again"], what=lambda: f"a warning in {said}")
        monkeypatch.undo()
        api.call("POST", "/namespaces/shop/applications", json=document("cache"))
        wait_for(lambda: [one["Name"] for one in stream.take(1)] == ["cache"], what="the new application")
        assert said[1:] == ["the server answers again"]
    finally:
        stream.close()


def away(*_: Any) -> Any:
    raise Unreachable("cannot reach the server")


@pytest.mark.parametrize("words", ["get tg -w", "get agents -w", "get cluster -w", "top tg -w"])
def test_a_watch_does_not_begin_without_a_server(words: str) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        server = f"http://127.0.0.1:{free.getsockname()[1]}"
        command = [sys.executable, "-m", "bcs_scheduler.cli.main", *words.split()]
        environment = {**os.environ, "BCS_SERVER": server, "BCS_CONFIG": os.devnull}
        result = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=60)
    assert (result.returncode, result.stdout) == (5, "")
    assert result.stderr == f"error: cannot reach {server}: connection refused\n{NO_SERVER}\n"


def test_names_of_services_are_completed(api: Api, gateway: CoreGateway) -> None:
    api.call("POST", "/namespaces/shop/services", json=SERVICE)

    def completed(*words: str) -> str:
        environment = {**os.environ, "BCS_SERVER": api.url, "_BCS_COMPLETE": "bash_complete", "BCS_NAMESPACE": "shop"}
        environment |= {"COMP_WORDS": " ".join(("bcs", *words, "")), "COMP_CWORD": str(len(words) + 1)}
        command = [sys.executable, "-c", "from bcs_scheduler.cli.main import main; main()"]
        return subprocess.run(command, env=environment, capture_output=True, text=True, check=False).stdout

    assert "front" in completed("get", "svc")
    assert "front" in completed("describe", "endpoint")
    assert "front" in completed("follow")
    assert "front" not in completed("get", "applications")
