"""How much the tests search that compare random cases: a share of the cases with every change, all before a release.

`EFFORT=full` (`make test EFFORT=full`) means all cases, and cases of Hypothesis that differ from run to run. Otherwise
every run has the same cases: a failure belongs to the change, and repeats.
"""

from __future__ import annotations

import os

FULL = os.environ.get("EFFORT") == "full"


def share(cases: int, part: int = 4) -> int:
    """Number of cases to try: all of them, or one `part`-th."""
    return cases if FULL else -(-cases // part)
