"""Objects as `-o json` and `-o yaml` print them: documents that `bcs apply` takes unchanged (decision 84).

The state of an object is in `status`, which apply ignores. Views that repeat or rename fields of the document are left
out of it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from bcs_scheduler.cli.client.types import Json
from bcs_scheduler.wire.redaction import HIDDEN

Show = Callable[[Json], Json]
VERSION = "v4"
OWNERS = "ownerReferences"
"""Key of the metadata of an object that belongs to another one. Apply leaves such objects to their owners."""


def document_of(kind: str, item: Any) -> Any:
    """The document of an object of this kind of `bcs get`, with its state. Other values, and answers of servers without
    documents, stay unchanged."""
    show = _SHOWN.get(kind)
    return show(item) if show is not None and isinstance(item, dict) else item


def owner_of_application(item: Json) -> tuple[str, str] | None:
    """(kind, name) of the deployment or daemonset that an application belongs to; None if it belongs to none."""
    if item.get("Deployment"):
        return "deployment", str(item["Deployment"])
    return ("daemonset", str(item["Name"])) if item.get("Kind") == "daemonset" else None


def _application(item: Json) -> Json:
    if "Document" not in item:
        return item
    document = item["Document"]
    status = _without(item, "Document", "ObjectMeta")
    owner = owner_of_application(item)
    if document is None or owner:
        kind, name = owner or ("", item["Name"])
        metadata = {**item["ObjectMeta"], OWNERS: [{"kind": kind, "name": name}]}
        return {"apiVersion": VERSION, "kind": "application", "metadata": metadata, "status": status}
    return _with_state(document, item["ObjectMeta"], status)


def _daemonset(item: Json) -> Json:
    if not item.get("document"):
        return item
    return _with_state(item["document"], item["metadata"], _without(item, "document", "metadata", "kind"))


def _deployment(item: Json) -> Json:
    if not item.get("raw_json"):
        return item
    views = ("raw_json", "raw_json_backup", "metadata", "strategy", "selector", "kind")
    return _with_state(json.loads(item["raw_json"]), item["metadata"], _without(item, *views))


def _with_state(document: Json, metadata: Json, status: Json) -> Json:
    """The stored document has no time of creation."""
    head = {**document["metadata"], "creationTimestamp": metadata["creationTimestamp"]}
    return {**document, "metadata": head, "status": status}


def _secret(item: Json) -> Json:
    """The mark in place of a content keeps the stored content."""
    marks = {key: {"content": HIDDEN} for key in item["datas"]}
    return {**item, "datas": marks, "status": {"datas": item["datas"]}}


def _registration(item: Json) -> Json:
    name = item["spec"]["names"]["kind"]
    metadata = {**item["metadata"], "name": name, "creationTimestamp": item["creationTimestamp"]}
    return {**_without(item, "creationTimestamp"), "kind": "crr", "metadata": metadata}


def _without(item: Json, *keys: str) -> Json:
    return {key: value for key, value in item.items() if key not in keys}


_SHOWN: Mapping[str, Show] = {
    "applications": _application,
    "daemonsets": _daemonset,
    "deployments": _deployment,
    "secrets": _secret,
    "kinds": _registration,
}
"""By kind of `bcs get`. Answers about other kinds have the form of documents already."""
