"""The console in a real browser beside a large cluster: `python -m benchmarks.console [AGENTS] [TASKGROUPS]`.

The cluster map is opened in a headless Chromium, with a scheduler and `local-mesos --synthetic` as processes. Prints
the times until the first paint and until all tiles are drawn, for a first visit and for a second one, then what a
frame costs while the map is panned and zoomed: frames per second, the time of a frame in scripts (the map's own, and
all scripts as the trace of the browser has them), and the share of frames that take longer than 17.7 ms.

A headless Chromium paints with the processor. On a machine with a graphics card the browser does this part elsewhere.

Ends with exit code 1 beyond a bound: PAINT, FRAMES, FRAME. A motion is repeated up to `ATTEMPTS` times until it is
within the bounds, because other programs may have the processors for a moment.
"""

from __future__ import annotations

import os
import statistics
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

from benchmarks.load import APPLICATION, document
from benchmarks.processes import Bench, Tasks, await_
from tests.integration.browser.driver import Browser
from tests.integration.browser.motion import Motion, move

AGENTS, TASKGROUPS = 5_000, 10_000
APPLICATIONS = 20
SECONDS = 4.0
TIMEOUT = 300.0
PAINT = 1.0
"""Seconds until the first paint, at most."""
FRAMES = 57.0
"""Frames per second while the map moves, at least: of 60, less what the clock of the browser loses."""
FRAME = 1000 / 60
"""Milliseconds that the script of the map may take of a frame."""
ATTEMPTS = 3
LATE = 17.7
"""Milliseconds: a frame of 60 Hz, and one more for the clock of the browser."""
TRACE = "devtools.timeline"
TIMES = """
const paint = performance.getEntriesByName('first-contentful-paint')[0];
const map = performance.getEntriesByName('map')[0];
return map && paint && { paint: paint.startTime, map: map.startTime,
  tiles: Number(document.querySelector('.map').dataset.tiles) };
"""


def main(agents: int, taskgroups: int) -> None:
    missed: list[str] = []
    per_agent = -(-taskgroups * 2 // agents) + 2
    size: dict[str, Any] = {"cpus": per_agent * 0.1 + 1, "mem": per_agent * 96 + 64, "disk": per_agent * 64 + 64}
    with tempfile.TemporaryDirectory(prefix="bench-") as folder, Bench(Path(folder), "sqlite", agents, **size) as bench:
        each = taskgroups // APPLICATIONS
        for number in range(APPLICATIONS):
            bench.call("POST", APPLICATION, document(each, f"load-{number}"))
        total = each * APPLICATIONS
        await_("all taskgroups", lambda: bench.tasks() == Tasks(total, total, 0), TIMEOUT, 1.0)
        print(f"{agents} agents, {total} taskgroups run; load average {os.getloadavg()[0]:.1f}")
        await_("all agents", lambda: len(bench.call("GET", "/agents")) >= agents, 60)
        address = f"{bench.scheduler.url}/#/agents"
        with opened(Path(folder) / "plain") as browser:
            for visit in ("first visit", "second visit"):
                browser.open("about:blank")
                browser.open(address)
                times: dict[str, float] = await_("the map", lambda: browser.run(TIMES), 60, looking=1)
                tiles = f"{times['tiles']:.0f} tiles drawn after {times['map'] / 1000:.2f} s"
                print(f"{visit}: first paint after {times['paint'] / 1000:.2f} s, {tiles}")
                if times["paint"] >= 1000 * PAINT:
                    missed.append(f"{visit}: the first paint came after {times['paint'] / 1000:.2f} s")
            for how in ("pan", "zoom"):
                for _ in range(ATTEMPTS):
                    beyond = report(how, move(browser, how, SECONDS))
                    if not beyond:
                        break
                missed += beyond
        with opened(Path(folder) / "traced", TRACE) as browser:  # a trace costs time of its own
            browser.open(address)
            await_("the map", lambda: browser.run(TIMES), 60, looking=1)
            move(browser, "pan", SECONDS)
            trace(browser.events())
    if missed:
        raise SystemExit("; ".join(missed))


@contextmanager
def opened(folder: Path, trace: str = "") -> Iterator[Browser]:
    folder.mkdir()
    browser = Browser(folder, trace)
    try:
        browser.resize(1920, 1080)
        yield browser
    finally:
        browser.close()


def report(how: str, found: Motion) -> list[str]:
    """Prints one line, and returns the bounds that the motion has missed."""
    gaps = [after - before for before, after in pairwise(found.times)]
    rate = 1000 * len(gaps) / (found.times[-1] - found.times[0])
    late = sum(gap > LATE for gap in gaps) / len(gaps)
    print(
        f"{how}: {rate:.1f} frames per second, {100 * late:.0f} % later than {LATE} ms, longest {max(gaps):.0f} ms; "
        f"the map's own script {found.spent / max(1, found.drawn):.2f} ms per frame ({found.shown} tiles)"
    )
    own = found.spent / max(1, found.drawn)
    slow = [f"{how}: {rate:.1f} frames per second"] if rate < FRAMES else []
    return slow + ([f"{how}: the script of the map takes {own:.1f} ms"] if own >= FRAME else [])


def trace(events: list[dict[str, Any]]) -> None:
    """Scripts of frames in the trace of the browser, those of the measurement included."""
    scripts = [event["dur"] / 1000 for event in events if event.get("name") == "FireAnimationFrame" and "dur" in event]
    worst = statistics.quantiles(scripts, n=100)[98]
    print(
        f"trace of a pan: {len(scripts)} scripts of frames, median {statistics.median(scripts):.2f} ms, "
        f"99 % below {worst:.2f} ms"
    )


if __name__ == "__main__":
    given = [int(word) for word in sys.argv[1:]]
    main(*(given + [AGENTS, TASKGROUPS][len(given) :]))
