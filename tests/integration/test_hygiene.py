"""A scheduler that runs for long: nothing of what came and went stays, and while nothing happens it does nothing."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
import requests

from tests.integration.localmesos import LocalMesosProcess
from tests.integration.schedulerprocess import SchedulerProcess, document
from tests.waiting import wait_for

pytestmark = [pytest.mark.slow, pytest.mark.rotating]

APPS = "/namespaces/default/applications"
CYCLES, WARM_UP = 300, 60
CYCLE_KILOBYTES = 32
"""What a cycle may leave behind for a while: its transactions, timers, and what is remembered of its version."""
IDLE_SECONDS = 6.0


@pytest.fixture
def scheduler(tmp_path: Path) -> Iterator[SchedulerProcess]:
    cluster = LocalMesosProcess(tmp_path, "--synthetic").start()
    process = SchedulerProcess(
        tmp_path, f"sqlite:///{tmp_path}/state.db", cluster.url, scheduler__offer_hold="0.5", executor__default="bcs"
    )
    try:
        yield process.start().wait_ready()
    finally:
        process.stop()
        cluster.stop()


class Held(NamedTuple):
    threads: int
    descriptors: int
    kilobytes: int


def held(scheduler: SchedulerProcess) -> Held:
    process = Path("/proc", str(scheduler.pid))
    fields = dict(line.split(":", 1) for line in (process / "status").read_text().splitlines())
    descriptors = len(list((process / "fd").iterdir()))
    return Held(int(fields["Threads"]), descriptors, int(fields["VmRSS"].split()[0]))


def cpu_seconds(scheduler: SchedulerProcess) -> float:
    fields = Path("/proc", str(scheduler.pid), "stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def committed(scheduler: SchedulerProcess) -> float:
    """Records written since the begin of the term."""
    text = requests.get(f"{scheduler.url}/metrics", timeout=60).text
    return sum(map(float, re.findall(r"^bkbcs_scheduler_committed_records_total\{.*\} (\S+)$", text, re.MULTILINE)))


def come_and_go(scheduler: SchedulerProcess) -> None:
    scheduler.call("POST", APPS, document("app", 2, ["/bin/sleep", "1"]))
    scheduler.wait_running("app", 2)
    scheduler.call("DELETE", f"{APPS}/app")
    wait_for(lambda: scheduler.application("app") is None, 30, "deletion")


def test_what_came_and_went_leaves_nothing_behind(scheduler: SchedulerProcess) -> None:
    for _ in range(WARM_UP):
        come_and_go(scheduler)
    before = held(scheduler)
    for _ in range(CYCLES):
        come_and_go(scheduler)
    wait_for(lambda: held(scheduler).threads <= before.threads + 1, 30, lambda: f"{before}, then {held(scheduler)}")
    after = held(scheduler)
    assert after.descriptors <= before.descriptors + 4
    assert after.kilobytes <= before.kilobytes + CYCLES * CYCLE_KILOBYTES


def test_an_idle_scheduler_does_nothing(scheduler: SchedulerProcess) -> None:
    scheduler.call("POST", APPS, document("app", 20, ["/bin/sleep", "1000"]))
    scheduler.wait_running("app", 20)
    wait_for(lambda: scheduler.call("GET", "/cluster/current/offers") == [], 30, "offers to be given back")
    written, used, began = committed(scheduler), cpu_seconds(scheduler), time.monotonic()
    wait_for(lambda: time.monotonic() - began > IDLE_SECONDS, 2 * IDLE_SECONDS)
    assert cpu_seconds(scheduler) - used < 0.03 * (time.monotonic() - began)
    assert committed(scheduler) == written
