"""Work that waits for long, and the room that is kept for it: every policy, on virtual time."""

from __future__ import annotations

from typing import Any

from bcs_scheduler.core.options import CoreOptions
from offers.policy.hierarchy import partition_of
from tests.unit.busycluster import BusyCluster


def tree_options(*queues: dict[str, Any], **fields: Any) -> CoreOptions:
    document = {"queues": list(queues), "placementrules": [{"name": "tag", "value": "namespace"}]}
    partition = partition_of(document, ("cpus", "mem"))
    return CoreOptions(strict=True, hierarchy=partition, session_period=0.5, validate=True, **fields)


def crowded(*queues: dict[str, Any]) -> BusyCluster:
    """Two agents with a core and a half free each, and six applications of three cores that wait."""
    cluster = BusyCluster(tree_options({"name": "default"}, *queues), {"a": 8000, "b": 8000})
    for agent in ("a", "b"):
        cluster.create(f"runs-{agent}", 6500, max_unavailable=1)
    cluster.seconds(3)
    for number in range(6):
        cluster.create(f"large{number}", 3000)
    cluster.seconds(12)
    return cluster


def test_large_applications_that_wait_close_no_agents_for_small_ones() -> None:
    cluster = crowded()
    for round_ in range(2):
        cluster.create(f"small{round_}", 500, instances=3)
        cluster.seconds(10)
        assert len(cluster.groups(f"small{round_}")) == 3
    assert cluster.evicted == []


def test_a_queue_below_its_guarantee_ends_nothing_beside_room_that_is_free() -> None:
    owed = {
        "name": "owed",
        "resources": {"guaranteed": {"cpus": 3}},
        "properties": {"preemption.delay": "1s"},
    }
    cluster = crowded(owed)
    cluster.create("small", 500, instances=6, namespace="owed")
    for _ in range(20):
        cluster.second()
        assert cluster.evicted == []
    assert len(cluster.groups("small", "owed")) == 6


def test_an_agent_is_reserved_while_runs_there_are_expected_to_end() -> None:
    cluster = BusyCluster(tree_options({"name": "default"}), dict.fromkeys(("a", "b", "c"), 4000))
    number = 0

    def second() -> None:
        nonlocal number
        waiting = len(cluster.lab.core.turn_context.engine.demands)
        for _ in range(waiting, 4):
            cluster.create(f"small{number}", 2000, lasts=20.0 + number % 7)
            number += 1
        cluster.second()

    for _ in range(130):
        second()
    cluster.create("large", 4000)
    for _ in range(120):
        second()
        if cluster.groups("large"):
            break
    assert cluster.groups("large") and cluster.evicted == []
