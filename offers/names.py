"""The name by which operators know an agent."""

from __future__ import annotations

from collections.abc import Mapping

INNER_IP = "InnerIP"
"""The attribute by which operators give an agent its address (docs/glossary.md, agent)."""


def name_of(attributes: Mapping[str, object], *others: str) -> str:
    """The attribute InnerIP if it is a text that is not empty, else the first of `others` that is not empty; empty if
    there is none."""
    given = attributes.get(INNER_IP)
    if isinstance(given, str) and given:
        return given
    return next(filter(None, others), "")
