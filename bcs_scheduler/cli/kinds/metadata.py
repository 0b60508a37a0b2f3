"""`metadata` as objects of Kubernetes have it, for expressions and labels: answers of the original's form have the
name, the namespace and the labels in other places."""

from __future__ import annotations

from typing import Any

from bcs_scheduler.cli.client.types import Json
from bcs_scheduler.cli.kinds.registry import NAMESPACE, name_of
from bcs_scheduler.cli.output.tables import Column


def with_metadata(kind: str, item: Any) -> Any:
    """The object with `metadata`: that of the answer, or one with the name that commands take, the namespace, labels
    and annotations. A value that is no object stays unchanged."""
    if not isinstance(item, dict) or "metadata" in item:
        return item
    made: Json = {**(item.get("ObjectMeta") or {}), "name": name_of(kind, item)}
    namespace = NAMESPACE.cell(item)
    if namespace:
        made["namespace"] = namespace
    made.setdefault("labels", item.get("Labels") or item.get("labels") or {})
    return {**item, "metadata": made}


def found_with_metadata(kind: str, found: Any) -> Any:
    """A list or one object, as `with_metadata`."""
    return [with_metadata(kind, item) for item in found] if isinstance(found, list) else with_metadata(kind, found)


def labels_column(kind: str) -> Column:
    """The last column of --show-labels."""

    def cell(item: Json) -> str:
        labels = with_metadata(kind, item)["metadata"].get("labels") or {}
        return ",".join(f"{key}={value}" for key, value in sorted(labels.items()))

    return Column("LABELS", cell, long=True)
