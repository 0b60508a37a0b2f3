"""What surrounds workloads: namespaces with quotas, admission webhooks, custom resources, and the journal of events."""

from __future__ import annotations

from typing import ClassVar, Literal

from store.definition import Part
from store.record import Record


class Quota(Part, frozen=True, kw_only=True):
    """Bounds of what all workloads of a namespace may want together; None = no bound. Scalars in thousandths."""

    cpus: int | None = None
    mem: int | None = None
    disk: int | None = None
    taskgroups: int | None = None


class Namespace(Record, frozen=True, kw_only=True):
    """Settings of a namespace. A namespace without a record exists all the same, with no bounds."""

    kind: ClassVar[str] = "namespace"

    name: str
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    quota: Quota = Quota()
    created_at: float = 0.0
    updated_at: float = 0.0

    @property
    def key(self) -> str:
        return self.name


class Hook(Part, frozen=True, kw_only=True):
    """One webhook of a configuration, in the order it is called. `ca` is PEM."""

    name: str
    url: str
    ca: str = ""
    timeout: float = 10.0
    fail: bool = False
    """What happens if it cannot be asked: True refuses the request, False goes on without it."""
    namespaces: tuple[str, ...] = ()
    excluded: bool = False
    """False: asked for `namespaces` only (all if empty); True: for all but those."""


class Webhook(Record, frozen=True, kw_only=True):
    """Whom the API asks before it takes a document of this kind. Mutating ones may change it, others only refuse."""

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
        return f"{self.namespace}/{self.name}"


class CustomKind(Record, frozen=True, kw_only=True):
    """A registered kind of custom resources."""

    kind: ClassVar[str] = "customkind"

    name: str
    raw: str = ""
    """The registration as JSON."""
    created_at: float = 0.0

    @property
    def key(self) -> str:
        return self.name


class CustomObject(Record, frozen=True, kw_only=True):
    """One custom resource. What it says is its owners' business."""

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
        return f"{self.type}/{self.namespace}/{self.name}"


class Happening(Part, frozen=True, kw_only=True, array_like=True):
    """One event of the journal: what happened to which object, and why. `object` is its kind, `key` its key."""

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


class Journal(Record, frozen=True, kw_only=True):
    """A run of consecutive events. It is written together with what they tell of."""

    kind: ClassVar[str] = "journal"

    number: int
    """Of its first event."""
    happenings: tuple[Happening, ...] = ()

    @property
    def key(self) -> str:
        return f"{self.number:020d}"
