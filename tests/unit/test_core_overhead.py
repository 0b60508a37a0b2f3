"""What a taskgroup takes beside its containers is a trait of the cluster manager: everything that counts, counts it."""

from __future__ import annotations

import pytest

from bcs_scheduler.core.interface import requests
from bcs_scheduler.core.interface.cluster_manager import Traits
from bcs_scheduler.core.options import CoreOptions
from store.records import Namespace, Quota, Version
from store.records.definition import Amounts, Container
from tests.unit.agentlab import Cluster
from tests.unit.lab import Lab, version
from transactions import resource_request
from transactions.base import Overhead, Step
from transactions.resource_request import EXECUTOR

NOTHING = Overhead()
HEAVY = Overhead(cpus=150, mem=1_000, disk=2_000)
"""A taskgroup of tests.unit.lab.version then takes 0.25 cores."""


def options(overhead: Overhead) -> CoreOptions:
    return CoreOptions(strict=True, traits=Traits(overhead=overhead))


def taken(lab: Lab) -> list[Amounts]:
    return [group.resources for group in lab.groups]


CASES = [
    (EXECUTOR, 5, Amounts(cpus=100, mem=96_000, disk=64_000)),
    (NOTHING, 5, Amounts(cpus=100, mem=32_000)),
    (HEAVY, 2, Amounts(cpus=250, mem=33_000, disk=2_000)),
]


def test_managers_of_several_overheads_do_not_mix() -> None:
    """The definitions are equal, also in name and time, so one taken for the other would show."""
    for overhead, count, each in [*CASES, *reversed(CASES)]:
        lab = Lab(options(overhead))
        lab.create(6)
        lab.offer(cpus=500)
        assert taken(lab) == [each] * count
        (plan,) = lab.core.state.versions_of("default/web").values()
        request = resource_request.request_of(plan, overhead)
        assert (request.cpus, request.mem, request.disk) == (each.cpus, each.mem, each.disk)


def test_what_is_worked_out_once_is_kept_for_each_overhead() -> None:
    one = version(name="1", created_at=1.0)
    for find in (resource_request.amounts, resource_request.request_of):
        found = {overhead: find(one, overhead) for overhead in (EXECUTOR, NOTHING, HEAVY)}
        assert len(set(map(repr, found.values()))) == 3
        for overhead, result in found.items():
            assert find(one, overhead) is result


@pytest.mark.parametrize(
    ("cpus", "spared_from", "expected"),
    [((50, 99), 100, 159), ((50, 100), 100, 150), ((300, 200), 100, 500), ((300, 200), 0, 510), ((0, 0), 0, 10)],
)
def test_a_container_that_requests_enough_spares_the_cores(
    cpus: tuple[int, ...], spared_from: int, expected: int
) -> None:
    containers = tuple(Container(command="serve", requests=Amounts(cpus=each)) for each in cpus)
    wanted = Version(namespace="ns", application="web", containers=containers)
    assert resource_request.total(wanted, Overhead(cpus=10, spared_from=spared_from)).cpus == expected


@pytest.mark.parametrize(("overhead", "placed"), [(EXECUTOR, 3), (NOTHING, 3), (HEAVY, 1)])
def test_a_dry_run_places_what_the_launch_would(overhead: Overhead, placed: int) -> None:
    lab = Lab(options(overhead))
    lab.offer(cpus=300)
    reply = lab.ask(requests.CreateApplication(version=version(4), dry_run=True))
    assert (len(reply.data["place"]), reply.data["unplaced"]) == (placed, 4 - placed)
    lab.create(4)
    assert len(lab.groups) == placed


@pytest.mark.parametrize(("overhead", "instances"), [(EXECUTOR, 5), (NOTHING, 5), (HEAVY, 2)])
def test_a_quota_counts_it(overhead: Overhead, instances: int) -> None:
    lab = Lab(options(overhead))
    lab.ask(requests.PutNamespace(namespace=Namespace(name="default", quota=Quota(cpus=500))))
    assert lab.create(instances + 1).error == "quota_exceeded"
    assert not lab.create(instances).error


@pytest.mark.parametrize(("overhead", "agents"), [(NOTHING, 4), (HEAVY, 2)])
def test_a_daemonset_grows_within_the_quota(overhead: Overhead, agents: int) -> None:
    lab = Cluster(1, options=options(overhead))
    lab.ask(requests.PutNamespace(namespace=Namespace(name="default", quota=Quota(cpus=500))))
    assert not lab.begin().error
    for number in range(1, 4):
        lab.join(f"a{number}")
    lab.settle()
    assert lab.application.instances == len(lab.groups) == agents


@pytest.mark.parametrize(("overhead", "moved"), [(NOTHING, True), (HEAVY, False)])
def test_a_drain_moves_to_agents_with_room_for_it(overhead: Overhead, moved: bool) -> None:
    lab = Cluster(2, options=options(overhead))
    lab.create(1)
    lab.offer("a0")
    lab.run()
    lab.core.turn_context.pool.hand.remove_agent("a0")
    lab.offer("a1", cpus=200)
    lab.ask(requests.DrainAgent(agent="a0"))
    lab.wait(2)
    assert bool(lab.groups[0].killing_since) == moved


def test_a_demand_asks_for_it() -> None:
    found = resource_request.demand("one", version(), Step(), "*", HEAVY)
    assert (found.request.cpus, found.request.mem, found.request.disk) == (250, 33_000, 2_000)
