"""Confidential parts of documents: which fields hold them, and the mark that is shown in their place.

Passwords of registries and downloads and the headers of health checks are hidden: a header of any name may hold a
credential. References (``secret::<name>||<key>``) are not confidential and are shown.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from typing import Any

REFERENCE = "secret::"
"""Beginning of a value that names a key of a secret; transactions.injection resolves it."""
HIDDEN = "***"
"""Shown in place of a confidential value; refused where a password is expected."""


def hide(value: str) -> str:
    """A password or user name, hidden unless it is empty or a reference."""
    return value if not value or value.startswith(REFERENCE) else HIDDEN


def hide_headers(headers: Mapping[str, str]) -> dict[str, str]:
    """Headers of a health check with their names alone, and with references."""
    return {name: hide(value) for name, value in headers.items()}


def hide_passwords(given: Mapping[str, Any]) -> dict[str, Any]:
    """A copy of a document with a pod template, without its passwords and the headers of its health checks."""
    document: dict[str, Any] = copy.deepcopy(dict(given))
    pod = ((document.get("spec") or {}).get("template") or {}).get("spec") or {}
    for task in [*(pod.get("containers") or ()), *(pod.get("processes") or ())]:
        _hide_in(task, "imagePullPasswd")
        for uri in task.get("uris") or ():
            _hide_in(uri, "pwd")
        for check in task.get("healthChecks") or ():
            http = check.get("http") or {}
            if http.get("headers"):
                http["headers"] = hide_headers(http["headers"])
    return document


def keep_passwords(given: Any, stored: Mapping[str, Any]) -> Any:
    """A document of any shape, in which the mark of a hidden value is replaced by the value of the stored document of
    the same object. A value is kept only for the same receiver: a password for the same image or URI and user, a header
    for the same program and port. Other marks stay, and are refused as passwords."""
    if not _has_marks(given):
        return given
    document = copy.deepcopy(given)
    stored_tasks = {str(task.get("name")): task for task in _tasks(stored)}
    by_place = list(_tasks(stored))
    for place, task in enumerate(_tasks(document)):
        before = stored_tasks.get(str(task.get("name"))) if task.get("name") else None
        if before is None and not task.get("name") and place < len(by_place):
            before = by_place[place]
        if before is not None:
            _keep_in_task(task, before)
    return document


def _has_marks(value: Any) -> bool:
    if isinstance(value, dict):
        return any(map(_has_marks, value.values()))
    return any(map(_has_marks, value)) if isinstance(value, list) else bool(value == HIDDEN)


def _tasks(document: Any) -> Iterator[dict[str, Any]]:
    """Containers and processes of a document of any shape."""
    pod = document
    for key in ("spec", "template", "spec"):
        pod = pod.get(key) if isinstance(pod, dict) else None
    for key in ("containers", "processes"):
        yield from _objects(pod.get(key) if isinstance(pod, dict) else None)


def _objects(value: Any) -> Iterator[dict[str, Any]]:
    return (item for item in value if isinstance(item, dict)) if isinstance(value, list) else iter(())


def _keep_in_task(task: dict[str, Any], before: Mapping[str, Any]) -> None:
    if task.get("imagePullPasswd") == HIDDEN and _same(task, before, "image", "imagePullUser"):
        task["imagePullPasswd"] = before.get("imagePullPasswd") or HIDDEN
    known = list(_objects(before.get("uris")))
    for uri in _objects(task.get("uris")):
        if uri.get("pwd") == HIDDEN:
            kept = (one.get("pwd") for one in known if _same(uri, one, "value", "user"))
            uri["pwd"] = next(filter(None, kept), HIDDEN)
    if not _same(task, before, "image", "command", "args", "uris", "ports", "procName", "startCmd", "workPath"):
        return
    for check, former in zip(_objects(task.get("healthChecks")), _objects(before.get("healthChecks")), strict=False):
        http, known_http = (one.get("http") for one in (check, former))
        if not isinstance(http, dict) or not isinstance(known_http, dict):
            continue
        headers, kept_headers = http.get("headers"), known_http.get("headers")
        if not isinstance(headers, dict) or not isinstance(kept_headers, dict):
            continue
        if _same(check, former, "type") and _same(http, known_http, "port", "portName", "scheme"):
            marked = [name for name, value in headers.items() if value == HIDDEN and name in kept_headers]
            headers.update({name: kept_headers[name] for name in marked})


def _same(one: Mapping[str, Any], other: Mapping[str, Any], *keys: str) -> bool:
    """Equal fields, apart from those that are empty or missing."""
    return all((one.get(key) or None) == (other.get(key) or None) for key in keys)


def _hide_in(owner: dict[str, Any], field: str) -> None:
    if owner.get(field):
        owner[field] = hide(owner[field])
