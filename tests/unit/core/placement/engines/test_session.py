"""The policy `session` in the core: priorities, gangs, the period, constraints, and what the explanation says."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import msgspec
import pytest

from bcs_scheduler.api.views.explain import explain_application
from bcs_scheduler.api.views.reasons import reason_of
from bcs_scheduler.core.context import ANSWER_SECONDS
from bcs_scheduler.core.interface import cluster_manager, effects, leased, requests
from bcs_scheduler.core.interface.requests import PutPriorityClass
from bcs_scheduler.core.options import CoreOptions
from bcs_scheduler.core.placement.engines import session as session_engine
from bcs_scheduler.core.placement.records import Records
from offers.ledger.holds import PROMISED_SECONDS, RETURN_SECONDS, UNOFFERED_SECONDS
from offers.matching.explain import KEPT, WITH_GANG
from offers.policy.session.configuration import Registry, default_policy, policy_of
from offers.policy.session.decisions import SessionResult
from offers.policy.session.plugins.interface import Argument, Functions
from offers.policy.session.session import decide
from offers.policy.session.snapshot import Snapshot
from store import mentions
from store.records import Namespace, PriorityClass, Queue, ReschedulePayload
from store.records.definition import Amounts, Constraint, Container, Port, RestartPolicy
from store.records.objects import Limits
from tests.snapshots import outdated
from tests.unit.lab import Lab, version
from transactions.rules.disruptions import WAITED

WHOLE = 150
"""Thousandths of a core of an agent with room for one taskgroup and not for two."""
OPTIONS = CoreOptions(strict=True, policy=default_policy(), session_period=1.0)


def create(lab: Lab, name: str, instances: int = 1, **fields: Any) -> None:
    wanted = msgspec.structs.replace(version(instances, **fields), application=name)
    assert lab.ask(requests.CreateApplication(version=wanted, token=1)).error == ""


def count(lab: Lab, name: str) -> int:
    return len(lab.core.state.groups_of(f"default/{name}"))


def arrive(lab: Lab, *agents: str, cpus: int = WHOLE) -> None:
    """Offers that come together."""
    lab.turn(leased.OffersArrived(offers=tuple(lab.make_offer(agent, cpus=cpus) for agent in agents)))


def test_a_session_places_what_is_wanted() -> None:
    lab = Lab(OPTIONS)
    create(lab, "web", 3)
    lab.wait(1.0)
    arrive(lab, "a", "b", "c")
    lab.wait(1.0)
    assert count(lab, "web") == 3
    assert {group.agent_id for group in lab.groups} == {"a", "b", "c"}
    lab.run()
    assert lab.application.status == "Running"


def test_the_higher_priority_is_first_whatever_the_order_of_arrival() -> None:
    lab = Lab(OPTIONS)
    create(lab, "early", 2)
    create(lab, "urgent", 2, priority=10)
    lab.wait(2.0)
    arrive(lab, "a", "b", "c")
    lab.wait(2.0)
    assert (count(lab, "urgent"), count(lab, "early")) == (2, 1)


def test_without_priority_the_lower_dominant_share_is_first() -> None:
    lab = Lab(OPTIONS)
    create(lab, "one", 4)
    create(lab, "two", 4)
    lab.wait(2.0)
    arrive(lab, "a", "b", "c", "d")
    lab.wait(2.0)
    assert (count(lab, "one"), count(lab, "two")) == (2, 2)


def test_a_gang_starts_whole_and_leaves_its_room_to_others_before() -> None:
    lab = Lab(OPTIONS)
    create(lab, "gang", 3, min_available=3, priority=5)
    create(lab, "small", 1)
    lab.wait(2.0)
    arrive(lab, "a", "b")
    lab.wait(2.0)
    assert (count(lab, "gang"), count(lab, "small")) == (0, 1)
    (transaction,) = lab.core.state.transactions_of("default/gang").values()
    diagnosis = lab.core.diagnosis(transaction.id)
    assert diagnosis is not None and (diagnosis.min_members, diagnosis.reached) == (3, 1)
    arrive(lab, "c", "d")
    lab.wait(2.0)
    assert count(lab, "gang") == 3


def test_sessions_keep_the_period() -> None:
    lab = Lab(OPTIONS)
    arrive(lab, "a", "b")
    create(lab, "first")
    assert count(lab, "first") == 1, "the first session waits for nothing"
    create(lab, "second")
    assert count(lab, "second") == 0
    assert lab.core.next_wakeup(lab.now) <= lab.now + OPTIONS.session_period
    lab.wait(0.9)
    assert count(lab, "second") == 0
    lab.wait(0.2)
    assert count(lab, "second") == 1


@pytest.mark.parametrize("least", [0, 4])
def test_constraints_that_count_hold_and_waste_no_room(least: int) -> None:
    """The session knows nothing of UNIQUE: three agents have room for six, but only for three of `spread`."""
    lab = Lab(OPTIONS)
    unique = ((Constraint(name="hostname", operator="UNIQUE"),),)
    create(lab, "spread", 6, constraints=unique, priority=1, min_available=least)
    create(lab, "plain", 6)
    lab.wait(2.0)
    arrive(lab, "a", "b", "c", cpus=2 * WHOLE - 60)
    lab.wait(3.0)
    spread = [group.agent_id for group in lab.core.state.groups_of("default/spread").values()]
    assert len(spread) == len(set(spread)) == (0 if least else 3)
    assert count(lab, "plain") == (6 if least else 3)


def test_fixed_constraints_and_settings_of_agents_are_those_of_the_matcher() -> None:
    lab = Lab(OPTIONS)
    only = ((Constraint(name="hostname", operator="CLUSTER", items=("host-of-b",)),),)
    create(lab, "bound", 2, constraints=only)
    create(lab, "free", 2)
    lab.turn(requests.SetAgent(agent="c", disabled=True))
    lab.wait(2.0)
    arrive(lab, "a", "b", "c", cpus=4 * WHOLE)
    lab.wait(2.0)
    assert {g.agent_id for g in lab.core.state.groups_of("default/bound").values()} == {"b"}
    assert {g.agent_id for g in lab.core.state.groups_of("default/free").values()} <= {"a", "b"}
    assert (count(lab, "bound"), count(lab, "free")) == (2, 2)


def test_ports_are_taken_from_the_offers() -> None:
    lab = Lab(OPTIONS)
    wanted = version(2)
    (container,) = wanted.containers
    port = msgspec.structs.replace(container, ports=(port_of(31005),))
    create(lab, "fixed", 3, containers=(port,), network_mode="HOST")
    lab.wait(2.0)
    arrive(lab, "a", "b", cpus=10 * WHOLE)
    lab.wait(3.0)
    assert count(lab, "fixed") == 2, "one on each agent"


def port_of(number: int) -> Port:
    return Port(name="http", container_port=number, host_port=number)


def test_rescinded_offers_void_what_was_decided() -> None:
    lab = Lab(OPTIONS)
    create(lab, "web", 2)
    lab.wait(2.0)
    arrive(lab, "a", "b")
    lab.turn(leased.OfferRescinded(offer_id="o1"))
    lab.wait(2.0)
    arrive(lab, "c")
    lab.wait(2.0)
    assert count(lab, "web") == 2
    assert not lab.core._offer_manager.placing.planning


def test_restarts_scales_and_deletes_work_with_sessions() -> None:
    lab = Lab(OPTIONS)
    create(lab, "web", 2)
    lab.wait(2.0)
    arrive(lab, "a", "b", "c")
    lab.wait(2.0)
    lab.run()
    lab.report(lab.group(0), "FAILED")
    lab.wait(5.0)
    arrive(lab, "a")
    lab.wait(5.0)
    assert len([group for group in lab.groups if not group.ended]) == 2
    lab.run()
    lab.scale(3)
    lab.wait(2.0)
    arrive(lab, "d")
    lab.wait(5.0)
    assert len(lab.groups) == 3
    lab.delete(enforce=True)
    lab.wait(2.0)
    assert lab.core.pending == 0


def test_the_reasons_are_those_of_the_agents() -> None:
    lab = Lab(OPTIONS)
    create(lab, "big", 1, containers=version(1, 20).containers)
    lab.wait(2.0)
    arrive(lab, "a", "b")
    lab.wait(2.0)
    (transaction,) = lab.core.state.transactions_of("default/big").values()
    diagnosis = lab.core.diagnosis(transaction.id)
    assert diagnosis is not None and diagnosis.reasons == {"cpus": 2}
    assert KEPT not in diagnosis.reasons


class Failing:
    """A plug-in of a third party that does not work."""

    name = "failing"
    arguments: Mapping[str, Argument] = {}

    def open(self, session: object, arguments: object) -> Functions:
        raise RuntimeError("out of order")


def test_a_plug_in_that_fails_is_named_and_does_not_stop_placement() -> None:
    document = {
        "actions": "allocate, backfill",
        "tiers": [{"plugins": [{"name": "failing"}, {"name": "gang"}, {"name": "predicates"}]}],
    }
    policy = policy_of(document, Registry([Failing()]))
    lab = Lab(replace(OPTIONS, policy=policy))
    create(lab, "web", 1)
    lab.wait(2.0)
    lab.turn(leased.OffersArrived(offers=(lab.make_offer("a"),)))
    seen = lab.out + lab.wait(2.0)
    assert count(lab, "web") == 1
    lines: list[Any] = [effect for effect in seen if getattr(effect, "reason", "") == "PolicyPluginFailed"]
    assert lines and "failing: open: RuntimeError: out of order" in lines[0].message


def test_many_demands_are_decided_in_one_session() -> None:
    lab = Lab(OPTIONS)
    for number in range(20):
        create(lab, f"app-{number}", 5, priority=number % 3)
    lab.wait(2.0)
    arrive(lab, *(f"agent-{number}" for number in range(10)), cpus=10 * 100 + 50)
    lab.wait(1.0)
    assert len(lab.core.state.taskgroups) == 100
    assert not lab.sent(cluster_manager.LaunchOnAgent) or lab.core.pending == 0


# --- evictions ------------------------------------------------------------------------------------------------

PREEMPTING = replace(
    OPTIONS,
    policy=policy_of(
        {
            "actions": "allocate, backfill, preempt",
            "tiers": [
                {"plugins": [{"name": "priority"}, {"name": "gang"}, {"name": "conformance"}]},
                {"plugins": [{"name": "drf"}, {"name": "predicates"}, {"name": "proportion"}, {"name": "nodeorder"}]},
            ],
        }
    ),
)
AGENTS = ("a", "b", "c", "d")


def full(bound: int, options: CoreOptions = PREEMPTING, **fields: Any) -> Lab:
    """Four agents with one taskgroup of `low` on each; updates of `low` may take down `bound` of them."""
    lab = Lab(options)
    create(lab, "low", 4, max_unavailable=bound, **fields)
    lab.wait(2.0)
    arrive(lab, *AGENTS)
    lab.wait(2.0)
    run(lab)
    lab.wait(2.0)
    assert len([group for group in groups(lab, "low") if group.status == "Running"]) == 4
    return lab


def groups(lab: Lab, name: str) -> list[Any]:
    return list(lab.core.state.groups_of(f"default/{name}").values())


def run(lab: Lab) -> None:
    for group in list(lab.core.state.taskgroups.values()):
        if group.status == "Staging":
            lab.report(group, "RUNNING")


def leaving(lab: Lab) -> list[Any]:
    return [group for group in lab.core.state.taskgroups.values() if group.killing_since and not group.ended]


def end_victims(lab: Lab) -> list[Any]:
    """The victims end. Their room is not offered yet."""
    victims = leaving(lab)
    for group in victims:
        lab.report(group, "KILLED")
    return victims


def leave(lab: Lab) -> list[str]:
    """The victims end, and their agents are offered again. The agents of the victims."""
    freed = [group.agent_id for group in end_victims(lab)]
    arrive(lab, *freed)
    return freed


def test_a_gang_evicts_less_urgent_taskgroups_and_gets_their_room() -> None:
    lab = full(bound=4)
    create(lab, "high", 2, min_available=2, priority=10)
    lab.wait(1.5)
    victims = [group for group in groups(lab, "low") if group.killing_since]
    assert len(victims) == 2 and {group.end_cause for group in victims} == {"Evicted"}
    assert {group.kill_reason for group in victims} == {"evicted for default/high (queue default)"}
    lab.wait(5.0)
    assert len([group for group in groups(lab, "low") if group.killing_since]) == 2, "no more while they leave"
    freed = leave(lab)
    lab.wait(3.0)
    assert sorted(group.agent_id for group in groups(lab, "high")) == sorted(freed), "not the victims' replacements"
    waiting = [t for t in lab.core.state.transactions_of("default/low").values() if t.active]
    assert [t.type for t in waiting] == ["RESCHEDULE"] * 2
    payloads = [t.payload for t in waiting if isinstance(t.payload, ReschedulePayload)]
    assert [payload.beneficiary for payload in payloads] == ["default/high"] * 2
    assert waiting[0].deadline - lab.now > 80_000, "they wait as long as after a failure"
    arrive(lab, "e", "f")
    lab.wait(3.0)
    run(lab)
    lab.wait(1.0)
    low = [group for group in groups(lab, "low") if not group.ended]
    assert len(low) == 4 and {group.restarts for group in low} == {0}, "nothing is lost, and no restart is counted"


class Slow:
    """A turn in which each question for the time finds more of it used up."""

    def __init__(self) -> None:
        self._spent = 0.0

    def spent(self) -> float:
        self._spent += 0.5
        return self._spent

    def is_congested(self) -> bool:
        return False


def test_a_session_ends_with_the_time_of_its_turn_and_goes_on_in_the_next_one(monkeypatch: pytest.MonkeyPatch) -> None:
    lab = full(bound=4)
    placer, explained = lab.core.turn_context.placer, list[float]()
    plain = placer.explain

    def explain(*given: Any) -> None:
        explained.append(lab.now)
        plain(*given)

    monkeypatch.setattr(placer, "explain", explain)
    for number in range(3):
        create(lab, f"high{number}", priority=10)
    lab.wait(0.5)
    found, seen = [], set[int]()
    while len(seen) < 3 and lab.now < lab.core.began.now + 60:
        lab.now = max(lab.core.next_wakeup(lab.now), lab.now)
        if not seen:
            explained.clear()  # of sessions that waited for offers
        lab.core.turn([], lab.now, Slow())
        if len(leaving(lab)) not in seen | {0}:
            seen.add(len(leaving(lab)))
            found.append(lab.now)
            assert not explained or len(seen) == 3, "explained with the last portion"
    assert seen == {1, 2, 3}, "one application has its turn in each"
    assert found[2] - found[0] < 0.1, "not after the period of sessions"
    lab.wait(3.0)
    assert len(leaving(lab)) == 3
    assert explained
    leave(lab)
    lab.wait(3.0)
    assert [count(lab, f"high{number}") for number in range(3)] == [1, 1, 1], "promises of all portions hold"


@pytest.mark.parametrize("limit", ["capability", "guarantee of another queue"])
def test_work_above_the_limit_of_its_queue_evicts_nothing(limit: str) -> None:
    """Nor does a dry run announce evictions, and no promise keeps room for it."""
    lab = Lab(PREEMPTING)
    if limit == "capability":
        lab.ask(requests.PutQueue(queue=Queue(name="batch", capability=Limits(cpus=300))))
    else:
        lab.ask(requests.PutQueue(queue=Queue(name="batch")))
        lab.ask(requests.PutQueue(queue=Queue(name="other", guarantee=Amounts(cpus=200))))
    lab.ask(requests.PutNamespace(namespace=Namespace(name="default", queue="batch")))
    create(lab, "low", 2, max_unavailable=2)
    lab.wait(1.0)
    arrive(lab, "a", cpus=500)
    lab.wait(1.5)
    run(lab)
    arrive(lab, "a", cpus=300)
    container = msgspec.structs.replace(version(1).containers[0], requests=Amounts(cpus=390, mem=32_000, disk=0))
    wanted = msgspec.structs.replace(version(1, containers=(container,), priority=10), application="mid")
    announced = lab.ask(requests.CreateApplication(version=wanted, dry_run=True))
    assert (announced.data["evict"], announced.data["unplaced"]) == ([], 1)
    assert lab.ask(requests.CreateApplication(version=wanted, token=1)).error == ""
    lab.wait(70.0)
    assert len(groups(lab, "low")) == 2 and not leaving(lab)
    arrive(lab, "a", cpus=300)
    create(lab, "late")
    lab.wait(2.0)
    assert count(lab, "late") == 1


def slow_victims(lab: Lab) -> list[Any]:
    """The first of two victims for a gang ends, and its room is offered; the second one needs longer than offers are
    held otherwise. Returns both."""
    create(lab, "high", 2, min_available=2, priority=10)
    lab.wait(2.0)
    first, second = leaving(lab)
    lab.report(first, "KILLED")
    arrive(lab, first.agent_id)
    for _ in range(int(3 * OPTIONS.offer_hold)):
        lab.wait(1.0)
    return [first, second]


def test_room_that_a_gang_has_already_is_not_given_back_while_its_last_victim_leaves() -> None:
    lab = full(bound=4)
    first, second = slow_victims(lab)
    assert leaving(lab) == [second]
    lab.report(second, "KILLED")
    arrive(lab, second.agent_id)
    lab.wait(2.0)
    assert {group.agent_id for group in groups(lab, "high")} == {first.agent_id, second.agent_id}
    assert leaving(lab) == []


def test_promised_room_is_given_back_after_a_minute() -> None:
    lab = full(bound=4)
    slow_victims(lab)
    sent: list[Any] = []
    for _ in range(int(PROMISED_SECONDS)):
        sent += lab.wait(1.0)
    assert [offer.agent_id for offer in lab.core.turn_context.pool.hand.all()] == []
    assert any(isinstance(effect, leased.Decline) for effect in sent)


@pytest.mark.parametrize("ended", (0, 1, 2))
def test_a_new_leader_evicts_no_others_and_keeps_the_room_of_those_that_have_ended(ended: int) -> None:
    lab = full(bound=4)
    create(lab, "high", 2, min_available=2, priority=10)
    lab.wait(2.0)
    victims = leaving(lab)
    assert len(victims) == 2
    for victim in victims[:ended]:
        lab.report(victim, "KILLED")
    lab = lab.succeed()
    free = {victim.agent_id for victim in victims[:ended]}
    lab.turn(leased.OffersArrived(offers=tuple(lab.make_offer(a, cpus=WHOLE if a in free else 10) for a in AGENTS)))
    for _ in range(5):
        lab.wait(1.0)
        run(lab)
    assert {group.id for group in leaving(lab)} == {victim.id for victim in victims[ended:]}
    for victim in victims[ended:]:
        lab.report(lab.core.state.taskgroups[victim.id], "KILLED")
        arrive(lab, victim.agent_id)
        lab.wait(2.0)
    assert {group.agent_id for group in groups(lab, "high")} == {victim.agent_id for victim in victims}
    assert leaving(lab) == []


def evicted_from_one_agent(taskgroups: int, cpus: int, gang: int) -> Lab:
    """One agent with `cpus` was full of taskgroups of `low`. As many as the gang `high` needs were evicted and have
    ended. Their room was not offered yet."""
    lab = Lab(PREEMPTING)
    create(lab, "low", taskgroups, max_unavailable=taskgroups)
    lab.wait(2.0)
    arrive(lab, "a", cpus=cpus)
    lab.wait(2.0)
    run(lab)
    assert [group.resources.cpus for group in groups(lab, "low")] == [100] * taskgroups
    create(lab, "high", gang, min_available=gang, priority=10)
    lab.wait(2.0)
    assert len(end_victims(lab)) == gang
    return lab


def test_room_that_returns_in_two_offers_costs_no_further_eviction() -> None:
    lab = evicted_from_one_agent(4, 450, gang=2)
    arrive(lab, "a")
    lab.wait(2.0)
    assert leaving(lab) == []
    arrive(lab, "a")
    lab.wait(2.0)
    assert len(groups(lab, "high")) == 2


def test_the_room_of_executors_that_returns_later_costs_no_further_eviction() -> None:
    """Mesos offers the resources of a task when the task has ended, and those of its executor in later offers."""
    lab = evicted_from_one_agent(6, 600, gang=4)
    for cpus in (360, 10):
        arrive(lab, "a", cpus=cpus)
        lab.wait(0.3)
    lab.wait(1.2)
    assert len([group for group in groups(lab, "low") if group.killing_since]) == 4
    arrive(lab, "a", cpus=30)
    lab.wait(2.0)
    assert len(groups(lab, "high")) == 4


def evicted_once() -> tuple[Lab, str]:
    """One of four taskgroups of `low` was evicted for `high` and has ended. Returns its agent, too, whose room was not
    offered yet."""
    lab = full(bound=4)
    create(lab, "high", 1, priority=10)
    lab.wait(2.0)
    (victim,) = end_victims(lab)
    return lab, victim.agent_id


def test_room_that_still_leaves_follows_offers_that_are_rescinded() -> None:
    lab, agent = evicted_once()
    offers = [lab.make_offer(agent, cpus=10) for _ in range(2)]
    lab.turn(leased.OffersArrived(offers=tuple(offers)))
    lab.turn(leased.OfferRescinded(offer_id=offers[0].id))
    assert outdated(lab.core) == []


def test_room_that_still_leaves_follows_its_namespace_into_another_queue() -> None:
    """Also the room of an application that is gone."""
    lab, _ = evicted_once()
    lab.ask(requests.DeleteApplication(namespace="default", name="low", enforce=True))
    end_victims(lab)
    lab.wait(2.0)
    assert "default/low" not in lab.core.state.applications
    lab.ask(requests.PutQueue(queue=Queue(name="batch")))
    lab.ask(requests.PutNamespace(namespace=Namespace(name="default", queue="batch")))
    assert outdated(lab.core) == []


def test_a_promise_lasts_while_its_room_cannot_be_offered() -> None:
    """The cluster manager offers nothing for longer than the promise lasts. The end of the victim is followed by no
    second one, and the time of the promise begins with the offer."""
    lab, agent = evicted_once()
    for _ in range(int(UNOFFERED_SECONDS) - 4):
        lab.wait(1.0)
        assert leaving(lab) == [] and promised(lab) == {agent}
    arrive(lab, agent, cpus=WHOLE)
    lab.wait(2.0)
    assert [group.agent_id for group in groups(lab, "high")] == [agent]


def test_a_promise_ends_if_its_room_is_never_offered() -> None:
    lab, _ = evicted_once()
    for _ in range(int(UNOFFERED_SECONDS) + 2):
        lab.wait(1.0)
    assert promised(lab) == set()


def promised(lab: Lab) -> set[str]:
    """The agents with promised room."""
    return set(lab.core._offer_manager.placing.promised())


def test_room_that_others_take_before_it_is_offered_is_freed_elsewhere() -> None:
    lab, agent = evicted_once()
    arrive(lab, agent, cpus=10)
    lab.wait(RETURN_SECONDS - 1.0)
    assert leaving(lab) == []
    lab.wait(2.0)
    (second,) = leave(lab)
    assert second != agent
    lab.wait(2.0)
    assert [group.agent_id for group in groups(lab, "high")] == [second]


@pytest.mark.parametrize("comes", [True, False])
def test_the_room_of_a_taskgroup_that_has_failed_is_expected_before_it_is_offered(comes: bool) -> None:
    lab = full(bound=4)
    arrive(lab, "e")
    create(lab, "high", 1, priority=10)
    lab.wait(2.0)
    run(lab)
    (failed,) = groups(lab, "high")
    lab.report(failed, "FAILED")
    lab.wait(RETURN_SECONDS - 1.0)
    assert leaving(lab) == []
    if comes:
        arrive(lab, "e")
    lab.wait(2.0)
    assert len(leaving(lab)) == (not comes)
    assert [group.agent_id for group in groups(lab, "high") if not group.ended] == (["e"] if comes else [])


def sessions(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The moments of the sessions from now on; the list grows."""
    found: list[float] = []

    def noted(snapshot: Snapshot, *rest: Any, **more: Any) -> SessionResult:
        found.append(snapshot.now)
        return decide(snapshot, *rest, **more)

    monkeypatch.setattr(session_engine, "decide", noted)
    return found


def test_a_session_follows_when_a_budget_grows_and_none_before(monkeypatch: pytest.MonkeyPatch) -> None:
    lab = full(bound=1)
    for name in ("first", "second"):
        create(lab, name, 1, priority=10)
    lab.wait(2.0)
    leave(lab)
    (victim,) = [group for group in groups(lab, "low") if group.ended]
    lab.wait(3.0)
    run(lab)
    lab.wait(RETURN_SECONDS)  # the rest of the offer does not come again
    assert len([group for name in ("first", "second") for group in groups(lab, name)]) == 1
    held = sessions(monkeypatch)
    assert lab.core._offer_manager.placing.next_timer() == victim.ended_at + WAITED
    lab.wait(victim.ended_at + WAITED - lab.now - 0.5)
    assert (held, leaving(lab)) == ([], [])
    lab.wait(1.0)
    assert len(leaving(lab)) == 1


def test_no_session_follows_where_time_alone_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    lab = full(bound=4)
    create(lab, "equal", 1)
    lab.wait(10.0)
    held = sessions(monkeypatch)
    assert lab.core._offer_manager.placing.next_timer() is None
    lab.wait(120.0)
    assert held == []


def quiet() -> Lab:
    """Four agents that are full, and a fifth with room for one. Nothing has waited for long: no offer is held."""
    lab = full(bound=4)
    sent = lab.turn(leased.OffersArrived(offers=(lab.make_offer("e", cpus=WHOLE),)))
    for _ in range(10):
        sent += lab.wait(1.0)
    assert [type(one) for one in sent] == [leased.Suppress, leased.Decline]
    assert not lab.core.turn_context.pool.hand.all()
    return lab


def test_nothing_is_evicted_before_the_offers_come_that_were_requested() -> None:
    lab = quiet()
    create(lab, "high", 1, priority=10)
    lab.wait(ANSWER_SECONDS / 2)
    arrive(lab, "e")
    lab.wait(3.0)
    assert [group.agent_id for group in groups(lab, "high")] == ["e"]
    assert leaving(lab) == []


def test_no_more_is_evicted_than_the_offers_lack() -> None:
    lab = quiet()
    create(lab, "high", 2, min_available=2, priority=10)
    arrive(lab, "e")
    lab.wait(3.0)
    assert len(leaving(lab)) == 1


def test_evictions_wait_a_moment_only_if_no_offer_comes() -> None:
    lab = quiet()
    create(lab, "high", 1, priority=10)
    assert leaving(lab) == []
    lab.wait(ANSWER_SECONDS)
    assert len(leaving(lab)) == 1


def test_work_that_has_waited_evicts_although_other_work_comes_all_the_time() -> None:
    """Offers that nothing fits are declined one after the other, and each is requested again for other work."""
    lab = full(bound=4, options=replace(PREEMPTING, offer_hold=3.0))
    large = (Container(command="serve", requests=Amounts(cpus=9000)),)
    create(lab, "first", 1, containers=large)
    for number in range(9):
        lab.turn(leased.OffersArrived(offers=(lab.make_offer(f"small-{number}", cpus=10),)))
        lab.wait(0.3)
    lab.wait(0.6)
    create(lab, "high", 1, priority=10)
    awaited = []
    for number in range(6):
        lab.wait(0.3)
        create(lab, f"other-{number}", 1, containers=large)
        awaited.append(lab.core.turn_context.awaits_offers)
    assert all(awaited)
    assert len(leaving(lab)) == 1


def test_declined_offers_are_requested_before_anything_is_evicted() -> None:
    lab = full(bound=4)
    create(lab, "large", 1, containers=(Container(command="serve", requests=Amounts(cpus=9000)),))
    arrive(lab, "e")
    sent = [one for _ in range(10) for one in lab.wait(1.0)]
    assert [one.offer_ids for one in sent if isinstance(one, leased.Decline)]
    create(lab, "high", 1, priority=10)
    arrive(lab, "e")
    lab.wait(3.0)
    assert [group.agent_id for group in groups(lab, "high")] == ["e"]
    assert leaving(lab) == []


def test_an_application_whose_taskgroups_were_evicted_is_pending_and_names_the_beneficiary() -> None:
    lab = full(bound=4)
    create(lab, "high", 2, min_available=2, priority=10)
    lab.wait(1.5)
    evicted = [group for group in groups(lab, "low") if group.end_cause == "Evicted"]

    def shown() -> tuple[str, str]:
        low = lab.core.state.applications["default/low"]
        return low.status, low.message

    words = "2 of 4 taskgroups without a place; evicted for default/high (queue default)"
    assert len(evicted) == 2 and shown() == ("Pending", words), "from the eviction on, while the programs still run"
    leave(lab)
    lab.wait(3.0)
    assert shown() == ("Pending", words)
    low = lab.core.state.applications["default/low"]
    found = explain_application(lab.core.state, low, lab.core.diagnosis, lab.now)
    whose = "evicted for default/high (queue default)"
    assert {group.message for group in found.taskgroups if group.id in {one.id for one in evicted}} == {
        f"{whose}, waits for a place for its replacement"
    }
    reason = reason_of(lab.core.state, low, lab.core.diagnosis)
    assert whose in reason and set(reason.split("; ")) <= set("; ".join(found.text).split("; ")), "the same reason"
    lab.report(next(group for group in groups(lab, "low") if not group.end_cause), "FAILED")
    lab.wait(0.1)
    assert shown()[0] == "Abnormal", "a failure still counts"
    arrive(lab, "e", "f", "g")
    lab.wait(20.0)
    arrive(lab, "e", "f", "g")
    lab.wait(3.0)
    run(lab)
    lab.wait(1.0)
    assert shown()[0] == "Running" and not lab.core.state.evicted("default/low")


def test_both_sides_get_an_event() -> None:
    lab = full(bound=4)
    wanted = msgspec.structs.replace(version(1, priority=10), application="high")
    seen = lab.turn(requests.CreateApplication(version=wanted, token=1)) + lab.wait(2.0)
    told = ("TaskGroupEvicted", "ApplicationPreempting")
    lines = [line for line in seen if isinstance(line, effects.LogLine) and line.reason in told]
    assert lines[0].message == "ended for default/high (queue default); a new one waits for a place"
    reasons = [(line.kind, line.reason) for line in lines]
    assert reasons == [("taskgroup", "TaskGroupEvicted"), ("application", "ApplicationPreempting")]


def test_an_eviction_that_is_refused_is_undone_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """A session ends two taskgroups for a gang, and one of them may not end after all."""
    lab = full(bound=4)
    plain, refused = Records.evict, list[str]()

    def evict(self: Records, unit: str, *args: Any, **named: Any) -> str | None:
        if not refused:
            refused.append(unit)
        return "it may not" if unit in refused else plain(self, unit, *args, **named)

    monkeypatch.setattr(Records, "evict", evict)
    wanted = msgspec.structs.replace(version(2, min_available=2, priority=10), application="high")
    seen = [*lab.turn(requests.CreateApplication(version=wanted, token=1)), *lab.wait(1.0)]
    (victim,) = leaving(lab)
    assert [victim.id] != refused
    lines = [line for line in seen if isinstance(line, effects.LogLine) and line.reason == "ApplicationPreempting"]
    assert {(line.key, mentions.plain(line.message)) for line in lines} == {
        ("default/high", "a taskgroup stays that was to make room: it may not"),
        ("default/high", f"1 taskgroup is ended: default/low-{victim.index}"),
    }
    monkeypatch.setattr(Records, "evict", plain)
    end_victims(lab)
    lab.wait(3.0)
    assert len(leaving(lab)) == 1, "the room is looked for again"


@pytest.mark.parametrize(("bound", "evicted"), [(1, 0), (2, 0), (3, 3), (4, 3)])
def test_evictions_stay_within_the_disruption_budget(bound: int, evicted: int) -> None:
    """A gang of three gets three or nothing."""
    lab = full(bound=bound)
    create(lab, "high", 3, min_available=3, priority=10)
    lab.wait(5.0)
    assert len([group for group in groups(lab, "low") if group.killing_since]) == evicted


def test_failures_use_up_the_budget_of_evictions() -> None:
    lab = full(bound=1, restart_policy=RestartPolicy(policy="Never"))
    lab.report(groups(lab, "low")[0], "FAILED")
    create(lab, "high", 2, min_available=2, priority=10)
    lab.wait(5.0)
    assert not [group for group in groups(lab, "low") if group.killing_since and not group.ended]


@pytest.mark.parametrize("priority", [0, 5])
def test_equal_and_higher_priorities_are_not_evicted(priority: int) -> None:
    lab = full(bound=4, priority=5)
    create(lab, "other", 1, priority=priority)
    lab.wait(5.0)
    assert not [group for group in groups(lab, "low") if group.killing_since]
    assert count(lab, "other") == 0


def test_a_gang_is_not_evicted_below_its_minimum() -> None:
    lab = full(bound=4, min_available=3)
    create(lab, "high", 2, min_available=2, priority=10)
    lab.wait(5.0)
    assert not [group for group in groups(lab, "low") if group.killing_since], "one may leave, and two are needed"
    lab = full(bound=4, min_available=3)
    create(lab, "high", 1, priority=10)
    lab.wait(5.0)
    assert len([group for group in groups(lab, "low") if group.killing_since]) == 1


def test_a_new_leader_goes_on_with_an_eviction() -> None:
    lab = full(bound=4)
    create(lab, "high", 1, priority=10)
    lab.wait(2.0)
    leaving = [group.id for group in groups(lab, "low") if group.killing_since]
    assert len(leaving) == 1
    second = Lab(PREEMPTING, lab.records(), lab.now + 1.0)
    second.wait(30.0)
    assert [group.id for group in groups(second, "low") if group.killing_since and not group.ended] == leaving
    leave(second)
    second.wait(3.0)
    assert count(second, "high") == 1


def test_promised_room_is_for_others_when_its_beneficiary_is_gone() -> None:
    """Two of three rooms are free and promised; no further offer comes."""
    lab = full(bound=4)
    create(lab, "high", 3, min_available=3, priority=10)
    lab.wait(2.0)
    first, second, _ = [group for group in groups(lab, "low") if group.killing_since]
    for group in (first, second):
        lab.report(group, "KILLED")
    arrive(lab, first.agent_id, second.agent_id)
    lab.wait(2.0)
    assert not [group for group in lab.core.state.taskgroups.values() if group.status == "Staging"], "kept for the gang"
    lab.ask(requests.DeleteApplication(namespace="default", name="high", enforce=True, token=2))
    lab.wait(2.0)
    assert {group.agent_id for group in groups(lab, "low") if group.status == "Staging"} == {
        first.agent_id,
        second.agent_id,
    }


@pytest.mark.parametrize(("policy", "evicted"), [("PreemptLowerPriority", 2), ("Never", 0)])
def test_nothing_is_evicted_for_a_class_that_never_preempts(policy: str, evicted: int) -> None:
    lab = full(bound=4)
    high = PriorityClass(name="high", value=10, preemption_policy=policy)  # type: ignore[arg-type]
    assert lab.ask(PutPriorityClass(priority_class=high)).error == ""
    create(lab, "high", 2, min_available=2, priority_class="high", priority_from="class")
    lab.wait(3.0)
    assert len([group for group in groups(lab, "low") if group.killing_since]) == evicted


@pytest.mark.parametrize(
    ("namespace", "priority_class", "evicted"),
    [
        ("default", "batch", 2),
        ("default", "system-cluster-critical", 0),
        ("default", "system-node-critical", 0),
        ("kube-system", "batch", 2),
        ("bcs-system", "batch", 2),
    ],
)
def test_critical_work_is_not_evicted(namespace: str, priority_class: str, evicted: int) -> None:
    """The names of namespaces give no rights."""
    lab = Lab(PREEMPTING)
    allowed = Namespace(name=namespace, priority_classes=(priority_class,))
    assert lab.ask(requests.PutNamespace(namespace=allowed)).error == ""
    assert lab.ask(PutPriorityClass(priority_class=PriorityClass(name=priority_class, value=1))).error == ""
    low = version(4, max_unavailable=4, priority_class=priority_class, priority_from="class")
    low = msgspec.structs.replace(low, namespace=namespace, application="low")
    assert lab.ask(requests.CreateApplication(version=low)).error == ""
    arrive(lab, *AGENTS)
    lab.wait(2.0)
    run(lab)
    create(lab, "high", 2, min_available=2, priority=10)
    lab.wait(3.0)
    found = list(lab.core.state.groups_of(f"{namespace}/low").values())
    assert len(found) == 4 and len([group for group in found if group.killing_since]) == evicted


def test_the_rest_of_a_gang_that_restarts_is_explained_by_the_gang() -> None:
    """Each member alone would have a place, but the session starts both or none."""
    lab = Lab(OPTIONS)
    restarted = RestartPolicy(policy="Always", interval=1, backoff=0, max_times=5)
    create(lab, "web", 2, min_available=2, restart_policy=restarted)
    arrive(lab, "a", "b")
    lab.wait(1.5)
    for state in ("RUNNING", "FAILED"):
        for group in list(lab.groups):
            lab.report(group, state)
    lab.wait(3.0)
    arrive(lab, "c")
    lab.wait(2.0)
    found = [one for one in lab.core.turn_context.engine.diagnoses.values() if one.agents]
    assert found
    assert all((one.min_members, one.reached, list(one.reasons)) == (2, 1, [WITH_GANG]) for one in found)


class Congested:
    """A turn that launches on one agent at most."""

    def spent(self) -> float:
        return 0.0

    def is_congested(self) -> bool:
        return True


@pytest.mark.parametrize("counting", [True, False])
def test_placements_with_constraints_that_count_are_launched_in_one_turn(counting: bool) -> None:
    """The constraint holds for the placements together: a leader that ends between two launches leaves no part."""
    lab = Lab(OPTIONS)
    spread = ((Constraint(name="hostname", operator="UNIQUE"),),) if counting else ()
    arrive(lab, "a", "b", "c")
    create(lab, "other")
    wanted = msgspec.structs.replace(version(2, constraints=spread), application="spread")
    lab.wait(0.9)
    lab.core.turn([requests.CreateApplication(version=wanted, token=1)], lab.now)
    lab.now += 0.2
    lab.core.turn([], lab.now, Congested())
    assert count(lab, "spread") == (2 if counting else 1)
