"""Requests of users about priority classes, groups of applications, and the tree of queues."""

from __future__ import annotations

from typing import Literal

from bcs_scheduler.core.interface.requests import Put, Request
from store.records import PodGroup, PriorityClass


class PutPriorityClass(Put, frozen=True, kw_only=True):
    """Creates or replaces a priority class. Value and preemption policy of an existing class cannot change."""

    priority_class: PriorityClass


class DeletePriorityClass(Request, frozen=True, kw_only=True):
    """Removes a priority class; versions keep the number."""

    name: str


class PutPodGroup(Put, frozen=True, kw_only=True):
    """Creates or replaces a group of applications."""

    pod_group: PodGroup


class DeletePodGroup(Request, frozen=True, kw_only=True):
    """Removes a group. Refused while applications name the group."""

    namespace: str
    name: str


class ChangeTree(Request, frozen=True, kw_only=True):
    """A change of a tree of queues. `author`: name of the caller. `expected`: number of the revision that must count at
    present; None = any. `partition`: name of the partition of roles with the tree; empty = the only one, or
    `default`."""

    author: str = ""
    partition: str = ""
    expected: int | None = None


class PutQueueTree(ChangeTree, frozen=True, kw_only=True):
    """Makes a document the next revision. `document`: JSON in the shape of YuniKorn's queue configuration."""

    document: str
    why: str = "applied"
    """Origin of the revision, for users."""


class RollbackQueueTree(ChangeTree, frozen=True, kw_only=True):
    """Makes the document of a kept revision the next revision; None = that of the one before the present one."""

    revision: int | None = None


class SetQueueState(ChangeTree, frozen=True, kw_only=True):
    """Stops, drains or starts a queue, by its full name."""

    queue: str
    state: Literal["Stopped", "Draining", "Active"]
