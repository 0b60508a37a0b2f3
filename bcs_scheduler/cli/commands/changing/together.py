"""`bcs apply --dry-run` of several documents: one plan, in which later documents see the effect of earlier ones."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from bcs_scheduler.cli.client.types import Accepted, Json
from bcs_scheduler.cli.documents import Document, report
from bcs_scheduler.cli.errors import CliError, Conflict, NotFound, Problem
from bcs_scheduler.cli.output.text import counted
from bcs_scheduler.cli.session import Session
from store.keys import taskgroup_name

SEPARATE = frozenset({"no_such_route", "too_large"})
"""Reasons of a server that cannot plan the documents together."""
ERRORS: dict[str, type[CliError]] = {
    "not_found": NotFound,
    "conflict": Conflict,
    "exists": Conflict,
    "quota_exceeded": Conflict,
}
"""Errors of `bcs` by the reason of a refusal; others are a CliError."""
OUTCOMES = {"created": "created", "changed": "updated", "unchanged": "unchanged"}


class Planned(NamedTuple):
    """`refused`: documents of the common plan that are refused. `separate`: documents that are not in the common
    plan."""

    refused: list[tuple[Document, CliError]]
    separate: list[Document]


def planned_together(session: Session, documents: Sequence[Document]) -> Planned:
    """Prints the common plan of documents. Separate are Commands and deployments of adopted applications, and all
    documents if there is nothing to plan together or the server cannot plan documents together."""
    separate = [document for document in documents if _is_separate(document)]
    documents = [document for document in documents if not _is_separate(document)]
    if len(documents) < 2:
        return Planned([], [*documents, *separate])
    try:
        plan = session.client.plan([document.body for document in documents])
    except CliError as error:
        if error.reason in SEPARATE:
            return Planned([], [*documents, *separate])
        raise
    failures: list[tuple[Document, CliError]] = []
    for document, found in zip(documents, plan["documents"], strict=True):
        for warning in found.get("warnings") or ():
            session.warn(f"{document.source}: {warning['path']} {warning['message']}")
        if found["outcome"] == "refused":
            failures.append((document, _refusal(found)))
        else:
            _report(session, document, found)
    if session.change_format == "text":
        for taskgroup in plan["evict"]:
            session.say(f"- taskgroup {taskgroup_name(str(taskgroup))} of other work is evicted to make room")
        if hidden := plan.get("evictHidden"):
            session.say(f"- {counted(hidden, 'taskgroup')} of other namespaces evicted to make room")
        session.say(_summary(plan))
    return Planned(failures, separate)


def _is_separate(document: Document) -> bool:
    """Commands are not planned. A deployment without a template belongs to an adopted application."""
    if document.kind == "deployment":
        spec = document.body.get("spec")
        return not (isinstance(spec, dict) and spec.get("template") is not None)
    return document.kind == "Command"


def _report(session: Session, document: Document, found: Json) -> None:
    plan = {key: found.get(key) or empty for key, empty in _PLAN.items()}
    plan |= {key: found[key] for key in ("instances", "steps", "replaced") if found.get(key)}
    kind = "application" if document.kind == "process" else document.kind
    report(session, kind, document.name, OUTCOMES[found["outcome"]], Accepted("", plan), dry_run=True)


_PLAN: Json = {"place": [], "end": [], "unplaced": 0, "message": "", "reasons": {}}


def _refusal(found: Json) -> CliError:
    problems = [Problem(problem["path"], problem["message"]) for problem in found.get("problems") or ()]
    reason = found.get("reason", "")
    return ERRORS.get(reason, CliError)(found.get("message") or reason, problems, reason=reason)


def _summary(plan: Json) -> str:
    words = f"{counted(plan['placed'], 'taskgroup')} would be placed"
    return f"{words}, {counted(plan['unplaced'], 'taskgroup')} would stay pending" if plan["unplaced"] else words
