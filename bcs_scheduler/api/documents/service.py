"""Documents of kind service (docs/original.md#services, #labels), and the records they become."""

from __future__ import annotations

import re

from bcs_scheduler.api.documents.parts.names import check_labels, check_port_name
from bcs_scheduler.api.documents.parts.ports import PROTOCOLS
from bcs_scheduler.api.documents.validate import check_identity, check_kind, check_metadata, with_namespace
from bcs_scheduler.api.http.errors import invalid
from bcs_scheduler.wire.decoding import decode
from bcs_scheduler.wire.documents.service import ServiceDocument, ServicePortDocument
from bcs_scheduler.wire.problems import Problems, Taken, element, member
from store.records import Service, ServicePort
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
    if namespace:
        check_identity(given, namespace, name, problems)
    elif not given.namespace:
        problems.add("$.metadata.namespace", "is required")
    check_metadata(given, problems)
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
