"""The kinds of transactions, and the one lookup that finds the kind of a transaction.

A new kind is a module beside this one, a line in KINDS, and its name and payload in store.records.transactions.
"""

from __future__ import annotations

from collections.abc import Mapping

from store.records import Transaction, TransactionKind
from store.state.reader import StateReader
from transactions.base import Progress
from transactions.kinds import daemonset, delete, fill, launch, reschedule, scale, update
from transactions.kinds.kind import Kind

KINDS: Mapping[TransactionKind, Kind] = {
    "LAUNCH": launch.LAUNCH,
    "SCALE": scale.SCALE,
    "INNERSCALE": scale.INNER_SCALE,
    "UPDATE": update.UPDATE,
    "RESCHEDULE": reschedule.RESCHEDULE,
    "DELETE": delete.DELETE,
    "FILL": fill.FILL,
}
INNER: Mapping[TransactionKind, Kind] = {"LAUNCH": daemonset.LAUNCH, "UPDATE": daemonset.UPDATE}
"""Kinds that differ if the scheduler itself has begun the transaction: it launches and updates for daemonsets only."""


def kind_of(state: StateReader, transaction: Transaction) -> Kind:
    """The object that answers for a transaction. Any thread may ask."""
    found = INNER.get(transaction.type) if transaction.inner else None
    return found or KINDS[transaction.type].form(state, transaction)


def progress(state: StateReader, transaction: Transaction) -> Progress:
    """The progress of an operation: the kind computes that of an active one, which is never stored; the record holds
    that of an ended one. Any thread may call."""
    if transaction.active:
        return kind_of(state, transaction).progress(state, transaction)
    return Progress(transaction.progress, max(0, transaction.target - transaction.progress))
