"""The read methods of a state. A reader is the whole state (store.state.state.State), or the part that a caller of the
API may see (bcs_scheduler.api.reading.visible), which replaces every table and method.

Any thread may use a reader. Tables and answers change while they are walked over, so other threads than that of the
core copy them first. Questions for the thread of the core alone and changes are in `State`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Protocol, TypeVar, cast

from store.ids import split_part
from store.records import (
    AgentSetting,
    Application,
    Command,
    ConfigMap,
    CustomKind,
    CustomObject,
    Daemonset,
    Deployment,
    Endpoint,
    EventLog,
    FailedOutput,
    Framework,
    ManagedApplication,
    ManagedTask,
    Message,
    Namespace,
    Placeholder,
    PodGroup,
    PriorityClass,
    Queue,
    QueueTree,
    Record,
    Revision,
    Secret,
    Service,
    TaskGroup,
    Transaction,
    Version,
    Webhook,
)
from store.state.census import Census
from store.state.moment import Moment
from store.state.ordered import ORDERINGS, Order, Orders
from store.state.readiness import Readiness

Key = str
R = TypeVar("R", bound=Record)
TABLES = {
    "taskgroup": "taskgroups",
    "remnant": "orphaned_tasks",
    "output": "outputs",
    "application": "applications",
    "transaction": "transactions",
    "agentsetting": "agent_settings",
    "configmap": "config_maps",
    "secret": "secrets",
    "command": "commands",
    "message": "messages",
    "deployment": "deployments",
    "revision": "revisions",
    "daemonset": "daemonsets",
    "service": "services",
    "endpoint": "endpoints",
    "namespace": "namespaces",
    "queue": "queues",
    "queuetree": "queue_trees",
    "priorityclass": "priority_classes",
    "podgroup": "pod_groups",
    "managedapplication": "managed_applications",
    "managedtask": "managed_tasks",
    "placeholder": "placeholders",
    "webhook": "webhooks",
    "customkind": "custom_kinds",
    "customobject": "custom_objects",
    "journal": "event_logs",
}
"""The table of a reader that has the records of a kind. Only `State` has the table of orphaned tasks."""

_EMPTY: dict[str, TaskGroup] = {}
_NO_MESSAGES: dict[str, Message] = {}
_NO_TRANSACTIONS: dict[str, Transaction] = {}
_NO_VERSIONS: dict[str, Version] = {}
_NO_REVISIONS: dict[int, Revision] = {}
_NO_STATUSES: Mapping[str, int] = {}
_NO_INDEXES: Mapping[int, int] = {}


class IndexReader(Protocol):
    """The answers of store.state.indexes.Indexes that belong to namespaces or agents."""

    def keys_in(self, kind: str, namespace: str) -> Mapping[Key, None]:
        """Keys of the records of a kind (one of store.state.indexes.NAMESPACED) in a namespace, in the order of their
        creation."""

    def sizes(self) -> dict[tuple[str, str], int]:
        """Number of records by (kind, namespace), without zeros."""

    def applications_in(self, group: Key) -> Mapping[Key, None]:
        """Keys of the applications that name this group (``namespace/name``)."""

    def managed_by(self, kind: str, application: Key) -> Mapping[Key, None]:
        """Keys of the tasks (kind managedtask) or placeholders (kind placeholder) of a managed application."""

    def agents_called(self, name: str) -> list[str]:
        """Ids of the agents that hold taskgroups and that these know by this host name or address."""

    def drained_from(self, agent: str) -> Mapping[Key, None]:
        """Ids of the remembered transactions that move taskgroups away from an agent that is being drained. `agent`:
        key of its settings."""


class StateReader:
    """The read methods of a state, and the tables that they read."""

    moment: Moment
    """The moment of the core: do the records agree with each other now?"""
    framework: Framework
    """The registration with the cluster manager; an empty record before the first one."""
    applications: Mapping[Key, Application]
    """Applications by key (``namespace/name``)."""
    taskgroups: Mapping[Key, TaskGroup]
    """Taskgroups by id."""
    transactions: Mapping[Key, Transaction]
    """Transactions by id."""
    agent_settings: Mapping[Key, AgentSetting]
    """Settings that operators have made for agents, by the name of the agent."""
    config_maps: Mapping[Key, ConfigMap]
    """Configmaps by key (``namespace/name``)."""
    secrets: Mapping[Key, Secret]
    """Secrets by key (``namespace/name``)."""
    commands: Mapping[Key, Command]
    """Commands by id."""
    outputs: Mapping[Key, FailedOutput]
    """Last outputs of failed tasks by the id of the task."""
    messages: Mapping[Key, Message]
    """Messages by id."""
    deployments: Mapping[Key, Deployment]
    """Deployments by key (``namespace/name``)."""
    revisions: Mapping[Key, Revision]
    """Revisions by key (store.ids.part_key of deployment and number)."""
    daemonsets: Mapping[Key, Daemonset]
    """Daemonsets by key (``namespace/name``)."""
    services: Mapping[Key, Service]
    """Services by key (``namespace/name``)."""
    endpoints: Mapping[Key, Endpoint]
    """Endpoints by the key of the service."""
    namespaces: Mapping[Key, Namespace]
    """Namespaces with settings, by name."""
    queues: Mapping[Key, Queue]
    """Queues with settings, by name. The queue `default` exists without a record."""
    queue_trees: Mapping[Key, QueueTree]
    """Kept revisions of the trees of queues by key."""
    priority_classes: Mapping[Key, PriorityClass]
    """Priority classes by name."""
    pod_groups: Mapping[Key, PodGroup]
    """Groups of applications by key (``namespace/name``)."""
    managed_applications: Mapping[Key, ManagedApplication]
    """Managed applications by key (``namespace/name``)."""
    managed_tasks: Mapping[Key, ManagedTask]
    """Tasks of managed applications by key (``namespace/application/name``)."""
    placeholders: Mapping[Key, Placeholder]
    """Placeholders by key (``namespace/name``)."""
    webhooks: Mapping[Key, Webhook]
    """Webhooks by key (``namespace/name``)."""
    custom_kinds: Mapping[Key, CustomKind]
    """Custom kinds by name."""
    custom_objects: Mapping[Key, CustomObject]
    """Custom objects by key (store.ids.custom_key)."""
    event_logs: Mapping[Key, EventLog]
    """Runs of events, by number with leading zeros."""
    latest_of: Mapping[Key, float]
    """Unix seconds at which a taskgroup of an application was last changed, by the application's key. Applications
    without taskgroups are missing."""
    indexes: IndexReader
    """Keys of records by their contents."""

    census: Census
    """The counts that constraints and figures ask for."""
    readiness: Readiness
    """The taskgroups that are not ready."""
    _tables: dict[str, dict[Key, Record]]
    """The tables above by kind; each has records of its kind only."""
    _revisions_of: dict[Key, dict[int, Revision]]
    _messages_of: dict[Key, dict[str, Message]]
    _open_messages: dict[str, dict[str, Message]]
    _versions: dict[Key, dict[str, Version]]
    _groups_of: dict[Key, dict[str, TaskGroup]]
    _groups_on: dict[str, dict[str, TaskGroup]]
    _status_of: dict[Key, Counter[str]]
    _indexes_of: dict[Key, Counter[int]]
    _unhealthy_of: Counter[Key]
    _active_of: dict[Key, dict[str, Transaction]]
    _transactions_of: dict[Key, dict[str, Transaction]]
    _queued_of: dict[str, dict[str, Transaction]]
    _orders: Orders

    def get(self, kind: str, key: Key) -> Record | None:
        """Returns the record of this kind and key; None if it does not exist. Raises KeyError for an unknown kind."""
        table = self._tables.get(kind)
        if table is not None:
            return table.get(key)
        if kind == "version":
            application, name = split_part(key)
            return self._versions.get(application, _NO_VERSIONS).get(name)
        if kind == "framework":
            return self.framework if self.framework.id or self.framework.created_at else None
        raise KeyError(kind)

    def versions_of(self, application: Key) -> Mapping[str, Version]:
        """Versions of an application by name."""
        return self._versions.get(application, _NO_VERSIONS)

    def version(self, application: Key, name: str) -> Version | None:
        """The version of an application (``namespace/name``) by its name; None if there is none."""
        return self._versions.get(application, _NO_VERSIONS).get(name)

    def groups_of(self, application: Key) -> Mapping[str, TaskGroup]:
        """Taskgroups of an application by id."""
        return self._groups_of.get(application, _EMPTY)

    def groups_on(self, agent_id: str) -> Mapping[str, TaskGroup]:
        """Taskgroups on an agent by id."""
        return self._groups_on.get(agent_id, _EMPTY)

    def status_counts(self, application: Key) -> Mapping[str, int]:
        """Number of taskgroups of the application by status."""
        return self._status_of.get(application, _NO_STATUSES)

    def evicted(self, application: Key) -> Mapping[str, int]:
        """Number of evicted taskgroups of the application by status (`Census.evicted`)."""
        return self.census.evicted(application)

    def held(self) -> Mapping[tuple[str, str], Mapping[str, int]]:
        """Resources of the taskgroups that have not ended, by namespace and role (`Census.held`)."""
        return self.census.held()

    def unhealthy(self, application: Key) -> int:
        """Number of live taskgroups of the application that have a task with failing health checks."""
        return self._unhealthy_of.get(application, 0)

    def unready_of(self, application: Key) -> list[TaskGroup]:
        """The taskgroups of the application that are not ready, in any order. Costs with their number; any thread."""
        return list(self.readiness.unready(application).values())

    def indexes_of(self, application: Key) -> Mapping[int, int]:
        """Indexes that taskgroups of the application hold, with how many hold each."""
        return self._indexes_of.get(application, _NO_INDEXES)

    def active_of(self, application: Key) -> Mapping[str, Transaction]:
        """Transactions of an application that have not ended, by id."""
        return self._active_of.get(application, _NO_TRANSACTIONS)

    def queued_of(self, kind: str, key: Key) -> Mapping[str, Transaction]:
        """Transactions that wait for an application or deployment, by id, in the order in which they came."""
        return self._queued_of.get(f"{kind} {key}", _NO_TRANSACTIONS)

    def transactions_of(self, application: Key) -> Mapping[str, Transaction]:
        """All remembered transactions of an application, by id."""
        return self._transactions_of.get(application, _NO_TRANSACTIONS)

    def messages_of(self, command: Key) -> Mapping[str, Message]:
        """Messages of a command by id."""
        return self._messages_of.get(command, _NO_MESSAGES)

    def open_messages_of(self, taskgroup: str) -> Mapping[str, Message]:
        """Messages to a taskgroup that have not been answered, by id."""
        return self._open_messages.get(taskgroup, _NO_MESSAGES)

    def open_messages(self) -> list[Message]:
        """All messages whose outcome is not known yet, of all taskgroups."""
        return [m for group in list(self._open_messages.values()) for m in list(group.values())]

    def revisions_of(self, deployment: Key) -> Mapping[int, Revision]:
        """Revisions of a deployment that are kept, by number."""
        return self._revisions_of.get(deployment, _NO_REVISIONS)

    def active_transactions(self) -> list[Transaction]:
        """All transactions without a verdict."""
        return [t for group in list(self._active_of.values()) for t in list(group.values())]

    def agent_ids(self) -> list[str]:
        """Agents that hold taskgroups."""
        return list(self._groups_on)

    def in_order(self, kind: type[R], prefix: Order = (), after: Order | None = None) -> Iterator[tuple[Order, R]]:
        """Yields the records of a kind with their orders (store.state.ordered.ORDERINGS), smallest first: those whose
        order begins with `prefix` and is greater than `after` (None = all). The cost depends only on the records that
        are read. Raises TypeError if `after` does not fit the order of this kind."""
        table, key_of, length = self._table(kind), ORDERINGS[kind.kind].key, len(prefix)
        begin = prefix if after is None or prefix > after else after
        for order in self._orders.of(kind.kind).after(begin or None):
            if order[:length] != prefix:
                return
            record = table.get(key_of(order))
            if record is not None:  # removed meanwhile
                yield order, record

    def _table(self, kind: type[R]) -> Mapping[Key, R]:
        return cast(Mapping[Key, R], self._tables[kind.kind])
