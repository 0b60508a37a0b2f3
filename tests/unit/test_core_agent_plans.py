"""Plans of cordons and drains: they agree with what a drain does afterwards, and change nothing."""

from __future__ import annotations

import random
from typing import Any

import msgspec
import pytest

from bcs_scheduler.core.interface import effects, requests
from bcs_scheduler.core.interface.requests import PlanAgents
from bcs_scheduler.core.requests import agent_plans
from store.records import Namespace, Quota, Strategy
from store.records.definition import Amounts, Constraint, Container
from tests.effort import share
from tests.unit.agentlab import Cluster
from tests.unit.core.policy_options import POLICIES, options_of
from tests.unit.lab import version
from tests.unit.test_core_drains import CHECKED, deployed, pass_checks


def cluster(agents: int, policy: str = "simple") -> Cluster:
    return Cluster(agents, options=options_of(policy))


def loaded(instances: int, agents: int, policy: str = "simple", **fields: Any) -> Cluster:
    """An application that runs all on a0. The others have no offers yet."""
    lab = cluster(agents, policy)
    lab.create(instances, **fields)
    lab.offer("a0")
    lab.wait(1.0)
    for group in lab.groups:
        lab.report(group, "RUNNING")
    assert [group.agent_id for group in lab.groups] == ["a0"] * instances
    lab.core.turn_context.pool.hand.remove_agent("a0")
    return lab


def plan(lab: Cluster, *agents: str, drain: bool = True) -> dict[str, Any]:
    """The plan; proves that nothing changes and that nothing leaves but the reply."""
    before = lab.records()
    token = random.Random(len(before)).randint(1, 1 << 30)
    replies: list[effects.Reply] = []
    batch = [PlanAgents(token=token, agents=agents, drain=drain)]
    for _ in range(3000):
        for unit in lab.core.turn(batch, lab.now):
            assert not unit.changes
            replies += [effect for effect in unit.effects if isinstance(effect, effects.Reply)]
        batch = []
        if replies:
            break
    (reply,) = replies
    assert not reply.error
    assert lab.records() == before
    assert reply.data["dryRun"]
    assert set(reply.data["agents"]) == set(agents)
    data: dict[str, Any] = reply.data
    return data


@pytest.mark.parametrize("policy", POLICIES)
def test_a_drain_moves_what_fits_elsewhere_and_says_why_the_rest_stays(policy: str) -> None:
    lab = loaded(4, 3, policy, max_unavailable=4)
    lab.offer("a0")
    lab.offer("a1", cpus=220)
    lab.offer("a2", cpus=110)
    data = plan(lab, "a0")["agents"]["a0"]
    assert sorted(move["agent"] for move in data["move"]) == ["a1", "a1", "a2"]
    assert [move["waits"] for move in data["move"]] == ["", "", ""]
    (stays,) = data["stay"]
    assert "CPUs" in stays["reason"] and "0 of 2 agents match" in stays["reason"]
    assert {move["taskgroup"] for move in data["move"]} | {stays["taskgroup"]} == {group.id for group in lab.groups}


@pytest.mark.parametrize("at_once", [0, 100])
def test_a_plan_in_slices_is_that_of_one_turn(monkeypatch: pytest.MonkeyPatch, at_once: int) -> None:
    monkeypatch.setattr(agent_plans, "AT_ONCE", at_once)
    lab = cluster(4)
    for number in range(6):
        lab.core.turn_context.pool.hand.remove_agent("a0")
        lab.offer("a0")
        created = msgspec.structs.replace(version(2), application=f"app{number}")
        assert not lab.ask(requests.CreateApplication(version=created)).error
    groups = list(lab.core.state.taskgroups.values())
    for group in groups:
        lab.report(group, "RUNNING")
    assert [group.agent_id for group in groups] == ["a0"] * 12
    for agent, cpus in (("a1", 310), ("a2", 420), ("a3", 210)):
        lab.offer(agent, cpus=cpus)
    data = plan(lab, "a0")["agents"]["a0"]
    assert sorted(move["agent"] for move in data["move"]) == ["a1"] * 3 + ["a2"] * 4 + ["a3"] * 2
    assert len(data["stay"]) == 3
    assert all("CPUs" in stays["reason"] for stays in data["stay"])


@pytest.mark.parametrize("policy", POLICIES)
def test_agents_that_are_drained_together_take_nothing_from_each_other(policy: str) -> None:
    lab = loaded(2, 3, policy)
    lab.offers()
    both = plan(lab, "a0", "a1")["agents"]
    assert {move["agent"] for move in both["a0"]["move"]} == {"a2"}
    assert both["a1"] == {"move": [], "stay": [], "daemonsets": 0, "unplanned": 0, "pending": []}


def test_taskgroups_beyond_the_disruption_budget_wait() -> None:
    lab = loaded(4, 2, max_unavailable=1)
    lab.offers()
    data = plan(lab, "a0")["agents"]["a0"]
    assert [bool(move["waits"]) for move in data["move"]].count(False) == 1
    waits = {move["waits"] for move in data["move"]}
    assert any("3 of 4 taskgroups of default/web are ready, 3 must stay so" in one for one in waits)


@pytest.mark.parametrize(
    ("unavailable", "surge", "order", "number"),
    [(0, 2, "CreateFirst", 2), (0, 1, "DeleteFirst", 1), (1, 2, "CreateFirst", 2), (1, 2, "DeleteFirst", 0)],
)
def test_stand_ins_are_foreseen(unavailable: int, surge: int, order: Any, number: int) -> None:
    lab = deployed(3, Strategy(max_unavailable=unavailable, max_surge=surge, order=order))
    foreseen = [move["waits"] for move in plan(lab, "a0")["agents"]["a0"]["move"]]
    assert len(foreseen) == 3
    plural = "stand-in of default/web is" if number == 1 else "stand-ins of default/web are"
    words = f"at most {number} {plural} started first"
    assert [one == words for one in foreseen] == [number > 0] * 3, foreseen
    assert not lab.ask(requests.DrainAgent(agent="a0", at_once=10)).error
    lab.wait(1)
    assert len(lab.groups) - 3 == number, "the drain does that"
    if number:
        assert all("stand-in" not in move["waits"] for move in plan(lab, "a0")["agents"]["a0"]["move"])


def test_stand_ins_without_room_in_the_quota_are_not_foreseen() -> None:
    lab = deployed(2)
    quota = Namespace(name="default", quota=Quota(taskgroups=2))
    assert not lab.ask(requests.PutNamespace(namespace=quota)).error
    (words,) = {move["waits"] for move in plan(lab, "a0")["agents"]["a0"]["move"]}
    assert "has no room for a stand-in" in words and "bcs describe namespace default" in words


def test_an_operation_that_keeps_stand_ins_away_is_named() -> None:
    """Also where the gang is below its minimum, so that the budget would let its ready taskgroups go."""
    lab = deployed(5, Strategy(max_unavailable=0, max_surge=2), min_available=3, containers=CHECKED)
    pass_checks(lab, 0, 1)
    assert not lab.ask(requests.ScaleDeployment(namespace="default", name="web", instances=4)).error
    moves = plan(lab, "a0")["agents"]["a0"]["move"]
    waits = {lab.core.state.taskgroups[move["taskgroup"]].index: move["waits"] for move in moves}
    assert not waits[2] and not waits[3]
    assert all("so no stand-in can be started" in waits[index] for index in (0, 1))


def test_the_moved_taskgroups_do_not_count_for_constraints() -> None:
    lab = cluster(2)
    lab.create(1, constraints=((Constraint(name="hostname", operator="UNIQUE"),),))
    lab.offer("a0")
    lab.report(lab.groups[0], "RUNNING")
    lab.offers()
    assert [move["agent"] for move in plan(lab, "a0")["agents"]["a0"]["move"]] == ["a1"]
    lab.leave("a1")
    (stays,) = plan(lab, "a0")["agents"]["a0"]["stay"]
    assert stays["taskgroup"] == lab.groups[0].id


def waiting(lab: Cluster, cpus: int) -> str:
    """Creates an application that the offers at hand do not fit; returns its transaction."""
    container = Container(command="serve", requests=Amounts(cpus=cpus, mem=32_000))
    other = msgspec.structs.replace(version(1), application="other", containers=(container,))
    reply = lab.ask(requests.CreateApplication(version=other))
    assert not reply.error
    return str(reply.data["transactionID"])


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("drain", [False, True])
def test_waiting_work_that_loses_its_place_is_named(policy: str, drain: bool) -> None:
    lab = cluster(2, policy)
    lab.offer("a0", cpus=100)
    lab.offer("a1", cpus=100)
    lab.wait(1.0)
    transaction = waiting(lab, 4000)
    lab.wait(1.0)
    # The next placement pass has not seen the offer yet.
    pool = lab.core.turn_context.pool
    pool.hand.add(pool.hand.all()[0]._replace(id="new", agent_id="a1", scalars=big()))
    data = plan_now(lab, drain)
    assert data["a1"]["pending"] == [
        {"application": "default/other", "transaction": transaction, "taskgroups": 1, "reason": data["reason"]}
    ]
    assert "CPUs" in data["reason"]


def big() -> Any:
    from offers.model import ResourceKey

    return tuple((ResourceKey(name, "*"), amount) for name, amount in (("cpus", 8000), ("mem", 8_000_000), ("disk", 1)))


def plan_now(lab: Cluster, drain: bool) -> dict[str, Any]:
    """Asks the planner itself: a turn would place the waiting work before the slices of the plan are done."""
    turn = lab.core.turn_context
    turn.remaining_work = []
    data = agent_plans.plan(turn, PlanAgents(agents=("a1",), drain=drain))
    for work in turn.remaining_work:
        for _ in work:
            pass
    turn.remaining_work = []
    pending = data["agents"]["a1"]["pending"]
    return {**data["agents"], "reason": pending[0]["reason"] if pending else ""}


def test_a_cordon_moves_nothing() -> None:
    lab = loaded(3, 2)
    lab.offers()
    assert plan(lab, "a0", drain=False)["agents"]["a0"]["move"] == []


def test_daemonsets_stay_and_are_counted() -> None:
    lab = Cluster(2)
    lab.begin()
    lab.settle()
    data = plan(lab, "a0")["agents"]["a0"]
    assert (data["daemonsets"], data["move"], data["stay"]) == (1, [], [])


def test_a_plan_has_a_limit_that_it_names(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(agent_plans, "MOST_MOVED", 3)
    lab = loaded(5, 2, max_unavailable=5)
    lab.offers()
    data = plan(lab, "a0")["agents"]["a0"]
    assert (len(data["move"]), data["unplanned"]) == (3, 2)


@pytest.mark.parametrize("seed", range(share(24)))
@pytest.mark.parametrize("policy", POLICIES)
def test_a_drain_does_what_its_plan_says(policy: str, seed: int) -> None:
    """Where nothing else happens, as many taskgroups move as the plan says, and as many stay."""
    chance = random.Random(seed)
    number = chance.randint(1, 6)
    lab = loaded(number, 3, policy, max_unavailable=chance.randint(1, number))
    rooms = {agent: 110 * chance.randint(1, 3) for agent in ("a1", "a2")}

    def offer_the_rest() -> None:
        for agent, cpus in rooms.items():
            used = sum(group.resources.cpus for group in lab.groups if group.agent_id == agent and not group.ended)
            lab.core.turn_context.pool.hand.remove_agent(agent)
            lab.offer(agent, cpus=cpus - used)

    offer_the_rest()
    data = plan(lab, "a0")["agents"]["a0"]
    assert not lab.ask(requests.DrainAgent(agent="a0", at_once=10)).error
    for _ in range(40):
        lab.wait(0.6)
        for group in lab.groups:
            if group.killing_since and not group.ended:
                lab.report(group, "KILLED")
            elif not group.started and not group.ended:
                lab.report(group, "RUNNING")
        offer_the_rest()
    left = [group for group in lab.groups if group.agent_id == "a0" and not group.ended]
    assert len(left) == len(data["stay"])
    assert len(lab.groups) - len(left) == len(data["move"])
