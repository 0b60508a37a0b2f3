"""Finds the application managers that installed packages bring, by the entry points of one group.

An entry point gives a class without arguments, or an object, as `offers.policy.applications.interface.AppManager`
describes it. Its name is the name by which the configuration enables the manager. A manager that is not enabled is not
even imported.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib.metadata import EntryPoint, entry_points

from offers.policy.applications.interface import GROUP, AppManager


class BadManager(Exception):
    """A manager that is enabled cannot be used. The text names group, entry point and package."""


def enabled_managers(names: Sequence[str]) -> list[AppManager]:
    """The managers with these names, in the order of the names. Raises BadManager for a name that no package or more
    than one package has, and for an entry point that gives no manager."""
    points: dict[str, list[EntryPoint]] = {}
    for point in entry_points(group=GROUP):
        points.setdefault(point.name, []).append(point)
    managers = []
    for position, name in enumerate(names):
        candidates = points.get(name, [])
        if name in names[:position]:
            raise BadManager(f"{GROUP}: {name} is enabled twice")
        if len(candidates) != 1:
            number = "no installed package" if not candidates else " and ".join(sorted(map(_package, candidates)))
            raise BadManager(f"{GROUP}: {number} has the manager {name}")
        managers.append(_manager(candidates[0]))
    return managers


def _manager(point: EntryPoint) -> AppManager:
    title = f"{GROUP}: {point.name} of {_package(point)}"
    try:
        loaded = point.load()
        manager = loaded() if isinstance(loaded, type) else loaded
    except Exception as error:
        raise BadManager(f"{title}: {type(error).__name__}: {error}") from None
    if not isinstance(manager, AppManager):
        raise BadManager(f"{title}: {type(manager).__name__} is no application manager")
    if manager.name != point.name:
        raise BadManager(f"{title}: the manager has another name: {manager.name}")
    return manager


def _package(point: EntryPoint) -> str:
    return point.dist.name if point.dist is not None else "an unknown package"
