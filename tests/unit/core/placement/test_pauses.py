"""Evictions that have not helped make a pause between their two applications."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from bcs_scheduler.api.views.explain import explain_application
from bcs_scheduler.api.views.reasons import reason_of
from bcs_scheduler.core.interface.requests import AskWhatIf
from bcs_scheduler.core.options import CoreOptions
from bcs_scheduler.core.placement import pauses as module
from bcs_scheduler.core.placement.pauses import FIRST, LONGEST, Pauses
from bcs_scheduler.core.placement.source import Tenant
from bcs_scheduler.wire.times import rfc3339
from offers.ledger.holds import UNOFFERED_SECONDS
from offers.policy.hierarchy.configuration.document import partition_of
from offers.policy.session.configuration import policy_of
from store.mentions import plain
from store.records import Namespace, Queue
from tests.unit.busycluster import BusyCluster

PATIENCE = 60.0


class World:
    """The parts of a turn that pauses look at."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.ended: set[str] = set()
        self.started: dict[str, list[float]] = {}
        self.engine = SimpleNamespace(wanted={("*", "shop/web"): 1})
        self.source = self
        self.pool = SimpleNamespace(rows_of=lambda agent: ())
        self.pauses = Pauses(self, PATIENCE)  # type: ignore[arg-type]

    def has_ended(self, unit: str) -> bool:
        return unit in self.ended

    def has_started(self, application: str, since: float) -> bool:
        return any(at >= since for at in self.started.get(application, ()))

    def evict(self, *victims: str, beneficiary: str = "shop/web") -> None:
        batch = [(name, f"batch/{name.rstrip('0123456789')}") for name in victims]
        ended = [Tenant(name, application, "a1", name, True, 0.0) for name, application in batch]
        self.pauses.evicted(beneficiary, ended, self.now)

    def after(self, seconds: float) -> dict[str, float]:
        """The pauses of the beneficiary after some seconds, as seconds from now on by application."""
        self.now += seconds
        self.pauses.step()
        return {name: until - self.now for name, until in self.pauses.present().get("shop/web", {}).items()}


def test_an_eviction_whose_beneficiary_does_not_start_pauses_the_pair() -> None:
    world = World()
    world.evict("low1", "other1")
    assert world.after(10 * PATIENCE) == {}  # the victims have not ended
    world.ended.add("low1")
    assert world.after(10 * PATIENCE) == {}  # one of them has not
    world.ended.add("other1")
    assert world.after(10.0) == {}
    assert world.after(PATIENCE - 1.0) == {}
    assert world.after(1.0) == {"batch/low": FIRST, "batch/other": FIRST}
    assert world.pauses.present().keys() == {"shop/web"}
    assert world.after(FIRST - 1.0) == {"batch/low": 1.0, "batch/other": 1.0}
    assert world.after(1.0) == {}


def test_each_repetition_doubles_the_pause_up_to_the_longest() -> None:
    world, found = World(), []
    for number in range(6):
        world.evict(f"low{number}")
        world.ended.add(f"low{number}")
        world.after(1.0)
        found.append(world.after(PATIENCE)["batch/low"])
        assert world.after(found[-1]) == {}
    assert found == [FIRST, 2 * FIRST, 4 * FIRST, 8 * FIRST, LONGEST, LONGEST]


def test_a_pair_may_pause_for_weeks() -> None:
    world = World()
    for number in range(1100):
        world.evict(f"low{number}")
        world.ended.add(f"low{number}")
        world.after(1.0)
        world.after(LONGEST)
    assert world.after(0.0)["batch/low"] <= LONGEST


def test_a_beneficiary_that_starts_in_time_makes_no_pause_and_ends_the_count() -> None:
    world = World()
    for number in range(2):
        world.evict(f"low{number}")
        world.ended.add(f"low{number}")
        world.after(1.0)
        world.after(PATIENCE)
        world.after(2 * FIRST)
    world.evict("low3")
    world.ended.add("low3")
    world.after(1.0)
    world.started["shop/web"] = [world.now]
    assert world.after(PATIENCE) == {}
    world.evict("low4")
    world.ended.add("low4")
    world.now += 1.0
    world.pauses.step()
    world.started.clear()
    assert world.after(PATIENCE) == {"batch/low": FIRST}


def test_a_beneficiary_that_does_not_wait_any_more_makes_no_pause() -> None:
    world = World()
    world.evict("low1")
    world.ended.add("low1")
    world.after(1.0)
    world.engine.wanted.clear()
    assert world.after(PATIENCE) == {}


def test_the_tables_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_PAIRS", 3)
    monkeypatch.setattr(module, "MOST_AWAITED", 4)
    world = World()
    names = [f"{letter}x" for letter in "abcdefg"]
    for name in names:
        world.evict(name)
    world.ended.update(names)
    world.after(1.0)
    assert world.after(PATIENCE).keys() == {"batch/ex", "batch/fx", "batch/gx"}


# --- in the core ------------------------------------------------------------------------------------------------

TIERS = [
    {"plugins": [{"name": "priority"}, {"name": "gang"}, {"name": "conformance"}]},
    {"plugins": [{"name": "drf"}, {"name": "predicates"}, {"name": "proportion"}, {"name": "nodeorder"}]},
]
QUEUES = {
    "queues": [
        {"name": "default"},
        {
            "name": "owed",
            "resources": {"guaranteed": {"cpus": 3}},
            "properties": {"preemption.delay": "1s"},
        },
    ],
    "placementrules": [{"name": "tag", "value": "namespace"}],
}


def contended(kind: str) -> BusyCluster:
    """Six agents, each with a taskgroup of one of two applications; another framework takes the room of victims. An
    application that may have their room wants one taskgroup."""
    options = CoreOptions(strict=True, validate=True, session_period=0.5, aging=0.0)
    if kind == "hierarchical":
        options = replace(options, hierarchy=partition_of(QUEUES, ("cpus", "mem")))
    else:
        options = replace(options, policy=policy_of({"actions": f"{kind}, allocate, backfill", "tiers": TIERS}))
    records = [Queue(name="owed", weight=1), Namespace(name="owed", queue="owed")] if kind == "reclaim" else []
    cluster = BusyCluster(options, dict.fromkeys("abcdef", 1000), records)
    for name in ("low", "other"):
        cluster.create(name, 1000, instances=3, max_unavailable=3)
    cluster.seconds(3)
    assert len(cluster.groups("low")) == len(cluster.groups("other")) == 3
    cluster.takes_room = True
    if kind == "preempt":
        cluster.create("wants", 1000, priority=5)
    else:
        cluster.create("wants", 1000, namespace="owed")
    return cluster


def left(cluster: BusyCluster) -> tuple[int, int]:
    """Number of the taskgroups of the two applications that are not ended."""
    return len(cluster.groups("low")), len(cluster.groups("other"))


@pytest.mark.parametrize("kind", ["preempt", "reclaim", "hierarchical"])
def test_one_taskgroup_of_each_application_is_ended_until_the_first_pause_is_over(kind: str) -> None:
    cluster = contended(kind)
    cluster.seconds(200)
    assert left(cluster) == (2, 2)
    _say_pauses(cluster, kind)
    cluster.seconds(140)
    assert left(cluster) == (2, 2)
    if kind == "hierarchical":
        assert "has not helped lately (default/low, default/other) until" in _reason(cluster, "owed/wants")
    cluster.seconds(140)
    assert sum(left(cluster)) < 4  # the pauses have an end; they begin once the room is not expected any more


@pytest.mark.parametrize("kind", ["preempt", "reclaim", "hierarchical"])
def test_nothing_more_is_ended_while_the_cluster_manager_offers_nothing(kind: str) -> None:
    """The promise would be over, but the room could not be offered: its time begins with the offer."""
    cluster = contended(kind)
    cluster.takes_room, cluster.is_silent = False, True
    for _ in range(int(UNOFFERED_SECONDS) - 5):
        cluster.second()
        assert sum(left(cluster)) >= 5
    assert sum(left(cluster)) == 5
    cluster.is_silent = False
    cluster.seconds(5)
    assert sum(left(cluster)) == 5 and cluster.groups("wants", "default" if kind == "preempt" else "owed")


def _reason(cluster: BusyCluster, key: str) -> str:
    """The cell REASON."""
    core = cluster.lab.core
    return plain(reason_of(core.state, core.state.applications[key], core.diagnosis))


def _say_pauses(cluster: BusyCluster, kind: str) -> None:
    """The explanation names both pairs and the end of their pauses, and what-if does not propose what is paused. A tree
    keeps its promise of the room that others have taken."""
    lab, wants = cluster.lab, "default/wants" if kind == "preempt" else "owed/wants"
    reason = _reason(cluster, wants)
    if kind == "hierarchical":
        assert "the work that was ended for it on d has left, and the room there is not offered yet" in reason
        return
    application = lab.core.state.applications[wants]
    found = explain_application(lab.core.state, application, lab.core.diagnosis, lab.now)
    (operation,) = found.transactions
    assert operation.placing is not None and operation.placing.attempt is not None
    met = operation.placing.attempt.obstacles[0]
    assert (met.code, met.until > rfc3339(lab.now)) == ("Paused", True)
    assert met.whose == ["default/low", "default/other"] and met.number == 4
    assert "4 of applications whose end has not helped lately (default/low, default/other) until" in reason
    if kind == "preempt":
        reply = lab.ask(AskWhatIf(namespace="default", name="wants"))
        assert isinstance(reply.data, dict)
        kinds = {change["kind"] for one in reply.data["solutions"] for change in one["changes"]}
        assert "preemptTaskgroups" not in kinds and "addAgents" in kinds


@pytest.mark.parametrize("kind", ["preempt", "hierarchical"])
def test_an_application_that_is_alike_evicts_while_another_one_makes_a_pause(kind: str) -> None:
    cluster = contended(kind)
    cluster.seconds(200)
    cluster.takes_room = False
    fields: dict[str, Any] = {"priority": 5} if kind == "preempt" else {"namespace": "owed"}
    cluster.create("next", 1000, **fields)
    cluster.seconds(30)
    namespace = fields.get("namespace", "default")
    assert cluster.groups("next", namespace) or cluster.groups("wants", namespace)
    assert sum(left(cluster)) == 3
