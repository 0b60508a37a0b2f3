"""Whether a state that has been kept up to date equals one that is made from its records."""

from __future__ import annotations

from typing import Any

from store.census import Census
from store.indexes import Indexes
from store.state import State

HISTORY = frozenset({"newest", "latest_of", "kept", "_watchers"})
"""What a state knows beside its records: high-water marks, unreadable records, who is told of changes."""


def wrong_index(state: State, fresh: State) -> str:
    """Names the first table or index of `state` that differs from that of `fresh`, with both; empty if none does."""
    return _wrong("", vars(state), vars(fresh))


def _wrong(prefix: str, found: dict[str, Any], wanted: dict[str, Any]) -> str:
    for name, value in wanted.items():
        if name in HISTORY or isinstance(value, State):
            continue
        if isinstance(value, Census | Indexes):
            words = _wrong(f"{name}.", vars(found[name]), vars(value))
            if words:
                return words
        elif name != "_state" and found[name] != value:
            return f"{prefix}{name} is {found[name]}, should be {value}"
    return ""
