"""Both sides of a rolling update have one disruption budget, and those who end several taskgroups count what both
spend: on virtual time."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from bcs_scheduler.core.interface import requests
from bcs_scheduler.core.options import CoreOptions
from store.records import Strategy, TaskGroup, Transaction
from store.records.definition import Amounts, Container
from tests.unit.busycluster import BusyCluster
from tests.unit.core.placement.test_old_work import AGING, ENGINES, MINUTE, evictions, reason, world
from tests.unit.lab import version
from tests.unit.rollinglab import wish
from transactions.base import Context
from transactions.kinds import reschedule

HALF = (Container(command="x", requests=Amounts(cpus=500, mem=32_000, disk=0)),)

SMALL = {"small": 600}


def definition(**fields: Any) -> Any:
    return msgspec.structs.replace(version(2, containers=HALF, **fields), namespace="has", application="web")


def updating(cluster: BusyCluster) -> BusyCluster:
    """A deployment of two taskgroups of half a core, of which one may be missing; its update is halted with one
    taskgroup on each side. Both run on an agent of one core. The work on the other agent is too small to help."""
    cluster.create("small", 300, instances=2, namespace="has", max_unavailable=1)
    cluster.seconds(3)
    cluster.agents["large"] = 1000
    strategy = Strategy(max_unavailable=1, max_surge=1, order="DeleteFirst", manual=True)
    wanted, lab = msgspec.structs.replace(wish(2, strategy=strategy), namespace="has"), cluster.lab
    assert not lab.ask(requests.CreateDeployment(deployment=wanted, version=definition())).error
    cluster.seconds(3)
    changed = definition(labels={"revision": "2"})
    assert not lab.ask(requests.UpdateDeployment(deployment=wanted, version=changed)).error
    cluster.seconds(10)
    deployment = lab.core.state.deployments["has/web"]
    assert deployment.status == "UpdatePaused"
    assert [len(cluster.groups(name, "has")) for name in deployment.sides] == [1, 1]
    return cluster


@pytest.fixture
def begun(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The taskgroups that were to be evicted, those included of which the eviction was refused."""
    found: list[str] = []
    evict = reschedule.evict

    def noted(ctx: Context, group: TaskGroup, *rest: Any, **how: Any) -> Transaction:
        found.append(group.id)
        return evict(ctx, group, *rest, **how)

    monkeypatch.setattr(reschedule, "evict", noted)
    return found


@pytest.mark.parametrize("engine", ENGINES)
def test_nothing_is_ended_for_work_that_needs_both_sides(engine: str) -> None:
    cluster = updating(world(engine, SMALL, owed=1))
    cluster.create("wants", 1000, namespace="owed")
    assert evictions(cluster, int(AGING) - 5) == []
    assert "disruption budget" in reason(cluster, "owed/wants")


@pytest.mark.parametrize("engine", ENGINES)
def test_one_side_gives_way_and_the_other_does_not(engine: str, begun: list[str]) -> None:
    """Two taskgroups need the room of one each."""
    cluster = updating(world(engine, SMALL, owed=1))
    cluster.create("wants", 500, instances=2, namespace="owed")
    assert len(evictions(cluster, int(AGING) - 5)) == len(begun) == 1
    assert len(cluster.groups("wants", "owed")) == 1


@pytest.mark.parametrize("engine", ENGINES)
def test_old_work_that_needs_both_sides_ends_one_after_the_other(engine: str, begun: list[str]) -> None:
    """No eviction is begun that the budget forbids."""
    cluster = updating(world(engine, SMALL, owed=1))
    cluster.create("wants", 1000, namespace="owed")
    found = evictions(cluster, int(AGING) + 2 * MINUTE)
    assert len(found) == 2 and found[0] >= AGING - 1 and found[1] - found[0] >= MINUTE - 2
    assert len(cluster.groups("wants", "owed")) == 1
    assert len(begun) == 2


@pytest.mark.parametrize(("cores", "proposed"), [(500, True), (1000, False)])
def test_what_if_proposes_no_end_of_both_sides(cores: int, proposed: bool) -> None:
    cluster = updating(BusyCluster(CoreOptions(strict=True, validate=True), SMALL))
    cluster.create("wants", cores, namespace="has", priority=5)
    cluster.seconds(2)
    data = cluster.lab.ask(requests.AskWhatIf(namespace="has", name="wants")).data
    kinds = {change["kind"] for one in data["solutions"] for change in one["changes"]}
    assert ("preemptTaskgroups" in kinds) is proposed
