"""Gangs: taskgroups that start together or not at all: those of one application (`Version.min_available`), and those of
the applications of one group (`PodGroup`)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from typing import NamedTuple

from offers.model import GroupGap
from store.records import ANNOTATION_OF_PLACEHOLDER, ANNOTATION_OF_TASK, Application, PodGroup, TaskGroup, Version
from store.state.reader import StateReader

PARAMETERS = "yunikorn.apache.org/schedulingPolicyParameters"
"""Annotation that asks for a reservation, with its parameters; empty = the defaults. The name is that of YuniKorn."""
HELD = "for the room of its gang, which placeholders are to hold"
LOADING = "for the recovery of its reservation"
UNMANAGED = "for a managed application: other work is not placed now (scheduler.unmanaged)"
FAILED = {
    part: f"for {words}: this part of the scheduler has failed and is being made anew (the log has the error)"
    for part, words in (
        ("lossguard", "the guard against large losses"),
        ("unknowntasks", "the guard against unknown tasks"),
        ("interruptedlaunches", "the launches of the leader before"),
        ("managedapplications", "the reservations of gangs"),
    )
}
"""Messages of operations whose gate has failed, by the part that has the gate (bcs_scheduler.core.parts)."""
WAITS = frozenset({HELD, LOADING, UNMANAGED, *FAILED.values()})
"""Messages of operations that the gate holds back, in place of missing configuration."""


def is_admitted(annotations: Mapping[str, str]) -> bool:
    """True for work that the gate admits by itself: placeholders, tasks of managers, and reservations."""
    return any(key in annotations for key in (ANNOTATION_OF_PLACEHOLDER, ANNOTATION_OF_TASK, PARAMETERS))


def is_reserved_by_group(state: StateReader, group: str) -> bool:
    """True if the group (``namespace/name``, empty = none) asks for a reservation for its members."""
    record = state.pod_groups.get(group) if group else None
    return record is not None and PARAMETERS in record.annotations


def missing_members(state: StateReader, version: Version, slots: int) -> int:
    """The number of slots of one operation that must find places at the same time, so that the application reaches its
    minimum; 0 if each slot counts by itself. `slots`: number of slots that the operation wants.

    Taskgroups that have ended, or whose agents are unreachable, are no members."""
    if version.min_available < 2:
        return 0
    running = sum(map(is_member, state.groups_of(version.application_key).values()))
    missing = min(version.min_available - running, slots)
    return missing if missing > 1 else 0


def is_member(group: TaskGroup) -> bool:
    """True if the taskgroup counts for the minimum of a gang."""
    return not (group.ended or group.unreachable_since)


class Shortage(NamedTuple):
    """The taskgroups that a group lacks. `total`: of all members; `members`: of members with a minimum of their own;
    `member_of`: the member that an application is, by the key of the application."""

    group: str
    total: int
    members: Mapping[str, int]
    member_of: Mapping[str, str]

    @property
    def needed(self) -> int:
        """The number of places that must be found at the same time."""
        return max(self.total, sum(self.members.values()))

    def gap(self, found: Mapping[str, int], slots: int) -> GroupGap | None:
        """The taskgroups that are missing if so many find a place; None: the minimum is reached. `found`: by key of the
        application. `slots`: number of slots of the open demands of the group."""
        by_member: Counter[str] = Counter()
        for application, number in found.items():
            by_member[self.member_of[application]] += number
        short = tuple(
            (name, least - by_member[name]) for name, least in sorted(self.members.items()) if by_member[name] < least
        )
        places = by_member.total()
        if places >= self.total and not short:
            return None
        return GroupGap(self.group, self.needed, places, slots, short)


def shortage(state: StateReader, group: PodGroup, planned: Callable[[str], int]) -> Shortage | None:
    """The taskgroups that a group lacks; None: it has its minimum. `planned`: number of taskgroups of an application,
    by its key, that are being launched. The cost grows with the taskgroups of the group."""
    found: Counter[str] = Counter()
    member_of: dict[str, str] = {}
    for key in list(state.indexes.applications_in(group.key)):
        application: Application | None = state.applications.get(key)
        if application is not None:
            member_of[key] = application.member
            found[application.member] += sum(map(is_member, state.groups_of(key).values())) + planned(key)
    total = max(group.min_member - found.total(), 0)
    members = {name: least - found[name] for name, least in group.min_task_member.items() if found[name] < least}
    return Shortage(group.key, total, members, member_of) if total or members else None
