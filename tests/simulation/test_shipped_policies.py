"""The policy files of conf/ under load, in virtual time: no needless eviction, no storm of evictions, nobody starves.

Every queue of a file gets more work than the cluster has room for: single taskgroups of several sizes and priorities,
gangs, work that no agent can hold, work whose checks fail. The rules of quiet worlds judge each eviction, and what
waits when everything is at rest.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from bcs_scheduler.core.interface import requests
from bcs_scheduler.core.options import CoreOptions
from bcs_scheduler.settings.partitions import partitions_of_settings
from bcs_scheduler.settings.policies import read_policy
from bcs_scheduler.simulator.inputs import with_policy
from offers.policy.session.configuration import Registry
from store.records import Namespace, Version
from store.records import Queue as SessionQueue
from store.records.definition import Amounts, Container, HealthCheck
from tests.simulation.policies.queues import Queues, SessionQueues, TreeQueues, asks
from tests.simulation.policies.rules import Rules
from tests.simulation.policies.users import machine
from tests.simulation.policies.world import QuietWorld
from transactions.base import Options

CONF = Path(__file__).resolve().parents[2] / "conf"
PLUGIN = CONF / "examples" / "policy-plugin"
ROLES = ("prod", "web", "batch", "*")
AGENTS, CORES = 4, 4


class Shipped(NamedTuple):
    """A policy file. `spaces`: namespaces with the queue that each names; empty: the rules of the file choose."""

    options: Callable[[], CoreOptions]
    rules: Callable[[QuietWorld], Queues]
    spaces: Mapping[str, str]
    creates: bool = False
    """The queues are records of the store, with weights 1, 2, 3..."""


def _of(file: str) -> Callable[[], CoreOptions]:
    return lambda: with_policy(CoreOptions(), str(CONF / file))


def _partition(role: str) -> Callable[[], CoreOptions]:
    def made() -> CoreOptions:
        partitions = partitions_of_settings(str(CONF / "policies.yaml"), ROLES)
        return CoreOptions(transactions=Options(role=role), partitions=partitions)

    return made


def _plugin() -> CoreOptions:
    spec = importlib.util.spec_from_file_location("bcs_policy_power", PLUGIN / "bcs_policy_power.py")
    assert spec is not None and spec.loader is not None
    module: Any = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    registry = Registry([module.PowerSupply], [module.ShedLoad], {"newest": module.newest})
    return replace(CoreOptions(), policy=read_policy(PLUGIN / "policy.yaml", registry))


SESSIONS = {"shop": "online", "night": "batch", "own": ""}
TREE = {"shop": "root.online", "night": "root.batch.night", "reports": "root.batch.reports", "own": ""}
YUNIKORN = {"aa": "", "bb": "", "cc": "root.default"}
SHIPPED: dict[str, Shipped] = {
    "policy.yaml": Shipped(_of("policy.yaml"), SessionQueues, SESSIONS, creates=True),
    "queues.yaml": Shipped(_of("queues.yaml"), TreeQueues, TREE),
    "yunikorn-queues.yaml": Shipped(
        _of("yunikorn-queues.yaml"), TreeQueues, {"aa": "", "bb": "", "cc": "root.default"}
    ),
    "policies.yaml: prod": Shipped(_partition("prod"), SessionQueues, SESSIONS, creates=True),
    "policies.yaml: batch": Shipped(_partition("batch"), TreeQueues, {"aa": "root.night"}),
    "policies.yaml: *": Shipped(_partition("*"), TreeQueues, TREE),
    "policy-plugin/policy.yaml": Shipped(_plugin, SessionQueues, SESSIONS, creates=True),
}


def work(namespace: str, name: str, instances: int, cpus: int, **fields: Any) -> requests.CreateApplication:
    checks = fields.pop("health_checks", ())
    wanted = Amounts(cpus=cpus, mem=64_000, disk=0)
    container = Container(command="serve", requests=wanted, health_checks=checks)
    version = Version(namespace=namespace, application=name, instances=instances, containers=(container,), **fields)
    return requests.CreateApplication(version=version)


def load(world: QuietWorld, namespace: str) -> None:
    """More than the cluster has room for, for one queue."""
    world.sick.add(f"{namespace}/sick")
    check = HealthCheck(type="COMMAND", command="true")
    for request in (
        work(namespace, "many", 12, 500, max_unavailable=3),
        work(namespace, "single", 4, 1000, priority=5),
        work(namespace, "gang", 3, 1000, min_available=3),
        work(namespace, "large", 2, 3000),
        work(namespace, "sick", 2, 500, health_checks=(check,)),
        work(namespace, "never", 1, 1000 * (CORES + 1)),
    ):
        world.ask(request)


@pytest.mark.parametrize("name", SHIPPED)
def test_a_shipped_policy_stays_calm_and_fair_under_load(name: str) -> None:
    shipped = SHIPPED[name]
    world = QuietWorld(shipped.options(), [machine(number, CORES * 1000) for number in range(AGENTS)])
    rules = Rules(world, shipped.rules(world))
    for weight, (namespace, queue) in enumerate(shipped.spaces.items(), 1):
        if queue and shipped.creates:
            world.ask(requests.PutQueue(queue=SessionQueue(name=queue, weight=weight)))
        world.ask(requests.PutNamespace(namespace=Namespace(name=namespace, queue=queue)))
    for namespace in shipped.spaces:
        load(world, namespace)
    rules.rest()
    evicted = world.counts["taskgroups evicted"]
    for namespace in shipped.spaces:
        world.ask(requests.DeleteApplication(namespace=namespace, name="many"))
        world.pass_time(5.0)
    rules.rest()
    for namespace in reversed(list(shipped.spaces)):
        world.ask(work(namespace, "late", 8, 1000, priority=9))
    rules.rest()
    # As many as there is room for leave at most, for each of the two times at which work arrives.
    assert evicted <= AGENTS * CORES * 2 and world.counts["taskgroups evicted"] <= AGENTS * CORES * 4
    for namespace in shipped.spaces:
        running = [group for group in world.groups.values() if group.namespace == namespace and not group.ended]
        assert running, f"{namespace} has nothing: {asks(world)}"
