"""Finding one object by what a user types for it."""

from __future__ import annotations

from typing import NamedTuple

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
    application, dash, index = name.rpartition("-")
    if dash and index.isdigit():
        groups = [group for group in _members(client, namespace, application) if group["Name"] == name]
        if groups:
            return max(groups, key=_newest)
    raise NotFound(f"taskgroup {name} does not exist in namespace {namespace}")


class Target(NamedTuple):
    """An application, or one taskgroup of it."""

    namespace: str
    application: str
    taskgroups: list[Json]
    one: bool
    """A taskgroup was named."""

    @property
    def taskgroup(self) -> str:
        """Id; empty for all of the application."""
        return str(self.taskgroups[0]["ID"]) if self.one else ""

    @property
    def title(self) -> str:
        return f"taskgroup/{self.taskgroups[0]['Name']}" if self.one else f"application/{self.application}"


def find_target(client: Client, namespace: str, name: str) -> Target:
    """By id or name of a taskgroup, or name of an application, which goes first. Raises NotFound."""
    if "." not in name:
        try:
            client.application(namespace, name)
        except NotFound:
            if not name.rpartition("-")[2].isdigit():
                raise
        else:
            return Target(namespace, name, client.taskgroups(namespace, name), one=False)
    found = find_taskgroup(client, namespace, name)
    return Target(str(found["RunAs"]), str(found["AppID"]), [found], one=True)


def find_command(client: Client, namespace: str, identity: str) -> Json:
    """By id (``Application-<namespace>-<application>-<nanoseconds>``). Raises NotFound, UsageError."""
    head = f"Application-{namespace}-"
    application = identity.removeprefix(head).rpartition("-")[0]
    if not identity.startswith(head) or not application:
        raise UsageError(f"{identity!r} is not the id of a command in namespace {namespace}")
    return client.command(namespace, application, identity)


def _members(client: Client, namespace: str, application: str) -> list[Json]:
    try:
        return client.taskgroups(namespace, application)
    except NotFound:
        return []


def _newest(group: Json) -> int:
    return int(group["ID"].rpartition(".")[2])


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
