"""The embedded cluster as a process of its own (`bcs-scheduler local-mesos`), for tests that hurt it."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import requests

from bcs_scheduler.executor.processes.census import MARK
from bcs_scheduler.processes import living_descendants
from tests.waiting import wait_for

START_SECONDS = 90.0


class LocalMesosProcess:
    """`start` may be called again after `stop` or `kill`: same address, same agents, nothing runs on them."""

    def __init__(self, folder: Path, *options: str) -> None:
        """`options` as on the command line, without --port, --data."""
        self._log = folder / "local-mesos.log"
        self._command = [sys.executable, "-m", "bcs_scheduler.main", "local-mesos", f"--data={folder / 'mesos'}"]
        self._command += options
        self._process: subprocess.Popen[bytes] | None = None
        self._session = requests.Session()
        self.url = ""

    def start(self) -> LocalMesosProcess:
        """Returns when it answers."""
        port = self.url.rpartition(":")[2] or "0"
        with self._log.open("wb") as log:
            self._process = subprocess.Popen([*self._command, f"--port={port}"], stdout=log, stderr=log)
        self.url = wait_for(self._announced, START_SECONDS, "the embedded cluster")
        return self

    def _announced(self) -> str | None:
        assert self._process is not None
        text = self._log.read_text(errors="replace")
        assert self._process.poll() is None, f"the embedded cluster ended at its start:\n{text[-3000:]}"
        found = re.search(r"^(http://\S+)$", text, re.MULTILINE)
        return found[1] if found else None

    def stop(self) -> None:
        """The second signal takes their grace periods from tasks."""
        self._end(signal.SIGTERM, signal.SIGINT)

    def kill(self) -> None:
        self._end(signal.SIGKILL)

    def _end(self, *numbers: int) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        for number in numbers:
            process.send_signal(number)
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise

    def control(self, action: str, **arguments: Any) -> dict[str, Any]:
        """A fault or a question of ``bcs_scheduler.local.control``."""
        answer = self._session.post(f"{self.url}/control", json={"action": action, **arguments}, timeout=60)
        assert answer.status_code == 200, answer.text
        said: dict[str, Any] = answer.json()
        return said

    def running(self) -> dict[str, str]:
        """Task id -> agent id of all tasks that have not ended, as the master knows them."""
        call = {"type": "GET_TASKS"}
        answer = self._session.post(f"{self.url}/api/v1", json=call, headers={"Accept": "application/json"}, timeout=60)
        tasks = answer.json()["get_tasks"].get("tasks", [])
        return {t["task_id"]["value"]: t["agent_id"]["value"] for t in tasks if t["state"] not in ENDED}

    def processes(self) -> dict[str, int]:
        """Task id -> process, of all that run on the agents (also of those that are cut off)."""
        found: dict[str, int] = {}
        for entry in self.control("processes")["processes"]:
            found |= {entry["task"]: entry["pid"]} if entry["task"] else tasks_below(entry["pid"])
        return found


def tasks_below(executor: int) -> dict[str, int]:
    """Task id -> process, of the tasks of our executor, which marks what it starts."""
    found: dict[str, int] = {}
    for pid in sorted(living_descendants(executor)):
        try:
            environment = Path("/proc", str(pid), "environ").read_bytes().decode("utf-8", "replace").split("\0")
        except OSError:
            continue  # ended meanwhile
        for mark in (entry for entry in environment if entry.startswith(f"{MARK}=")):
            found.setdefault(mark.rpartition("/")[2], pid)
    return found


ENDED = frozenset(
    f"TASK_{word}"
    for word in ("FINISHED", "FAILED", "KILLED", "ERROR", "LOST", "DROPPED", "GONE", "GONE_BY_OPERATOR", "UNKNOWN")
)
