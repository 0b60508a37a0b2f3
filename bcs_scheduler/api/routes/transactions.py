"""Transactions: list, fetch, watch, cancel."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, get_args

from starlette.concurrency import run_in_threadpool

from bcs_scheduler.api.http.errors import not_found
from bcs_scheduler.api.http.operation import CONTINUE, LIMIT, Answer, Answered, Call, Param, Table
from bcs_scheduler.api.reading.lists import lists, namespace_of
from bcs_scheduler.api.reading.query import page, page_or_all
from bcs_scheduler.api.routes.applications import Accepted
from bcs_scheduler.api.streams.live import WATCHABLE, Live, fits_filters, in_order, watching
from bcs_scheduler.api.streams.streaming import WATCH_SECONDS, known_version, long_poll, shared
from bcs_scheduler.api.views.transactions import TransactionView, order, show_transaction
from bcs_scheduler.core.interface.requests import CancelTransaction
from bcs_scheduler.leadership.items import EVENTS, Item
from store.ids import object_key
from store.records import Event, Transaction, TransactionStatus
from store.state.reader import StateReader

table = Table("transactions")
STATUSES = get_args(TransactionStatus)
LISTING = (
    LIMIT,
    CONTINUE,
    Param("objKind", "text", "Only transactions of objects of this kind.", choices=("application", "deployment")),
    Param("objName", "text", "Only transactions of the object of this name."),
    Param("status", "text", "Only objects in this status.", choices=STATUSES),
)
WATCHING = (
    Param(
        "watch",
        "bool",
        "Wait until the transaction differs from the state that the caller knows, has ended, or the time is over.",
    ),
    Param("timeoutSeconds", "float", "Maximum time to wait. Default: 30.", 0, 60),
    Param("resourceStatus", "text", "The status that the caller knows. Default: INIT.", choices=STATUSES),
    Param("resourceProgress", "int", "The progress that the caller knows. Default: progress does not end the wait.", 0),
)


def _fits(state: StateReader, transaction: Transaction, filters: Mapping[str, Any]) -> bool:
    kind = filters.get("objKind", "application")
    return fits_filters(transaction, {}, filters) and _OF_KIND[kind](state, transaction, filters.get("objName"))


LIVE = Live(
    "transaction",
    lambda gateway, state, id: state.transactions.get(id),
    lambda gateway, state, transaction: show_transaction(state, transaction),
    in_order(Transaction),
    _fits,
)


@lists(
    table,
    "/transactions/{ns}",
    "/transactions",
    "transactions",
    query=(*LISTING, *WATCHABLE),
    answer=list[TransactionView],
    watcher=watching(LIVE),
)
def list_transactions(call: Call) -> Answered:
    state, query = call.state(), call.query
    namespace, name, status = namespace_of(call), query.get("objName"), query.get("status")
    kind = query.get("objKind", "application")

    def fits(transaction: Transaction) -> bool:
        return (status is None or transaction.status == status) and _OF_KIND[kind](state, transaction, name)

    def show(transaction: Transaction) -> TransactionView:
        return show_transaction(state, transaction)

    if kind == "application" and namespace is not None and name is not None:
        own = list(state.transactions_of(object_key(namespace, name)).values())
        return page(filter(fits, own), order, query, show)
    prefix = () if namespace is None else (namespace,)
    return page_or_all(lambda after: state.in_order(Transaction, prefix, after), query, show, fits)


def _of_application(state: StateReader, transaction: Transaction, name: str | None) -> bool:
    return name is None or transaction.application == name


def _of_deployment(state: StateReader, transaction: Transaction, name: str | None) -> bool:
    """True for a transaction of the deployment `name` (None = of any deployment): of its present applications, and of
    former applications whose names came from the deployment."""
    application = state.applications.get(transaction.application_key)
    if application is not None:
        return bool(application.deployment) if name is None else application.deployment == name
    owner = _SUFFIX.sub("", transaction.application) if name is None else name
    gone = transaction.application.removeprefix(owner)
    named = gone == "" or _SUFFIX.fullmatch(gone) is not None
    return named and transaction.application.startswith(owner) and (name is not None or gone != "")


_SUFFIX = re.compile(r"-v[0-9]+\Z")
"""End of the name of an application that an update has made."""
_OF_KIND: dict[str, Callable[[StateReader, Transaction, str | None], bool]] = {
    "application": _of_application,
    "deployment": _of_deployment,
}


@table.read("/transactions/{ns}/{id}", "Fetch a transaction, or watch it", query=WATCHING, answer=TransactionView)
async def get_transaction(call: Call) -> Answer:
    def present() -> tuple[Transaction, int]:
        return _find(call.state(), call), known_version(call)

    def show(found: tuple[Transaction, int]) -> TransactionView:
        return show_transaction(call.state(), found[0])

    def news(view: TransactionView) -> bool:
        return _news(view, call)

    if not call.query.get("watch", False):
        return Answer(await run_in_threadpool(lambda: show(present())))
    seconds = call.query.get("timeoutSeconds", WATCH_SECONDS)
    # Events report the steps and the end of a transaction, and changes of taskgroups, which are its progress.
    with shared(call, ("transaction", call.path["id"]), present, show, news) as look:
        view = await long_poll(call, look, news, seconds, EVENTS, match=_concerns(call))
    return Answer(view)


def _concerns(call: Call) -> Callable[[Item], bool]:
    """Events of the transaction and of the taskgroups of its namespace."""
    identity, namespace = call.path["id"], call.path["ns"]

    def concerns(item: Item) -> bool:
        event = item.value
        return isinstance(event, Event) and (
            event.transaction == identity or (event.object == "taskgroup" and event.namespace == namespace)
        )

    return concerns


def _news(view: TransactionView, call: Call) -> bool:
    if view.status not in ("QUEUED", "INIT") or view.status != call.query.get("resourceStatus", "INIT"):
        return True
    known = call.query.get("resourceProgress")
    return known is not None and view.progress != known


@table.write(
    "DELETE",
    "/transactions/{ns}/{id}",
    "Cancel a transaction; its application keeps its present taskgroups",
    answer=Accepted,
    status=200,
)
async def cancel_transaction(call: Call) -> Answer:
    transaction = _find(call.state(), call)
    reply = await call.reply(CancelTransaction(id=transaction.id))
    return Answer(reply.data)  # settled already: no work continues in the background


def _find(state: StateReader, call: Call) -> Transaction:
    transaction = state.transactions.get(call.path["id"])
    if transaction is None or transaction.namespace != call.path["ns"]:
        raise not_found("transaction", f"{call.path['id']} in namespace {call.path['ns']}")
    return transaction
