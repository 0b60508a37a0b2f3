"""Managed applications: applications of application managers, which only these change, and reservations of
applications of users while these last. States have the names of docs/policies.md#application-managers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple

import msgspec

from bcs_scheduler.api.http.operation import CONTINUE, LIMIT, Answer, Answered, Call, Table
from bcs_scheduler.api.reading.lists import find, lists, namespace_of
from bcs_scheduler.api.reading.query import page_or_all
from bcs_scheduler.api.views.base import Meta
from bcs_scheduler.wire.times import rfc3339
from offers.ledger.holds import PLACEHOLDER_SECONDS
from offers.names import name_of
from offers.policy.applications.tables import UNDECIDED, PlaceholderState, TaskState
from store.ids import object_key
from store.records import (
    ANNOTATION_OF_PLACEHOLDER,
    Application,
    ManagedApplication,
    ManagedTask,
    MemberGroup,
    Placeholder,
    StateChange,
    TaskGroup,
)
from store.state.reader import StateReader
from transactions.kinds.registry import kind_of

WAITING = (TaskState.NEW, TaskState.PENDING, TaskState.SCHEDULING)
"""States of tasks that have no agent yet."""


class ManagedSpecView(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """`manager`: name of the application manager; empty for a reservation of the application with the same name.
    `podGroup`: the pod group whose reservations are complete together; empty for none. `owner`: name of the task that
    owns the others. `style`: Soft or Hard. `timeoutSeconds`: time of a reservation; 0 for the default."""

    manager: str
    pod_group: str
    queue: str
    user: str
    owner: str
    style: str
    timeout_seconds: float


class ManagedStatusView(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """`state`: towards the manager; `queueState`: towards the queue. `wanted`: the end that the manager has asked for
    (complete, fail, remove); empty for none. `tasks` and `placeholders`: numbers by state. `waiting`: tasks without an
    agent."""

    state: str
    queue_state: str
    wanted: str
    reason: str
    waiting: int
    tasks: dict[str, int]
    placeholders: dict[str, int]


class ManagedApplicationView(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    api_version: str = "v4"
    kind: str = "ManagedApplication"
    metadata: Meta
    spec: ManagedSpecView
    status: ManagedStatusView


class GroupReservationView(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The room that placeholders gather for the members of a pod group. `state`: Reserving, until all placeholders hold
    room or the reservation has ended; then Starting, until the launches end. `needed`: placeholders that
    are to hold room at the same time; `holding`: of these. `timesOut`: empty before the first placeholder has a
    place."""

    state: str
    needed: int
    holding: int
    times_out: str


class StateChangeView(msgspec.Struct, frozen=True, kw_only=True):
    """One change of a state: from `before` to `after`."""

    time: str
    event: str
    before: str
    after: str


class ManagedGroupView(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A task group. Of its placeholders, `total` were asked for, `replaced` gave their room to a task, `timedOut` were
    given up, and `serving` hold room or will hold room."""

    name: str
    min_member: int
    total: int
    replaced: int
    timed_out: int
    serving: int


class ManagedTaskView(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """`application`: the application that runs the task. `agent`: host name; empty while there is none. `placeholder`:
    the placeholder whose room the task gets. `outcome`: the status of the taskgroup at its end, with its message as
    `reason` and its exit code; empty and null until it was reported. `history`: the latest changes of the state, oldest
    first."""

    name: str
    group: str
    state: str
    application: str
    agent: str
    placeholder: str
    reason: str
    outcome: str
    exit_code: int | None
    creation_timestamp: str
    history: list[StateChangeView]


class PlaceholderView(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """`release`: the reason of its release; empty while it is wanted. `task`: the task that gets its room."""

    name: str
    group: str
    state: str
    agent: str
    release: str
    task: str
    creation_timestamp: str
    history: list[StateChangeView]


class OrphanView(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """An application of a placeholder that is not wanted any more and not deleted yet. `attempts`: deletions that were
    begun. `taskgroups`: taskgroups that have not ended."""

    name: str
    attempts: int
    taskgroups: int


class ManagedApplicationDetail(ManagedApplicationView, frozen=True, kw_only=True, rename="camel"):
    """`history` and `queueHistory`: the latest changes of both states, oldest first."""

    history: list[StateChangeView]
    queue_history: list[StateChangeView]
    groups: list[ManagedGroupView]
    tasks: list[ManagedTaskView]
    placeholders: list[PlaceholderView]
    orphans: list[OrphanView]


class Gathered(NamedTuple):
    """The reservations of one application, or of the members of a group. `until`: Unix seconds of the time-out; None
    before the first placeholder has a place."""

    needed: int
    holding: int
    until: float | None


def gathered(state: StateReader, records: Iterable[ManagedApplication]) -> Gathered:
    """Sums over these reservations."""
    records = list(records)
    holders = [holder for record in records for holder in _placeholders_of(state, record)]
    times = [one.timer + (one.timeout or PLACEHOLDER_SECONDS) for one in records if one.timer]
    needed = sum(group.min_member for one in records for group in one.task_groups)
    return Gathered(needed, sum(holder.state == PlaceholderState.BOUND for holder in holders), min(times, default=None))


def reserved_in(state: StateReader, group: str) -> list[ManagedApplication]:
    """The reservations of the members of a pod group (``namespace/name``)."""
    found = (state.managed_applications.get(key) for key in list(state.indexes.applications_in(group)))
    return [record for record in found if record is not None and record.pod_group_key == group]


def show_group_reservation(state: StateReader, group: str) -> GroupReservationView | None:
    """The reservation of a pod group (``namespace/name``); None: there is none."""
    records = reserved_in(state, group)
    if not records:
        return None
    found = gathered(state, records)
    return GroupReservationView(
        state="Reserving" if any(one.state in ("", *UNDECIDED) for one in records) else "Starting",
        needed=found.needed,
        holding=found.holding,
        times_out=rfc3339(found.until) if found.until is not None else "",
    )


def show_managed(state: StateReader, record: ManagedApplication) -> ManagedApplicationView:
    return ManagedApplicationView(
        metadata=_meta(record),
        spec=_spec(record),
        status=_status(record, _tasks_of(state, record), _placeholders_of(state, record)),
    )


def show_managed_detail(state: StateReader, record: ManagedApplication) -> ManagedApplicationDetail:
    """One application with its parts. The cost depends on its namespace, in which orphans are looked for."""
    tasks, placeholders = _tasks_of(state, record), _placeholders_of(state, record)
    serving = Counter(holder.group for holder in placeholders if _serves(holder))
    return ManagedApplicationDetail(
        metadata=_meta(record),
        spec=_spec(record),
        status=_status(record, tasks, placeholders),
        history=_changes(record.history),
        queue_history=_changes(record.core_history),
        groups=[_group(group, serving[group.name]) for group in record.task_groups],
        tasks=[_task(state, record, task) for task in tasks],
        placeholders=[_placeholder(state, record, holder) for holder in placeholders],
        orphans=[_orphan(state, one) for one in _orphans_of(state, record)],
    )


def _meta(record: ManagedApplication) -> Meta:
    return Meta(name=record.name, namespace=record.namespace, creation_timestamp=rfc3339(record.created_at))


def _spec(record: ManagedApplication) -> ManagedSpecView:
    return ManagedSpecView(
        manager=record.manager,
        pod_group=record.pod_group,
        queue=record.queue,
        user=record.user,
        owner=record.owner,
        style=record.style,
        timeout_seconds=record.timeout,
    )


def _status(record: ManagedApplication, tasks: list[ManagedTask], placeholders: list[Placeholder]) -> ManagedStatusView:
    by_state = Counter(task.state or str(TaskState.NEW) for task in tasks)
    return ManagedStatusView(
        state=record.state or "New",
        queue_state=record.core_state or "New",
        wanted=record.wanted,
        reason=record.cause or record.wanted_cause,
        waiting=sum(by_state[state] for state in WAITING),
        tasks=dict(sorted(by_state.items())),
        placeholders=dict(sorted(Counter(holder.state for holder in placeholders).items())),
    )


def _tasks_of(state: StateReader, record: ManagedApplication) -> list[ManagedTask]:
    """Returns tasks by index and name. Records may go while they are read."""
    keys = list(state.indexes.managed_by(ManagedTask.kind, record.key))
    found = [task for key in keys if (task := state.managed_tasks.get(key)) is not None]
    return sorted(found, key=lambda task: (task.index, task.name))


def _placeholders_of(state: StateReader, record: ManagedApplication) -> list[Placeholder]:
    keys = list(state.indexes.managed_by(Placeholder.kind, record.key))
    found = [holder for key in keys if (holder := state.placeholders.get(key)) is not None]
    return sorted(found, key=lambda holder: holder.number)


def _orphans_of(state: StateReader, record: ManagedApplication) -> list[Application]:
    keys = list(state.indexes.keys_in(Application.kind, record.namespace))
    found = (one for key in keys if key not in state.placeholders and (one := state.applications.get(key)) is not None)
    return [one for one in found if one.annotations.get(ANNOTATION_OF_PLACEHOLDER) == record.name]


def _serves(holder: Placeholder) -> bool:
    return holder.state in (PlaceholderState.ASKED, PlaceholderState.ALLOCATED, PlaceholderState.BOUND)


def _changes(history: Iterable[StateChange]) -> list[StateChangeView]:
    return [
        StateChangeView(time=rfc3339(one.at), event=one.event, before=one.before, after=one.after) for one in history
    ]


def _group(group: MemberGroup, serving: int) -> ManagedGroupView:
    return ManagedGroupView(
        name=group.name,
        min_member=group.min_member,
        total=group.total,
        replaced=group.replaced,
        timed_out=group.timed_out,
        serving=serving,
    )


def _task(state: StateReader, record: ManagedApplication, task: ManagedTask) -> ManagedTaskView:
    application = task.unit or record.name
    return ManagedTaskView(
        name=task.name,
        group=task.group,
        state=task.state or TaskState.NEW,
        application=application,
        agent=_agent(_taskgroups(state, record.namespace, application), task.node),
        placeholder=task.placeholder,
        reason=task.cause or (task.outcome.message if task.outcome is not None else ""),
        outcome=task.outcome.status if task.outcome is not None else "",
        exit_code=task.outcome.exit_code if task.outcome is not None else None,
        creation_timestamp=rfc3339(task.created_at),
        history=_changes(task.history),
    )


def _placeholder(state: StateReader, record: ManagedApplication, holder: Placeholder) -> PlaceholderView:
    return PlaceholderView(
        name=holder.name,
        group=holder.group,
        state=holder.state,
        agent=_agent(_taskgroups(state, record.namespace, holder.name), holder.node),
        release=holder.release,
        task=holder.member,
        creation_timestamp=rfc3339(holder.created_at),
        history=_changes(holder.history),
    )


def _orphan(state: StateReader, application: Application) -> OrphanView:
    groups = _taskgroups(state, application.namespace, application.name)
    operations = list(state.transactions_of(application.key).values())
    return OrphanView(
        name=application.name,
        attempts=sum(kind_of(state, one).deletes for one in operations),
        taskgroups=sum(not group.ended for group in groups),
    )


def _taskgroups(state: StateReader, namespace: str, application: str) -> list[TaskGroup]:
    return list(state.groups_of(object_key(namespace, application)).values())


def _agent(groups: list[TaskGroup], node: str) -> str:
    """The name of the agent that has this id: of a taskgroup there, else the id itself."""
    there = next((group for group in groups if node and group.agent_id == node), None)
    return name_of({}, there.hostname, there.agent_ip, node) if there is not None else node


table = Table("managed applications")
OF_NAMESPACE = "/namespaces/{ns}/managedapplications"


@lists(
    table,
    OF_NAMESPACE,
    "/managedapplications",
    "managed applications",
    query=(LIMIT, CONTINUE),
    answer=list[ManagedApplicationView],
)
def list_managed_applications(call: Call) -> Answered:
    state, namespace = call.state(), namespace_of(call)
    prefix = () if namespace is None else (namespace,)
    return page_or_all(
        lambda after: state.in_order(ManagedApplication, prefix, after),
        call.query,
        lambda record: show_managed(state, record),
    )


@table.read(
    f"{OF_NAMESPACE}/{{name}}",
    "Fetch a managed application with its tasks and placeholders",
    answer=ManagedApplicationDetail,
)
def get_managed_application(call: Call) -> Answer:
    state = call.state()
    found = find(state.managed_applications, "managed application", call.path["ns"], call.path["name"])
    return Answer(show_managed_detail(state, found))
