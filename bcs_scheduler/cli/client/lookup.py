"""Objects found by the names that users type."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from bcs_scheduler.cli.client.kinds import SINGULAR, words_of
from bcs_scheduler.cli.client.types import Json
from bcs_scheduler.cli.errors import NotFound, UsageError
from bcs_scheduler.cli.habits import instead_of_kind
from store.keys import commanded, nanoseconds_of, taskgroup_name, taskgroup_parts, transaction_name

if TYPE_CHECKING:
    from bcs_scheduler.cli.client.client import Client


def application_of(taskgroup: str) -> tuple[str, str]:
    """(namespace, application) from ``index.application.namespace.cluster.nanoseconds``. Raises UsageError."""
    parts = taskgroup_parts(taskgroup)
    if parts is None:
        raise UsageError(f"{taskgroup!r} is not the id of a taskgroup (index.application.namespace.cluster.time)")
    return parts[2], parts[1]


def name_of(kind: str, identity: str) -> str:
    """The name that commands take for an object: for taskgroups and transactions shorter than the id."""
    if kind == "taskgroup":
        return taskgroup_name(identity)
    return transaction_name(identity) if kind == "transaction" else identity


def find_taskgroup(client: Client, namespace: str, name: str) -> Json:
    """A taskgroup by id, or by name (``web-3``) within the namespace. Raises NotFound."""
    head, slash, rest = name.partition("/")
    if slash and head.lower() in TASKGROUP_WORDS:
        name = rest
    if "." in name:
        return client.taskgroup(application_of(name)[0], name)
    application, dash, index = name.rpartition("-")
    if dash and index.isdigit():
        groups = [group for group in _members(client, namespace, application) if group["Name"] == name]
        if groups:
            return max(groups, key=_newest)
    raise NotFound(f"taskgroup {name} does not exist in namespace {namespace}")


class Target(NamedTuple):
    """A workload with all its taskgroups, or one taskgroup."""

    kind: str
    """Kind of the workload."""
    namespace: str
    name: str
    """Name of the workload."""
    taskgroups: list[Json]
    one: bool
    """The user named one taskgroup."""

    @property
    def taskgroup(self) -> str:
        """Id of the taskgroup; empty for all taskgroups of the workload."""
        return str(self.taskgroups[0]["ID"]) if self.one else ""

    @property
    def title(self) -> str:
        return f"taskgroup/{self.taskgroups[0]['Name']}" if self.one else f"{self.kind}/{self.name}"


TASKGROUP_WORDS = words_of("taskgroups")
"""Words that are accepted before the name of a taskgroup (``taskgroup/web-0``)."""
OWNERS = {word: SINGULAR[kind] for kind in ("applications", "deployments", "daemonsets") for word in words_of(kind)}
"""Kinds that are accepted before a name (``deployment/web``), with aliases."""


def find_owner(client: Client, namespace: str, text: str) -> tuple[str, str]:
    """(kind, name) of a workload, from ``kind/name`` or from a name.

    A name that is neither a deployment nor a daemonset is taken for an application, whether it exists or not. Raises
    UsageError for a name of both a deployment and another application.
    """
    head, slash, name = text.partition("/")
    if slash:
        if head.lower() not in OWNERS or not name:
            raise UsageError(
                instead_of_kind(head)
                or f"{text!r}: unknown kind before the slash; known: {', '.join(dict.fromkeys(OWNERS.values()))}"
            )
        return OWNERS[head.lower()], name
    try:
        found = client.deployment(namespace, text)
    except NotFound:
        return ("daemonset" if _is_daemonset(client, namespace, text) else "application"), text
    sides = [side["name"] for side in (found.get("application"), found.get("application_ext")) if side]
    if text not in sides and is_application(client, namespace, text):
        raise UsageError(
            f"{text} is both a deployment and an application: give deployment/{text} or application/{text}"
        )
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
    """Kind of the owner of the taskgroups: a daemonset has an application of its name."""
    return "application" if kind == "daemonset" else kind


def owner_target(client: Client, namespace: str, kind: str, name: str) -> Target:
    """A workload with all its taskgroups. Raises NotFound."""
    kind = running_kind(kind)
    return Target(kind, namespace, name, client.taskgroups(namespace, name, kind=kind), one=False)


def find_target(client: Client, namespace: str, text: str) -> Target:
    """A workload, or else a taskgroup by id or name. Raises NotFound."""
    head, slash, name = text.partition("/")
    if slash and head.lower() in TASKGROUP_WORDS:
        text = name
    elif "." not in text:
        kind, name = find_owner(client, namespace, text)
        try:
            return owner_target(client, namespace, kind, name)
        except NotFound:
            if "/" in text or not name.rpartition("-")[2].isdigit():
                raise
    found = find_taskgroup(client, namespace, text)
    return Target("application", str(found["RunAs"]), str(found["AppID"]), [found], one=True)


def find_message_target(client: Client, namespace: str, text: str) -> Target:
    """Like `find_target`, but for a deployment its application. Raises UsageError if an update gives it two."""
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
    """A command by id (``Application-<namespace>-<name>-<nanoseconds>``, ``Deployment-...``). Raises NotFound,
    UsageError."""
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


SHORTEST = 6
"""Characters of a short name of a transaction, at least."""


def find_transaction(client: Client, namespace: str, name: str) -> Json:
    """A transaction by id or short name, in the namespace or in another one. Raises NotFound, and UsageError if several
    transactions have the short name."""
    try:
        return client.transaction(namespace, name)
    except NotFound:
        if not name.rpartition("-")[2].isdigit() or len(name) < SHORTEST:
            raise
        own = [one for one in client.transactions(namespace) if one["transactionID"].endswith(name)]
        found = own or [one for one in client.transactions() if one["transactionID"].endswith(name)]
        if not found:
            raise
        if len(found) > 1:
            candidates = ", ".join(sorted(one["transactionID"] for one in found))
            raise UsageError(f"{name} is the end of {len(found)} transactions: give one of {candidates}") from None
        return found[0]


def short_names(identities: Sequence[str]) -> list[str]:
    """For each id of a transaction the shortest end of at least SHORTEST digits that no other id has.

    Ends, because ids begin with the same digits: they are times."""
    names: dict[str, str] = {}
    left, size = set(identities), SHORTEST
    while left:
        ends = Counter(identity[-size:] for identity in left)
        named = {identity for identity in left if ends[identity[-size:]] == 1 or len(identity) <= size}
        names |= {identity: identity[-size:] for identity in named}
        left, size = left - named, size + 1
    return [names[identity] if names[identity].isdigit() else identity for identity in identities]


def find_agent(client: Client, name: str) -> Json:
    """An agent by IP address, host name, id, or key of its settings. Raises NotFound, and UsageError for a name of
    several agents."""
    agents = client.agents()
    found = [agent for agent in agents if name in _names(agent)]
    if not found:
        from bcs_scheduler.wire.problems import nearest

        near = nearest(name, (str(known) for agent in agents for known in _names(agent)[:2] if known))
        raise NotFound(f"agent {name} does not exist{f'; did you mean {near}?' if near else ''}")
    unique = [agent for agent in found if name in (agent.get("id"), agent.get("key"))]
    if len(found) > 1 and len(unique) != 1:
        raise ambiguous(agents, found, name)
    return unique[0] if len(unique) == 1 else found[0]


AGENT_WORDS = ("agent", "agents", "node", "nodes")
"""Words that are accepted before the names of agents."""


def unique_names(agents: Sequence[Json]) -> list[str]:
    """For each agent the shortest name that no other agent has: host name, address, or id."""
    counts = Counter(name for agent in agents for name in {agent.get("hostname"), agent.get("ip")})

    def name_of(agent: Json) -> str:
        names = (agent.get("hostname"), agent.get("ip"))
        return str(next((name for name in names if name and counts[name] == 1), agent.get("id") or names[0]))

    return [name_of(agent) for agent in agents]


def ambiguous(agents: Sequence[Json], found: Sequence[Json], name: str) -> UsageError:
    """The error for a name of several agents, with their names."""
    candidates = [unique for unique, agent in zip(unique_names(agents), agents, strict=True) if agent in found]
    return UsageError(f"{name} is the name of {len(found)} agents: give one of {', '.join(candidates)}")


def setting_keys(agents: list[Json], name: str) -> list[str]:
    """The key of the settings of the agent with this name; the name itself if no agent has it. Raises UsageError for a
    name of several agents."""
    known = [agent for agent in agents if agent.get("id")]
    if any(agent["key"] == name for agent in known):
        return [name]
    found = [agent for agent in known if name in _names(agent)]
    keys = list(dict.fromkeys(str(agent["key"]) for agent in found))
    if len(keys) > 1:
        raise ambiguous(known, found, name)
    return keys or [name]


def agent_keys(agents: list[Json], words: Sequence[str]) -> list[str]:
    """Keys of the settings of agents, from names, ``agent/NAME``, or names after a word for agents as kubectl has it
    (``nodes NAME...``). `agents`: all agents. Raises UsageError for a name of several agents, and without a name."""
    names = [_bare(word) for word in words]
    known = {name for agent in agents for name in _names(agent)}
    if names and names[0].lower() in AGENT_WORDS and names[0] not in known:
        del names[0]
    if not names:
        raise UsageError("give the names of agents")
    return list(dict.fromkeys(key for name in names for key in setting_keys(agents, name)))


def _bare(word: str) -> str:
    head, slash, name = word.partition("/")
    return name if slash and name and head.lower() in AGENT_WORDS else word


def _names(agent: Json) -> tuple[str | None, ...]:
    return agent.get("ip"), agent.get("hostname"), agent.get("id"), agent.get("key")
