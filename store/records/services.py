"""Services, and the endpoints they have: which taskgroups answer for them, where, and whether they are ready."""

from __future__ import annotations

from typing import ClassVar, Literal

from store.ids import object_key
from store.records.definition import Part
from store.records.record import Record


class ServicePort(Part, frozen=True, kw_only=True):
    """One port of a service. `name` is the name of a port of the selected taskgroups; the other fields are for load
    balancers."""

    name: str
    protocol: str = "tcp"
    service_port: int = 0
    domain_name: str = ""
    path: str = ""
    target_port: int = 0
    node_port: int = 0


class Service(Record, frozen=True, kw_only=True):
    """Selects taskgroups of its namespace: all pairs of `selector` must be among the labels of their version
    (transactions: Version.labels). An empty selector selects all of the namespace."""

    kind: ClassVar[str] = "service"

    namespace: str
    name: str
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    selector: dict[str, str] = {}
    ports: tuple[ServicePort, ...] = ()
    type: str = ""
    cluster_ip: tuple[str, ...] = ()
    raw: str = ""
    created_at: float = 0.0
    updated_at: float = 0.0

    @property
    def key(self) -> str:
        """The key: ``namespace/name``."""
        return object_key(self.namespace, self.name)


class MemberPort(Part, frozen=True, kw_only=True):
    """One port of a member. `address` is the address that clients connect to: host:port, with an IPv6 host in brackets;
    empty while the address is not known."""

    name: str
    protocol: str = "tcp"
    host_port: int = 0
    container_port: int = 0
    address: str = ""


Unready = Literal["", "unhealthy", "restarting", "unreachable", "ending", "no address"]
"""Reasons for which a member is not ready. unhealthy: its checks fail, or have not passed yet."""


class Member(Part, frozen=True, kw_only=True):
    """One taskgroup behind a service. `ready`: the taskgroup runs, its checks pass, and it is not being ended."""

    taskgroup: str
    name: str
    application: str
    network_mode: str = ""
    node_ip: str = ""
    container_ip: str = ""
    ports: tuple[MemberPort, ...] = ()
    ready: bool = False
    reason: Unready = ""
    weight: int = 1
    """0 = no traffic."""


class Endpoint(Record, frozen=True, kw_only=True):
    """The members of the service of the same namespace and name. The record is written only if its content differs.
    Labels, annotations and ports are copied from the service for clients that read endpoints alone."""

    kind: ClassVar[str] = "endpoint"

    namespace: str
    name: str
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    ports: tuple[ServicePort, ...] = ()
    version: int = 0
    """Grows with every change, across leaders: Unix nanoseconds of the change."""
    members: tuple[Member, ...] = ()
    """Members, ordered by application and index."""
    omitted: int = 0
    """Members that found no room in the record."""
    created_at: float = 0.0
    updated_at: float = 0.0

    @property
    def key(self) -> str:
        """The key: ``namespace/name``, the same as that of the service."""
        return object_key(self.namespace, self.name)
