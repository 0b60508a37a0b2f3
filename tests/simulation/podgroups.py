"""Worlds whose users put applications into groups, and the invariant of groups.

I47  a group of which nothing runs is planned with its minimum, and with the minimums of its members, or not at all

These worlds have seeds of their own (`simulate(..., groups=True)`); odd seeds have the policy `session`.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from bcs_scheduler.core.interface.requests import PutPodGroup
from store.records import GROUP_ANNOTATION, PodGroup
from tests.simulation.driver import Term
from tests.simulation.operators import NAMESPACES
from tests.simulation.violation import Violation
from tests.simulation.world import World

NAME = "together"


def asked(world: World) -> dict[str, Any]:
    """The fields that users of such a world add to a definition. Members of a group use one role."""
    return {"annotations": {GROUP_ANNOTATION: NAME} if world.chance(0.8) else {}, "role": ""}


def change(world: World, token: int) -> PutPodGroup:
    """Creates or changes the group of a namespace."""
    namespace = world.pick(NAMESPACES)
    least = world.pick((2, 3, 4, 6))
    members = {name: world.pick((1, 2)) for name in world.some(("api", "web"), world.number(0, 2))}
    group = PodGroup(namespace=namespace, name=NAME, min_member=least, min_task_member=members)
    return PutPodGroup(token=token, cause=f"user-{token}", pod_group=group)


class PodGroups:
    """Follows the taskgroups of groups from turn to turn."""

    def __init__(self, world: World) -> None:
        self.world = world
        self._terms: dict[int, tuple[set[str], set[str]]] = {}
        """The groups of which something ran or was planned after the turn before, and all taskgroups, by epoch: a
        leader that does not know its successor works beside it."""
        self._swapping: dict[int, set[str]] = {}
        """Groups whose reservation was complete after the turn before, by epoch."""

    def leading(self, term: Term) -> None:
        """A term begins."""
        state = term.core.state
        members = (state.applications.get(one.application_key) for one in state.taskgroups.values())
        there = {application.group for application in members if application is not None and application.group}
        self._terms[term.epoch] = (there, set(state.taskgroups))

    def turned(self, term: Term) -> None:
        state = term.core.state
        there, known = self._terms[term.epoch]
        if not state.pod_groups:
            return
        found: dict[str, Counter[str]] = {}
        fresh: set[str] = set()
        spoilt: set[str] = set()
        """Groups with taskgroups that have ended: their restarts are due one by one."""

        def count(key: str, identity: str, ended: bool, version: str = "") -> None:
            application = state.applications.get(key)
            if application is None or not application.group:
                return
            if ended:
                spoilt.add(application.group)
                return
            found.setdefault(application.group, Counter())[application.member] += 1
            made = state.version(key, version) if version else None
            joined = made is not None and made.annotations.get(GROUP_ANNOTATION, "") != NAME
            if identity not in known and not joined:  # an update in the same turn may have put it into the group
                fresh.add(application.group)

        for demand, placement in term.core._offer_manager.placing._launcher.placements():
            count(demand.application, f"{demand.id}/{placement.slot.index}", False)
        for group in state.taskgroups.values():
            count(group.application_key, group.id, bool(group.ended or group.unreachable_since), group.version)
        swapping = {
            record.pod_group_key
            for record in state.managed_applications.values()
            if record.pod_group and record.state == "Running" and not record.cause
        }
        # The members of a reserved group are launched one by one, each in the room of its placeholder (I70). The last
        # launch of the turn may have ended the reservation.
        before, self._swapping[term.epoch] = self._swapping.get(term.epoch, set()), swapping
        for key in fresh - there - spoilt - swapping - before:
            self._is_whole(state.pod_groups[key], found[key])
        self._terms[term.epoch] = (set(found) | spoilt, set(state.taskgroups))

    def _is_whole(self, group: PodGroup, found: Counter[str]) -> None:
        self.world.count("groups planned")
        short = {name: least for name, least in group.min_task_member.items() if found[name] < least}
        if found.total() < group.min_member or short:
            words = f"{dict(found)} of group {group.key} are planned, below {group.min_member} or {short}"
            raise Violation("I47", words, group.key)
