"""Ended transactions: each stays readable for the retention time, unless too many newer ones have ended.

They are kept in the order in which they ended, so that removing one costs the same however many there are.
"""

from __future__ import annotations

from collections.abc import Iterable

from bcs_scheduler.core.controllers.remnants import Remnants
from bcs_scheduler.core.desk import Desk
from bcs_scheduler.core.shelves import Shelves
from store.records import Transaction

AT_ONCE = 500
"""Removed in one turn at most: what an outage has left is removed over several turns."""

_Shelf = tuple[str, bool]
"""Key of an application, and whether the transactions were begun by the scheduler itself (`inner`). A crash loop thus
pushes out its own restarts, and not what users have asked for."""


class History:
    """Follows the transaction records. What it holds is derived from them."""

    def __init__(self, desk: Desk, remnants: Remnants) -> None:
        self._desk = desk
        self._remnants = remnants
        options = desk.options.transactions
        self._ended: Shelves[_Shelf] = Shelves(options.keep_each, options.keep_total)

    def recover(self) -> None:
        ended = [t for t in self._desk.state.transactions.values() if not t.active]
        for transaction in sorted(ended, key=lambda t: (t.finished_at, t.id)):
            self._add(transaction)

    def notice(self, changed: Iterable[tuple[str, str]]) -> None:
        for kind, key in changed:
            if kind != "transaction":
                continue
            transaction = self._desk.state.transactions.get(key)
            if transaction is None:
                self._ended.remove(key)
            elif not transaction.active:
                self._add(transaction)

    def next_timer(self) -> float | None:
        """None: the grain of the turns is fine enough."""
        return None

    def tick(self) -> None:
        """Deletes what has had its time and what is too much, the oldest first."""
        desk = self._desk
        for _ in range(AT_ONCE):
            oldest = self._superfluous()
            if oldest is None:
                return
            self._ended.remove(oldest)
            transaction = desk.state.transactions.get(oldest)
            if transaction is not None and not transaction.active:
                self._remnants.keep(transaction)
                desk.uow.delete(transaction)
                desk.checkpoint()

    def _superfluous(self) -> str | None:
        """The id of an ended transaction that is not kept any longer."""
        surplus, oldest = self._ended.surplus(), self._ended.oldest()
        if surplus is not None or oldest is None:
            return surplus
        transaction = self._desk.state.transactions.get(oldest)
        return oldest if transaction is None or self._expired(transaction) else None

    def _expired(self, transaction: Transaction) -> bool:
        return transaction.finished_at + self._desk.options.transactions.periods.retention <= self._desk.now

    def _add(self, transaction: Transaction) -> None:
        self._ended.add(transaction.id, (f"{transaction.namespace}/{transaction.application}", transaction.inner))
