"""Offers in, launches out: what is accepted, declined, wanted and not wanted."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from bcs_scheduler.core.interface import cluster_manager, effects, leased, requests
from bcs_scheduler.core.options import CoreOptions
from offers.model import Offer
from offers.policy.session.configuration import default_policy
from store.records import Limits, Namespace, Queue
from store.records.definition import Amounts, Constraint, Container
from store.state.unit_of_work import Unit
from tests.unit.lab import KEY, Lab, running, version


def other(name: str, **fields: Any) -> requests.CreateApplication:
    return requests.CreateApplication(version=msgspec.structs.replace(version(1, **fields), application=name))


def accepts(lab: Lab) -> list[cluster_manager.LaunchOnAgent]:
    return lab.sent(cluster_manager.LaunchOnAgent)


def test_all_launches_of_an_agent_leave_in_one_accept_with_all_its_offers() -> None:
    lab = Lab()
    lab.offer(cpus=150)
    lab.offer(cpus=250)
    lab.create(3)
    (accept,) = accepts(lab)
    assert accept.offer_ids == ("o1", "o2")
    assert [launch.taskgroup.index for launch in accept.launches] == [0, 1, 2]


@pytest.mark.parametrize("unit_changes", [1, 2, 200])
def test_no_accept_is_in_a_unit_before_its_records(unit_changes: int) -> None:
    lab = Lab(CoreOptions(strict=True, unit_changes=unit_changes))
    lab.offer()
    units = lab.core.turn([requests.CreateApplication(version=version(5))], lab.now)
    stored: set[str] = set()
    launched = []
    for unit in units:
        stored |= {change.key for change in unit.changes if change.kind == "taskgroup"}
        for effect in unit.effects:
            if isinstance(effect, cluster_manager.LaunchOnAgent):
                launched += [launch.taskgroup.id for launch in effect.launches]
                assert set(launched) <= stored
    assert len(launched) == 5


class Hasty:
    """A pace whose time is up as soon as a part has done one piece of work."""

    def __init__(self, *, is_congested: bool = False) -> None:
        self._congested = is_congested

    def spent(self) -> float:
        return 2.0

    def is_congested(self) -> bool:
        return self._congested


def test_the_answer_to_a_command_does_not_wait_for_its_launches() -> None:
    lab = Lab()
    for number in range(5):
        lab.offer(f"a{number}", cpus=100_000)
    command = requests.CreateApplication(version=version(1500), token=7)
    turns = [lab.core.turn([command], lab.now, Hasty())]
    assert [e.token for unit in turns[0] for e in unit.effects if isinstance(e, effects.Reply)] == [7]
    while lab.core.busy:
        turns.append(lab.core.turn([], lab.now, Hasty()))
    launched = [accepts_in(units) for units in turns]
    assert launched[0] == []
    assert all(len(accepts) <= 1 for accepts in launched), "one agent a turn"
    assert sorted(accept.agent_id for accepts in launched for accept in accepts) == ["a0", "a1", "a2", "a3", "a4"]
    assert len(lab.groups) == 1500


def accepts_in(units: list[Unit]) -> list[cluster_manager.LaunchOnAgent]:
    return [effect for unit in units for effect in unit.effects if isinstance(effect, cluster_manager.LaunchOnAgent)]


def test_a_rescinded_offer_is_not_used() -> None:
    lab = Lab()
    lab.offer()
    lab.turn(leased.OfferRescinded(offer_id="o1"))
    lab.create(1)
    assert not accepts(lab)


def test_offers_of_an_earlier_subscription_are_not_used() -> None:
    lab = Lab()
    lab.offer()
    lab.turn(cluster_manager.Disconnected())
    lab.turn(cluster_manager.Connected(framework_id="framework"))
    lab.create(1)
    assert not accepts(lab)


def test_nothing_is_launched_without_a_subscription() -> None:
    lab = Lab()
    lab.turn(cluster_manager.Disconnected())
    lab.offer()
    lab.create(1)
    assert not accepts(lab)


def test_when_nothing_is_wanted_offers_are_declined_for_long_and_no_more_are_asked_for() -> None:
    lab = running(1)
    lab.offer()
    lab.wait(6)
    assert len(lab.sent(leased.Suppress)) == 1
    assert [call.refuse_seconds for call in lab.sent(leased.Decline)] == [lab.options.refuse_idle]
    assert not lab.core.offers()


def test_new_work_asks_for_offers_again() -> None:
    lab = running(1)
    lab.wait(6)
    lab.scale(2)
    assert len(lab.sent(leased.Revive)) == 1
    lab.wait(3)
    assert not lab.sent(leased.Revive)


def test_offers_that_serve_nothing_are_declined_for_a_short_while() -> None:
    lab = Lab()
    lab.create(1)
    lab.offer(cpus=50)
    lab.wait(6)
    assert [call.refuse_seconds for call in lab.sent(leased.Decline)] == [lab.options.refuse_unfit]
    assert not lab.sent(leased.Suppress)


def test_older_demands_are_placed_first() -> None:
    lab = Lab()
    lab.create(1)
    lab.now += 1
    lab.ask(other("late"))
    lab.offer(cpus=150)
    assert [launch.taskgroup.application for call in accepts(lab) for launch in call.launches] == ["web"]


def test_labels_count_for_exclude_within_one_pass() -> None:
    lab = Lab()
    quiet = Constraint(name="", operator="EXCLUDE", items=("kind:noisy",))
    lab.ask(other("noisy", labels={"kind": "noisy"}))
    lab.now += 1
    lab.create(1, constraints=((quiet,),))
    lab.offer()
    assert [launch.taskgroup.application for call in accepts(lab) for launch in call.launches] == ["noisy"]


def test_a_disabled_agent_gets_no_work_until_it_is_enabled() -> None:
    lab = Lab()
    lab.ask(requests.SetAgent(agent="agent-1", disabled=True))
    lab.create(1)
    lab.offer()
    assert not accepts(lab)
    lab.turn(requests.SetAgent(agent="agent-1", disabled=False))
    assert len(accepts(lab)) == 1


def test_settings_of_agents_are_known_to_a_successor() -> None:
    lab = Lab()
    lab.ask(requests.SetAgent(agent="agent-1", taints={"dedicated": "db"}))
    lab.create(1)
    successor = lab.succeed()
    successor.offer()
    assert not accepts(successor)
    successor.offer("agent-2")
    assert [call.agent_id for call in accepts(successor)] == ["agent-2"]


def test_planned_maintenance_is_accepted() -> None:
    lab = Lab()
    lab.turn(leased.InverseOffersArrived(offers=(("i1", "agent-1", lab.now + 60),)))
    assert [call.offer_ids for call in lab.sent(leased.AcceptInverseOffers)] == [("i1",)]


def test_why_something_waits_is_known() -> None:
    lab = Lab()
    lab.create(2)
    lab.offer(cpus=150)
    lab.offer("agent-2", cpus=50)
    diagnosis = lab.core.diagnosis(lab.transaction("LAUNCH").id)
    assert diagnosis is not None
    assert (diagnosis.slots, diagnosis.placed, diagnosis.reasons) == (1, 0, {"cpus": 1})
    assert lab.core.pending == 1
    assert len(lab.core.state.groups_of(KEY)) == 1


def test_offers_of_one_agent_do_not_explain_the_whole_cluster() -> None:
    lab = Lab()
    for number in range(3):
        lab.offer(f"a{number}", cpus=50)
    lab.create(1)
    identity = lab.transaction("LAUNCH").id
    before = lab.core.diagnosis(identity)
    assert before is not None and before.agents == 3
    lab.turn(*(leased.OfferRescinded(offer_id=f"o{number}") for number in (1, 2, 3)))
    lab.offer("a9", cpus=50)
    assert lab.core.diagnosis(identity) == before


def refusing(options: CoreOptions) -> Lab:
    """Work waits at a limit, and the offers that it could not use were declined."""
    lab = Lab(options)
    lab.turn(requests.PutQueue(queue=Queue(name="batch", capability=Limits(cpus=100)), create=True))
    lab.turn(requests.PutNamespace(namespace=Namespace(name="default", queue="batch"), create=True))
    lab.create(3)
    arrive(lab, 3)
    lab.wait(30)
    assert lab.sent(leased.Decline) and not lab.sent(leased.Revive) and lab.core.turn_context.engine.demands
    return lab


@pytest.mark.parametrize(
    "change",
    [
        requests.PutQueue(queue=Queue(name="batch")),
        requests.PutNamespace(namespace=Namespace(name="default")),
        requests.SetAgent(agent="agent-1", disabled=True),
    ],
)
def test_a_change_of_limits_or_agents_asks_for_declined_offers(change: requests.Request) -> None:
    lab = refusing(CoreOptions(strict=True, policy=default_policy(), session_period=0.5))
    lab.turn(change)
    assert len(lab.sent(leased.Revive)) == 1
    lab.turn(change)
    assert not lab.sent(leased.Revive), "the cluster manager refuses nothing any more"


def test_work_after_a_new_subscription_revives_whatever_an_older_decision_suppressed() -> None:
    lab = running(1)
    lab.wait(10)
    lab.turn(cluster_manager.Disconnected(), cluster_manager.Connected(framework_id="framework"))
    lab.scale(2)
    assert len(lab.sent(leased.Revive)) == 1


LARGE = Container(command="serve", requests=Amounts(cpus=10**9, mem=32_000, disk=0))
"""More than any agent has."""


class Sealed:
    """An offer that says whether somebody has looked at it."""

    def __init__(self, offer: Offer) -> None:
        self.id, self._offer = offer.id, offer
        self.opened = False

    def open(self) -> Offer:
        self.opened = True
        return self._offer


def arrive(lab: Lab, count: int) -> list[Sealed]:
    """So many offers come at once, each of an agent of its own."""
    offers = [Sealed(lab.make_offer(f"agent-{number}")) for number in range(count)]
    lab.turn(leased.OffersArrived(offers=tuple(offers)))
    return offers


def reserving(count: int) -> Lab:
    return Lab(CoreOptions(strict=True, offer_reserve=count))


def test_what_nobody_waits_for_is_declined_unread_but_for_a_reserve() -> None:
    lab = reserving(3)
    offers = arrive(lab, 10)
    assert [offer.opened for offer in offers] == [True] * 3 + [False] * 7
    (decline,) = lab.sent(leased.Decline)
    assert decline.offer_ids == tuple(offer.id for offer in offers[3:])
    assert decline.refuse_seconds == lab.core.turn_context.options.refuse_idle
    assert len(lab.sent(leased.Suppress)) == 1


def test_the_reserve_serves_small_work_without_new_offers() -> None:
    lab = reserving(3)
    arrive(lab, 10)
    for number in range(3):
        lab.turn(other(f"small-{number}"))
        assert len(lab.sent(cluster_manager.LaunchOnAgent)) == 1
        assert lab.sent(leased.Revive) == []
    lab.turn(other("one-more"))
    assert lab.sent(cluster_manager.LaunchOnAgent) == []
    assert len(lab.sent(leased.Revive)) == 1, "the reserve is used up"
    arrive(lab, 10)
    assert lab.sent(cluster_manager.LaunchOnAgent) != []


def test_work_that_the_reserve_does_not_serve_asks_for_all_offers() -> None:
    lab = reserving(1)
    arrive(lab, 5)
    lab.turn(requests.CreateApplication(version=version(1, containers=(LARGE,))))
    assert len(lab.sent(leased.Revive)) == 1
    assert all(offer.opened for offer in arrive(lab, 5)), "each of them may be the one that fits"


def test_the_reserve_is_kept_while_work_comes_and_given_back_after_that() -> None:
    lab = reserving(3)
    arrive(lab, 5)
    hold = lab.core.turn_context.options.offer_hold
    for number in range(2):
        lab.wait(hold * 0.9)
        lab.turn(other(f"small-{number}"))
    assert len(lab.core.turn_context.pool.hand) == 1
    lab.wait(hold + 1.0)
    assert len(lab.core.turn_context.pool.hand) == 0
    assert len(lab.sent(leased.Decline)) == 1


def test_somebody_who_looks_at_offers_sees_all_of_them() -> None:
    lab = reserving(1)
    arrive(lab, 5)
    lab.core._offer_manager.want()
    assert all(offer.opened for offer in arrive(lab, 5))


class Garbled(Sealed):
    """An offer that cannot be understood."""

    def open(self) -> Offer:
        raise ValueError("no number")


def test_an_offer_that_cannot_be_understood_is_declined_and_the_others_are_used() -> None:
    lab = Lab()
    lab.create(2)
    offers = [Garbled(lab.make_offer("bad")), Sealed(lab.make_offer("good"))]
    lab.turn(leased.OffersArrived(offers=tuple(offers)))
    assert [decline.offer_ids for decline in lab.sent(leased.Decline)] == [(offers[0].id,)]
    assert [accept.agent_id for accept in lab.sent(cluster_manager.LaunchOnAgent)] == ["good"]
