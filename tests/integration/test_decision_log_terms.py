"""A day of faults on real processes and a real ZooKeeper is recorded by all leaders, and every decision is repeated."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from bcs_scheduler.decisions.terms import terms_of
from tests.integration.chaos import Chaos
from tests.integration.zookeeper import ZooKeeperServer

pytestmark = [pytest.mark.slow, pytest.mark.zookeeper, pytest.mark.rotating]


def test_every_decision_of_all_leaders_is_repeated(tmp_path: Path) -> None:
    server = ZooKeeperServer(tmp_path)
    server.start()
    folder = tmp_path / "decisions"
    try:
        chaos = Chaos(tmp_path, 5, f"zk://{server.hosts}/chaos", server, decisions=folder)
        try:
            assert chaos.whole(rounds=1) == [], f"seed {chaos.seed}"
        finally:
            chaos.stop()
    finally:
        server.stop()
    found = terms_of([folder])
    assert len(found.terms) >= 3, "leaders were killed, stopped and suspended"
    assert len({term.path.parent for term in found.terms}) == 2, "both schedulers have led"
    done = subprocess.run(
        [sys.executable, "-m", "bcs_scheduler.main", "replay", str(folder)],
        env={**os.environ, "PYTHONHASHSEED": "4711"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    shown = [int(epoch) for epoch in re.findall(r"^term (\d+), recorded", done.stdout, re.MULTILINE)]
    assert shown == [term.epoch for term in found.terms] == sorted(set(shown))
    total = re.search(
        r"^(\d+) terms: (\d+) turns repeated with equal decisions, (\d+) decisions$", done.stdout, re.MULTILINE
    )
    assert total is not None, done.stdout
    assert int(total[1]) == len(shown) and int(total[2]) > 100 and int(total[3]) > 300
