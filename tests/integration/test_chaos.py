"""Users and faults at random on real processes (tests.integration.chaos): afterwards everything is as was promised."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.chaos import Chaos
from tests.integration.zookeeper import ZooKeeperServer

pytestmark = [pytest.mark.slow, pytest.mark.rotating]


def survives(chaos: Chaos) -> None:
    print(f"seed {chaos.seed}")
    try:
        assert chaos.whole(rounds=1) == [], f"seed {chaos.seed}"
    finally:
        chaos.stop()
    done = {operation for user in chaos.users for operation in user.answers}
    assert {"create", "scale", "update", "delete", "reschedule"} <= done, "the users had their say"


@pytest.mark.zookeeper
def test_two_schedulers_on_zookeeper(tmp_path: Path) -> None:
    server = ZooKeeperServer(tmp_path)
    server.start()
    try:
        survives(Chaos(tmp_path, 1, f"zk://{server.hosts}/chaos", server))
    finally:
        server.stop()


def test_two_schedulers_on_sqlite(tmp_path: Path) -> None:
    survives(Chaos(tmp_path, 2, f"sqlite:///{tmp_path}/state.db", None, executor="bcs"))
