"""Confidential parts of documents: which fields hold them, and the mark that is shown in their place.

Passwords of registries and downloads and headers with credentials are hidden. References (``secret::<name>||<key>``)
are not confidential and are shown.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

REFERENCE = "secret::"
"""Beginning of a value that names a key of a secret; transactions.injection resolves it."""
HIDDEN = "***"
"""Shown in place of a confidential value; refused where a password is expected."""
CREDENTIAL_HEADERS = frozenset(
    {"authorization", "proxy-authorization", "cookie", "x-api-key", "x-auth-token", "private-token"}
)


def hide(value: str) -> str:
    """A password or user name, hidden unless it is empty or a reference."""
    return value if not value or value.startswith(REFERENCE) else HIDDEN


def hide_headers(headers: Mapping[str, str]) -> dict[str, str]:
    return {name: HIDDEN if name.lower() in CREDENTIAL_HEADERS else value for name, value in headers.items()}


def hide_passwords(given: Mapping[str, Any]) -> dict[str, Any]:
    """A copy of a document with a pod template, without its passwords and credential headers."""
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


def _hide_in(owner: dict[str, Any], field: str) -> None:
    if owner.get(field):
        owner[field] = hide(owner[field])
