"""Work with an open operation gives way like other work, in both engines. Its places stay wanted, and it ends.

A cluster of agents of equal size is played: tasks start and end at once, and agents offer what is free.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from bcs_scheduler.api.views.explain import explain_application
from bcs_scheduler.core.interface import leased, requests
from bcs_scheduler.core.interface.requests import ScaleApplication
from bcs_scheduler.core.options import CoreOptions
from offers.policy.hierarchy.configuration.document import partition_of
from offers.policy.obstacles import Met, Obstacle
from offers.policy.session.configuration import policy_of
from store.mentions import plain
from store.records import Namespace, Queue, Strategy, TaskGroup
from store.records.definition import Amounts, Container, HealthCheck
from store.records.objects import Limits
from tests.effort import check_few
from tests.unit.lab import Lab, version
from tests.unit.rollinglab import wish
from transactions import obstacles
from transactions.base import Options, Periods
from transactions.rules import disruptions

CORE = 1000
LAUNCH = 20.0
"""Seconds until a launch has run out of time."""
DOCUMENT: dict[str, Any] = {
    "queues": [
        {"name": name, "resources": {"guaranteed": {"cpus": 4}}, "properties": {"preemption.delay": "5s"}}
        for name in ("team-a", "team-b")
    ]
    + [{"name": "batch", "resources": {"max": {"cpus": 10}}}],
    "placementrules": [{"name": "tag", "value": "namespace"}],
}
SESSION = policy_of(
    {
        "actions": "reclaim, allocate, backfill, preempt",
        "tiers": [
            {"plugins": [{"name": "priority"}, {"name": "gang"}, {"name": "conformance"}]},
            {"plugins": [{"name": "drf"}, {"name": "predicates"}, {"name": "proportion"}, {"name": "nodeorder"}]},
        ],
        "session": {"nominationSeconds": 10},
    }
)


def options(engine: str) -> CoreOptions:
    common: dict[str, Any] = {"strict": True, "session_period": 0.5, "validate": True}
    common["transactions"] = Options(periods=Periods(launch=LAUNCH, default=90.0))
    if engine == "session":
        return CoreOptions(policy=SESSION, **common)
    return CoreOptions(hierarchy=partition_of(DOCUMENT, ("cpus", "mem")), **common)


class Played(Lab):
    """Agents of some cores each. `healthy`: applications whose checks pass."""

    def __init__(self, engine: str, agents: int = 3, cores: int = 4) -> None:
        super().__init__(options(engine))
        self.capacity = {f"agent-{number}": cores * CORE for number in range(agents)}
        if engine == "session":
            batch = Queue(name="batch", capability=Limits(cpus=10 * CORE))
            for queue in (batch, Queue(name="team-a"), Queue(name="team-b")):  # a third for each
                self.turn(requests.PutQueue(queue=queue))
                self.turn(requests.PutNamespace(namespace=Namespace(name=queue.name, queue=queue.name)))

    def create(self, namespace: str, name: str, instances: int, *, checked: bool = False, **fields: Any) -> None:  # type: ignore[override]
        self.ask(requests.CreateApplication(version=definition(namespace, name, instances, checked=checked, **fields)))

    def present(self, namespace: str, name: str) -> list[TaskGroup]:
        return [one for one in self.core.state.groups_of(f"{namespace}/{name}").values() if not one.ended]

    def running(self, namespace: str, name: str) -> int:
        return sum(one.status == "Running" and not one.killing_since for one in self.present(namespace, name))

    def play(self, seconds: float, until: Callable[[], bool] = lambda: False) -> None:
        end = self.now + seconds
        while self.now < end and not until():
            for group in list(self.core.state.taskgroups.values()):
                if group.killing_since and not group.ended:
                    self.report(group, "KILLED")
                elif not group.started and not group.ended:
                    self.report(group, "RUNNING")
            self.offer_free()
            self.wait(1.0)
            self.hold()

    def offer_free(self) -> None:
        used = Counter[str]()
        for group in self.core.state.taskgroups.values():
            if not group.ended:
                used[group.agent_id] += group.resources.cpus
        for agent, cores in self.capacity.items():
            self.core.turn_context.pool.hand.remove_agent(agent)
            # A full agent offers memory.
            self.turn(leased.OffersArrived(offers=(self.make_offer(agent, cpus=max(1, cores - used[agent])),)))

    def hold(self) -> None:
        """No index runs twice, and no agent holds more than it has."""
        held = Counter((one.application_key, one.index) for one in self.core.state.taskgroups.values())
        assert not [place for place, number in held.items() if number > 1]
        used = Counter[str]()
        for group in self.core.state.taskgroups.values():
            used[group.agent_id] += 0 if group.ended else group.resources.cpus
        assert all(amount <= self.capacity[agent] for agent, amount in used.items())


def definition(namespace: str, name: str, instances: int, *, checked: bool = False, **fields: Any) -> Any:
    checks = (HealthCheck(type="REMOTE_TCP", port=80),) if checked else ()
    container = Container(command="serve", requests=Amounts(cpus=CORE, mem=32_000, disk=0), health_checks=checks)
    wanted = version(instances, containers=(container,), **fields)
    return msgspec.structs.replace(wanted, namespace=namespace, application=name)


ENGINES = pytest.mark.parametrize("engine", ["session", "hierarchical"])


@ENGINES
def test_a_launch_that_asks_for_more_than_its_queue_holds_protects_nothing(engine: str) -> None:
    lab = Played(engine)
    lab.create("batch", "crunch", 12)
    lab.play(5)
    assert lab.running("batch", "crunch") == 10 and lab.transaction("LAUNCH").active
    lab.create("team-a", "gang", 4, min_available=4)
    lab.play(60, lambda: lab.running("team-a", "gang") == 4)
    assert lab.running("team-a", "gang") == 4 and lab.running("batch", "crunch") == 8
    lab.create("team-b", "web", 4)
    lab.play(240, lambda: lab.running("team-b", "web") == 4)
    assert lab.running("team-b", "web") == 4 and lab.running("batch", "crunch") == 4
    lab.ask(requests.DeleteApplication(namespace="team-a", name="gang"))
    lab.ask(requests.DeleteApplication(namespace="team-b", name="web"))
    lab.play(20)
    assert lab.running("batch", "crunch") == 10, "its places were wanted all the time"


# --- every kind of operation ------------------------------------------------------------------------------------


def launch(lab: Played) -> None:
    """A launch of more than the queue holds."""
    lab.create("batch", "crunch", 12)
    lab.play(3)


def scale_up(lab: Played) -> None:
    lab.create("batch", "crunch", 10)
    lab.play(3)
    lab.ask(ScaleApplication(namespace="batch", name="crunch", instances=12))


def fill(lab: Played) -> None:
    """A launch of more than the queue holds that has run out of time."""
    launch(lab)
    lab.play(LAUNCH)
    assert lab.transaction("LAUNCH").status == "TIMEOUT" and lab.transaction("FILL").active


def update(lab: Played) -> None:
    lab.create("batch", "crunch", 10)
    lab.play(3)
    lab.ask(requests.UpdateApplication(version=definition("batch", "crunch", 10, labels={"revision": "2"})))


def broken_update(lab: Played) -> None:
    """An update whose new taskgroups never become ready."""
    lab.create("batch", "crunch", 10)
    lab.play(3)
    lab.ask(requests.UpdateApplication(version=definition("batch", "crunch", 10, checked=True)))
    lab.play(3)


def deploy(lab: Played, strategy: Strategy) -> None:
    assert not lab.ask(deployed(lab, strategy)).error


def deployed(lab: Played, strategy: Strategy) -> requests.UpdateDeployment:
    """A deployment that runs, and the request for its update."""
    record = msgspec.structs.replace(wish(10, name="crunch", strategy=strategy), namespace="batch")
    lab.ask(requests.CreateDeployment(deployment=record, version=definition("batch", "crunch", 10)))
    lab.play(5)
    newer = definition("batch", "crunch", 10, labels={"revision": "2"})
    return requests.UpdateDeployment(deployment=record, version=newer)


def rolling(lab: Played) -> None:
    deploy(lab, Strategy(max_unavailable=3, max_surge=1, order="DeleteFirst"))


def paused(lab: Played) -> None:
    """A rolling update that waits for its user after the first step."""
    deploy(lab, Strategy(max_unavailable=3, max_surge=1, order="DeleteFirst", manual=True))
    lab.play(20)
    assert lab.core.state.deployments["batch/crunch"].status == "UpdatePaused"


KINDS = (launch, scale_up, fill, update, broken_update, rolling, paused)


@ENGINES
@pytest.mark.parametrize("begin", check_few(KINDS, 3, always=3))
def test_an_open_operation_takes_nothing_from_a_queue_that_is_entitled(
    begin: Callable[[Played], None], engine: str
) -> None:
    """Afterwards its places are filled again, and the operation ends."""
    lab = Played(engine)
    begin(lab)
    teams = ("team-a", "team-b")
    for team in teams:
        lab.create(team, "web", 4)
        lab.play(300, lambda team=team: lab.running(team, "web") == 4)  # type: ignore[misc]
        assert lab.running(team, "web") == 4, team
    for team in teams:
        lab.ask(requests.DeleteApplication(namespace=team, name="web"))
    if begin is paused:
        lab.play(10)
        lab.ask(requests.ControlDeployment(namespace="batch", name="crunch", action="cancel"))
    lab.play(90)
    there = [group for group in lab.core.state.taskgroups.values() if not group.ended]
    assert len(there) == 10 and {group.namespace for group in there} == {"batch"}
    assert sum(group.status == "Running" and not group.killing_since for group in there) == 10
    if begin in (launch, scale_up, fill):
        lab.ask(ScaleApplication(namespace="batch", name="crunch", instances=10, on_conflict="supersede"))
        lab.play(5)
    if begin is broken_update:
        lab.play(600)
    assert not [one.id for one in lab.core.state.transactions.values() if one.active]
    assert len({group.version for group in there}) == 1 or begin is broken_update


@pytest.mark.parametrize("engine", ["hierarchical"])
def test_what_is_not_ready_gives_way_first_and_spends_no_budget(engine: str) -> None:
    lab = Played(engine)
    lab.create("batch", "healthy", 6, max_unavailable=1)
    lab.play(3)
    lab.create("batch", "broken", 4, checked=True, max_unavailable=1)
    lab.play(3)
    assert (lab.running("batch", "healthy"), lab.running("batch", "broken")) == (6, 4)
    lab.create("team-a", "web", 4)
    lab.play(15, lambda: lab.running("team-a", "web") == 4)
    assert lab.running("team-a", "web") == 4
    assert (lab.running("batch", "healthy"), lab.running("batch", "broken")) == (6, 2)


# --- the explanation for others -------------------------------------------------------------------------------------


def obstacles_of(lab: Played, key: str) -> dict[Obstacle, Met]:
    """The obstacles of the latest attempt to make room for an application."""
    found = [lab.core.diagnosis(identity) for identity in lab.core.state.active_of(key)]
    return {met.code: met for one in found if one is not None and one.attempt is not None for met in one.attempt.met}


def explained(lab: Played, key: str) -> str:
    """The text of `bcs explain`."""
    found = explain_application(lab.core.state, lab.core.state.applications[key], lab.core.diagnosis, lab.now)
    return plain("\n".join(found.text))


@ENGINES
@pytest.mark.parametrize("begin", [launch, fill, paused])
def test_an_operation_that_ends_nothing_is_named_as_no_obstacle(begin: Callable[[Played], None], engine: str) -> None:
    """Also while evictions are in progress, and while the budget of its application forbids more of them."""
    lab = Played(engine)
    begin(lab)
    lab.create("team-a", "web", 4)
    seen: dict[Obstacle, None] = {}

    def done() -> bool:
        seen.update(dict.fromkeys(obstacles_of(lab, "team-a/web")))
        assert "in an operation" not in explained(lab, "team-a/web")
        return lab.running("team-a", "web") == 4

    lab.play(300, done)
    assert lab.running("team-a", "web") == 4 and Obstacle.OPERATION not in seen


class Hurried:
    """The time of a turn is used up, so that a turn ends between two steps of operations."""

    def spent(self) -> float:
        return 0.7

    def is_congested(self) -> bool:
        return False


def test_an_operation_that_ends_work_is_its_obstacle_until_it_does() -> None:
    """A deletion whose turn is over too soon ends the rest in the next turns."""
    lab = Played("session")
    lab.create("batch", "crunch", 10)
    lab.play(3)

    def kept() -> set[Obstacle]:
        rules = disruptions.at(lab.core.turn_context.context)
        staying = [one for one in lab.present("batch", "crunch") if not one.killing_since]
        return {obstacles.protecting(rules, one) for one in staying}

    assert Obstacle.OPERATION not in kept()
    lab.core.turn((requests.DeleteApplication(namespace="batch", name="crunch"),), lab.now, Hurried())
    assert kept() == {Obstacle.OPERATION}
    lab.turn()
    assert kept() == set(), "all are being ended"
