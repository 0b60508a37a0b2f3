"""The snapshot that is kept from session to session equals one that is made from nothing, whatever happens between."""

from __future__ import annotations

import random
from collections.abc import Callable
from math import inf
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bcs_scheduler.core.interface import cluster_manager, leased, requests
from bcs_scheduler.core.options import CoreOptions
from bcs_scheduler.core.placement.engines.session import Session
from offers.agents import ListedAgent
from offers.ledger.holds import RETURN_SECONDS, Cause
from offers.model import ResourceRequest
from offers.policy.session.configuration import DEFAULT, policy_of
from store.records import Limits, Namespace, Queue
from tests.snapshots import outdated
from tests.unit.busycluster import BusyCluster
from tests.unit.lab import Lab, version

POLICY = policy_of({**DEFAULT, "actions": "reclaim, allocate, backfill, preempt"})
OPTIONS = CoreOptions(strict=True, policy=POLICY, session_period=0.5)
SPACES = ("a", "b", "c")
QUEUES = ("default", "q1", "q2")
AGENTS = ("agent-1", "agent-2", "agent-3", "agent-4")


class Steps:
    """One random step after the other."""

    def __init__(self, chance: random.Random, options: CoreOptions = OPTIONS) -> None:
        self.chance = chance
        self.lab = Lab(options)
        often = [self.define, self.scale, self.offer, self.offer, self.offer, self.report, self.report, self.enter]
        rarely = [
            self.delete, self.put_queue, self.drop_queue, self.rescind, self.list_agents, self.lose_agent,
            self.settings, self.connect, lambda: None,
        ]  # fmt: skip
        self.steps: list[Callable[[], Any]] = [*often * 4, *rarely]
        for queue in QUEUES:
            self.lab.turn(requests.PutQueue(queue=Queue(name=queue)))
        for _ in range(3):
            self.offer()
            self.define()

    def __call__(self) -> None:
        self.chance.choice(self.steps)()
        self.lab.wait(self.chance.choice((0.1, 0.6, 12.0)))

    def define(self) -> None:
        instances = self.chance.randint(1, 4)
        fields = {"priority": self.chance.choice((0, 5)), "min_available": self.chance.choice((0, 0, 2))}
        wanted = msgspec.structs.replace(version(instances, **fields), namespace=self.chance.choice(SPACES))
        key = f"{wanted.namespace}/{wanted.application}"
        known = key in self.lab.core.state.applications
        self.lab.turn((requests.UpdateApplication if known else requests.CreateApplication)(version=wanted))

    def scale(self) -> None:
        space, instances = self.chance.choice(SPACES), self.chance.randint(0, 5)
        self.lab.turn(requests.ScaleApplication(namespace=space, name="web", instances=instances))

    def delete(self) -> None:
        self.lab.turn(requests.DeleteApplication(namespace=self.chance.choice(SPACES), name="web", enforce=True))

    def put_queue(self) -> None:
        limits = Limits(cpus=self.chance.choice((None, 200)))
        queue = Queue(name=self.chance.choice(QUEUES), weight=self.chance.randint(1, 3), capability=limits)
        self.lab.turn(requests.PutQueue(queue=queue))

    def drop_queue(self) -> None:
        self.lab.turn(requests.DeleteQueue(name=self.chance.choice(QUEUES)))

    def enter(self) -> None:
        namespace = Namespace(name=self.chance.choice(SPACES), queue=self.chance.choice(QUEUES))
        self.lab.turn(requests.PutNamespace(namespace=namespace))

    def offer(self) -> None:
        self.lab.offer(self.chance.choice(AGENTS), cpus=self.chance.choice((50, 350, 900)))

    def rescind(self) -> None:
        offers = self.lab.core.turn_context.pool.hand.all()
        if offers:
            self.lab.turn(leased.OfferRescinded(offer_id=self.chance.choice(offers).id))

    def report(self) -> None:
        groups = list(self.lab.core.state.taskgroups.values())
        if groups:
            state = self.chance.choice((*["RUNNING"] * 6, "FAILED", "UNREACHABLE", "KILLED"))
            self.lab.report(self.chance.choice(groups), state)

    def list_agents(self) -> None:
        agents = [self._listed(name) for name in AGENTS if self.chance.random() < 0.7]
        self.lab.turn(cluster_manager.AgentsListed(agents=tuple(agents)))

    def _listed(self, name: str) -> ListedAgent:
        total = {"cpus": self.chance.choice((400, 1000)), "mem": 64_000_000}
        return ListedAgent(id=name, ip=name, hostname=f"host-of-{name}", attributes={"InnerIP": name}, total=total)

    def lose_agent(self) -> None:
        self.lab.turn(cluster_manager.AgentRemoved(agent_id=self.chance.choice(AGENTS)))

    def settings(self) -> None:
        extended = self.chance.choice((None, {"licences": 3}))
        agent, disabled = self.chance.choice(AGENTS), self.chance.random() < 0.3
        self.lab.turn(requests.SetAgent(agent=agent, disabled=disabled, strings={"zone": "x"}, extended=extended))

    def connect(self) -> None:
        self.lab.turn(cluster_manager.Disconnected())
        self.lab.turn(cluster_manager.Connected(framework_id="framework", cluster="cluster"))


@pytest.mark.rotating
@pytest.mark.slow
@given(st.integers(0, 2**32))
@settings(max_examples=40, deadline=None)
def test_the_kept_snapshot_equals_one_that_is_made_from_nothing(seed: int) -> None:
    chance = random.Random(seed)
    step = Steps(chance)
    for _ in range(40):
        step()
        if chance.random() < 0.4:
            assert outdated(step.lab.core) == []
    assert outdated(step.lab.core) == []


def test_room_of_offers_that_were_given_back_is_coming_for_some_seconds() -> None:
    """It counts as room that is being released, as far as nothing else is known to have it: no more is ended than
    beside the offer."""
    lab = Lab(OPTIONS)
    turn, placing = lab.core.turn_context, lab.core._offer_manager.placing.loops[0].engine
    assert isinstance(placing, Session)
    lab.turn(leased.OffersArrived(offers=(lab.make_offer("a", cpus=1000),)))

    inputs = placing._inputs
    snapshots, coming = inputs.snapshots, turn.pool.hand.coming

    def room(after: float = 0.0) -> tuple[int, int, bool]:
        coming.tick(lab.now + after)
        columns = snapshots.of_role("*", (), {}, (), {}, lab.now + after).snapshot.columns
        return columns.idle[0][0], columns.future[0][0], coming.until() < inf

    assert room() == (1000, 1000, False)
    turn.pool.hand.withdraw("a")
    assert room() == (0, 1000, True)
    turn.pool.holds.add("old", Cause.OLD, ("a", "*"), ResourceRequest(cpus=600))
    assert room(1.0) == (0, 1000, True)  # what the held room lacks, sessions take out of it themselves
    turn.pool.holds.drop("old")
    assert room(1.0) == (0, 1000, True)
    assert room(RETURN_SECONDS) == (0, 0, False)
    turn.pool.hand.add(lab.make_offer("a", cpus=700))
    assert room(RETURN_SECONDS) == (700, 700, False)


def test_room_that_leaves_beside_held_room_is_expected_when_the_hold_is_gone() -> None:
    """The held room was free already when the taskgroup ended: it is not the room of the taskgroup."""
    cluster = BusyCluster(OPTIONS, {"a": 4000})
    turn, placing = cluster.lab.core.turn_context, cluster.lab.core._offer_manager.placing.loops[0].engine
    assert isinstance(placing, Session)
    inputs = placing._inputs
    cluster.create("short", 1000, lasts=5.0)
    cluster.seconds(3)

    def coming() -> int:
        (agent,) = inputs.of_role("*", [], {}).snapshot.agents
        return dict(agent.coming).get("cpus", 0)

    turn.pool.holds.add("old", Cause.OLD, ("a", "*"), ResourceRequest(cpus=3000))
    assert coming() == 0
    cluster.is_silent = True
    while cluster.groups("short"):
        cluster.second()
    assert coming() == 1000
    turn.pool.holds.drop("old")
    assert coming() == 1000


def test_figures_of_agents_are_made_again_when_their_settings_change() -> None:
    """An agent that takes no work holds nothing; the memory of sessions depends on the number of changes of agents."""
    lab = Lab(OPTIONS)
    placing = lab.core._offer_manager.placing.loops[0].engine
    assert isinstance(placing, Session)
    inputs = placing._inputs
    lab.turn(leased.OffersArrived(offers=(lab.make_offer("a"),)))

    def changes() -> int:
        return inputs.snapshots.of_role("*", (), {}, (), {}, lab.now).snapshot.agent_changes

    before = changes()
    assert changes() == before
    for disabled in (True, False):
        lab.turn(requests.SetAgent(agent="a", disabled=disabled))
        assert changes() > before
        before = changes()


def test_what_is_gone_is_not_kept() -> None:
    """Taskgroups, applications and agents come and go, and no session is held in between."""
    lab = Lab(OPTIONS)
    lab.create(1)
    lab.offer()
    lab.wait(2.0)
    kept = lab.core._offer_manager.placing.loops[0].engine._inputs.snapshots._roles["*"]  # type: ignore[attr-defined]
    lab.delete(enforce=True)
    for group in lab.groups:
        lab.report(group, "KILLED")
    lab.wait(2.0)
    for number in range(50):
        name = f"gone-{number}"
        listed = ListedAgent(id=name, ip=name, hostname=name, attributes={}, total={"cpus": 1, "mem": 1})
        lab.turn(cluster_manager.AgentsListed(agents=(listed,)))
        lab.turn(cluster_manager.AgentRemoved(agent_id=name))
        lab.turn(cluster_manager.AgentsListed(agents=()))
    assert len(kept._touched) <= 1 and len(kept._changed) <= 1
    assert not lab.core.turn_context.pool.follow()
