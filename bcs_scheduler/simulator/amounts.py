"""Amounts, durations and ranges in the texts of options, and the error for texts that cannot be read."""

from __future__ import annotations

import re
from collections.abc import Callable

from bcs_scheduler.wire.quantities import QuantityError, cores, memory

_DURATION = re.compile(r"(\d+(?:\.\d+)?)(s|m|h|d)?\Z", re.ASCII)
_SECONDS = {"": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_MEMORY = re.compile(r"(\d+(?:\.\d+)?)(mb|gb|tb)?\Z", re.ASCII)
_MEGABYTES = {"": 1, "mb": 1, "gb": 1024, "tb": 1024 * 1024}


class BadInput(ValueError):
    """An input of a simulation is refused. The text names the place (file, line or option), the field and the fault."""


def read_cores(text: str) -> int:
    """``0.5`` or ``500m``: thousandths of a core. Raises BadInput."""
    try:
        return cores(text)
    except QuantityError as error:
        raise BadInput(str(error)) from None


def read_memory(text: str) -> int:
    """``512`` (MB), ``64gb``, ``64Gi``: thousandths of a MB. Raises BadInput."""
    match = _MEMORY.match(text.lower())
    plain = f"{float(match[1]) * _MEGABYTES[match[2] or '']:.3f}" if match else text
    try:
        return memory(plain)
    except QuantityError as error:
        raise BadInput(str(error)) from None


def read_duration(text: str) -> float:
    """``90``, ``90s``, ``15m``, ``2h``, ``1d``: seconds, more than 0. Raises BadInput."""
    match = _DURATION.match(text)
    if match is None or float(match[1]) == 0:
        raise BadInput(f'must be a duration such as 90s, 15m or 2h, not "{text}"')
    return float(match[1]) * _SECONDS[match[2] or ""]


def read_number(text: str) -> int:
    """A whole number of at least 1. Raises BadInput."""
    if not (text.isascii() and text.isdigit()) or int(text) == 0:
        raise BadInput(f'must be a whole number of at least 1, not "{text}"')
    return int(text)


def read_range(text: str, read: Callable[[str], int | float]) -> tuple[float, float]:
    """``2-4``, or ``2`` for equal bounds. Raises BadInput."""
    low, _, high = text.partition("-")
    first, last = read(low), read(high or low)
    if first > last:
        raise BadInput(f'must begin with the smaller bound, not "{text}"')
    return first, last
