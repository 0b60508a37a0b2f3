"""Finding one object by what a user types for it."""

from __future__ import annotations

from typing import NamedTuple

from bcs_scheduler.cli.client import Client, Json
from bcs_scheduler.cli.errors import NotFound, UsageError
from store.ids import TaskGroupId, commanded, nanoseconds_of


def application_of(taskgroup: str) -> tuple[str, str]:
    """(namespace, application) from ``index.application.namespace.cluster.nanoseconds``. Raises UsageError."""
    found = TaskGroupId.parse(taskgroup)
    if found is None:
        raise UsageError(f"{taskgroup!r} is not the id of a taskgroup (index.application.namespace.cluster.time)")
    return found.namespace, found.application


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
    """What owns taskgroups, or one taskgroup of it."""

    kind: str
    """Of the owner."""
    namespace: str
    name: str
    """Of the owner."""
    taskgroups: list[Json]
    one: bool
    """A taskgroup was named."""

    @property
    def taskgroup(self) -> str:
        """Id; empty for all of the owner."""
        return str(self.taskgroups[0]["ID"]) if self.one else ""

    @property
    def title(self) -> str:
        return f"taskgroup/{self.taskgroups[0]['Name']}" if self.one else f"{self.kind}/{self.name}"


OWNERS = {
    "application": "application", "app": "application", "process": "application", "deployment": "deployment",
    "deploy": "deployment", "dep": "deployment", "daemonset": "daemonset", "ds": "daemonset",
}  # fmt: skip
"""Kinds that may stand before a name: ``deployment/web``."""


def find_owner(client: Client, namespace: str, text: str) -> tuple[str, str]:
    """(kind, name) of what has taskgroups: ``kind/name``, or a name alone. Whether an application of the name exists is
    not looked at: what is done with it will tell. Raises UsageError for a name that means two things."""
    head, slash, name = text.partition("/")
    if slash:
        if head.lower() not in OWNERS or not name:
            raise UsageError(f"{text!r}: before the slash stands a kind: {', '.join(dict.fromkeys(OWNERS.values()))}")
        return OWNERS[head.lower()], name
    try:
        found = client.deployment(namespace, text)
    except NotFound:
        return ("daemonset" if _is_daemonset(client, namespace, text) else "application"), text
    sides = [side["name"] for side in (found.get("application"), found.get("application_ext")) if side]
    if text not in sides and is_application(client, namespace, text):
        raise UsageError(f"{text} is a deployment, and an application too: say deployment/{text} or application/{text}")
    return "deployment", text


def _is_daemonset(client: Client, namespace: str, name: str) -> bool:
    try:
        return client.application(namespace, name).get("Kind") == "daemonset"
    except NotFound:
        return False


def is_application(client: Client, namespace: str, name: str) -> bool:
    try:
        client.application(namespace, name)
    except NotFound:
        return False
    return True


def running_kind(kind: str) -> str:
    """The kind of what holds the taskgroups: those of a daemonset belong to an application of its name."""
    return "application" if kind == "daemonset" else kind


def owner_target(client: Client, namespace: str, kind: str, name: str) -> Target:
    """All taskgroups of it. Raises NotFound."""
    kind = running_kind(kind)
    return Target(kind, namespace, name, client.taskgroups(namespace, name, kind=kind), one=False)


def find_target(client: Client, namespace: str, text: str) -> Target:
    """By id or name of a taskgroup, or by what owns taskgroups, which goes first. Raises NotFound."""
    if "." not in text:
        kind, name = find_owner(client, namespace, text)
        try:
            return owner_target(client, namespace, kind, name)
        except NotFound:
            if "/" in text or not name.rpartition("-")[2].isdigit():
                raise
    found = find_taskgroup(client, namespace, text)
    return Target("application", str(found["RunAs"]), str(found["AppID"]), [found], one=True)


def find_message_target(client: Client, namespace: str, text: str) -> Target:
    """As `find_target`, for what is sent to one application: of a deployment its own, unless an update gives it two."""
    target = find_target(client, namespace, text)
    if target.kind != "deployment":
        return target
    found = client.deployment(namespace, target.name)
    sides = [side["name"] for side in (found.get("application"), found.get("application_ext")) if side]
    if len(sides) != 1:
        named = f"name one of its applications ({', '.join(sides)})" if sides else "it has no application"
        raise UsageError(f"deployment {target.name} is {found['status']}: {named}")
    return target._replace(kind="application", name=sides[0])


def find_command(client: Client, namespace: str, identity: str) -> Json:
    """By id (``Application-<namespace>-<name>-<nanoseconds>``, ``Deployment-...``). Raises NotFound, UsageError."""
    for kind in ("application", "deployment"):
        name = commanded(identity, kind, namespace)
        if name:
            return client.command(namespace, name, identity, kind=kind)
    raise UsageError(f"{identity!r} is not the id of a command in namespace {namespace}")


def _members(client: Client, namespace: str, application: str) -> list[Json]:
    try:
        return client.taskgroups(namespace, application)
    except NotFound:
        return []


def _newest(group: Json) -> int:
    return nanoseconds_of(group["ID"])


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
    """By address, host name, Mesos id, or what its settings are stored under."""
    for agent in client.agents():
        if name in _names(agent):
            return agent
    raise NotFound(f"agent {name} does not exist")


def setting_keys(agents: list[Json], name: str) -> list[str]:
    """What the settings of the agents of this name are stored under; what nobody knows yet can be set up by its name.
    As the server does it: a key means its agent, another name all that have it, but not mere settings."""
    known = [agent for agent in agents if agent.get("id")]
    if any(agent["key"] == name for agent in known):
        return [name]
    return list(dict.fromkeys(str(agent["key"]) for agent in known if name in _names(agent))) or [name]


def _names(agent: Json) -> tuple[str | None, ...]:
    return agent.get("ip"), agent.get("hostname"), agent.get("id"), agent.get("key")
