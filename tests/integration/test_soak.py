"""Two minutes of `make soak`: faults on a real Mesos with three masters, a real ensemble and three schedulers."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.soak import Soak

pytestmark = [pytest.mark.slow, pytest.mark.mesos, pytest.mark.zookeeper, pytest.mark.timeout(600)]
SEED = 8
MINUTES = 2.0
ROUNDS = 2


def test_after_every_round_what_runs_is_what_is_wanted(tmp_path: Path) -> None:
    for folder in (tmp_path, *list(tmp_path.parents)[:2]):
        folder.chmod(0o755)  # tasks of other users must be able to reach their directories
    soak = Soak(tmp_path, SEED)
    try:
        soak.start()
        found = soak.run(MINUTES, ROUNDS)
    finally:
        soak.stop()
        print(soak.report())
    assert found == [], f"seed {SEED}, evidence in {tmp_path}"
    assert soak.rounds >= ROUNDS
    assert sum(soak.faults.values()) >= 2 * soak.rounds
    assert {"create", "scale"} <= {operation for user in soak.users for operation in user.answers}
