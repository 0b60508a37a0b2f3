"""Statements: what is kept equals the greedy result of what is kept, and what is undone leaves nothing behind."""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from offers.errors import StaleSavepoint, StillSetAside
from offers.ledger.offered import OfferAllocator, OfferPool, offer_pool
from offers.matching.explain import NOTHING
from offers.matching.statement import Statement, match
from offers.model import AgentOverrides, Demand, Occupant, Offer, Placement, Provisional, ResourceKey, ResourceRequest
from offers.planned import PlannedCensus
from offers.rules.constraints import EMPTY_RULES, RuleSpec, compile_rules
from tests.effort import share
from tests.unit.offers import offers_strategies as strategies
from tests.unit.offers.matching.reference_matcher import Agent, Live, LiveCensus, reference
from tests.unit.offers.matching.test_matcher import SCORINGS, Scoring, build, decorated, limits, thresholds

NOBODY = LiveCensus([])


def snapshot(pool: OfferPool) -> object:
    """Everything that a pass can see of a pool, or that a launch takes out of it, bit for bit. Pots are kept up to date
    only in rows where the amounts do not tell all."""
    table = pool.table
    table.flush()
    leased: list[Any] = table.rows
    rows = [
        row
        and (
            (row.agent_id, row.role, row.open, tuple(row.amounts), row.score, row.totals, row.hostname, row.ip),
            (dict(row.attributes), row.overrides, row.unavailable),
            (
                dict(row.offers),
                list(map(id, row.claims)),
                list(row.ports),
                row.compound and row.resources,
                row.layout,
                row.compound,
            ),
        )
        for row in leased
    ]
    there = [number for number, row in enumerate(table.rows) if row is not None]
    columns = (table.free[:, there].tobytes(), table.score[there].tobytes(), table.active.tobytes())
    known = {agent: [id(row) for row in pool.rows_of(agent)] for agent in sorted(pool._roles)}
    return rows, columns, pool.agents, len(pool.hand), known, table._unused[-3:], sorted(pool._keys)


def referred(
    agents: list[Agent], demands: Sequence[Demand[Any]], live: list[Live], scoring: str
) -> list[Placement[Any]]:
    """The reference, one demand after the other; a gang that is too small is undone by going back to a copy."""
    found: list[Placement[Any]] = []
    live = list(live)
    for demand in demands:
        before = copy.deepcopy([agent.resources for agent in agents])
        placed = reference(agents, [demand], live, scoring)
        if len(placed) < demand.min_members:
            for agent, resources in zip(agents, before, strict=True):
                agent.resources = resources
            continue
        found += placed
        live += [
            Live(demand.application, p.agent_id, dict(p.attributes), demand.labels, demand.request.extended)
            for p in placed
        ]
    return found


steps = st.lists(st.sampled_from(("keep", "undo", "retry", "begin", "back", "forget")), min_size=1, max_size=8)


@settings(max_examples=share(120, 3), deadline=None)
@given(
    strategies.worlds(),
    decorated,
    st.lists(strategies.demands(), min_size=1, max_size=3),
    strategies.running,
    st.sampled_from(SCORINGS),
    thresholds,
    steps,
)
def test_what_is_kept_equals_the_greedy_result_of_it_alone(
    offers: list[Offer],
    overrides: dict[str, AgentOverrides],
    drawn: list[list[Demand[Any]]],
    live: list[Live],
    scoring: Scoring,
    threshold: tuple[int, int, int],
    doing: list[str],
) -> None:
    """Demands are tried, kept, undone, tried again; savepoints lie in each other. Each demand comes back several times,
    so that what was worked out before an undo is used after it."""
    pool, agents = build(offers, overrides)
    demands = [demand for group in drawn for demand in group]
    untouched = snapshot(pool)
    kept: list[tuple[Demand[Any], list[Placement[Any]]]] = []
    open_points: list[tuple[Any, int, object]] = []
    with limits(*threshold), Statement(pool, LiveCensus(live), scoring) as statement:
        for number, step in enumerate(doing * 2):
            demand = demands[number % len(demands)]._replace(id=f"t{number}")
            if step == "begin":
                open_points.append((statement.savepoint(), len(kept), snapshot(pool)))
            elif step == "back" and open_points:
                point, size, before = open_points.pop()
                statement.undo(point)
                assert snapshot(pool) == before
                del kept[size:]
            elif step == "forget" and open_points:
                statement.keep(open_points.pop()[0])
            elif step in ("undo", "retry"):
                before = snapshot(pool)
                point = statement.savepoint()
                first = statement.place(demand)
                statement.undo(point)
                assert snapshot(pool) == before
                if step == "retry":
                    again = statement.place(demand)
                    assert again == first
                    kept.append((demand, again))
            else:
                kept.append((demand, statement.place(demand)))
        placements = [placement for _, placed in kept for placement in placed]
        assert placements == referred(agents, [demand for demand, _ in kept], live, scoring)
    assert snapshot(pool) == untouched


@settings(max_examples=share(80, 3), deadline=None)
@given(strategies.worlds(), strategies.demands(), strategies.running, st.sampled_from(SCORINGS), thresholds, st.data())
def test_a_gang_is_placed_with_its_minimum_or_not_at_all(
    offers: list[Offer],
    demands: list[Demand[Any]],
    live: list[Live],
    scoring: Scoring,
    threshold: tuple[int, int, int],
    data: st.DataObject,
) -> None:
    pool, agents = build(offers, {})
    gangs = [demand._replace(min_members=data.draw(st.integers(0, len(demand.slots) + 1))) for demand in demands]
    with limits(*threshold):
        result = match(gangs, pool, LiveCensus(live), scoring)
    assert result.placements == referred(agents, gangs, live, scoring)
    placed = Counter(placement.demand for placement in result.placements)
    short = [gang for gang in gangs if placed[gang.id] < max(len(gang.slots), gang.min_members)]
    assert [diagnosis.demand for diagnosis in result.diagnoses] == [gang.id for gang in short]
    for gang, diagnosis in zip(short, result.diagnoses, strict=True):
        assert diagnosis.placed == placed[gang.id]
        assert sum(diagnosis.reasons.values()) == diagnosis.agents == pool.agents
        if not placed[gang.id] and gang.min_members:
            assert diagnosis.min_members == gang.min_members > diagnosis.reached


def agents_of(placements: Sequence[Placement[Any]]) -> list[str]:
    return [placement.agent_id for placement in placements]


def test_what_was_ruled_out_by_counts_is_admitted_again_after_an_undo() -> None:
    """The counts of a zone rule out agents that nothing was placed on."""
    pool = offer_pool()
    for number in range(1, 5):
        pool.learn_total(f"a{number}", 4000, 4000)
        scalars = ((ResourceKey("cpus", "*"), 4000), (ResourceKey("mem", "*"), 4000))
        pool.hand.add(Offer(f"o{number}", f"a{number}", f"host-{number}", "", "*", {"zone": "z1"}, scalars, ()))
    two = compile_rules([[RuleSpec("zone", "MAXPER", limit=2)]])
    with limits(-20, 1, 64), Statement(pool, NOBODY) as statement:
        point = statement.savepoint()
        assert agents_of(statement.place(wanted("a", 3, rules=two))) == ["a1", "a2"]
        statement.undo(point)
        assert agents_of(statement.place(wanted("other", 2))) == ["a1", "a2"]
        assert agents_of(statement.place(wanted("a", 3, rules=two))) == ["a3", "a4"]


def test_a_port_that_was_given_back_is_found_by_column() -> None:
    pool = cluster(4000, 4000)
    request = ResourceRequest(cpus=100, fixed_ports=(31000,))
    with limits(-20, 1, 0), Statement(pool, NOBODY) as statement:
        point = statement.savepoint()
        assert len(statement.place(wanted("a", 2, request=request))) == 2
        assert not statement.place(wanted("b", 1, request=request))
        statement.undo(point)
        assert agents_of(statement.place(wanted("c", 2, request=request))) == ["a1", "a2"]


# --- as if some were gone -------------------------------------------------------------------------------------


def cluster(*cpus: int, role: str = "*") -> OfferPool:
    pool = offer_pool()
    for number, amount in enumerate(cpus, 1):
        pool.learn_total(f"a{number}", 4000, 4000)
        pool.hand.add(
            Offer(f"o{number}", f"a{number}", f"host-{number}", f"10.0.0.{number}", role, {"zone": f"z{number}"},
                  ((ResourceKey("cpus", role), amount), (ResourceKey("mem", role), 4000)), ((ResourceKey("ports",
                  role), ((31000, 31003),)),))
        )  # fmt: skip
    return pool


def wanted(name: str, count: int, cpus: int = 1000, **more: Any) -> Demand[int]:
    fields = {"application": f"ns/{name}", "request": ResourceRequest(cpus=cpus, mem=100), "rules": EMPTY_RULES, **more}
    return Demand(id=name, slots=tuple(range(count)), **fields)


def running(name: str, agent: int, cpus: int, **more: Any) -> Occupant:
    fields = {"application": "ns/old", "hostname": f"host-{agent}", "ip": f"10.0.0.{agent}", **more}
    return Occupant(name, f"a{agent}", amounts=(("cpus", cpus), ("mem", 500)), **fields)


@settings(max_examples=share(80, 3), deadline=None)
@given(strategies.worlds(), decorated, strategies.demands(), strategies.running, st.sampled_from(SCORINGS), st.data())
def test_a_plan_as_if_some_were_gone_equals_one_with_their_room_on_offer(
    offers: list[Offer],
    overrides: dict[str, AgentOverrides],
    demands: list[Demand[Any]],
    live: list[Live],
    scoring: Scoring,
    data: st.DataObject,
) -> None:
    """Also on agents that offer nothing themselves."""
    pool, _ = build(offers, overrides)
    attributes = {offer.agent_id: offer for offer in offers}
    gone: list[Occupant] = []
    for number in data.draw(st.lists(st.integers(0, 11), max_size=4)):
        known = attributes.get(f"a{number}")
        gone.append(
            Occupant(
                f"old-{len(gone)}",
                f"a{number}",
                role=known.role if known is not None else "*",
                hostname=known.hostname if known is not None else f"host-{number}",
                ip=f"10.0.0.{number}",
                amounts=tuple((name, data.draw(strategies.amounts(8))) for name in ("cpus", "disk", "mem")),
                ports=data.draw(strategies.ranges),
                attributes=known.attributes if known is not None else {"zone": "z1"},
            )
        )
    counted = [group for group in live if data.draw(st.booleans())]
    for number, group in enumerate(counted):
        gone.append(
            Occupant(
                f"counted-{number}",
                group.agent_id,
                group.application,
                counted=group.attributes,
                labels=group.labels,
                extended=group.extended,
            )
        )
    left = [group for group in live if not any(group is one for one in counted)]
    more = [
        Offer(f"left-{n}", o.agent_id, o.hostname, o.ip, o.role, o.attributes,
              tuple((ResourceKey(name, o.role), amount) for name, amount in o.amounts if amount),
              ((ResourceKey("ports", o.role), o.ports),) if o.ports else (),
              max((offer.unavailable_from for offer in offers if (offer.agent_id, offer.role) == (o.agent_id, o.role)),
                  default=0.0))
        for n, o in enumerate(gone) if any(amount for _, amount in o.amounts) or o.ports
    ]  # fmt: skip
    _, agents = build([*offers, *more], overrides)
    before = snapshot(pool)
    with Statement(pool, LiveCensus(live), scoring) as statement:
        nothing = statement.savepoint()
        half = data.draw(st.integers(0, len(gone)))
        statement.set_aside(gone[:half])
        statement.set_aside(gone)
        for agent in agents:
            agent.totals = totals_of(pool, agent)
        first = statement.savepoint()
        result = statement.plan(demands)
        statement.undo(first)
        assert statement.plan(demands) == result
        assert result.placements == reference(agents, demands, left, scoring)
        for diagnosis in result.diagnoses:
            assert sum(diagnosis.reasons.values()) == diagnosis.agents == pool.agents
        statement.undo(nothing)
        assert snapshot(pool) == before
    assert snapshot(pool) == before


def totals_of(pool: OfferPool, agent: Agent) -> tuple[int, int]:
    (row,) = [row for row in pool.rows_of(agent.first.agent_id) if row.role == agent.first.role]
    return row.totals


def test_a_full_agent_without_offers_takes_what_its_taskgroups_leave() -> None:
    pool = cluster(1000)
    old = running("old", 2, 3000, attributes={"zone": "z9"}, ports=((31000, 31000),))
    before = snapshot(pool)
    with Statement(pool, NOBODY) as statement:
        assert [p.agent_id for p in statement.place(wanted("new", 4))] == ["a1"]
        statement.undo()
        statement.set_aside([old])
        placed = statement.place(wanted("new", 4, request=ResourceRequest(cpus=1000, random_ports=1)))
        assert [(p.agent_id, p.hostname, p.ports) for p in placed] == [
            ("a2", "host-2", (31000,)), ("a1", "host-1", (31000,)),
        ]  # fmt: skip
        zoned = compile_rules([[RuleSpec("zone", "CLUSTER", ("z9",))]])
        assert [p.agent_id for p in statement.place(wanted("zoned", 1, rules=zoned))] == ["a2"]
    assert snapshot(pool) == before
    assert pool.rows_of("a2") == []


def test_the_size_of_an_agent_that_only_its_offers_tell_is_as_before_an_undo() -> None:
    pool = offer_pool()
    pool.hand.add(
        Offer(
            "o1", "a1", "host-1", "", "*", {}, ((ResourceKey("cpus", "*"), 1000), (ResourceKey("mem", "*"), 1000)), ()
        )
    )
    before = snapshot(pool)
    with Statement(pool, NOBODY) as statement:
        statement.set_aside([running("old", 1, 3000)])
        assert len(statement.place(wanted("new", 9))) == 4
    assert snapshot(pool) == before


def test_constraints_do_not_count_what_is_set_aside() -> None:
    pool = cluster(4000)
    pool.override("host-1", AgentOverrides(extended={"vendor/card": 1000}))
    unique = compile_rules([[RuleSpec("hostname", "UNIQUE")]])
    apart = compile_rules([[RuleSpec("label", "EXCLUDE", ("tier:db",))]])
    card = ResourceRequest(cpus=100, extended=(("vendor/card", 1000),))
    live = [Live("ns/old", "a1", {"hostname": "host-1"}, ("tier:db",), (("vendor/card", 1000),))]
    demands = [
        wanted("unique", 1, application="ns/old", rules=unique),
        wanted("apart", 1, rules=apart),
        wanted("card", 1, request=card),
    ]
    gone = Occupant(
        "old",
        "a1",
        "ns/old",
        counted={"hostname": "host-1"},
        labels=("tier:db",),
        extended=(("vendor/card", 1000),),
    )
    with Statement(pool, LiveCensus(live)) as statement:
        assert not statement.plan(demands).placements
        point = statement.savepoint()
        statement.set_aside([gone])
        assert [placement.demand for placement in statement.plan(demands).placements] == ["unique", "apart", "card"]
        statement.undo(point)
        assert not statement.plan(demands).placements


def test_a_claim_that_was_not_launched_can_be_set_aside() -> None:
    """It belongs to the demand and slot that it was placed for; a later undo gives back the same claim."""
    pool = cluster(2000)
    census = PlannedCensus(NOBODY)
    first = wanted("first", 2, request=ResourceRequest(cpus=1000, mem=100, random_ports=2), labels=("tier:db",))
    for placement in match([first], pool, census).placements:
        census.add(first, placement)
    (one, two) = census.occupants("a1")
    assert [(occupant.unit, occupant.application, occupant.ports) for occupant in (one, two)] == [
        (Provisional("first", 0), "ns/first", ((31000, 31001),)),
        (Provisional("first", 1), "ns/first", ((31002, 31003),)),
    ]
    assert dict(one.amounts) == {"cpus": 1000, "mem": 100}
    before = snapshot(pool)
    apart = compile_rules([[RuleSpec("label", "EXCLUDE", ("tier:db",))]])
    with Statement(pool, census) as statement:
        statement.set_aside([one])
        placed = statement.place(wanted("second", 2, request=ResourceRequest(cpus=1000, mem=100, random_ports=2)))
        assert [placement.ports for placement in placed] == [(31000, 31001)]
        assert not statement.place(wanted("third", 1, cpus=1, rules=apart))
        statement.set_aside([two])
        assert len(statement.place(wanted("fourth", 1, rules=apart))) == 1
    assert snapshot(pool) == before
    assert len(pool.claims("a1", "*")) == 2


# --- mistakes and errors --------------------------------------------------------------------------------------


def test_a_savepoint_is_forgotten_with_what_was_before_it() -> None:
    pool = cluster(4000)
    statement, other = Statement(pool, NOBODY), Statement(pool, NOBODY)
    outer = statement.savepoint()
    statement.place(wanted("a", 1))
    inner = statement.savepoint()
    statement.place(wanted("b", 1))
    statement.undo(outer)
    statement.place(wanted("c", 2))
    before = snapshot(pool)
    for stale in (inner, other.savepoint()):
        with pytest.raises(StaleSavepoint):
            statement.undo(stale)
        with pytest.raises(StaleSavepoint):
            statement.keep(stale)
    assert snapshot(pool) == before
    statement.keep(outer)
    with pytest.raises(StaleSavepoint):
        statement.undo(outer)
    statement.undo()
    assert pool.claims("a1", "*") == []


def test_what_is_committed_stays_and_what_is_set_aside_cannot_be_committed() -> None:
    pool = cluster(4000)
    with Statement(pool, NOBODY) as statement:
        statement.place(wanted("a", 1))
        point = statement.savepoint()
        statement.set_aside([running("old", 1, 3000)])
        with pytest.raises(StillSetAside):
            statement.commit()
        statement.undo(point)
        statement.commit()
    assert len(pool.claims("a1", "*")) == 1
    with pytest.raises(StaleSavepoint):
        statement.undo(point)


@pytest.mark.parametrize("tentative", [True, False])
def test_an_error_undoes_its_demand_and_the_statement_goes_on(tentative: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    pool = cluster(4000, 4000, 4000, 4000)
    honest, calls = OfferAllocator.claim, 0

    def third_fails(self: OfferAllocator, row: Any, slot: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == 3:
            raise RuntimeError("a mistake")
        return honest(self, row, slot)

    with Statement(pool, NOBODY, tentative=tentative) as statement:
        first = statement.place(wanted("a", 1))
        before = snapshot(pool)
        monkeypatch.setattr(OfferAllocator, "claim", third_fails)
        with pytest.raises(RuntimeError):
            statement.plan([wanted("b", 1), wanted("c", 5)])
        assert snapshot(pool) == before
        monkeypatch.setattr(OfferAllocator, "claim", honest)
        agents = Counter(agents_of([*first, *statement.place(wanted("d", 16))]))
        assert agents == {"a1": 4, "a2": 4, "a3": 4, "a4": 4}, "no agent is left out after the error"


def test_a_gang_that_is_too_small_leaves_its_room_to_others_and_is_explained() -> None:
    pool = cluster(2000, 1000)
    gang = wanted("gang", 5, min_members=4)
    result = match([gang, wanted("small", 3)], pool, NOBODY)
    assert [placement.demand for placement in result.placements] == ["small"] * 3
    (diagnosis,) = result.diagnoses
    assert (diagnosis.slots, diagnosis.placed, diagnosis.min_members, diagnosis.reached) == (5, 0, 4, 3)
    assert diagnosis.reasons == {"cpus": 2}
    assert NOTHING not in diagnosis.reasons


def test_a_gang_of_one_changes_nothing() -> None:
    plain = [wanted("a", 3), wanted("b", 3)]
    named = [plain[0], plain[1]._replace(min_members=1)]
    first, second = match(plain, cluster(2000, 3000), NOBODY), match(named, cluster(2000, 3000), NOBODY)
    assert first.placements == second.placements
    assert first.diagnoses == second.diagnoses
