"""The operations of the API, one module per kind of resource. Each has a `table` of declared operations."""

from __future__ import annotations

from bcs_scheduler.api.http.operation import Operation
from bcs_scheduler.api.objects import (
    configuration,
    custom,
    groups,
    kubernetes,
    namespaces,
    priorities,
    queues,
    queuetrees,
    services,
    webhooks,
)
from bcs_scheduler.api.routes import (
    agent_settings,
    cluster,
    commands,
    events,
    executor,
    health,
    logs,
    messages,
    output,
    rebalancing,
    service,
    sessions,
    usage,
    watches,
)
from bcs_scheduler.api.routes.workloads import (
    applications,
    daemonsets,
    deployments,
    managed,
    plans,
    processes,
    records,
    taskgroups,
    transactions,
    versions,
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
    rebalancing,
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
