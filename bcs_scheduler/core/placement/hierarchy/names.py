"""The partition that a request about a tree of queues means."""

from __future__ import annotations

from collections.abc import Collection

from store.records import DEFAULT_PARTITION
from transactions.base import Refused


def chosen_tree(names: Collection[str], wanted: str) -> str:
    """The name of the partition. `names`: those of the partitions with a tree, at least one. `wanted` empty: the only
    one, or `DEFAULT_PARTITION`. Raises Refused (not_found; invalid if `wanted` is empty and no partition of several has
    the default name)."""
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
