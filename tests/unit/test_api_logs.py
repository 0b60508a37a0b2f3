"""The routes that read sandboxes: whom they ask, and what they say if that does not work."""

from __future__ import annotations

import threading
from base64 import b64decode
from collections.abc import Iterator
from pathlib import Path

import pytest
import requests

from bcs_scheduler.api.downloads import MOST
from bcs_scheduler.api.operation import BASE
from bcs_scheduler.sandbox import Download, Folder
from store.records import Framework, Task, TaskGroup
from tests.unit.agentfiles import AgentFiles
from tests.unit.api_support import Api, CoreGateway, listed_agent, serving
from tests.waiting import wait_for

GROUP = "0.web.shop.demo.1"
LOGS = f"/taskgroup/{GROUP}/logs"


@pytest.fixture
def agent(tmp_path: Path) -> Iterator[AgentFiles]:
    """With the sandbox of one taskgroup of two tasks."""
    for task in ("T0", "T1"):
        (tmp_path / "tasks" / task).mkdir(parents=True)
        (tmp_path / "tasks" / task / "stdout").write_text(f"{task} grün\n")
    (tmp_path / "stdout").write_text("executor\n")
    served = AgentFiles(tmp_path, "framework-1", GROUP)
    yield served
    served.close()


@pytest.fixture
def gateway(agent: AgentFiles) -> CoreGateway:
    tasks = (Task(id="T0", name="server"), Task(id="T1", name="sidecar"))
    group = TaskGroup(
        id=GROUP, namespace="shop", application="web", index=0, version="1", agent_id="agent-1", tasks=tasks
    )
    made = CoreGateway([Framework(id="framework-1"), group])
    made.listed = [{**listed_agent(1, 1, 1), "ip": "127.0.0.1", "port": agent.port}]
    return made


@pytest.fixture
def api(gateway: CoreGateway) -> Iterator[Api]:
    with serving(gateway) as served:
        yield served


@pytest.mark.parametrize("task", ["T1", "sidecar", "1"])
def test_a_task_by_id_name_or_number(api: Api, task: str) -> None:
    assert api.data(LOGS, params={"task": task})["data"] == "T1 grün\n"


def test_the_task_must_be_named_if_there_are_several(api: Api) -> None:
    answer = api.get(LOGS)
    assert answer.status_code == 400
    assert answer.json()["message"].endswith("its tasks are server, sidecar")
    assert api.data(LOGS, params={"executor": "true"})["data"] == "executor\n"
    assert api.get(LOGS, params={"executor": "true", "task": "T0"}).status_code == 400


def test_parts_of_a_file(api: Api) -> None:
    def part(**query: object) -> dict[str, object]:
        found: dict[str, object] = api.data(LOGS, params={"task": "T0", **query})
        return found

    size = len("T0 grün\n".encode())
    assert part(offset=3, length=3) == {"data": "gr", "offset": 3, "next": 5, "size": size}
    assert part(offset=5, length=1) == {"data": "\ufffd", "offset": 5, "next": 6, "size": size}
    assert part(offset=99) == {"data": "", "offset": 99, "next": 99, "size": size}
    assert part(tail=1)["data"] == "T0 grün\n"
    assert b64decode(str(part(offset=5, length=2, encoding="base64")["data"])) == "ü".encode()
    assert api.get(LOGS, params={"task": "T0", "tail": 1, "offset": 0}).status_code == 400


def test_a_whole_file_and_a_folder(api: Api) -> None:
    answer = api.get(f"/taskgroup/{GROUP}/file", params={"task": "T0", "path": "stdout"})
    assert (answer.content, answer.headers["Content-Type"]) == ("T0 grün\n".encode(), "application/octet-stream")
    listed = api.data(f"/taskgroup/{GROUP}/files", params={"executor": "true"})
    assert [(entry["path"], entry["folder"]) for entry in listed] == [("stdout", False), ("tasks", True)]


def test_what_cannot_be_read(api: Api, agent: AgentFiles, gateway: CoreGateway) -> None:
    def refusal(path: str, **query: str) -> tuple[int, str]:
        answer = api.get(path, params=query)
        return answer.status_code, answer.json()["data"]["reason"]

    assert refusal(LOGS, task="T0", file="nothing") == (404, "not_found")
    assert refusal(LOGS, task="T0", file="../T1/stdout") == (400, "bad_parameter")
    assert refusal(f"/taskgroup/{GROUP}/file", task="T0") == (400, "bad_parameter")
    assert refusal("/taskgroup/1.web.shop.demo.2/logs") == (404, "not_found")
    agent.close()
    assert refusal(LOGS, task="T0") == (502, "agent")
    gateway.listed = []
    assert refusal(LOGS, task="T0") == (502, "agent")


def test_a_standby_points_to_who_knows_the_agents(api: Api, gateway: CoreGateway) -> None:
    gateway.listed = []
    gateway.stand_by("http://leader:8080")
    answer = api.get(LOGS, params={"task": "T0"})
    assert answer.status_code == 307
    assert answer.headers["Location"] == f"http://leader:8080/v4/scheduler/mesos{LOGS}?task=T0"
    gateway.stand_by(None)
    assert api.get(LOGS, params={"task": "T0"}).status_code == 503


class Endless:
    """A file whose agent goes silent after the head of its answer."""

    def __init__(self) -> None:
        self.free = threading.Event()
        self.waiting = self.closed = 0

    def download(self, _folder: Folder, _path: str) -> Download:
        return Download(10, self._chunks())

    def _chunks(self) -> Iterator[bytes]:
        self.waiting += 1
        try:
            assert self.free.wait(60.0)
            yield b"0123456789"
        finally:
            self.closed += 1


def test_slow_downloads_stop_neither_reads_nor_reads_of_files(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    endless = Endless()
    monkeypatch.setattr(Folder, "download", lambda folder, path: endless.download(folder, path))
    url = f"{api.url}{BASE}/taskgroup/{GROUP}/file"
    asked = {"task": "T0", "path": "stdout"}
    answers: list[requests.Response] = []
    for _ in range(MOST + 8):
        answer = requests.get(url, params=asked, stream=True, timeout=20)
        answers.append(answer)
        if answer.status_code == 200:
            wait_for(lambda: endless.waiting == len([a for a in answers if a.status_code == 200]), what="the wait")
    try:
        assert [answer.status_code for answer in answers] == [200] * MOST + [503] * 8
        assert requests.get(f"{api.url}{BASE}/applications", timeout=5).status_code == 200
        assert api.data(LOGS, params={"task": "T1"})["data"] == "T1 grün\n"
        answers[0].close()  # its thread is free when its agent has answered or failed, and not before
        endless.free.set()
        assert [answer.content for answer in answers[1:MOST]] == [b"0123456789"] * (MOST - 1)
        wait_for(lambda: endless.closed == MOST, what="the end of every download")
        assert requests.get(url, params=asked, timeout=20).content == b"0123456789", "there is room again"
    finally:
        endless.free.set()
        for answer in answers:
            answer.close()
