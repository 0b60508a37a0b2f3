"""Applications and processes: columns, lists, descriptions. Operations: cli.kinds.workloads.application_operations."""

from __future__ import annotations

from collections.abc import Sequence

from bcs_scheduler.cli.client.types import Json
from bcs_scheduler.cli.errors import NotFound
from bcs_scheduler.cli.kinds.base import Found, Functions, Read
from bcs_scheduler.cli.output.tables import Column, age_column, field_list, reason_column, time_column
from bcs_scheduler.cli.output.terminal import Styled
from bcs_scheduler.cli.output.text import age, duration, flat, one_line, pairs, status_text, when
from bcs_scheduler.cli.session import Session

INTERVAL = 60.0
"""Seconds between two probes of a check that does not say it (docs/original.md#health-checks)."""


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
    return str((container.get("Docker") or {}).get("Image") or command_of(container))


def command_of(container: Json) -> str:
    """The command line of a container or process of a version; empty = that of the image."""
    docker, process = container.get("Docker") or {}, container.get("Process") or {}
    start = process.get("start") or docker.get("Command") or ""
    return " ".join([start, *(docker.get("Arguments") or ())]).strip()


def print_contents(session: Session, version: Json) -> None:
    """Prints each container or process of a version, with its resources, ports and checks."""
    for number, container in enumerate(version.get("Container") or ()):
        docker = container.get("Docker") or {}
        session.out.print(f"\nTask {container.get('Name') or number}", "bold")
        session.show(
            field_list(
                [
                    ("  Image", docker.get("Image")),
                    ("  Command", one_line(command_of(container), 100)),
                    ("  Resources", _amounts(container.get("Resources") or {})),
                    ("  Limits", _amounts(container.get("LimitResoures") or {})),
                    ("  Ports", ", ".join(_port(port) for port in docker.get("PortMappings") or ())),
                    *(("  Check", _check(check)) for check in container.get("HealthChecks") or ()),
                ]
            )
        )


def _amounts(resources: Json) -> str:
    """``0.5 cores, 64 MB memory``; empty if all amounts are 0."""
    units = (("Cpus", "cores"), ("Mem", "MB memory"), ("Disk", "MB disk"), ("Gpus", "GPUs"))
    return ", ".join(f"{resources[key]:g} {unit}" for key, unit in units if resources.get(key))


def _port(port: Json) -> str:
    """``http``, ``http 80`` or ``http 80 on 31000``: the port in the container, and a fixed port of the agent."""
    inside, published = int(port.get("container_port") or 0), int(port.get("host_port") or 0)
    numbers = [str(inside)] if inside > 0 else []
    numbers += [f"on {published}"] if published > 0 else []
    return " ".join([str(port.get("name") or ""), *numbers]).strip()


def _check(check: Json) -> str:
    """``HTTP / on port http, every 2s``."""
    where = check.get("port_name") or check.get("port")
    parts = [str(check.get("type") or "")]
    parts += [str(check.get("path") or "/")] if "HTTP" in parts[0] else []
    parts += [one_line(str(check["command"]), 60)] if check.get("command") else []
    parts += [f"on port {where}"] if where else []
    return f"{' '.join(parts)}, every {duration(float(check.get('interval') or INTERVAL))}"


def read_version(session: Session, name: str, version: str = "") -> Json | None:
    """A version of an application or daemonset of the namespace; by default the present one of an application. None:
    there is none, or not any more."""
    client, namespace = session.client, session.namespace
    try:
        version = version or str(client.application(namespace, name).get("Version") or "")
        return client.version(namespace, name, version) if version else None
    except NotFound:
        return None


def _reading(*, documents: bool) -> Read:
    def read(session: Session, namespace: str | None, name: str | None, selector: str) -> Found:
        if name:
            return session.client.application(namespace or session.namespace, name, documents=documents)
        return session.client.applications(namespace, selector=selector, documents=documents)

    return read


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


def describe_application(session: Session, name: str, events: bool, form: str) -> None:
    from bcs_scheduler.cli.kinds.workloads.history import events_of, print_events, section
    from bcs_scheduler.cli.kinds.workloads.taskgroups import TASKGROUPS
    from bcs_scheduler.cli.kinds.workloads.transactions import TRANSACTIONS, with_names
    from bcs_scheduler.cli.output.data import print_data

    client, namespace = session.client, session.namespace
    found = client.application(namespace, name)
    groups = client.taskgroups(namespace, name)
    operations = client.transactions(namespace, name)
    version = read_version(session, name, found["Version"]) if found.get("Version") else None
    if form:
        data = {"application": found, "taskgroups": groups, "transactions": operations, "version": version}
        print_data(session.out, {**data, "events": events_of(client, namespace, name)} if events else data, form)
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
                ("Version", f"{version['Name']} ({age(_made(version))} old)" if version else found.get("Version")),
                ("Restart", ((version or {}).get("RestartPolicy") or {}).get("policy")),
                ("Labels", pairs((found.get("ObjectMeta") or {}).get("labels"))),
                ("Created", when(found.get("Created"))),
                ("Updated", when(found.get("UpdateTime"))),
            ],
        )
    )
    if version:
        print_contents(session, version)
    section(session, "Taskgroups", TASKGROUPS, groups)
    section(session, "Transactions", TRANSACTIONS, with_names(operations))
    if events:
        print_events(session, namespace, name)


def _counts(application: Json) -> str:
    running, present, defined = (application[key] for key in ("RunningInstances", "Instances", "DefineInstances"))
    return f"{running} running, {present} present, {defined} defined"


FUNCTIONS = {
    "applications": Functions(
        APPLICATIONS,
        _reading(documents=False),
        describe_application,
        explain=explain_application,
        read_documents=_reading(documents=True),
    ),
    "definition": Functions(DEFINITION, read_definition),
    "versions": Functions(VERSIONS, read_versions),
}
