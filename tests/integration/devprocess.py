"""`bcs-scheduler dev` as a process, and the command `bcs` that talks to it."""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

from bcs_scheduler.local.objects.ports import used_ports
from bcs_scheduler.local.settings import PORT_STRIDE
from tests.integration.mesoscluster import held
from tests.waiting import wait_for

AGENTS, MOST_AGENTS, PORTS = 2, 3, 20
START_SECONDS, ANSWER_SECONDS, STOP_SECONDS = 90.0, 120.0, 60.0
"""Until the API of a cluster is announced, for one run of `bcs`, and for the end of the cluster."""
FIRST_PORT, WINDOWS, CLAIM = 25_500, 25, 17_100
"""Task ports of the first agent lie in one of so many windows. The holder of port CLAIM + n has window n, so clusters
that tests start at the same time never share a port: a task that finds its port in use fails."""


def claim_ports() -> tuple[int, socket.socket]:
    """First task port of a window that nobody uses, and what holds the window until it is closed. A window in which a
    program listens is left out: a killed cluster may have left tasks."""
    listening = used_ports()
    for attempt in range(WINDOWS):
        window = (os.getpid() * 7 + attempt) % WINDOWS
        first = FIRST_PORT + PORTS * window
        if any(first + PORT_STRIDE * agent + n in listening for agent in range(MOST_AGENTS) for n in range(PORTS)):
            continue
        claim = held(CLAIM + window)
        if claim is not None:
            return first, claim
    raise RuntimeError("no free ports for the tasks of an embedded cluster")


class Dev:
    """With the settings of the executor that are given as environment."""

    def __init__(self, folder: Path, *options: str, **executor: str) -> None:
        self._log = folder / f"dev-{len(list(folder.glob('dev-*')))}.log"
        first, self._claim = claim_ports()
        command = [sys.executable, "-m", "bcs_scheduler.main", "dev", f"--agents={AGENTS}", f"--data={folder / 'data'}"]
        command += ["--api=127.0.0.1:0", f"--ports={first}-{first + PORTS - 1}", *options]
        environment = {name: value for name, value in os.environ.items() if not name.startswith("BCS_")}
        with self._log.open("w") as log:
            self._process = subprocess.Popen(
                command,
                stdout=log,
                stderr=log,
                env={**environment, **executor},
                start_new_session=True,
            )
        self.url = wait_for(self._announced, START_SECONDS, "the scheduler's API")

    def _announced(self) -> str | None:
        assert self._process.poll() is None, self._log.read_text()[-3000:]
        found = re.search(r"^api (http://\S+)$", self._log.read_text(), re.MULTILINE)
        return found[1] if found else None

    def bcs(self, *arguments: str, given: bytes = b"") -> subprocess.CompletedProcess[bytes]:
        return subprocess.run(
            [sys.executable, "-m", "bcs_scheduler.cli.main", *arguments],
            input=given,
            capture_output=True,
            env={**os.environ, "BCS_SERVER": self.url, "BCS_NAMESPACE": "default", "BCS_OUTPUT": "json"},
            timeout=ANSWER_SECONDS,
        )

    def done(self, *arguments: str, given: bytes = b"") -> bytes:
        """Standard output of a call that must succeed."""
        result = self.bcs(*arguments, given=given)
        assert result.returncode == 0, (arguments, result.stderr.decode())
        return result.stdout

    def data(self, *arguments: str) -> Any:
        return json.loads(self.done(*arguments, "-o", "json"))

    @property
    def said(self) -> str:
        return self._log.read_text()

    def signal(self, number: int) -> None:
        self._process.send_signal(number)

    def stop(self) -> None:
        self._process.terminate()
        self.ended()

    def ended(self, code: int = 0) -> None:
        """Waits for the end, whose exit code must be this one."""
        try:
            assert self._process.wait(STOP_SECONDS) == code, self._log.read_text()[-3000:]
        finally:
            if self._process.poll() is None:
                self._process.kill()
                self._process.wait()
            self._claim.close()
