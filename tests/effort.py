"""How much the tests search that compare random cases: a share of the cases with every change, all before a release.

`EFFORT=full` (`make test EFFORT=full`) means all cases, and cases of Hypothesis that differ from run to run. Otherwise
every run has the same cases: a failure belongs to the change, and repeats. `EFFORT=check` (`make check`) means fewer
cases of Hypothesis where a test does not set their number.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any

import pytest

FULL = os.environ.get("EFFORT") == "full"
CHECK = os.environ.get("EFFORT") == "check"
CHECK_EXAMPLES = 25
"""Cases of Hypothesis with `EFFORT=check`; its own default is 100."""


def share(cases: int, part: int = 4) -> int:
    """Number of cases to try: all of them, or one `part`-th."""
    return cases if FULL else -(-cases // part)


def check_few(cases: Iterable[object], few: int) -> list[Any]:
    """Parameters of a test: all cases; those after the first `few` have the marker `slow`, so that `make check` leaves
    them out."""
    return [case if number < few else pytest.param(case, marks=pytest.mark.slow) for number, case in enumerate(cases)]
