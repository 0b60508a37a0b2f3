"""How tests are shared out when several processes run them (`pytest -n 5`).

The tests of one file run in one process, in their order, for the sake of the fixtures that they share. Each process has
a Mesos cluster, a ZooKeeper server and an ensemble of its own (fixtures of scope "session"), with ports of its own: no
test can kill what a test of another process uses.

Tests of tests/integration mostly wait, the others mostly compute. So both kinds are mixed from the begin to the end of
a run: then five processes use two cores well. Within each kind the long files come first, so that the processes end at
about the same time.

The process that shares the tests out knows only their ids. The processes that run them know the markers, so they sort
the tests. (`--dist loadfile` of xdist would do the rest, if it did not sort the files by their number of tests.)
"""

from __future__ import annotations

import gc
import os
import shutil
import signal
import sys
from pathlib import Path

import hypothesis
import pytest
from xdist.scheduler import LoadScopeScheduling

from bcs_scheduler.loop import gc_tuning
from tests.effort import CHECK, CHECK_EXAMPLES, FULL, ROTATE, SHARES, chosen_share, left_out
from tests.sources import READERS

# Hypothesis's deadline of 200 ms per example and its check for slow strategies measure the machine, not the code.
hypothesis.settings.register_profile(
    "ours", deadline=None, derandomize=not FULL, suppress_health_check=[hypothesis.HealthCheck.too_slow]
)
hypothesis.settings.register_profile("check", hypothesis.settings.get_profile("ours"), max_examples=CHECK_EXAMPLES)
hypothesis.settings.load_profile("check" if CHECK else "ours")

# The programs under test run with these thresholds, too. The default ones cost a fifth of the time of a simulation.
gc_tuning.tune_imports()

# A shell without job control starts background jobs with SIGINT ignored. The programs under test would inherit this.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# `python3` of agents, executors and tasks is the interpreter itself. A manager of versions (pyenv, asdf) has a script
# of the shell in its place, which takes seven times the processor time of an interpreter that does nothing.
INTERPRETERS = Path(sys.base_prefix, "bin")
if not Path(shutil.which("python3") or "").samefile(INTERPRETERS / "python3"):
    os.environ["PATH"] = os.pathsep.join((str(INTERPRETERS), os.environ.get("PATH", os.defpath)))

WAITING = "tests/integration/"
"""Where the tests are that wait more than they compute."""
LONG = ("slow", "mesos", "zookeeper")
"""Markers of tests that take long, the longest first."""
SINGLE = ("tests/simulation/test_simulation.py",)
"""Files whose tests share nothing: each test is given to a process by itself, at the end of the run, so that no process
computes for minutes when the others have ended."""


class Sharing(LoadScopeScheduling):  # type: ignore[misc]
    """Gives whole files to processes in the order in which they were collected: the tests of SINGLE one by one, files
    of READERS together."""

    def _split_scope(self, nodeid: str) -> str:
        file = nodeid.partition("::")[0]
        if file in SINGLE:
            return nodeid
        return READERS[0] if file in READERS else file


def file_of(item: pytest.Item) -> str:
    """The file of the test, relative to the root folder: the unit that is given to a process."""
    return item.nodeid.partition("::")[0]


def rank_of(item: pytest.Item) -> int:
    """Tests of lower rank begin earlier."""
    if file_of(item) in SINGLE:
        return len(LONG) + 1
    return next((rank for rank, name in enumerate(LONG) if item.get_closest_marker(name) is not None), len(LONG))


def order_of(files: dict[str, int]) -> list[str]:
    """Files in the order in which they begin; `files` has the lowest rank of the tests of each. Both kinds are mixed in
    proportion to their numbers."""
    ranked = sorted(files, key=lambda file: files[file])
    waiting = [file for file in ranked if file.startswith(WAITING)]
    computing = [file for file in ranked if not file.startswith(WAITING)]
    places = [((number + 0.5) / len(kind), file) for kind in (waiting, computing) for number, file in enumerate(kind)]
    return [file for _, file in sorted(places, key=lambda place: place[0])]


# --- hooks of pytest and xdist ----------------------------------------------------------------------------------------


def pytest_configure(config: pytest.Config) -> None:
    config.option.loadscopereorder = False  # the order is that of `pytest_collection_modifyitems`
    if ROTATE:
        os.environ["SHARE"] = str(chosen_share())  # the processes of xdist inherit it


def pytest_report_header() -> list[str]:
    return [f"rotating tests: share {chosen_share()} of 0 to {SHARES - 1}; make test-full runs all"] if ROTATE else []


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if ROTATE:
        chosen = chosen_share()
        config.hook.pytest_deselected(items=[item for item in items if left_out(item, chosen)])
        items[:] = [item for item in items if not left_out(item, chosen)]
    ranks: dict[str, int] = {}
    for item in items:
        ranks[file_of(item)] = min(rank_of(item), ranks.get(file_of(item), len(LONG) + 1))
    places = {file: place for place, file in enumerate(order_of(ranks))}
    items.sort(key=lambda item: places[file_of(item)])


def pytest_collection_finish() -> None:
    """Modules and collected tests live until the end of the run. Without this, every full run of the garbage collector
    looks at them, which is half of the time of a test that makes many objects."""
    gc.collect()
    gc.freeze()


def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> Sharing:
    return Sharing(config, log)
