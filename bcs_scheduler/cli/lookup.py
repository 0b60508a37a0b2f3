"""Finding one object by what a user types for it."""

from __future__ import annotations

from bcs_scheduler.cli.client import Client, Json
from bcs_scheduler.cli.errors import NotFound, UsageError


def application_of(taskgroup: str) -> tuple[str, str]:
    """(namespace, application) from ``index.application.namespace.cluster.nanoseconds``. Raises UsageError."""
    parts = taskgroup.split(".")
    if len(parts) < 5 or not parts[0].isdigit():
        raise UsageError(f"{taskgroup!r} is not the id of a taskgroup (index.application.namespace.cluster.time)")
    return parts[2], parts[1]


def find_taskgroup(client: Client, namespace: str, name: str) -> Json:
    """By id, or by name (``web-3``) within the namespace. Raises NotFound."""
    if "." in name:
        return client.taskgroup(application_of(name)[0], name)
    for group in client.taskgroups(namespace):
        if group["Name"] == name:
            return group
    raise NotFound(f"taskgroup {name} does not exist in namespace {namespace}")


def find_transaction(client: Client, namespace: str, name: str) -> Json:
    """By id, in the namespace or any other."""
    try:
        return client.transaction(namespace, name)
    except NotFound:
        for transaction in client.transactions():
            if transaction["transactionID"] == name:
                return transaction
        raise


def find_agent(client: Client, name: str) -> Json:
    """By address, host name or Mesos id."""
    for agent in client.agents():
        if name in (agent.get("ip"), agent.get("hostname"), agent.get("id")):
            return agent
    raise NotFound(f"agent {name} does not exist")
