"""What must hold of requests that wait (`onConflict=queue`).

I34  requests for one object begin in the order in which they came, none while another operation works on it, and no
     more of them wait than may
"""

from __future__ import annotations

from bcs_scheduler.core.options import CoreOptions
from store.base import Change
from store.records import Record, Transaction
from tests.simulation.violation import Violation

MOST = CoreOptions().queue_requests
"""Greatest number of requests that wait for one object."""
EXCLUSIVE = ("LAUNCH", "SCALE", "UPDATE", "DELETE")


class Queueing:
    def __init__(self) -> None:
        self._transactions: dict[str, Transaction] = {}
        """As they are in the store, with the changes of the present batch so far."""

    def applying(self, old: Record | None, change: Change) -> None:
        """One change is about to become durable."""
        new = change.record
        if change.kind == "transaction" and new is None:
            self._transactions.pop(change.key, None)
        if not isinstance(new, Transaction):
            return
        self._transactions[new.id] = new
        if new.waiting and old is None:
            self._bounded(new)
        if new.active and isinstance(old, Transaction) and old.waiting:
            self._in_order(old)
            self._alone(new)

    def _bounded(self, new: Transaction) -> None:
        beside = self._waiting(new)
        if len(beside) >= MOST:
            raise Violation("I34", f"{len(beside) + 1} requests wait for {new.queue}", new.id)

    def _in_order(self, begun: Transaction) -> None:
        earlier = [t.id for t in self._waiting(begun) if t.created_at < begun.created_at]
        if earlier:
            raise Violation("I34", f"{begun.id} begins before {earlier[0]}, which came before it", begun.id, *earlier)

    def _alone(self, begun: Transaction) -> None:
        others = [
            t.id
            for t in self._transactions.values()
            if t.active and t.type in EXCLUSIVE and t.id != begun.id and t.application_key == begun.application_key
        ]
        if others:
            raise Violation("I34", f"{begun.id} begins beside {others}", begun.id, *others)

    def _waiting(self, of: Transaction) -> list[Transaction]:
        return [t for t in self._transactions.values() if t.waiting and t.queue == of.queue and t.id != of.id]
