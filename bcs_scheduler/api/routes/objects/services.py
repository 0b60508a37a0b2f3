"""Services and their endpoints: create, replace, delete, list, fetch; endpoints are followed by long poll and stream.

The older paths /service are the original's.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
from starlette.concurrency import run_in_threadpool

from bcs_scheduler.api.documents.service import read_service
from bcs_scheduler.api.documents.validate import known_version
from bcs_scheduler.api.http import errors
from bcs_scheduler.api.http.errors import Reasons, not_found
from bcs_scheduler.api.http.operation import Answer, Answered, Call, Param, Table
from bcs_scheduler.api.reading.lists import NAMESPACE, find, listed, lists, namespace_of
from bcs_scheduler.api.streams.sse import EventStream, frame
from bcs_scheduler.api.streams.streaming import WATCH_SECONDS, WATCHING, long_poll, streams, watch
from bcs_scheduler.api.views.objects.services import EndpointView, ServiceView, show_endpoint, show_service
from bcs_scheduler.core.interface.effects import Reason
from bcs_scheduler.core.interface.requests import DeleteService, PutService
from bcs_scheduler.leadership.items import Item
from bcs_scheduler.wire.documents.service import ServiceDocument
from store.ids import ObjectKey, object_key
from store.records import Endpoint

table = Table("services")
SERVICES = "/namespaces/{ns}/services"
ENDPOINTS = "/namespaces/{ns}/endpoints"
NAME = Param("name", "text", "Only the endpoint of this service.")
CREATED: Reasons = (Reason.EXISTS, Reason.INVALID)
REPLACED: Reasons = (Reason.NOT_FOUND, Reason.CONFLICT, Reason.INVALID)


class Gone(msgspec.Struct, frozen=True, kw_only=True):
    """Data of the frame `deleted`."""

    namespace: str
    name: str


class Synced(msgspec.Struct, frozen=True, kw_only=True):
    """Data of the frame `synced`: how many endpoints there were before it."""

    endpoints: int


# --- services -------------------------------------------------------------------------------------------------


@table.write("POST", SERVICES, "Create a service", body=ServiceDocument, reasons=CREATED, status=200)
@table.write("POST", "/service", "Create a service", body=ServiceDocument, reasons=CREATED, status=200)
async def create_service(call: Call) -> Answer:
    return await _put(call, create=True)


@table.write("PUT", f"{SERVICES}/{{name}}", "Replace a service", body=ServiceDocument, reasons=REPLACED, status=200)
@table.write("PUT", SERVICES, "Replace a service", body=ServiceDocument, reasons=REPLACED, status=200)
@table.write("PUT", "/service", "Replace a service", body=ServiceDocument, reasons=REPLACED, status=200)
async def replace_service(call: Call) -> Answer:
    return await _put(call, create=False)


async def _put(call: Call, *, create: bool) -> Answer:
    record = read_service(call.body, call.path.get("ns", ""), call.path.get("name"), call.problems)
    command = PutService(
        service=record, create=create, expected=known_version(call.body), dry_run=call.dry_run, cause=call.cause
    )
    return await call.submit(command)


@table.write(
    "DELETE",
    f"{SERVICES}/{{name}}",
    "Delete a service and its endpoint; its taskgroups stay",
    reasons=(Reason.NOT_FOUND,),
    status=200,
)
@table.write("DELETE", "/service/{ns}/{name}", "Delete a service", reasons=(Reason.NOT_FOUND,), status=200)
async def delete_service(call: Call) -> Answer:
    command = DeleteService(namespace=call.path["ns"], name=call.path["name"], dry_run=call.dry_run, cause=call.cause)
    return await call.submit(command)


@lists(table, SERVICES, "/services", "services", answer=list[ServiceView])
def list_services(call: Call) -> Answered:
    return listed(call, "service", show_service)


@table.read(f"{SERVICES}/{{name}}", "Fetch a service", answer=ServiceView)
@table.read("/service/{ns}/{name}", "Fetch a service", answer=ServiceView)
def get_service(call: Call) -> Answer:
    return Answer(show_service(find(call.state().services, "service", call.path["ns"], call.path["name"])))


# --- endpoints ------------------------------------------------------------------------------------------------


@lists(table, ENDPOINTS, "/endpoints", "endpoints", answer=list[EndpointView])
def list_endpoints(call: Call) -> Answered:
    return listed(call, "endpoint", show_endpoint)


@table.read(
    f"{ENDPOINTS}/{{name}}",
    "Fetch the endpoint of a service: its members with address and readiness",
    query=WATCHING,
    answer=EndpointView,
    reasons=(Reason.NOT_FOUND, errors.BAD_PARAMETER, errors.TOO_MANY_WATCHERS),
)
async def get_endpoint(call: Call) -> Answer:
    key = object_key(call.path["ns"], call.path["name"])
    known = _known(call.query.get("resourceVersion", ""))

    def look() -> Endpoint | None:
        return call.state().endpoints.get(key)

    def news(record: Endpoint | None) -> bool:
        # A standby may still have a record whose replacement the caller has seen elsewhere.
        older_counts = call.gateway.role() == "master"
        return record is None or record.version > known or (older_counts and record.version != known)

    if call.query.get("watch", False):
        seconds = call.query.get("timeoutSeconds", WATCH_SECONDS)
        record = await long_poll(call, lambda: run_in_threadpool(look), news, seconds, "endpoint", key)
    else:
        record = await run_in_threadpool(look)
    if record is None:
        raise not_found("endpoint", key)
    return Answer(show_endpoint(record))


@streams(
    table,
    f"{ENDPOINTS}/watch",
    "Follow the endpoints of a namespace: frames `endpoint`, `synced`, then `endpoint` and `deleted` for changes",
    query=(NAME,),
    answer=EndpointView,
)
@streams(
    table,
    "/endpoints/watch",
    "Follow the endpoints of all namespaces: frames `endpoint`, `synced`, then `endpoint` and `deleted` for changes",
    query=(NAMESPACE, NAME),
    answer=EndpointView,
)
async def watch_endpoints(call: Call) -> EventStream:
    """Each connection begins with all endpoints, so a reader that connects again misses nothing: endpoints that are
    absent before `synced` do not exist any more."""
    namespace = namespace_of(call)
    name = call.query.get("name")
    caller = call.caller

    def wanted(item: Item) -> bool:
        key = ObjectKey.of(item.key)
        return namespace in (None, key.namespace) and name in (None, key.name) and caller.sees(key.namespace)

    key = object_key(namespace, name) if namespace is not None and name is not None else None
    following = watch(call, "endpoint", key, wanted)
    try:
        present = call.state().endpoints
        records = list(present.values()) if key is None else [one for one in (present.get(key),) if one is not None]
    except BaseException:
        following.close()
        raise
    seen = (record for record in records if wanted(Item("endpoint", record.key, record)))
    shown = sorted(seen, key=lambda record: (record.namespace, record.name))
    return EventStream(following, encode, _opening(shown), call.query.get("timeoutSeconds"))


def _opening(records: list[Endpoint]) -> Iterator[bytes]:
    for record in records:
        yield encode(Item("endpoint", record.key, record))
    yield frame("synced", Synced(endpoints=len(records)))


def encode(item: Item) -> bytes:
    """The frame of an endpoint, or of the removal of one."""
    if isinstance(item.value, Endpoint):
        return frame("endpoint", show_endpoint(item.value), item.value.version)
    key = ObjectKey.of(item.key)
    return frame("deleted", Gone(namespace=key.namespace, name=key.name))


def _known(text: str) -> int:
    if text and not (text.isascii() and text.isdigit() and len(text) < 20):
        raise errors.bad_parameter("resourceVersion", "is not a resourceVersion of an endpoint")
    return int(text or 0)
