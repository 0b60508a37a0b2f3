"""Field selectors (``--field-selector``): objects by values of their fields, in the notation of kubectl."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from bcs_scheduler.cli.client.lookup import name_of as short_name
from bcs_scheduler.cli.client.types import Json
from bcs_scheduler.cli.errors import UsageError
from bcs_scheduler.cli.kinds.metadata import with_metadata

Values = Callable[[Json], tuple[Any, ...]]
"""The values of a field of an object: texts, numbers or booleans. A field equals each of its values."""
PHASES = {
    "Staging": "Pending", "Starting": "Pending", "Finish": "Succeeded", "Error": "Failed", "Killed": "Failed",
    "Lost": "Unknown",
}  # fmt: skip
"""Phases of pods by status of a taskgroup or task, where the words differ."""


def _of(*keys: str) -> Values:
    return lambda item: tuple(item.get(key) for key in keys)


def _phase(item: Json) -> tuple[Any, ...]:
    return item["Status"], PHASES.get(item["Status"], item["Status"])


def _kinds(event: Json) -> tuple[Any, ...]:
    kind = event["kind"]
    words = {"taskgroup": "Pod", "agent": "Node", "daemonset": "DaemonSet"}
    return kind, words.get(kind, str(kind).capitalize())


METADATA: Mapping[str, Values] = {
    "metadata.name": lambda item: (item["metadata"].get("name"),),
    "metadata.namespace": lambda item: (item["metadata"].get("namespace"),),
}
"""Fields of all kinds but events. They are read from objects with metadata."""
FIELDS: Mapping[str, Mapping[str, Values]] = {
    "deployments": {"status": _of("status")},
    "daemonsets": {"status": _of("Status")},
    "applications": {"status": _of("Status"), "kind": _of("Kind"), "deployment": _of("Deployment")},
    "taskgroups": {
        "status": _phase,
        "status.phase": _phase,
        "spec.nodeName": _of("HostName", "AgentIP", "AgentID"),
        "agent": _of("HostName", "AgentIP", "AgentID"),
        "application": _of("AppID"),
        "healthy": _of("Healthy"),
        "version": _of("VersionName"),
    },
    "tasks": {"status": _phase, "status.phase": _phase, "taskgroup": _of("Taskgroup")},
    "transactions": {"status": _of("status"), "type": _of("type"), "object": _of("objectName")},
    "agents": {"spec.unschedulable": _of("disabled"), "ip": _of("ip"), "id": _of("id"), "active": _of("active")},
}
"""Fields of each kind beside METADATA: those of kubectl, and names of our own."""
EVENTS: Mapping[str, Values] = {
    "metadata.namespace": _of("namespace"),
    "involvedObject.kind": _kinds,
    "involvedObject.name": lambda event: (event["name"], short_name(event["kind"], event["name"])),
    "reason": _of("reason"),
    "type": lambda event: ("Normal" if event["level"] == "info" else "Warning",),
    "level": _of("level"),
    "transaction": _of("transaction"),
}
NOTATION = re.compile(r"\s*([^=!\s]+)\s*(=|==|!=)\s*([^=!]*?)\s*")


class Condition(NamedTuple):
    """A field that has a value, or has not (`equal` False)."""

    field: str
    value: str
    equal: bool


def fields_of(kind: str) -> Mapping[str, Values]:
    return EVENTS if kind == "events" else {**METADATA, **FIELDS.get(kind, {})}


def conditions_of(kinds: Iterable[str], selector: str) -> tuple[Condition, ...]:
    """The conditions of a selector such as ``status.phase=Running,spec.nodeName!=a``; all of them must hold. Empty for
    an empty selector. Raises UsageError for another notation, and for a field that one of the kinds does not have."""
    found = []
    for part in selector.split(",") if selector else ():
        match = NOTATION.fullmatch(part)
        if match is None:
            raise UsageError(f"--field-selector: {part!r} is not FIELD=VALUE or FIELD!=VALUE")
        found.append(Condition(match[1], match[3], match[2] != "!="))
    for kind in kinds:
        known = fields_of(kind)
        for condition in found:
            if condition.field not in known:
                raise UsageError(
                    f"--field-selector: {kind} have no field {condition.field!r}; known: {', '.join(known)}"
                )
    return tuple(found)


def matching(kind: str, items: Iterable[Json], conditions: Iterable[Condition]) -> list[Json]:
    """The objects that meet all conditions."""
    known = fields_of(kind)

    def meets(item: Json) -> bool:
        seen = item if kind == "events" else with_metadata(kind, item)
        return all(
            (condition.value in map(_text, known[condition.field](seen))) == condition.equal for condition in conditions
        )

    return [item for item in items if meets(item)] if conditions else list(items)


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return "" if value is None else str(value)
