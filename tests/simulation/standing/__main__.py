"""``python -m tests.simulation.standing --seeds N --steps N [--first S] [--engine NAME]``

Runs seeds of standing capacity under random operations; exits 1 at the first violation, with its story.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter

from tests.simulation.standing.simulation import simulate


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation.standing", description=__doc__)
    parser.add_argument("--seeds", type=int, default=100, help="how many seeds to run")
    parser.add_argument("--steps", type=int, default=200, help="steps of each")
    parser.add_argument("--engine", default="simple", choices=("simple", "session", "hierarchical"))
    parser.add_argument("--first", type=int, default=1, help="the first seed")
    arguments = parser.parse_args()
    began = time.perf_counter()
    counts: Counter[str] = Counter()
    for seed in range(arguments.first, arguments.first + arguments.seeds):
        result = simulate(seed, arguments.steps, engine=arguments.engine)
        counts.update(result.counts)
        if result.violation is not None:
            print("\n".join(result.story))
            print(f"seed {seed}: VIOLATION of {result.violation}")
            return 1
    for name, count in sorted(counts.items()):
        print(f"{count:8} {name}")
    rate = arguments.seeds * arguments.steps / (time.perf_counter() - began)
    print(f"{arguments.seeds} seeds x {arguments.steps} steps without a violation: {rate:.0f} steps/s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
