"""Which adapter runs the vectors of which policy.

An adapter takes a vector and returns the differences between what the vector expects and what the engine decided, one
line each; an empty list means that the vector passes. An adapter checks every field of `expect` and reads every field
of `input`: a field that it does not know is a difference, never passed over.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tests.vectors import hierarchy, scenario, session
from tests.vectors.reading import PolicyVector

Adapter = Callable[[PolicyVector], list[str]]

ADAPTERS: Mapping[str, Adapter] = {"session": session.run, "hierarchical": hierarchy.run, "scenario": scenario.run}
"""By `policy`. The vectors of a policy without an adapter fail."""
