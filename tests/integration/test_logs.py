"""Logs and other files of taskgroups through the agents of the real Mesos."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.mesoscluster import RealMesos
from tests.integration.schedulerprocess import SchedulerProcess, document
from tests.waiting import wait_for

pytestmark = pytest.mark.mesos

WRITER = (
    "printf 'one\\n\\377two\\ngr\\303\\274n\\n'; echo trouble >&2; mkdir deep; head -c 200000 /dev/zero > deep/zeros;"
    " ln -s /etc/passwd outside; exec sleep 1000"
)
WRITTEN = b"one\n\xfftwo\ngr\xc3\xbcn\n"


@pytest.fixture(params=["mesos", "bcs"])
def scheduler(real_mesos: RealMesos, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[SchedulerProcess]:
    """With each of the executors in turn: both lay out their sandboxes alike."""
    process = SchedulerProcess(
        tmp_path, f"sqlite:///{tmp_path / 'store.db'}", real_mesos.url, executor__default=request.param
    )
    process.start().wait_ready()
    yield process
    if process.application("writer") is not None:
        process.wait_transaction(process.call("DELETE", "/namespaces/default/applications/writer")["transactionID"])
    process.stop()


@pytest.fixture
def taskgroup(scheduler: SchedulerProcess) -> str:
    """One that has written all it has to say."""
    scheduler.call("POST", "/namespaces/default/applications", document("writer", 1, ["sh", "-c", WRITER]))
    identity = str(scheduler.wait_running("writer", 1)[0]["ID"])

    def written() -> bool:
        answer = scheduler.request("GET", f"/taskgroup/{identity}/files")
        return answer.ok and "outside" in {entry["path"] for entry in answer.json()["data"]}

    wait_for(written, 20, "the files of the task")
    return identity


def test_files_of_a_running_taskgroup(scheduler: SchedulerProcess, taskgroup: str) -> None:
    def log(**query: object) -> dict:
        return scheduler.call("GET", f"/taskgroup/{taskgroup}/logs", **query)

    def problem(path: str, **query: object) -> tuple[int, str]:
        answer = scheduler.request("GET", f"/taskgroup/{taskgroup}/{path}", **query)
        return answer.status_code, answer.json()["message"]

    size = len(WRITTEN)
    assert log() == {"data": "one\n�two\ngrün\n", "offset": 0, "next": size, "size": size}
    exact = log(encoding="base64", offset=4)
    assert base64.b64decode(exact["data"]) == WRITTEN[4:]
    assert log(tail=1)["data"] == "grün\n"
    assert log(file="stderr")["data"] == "trouble\n"
    # A character cut in two is left for the next answer.
    assert log(offset=9, length=3) == {"data": "gr", "offset": 9, "next": 11, "size": size}

    entries = {entry["path"]: entry for entry in scheduler.call("GET", f"/taskgroup/{taskgroup}/files")}
    assert entries["deep"]["folder"]
    assert entries["stdout"]["size"] == size
    own = {entry["path"] for entry in scheduler.call("GET", f"/taskgroup/{taskgroup}/files", executor=True)}
    assert {"stdout", "stderr", "tasks"} <= own

    whole = scheduler.request("GET", f"/taskgroup/{taskgroup}/file?path=deep/zeros")
    assert whole.content == bytes(200_000)

    assert problem("logs", file="nothing")[0] == 404
    assert problem("logs", file="outside")[0] == 400
    assert problem("logs", file="deep")[0] == 400
    assert problem("logs", file="../../stdout")[0] == 400
    assert problem("file?path=nothing")[0] == 404
    status, message = problem("logs", task="another")
    assert status == 400
    assert "is no task of" in message
    unknown = scheduler.request("GET", "/taskgroup/0.nobody.default.x.1/logs")
    assert unknown.status_code == 404


def test_an_agent_that_is_away(scheduler: SchedulerProcess, taskgroup: str, real_mesos: RealMesos) -> None:
    agent = next(name for name in real_mesos.agents if taskgroup in sandboxes(real_mesos, name))
    real_mesos.kill_process(agent)
    try:
        answer = scheduler.request("GET", f"/taskgroup/{taskgroup}/logs")
        assert (answer.status_code, answer.json()["data"]["reason"]) == (502, "agent")
        assert "does not answer" in answer.json()["message"]
    finally:
        real_mesos.start_process(agent)
        real_mesos.wait_for_agents()

    def back() -> bool:
        return bool(scheduler.request("GET", f"/taskgroup/{taskgroup}/logs").ok)

    wait_for(back, 30, "the log, when the agent is back")


def sandboxes(mesos: RealMesos, agent: str) -> set[str]:
    """Ids of the executors that have, or had, a sandbox on the agent."""
    return {folder.name for folder in (mesos.directory / agent).glob("work/slaves/*/frameworks/*/executors/*")}
