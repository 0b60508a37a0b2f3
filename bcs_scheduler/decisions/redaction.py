"""Confidential parts of inputs, records and decisions, which the decision log does not hold.

Inputs and records get a pseudonym of the same encoded length: values that are equal in a term stay equal, so that
comparisons and sizes come out as in the term. The key of the pseudonyms is drawn per term and never written. Decisions
get one mark, because a decision may combine confidential values.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
from collections.abc import Callable
from typing import Any

import msgspec

from bcs_scheduler.wire.redaction import HIDDEN, REFERENCE

_TEXTS = frozenset({"password", "image_pull_password", "imagepullpasswd", "pwd", "content", "stdout", "stderr"})
"""Names of confidential texts, in lower case: documents of users may write names in any case."""
_DOCUMENTS = frozenset({"body", "raw"})
"""Names of texts that hold a document as JSON: of a request that waits (store.records.transactions.Queued), and of a
definition (store.records.version.Version)."""
Replace = Callable[[str], str]


def mark(value: str) -> str:
    """The replacement within decisions."""
    return HIDDEN


class Pseudonyms:
    """Makes the pseudonyms of one term."""

    def __init__(self, key: bytes) -> None:
        """`key`: random bytes."""
        self._key = key

    def __call__(self, value: str) -> str:
        """Letters and digits in the encoded length of the value. Padding of base64 stays."""
        length = len(msgspec.json.encode(value)) - 2
        padding = min(2, len(value) - len(value.rstrip("=")), length)
        seed = hmac.digest(self._key, value.encode("utf-8", "surrogatepass"), "sha256")
        letters = length - padding
        stream = base64.b32encode(hashlib.shake_256(seed).digest(letters)).decode()
        return stream[:letters] + "=" * padding


def redacted(tree: Any, replace: Replace) -> Any:
    """Returns a copy of plain data without its confidential values."""
    if isinstance(tree, dict):
        return {key: _field(str(key).rpartition("/")[2], value, replace) for key, value in tree.items()}
    if isinstance(tree, (list, tuple)):
        return [redacted(item, replace) for item in tree]
    return tree


def _field(name: str, value: Any, replace: Replace) -> Any:
    if isinstance(value, str):
        if name in _DOCUMENTS and value:
            return _json(value, replace)
        if name == "data":
            return "A" * len(value.rstrip("=")) + value[len(value.rstrip("=")) :]
        return _text(value, replace) if name.lower() in _TEXTS else value
    if isinstance(value, bytes):
        return bytes(len(value)) if name == "data" else value
    if name == "body":
        return _strings(value, replace)
    if name == "injected":
        return len(value) if isinstance(value, (list, tuple)) else HIDDEN
    if isinstance(value, dict) and name == "headers":
        return {k: _text(v, replace) for k, v in value.items()}
    if isinstance(value, dict) and name == "items":
        return {k: _text(v, replace) if isinstance(v, str) else redacted(v, replace) for k, v in value.items()}
    return redacted(value, replace)


def _text(value: Any, replace: Replace) -> Any:
    """References to secrets are not confidential, and the core resolves them."""
    return replace(value) if isinstance(value, str) and value and not value.startswith(REFERENCE) else value


def _strings(value: Any, replace: Replace) -> Any:
    if isinstance(value, dict):
        return {key: _strings(item, replace) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_strings(item, replace) for item in value]
    return _text(value, replace)


def _json(text: str, replace: Replace) -> str:
    """A document as JSON within a record. A text without JSON, or one that is too deep to be walked over, is replaced
    as a whole."""
    try:
        return msgspec.json.encode(redacted(msgspec.json.decode(text), replace)).decode()
    except (msgspec.MsgspecError, RecursionError):
        return replace(text)
