"""The pool: what is offered now, per agent and role."""

from __future__ import annotations

from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from offers.ledger.offered import OfferPool, offer_pool
from offers.matching.statement import match
from offers.model import AgentOverrides, Demand, Offer, ResourceKey, ResourceRequest
from offers.resources import ResourceMap, amount_of, gather, ports_of, size
from offers.rules.constraints import EMPTY_RULES, RuleSpec, compile_rules
from tests.unit.offers.matching.reference_matcher import Live, LiveCensus


def offer(number: int = 0, agent: int | None = None, cpus: int = 4000, role: str = "*", **fields: Any) -> Offer:
    agent = number if agent is None else agent
    return Offer(
        f"o{number}",
        f"a{agent}",
        f"h{agent}",
        f"10.0.0.{agent}",
        role,
        fields.pop("attributes", {}),
        ((ResourceKey("cpus", role), cpus), (ResourceKey("mem", role), 1000)),
        ((ResourceKey("ports", role), ((100 + number * 10, 104 + number * 10),)),),
        **fields,
    )


def place(pool: OfferPool, slots: int = 1, cpus: int = 1000, **fields: Any) -> list[str]:
    """Host names of the agents used."""
    demand = Demand(
        "d", "ns/a", tuple(range(slots)), ResourceRequest(cpus=cpus), fields.pop("rules", EMPTY_RULES), **fields
    )
    return [placement.hostname for placement in match([demand], pool, LiveCensus([])).placements]


def test_offers_of_one_agent_are_used_together() -> None:
    pool = offer_pool()
    pool.hand.add(offer(1, agent=7, cpus=600))
    pool.hand.add(offer(2, agent=7, cpus=600))
    assert place(pool, cpus=1000) == ["h7"]
    assert {taken.id for taken in pool.hand.withdraw("a7")} == {"o1", "o2"}
    assert (len(pool.hand), pool.agents) == (0, 0)


def test_two_agents_on_one_host_do_not_disturb_each_other() -> None:
    pool = offer_pool()
    pool.hand.add(offer(1)._replace(hostname="same"))
    pool.hand.add(offer(2)._replace(hostname="same"))
    assert pool.agents == 2
    assert len(place(pool, slots=8)) == 8


def test_roles_are_kept_apart() -> None:
    pool = offer_pool()
    pool.hand.add(offer(1, agent=7, role="prod", cpus=600))
    pool.hand.add(offer(2, agent=7, cpus=600))
    assert place(pool, cpus=1000) == []
    assert place(pool, cpus=500, role="prod") == ["h7"]
    assert [taken.id for taken in pool.hand.withdraw("a7", "prod")] == ["o1"]
    assert [left.id for left in pool.hand.all()] == ["o2"]
    assert pool.hand.withdraw("a7", "prod") == []


def test_a_rescinded_offer_is_gone_and_can_come_back() -> None:
    pool = offer_pool()
    pool.hand.add(offer(1))
    assert pool.hand.rescind("o1") and not pool.hand.rescind("o1")
    assert place(pool) == []
    pool.hand.add(offer(1))
    pool.hand.add(offer(1))
    assert len(pool.hand) == 1
    assert place(pool, slots=9) == ["h1"] * 4


def test_old_offers_expire() -> None:
    pool = offer_pool()
    for number, received in ((1, 100.0), (2, 150.0)):
        pool.hand.add(offer(number, received_at=received))
    assert pool.hand.expire(now=339.0, age=240.0) == []
    assert [old.id for old in pool.hand.expire(now=340.0, age=240.0)] == ["o1"]
    assert [left.id for left in pool.hand.all()] == ["o2"]


def test_offers_of_agents_with_promised_room_expire_a_minute_after_they_came() -> None:
    pool = offer_pool()
    for number in (1, 2):
        pool.hand.add(offer(number, received_at=100.0))
    asked: list[str] = []

    def promised() -> set[str]:
        asked.append("promised")
        return {"a1"}

    assert pool.hand.expire(now=104.0, age=5.0, promised=promised) == []
    assert asked == []
    assert [old.id for old in pool.hand.expire(now=105.0, age=5.0, promised=promised)] == ["o2"]
    assert pool.hand.expire(now=159.0, age=5.0, promised=promised) == []
    assert [old.id for old in pool.hand.expire(now=161.0, age=5.0, promised=promised)] == ["o1"]


def test_decorations_apply_to_present_and_future_offers_of_the_key() -> None:
    pool = offer_pool()
    zone = compile_rules([[RuleSpec("zone", "CLUSTER", ("z1",))]])
    pool.hand.add(offer(1, attributes={"InnerIP": "192.168.0.1", "zone": "z0"}))
    pool.override("192.168.0.1", AgentOverrides(attributes={"zone": "z1"}))
    assert place(pool, rules=zone) == ["h1"]
    pool.hand.withdraw("a1")
    pool.hand.add(offer(1, attributes={"InnerIP": "192.168.0.1", "zone": "z0"}))
    assert place(pool, rules=zone) == ["h1"]
    pool.override("192.168.0.1", AgentOverrides())
    assert place(pool, rules=zone) == []
    pool.override("192.168.0.1", AgentOverrides(disabled=True))
    assert place(pool) == []
    pool.hand.clear()
    pool.hand.add(offer(1, attributes={"InnerIP": "192.168.0.1"}))
    assert place(pool) == [], "a new subscription does not undo what operators set"


def test_an_agent_that_is_renamed_follows_its_new_key() -> None:
    pool = offer_pool()
    pool.override("new", AgentOverrides(disabled=True))
    pool.hand.add(offer(1))
    assert place(pool) == ["h1"]
    pool.hand.withdraw("a1")
    pool.hand.add(offer(1)._replace(hostname="new"))
    assert place(pool) == []
    pool.override("new", AgentOverrides())
    assert place(pool) == ["new"]


def test_agents_under_planned_maintenance_are_not_used() -> None:
    pool = offer_pool()
    pool.hand.add(offer(1, unavailable_from=1e9))
    assert place(pool) == []
    pool.hand.withdraw("a1")
    pool.hand.add(offer(1))
    assert place(pool) == ["h1"]


def test_the_known_size_of_an_agent_decides_how_empty_it_is() -> None:
    pool = offer_pool()
    pool.hand.add(offer(1, cpus=4000))
    pool.hand.add(offer(2, cpus=2000))
    pool.learn_total("a1", 16000, 1000)
    pool.learn_total("a2", 2000, 1000)
    assert [known.id for known in pool.hand.all()] == ["o2", "o1"]
    assert place(pool) == ["h2"]


def test_a_remembered_agent_compares_with_its_greatest_offer() -> None:
    pool = offer_pool()
    pool.hand.add(offer(1, cpus=4000))
    pool.hand.withdraw("a1")
    pool.hand.add(offer(1, cpus=1000))
    pool.hand.add(offer(2, cpus=1000))
    assert [known.id for known in pool.hand.all()] == ["o2", "o1"]
    assert place(pool) == ["h2"]
    pool.hand.remove_agent("a1")
    pool.hand.withdraw("a2")
    pool.hand.add(offer(2, cpus=1000))
    pool.hand.add(offer(1, cpus=1000))
    assert place(pool) == ["h1"], "a forgotten agent starts anew: both are empty, and the first row is taken"


class PoolMachine(RuleBasedStateMachine):
    """The columns of the pool always say what its offers, less what was placed, add up to."""

    def __init__(self) -> None:
        super().__init__()
        self.pool = offer_pool()
        self.known: dict[str, Offer] = {}
        self.placed: dict[tuple[str, str], int] = {}

    @rule(number=st.integers(0, 200), agent=st.integers(0, 80), role=st.sampled_from(("*", "prod")))
    def add(self, number: int, agent: int, role: str) -> None:
        before = self.known.get(f"o{number}")
        if before is not None:
            self.placed.pop((before.agent_id, before.role), None)
        new = offer(number, agent, role=role)
        self.pool.hand.add(new)
        self.known[new.id] = new

    @rule(number=st.integers(0, 200))
    def rescind(self, number: int) -> None:
        old = self.known.get(f"o{number}")
        assert self.pool.hand.rescind(f"o{number}") == (old is not None)
        if old is not None:
            self.placed.pop((old.agent_id, old.role), None)
            del self.known[old.id]

    @rule(agent=st.integers(0, 80), forget=st.booleans())
    def take(self, agent: int, forget: bool) -> None:
        taken = self.pool.hand.remove_agent(f"a{agent}") if forget else self.pool.hand.withdraw(f"a{agent}")
        assert {gone.id for gone in taken} == {
            known.id for known in self.known.values() if known.agent_id == f"a{agent}"
        }
        for gone in taken:
            del self.known[gone.id]
            self.placed.pop((gone.agent_id, gone.role), None)

    @rule(slots=st.integers(1, 5), role=st.sampled_from(("*", "prod")))
    def place(self, slots: int, role: str) -> None:
        demand = Demand("d", "ns/a", tuple(range(slots)), ResourceRequest(cpus=500), EMPTY_RULES, role)
        for placement in match([demand], self.pool, LiveCensus([])).placements:
            key = (placement.agent_id, role)
            self.placed[key] = self.placed.get(key, 0) + 500

    @invariant()
    def columns_agree_with_the_offers(self) -> None:
        table = self.pool.table
        table.flush()
        groups: dict[tuple[str, str], list[Offer]] = {}
        for known in self.known.values():
            groups.setdefault((known.agent_id, known.role), []).append(known)
        active = {(row.agent_id, row.role): row for row in table.rows if row and table.active[row.number]}
        assert set(active) == set(groups)
        for key, offers in groups.items():
            whole: ResourceMap = gather(offers)
            free = table.free[:, active[key].number].tolist()
            assert free[0] == max(amount_of(whole, "cpus") - self.placed.get(key, 0), 0)
            assert free[1] == amount_of(whole, "mem") and free[4] == size(ports_of(whole))
        assert self.pool.agents == len({agent for agent, _ in groups})
        assert {known.id for known in self.pool.hand.all()} == set(self.known)


TestPoolMachine = PoolMachine.TestCase
TestPoolMachine.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)


def test_live_taskgroups_hold_extended_resources() -> None:
    pool = offer_pool()
    pool.hand.add(offer(1))
    pool.override("h1", AgentOverrides(extended={"vendor/card": 3000}))
    demand = Demand("d", "ns/a", (0, 1, 2, 3), ResourceRequest(extended=(("vendor/card", 1000),)), EMPTY_RULES)
    live = [Live("ns/b", "a1", {}, extended=(("vendor/card", 1000),))]
    assert len(match([demand], pool, LiveCensus(live)).placements) == 2
