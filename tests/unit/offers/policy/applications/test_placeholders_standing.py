"""Nominations of placeholders in a pool of standing capacity."""

from __future__ import annotations

import pytest

from offers.dimensions import Dimension, Dimensions
from offers.ledger.nodes import Node, NodePool, node_pool
from offers.ledger.usage import User
from offers.matching.explain import PROMISED
from offers.matching.statement import match
from offers.model import Demand, ResourceRequest
from offers.policy.applications.placeholders import Nominations, NotFound, Refused
from offers.policy.applications.records import Create
from offers.rules.constraints import EMPTY_RULES
from tests.unit.offers.matching.reference_matcher import LiveCensus
from transactions import explain

HALF = (("cpu", 500),)


def placeholder(name: str) -> Create:
    return Create(name, "ns/gang", "workers", "a", HALF)


@pytest.fixture
def pool() -> NodePool:
    pool = node_pool(Dimensions((Dimension("cpu", 1000, "cores"), Dimension("memory", 2**20, "MB"))))
    pool.hand.put(Node("a", (("cpu", 1000),)))
    return pool


def placed(pool: NodePool, amount: int) -> tuple[list[str], dict[str, int], str]:
    """Agents that take a unit, the reasons of those that do not, and the message for users."""
    demand = Demand("d", "ns/web", (0,), ResourceRequest(amounts=(("cpu", amount),)), EMPTY_RULES)
    result = match([demand], pool, LiveCensus([]), dry_run=True)
    agents = [one.agent_id for one in result.placements]
    if not result.diagnoses:
        return agents, {}, ""
    return agents, dict(result.diagnoses[0].reasons), explain.reasons(result.diagnoses[0])


def test_promised_room_is_for_the_unit_of_the_gang(pool: NodePool) -> None:
    room = Nominations(pool)
    room.create(placeholder("tg-1"), 60.0)
    assert placed(pool, 500)[0] == ["a"]
    agents, reasons, words = placed(pool, 600)
    assert (agents, reasons) == ([], {PROMISED: 1})
    assert "1 with room that is promised to other taskgroups" in words
    assert placed(pool, 1100)[1] == {"cpu": 1}, "an agent without the promise would lack it too"
    claim = room.swap("tg-1", "unit", HALF)
    assert claim is not None and (claim.node, claim.unit) == ("a", "unit")
    assert pool.hand.stands("unit")
    assert (room.swap("tg-1", "other", HALF), dict(pool.usage.holds)) == (None, {})


def test_promises_end_on_request_with_their_time_and_with_their_agent(pool: NodePool) -> None:
    room = Nominations(pool)
    for number, until in enumerate((60.0, 10.0)):
        room.create(placeholder(f"tg-{number}"), until)
    assert room.lost(5.0) == []
    assert room.lost(10.0) == ["tg-1"]
    room.create(placeholder("tg-1"), 60.0)
    room.remove(placeholder("tg-1"))
    with pytest.raises(NotFound):
        room.remove(placeholder("tg-1"))
    pool.hand.remove("a")
    assert room.lost(10.0) == ["tg-0"]
    with pytest.raises(Refused, match="does not exist"):
        room.create(placeholder("tg-2"), 60.0)
    assert dict(pool.usage.counted) == {}


def test_the_newest_promise_ends_when_others_use_the_room(pool: NodePool) -> None:
    room = Nominations(pool)
    for number in range(2):
        room.create(placeholder(f"tg-{number}"), 60.0)
    pool.hand.seen(User("foreign", "a", (("cpu", 300),), ours=False))
    assert room.lost(0.0) == ["tg-1"]
    assert room.lost(0.0) == []


def test_a_repeated_promise_gets_another_time(pool: NodePool) -> None:
    room = Nominations(pool)
    for now in (0.0, 40.0, 80.0):
        room.create(placeholder("tg-0"), now + room.seconds)
        assert room.lost(now) == []
    room.remove(placeholder("tg-0"))
    assert dict(pool.usage.holds) == {}
