"""Daemonsets: apply, update, delete, and following an update to its end."""

from __future__ import annotations

from typing import Any

from bcs_scheduler.api.views.base import rfc3339
from bcs_scheduler.cli.client import Accepted, Json
from bcs_scheduler.cli.documents import Document
from bcs_scheduler.cli.errors import CliError, Conflict, NotFound, UsageError
from bcs_scheduler.cli.handling import Handling, UpdateOptions, refuse_counts, report, verb
from bcs_scheduler.cli.options import Session
from bcs_scheduler.cli.waiting import Look, wait_until

KIND = "daemonset"
REMEDY = (
    "`bcs explain {name}` tells more, `bcs rollout undo daemonset/{name}` goes back, "
    "`bcs rollout restart daemonset/{name}` tries again"
)


def apply(session: Session, document: Document, dry_run: bool) -> Accepted:
    client = session.client
    try:
        client.daemonset(document.namespace, document.name)
    except NotFound:
        accepted = client.create_daemonset(document.body, dry_run=dry_run)
        report(session, KIND, document.name, "created", accepted, dry_run)
        return accepted
    accepted = client.update_daemonset(document.body, dry_run=dry_run)
    report(session, KIND, document.name, verb(accepted, "updated"), accepted, dry_run)
    return accepted


def update(session: Session, document: Document, options: UpdateOptions) -> Accepted:
    refuse_counts(document, options)
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
        raise UsageError(f"the update of a daemonset cannot be {action}d; bcs rollout undo {KIND}/{name} goes back")
    accepted = session.client.restart_daemonset(namespace, name, dry_run=dry_run)
    report(session, KIND, name, "restarting in steps", accepted, dry_run)
    return accepted


def delete(session: Session, namespace: str, name: str, enforce: bool, dry_run: bool) -> Accepted:
    accepted = session.client.delete_daemonset(namespace, name, enforce=enforce, dry_run=dry_run)
    report(session, KIND, name, "deletion started", accepted, dry_run)
    return accepted


def settle(session: Session, namespace: str, name: str, accepted: Accepted) -> None:
    found = wait_for_daemonset(session, namespace, name)
    session.report(KIND, name, "running", f"{found['counts']['ready']} taskgroups")


def settle_gone(session: Session, namespace: str, name: str, accepted: Accepted) -> None:
    def look() -> Look:
        try:
            found = session.client.daemonset(namespace, name)
        except NotFound:
            return Look(1, 1, "deleted", ended=True)
        return Look(0, 0, f"{len(found['Pods'])} taskgroups left, {standing(found)}")

    wait_until(session, name, look)
    session.report(KIND, name, "deleted")


def wait_for_daemonset(session: Session, namespace: str, name: str, limit: float | None = None) -> Json:
    """Until every agent for it has a ready taskgroup of the newest version, where one can be: the daemonset as it is
    then. Raises CliError if it gets no further by itself, Conflict if it is being deleted, TimedOut."""
    last: Json = {}

    def look() -> Look:
        nonlocal last
        last = session.client.daemonset(namespace, name)
        if last["Status"] == "Deleting":
            raise Conflict(f"daemonset {name} is being deleted")
        if last.get("stuck"):
            raise CliError(f"daemonset {name} gets no further by itself: {standing(last)}; {REMEDY.format(name=name)}")
        counts = last["counts"]
        done = min(counts["ready"], counts["updated"])
        return Look(done, counts["desired"], standing(last), ended=is_settled(last))

    wait_until(session, name, look, limit)
    return last


def is_settled(daemonset: Json) -> bool:
    """No update is under way, and every agent for it has a taskgroup that is ready."""
    return bool(daemonset["Status"] == "Running")


def standing(daemonset: Json) -> str:
    """In a few words."""
    counts = daemonset["counts"]
    words = f"{daemonset['Status']}, {counts['ready']} of {counts['desired']} ready, {counts['updated']} up to date"
    telling = daemonset["Status"] != "Running" or counts["updated"] < counts["desired"]
    return f"{words}: {daemonset['message']}" if telling and daemonset["message"] else words


def history(session: Session, namespace: str, name: str) -> list[Json]:
    """Stored versions, oldest first, as `bcs rollout history` shows them."""
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
    """One of them, with its definition."""
    definition = session.client.version(namespace, name, version)
    found = [known for known in history(session, namespace, name) if known["revision"] == version]
    return {**(found[0] if found else {"revision": version}), "definition": definition}


HANDLING = Handling(apply, update, delete, settle, settle_gone, None, rollback)
