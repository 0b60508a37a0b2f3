"""Amounts of resources as users write them, read strictly into integer thousandths.

cpu: cores, ``1.5`` or ``"1500m"``. memory and storage: MB (2^20 bytes, as Mesos counts), ``512`` or ``"0.5Gi"``; the
suffixes Ki, Mi, Gi, Ti are binary, K, M, G, T decimal. Fractions finer than a thousandth are rounded up, because
programs write the results of arithmetic, such as 0.30000000000000004. Anything else is an error, never 0
(docs/original.md#quantities).

Exception tree:

    QuantityError            the text is no amount, or not one an agent can have
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from decimal import ROUND_CEILING, Decimal
from fractions import Fraction
from functools import lru_cache
from typing import TypeVar

MAX_CORES = 4096
MAX_MEMORY_MB = 64 * 1024 * 1024
"""64 TiB."""
MAX_STORAGE_MB = 1024 * 1024 * 1024
"""1 PiB."""
MAX_GPUS = 1024
_AMOUNT = re.compile(r"(?P<number>\d{1,15}(?:\.\d{1,40})?)(?P<unit>[A-Za-z]*)\Z", re.ASCII)
_MB = 2**20
_BYTE_UNITS: dict[str, Fraction] = {
    "": Fraction(1),
    "Ki": Fraction(2**10, _MB),
    "Mi": Fraction(1),
    "Gi": Fraction(2**10),
    "Ti": Fraction(2**20),
    "K": Fraction(10**3, _MB),
    "M": Fraction(10**6, _MB),
    "G": Fraction(10**9, _MB),
    "T": Fraction(10**12, _MB),
}
Written = str | int | float
LONGEST = 40
"""Characters of texts whose amounts are remembered."""
T = TypeVar("T")


def _remembered(read: Callable[[Written], T]) -> Callable[[Written], T]:
    """Documents use few different amounts, and each is read several times per document: remembers the latest ones."""
    remembered = lru_cache(maxsize=1024, typed=True)(read)
    return lambda written: read(written) if isinstance(written, str) and len(written) > LONGEST else remembered(written)


class QuantityError(ValueError):
    """The message continues the name of the field: "must be ..."."""


def cores(written: Written, most: int = MAX_CORES) -> int:
    """Thousandths of a core; `most`: cores."""
    return _bounded(_cores(written), most, "cores", allow_zero=False)


@_remembered
def _cores(written: Written) -> int:
    number, unit = _split(written, 'a number of cores such as 0.5 or "500m"')
    if unit not in ("", "m"):
        raise QuantityError(f'has an unknown unit "{unit}": cores are written 0.5 or "500m"')
    return math.ceil(Fraction(number) * (1 if unit == "m" else 1000))


def memory(written: Written, most: int = MAX_MEMORY_MB) -> int:
    """Thousandths of a MB; `most`: MB."""
    return _bounded(_bytes(written), most, "MB", allow_zero=False)


def storage(written: Written, most: int = MAX_STORAGE_MB) -> int:
    """Thousandths of a MB; 0 asks for none. `most`: MB."""
    return _bounded(_bytes(written), most, "MB", allow_zero=True)


def gpus(written: Written, most: int = MAX_GPUS) -> int:
    """Thousandths of a GPU; Mesos hands out whole ones only. `most`: GPUs."""
    number, unit = _split(written, "a whole number of GPUs")
    if unit or number != number.to_integral_value():
        raise QuantityError("must be a whole number of GPUs")
    return _bounded(int(number) * 1000, most, "GPUs", allow_zero=True)


@_remembered
def _bytes(written: Written) -> int:
    number, unit = _split(written, 'a number of MB such as 512, or with a unit such as "2Gi"')
    factor = _BYTE_UNITS.get(unit)
    if factor is None:
        raise QuantityError(f'has an unknown unit "{unit}"; known are {", ".join(u for u in _BYTE_UNITS if u)}')
    return math.ceil(Fraction(number) * factor * 1000)


def _split(written: Written, expected: str) -> tuple[Decimal, str]:
    # repr() of a float is its shortest exact form, so 0.1 means one tenth as it does in a string.
    text = written.strip() if isinstance(written, str) else format(Decimal(repr(written)), "f")
    if text.startswith("-"):
        raise QuantityError(f"must not be negative: {_short(text)}")
    match = _AMOUNT.match(text)
    if match is None:
        raise QuantityError(f"must be {expected}, not {_short(text)}")
    return Decimal(match["number"]), match["unit"]


def _bounded(thousandths: int, most: int, unit: str, *, allow_zero: bool) -> int:
    if thousandths == 0 and not allow_zero:
        raise QuantityError("must be greater than 0")
    if thousandths > most * 1000:
        raise QuantityError(f"must be at most {most} {unit}")
    return thousandths


def plain_number(written: Written, most: int) -> int:
    """Thousandths of a number of extended resources; 0 is one."""
    found, unit = _split(written, "a number")
    if unit:
        raise QuantityError(f"has the unknown unit {unit}; extended resources are numbers")
    return _bounded(int((found * 1000).to_integral_value(ROUND_CEILING)), most, "units", allow_zero=True)


READERS: dict[str, Callable[[Written], int]] = {"cpu": cores, "memory": memory, "storage": storage, "gpu": gpus}
"""The function that reads an amount, by the name of the field in a document. Each returns thousandths of the unit."""


_ZERO = re.compile(r"0{1,15}(\.0{1,40})?[A-Za-z]{0,2}\Z", re.ASCII)


def is_given(name: str, written: Written | None) -> bool:
    """True if an amount of the resource `name` asks for anything. An amount of 0 for cpu or memory has the same meaning
    as an omitted amount, as in the original."""
    if written is None or written == "":
        return False
    return not (name in ("cpu", "memory") and _ZERO.match(str(written).strip()) is not None)


def thousandths(value: float) -> int:
    """A plain number in thousandths, rounded up (extended resources)."""
    return int((Decimal(repr(value)) * 1000).to_integral_value(ROUND_CEILING))


def _short(text: str) -> str:
    return f'"{text[:40]}"'
