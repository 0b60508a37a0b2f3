"""Ended transactions: each stays readable for the retention time, unless too many newer ones have ended.

They are kept in the order in which they ended, so that removing one costs the same however many there are.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice

from bcs_scheduler.core.context import TurnContext
from bcs_scheduler.core.controllers.cluster.orphaned_tasks import OrphanedTasks
from bcs_scheduler.core.controllers.ended_objects import EndedObjects

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
        self._finished_at: dict[str, float] = {}
        """Unix seconds at which each of them has ended."""

    def recover(self) -> None:
        """Takes up all ended transactions in the order of their ends."""
        self._ended.clear()
        self._finished_at.clear()
        ended: list[tuple[float, str]] = []

        def look(key: str) -> None:
            transaction = self._turn.state.transactions[key]
            if transaction.ended:
                ended.append((transaction.finished_at, key))

        self._turn.each("transaction", self._turn.state.transactions, look)
        self._turn.each("transaction", [key for _, key in sorted(ended)], self._follow)

    def notice(self, changed: Iterable[tuple[str, str]]) -> None:
        """Follows transactions."""
        self._turn.each("transaction", [key for kind, key in changed if kind == "transaction"], self._follow)

    def _follow(self, key: str) -> None:
        transaction = self._turn.state.transactions.get(key)
        if transaction is None:
            self._forget(key)
        elif transaction.ended:
            self._finished_at[key] = transaction.finished_at
            self._ended.add(key, (transaction.application_key, transaction.inner))

    def _forget(self, key: str) -> None:
        self._ended.remove(key)
        self._finished_at.pop(key, None)

    def next_timer(self) -> float | None:
        """Like `Controller.next_timer`: None, because regular turns are frequent enough."""
        return None

    def tick(self) -> None:
        """Deletes transactions whose time is over, and the oldest ones above the bounds."""
        self._turn.each("transaction", islice(self._superfluous(), AT_ONCE), self._remove)

    def _superfluous(self) -> Iterator[str]:
        """The ids of ended transactions that are not kept any longer. They leave the list of ended ones, also one that
        cannot be removed: the next leader tries again."""
        retention = self._turn.options.transactions.periods.retention
        while (oldest := (surplus := self._ended.surplus()) or self._ended.oldest()) is not None:
            if surplus is None and self._finished_at[oldest] + retention > self._turn.now:
                return
            self._forget(oldest)
            yield oldest

    def _remove(self, key: str) -> None:
        transaction = self._turn.state.transactions.get(key)
        if transaction is not None and transaction.ended:
            self._orphaned_tasks.keep(transaction)
            self._turn.uow.delete(transaction)
            self._turn.checkpoint()
