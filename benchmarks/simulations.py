"""Simulations of a day: the time of one run of `bcs simulate` on the load that docs/benchmarks.md describes.

    simulate-POLICY-N-A        N taskgroups on A agents, created and finished over a day; there is room for all
    simulate-full-POLICY-N-A   the same on small agents; with 10000-100, half of the load has room, and work waits all
                               day

POLICY is simple, session or hierarchical, with the files in `conf`. Timed is the run, as processor time of one thread,
so that other programs on the machine do not count. A case with room fails beyond its bound for 10,000 taskgroups on
1,000 agents.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import NamedTuple

from bcs_scheduler.core.options import CoreOptions
from bcs_scheduler.simulator.comparison import summary
from bcs_scheduler.simulator.inputs import with_policy
from bcs_scheduler.simulator.model import Scenario
from bcs_scheduler.simulator.simulation import Simulation
from bcs_scheduler.simulator.specs import creations_of, namespaces_of, read_agents, read_load
from benchmarks.load import Result
from benchmarks.processes import Failure

CONF = Path(__file__).resolve().parents[1] / "conf"
POLICIES = {
    "simple": "simple",
    "session": str(CONF / "policy.yaml"),
    "hierarchical": str(CONF / "queues.yaml"),
}
KINDS = tuple(f"simulate-{full}{policy}" for full in ("", "full-") for policy in POLICIES)
CASES = tuple(f"simulate-{policy}-10000-1000" for policy in POLICIES)
LONGEST = 60.0
"""Seconds that a day of 10,000 taskgroups on 1,000 agents may take."""
DAY = 86400.0
EACH = 5
"""Taskgroups of an application."""


class Run(NamedTuple):
    """`seconds`: processor time. `turns`: turns of the core."""

    seconds: float
    turns: int
    launched: int
    finished: int
    waiting: int


def run(policy: str, taskgroups: int, agents: int, *, full: bool, seconds: float = DAY) -> Run:
    """One run. `full`: agents have 2 cores instead of 16."""
    form = f"{taskgroups // EACH // 2}x{EACH},cpus=0.5-2,mem=256-2gb,duration=10m-2h,over=24h"
    loads = [read_load(f"{form},queue={queue}") for queue in ("a", "b")]
    size = "2cpu,8gb" if full else "16cpu,64gb"
    scenario = Scenario(tuple(read_agents(f"{agents}x{size}")), tuple(namespaces_of(loads)), creations_of(loads, 1))
    simulation = Simulation(policy, scenario, with_policy(CoreOptions(), POLICIES[policy]))
    began = time.process_time()
    outcome = simulation.run(seconds)
    spent = time.process_time() - began
    total = summary(outcome)["total"]
    return Run(spent, outcome.turns, total["launched"], total["finished"], total["waiting"])


def simulations(case: str, kind: str, taskgroups: int, agents: int) -> Result:
    """Runs one case. Raises Failure if work is left although there is room; the result says if the bound is missed."""
    full = kind.startswith("simulate-full-")
    found = run(kind.rpartition("-")[2], taskgroups, agents, full=full)
    if not full and (found.waiting or found.launched != taskgroups):
        raise Failure(f"{found.launched} of {taskgroups} taskgroups launched, {found.waiting} wait")
    slow = not full and found.seconds > LONGEST
    missed = f"{found.seconds:.1f} s for a day of {taskgroups} taskgroups on {agents} agents, {LONGEST:.0f} at most"
    return Result(
        case=case,
        store="",
        agents=agents,
        taskgroups=taskgroups,
        seconds=found.seconds,
        per_second=found.launched / found.seconds,
        cpu_us=1e6 * found.seconds / taskgroups,
        parts={"turns": float(found.turns)},
        missed=missed if slow else "",
    )
