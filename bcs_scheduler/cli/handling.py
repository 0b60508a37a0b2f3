"""How documents of one kind are applied, updated, deleted and waited for, and how that is told. The table of all kinds
is in bcs_scheduler.cli.changes."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from bcs_scheduler.cli.client import Accepted, Json
from bcs_scheduler.cli.documents import Document
from bcs_scheduler.cli.errors import UsageError
from bcs_scheduler.cli.options import Session


class UpdateOptions(NamedTuple):
    """What `bcs update` was told beside the documents; only some kinds know some of it."""

    instances: int | None = None
    max_unavailable: int | None = None
    resources_only: bool = False
    dry_run: bool = False
    wait: bool = False


Settle = Callable[[Session, str, str, Accepted], None]
"""Namespace, name, and what the server said."""


def _at_once(session: Session, namespace: str, name: str, accepted: Accepted) -> None:
    """Such a change is done when it is accepted."""


class Handling(NamedTuple):
    """Each reports what it has done. `settle` waits until what was applied is as it is wanted; `settle_gone` until what
    was deleted is gone."""

    apply: Callable[[Session, Document, bool], Accepted]
    """With True: a dry run."""
    update: Callable[[Session, Document, UpdateOptions], Accepted]
    delete: Callable[[Session, str, str, bool, bool], Accepted]
    """Namespace, name, enforce, dry run."""
    settle: Settle = _at_once
    settle_gone: Settle = _at_once
    scale: Callable[[Session, str, str, int, bool], Accepted] | None = None
    """Namespace, name, number of taskgroups, dry run."""
    rollback: Callable[[Session, str, str, str | None, bool], Accepted] | None = None
    """Namespace, name, version or revision (None: the one before), dry run."""


def refuse_counts(document: Document, options: UpdateOptions) -> None:
    """For kinds whose updates cannot be told how far to go. Raises UsageError."""
    if options.instances is not None or options.max_unavailable is not None:
        raise UsageError(f"{document.source}: --instances and --max-unavailable are for applications")


def instances_of(body: Json) -> int | None:
    """The number of taskgroups that a document wants, if it says one."""
    spec = body.get("spec")
    wanted = spec.get("instance") if isinstance(spec, dict) else None
    return wanted if isinstance(wanted, int) and not isinstance(wanted, bool) else None


def changed(accepted: Accepted) -> bool:
    return not (isinstance(accepted.data, dict) and accepted.data.get("unchanged"))


def verb(accepted: Accepted, done: str) -> str:
    return done if changed(accepted) else "unchanged"


def report(session: Session, kind: str, name: str, done: str, accepted: Accepted, dry_run: bool = False) -> None:
    """With the plan of a dry run."""
    note = "dry run" if dry_run else f"transaction {accepted.transaction}" if accepted.transaction else ""
    plan = accepted.data if dry_run else None
    session.report(kind, name, done, note, plan, transaction=accepted.transaction, dryRun=dry_run)
    if dry_run and session.change_format == "text":
        for line in _plan(accepted.data):
            session.say(f"  {line}")


def _plan(data: Any) -> Iterable[str]:
    """A plan in words: what would go where, what would be ended, what would not fit."""
    plan = data if isinstance(data, dict) else {}
    for place in plan.get("place") or ():
        ports = f" ports {','.join(map(str, place['ports']))}" if place.get("ports") else ""
        replaced = f", replaces {place['replaces']}" if place.get("replaces") else ""
        yield f"+ taskgroup {place['index']} on {place['hostname']}{ports}{replaced}"
    for taskgroup in plan.get("end") or ():
        yield f"- taskgroup {taskgroup}"
    if plan.get("unplaced"):
        yield f"! {plan['unplaced']} taskgroups find no place: {plan.get('message') or 'no reason given'}"
