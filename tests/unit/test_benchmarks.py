"""The benchmarks fit the code that they measure."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from benchmarks import __main__, hierarchies, simulations
from benchmarks.cases import DEFAULT, parse
from benchmarks.churn import slope
from benchmarks.parts import Parts
from benchmarks.processes import Failure
from tests.effort import check_few


def test_all_cases_that_run_by_default_can_be_parsed() -> None:
    assert all(agents >= 1 and taskgroups >= 1 for _, taskgroups, agents in map(parse, DEFAULT))
    with pytest.raises(Failure, match="unknown case"):
        parse("launch-many")


def test_every_part_of_a_launch_is_measured() -> None:
    parts = Parts(20, 2)
    parts.run()
    assert len(parts.seconds) == 10
    assert all(seconds >= 0 for seconds in parts.seconds.values())


@pytest.mark.parametrize("policy", check_few(simulations.POLICIES, 1, always=1))
def test_a_day_of_a_simulation_is_measured(policy: str) -> None:
    run = simulations.run(policy, 20, 10, full=False)
    assert (run.launched, run.waiting) == (20, 0) and run.finished > 15
    assert 0 < run.seconds < simulations.LONGEST
    assert simulations.run(policy, 60, 1, full=True, seconds=43200.0).waiting > 0


def test_a_case_that_misses_its_bound_prints_its_numbers_and_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(hierarchies.SLOWER, "hierarchical-core", 0.001)
    monkeypatch.setitem(hierarchies.ROUNDS, "hierarchical-core", 1)
    done = CliRunner().invoke(__main__.main, ["--case", "hierarchical-core-50-50"])
    assert done.exit_code == 1
    line = json.loads(next(line for line in done.stdout.splitlines() if line.startswith("{")))
    assert line["parts"]["ratio"] > 0.001 and "times as long with queues" in line["missed"]
    assert line["missed"] in done.stderr


def test_the_slope_is_that_of_the_line_through_the_points() -> None:
    assert slope([(0, 5.0), (10, 7.0), (20, 9.0)]) == pytest.approx(0.2)
