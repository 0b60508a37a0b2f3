"""The operations of the API, one module per kind of resource. Each has a `table` of declared operations."""

from __future__ import annotations

from bcs_scheduler.api.operation import Operation


def operations() -> list[Operation]:
    """Every operation of the API."""
    from bcs_scheduler.api.routes import applications, taskgroups, transactions, versions

    modules = (applications, versions, taskgroups, transactions)
    return [operation for module in modules for operation in module.table.operations]
