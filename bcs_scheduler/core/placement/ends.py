"""Room that is expected to become free soon, by the running times that the leader has seen."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping
from itertools import islice

from bcs_scheduler.core.context import TurnContext
from bcs_scheduler.core.structures.run_times import OF_APPLICATION
from offers.resources import SCALARS

APPLICATIONS = 500
"""Applications that are looked at, those with runs of their own first."""
TASKGROUPS = 500
"""Running taskgroups that are looked at."""


def ending_within(turn: TurnContext, role: str, seconds: float) -> Mapping[str, dict[str, int]]:
    """Amounts by agent and dimension of taskgroups of a role that are expected to end within so many seconds, and that
    nothing replaces. The median of the runs that have lasted longer than the present one is the expected end."""
    state, run_times, now = turn.state, turn.run_times, turn.now
    found: dict[str, dict[str, int]] = {}
    if not len(run_times):
        return found
    own = run_times.applications()
    kinds: dict[str, tuple[float, ...]] = {}
    left = TASKGROUPS
    for key in dict.fromkeys((*islice(own, APPLICATIONS), *islice(list(state.applications), APPLICATIONS))):
        application = state.applications.get(key)
        version = state.version(key, application.version) if application is not None else None
        if application is None or version is None or version.restart_policy.policy == "Always" or left <= 0:
            continue
        runs = run_times.own(key)
        if runs is None:
            kind = application.type
            runs = kinds[kind] if kind in kinds else kinds.setdefault(kind, run_times.basis("", kind))
        for group in islice(state.groups_of(key).values(), left) if runs else ():
            left -= 1
            if group.ended or group.killing_since or not group.running_since or (group.role or "*") != role:
                continue
            rest = runs[bisect_right(runs, now - group.created_at) :]
            if len(rest) >= OF_APPLICATION and rest[len(rest) // 2] - (now - group.created_at) <= seconds:
                sums = found.setdefault(group.agent_id, {})
                for name in SCALARS:
                    sums[name] = sums.get(name, 0) + getattr(group.resources, name)
    return found
