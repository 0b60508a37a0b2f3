"""Compares what a vector expects with what was found, and names each place at which they differ."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Any

TOLERANCE = Fraction(1, 1_000_000)
"""Decimals of vectors are rounded to six places. Only a decimal that is no integer is compared with this tolerance."""


def differences(place: str, expected: Any, found: Any) -> list[str]:
    """One line per difference, each with its place. Empty if the values are equal."""
    if isinstance(expected, Mapping) and isinstance(found, Mapping):
        lines = []
        for name in sorted({*expected, *found}, key=str):
            inner = f"{place}.{name}"
            if name not in found:
                lines.append(f"{inner}: {expected[name]!r} is missing")
            elif name not in expected:
                lines.append(f"{inner}: {found[name]!r} is not expected")
            else:
                lines += differences(inner, expected[name], found[name])
        return lines
    if isinstance(expected, list) and isinstance(found, list):
        lines = [
            line
            for position, (one, other) in enumerate(zip(expected, found, strict=False))
            for line in differences(f"{place}[{position}]", one, other)
        ]
        if len(expected) != len(found):
            lines.append(f"{place}: {len(found)} entries instead of {len(expected)}: {found!r}")
        return lines
    return [] if _equal(expected, found) else [f"{place}: {found!r} instead of {expected!r}"]


def _equal(expected: Any, found: Any) -> bool:
    if isinstance(expected, bool) or isinstance(found, bool):
        return expected is found
    if isinstance(expected, int | float) and isinstance(found, int | float | Fraction):
        wanted = Fraction(str(expected))
        return abs(Fraction(found) - wanted) <= (0 if wanted.denominator == 1 else TOLERANCE)
    return type(expected) is type(found) and bool(expected == found)
