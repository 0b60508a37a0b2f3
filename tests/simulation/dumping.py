"""A canonical dump of live structures, to see that a question has changed none of them.

Each object is visited once, in the order in which attributes and containers name it, and gets a number there. So equal
dumps mean equal graphs of objects: the same amounts, orders, times and links.
"""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Collection, Iterator, Mapping
from enum import Enum
from types import BuiltinFunctionType, FunctionType, MethodType
from typing import Any

import numpy as np

LEFT_OUT: Mapping[str, Collection[str]] = {
    # Names that are read again before the next decision: reading an unchanged one again changes nothing.
    "RoleSnapshot": ("_touched", "_since", "_changed", "_queues_changed"),
    "HeldTasks": ("_changed",),
    "Snapshots": ("_touched",),
    # Numbers in the order of arrival, and entries of offers that are gone, which are passed over.
    "Ages": ("_entries", "_serial"),
    # One object for equal layouts of rows, and for equal requests of taskgroups.
    "Records": ("_templates",),
    "Offers": ("_layouts",),
    "Row": ("_layouts",),
    # Worked out of immutable tasks when it is first read.
    "Job": ("_positions",),
}
"""Attributes by class that a question may change, because they change no decision."""
UNORDERED: Mapping[str, Collection[str]] = {
    "Pool": ("_overrides",),  # asked for one agent at a time
}
"""Mappings by class in whose order a question may put entries back: they are shown in the order of their keys."""
OUTSIDE = (
    "bcs_scheduler.core.context", "bcs_scheduler.core.options", "offers.policy.session.configuration",
    # The matcher's columns and judgements of rows follow the rows before each search.
    "offers.matching", "offers.ledger.table.Table", "offers.rules.eligibility.Eligibility",
)  # fmt: skip
"""Modules and classes whose objects are settings, the turn itself, or an index: they are named by their type alone,
like objects of other packages than that of the core and of `offers`."""


def dump(root: object, outside: Collection[str] = OUTSIDE) -> Iterator[str]:
    """Yields a line for each object that can be reached: its number and class, and its attributes behind tabulators.
    `outside`: beginnings of the names of classes, with their modules, whose objects are not entered."""
    numbers: dict[int, int] = {}
    known: list[object] = []
    waiting: deque[object] = deque()

    def number(value: object) -> int:
        if id(value) not in numbers:
            numbers[id(value)] = len(numbers)
            known.append(value)  # keeps its identity
            waiting.append(value)
        return numbers[id(value)]

    def shown(value: Any) -> str:
        if isinstance(value, np.ndarray):
            return f"{value.dtype}{value.tolist()}"
        if value is None or isinstance(value, str | bytes | int | float | bool | Enum | type | np.generic):
            return repr(value)
        if isinstance(value, Mapping):
            return "{" + ", ".join(f"{shown(key)}: {shown(entry)}" for key, entry in value.items()) + "}"
        if isinstance(value, set | frozenset):
            return "{" + ", ".join(sorted(map(shown, value))) + "}"
        if isinstance(value, tuple | list | deque):
            return f"{type(value).__name__}[" + ", ".join(map(shown, value)) + "]"
        if isinstance(value, MethodType):
            return f"{value.__func__.__qualname__} of {shown(value.__self__)}"
        if isinstance(value, FunctionType | BuiltinFunctionType):
            return value.__qualname__
        place = f"{type(value).__module__}.{type(value).__qualname__}"
        if not place.startswith(("offers.", "bcs_scheduler.")) or place.startswith(tuple(outside)):
            return type(value).__qualname__
        return f"#{number(value)}"

    shown(root)
    while waiting:
        one = waiting.popleft()
        left_out, unordered = (table.get(type(one).__name__, ()) for table in (LEFT_OUT, UNORDERED))
        parts = [
            f"{name}={shown(dict(sorted(value.items())) if name in unordered else value)}"
            for name, value in attributes(one)
            if name not in left_out
        ]
        yield "\t".join((f"#{numbers[id(one)]} {type(one).__qualname__}", *parts))


def attributes(one: object) -> Iterator[tuple[str, Any]]:
    """Yields the names and values of the attributes of an object, slots included."""
    for kind in type(one).__mro__:
        for name in sorted(kind.__dict__.get("__slots__", ())):
            if hasattr(one, name) and name not in ("__dict__", "__weakref__"):
                yield name, getattr(one, name)
    yield from sorted(getattr(one, "__dict__", {}).items())


def digest(root: object, outside: Collection[str] = OUTSIDE) -> str:
    """A hash of the dump."""
    found = hashlib.sha256()
    for line in dump(root, outside):
        found.update(line.encode())
    return found.hexdigest()
