"""``python -m tests.simulation --seeds N --steps N [--first S] [--jobs 2] [--policy POLICY] [--moves]``: runs seeds
of a world and says what happened in them; exits 1 at the first violation, with its story and how to replay it.

``python -m tests.simulation --seed S --steps N [--policy POLICY] [--moves] [--verbose]``: runs one seed.

``python -m tests.simulation --all-engines --seeds N --steps N [--first S] [--jobs 2]``: runs so many seeds of every
world, continues after violations, and ends with a line for each world and the seeds that have a violation; exits 1 if
there is one.
"""

from __future__ import annotations

import argparse
import multiprocessing
import shutil
import sys
import time
import traceback
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from typing import NamedTuple

from bcs_scheduler.loop import gc_tuning
from tests.simulation.policies.users import Engine, fair
from tests.simulation.simulation import Result, simulate
from tests.simulation.violation import Violation
from tests.simulation.words import summary

FAIR: Mapping[str, Engine] = {"fair-session": "session", "fair-hierarchical": "hierarchical"}
"""Policies of the worlds of tests.simulation.policies."""
POLICIES = ("simple", "session", "hierarchical", "mixed", "guarantees")
WORLDS = (*FAIR, *POLICIES, "moves", "moves-hierarchical")
"""Those of ``--all-engines``, in this order."""
CRASH = "crash"
"""Instead of the number of an invariant: an exception."""
PROGRESS_EVERY = 5.0
"""Seconds between two lines of progress."""


class Run(NamedTuple):
    """A seed of a world, and the processor seconds that it took."""

    world: str
    result: Result
    seconds: float


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.simulation", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seeds", type=int, default=100, help="how many seeds to run, of each world")
    parser.add_argument("--steps", type=int, default=300, help="steps of each")
    parser.add_argument("--seed", type=int, default=None, help="run this one seed only")
    parser.add_argument("--first", type=int, default=1, help="the first seed")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    worlds = parser.add_mutually_exclusive_group()
    worlds.add_argument(
        "--policy",
        choices=(*POLICIES, *FAIR),
        default="simple",
        help="policy; mixed: each role has its own; guarantees: hierarchical, in a full cluster; fair-...: without "
        "faults, who gets room is judged",
    )
    worlds.add_argument("--all-engines", action="store_true", help="every world; continues after violations")
    parser.add_argument(
        "--moves", action="store_true", help="with rebalancing, and policies by seed; also hierarchical"
    )
    parser.add_argument("--verbose", action="store_true", help="print the whole story of a single seed")
    arguments = parser.parse_args()
    if arguments.all_engines and (arguments.seed is not None or arguments.moves):
        parser.error("--all-engines runs every world with --seeds: --seed and --moves do not go with it")
    world = arguments.policy
    if arguments.moves:
        world = "moves-hierarchical" if world == "hierarchical" else "moves"
    if arguments.seed is not None:
        return _one(arguments.seed, arguments.steps, arguments.verbose, world)
    seeds = range(arguments.first, arguments.first + arguments.seeds)
    if arguments.all_engines:
        return _all(WORLDS, seeds, arguments.steps, arguments.jobs)
    return _many(world, seeds, arguments.steps, arguments.jobs)


def _one(seed: int, steps: int, verbose: bool, world: str) -> int:
    if world in FAIR:
        result = fair(seed, steps, FAIR[world], verbose=verbose)
    else:
        result = simulate(seed, steps, trace=True, verbose=verbose, **_kinds(world))
    print("\n".join(result.story))
    print(summary(result.counts, [result.simulated]))
    print(f"digest {result.digest}")
    return _report(result, world) if result.violation is not None else 0


def _many(world: str, seeds: range, steps: int, jobs: int) -> int:
    gc_tuning.tune_process()
    began = said = time.perf_counter()
    counts: Counter[str] = Counter()
    simulated: list[float] = []
    with multiprocessing.Pool(jobs) as pool:
        for result in pool.imap_unordered(partial(_run, world, steps=steps), seeds):
            counts.update(result.counts)
            simulated.append(result.simulated)
            if result.violation is not None:
                pool.terminate()
                return _report(result, world)
            if time.perf_counter() - said > PROGRESS_EVERY:
                said = time.perf_counter()
                rate = len(simulated) * steps / (said - began)
                print(f"{len(simulated)}/{len(seeds)} seeds, {rate:.0f} steps/s", flush=True)
    elapsed = time.perf_counter() - began
    print(summary(counts, simulated))
    rate = len(seeds) * steps / elapsed
    print(f"{len(seeds)} seeds x {steps} steps without a violation: {elapsed:.1f} s, {rate:.0f} steps/s")
    return 0


def _all(worlds: Sequence[str], seeds: range, steps: int, jobs: int) -> int:
    gc_tuning.tune_process()
    runs: dict[str, list[Run]] = {world: [] for world in worlds}
    todo = [(world, seed) for world in worlds for seed in seeds]
    terminal = sys.stdout.isatty()
    with ExitStack() as stack:
        mapped = map if jobs == 1 else stack.enter_context(multiprocessing.Pool(jobs)).imap_unordered
        for number, run in enumerate(mapped(partial(_guarded, steps), todo), 1):
            of_world = runs[run.world]
            of_world.append(run)
            if terminal:
                print(f"{number}/{len(todo)}".ljust(shutil.get_terminal_size().columns - 1), end="\r", flush=True)
            if run.result.violation is not None:
                print(_red(run), flush=True)
            if len(of_world) == len(seeds):
                print(_line(run.world, of_world, steps), flush=True)
    print(f"\nSeeds {seeds.start} to {seeds.stop - 1}, {steps} steps:")
    red = []
    for world, of_world in runs.items():
        print(_line(world, of_world, steps))
        red += sorted((run for run in of_world if run.result.violation is not None), key=lambda run: run.result.seed)
    for run in red:
        print(f"\n{_red(run)}\n  {_replay(run.result, run.world)}")
    return 1 if red else 0


def _line(world: str, runs: Sequence[Run], steps: int) -> str:
    red = sum(run.result.violation is not None for run in runs)
    seconds = [run.seconds for run in runs]
    hours = sum(run.result.simulated for run in runs) / 3600
    return (
        f"{world + ':':<20} {len(runs)} seeds x {steps} steps, {f'{red} RED' if red else 'clean'}; {hours:.0f} "
        f"simulated hours; {sum(seconds):.0f} s of processor time, at most {max(seconds):.1f} s for a seed"
    )


def _red(run: Run) -> str:
    violation = run.result.violation
    assert violation is not None
    return f"{run.world} seed {run.result.seed}: VIOLATION of {violation}"


def _kinds(world: str) -> dict[str, bool]:
    """The arguments of `simulate` for a world."""
    return {
        "sessions": world == "session",
        "trees": world.endswith("hierarchical"),
        "moves": world.startswith("moves"),
        **{kind: world == kind for kind in ("mixed", "guarantees")},
    }


def _run(world: str, seed: int, steps: int) -> Result:
    """Runs a seed of a world."""
    if world in FAIR:
        return fair(seed, steps, FAIR[world])
    return simulate(seed, steps, **_kinds(world))


def _guarded(steps: int, what: tuple[str, int]) -> Run:
    """Runs a seed of a world. An exception is a violation as well, so that the other seeds are run."""
    world, seed = what
    began = time.process_time()
    try:
        result = _run(world, seed, steps)
    except Exception as error:
        crash = Violation(CRASH, traceback.format_exception_only(error)[-1].strip())
        result = Result(seed, steps, Counter(), crash, [], 0.0)
    return Run(world, result, time.process_time() - began)


def _report(result: Result, world: str) -> int:
    print("\n".join(result.story))
    print(f"\nseed {result.seed}: VIOLATION of {result.violation}")
    print(_replay(result, world))
    return 1


def _replay(result: Result, world: str) -> str:
    options = {"simple": "", "moves": " --moves", "moves-hierarchical": " --moves --policy hierarchical"}
    more = options.get(world, f" --policy {world}")
    return f"replay: python -m tests.simulation --seed {result.seed} --steps {result.steps}{more} --verbose"


if __name__ == "__main__":
    sys.exit(main())
