"""Options of a core with each of the placement policies."""

from __future__ import annotations

from typing import Any

from bcs_scheduler.core.options import CoreOptions
from offers.policy.hierarchy.configuration.document import partition_of
from offers.policy.session.configuration import DEFAULT, policy_of

_TREE: dict[str, Any] = {
    "queues": [{"name": "default", "resources": {"max": {"cpus": 900}}}],
    "placementrules": [{"name": "tag", "value": "namespace"}],
}
POLICIES: dict[str, dict[str, Any]] = {
    "simple": {},
    "session": {"policy": policy_of({**DEFAULT, "actions": "reclaim, allocate, backfill, preempt"})},
    "hierarchical": {"hierarchy": partition_of(_TREE, ("cpus", "mem"))},
}
"""Options by policy."""


def options_of(policy: str) -> CoreOptions:
    """Options with the policy, decisions every tenth of a second, and validation after every turn."""
    return CoreOptions(strict=True, validate=True, session_period=0.1, **POLICIES[policy])
