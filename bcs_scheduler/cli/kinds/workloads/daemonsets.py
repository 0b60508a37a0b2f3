"""Daemonsets: columns, operations, descriptions, and waiting for updates."""

from __future__ import annotations

from typing import Any

from bcs_scheduler.cli.client.types import Accepted, Json
from bcs_scheduler.cli.crashes import CrashWatch
from bcs_scheduler.cli.documents import Document, Operations, UpdateOptions, reject_counts, report, verb
from bcs_scheduler.cli.errors import CliError, Conflict, NotFound, UsageError
from bcs_scheduler.cli.kinds.base import Found, Functions, Read
from bcs_scheduler.cli.kinds.workloads.applications import print_contents, read_version
from bcs_scheduler.cli.kinds.workloads.history import events_of, print_events, section
from bcs_scheduler.cli.kinds.workloads.transactions import TRANSACTIONS, with_names
from bcs_scheduler.cli.output.data import print_data
from bcs_scheduler.cli.output.tables import Column, age_column, field_list, reason_column, table, time_column
from bcs_scheduler.cli.output.text import counted, pairs, status_text, when
from bcs_scheduler.cli.session import Session
from bcs_scheduler.cli.waiting import Look, wait_until
from bcs_scheduler.wire.times import rfc3339
from store.advice import advise
from store.keys import object_key

KIND = "daemonset"


def create(session: Session, document: Document, dry_run: bool) -> Accepted:
    accepted = session.client.create_daemonset(document.body, dry_run=dry_run)
    report(session, KIND, document.name, "created", accepted, dry_run)
    return accepted


def apply(session: Session, document: Document, dry_run: bool) -> Accepted:
    try:
        session.client.daemonset(document.namespace, document.name)
    except NotFound:
        return create(session, document, dry_run)
    accepted = session.client.update_daemonset(document.body, dry_run=dry_run)
    report(session, KIND, document.name, verb(accepted, "updated"), accepted, dry_run)
    return accepted


def update(session: Session, document: Document, options: UpdateOptions) -> Accepted:
    reject_counts(document, options)
    if options.resources_only:
        raise UsageError(f"{document.source}: --resources-only is for applications and deployments")
    accepted = session.client.update_daemonset(document.body, dry_run=options.dry_run)
    report(session, KIND, document.name, verb(accepted, "updated"), accepted, options.dry_run)
    return accepted


def rollback(session: Session, namespace: str, name: str, version: str | None, dry_run: bool) -> Accepted:
    accepted = session.client.rollback_daemonset(namespace, name, version, dry_run=dry_run)
    report(session, KIND, name, verb(accepted, "rolling back"), accepted, dry_run)
    return accepted


def control(session: Session, namespace: str, name: str, action: str, dry_run: bool) -> Any:
    if action != "restart":
        way = f"; {advise('roll_back_daemonset', name=name)}" if len(history(session, namespace, name)) > 1 else ""
        raise UsageError(f"daemonsets do not support {action}{way}")
    accepted = session.client.restart_daemonset(namespace, name, dry_run=dry_run)
    report(session, KIND, name, "replacing taskgroups", accepted, dry_run)
    return accepted


def delete(session: Session, namespace: str, name: str, force: bool, dry_run: bool) -> Accepted:
    accepted = session.client.delete_daemonset(namespace, name, force=force, dry_run=dry_run)
    report(session, KIND, name, "deletion started", accepted, dry_run)
    return accepted


def wait_applied(session: Session, namespace: str, name: str, accepted: Accepted) -> None:
    found = wait_for_daemonset(session, namespace, name)
    session.report(KIND, name, "running", counted(found["counts"]["ready"], "taskgroup"))


def wait_deleted(session: Session, namespace: str, name: str, accepted: Accepted) -> None:
    def look() -> Look:
        try:
            found = session.client.daemonset(namespace, name)
        except NotFound:
            return Look(1, 1, "deleted", ended=True)
        return Look(0, 0, f"{counted(len(found['Pods']), 'taskgroup')} left, {status_line(found)}")

    wait_until(session, name, look)
    session.report(KIND, name, "deleted")


def wait_for_daemonset(session: Session, namespace: str, name: str, limit: float | None = None) -> Json:
    """Waits until every matching agent has had a ready taskgroup of the newest version for the time of --stable.
    Returns the daemonset.

    Raises CliError if the update is stuck, or with the reason when a taskgroup fails, Conflict if the daemonset is
    being deleted, TimedOut.
    """
    last: Json = {}
    watch = CrashWatch(session, namespace, name)

    def look() -> Look:
        nonlocal last
        last = session.client.daemonset(namespace, name)
        if last["Status"] == "Deleting":
            raise Conflict(f"daemonset {name} is being deleted")
        if last.get("stuck"):
            earlier = len(history(session, namespace, name)) > 1
            ways = advise("stuck_daemonset" if earlier else "stuck_first_daemonset", name=name)
            raise CliError(f"daemonset {name} is stuck: {status_line(last)}; {ways}")
        counts = last["counts"]
        done = min(counts["ready"], counts["updated"])
        ended = is_complete(last)
        try:  # the taskgroups are those of an application of the same name
            stable = watch.stable(session.client.application(namespace, name), ended)
        except NotFound:
            stable = True
        return Look(done, counts["desired"], status_line(last), ended=ended and stable)

    wait_until(session, name, look, limit)
    return last


def is_complete(daemonset: Json) -> bool:
    """No update is in progress, and every matching agent has a ready taskgroup."""
    return bool(daemonset["Status"] == "Running")


def status_line(daemonset: Json) -> str:
    """Status, counts and message on one line."""
    counts = daemonset["counts"]
    words = f"{daemonset['Status']}, {counts['ready']} of {counts['desired']} ready, {counts['updated']} up to date"
    telling = daemonset["Status"] != "Running" or counts["updated"] < counts["desired"]
    return f"{words}: {daemonset['message']}" if telling and daemonset["message"] else words


def history(session: Session, namespace: str, name: str) -> list[Json]:
    """Stored versions, oldest first, in the form of revisions of a deployment."""
    present = session.client.daemonset(namespace, name)
    return [
        {
            "revision": version,
            "current": version == present["version"],
            "instances": present["counts"]["desired"] if version == present["version"] else None,
            "why": "",
            "createTime": rfc3339(int(version) / 1e9),
        }
        for version in sorted(session.client.versions(namespace, name), key=int)
    ]


def revision(session: Session, namespace: str, name: str, version: str) -> Json:
    """One stored version, with its definition."""
    definition = session.client.version(namespace, name, version)
    found = [known for known in history(session, namespace, name) if known["revision"] == version]
    return {**(found[0] if found else {"revision": version}), "definition": definition}


OPERATIONS = Operations(create, apply, update, delete, wait_applied, wait_deleted, None, rollback)
DAEMONSETS = (
    Column("NAME", lambda d: d["name"]),
    Column("STATUS", lambda d: status_text(d["Status"])),
    Column("DESIRED", lambda d: d["counts"]["desired"], right=True),
    Column("CURRENT", lambda d: d["counts"]["current"], right=True),
    Column("READY", lambda d: d["counts"]["ready"], right=True),
    Column("UPDATED", lambda d: d["counts"]["updated"], right=True),
    Column("AVAILABLE", lambda d: d["counts"]["available"], right=True),
    age_column("AGE", lambda d: d.get("Created")),
    Column("MISSCHEDULED", lambda d: d["counts"]["misscheduled"], wide=True, right=True),
    Column("VERSION", lambda d: d["version"], wide=True),
    time_column("CREATED", lambda d: d.get("Created")),
    reason_column(lambda d: "" if d["Status"] == "Running" else d.get("reason") or d.get("message")),
)
AGENTS_OF_DAEMONSET = (
    Column("NAME", lambda a: a["hostname"]),
    Column("KEY", lambda a: a["key"], wide=True),
    Column("DESIRED", lambda a: "yes" if a["wanted"] else "no"),
    Column("STATUS", lambda a: status_text(a["status"]) if a["status"] else "-"),
    Column("READY", lambda a: "yes" if a["ready"] else "no"),
    Column("UPDATED", lambda a: "yes" if a["updated"] else "no"),
    reason_column(lambda a: a["message"]),
)


def describe_daemonset(session: Session, name: str, events: bool, form: str) -> None:
    client, namespace = session.client, session.namespace
    found = client.daemonset(namespace, name)
    agents = client.agents_of_daemonset(namespace, name)
    operations = client.transactions(namespace, name)
    if form:
        data = {"daemonset": found, "agents": agents, "transactions": operations}
        print_data(session.out, {**data, "events": events_of(client, namespace, name)} if events else data, form)
        return
    counts, meta = found["counts"], found["metadata"]
    session.show(
        field_list(
            [
                ("Name", object_key(found["namespace"], found["name"])),
                ("Status", status_text(found["Status"])),
                ("Message", found.get("message")),
                ("Reason", found.get("reason")),
                ("Progress", status_line(found)),
                (
                    "Taskgroups",
                    f"{counts['desired']} desired, {counts['current']} present, {counts['ready']} ready, "
                    f"{counts['misscheduled']} on agents that do not match",
                ),
                ("Version", found["version"]),
                ("Update", f"at most {found['maxUnavailable']} unavailable"),
                ("Labels", pairs(meta.get("labels"))),
                ("Created", when(found.get("Created"))),
                ("Changed", when(found.get("LastUpdateTime"))),
            ]
        )
    )
    if version := read_version(session, name, str(found["version"])):
        print_contents(session, version)
    session.out.print("\nAgents", "bold")
    session.show(table(AGENTS_OF_DAEMONSET, agents))
    section(session, "Transactions", TRANSACTIONS, with_names(operations))
    if events:
        print_events(session, namespace, name)


def explain_daemonset(session: Session, namespace: str, name: str) -> Json:
    """Explanation of a daemonset, with the messages of its agents."""
    found = session.client.explain_daemonset(namespace, name)
    agents = session.client.agents_of_daemonset(namespace, name)
    text = [*found["text"], *(f"agent {a['hostname']}: {a['message']}" for a in agents if a["message"])]
    return {**found, "agents": agents, "text": text}


def _reading(*, documents: bool) -> Read:
    def read(session: Session, namespace: str | None, name: str | None, selector: str) -> Found:
        if name:
            return session.client.daemonset(namespace or session.namespace, name, documents=documents)
        return session.client.daemonsets(namespace, selector=selector, documents=documents)

    return read


FUNCTIONS = {
    "daemonsets": Functions(
        DAEMONSETS,
        _reading(documents=False),
        describe_daemonset,
        OPERATIONS,
        explain_daemonset,
        _reading(documents=True),
    )
}
