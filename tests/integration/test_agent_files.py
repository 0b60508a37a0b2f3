"""The files of agents as seen by a reader: one set of tests for the real Mesos and for the embedded cluster."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from typing import Any

import pytest
import requests

from bcs_scheduler.local.cluster import LocalCluster
from bcs_scheduler.local.settings import ClusterSettings
from tests.integration.executorclient import Stage
from tests.integration.schedulerclient import SchedulerClient, executor, launch_group, task
from tests.waiting import wait_for

Json = dict[str, Any]

FILES = (
    "echo 0123456789 > digits; printf 'a\\377b' > bytes; mkdir dir; ln -s /etc/passwd dir/out; ln -s ../digits dir/in; "
    "ln -s nowhere dangling; mkfifo dir/pipe; touch done; exec sleep 1000"
)


@pytest.fixture(scope="module", params=["local", pytest.param("real", marks=pytest.mark.mesos)])
def master(request: pytest.FixtureRequest) -> Iterator[str]:
    """Address of a master with three agents."""
    if request.param == "real":
        yield request.getfixturevalue("real_mesos").masters["solo"]
        return
    with LocalCluster(ClusterSettings()) as cluster:
        yield cluster.url.removeprefix("http://")


@pytest.fixture(scope="module")
def files(master: str) -> Iterator[Stage]:
    client = SchedulerClient(master, checkpoint=True).subscribe()
    stage = Stage(client).launch("a", command=FILES)
    wait_for(lambda: stage.get("/files/read", path=f"{stage.sandbox}/done").status_code == 200, what="the files")
    yield stage.leave_offers()
    client.teardown()


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ({"offset": -1}, ("", 11)),
        ({}, ("", 11)),
        ({"length": 3}, ("", 11)),
        ({"offset": 0}, ("0123456789\n", 0)),
        ({"offset": 2, "length": 3}, ("234", 2)),
        ({"offset": 8, "length": 100}, ("89\n", 8)),
        ({"offset": 0, "length": -1}, ("0123456789\n", 0)),
        ({"offset": 0, "length": 0}, ("", 0)),
        ({"offset": 11}, ("", 11)),
        ({"offset": 100}, ("", 100)),
    ],
)
def test_a_file_is_read_from_an_offset(files: Stage, query: Json, expected: tuple[str, int]) -> None:
    answer = files.get("/files/read", path=f"{files.sandbox}/digits", **query).json()
    assert (answer["data"], answer["offset"]) == expected


@pytest.mark.parametrize(
    ("path", "query", "status"),
    [
        ("digits", {"offset": -2}, 400),
        ("digits", {"offset": "x"}, 400),
        ("digits", {"length": -2}, 400),
        ("dir", {}, 400),
        ("missing", {}, 404),
        ("digits/below", {}, 404),
        ("dangling", {}, 404),
        ("dir/in", {}, 200),
        ("dir/out", {}, 400),
        ("../" * 30 + "etc/passwd", {}, 400),
    ],
)
def test_what_may_be_read(files: Stage, path: str, query: Json, status: int) -> None:
    answer = files.get("/files/read", path=f"{files.sandbox}/{path}", **{"offset": 0, **query})
    assert (answer.status_code, "root:" in answer.text) == (status, False)


def test_paths_that_were_not_attached_are_unknown(files: Stage) -> None:
    runs = files.sandbox.removesuffix("/latest")
    for path in ("/etc/passwd", "/", "/frameworks", runs, files.sandbox.replace(files.executor_id, "other")):
        for endpoint in ("read", "browse", "download"):
            assert files.get(f"/files/{endpoint}", path=path, offset=0).status_code == 404, path
    assert [files.get(f"/files/{endpoint}").status_code for endpoint in ("read", "browse", "download")] == [400] * 3


def test_a_reader_gets_bytes_that_are_no_text_in_some_form(files: Stage) -> None:
    assert files.read("bytes") in ("a\ufffdb", "a\udcffb")
    answer = files.get("/files/download", path=f"{files.sandbox}/bytes")
    assert (answer.content, answer.headers["Content-Type"]) == (b"a\377b", "application/octet-stream")
    assert "bytes" in answer.headers["Content-Disposition"]


def test_a_directory_is_listed(files: Stage) -> None:
    entries = {e["path"].rpartition("/")[2]: e for e in files.get("/files/browse", path=files.sandbox).json()}
    assert set(entries) >= {"bytes", "digits", "dir", "stdout", "stderr"}
    digits, folder = entries["digits"], entries["dir"]
    assert (digits["path"], digits["size"], digits["mode"][0]) == (f"{files.sandbox}/digits", 11, "-")
    assert (folder["mode"][0], "dangling" in entries) == ("d", False)
    assert files.get("/files/browse", path=f"{files.sandbox}/digits").json() == []


def _ask(stage: Stage, type_: str, **arguments: Any) -> requests.Response:
    call = {"type": type_, type_.lower(): arguments} if arguments else {"type": type_}
    return requests.post(f"http://{stage.agent}/api/v1", json=call, headers={"Accept": "application/json"})


def test_files_by_the_v1_api(files: Stage) -> None:
    path = f"{files.sandbox}/digits"
    part = _ask(files, "READ_FILE", path=path, offset=2, length=3).json()["read_file"]
    assert (part["size"], base64.b64decode(part["data"])) == (11, b"234")
    assert base64.b64decode(_ask(files, "READ_FILE", path=path, offset=8).json()["read_file"]["data"]) == b"89\n"
    assert _ask(files, "READ_FILE", path=path).status_code == 400
    assert _ask(files, "READ_FILE").status_code == 400
    assert _ask(files, "READ_FILE", path=path, offset=-1).json()["read_file"]["data"] == ""
    assert _ask(files, "READ_FILE", path=path, offset="x").status_code == 400
    assert _ask(files, "READ_FILE", path=[], offset=0).status_code == 400
    assert _ask(files, "READ_FILE", path=files.sandbox + "/missing", offset=0).status_code == 404
    infos = _ask(files, "LIST_FILES", path=files.sandbox).json()["list_files"]["file_infos"]
    assert {"digits", "dir"} <= {info["path"].rpartition("/")[2] for info in infos}
    assert _ask(files, "LIST_FILES", path=files.sandbox + "/missing").status_code == 404


def test_a_default_executor_has_its_tasks_below_its_sandbox(master: str) -> None:
    client = SchedulerClient(master).subscribe()
    stage = Stage(client)
    info = executor(stage.executor_id, client)
    client.accept([stage.offer], launch_group(info, task("one", stage.offer, "echo hello; sleep 1000")))
    client.states("one", "TASK_RUNNING")
    wait_for(lambda: stage.read("tasks/one/stdout").endswith("hello\n"), what="the output")
    client.teardown()
