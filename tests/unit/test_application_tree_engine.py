"""Gangs over the tree of hierarchical queues: reservation, swap, and figures that are sums at every step."""

from __future__ import annotations

from typing import Any

import pytest

from offers.dimensions import amounts
from offers.policy.applications.gangs.effects import Create, Launch, Release, Traits
from offers.policy.applications.gangs.gang import Gang
from offers.policy.applications.gangs.tree_engine import TreeEngine
from offers.policy.applications.lifecycle.health import ProblemCode, problems_of
from offers.policy.applications.metadata import ApplicationMetadata, SchedulingPolicyParameters, TaskGroup, TaskMetadata
from offers.policy.hierarchy.configuration.document import partition_of
from offers.policy.hierarchy.tree import Tree

ONE, TWO = amounts({"vcore": 1}), amounts({"vcore": 2})


def engine(nodes: dict[str, int], most: int = 8, sort: str = "fifo", **more: Any) -> TreeEngine:
    leaf = {"name": "q", "resources": {"max": {"vcore": most}}, "properties": {"application.sort.policy": sort}}
    partition = partition_of({"queues": [{"name": "root", "queues": [leaf]}]}, quantity=int)
    return TreeEngine(Tree(partition, [(name, {"vcore": cores}) for name, cores in nodes.items()]), **more)


class Work:
    """One application over the tree; figures are checked after each step."""

    def __init__(self, over: TreeEngine, members: int = 2) -> None:
        self.engine = over
        parameters = SchedulingPolicyParameters(60)
        group = TaskGroup("w", members, TWO)
        metadata = ApplicationMetadata("app", "root.q", task_groups=(group,), parameters=parameters)
        over.add(metadata)
        self.gang = Gang.born(metadata, over, Traits())
        self.gang.submit(0.0)
        self.launched: dict[str, str] = {}

    def run(self, now: float) -> Work:
        """Allocates and confirms until nothing is due."""
        while True:
            made = list(self.engine.cycles())
            for _, name, node in made:
                self.gang.allocated(name, node, now)
            due = list(self.gang.due())
            for effect in due:
                match effect:
                    case Create(placeholder=name):
                        self.gang.bound(name, now)
                    case Release(placeholder=name):
                        self.gang.gone(name, now)
                    case Launch(task=name, node=node):
                        self.launched[name] = node
                        self.gang.launched(name, now)
                assert problems_of(self.engine.figures()) == []
            if not made and not due:
                return self

    def add(self, name: str, request: Any = TWO) -> None:
        self.gang.add_task(TaskMetadata("app", name, request, "w", created=2.0), 2.0)
        assert problems_of(self.engine.figures()) == []


def test_a_gang_is_reserved_swapped_and_ends_over_the_tree() -> None:
    work = Work(engine({"n1": 4})).run(1.0)
    assert work.engine.tree.queues["root.q"].allocated == {"vcore": 4}
    work.add("a")
    work.add("b", ONE)
    work.add("c", ONE)
    work.run(3.0)
    assert set(work.launched) == {"a", "b", "c"}
    for name in "abc":
        work.gang.ended(name, 4.0)
    work.gang.tick(34.0)
    assert work.gang.record.core.state == "Completed"
    assert work.engine.tree.nodes.by_name["n1"].free == {"vcore": 4}


def test_a_task_that_moves_to_another_node_holds_its_room_there() -> None:
    work = Work(engine({"n1": 2, "n2": 2}, suits=lambda app, task, node: node == "n2"), members=1)
    work.run(1.0)
    (holder,) = work.gang.placeholders.values()
    assert holder.node == "n1"
    work.add("a")
    assert work.engine.tree.nodes.by_name["n2"].free == {"vcore": 0}
    assert work.engine.tree.queues["root.q"].allocated == {"vcore": 2}
    work.run(3.0)
    assert work.launched == {"a": "n2"}
    assert work.engine.tree.nodes.by_name["n1"].free == {"vcore": 2}


def test_room_that_was_held_wakes_what_waits_for_it() -> None:
    work = Work(engine({"n1": 2, "n2": 2}, suits=lambda app, task, node: node == "n2"), members=1)
    work.run(1.0)
    work.add("a")
    other = ApplicationMetadata("other", "root.q")
    work.engine.add(other)
    work.engine.ask("other", "t", TWO, 5.0)
    assert list(work.engine.cycles()) == []
    work.gang.ended("a", 6.0)
    assert list(work.engine.cycles()) == [("other", "t", "n2")]
    assert problems_of(work.engine.figures()) == []


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"sort": "fair"}, "the queue root.q does not sort applications by submission"),
        ({"most": 3}, "the maximum of the queue root.q is smaller than the gang"),
    ],
)
def test_a_queue_that_cannot_take_the_gang_says_why(fields: dict[str, Any], message: str) -> None:
    work = Work(engine({"n1": 1}, **fields))
    assert [one.message for one in work.gang.take_notices()] == [message]
    assert work.gang.record.core.state == "Rejected"
    assert engine({"n1": 1}).refusal("a", "root.x", {}) == "the queue root.x does not exist"


def test_a_wrong_figure_of_the_tree_is_found() -> None:
    work = Work(engine({"n1": 4})).run(1.0)
    work.engine.tree.queues["root.q"].allocated["vcore"] += 1
    work.engine.tree.nodes.by_name["n1"].free["vcore"] += 1
    assert {one.code for one in problems_of(work.engine.figures())} == {ProblemCode.QUEUE_SUM, ProblemCode.NODE_SUM}
