"""A cluster in a process of its own: it outlives the program that started it, and another one resumes it."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple

from bcs_scheduler.local.cluster import LOCK
from bcs_scheduler.local.errors import LocalClusterError, SettingsError
from bcs_scheduler.local.settings import ClusterSettings
from store.sqlite.file_lock import FileLock

RECORD = "process.json"
"""In the folder of the cluster: URL, process id and settings."""
LOG = "cluster.log"
MODULE = "bcs_scheduler.local.main"
OPTIONS = ("agents", "cpus", "mem", "disk", "gpus", "ports", "attributes", "cluster")
"""Settings that the process gets as options."""
STOP_SECONDS = ClusterSettings().end_grace + 30.0
ANSWER_SECONDS = 10.0
ALIVE = ("TASK_STAGING", "TASK_STARTING", "TASK_RUNNING", "TASK_KILLING")


class KeptCluster:
    """`settings.data` must be set. `given`: names of settings that a running cluster must have too, to be resumed.
    `resumed` is True if the cluster ran already."""

    def __init__(self, settings: ClusterSettings, given: Collection[str] = ()) -> None:
        assert settings.data is not None
        self._given = given
        self._settings, self._data = settings, settings.data
        self.url, self.pid, self.resumed = "", 0, False

    @staticmethod
    def runs(data: Path) -> bool:
        """A cluster in a process of its own runs in this folder."""
        return (data / RECORD).exists() and _locked(data)

    def start(self) -> KeptCluster:
        """Starts the process, or finds the one that runs. Raises LocalClusterError, OSError."""
        self._data.mkdir(parents=True, exist_ok=True)
        if self.runs(self._data):
            self._resume(json.loads((self._data / RECORD).read_text()))
            return self
        if _locked(self._data):
            raise SettingsError(f"data: another cluster runs in {self._data}")
        command = [sys.executable, "-m", MODULE, "--port=0", f"--data={self._data}"]
        command += [f"--{name}={getattr(self._settings, name)}" for name in OPTIONS]
        with (self._data / LOG).open("wb") as log:
            process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log, start_new_session=True
            )
        assert process.stdout is not None
        with process.stdout as out:
            self.url, self.pid = out.readline().decode().strip(), process.pid
        if not self.url:
            process.wait()
            said = (self._data / LOG).read_text(errors="replace").strip().splitlines()
            raise LocalClusterError(said[-1].removeprefix("Error: ") if said else f"{MODULE} ended at once")
        record = {"url": self.url, "pid": self.pid, "settings": _shown(self._settings)}
        (self._data / RECORD).write_text(json.dumps(record))
        return self

    def _resume(self, record: dict[str, Any]) -> None:
        """Raises SettingsError for settings that differ from those of the running cluster."""
        wanted, runs = _shown(self._settings), record["settings"]
        for name in self._given:
            if wanted[name] != runs[name]:
                has = runs[name] or "free ones"
                raise SettingsError(f"{name}: the cluster that runs in {self._data} has {has}, not {wanted[name]}")
        self.url, self.pid, self.resumed = record["url"], record["pid"], True

    def stop(self) -> None:
        """Asks the tasks to end. Returns when the process of the cluster has ended. Raises LocalClusterError."""
        with suppress(ProcessLookupError), self._process() as process:
            signal.pidfd_send_signal(process, signal.SIGTERM)
            if not select.select([process], [], [], STOP_SECONDS)[0]:
                raise LocalClusterError(f"the cluster (process {self.pid}) did not end in {STOP_SECONDS:g} s")
        (self._data / RECORD).unlink(missing_ok=True)

    def hurry(self) -> None:
        """`stop` kills the tasks before their grace periods are over. Any thread."""
        with suppress(ProcessLookupError), self._process() as process:
            signal.pidfd_send_signal(process, signal.SIGTERM)

    @contextmanager
    def _process(self) -> Iterator[int]:
        """A file descriptor of the process. Raises ProcessLookupError if it has ended."""
        process = os.pidfd_open(self.pid)
        try:
            try:
                command = Path(f"/proc/{self.pid}/cmdline").read_bytes()
            except FileNotFoundError:
                command = b""
            if MODULE.encode() not in command:
                raise ProcessLookupError(self.pid)
            yield process
        finally:
            os.close(process)


class AgentPlace(NamedTuple):
    """Where an agent listens, and the ranges of ports that its tasks get."""

    hostname: str
    url: str
    task_ports: str


def places_of(url: str) -> list[AgentPlace]:
    """The agents of the embedded cluster with this URL. Raises OSError."""
    with urllib.request.urlopen(f"{url}/state", timeout=ANSWER_SECONDS) as answer:
        agents = json.load(answer)["slaves"]
    return [
        AgentPlace(
            agent["hostname"], f"http://{agent['pid'].rpartition('@')[2]}", str(agent["resources"]["ports"]).strip("[]")
        )
        for agent in agents
    ]


def running_tasks(url: str) -> int:
    """Number of tasks that have not ended. Raises OSError."""
    asked = urllib.request.Request(f"{url}/control", b'{"action": "tasks"}', method="POST")
    with urllib.request.urlopen(asked, timeout=ANSWER_SECONDS) as answer:
        states: dict[str, int] = json.load(answer)["states"]
    return sum(states.get(state, 0) for state in ALIVE)


def _locked(data: Path) -> bool:
    lock = FileLock(data / LOCK)
    try:
        return lock.held_by_another()
    finally:
        lock.close()


def _shown(settings: ClusterSettings) -> dict[str, Any]:
    return {name: value for name, value in asdict(settings).items() if name in OPTIONS}
