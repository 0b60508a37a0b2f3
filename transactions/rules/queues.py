"""The queue that the work of a namespace belongs to, and the trees of queues that count."""

from __future__ import annotations

from store.ids import owner_of
from store.records import DEFAULT_PARTITION, DEFAULT_QUEUE, QueueTree
from store.state.reader import StateReader


def queue_of(state: StateReader, namespace: str) -> str:
    """Name of the queue that the work of a namespace belongs to; the default queue if the namespace names none."""
    record = state.namespaces.get(namespace)
    return record.queue if record is not None and record.queue in state.queues else DEFAULT_QUEUE


def partition_of_revision(key: str) -> str:
    """Name of the partition whose tree has the revision with this key."""
    return owner_of(key) or DEFAULT_PARTITION


def revisions_of(state: StateReader, partition: str) -> list[QueueTree]:
    """The kept revisions of the tree of a partition, the oldest first."""
    found = [tree for key, tree in list(state.queue_trees.items()) if partition_of_revision(key) == partition]
    return sorted(found, key=lambda tree: tree.number)


def present_tree(state: StateReader, partition: str) -> QueueTree | None:
    """The revision of the tree of a partition that counts; None if no revision is stored."""
    found = revisions_of(state, partition)
    return found[-1] if found else None
