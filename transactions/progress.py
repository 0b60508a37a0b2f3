"""The progress of an operation: derived from the existing taskgroups, never stored while the operation is active."""

from __future__ import annotations

from store.records import Transaction
from store.state.reader import StateReader
from transactions.base import Progress
from transactions.kinds.registry import kind_of


def progress(state: StateReader, transaction: Transaction) -> Progress:
    """Returns the progress of an operation: the kind computes that of an active one, the record holds that of an ended
    one. Any thread may call."""
    if transaction.active:
        return kind_of(state, transaction).progress(state, transaction)
    return Progress(transaction.progress, max(0, transaction.target - transaction.progress))
