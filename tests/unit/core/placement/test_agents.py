"""Agents as engines see them: what is in the hands of others."""

from __future__ import annotations

from typing import Any, cast

import pytest

from bcs_scheduler.core.placement.snapshots.agents import agent_of
from offers.ledger.nodes import Node
from offers.ledger.table import Row


@pytest.mark.parametrize(("size", "ours", "others"), [(4000, 1000, 500), (3000, 4000, 200), (1000, 0, 2000)])
def test_others_use_the_rest_of_a_node_which_may_have_less_than_runs_there(size: int, ours: int, others: int) -> None:
    """Seed 14 of the standing world, with a tree: preemption ended too little work on such a node."""
    row = Row(0, "n1", "*", cast("Any", None), 1)
    row.node = Node("n1", (("cpu", size),))
    row.amounts = [size - ours - others]
    agent = agent_of("n1", row, {"cpu": ours}, None, lines=("cpu",))
    assert (agent.total, agent.foreign) == ((("cpu", size),), (("cpu", others),))
