"""Amounts of the policies: mappings of a dimension's name to an integer, in which a zero differs from a missing name.

`offers.dimensions.Amounts` holds present or requested amounts: a name that is missing has 0 there, and zeros are left
out. A limit needs more: a maximum of 0 allows nothing, and a maximum that is not named allows everything. Policies
therefore compute with mappings. The unit is the unit of the dimension, as a rule thousandths; one computation uses one
unit per name. Nothing is rounded and no tolerance exists: a share is a fraction, or two products are compared.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from fractions import Fraction

from offers.dimensions import share

Vector = Mapping[str, int]
"""Amounts by name. Functions of this module never change a vector; results are new dictionaries."""

THOUSAND = 1000


_DECIMAL = re.compile(r"[+-]?(?:\d{1,64}(?:\.\d{0,64})?|\.\d{1,64})(?:[eE][+-]?\d{1,3})?\Z", re.ASCII)
"""Decimal numbers of documents. The bounds of their digits bound the work: 1e99999999 would take minutes to compute."""
_SHOWN = 60


def decimal(number: object) -> Fraction:
    """The exact value of a number or a text. Raises ValueError for anything else: not finite, not a decimal number,
    more than 64 digits, an exponent beyond 999. A float counts as the shortest decimal number that names it."""
    if isinstance(number, bool) or not isinstance(number, int | float | str):
        raise ValueError(f"not a number: {shown(number)}")
    try:
        text = str(number).strip()
    except ValueError:  # Python turns integers of more than 4300 digits into no text
        text = ""
    if not _DECIMAL.match(text):
        raise ValueError(f"not a number: {shown(number)}")
    return Fraction(text)


def shown(value: object) -> str:
    """A value for a message, at most 60 characters long."""
    try:
        text = repr(value)
    except ValueError:
        return "a number of more than 4300 digits"
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 3]}..."


def thousandths(number: int | float | str) -> int:
    """A decimal number with at most three decimals, in thousandths. Raises ValueError for anything else: more decimals,
    and each refusal of `decimal`."""
    if type(number) is int:
        return number * THOUSAND
    exact = decimal(number) * THOUSAND
    if exact.denominator != 1:
        raise ValueError(f"more than three decimals: {shown(number)}")
    return exact.numerator


def written(amount: int) -> str:
    """Thousandths as documents have them: 1500 is 1.5."""
    whole, rest = divmod(amount, THOUSAND)
    return f"{whole}.{rest:03d}".rstrip("0") if rest else str(whole)


# --- arithmetic -----------------------------------------------------------------------------------------------


def added(*several: Vector) -> dict[str, int]:
    """The sum over all names of all vectors; a missing name counts 0."""
    total: dict[str, int] = {}
    for summand in several:
        for name, amount in summand.items():
            total[name] = total.get(name, 0) + amount
    return total


def difference(whole: Vector, part: Vector) -> dict[str, int]:
    """Returns `whole` minus `part` over all names of both; amounts may become negative."""
    left = dict(whole)
    for name, amount in part.items():
        left[name] = left.get(name, 0) - amount
    return left


def scaled(amounts: Vector, factor: Fraction | int) -> dict[str, Fraction]:
    """Each amount times a rational number, exactly."""
    return {name: Fraction(amount) * factor for name, amount in amounts.items()}


def positive(amounts: Vector) -> dict[str, int]:
    """The amounts above 0."""
    return {name: amount for name, amount in amounts.items() if amount > 0}


# --- comparing ------------------------------------------------------------------------------------------------


def fits_limit(request: Vector, limit: Vector) -> bool:
    """True if every amount that is wanted, if above 0, is at most the limit; a missing name is not limited."""
    return all(amount <= limit[name] for name, amount in request.items() if amount > 0 and name in limit)


# --- shares ---------------------------------------------------------------------------------------------------


def descending_shares(part: Vector, whole: Vector) -> list[Fraction]:
    """The share of every name of `part`, greatest first: lists of this kind are compared from the largest down."""
    return sorted((share(amount, whole.get(name, 0)) for name, amount in part.items()), reverse=True)


class ExactRatios:
    """Ratios as integers that compare exactly like the fractions, for orders that are asked for often.

    The key of part/whole is ``(part << shift) // whole``. Two different fractions with denominators below 2**b differ
    by more than 2**-2b, so with a shift of 2b + 1 their keys differ in the same direction. Equal fractions have equal
    keys. A ratio to nothing has the key `whole` if there is a part, else 0.
    """

    __slots__ = ("shift", "whole")

    def __init__(self, wholes: Iterable[int]) -> None:
        """`wholes`: every denominator that will be used."""
        self.shift = 2 * max((whole.bit_length() for whole in wholes), default=0) + 1
        self.whole = 1 << self.shift

    def key(self, part: int, whole: int) -> int:
        """The key of part/whole."""
        if not whole:
            return self.whole if part else 0
        return (part << self.shift) // whole
