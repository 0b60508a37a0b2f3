"""Services, and the endpoints they have: which taskgroups answer for them, where, and whether they are ready."""

from __future__ import annotations

from typing import ClassVar, Literal

from store.definition import Part
from store.record import Record


class ServicePort(Part, frozen=True, kw_only=True):
    """`name` is the name of a port of the selected taskgroups; the rest is for load balancers."""

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
        return f"{self.namespace}/{self.name}"


class MemberPort(Part, frozen=True, kw_only=True):
    """`address` is where consumers reach it: host:port, with an IPv6 host in brackets; empty while it is not known."""

    name: str
    protocol: str = "tcp"
    host_port: int = 0
    container_port: int = 0
    address: str = ""


Unready = Literal["", "unhealthy", "restarting", "unreachable", "ending", "no address"]
"""Why a member is not ready. unhealthy: its checks fail, or have not passed yet."""


class Member(Part, frozen=True, kw_only=True):
    """One taskgroup behind a service. `ready`: it runs, its checks pass, and nobody is about to end it."""

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
    """Who answers for the service of the same namespace and name. Written only when it differs. Labels, annotations
    and ports are the service's, for those who read endpoints alone."""

    kind: ClassVar[str] = "endpoint"

    namespace: str
    name: str
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    ports: tuple[ServicePort, ...] = ()
    version: int = 0
    """Grows with every change, across leaders: Unix nanoseconds of the change."""
    members: tuple[Member, ...] = ()
    """By application and index."""
    omitted: int = 0
    """Members that found no room in the record."""
    created_at: float = 0.0
    updated_at: float = 0.0

    @property
    def key(self) -> str:
        return f"{self.namespace}/{self.name}"
