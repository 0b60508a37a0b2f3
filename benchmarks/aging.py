"""Aging alone: how much of a turn the reservations for old work take (`bcs_scheduler.core.placement.aging`).

    aging-N-A    N demands of one taskgroup each wait beside 10 running taskgroups on each of A agents, and fit no agent

Timed is the processor time of `Aging.step` in turns of a core: `quiet` is the median while no demand is old, and
`seconds` the longest of the steps from the moment at which all demands become old at once, searches among all agents
included. Each case fails beyond its bound.
"""

from __future__ import annotations

import gc
import time
from statistics import median

from bcs_scheduler.core.options import CoreOptions
from bcs_scheduler.core.placement.aging import SEARCH_SECONDS
from benchmarks.load import Result
from benchmarks.synthetic import PER_AGENT, START, World

KINDS = ("aging",)
CASES = ("aging-1000-1000", "aging-50000-5000")
BEGAN = 10.0**8
"""The moment in Unix seconds at which the operations of the demands began, by their ids."""
WAITS = 1000.0
"""Seconds from the begin of the world until the demands are old."""
STEPS = 40
QUIET, LONGEST = 20e-6, 0.050
"""Seconds that a step may take while no demand is old, and at most."""


def aging(case: str, demands: int, agents: int) -> Result:
    """Runs one case. The result names the bounds that are missed."""
    times: list[float] = []
    options = CoreOptions(strict=True, offer_hold=1e6, aging=START + WAITS - BEGAN)
    world = World(PER_AGENT * agents, options=options, queued=demands)
    part = world.core._offer_manager.placing.loops[0].aging
    step = part.step

    def timed() -> None:
        begun = time.process_time()
        step()
        times.append(time.process_time() - begun)

    part.step = timed  # type: ignore[method-assign]
    gc.collect()
    gc.freeze()
    for _ in range(STEPS):
        world.turn(after=1.0)
    quiet = median(times)
    times.clear()
    world.turn(after=WAITS)
    for _ in range(STEPS):
        world.turn(after=SEARCH_SECONDS)
    gc.unfreeze()
    longest = max(times)
    missed = [f"{quiet * 1e6:.0f} us without old demands, {QUIET * 1e6:.0f} at most"] if quiet > QUIET else []
    missed += [f"{longest:.4f} s in one step, {LONGEST} at most"] if longest > LONGEST else []
    parts = {"quiet": quiet, "median": median(times)}
    return Result(case, "none", agents, demands, longest, 1 / longest, parts=parts, missed="; ".join(missed))
