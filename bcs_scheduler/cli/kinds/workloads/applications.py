"""Applications and processes: columns, lists, descriptions. Operations: cli.kinds.operations.applications."""

from __future__ import annotations

from collections.abc import Sequence

from bcs_scheduler.cli.client.types import Json
from bcs_scheduler.cli.kinds.base import Found, Read
from bcs_scheduler.cli.output.tables import Column, age_column, field_list, reason_column, time_column
from bcs_scheduler.cli.output.terminal import Styled
from bcs_scheduler.cli.output.text import flat, pairs, status_text, when
from bcs_scheduler.cli.session import Session


def _ready(application: Json) -> Styled:
    running, wanted = application["RunningInstances"], application["DefineInstances"]
    return Styled(f"{running}/{wanted}", style="" if running == wanted else "yellow")


def _reason(application: Json) -> str:
    """Why an application is not as it is defined; empty if it is. Servers without reasons give the message."""
    if "Reason" in application:
        return str(application["Reason"])
    counts = application["RunningInstances"], application["Instances"]
    if application["Status"] == "Finish" or counts == (application["DefineInstances"],) * 2:
        return ""
    return str(application.get("Message") or "")


APPLICATIONS: Sequence[Column] = (
    Column("NAME", lambda a: a["Name"]),
    Column("STATUS", lambda a: status_text(a["Status"])),
    Column("RUNNING", _ready, right=True),
    age_column("AGE", lambda a: a.get("Created")),
    Column("KIND", lambda a: a.get("Kind"), wide=True),
    age_column("UPDATED", lambda a: a.get("UpdateTime"), wide=True),
    time_column("CREATED", lambda a: a.get("Created")),
    reason_column(_reason),
)


DEFINITION: Sequence[Column] = ()
"""A definition is printed as a document."""


def _made(version: Json) -> float:
    """The name of a version is its time in nanoseconds."""
    return int(version["Name"]) / 1e9 if str(version["Name"]).isdigit() else 0.0


VERSIONS: Sequence[Column] = (
    Column("VERSION", lambda v: v["Name"]),
    age_column("AGE", _made),
    Column("INSTANCES", lambda v: v.get("Instances"), right=True),
    Column("IMAGE OR COMMAND", lambda v: flat("; ".join(_program(c) for c in v.get("Container") or ())), long=True),
    time_column("CREATED", _made),
)


def _program(container: Json) -> str:
    docker = container.get("Docker") or {}
    return str(docker.get("Image") or " ".join([docker.get("Command") or "", *(docker.get("Arguments") or ())]).strip())


def _reading(*, documents: bool) -> Read:
    def read(session: Session, namespace: str | None, name: str | None, selector: str) -> Found:
        if name:
            return session.client.application(namespace or session.namespace, name, documents=documents)
        return session.client.applications(namespace, selector=selector, documents=documents)

    return read


read_applications, read_applications_with_documents = _reading(documents=False), _reading(documents=True)


def read_definition(session: Session, namespace: str | None, name: str | None, selector: str) -> Found:
    """The document of a deployment, daemonset or application, as the user wrote it."""
    from bcs_scheduler.cli.client.lookup import find_owner

    assert name is not None
    client, where = session.client, session.namespace
    kind, name = find_owner(client, where, name)
    looks = {"deployment": client.deployment_definition, "daemonset": client.daemonset_definition}
    return looks.get(kind, client.definition)(where, name)


def read_versions(session: Session, namespace: str | None, name: str | None, selector: str) -> Found:
    assert name is not None
    where = namespace or session.namespace
    ids = session.client.versions(where, name)
    return [session.client.version(where, name, version) for version in reversed(ids)]


def explain_application(session: Session, namespace: str, name: str) -> Json:
    return session.client.explain(namespace, name)


def describe_application(session: Session, name: str, events: str, form: str) -> None:
    from bcs_scheduler.cli.kinds.workloads.history import events_of, print_events, section
    from bcs_scheduler.cli.kinds.workloads.taskgroups import TASKGROUPS
    from bcs_scheduler.cli.kinds.workloads.transactions import TRANSACTIONS, with_names
    from bcs_scheduler.cli.output.data import print_data

    client, namespace = session.client, session.namespace
    found = client.application(namespace, name)
    groups = client.taskgroups(namespace, name)
    operations = client.transactions(namespace, name)
    if form:
        data = {"application": found, "taskgroups": groups, "transactions": operations}
        print_data(session.out, {**data, events: events_of(client, namespace, name)} if events else data, form)
        return
    session.show(
        field_list(
            [
                ("Name", f"{found['RunAs']}/{found['Name']}"),
                ("Kind", found.get("Kind")),
                ("Deployment", found.get("Deployment")),
                ("Status", status_text(found["Status"])),
                ("Message", found.get("Message")),
                ("Reason", found.get("Reason")),
                ("Taskgroups", _counts(found)),
                ("Labels", pairs((found.get("ObjectMeta") or {}).get("labels"))),
                ("Created", when(found.get("Created"))),
                ("Updated", when(found.get("UpdateTime"))),
            ],
        )
    )
    section(session, "Taskgroups", TASKGROUPS, groups)
    section(session, "Transactions", TRANSACTIONS, with_names(operations))
    if events:
        print_events(session, namespace, name)


def _counts(application: Json) -> str:
    running, present, defined = (application[key] for key in ("RunningInstances", "Instances", "DefineInstances"))
    return f"{running} running, {present} present, {defined} defined"
