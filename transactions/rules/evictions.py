"""Evictions by the policy: how many taskgroups of an application may be ended now for the sake of others.

Evictions spend the same disruption budget as updates and drains: the bound of updates. Failures use up the budget, too,
because the taskgroups that are ready are counted.
"""

from __future__ import annotations

from transactions.base import Context, exclusive_operations
from transactions.rules.application_types import bound_to_agents, lasting
from transactions.rules.draining import UPDATING, bound_of
from transactions.rules.taskgroups.lifecycle import is_ready, is_ready_or_finished


def allowance(ctx: Context, key: str) -> int:
    """The number of taskgroups of the application with this key that may be evicted now; 0 while an operation works on
    the application or its deployment is being updated, and for daemonsets."""
    state = ctx.state
    application = state.applications.get(key)
    if application is None or bound_to_agents(application) or application.rolling:
        return 0
    deployment = state.deployments.get(application.deployment_key)
    if (deployment is not None and deployment.status in UPDATING) or exclusive_operations(ctx, application):
        return 0
    counted = is_ready if lasting(application) else is_ready_or_finished
    # The taskgroups that are not ready are few in an application that works.
    ready = len(state.groups_of(key)) - sum(not counted(group) for group in state.readiness.unready(key).values())
    return max(0, ready - max(0, application.instances - bound_of(state, application)))
