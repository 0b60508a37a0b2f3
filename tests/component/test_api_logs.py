"""The routes that read sandboxes: whom they ask, and what they say if that does not work."""

from __future__ import annotations

import shutil
import threading
import time
import zlib
from base64 import b64decode
from collections.abc import Iterator
from pathlib import Path

import pytest
import requests

from bcs_scheduler.agentapi.sandbox import Download, Folder
from bcs_scheduler.api.http.operation import BASE
from bcs_scheduler.api.streams.downloads import MOST
from bcs_scheduler.executor.output import Index, RotatedFile
from bcs_scheduler.wire import kept_output
from bcs_scheduler.wire.kept_output import ENTRY
from store.records import FailedOutput, Framework, Task, TaskGroup
from store.records.running import TaskStatus
from tests.component.agentfiles import AgentFiles
from tests.component.apiserver import Api, serving
from tests.unit.api_support import CoreGateway, listed_agent
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
    return gateway_of(agent, "Running")


def gateway_of(agent: AgentFiles, status: TaskStatus) -> CoreGateway:
    """With the taskgroup, whose tasks have the status."""
    tasks = (Task(id="T0", name="server", status=status), Task(id="T1", name="sidecar", status=status))
    group = TaskGroup(
        id=GROUP, namespace="shop", application="web", index=0, version="1", agent_id="agent-1", tasks=tasks
    )
    made = CoreGateway([Framework(id="framework-1"), group])
    made.listed = [listed_agent(1, 1, 1)._replace(ip="127.0.0.1", port=agent.port)]
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


def test_both_streams_in_order(api: Api, tmp_path: Path) -> None:
    path = f"/taskgroup/{GROUP}/output"
    nothing = {"ordered": False, "entries": [], "next": "", "end": True, "lost": False}
    assert api.data(path, params={"task": "T0"}) == nothing, "another executor"
    index = Index(tmp_path / "tasks/T1", 10_000, 2)
    stdout, stderr = (
        RotatedFile(tmp_path / "tasks/T1" / name, 10_000, 2, index, number)
        for number, name in enumerate(("stdout", "stderr"))
    )
    stderr.write("grün\n".encode())
    stdout.write(b"\xff\n")
    found = api.data(path, params={"task": "T1"})
    assert [(entry["stream"], entry["data"]) for entry in found["entries"]] == [("stderr", "grün\n"), ("stdout", "�\n")]
    assert found["ordered"] and found["end"] and not found["lost"]
    stdout.write(b"more\n")
    found = api.data(path, params={"task": "T1", "after": found["next"], "encoding": "base64"})
    assert [b64decode(entry["data"]) for entry in found["entries"]] == [b"more\n"]
    assert abs(found["entries"][0]["time"] - time.time()) < 600
    assert len(api.data(path, params={"task": "T1", "tail": 1})["entries"]) == 1
    assert len(api.data(path, params={"task": "T1", "stream": "stderr"})["entries"]) == 1
    assert api.data(path, params={"task": "T1", "since": time.time() + 3600})["entries"] == []
    for refused in ({"after": "1.2"}, {"after": "0.0.0.0.0", "tail": 1}, {"after": "0.-1.0.0.0"}, {"stream": "stdin"}):
        assert api.get(path, params={"task": "T1", **refused}).status_code == 400


def test_the_last_output_of_failed_tasks(api: Api, gateway: CoreGateway) -> None:
    packed = [(1_000_000, 0, b"begin\n"), (2_000_000, 1, "grün\n".encode()), (3_500_000, 0, b"end\n")]
    data = zlib.compress(b"".join(ENTRY.pack(time, stream, len(data)) + data for time, stream, data in packed))
    for at, task, deployment in ((1.0, "T8", "front"), (2.0, "T9", "")):
        output = FailedOutput(
            id=task,
            taskgroup=f"0.web.shop.demo.{task}",
            namespace="shop",
            application="web",
            deployment=deployment,
            at=at,
            data=data,
        )
        gateway.core.state.apply("output", task, output)
    listed = api.data("/namespaces/shop/outputs", params={"application": "web"})
    assert [(output["id"], output["time"]) for output in listed] == [("T9", 2.0), ("T8", 1.0)], "newest first"
    assert api.data("/namespaces/shop/outputs", params={"application": "other"}) == []
    of_one = api.data("/namespaces/shop/outputs", params={"taskgroup": listed[1]["taskgroup"]})
    assert [output["id"] for output in of_one] == ["T8"]
    of_deployment = api.data("/namespaces/shop/outputs", params={"deployment": "front"})
    assert [(output["id"], output["deployment"]) for output in of_deployment] == [("T8", "front")]
    assert api.data("/namespaces/other/outputs") == []

    def read(**query: object) -> list[tuple[float, str, str]]:
        found = api.data("/namespaces/shop/outputs/T9", params=query)
        assert found["ordered"] and found["end"]
        return [(entry["time"], entry["stream"], entry["data"]) for entry in found["entries"]]

    assert read() == [(1.0, "stdout", "begin\n"), (2.0, "stderr", "grün\n"), (3.5, "stdout", "end\n")]
    assert read(stream="stderr") == [(2.0, "stderr", "grün\n")]
    assert read(since=2.0, tail=1) == [(3.5, "stdout", "end\n")]
    assert read(tail=0) == []
    assert b64decode(read(encoding="base64")[1][2]) == "grün\n".encode()
    for path in ("/namespaces/other/outputs/T9", "/namespaces/shop/outputs/T7"):
        assert api.get(path).status_code == 404


def test_a_kept_output_without_order_and_times(api: Api, gateway: CoreGateway) -> None:
    data = kept_output.packed([kept_output.Entry(0.0, "stdout", b"a\n"), kept_output.Entry(0.0, "stderr", b"b\n")])
    output = FailedOutput(id="T9", taskgroup="0.web.shop.demo.1", namespace="shop", application="web", data=data)
    gateway.core.state.apply("output", "T9", output)
    for query in ({}, {"since": 5.0}):
        found = api.data("/namespaces/shop/outputs/T9", params=query)
        assert not found["ordered"], "and no output is left out by a time that is not known"
        assert [entry["data"] for entry in found["entries"]] == ["a\n", "b\n"]


@pytest.mark.parametrize("status", ["Staging", "Starting"])
def test_a_task_that_has_not_started(agent: AgentFiles, tmp_path: Path, status: TaskStatus) -> None:
    """The agent may not have made the folder, and the executor may not have begun the index."""
    shutil.rmtree(tmp_path / "tasks" / "T0")
    with serving(gateway_of(agent, status)) as api:
        for path in ("logs", "output", "files", "file?path=tool"):
            answer = api.get(f"/taskgroup/{GROUP}/{path}", params={"task": "T0"})
            assert (answer.status_code, answer.json()["data"]["reason"]) == (409, "not_started"), path
            assert answer.json()["message"] == f"task server of web-0 has not started: the status is {status}"
        assert api.get(f"/taskgroup/{GROUP}/output", params={"task": "T1"}).json()["data"]["reason"] == "not_started"
        assert api.data(LOGS, params={"task": "T1"})["data"] == "T1 grün\n", "what exists is readable"
        assert api.data(LOGS, params={"executor": "true"})["data"] == "executor\n"
        (tmp_path / "stdout").unlink()
        message = api.get(LOGS, params={"executor": "true"}).json()["message"]
        assert message.startswith("taskgroup web-0 has not started")


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
    gateway.listed = [listed_agent(7, 1, 1)]
    assert refusal(LOGS, task="T0") == (502, "agent")
    for awaited in (None, {gateway.core.state.taskgroups[GROUP].agent_id}):
        gateway.listed, gateway.awaited = [], awaited  # a new leader, here or of Mesos: clients repeat the request
        assert refusal(LOGS, task="T0") == (503, "unavailable")


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
        assert requests.get(f"{api.url}{BASE}/applications", timeout=30).status_code == 200
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
