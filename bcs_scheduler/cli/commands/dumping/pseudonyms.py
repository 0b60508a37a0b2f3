"""Pseudonyms for the names of a dump: equal names have equal pseudonyms within one dump."""

from __future__ import annotations

import secrets
from hashlib import blake2b

PUBLIC = frozenset({"", "root", "default"})
"""Names that the scheduler gives itself to queues and namespaces. They are shown."""
DIGEST = 8
"""Bytes of a pseudonym: two of a million names are equal with a probability below 1 in 10 million."""


class Pseudonyms:
    """The key is random and is never written, so that no one can test a guessed name against a dump."""

    def __init__(self) -> None:
        self._key = secrets.token_bytes(32)
        self._known: dict[str, str] = {}

    def __call__(self, name: str) -> str:
        found = self._known.get(name)
        if found is None:
            digest = blake2b(name.encode(), key=self._key, digest_size=DIGEST).hexdigest()
            found = self._known[name] = name if name in PUBLIC else f"n{digest}"
        return found
