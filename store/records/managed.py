"""Records of the manager's side of placement: applications with their task groups, their tasks, and placeholders that
hold room for them (docs/decisions/0045-application-managers.md). Amounts are in thousandths."""

from __future__ import annotations

from typing import ClassVar, Literal

from store.ids import object_key, part_key
from store.records.definition import Part
from store.records.record import Record
from store.records.version import Version

ANNOTATION_OF_PLACEHOLDER = "bcs.scheduler/placeholder-of"
"""Annotation of an application that is a placeholder: the name of the application that it holds room for."""
ANNOTATION_OF_TASK = "bcs.scheduler/task-of"
"""Annotation of an application that runs a task of an application manager: the name of the managed application."""


class StateChange(Part, frozen=True, kw_only=True):
    """One change of state. `at`: Unix seconds."""

    at: float
    event: str
    before: str
    after: str


class MemberGroup(Part, frozen=True, kw_only=True):
    """Tasks of one kind that are reserved together. `request`: amounts of one member. The counts are those of its
    placeholders: `total` were asked for, `replaced` gave their room to a task, `timed_out` were given up."""

    name: str
    min_member: int = 1
    request: dict[str, int] = {}
    terms: Version | None = None
    """A definition without containers, whose terms of placement the placeholders have; None = those of a task."""
    total: int = 0
    replaced: int = 0
    timed_out: int = 0


class TaskOutcome(Part, frozen=True, kw_only=True):
    """The reported end of a task. `status`: that of its taskgroup. `exit_code`: None = not known."""

    status: str = ""
    reason: str = ""
    message: str = ""
    exit_code: int | None = None


class ManagedApplication(Record, frozen=True, kw_only=True):
    """An application of an application manager, or the reservation of an application of users. States are those of
    `offers.policy.applications.tables`; empty: the application was just added."""

    kind: ClassVar[str] = "managedapplication"

    namespace: str
    name: str
    manager: str = ""
    """Name of the application manager; empty: a reservation for the application with the same key."""
    queue: str = ""
    pod_group: str = ""
    """Name of the group (PodGroup) whose reservations end at one moment, with all their room or without it; empty =
    none."""
    user: str = ""
    groups: tuple[str, ...] = ()
    """Groups of the user."""
    tags: dict[str, str] = {}
    owner: str = ""
    """Name of the task that owns the others; empty = none."""
    task_groups: tuple[MemberGroup, ...] = ()
    timeout: float = 0.0
    """Seconds from the first allocated placeholder until the reservation ends; 0.0 = the default."""
    style: Literal["Soft", "Hard"] = "Soft"
    """Result of a reservation that ends without its room. Soft: ordinary scheduling; Hard: the application fails."""
    core_state: str = ""
    core_history: tuple[StateChange, ...] = ()
    state: str = ""
    history: tuple[StateChange, ...] = ()
    issued: int = 0
    """Number of placeholders that ever got a name."""
    timer: float = 0.0
    """Unix seconds of the first allocated placeholder; 0.0 = none."""
    completing: float = 0.0
    ended: float = 0.0
    """Unix seconds at which these states began; 0.0 = they have not."""
    cause: str = ""
    wanted: Literal["", "complete", "fail", "remove"] = ""
    """The end that the manager has asked for."""
    wanted_cause: str = ""
    created_at: float = 0.0

    @property
    def key(self) -> str:
        """The key: ``namespace/name``."""
        return object_key(self.namespace, self.name)

    @property
    def pod_group_key(self) -> str:
        """Key of the group; empty = none."""
        return object_key(self.namespace, self.pod_group) if self.pod_group else ""


class ManagedTask(Record, frozen=True, kw_only=True):
    """A task of a managed application. A manager's task runs as an application of its own with one taskgroup (`unit`);
    a task of a reservation is the taskgroup with this `index`."""

    kind: ClassVar[str] = "managedtask"

    namespace: str
    application: str
    name: str
    unit: str = ""
    index: int = 0
    version: Version | None = None
    """The definition of the unit; None for a task of a reservation."""
    group: str = ""
    request: dict[str, int] = {}
    state: str = ""
    history: tuple[StateChange, ...] = ()
    way: Literal["", "swap", "ordinary"] = ""
    node: str = ""
    """Id of the agent; empty while the task has none."""
    placeholder: str = ""
    """Name of the placeholder whose room the task gets; empty = none."""
    cause: str = ""
    outcome: TaskOutcome | None = None
    """The end of its taskgroup; None = it has not been reported."""
    done: bool = False
    """The manager has said that the task has ended."""
    removed: bool = False
    """The manager has removed the task: the record goes when its unit is gone."""
    created_at: float = 0.0

    @property
    def key(self) -> str:
        """The key: ``namespace/application/name``."""
        return part_key(self.application_key, self.name)

    @property
    def application_key(self) -> str:
        """Key of the managed application."""
        return object_key(self.namespace, self.application)


class Placeholder(Record, frozen=True, kw_only=True):
    """A placeholder that is not gone. It runs as an application of the same key with one taskgroup that sleeps."""

    kind: ClassVar[str] = "placeholder"

    namespace: str
    application: str
    name: str
    group: str = ""
    number: int = 0
    """Order of the placeholders of an application."""
    request: dict[str, int] = {}
    state: str = ""
    history: tuple[StateChange, ...] = ()
    node: str = ""
    release: str = ""
    """Reason of its release; empty while it is wanted."""
    member: str = ""
    """Name of the task for which it is released; empty = none."""
    created_at: float = 0.0

    @property
    def key(self) -> str:
        """The key: ``namespace/name``."""
        return object_key(self.namespace, self.name)

    @property
    def application_key(self) -> str:
        """Key of the managed application."""
        return object_key(self.namespace, self.application)
