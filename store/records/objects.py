"""Records beside the workloads: namespaces with quotas, queues, priority classes, admission webhooks, custom
resources, and the event log."""

from __future__ import annotations

from typing import ClassVar, Literal

from store.ids import custom_key, object_key
from store.records.definition import Amounts, Part
from store.records.record import Record
from store.records.version import PreemptionPolicy

DEFAULT_QUEUE = "default"
"""Name of the queue of all namespaces that name no other queue."""
CRITICAL_CLASSES = frozenset({"system-cluster-critical", "system-node-critical"})
"""Priority classes of the work that the cluster itself needs; only namespaces that name such a class may use it."""
DEFAULT_PARTITION = "default"
"""Name of the partition of roles whose tree of queues names no other partition."""


class Quota(Part, frozen=True, kw_only=True):
    """Upper bounds for the sum of the requests of all workloads of a namespace, and for its objects; None = no bound.
    Scalars in thousandths."""

    cpus: int | None = None
    mem: int | None = None
    disk: int | None = None
    taskgroups: int | None = None
    objects: int | None = None
    """Number of objects that users store: workloads, configmaps, secrets, services, groups, custom objects."""
    object_storage: int | None = None
    """Their texts, without those of workloads: thousandths of a MB."""


class Namespace(Record, frozen=True, kw_only=True):
    """Settings of a namespace. A namespace without a record has no quota and the queue `DEFAULT_QUEUE`."""

    kind: ClassVar[str] = "namespace"

    name: str
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    quota: Quota = Quota()
    queue: str = ""
    """Name of the queue that the work of the namespace belongs to; empty = `DEFAULT_QUEUE`."""
    max_priority: int | None = None
    """Greatest priority of new work; None = that of the queue, else of the settings."""
    priority_classes: tuple[str, ...] = ()
    """Names of the priority classes that the namespace may use although their priority is greater."""
    created_at: float = 0.0
    updated_at: float = 0.0

    @property
    def key(self) -> str:
        """The name of the namespace."""
        return self.name


class Limits(Part, frozen=True, kw_only=True):
    """Amounts that a queue may have at most, in thousandths; None = no limit."""

    cpus: int | None = None
    mem: int | None = None
    disk: int | None = None
    gpus: int | None = None


class Queue(Record, frozen=True, kw_only=True):
    """A queue of the policy `session`: namespaces whose work shares one part of the cluster. Field names are those of
    kube-batch. The queue `DEFAULT_QUEUE` exists without a record, with the values that are the defaults here."""

    kind: ClassVar[str] = "queue"

    name: str
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    weight: int = 1
    """Part of the cluster in proportion to the weights of the other queues; at least 1."""
    guarantee: Amounts = Amounts()
    """Amounts that other queues cannot have, whether this queue uses them or not."""
    guarantee_extended: dict[str, int] = {}
    """The same of extended resources by name, in thousandths."""
    capability: Limits = Limits()
    capability_extended: dict[str, int] = {}
    """The same of extended resources by name, in thousandths; an amount of 0 allows nothing."""
    reclaimable: bool = True
    """Other queues may take back the amounts above the deserved share of this queue."""
    priority: int = 0
    """The greater, the earlier; only a policy that orders queues by priority looks at it."""
    max_priority: int | None = None
    """Greatest priority of new work of the namespaces of the queue; None = no bound of its own."""
    created_at: float = 0.0
    updated_at: float = 0.0

    @property
    def key(self) -> str:
        """The name of the queue."""
        return self.name

    @property
    def guaranteed(self) -> dict[str, int]:
        """The guarantee by resource, in thousandths; no amount is 0."""
        scalars = {name: getattr(self.guarantee, name) for name in Amounts.__struct_fields__}
        return {name: amount for name, amount in {**self.guarantee_extended, **scalars}.items() if amount}

    @property
    def limits(self) -> dict[str, int]:
        """The capability by resource, in thousandths; a resource that is missing is not limited."""
        scalars = {name: getattr(self.capability, name) for name in Limits.__struct_fields__}
        return {**self.capability_extended, **{name: most for name, most in scalars.items() if most is not None}}


class QueueHalt(Part, frozen=True, kw_only=True):
    """A queue of the tree that an operator has halted: `Draining` takes no applications, `Stopped` places nothing."""

    queue: str
    """Full name of the queue."""
    state: Literal["Stopped", "Draining"] = "Stopped"
    since: float = 0.0
    """Unix seconds. Applications that are older are in the queue, younger ones are not taken."""


class QueueTree(Record, frozen=True, kw_only=True):
    """A revision of a tree of queues of the policy `hierarchical`. Of each partition, the revision with the greatest
    number counts."""

    kind: ClassVar[str] = "queuetree"

    number: int
    partition: str = ""
    """Name of the partition of roles that the tree decides about; empty = `DEFAULT_PARTITION`."""
    document: str = ""
    """The tree as JSON, in the shape of YuniKorn's queue configuration."""
    halts: tuple[QueueHalt, ...] = ()
    """The queues that are halted, by name. Changes without a new revision; the next revision takes it over."""
    author: str = ""
    """Name of the caller who has made the revision; empty = the scheduler, from the file of the settings."""
    why: str = ""
    """Origin of the revision, for users: from the file, applied, rolled back to revision 3."""
    created_at: float = 0.0
    updated_at: float = 0.0

    @property
    def key(self) -> str:
        """The number as a text, after the name of a partition other than `DEFAULT_PARTITION`."""
        number = str(self.number)
        return object_key(self.partition, number) if self.partition else number


class PriorityClass(Record, frozen=True, kw_only=True):
    """A named priority. Versions hold the value that the class had when they were
    made, so a class may be deleted while it is used."""

    kind: ClassVar[str] = "priorityclass"

    name: str
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    value: int = 0
    """The greater, the more urgent. Never changes."""
    global_default: bool = False
    """New workloads without priority and class get this class; at most one class is the default."""
    preemption_policy: PreemptionPolicy = "PreemptLowerPriority"
    """Never changes."""
    description: str = ""
    created_at: float = 0.0
    updated_at: float = 0.0

    @property
    def key(self) -> str:
        """The name of the class."""
        return self.name


class PodGroup(Record, frozen=True, kw_only=True):
    """Applications of one namespace whose taskgroups start together or not at all. An application names its group in
    the annotation `store.records.GROUP_ANNOTATION`."""

    kind: ClassVar[str] = "podgroup"

    namespace: str
    name: str
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    min_member: int = 0
    """Number of taskgroups of all members that must run together."""
    min_task_member: dict[str, int] = {}
    """Number of taskgroups of single members that must run together, by the name of the deployment or application."""
    queue: str = ""
    """Name of the queue of the namespace, if the document names it; placement reads the namespace."""
    priority_class: str = ""
    """Name of the priority class of members that give no priority and name no class; empty = none."""
    created_at: float = 0.0
    updated_at: float = 0.0

    @property
    def key(self) -> str:
        """The key: ``namespace/name``."""
        return object_key(self.namespace, self.name)


class Hook(Part, frozen=True, kw_only=True):
    """One webhook of a configuration, in the order it is called. `ca` is PEM."""

    name: str
    url: str
    ca: str = ""
    timeout: float = 10.0
    fail: bool = False
    """Reaction if the webhook cannot be reached: True refuses the request, False continues without the webhook."""
    namespaces: tuple[str, ...] = ()
    excluded: bool = False
    """False: asked for `namespaces` only (all if empty); True: for all but those."""


class Webhook(Record, frozen=True, kw_only=True):
    """An admission webhook for one kind of document: mutating hooks may change the document, validating hooks may only
    reject it."""

    kind: ClassVar[str] = "webhook"

    namespace: str
    name: str
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    operation: Literal["Create", "Update"] = "Create"
    target: str = "application"
    """Kind of the documents."""
    mutating: bool = True
    hooks: tuple[Hook, ...] = ()
    created_at: float = 0.0
    updated_at: float = 0.0

    @property
    def key(self) -> str:
        """The key: ``namespace/name``."""
        return object_key(self.namespace, self.name)


class CustomKind(Record, frozen=True, kw_only=True):
    """A registered kind of custom resources."""

    kind: ClassVar[str] = "customkind"

    name: str
    raw: str = ""
    """The registration as JSON."""
    created_at: float = 0.0

    @property
    def key(self) -> str:
        """The name of the kind."""
        return self.name


class CustomObject(Record, frozen=True, kw_only=True):
    """One custom resource. The scheduler stores the document and gives it no meaning."""

    kind: ClassVar[str] = "customobject"

    type: str
    """Name of its CustomKind."""
    namespace: str
    name: str
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    raw: str = ""
    """Version, spec and status of its document as JSON."""
    created_at: float = 0.0
    updated_at: float = 0.0

    @property
    def key(self) -> str:
        """The key: ``kind/namespace/name``."""
        return custom_key(self.type, self.namespace, self.name)


class Event(Part, frozen=True, kw_only=True, array_like=True):
    """One event of the event log: a change of an object, and its reason. `object` is its kind, `key` its key."""

    number: int
    """Position in the stream: grows by one, never used twice, across leaders."""
    at: float
    object: str
    key: str
    namespace: str
    reason: str
    message: str
    level: str = "info"
    transaction: str = ""
    cause: str = ""
    """Id of the request or report that led to it."""
    agent: str = ""
    """Address of the agent of a taskgroup, which is also the key of the events of this agent; empty for other
    objects."""


class EventLog(Record, frozen=True, kw_only=True):
    """A run of consecutive events, written in the same unit as the changes that caused them."""

    kind: ClassVar[str] = "journal"

    number: int
    """Number of the first event."""
    events: tuple[Event, ...] = ()

    @property
    def key(self) -> str:
        """The number of the first event with leading zeros, so that keys sort like numbers."""
        return f"{self.number:020d}"
