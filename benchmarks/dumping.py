"""The time of `bcs dump`, and the delay of other requests meanwhile: `python -m benchmarks.dumping [TASKGROUPS]`.

One application runs on 1,000 synthetic agents, with a store in SQLite. Beside the dumps, a client repeats a dry run of
a scale, which passes through the API and the core. Prints the times of the dry runs without a dump and during each of
several dumps, the processor time of the scheduler, and the number of turns of the core that took over 20 ms. The first
dump is the first reader of the taskgroups after their launch. Ends with exit code 1 if the median of the dumps takes
`SECONDS` or more, or if a turn takes over 20 ms during a dump and none does without.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import requests

from benchmarks.load import APPLICATION, down, up
from benchmarks.processes import API, Bench

TASKGROUPS, AGENTS, DUMPS = 10_000, 1_000, 4
SECONDS = 2.0
"""Bound of the time of a dump of 10,000 taskgroups."""
QUIET = 8.0
"""Seconds without a dump."""
PAUSE = 0.002
"""Seconds between two dry runs."""
TURN = "bkbcs_scheduler_turn_duration_seconds"


def measure(bench: Bench, taskgroups: int, label: str, work: Callable[[], object]) -> tuple[float, float]:
    """Prints one line about `work`. Returns its seconds, and the number of turns over 20 ms meanwhile."""
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
    slow = slow_turns(bench) - slow
    median, late, longest = (1000 * times[int(share * (len(times) - 1))] for share in (0.5, 0.99, 1.0))
    print(
        f"{label:8} {seconds:5.2f} s, scheduler {used:5.2f} s; {len(times)} dry runs: median {median:.1f} ms, "
        f"99 % {late:.1f} ms, longest {longest:.1f} ms; {slow:.0f} turns over 20 ms; "
        f"load {os.getloadavg()[0]:.1f}",
        flush=True,
    )
    return seconds, slow


def slow_turns(bench: Bench) -> float:
    return bench.metric(f"{TURN}_count") - bench.metric(f"{TURN}_bucket", le="0.02")


def main(taskgroups: int) -> None:
    with tempfile.TemporaryDirectory() as folder, Bench(Path(folder), "sqlite", AGENTS, cpus=16, mem=65536) as bench:
        up(bench, taskgroups)
        command = [sys.executable, "-m", "bcs_scheduler.cli.main", "dump", f"{folder}/dump.json.gz"]
        command += ["--server", bench.scheduler.url]
        _, usual = measure(bench, taskgroups, "no dump", lambda: time.sleep(QUIET))
        dumps = [
            measure(
                bench, taskgroups, f"dump {number + 1}",
                lambda: subprocess.run(command, check=True, stdout=subprocess.DEVNULL),
            )
            for number in range(DUMPS)
        ]  # fmt: skip
        down(bench)
    judge(dumps, usual, SECONDS * taskgroups / TASKGROUPS)


def judge(dumps: Sequence[tuple[float, float]], usual: float, bound: float) -> None:
    """Ends the program with exit code 1 if the dumps (seconds, slow turns) exceed their bounds. `usual`: number of slow
    turns without a dump. `bound`: seconds of a dump."""
    median = statistics.median(seconds for seconds, _ in dumps)
    if median >= bound:
        raise SystemExit(f"a dump takes {median:.2f} s, the bound is {bound:.2f} s")
    slow = sum(number for _, number in dumps)
    if slow and not usual:
        raise SystemExit(f"{slow:.0f} turns of the core took over 20 ms during the dumps, and none without")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else TASKGROUPS)
