"""Weighted max-min fairness in closed form, exactly."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import NamedTuple


class Share(NamedTuple):
    """The amounts that one party must get, may get at most, and its weight (at least 1) between the two."""

    least: int
    most: int
    weight: int


def fill(total: int, parties: Sequence[Share]) -> list[Fraction]:
    """Returns the amount that each party deserves of `total`, in their order: ``clamp(weight * level, least, most)``
    with the one level at which the sum is `total`, or `most` of each if that is not more than there is.

    If the least amounts alone exceed the total, each is cut in the same proportion. A `most` below `least` counts as
    `least`. Source: the water filling of weighted max-min fairness (Bertsekas and Gallager, Data Networks, 6.5); the
    level is found by one pass over the sorted amounts at which a party starts or stops to grow.
    """
    bounds = [(party.least, max(party.least, party.most), party.weight) for party in parties]
    if sum(most for _, most, _ in bounds) <= total:
        return [Fraction(most) for _, most, _ in bounds]
    guaranteed = sum(least for least, _, _ in bounds)
    if guaranteed >= total:
        return [Fraction(least * total, guaranteed or 1) for least, _, _ in bounds]
    turns: list[tuple[Fraction, int]] = []
    for least, most, weight in bounds:
        if most > least:
            turns += ((Fraction(least, weight), weight), (Fraction(most, weight), -weight))
    turns.sort()
    filled, growing, level = Fraction(guaranteed), 0, Fraction(0)
    for turn, weight in turns:
        if growing and filled + growing * (turn - level) >= total:
            break
        filled += growing * (turn - level)
        level = turn
        growing += weight
    level += (total - filled) / growing
    return [min(max(weight * level, Fraction(least)), Fraction(most)) for least, most, weight in bounds]
