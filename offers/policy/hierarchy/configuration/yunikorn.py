"""Files of YuniKorn as they are: partitions, and amounts with its names and units.

`vcore` is a number of cores or, with the unit m, of thousandths; `memory` is a number of bytes with a unit such as M or
Gi. The scheduler counts `cpus` in cores and `mem` in MB (2^20 bytes). Extended resources are numbers, which may have
the same units as bytes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Any

from offers.policy.amounts import shown

THOUSAND, MB = 1000, 2**20
WITHOUT_EFFECT = ("statedumpfilepath",)
"""Fields of partitions that have no effect in YuniKorn any more, and none here."""
_AMOUNT = re.compile(r"(?P<number>\d{1,18}(?:\.\d{1,9})?)(?P<unit>[A-Za-z]{0,2})\Z", re.ASCII)
_DURATION = re.compile(r"(?:\d{1,18}(?:\.\d{1,18})?(?:ns|us|µs|ms|s|m|h)){1,16}\Z", re.ASCII)
_PART = re.compile(r"(\d+(?:\.\d+)?)(ns|us|µs|ms|s|m|h)", re.ASCII)
_SECONDS: Mapping[str, Fraction] = {
    "ns": Fraction(1, 10**9),
    "us": Fraction(1, 10**6),
    "µs": Fraction(1, 10**6),
    "ms": Fraction(1, 1000),
    "s": Fraction(1),
    "m": Fraction(60),
    "h": Fraction(3600),
}
_BYTES: Mapping[str, int] = {
    "": 1,
    **{unit: 1000**power for power, unit in enumerate(("k", "M", "G", "T", "P", "E"), 1)},
    **{unit: 1024**power for power, unit in enumerate(("Ki", "Mi", "Gi", "Ti", "Pi", "Ei"), 1)},
}
_AMOUNT_FIELDS = ("guaranteed", "max", "maxresources")
_WEIGHTS = "resourceweights"


def vcore(value: object) -> int:
    """Thousandths of cores. Raises ValueError."""
    number, unit = _split(value, "a number of cores such as 2 or 500m")
    if unit not in ("", "m"):
        raise ValueError(f"unknown unit {unit!r}: cores are written 2 or 500m")
    amount = number if unit == "m" else number * THOUSAND
    if amount.denominator != 1:
        raise ValueError(f"finer than a thousandth of a core: {shown(value)}")
    return amount.numerator


def memory(value: object) -> int:
    """Thousandths of MB; a part of a thousandth is left out. Raises ValueError."""
    number, unit = _split(value, "an amount of memory such as 512M or 2Gi")
    if unit not in _BYTES:
        raise ValueError(f"unknown unit {unit!r}; known: {', '.join(filter(None, _BYTES))}")
    return int(number * _BYTES[unit] * THOUSAND / MB)


def count(value: object) -> int:
    """Thousandths of a number of extended resources. Raises ValueError."""
    number, unit = _split(value, "a number such as 8 or 2k")
    if unit not in _BYTES:
        raise ValueError(f"unknown unit {unit!r}; known: {', '.join(filter(None, _BYTES))}")
    amount = number * _BYTES[unit] * THOUSAND
    if amount.denominator != 1:
        raise ValueError(f"more than three decimals: {shown(value)}")
    return amount.numerator


ALIASES: Mapping[str, tuple[str, Callable[[object], int]]] = {"vcore": ("cpus", vcore), "memory": ("mem", memory)}
"""Names of resources in these files, each with the name of the scheduler and the function that reads its amounts."""


def duration(text: str) -> Fraction | None:
    """Seconds of a text such as 30s, 1h30m or 500ms; None if the text is no duration."""
    if not _DURATION.match(text):
        return None
    return sum((Fraction(number) * _SECONDS[unit] for number, unit in _PART.findall(text)), Fraction(0))


def document_name(document: object) -> str:
    """The name of the partition that a file of YuniKorn describes; empty if the document names none. The document may
    have mistakes."""
    partitions = document.get("partitions") if isinstance(document, Mapping) else None
    partition = partitions[0] if isinstance(partitions, list | tuple) and len(partitions) == 1 else None
    name = partition.get("name") if isinstance(partition, Mapping) else None
    return name if isinstance(name, str) else ""


def plain(document: object) -> object:
    """The same tree without the partition around it, with `cpus` and `mem`: the form that is stored. The document has
    been read without mistakes."""
    if not isinstance(document, Mapping):
        return document
    if "partitions" in document:
        (partition,) = document["partitions"]
        document = {name: value for name, value in partition.items() if name not in ("name", *WITHOUT_EFFECT)}
        if "limits" in document:
            document = _limits_at_root(document)
    return _plain(document)


def _limits_at_root(partition: Mapping[str, Any]) -> dict[str, Any]:
    """The limits of a partition are those of root."""
    rest = {name: value for name, value in partition.items() if name not in ("queues", "limits")}
    queues = list(partition.get("queues", []))
    if len(queues) == 1 and str(queues[0].get("name", "")).lower() == "root":
        return {**rest, "queues": [{**queues[0], "limits": partition["limits"]}]}
    return {**rest, "queues": [{"name": "root", "submitacl": "*", "queues": queues, "limits": partition["limits"]}]}


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {
            name: _amounts(inner, weights=name == _WEIGHTS)
            if name in (*_AMOUNT_FIELDS, _WEIGHTS) and isinstance(inner, Mapping)
            else _plain(inner)
            for name, inner in value.items()
        }
    return [_plain(inner) for inner in value] if isinstance(value, list | tuple) else value


def _amounts(given: Mapping[str, Any], *, weights: bool) -> dict[str, Any]:
    amounts = {}
    for name, value in given.items():
        plain_name, read = ALIASES.get(name, (name, None))
        if read is None and isinstance(value, str) and value[-1:].isalpha():
            read = count
        amounts[plain_name] = value if weights or read is None else _number(Fraction(read(value), THOUSAND))
    return amounts


def _number(amount: Fraction) -> int | float:
    return amount.numerator if amount.denominator == 1 else float(amount)


def _split(value: object, kind: str) -> tuple[Fraction, str]:
    try:
        text = str(value) if isinstance(value, int | float | str) and not isinstance(value, bool) else ""
    except ValueError:  # an integer of more than 4300 digits
        text = ""
    match = _AMOUNT.match(text)
    if match is None:
        raise ValueError(f"{shown(value)} is not {kind}")
    return Fraction(match["number"]), match["unit"]
