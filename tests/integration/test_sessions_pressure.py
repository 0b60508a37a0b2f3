"""Sessions whose reader does not read: the memory of the scheduler and of our executor stays within a bound, in both
directions, and nothing is lost. `record_property` writes what was measured to the file of `--junitxml`."""

from __future__ import annotations

import json
import re
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from websockets.sync.client import ClientConnection, connect

from tests.integration.mesoscluster import RealMesos
from tests.integration.schedulerprocess import PREFIX, SchedulerProcess, document
from tests.waiting import wait_for

pytestmark = [pytest.mark.mesos, pytest.mark.slow, pytest.mark.rotating]

MEGABYTE = 1024 * 1024
FLOOD = 64 * MEGABYTE
"""Bytes that are under way in each test. Who kept them would grow by so much at least."""
GROWTH = 16 * MEGABYTE
"""Bytes by which a process may grow meanwhile."""
UNDER_WAY = 24 * MEGABYTE
"""Bytes that may have left one end when the other takes none: the buffers of four connections of the kernel."""
STILL = 2.0
"""Seconds without a change after which a stream stands still."""
PIECE = 64 * 1024
TASK = ["sh", "-c", "until test -f go; do sleep 0.05; done; for i in $(seq 64); do head -c 1048576 /dev/zero; done; "
        "touch printed; exec sleep 100000"]  # fmt: skip
ROOM = {"resources": {"limits": {"cpu": "0.1", "memory": "128", "storage": "1"}}}


class Place(NamedTuple):
    cluster: str
    scheduler: SchedulerProcess
    executor: str

    @property
    def group(self) -> str:
        return str(self.scheduler.taskgroups(f"{self.executor}-flood")[0]["ID"])

    def open(self, kind: str, **wanted: Any) -> ClientConnection:
        line = connect(
            self.scheduler.url.replace("http", "ws") + f"{PREFIX}/taskgroup/{self.group}/{kind}",
            proxy=None, compression=None, ping_interval=None, max_size=None, close_timeout=2.0, legacy=True,
        )  # fmt: skip
        line.send(json.dumps(wanted))
        return line

    def run(self, *argv: str) -> int:
        """Exit code."""
        with self.open("exec", command=list(argv)) as line:
            return outcome(line)[0]

    def passed(self, direction: str) -> int:
        """Bytes that all sessions have passed on so far."""
        text = self.scheduler.session.get(self.scheduler.url + "/metrics", timeout=30).text
        found = re.search(
            rf'^bkbcs_scheduler_session_bytes_total{{direction="{direction}"}} (\S+)$', text, re.MULTILINE
        )
        assert found is not None
        return int(float(found[1]))


def outcome(line: ClientConnection) -> tuple[int, int, bytes]:
    """Exit code, bytes of output, and the last of them."""
    size, last = 0, b""
    for message in line:
        assert isinstance(message, bytes)
        if message[0] == 3:
            return json.loads(message[1:])["exitCode"], size, last
        size, last = size + len(message) - 1, message[1:] or last
    raise AssertionError("there was no last word")


def memory(pid: int) -> int:
    """Bytes: the highest that the process has had resident since `forget_peak`."""
    found = re.search(r"^VmHWM:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text(), re.MULTILINE)
    assert found is not None
    return int(found[1]) * 1024


def forget_peak(pid: int) -> int:
    """proc(5), clear_refs: the peak begins anew. Bytes at present."""
    Path(f"/proc/{pid}/clear_refs").write_text("5")
    return memory(pid)


def executors(group: str) -> dict[str, list[int]]:
    """Processes of our executor in the sandbox of the taskgroup: `executor` and its `session`s."""
    found: dict[str, list[int]] = {"executor": [], "session": []}
    for process in Path("/proc").glob("[0-9]*"):
        try:
            words = (process / "cmdline").read_bytes().split(b"\0")
            inside = f"/executors/{group}/" in f"{(process / 'cwd').resolve()}/"
        except OSError:
            continue
        if inside and any(word.endswith(b"bcs-executor.pyz") for word in words[:6]):
            found["session" if b"session" in words else "executor"].append(int(process.name))
    return found


def stands_still(read: Callable[[], int]) -> int:
    """Waits until the number is above 0 and does not change any more; returns it."""
    value, since = 0, time.monotonic()

    def look() -> bool:
        nonlocal value, since
        if (now := read()) != value:
            value, since = now, time.monotonic()
        return value > 0 and time.monotonic() - since >= STILL

    wait_for(look, 60, lambda: f"a stream that stands still, at {value}")
    return value


@pytest.fixture(scope="module")
def clusters(
    real_mesos: RealMesos, embedded_mesos: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, SchedulerProcess]]:
    made = {}
    try:
        for name, mesos in (("real", real_mesos.url), ("embedded", f"http://{embedded_mesos}")):
            folder = tmp_path_factory.mktemp(f"pressure-{name}")
            made[name] = SchedulerProcess(folder, f"sqlite:///{folder}/store.db", mesos).start().wait_ready()
            for executor in ("bcs", "mesos"):
                wanted = document(f"{executor}-flood", 1, TASK, container=ROOM) | {"executor": executor}
                made[name].call("POST", "/namespaces/default/applications", wanted)
                made[name].wait_running(f"{executor}-flood", 1)
        yield made
    finally:
        for scheduler in made.values():
            for executor in ("bcs", "mesos"):
                answer = scheduler.call("DELETE", f"/namespaces/default/applications/{executor}-flood")
                scheduler.wait_transaction(answer["transactionID"])
            scheduler.stop()


@pytest.fixture(params=["real-bcs", "real-mesos", "embedded-bcs", "embedded-mesos"])
def place(request: pytest.FixtureRequest, clusters: dict[str, SchedulerProcess]) -> Place:
    cluster, executor = request.param.split("-")
    return Place(cluster, clusters[cluster], executor)


def test_output_that_nobody_reads(place: Place, record_property: Callable[[str, object], None]) -> None:
    before, kept = place.passed("out"), forget_peak(place.scheduler.pid)
    with place.open("exec", command=["head", "-c", str(FLOOD), "/dev/zero"]) as line:
        sent = stands_still(lambda: place.passed("out") - before)
        growth = memory(place.scheduler.pid) - kept
        record_property("measured", f"{sent} bytes under way, the scheduler grew by {growth}")
        assert sent < UNDER_WAY
        assert growth < GROWTH
        assert outcome(line)[:2] == (0, FLOOD)


def test_input_that_no_program_reads(place: Place, record_property: Callable[[str, object], None]) -> None:
    before, kept = place.passed("in"), forget_peak(place.scheduler.pid)
    script = "until test -f read; do sleep 0.05; done; rm read; wc -c"
    with place.open("exec", command=["sh", "-c", script], stdin=True) as line:

        def feed() -> None:
            for _ in range(FLOOD // PIECE):
                line.send(b"\0" + bytes(PIECE))
            line.send(bytes((255, 0)))

        feeder = threading.Thread(target=feed, daemon=True)
        feeder.start()
        sent = stands_still(lambda: place.passed("in") - before)
        growth = memory(place.scheduler.pid) - kept
        record_property("measured", f"{sent} bytes under way, the scheduler grew by {growth}")
        assert growth < GROWTH
        # The I/O switchboard of Mesos takes all input and keeps what the program does not read.
        assert sent < UNDER_WAY if place.cluster == "embedded" else sent <= FLOOD
        assert place.run("touch", "read") == 0
        code, _, last = outcome(line)
        assert (code, last.strip()) == (0, str(FLOOD).encode())
        feeder.join(10)


def test_a_task_is_not_held_up_by_who_attaches_and_does_not_read(
    place: Place, record_property: Callable[[str, object], None]
) -> None:
    group = place.group
    kept = forget_peak(place.scheduler.pid)
    executor = {pid: forget_peak(pid) for pid in executors(group)["executor"]}
    with place.open("attach") as line:
        if place.executor == "bcs":
            wait_for(lambda: executors(group)["session"], 30, "the session in the sandbox")
        assert place.run("touch", "go") == 0
        wait_for(lambda: place.run("test", "-f", "printed") == 0, 60, "the end of the output of the task")
        growth = memory(place.scheduler.pid) - kept
        grown = {pid: memory(pid) - size for pid, size in executor.items()}
        sessions = [memory(pid) for pid in executors(group)["session"]]
        record_property("measured", f"scheduler +{growth}, executor +{grown}, session {sessions}")
        assert growth < GROWTH
        assert all(size < GROWTH for size in grown.values())
        assert (len(executor) > 0, len(sessions)) == ((True, 1) if place.executor == "bcs" else (False, 0))
        assert all(size < 64 * MEGABYTE for size in sessions)
        assert line.state.name == "OPEN"
