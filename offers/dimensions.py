"""Dimensions of resources, and amounts in them. Everything here is a pure function of values.

A dimension is a named resource that is counted in integers. Each dimension has a unit of its own: how many integer
units one displayed unit has. CPU counts in thousandths of a core; memory counts in bytes where the cluster manager
counts in bytes, and in thousandths of a MB where it has scalars of three decimals. A dimension that is not described is
a plain count.

Amounts of several dimensions are (name, integer) pairs, sorted by name, without zeros and without a name twice, so that
equal amounts are equal values.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from fractions import Fraction
from typing import NamedTuple

Amounts = tuple[tuple[str, int], ...]
"""Pairs of a dimension's name and an integer in its unit: sorted by name, no zeros, no name twice."""

NOTHING: Amounts = ()


class Dimension(NamedTuple):
    """One dimension. `unit`: how many integer units one displayed unit has, at least 1. `symbol`: the word that follows
    a displayed number, empty for a count."""

    name: str
    unit: int = 1
    symbol: str = ""

    def displayed(self, amount: int) -> float:
        """An amount in displayed units, as a number."""
        return amount / self.unit

    def shown(self, amount: int) -> str:
        """An amount as users read it, in displayed units with at most three decimals: ``1.5 cores``, ``-2``."""
        number = f"{self.displayed(amount):.3f}".rstrip("0").rstrip(".") if self.unit > 1 else str(amount)
        return f"{'0' if number == '-0' else number} {self.symbol}".rstrip()


class Dimensions:
    """The dimensions of a cluster in their order; immutable. The first two, CPU and memory, make the score of an
    agent."""

    __slots__ = ("_by_name", "known")

    def __init__(self, known: Iterable[Dimension]) -> None:
        """Raises ValueError if a name occurs twice or a unit is less than 1."""
        self.known = tuple(known)
        self._by_name = {dimension.name: dimension for dimension in self.known}
        if len(self._by_name) < len(self.known):
            raise ValueError("duplicate dimension")
        if any(dimension.unit < 1 for dimension in self.known):
            raise ValueError("the unit of a dimension is at least 1")

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the dimensions in the order in which they became known."""
        return tuple(self._by_name)

    def __iter__(self) -> Iterator[Dimension]:
        return iter(self.known)

    def __len__(self) -> int:
        return len(self.known)

    def __contains__(self, name: object) -> bool:
        return name in self._by_name

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Dimensions) and self.known == other.known

    def __hash__(self) -> int:
        return hash(self.known)

    def __repr__(self) -> str:
        return f"Dimensions({', '.join(self.names)})"

    def get(self, name: str) -> Dimension:
        """The dimension of this name; a count if it is not among the known ones."""
        return self._by_name.get(name) or Dimension(name)

    def extended(self, names: Iterable[str]) -> Dimensions:
        """These dimensions and, after them, counts for the names that are new. The same object if none is new."""
        new = [Dimension(name) for name in dict.fromkeys(names) if name not in self._by_name]
        return Dimensions((*self.known, *new)) if new else self

    def displayed(self, record: object) -> dict[str, float]:
        """The amounts of an object with one integer attribute per dimension, in displayed units by name."""
        return {name: dimension.displayed(getattr(record, name)) for name, dimension in self._by_name.items()}

    def at_least(self, name: str, quantity: Fraction | int) -> int:
        """Converts a quantity in displayed units to integer units and rounds up: for resource requests."""
        return -int(-Fraction(quantity) * self.get(name).unit // 1)

    def at_most(self, name: str, quantity: Fraction | int) -> int:
        """Converts a quantity in displayed units to integer units and rounds down: for the capacity of an agent."""
        return int(Fraction(quantity) * self.get(name).unit // 1)

    def shown(self, name: str, amount: int) -> str:
        """Formats an amount for users (see `Dimension.shown`)."""
        return self.get(name).shown(amount)


THOUSANDTHS = Dimensions(
    (
        Dimension("cpus", 1000, "cores"),
        Dimension("mem", 1000, "MB"),
        Dimension("disk", 1000, "MB"),
        Dimension("gpus", 1000, "GPUs"),
    )
)
"""The four scalars of three decimals that documents ask for and records hold."""


def recorded(name: str) -> Dimension:
    """The dimension in which records, leased capacity and diagnoses hold an amount of this name: `THOUSANDTHS`, a plain
    count of ports, and thousandths without a word for every extended resource."""
    if name in THOUSANDTHS:
        return THOUSANDTHS.get(name)
    return Dimension(name) if name == "ports" else Dimension(name, 1000)


# --- arithmetic -----------------------------------------------------------------------------------------------


def amounts(pairs: Iterable[tuple[str, int]] | Mapping[str, int]) -> Amounts:
    """Amounts from pairs in any order; amounts of one name are added up."""
    sums: dict[str, int] = {}
    for name, amount in pairs.items() if isinstance(pairs, Mapping) else pairs:
        sums[name] = sums.get(name, 0) + amount
    return tuple(sorted((name, amount) for name, amount in sums.items() if amount))


def share(part: int, whole: int) -> Fraction:
    """Returns the exact share of a part in a whole; 0 of 0 is 0, more than 0 of 0 is 1."""
    if whole:
        return Fraction(part, whole)
    return Fraction(1 if part else 0)
