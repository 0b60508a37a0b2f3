"""Runs vectors with the policy `scenario`: each area has an engine of its own, which plays the input step by step."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from tests.vectors.comparing import differences
from tests.vectors.reading import PolicyVector
from tests.vectors.scenarios import cluster, gangs, gate, offers, steps

AREAS: Mapping[str, Callable[[PolicyVector], dict[str, Any]]] = {
    "offers": offers.play,
    "plugin-mode": gate.play,
    "placeholders": gangs.swaps,
    "placeholders/timeout": gangs.timeouts,
    "placeholders/steps": steps.play,
    "cluster": cluster.play,
}
"""By `area`. An engine returns its findings in the fields of `expect`."""


def run(vector: PolicyVector) -> list[str]:
    """The differences of a vector. A vector of an area without engine fails."""
    play = AREAS.get(vector.area)
    if play is None:
        return [f"no engine plays the area {vector.area}"]
    return compare(vector, play(vector))


def compare(vector: PolicyVector, found: Mapping[str, Any]) -> list[str]:
    """Compares every field of `expect`; `note` is a remark for readers."""
    lines = [f"expect.{name}: unknown field" for name in sorted(set(vector.expect) - set(found) - {"note"})]
    for name, value in vector.expect.items():
        if name in found:
            lines += differences(f"expect.{name}", value, found[name])
    return lines
