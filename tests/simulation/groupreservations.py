"""Worlds whose users put applications into groups that ask for reservations, and the invariants of these.

I69  the reservations of a group leave their first state at one moment, with all their room or without it
I70  the reservations of a group that start have had the room of all their placeholders
I71  nothing of a group is placed while its reservations gather room; restarts of what ran are
I72  no reservation holds room after its time-out
C15  at rest no reservation of a group gathers room for a member that is not there, and every group that could reserve
     room has done so

These worlds have seeds of their own (`simulate(..., groups=True, reservations=True)`), with every form of placeholders;
odd seeds have the policy `session`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from bcs_scheduler.core.interface.requests import PutPodGroup
from bcs_scheduler.core.options import CoreOptions
from offers.policy.applications.tables import UNDECIDED
from store.records import GROUP_ANNOTATION, Application, ManagedApplication, Placeholder, PodGroup, TaskGroup
from store.records.record import Record
from store.state import State
from store.state.unit_of_work import Unit
from tests.simulation.driver import Term
from tests.simulation.operators import NAMESPACES
from tests.simulation.podgroups import NAME
from tests.simulation.users import APPLICATIONS
from tests.simulation.violation import Violation
from tests.simulation.world import World
from transactions.kinds.registry import kind_of
from transactions.rules.gangs import PARAMETERS

MOMENT = 10.0
"""Seconds from a time-out to the turn that ends the reservation, pauses of the scheduler included."""
HELD = ("Bound", "Releasing")


def asked(world: World) -> dict[str, Any]:
    """The fields that users of such a world add to a definition. Members of a group use one role."""
    return {
        "annotations": {GROUP_ANNOTATION: NAME} if world.chance(0.85) else {},
        "role": "",
        "min_available": world.pick((0, 0, 0, 2)),
    }


def change(world: World, token: int) -> PutPodGroup:
    """Creates or changes the group of a namespace, which asks for a reservation as a rule."""
    seconds, style = world.pick((5, 20, 60)), world.pick(("Soft", "Soft", "Hard"))
    text = f"placeholderTimeoutInSeconds={seconds} gangSchedulingStyle={style}"
    namespace = world.pick(NAMESPACES)
    names = [name for space, name in APPLICATIONS if space == namespace]
    members = {name: world.pick((1, 1, 2)) for name in world.some(names, world.pick((1, 2, 2)))}
    group = PodGroup(
        namespace=namespace,
        name=NAME,
        annotations={PARAMETERS: text} if world.chance(0.85) else {},
        min_member=world.number(0, sum(members.values())),
        min_task_member=members,
    )
    return PutPodGroup(token=token, cause=f"user-{token}", pod_group=group)


def is_undecided(record: ManagedApplication) -> bool:
    """The tasks of the reservation may not start yet."""
    return not record.state or record.state in UNDECIDED


class GroupReservations:
    """Follows the reservations of groups from unit to unit."""

    def __init__(self, world: World, options: CoreOptions) -> None:
        self.world = world
        self._asked = options.placeholders != "off"

    # --- units ------------------------------------------------------------------------------------------------

    def decided(self, term: Term, unit: Unit) -> None:
        """Judges one unit: I70 and I71."""
        if not self._asked:
            return
        after = {(change.kind, change.key): change.record for change in unit.changes}
        for change in unit.changes:
            before = term.mirror.get((change.kind, change.key))
            now = change.record
            if isinstance(now, ManagedApplication) and isinstance(before, ManagedApplication) and now.pod_group:
                if is_undecided(before) and now.state == "Running" and not now.cause:
                    self._has_its_room(term.mirror, after, now)
            elif isinstance(now, TaskGroup) and before is None:
                self._may_start(term, now)

    def _has_its_room(
        self,
        mirror: Mapping[tuple[str, str], Record],
        after: Mapping[tuple[str, str], Record | None],
        one: ManagedApplication,
    ) -> None:
        records: dict[tuple[str, str], Record | None] = {**mirror, **after}
        held = {key: record for place in (mirror, after) for key, record in place.items() if _holds(record)}
        for record in _of_group(records.values(), one.pod_group_key):
            if record.state != "Running" or record.cause:
                words = f"{one.key} starts while {record.key} is {record.state} {record.cause}"
                raise Violation("I69", words, one.key, record.key)
            number = sum(getattr(holder, "application_key", "") == record.key for holder in held.values())
            if number < record.task_groups[0].min_member:
                words = f"{one.key} starts while {number} placeholders of {record.key} hold room: {record.task_groups}"
                raise Violation("I70", words, one.key, record.key)
        self.world.count("groups that start with their room")

    def _may_start(self, term: Term, group: TaskGroup) -> None:
        application = term.mirror.get(("application", group.application_key))
        if not isinstance(application, Application) or not application.group:
            return
        records = [record for record in _of_group(term.mirror.values(), application.group) if is_undecided(record)]
        if not records:
            return
        gathers = any(one.key == application.key for one in records)
        others = (one for one in term.mirror.values() if isinstance(one, TaskGroup))
        if gathers or not any(one.application_key == application.key for one in others):
            words = f"{group.id} is placed while {records[0].key} gathers room for group {application.group}"
            raise Violation("I71", words, group.id, application.key, records[0].key)

    # --- turns ------------------------------------------------------------------------------------------------

    def turned(self, term: Term) -> None:
        """After a turn of a process: I69 and I72."""
        if not self._asked:
            return
        groups: dict[str, list[ManagedApplication]] = {}
        for record in term.core.state.managed_applications.values():
            if record.pod_group:
                groups.setdefault(record.pod_group_key, []).append(record)
            if is_undecided(record) and record.timer and term.now > record.timer + record.timeout + MOMENT:
                words = f"{record.key} gathers room {term.now - record.timer:.0f} s after its first placeholder"
                raise Violation("I72", words, record.key)
        for group, records in groups.items():
            self.world.count("reservations of groups")
            if len(records) > 1:
                self.world.count("reservations of several members")
            states = {is_undecided(record) for record in records}
            if len(states) > 1:
                words = ", ".join(f"{record.key} is {record.state}" for record in records)
                raise Violation("I69", f"group {group}: {words}", *(record.key for record in records))

    # --- rest -------------------------------------------------------------------------------------------------

    def problem(self, state: State) -> tuple[str, ...] | None:
        """C15."""
        for key, group in state.pod_groups.items():
            present = list(_of_group(state.managed_applications.values(), key))
            wanted = _reservable(state, group) if PARAMETERS in group.annotations else []
            if present and any(map(is_undecided, present)) and {one.key for one in present} != set(wanted):
                return "C15", f"room is gathered for a part of group {key}: {wanted}", *(one.key for one in present)
            if self._asked and wanted and not present:
                return "C15", f"no room is gathered for group {key}", *wanted
        return None


def _of_group(records: Iterable[Record | None], group: str) -> Iterator[ManagedApplication]:
    for record in records:
        if isinstance(record, ManagedApplication) and record.pod_group and record.pod_group_key == group:
            yield record


def _holds(record: Record | None) -> bool:
    return isinstance(record, Placeholder) and record.state in HELD and record.release in ("", "PLACEHOLDER_REPLACED")


def _reservable(state: State, group: PodGroup) -> list[str]:
    """Keys of the members that have no taskgroup yet and are being launched; empty if the group cannot come together
    now."""
    found = []
    for name, least in group.min_task_member.items():
        members = [state.applications[key] for key in state.indexes.applications_in(group.key)]
        members = [one for one in members if one.member == name]
        if sum(len(state.indexes_of(one.key)) for one in members) >= least:
            continue
        if len(members) != 1 or members[0].rolling or state.groups_of(members[0].key):
            return []
        launching = any(kind_of(state, one).reserves for one in state.active_of(members[0].key).values())
        version = state.version(members[0].key, members[0].version)
        if not launching or version is None or version.instances < least:
            return []
        found.append(members[0].key)
    return found
