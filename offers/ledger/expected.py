"""Expected room: the room of agents that the cluster manager is expected to offer.

After a decline and after a launch, the rest of an offer comes again, at the latest when offers are requested. So does
the room of a unit that ends. Other frameworks may get the room first: room that does not come is not expected any more,
until the agent makes another offer or another unit ends there.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from offers.ledger.table import Ints, Mask
from offers.model import Allocation, Offer
from offers.resources import SCALARS

_LINE_OF = {name: line for line, name in enumerate(SCALARS)}
_FIRST_CAPACITY = 64


class ExpectedRoom:
    """Expected amounts by row of a pool. They say nothing about ports and extended resources."""

    def __init__(self) -> None:
        self.unread = 0
        """Number of offers that were declined unread, and whose agents are not known."""
        self._amounts: Ints = np.zeros((len(SCALARS), _FIRST_CAPACITY), dtype=np.int64)

    def more(self, number: int, amounts: Sequence[int]) -> None:
        """More room is expected on a row. `amounts`: thousandths in the order of SCALARS."""
        self._grow(number + 1)
        self._amounts[:, number] += amounts

    def of(self, number: int) -> tuple[int, ...]:
        """The amounts that are expected on a row, in the order of SCALARS."""
        if number >= self._amounts.shape[1]:
            return (0,) * len(SCALARS)
        return tuple(self._amounts[:, number].tolist())

    def drop(self, number: int) -> None:
        """No room is expected on a row."""
        if number < self._amounts.shape[1]:
            self._amounts[:, number] = 0

    def drop_all(self, rows: Mask) -> None:
        """No room is expected on these rows, and no unread offer."""
        self._grow(len(rows))
        self._amounts[:, np.flatnonzero(rows)] = 0
        self.unread = 0

    def fits(self, needed: Sequence[int], rows: int) -> Mask:
        """The rows, of so many, on which as much room is expected. `needed`: thousandths in the order of SCALARS."""
        self._grow(rows)
        amounts = self._amounts[:, :rows]
        fitting: Mask = np.all(amounts >= np.array(needed, dtype=np.int64)[:, None], axis=0)
        fitting &= np.any(amounts, axis=0)
        return fitting

    def _grow(self, rows: int) -> None:
        known = self._amounts.shape[1]
        if rows > known:
            more = np.zeros((len(SCALARS), max(rows, 2 * known) - known), dtype=np.int64)
            self._amounts = np.concatenate([self._amounts, more], axis=1)


def rest_of(offers: Iterable[Offer], allocations: Iterable[Allocation] = ()) -> list[int]:
    """Scalars of offers without allocations and external holds, in the order of SCALARS."""
    rest = [0] * len(SCALARS)
    for sign, owners in ((1, offers), (-1, allocations)):
        for owner in owners:
            for key, amount in owner.scalars:
                line = _LINE_OF.get(key.name)
                if line is not None and not key.room:
                    rest[line] += sign * amount
    return rest
