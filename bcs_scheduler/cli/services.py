"""`bcs describe` for services and endpoints."""

from __future__ import annotations

from rich.text import Text

from bcs_scheduler.cli.client import Json
from bcs_scheduler.cli.options import Session
from bcs_scheduler.cli.output import field_list, print_data, table
from bcs_scheduler.cli.serviceviews import MEMBERS, ports_of, selected_by
from bcs_scheduler.cli.story import pairs, when


def describe_service(session: Session, name: str, story: bool, form: str) -> None:
    service = session.client.configuration("service", session.namespace, name)
    endpoint = session.client.endpoint(session.namespace, name)
    if form:
        print_data(session.out, {"service": service, "endpoint": endpoint}, form)
        return
    head = service["metadata"]
    session.show(
        field_list(
            [
                ("Name", f"{head['namespace']}/{head['name']}"),
                ("Labels", pairs(head.get("labels"))),
                ("Selects", selected_by(service)),
                ("Ports", ports_of(service)),
                ("Created", when(head.get("creationTimestamp"))),
            ]
        )
    )
    _show_members(session, endpoint)


def describe_endpoint(session: Session, name: str, story: bool, form: str) -> None:
    endpoint = session.client.endpoint(session.namespace, name)
    if form:
        print_data(session.out, endpoint, form)
        return
    head = endpoint["metadata"]
    session.show(
        field_list(
            [
                ("Name", f"{head['namespace']}/{head['name']}"),
                ("Labels", pairs(head.get("labels"))),
                ("Ports", ports_of(endpoint)),
                ("Version", endpoint["resourceVersion"]),
                ("Changed", when(head.get("updateTimestamp"))),
            ]
        )
    )
    _show_members(session, endpoint)


def _show_members(session: Session, endpoint: Json) -> None:
    session.out.print(Text("\nMembers", style="bold"))
    if not endpoint["eps"]:
        session.out.print("  nobody answers for it", markup=False)
        return
    session.show(table(MEMBERS, endpoint["eps"]))
    if endpoint["omitted"]:
        session.out.print(f"  and {endpoint['omitted']} more that found no room", markup=False)
