"""Reservations for old work while other things change: both engines, on virtual time."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec
import pytest

from bcs_scheduler.core.interface import leased, requests
from bcs_scheduler.core.interface.requests import DeleteApplication, PutPodGroup, PutQueue
from bcs_scheduler.core.options import CoreOptions
from bcs_scheduler.core.placement.engines import session
from bcs_scheduler.core.placement.snapshots.pending import task_name
from offers.ledger.holds import GAIN, REST
from offers.policy.session import preemption
from offers.policy.session.decisions import PluginFault
from offers.policy.session.guard import PluginFailed
from offers.policy.session.model import Nomination
from store.records import GROUP_ANNOTATION, PodGroup, Queue, Record, Version
from store.records.definition import Amounts, Constraint, Container, Port
from tests.unit.busycluster import BusyCluster
from tests.unit.core.placement.test_old_work import (
    AGING,
    ENGINES,
    MINUTE,
    contended,
    evictions,
    half_gathered,
    holders,
    placing,
    queue,
    tree_options,
    until,
    world,
)
from tests.unit.lab import version
from transactions.rules import disruptions


def crew(cluster: BusyCluster, *names: str) -> None:
    """Applications of a group that needs two of them at a time."""
    group = PodGroup(namespace="owed", name="crew", min_member=2)
    assert not cluster.lab.ask(PutPodGroup(pod_group=group)).error
    for name in names:
        cluster.create(name, 2000, namespace="owed", annotations={GROUP_ANNOTATION: "crew"})


def beside_third(engine: str) -> BusyCluster:
    """Like `contended`; the queue `third` has a guarantee of one core, so that it outranks all old work of others."""
    if engine == "hierarchical":
        cluster = BusyCluster(tree_options(queue("owed", 2), queue("has"), queue("third", 1)), {"a": 4000})
    else:
        cluster = world("session", {"a": 4000}, owed=2)
    cluster.create("low", 1000, instances=4, namespace="has", max_unavailable=1)
    cluster.seconds(3)
    if engine == "session":
        third = Queue(name="third", guarantee=Amounts(cpus=1000))
        assert not cluster.lab.ask(PutQueue(queue=third)).error
    cluster.create("old", 2000, namespace="owed")
    return cluster


# --- an agent is open again after a while -----------------------------------------------------------------------------


@pytest.mark.parametrize("engine", ENGINES)
def test_an_agent_without_the_port_of_the_old_work_is_open_to_others_after_a_while(
    engine: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """CPU and memory are there, the fixed port is not."""
    cluster = world(engine, {"a": 2000}, owed=0)
    honest = cluster.lab.make_offer
    cluster.create("lasting", 1000, namespace="has")
    cluster.create("short", 1000, namespace="has", lasts=AGING + 20)
    cluster.seconds(3)
    port = Port(name="web", host_port=31005)
    container = Container(command="x", requests=Amounts(cpus=1000, mem=32_000, disk=0), ports=(port,))
    wanted = version(1, containers=(container,), preemption_policy="Never")
    wanted = msgspec.structs.replace(wanted, namespace="has", application="old")
    assert not cluster.lab.ask(requests.CreateApplication(version=wanted)).error
    # `lasting` has the port.
    monkeypatch.setattr(cluster.lab, "make_offer", lambda name, cpus: honest(name, cpus=cpus, ports=(31010, 31099)))
    cluster.seconds(int(AGING) + 10)
    assert holders(cluster) == {"has/old"}
    cluster.seconds(15)
    cluster.create("new", 1000, namespace="has", preemption_policy="Never")
    for _ in range(int(5 * (GAIN + REST))):
        cluster.second()
        if cluster.groups("new", "has"):
            break
    kept = placing(cluster).aging._kept.get("*")
    assert cluster.groups("new", "has"), kept and (kept.places[0].lack, cluster.lab.now - kept.places[0].gained_at)


# --- answers of the policy --------------------------------------------------------------------------------------------


def test_room_that_a_tree_promises_to_the_work_does_not_come() -> None:
    """`regain` of the tree. While all places have promises, the policy has no answer: nothing has ended in vain yet."""
    cluster = world("hierarchical", {"b": 2000, "c": 2000}, owed=6)
    cluster.create("blocks", 2000, instances=2, namespace="owed", lasts=10.0**6)
    cluster.seconds(3)
    cluster.agents["a"] = 4000
    cluster.create("low", 1000, instances=4, namespace="has", max_unavailable=1)
    cluster.seconds(3)
    cluster.create("old", 2000, namespace="owed")
    assert len(evictions(cluster, int(AGING) + 15)) == 1
    blocks = next(group for group in cluster.groups("blocks", "owed") if group.agent_id == "b")
    cluster.agents["b"] = 0  # another framework takes it
    cluster.lab.report(blocks, "FINISHED")
    cluster.second()
    assert [*placing(cluster).engine.awaiting().values()] == [{0: "b"}]
    cluster.seconds(3 * MINUTE)
    assert len(cluster.groups("old", "owed")) == 1, (placing(cluster).aging._resting, holders(cluster))


def test_room_that_a_session_promises_to_the_work_does_not_come(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same. The promise is put in by hand; a session makes one for room that is leaving on another agent."""
    cluster = contended("session")
    assert len(evictions(cluster, int(AGING) + 15)) == 1
    loop = placing(cluster)
    (old,) = (demand for demand in loop._deciding() if demand.application == "owed/old")
    name = old.application, task_name(old, old.slots[0])
    loop._promises.keep({name: Nomination("b", cluster.lab.now + 12)})
    with monkeypatch.context() as patch:
        patch.setattr(loop._promises, "keep", lambda nominations: None)  # each session renews it
        cluster.seconds(10)
        assert name in loop._promises.nominations
    cluster.seconds(2 * MINUTE)
    assert len(cluster.groups("old", "owed")) == 1, (loop.aging._resting, holders(cluster))


@pytest.mark.parametrize("engine", ENGINES)
def test_a_gang_keeps_its_gathered_room_when_one_of_its_agents_is_disabled(engine: str) -> None:
    """As when the agent goes: `test_a_gang_keeps_its_gathered_room_when_one_of_its_agents_goes`."""
    cluster, _, closed = half_gathered(engine)
    cluster.agents["c"] = 2000  # nothing more has to end
    assert not cluster.lab.ask(requests.SetAgent(agent=closed, disabled=True, force=True)).error
    cluster.seconds(3 * MINUTE)
    assert len(cluster.groups("gang", "owed")) == 2, (placing(cluster).aging._resting, holders(cluster))


def test_a_question_that_fails_does_not_end_the_reservation(monkeypatch: pytest.MonkeyPatch) -> None:
    """A plug-in of a third party fails once."""
    cluster = contended("session")
    assert len(evictions(cluster, int(AGING) + 15)) == 1
    failed: list[float] = []
    honest = preemption.places

    def places(*given: Any) -> Any:
        if len(failed) < 2:  # with the budgets as they are, and without them
            failed.append(cluster.lab.now)
            raise PluginFailed(PluginFault("other", "predicate", "once"))
        return honest(*given)

    monkeypatch.setattr(session, "places", places)
    cluster.seconds(2 * MINUTE)
    assert failed and len(cluster.groups("old", "owed")) == 1, placing(cluster).aging._resting


# --- pauses -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("engine", ENGINES)
def test_the_pauses_do_not_count_evictions_when_better_work_takes_the_gathered_room(engine: str) -> None:
    """Old work needs one more end then: its evictions are not complete."""
    cluster = beside_third(engine)
    seen: set[str] = set()
    for _ in range(6 * MINUTE):
        fresh = {group.id for group in cluster.evicted} - seen
        seen |= fresh
        if fresh and len(seen) == 2:
            cluster.create("better", 1000, namespace="third")
        cluster.second()
        if cluster.groups("old", "owed"):
            break
    assert len(cluster.groups("better", "third")) == 1 and len(seen) >= 2
    loop = placing(cluster)
    assert len(cluster.groups("old", "owed")) == 1, (loop._pauses._pairs, loop.aging._resting)


# --- groups that change -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("engine", ENGINES)
def test_the_held_room_counts_for_a_member_that_comes_in_the_place_of_another_one(
    engine: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One core is free and held on each agent: one end on each suffices."""
    cluster = world(engine, {"a": 3000, "b": 3000}, owed=4)
    for name in ("a", "b"):
        cluster.create(f"low-{name}", 1000, instances=2, namespace="has", max_unavailable=2)
        cluster.seconds(2)
    admitted = list[str]()
    monkeypatch.setattr(disruptions, "allowance", lambda context, key: 2 * len(admitted))
    crew(cluster, "left", "right")
    kept = placing(cluster).aging._kept
    until(cluster, lambda: "*" in kept)
    assert {place.site[0] for place in kept["*"].places} == {"a", "b"}
    cluster.create("third", 2000, namespace="owed", annotations={GROUP_ANNOTATION: "crew"})
    cluster.second()
    cluster.lab.ask(DeleteApplication(namespace="owed", name="right"))
    cluster.seconds(3)
    admitted.append("has/low")
    found = evictions(cluster, 60)
    assert (len(found), len(cluster.groups("left", "owed")), len(cluster.groups("third", "owed"))) == (2, 1, 1)


# --- decisions that fail ----------------------------------------------------------------------------------------------


def test_a_reservation_outlasts_a_decision_that_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    """The next decision follows after a minute, in which nothing is asked for old work."""
    cluster = contended("hierarchical")
    assert len(evictions(cluster, int(AGING) + 10)) == 1
    monkeypatch.setattr(type(cluster.lab.core.turn_context), "_raise_if_strict", lambda *_: None)
    loop, failed = placing(cluster), list[float]()
    honest = loop.engine.decide

    def decide(portion: Any) -> Any:
        if not failed:
            failed.append(cluster.lab.now)
            raise RuntimeError("once")
        return honest(portion)

    monkeypatch.setattr(loop.engine, "decide", decide)
    cluster.create("new", 2000, namespace="owed")
    cluster.seconds(3)
    assert failed
    cluster.seconds(3 * MINUTE)
    assert len(cluster.groups("old", "owed")) == 1, (failed, loop.aging._resting, holders(cluster))


# --- operations that replace others -----------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["scale", "update"])
@pytest.mark.parametrize("engine", ENGINES)
def test_an_operation_that_replaces_another_one_keeps_the_gathered_room(engine: str, how: str) -> None:
    """A promise passes to the new demand (`PartitionHolds._hand_over`, `hand_over` of trees); a reservation does not:
    three end where two suffice."""
    cluster = contended(engine)
    assert len(evictions(cluster, int(AGING) + 15)) == 1
    wanted: requests.Request = requests.ScaleApplication(
        namespace="owed", name="old", instances=2, on_conflict="supersede"
    )
    if how == "update":
        found = (one for one in cluster.lab.core.state.records() if isinstance(one, Version))
        present = next(one for one in found if one.application == "old")
        anew = msgspec.structs.replace(present, labels={"x": "y"})
        wanted = requests.UpdateApplication(version=anew, on_conflict="supersede")
    assert not cluster.lab.ask(wanted).error
    assert len(evictions(cluster, 3 * MINUTE)) == 1
    assert len(cluster.groups("old", "owed")) == 1


@pytest.mark.parametrize("engine", ENGINES)
def test_the_application_of_a_group_goes_whose_demand_has_made_the_reservation(engine: str) -> None:
    """The others want the same places: what has ended for them is known, so their limits hold them, and they rest if
    it was in vain."""
    cluster = world(engine, {"a": 3000, "b": 3000}, owed=4)
    cluster.create("low", 1000, instances=6, namespace="has", max_unavailable=1)
    cluster.seconds(3)
    crew(cluster, "left", "right", "third")
    aging = placing(cluster).aging
    until(cluster, lambda: bool(cluster.evicted))
    cluster.seconds(3)
    held = aging.held("*")
    assert held is not None and held.holder.has_victims and len(held.agents) == 2
    opener = held.holder.demand.application.partition("/")[2]
    cluster.lab.ask(DeleteApplication(namespace="owed", name=opener))
    cluster.seconds(3)
    held = aging.held("*")
    assert held is not None and held.agents == ("a", "b") and held.holder.has_victims


# --- agents that offer nothing for a while ----------------------------------------------------------------------------


@pytest.mark.parametrize("engine", ENGINES)
def test_an_agent_that_better_work_has_filled_is_not_away(engine: str) -> None:
    """It offers nothing because nothing is free there: the next one ends as soon as the budget admits it."""
    cluster = beside_third(engine)
    assert len(evictions(cluster, int(AGING) + 15)) == 1
    cluster.create("better", 1000, namespace="third")
    cluster.seconds(3)
    assert len(cluster.groups("better", "third")) == 1
    assert len(evictions(cluster, MINUTE)) == 1


class Shared(BusyCluster):
    """Offers that are given back come again after some seconds, other ones for each agent: other frameworks look at
    them."""

    def __init__(self, options: CoreOptions, agents: Mapping[str, int], records: Iterable[Record] = ()) -> None:
        super().__init__(options, agents, records)
        self.back: dict[str, float] = {}
        """The moments at which agents offer their room again."""
        self.there: set[str] = set()
        """The agents with offers."""

    def second(self) -> None:
        """See `BusyCluster`."""
        lab, turn = self.lab, self.lab.turn
        there = {offer.agent_id for offer in lab.core.turn_context.pool.hand.all()}
        for agent in self.there - there:
            self.back[agent] = lab.now + ord(agent) * 7 % 11

        def sifted(*batch: Any) -> Any:
            if batch and isinstance(batch[0], leased.OffersArrived):
                made: tuple[Any, ...] = batch[0].offers
                offers = tuple(one for one in made if self.back.get(one.agent_id, 0.0) <= lab.now)
                return turn(leased.OffersArrived(offers=offers)) if offers else []
            return turn(*batch)

        lab.turn = sifted  # type: ignore[method-assign]
        try:
            super().second()
        finally:
            del lab.turn
        self.there = there | {offer.agent_id for offer in lab.core.turn_context.pool.hand.all()}


@pytest.mark.parametrize("engine", ENGINES)
def test_a_gang_is_asked_for_although_one_of_its_agents_is_away_at_each_moment(
    engine: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No agent is away for more than eleven seconds."""
    names, admitted = "abcdefghijkl", list[str]()
    monkeypatch.setattr(disruptions, "allowance", lambda context, key: 2 * len(admitted))
    plain = world(engine, dict.fromkeys(names, 3000), owed=2 * len(names))
    cluster = Shared(plain.lab.options, plain.agents, plain.lab.records())
    for name in names:
        cluster.create(f"low-{name}", 1000, instances=2, namespace="has", max_unavailable=2)
        cluster.seconds(2)
    cluster.seconds(6)
    cluster.create("gang", 2000, instances=len(names), min_available=len(names), namespace="owed")
    until(cluster, lambda: bool(holders(cluster)))
    cluster.seconds(20)
    assert not cluster.evicted
    admitted.append("has/low")
    assert len(evictions(cluster, 2 * MINUTE)) == len(names)


def test_a_tree_does_not_follow_each_second_for_a_gang_that_gathers_room(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each time costs with all demands that wait: 16 ms with 1,600 of them."""
    cluster = world("hierarchical", {"a": 3000, "b": 3000}, owed=0)
    cluster.create("low", 1000, instances=4, namespace="has", max_unavailable=1)
    cluster.seconds(3)
    cluster.create("gang", 2000, instances=2, min_available=2, namespace="has", preemption_policy="Never")
    until(cluster, lambda: bool(holders(cluster)))
    cluster.seconds(3)
    engine, followed = placing(cluster).engine, list[float]()
    honest = engine.follow

    def follow() -> None:
        followed.append(cluster.lab.now)
        honest()

    monkeypatch.setattr(engine, "follow", follow)
    cluster.seconds(20)
    assert holders(cluster) == {"has/gang"} and len(followed) <= 8
    cluster.lab.ask(DeleteApplication(namespace="has", name="low"))
    cluster.seconds(5)
    assert len(cluster.groups("gang", "has")) == 2


# --- offers that are void, small members, and other agents -----------------------------------------------------------


@pytest.mark.parametrize("engine", ENGINES)
def test_nothing_more_ends_while_the_offer_of_the_held_room_is_void(
    engine: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The budget admits two now, and one suffices."""
    admitted = [1]
    monkeypatch.setattr(disruptions, "allowance", lambda context, key: admitted[0])
    cluster = world(engine, {"a": 4000}, owed=2)
    cluster.create("low", 1000, instances=4, namespace="has", max_unavailable=4)
    cluster.seconds(3)
    cluster.create("old", 2000, namespace="owed")
    until(cluster, lambda: len(cluster.evicted) == 1)
    admitted[0] = 0
    cluster.seconds(7)
    kept = placing(cluster).aging._kept["*"]
    assert len(kept.ended) == 1 and len(kept.left) == 1
    cluster.is_silent = True
    for offer in list(cluster.lab.core.turn_context.pool.hand.all()):
        cluster.lab.turn(leased.OfferRescinded(offer_id=offer.id))
    admitted[0] = 2
    found = evictions(cluster, 20)
    cluster.is_silent = False
    found += evictions(cluster, MINUTE)
    assert (len(found), len(cluster.groups("old", "owed"))) == (1, 1)


@pytest.mark.parametrize("engine", ENGINES)
def test_a_group_starts_with_its_small_members_in_room_that_is_held_for_large_ones(engine: str) -> None:
    cluster = world(engine, {"a": 3000, "b": 3000}, owed=0)
    for number in range(6):
        cluster.create(f"low-{number}", 1000, namespace="has")
    cluster.seconds(3)
    group = PodGroup(namespace="has", name="crew", min_member=2)
    assert not cluster.lab.ask(PutPodGroup(pod_group=group)).error
    fields: dict[str, Any] = {"annotations": {GROUP_ANNOTATION: "crew"}, "preemption_policy": "Never"}
    for name, cores in (("big-1", 3000), ("big-2", 3000), ("small-1", 1000), ("small-2", 1000)):
        cluster.create(name, cores, namespace="has", **fields)
    cluster.seconds(int(AGING) + 10)
    assert {room.agent for room in placing(cluster).agent_holds()} == {"a", "b"}
    groups = {group.agent_id: group for group in cluster.lab.core.state.taskgroups.values()}
    for one in groups.values():
        cluster.lab.ask(DeleteApplication(namespace="has", name=one.application))
    cluster.seconds(30)
    assert len(cluster.groups("small-1", "has")) == len(cluster.groups("small-2", "has")) == 1


@pytest.mark.parametrize("engine", ENGINES)
def test_a_reservation_does_not_pass_to_a_demand_that_wants_another_agent(engine: str) -> None:
    cluster = world(engine, {}, owed=4)
    for name in ("a", "b"):
        cluster.agents[name] = 4000
        cluster.create(f"low-{name}", 1000, instances=4, namespace="has", max_unavailable=1)
        cluster.seconds(3)
    cluster.create("old", 2000, namespace="owed")
    until(cluster, lambda: len(cluster.evicted) == 1)
    cluster.seconds(2)
    (held,) = {room.agent for room in placing(cluster).agent_holds()}
    (other,) = {"a", "b"} - {held}
    found = (one for one in cluster.lab.core.state.records() if isinstance(one, Version))
    present = next(one for one in found if one.application == "old")
    only = ((Constraint(name="hostname", operator="CLUSTER", items=(f"host-of-{other}",)),),)
    anew = msgspec.structs.replace(present, constraints=only)
    assert not cluster.lab.ask(requests.UpdateApplication(version=anew, on_conflict="supersede")).error
    cluster.seconds(int(AGING) + 2 * MINUTE)
    assert [one.agent_id for one in cluster.groups("old", "owed")] == [other]
