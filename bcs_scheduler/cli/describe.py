"""`bcs describe` and `bcs explain`: one object in full, and why it is not further."""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Callable
from typing import Any

import click
from rich.text import Text

from bcs_scheduler.cli.client import Json
from bcs_scheduler.cli.complete import kind_names, names_of_kind, owner_names
from bcs_scheduler.cli.daemonsetdetails import describe_daemonset, explain_daemonset
from bcs_scheduler.cli.deploymentviews import describe_deployment, explain_deployment
from bcs_scheduler.cli.errors import UsageError
from bcs_scheduler.cli.extensions import describe_namespace, describe_webhook
from bcs_scheduler.cli.get import kind_argument, known_kind
from bcs_scheduler.cli.instructing import outcomes
from bcs_scheduler.cli.lookup import (
    application_of,
    find_agent,
    find_command,
    find_owner,
    find_taskgroup,
    find_transaction,
)
from bcs_scheduler.cli.options import (
    FORMATS,
    Session,
    chosen_format,
    connection_options,
    output_option,
    pass_session,
)
from bcs_scheduler.cli.output import (
    field_list,
    local_time,
    one_line,
    print_data,
    status_text,
)
from bcs_scheduler.cli.services import describe_endpoint, describe_service
from bcs_scheduler.cli.story import pairs, print_story, section, story_of, when
from bcs_scheduler.cli.views import attributes_text, body_text, health_text, ports_of

Show = Callable[[Session, str, bool, str], None]
"""Session, name, with its story, format: empty for text."""


@click.command()
@click.argument("kind", callback=kind_argument, shell_complete=kind_names)
@click.argument("name", shell_complete=names_of_kind)
@click.option("--story", is_flag=True, help="Also what happened to it, in order, as far as it is remembered.")
@click.option("-o", "--output", type=click.Choice(FORMATS), help="Default: text, to a pipe as well.")
@connection_options
@pass_session
def describe(session: Session, kind: str, name: str, story: bool, output: str | None) -> None:
    """Show one object of KIND in full.

    KIND is deployment, daemonset, application, taskgroup, transaction, agent, service, endpoint, configmap, secret,
    command, namespace or webhook.
    """
    kind = known_kind(session, kind)
    show = SHOWS.get(kind)
    if show is None:
        raise UsageError(f"describe knows {', '.join(SHOWS)}, not {kind}")
    # Text is what describe is for; only an explicit -o asks for data.
    show(session, name, story, output if output in ("json", "yaml") else "")


@click.command()
@click.argument("name", shell_complete=owner_names)
@output_option
@connection_options
@pass_session
def explain(session: Session, name: str, output: str | None) -> None:
    """Say why deployment or application NAME is not (fully) running, and what would have to change."""
    kind, name = find_owner(session.client, session.namespace, name)
    found = EXPLAINS[kind](session, session.namespace, name)
    form = chosen_format(output)
    if form in ("json", "yaml"):
        print_data(session.out, found, form)
        return
    for line in found["text"]:
        session.say(line)


def _explain_application(session: Session, namespace: str, name: str) -> Json:
    return session.client.explain(namespace, name)


EXPLAINS: dict[str, Callable[[Session, str, str], Json]] = {
    "application": _explain_application,
    "deployment": explain_deployment,
    "daemonset": explain_daemonset,
}
"""By kind of owner; `text` of what they give is what is said."""


def _application(session: Session, name: str, story: bool, form: str) -> None:
    client, namespace = session.client, session.namespace
    found = client.application(namespace, name)
    groups = client.taskgroups(namespace, name)
    operations = client.transactions(namespace, name)
    if form:
        data = {"application": found, "taskgroups": groups, "transactions": operations}
        print_data(session.out, {**data, "story": story_of(client, namespace, name)} if story else data, form)
        return
    session.show(
        field_list(
            [
                ("Name", f"{found['RunAs']}/{found['Name']}"),
                ("Kind", found.get("Kind")),
                ("Deployment", found.get("Deployment")),
                ("Status", status_text(found["Status"])),
                ("Message", found.get("Message")),
                ("Taskgroups", _counts(found)),
                ("Labels", pairs((found.get("ObjectMeta") or {}).get("labels"))),
                ("Created", when(found.get("Created"))),
                ("Updated", when(found.get("UpdateTime"))),
            ],
        )
    )
    section(session, "Taskgroups", "taskgroups", groups)
    section(session, "Transactions", "transactions", operations)
    if story:
        print_story(session, namespace, name)


def _taskgroup(session: Session, name: str, story: bool, form: str) -> None:
    group = find_taskgroup(session.client, session.namespace, name)
    if form:
        print_data(session.out, group, form)
        return
    session.show(
        field_list(
            [
                ("ID", group["ID"]),
                ("Name", group["Name"]),
                ("Status", status_text(group["Status"])),
                ("Message", group.get("Message")),
                ("Host", f"{group.get('HostName')} (agent {group.get('AgentID')})"),
                ("Ports", ", ".join(f"{name} {port}" for name, port in ports_of(group))),
                ("Version", group.get("VersionName")),
                ("Restarts", group.get("ReschededTimes")),
                ("Started", when(group.get("StartTime"))),
                ("Updated", when(group.get("UpdateTime"))),
            ],
        )
    )
    for task in group.get("Taskgroup") or ():
        session.out.print(Text(f"\nTask {task['ID']}", style="bold"))
        session.show(field_list(_task_fields(task)))
    if story:
        print_story(session, *application_of(group["ID"]), about=group["ID"])


def _task_fields(task: Json) -> list[tuple[str, Any]]:
    command = " ".join([task.get("Command") or "", *(task.get("Arguments") or ())]).strip()
    checks = [
        f"{check['type']} {'ok' if check['result'] else 'fails'}{': ' if check['message'] else ''}{check['message']}"
        for check in task.get("HealthCheckStatus") or ()
    ]
    return [
        ("  Status", status_text(task["Status"])),
        ("  Message", task.get("Message")),
        ("  Health", health_text(task) if checks else ""),
        *(("  Check", check) for check in checks),
        ("  Process", task.get("Pid") or ""),
        ("  Container", task.get("ContainerID")),
        ("  Address", task.get("ContainerIP")),
        ("  Exit code", task.get("ExitCode")),
        ("  Out of memory", "yes" if task.get("OOMKilled") else ""),
        ("  Started", when(task.get("StartTime"))),
        ("  Ended", when(task.get("FinishTime"))),
        ("  Image", task.get("Image")),
        ("  Command", one_line(command, 100)),
    ]


def _configuration(kind: str) -> Show:
    def show(session: Session, name: str, story: bool, form: str) -> None:
        found = session.client.configuration(kind, session.namespace, name)
        if form:
            print_data(session.out, found, form)
            return
        head = found["metadata"]
        session.show(
            field_list(
                [
                    ("Name", f"{head['namespace']}/{head['name']}"),
                    ("Labels", pairs(head.get("labels"))),
                    ("Created", when(head.get("creationTimestamp"))),
                    ("Updated", when(head.get("updateTimestamp"))),
                ]
            )
        )
        session.out.print(Text("\nKeys", style="bold"))
        session.show(field_list([(f"  {key}", _item(item)) for key, item in found["datas"].items()]))

    return show


def _item(item: Json) -> str:
    """What a configmap or secret holds under a key, without the content."""
    if "digest" in item:
        return f"{item['size']} bytes, digest {item['digest']}"
    if item.get("type") in ("http", "https"):
        return f"{item['content']}{' as ' + item['remoteUser'] if item.get('remoteUser') else ''}"
    return f"{len(b64decode(item['content']))} bytes"


def _command(session: Session, name: str, story: bool, form: str) -> None:
    found = find_command(session.client, session.namespace, name)
    if form:
        print_data(session.out, found, form)
        return
    session.show(
        field_list(
            [
                ("ID", found["id"]),
                ("Type", found["type"]),
                ("State", status_text(found["state"])),
                ("Not told", _not_told(found)),
                ("Command", " ".join(found["spec"].get("command") or ())),
                ("Body", body_text(found)),
                ("Created", when(found.get("createTime"))),
                ("Deadline", when(found.get("deadline"))),
                ("Kept until", local_time(found.get("keepUntil"))),
            ]
        )
    )
    for outcome in outcomes(found):
        session.out.print(Text(f"\n{outcome.name} {outcome.task}", style="bold"))
        session.show(
            field_list(
                [
                    ("  Message", outcome.message),
                    ("  Exit code", outcome.exit_code),
                    ("  Output", outcome.stdout.rstrip()),
                    ("  Errors", outcome.stderr.rstrip()),
                    ("  Cut off", "yes" if outcome.truncated else ""),
                ]
            )
        )


def _transaction(session: Session, name: str, story: bool, form: str) -> None:
    found = find_transaction(session.client, session.namespace, name)
    if form:
        print_data(session.out, found, form)
        return
    session.show(
        field_list(
            [
                ("ID", found["transactionID"]),
                ("Operation", (found.get("curOp") or {}).get("opType")),
                ("Object", f"{found.get('objectKind')} {found.get('namespace')}/{found.get('objectName')}"),
                ("Status", status_text(found["status"])),
                ("Message", found.get("message")),
                ("Progress", f"{found.get('progress', 0)} of {found['target']}" if found.get("target") else ""),
                ("Created", when(found.get("createTime"))),
                ("Deadline", local_time(found.get("deadline"))),
                ("Ended", when(found["finishTime"]) if found.get("finishTime") else ""),
            ],
        )
    )
    session.out.print(Text("\nHistory", style="bold"))
    for note in found.get("history") or ():
        session.say(f"  {_note(note)}")


def _agent(session: Session, name: str, story: bool, form: str) -> None:
    agent = find_agent(session.client, name)
    if form:
        print_data(session.out, agent, form)
        return
    state = "disabled" if agent.get("disabled") else "enabled"
    session.show(
        field_list(
            [
                ("Host", agent.get("hostname")),
                ("IP", agent.get("ip")),
                ("ID", agent.get("id")),
                ("Settings", f"under {agent.get('key')}"),
                ("Status", status_text(state)),
                ("Drain", agent.get("drain")),
                ("Registered", when((agent.get("registered_time") or 0) / 1e9)),
                ("Taskgroups", agent.get("taskgroups")),
                *((title, f"{agent[f'{key}used']:g} of {agent[f'{key}total']:g}") for title, key in AMOUNTS),
                ("Attributes", attributes_text(agent.get("attributes") or ())),
                ("Taints", pairs(agent.get("taints"))),
                ("Extended", pairs(agent.get("extended"))),
            ]
        )
    )


AMOUNTS = (("CPU cores", "cpu"), ("Memory MB", "mem"), ("Disk MB", "disk"), ("GPUs", "gpu"))
SHOWS: dict[str, Show] = {
    "applications": _application,
    "taskgroups": _taskgroup,
    "transactions": _transaction,
    "agents": _agent,
    "deployments": describe_deployment,
    "daemonsets": describe_daemonset,
    "services": describe_service,
    "endpoints": describe_endpoint,
    "namespaces": describe_namespace,
    "webhooks": describe_webhook,
    "configmaps": _configuration("configmap"),
    "secrets": _configuration("secret"),
    "commands": _command,
}


def _note(note: Any) -> str:
    return f"{local_time(note.get('at'))}  {note.get('text')}" if isinstance(note, dict) else str(note)


def _not_told(command: Json) -> str:
    meant = int(command.get("targets") or 0)
    missing = meant - len(command["status"]["taskgroups"])
    return f"{missing} of {meant} taskgroups: the leader changed while it was written" if missing > 0 else ""


def _counts(application: Json) -> str:
    running, there, wanted = (application[key] for key in ("RunningInstances", "Instances", "DefineInstances"))
    return f"{running} running, {there} there, {wanted} wanted"
