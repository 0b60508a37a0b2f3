"""The tables of all kinds: how objects of a kind are read, shown, described, explained, changed and deleted."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, TypeVar

from bcs_scheduler.cli.client.types import Json
from bcs_scheduler.cli.errors import UsageError
from bcs_scheduler.cli.habits import instead_of_kind
from bcs_scheduler.cli.kinds.base import ALIASES, Describe, Read
from bcs_scheduler.cli.output.documents import DOCUMENT_KINDS as DOCUMENT_KINDS
from bcs_scheduler.cli.output.tables import Column
from bcs_scheduler.cli.session import Session
from store.advice import advise

if TYPE_CHECKING:
    from bcs_scheduler.cli.documents import Operations


Value = TypeVar("Value")


class LazyTable(Mapping[str, Value]):
    """Values by key. `places`: where the value is, as ``module:attribute``. Keys load no module."""

    def __init__(self, places: Mapping[str, str]) -> None:
        self._places = places

    def __getitem__(self, key: str) -> Value:
        module, _, attribute = self._places[key].partition(":")
        value: Value = getattr(import_module(module), attribute)
        return value

    def __contains__(self, key: object) -> bool:
        return key in self._places

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)


AGENTS, COMMANDS, CONFIGURATION, EXTENSIONS, GROUPS, MANAGED, PRIORITIES, QUEUES, SERVICES = (
    f"bcs_scheduler.cli.kinds.objects.{module}"
    for module in (
        "agents", "commands", "configuration", "extensions", "groups", "managed", "priorities", "queues", "services",
    )
)  # fmt: skip
APPLICATIONS, DAEMONSETS, DEPLOYMENTS, EVENTS, TASKGROUPS, TRANSACTIONS = (
    f"bcs_scheduler.cli.kinds.workloads.{module}"
    for module in ("applications", "daemonsets", "deployments", "events", "taskgroups", "transactions")
)
NAMESPACE = Column(
    "NAMESPACE",
    lambda item: item.get("RunAs") or item.get("namespace") or (item.get("metadata") or {}).get("namespace"),
)
COLUMNS: Mapping[str, Sequence[Column]] = LazyTable(
    {
        "events": f"{EVENTS}:EVENTS",
        "deployments": f"{DEPLOYMENTS}:DEPLOYMENTS",
        "daemonsets": f"{DAEMONSETS}:DAEMONSETS",
        "applications": f"{APPLICATIONS}:APPLICATIONS",
        "taskgroups": f"{TASKGROUPS}:TASKGROUPS",
        "tasks": f"{TASKGROUPS}:TASKS",
        "services": f"{SERVICES}:SERVICES",
        "endpoints": f"{SERVICES}:ENDPOINTS",
        "namespaces": f"{EXTENSIONS}:NAMESPACE_COLUMNS",
        "queues": f"{QUEUES}:QUEUE_COLUMNS",
        "priorityclasses": f"{PRIORITIES}:PRIORITY_CLASS_COLUMNS",
        "podgroups": f"{GROUPS}:POD_GROUP_COLUMNS",
        "managed": f"{MANAGED}:MANAGED_COLUMNS",
        "webhooks": f"{EXTENSIONS}:WEBHOOK_COLUMNS",
        "kinds": f"{EXTENSIONS}:KIND_COLUMNS",
        "configmaps": f"{CONFIGURATION}:CONFIGMAPS",
        "secrets": f"{CONFIGURATION}:SECRETS",
        "commands": f"{COMMANDS}:COMMAND_COLUMNS",
        "messages": f"{COMMANDS}:MESSAGES",
        "transactions": f"{TRANSACTIONS}:TRANSACTIONS",
        "agents": f"{AGENTS}:AGENT_COLUMNS",
        "offers": f"{AGENTS}:OFFERS",
        "cluster": f"{AGENTS}:CLUSTER",
        "servers": f"{AGENTS}:SERVERS",
        "definition": f"{APPLICATIONS}:DEFINITION",
        "versions": f"{APPLICATIONS}:VERSIONS",
    }
)
"""The columns of each kind that `bcs get` knows."""
SINGULAR = {kind: kind.removesuffix("es" if kind.endswith("sses") else "s") for kind in COLUMNS}
"""The word for one object of a kind."""
NAME_KEYS = ("ID", "transactionID", "Name", "name", "id", "Id", "hostname", "server")
"""Keys that hold the name of an object, in order of preference."""


def first_column(kind: str) -> Column:
    """The column with the name of an object."""
    return columns_of(kind)[0]


def columns_of(kind: str) -> Sequence[Column]:
    """The columns of a kind; an unknown kind is a registered kind of custom resources."""
    if kind in COLUMNS:
        return COLUMNS[kind]
    from bcs_scheduler.cli.kinds.objects.extensions import CUSTOM_COLUMNS

    return CUSTOM_COLUMNS


def reader_of(kind: str, *, documents: bool = False) -> Read:
    """The function that reads objects of a kind; an unknown kind is a registered kind of custom resources. `documents`:
    the answers include the documents."""
    if documents and kind in READERS_OF_DOCUMENTS:
        return READERS_OF_DOCUMENTS[kind]
    if kind in READERS:
        return READERS[kind]
    from bcs_scheduler.cli.kinds.objects.extensions import read_custom

    return read_custom(kind)


def name_of(kind: str, item: Json) -> str:
    """The name for -o name: by it the other commands find the object."""
    if kind in ("agents", "offers"):
        return str(item.get("hostname") or item.get("ip"))
    if kind in ("taskgroups", "messages"):
        return str(item["Name"] if kind == "taskgroups" else item["Id"])
    if "metadata" in item and item["metadata"].get("name"):
        return str(item["metadata"]["name"])
    if kind == "kinds":
        return str(item["spec"]["names"]["kind"])
    return str(next((item[key] for key in NAME_KEYS if item.get(key)), kind))


OPERATIONS: Mapping[str, Operations] = LazyTable(
    {
        "namespace": f"{EXTENSIONS}:NAMESPACE_OPERATIONS",
        "queue": f"{QUEUES}:QUEUE_OPERATIONS",
        "PodGroup": f"{GROUPS}:POD_GROUP_OPERATIONS",
        "PriorityClass": f"{PRIORITIES}:PRIORITY_CLASS_OPERATIONS",
        "crr": f"{EXTENSIONS}:KIND_OPERATIONS",
        "configmap": f"{CONFIGURATION}:CONFIGMAP_OPERATIONS",
        "secret": f"{CONFIGURATION}:SECRET_OPERATIONS",
        "service": f"{CONFIGURATION}:SERVICE_OPERATIONS",
        "application": "bcs_scheduler.cli.kinds.workloads.application_operations:OPERATIONS",
        "process": "bcs_scheduler.cli.kinds.workloads.application_operations:OPERATIONS",
        "deployment": "bcs_scheduler.cli.kinds.workloads.deployment_operations:OPERATIONS",
        "daemonset": f"{DAEMONSETS}:OPERATIONS",
        "admissionwebhook": f"{EXTENSIONS}:WEBHOOK_OPERATIONS",
        "Command": f"{COMMANDS}:COMMAND_OPERATIONS",
        "agent": f"{AGENTS}:AGENT_OPERATIONS",
    }
)
"""Operations by kind of document; the kinds are those of documents.KINDS."""
DELETABLE = {
    "application": "application", "app": "application", "process": "application", "deployment": "deployment",
    "deploy": "deployment", "dep": "deployment", "daemonset": "daemonset",
    "ds": "daemonset", "configmap": "configmap", "cm": "configmap", "secret": "secret",
    "service": "service", "svc": "service", "command": "Command",
    "namespace": "namespace", "ns": "namespace", "webhook": "admissionwebhook", "admissionwebhook": "admissionwebhook",
    "queue": "queue", "priorityclass": "PriorityClass", "pc": "PriorityClass", "podgroup": "PodGroup",
    "pg": "PodGroup", "kind": "crr", "crr": "crr", "agent": "agent", "node": "agent",
}  # fmt: skip
"""Kinds that `bcs delete` accepts before names, with aliases."""


def operations_of(kind: str) -> Operations:
    """Operations of a kind of document; an unknown kind is a registered kind of custom resources."""
    if kind in OPERATIONS:
        return OPERATIONS[kind]
    from bcs_scheduler.cli.kinds.objects.extensions import custom_operations

    return custom_operations(kind)


SELECTABLE = (
    "deployments",
    "daemonsets",
    "applications",
    "taskgroups",
    "tasks",
    "services",
    "endpoints",
    "configmaps",
    "secrets",
    "namespaces",
    "queues",
    "priorityclasses",
    "podgroups",
    "webhooks",
)
"""Kinds that support -l."""
OF_APPLICATION = ("versions", "commands", "messages")
"""Kinds that `bcs get` lists for one application only."""
OF_OWNER = ("definition",)
"""Kinds that are printed as documents."""
CLUSTER_WIDE = ("agents", "cluster", "servers", "offers", "namespaces", "queues", "priorityclasses", "kinds")
NAMESPACED = (
    "deployments",
    "daemonsets",
    "applications",
    "taskgroups",
    "tasks",
    "transactions",
    "services",
    "endpoints",
    "configmaps",
    "secrets",
    "podgroups",
    "managed",
    "webhooks",
)
"""Kinds with a column for the namespace in lists of all namespaces."""


def known_kind(session: Session, word: str) -> str:
    """A key of COLUMNS, or the name of a registered kind. Raises click.BadParameter, and UsageError for a kind of
    others."""
    if word in COLUMNS:
        return word
    from difflib import get_close_matches

    import click

    from bcs_scheduler.cli.kinds.objects.extensions import registered_kind

    kind = registered_kind(session, word)
    if kind is None:
        if instead := instead_of_kind(word):
            raise UsageError(instead)
        near = get_close_matches(word.lower(), (*COLUMNS, *ALIASES), n=1)
        hint = f" (did you mean {near[0]}?)" if near else ""
        raise click.BadParameter(f"unknown kind {word!r}{hint}; {advise('list_kinds')}")
    return kind


NAMED = (
    "deployments",
    "daemonsets",
    "applications",
    "taskgroups",
    "tasks",
    "services",
    "endpoints",
    "namespaces",
    "queues",
    "priorityclasses",
    "podgroups",
    "managed",
    "webhooks",
    "kinds",
    "configmaps",
    "secrets",
    "agents",
    "offers",
)
"""Kinds whose lists are in natural order of namespace and name; the server orders the others, mostly by time."""
READERS: Mapping[str, Read] = LazyTable(
    {
        "deployments": f"{DEPLOYMENTS}:read_deployments",
        "daemonsets": f"{DAEMONSETS}:read_daemonsets",
        "applications": f"{APPLICATIONS}:read_applications",
        "taskgroups": f"{TASKGROUPS}:read_taskgroups",
        "transactions": f"{TRANSACTIONS}:read_transactions",
        "agents": f"{AGENTS}:read_agents",
        "offers": f"{AGENTS}:read_offers",
        "cluster": f"{AGENTS}:read_cluster",
        "servers": f"{AGENTS}:read_servers",
        "definition": f"{APPLICATIONS}:read_definition",
        "versions": f"{APPLICATIONS}:read_versions",
        "tasks": f"{TASKGROUPS}:read_tasks",
        "services": f"{CONFIGURATION}:READ_SERVICES",
        "endpoints": f"{SERVICES}:read_endpoints",
        "namespaces": f"{EXTENSIONS}:read_namespaces",
        "queues": f"{QUEUES}:read_queues",
        "podgroups": f"{GROUPS}:read_pod_groups",
        "managed": f"{MANAGED}:read_managed",
        "priorityclasses": f"{PRIORITIES}:read_priority_classes",
        "webhooks": f"{EXTENSIONS}:read_webhooks",
        "kinds": f"{EXTENSIONS}:read_kinds",
        "configmaps": f"{CONFIGURATION}:READ_CONFIGMAPS",
        "secrets": f"{CONFIGURATION}:READ_SECRETS",
        "commands": f"{COMMANDS}:read_commands",
        "messages": f"{COMMANDS}:read_messages",
    }
)
READERS_OF_DOCUMENTS: Mapping[str, Read] = LazyTable(
    {
        "applications": f"{APPLICATIONS}:read_applications_with_documents",
        "daemonsets": f"{DAEMONSETS}:read_daemonsets_with_documents",
    }
)
"""Readers for kinds whose answers have no documents unless these are asked for."""
EXPLANATIONS: Mapping[str, Callable[[Session, str, str], Json]] = LazyTable(
    {
        "application": f"{APPLICATIONS}:explain_application",
        "deployment": f"{DEPLOYMENTS}:explain_deployment",
        "daemonset": f"{DAEMONSETS}:explain_daemonset",
    }
)
"""Explanations by kind of workload: session, namespace, name. `text` of the result has the lines to print."""
DESCRIPTIONS: Mapping[str, Describe] = LazyTable(
    {
        "applications": f"{APPLICATIONS}:describe_application",
        "taskgroups": f"{TASKGROUPS}:describe_taskgroup",
        "transactions": f"{TRANSACTIONS}:describe_transaction",
        "agents": f"{AGENTS}:describe_agent",
        "deployments": f"{DEPLOYMENTS}:describe_deployment",
        "daemonsets": f"{DAEMONSETS}:describe_daemonset",
        "services": f"{SERVICES}:describe_service",
        "endpoints": f"{SERVICES}:describe_endpoint",
        "namespaces": f"{EXTENSIONS}:describe_namespace",
        "queues": f"{QUEUES}:describe_queue",
        "podgroups": f"{GROUPS}:describe_pod_group",
        "managed": f"{MANAGED}:describe_managed",
        "priorityclasses": f"{PRIORITIES}:describe_priority_class",
        "webhooks": f"{EXTENSIONS}:describe_webhook",
        "configmaps": f"{CONFIGURATION}:DESCRIBE_CONFIGMAP",
        "secrets": f"{CONFIGURATION}:DESCRIBE_SECRET",
        "commands": f"{COMMANDS}:describe_command",
    }
)
