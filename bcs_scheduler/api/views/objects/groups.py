"""Groups of applications as users see them: settings, and the members with their taskgroups."""

from __future__ import annotations

import msgspec

from bcs_scheduler.api.views.base import KeptMeta, show_meta
from bcs_scheduler.api.views.workloads.managed import GroupReservationView, show_group_reservation
from bcs_scheduler.api.views.workloads.reasons import Diagnose, reason_of
from store.records import Application, PodGroup
from store.state.reader import StateReader
from transactions.rules.gangs import is_member
from transactions.text import counted


class PodGroupSpecView(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    min_member: int
    min_task_member: dict[str, int]
    queue: str
    priority_class_name: str


class PodGroupMemberView(msgspec.Struct, frozen=True, kw_only=True):
    """`application`: name. `running`: taskgroups that count for the minimum; `wanted`: taskgroups that the application
    is to have."""

    application: str
    running: int
    wanted: int


class PodGroupStatusView(msgspec.Struct, frozen=True, kw_only=True):
    """`phase`: Pending below the minimum, Running above it. `running`: taskgroups that count for the minimum.
    `reason`: why the group is below its minimum, in words; empty if it is not. `reservation`: null while no room is
    reserved for the members."""

    phase: str
    reason: str
    running: int
    members: list[PodGroupMemberView]
    reservation: GroupReservationView | None


class PodGroupView(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    api_version: str = "v4"
    kind: str = "PodGroup"
    metadata: KeptMeta
    spec: PodGroupSpecView
    status: PodGroupStatusView


def show_pod_group(state: StateReader, record: PodGroup, diagnose: Diagnose) -> PodGroupView:
    found = [state.applications.get(key) for key in list(state.indexes.applications_in(record.key))]
    applications = sorted((one for one in found if one is not None), key=lambda one: one.name)
    running = {one.key: sum(map(is_member, list(state.groups_of(one.key).values()))) for one in applications}
    by_member: dict[str, int] = {}
    for one in applications:
        by_member[one.member] = by_member.get(one.member, 0) + running[one.key]
    complete = sum(running.values()) >= record.min_member and all(
        by_member.get(name, 0) >= least for name, least in record.min_task_member.items()
    )
    return PodGroupView(
        metadata=show_meta(record),
        spec=PodGroupSpecView(
            min_member=record.min_member,
            min_task_member=record.min_task_member,
            queue=record.queue,
            priority_class_name=record.priority_class,
        ),
        status=PodGroupStatusView(
            phase="Running" if complete else "Pending",
            reason="" if complete else _reason(state, record, applications, diagnose),
            running=sum(running.values()),
            members=[
                PodGroupMemberView(application=one.name, running=running[one.key], wanted=one.instances)
                for one in applications
            ],
            reservation=show_group_reservation(state, record.key),
        ),
    )


def _reason(state: StateReader, record: PodGroup, applications: list[Application], diagnose: Diagnose) -> str:
    """The reason of the first application that is not as it is defined."""
    if not applications:
        return "no application belongs to the group"
    found = ((one.name, reason_of(state, one, diagnose)) for one in applications)
    telling = next((f"{name}: {words}" for name, words in found if words), "")
    wanted = sum(one.instances for one in applications)
    if not telling and wanted < record.min_member:
        return f"the applications request {counted(wanted, 'taskgroup')}, the minimum is {record.min_member}"
    return telling
