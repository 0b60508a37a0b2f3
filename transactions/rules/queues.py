"""The queue that the work of a namespace belongs to."""

from __future__ import annotations

from store.records import DEFAULT_QUEUE
from store.state.reader import StateReader


def queue_of(state: StateReader, namespace: str) -> str:
    """Name of the queue that the work of a namespace belongs to; the default queue if the namespace names none."""
    record = state.namespaces.get(namespace)
    return record.queue if record is not None and record.queue in state.queues else DEFAULT_QUEUE
