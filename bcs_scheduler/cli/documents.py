"""Documents: kinds, identity, and the order in which they are applied; the operations on documents of one kind, and
the reports of their results. kinds.registry has the operations of all kinds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from bcs_scheduler.cli.client.lookup import short_names
from bcs_scheduler.cli.client.types import Accepted, Json
from bcs_scheduler.cli.errors import UsageError
from bcs_scheduler.cli.output.text import counted
from bcs_scheduler.cli.session import Session
from store.keys import taskgroup_name, transaction_name

APPLY_ORDER = (
    "queue",
    "PriorityClass",
    "namespace",
    "PodGroup",
    "crr",
    "configmap",
    "secret",
    "service",
    "application",
    "process",
    "deployment",
    "daemonset",
    "admissionwebhook",
    "Command",
)
"""Kinds in the order in which documents are applied: objects before the objects that refer to them, Commands last."""
CUSTOM = APPLY_ORDER.index("service")
"""Position of documents of registered kinds in that order."""


class Document(NamedTuple):
    """One document, and the file that it was read from."""

    source: str
    body: Json

    @property
    def kind(self) -> str:
        return str(self.body["kind"])

    @property
    def name(self) -> str:
        """Name of the object; for a Command the name of its workload."""
        return str(self._identity["name"])

    @property
    def namespace(self) -> str:
        return str(self._identity["namespace"])

    @property
    def _identity(self) -> Json:
        identity: Json = self.body["spec"]["commandTargetRef"] if self.kind == "Command" else self.body["metadata"]
        return identity


def owner_of(document: Document) -> str:
    """Kind of the workload that a Command runs in: application or deployment."""
    said = str(document.body["spec"]["commandTargetRef"].get("kind") or "application").lower()
    return said if said == "deployment" else "application"


def in_order(documents: Iterable[Document]) -> list[Document]:
    """Documents in the order of APPLY_ORDER; documents of one kind keep their order."""
    return sorted(
        documents, key=lambda document: APPLY_ORDER.index(document.kind) if document.kind in APPLY_ORDER else CUSTOM
    )


class UpdateOptions(NamedTuple):
    """Options of `bcs update`. Some kinds support only some of them."""

    instances: int | None = None
    max_unavailable: int | None = None
    resources_only: bool = False
    dry_run: bool = False
    wait: bool = False


Settle = Callable[[Session, str, str, Accepted], None]
"""Waits for the end of an operation: namespace, name, answer of the server."""


def _no_wait(session: Session, namespace: str, name: str, accepted: Accepted) -> None:
    """For operations that end with the answer of the server."""


class Operations(NamedTuple):
    """Operations of one kind. Each reports its result. `create` refuses an object that exists. `wait_applied` waits
    until the object has reached its definition, `wait_deleted` until the object does not exist any more."""

    create: Callable[[Session, Document, bool], Accepted]
    apply: Callable[[Session, Document, bool], Accepted]
    """Session, document, dry run."""
    update: Callable[[Session, Document, UpdateOptions], Accepted]
    delete: Callable[[Session, str, str, bool, bool], Accepted]
    """Session, namespace, name, force, dry run."""
    wait_applied: Settle = _no_wait
    wait_deleted: Settle = _no_wait
    scale: Callable[[Session, str, str, int, bool], Accepted] | None = None
    """Session, namespace, name, number of taskgroups, dry run. None: the kind cannot be scaled."""
    rollback: Callable[[Session, str, str, str | None, bool], Accepted] | None = None
    """Session, namespace, name, version or revision (None = the previous one), dry run."""


def reject_counts(document: Document, options: UpdateOptions) -> None:
    """Raises UsageError for --instances and --max-unavailable, which only applications support."""
    if options.instances is not None or options.max_unavailable is not None:
        raise UsageError(f"{document.source}: --instances and --max-unavailable are for applications")


def instances_of(body: Json) -> int | None:
    """Number of taskgroups in a document; None if the document has none."""
    spec = body.get("spec")
    wanted = spec.get("instance") if isinstance(spec, dict) else None
    return wanted if isinstance(wanted, int) and not isinstance(wanted, bool) else None


def updated_to(body: Json, present: int) -> str:
    """The words for an update by a document. `present`: number of taskgroups before."""
    wanted = instances_of(body)
    return "updated" if wanted is None or wanted == present else f"updated and scaled from {present} to {wanted}"


def changed(accepted: Accepted) -> bool:
    return not (isinstance(accepted.data, dict) and accepted.data.get("unchanged"))


def verb(accepted: Accepted, done: str) -> str:
    """The word for the result of a request: `done`, unless the request changes nothing or waits in a queue."""
    data = accepted.data if isinstance(accepted.data, dict) else {}
    if data.get("queuedBehind"):
        return f"queued behind {short_names([data['queuedBehind']])[0]}"
    if data.get("queuePosition"):
        return f"queued at position {data['queuePosition']}"
    return done if changed(accepted) else "unchanged"


def report(session: Session, kind: str, name: str, done: str, accepted: Accepted, dry_run: bool = False) -> None:
    """Reports an accepted request, with the plan of a dry run."""
    data = accepted.data if isinstance(accepted.data, dict) else {}
    superseded = [] if dry_run else list(map(str, data.get("superseded") or ()))
    notes = (
        ["dry run" if dry_run else f"transaction {transaction_name(accepted.transaction)}"]
        if dry_run or accepted.transaction
        else []
    )
    if superseded:
        notes.append(f"superseded {', '.join(short_names(superseded))}")
    conflicts = {key: data[key] for key in ("superseded", "queuePosition", "queuedBehind") if data.get(key)}
    plan = accepted.data if dry_run else None
    session.report(
        kind, name, done, ", ".join(notes), plan, transaction=accepted.transaction, dryRun=dry_run, **conflicts
    )
    if dry_run and session.change_format == "text":
        for line in _plan(accepted.data):
            session.say(f"  {line}")


def _plan(data: Any) -> Iterable[str]:
    """Lines of a plan: the number of taskgroups if it changes, placements, taskgroups to end, taskgroups without a
    place."""
    plan = data if isinstance(data, dict) else {}
    number = plan.get("instances")
    if number:
        yield f"~ number of taskgroups: {number['from']} -> {number['to']}"
    for place in plan.get("place") or ():
        ports = f" ports {','.join(map(str, place['ports']))}" if place.get("ports") else ""
        replaced = f", replaces {taskgroup_name(place['replaces'])}" if place.get("replaces") else ""
        yield f"+ taskgroup {place['index']} on {place['hostname']}{ports}{replaced}"
    for taskgroup in plan.get("end") or ():
        yield f"- taskgroup {taskgroup_name(str(taskgroup))}"
    for taskgroup in plan.get("evict") or ():
        yield f"- taskgroup {taskgroup_name(str(taskgroup))} of other work is evicted to make room"
    if hidden := plan.get("evictHidden"):
        yield f"- {counted(hidden, 'taskgroup')} of other namespaces evicted to make room"
    if plan.get("steps"):
        replaced = counted(plan["replaced"], "taskgroup")
        yield f"  this is the first of at least {plan['steps']} steps; the whole update replaces {replaced}"
    part = plan.get("partition")
    if part:
        yield f"  the policy {part['policy']} decides about the roles {', '.join(part['roles'])}"
    if plan.get("unplaced"):
        yield f"! {counted(plan['unplaced'], 'taskgroup')} cannot be placed: {plan.get('message') or 'no reason given'}"
