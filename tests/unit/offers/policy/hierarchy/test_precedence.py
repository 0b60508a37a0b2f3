"""The use of room that is kept for others: one answer for cycles, searches and held room."""

from __future__ import annotations

from typing import Any

import pytest

from offers.policy.hierarchy.precedence import Side, outranks
from offers.policy.hierarchy.state.application import Application
from offers.policy.hierarchy.state.model import Kept
from offers.policy.hierarchy.tree import Tree
from tests.unit.offers.policy.hierarchy.test_preemption import pending, queue, running, tree


def shared() -> Tree:
    """A queue with a guarantee of two cores, one of which is used, beside others without one. All nodes are full."""
    plain = [queue("plain"), queue("offset", offset=3), queue("fence", fence="fence", offset=1)]
    state = tree([queue("owed", 2), *plain], {"n1": 2})
    running(state, "root.owed", "n1", 1)
    running(state, "root.plain", "n1", 1)
    return state


def side(state: Tree, leaf: str, priority: int = 0, amount: int = 1, application: str = "") -> Side:
    return Side(application or f"of-{leaf}", state.queues[f"root.{leaf}"], priority, (("cpus", amount),))


@pytest.mark.parametrize(
    ("asks", "owner", "expected"),
    [
        ([("plain", 0)], ("plain", 0), False),
        ([("plain", 1)], ("plain", 0), True),
        ([("plain", 1), ("plain", 0)], ("plain", 0), False),
        ([("owed", 0)], ("plain", 9), True),
        ([("owed", 0), ("owed", 0)], ("plain", 9), False),
        ([("plain", 5)], ("offset", 3), False),
        ([("plain", 7)], ("offset", 3), True),
        ([("plain", 2)], ("fence", 9), True),
        ([("fence", 9)], ("plain", 1), False),
    ],
)
def test_asks_outrank_by_their_share_together_or_by_the_priority_of_each(
    asks: list[tuple[str, int]], owner: tuple[str, int], expected: bool
) -> None:
    state = shared()
    wants = [side(state, leaf, priority) for leaf, priority in asks]
    assert outranks(wants, [side(state, *owner, application="owner")]) is expected


def test_all_owners_must_be_outranked_and_own_room_is_not_that_of_others() -> None:
    state = shared()
    ask = side(state, "plain", 5)
    owners = [side(state, "plain", 0, application="low"), side(state, "plain", 5, application="alike")]
    assert outranks([ask], owners[:1]) and not outranks([ask], owners)
    assert not outranks([ask], [])
    assert not outranks([ask], [side(state, "plain", 0, application=ask.application)])
    assert not outranks([side(state, "owed", 0, application="low")], owners[:1])


def test_a_guarantee_that_both_branches_share_prefers_none_of_them() -> None:
    """`first` has a guarantee of its own below that of its parent, `second` has only that of the parent."""
    state = tree([{**queue("both", 4), "queues": [queue("first", 2), queue("second")]}, queue("other")], {"n1": 4})
    first, second = (side(state, f"both.{name}") for name in ("first", "second"))
    owner = side(state, "other", 9, application="owner")
    assert outranks([second], [owner]) and outranks([first], [second]) and outranks([first], [owner])
    assert not outranks([second], [first]) and not outranks([second], [owner, first])
    assert not outranks([side(state, "both.first", application="alike")], [first])


def test_a_cycle_and_a_search_have_the_same_answer() -> None:
    """The owner of the room is the old work for the search, and reserves the node for the cycle."""
    for leaf, priority, amount in (("owed", 0, 1), ("owed", 0, 2), ("plain", 1, 1), ("plain", 0, 1), ("fence", 9, 1)):
        state = shared()
        state.submit(Application("owner", "root.plain", 0))
        state.begin(state.terms._replace(kept=Kept({"n1": {"cpus": 1}}, {}, frozenset({"owner"}))))
        (ask,) = pending(state, f"root.{leaf}", amount, priority=priority)
        group = state.applications[ask.application].asks[ask.name]
        asked: dict[str, Any] = {"search": state.beside(state.queues[f"root.{leaf}"], ask) == {"n1": {"cpus": 1}}}
        state.nodes.by_name["n1"].reserving["owner/t"] = ask._replace(application="owner", priority=0)
        asked["cycle"] = state.outranks(group, state.nodes.by_name["n1"])
        assert asked["search"] is asked["cycle"], (leaf, priority, amount)
