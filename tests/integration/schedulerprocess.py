"""A real `bcs-scheduler serve` process and its HTTP API, for end-to-end tests."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import requests

from tests.waiting import wait_for

PREFIX = "/v4/scheduler/mesos"
START_SECONDS, STOP_SECONDS = 90.0, 60.0


class SchedulerProcess:
    """`start` may be called again after `kill` or `stop`: same store, new process, new port."""

    def __init__(self, folder: Path, store: str, mesos: str, **settings: str) -> None:
        """`settings`: further options by path with `__` for the dot, e.g. ``scheduler__offer_hold="1"``.

        Taskgroups run on Mesos's own executor unless a test is about ours: what most tests prove does not depend on
        it, and ours enforces the limits of memory, which for hundreds of tasks on this machine are set too low.
        """
        self._folder = folder
        self._command = [sys.executable, "-m", "bcs_scheduler.main", "serve", f"--store={store}", f"--mesos={mesos}",
                         "--api=127.0.0.1:0"]  # fmt: skip
        self._environment = {k: v for k, v in os.environ.items() if not k.startswith("BCS_")}
        settings = {"executor__default": "mesos", **settings}
        self._environment |= {f"BCS_{name.replace('__', '_').upper()}": value for name, value in settings.items()}
        self._process: subprocess.Popen[bytes] | None = None
        self._starts = 0
        self.url = ""
        self.session = requests.Session()

    # --- process ------------------------------------------------------------------------------------------------

    def start(self) -> SchedulerProcess:
        """Returns when the API answers."""
        self._starts += 1
        self.log_file = self._folder / f"scheduler-{self._starts}.log"
        with self.log_file.open("wb") as log:
            self._process = subprocess.Popen(self._command, stdout=log, stderr=log, env=self._environment)
        self.url = wait_for(self._announced, START_SECONDS, "the scheduler's API")
        return self

    def _announced(self) -> str | None:
        assert self._process is not None
        text = self.log_file.read_text(errors="replace")
        assert self._process.poll() is None, f"the scheduler ended at its start:\n{text[-3000:]}"
        found = re.search(r"^api (https?://\S+)$", text, re.MULTILINE)
        return found[1] if found else None

    @property
    def runs(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def kill(self) -> None:
        self._end(signal.SIGKILL)

    def stop(self) -> int:
        """Its exit code."""
        return self._end(signal.SIGTERM)

    def suspend(self) -> None:
        """It keeps its connections but does nothing any more, as on a machine that stands still."""
        os.kill(self.pid, signal.SIGSTOP)

    def resume(self) -> None:
        os.kill(self.pid, signal.SIGCONT)

    def _end(self, number: int) -> int:
        process = self._process
        if process is None:
            return 0
        if process.poll() is None:
            process.send_signal(number)
            process.send_signal(signal.SIGCONT)
        self._process = None
        try:
            return process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise

    def log(self) -> str:
        return self.log_file.read_text(errors="replace")

    # --- API ----------------------------------------------------------------------------------------------------

    def request(self, method: str, path: str, body: Any = None, **params: Any) -> requests.Response:
        return self.session.request(
            method, self.url + PREFIX + path, json=body, params=params, timeout=60, allow_redirects=False
        )

    def call(self, method: str, path: str, body: Any = None, **params: Any) -> Any:
        """`data` of a successful answer."""
        answer = self.request(method, path, body, **params)
        assert answer.status_code < 300, f"{method} {path}: {answer.status_code} {answer.text}"
        return answer.json()["data"]

    def ready(self) -> bool:
        try:
            return self.session.get(self.url + "/readyz", timeout=60).status_code == 200
        except (requests.ConnectionError, requests.Timeout):
            return False

    def wait_ready(self, seconds: float = 60.0) -> SchedulerProcess:
        wait_for(self.ready, seconds, f"readiness; log:\n{self.log()[-2000:]}")
        return self

    def wait_leading(self, seconds: float = 60.0) -> SchedulerProcess:
        """A standby is ready as well: who comes after a leader that was killed leads when its session has ended."""
        wait_for(lambda: self.ready() and self._role() == "master", seconds, f"leadership; log:\n{self.log()[-2000:]}")
        return self

    def _role(self) -> str:
        return str(self.session.get(self.url + "/healthz", timeout=60).json()["current_role"])

    def application(self, name: str, namespace: str = "default") -> dict[str, Any] | None:
        answer = self.request("GET", f"/namespaces/{namespace}/applications/{name}")
        return answer.json()["data"] if answer.status_code == 200 else None

    def taskgroups(self, name: str, namespace: str = "default") -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.call(
            "GET", f"/namespaces/{namespace}/applications/{name}/taskgroups", limit=1000
        )
        return found

    def wait_running(self, name: str, count: int, seconds: float = 60.0) -> list[dict[str, Any]]:
        """Waits until the application is Running with exactly `count` taskgroups; returns them."""

        def running() -> bool:
            record = self.application(name)
            return (
                record is not None
                and record["Status"] == "Running"
                and record["RunningInstances"] == count == record["Instances"]
            )

        wait_for(running, seconds, lambda: f"{count} running of {name}: {self.application(name)}")
        return self.taskgroups(name)

    def wait_replaced(self, name: str, taskgroup: str, seconds: float = 30.0) -> dict[str, Any]:
        """Waits until another taskgroup takes the place of the only one of the application; returns it. Between the two
        the application has none."""

        def other() -> dict[str, Any] | None:
            return next((group for group in self.taskgroups(name) if group["ID"] != taskgroup), None)

        return wait_for(other, seconds, lambda: f"a replacement of {taskgroup}: {self.taskgroups(name)}")

    def wait_transaction(self, identity: str, seconds: float = 60.0, namespace: str = "default") -> dict[str, Any]:
        """Waits until the transaction has ended; returns it."""

        def ended() -> dict[str, Any] | None:
            record = self.call("GET", f"/transactions/{namespace}/{identity}")
            return record if record["status"] != "INIT" else None

        return wait_for(ended, seconds, f"the end of {identity}")


def document(name: str, instances: int, command: list[str], **spec: Any) -> dict[str, Any]:
    """An application without image: its command runs as a process. `spec` goes beside `instance` or, for the keys of
    the document's head, on top."""
    heads = ("restartPolicy", "killPolicy", "constraint", "updatePolicy")
    head: dict[str, Any] = {key: spec.pop(key) for key in heads if key in spec}
    container = {
        "command": command[0],
        "args": command[1:],
        "resources": {"limits": {"cpu": "0.01", "memory": "8", "storage": "1"}},
        **spec.pop("container", {}),
    }
    return {
        "apiVersion": "v4",
        "kind": "application",
        "metadata": {"name": name, "namespace": "default"},
        **head,
        "spec": {
            "instance": instances,
            "template": {"spec": {"networkMode": "HOST", "containers": [container]}},
            **spec,
        },
    }
