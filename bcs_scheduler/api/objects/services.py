"""Services (docs/original.md#services, #labels), and their endpoints as in the original (docs/original.md#endpoints),
with further fields for consumers. Endpoints are followed by long poll and stream. The older paths /service are those
of the original.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import msgspec
from starlette.concurrency import run_in_threadpool

from bcs_scheduler.api.documents.names import check_labels, check_port_name
from bcs_scheduler.api.documents.ports import PROTOCOLS
from bcs_scheduler.api.documents.validate import check_head, check_kind, with_namespace
from bcs_scheduler.api.http import errors
from bcs_scheduler.api.http.errors import invalid, not_found
from bcs_scheduler.api.http.operation import Answer, Answered, Call, Param, Table
from bcs_scheduler.api.objects.changes import changes
from bcs_scheduler.api.reading.lists import NAMESPACE, find, listed, lists, namespace_of
from bcs_scheduler.api.streams.sse import EventStream, frame
from bcs_scheduler.api.streams.streaming import WATCH_SECONDS, WATCHING, long_poll, streams, watch
from bcs_scheduler.api.views.base import KeptMeta, show_meta
from bcs_scheduler.core.interface.effects import Reason
from bcs_scheduler.core.interface.requests import DeleteService, PutService
from bcs_scheduler.leadership.items import Item
from bcs_scheduler.wire.decoding import decode
from bcs_scheduler.wire.documents.service import ServiceDocument, ServicePortDocument
from bcs_scheduler.wire.problems import Problems, Taken, element, member
from bcs_scheduler.wire.times import NO_TIME, rfc3339
from store.ids import ObjectKey, object_key
from store.records import Endpoint, Member, MemberPort, Service, ServicePort
from transactions.rules.membership import WEIGHT

MAX_WEIGHT = 65_535
RESERVED = "watch"
"""Names the route that follows all endpoints."""
_DOMAIN = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9.-]*[A-Za-z0-9])?")
_PATH = re.compile(r"/[A-Za-z0-9._~%+,:=@/-]*")
"""Paths and domain names become part of the configuration of load balancers, where other characters have meanings of
their own."""


def read_service(raw: object, namespace: str, name: str | None = None, problems: Problems | None = None) -> Service:
    """A record without times. An empty `namespace` leaves it to the document. Raises ApiError (422)."""
    problems = Problems() if problems is None else problems
    check_kind(raw, ("service",), problems)
    document: ServiceDocument = decode(with_namespace(raw, namespace), ServiceDocument, problems)
    given, spec = document.metadata, document.spec
    check_head(given, namespace, name, problems)
    if given.name == RESERVED:
        problems.add("$.metadata.name", f'must not be "{RESERVED}": a route has this name')
    _check_weights(given.labels, problems)
    check_labels(spec.selector, "$.spec.selector", problems)
    ports = _ports(spec.ports, problems)
    if problems:
        raise invalid(problems.listed())
    return Service(
        namespace=given.namespace,
        name=given.name,
        labels=given.labels,
        annotations=given.annotations,
        selector=spec.selector,
        ports=ports,
        type=spec.type,
        cluster_ip=spec.cluster_ip,
    )


def _check_weights(labels: dict[str, str], problems: Problems) -> None:
    for key, value in labels.items():
        if not key.startswith(WEIGHT):
            continue
        at = member("$.metadata.labels", key)
        if key == WEIGHT:
            problems.add(
                at, f"must continue with the name of an application or deployment or a label's value: {WEIGHT}web"
            )
        elif not (value.isascii() and value.isdigit()) or int(value) > MAX_WEIGHT:
            problems.add(at, f"must be a whole number from 0 to {MAX_WEIGHT} as text, not {value[:20]!r}")


def _ports(given: tuple[ServicePortDocument, ...], problems: Problems) -> tuple[ServicePort, ...]:
    taken = Taken("port name")
    for i, port in enumerate(given):
        at = element("$.spec.ports", i)
        check_port_name(port.name, member(at, "name"), problems)
        taken.take(port.name, member(at, "name"), problems)
        if port.protocol.lower() not in ("", *PROTOCOLS):
            known = f"must be one of {', '.join(PROTOCOLS)}"
            problems.add(member(at, "protocol"), known, port.protocol, PROTOCOLS)
        if port.domain_name and not _DOMAIN.fullmatch(port.domain_name):
            problems.add(member(at, "domainName"), "must be the name of a host: letters, digits, '.' and '-'")
        if port.path and not _PATH.fullmatch(port.path):
            problems.add(member(at, "path"), "must begin with / and hold letters, digits and ._~%+,:=@/- alone")
    return tuple(
        ServicePort(
            name=port.name,
            protocol=port.protocol.lower() or "tcp",
            service_port=port.service_port,
            domain_name=port.domain_name,
            path=port.path,
            target_port=port.target_port,
            node_port=port.node_port,
        )
        for port in given
    )


class EndpointMeta(msgspec.Struct, frozen=True, kw_only=True, rename="camel", gc=False):
    """`updateTimestamp` is ours."""

    name: str
    namespace: str
    creation_timestamp: str = NO_TIME
    update_timestamp: str = NO_TIME
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}


class ServicePortView(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True, gc=False):
    name: str
    protocol: str
    service_port: int = 0
    domain_name: str = ""
    path: str = ""
    target_port: int = 0
    node_port: int = 0


class ServiceSpecView(msgspec.Struct, frozen=True, kw_only=True, rename="camel", gc=False):
    selector: dict[str, str]
    ports: tuple[ServicePortView, ...]
    type: str
    cluster_ip: tuple[str, ...] = msgspec.field(name="clusterIP")


class ServiceView(msgspec.Struct, frozen=True, kw_only=True, rename="camel", gc=False):
    api_version: str = "v4"
    kind: str = "service"
    metadata: KeptMeta
    spec: ServiceSpecView


class EndpointPortView(msgspec.Struct, frozen=True, kw_only=True, rename="camel", gc=False):
    """`address` is ours: host:port as a consumer should use it, by the network of the taskgroup; empty if unknown."""

    name: str
    host_port: int
    container_port: int
    host_ip: str = msgspec.field(name="hostIP")
    protocol: str
    address: str


class TargetRefView(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    kind: str = "taskgroup"
    id: str
    name: str
    namespace: str
    image: str = ""


class MemberView(msgspec.Struct, frozen=True, kw_only=True, rename="camel", gc=False):
    """`application`, `ready`, `reason` (why it is not ready) and `weight` (0 = no traffic) are ours."""

    network_mode: str
    node_ip: str = msgspec.field(name="nodeIP")
    container_ip: str = msgspec.field(name="containerIP")
    target_ref: TargetRefView
    application: str
    ready: bool
    reason: str
    weight: int
    ports: tuple[EndpointPortView, ...]


class EndpointView(msgspec.Struct, frozen=True, kw_only=True, rename="camel", gc=False):
    """`resourceVersion` is another one after every change, and greater. `ready`: members that are. `omitted`: members
    that found no room. `ports`: of the service, for load balancers."""

    api_version: str = "v4"
    kind: str = "endpoint"
    metadata: EndpointMeta
    resource_version: str
    ready: int
    omitted: int
    ports: tuple[ServicePortView, ...]
    eps: tuple[MemberView, ...]


def show_service(record: Service) -> ServiceView:
    ports = _service_ports(record.ports)
    spec = ServiceSpecView(selector=record.selector, ports=ports, type=record.type, cluster_ip=record.cluster_ip)
    return ServiceView(metadata=show_meta(record), spec=spec)


def show_endpoint(record: Endpoint) -> EndpointView:
    return EndpointView(
        metadata=_meta(record),
        resource_version=str(record.version),
        ready=sum([member.ready for member in record.members]),
        omitted=record.omitted,
        ports=_service_ports(record.ports),
        eps=tuple([_member(record.namespace, member) for member in record.members]),
    )


def _service_ports(ports: tuple[ServicePort, ...]) -> tuple[ServicePortView, ...]:
    return tuple(
        [
            ServicePortView(
                name=port.name,
                protocol=port.protocol,
                service_port=port.service_port,
                domain_name=port.domain_name,
                path=port.path,
                target_port=port.target_port,
                node_port=port.node_port,
            )
            for port in ports
        ]
    )


def _member(namespace: str, member: Member) -> MemberView:
    return MemberView(
        network_mode=member.network_mode,
        node_ip=member.node_ip,
        container_ip=member.container_ip,
        target_ref=TargetRefView(id=member.taskgroup, name=member.name, namespace=namespace),
        application=member.application,
        ready=member.ready,
        reason=member.reason,
        weight=member.weight,
        ports=tuple([_port(member, port) for port in member.ports]),
    )


def _port(member: Member, port: MemberPort) -> EndpointPortView:
    return EndpointPortView(
        name=port.name,
        host_port=port.host_port,
        container_port=port.container_port,
        host_ip=member.node_ip,
        protocol=port.protocol,
        address=port.address,
    )


def _meta(record: Endpoint) -> EndpointMeta:
    return EndpointMeta(
        name=record.name,
        namespace=record.namespace,
        creation_timestamp=rfc3339(record.created_at),
        update_timestamp=rfc3339(record.updated_at),
        labels=record.labels,
        annotations=record.annotations,
    )


table = Table("services")
SERVICES = "/namespaces/{ns}/services"
ENDPOINTS = "/namespaces/{ns}/endpoints"
NAME = Param("name", "text", "Only the endpoint of this service.")


class Gone(msgspec.Struct, frozen=True, kw_only=True):
    """Data of the frame `deleted`."""

    namespace: str
    name: str


class Synced(msgspec.Struct, frozen=True, kw_only=True):
    """Data of the frame `synced`: how many endpoints there were before it."""

    endpoints: int


# --- services -------------------------------------------------------------------------------------------------


changes(
    table,
    "service",
    ServiceDocument,
    put=lambda call, create: PutService(
        service=read_service(call.body, call.path.get("ns", ""), call.path.get("name"), call.problems)
    ),
    remove=lambda call: DeleteService(namespace=call.path["ns"], name=call.path["name"]),
    create=dict.fromkeys(("/service", SERVICES), "Create a service"),
    replace=dict.fromkeys(("/service", SERVICES, f"{SERVICES}/{{name}}"), "Replace a service"),
    delete={
        "/service/{ns}/{name}": "Delete a service",
        f"{SERVICES}/{{name}}": "Delete a service and its endpoint; its taskgroups stay",
    },
)


@lists(table, SERVICES, "/services", "services", answer=list[ServiceView])
def list_services(call: Call) -> Answered:
    return listed(call, Service, show_service)


@table.read(f"{SERVICES}/{{name}}", "Fetch a service", answer=ServiceView)
@table.read("/service/{ns}/{name}", "Fetch a service", answer=ServiceView)
def get_service(call: Call) -> Answer:
    return Answer(show_service(find(call.state().services, "service", call.path["ns"], call.path["name"])))


# --- endpoints ------------------------------------------------------------------------------------------------


@lists(table, ENDPOINTS, "/endpoints", "endpoints", answer=list[EndpointView])
def list_endpoints(call: Call) -> Answered:
    return listed(call, Endpoint, show_endpoint)


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
