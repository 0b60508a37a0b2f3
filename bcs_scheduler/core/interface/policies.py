"""Requests of users about priority classes and groups of applications."""

from __future__ import annotations

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
