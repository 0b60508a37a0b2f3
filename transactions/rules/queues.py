"""The queue that the work of a namespace belongs to, and the tree of queues that counts."""

from __future__ import annotations

from store.records import DEFAULT_QUEUE, QueueTree
from store.state.reader import StateReader


def queue_of(state: StateReader, namespace: str) -> str:
    """Name of the queue that the work of a namespace belongs to; the default queue if the namespace names none."""
    record = state.namespaces.get(namespace)
    return record.queue if record is not None and record.queue in state.queues else DEFAULT_QUEUE


def present_tree(state: StateReader) -> QueueTree | None:
    """The revision of the tree of queues that counts; None if no revision is stored."""
    return max(list(state.queue_trees.values()), key=lambda tree: tree.number, default=None)
