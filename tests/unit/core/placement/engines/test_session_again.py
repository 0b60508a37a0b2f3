"""A session follows without news of room where evictions may help that could not help before."""

from __future__ import annotations

from dataclasses import replace

import pytest

from bcs_scheduler.core.options import CoreOptions
from offers.policy.session.configuration import policy_of
from store.records import Namespace, Queue
from tests.unit.busycluster import BusyCluster
from tests.unit.offers.policy.session.policy_clusters import TIERS
from transactions.rules.disruptions import WAITED


@pytest.fixture
def cluster() -> BusyCluster:
    """A full agent of four cores, on which a queue that deserves two has nothing."""
    return made(instances=4, bound=1)


def made(instances: int, bound: int) -> BusyCluster:
    tiers = [{"plugins": [{"name": name} for name in tier]} for tier in TIERS]
    policy = policy_of({"actions": "reclaim, allocate, backfill", "tiers": tiers})
    options = replace(CoreOptions(strict=True, validate=True, session_period=0.5, aging=0.0), policy=policy)
    found = BusyCluster(options, {"a": 4000}, [Queue(name="owed"), Namespace(name="owed", queue="owed")])
    found.create("low", 1000, instances=instances, max_unavailable=bound)
    found.seconds(3)
    assert len(found.groups("low")) == instances
    return found


def test_the_next_victim_follows_when_the_budget_has_grown_with_time(cluster: BusyCluster) -> None:
    cluster.create("wants", 1000, instances=2, namespace="owed")
    cluster.seconds(int(WAITED) - 5)
    assert len(cluster.groups("wants", "owed")) == 1, "the budget is one taskgroup"
    cluster.seconds(10)
    assert len(cluster.groups("wants", "owed")) == 2


def test_evictions_follow_when_launches_have_taken_the_idle_room() -> None:
    """`reclaim` runs before `allocate`: it found idle room for each of the two."""
    found = made(instances=3, bound=3)
    found.create("wants", 1000, instances=2, namespace="owed")
    found.seconds(10)
    assert len(found.groups("wants", "owed")) == 2
    assert len(found.groups("low")) == 2
