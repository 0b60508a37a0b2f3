"""`python -m benchmarks.turns FILE ARGUMENTS...`: the program `bcs-scheduler ARGUMENTS...` with measured turns.

Each turn of the core adds a line to FILE: its seconds, the processor time of its thread, and the processor time of the
whole process meanwhile, in seconds. What other threads of the process compute during a turn is the longest time for
which the turn may have waited for the interpreter lock; time in which other processes have the processors is not in it.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any, NamedTuple

from bcs_scheduler.core.scheduler import Core


class Turn(NamedTuple):
    """Seconds of one turn: by the clock, processor time of the core, processor time of all threads."""

    seconds: float
    own: float
    all_threads: float

    @property
    def others(self) -> float:
        """Processor time of the other threads meanwhile."""
        return self.all_threads - self.own


def read_turns(file: Path) -> list[Turn]:
    """The turns so far, in their order. A last line that is not complete is left out."""
    lines = file.read_text().split("\n")[:-1]
    return [Turn(*map(float, line.split())) for line in lines]


def measured(file: Path) -> None:
    """Every turn of this process is measured from now on."""
    turn = Core.turn
    log = file.open("w", buffering=1)

    def measured_turn(core: Core, *arguments: Any) -> Any:
        own, every, began = time.thread_time(), time.process_time(), time.perf_counter()
        try:
            return turn(core, *arguments)
        finally:
            seconds = time.perf_counter() - began
            every, own = time.process_time() - every, time.thread_time() - own
            log.write(f"{seconds:.6f} {own:.6f} {every:.6f}\n")

    Core.turn = measured_turn  # type: ignore[method-assign,assignment]


if __name__ == "__main__":
    measured(Path(sys.argv.pop(1)))
    from bcs_scheduler.main import main

    main()
