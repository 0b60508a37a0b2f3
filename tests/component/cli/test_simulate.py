"""`bcs simulate` as a user calls it; no request reaches the server."""

from __future__ import annotations

import json
from typing import Any

SMALL = ("--agents", "2x2cpu,4gb", "--load", "4x1,cpus=1,duration=60,over=10s,queue=a", "--for", "10m")


def test_the_tables_have_a_row_for_each_run_and_queue(bcs: Any) -> None:
    result = bcs("simulate", *SMALL, "--policy", "conf/policy.yaml", "-o", "table")
    assert result.code == 0, result.err
    lines = [line.split() for line in result.out.splitlines()]
    assert [line[0] for line in lines if line] == ["RUN", "simple", "conf/policy.yaml", "QUEUE", "a", "a"]


def test_the_data_is_equal_for_equal_seeds(bcs: Any) -> None:
    first, again = (json.loads(bcs("simulate", *SMALL, "-o", "json").out) for _ in range(2))
    assert first == again
    assert first["runs"][0]["groups"]["a"]["finished"] == 4


def test_bad_options_are_refused_with_the_place(bcs: Any) -> None:
    for words, message in (
        (("--agents", "2x2cpu,4gb"), "--load is missing"),
        (("--load", "1x1"), "give --dump or --agents"),
        (("--agents", "2x2cpu,4gb", "--load", "1x1,size=2"), 'unknown field "size"'),
        (("--dump", "/absent", "--load", "1x1"), "--dump: /absent: No such file"),
        ((*SMALL, "--policy", "absent.yaml"), "--policy: absent.yaml: No such file"),
    ):
        result = bcs("simulate", *words)
        assert result.code == 2
        assert message in result.err
