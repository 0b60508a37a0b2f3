"""Deployments: apply, update, scale, delete, and following a rolling update to its end."""

from __future__ import annotations

import time
from typing import Any

from bcs_scheduler.api.documents.shapes import complete
from bcs_scheduler.cli.client import Accepted, Json, Told
from bcs_scheduler.cli.documents import Document
from bcs_scheduler.cli.errors import CliError, Conflict, NotFound, UsageError
from bcs_scheduler.cli.handling import Handling, UpdateOptions, instances_of, refuse_counts, report, verb
from bcs_scheduler.cli.instructing import raise_failures, wait_for_outcome
from bcs_scheduler.cli.lookup import find_message_target
from bcs_scheduler.cli.options import Session
from bcs_scheduler.cli.waiting import Look, wait_until

KIND = "deployment"


def apply(session: Session, document: Document, dry_run: bool) -> Accepted:
    client = session.client
    try:
        existing = client.deployment(document.namespace, document.name)
    except NotFound:
        accepted = client.create_deployment(document.body, dry_run=dry_run)
        report(session, KIND, document.name, "created", accepted, dry_run)
        return accepted
    if _has_template(document.body):
        return _updated(session, document, dry_run)
    return _adopted(session, document, existing, dry_run)


def _updated(session: Session, document: Document, dry_run: bool) -> Accepted:
    accepted = session.client.update_deployment(document.body, dry_run=dry_run)
    report(session, KIND, document.name, verb(accepted, "updated"), accepted, dry_run)
    return accepted


def _adopted(session: Session, document: Document, existing: Json, dry_run: bool) -> Accepted:
    """A document without a template says how many of what was adopted there are, and nothing else may differ from what
    is stored: that is refused by the server, which misses the template."""
    stored = session.client.deployment_definition(document.namespace, document.name)
    if _but_number(document.body) != _but_number(stored):
        return _updated(session, document, dry_run)
    wanted = instances_of(document.body)
    if wanted is not None and wanted != existing["instances"]:
        return scale(session, document.namespace, document.name, wanted, dry_run)
    accepted = Accepted("", {"unchanged": True})
    report(session, KIND, document.name, "unchanged", accepted, dry_run)
    return accepted


def update(session: Session, document: Document, options: UpdateOptions) -> Accepted:
    refuse_counts(document, options)
    accepted = session.client.update_deployment(
        document.body, resources_only=options.resources_only, dry_run=options.dry_run
    )
    report(session, KIND, document.name, verb(accepted, "updated"), accepted, options.dry_run)
    return accepted


def scale(session: Session, namespace: str, name: str, instances: int, dry_run: bool) -> Accepted:
    accepted = session.client.scale_deployment(namespace, name, instances, dry_run=dry_run)
    report(session, KIND, name, verb(accepted, f"scaled to {instances}"), accepted, dry_run)
    return accepted


def rollback(session: Session, namespace: str, name: str, revision: str | None, dry_run: bool) -> Accepted:
    if revision is not None and not (revision.isascii() and revision.isdigit()):
        raise UsageError(f"{revision!r} is no revision of a deployment: a number, see bcs rollout history {name}")
    number = None if revision is None else int(revision)
    accepted = session.client.rollback_deployment(namespace, name, number, dry_run=dry_run)
    report(session, KIND, name, verb(accepted, "rolling back"), accepted, dry_run)
    return accepted


def delete(session: Session, namespace: str, name: str, enforce: bool, dry_run: bool) -> Accepted:
    accepted = session.client.delete_deployment(namespace, name, enforce=enforce, dry_run=dry_run)
    report(session, KIND, name, "deletion started", accepted, dry_run)
    return accepted


def settle(session: Session, namespace: str, name: str, accepted: Accepted) -> None:
    """Limits change by a message to each taskgroup, everything else in steps."""
    data = accepted.data if isinstance(accepted.data, dict) else {}
    if data.get("commandID"):
        target = find_message_target(session.client, namespace, f"{KIND}/{name}")
        told = Told(str(data["commandID"]), [])
        raise_failures("the change of limits", wait_for_outcome(session, target, told, name))
        session.report(KIND, name, "limits changed")
        return
    found = wait_for_rollout(session, namespace, name, revision=int(data.get("revision") or 0))
    session.report(KIND, name, "running", f"revision {found['revision']}")


def settle_gone(session: Session, namespace: str, name: str, accepted: Accepted) -> None:
    def look() -> Look:
        try:
            found = session.client.deployment(namespace, name)
        except NotFound:
            return Look(1, 1, "deleted", ended=True)
        return Look(0, 0, f"{found['counts']['present']} taskgroups left, {standing(found)}")

    wait_until(session, name, look)
    session.report(KIND, name, "deleted")


def wait_for_rollout(
    session: Session, namespace: str, name: str, *, revision: int = 0, limit: float | None = None, undoing: bool = False
) -> Json:
    """Until all taskgroups are as they are wanted and available: the deployment as it is then.

    `revision` is the one that is waited for, 0 = the one that is wanted at the first look; `undoing`: going back is
    what was asked for. Raises CliError if the update was suspended or undone, Conflict if it is paused, TimedOut after
    `limit` seconds or the session's limit.
    """
    last: Json = {}
    wanted, undone = revision, False
    deadline = time.monotonic() + (session.wait_limit if limit is None else limit)

    def look() -> Look:
        nonlocal last, wanted, undone
        last = _news(session, namespace, name, last, deadline - time.monotonic())
        wanted = wanted or int(last["nextRevision"] or last["revision"])
        undone = undone or _goes_back(last, wanted)
        _raise_halts(name, last)
        progress = last["progress"]
        return Look(progress["done"], progress["total"], standing(last), ended=is_settled(last))

    wait_until(session, name, look, limit)
    if undone and not undoing:
        why = last.get("message") or f"revision {last['revision']} runs again"
        raise CliError(f"deployment {name}: the update to revision {wanted} was rolled back: {why}")
    return last


def _goes_back(deployment: Json, wanted: int) -> bool:
    """It is not brought to the wanted revision, nor is that to follow."""
    if int(deployment["nextRevision"]) >= wanted:
        return False
    return bool(deployment["rollingBack"] or int(deployment["revision"]) < wanted)


def is_settled(deployment: Json) -> bool:
    """No update is under way, and everything that is wanted is available."""
    progress = deployment["progress"]
    return bool(deployment["status"] == "Running" and progress["done"] >= progress["total"])


def standing(deployment: Json) -> str:
    """In a few words: what has moved, or why nothing does."""
    counts = deployment["counts"]
    parts = [deployment["status"]]
    if deployment["application_ext"] is not None:
        parts.append(f"revision {deployment['revision']}: {counts['newReady']} of {deployment['instances']} ready")
        parts.append(f"{counts['old']} old")
    elif deployment["progress"]["done"] < deployment["progress"]["total"]:
        parts.append(f"{counts['available']} of {deployment['instances']} available")
    if deployment["rollingBack"]:
        following = deployment["nextRevision"]
        parts.append(f"rolling back, revision {following} follows" if following else "rolling back")
    message = deployment.get("message")
    return ", ".join(parts) + (f": {message}" if message else "")


def _raise_halts(name: str, deployment: Json) -> None:
    """What does not go on by itself."""
    match deployment["status"]:
        case "UpdateSuspend":
            raise CliError(
                f"deployment {name} is suspended: {deployment.get('message') or 'a step did not end in time'}; "
                f"`bcs rollout resume {name}` tries again, `bcs rollout cancel {name}` goes back, "
                "applying something else goes back and then on to that"
            )
        case "UpdatePaused":
            raise Conflict(f"deployment {name} is paused ({standing(deployment)}); `bcs rollout resume {name}` goes on")
        case "Deleting":
            raise Conflict(f"deployment {name} is being deleted")
        case "Running":
            progressing = next(c for c in deployment["conditions"] if c["type"] == "Progressing")
            if progressing["reason"] in ("LaunchFailed", "Ended"):
                raise CliError(f"deployment {name} does not become available: {progressing['message']}")


def _news(session: Session, namespace: str, name: str, last: Json, left: float) -> Json:
    """The deployment at once at first, then when it has changed or after `left` seconds."""
    if not last:
        return session.client.deployment(namespace, name)
    return session.client.watch_deployment(namespace, name, last["resourceVersion"], timeout=max(0.0, left))


def _but_number(body: Json) -> Json:
    """The document as it is kept, but for the number of taskgroups."""
    found, _ = complete({"kind": KIND, **body})
    return {**found, "spec": {**(found.get("spec") or {}), "instance": None}}


def _has_template(body: Json) -> bool:
    spec: Any = body.get("spec")
    return isinstance(spec, dict) and spec.get("template") is not None


HANDLING = Handling(apply, update, delete, settle, settle_gone, scale, rollback)
