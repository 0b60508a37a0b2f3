"""Gangs: applications whose taskgroups run together or not at all (`Version.min_available`)."""

from __future__ import annotations

from store.records import Version
from store.state.reader import StateReader


def missing_members(state: StateReader, version: Version, slots: int) -> int:
    """The number of slots of one operation that must find places at the same time, so that the application reaches its
    minimum; 0 if each slot counts by itself. `slots`: number of slots that the operation wants.

    Taskgroups that have ended, or whose agents are unreachable, are no members."""
    if version.min_available < 2:
        return 0
    groups = state.groups_of(version.application_key).values()
    running = sum(not (group.ended or group.unreachable_since) for group in groups)
    missing = min(version.min_available - running, slots)
    return missing if missing > 1 else 0
