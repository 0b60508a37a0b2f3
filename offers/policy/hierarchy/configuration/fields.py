"""Reads the fields of a document and collects every mistake with its path."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from enum import StrEnum
from fractions import Fraction
from typing import Any, TypeVar

from offers.errors import BadDocument, Problem
from offers.policy.amounts import decimal, shown, thousandths
from offers.policy.hierarchy.configuration.yunikorn import ALIASES, count, duration

LARGEST = (1 << 63) - 1
"""The largest amount. Shares are compared as integers that are exact up to here."""
LARGEST_NUMBER = (1 << 31) - 1
"""The largest number of applications, offset of priorities (negative, too) and number of seconds."""

EXTENDED_NAME = re.compile(r"[^\s=,]{1,253}")
"""Names of extended resources: 1 to 253 characters without blanks, commas and equals signs."""
OTHER_NAMES: Mapping[str, str] = {
    "cpu": "cores are named cpus, or vcore as in YuniKorn",
    "storage": "disk space is named disk, in MB",
    "ephemeral-storage": "disk space is named disk, in MB",
    "gpu": "GPUs are named gpus, or by the full name of an extended resource such as nvidia.com/gpu",
    "ports": "queues count no ports",
    "pods": "queues count no taskgroups",
}
"""Names that are no extended resources, with the reason: elsewhere they mean something that a queue cannot count, or
that has another name here."""

Choice = TypeVar("Choice", bound=StrEnum)


class BadQueues(BadDocument):
    """The tree of queues is refused."""


def unknown_resource(name: str) -> str:
    """The reason for which a name is not that of an extended resource; empty if it may be."""
    if name in OTHER_NAMES:
        return f"unknown resource: {OTHER_NAMES[name]}"
    if not EXTENDED_NAME.fullmatch(name):
        return "unknown resource: a name has 1 to 253 characters, and no blank, comma or equals sign"
    return ""


class Fields:
    """Reads values. A value with a mistake is reported and read as its default."""

    def __init__(self, resources: Collection[str] | None, quantity: Callable[[Any], int] = thousandths) -> None:
        """`resources`: the names of resources that every agent has; other names are those of extended resources. None
        admits every name. `quantity` reads an amount and raises ValueError if it is none."""
        self._resources, self._quantity = resources, quantity
        self.problems: list[Problem] = []
        self.prefix = ""
        """Path of the part of the document that is being read."""

    def report(self, path: str, text: str) -> None:
        """Notes a mistake."""
        self.problems.append(Problem(f"{self.prefix}{path}", text))

    def mapping(self, path: str, value: object, known: Collection[str]) -> Mapping[str, Any]:
        """An object that has only known fields."""
        if not isinstance(value, Mapping):
            self.report(path, "not an object")
            return {}
        for name in value:
            if name not in known:
                self.report(f"{path}.{name}", f"unknown field; known: {', '.join(sorted(known))}")
        return value

    def items(self, path: str, value: object) -> list[Any]:
        """A list."""
        if isinstance(value, list | tuple):
            return list(value)
        self.report(path, "not a list")
        return []

    def text(self, path: str, value: object) -> str:
        """A text."""
        if isinstance(value, str):
            return value
        self.report(path, "not a text")
        return ""

    def texts(self, path: str, value: object) -> tuple[str, ...]:
        """A list of texts that are not empty."""
        entries = self.items(path, value)
        for position, entry in enumerate(entries):
            if not isinstance(entry, str) or not entry:
                self.report(f"{path}[{position}]", "not a text with at least one character")
        return tuple(entry for entry in entries if isinstance(entry, str) and entry)

    def flag(self, path: str, value: object, default: bool) -> bool:
        """True or False, also as the texts `true` and `false`."""
        if isinstance(value, bool):
            return value
        if value in ("true", "false"):
            return value == "true"
        self.report(path, "neither true nor false")
        return default

    def count(self, path: str, value: object) -> int | None:
        """A whole number; None for 0, which does not limit."""
        number = self.integer(path, value)
        if number < 0:
            self.report(path, f"negative: {number}")
        return number if number > 0 else None

    def integer(self, path: str, value: object) -> int:
        """A whole number, also as a text."""
        try:
            number = decimal(value)
        except ValueError:
            number = Fraction(1, 2)
        if number.denominator != 1 or isinstance(value, float):
            self.report(path, f"not a whole number: {shown(value)}")
        elif abs(number) > LARGEST_NUMBER:
            self.report(path, f"too large: {shown(value)}")
        else:
            return number.numerator
        return 0

    def seconds(self, path: str, value: object, default: float) -> float:
        """A duration in seconds: a number, or a text such as 30s or 1h30m."""
        seconds = duration(value) if isinstance(value, str) else None
        try:
            seconds = decimal(value) if seconds is None else seconds
        except ValueError:
            self.report(path, f"not a duration: {shown(value)}")
            return default
        if seconds < 0:
            self.report(path, f"not a duration of at least 0 s: {shown(value)}")
        elif seconds > LARGEST_NUMBER:
            self.report(path, f"too long: {shown(value)}")
        else:
            return float(seconds)
        return default

    def choice(self, path: str, value: object, kind: type[Choice], default: Choice) -> Choice:
        """One of the values of an enumeration."""
        if isinstance(value, str) and value in {member.value for member in kind}:
            return kind(value)
        self.report(path, f"{shown(value)} is none of {', '.join(kind)}")
        return default

    def amounts(self, path: str, value: object, *, weights: bool = False) -> dict[str, int]:
        """Amounts by resource, or `weights`, which have no unit. A zero differs from a missing name and stays."""
        if not isinstance(value, Mapping):
            self.report(path, "not an object")
            return {}
        amounts: dict[str, int] = {}
        for name, given in value.items():
            place, read = f"{path}.{name}", self._quantity
            if self._resources is not None and name in ALIASES and ALIASES[name][0] in self._resources:
                name, of_unit = ALIASES[name]
                read = self._quantity if weights else of_unit
                if name in value:
                    self.report(place, f"is the same resource as {name}, which is given too")
                    continue
            if not isinstance(name, str):
                self.report(place, "unknown resource")
                continue
            if self._resources is not None and name not in self._resources:
                if fault := unknown_resource(name):
                    self.report(place, fault)
                    continue
                read = self._quantity if weights else count
            try:
                amount = read(given)
            except ValueError as error:
                self.report(place, str(error))
                continue
            if amount < 0:
                self.report(place, f"negative: {shown(given)}")
            elif amount > LARGEST:
                self.report(place, f"too large: {shown(given)}")
            else:
                amounts[name] = amount
        return amounts
