"""The operations of the API, one module per kind of resource. Each has a `table` of declared operations."""

from __future__ import annotations

from bcs_scheduler.api.operation import Operation
from bcs_scheduler.api.routes import (
    agentsettings,
    applications,
    cluster,
    commands,
    configuration,
    deployments,
    executor,
    health,
    logs,
    messages,
    processes,
    service,
    taskgroups,
    transactions,
    versions,
)

MODULES = (
    applications,
    processes,
    deployments,
    versions,
    taskgroups,
    transactions,
    configuration,
    commands,
    messages,
    health,
    logs,
    cluster,
    agentsettings,
    executor,
    service,
)


def operations() -> tuple[Operation, ...]:
    """Every operation of the API."""
    return tuple(operation for module in MODULES for operation in module.table.operations)
