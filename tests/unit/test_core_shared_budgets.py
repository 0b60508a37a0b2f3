"""Both sides of a rolling update have one disruption budget, and those who end several taskgroups count what both
spend: on virtual time."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from bcs_scheduler.core.interface import requests
from store.records import Strategy
from store.records.definition import Amounts, Container
from tests.unit.busycluster import BusyCluster
from tests.unit.lab import version
from tests.unit.rollinglab import wish
from tests.unit.test_core_old_work import AGING, evictions, reason, world

HOUR = 3600.0
HALF = (Container(command="x", requests=Amounts(cpus=500, mem=32_000, disk=0)),)


def definition(**fields: Any) -> Any:
    return msgspec.structs.replace(version(2, containers=HALF, **fields), namespace="has", application="web")


def updating(engine: str) -> BusyCluster:
    """A deployment of two taskgroups of half a core, of which one may be missing; its update waits for long with one
    taskgroup on each side. Both run on an agent of one core. The work on the other agent is too small to help."""
    cluster = world(engine, {"small": 600}, owed=1)
    cluster.create("small", 600, namespace="has")
    cluster.seconds(3)
    cluster.agents["large"] = 1000
    strategy = Strategy(max_unavailable=1, max_surge=0, min_ready=HOUR, step_timeout=2 * HOUR)
    wanted, lab = msgspec.structs.replace(wish(2, strategy=strategy), namespace="has"), cluster.lab
    assert not lab.ask(requests.CreateDeployment(deployment=wanted, version=definition())).error
    cluster.seconds(3)
    changed = definition(labels={"revision": "2"})
    assert not lab.ask(requests.UpdateDeployment(deployment=wanted, version=changed)).error
    cluster.seconds(10)
    deployment = lab.core.state.deployments["has/web"]
    assert [len(cluster.groups(name, "has")) for name in deployment.sides] == [1, 1]
    return cluster


@pytest.mark.parametrize("engine", ["session"])
def test_nothing_is_ended_for_work_that_needs_both_sides(engine: str) -> None:
    cluster = updating(engine)
    cluster.create("wants", 1000, namespace="owed")
    assert evictions(cluster, int(AGING) - 5) == []
    assert "disruption budget" in reason(cluster, "owed/wants")
