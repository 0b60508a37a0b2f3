"""Groups of applications: columns, operations, descriptions."""

from __future__ import annotations

from typing import Any

from bcs_scheduler.cli.client.types import Json
from bcs_scheduler.cli.kinds.base import Functions
from bcs_scheduler.cli.kinds.objects.extensions import operations_of, reading
from bcs_scheduler.cli.output.data import print_data
from bcs_scheduler.cli.output.tables import Column, age_column, field_list, reason_column, time_column
from bcs_scheduler.cli.output.text import counted, pairs, when
from bcs_scheduler.cli.session import Session


def _created(found: Json) -> Any:
    return found["metadata"].get("creationTimestamp")


def _by_member(found: Json) -> str:
    return ",".join(f"{name}={least}" for name, least in found["spec"]["minTaskMember"].items())


def _members(found: Json) -> str:
    return ", ".join(f"{m['application']} {m['running']}/{m['wanted']}" for m in found["status"]["members"])


def _reservation(found: Json | None) -> str:
    """The placeholders of the group; empty if there is no reservation."""
    if not found:
        return ""
    until = f", until {when(found['timesOut'])}" if found["timesOut"] and found["state"] == "Reserving" else ""
    return f"{found['state']}: {found['holding']} of {counted(found['needed'], 'placeholder')} hold room{until}"


POD_GROUP_COLUMNS = (
    Column("NAME", lambda g: g["metadata"]["name"]),
    Column("STATUS", lambda g: g["status"]["phase"]),
    Column("MIN-MEMBER", lambda g: g["spec"]["minMember"], right=True),
    Column("RUNNING", lambda g: g["status"]["running"], right=True),
    Column("MIN-TASK-MEMBER", _by_member, whole=True),
    age_column("AGE", _created),
    time_column("CREATED", _created),
    Column("MEMBERS", _members, long=True),
    reason_column(lambda g: g["status"].get("reason")),
)


def describe_pod_group(session: Session, name: str, events: bool, form: str) -> None:
    found = session.client.object("PodGroup", session.namespace, name)
    if form:
        print_data(session.out, found, form)
        return
    head, spec = found["metadata"], found["spec"]
    session.show(
        field_list(
            [
                ("Name", head["name"]),
                ("Namespace", head["namespace"]),
                ("Labels", pairs(head.get("labels"))),
                ("Created", when(head.get("creationTimestamp"))),
                ("Status", found["status"]["phase"]),
                ("Reason", found["status"].get("reason")),
                ("Minimum", str(spec["minMember"])),
                ("Minimum by member", _by_member(found) or "none"),
                ("Priority class", spec["priorityClassName"] or "none"),
                ("Members", _members(found) or "none"),
                ("Reservation", _reservation(found["status"].get("reservation"))),
            ]
        )
    )


FUNCTIONS = {
    "podgroups": Functions(POD_GROUP_COLUMNS, reading("PodGroup"), describe_pod_group, operations_of("PodGroup"))
}
