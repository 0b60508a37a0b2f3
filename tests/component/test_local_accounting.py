"""What agents of the embedded cluster count: real processes, with all that they start."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from bcs_scheduler.local.agents.accounting import SESSION, described
from bcs_scheduler.local.objects.model import Executor
from bcs_scheduler.local.objects.resources import Amounts
from bcs_scheduler.processes import descendants, every_stat
from tests.waiting import wait_for

BURN = f"{sys.executable} -c 'import time\nwhile time.process_time() < 0.3: pass'"
HOLD = f'{sys.executable} -c \'b = bytearray(b"x") * (64 << 20); open("held", "w"); import time; time.sleep(1000)\''
Run = Callable[[str], int]


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Run]:
    """Starts a shell as leader of a session, in a folder of its own."""
    started: list[subprocess.Popen[bytes]] = []

    def start(script: str) -> int:
        process = subprocess.Popen(["sh", "-c", f"{script}\nsleep 1000"], cwd=tmp_path, start_new_session=True)
        started.append(process)
        return process.pid

    yield start
    for process in started:
        session = [pid for pid, fields in every_stat().items() if int(fields[SESSION]) == process.pid]
        for pid in {*session, *descendants(process.pid)}:
            os.kill(pid, signal.SIGKILL)
        process.wait()


def executor(**amounts: int) -> Executor:
    """`amounts` in thousandths."""
    allocated = Amounts({(name, ()): amount for name, amount in amounts.items()})
    made = SimpleNamespace(id="E", framework=SimpleNamespace(id="F"), container_id="C", info=SimpleNamespace(name="x"))
    made.amounts, made.tasks = allocated, {"T": SimpleNamespace(amounts=allocated)}
    return cast(Executor, made)


def statistics(*pids: int) -> dict[str, Any]:
    (found,) = described([(executor(cpus=500, mem=32_000), list(pids))])
    counted: dict[str, Any] = found["resource_statistics"]
    return counted


def spent(*pids: int) -> float:
    found = statistics(*pids)
    return float(found["cpus_user_time_secs"] + found["cpus_system_time_secs"])


def test_a_container_is_told_of_as_a_real_agent_does() -> None:
    (found,) = described([(executor(cpus=500, mem=32_000), [])])
    counted = found.pop("resource_statistics")
    assert found == {
        "framework_id": {"value": "F"},
        "executor_id": {"value": "E"},
        "executor_name": "x",
        "container_id": {"value": "C"},
        "container_status": {"container_id": {"value": "C"}},
    }
    assert counted.pop("timestamp") > 1.7e9
    assert counted == {
        "cpus_user_time_secs": 0.0,
        "cpus_system_time_secs": 0.0,
        "cpus_soft_limit": 1.0,
        "mem_rss_bytes": 0,
        "mem_limit_bytes": 64 << 20,
    }


def test_time_of_children_that_have_ended_stays(run: Run, tmp_path: Path) -> None:
    pid = run(f"{BURN}\n{BURN}\ntouch done")
    wait_for((tmp_path / "done").exists, what="the end of both children")
    first = spent(pid)
    assert 0.55 <= first <= 3.0, "0.3 s each, and what it takes to start them"
    assert spent(pid) >= first


@pytest.mark.parametrize("how", ["{} &", "setsid {} &", "( {} & )"])
def test_what_a_container_started_is_counted_in_whatever_session(run: Run, tmp_path: Path, how: str) -> None:
    """A child; one with a session of its own; an orphan in the session."""
    pid = run(how.format(HOLD))
    wait_for((tmp_path / "held").exists, what="the memory to be held")
    assert (64 << 20) <= statistics(pid)["mem_rss_bytes"] < (256 << 20)


def test_several_first_processes_are_one_container_and_none_is_counted_twice(run: Run, tmp_path: Path) -> None:
    pid = run(f"{HOLD} &")
    wait_for((tmp_path / "held").exists, what="the memory to be held")
    other = run("true")
    assert (64 << 20) <= statistics(pid, other, pid)["mem_rss_bytes"] < (128 << 20)


def test_a_process_that_is_gone_uses_nothing() -> None:
    gone = subprocess.Popen(["true"])
    gone.wait()
    assert (spent(gone.pid), statistics(gone.pid)["mem_rss_bytes"]) == (0.0, 0)
