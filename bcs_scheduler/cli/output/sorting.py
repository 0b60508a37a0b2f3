"""Orders of lists: natural order of names, and the order that --sort-by asks for."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

_NUMBER = re.compile(r"(\d+)")


def natural(text: str) -> tuple[tuple[int, int, str], ...]:
    """A key by which ``web-2`` is before ``web-10``."""
    parts = _NUMBER.split(text)
    return tuple((0, int(part), "") if part.isdecimal() else (1, 0, part) for part in parts if part)


def orderly(value: Any) -> tuple[int, float, tuple[tuple[int, int, str], ...]]:
    """A key for values of several types: numbers, then texts in natural order; a missing value is last."""
    if value is None or value == "":
        return (2, 0.0, ())
    if isinstance(value, int | float):
        return (0, float(value), ())
    return (1, 0.0, natural(str(value)))


def in_order(items: list[Any], key: Callable[[Any], Any]) -> list[Any]:
    """Items by a key of any type; items with equal keys stay in their order."""
    return sorted(items, key=lambda item: orderly(key(item)))
