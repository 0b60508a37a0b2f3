"""Ended transactions: each stays readable for the retention time, unless too many newer ones have ended.

They are kept in the order in which they ended, so that removing one costs the same however many there are.
"""

from __future__ import annotations

from collections.abc import Iterable

from bcs_scheduler.core.context import TurnContext
from bcs_scheduler.core.controllers.cluster.orphaned_tasks import OrphanedTasks
from bcs_scheduler.core.structures.ended_objects import EndedObjects
from store.records import Transaction

AT_ONCE = 500
"""Greatest number of transactions removed in one turn; the rest follows in later turns."""

_Group = tuple[str, bool]
"""Key of an application, and whether the scheduler itself began the transactions (`inner`). A crash loop thus pushes
out its own restarts, and no transactions of users."""


class EndedTransactions:
    """Removes ended transactions. All its state is derived from the transaction records."""

    def __init__(self, turn: TurnContext, orphaned_tasks: OrphanedTasks) -> None:
        self._turn = turn
        self._orphaned_tasks = orphaned_tasks
        options = turn.options.transactions
        self._ended: EndedObjects[_Group] = EndedObjects(options.keep_each, options.keep_total)

    def recover(self) -> None:
        """Takes up all ended transactions in the order of their ends."""
        self._ended.clear()
        ended = [t for t in self._turn.state.transactions.values() if t.ended]
        for transaction in sorted(ended, key=lambda t: (t.finished_at, t.id)):
            self._add(transaction)

    def notice(self, changed: Iterable[tuple[str, str]]) -> None:
        """Follows transactions."""
        for kind, key in changed:
            if kind != "transaction":
                continue
            transaction = self._turn.state.transactions.get(key)
            if transaction is None:
                self._ended.remove(key)
            elif transaction.ended:
                self._add(transaction)

    def next_timer(self) -> float | None:
        """Like `Controller.next_timer`: None, because regular turns are frequent enough."""
        return None

    def tick(self) -> None:
        """Deletes transactions whose time is over, and the oldest ones above the bounds."""
        turn = self._turn
        for _ in range(AT_ONCE):
            oldest = self._superfluous()
            if oldest is None:
                return
            self._ended.remove(oldest)
            transaction = turn.state.transactions.get(oldest)
            if transaction is not None and transaction.ended:
                self._orphaned_tasks.keep(transaction)
                turn.uow.delete(transaction)
                turn.checkpoint()

    def _superfluous(self) -> str | None:
        """The id of an ended transaction that is not kept any longer."""
        surplus, oldest = self._ended.surplus(), self._ended.oldest()
        if surplus is not None or oldest is None:
            return surplus
        transaction = self._turn.state.transactions.get(oldest)
        return oldest if transaction is None or self._expired(transaction) else None

    def _expired(self, transaction: Transaction) -> bool:
        return transaction.finished_at + self._turn.options.transactions.periods.retention <= self._turn.now

    def _add(self, transaction: Transaction) -> None:
        self._ended.add(transaction.id, (transaction.application_key, transaction.inner))
