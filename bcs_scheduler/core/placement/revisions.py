"""The stored revisions of the trees of queues of the policy `hierarchical`.

The newest stored revision counts. The file of the settings becomes the first revision, and counts by itself only while
nothing is stored.
"""

from __future__ import annotations

import json
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from offers.errors import Problem
from offers.policy.hierarchy.configuration.document import TAGS, partition_of
from offers.policy.hierarchy.configuration.fields import BadQueues
from offers.policy.hierarchy.configuration.partition import Partition
from offers.resources import SCALARS
from store.records import DEFAULT_PARTITION, QueueTree
from transactions.rules.queues import partition_of_revision, present_tree, revisions_of

if TYPE_CHECKING:
    from bcs_scheduler.core.context import TurnContext

KEPT = 20
"""Revisions of a tree that are kept."""


@lru_cache(maxsize=4)
def read_tree(document: str) -> Partition:
    """The configuration that a document (JSON) describes. Raises BadQueues with every problem.

    A change is read when it is tried, stored and taken over; the latest documents are read once (1,000 queues take some
    30 ms)."""
    try:
        parsed = json.loads(document)
    except ValueError as error:
        raise BadQueues([Problem("$", f"not JSON: {error}")]) from None
    return partition_of(parsed, SCALARS, tags=TAGS)


class Revisions:
    """The revisions of the tree of one partition of roles. Belongs to the thread that owns the state."""

    def __init__(self, turn: TurnContext, partition: str) -> None:
        """`partition`: its name."""
        self._turn, self._partition = turn, partition

    def present(self) -> QueueTree | None:
        """The newest stored revision; None if no revision is stored."""
        return present_tree(self._turn.state, self._partition)

    def made(self, **fields: Any) -> QueueTree:
        """A revision with these fields."""
        return QueueTree(partition=self._partition if self._partition != DEFAULT_PARTITION else "", **fields)

    def readable(self) -> QueueTree | None:
        """The newest stored revision that this version can read; None if there is none. Records an event for each that
        it cannot read."""
        for record in reversed(revisions_of(self._turn.state, self._partition)):
            try:
                read_tree(record.document)
            except BadQueues as error:
                words = (
                    f"revision {record.number} cannot be read by this version: {'; '.join(map(str, error.problems))}"
                )
                self._turn.record_event("queuetree", record.key, "QueueTreeUnreadable", words)
            else:
                return record
        return None

    def seed(self, document: str) -> bool:
        """Makes the file of the settings the first revision. A stored tree counts, and a file that differs is named.
        `document`: the file as canonical JSON. True if it has become a revision."""
        turn, present = self._turn, self.present()
        setting = "scheduler.policies_file" if turn.options.partitions else "scheduler.policy_file"
        is_first = present is None and not self._has_unreadable()
        if is_first:
            why, now = f"from {setting}", turn.now
            first = self.made(number=1, document=document, why=why, created_at=now, updated_at=now)
            turn.uow.put(first)
            turn.record_event("queuetree", first.key, "QueueTreeUpdated", f"revision 1, {why}")
        elif present is not None and present.document != document:
            words = f"{setting} differs from the stored tree; revision {present.number} of the tree counts"
            turn.record_event("queuetree", present.key, "QueueTreeFileIgnored", words)
        turn.cut()
        return is_first

    def _has_unreadable(self) -> bool:
        unreadable = self._turn.state.unreadable
        return any(kind == "queuetree" and partition_of_revision(key) == self._partition for kind, key in unreadable)
