"""Conditions that the worlds of policies must have, counted at rest (budgets at evictions too): without them the rules
prove little."""

from __future__ import annotations

from collections import Counter, defaultdict

from store.records import CRITICAL_CLASSES
from tests.simulation.policies.queues import Queues, asks, version_of
from tests.simulation.policies.world import QuietWorld
from tests.simulation.readiness import ready

SPARED = "budgets that spare taskgroups"
WORDS = (
    "queues at their limits",
    "asks larger than a limit",
    "asks larger than every agent",
    "gangs beside singles",
    "critical work",
    SPARED,
    "failing checks",
    "open operations",
    "many shapes",
    "scarce memory",
)
MANY = 4
"""So many shapes of asks wait at a time."""


def presence(world: QuietWorld, queues: Queues, spared: int) -> Counter[str]:
    """How many of each there are at a moment. `spared`: ready taskgroups that only their budget keeps from ending."""
    found = Counter[str]({SPARED: spared})
    total: dict[str, int] = {}
    for agent in world.cluster._agents.values():
        for name, amount in agent.machine.total.items():
            total[name] = max(total.get(name, 0), amount)
    waiting = {(ask.application, ask.cpus, ask.mem): ask for ask in asks(world)}
    for ask in waiting.values():
        if not queues.may_hold(ask.application, ask.amount):
            found["asks larger than a limit"] += 1
        elif not queues.admits(ask.application, ask.amount):
            found["queues at their limits"] += 1
        if ask.cpus > total["cpus"]:
            found["asks larger than every agent"] += 1
        found["scarce memory"] += ask.mem > total["mem"] // 4
    found["many shapes"] += len({(ask.cpus, ask.mem) for ask in waiting.values()}) >= MANY
    kinds = defaultdict[str, set[bool]](set)
    for application in world.state.applications.values():
        version = version_of(world, application.key)
        groups = [group for group in world.state.groups_of(application.key).values() if not group.ended]
        if version is None or not groups:
            continue
        kinds[queues.name(application.key)].add(version.min_available > 1)
        found["critical work"] += version.priority_class in CRITICAL_CLASSES
        found["failing checks"] += any(group.status == "Running" and not ready(group) for group in groups)
        owner = world.state.deployments.get(application.deployment_key)
        found["open operations"] += bool(application.operation or (owner is not None and owner.successor))
    found["gangs beside singles"] += sum(len(both) > 1 for both in kinds.values())
    return found
