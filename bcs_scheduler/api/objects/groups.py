"""Groups of applications whose taskgroups start together: settings, and the members with their taskgroups."""

from __future__ import annotations

import msgspec

from bcs_scheduler.api.documents import names
from bcs_scheduler.api.documents.validate import (
    check_identity,
    check_kind,
    check_metadata,
    check_reservation,
    with_namespace,
)
from bcs_scheduler.api.http.errors import invalid
from bcs_scheduler.api.http.operation import Answer, Call, Table
from bcs_scheduler.api.objects.changes import IN_USE, changes
from bcs_scheduler.api.objects.managed import GroupReservationView, show_group_reservation
from bcs_scheduler.api.reading.lists import find, lists, namespace_of
from bcs_scheduler.api.reading.query import page, parse_selector, selected
from bcs_scheduler.api.views.base import KeptMeta, show_meta
from bcs_scheduler.api.views.reasons import Diagnose, reason_of
from bcs_scheduler.core.interface.requests import DeletePodGroup, PutPodGroup
from bcs_scheduler.core.requests.kinds.managed import MOST_MEMBERS
from bcs_scheduler.wire.decoding import decode
from bcs_scheduler.wire.documents.groups import PodGroupDocument
from bcs_scheduler.wire.problems import Problems, member
from store.records import Application, PodGroup
from store.state.reader import StateReader
from transactions.rules.gangs import PARAMETERS, is_member
from transactions.text import counted


def read_pod_group(raw: object, namespace: str, name: str | None, problems: Problems | None = None) -> PodGroup:
    """A record without times; `name` as in the path, if it is there. Raises ApiError (422)."""
    problems = Problems() if problems is None else problems
    check_kind(raw, ("PodGroup",), problems)
    document: PodGroupDocument = decode(with_namespace(raw, namespace), PodGroupDocument, problems)
    given, spec = document.metadata, document.spec
    check_identity(given, namespace, name, problems)
    check_metadata(given, problems)
    if not spec.min_member and not spec.min_task_member:
        problems.add("$.spec.minMember", "is required, or minTaskMember: the number of taskgroups that start together")
    for task in spec.min_task_member:
        names.check_name(task, member("$.spec.minTaskMember", task), problems)
    for field, value in (("queue", spec.queue), ("priorityClassName", spec.priority_class_name)):
        if value:
            names.check_name(value, member("$.spec", field), problems)
    _check_reservation(document, problems)
    if problems:
        raise invalid(problems.listed())
    return PodGroup(
        namespace=given.namespace,
        name=given.name,
        labels=given.labels,
        annotations=given.annotations,
        min_member=spec.min_member,
        min_task_member=spec.min_task_member,
        queue=spec.queue,
        priority_class=spec.priority_class_name,
    )


def _check_reservation(document: PodGroupDocument, problems: Problems) -> None:
    """A reservation launches placeholders for each member, so it needs the number of each member."""
    spec = document.spec
    if PARAMETERS not in document.metadata.annotations:
        return
    check_reservation(document.metadata, problems)
    reserved = sum(spec.min_task_member.values())
    if not spec.min_task_member:
        words = "is required for a reservation: the number of taskgroups of each member that start together"
        problems.add("$.spec.minTaskMember", words)
    elif spec.min_member > reserved:
        words = f"must be at most the sum of minTaskMember ({reserved}), for which room is reserved"
        problems.add("$.spec.minMember", words)
    if reserved > MOST_MEMBERS:
        words = f"has the sum {reserved}; a reservation has {MOST_MEMBERS} taskgroups at most"
        problems.add("$.spec.minTaskMember", words)


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


table = Table("pod groups")
OF_NAMESPACE = "/namespaces/{ns}/podgroups"


@lists(table, OF_NAMESPACE, "/podgroups", "pod groups", answer=list[PodGroupView])
def list_pod_groups(call: Call) -> Answer:
    state, requirements = call.state(), parse_selector(call.query.get("labelSelector", ""))
    namespace, groups = namespace_of(call), state.pod_groups
    keys = list(groups) if namespace is None else list(state.indexes.keys_in("podgroup", namespace))
    known = [one for key in keys if (one := groups.get(key)) is not None]
    found = [one for one in known if selected(one.labels, requirements)]
    diagnose = call.diagnosis
    return page(
        found, lambda one: (one.namespace, one.name), call.query, lambda one: show_pod_group(state, one, diagnose)
    )


@table.read(f"{OF_NAMESPACE}/{{name}}", "Fetch a pod group with its members", answer=PodGroupView)
def get_pod_group(call: Call) -> Answer:
    state = call.state()
    found = find(state.pod_groups, "pod group", call.path["ns"], call.path["name"])
    return Answer(show_pod_group(state, found, call.diagnosis))


changes(
    table,
    "pod_group",
    PodGroupDocument,
    put=lambda call, create: PutPodGroup(
        pod_group=read_pod_group(call.body, call.path["ns"], call.path.get("name"), call.problems)
    ),
    remove=lambda call: DeletePodGroup(namespace=call.path["ns"], name=call.path["name"]),
    create={OF_NAMESPACE: "Create a pod group"},
    replace={OF_NAMESPACE: "Replace a pod group"},
    replace_named={f"{OF_NAMESPACE}/{{name}}": "Replace a pod group"},
    delete={f"{OF_NAMESPACE}/{{name}}": "Delete a pod group that no application belongs to"},
    refused=IN_USE,
)
