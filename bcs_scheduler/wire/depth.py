"""The bound of the depth of documents. All that reads, stores, compares and redacts documents later walks over them,
level by level; a document that is accepted must never be too deep for any of these."""

from __future__ import annotations

from typing import Any

from bcs_scheduler.wire.problems import element, member

DEEPEST = 64
"""Levels of objects and lists, one inside the other. Documents of the built-in kinds have some 12."""
LISTS = 2
"""Further levels of lists around the documents of one text."""
_SHOWN = 200
"""Characters of a path in a message."""


def too_deep(value: Any, levels: int = DEEPEST) -> str:
    """The JSON path of the first object or list beyond this number of levels, cut off after some characters; empty if
    there is none. `value`: plain data of any depth."""
    parts = [value]
    for _ in range(levels):
        below: list[Any] = []
        for part in parts:  # without a call for each part: this is done for every request
            if part.__class__ is dict:
                for key in part:
                    inner = part[key]
                    if inner.__class__ is dict or inner.__class__ is list:
                        below += (inner,)
            elif part.__class__ is list:
                for inner in part:
                    if inner.__class__ is dict or inner.__class__ is list:
                        below += (inner,)
        if not below:
            return ""
        parts = below
    return _first_beyond(value, levels)


def _first_beyond(value: Any, levels: int) -> str:
    """The path of one part beyond; there is one."""
    open_parts: list[tuple[Any, int, Any]] = [(value, 1, None)]
    while open_parts:
        part, level, place = open_parts.pop()
        if level > levels:
            return _path(place)
        found = part.items() if isinstance(part, dict) else enumerate(part)
        inside = [(inner, level + 1, (place, key)) for key, inner in found if isinstance(inner, (dict, list))]
        open_parts.extend(reversed(inside))
    return ""


def words(levels: int = DEEPEST) -> str:
    """The words about a text that is too deep, after its name."""
    return f"nested more than {levels} levels deep"


def _path(place: Any) -> str:
    keys = []
    while place is not None:
        place, key = place
        keys.append(key)
    path = "$"
    for key in reversed(keys):
        path = element(path, key) if isinstance(key, int) else member(path, key)
        if len(path) > _SHOWN:
            return f"{path[:_SHOWN]}\N{HORIZONTAL ELLIPSIS}"
    return path
