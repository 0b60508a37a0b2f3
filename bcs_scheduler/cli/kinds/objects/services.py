"""Services and endpoints: columns, lists, descriptions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from bcs_scheduler.cli.client.types import Json
from bcs_scheduler.cli.kinds.base import Found, Functions
from bcs_scheduler.cli.kinds.objects.extensions import operations_of, reading
from bcs_scheduler.cli.output.data import print_data
from bcs_scheduler.cli.output.tables import Column, age_column, field_list, table, time_column
from bcs_scheduler.cli.output.terminal import Styled
from bcs_scheduler.cli.output.text import pairs, when
from bcs_scheduler.cli.session import Session
from store.keys import object_key

SHOWN = 3
"""Number of addresses in a line of a table."""


def _pairs(found: Mapping[str, str] | None) -> str:
    return ",".join(f"{key}={value}" for key, value in (found or {}).items())


def _name(item: Json) -> str:
    return str(item["metadata"]["name"])


def _created(item: Json) -> Any:
    return item["metadata"].get("creationTimestamp")


def ports_of(item: Json) -> str:
    ports = item["spec"]["ports"] if "spec" in item else item["ports"]
    return ",".join(f"{p['name']}:{p.get('servicePort') or '-'}/{p['protocol']}" for p in ports)


def selected_by(service: Json) -> str:
    return _pairs(service["spec"]["selector"]) or "all taskgroups"


def _ready_members(endpoint: Json) -> Styled:
    total = len(endpoint["eps"]) + endpoint["omitted"]
    return Styled(f"{endpoint['ready']}/{total}", style="" if endpoint["ready"] == total else "yellow")


def _addresses(endpoint: Json) -> str:
    found = [port["address"] for member in endpoint["eps"] if member["ready"] for port in member["ports"]]
    more = f" and {len(found) - SHOWN} more" if len(found) > SHOWN else ""
    return ", ".join(found[:SHOWN]) + more


def _changed(endpoint: Json) -> Any:
    return endpoint["metadata"].get("updateTimestamp")


SERVICES: Sequence[Column] = (
    Column("NAME", _name),
    Column("SELECTS", selected_by, long=True),
    Column("PORTS", ports_of, long=True),
    age_column("AGE", _created),
    time_column("CREATED", _created),
    Column("LABELS", lambda s: _pairs(s["metadata"].get("labels")), wide=True),
)
ENDPOINTS: Sequence[Column] = (
    Column("NAME", _name),
    Column("READY", _ready_members, right=True),
    Column("ADDRESSES", _addresses, long=True),
    age_column("CHANGED", _changed),
    Column("PORTS", ports_of, wide=True),
    Column("VERSION", lambda e: e["resourceVersion"], wide=True),
)
MEMBERS: Sequence[Column] = (
    Column("TASKGROUP", lambda m: m["targetRef"]["name"]),
    Column("READY", lambda m: Styled("yes", style="green") if m["ready"] else Styled(m["reason"], style="yellow")),
    Column("WEIGHT", lambda m: m["weight"], right=True),
    Column("NETWORK", lambda m: m["networkMode"]),
    Column("ADDRESSES", lambda m: ", ".join(f"{p['name']}={p['address'] or '-'}" for p in m["ports"]), long=True),
)


def describe_service(session: Session, name: str, events: bool, form: str) -> None:
    service = session.client.object("service", session.namespace, name)
    endpoint = session.client.endpoint(session.namespace, name)
    if form:
        print_data(session.out, {"service": service, "endpoint": endpoint}, form)
        return
    head = service["metadata"]
    session.show(
        field_list(
            [
                ("Name", object_key(head["namespace"], head["name"])),
                ("Labels", pairs(head.get("labels"))),
                ("Selects", selected_by(service)),
                ("Ports", ports_of(service)),
                ("Created", when(head.get("creationTimestamp"))),
            ]
        )
    )
    _show_members(session, endpoint)


def describe_endpoint(session: Session, name: str, events: bool, form: str) -> None:
    endpoint = session.client.endpoint(session.namespace, name)
    if form:
        print_data(session.out, endpoint, form)
        return
    head = endpoint["metadata"]
    session.show(
        field_list(
            [
                ("Name", object_key(head["namespace"], head["name"])),
                ("Labels", pairs(head.get("labels"))),
                ("Ports", ports_of(endpoint)),
                ("Version", endpoint["resourceVersion"]),
                ("Changed", when(head.get("updateTimestamp"))),
            ]
        )
    )
    _show_members(session, endpoint)


def _show_members(session: Session, endpoint: Json) -> None:
    session.out.print("\nMembers", "bold")
    if not endpoint["eps"]:
        session.out.print("  the service has no members")
        return
    session.show(table(MEMBERS, endpoint["eps"]))
    if endpoint["omitted"]:
        session.out.print(f"  and {endpoint['omitted']} more, which are not shown")


def read_endpoints(session: Session, namespace: str | None, name: str | None, selector: str) -> Found:
    if name:
        return session.client.endpoint(namespace or session.namespace, name)
    return session.client.endpoints(namespace, selector=selector)


def endpoint_changes(session: Session, name: str) -> Callable[[], Found]:
    """A function that returns the endpoint after its next change, or after a long poll without one."""
    known = ""

    def look() -> Found:
        nonlocal known
        found = session.client.watch_endpoint(session.namespace, name, known)
        known = found["resourceVersion"]
        return found

    return look


FUNCTIONS = {
    "services": Functions(SERVICES, reading("service"), describe_service, operations_of("service")),
    "endpoints": Functions(ENDPOINTS, read_endpoints, describe_endpoint),
}
