"""Three minutes of `make soak`: faults on a real Mesos with three masters, a real ensemble and three schedulers."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.soak import Soak
from tests.integration.soakpolicies import Policies

KINDS = ("slow", "mesos", "zookeeper", "rotating")
pytestmark = [*(getattr(pytest.mark, kind) for kind in KINDS), pytest.mark.timeout(600)]
SEED = 8
MINUTES = 2.0
ROUNDS, MOST_ROUNDS = 2, 8


def _folder(path: Path) -> Path:
    for folder in (path, *list(path.parents)[:2]):
        folder.chmod(0o755)  # tasks of other users must be able to reach their directories
    return path


def test_after_every_round_what_runs_is_what_is_wanted(tmp_path: Path) -> None:
    soak = Soak(_folder(tmp_path), SEED)
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


def test_after_every_round_queues_gangs_and_reservations_are_as_promised(tmp_path: Path) -> None:
    policies = Policies("reserve", SEED)
    soak = Soak(_folder(tmp_path), SEED, policies)

    def has_seen_all() -> bool:
        report = policies.report(tmp_path)
        return "ApplicationPreempting 0" not in report and "ReservationStarted 0" not in report

    try:
        soak.start()
        found = soak.run(1.0, ROUNDS)
        while not found and not has_seen_all() and soak.rounds < MOST_ROUNDS:
            found = soak.round()
    finally:
        soak.stop()
        print(soak.report())
    assert found == [], f"seed {SEED}, evidence in {tmp_path}"
    assert has_seen_all(), policies.report(tmp_path)
