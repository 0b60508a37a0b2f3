"""How much of the test suite a run has. The variable `EFFORT` says it:

`full` (`make test-full`)
    All tests, all random cases, and cases of Hypothesis that differ from run to run.
`rotate` (`make test`, CI)
    Every test, but of those with the marker `rotating` one share in twelve. The commit chooses the share: twelve
    successive commits run all of them, and a commit always has the same tests. The variable `SHARE` (0 to 11) chooses
    another one.
`check` (`make check`)
    Fewer cases of Hypothesis where a test does not set their number.
empty (pytest by hand)
    All tests that are named, with a share of the random cases.

Without `full`, every run has the same random cases: a failure belongs to the change, and repeats.
"""

from __future__ import annotations

import os
import subprocess
import zlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

EFFORT = os.environ.get("EFFORT", "")
EFFORTS = ("", "check", "rotate", "full")
if EFFORT not in EFFORTS:
    raise pytest.UsageError(f"EFFORT={EFFORT}: one of {', '.join(name for name in EFFORTS if name)} is expected")
FULL = EFFORT == "full"
CHECK = EFFORT == "check"
ROTATE = EFFORT == "rotate"
CHECK_EXAMPLES = 25
"""Cases of Hypothesis with `EFFORT=check`; its own default is 100."""
SHARES = 12
ROOT = Path(__file__).resolve().parents[1]


def share(cases: int, part: int = 4) -> int:
    """Number of cases to try: all of them, or one `part`-th."""
    return cases if FULL else -(-cases // part)


def in_turn(first: int, seeds: int) -> range:
    """Seeds of random cases from `first` on: so many, others in each share; those of all shares with `full`."""
    if FULL:
        return range(first, first + SHARES * seeds)
    begin = first + seeds * (chosen_share() if ROTATE else 0)
    return range(begin, begin + seeds)


def check_few(cases: Iterable[object], few: int, always: int | None = None) -> list[Any]:
    """Parameters of a test: all cases; those after the first `few` have the marker `slow`, so that `make check` leaves
    them out, and those after the first `always`, unless it is None, rotate."""

    def marked(number: int, case: object) -> Any:
        slow, rotates = number >= few, always is not None and number >= always
        marks = [pytest.mark.slow] * slow + [pytest.mark.rotating] * rotates
        return pytest.param(case, marks=marks) if marks else case

    return [marked(number, case) for number, case in enumerate(cases)]


def share_of_unit(nodeid: str) -> int:
    """The share to which rotating tests belong: 0 to SHARES - 1. `nodeid`: what carries the marker, so a file whose
    tests share a cluster is in one share as a whole. Only the name counts: no other test moves a test to another
    share."""
    return zlib.crc32(nodeid.encode()) % SHARES


def share_of_commit(commits: int) -> int:
    """The share that a commit runs. `commits`: the number of commits up to this one."""
    return commits % SHARES


def chosen_share() -> int:
    """The share of this run: that of the variable SHARE, or of the commit. Outside of a Git clone: 0. Raises
    `pytest.UsageError` if SHARE is no share."""
    text = os.environ.get("SHARE", "")
    if text:
        if text not in map(str, range(SHARES)):
            raise pytest.UsageError(f"SHARE={text}: a number from 0 to {SHARES - 1} is expected")
        return int(text)
    command = ["git", "rev-list", "--count", "HEAD"]
    counted = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    return share_of_commit(int(counted.stdout)) if counted.returncode == 0 else 0


def left_out(item: pytest.Item, chosen: int) -> bool:
    """Whether a run with `EFFORT=rotate` leaves the test out."""
    units = [node.nodeid for node, _ in item.iter_markers_with_node("rotating")]
    return bool(units) and share_of_unit(units[-1]) != chosen
