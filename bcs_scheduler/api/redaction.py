"""What the API shows in place of confidential content: a mark for credentials, a fingerprint for content.

Passwords of registries and downloads, variables and files of commands, contents of secrets go in and do not come out
(W19). References (``secret::<name>||<key>``) are no content and are shown.
"""

from __future__ import annotations

import copy
import hmac
import secrets
from base64 import b64decode
from collections.abc import Mapping
from typing import Any

import msgspec

from transactions.injection import REFERENCE

HIDDEN = "***"
"""Shown for what is not; refused where a password is asked for."""
CREDENTIAL_HEADERS = frozenset(
    {"authorization", "proxy-authorization", "cookie", "x-api-key", "x-auth-token", "private-token"}
)
_KEY = secrets.token_bytes(32)
"""Of this process, so that nobody can find short content by trying: a plain digest of a password is soon guessed."""
DIGEST_LENGTH = 16


def fingerprint(data: str) -> tuple[str, int]:
    """(digest, bytes) of base64 content. Equal content has equal digests in the answers of one scheduler process, and
    other ones in those of another."""
    content = b64decode(data)
    return hmac.new(_KEY, content, "sha256").hexdigest()[:DIGEST_LENGTH], len(content)


def hide(value: str) -> str:
    """A password or user that may be a reference."""
    return value if not value or value.startswith(REFERENCE) else HIDDEN


def hide_headers(headers: Mapping[str, str]) -> dict[str, str]:
    return {name: HIDDEN if name.lower() in CREDENTIAL_HEADERS else value for name, value in headers.items()}


def hide_document(raw: str) -> dict[str, Any]:
    """A stored document with a pod template without its passwords."""
    return hide_passwords(msgspec.json.decode(raw))


def hide_passwords(given: Mapping[str, Any]) -> dict[str, Any]:
    """The same of one that is plain data."""
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
