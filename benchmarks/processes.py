"""The processes a case runs against: store, embedded cluster and scheduler, each on its own, on loopback."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Literal, NamedTuple, TextIO

import requests

from tests.integration.zookeeper import ZooKeeperServer

StoreKind = Literal["zookeeper", "sqlite"]
START_TIMEOUT = 60.0
LOOKING = 10.0
"""Pause between two looks, in durations of a look: looking takes a tenth of the time at most."""
API = "/v4/scheduler/mesos"


class Failure(Exception):
    """A process did not start, or a case did not come to its end in time."""


def await_(
    what: str, condition: Callable[[], Any], timeout: float, pause: float = 0.02, looking: float = LOOKING
) -> Any:
    """The first true value of the condition. Raises Failure after `timeout` seconds. `looking`: pause between two
    looks, in durations of a look, `pause` seconds at least: what is found late by that much counts as late."""
    end = time.monotonic() + timeout
    while True:
        began = time.monotonic()
        value = condition()
        if value:
            return value
        if time.monotonic() > end:
            raise Failure(f"{what}: not within {timeout:.0f} s")
        time.sleep(max(pause, looking * (time.monotonic() - began)))


def cpu_seconds(pid: int) -> float:
    """Processor time that a process has used so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class Process:
    """A child process whose first matching line of output says that it is ready."""

    def __init__(self, command: list[str], log: Path, ready: str, folder: Path | None = None) -> None:
        """`folder`: where the modules of the program are, if not in this checkout."""
        self._log = log
        self._file: TextIO = log.open("w")
        environ = {key: value for key, value in os.environ.items() if not key.startswith("BCS_")}
        if folder is not None:
            environ["PYTHONPATH"] = str(folder)
        self._child = subprocess.Popen(command, stdout=self._file, stderr=subprocess.STDOUT, env=environ, cwd=folder)
        pattern = re.compile(ready)
        try:
            match = await_(f"start of {command[2:4]}", lambda: self._look(pattern), START_TIMEOUT)
        except BaseException:
            self.kill()
            raise
        self.url: str = match.group(1)

    def _look(self, pattern: re.Pattern[str]) -> re.Match[str] | None:
        if self._child.poll() is not None:
            raise Failure(f"a process ended at its start:\n{self._log.read_text()[-2000:]}")
        return pattern.search(self._log.read_text())

    @property
    def pid(self) -> int:
        return self._child.pid

    def peak_rss(self) -> float:
        """Greatest resident memory so far, in MB."""
        return self._memory("VmHWM")

    def rss(self) -> float:
        """Resident memory now, in MB."""
        return self._memory("VmRSS")

    def _memory(self, name: str) -> float:
        status = Path(f"/proc/{self.pid}/status").read_text()
        return int(re.search(rf"{name}:\s+(\d+)", status)[1]) / 1024  # type: ignore[index]

    def cpu_seconds(self) -> float:
        return cpu_seconds(self.pid)

    def kill(self) -> None:
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        self._end(signal.SIGTERM)

    def _end(self, number: int) -> None:
        if self._child.poll() is None:
            self._child.send_signal(number)
            try:
                self._child.wait(20)
            except subprocess.TimeoutExpired:
                self._child.kill()
                self._child.wait()
        self._file.close()


class Tasks(NamedTuple):
    """Tasks in the cluster: how many, how many of them run, how many have status updates that are not acknowledged."""

    known: int
    running: int
    unacknowledged: int


class Bench:
    """A running scheduler with its store and cluster, and the few calls that cases make."""

    def __init__(
        self,
        folder: Path,
        store: StoreKind,
        agents: int,
        *,
        synthetic: bool = True,
        session_timeout: float = 10.0,
        source: Path | None = None,
        heap: int = 384,
        **size: float,
    ) -> None:
        """Agents that are not synthetic run real executors and processes. `session_timeout`: seconds until the store
        takes a killed scheduler for dead. `source`: another checkout whose scheduler is run; the store, the cluster and
        the load are always those of this one. `heap`: memory of ZooKeeper, in MB."""
        self.options: Sequence[str] = ()
        """Further options of the scheduler, to be set before the bench is entered."""
        self.program: Sequence[str] = ("bcs_scheduler.main",)
        """Module of the scheduler with the arguments before the command, to be set before the bench is entered."""
        self._source, self._heap = source, heap
        self._session_timeout = session_timeout
        self.folder, self.store, self.agents = folder, store, agents
        self._size = size
        self._kind = ["--synthetic"] if synthetic else []
        self._stack = ExitStack()
        self.session = requests.Session()
        self._control = requests.Session()
        self._starts = 0

    def __enter__(self) -> Bench:
        try:
            self.store_url = self._stack.enter_context(running_store(self.store, self.folder, self._heap))
            arguments = [f"--{name}={value:g}" for name, value in self._size.items()]
            self.cluster = Process(
                [sys.executable, "-m", "bcs_scheduler.main", "local-mesos", "--port=0", f"--agents={self.agents}",
                 *self._kind, *arguments, "--attributes=rack:r{n%20};zone:z{n%5}"],
                self.folder / "cluster.log", r"(http://\S+)",
            )  # fmt: skip
            self._stack.callback(self.cluster.stop)
            self.start_scheduler()
        except BaseException:
            self._stack.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def start_scheduler(self) -> float:
        """Seconds from the start of the process until it is ready."""
        began = time.monotonic()
        self.scheduler = self.another_scheduler()
        await_("readiness", self._ready, 120.0)
        return time.monotonic() - began

    def another_scheduler(self) -> Process:
        """On the same store and cluster; a standby if there is a leader."""
        self._starts += 1
        scheduler = Process(
            [sys.executable, "-m", *self.program, "serve", f"--store={self.store_url}",
             f"--mesos={self.cluster.url}", "--api=127.0.0.1:0", "--log-level=warning",
             f"--store-session-timeout={self._session_timeout:g}", *self.options],
            self.folder / f"scheduler-{self._starts}.log", r"api (http://\S+)", self._source,
        )  # fmt: skip
        self._stack.callback(scheduler.stop)
        return scheduler

    def _ready(self) -> bool:
        try:
            return self.session.get(self.scheduler.url + "/readyz", timeout=10).status_code == 200
        except requests.ConnectionError:
            return False

    def call(self, method: str, path: str, body: Any = None) -> Any:
        answer = self.session.request(method, self.scheduler.url + API + path, json=body, timeout=60)
        if answer.status_code >= 400:
            raise Failure(f"{method} {path}: {answer.status_code} {answer.text[:500]}")
        return answer.json()["data"]

    def tasks(self) -> Tasks:
        """What the embedded cluster knows."""
        answer = self.control(action="tasks")
        states: dict[str, int] = answer["states"]
        return Tasks(sum(states.values()), states.get("TASK_RUNNING", 0), answer["unacknowledged"])

    def control(self, **arguments: Any) -> Any:
        """A fault or a question of bcs_scheduler.local.control."""
        answer = self._control.post(self.cluster.url + "/control", json=arguments, timeout=60)
        if answer.status_code != 200:
            raise Failure(f"control {arguments}: {answer.status_code} {answer.text[:500]}")
        return answer.json()

    def metric(self, name: str, **labels: str) -> float:
        """Sum of the samples of a metric with these labels."""
        total = 0.0
        for line in self.session.get(self.scheduler.url + "/metrics", timeout=60).text.splitlines():
            if line.startswith((name + "{", name + " ")) and all(f'{k}="{v}"' in line for k, v in labels.items()):
                total += float(line.rpartition(" ")[2])
        return total


@contextmanager
def running_store(kind: StoreKind, folder: Path, heap: int = 384) -> Iterator[str]:
    """URL of an empty store. ZooKeeper is a real server with fsync on; `heap`: its memory in MB."""
    if kind == "sqlite":
        yield f"sqlite:///{folder}/state.db"
        return
    server = ZooKeeperServer(folder / "zookeeper", java=(f"-Xmx{heap}m",))
    server.start()
    try:
        yield f"zk://{server.hosts}/bench"
    finally:
        server.stop()
