"""Logs and other files of taskgroups through the agents of the real Mesos."""

from __future__ import annotations

import base64
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.integration.mesoscluster import RealMesos
from tests.integration.schedulerprocess import SchedulerProcess, document
from tests.waiting import wait_for

pytestmark = [pytest.mark.mesos, pytest.mark.slow]

WRITER = (
    "printf 'one\\n\\377two\\ngr\\303\\274n\\n'; echo trouble >&2; mkdir deep; head -c 200000 /dev/zero > deep/zeros;"
    " ln -s /etc/passwd outside; exec sleep 1000"
)
WRITTEN = b"one\n\xfftwo\ngr\xc3\xbcn\n"


@pytest.fixture(params=["mesos", "bcs"])
def scheduler(real_mesos: RealMesos, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[SchedulerProcess]:
    """With each of the executors in turn: both lay out their sandboxes alike."""
    process = SchedulerProcess(
        tmp_path,
        f"sqlite:///{tmp_path / 'store.db'}",
        real_mesos.url,
        executor__default=request.param,
        executor__log_max_bytes="4096",
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

    wait_for(written, 30, "the files of the task")
    return identity


def test_files_of_a_running_taskgroup(scheduler: SchedulerProcess, taskgroup: str) -> None:
    def log(**query: object) -> dict[str, Any]:
        page: dict[str, Any] = scheduler.call("GET", f"/taskgroup/{taskgroup}/logs", **query)
        return page

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
    assert "is not a task of" in message
    unknown = scheduler.request("GET", "/taskgroup/0.nobody.default.x.1/logs")
    assert unknown.status_code == 404


def test_both_streams_in_order(scheduler: SchedulerProcess, real_mesos: RealMesos, tmp_path: Path) -> None:
    """Over rotations, followed while it is printed; Mesos's own executor does not record it."""
    line = "i=0; while [ $i -lt 400 ]; do echo out $i; sleep 0.005; echo err $i >&2; sleep 0.005; i=$((i+1)); done"
    scheduler.call(
        "POST", "/namespaces/default/applications", document("writer", 1, ["sh", "-c", f"{line}; sleep 999"])
    )
    identity = str(scheduler.wait_running("writer", 1)[0]["ID"])
    path = f"/taskgroup/{identity}/output"
    first = scheduler.call("GET", path)
    if not first["ordered"]:

        def begun() -> bool:
            answer = scheduler.request("GET", f"/taskgroup/{identity}/logs", file="stderr")
            return bool(answer.ok) and "err 0" in answer.json()["data"]["data"]

        wait_for(begun, 30, "standard error")
        return
    found, after = list(first["entries"]), [first["next"]]

    def complete() -> bool:
        page = scheduler.call("GET", path, after=after[0])
        assert not page["lost"]
        found.extend(page["entries"])
        after[0] = page["next"]
        return any("err 399\n" in entry["data"] for entry in page["entries"])

    wait_for(complete, 60, "the last line")
    for stream, word in (("stdout", "out"), ("stderr", "err")):
        printed = "".join(entry["data"] for entry in found if entry["stream"] == stream)
        assert printed == "".join(f"{word} {number}\n" for number in range(400))
    lines = [line for entry in found for line in entry["data"].splitlines()]
    expected = [f"{word} {number}" for number in range(400) for word in ("out", "err")]
    assert sum(line != wanted for line, wanted in zip(lines, expected, strict=True)) < 100, "order to some ms"
    times = [entry["time"] for entry in found]
    assert times == sorted(times)
    middle = times[len(times) // 2]
    page = scheduler.call("GET", path, since=middle)
    later = page["entries"]
    while not page["end"]:
        page = scheduler.call("GET", path, after=page["next"])
        later += page["entries"]
    assert later == [entry for entry in found if entry["time"] >= middle]
    tail = "".join(entry["data"] for entry in scheduler.call("GET", path, tail=3)["entries"])
    assert tail.splitlines() == lines[-3:]


def test_the_last_output_of_a_failed_task(
    scheduler: SchedulerProcess, real_mesos: RealMesos, request: pytest.FixtureRequest
) -> None:
    """It is kept over the end of its agent, and over a restart of the scheduler. Our executor sends it; Mesos's own
    executor does not, so the leader reads it from the agent."""
    executor = request.node.callspec.params["scheduler"]
    failing = ["sh", "-c", "echo begin; echo trouble >&2; exit 3"]
    scheduler.call(
        "POST", "/namespaces/default/applications", document("writer", 1, failing, restartPolicy={"policy": "Never"})
    )
    path = "/namespaces/default/outputs"
    (kept, *_) = wait_for(lambda: scheduler.call("GET", path, application="writer"), 60, "the output")
    agent = next(name for name in real_mesos.agents if kept["taskgroup"] in sandboxes(real_mesos, name))
    real_mesos.kill_process(agent)
    try:
        scheduler.stop()
        scheduler.start().wait_ready()
        found = scheduler.call("GET", f"{path}/{kept['id']}")
        assert found["ordered"] is (executor == "bcs")
        printed = {(entry["stream"], entry["data"]) for entry in found["entries"]}
        assert printed == {("stdout", "begin\n"), ("stderr", "trouble\n")}
        shown = bcs(scheduler, "logs", "writer")
        assert sorted(shown.stdout.splitlines()) == ["begin", "stderr | trouble"], shown.stderr
        assert "the last output that was kept" in shown.stderr
    finally:
        real_mesos.start_process(agent)
        real_mesos.wait_for_agents()


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


def bcs(scheduler: SchedulerProcess, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "bcs_scheduler.cli.main", *arguments, "--server", scheduler.url, "-n", "default"]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def sandboxes(mesos: RealMesos, agent: str) -> set[str]:
    """Ids of the executors that have, or had, a sandbox on the agent."""
    return {folder.name for folder in (mesos.directory / agent).glob("work/slaves/*/frameworks/*/executors/*")}
