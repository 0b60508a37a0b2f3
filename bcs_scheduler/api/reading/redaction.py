"""Confidential content in answers of the API: a mark in place of credentials, a fingerprint in place of content.

Passwords of registries and downloads, variables and files of commands, and contents of secrets are accepted and never
returned (docs/original.md#confidential-values). bcs_scheduler.wire.redaction lists the confidential fields of
documents.
"""

from __future__ import annotations

import hmac
import secrets
from base64 import b64decode
from typing import Any

import msgspec

from bcs_scheduler.wire.redaction import hide_passwords, keep_passwords

_KEY = secrets.token_bytes(32)
"""Key of this process, so that short content cannot be found by trial: a password is soon guessed from a plain
digest."""
DIGEST_LENGTH = 16


def fingerprint(data: str) -> tuple[str, int]:
    """(digest, bytes) of base64 content. Equal content has equal digests in the answers of one scheduler process, and
    other ones in those of another."""
    content = b64decode(data)
    return hmac.new(_KEY, content, "sha256").hexdigest()[:DIGEST_LENGTH], len(content)


def with_kept_passwords(body: Any, raw: str) -> Any:
    """The body of an update, in which marks of hidden values stand for those of the stored document `raw`; empty =
    there is none."""
    return keep_passwords(body, msgspec.json.decode(raw)) if raw else body


def hide_document(raw: str) -> dict[str, Any]:
    """A stored document with a pod template without its passwords."""
    return hide_passwords(msgspec.json.decode(raw))
