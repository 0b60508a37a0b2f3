"""The rules by which the original reads queries and documents, and the lists of absent objects that are empty there
(docs/api.md#clients-of-the-original)."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence

from bcs_scheduler.api.http.operation import BASE, Operation, Param

_EMPTY = tuple(f"{BASE}/namespaces/{{ns}}/applications/{{name}}/{part}" for part in ("taskgroups", "tasks", "versions"))
"""Paths of lists that are empty there if the application does not exist."""
SPACE = " \t\r\n"
"""White space of JSON."""
_ZERO_IS_ABSENT = ("instances",)
"""Numbers for which 0 means the same as an absent parameter."""


def document_of(content: bytes) -> bytes:
    """The body as the original reads it: data after the document is ignored. Unreadable bodies are returned whole, so
    that the reader reports the place of the fault."""
    try:
        text = content.decode("utf-8-sig").lstrip(SPACE)
        _, end = json.JSONDecoder().raw_decode(text)
    except (ValueError, RecursionError):
        return content
    return text[:end].encode("utf-8", "surrogatepass")


def lenient_query(pairs: Iterable[tuple[str, str]], declared: Sequence[Param]) -> list[tuple[str, str]]:
    """The query as the original reads it: without empty and unknown parameters, the first one of several, and numbers
    that cannot be read as if they were left out."""
    known = {param.name: param for param in declared}
    read: dict[str, str] = {}
    for name, value in pairs:
        param = known.get(name)
        if param is None or not value or (name in _ZERO_IS_ABSENT and value == "0"):
            continue
        if name == "hostRetainTime" and not value.isdigit():
            continue
        read.setdefault(name, value)
    return list(read.items())


def is_empty(operation: Operation) -> bool:
    """True if a client of the original expects an empty answer about an application that does not exist."""
    return operation.method == "GET" and operation.path in _EMPTY
