"""Operations on deployments, and waiting for updates."""

from __future__ import annotations

import time
from typing import Any

from bcs_scheduler.cli.client.lookup import find_message_target
from bcs_scheduler.cli.client.types import Accepted, Json, SentMessages
from bcs_scheduler.cli.crashes import CrashWatch
from bcs_scheduler.cli.documents import (
    Document,
    Operations,
    UpdateOptions,
    instances_of,
    reject_counts,
    report,
    updated_to,
    verb,
)
from bcs_scheduler.cli.errors import CliError, Conflict, NotFound, UsageError
from bcs_scheduler.cli.kinds.objects.outcomes import raise_failures, wait_for_outcome
from bcs_scheduler.cli.kinds.workloads.deployments import is_complete, status_line
from bcs_scheduler.cli.output.text import counted
from bcs_scheduler.cli.session import Session
from bcs_scheduler.cli.waiting import Look, wait_until
from store.advice import advise

KIND = "deployment"
HALT = 2.0
"""Seconds that a command waits for the end of an update whose taskgroup has failed."""


def create(session: Session, document: Document, dry_run: bool) -> Accepted:
    accepted = session.client.create_deployment(document.body, dry_run=dry_run)
    report(session, KIND, document.name, "created", accepted, dry_run)
    return accepted


def apply(session: Session, document: Document, dry_run: bool) -> Accepted:
    try:
        existing = session.client.deployment(document.namespace, document.name)
    except NotFound:
        return create(session, document, dry_run)
    if _has_template(document.body):
        return _updated(session, document, existing, dry_run)
    return _adopted(session, document, existing, dry_run)


def _updated(session: Session, document: Document, existing: Json, dry_run: bool) -> Accepted:
    accepted = session.client.update_deployment(document.body, dry_run=dry_run)
    done = updated_to(document.body, existing["instances"])
    report(session, KIND, document.name, verb(accepted, done), accepted, dry_run)
    return accepted


def _adopted(session: Session, document: Document, existing: Json, dry_run: bool) -> Accepted:
    """Applies a document without a template, which belongs to an adopted application: only the number of taskgroups may
    differ. The server rejects other differences because the template is missing."""
    stored = session.client.deployment_definition(document.namespace, document.name)
    if _without_instances(document.body) != _without_instances(stored):
        return _updated(session, document, existing, dry_run)
    wanted = instances_of(document.body)
    if wanted is not None and wanted != existing["instances"]:
        return scale(session, document.namespace, document.name, wanted, dry_run)
    accepted = Accepted("", {"unchanged": True})
    report(session, KIND, document.name, "unchanged", accepted, dry_run)
    return accepted


def update(session: Session, document: Document, options: UpdateOptions) -> Accepted:
    reject_counts(document, options)
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
        raise UsageError(f"{revision!r} is not a revision number; {advise('list_revisions', name=name)}")
    number = None if revision is None else int(revision)
    accepted = session.client.rollback_deployment(namespace, name, number, dry_run=dry_run)
    report(session, KIND, name, verb(accepted, "rolling back"), accepted, dry_run)
    return accepted


def delete(session: Session, namespace: str, name: str, force: bool, dry_run: bool) -> Accepted:
    accepted = session.client.delete_deployment(namespace, name, force=force, dry_run=dry_run)
    report(session, KIND, name, "deletion started", accepted, dry_run)
    return accepted


def wait_applied(session: Session, namespace: str, name: str, accepted: Accepted) -> None:
    """Waits for the messages of a change of limits, or else for the end of the update."""
    data = accepted.data if isinstance(accepted.data, dict) else {}
    if data.get("commandID"):
        target = find_message_target(session.client, namespace, f"{KIND}/{name}")
        sent = SentMessages(str(data["commandID"]), [])
        raise_failures("the change of limits", wait_for_outcome(session, target, sent, name))
        session.report(KIND, name, "limits changed")
        return
    found = wait_for_rollout(session, namespace, name, revision=int(data.get("revision") or 0))
    session.report(KIND, name, "running", f"revision {found['revision']}")


def wait_deleted(session: Session, namespace: str, name: str, accepted: Accepted) -> None:
    def look() -> Look:
        try:
            found = session.client.deployment(namespace, name)
        except NotFound:
            return Look(1, 1, "deleted", ended=True)
        return Look(0, 0, f"{counted(found['counts']['present'], 'taskgroup')} left, {status_line(found)}")

    wait_until(session, name, look)
    session.report(KIND, name, "deleted")


def wait_for_rollout(
    session: Session,
    namespace: str,
    name: str,
    *,
    revision: int = 0,
    limit: float | None = None,
    rollback_expected: bool = False,
) -> Json:
    """Waits until all taskgroups have the wanted revision and are available, and all others have ended. Returns the
    deployment.

    `revision`: the wanted one; 0 = the one that is wanted at the first poll. `rollback_expected`: the user asked for a
    rollback; without a wanted revision, a rollback that is in progress on request at the first poll is expected, too.
    `limit`: seconds; None = the limit of the session. Raises CliError if the update was suspended or rolled back,
    Conflict if it is paused, TimedOut at the limit.
    """
    last: Json = {}
    wanted, undone = revision, False
    watches: dict[str, CrashWatch] = {}
    deadline = time.monotonic() + (session.wait_limit if limit is None else limit)

    def look() -> Look:
        nonlocal last, wanted, undone, rollback_expected
        last = _next_state(session, namespace, name, last, deadline - time.monotonic())
        if not wanted and last["rollingBack"] and last["rollbackRequested"]:
            rollback_expected = True
        wanted = wanted or int(last["nextRevision"] or last["revision"])
        undone = undone or _leaves_revision(last, wanted)
        _raise_if_halted(name, last)
        progress, ended = last["progress"], _is_settled(last)
        try:
            stable = _stable(session, namespace, last, watches, ended)
        except CliError:
            _raise_if_it_halts(session, namespace, name)
            raise
        return Look(progress["done"], progress["total"], status_line(last), ended=ended and stable)

    wait_until(session, name, look, limit)
    if undone and not rollback_expected:
        why = last.get("message") or f"revision {last['revision']} runs again"
        raise CliError(f"deployment {name}: the update to revision {wanted} was rolled back: {why}")
    return last


def _stable(session: Session, namespace: str, deployment: Json, watches: dict[str, CrashWatch], ended: bool) -> bool:
    """True if the newest application has run for the time of --stable. Raises CliError when a taskgroup of it fails,
    unless the server goes back to the previous revision by itself and says why."""
    rolls_back = deployment["previousRevision"] and deployment["strategy"]["rollingupdate"]["onFailure"] == "rollback"
    newest = deployment["application_ext"] or deployment["application"]
    if newest is None or deployment["rollingBack"] or (rolls_back and not ended):
        return True
    name = str(newest["name"])
    watch = watches.setdefault(name, CrashWatch(session, namespace, name))
    try:
        return watch.stable(session.client.application(namespace, name), ended)
    except NotFound:  # a step of the update ends just now
        return True


def _is_settled(deployment: Json) -> bool:
    """The update is complete, and taskgroups that are not wanted have ended."""
    return is_complete(deployment) and bool(deployment["counts"]["present"] <= deployment["instances"])


def _leaves_revision(deployment: Json, wanted: int) -> bool:
    """The wanted revision is neither the target nor the next one."""
    if int(deployment["nextRevision"]) >= wanted:
        return False
    return bool(deployment["rollingBack"] or int(deployment["revision"]) < wanted)


def _raise_if_halted(name: str, deployment: Json) -> None:
    """Raises an error for a state that the deployment does not leave by itself."""
    match deployment["status"]:
        case "UpdateSuspend":
            raise CliError(
                f"deployment {name} is suspended: {deployment.get('message') or 'a step exceeded its time limit'}; "
                + advise("suspended_way_back" if deployment["rollingBack"] else "suspended_update", name=name)
            )
        case "UpdatePaused":
            raise Conflict(
                f"deployment {name} is paused ({status_line(deployment)}); {advise('paused_update', name=name)}"
            )
        case "Deleting":
            raise Conflict(f"deployment {name} is being deleted")
        case "Running":
            progressing = next(c for c in deployment["conditions"] if c["type"] == "Progressing")
            if progressing["reason"] in ("LaunchFailed", "Ended"):
                raise CliError(f"deployment {name} does not become available: {progressing['message']}")


def _raise_if_it_halts(session: Session, namespace: str, name: str) -> None:
    """Raises the error of `_raise_if_halted` if the failure of a taskgroup halts the deployment: this error names the
    failure and the ways on. The server halts the deployment a moment after the failure."""
    found = session.client.deployment(namespace, name)
    _raise_if_halted(name, found)
    if not is_complete(found):
        _raise_if_halted(name, session.client.watch_deployment(namespace, name, found["resourceVersion"], timeout=HALT))


def _next_state(session: Session, namespace: str, name: str, last: Json, left: float) -> Json:
    """The deployment: at once for the first poll, then after its next change, at the latest after `left` seconds. At
    once also when the update is complete: then the time of --stable passes, in which nothing need change."""
    if not last or _is_settled(last):
        return session.client.deployment(namespace, name)
    return session.client.watch_deployment(namespace, name, last["resourceVersion"], timeout=max(0.0, left))


def _without_instances(body: Json) -> Json:
    """The normal form of a document, without the number of taskgroups."""
    from bcs_scheduler.wire.normal import complete

    found, _ = complete({"kind": KIND, **body})
    return {**found, "spec": {**(found.get("spec") or {}), "instance": None}}


def _has_template(body: Json) -> bool:
    spec: Any = body.get("spec")
    return isinstance(spec, dict) and spec.get("template") is not None


OPERATIONS = Operations(create, apply, update, delete, wait_applied, wait_deleted, scale, rollback)
