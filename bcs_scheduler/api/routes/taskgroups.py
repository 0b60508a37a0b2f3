"""Taskgroups and tasks: list, fetch, reschedule."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import chain
from typing import Any, get_args

from bcs_scheduler.api.http import errors
from bcs_scheduler.api.http.errors import not_found
from bcs_scheduler.api.http.operation import Answer, Answered, Call, Listing, Param, Table
from bcs_scheduler.api.reading.lists import LISTING, lists, namespace_of, placed
from bcs_scheduler.api.reading.query import page_or_all, parse_selector, selected
from bcs_scheduler.api.routes.applications import Accepted, find_application
from bcs_scheduler.api.streams.live import WATCHABLE, Live, fits_filters, in_order, watching
from bcs_scheduler.api.views.taskgroups import Presenter, TaskGroupView, TaskView, order
from bcs_scheduler.core.interface.effects import Reason
from bcs_scheduler.core.interface.requests import RescheduleTaskGroup
from store.ids import object_key
from store.records import TaskGroup, TaskGroupStatus
from store.state.ordered import Order
from store.state.reader import StateReader

table = Table("taskgroups")
STATUS = Param("status", "text", "Only objects in this status.", choices=get_args(TaskGroupStatus))
OF_OWNER = (*LISTING, STATUS)
"""Parameters that restrict the taskgroups of one owner."""
AGENT = Param("agent", "text", "Only objects on the agent with this id, address or host name.")
HOST_RETAIN = Param(
    "hostRetainTime", "float", "Time in which only the previous host is accepted, in seconds.", 0, 30 * 86400
)


def _fits(state: StateReader, group: TaskGroup, filters: Mapping[str, Any]) -> bool:
    version = state.version(group.application_key, group.version)
    on = filters.get("agent") in (None, group.agent_id, group.agent_ip, group.hostname)
    return on and fits_filters(group, version.labels if version is not None else {}, filters)


LIVE = Live(
    "taskgroup",
    lambda gateway, state, id: state.taskgroups.get(id),
    lambda gateway, state, group: Presenter(state).encoded(group),
    in_order(TaskGroup),
    _fits,
)
APPLICATION = "/namespaces/{ns}/applications/{name}"


@table.read(
    f"{APPLICATION}/taskgroups",
    "List the taskgroups of an application",
    query=(*OF_OWNER, *WATCHABLE),
    answer=list[TaskGroupView],
    reasons=(Reason.NOT_FOUND, errors.BAD_PARAMETER),
    watcher=watching(LIVE),
)
def list_taskgroups(call: Call) -> Answered:
    state = call.state()
    application = find_application(state, call.path["ns"], call.path["name"])
    return listed(call, state, (application.namespace, application.name))


@lists(
    table,
    "/namespaces/{ns}/taskgroups",
    "/taskgroups",
    "taskgroups",
    query=(*OF_OWNER, AGENT, *WATCHABLE),
    answer=list[TaskGroupView],
    watcher=watching(LIVE),
)
def list_all_taskgroups(call: Call) -> Answered:
    state = call.state()
    return page_or_all(_walk(call, state), call.query, _show(call, state), _test(call, state))


def listed(call: Call, state: StateReader, *owners: Order) -> Answered:
    """Lists the taskgroups of the applications with these namespaces and names."""
    walk = _of_owners(state, *owners)
    return page_or_all(walk, call.query, _show(call, state), _test(call, state))


def _show(call: Call, state: StateReader) -> Callable[[TaskGroup], Any]:
    """Views are encoded here, because they are remembered; those for the original still have to be written."""
    presenter = Presenter(state)
    return presenter.taskgroup if call.original else presenter.encoded


Walk = Callable[[Order | None], Iterator[tuple[Order, TaskGroup]]]
"""Gives taskgroups after an order (None = from the first on), in order."""


def _of_owners(state: StateReader, *owners: Order) -> Walk:
    return lambda after: chain.from_iterable(state.in_order(TaskGroup, owner, after) for owner in sorted(owners))


def _walk(call: Call, state: StateReader) -> Walk:
    """Over those of the namespace and on the agent that are asked for."""
    namespace, agent = namespace_of(call), call.query.get("agent")
    if agent is None:
        return _of_owners(state, () if namespace is None else (namespace,))
    there = [group for group in placed(state, agent) if namespace is None or group.namespace == namespace]
    orders = sorted((order(group), group.id, group) for group in there)
    return lambda after: ((at, group) for at, _, group in orders if after is None or at > after)


def _test(call: Call, state: StateReader) -> Callable[[TaskGroup], bool] | None:
    """A test for the requested status and labels; None = all pass. A taskgroup has the labels of its version."""
    status, requirements = call.query.get("status"), parse_selector(call.query.get("labelSelector", ""))
    if status is None and not requirements:
        return None
    known: dict[tuple[str, str, str], bool] = {}

    def fits(group: TaskGroup) -> bool:
        if status is not None and group.status != status:
            return False
        if not requirements:
            return True
        key = group.namespace, group.application, group.version
        found = known.get(key)
        if found is None:
            version = state.version(group.application_key, group.version)
            found = known[key] = selected(version.labels if version is not None else {}, requirements)
        return found

    return fits


@table.read("/namespaces/{ns}/taskgroups/{id}", "Fetch a taskgroup", answer=TaskGroupView)
def get_taskgroup(call: Call) -> Answer:
    state = call.state()
    return Answer(Presenter(state).taskgroup(_find(state, call.path["ns"], call.path["id"])))


@table.read("/apps/{ns}/{name}/tasks", "List the tasks of an application", answer=list[TaskView])
@table.read(f"{APPLICATION}/tasks", "List the tasks of an application", answer=list[TaskView])
def list_tasks(call: Call) -> Answered:
    state = call.state()
    application = find_application(state, call.path["ns"], call.path["name"])
    found = state.in_order(TaskGroup, (application.namespace, application.name))
    return Listing(Presenter(state).tasks(group for _, group in found))


@lists(table, "/namespaces/{ns}/tasks", "/tasks", "tasks", query=(*OF_OWNER, AGENT), answer=list[TaskView])
def list_all_tasks(call: Call) -> Answered:
    """Status and labels are those of the taskgroups, as in their own lists."""
    state = call.state()
    groups, fits, show = _walk(call, state), _test(call, state), Presenter(state).task

    def walk(after: Order | None) -> Iterator[tuple[Order, tuple[TaskGroup, int]]]:
        # From the first taskgroup with the same index on: more tasks of the last one may follow.
        for place, group in groups(None if after is None else after[:3]):
            for position in range(len(group.tasks)):
                here = (*place, position)
                if after is None or here > after:
                    yield here, (group, position)

    wanted = None if fits is None else lambda item: fits(item[0])
    return page_or_all(walk, call.query, lambda item: show(*item), wanted)


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
        raise not_found(
            "taskgroup", f"{call.path['id']} of application {object_key(call.path['ns'], call.path['name'])}"
        )
    return await call.submit(
        RescheduleTaskGroup(taskgroup=group.id, host_retain=float(call.query.get("hostRetainTime", 0)))
    )


def _find(state: StateReader, namespace: str, id: str) -> TaskGroup:
    group = state.taskgroups.get(id)
    if group is None or group.namespace != namespace:
        raise not_found("taskgroup", f"{id} in namespace {namespace}")
    return group
