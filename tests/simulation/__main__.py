"""``python -m tests.simulation --seeds N --steps N [--seed S] [--jobs 2] [--policy POLICY] [--moves]
[--verbose]``

Runs seeds and says what happened in them; exits 1 at the first violation, with its story and how to replay it.
"""

from __future__ import annotations

import argparse
import multiprocessing
import sys
import time
from collections import Counter
from collections.abc import Mapping

from bcs_scheduler.loop import gc_tuning
from tests.simulation.policies.users import Engine, fair
from tests.simulation.simulation import Result, simulate
from tests.simulation.words import summary

FAIR: Mapping[str, Engine] = {"fair-session": "session", "fair-hierarchical": "hierarchical"}
"""Policies of the worlds of tests.simulation.policies."""
PROGRESS_EVERY = 5.0
"""Seconds between two lines of progress."""


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    parser.add_argument("--seeds", type=int, default=100, help="how many seeds to run")
    parser.add_argument("--steps", type=int, default=300, help="steps of each")
    parser.add_argument("--seed", type=int, default=None, help="run this one seed only")
    parser.add_argument("--first", type=int, default=1, help="the first seed")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument(
        "--policy",
        choices=("simple", "session", "hierarchical", "mixed", "guarantees", *FAIR),
        default="simple",
        help="policy; mixed: each role has its own; guarantees: hierarchical, in a full cluster; fair-...: without "
        "faults, who gets room is judged",
    )
    parser.add_argument(
        "--moves", action="store_true", help="with rebalancing, and policies by seed; also hierarchical"
    )
    parser.add_argument("--verbose", action="store_true", help="print the whole story of a single seed")
    arguments = parser.parse_args()
    policy = arguments.policy
    if arguments.moves:
        policy = "moves-hierarchical" if policy == "hierarchical" else "moves"
    if arguments.seed is not None:
        return _one(arguments.seed, arguments.steps, arguments.verbose, policy)
    return _many(range(arguments.first, arguments.first + arguments.seeds), arguments.steps, arguments.jobs, policy)


def _one(seed: int, steps: int, verbose: bool, policy: str) -> int:
    if policy in FAIR:
        result = fair(seed, steps, FAIR[policy], verbose=verbose)
    else:
        result = simulate(seed, steps, trace=True, verbose=verbose, **_world(policy))
    print("\n".join(result.story))
    print(summary(result.counts, [result.simulated]))
    print(f"digest {result.digest}")
    return _report(result, policy) if result.violation is not None else 0


def _many(seeds: range, steps: int, jobs: int, policy: str) -> int:
    gc_tuning.tune_process()
    began = said = time.perf_counter()
    counts: Counter[str] = Counter()
    simulated: list[float] = []
    with multiprocessing.Pool(jobs) as pool:
        for result in pool.imap_unordered(_Run(steps, policy), seeds):
            counts.update(result.counts)
            simulated.append(result.simulated)
            if result.violation is not None:
                pool.terminate()
                return _report(result, policy)
            if time.perf_counter() - said > PROGRESS_EVERY:
                said = time.perf_counter()
                rate = len(simulated) * steps / (said - began)
                print(f"{len(simulated)}/{len(seeds)} seeds, {rate:.0f} steps/s", flush=True)
    elapsed = time.perf_counter() - began
    print(summary(counts, simulated))
    rate = len(seeds) * steps / elapsed
    print(f"{len(seeds)} seeds x {steps} steps without a violation: {elapsed:.1f} s, {rate:.0f} steps/s")
    return 0


def _world(policy: str) -> dict[str, bool]:
    """The arguments of `simulate` for a policy."""
    return {
        "sessions": policy == "session",
        "trees": policy.endswith("hierarchical"),
        "moves": policy.startswith("moves"),
        **{kind: policy == kind for kind in ("mixed", "guarantees")},
    }


class _Run:
    """A call that can be sent to another process."""

    def __init__(self, steps: int, policy: str) -> None:
        self._steps, self._policy = steps, policy

    def __call__(self, seed: int) -> Result:
        if self._policy in FAIR:
            return fair(seed, self._steps, FAIR[self._policy])
        return simulate(seed, self._steps, **_world(self._policy))


def _report(result: Result, policy: str) -> int:
    print("\n".join(result.story))
    print(f"\nseed {result.seed}: VIOLATION of {result.violation}")
    options = {"simple": "", "moves": " --moves", "moves-hierarchical": " --moves --policy hierarchical"}
    more = options.get(policy, f" --policy {policy}")
    print(f"replay: python -m tests.simulation --seed {result.seed} --steps {result.steps}{more} --verbose")
    return 1


if __name__ == "__main__":
    sys.exit(main())
