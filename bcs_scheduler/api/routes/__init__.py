"""The operations of the API, one module per kind of resource. Each has a `table` of declared operations."""

from __future__ import annotations

from bcs_scheduler.api.operation import Operation
from bcs_scheduler.api.routes import (
    agentsettings,
    applications,
    cluster,
    commands,
    configuration,
    custom,
    daemonsets,
    deployments,
    events,
    executor,
    health,
    logs,
    messages,
    namespaces,
    processes,
    service,
    services,
    taskgroups,
    transactions,
    usage,
    versions,
    webhooks,
)

MODULES = (
    applications,
    processes,
    daemonsets,
    deployments,
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
    usage,
    cluster,
    agentsettings,
    namespaces,
    webhooks,
    custom,
    executor,
    service,
)


def operations() -> tuple[Operation, ...]:
    """Every operation of the API."""
    return tuple(operation for module in MODULES for operation in module.table.operations)
