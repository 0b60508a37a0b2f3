"""Commands and messages: columns, operations, descriptions."""

from __future__ import annotations

from collections.abc import Sequence

from bcs_scheduler.cli.client.lookup import find_command, find_owner, owner_target, running_kind
from bcs_scheduler.cli.client.types import Accepted, Json
from bcs_scheduler.cli.documents import Document, Operations, UpdateOptions, owner_of
from bcs_scheduler.cli.errors import UsageError
from bcs_scheduler.cli.kinds.base import Found, Functions
from bcs_scheduler.cli.kinds.objects.outcomes import outcomes, raise_failures, wait_for_outcome
from bcs_scheduler.cli.output.data import print_data
from bcs_scheduler.cli.output.tables import Column, age_column, field_list
from bcs_scheduler.cli.output.text import counted, flat, local_time, status_text, when
from bcs_scheduler.cli.session import Session
from store.keys import taskgroup_name


def _run_document(session: Session, document: Document, dry_run: bool) -> Accepted:
    kind = owner_of(document)
    sent = session.client.run_command(document.namespace, document.name, document.body, kind=kind, dry_run=dry_run)
    session.report("command", sent.command, "started", "dry run" if dry_run else "", dryRun=dry_run)
    return Accepted("", (kind, sent))


def _update_document(session: Session, document: Document, options: UpdateOptions) -> Accepted:
    raise UsageError(f"{document.source}: a Command cannot be updated")


def _forget(session: Session, namespace: str, identity: str, force: bool, dry_run: bool) -> Accepted:
    found = find_command(session.client, namespace, identity)["spec"]["commandTargetRef"]
    accepted = session.client.forget_command(
        found["namespace"], found["name"], identity, kind=found.get("kind", "application").lower(), dry_run=dry_run
    )
    session.report("command", identity, "deleted", "dry run" if dry_run else "", dryRun=dry_run)
    return accepted


def _wait_for_command(session: Session, namespace: str, name: str, accepted: Accepted) -> None:
    kind, sent = accepted.data
    found = wait_for_outcome(session, owner_target(session.client, namespace, kind, name), sent, name)
    raise_failures(f"command {sent.command}", found)
    session.report("command", sent.command, "finished", outcomes=[each.shown() for each in found])


COMMAND_OPERATIONS = Operations(_run_document, _run_document, _update_document, _forget, _wait_for_command)


def _answered(command: Json) -> str:
    groups = command["status"]["taskgroups"]
    return f"{sum(1 for group in groups if group['status'] not in ('staging', 'running'))}/{len(groups)}"


def _content(command: Json) -> str:
    if command["type"] == "command":
        return flat(" ".join(command["spec"].get("command") or ()))
    return flat(body_text(command))


def body_text(command: Json) -> str:
    """Fields of the message of a command, without its type."""
    body = {key: value for key, value in (command.get("body") or {}).items() if value}
    limits = body.pop("limits", ())
    parts = [f"{key}={value}" for key, value in body.items()]
    parts += [f"container {one['index']}: {one['cpus'] / 1000:g} cores, {one['mem'] / 1000:g} MB" for one in limits]
    return ", ".join(parts)


def _exit_codes(message: Json) -> str:
    outputs = [result.get("commInspect") for result in message.get("results") or message.get("Results") or ()]
    return ",".join(str(output["exitCode"]) for output in outputs if output)


COMMAND_COLUMNS: Sequence[Column] = (
    Column("ID", lambda c: c["id"], whole=True),
    Column("TYPE", lambda c: c["type"]),
    Column("STATE", lambda c: status_text(c["state"])),
    Column("ANSWERED", _answered, right=True),
    age_column("AGE", lambda c: c.get("createTime")),
    Column("CONTENT", _content, long=True),
)
MESSAGES: Sequence[Column] = (
    Column("TASKGROUP", lambda m: taskgroup_name(m["TaskGroupId"])),
    Column("TYPE", lambda m: m.get("Kind")),
    Column("STATUS", lambda m: status_text(m["Status"])),
    Column("EXIT", _exit_codes, right=True),
    age_column("AGE", lambda m: m.get("CreateTime")),
    Column("ID", lambda m: m["Id"], wide=True),
    Column("TASKGROUP ID", lambda m: m["TaskGroupId"], wide=True),
    Column("MESSAGE", lambda m: m.get("Message"), long=True, optional=True),
)


def read_commands(session: Session, namespace: str | None, name: str | None, selector: str) -> Found:
    assert name is not None
    if name.startswith(("Application-", "Deployment-")):
        return find_command(session.client, session.namespace, name)
    kind, name = find_owner(session.client, session.namespace, name)
    return session.client.commands(session.namespace, name, kind=running_kind(kind))


def read_messages(session: Session, namespace: str | None, name: str | None, selector: str) -> Found:
    assert name is not None
    return session.client.messages(session.namespace, name)


def describe_command(session: Session, name: str, events: bool, form: str) -> None:
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
                ("Not sent", _not_sent(found)),
                ("Command", " ".join(found["spec"].get("command") or ())),
                ("Body", body_text(found)),
                ("Created", when(found.get("createTime"))),
                ("Deadline", when(found.get("deadline"))),
                ("Stored until", local_time(found.get("keepUntil"))),
            ]
        )
    )
    for outcome in outcomes(found):
        session.out.print(f"\n{outcome.name} {outcome.task}", "bold")
        session.show(
            field_list(
                [
                    ("  Message", outcome.message),
                    ("  Exit code", outcome.exit_code),
                    ("  Output", outcome.stdout.rstrip()),
                    ("  Errors", outcome.stderr.rstrip()),
                    ("  Truncated", "yes" if outcome.truncated else ""),
                ]
            )
        )


def _not_sent(command: Json) -> str:
    meant = int(command.get("targets") or 0)
    missing = meant - len(command["status"]["taskgroups"])
    return (
        f"{missing} of {counted(meant, 'taskgroup')}: the leader changed while the messages were stored"
        if missing > 0
        else ""
    )


FUNCTIONS = {
    "commands": Functions(COMMAND_COLUMNS, read_commands, describe_command, COMMAND_OPERATIONS),
    "messages": Functions(MESSAGES, read_messages, name=lambda message: str(message["Id"])),
}
