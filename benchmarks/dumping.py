"""The time of `bcs dump`, and the delay of the core meanwhile: `python -m benchmarks.dumping [TASKGROUPS]`.

One application runs on 1,000 synthetic agents, with a store in SQLite. First, dumps are made without other requests.
Then a client repeats a dry run of a scale, which passes through the API and the core, first without and then beside
dumps. Prints the times and the processor time of the dumps, the times of the dry runs, and the longest turns of the
core. Ends with exit code 1

* if the dumps without other requests take `SECONDS` or more: the least processor time of client and scheduler, which
  take turns; and the least time by the clock, if the processors are not loaded by others;
* if the other threads of the scheduler compute for over `HELD_UP` seconds during one turn beside a dump: for so long at
  most, the core waits for the interpreter lock. Time in which other processes have the processors is not counted
  (benchmarks.turns).
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import requests

from benchmarks.load import APPLICATION, down, up
from benchmarks.processes import API, Bench
from benchmarks.turns import Turn, read_turns

TASKGROUPS, AGENTS, DUMPS = 10_000, 1_000, 4
SECONDS = 2.0
"""Bound of the time of a dump of 10,000 taskgroups."""
HELD_UP = 0.02
"""Bound of the processor time of other threads during a turn."""
QUIET = 8.0
"""Seconds without a dump."""
PAUSE = 0.002
"""Seconds between two dry runs."""


class Measured(NamedTuple):
    """Seconds of a piece of work, processor time of scheduler and child processes, and the turns of the core."""

    seconds: float
    processor: float
    turns: Sequence[Turn]


@contextmanager
def dry_runs(bench: Bench, taskgroups: int) -> Iterator[list[float]]:
    """A client that repeats a dry run until the end of the context. Its times, in seconds, are added to the list."""
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
    thread.start()
    try:
        yield times
    finally:
        stop.set()
        thread.join()


def measure(bench: Bench, turns: Path, label: str, times: list[float], work: Callable[[], object]) -> Measured:
    """Prints one line about `work`. `times`: of dry runs beside the work, in seconds."""
    seen, runs, used, client = len(read_turns(turns)), len(times), bench.scheduler.cpu_seconds(), children_seconds()
    began = time.monotonic()
    work()
    seconds = time.monotonic() - began
    used, client = bench.scheduler.cpu_seconds() - used, children_seconds() - client
    during = read_turns(turns)[seen:]
    print(
        f"{label:8} {seconds:5.2f} s; processor: client {client:.2f} s, scheduler {used:.2f} s; {described(during)}; "
        f"{quantiles(times[runs:])}load {os.getloadavg()[0]:.1f}",
        flush=True,
    )
    return Measured(seconds, used + client, during)


def children_seconds() -> float:
    """Processor time of the child processes that have ended."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def described(turns: Sequence[Turn]) -> str:
    slow = sum(turn.seconds > HELD_UP for turn in turns)
    held_up = 1000 * max((turn.others for turn in turns), default=0.0)
    own = 1000 * max((turn.own for turn in turns), default=0.0)
    return f"{len(turns)} turns, {slow} over 20 ms, core at most {own:.1f} ms, held up {held_up:.1f} ms at most"


def quantiles(times: Sequence[float]) -> str:
    """Words about the times of dry runs; empty without dry runs."""
    if not times:
        return ""
    ordered = sorted(times)
    median, late, longest = (1000 * ordered[int(share * (len(times) - 1))] for share in (0.5, 0.99, 1.0))
    return f"{len(times)} dry runs: median {median:.1f} ms, 99 % {late:.1f} ms, longest {longest:.1f} ms; "


def main(taskgroups: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        bench, turns = Bench(Path(folder), "sqlite", AGENTS, cpus=16, mem=65536), Path(folder) / "turns"
        bench.program = ("benchmarks.turns", str(turns))
        with bench:
            up(bench, taskgroups)
            command = [sys.executable, "-m", "bcs_scheduler.cli.main", "dump", f"{folder}/dump.json.gz"]
            command += ["--server", bench.scheduler.url]

            def dump() -> None:
                subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

            alone = [measure(bench, turns, f"dump {number + 1}", [], dump) for number in range(DUMPS)]
            with dry_runs(bench, taskgroups) as times:
                measure(bench, turns, "no dump", times, lambda: time.sleep(QUIET))
                beside = [measure(bench, turns, f"dump {DUMPS + n + 1}", times, dump) for n in range(DUMPS)]
            down(bench)
    judge(alone, beside, SECONDS * taskgroups / TASKGROUPS)


def judge(alone: Sequence[Measured], beside: Sequence[Measured], bound: float) -> None:
    """Ends the program with exit code 1 if the dumps exceed their bounds. `alone`: dumps without other requests,
    `beside`: with dry runs; `bound`: seconds of a dump."""
    processor, fastest = min(dump.processor for dump in alone), min(dump.seconds for dump in alone)
    if processor >= bound or (fastest >= bound and os.getloadavg()[0] <= (os.cpu_count() or 1)):
        found = f"a dump takes {fastest:.2f} s, {processor:.2f} s of processor time"
        raise SystemExit(f"{found}; the bound is {bound:.2f} s")
    held_up = max(turn.others for dump in (*alone, *beside) for turn in dump.turns)
    if held_up > HELD_UP:
        raise SystemExit(f"a dump holds up a turn for {1000 * held_up:.1f} ms, {1000 * HELD_UP:.0f} ms are the bound")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else TASKGROUPS)
