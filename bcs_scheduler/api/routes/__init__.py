"""The operations of the API, one module per kind of resource. Each has a `table` of declared operations."""

from __future__ import annotations

from bcs_scheduler.api.http.operation import Operation
from bcs_scheduler.api.routes.cluster import agent_settings, cluster, executor, health, rebalancing, service, usage
from bcs_scheduler.api.routes.objects import (
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
from bcs_scheduler.api.routes.running import commands, events, logs, messages, output, sessions, watches
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
