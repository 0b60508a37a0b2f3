"""Lists and finds of records that have a namespace and a name: declared, cut down and ordered alike for every kind."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, TypeVar

from bcs_scheduler.api.http import errors
from bcs_scheduler.api.http.errors import not_found
from bcs_scheduler.api.http.operation import CONTINUE, LABEL_SELECTOR, LIMIT, Answered, Call, HandlerT, Param, Table
from bcs_scheduler.api.reading.query import page_or_all, parse_selector, selected
from store.ids import object_key
from store.records import Record, TaskGroup
from store.state.reader import StateReader

LISTING = (LIMIT, CONTINUE, LABEL_SELECTOR)
NAMESPACE = Param("namespace", "text", "Only objects of this namespace.")


class Named(Protocol):
    @property
    def namespace(self) -> str: ...

    @property
    def name(self) -> str: ...


NamedT = TypeVar("NamedT", bound=Named)
RecordT = TypeVar("RecordT", bound=Record)


def lists(
    table: Table,
    path: str,
    everywhere: str,
    kind: str,
    *,
    query: Sequence[Param] = LISTING,
    reasons: Sequence[errors.ApiReason] = (errors.BAD_PARAMETER,),
    answer: Any,
    **more: Any,
) -> Callable[[HandlerT], HandlerT]:
    """Declares two GETs of one handler: the list of a namespace at `path`, and at `everywhere` the one over all
    namespaces, which takes `namespace` as a parameter too. `kind`: its plural, for the summaries. `more`: of both
    operations."""

    def declare(handler: HandlerT) -> HandlerT:
        one = table.read(path, f"List the {kind} of a namespace", query=query, answer=answer, reasons=reasons, **more)
        words, anywhere = f"List the {kind} of all namespaces", (*query, NAMESPACE)
        return table.read(everywhere, words, query=anywhere, answer=answer, reasons=reasons, **more)(one(handler))

    return declare


def namespace_of(call: Call) -> str | None:
    """The namespace that a list is about: of its path, or of its parameters."""
    namespace: str | None = call.path.get("ns", call.query.get("namespace"))
    return namespace


def listed(
    call: Call, kind: type[RecordT], show: Callable[[RecordT], Any], fits: Callable[[RecordT], bool] | None = None
) -> Answered:
    """Records of a kind, by namespace and name: those of the namespace, with the labels, and in the status (for kinds
    that have one) that are asked for, and for which `fits` holds."""
    state, namespace, status = call.state(), namespace_of(call), call.query.get("status")
    requirements = parse_selector(call.query.get("labelSelector", ""))
    prefix = () if namespace is None else (namespace,)

    def wanted(record: Any) -> bool:
        return (
            (status is None or record.status == status)
            and selected(record.labels, requirements)
            and (fits is None or fits(record))
        )

    every = status is None and not requirements and fits is None
    return page_or_all(lambda after: state.in_order(kind, prefix, after), call.query, show, None if every else wanted)


def placed(state: StateReader, agent: str) -> list[TaskGroup]:
    """Taskgroups on the agents with this id, address or host name. Costs with these agents."""
    found: list[TaskGroup] = []
    for agent_id in dict.fromkeys((agent, *state.indexes.agents_called(agent))):
        groups = list(state.groups_on(agent_id).values())
        found += (group for group in groups if agent in (group.agent_id, group.agent_ip, group.hostname))
    return found


def find(records: Mapping[str, NamedT], kind: str, namespace: str, name: str) -> NamedT:
    """Raises ApiError (404), which names kind and key."""
    record = records.get(object_key(namespace, name))
    if record is None:
        raise not_found(kind, object_key(namespace, name))
    return record
