"""A policy with evictions, and applications for tests of placement policies."""

from __future__ import annotations

from typing import Any

from tests.integration.schedulerprocess import document

PREEMPTING = """
actions: "reclaim, allocate, backfill, preempt"
tiers:
  - plugins: [{name: priority}, {name: gang}, {name: conformance}]
  - plugins: [{name: drf}, {name: predicates}, {name: proportion}, {name: nodeorder}]
"""


def application(
    name: str, instances: int, least: int = 0, priority: int = 0, cpu: str = "1", namespace: str = "default"
) -> dict[str, Any]:
    """`least`: the minimum that starts at the same time; 0 = each taskgroup by itself. `cpu`: cores of a taskgroup."""
    made = document(name, instances, ["/bin/sleep", "1000"])
    made["metadata"]["namespace"] = namespace
    (container,) = made["spec"]["template"]["spec"]["containers"]
    container["resources"] = {"limits": {"cpu": cpu, "memory": "64"}}
    made["spec"]["template"]["spec"]["priority"] = priority
    if least:
        made["spec"]["minAvailable"] = least
    return made
