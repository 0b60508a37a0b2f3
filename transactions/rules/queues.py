"""The queue that the work of a namespace belongs to, and the trees of queues that count."""

from __future__ import annotations

from collections.abc import Collection

from store.ids import owner_of
from store.records import DEFAULT_PARTITION, DEFAULT_QUEUE, QueueTree
from store.state.reader import StateReader
from transactions.base import Refused


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


def chosen_tree(names: Collection[str], wanted: str) -> str:
    """The name of the partition that a request about a tree of queues means. `names`: those of the partitions with a
    tree, at least one. `wanted` empty: the only one, or `DEFAULT_PARTITION`. Raises Refused (not_found; invalid if
    `wanted` is empty and no partition of several has the default name)."""
    listed = ", ".join(names)
    if wanted:
        if wanted not in names:
            raise Refused("not_found", f"partition {wanted} has no tree of queues; partitions with a tree: {listed}")
        return wanted
    if len(names) == 1:
        return next(iter(names))
    if DEFAULT_PARTITION not in names:
        raise Refused(
            "invalid", f"several partitions have a tree of queues, and the request names none of them: {listed}"
        )
    return DEFAULT_PARTITION
