"""Queues: columns, operations, descriptions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from bcs_scheduler.cli.client.types import Json
from bcs_scheduler.cli.errors import CliError, NotFound
from bcs_scheduler.cli.kinds.base import Functions
from bcs_scheduler.cli.kinds.objects.extensions import describe_object, operations_of, put_of
from bcs_scheduler.cli.kinds.objects.queuetrees import describe_tree_queue, parts_of
from bcs_scheduler.cli.output.tables import Column, age_column, time_column
from bcs_scheduler.cli.session import Session

DEFAULT = "default"
"""The queue that exists without settings, and that has all namespaces without a queue."""
OTHERS = "all without a queue"


def _created(queue: Json) -> Any:
    return queue["metadata"].get("creationTimestamp")


def _amounts(queue: Json, field: str) -> str:
    return ",".join(f"{name}={amount:g}" for name, amount in queue["spec"][field].items())


def _used(queue: Json) -> str:
    return ",".join(f"{name}={amount:g}" for name, amount in queue["status"]["used"].items() if amount)


def _namespaces(queue: Json) -> str:
    listed = [*queue["status"]["namespaces"], *([OTHERS] if queue["metadata"]["name"] == DEFAULT else [])]
    return ", ".join(listed)


QUEUE_COLUMNS = (
    Column("NAME", lambda q: q["metadata"]["name"]),
    Column("WEIGHT", lambda q: q["spec"]["weight"], right=True),
    Column("GUARANTEE", lambda q: _amounts(q, "guarantee"), whole=True),
    Column("CAPABILITY", lambda q: _amounts(q, "capability"), whole=True),
    Column("TASKGROUPS", lambda q: q["status"]["taskgroups"], right=True),
    Column("USED", _used, wide=True),
    Column("RECLAIMABLE", lambda q: "yes" if q["spec"]["reclaimable"] else "no", wide=True),
    Column("PRIORITY", lambda q: q["spec"].get("priority", 0), right=True, wide=True),
    age_column("AGE", _created),
    time_column("CREATED", _created),
    Column("NAMESPACES", _namespaces, long=True),
)


def _amount(field: str, resource: str) -> Callable[[Json], Any]:
    def cell(queue: Json) -> str | None:
        amount = (queue[field] or {}).get(resource)
        return None if amount is None else f"{amount:.10g}"

    return cell


def _waiting(queue: Json) -> str:
    return ", ".join(f"{number} {reason.replace('_', ' ')}" for reason, number in queue["pending"].items())


USAGE_COLUMNS = (
    Column("NAME", lambda q: q["name"]),
    Column("WEIGHT", lambda q: q["weight"], right=True),
    Column("TASKGROUPS", lambda q: q["taskgroups"], right=True),
    *(
        Column(f"{title} {field.upper()}", _amount(field, resource), right=True)
        for title, resource in (("CPU", "cpus"), ("MB", "mem"))
        for field in ("used", "deserved", "guarantee", "capability")
    ),
    Column("WAITING", _waiting, long=True),
)
"""Columns of the use of queues (`Client.queue_usage`)."""


put_queue = put_of("queue")
QUEUE_OPERATIONS = operations_of("queue", put_queue)


def read_queues(session: Session, namespace: str | None, name: str | None, selector: str) -> Any:
    """The queues with shares. If no role uses them, a warning names the command that lists the queues of the tree."""
    if not name and (parts := parts_of(session)).trees and not parts.shares:
        session.warn("the policy is hierarchical, and these queues have no effect; bcs queue list shows the tree")
    client = session.client
    return client.object("queue", "", name) if name else client.objects("queue", selector=selector)


def _shares(session: Session, name: str) -> list[tuple[str, str]]:
    """The deserved share and the waiting taskgroups, which the leader knows; nothing while no scheduler leads."""
    try:
        found = next((each for each in session.client.queue_usage() if each["name"] == name), None)
    except CliError:
        return []
    if found is None:
        return []
    deserved = ",".join(f"{resource}={amount:g}" for resource, amount in (found["deserved"] or {}).items() if amount)
    return [("Deserved", deserved), ("Waiting", _waiting(found))]


def describe_queue(session: Session, name: str, events: bool, form: str) -> None:
    try:
        found = session.client.object("queue", "", name)
    except NotFound:
        parts = parts_of(session)
        if not parts.has(name, ""):
            raise
        describe_tree_queue(session, name, form, "", several=len(parts.trees) > 1)
        return
    describe_object(
        session,
        found,
        form,
        lambda: [
            ("Weight", str(found["spec"]["weight"])),
            ("Guarantee", _amounts(found, "guarantee") or "nothing"),
            ("Capability", _amounts(found, "capability") or "not limited"),
            ("Reclaimable", "yes" if found["spec"]["reclaimable"] else "no"),
            ("Priority", str(found["spec"].get("priority", 0))),
            ("Greatest priority", str(found["spec"].get("maxPriority", "as the namespace says"))),
            ("Namespaces", _namespaces(found) or "none"),
            ("Taskgroups", str(found["status"]["taskgroups"])),
            ("Used", _used(found) or "nothing"),
            *_shares(session, name),
        ],
        uncreated="not created explicitly",
    )


FUNCTIONS = {"queues": Functions(QUEUE_COLUMNS, read_queues, describe_queue, QUEUE_OPERATIONS)}
