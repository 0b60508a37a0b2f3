"""The engine decides bit for bit as the simple reference does, on random small clusters."""

from __future__ import annotations

from itertools import permutations

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from offers.policy.session.session import decide
from tests.effort import share
from tests.unit.offers.policy.session.policy_clusters import ACTIONS, Cluster, crowded_cluster, policy, random_cluster
from tests.unit.offers.policy.session.policy_reference import Reference

ORDERS = [order for length in (1, 2, 4) for order in permutations(ACTIONS, length)]


def compare(cluster: Cluster, actions: tuple[str, ...], strict: bool = False) -> None:
    found = decide(cluster.snapshot(), policy(*actions, strict=strict))
    wanted = Reference(cluster.agents, cluster.queues, cluster.jobs, cluster.now, strict=strict).run(actions)
    assert [tuple(bind) for bind in found.binds] == wanted.binds
    assert [(eviction.job, eviction.task) for eviction in found.evictions] == wanted.evicted
    assert found.pipelined == wanted.pipelined
    assert {name: (one.type, one.reason) for name, one in found.conditions.items()} == wanted.conditions
    deserved = {queue: {d: row[d] for d in wanted.dims} for queue, row in found.deserved.items()}
    assert deserved == wanted.deserved


@given(st.integers(0, 2**32), st.sampled_from(ORDERS), st.booleans())
@settings(max_examples=share(250), deadline=None)
@example(0, ("reclaim", "allocate", "backfill", "preempt"), False)
@example(481, ("reclaim", "allocate", "backfill", "preempt"), False)
@example(1092, ("reclaim", "allocate", "backfill", "preempt"), False)
def test_the_engine_decides_as_the_reference(seed: int, actions: tuple[str, ...], strict: bool) -> None:
    compare(random_cluster(seed), actions, strict)


@given(st.integers(0, 2**32), st.sampled_from(ORDERS), st.booleans())
@settings(max_examples=share(120), deadline=None)
@example(1152, ("reclaim", "allocate", "backfill", "preempt"), False)
def test_the_engine_evicts_as_the_reference(seed: int, actions: tuple[str, ...], strict: bool) -> None:
    compare(crowded_cluster(seed), actions, strict)


@pytest.mark.rotating
@pytest.mark.slow
@pytest.mark.parametrize("block", range(10))
def test_the_engine_decides_as_the_reference_on_many_clusters(block: int) -> None:
    for seed in range(block * 200, block * 200 + share(200)):
        compare(random_cluster(seed), ORDERS[seed % len(ORDERS)], strict=seed % 3 == 0)
    for seed in range(block * 60, block * 60 + share(60)):
        compare(crowded_cluster(seed), ORDERS[seed % len(ORDERS)], strict=seed % 3 == 0)
