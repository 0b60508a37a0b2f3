"""How fast the executor starts what it is given, and what it and its warden weigh, without Mesos: the one-file executor
as agents get it, against the stand-in agent of the tests."""

from __future__ import annotations

import signal
import subprocess
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import NamedTuple

from bcs_scheduler.executor_file import executor_file
from benchmarks.processes import await_
from tests.integration.standinagent import StandInAgent, stand_in_agent

RUNS = 9
TIMEOUT = 30.0
PAUSE = 0.002
TASK = {"kind": "command", "command": {"shell": True, "value": "exec sleep 1000"}}


class Start(NamedTuple):
    """Seconds from the start of the executor's process to the first RUNNING beyond what the program takes to start by
    itself; resident memory in MB, while the task runs."""

    seconds: float
    executor_mb: float
    warden_mb: float


class Measured(NamedTuple):
    median: Start
    worst: Start


def measure(runs: int = RUNS) -> Measured:
    """Each quantity by itself. Raises Failure if the task does not run in time."""
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        program = Path(folder) / executor_file().name
        program.write_bytes(executor_file().content)
        starts = [_start(program, Path(folder) / str(number)) for number in range(runs)]
    columns = list(zip(*starts, strict=True))
    return Measured(Start(*map(median, columns)), Start(*map(max, columns)))


def _start(program: Path, sandbox: Path) -> Start:
    sandbox.mkdir()
    own = _program_seconds()
    with stand_in_agent(sandbox) as agent:
        began = time.monotonic()
        executor = agent.start(program)
        agent.launch(TASK)
        await_("RUNNING", lambda: "RUNNING" in agent.states(), TIMEOUT, PAUSE)
        seconds = time.monotonic() - began
        child = int(Path(f"/proc/{executor.pid}/task/{executor.pid}/children").read_text().split()[0])
        weights = _resident_mb(child), _resident_mb(executor.pid)
        _end(agent, executor)
    return Start(max(0.0, seconds - own), *weights)


def _program_seconds() -> float:
    """What a program of this kind takes to start and be seen, without anybody between."""
    began = time.monotonic()
    subprocess.run(["/bin/sh", "-c", "exec true"], check=True)
    return time.monotonic() - began


def _resident_mb(pid: int) -> float:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    return 0.0


def _end(agent: StandInAgent, executor: subprocess.Popen[bytes]) -> None:
    agent.kill(grace=1.0)
    try:
        executor.wait(TIMEOUT)
    except subprocess.TimeoutExpired:
        executor.send_signal(signal.SIGKILL)
