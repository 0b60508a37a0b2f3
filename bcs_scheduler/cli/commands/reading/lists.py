"""Lists and single objects, once or as a watch: the work of `bcs get`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

from bcs_scheduler.cli.client.kinds import KINDS, SINGULAR, is_cluster_wide, words_of
from bcs_scheduler.cli.commands.refreshing import INTERVAL, refresh
from bcs_scheduler.cli.errors import NotFound, UsageError
from bcs_scheduler.cli.kinds.base import Found
from bcs_scheduler.cli.kinds.fields import conditions_of, matching
from bcs_scheduler.cli.kinds.metadata import found_with_metadata, labels_column, with_metadata
from bcs_scheduler.cli.kinds.registry import NAMESPACE, columns_of, functions_of, name_of, reader_of
from bcs_scheduler.cli.kinds.selection import Query, check_labels, queries_of
from bcs_scheduler.cli.listing import Shape, chosen_shape, grid_of, print_list, sorted_by
from bcs_scheduler.cli.output.data import print_data, print_form
from bcs_scheduler.cli.output.documents import document_of
from bcs_scheduler.cli.output.sorting import in_order
from bcs_scheduler.cli.output.tables import Column, Grid, Stack
from bcs_scheduler.cli.session import Session

if TYPE_CHECKING:
    from bcs_scheduler.cli.client.streamed import StreamedList
    from bcs_scheduler.cli.output.formats import Form

COLUMNS_OF_KINDS = (
    Column("NAME", lambda k: k["name"]),
    Column("ALIASES", lambda k: ",".join(k["aliases"])),
    Column("NAMESPACED", lambda k: "yes" if k["namespaced"] else "no"),
)
"""Columns of `bcs get` without arguments."""


class Part(NamedTuple):
    """The objects of one kind."""

    kind: str
    found: Found

    @property
    def items(self) -> list[Any]:
        return self.found if isinstance(self.found, list) else [self.found]


def show(
    session: Session,
    words: Sequence[str],
    event_filters: Mapping[str, Any],
    *,
    everywhere: bool,
    selector: str,
    fields: str = "",
    watch: bool,
    ignore: bool = False,
    output: Form | None,
    sort_by: str,
    headers: bool,
    labels: bool = False,
) -> None:
    """Prints the objects that the words name (`queries_of`); without words the kinds. `event_filters`: the given
    options for events. `fields`: a field selector. `ignore`: names without an object are left out. `labels`: tables
    have a column of labels. Raises UsageError."""
    shape = chosen_shape(output=output, sort_by=sort_by, no_headers=not headers)._replace(labels=labels)
    if not words:
        _reject(event_filters)
        print_list(session, shape, _kinds(), COLUMNS_OF_KINDS, lambda kind: kind["name"])
        return
    queries = queries_of(session, words)
    namespace = None if everywhere else session.namespace
    conditions = conditions_of((query.kind for query in queries), fields)
    if queries[0].kind == "events" and len(queries) == 1 and len(queries[0].names) < 2:
        from bcs_scheduler.cli.kinds.workloads.events import show_events

        check_labels("events", selector)
        name = queries[0].names[0] if queries[0].names else None
        show_events(session, namespace, name, watch, shape, event_filters, fields)
        return
    _reject(event_filters)
    for query in queries:
        _check(query, selector, fields, watch)
    documents = shape.form.is_data or shape.has_expressions

    def chosen(part: Part, query: Query) -> Part:
        found = matching(part.kind, part.found, conditions) if isinstance(part.found, list) else part.found
        return _sorted(part._replace(found=found), shape, query)

    def look() -> list[Part]:
        return [chosen(_read(session, query, namespace, selector, documents, ignore), query) for query in queries]

    if watch and [query.kind for query in queries] == ["endpoints"] and len(queries[0].names) == 1:
        from bcs_scheduler.cli.kinds.objects.services import endpoint_changes

        changes = endpoint_changes(session, queries[0].names[0])
        _watch(session, lambda: [Part("endpoints", changes())], shape, everywhere, pause=0.0)
    elif watch and len(queries) == 1 and not queries[0].names and _is_streamed(queries[0].kind, documents):
        from bcs_scheduler.cli.client.streamed import StreamedList

        query = queries[0]
        stream = StreamedList(session.client, query.kind, namespace, selector, session.warn)
        try:
            _watch(session, lambda: [chosen(_taken(stream, query), query)], shape, everywhere, pause=0.0)
        finally:
            stream.close()
    elif watch:
        _watch(session, look, shape, everywhere)
    else:
        found = look()
        if not (ignore and queries[0].names and not any(part.found for part in found)):
            _print(session, found, shape, everywhere)


def _is_streamed(kind: str, documents: bool) -> bool:
    """Streams have no documents."""
    return kind in KINDS and KINDS[kind].streamed and not (documents and functions_of(kind).read_documents)


def _taken(stream: StreamedList, query: Query) -> Part:
    """The objects of a stream. Transactions are in the order of their age, as in the list."""
    found = stream.take(INTERVAL)
    if query.kind == "transactions":
        found.sort(key=lambda item: (item["namespace"], item["createTime"], item["transactionID"]))
    return Part(query.kind, found)


def _reject(event_filters: Mapping[str, Any]) -> None:
    """Raises UsageError if an option for events was given for another kind."""
    for name in event_filters:
        raise UsageError(f"--{name.removeprefix('event_')} is supported for events only")


def _kinds() -> list[Any]:
    """The kinds that are built in, with their aliases."""
    return [
        {"name": kind, "aliases": sorted(words_of(kind)[1:], key=len), "namespaced": not is_cluster_wide(kind)}
        for kind in KINDS
    ]


def _check(query: Query, selector: str, fields: str, watch: bool) -> None:
    """Raises UsageError for a selector or a watch that the kind does not support."""
    if query.kind == "events":
        raise UsageError("events are listed alone, and of one workload at most")
    check_labels(query.kind, selector)
    if (selector or fields) and query.names:
        raise UsageError(f"{'-l' if selector else '--field-selector'} cannot be combined with NAME")
    if query.kind not in KINDS:
        return
    if KINDS[query.kind].scope == "application" and not query.names:
        raise UsageError(f"get {query.kind} needs the name of an application")
    if watch and KINDS[query.kind].printed:
        raise UsageError(f"-w is not supported for {query.kind}")


def _sorted(part: Part, shape: Shape, query: Query) -> Part:
    """The objects in the order of --sort-by, of the given names, or else in natural order of namespace and name."""
    kind, found = part
    if not isinstance(found, list):
        return part
    if shape.sort_by:
        return Part(kind, sorted_by(shape, found, columns_of(kind), partial(with_metadata, kind)))
    if len(query.names) > 1 or (kind in KINDS and KINDS[kind].by_time):
        return part
    return Part(kind, in_order(in_order(found, columns_of(kind)[0].cell), NAMESPACE.cell))


def _read(session: Session, query: Query, namespace: str | None, selector: str, documents: bool, ignore: bool) -> Part:
    """`ignore`: names without an object are left out."""
    reader = reader_of(query.kind, documents=documents)

    def read(name: str | None) -> Found:
        try:
            return reader(session, namespace, name, selector)
        except NotFound:
            if not ignore or name is None:
                raise
            return []

    if len(query.names) < 2:
        return Part(query.kind, read(query.names[0] if query.names else None))
    parts = [Part(query.kind, read(name)) for name in query.names]
    return Part(query.kind, [item for part in parts for item in part.items])


def _grids(parts: Sequence[Part], shape: Shape, everywhere: bool) -> list[Grid]:
    """One table per kind. Of several kinds the names are `kind/name`."""
    made = []
    for kind, found in parts:
        columns = columns_of(kind)
        items = found if isinstance(found, list) else [found]
        prefix = f"{SINGULAR.get(kind, kind)}/" if len(parts) > 1 else ""
        if everywhere and (kind not in KINDS or KINDS[kind].scope == "namespace"):
            columns, prefix = (NAMESPACE, _prefixed(columns[0], prefix), *columns[1:]), ""
        if kind == "agents" and isinstance(found, list):
            from bcs_scheduler.cli.kinds.objects.agents import with_names

            items = with_names(items)
        if kind == "transactions":
            from bcs_scheduler.cli.kinds.workloads import transactions

            items = transactions.with_names(items)
        if shape.labels:
            columns = (*columns, labels_column(kind))
        made.append(grid_of(shape, items, columns, prefix))
    return made


def _prefixed(column: Column, prefix: str) -> Column:
    return column._replace(cell=lambda item: f"{prefix}{column.cell(item)}", key=True)


def _print(session: Session, parts: list[Part], shape: Shape, everywhere: bool) -> None:
    if shape.form.name == "name":
        for kind, item in ((part.kind, item) for part in parts for item in part.items):
            # The name of a taskgroup is unique within its namespace only.
            name = item["ID"] if everywhere and kind == "taskgroups" else name_of(kind, item)
            session.say(f"{SINGULAR.get(kind, kind)}/{name}")
        return
    if shape.has_expressions:
        parts = [Part(part.kind, found_with_metadata(part.kind, _merged(part))) for part in parts]
    elif shape.form.is_data:
        parts = [_as_documents(part) for part in parts]
    if print_form(session.out, _data(parts), shape.form):
        return
    if parts[0].kind in KINDS and KINDS[parts[0].kind].printed:
        print_data(session.out, _data(parts), "yaml")
        return
    shown = [part for part in parts if part.found]
    if not shown:
        where = "" if everywhere or is_cluster_wide(parts[0].kind) else f" in namespace {session.namespace}"
        kinds = " or ".join(part.kind for part in parts)
        session.err.print(f"no {kinds}{where}")
    for number, grid in enumerate(_grids(shown, shape, everywhere)):
        if number:
            session.say("")
        session.show(grid)


def _as_documents(part: Part) -> Part:
    if isinstance(part.found, list):
        return Part(part.kind, [document_of(part.kind, item) for item in part.found])
    return Part(part.kind, document_of(part.kind, part.found))


def _merged(part: Part) -> Found:
    """The objects for expressions, which may name fields of the documents and of the answers of the API."""
    made = [{**item, **document_of(part.kind, item)} if isinstance(item, dict) else item for item in part.items]
    return made if isinstance(part.found, list) else made[0]


def _data(parts: Sequence[Part]) -> Any:
    """For one kind its objects, or the one object that was asked for by name; for several kinds the objects by kind."""
    return parts[0].found if len(parts) == 1 else {part.kind: part.items for part in parts}


def _watch(
    session: Session,
    look: Callable[[], list[Part]],
    shape: Shape,
    everywhere: bool,
    pause: float = INTERVAL,
) -> NoReturn:
    """Polls until the user interrupts."""

    def drawn(found: list[Part]) -> Stack:
        return Stack(_grids([part for part in found if part.found], shape, everywhere))

    refresh(session, shape, look, drawn, lambda found: _print(session, found, shape, everywhere), pause)
