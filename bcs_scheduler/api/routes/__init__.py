"""The operations of the API, one module per kind of resource. Each has a `table` of declared operations."""

from __future__ import annotations

from bcs_scheduler.api.http.operation import Operation
from bcs_scheduler.api.objects import (
    configuration,
    custom,
    groups,
    kubernetes,
    managed,
    namespaces,
    priorities,
    queues,
    queuetrees,
    services,
    webhooks,
)
from bcs_scheduler.api.routes import (
    agent_settings,
    applications,
    cluster,
    commands,
    daemonsets,
    deployments,
    events,
    executor,
    health,
    logs,
    messages,
    output,
    plans,
    processes,
    records,
    service,
    sessions,
    taskgroups,
    transactions,
    usage,
    versions,
    watches,
)

MODULES = (
    applications,
    processes,
    daemonsets,
    deployments,
    records,
    managed,
    plans,
    versions,
    taskgroups,
    transactions,
    events,
    configuration,
    services,
    commands,
    messages,
    health,
    logs,
    output,
    sessions,
    watches,
    usage,
    cluster,
    agent_settings,
    namespaces,
    groups,
    priorities,
    queues,
    queuetrees,
    webhooks,
    custom,
    kubernetes,
    executor,
    service,
)


def operations() -> tuple[Operation, ...]:
    """Every operation of the API."""
    return tuple(operation for module in MODULES for operation in module.table.operations)
