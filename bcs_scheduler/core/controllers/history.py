"""Ended transactions: each stays readable for the retention time, unless too many newer ones have ended.

They are kept in the order in which they ended, so that removing one costs the same however many there are.
"""

from __future__ import annotations

from collections.abc import Iterable

from bcs_scheduler.core.controllers.remnants import Remnants
from bcs_scheduler.core.desk import Desk
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
        self._ended: dict[str, _Shelf] = {}
        """Ended transactions, the one that ended first in front."""
        self._shelves: dict[_Shelf, dict[str, None]] = {}
        """The same by shelf."""
        self._crowded: dict[_Shelf, None] = {}
        """Shelves that hold more than are kept."""

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
                self._remove(key)
            elif not transaction.active and key not in self._ended:
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
            self._remove(oldest)
            transaction = desk.state.transactions.get(oldest)
            if transaction is not None and not transaction.active:
                self._remnants.keep(transaction)
                desk.uow.delete(transaction)
                desk.checkpoint()

    def _superfluous(self) -> str | None:
        """The id of an ended transaction that is not kept any longer."""
        options = self._desk.options.transactions
        for shelf in self._crowded:
            return next(iter(self._shelves[shelf]))
        oldest = next(iter(self._ended), None)
        if oldest is None or len(self._ended) > options.keep_total:
            return oldest
        transaction = self._desk.state.transactions.get(oldest)
        if transaction is None or self._expired(transaction):
            return oldest
        return None

    def _expired(self, transaction: Transaction) -> bool:
        return transaction.finished_at + self._desk.options.transactions.periods.retention <= self._desk.now

    def _add(self, transaction: Transaction) -> None:
        shelf = (f"{transaction.namespace}/{transaction.application}", transaction.inner)
        self._ended[transaction.id] = shelf
        members = self._shelves.setdefault(shelf, {})
        members[transaction.id] = None
        if len(members) > self._desk.options.transactions.keep_each:
            self._crowded[shelf] = None

    def _remove(self, identity: str) -> None:
        shelf = self._ended.pop(identity, None)
        if shelf is None:
            return
        members = self._shelves[shelf]
        del members[identity]
        if len(members) <= self._desk.options.transactions.keep_each:
            self._crowded.pop(shelf, None)
        if not members:
            del self._shelves[shelf]
