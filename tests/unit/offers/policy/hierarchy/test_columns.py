"""The columns of a partition beside its nodes."""

from __future__ import annotations

from offers.policy.hierarchy.state.columns import CLOSED
from offers.policy.hierarchy.state.nodes import Node, Nodes


def test_the_room_of_nodes_that_came_and_went_between_two_looks_is_closed() -> None:
    nodes = Nodes()
    nodes.fill([Node("n0", {"cpus": 2})])
    assert nodes.columns.room("cpus", nodes.by_name).tolist() == [2]
    for name in ("n1", "n2"):
        nodes.add(Node(name, {"cpus": 4}))
    for name in ("n1", "n2"):
        nodes.remove(name)
    assert nodes.columns.room("cpus", nodes.by_name).tolist() == [2, CLOSED, CLOSED]
