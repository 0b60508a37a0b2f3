"""The time of `bcs dump`, and the delay of other requests meanwhile: `python -m benchmarks.dumping [TASKGROUPS]`.

One application runs on 1,000 synthetic agents, with a store in SQLite. Beside the dumps, a client repeats a dry run of
a scale, which passes through the API and the core. Prints the times of the dry runs without a dump and during each of
several dumps, the processor time of the scheduler, and the number of turns of the core that took over 10 ms. The first
dump is the first reader of the taskgroups after their launch.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

import requests

from benchmarks.load import APPLICATION, down, up
from benchmarks.processes import API, Bench

TASKGROUPS, AGENTS, DUMPS = 10_000, 1_000, 4
QUIET = 3.0
"""Seconds without a dump."""
PAUSE = 0.002
"""Seconds between two dry runs."""
TURN = "bkbcs_scheduler_turn_duration_seconds"


def measure(bench: Bench, taskgroups: int, label: str, work: Callable[[], object]) -> None:
    """Prints one line about `work`."""
    url = f"{bench.scheduler.url}{API}{APPLICATION}/load/scale/{taskgroups + 1}?dryRun=true"
    times: list[float] = []
    stop = threading.Event()

    def probe() -> None:
        session = requests.Session()
        session.put(url, timeout=60).raise_for_status()  # the connection is not measured
        while not stop.is_set():
            began = time.monotonic()
            session.put(url, timeout=60).raise_for_status()
            times.append(time.monotonic() - began)
            time.sleep(PAUSE)

    thread = threading.Thread(target=probe)
    slow, used = slow_turns(bench), bench.scheduler.cpu_seconds()
    thread.start()
    began = time.monotonic()
    work()
    seconds = time.monotonic() - began
    used = bench.scheduler.cpu_seconds() - used
    stop.set()
    thread.join()
    times.sort()
    median, late, longest = (1000 * times[int(share * (len(times) - 1))] for share in (0.5, 0.99, 1.0))
    print(
        f"{label:8} {seconds:5.2f} s, scheduler {used:5.2f} s; {len(times)} dry runs: median {median:.1f} ms, "
        f"99 % {late:.1f} ms, longest {longest:.1f} ms; {slow_turns(bench) - slow:.0f} turns over 10 ms; "
        f"load {os.getloadavg()[0]:.1f}",
        flush=True,
    )


def slow_turns(bench: Bench) -> float:
    return bench.metric(f"{TURN}_count") - bench.metric(f"{TURN}_bucket", le="0.01")


def main(taskgroups: int) -> None:
    with tempfile.TemporaryDirectory() as folder, Bench(Path(folder), "sqlite", AGENTS, cpus=16, mem=65536) as bench:
        up(bench, taskgroups)
        command = [sys.executable, "-m", "bcs_scheduler.cli.main", "dump", f"{folder}/dump.json.gz"]
        command += ["--server", bench.scheduler.url]
        measure(bench, taskgroups, "no dump", lambda: time.sleep(QUIET))
        for number in range(DUMPS):
            measure(
                bench, taskgroups, f"dump {number + 1}",
                lambda: subprocess.run(command, check=True, stdout=subprocess.DEVNULL),
            )  # fmt: skip
        down(bench)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else TASKGROUPS)
