"""An application manager in worlds with reservations: its requests come in any order, from any moment of its work."""

from __future__ import annotations

from collections.abc import Callable

from bcs_scheduler.core.controllers.managed import units
from bcs_scheduler.core.interface import managed, requests
from store.records import ManagedApplication, ManagedTask, MemberGroup, Version
from tests.simulation.world import World

NAMESPACE = "batch"
NAMES, TASKS = ("m0", "m1", "m2"), ("t0", "t1", "t2")
MANAGER = "simulated"

Define = Callable[[str, str, int], Version]
"""Makes a definition at random for namespace, name and number of taskgroups."""


def change(define: Define, world: World, token: int) -> requests.Request:
    """One call of the manager."""
    cause, name, task = f"user-{token}", world.pick(NAMES), world.pick(TASKS)
    match world.pick((0, 0, 1, 1, 1, 1, 2, 3, 3, 4)):
        case 0:
            return managed.AddManagedApplication(token=token, cause=cause, application=_application(world, name))
        case 1:
            return managed.AddManagedTask(token=token, cause=cause, task=_task(define, world, name, task))
        case 2:
            failed = world.chance(0.3)
            return managed.EndManagedApplication(
                token=token, cause=cause, namespace=NAMESPACE, name=name, failed=failed, reason="simulated"
            )
        case 3:
            removed = world.chance(0.4)
            return managed.EndManagedTask(
                token=token, cause=cause, namespace=NAMESPACE, application=name, name=task, removed=removed
            )
        case _:
            return managed.EndManagedApplication(token=token, cause=cause, namespace=NAMESPACE, name=name, removed=True)


def _application(world: World, name: str) -> ManagedApplication:
    groups = (MemberGroup(name="w", min_member=world.pick((1, 2, 3)), request={"cpus": 500, "mem": 32_000}),)
    return ManagedApplication(
        namespace=NAMESPACE,
        name=name,
        manager=MANAGER,
        queue="",
        task_groups=groups if world.chance(0.7) else (),
        timeout=world.pick((5.0, 30.0)),
        style=world.pick(("Soft", "Hard")),
    )


def _task(define: Define, world: World, application: str, name: str) -> ManagedTask:
    version = define(NAMESPACE, f"{application}-{name}", 1)
    return ManagedTask(
        namespace=NAMESPACE,
        application=application,
        name=name,
        unit=f"{application}-{name}",
        version=version,
        group=world.pick(("w", "w", "")),
        request=units.request_of(version),
    )
