"""Figures of hierarchical queues for metrics and users. No decision depends on them.

The trees are read while their thread changes them: a figure may be a moment older than its neighbour.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from offers.model import DecidedBy
from offers.policy.hierarchy.configuration.partition import GangPreemption, Limit, QueueConfig
from offers.policy.hierarchy.state.queue import Queue
from offers.policy.waiting import WaitCode
from store.records import QueueTree

if TYPE_CHECKING:
    from bcs_scheduler.core.placement.hierarchy.role_tree import RoleTree

Amounts = Mapping[str, int]
TreeReason = Literal["queue_limit", "queue_applications", "queue_stopped", "user_limit", "no_queue"]
REASONS: Mapping[str, TreeReason] = {
    WaitCode.QUEUE_MAXIMUM: "queue_limit",
    WaitCode.QUEUE_KEPT: "queue_limit",
    WaitCode.QUEUE_APPLICATIONS: "queue_applications",
    WaitCode.QUEUE_STOPPED: "queue_stopped",
    WaitCode.LIMIT_APPLICATIONS: "user_limit",
    WaitCode.LIMIT_RESOURCES: "user_limit",
    WaitCode.NO_QUEUE: "no_queue",
}
"""The reasons for which a taskgroup waits at a queue of the tree, by cause: the queue has its maximum, runs as many
applications as it may, or is stopped; a user or group has its limit; no queue takes the application."""


class LimitFigures(NamedTuple):
    """The use of a limit of a queue in one role. `whose`: "user" or "group", a blank and the name."""

    role: str
    whose: str
    used: Amounts
    most: Amounts
    running: int
    max_applications: int | None


class TreeQueueFigures(NamedTuple):
    """A queue of the tree. Amounts are thousandths by resource."""

    name: str
    """The full name."""
    is_leaf: bool
    is_dynamic: bool
    """True if a placement rule has created the queue, or if the queue is no longer configured."""
    state: str
    """Active, Draining or Stopped."""
    guaranteed: Amounts
    max: Amounts
    """The own maximum; a resource that is missing is not limited."""
    config: QueueConfig
    used: Mapping[str, Amounts]
    """Used amounts by role."""
    waiting: Mapping[str, Amounts]
    """Amounts that wait for a place, by role."""
    taskgroups: int
    """Taskgroups that hold room, in the queue or below."""
    applications: int
    """Applications in the queue or below."""
    running: int
    """Number of these applications that have taskgroups."""
    pending: Mapping[str, int]
    """Taskgroups that wait for a place, by reason, in the queue or below."""
    limits: tuple[LimitFigures, ...]
    gang_preemption: GangPreemption = GangPreemption.KEEP
    """The setting that counts, of this queue or of one above."""


class TreeFigures(NamedTuple):
    """The tree that counts in a partition, with all its queues in the order of the configuration."""

    name: str
    """Name of the partition."""
    document: str
    revision: QueueTree | None
    """The stored revision; None while the tree of the settings counts."""
    queues: tuple[TreeQueueFigures, ...]
    partitions: tuple[DecidedBy, ...] = ()
    """All partitions of roles; empty if there is one."""


def queue_figures(
    roles: Mapping[str, RoleTree], pending: Mapping[str, Mapping[Any, int]]
) -> tuple[TreeQueueFigures, ...]:
    """The figures of all queues, parents first. `pending`: taskgroups that wait by leaf and reason."""
    queues: dict[str, dict[str, Queue]] = {}
    for role, tree_of in list(roles.items()):
        _walk(tree_of.tree.root, role, queues)
    waiting: dict[str, Counter[str]] = {}
    for leaf, reasons in pending.items():
        parts = leaf.split(".")
        for number in range(1, len(parts) + 1):
            waiting.setdefault(".".join(parts[:number]), Counter()).update(reasons)
    limits: dict[str, list[LimitFigures]] = {}
    for role, tree_of in list(roles.items()):
        for (queue, whose), tracker in list(tree_of.tree.trackers.known.items()):
            limit: Limit = tracker.limit
            figures = LimitFigures(
                role, whose, _given(tracker.allocated), limit.max_resources, tracker.running, limit.max_applications
            )
            limits.setdefault(queue, []).append(figures)
    return tuple(
        _figures(name, by_role, dict(waiting.get(name, {})), tuple(limits.get(name, ())))
        for name, by_role in queues.items()
    )


def _walk(queue: Queue, role: str, queues: dict[str, dict[str, Queue]]) -> None:
    queues.setdefault(queue.name, {})[role] = queue
    for child in list(queue.children.values()):
        _walk(child, role, queues)


def _figures(
    name: str, by_role: Mapping[str, Queue], pending: Mapping[str, int], limits: tuple[LimitFigures, ...]
) -> TreeQueueFigures:
    first = next(iter(by_role.values()))
    leaves = [leaf for queue in by_role.values() for leaf in list(queue.leaves())]
    return TreeQueueFigures(
        name,
        first.is_leaf,
        first.is_temporary,
        str(first.state),
        first.guaranteed,
        first.config.max,
        first.config,
        {role: _given(queue.allocated) for role, queue in by_role.items()},
        {role: _given(queue.pending) for role, queue in by_role.items()},
        sum(sum(list(leaf.places.values())) for leaf in leaves),
        sum(len(leaf.applications) for leaf in leaves),
        sum(queue.running for queue in by_role.values()),
        pending,
        limits,
        first.gang_preemption,
    )


def _given(amounts: Mapping[str, int]) -> Amounts:
    return {name: amount for name, amount in dict(amounts).items() if amount}
