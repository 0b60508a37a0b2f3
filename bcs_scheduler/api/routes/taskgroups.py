"""Taskgroups and tasks: list, fetch, reschedule."""

from __future__ import annotations

from typing import get_args

from bcs_scheduler.api import errors
from bcs_scheduler.api.errors import not_found
from bcs_scheduler.api.lists import LISTING, lists, namespace_of
from bcs_scheduler.api.operation import Answer, Call, Param, Table
from bcs_scheduler.api.query import page, parse_selector, selected
from bcs_scheduler.api.routes.applications import Accepted, find_application
from bcs_scheduler.api.views.taskgroups import Presenter, TaskGroupView, TaskView, order
from bcs_scheduler.core.effects import Reason
from bcs_scheduler.core.events import RescheduleTaskGroup
from store.records import TaskGroup, TaskGroupStatus
from store.state import State

table = Table("taskgroups")
STATUS = Param("status", "text", "Only those in this status.", choices=get_args(TaskGroupStatus))
OF_OWNER = (*LISTING, STATUS)
"""What cuts down the taskgroups of one owner."""
AGENT = Param("agent", "text", "Only those on the agent with this id, address or host name.")
HOST_RETAIN = Param(
    "hostRetainTime", "float", "For so many seconds only the previous host is acceptable.", 0, 30 * 86400
)
APPLICATION = "/namespaces/{ns}/applications/{name}"


@table.read(
    f"{APPLICATION}/taskgroups",
    "List the taskgroups of an application",
    query=OF_OWNER,
    answer=list[TaskGroupView],
    reasons=(Reason.NOT_FOUND, errors.BAD_PARAMETER),
)
def list_taskgroups(call: Call) -> Answer:
    state = call.state()
    application = find_application(state, call.path["ns"], call.path["name"])
    return listed(call, state, list(state.groups_of(application.key).values()))


@lists(
    table,
    "/namespaces/{ns}/taskgroups",
    "/taskgroups",
    "taskgroups",
    query=(*OF_OWNER, AGENT),
    answer=list[TaskGroupView],
)
def list_all_taskgroups(call: Call) -> Answer:
    state = call.state()
    return listed(call, state, _placed(call, state))


def _placed(call: Call, state: State) -> list[TaskGroup]:
    """Of the namespace and on the agent that are asked for."""
    namespace, agent = namespace_of(call), call.query.get("agent")
    return [
        group
        for group in list(state.taskgroups.values())
        if (namespace is None or group.namespace == namespace)
        and (agent is None or agent in (group.agent_id, group.agent_ip, group.hostname))
    ]


def listed(call: Call, state: State, groups: list[TaskGroup]) -> Answer:
    return page(_chosen(call, state, groups), order, call.query, Presenter(state).encoded)


def _chosen(call: Call, state: State, groups: list[TaskGroup]) -> list[TaskGroup]:
    """Those in the status and with the labels that are asked for. A taskgroup has the labels of its version."""
    status, requirements = call.query.get("status"), parse_selector(call.query.get("labelSelector", ""))
    if status is not None:
        groups = [group for group in groups if group.status == status]
    if not requirements:
        return groups
    known: dict[tuple[str, str, str], bool] = {}
    found = []
    for group in groups:
        key = group.namespace, group.application, group.version
        fits = known.get(key)
        if fits is None:
            version = state.version(f"{group.namespace}/{group.application}", group.version)
            fits = known[key] = selected(version.labels if version is not None else {}, requirements)
        if fits:
            found.append(group)
    return found


@table.read("/namespaces/{ns}/taskgroups/{id}", "Fetch a taskgroup", answer=TaskGroupView)
def get_taskgroup(call: Call) -> Answer:
    state = call.state()
    return Answer(Presenter(state).taskgroup(_find(state, call.path["ns"], call.path["id"])))


@table.read("/apps/{ns}/{name}/tasks", "List the tasks of an application", answer=list[TaskView])
@table.read(f"{APPLICATION}/tasks", "List the tasks of an application", answer=list[TaskView])
def list_tasks(call: Call) -> Answer:
    state = call.state()
    application = find_application(state, call.path["ns"], call.path["name"])
    groups = sorted(state.groups_of(application.key).values(), key=order)
    return Answer(Presenter(state).tasks(groups))


@lists(table, "/namespaces/{ns}/tasks", "/tasks", "tasks", query=(*OF_OWNER, AGENT), answer=list[TaskView])
def list_all_tasks(call: Call) -> Answer:
    """Status and labels are those of the taskgroups, as in their own lists."""
    state = call.state()
    groups = _chosen(call, state, _placed(call, state))
    found = [(group, position) for group in groups for position in range(len(group.tasks))]
    show = Presenter(state).task
    return page(found, lambda item: (*order(item[0]), item[1]), call.query, lambda item: show(*item))


@table.write(
    "PUT",
    f"{APPLICATION}/taskgroups/{{id}}/rescheduler",
    "Replace a taskgroup by a new one of the same index",
    query=(HOST_RETAIN,),
    answer=Accepted,
)
async def reschedule_taskgroup(call: Call) -> Answer:
    group = _find(call.state(), call.path["ns"], call.path["id"])
    if group.application != call.path["name"]:
        raise not_found("taskgroup", f"{call.path['id']} of application {call.path['ns']}/{call.path['name']}")
    return await call.submit(
        RescheduleTaskGroup(
            taskgroup=group.id,
            host_retain=float(call.query.get("hostRetainTime", 0)),
            dry_run=call.dry_run,
            cause=call.cause,
        )
    )


def _find(state: State, namespace: str, id: str) -> TaskGroup:
    group = state.taskgroups.get(id)
    if group is None or group.namespace != namespace:
        raise not_found("taskgroup", f"{id} in namespace {namespace}")
    return group
