"""Properties of the types of applications, one function for each property.

Taskgroups of daemonsets are bound to their agents and there to run for good. The type `process` only says which
executor runs the taskgroups (transactions.groups).
"""

from __future__ import annotations

from store.records import Application


def bound_to_agents(application: Application) -> bool:
    """Returns True if the application has one taskgroup on each of its agents, bound to that agent. Its indexes have no
    meaning, no taskgroup is moved to another agent, and an unreachable taskgroup is not replaced."""
    return application.type == "daemonset"


def may_finish(application: Application) -> bool:
    """Returns True if a finished taskgroup counts as success for operations on the application."""
    return application.type != "daemonset"


def lasting(application: Application) -> bool:
    """Its owner wants its taskgroups to run for good: one that has finished does not count as ready."""
    return application.type == "daemonset" or bool(application.deployment)
