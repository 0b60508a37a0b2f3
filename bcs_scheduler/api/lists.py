"""Lists and finds of records that have a namespace and a name: declared, cut down and ordered alike for every kind."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol, TypeVar

from bcs_scheduler.api import errors
from bcs_scheduler.api.errors import not_found
from bcs_scheduler.api.operation import CONTINUE, LABEL_SELECTOR, LIMIT, Answer, Call, HandlerT, Param, Table
from bcs_scheduler.api.query import page, parse_selector, selected

LISTING = (LIMIT, CONTINUE, LABEL_SELECTOR)
NAMESPACE = Param("namespace", "text", "Only those of this namespace.")


class Named(Protocol):
    @property
    def namespace(self) -> str: ...

    @property
    def name(self) -> str: ...


class Labelled(Named, Protocol):
    @property
    def labels(self) -> Mapping[str, str]: ...


NamedT = TypeVar("NamedT", bound=Named)
LabelledT = TypeVar("LabelledT", bound=Labelled)


def lists(
    table: Table,
    path: str,
    everywhere: str,
    kind: str,
    *,
    query: Sequence[Param] = LISTING,
    reasons: Sequence[str] = (errors.BAD_PARAMETER,),
    answer: Any,
) -> Callable[[HandlerT], HandlerT]:
    """Declares two GETs of one handler: the list of a namespace at `path`, and at `everywhere` the one over all
    namespaces, which takes `namespace` as a parameter too. `kind`: its plural, for the summaries."""

    def declare(handler: HandlerT) -> HandlerT:
        one = table.read(path, f"List the {kind} of a namespace", query=query, answer=answer, reasons=reasons)
        words, anywhere = f"List the {kind} of all namespaces", (*query, NAMESPACE)
        return table.read(everywhere, words, query=anywhere, answer=answer, reasons=reasons)(one(handler))

    return declare


def namespace_of(call: Call) -> str | None:
    """The namespace that a list is about: of its path, or of its parameters."""
    namespace: str | None = call.path.get("ns", call.query.get("namespace"))
    return namespace


def chosen(records: Iterable[LabelledT], call: Call) -> list[LabelledT]:
    """Those of the namespace, with the labels, and in the status (for kinds that have one) that are asked for."""
    namespace, status = namespace_of(call), call.query.get("status")
    requirements = parse_selector(call.query.get("labelSelector", ""))
    return [
        record
        for record in records
        if (namespace is None or record.namespace == namespace)
        and (status is None or getattr(record, "status", None) == status)
        and selected(record.labels, requirements)
    ]


def listed(call: Call, records: Iterable[LabelledT], show: Callable[[LabelledT], Any]) -> Answer:
    """A page of `chosen`, ordered by namespace and name."""
    return page(chosen(records, call), lambda record: (record.namespace, record.name), call.query, show)


def find(records: Mapping[str, NamedT], kind: str, namespace: str, name: str) -> NamedT:
    """Raises ApiError (404), which names kind and key."""
    record = records.get(f"{namespace}/{name}")
    if record is None:
        raise not_found(kind, f"{namespace}/{name}")
    return record
