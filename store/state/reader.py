"""The read methods of a state, as protocols. A reader is the whole state (store.state.state.State), or the part that a
caller of the API may see (bcs_scheduler.api.reading.visible).

Any thread may use a reader. Tables and answers change while they are walked over, so other threads than that of the
core copy them first. Questions for the thread of the core alone and changes are not part of the protocols.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Protocol, TypeVar

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
from store.state.moment import Moment
from store.state.ordered import Order

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


class StateReader(Protocol):
    """The read methods of a state. `State` has the costs and the details."""

    @property
    def moment(self) -> Moment:
        """The moment of the core: do the records agree with each other now?"""

    @property
    def framework(self) -> Framework:
        """The registration with the cluster manager; an empty record before the first one."""

    @property
    def applications(self) -> Mapping[Key, Application]:
        """Applications by key (``namespace/name``)."""

    @property
    def taskgroups(self) -> Mapping[Key, TaskGroup]:
        """Taskgroups by id."""

    @property
    def transactions(self) -> Mapping[Key, Transaction]:
        """Transactions by id."""

    @property
    def agent_settings(self) -> Mapping[Key, AgentSetting]:
        """Settings that operators have made for agents, by the name of the agent."""

    @property
    def config_maps(self) -> Mapping[Key, ConfigMap]:
        """Configmaps by key (``namespace/name``)."""

    @property
    def secrets(self) -> Mapping[Key, Secret]:
        """Secrets by key (``namespace/name``)."""

    @property
    def commands(self) -> Mapping[Key, Command]:
        """Commands by id."""

    @property
    def outputs(self) -> Mapping[Key, FailedOutput]:
        """Last outputs of failed tasks by the id of the task."""

    @property
    def messages(self) -> Mapping[Key, Message]:
        """Messages by id."""

    @property
    def deployments(self) -> Mapping[Key, Deployment]:
        """Deployments by key (``namespace/name``)."""

    @property
    def revisions(self) -> Mapping[Key, Revision]:
        """Revisions by key (store.ids.part_key of deployment and number)."""

    @property
    def daemonsets(self) -> Mapping[Key, Daemonset]:
        """Daemonsets by key (``namespace/name``)."""

    @property
    def services(self) -> Mapping[Key, Service]:
        """Services by key (``namespace/name``)."""

    @property
    def endpoints(self) -> Mapping[Key, Endpoint]:
        """Endpoints by the key of the service."""

    @property
    def namespaces(self) -> Mapping[Key, Namespace]:
        """Namespaces with settings, by name."""

    @property
    def queues(self) -> Mapping[Key, Queue]:
        """Queues with settings, by name. The queue `default` exists without a record."""

    @property
    def queue_trees(self) -> Mapping[Key, QueueTree]:
        """Kept revisions of the trees of queues by key."""

    @property
    def priority_classes(self) -> Mapping[Key, PriorityClass]:
        """Priority classes by name."""

    @property
    def pod_groups(self) -> Mapping[Key, PodGroup]:
        """Groups of applications by key (``namespace/name``)."""

    @property
    def managed_applications(self) -> Mapping[Key, ManagedApplication]:
        """Managed applications by key (``namespace/name``)."""

    @property
    def managed_tasks(self) -> Mapping[Key, ManagedTask]:
        """Tasks of managed applications by key (``namespace/application/name``)."""

    @property
    def placeholders(self) -> Mapping[Key, Placeholder]:
        """Placeholders by key (``namespace/name``)."""

    @property
    def webhooks(self) -> Mapping[Key, Webhook]:
        """Webhooks by key (``namespace/name``)."""

    @property
    def custom_kinds(self) -> Mapping[Key, CustomKind]:
        """Custom kinds by name."""

    @property
    def custom_objects(self) -> Mapping[Key, CustomObject]:
        """Custom objects by key (store.ids.custom_key)."""

    @property
    def event_logs(self) -> Mapping[Key, EventLog]:
        """Runs of events, by number with leading zeros."""

    @property
    def latest_of(self) -> Mapping[Key, float]:
        """Unix seconds at which a taskgroup of an application was last changed, by the application's key. Applications
        without taskgroups are missing."""

    @property
    def indexes(self) -> IndexReader:
        """Keys of records by their contents."""

    def get(self, kind: str, key: Key) -> Record | None:
        """Returns the record of this kind and key; None if it does not exist. Raises KeyError for an unknown kind."""

    def versions_of(self, application: Key) -> Mapping[str, Version]:
        """Versions of an application by name."""

    def version(self, application: Key, name: str) -> Version | None:
        """The version of an application (``namespace/name``) by its name; None if there is none."""

    def groups_of(self, application: Key) -> Mapping[str, TaskGroup]:
        """Taskgroups of an application by id."""

    def groups_on(self, agent_id: str) -> Mapping[str, TaskGroup]:
        """Taskgroups on an agent by id."""

    def status_counts(self, application: Key) -> Mapping[str, int]:
        """Number of taskgroups of the application by status."""

    def evicted(self, application: Key) -> Mapping[str, int]:
        """Number of evicted taskgroups of the application by status (`Census.evicted`)."""

    def held(self) -> Mapping[tuple[str, str], Mapping[str, int]]:
        """Resources of the taskgroups that have not ended, by namespace and role (`Census.held`)."""

    def unhealthy(self, application: Key) -> int:
        """Number of live taskgroups of the application that have a task with failing health checks."""

    def unready_of(self, application: Key) -> list[TaskGroup]:
        """The taskgroups of the application that are not ready, in any order. Costs with their number."""

    def indexes_of(self, application: Key) -> Mapping[int, int]:
        """Indexes that taskgroups of the application hold, with how many hold each."""

    def active_of(self, application: Key) -> Mapping[str, Transaction]:
        """Transactions of an application that have not ended, by id."""

    def queued_of(self, kind: str, key: Key) -> Mapping[str, Transaction]:
        """Transactions that wait for an application or deployment, by id, in the order in which they came."""

    def transactions_of(self, application: Key) -> Mapping[str, Transaction]:
        """All remembered transactions of an application, by id."""

    def messages_of(self, command: Key) -> Mapping[str, Message]:
        """Messages of a command by id."""

    def open_messages_of(self, taskgroup: str) -> Mapping[str, Message]:
        """Messages to a taskgroup that have not been answered, by id."""

    def open_messages(self) -> list[Message]:
        """All messages whose outcome is not known yet, of all taskgroups."""

    def revisions_of(self, deployment: Key) -> Mapping[int, Revision]:
        """Revisions of a deployment that are kept, by number."""

    def active_transactions(self) -> list[Transaction]:
        """All transactions without a verdict."""

    def agent_ids(self) -> list[str]:
        """Agents that hold taskgroups."""

    def in_order(self, kind: type[R], prefix: Order = (), after: Order | None = None) -> Iterator[tuple[Order, R]]:
        """Records of a kind of store.state.ordered.ORDERINGS with their orders, smallest first: those whose order
        begins with `prefix`, and is greater than `after` (None = all). Raises TypeError if `after` does not fit the
        order of this kind."""
