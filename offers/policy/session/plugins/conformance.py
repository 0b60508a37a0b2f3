"""The plug-in conformance: tasks that are critical to the system are never evicted."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from offers.policy.obstacles import Obstacle
from offers.policy.session.plugins.interface import Argument, Claim, Functions, Victim

if TYPE_CHECKING:
    from offers.policy.session.session import Session

name = "conformance"
arguments: Mapping[str, Argument] = {}


def open(session: Session, arguments: Mapping[str, Any]) -> Functions:  # noqa: ARG001
    """See `Plugin.open`."""
    return Functions(preemptable=not_critical, reclaimable=not_critical, obstacle=Obstacle.CRITICAL)


def not_critical(claim: Claim, candidates: list[Victim]) -> list[Victim]:  # noqa: ARG001
    """Candidates that are not critical."""
    return [victim for victim in candidates if not victim.task.critical]
