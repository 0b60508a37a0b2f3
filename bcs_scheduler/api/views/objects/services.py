"""Services as in their documents, and endpoints as in the original (docs/original.md#endpoints), with further fields
for consumers."""

from __future__ import annotations

import msgspec

from bcs_scheduler.api.views.base import KeptMeta, show_meta
from bcs_scheduler.wire.times import NO_TIME, rfc3339
from store.records import Endpoint, Member, MemberPort, Service, ServicePort


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
